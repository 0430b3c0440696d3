"""What the checker makes of a result, compared with it by the audit's comparison: every column and figure."""

from collections import Counter
from collections.abc import Iterator

import ringbco
from ringbco.audits.difference import Differences
from ringbco.audits.figures import Figures
from ringbco.audits.inputs import inputs_of, stay_log_of
from ringbco.audits.recomputation import off
from ringbco.checker import check
from ringbco.trace.jobs import JobTable


def differences(outcome: ringbco.Outcome, table: JobTable) -> Iterator[tuple[str, str]]:
    """(column or figure, how) in which a result and the checker differ."""
    inputs = inputs_of(outcome, table)
    stay_log = stay_log_of(outcome, inputs)
    result, stays = Differences(outcome, inputs, check(inputs, stay_log)), stay_log.stays
    for row, _, says in off(inputs, stay_log, result, Counter()):
        yield "work", f"{inputs.jobs.id[int(stays.job[row])]} {says}"
    for difference in result.all():
        how = difference.how(int(difference.rows[0])) if difference.rows.size else difference.says
        if how:
            yield f"{difference.table} {difference.column}", how
    entries: list[tuple[str, str]] = []
    Figures(result, lambda name, says: entries.append((name, says))).compare(
        "", outcome.summary, result.found.summary
    )
    yield from entries
