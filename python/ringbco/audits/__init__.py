"""Is this result possible? Checks a result against its job table and the physics of docs/model.md.

Everything is worked out again from the result's tables, run.toml and the job table; nothing is taken from the
engine. What the policy decided is no part of that: the repeat looks at it, which runs the engine once more.
docs/audit.md lists the checks. The order below is the order in which a report shows them.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from ringbco.audits import (
    answered,
    placing,
    plans,
    recomputation,
    repeating,
    rows,
    searching,
    seating,
    served,
    times,
)
from ringbco.audits.allocated_stays import allocated_stays
from ringbco.audits.facts import gather
from ringbco.audits.findings import Check, Finding, Report
from ringbco.audits.repeating import NOT_MADE
from ringbco.errors import InputError
from ringbco.result import schema
from ringbco.result.folder import cluster_of
from ringbco.result.outcome import Outcome
from ringbco.result.validation import check_types
from ringbco.trace.jobs import UNREAD, JobTable, TableLike, as_table, read_jobs

RULES: Final = {
    "seal": "tables and figures are those that the run wrote",
    "trace": "the job table is the one replayed",
    "values": "no nulls, no infinite times",
    "jobs": "each job has one row, in the table's order",
    "inputs": "submission, GPUs, ideal run time, user, deadline as in the table",
    "rows": "allocations are sorted by job, start, end, server",
    "arithmetic": "wait, run, jct, slowdown follow from the times",
    "start": "no job starts before its submission",
    "slots": "times are multiples of the slot",
    "stretches": "jobs do not move while they run",
    "stays": "stays match the allocations, and begin and end as they may",
    "gangs": "gangs are always complete",
    "servers": "every server exists",
    "vcs": "jobs stay in their virtual cluster",
    "seats": "jobs on the same GPUs hold all of them, no more and no larger than fit",
    "types": "a gang is on GPUs of one type, one that the job may use",
    "capacity": "no server is over-committed",
    "outages": "nothing runs on a server that is down, or starts on one that drains",
    "evictions": "an evicted job makes room for one that may ask for it; quotas hold",
    "services": "services have no more replicas than wanted, on servers that are up",
    "requests": "requests are on replicas that serve, and no replica has more than fit",
    "latency": "latency.parquet follows from requests and replicas",
    "num-servers": "num_servers is what the stays use",
    "contention": "max_contention is what the stays imply",
    "links": "links.parquet follows from the stays",
    "run-times": "run times equal the work done under contention",
    "searches": "trials go on by their losses, after the work that lies between rungs",
    "held": "held_time and lost_time follow from the stays",
    "causes": "the causes of waits and of longer runs follow from the stays",
    "summary": "summary.json follows from the jobs",
    "timeline": "timeline.parquet follows from the jobs",
    "repeat": "run.toml gives the same tables and figures again",
}
OF_FOLDERS: Final = ("seal", "repeat")
"""The checks of a folder, not of what is in its tables."""
_NEED_ALLOCATIONS: Final = (
    *("rows", "stretches", "gangs", "servers", "vcs", "seats", "types", "capacity", "outages"),
    *("num-servers", "contention", "links", "run-times", "causes"),
)
_READ: Final = (
    *("run_on_type", *schema.CAUSES_SCHEMA, *schema.PREEMPTION_SCHEMA),
    *(*schema.FAILURE_SCHEMA, *schema.CARRIED_SCHEMA),
)
"""Columns that are read of a jobs.parquet that has them; others are compared, whatever they hold."""
__all__ = [
    "NOT_MADE",
    "OF_FOLDERS",
    "RULES",
    "Check",
    "Finding",
    "Report",
    "audit",
    "check_folder",
    "check_outcome",
]


def audit(outcome: Outcome, jobs: TableLike) -> list[Finding]:
    """What is wrong with a result; nothing if it is possible.

    jobs: the job table that was replayed: a `JobTable`, its file, or a table of another library.

    Each check keeps its first 100 findings; `check_outcome` tells how many there are in all. Raises
    InputError where the job table cannot be read, or it or run.toml is not one of this result.
    """
    return check_outcome(outcome, as_table(jobs)).findings


def check_folder(
    folder: str | os.PathLike[str],
    jobs: str | os.PathLike[str] | None = None,
    *,
    policy: str | None = None,
    repeat: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Audits a result folder; the job table is `jobs` or, without it, the one that run.toml names.

    repeat: whether the run is made once more, too. policy: the caller's FILE.py:CLASS or MODULE:CLASS, for a
    repeat of a custom policy. progress: told of the repeat's jobs done, and of all. Raises InputError
    where the folder is not a result, the job table cannot be found or read, or the policy is another one.
    """
    path = Path(folder)
    outcome = Outcome.read(path)
    sealed, again = (Check(code, RULES[code]) for code in OF_FOLDERS)
    repeating.check_seal(sealed, path)
    trace = outcome.run.get("trace", {})
    named = trace.get("path") if isinstance(trace, dict) else None
    if jobs is None and not (isinstance(named, str) and Path(named).is_file()):
        raise InputError(
            f"the job table of this result, {named}, is not there; give it with --jobs", file=folder
        )
    report = check_outcome(outcome, read_jobs(str(named) if jobs is None else jobs, without=UNREAD))
    if not repeat:
        again.not_run = "not asked for"
    elif any(check.code == "trace" and check.failed for check in report.checks):
        again.not_run = "trace failed"
    else:
        repeating.check_repeat(again, path, None if jobs is None else Path(jobs), policy, progress)
    for check in (sealed, again):
        check.close()
    return Report((sealed, *report.checks, again))


def check_outcome(outcome: Outcome, jobs: JobTable) -> Report:
    """Every check of a result against its job table."""
    if not isinstance(outcome.summary, dict):
        raise InputError("summary.json: expected an object with the figures of a replay")
    check_types(outcome, _READ)
    checks = {code: Check(code, rule) for code, rule in RULES.items() if code not in OF_FOLDERS}
    trace = outcome.run.get("trace")
    rows.check_trace(checks["trace"], trace if isinstance(trace, dict) else {}, jobs)
    rows.check_values(checks["values"], outcome)
    if checks["values"].failed:
        _leave_out(checks, set(checks) - {"trace", "values"}, "values are missing")
    elif outcome.jobs.height == 0:
        checks["jobs"].fail("jobs.parquet has no rows")
        _leave_out(checks, set(checks) - {"trace", "values", "jobs"}, "there are no jobs")
    else:
        # Times of a damaged result may be of any size.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"), _uncollected():
            _run(checks, outcome, jobs)
        cluster = cluster_of(outcome.run)
        if cluster.server_names:
            for check in checks.values():
                check.name_servers(cluster.server_labels)
    for check in checks.values():
        check.close()
    return Report(tuple(checks.values()))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Leaves rubbish where it is meanwhile: a stay log is a million small objects, none in a cycle."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _leave_out(checks: dict[str, Check], codes: set[str] | tuple[str, ...], reason: str) -> None:
    for code in codes:
        checks[code].not_run = reason


def _run(checks: dict[str, Check], outcome: Outcome, table: JobTable) -> None:
    facts, misfits = gather(outcome, table)
    rows.check_jobs(checks["jobs"], facts, misfits)
    if facts.row.size == 0:
        _leave_out(checks, set(checks) - {"trace", "values", "jobs"}, "no job of the result is in the table")
        return
    times.check_starts(checks["start"], facts)
    times.check_slots(checks["slots"], facts)
    forward = facts.a_end >= facts.a_start
    eps, ragged = allocated_stays(
        facts.a_job[forward], facts.a_server[forward], facts.a_start[forward], facts.a_end[forward]
    )
    services = served.read(facts)
    served.check_services(checks["services"], facts, services)
    answered.check_requests(checks["requests"], facts)
    if outcome.allocations is None:
        _leave_out(checks, _NEED_ALLOCATIONS, "the run recorded no allocations")
    else:
        rows.check_rows(checks["rows"], facts)
        placing.check_stays(checks["stretches"], facts, ragged)
        placing.check_gangs(checks["gangs"], facts)
        placing.check_servers(checks["servers"], facts)
        placing.check_vcs(checks["vcs"], facts)
        seating.check_seats(checks["seats"], facts)
        if checks["servers"].failed:
            checks["types"].not_run = "servers failed"
        else:
            placing.check_types(checks["types"], facts, eps)
        placing.check_capacity(checks["capacity"], facts, services)
        placing.check_outages(checks["outages"], facts)
    searching.check_searches(checks["searches"], facts, eps)
    if facts.planned:
        plans.check_plan(checks["summary"], facts)
    recomputation.check_all(checks, facts)
