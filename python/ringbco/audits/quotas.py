"""What quotas allow (docs/priorities.md#quotas), as the folder's quota.parquet says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ringbco.errors import InputError
from ringbco.trace.quotas import Quotas, as_quotas

if TYPE_CHECKING:
    from ringbco.audits.episodes import Episodes
    from ringbco.audits.facts import Facts
    from ringbco.audits.findings import Check


def read_quotas(facts: Facts) -> Quotas | None:
    """The quotas of the run; None for a run without."""
    if facts.outcome.quota is None:
        return None
    try:
        return as_quotas(facts.outcome.quota, None)
    except InputError as error:
        raise InputError(f"quota.parquet: {error}") from None


def check_quotas(check: Check, facts: Facts, eps: Episodes) -> None:
    """No owner ever holds more GPUs than a quota without borrowing, in any virtual cluster."""
    if not facts.makes_room:
        check.not_run = "jobs make no room for others"
        return
    quotas = read_quotas(facts)
    if quotas is None:
        return
    owner, gpus, borrow = quotas.columns(facts.table.frame)
    of = owner[facts.row[eps.job]].astype(np.int64)
    for number_of, (most, borrows) in enumerate(zip(gpus, borrow, strict=True)):
        if borrows:
            continue
        for vc in np.unique(facts.vc).tolist():
            own = np.flatnonzero((of == number_of) & (facts.vc[eps.job] == vc) & (eps.end > eps.start))
            time = np.concatenate([eps.end[own], eps.start[own]])
            change = np.concatenate([-eps.gpus[own], eps.gpus[own]])
            # At one instant GPUs are given back first.
            order = np.lexsort((change, time))
            held = np.cumsum(change[order])
            over = np.flatnonzero(held > most)
            if over.size:
                name = quotas.frame[quotas.column][number_of]
                check.fail(
                    f"{quotas.column} {name} holds {held[over[0]]} GPUs; its quota is {most}",
                    time=float(time[order][over[0]]),
                )
