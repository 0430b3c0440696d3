"""The audit and, beside it, the rules of policies (`judge`): what each decides, taken once more.

The product has no second form of a policy: its audit checks the physics, and its repeat runs the engine once
more. So what a policy decided is looked at here alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from judge.rules import RULES, faults, unknown
from ringbco import audits
from ringbco.audits.episodes import episodes
from ringbco.audits.facts import Facts, gather
from ringbco.audits.findings import Check, Finding, Report
from ringbco.audits.given import book_of
from ringbco.audits.judging import BOOK
from ringbco.result.outcome import Outcome
from ringbco.trace.jobs import JobTable, TableLike, as_table
from ruled import instants, plans
from ruled.maintenance import check_maintenance
from ruled.ruling import integrate, plain

__all__ = ["CODES", "audit", "check_outcome"]

CODES: Final = ("instants", *RULES)
"""The checks of what was decided, beside those of the audit."""
BEFORE_RULES: Final = (*BOOK, "start", "slots", "vcs", "capacity", "outages")
"""Where one of these fails nobody knows what was idle, or who waited."""
BEFORE_INSTANTS: Final = ("jobs", "start", "slots", "stretches")


def audit(outcome: Outcome, jobs: TableLike) -> list[Finding]:
    """What is wrong with a result, its decisions too."""
    return check_outcome(outcome, as_table(jobs)).findings


def check_outcome(outcome: Outcome, jobs: JobTable) -> Report:
    """The checks of the audit, and those of `CODES`."""
    report = audits.check_outcome(outcome, jobs)
    physics = {check.code: check for check in report.checks}
    checks = physics | {code: Check(code, "what the policy decides") for code in CODES}
    if outcome.allocations is None or outcome.jobs.height == 0 or physics["values"].failed:
        for code in CODES:
            checks[code].not_run = "nothing says who held what"
        return Report(tuple(checks.values()))
    facts, _ = gather(outcome, jobs)
    _check_instants(checks, facts)
    if not physics["outages"].failed and facts.outages is not None:
        check_maintenance(checks["outages"], facts)
    if facts.planned and facts.row.size:
        plans.check_order(checks["order"], facts)
    _check_rules(checks, facts)
    return Report(tuple(checks.values()))


def _check_instants(checks: dict[str, Check], facts: Facts) -> None:
    mistimed = [code for code in BEFORE_INSTANTS if checks[code].failed]
    if mistimed:
        checks["instants"].not_run = f"{', '.join(mistimed)} failed"
        return
    forward = facts.a_end >= facts.a_start
    columns = facts.a_job, facts.a_server, facts.a_start, facts.a_end
    eps, _ = episodes(*(column[forward] for column in columns))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        instants.check_instants(checks["instants"], facts, eps)


def _check_rules(checks: dict[str, Check], facts: Facts) -> None:
    """Counts a failure for each decision that the policy does not make."""
    broken = [code for code in BEFORE_RULES if checks[code].failed]
    run = None
    if broken:
        # With jobs missing or GPUs taken twice, what was idle and who waited is anybody's guess.
        reasons = dict.fromkeys(RULES, f"{', '.join(broken)} failed")
    elif facts.planned:
        reasons = dict.fromkeys(RULES, "theta decides, not who is idle")
    elif any(each.message.startswith("what happened cannot be read") for each in checks["stays"].findings):
        reasons = dict.fromkeys(RULES, "stays failed")
    else:
        run = plain(facts.outcome, facts.table, facts.given, book_of(facts.outcome, facts.given))
        reasons = unknown(run[0])
    for code in RULES:
        if not (checks[code].looked_at or checks[code].failed or checks[code].not_run is not None):
            checks[code].not_run = reasons.get(code)
            checks[code].looked_at = 0 if run is None or code in reasons else len(run[1].stays)
    if run is None:
        return
    try:
        integrate(*run)
        for fault in faults(*run):
            checks[fault.what].fail(fault.says, facts.given.jobs.id[fault.job], fault.time)
    except (ArithmeticError, LookupError, ValueError) as error:
        # Of a genuine result all can be followed.
        checks["stays"].fail(f"what was idle when cannot be followed: {type(error).__name__}: {error}")
