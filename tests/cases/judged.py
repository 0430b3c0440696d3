"""What the judge makes of a result, held against it by the audit's comparison: every column and figure."""

from collections.abc import Iterator

import ringbco
from ringbco.audits.difference import Differences
from ringbco.audits.figures import FATES, UNJUDGED, Figures
from ringbco.audits.given import book_of, given_of
from ringbco.audits.judging import off
from ringbco.judge import Given, Judgement, judge
from ringbco.trace.jobs import JobTable

__all__ = ["FATES", "UNJUDGED", "differences", "judged"]


def judged(outcome: ringbco.Outcome, table: JobTable) -> tuple[Given, Judgement]:
    """What the judge is handed, and what it says."""
    given = given_of(outcome, table)
    return given, judge(given, book_of(outcome, given))


def differences(outcome: ringbco.Outcome, table: JobTable) -> Iterator[tuple[str, str]]:
    """(column or figure, how) in which a result and the judge differ."""
    given = given_of(outcome, table)
    book = book_of(outcome, given)
    found = Differences(outcome, given, judge(given, book))
    yield from (("work", f"{given.jobs.id[stay.job]} {says}") for stay, _, says in off(given, book, found))
    for difference in found.all():
        how = difference.how(int(difference.rows[0])) if difference.rows.size else difference.says
        yield f"{difference.table} {difference.column}", how
    told: list[tuple[str, str]] = []
    Figures(found, lambda name, says: told.append((name, says))).compare(
        "", outcome.summary, found.found.summary
    )
    yield from told
