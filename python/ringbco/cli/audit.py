"""`ringbco audit`: is this result possible?"""

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
folder
jobs JOBS: The job table that was replayed, Parquet or CSV. [default: the one that run.toml names]
as_json --json: Print the report as JSON and nothing else.
quiet --quiet -q: Print nothing but the checks that failed, on one line.
"""


@takes(_ROWS)
def audit(folder: Path, *, jobs: Path | None = None, as_json: bool = False, quiet: bool = False) -> None:
    """Check the result in DIR against its job table and the model: no GPU taken twice, run times explained.

    Everything is worked out again from the result's files and the job table alone. Exit status 3 if a check
    fails.

    Example: ringbco audit results --jobs jobs.parquet
    """
    from ringbco.audits import check_folder
    from ringbco.errors import AuditFailure

    report = check_folder(folder, jobs)
    if as_json:
        say_json(report.to_dict())
    elif not quiet:
        _show(folder, report)
    if not report.ok:
        failed = [check.code for check in report.checks if check.failed]
        raise AuditFailure(f"{folder}: failed its audit: {', '.join(failed)}")


def _show(folder: Path, report: Report) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

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
    findings = report.findings
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
