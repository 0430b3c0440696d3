"""Whether the results of a page are audited: at once where that is cheap, else not, and the page says so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ringbco.errors import InputError
from ringbco.result.outcome import Outcome
from ringbco.trace.jobs import UNREAD, read_jobs

MOST_JOBS: Final = 6_000
"""Jobs of all results together that are audited while a page is made: half a second."""
_MOST_ROWS: Final = 200_000
"""Rows of allocations.parquet of all of them: wide gangs have one a server."""
_NOT: Final = "not audited (ringbco audit DIR does it)"


def audit_line(results: Mapping[str, Outcome]) -> str:
    """ "audit 21/21", or which checks failed, or that there was no audit.

    There is none of many jobs, nor where the job table that run.toml names is not there, or jobs were ended
    before they were done: what no chart is about has been left out of these results.
    """
    jobs = sum(int(outcome.run.get("trace", {}).get("rows") or MOST_JOBS + 1) for outcome in results.values())
    rows = sum(o.allocations.height for o in results.values() if o.allocations is not None)
    if (
        jobs > MOST_JOBS
        or rows > _MOST_ROWS
        or any(outcome.summary.get("jobs_ended") for outcome in results.values())
    ):
        return _NOT
    passed, made, failed = 0, 0, dict[str, None]()
    for outcome in results.values():
        path = outcome.run["trace"].get("path")
        if not isinstance(path, str) or not Path(path).is_file():
            return _NOT
        from ringbco.audits import check_outcome

        try:
            report = check_outcome(outcome, read_jobs(path, without=UNREAD))
        except InputError:
            return _NOT
        checks = [check for check in report.checks if check.not_run is None]
        failed |= dict.fromkeys(check.code for check in checks if check.failed)
        passed += sum(not check.failed for check in checks)
        made += len(checks)
    each = len(results)
    if failed:
        return f"audit FAILED: {', '.join(failed)}; ringbco audit DIR says more"
    of = f" each of {each} results" if each > 1 else ""
    same = made % each == 0
    return f"audit {passed // each}/{made // each}{of}" if same else f"audit {passed}/{made}"
