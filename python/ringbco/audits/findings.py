"""What an audit says: findings, grouped into checks, together a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from ringbco.audits.facts import Bools, Facts, Floats, Ints
from ringbco.cluster.hostlist import with_labels
from ringbco.errors import one_line

KEPT_FINDINGS: Final = 100
"""Findings a check keeps in full; beyond that it only counts them."""
NOTHING: Final = "nothing to look at"
"""Why a check is not run that compared nothing."""


@dataclass(frozen=True)
class Finding:
    """One thing that cannot be; `code` is its check's. `job`, `server` and `time` (s) where they apply.

    server_name: of that server, if it has one.
    """

    code: str
    message: str
    job: str | None = None
    server: int | None = None
    time: float | None = None
    server_name: str | None = None

    def __str__(self) -> str:
        places = []
        if self.job is not None:
            places.append(f"job {self.job}")
        if self.server is not None:
            places.append(f"server {self.server_name or self.server}")
        if self.time is not None:
            places.append(f"at {number(self.time)} s")
        # Names are the result's own: a control character in one must not reach a terminal.
        return one_line(f"{self.code}: {', '.join(places)}{': ' if places else ''}{self.message}")


@dataclass
class Check:
    """One rule: how many comparisons it made, how many failed, and the first of those in full.

    looked_at: grows only where something is compared, by what is compared there.
    """

    code: str
    rule: str
    looked_at: int = 0
    failed: int = 0
    findings: list[Finding] = field(default_factory=list)
    not_run: str | None = None

    def add(self, findings: Iterable[Finding], total: int) -> None:
        """Counts `total` failures and keeps the first findings."""
        self.failed += total
        for finding in findings:
            if len(self.findings) >= KEPT_FINDINGS:
                break
            self.findings.append(finding)

    def fail(self, message: str, job: str | None = None, time: float | None = None) -> None:
        """Counts one failure."""
        self.add([Finding(self.code, message, job, time=time)], 1)

    def broken(self, bad: Bools) -> Ints:
        """The rows in which a comparison failed. bad: a comparison a row; each is counted."""
        self.looked_at += bad.size
        return np.flatnonzero(bad)

    def expect(self, *, holds: bool, message: str, job: str | None = None, time: float | None = None) -> bool:
        """Counts one comparison, and a failure if it does not hold. Whether it holds."""
        self.looked_at += 1
        if not holds:
            self.fail(message, job, time)
        return holds

    def close(self) -> None:
        """Says so where nothing was compared."""
        if not (self.looked_at or self.failed) and self.not_run is None:
            self.not_run = NOTHING

    def name_servers(self, called: Sequence[str]) -> None:
        """Says what each server is called, where findings have its index."""
        for number, finding in enumerate(self.findings):
            server = finding.server
            name = None if server is None or server >= len(called) else called[server]
            message = with_labels(finding.message, called)
            self.findings[number] = replace(finding, message=message, server_name=name)

    @property
    def passed(self) -> bool:
        """Whether it ran and nothing broke the rule."""
        return self.failed == 0 and self.not_run is None


@dataclass(frozen=True)
class Report:
    """Every check in order."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed; checks that did not apply do not count."""
        return all(check.failed == 0 for check in self.checks)

    @property
    def repeated(self) -> bool:
        """Whether the run was made once more."""
        return any(check.code == "repeat" and check.not_run is None for check in self.checks)

    @property
    def findings(self) -> list[Finding]:
        """The findings that were kept, check by check."""
        return [finding for check in self.checks for finding in check.findings]

    @property
    def failed(self) -> int:
        """How many things broke a rule, kept in full or not."""
        return sum(check.failed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "ok": self.ok,
            "failed": self.failed,
            "checks": [
                {
                    "code": check.code,
                    "rule": check.rule,
                    "looked_at": check.looked_at,
                    "failed": check.failed,
                    "not_run": check.not_run,
                }
                for check in self.checks
            ],
            "findings": [
                {
                    "code": finding.code,
                    "job": finding.job,
                    "server": finding.server,
                    "time": finding.time,
                    "message": finding.message,
                }
                for finding in self.findings
            ],
        }


def blame(
    check: Check,
    facts: Facts,
    rows: Ints,
    said: str | Callable[[int], str],
    *,
    job: Ints | None = None,
    server: Ints | None = None,
    time: Floats | None = None,
) -> None:
    """Counts a failure for each of `rows`, which are rows of the columns `job`, `server` and `time`.

    Without `job` they are the jobs themselves. `said` is the message, or makes it of a row; only the findings
    that are kept have theirs made. For example, `blame(check, facts, late, "is late", time=facts.start)`.
    """
    findings = (
        Finding(
            check.code,
            said if isinstance(said, str) else said(row),
            facts.id(row if job is None else job[row]),
            None if server is None else int(server[row]),
            None if time is None else float(time[row]),
        )
        for row in map(int, rows)
    )
    check.add(findings, rows.size)


def blame_stays(check: Check, facts: Facts, rows: Ints, said: str | Callable[[int], str]) -> None:
    """Counts a failure for each of `rows`, which are rows of the allocations."""
    blame(check, facts, rows, said, job=facts.a_job, server=facts.a_server, time=facts.a_start)


def number(value: float) -> str:
    """A number as a finding shows it: all the digits that matter, none that do not."""
    value = float(value)
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.12g}"
