"""What the engine says of the requests of a case, compared with the reference model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

import ringbco
from cases.case import Case
from reference.answering import Placed

if TYPE_CHECKING:
    from cases.modelled import ReferenceResult

Same = Callable[[np.ndarray, np.ndarray], bool]


def differences(
    case: Case, outcome: ringbco.Outcome, expected: ReferenceResult, same: Same
) -> Iterator[tuple[str, str]]:
    """What differs: (table, how). same: whether columns of times are alike."""
    told, names = expected.told, [*case.options["services"]]
    assert told is not None
    assert expected.log is not None
    assert outcome.requests is not None
    assert outcome.replicas is not None
    assert outcome.services is not None
    assert outcome.latency is not None

    def compare(
        name: str, found: list[tuple[object, ...]], right: list[tuple[object, ...]]
    ) -> Iterator[tuple[str, str]]:
        one, other = (
            np.array([[math.nan if x is None else x for x in row] for row in rows], float)
            for rows in (found, right)
        )
        if not same(one, other):
            yield name, f"\n{found}\nnot\n{right}"

    columns = ("row", "replica", "start", "first_token", "finish")
    answers = [(row, a.replica, a.start, a.first_token, a.finish) for row, a in enumerate(told.answers)]
    yield from compare("requests", outcome.requests.select(columns).rows(), answers)
    replicas = []
    for each in expected.log.replicas:
        assert isinstance(each, Placed)
        assert each.of is not None
        row = (names.index(each.service), each.start, each.server, each.of.number, len(each.gpus))
        replicas.append((*row, each.end, each.of.serves_from, each.of.drains_from))
    columns = ("start_time", "server", "replica", "num_gpus", "end_time", "serves_from", "drains_from")
    rows = outcome.replicas.select("service", *columns).rows()
    yield from compare(
        "replicas",
        [(names.index(row[0]), *row[1:]) for row in rows],
        sorted(replicas, key=lambda row: row[:4]),
    )
    wanted = outcome.services.select("time", "service", "replicas").rows()
    yield from compare("wanted", [(time, names.index(name), n) for time, name, n in wanted], told.wanted)
    anew = [each["begun_anew"] for each in outcome.summary["services"]]
    if anew != told.begun_anew:
        yield "begun_anew", f"{anew}; not {told.begun_anew}"
    last = float(outcome.latency["time"].max())  # type: ignore[arg-type]
    if "sample" not in case.options and not math.isclose(last, told.end, rel_tol=1e-9):
        yield "end", f"{last}; not {told.end}"
    for number, name in enumerate(names):
        own = outcome.latency.filter(pl.col("service") == name)
        served = [r.of for r in expected.log.replicas if isinstance(r, Placed) and r.service == name]
        busy = sum(of.busy for of in served if of is not None)
        share = outcome.summary["services"][number]["busy_share"]
        length = sum(
            of.end - of.serves_from
            for of in served
            if of and of.end is not None and of.serves_from is not None
        )
        if share is not None and not math.isclose(share * length, busy, rel_tol=1e-6, abs_tol=1e-6 * length):
            yield "busy_share", f"{share}; not {busy / length}"
        if "sample" not in case.options and int(own["queued"].tail(1).sum() + own["running"].tail(1).sum()):
            yield "latency", f"requests of {name} are left at the end"
