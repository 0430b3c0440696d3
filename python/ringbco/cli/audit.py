"""`ringbco audit`: is this result possible, does this certificate prove its bound?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ringbco.cli.options import takes
from ringbco.io.terminal import say, say_json

if TYPE_CHECKING:
    from ringbco.audits import Report

SHOWN: Final = 20
"""Findings printed in full."""

_ROWS: Final = """
folder DIR: A result folder of `ringbco replay`, or a certificate of `ringbco bound`.
jobs JOBS: The job table that was replayed, Parquet or CSV. [default: the one that run.toml names]
policy FILE.py:CLASS: The custom policy of the run, loaded if its SHA-256 is the recorded one. [default: such
  a run is not repeated]
no_repeat: Check only the physics; do not repeat the run.
require_repeat: Exit with 3 if the run cannot be repeated.
as_json --json: Print the report as JSON and nothing else.
quiet --quiet -q: Print only the checks that failed, on one line.
"""


@takes(_ROWS)
def audit(
    folder: Path,
    *,
    jobs: Path | None = None,
    policy: str | None = None,
    no_repeat: bool = False,
    require_repeat: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Check the result in DIR against its job table and the model, then repeat the run and compare.

    The physics is worked out again from the result's files and the job table alone: no GPU taken twice, run
    times explained. What the policy decided is checked by the repeat. Exit status 3 if a check fails.

    A file instead of DIR is a certificate of `ringbco bound --tight`: do its prices prove the bound?

    Example: ringbco audit results --jobs jobs.parquet
    """
    from ringbco.audits import NOT_MADE, check_folder
    from ringbco.audits.certificates import check_certificate
    from ringbco.cli.progress import progress_bar
    from ringbco.errors import AuditFailure, UsageError

    if no_repeat and (require_repeat or policy is not None):
        other = "require-repeat" if require_repeat else "policy"
        raise UsageError(f"option {other}: expected no --no-repeat beside it")
    is_result = not folder.is_file()
    if not is_result and (no_repeat or require_repeat or policy is not None):
        other = "policy" if policy is not None else "no-repeat" if no_repeat else "require-repeat"
        raise UsageError(f"option {other}: expected a result folder; {folder} is a file, so a certificate")
    if is_result:
        with progress_bar(f"repeat of {folder}", quiet=quiet, unit="jobs") as progress:
            report = check_folder(folder, jobs, policy=policy, repeat=not no_repeat, progress=progress)
    else:
        report = check_certificate(folder, jobs)
    if as_json:
        say_json(report.to_dict())
    elif not quiet:
        _show(folder, report)
        if is_result and not report.repeated:
            say(NOT_MADE)
    if not report.ok:
        failed = [check.code for check in report.checks if check.failed]
        raise AuditFailure(f"{folder}: failed its audit: {', '.join(failed)}")
    if require_repeat and not report.repeated:
        (repeat,) = (check for check in report.checks if check.code == "repeat")
        raise AuditFailure(f"{folder}: was not repeated: {repeat.not_run}")


def _show(folder: Path, report: Report) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ringbco.audits import OF_FOLDERS
    from ringbco.io.console import Console

    console = Console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("check")
    table.add_column("rule")
    table.add_column("looked at", justify="right")
    table.add_column("failed", justify="right")
    for check in report.checks:
        if check.not_run is not None:
            table.add_row(check.code, f"not run: {check.not_run}", "", "", style="dim")
        else:
            failed = Text(f"{check.failed:,}", style="bold red" if check.failed else "")
            table.add_row(check.code, check.rule, f"{check.looked_at:,}", failed)
    console.print(str(folder))
    console.print(table)
    # What was edited, or decided otherwise, goes before what follows from it.
    findings = sorted(report.findings, key=lambda finding: finding.code not in OF_FOLDERS)
    for finding in findings[:SHOWN]:
        say(str(finding))
    more = report.failed - min(len(findings), SHOWN)
    if more > 0:
        console.print(f"... and {more:,} more")
    passed = sum(check.passed for check in report.checks)
    ran = sum(check.not_run is None for check in report.checks)
    console.print(f"{passed} of {ran} checks passed" + ("" if report.ok else f", {report.failed:,} findings"))
    if any(check.code == "capacity" and check.not_run is not None for check in report.checks):
        console.print("who held which GPUs, and so the run times, could not be checked")
