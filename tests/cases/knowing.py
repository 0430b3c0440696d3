"""A run that is not called clairvoyant decides the same under other run times, until a job ends otherwise."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import ringbco
from cases.case import Case
from ringbco.errors import RingbcoError
from ringbco.run.clairvoyance import foreknowledge

ENDS = ("done", "limit")
"""How stays end by which a scheduler learns how long a job takes. So it does for the part up to a rung."""
Event = tuple[object, ...]


def check(case: Case, outcome: ringbco.Outcome) -> Iterator[tuple[str, str]]:
    """What is decided otherwise though nothing was known to be otherwise by then."""
    if foreknowledge(outcome.run):
        return
    share = (0.0, 0.5)[len(case.jobs) % 2]
    result = difference(case, share)
    if result is not None:
        yield "decides", f"with {share:.0%} of the run times kept: {result}; no part reads run times"


def difference(case: Case, share: float = 0.0) -> str | None:
    """The first decision that differs under other run times, before an end does; None if there is none.

    share: of the jobs that keep theirs.
    """
    rng = Random(f"{len(case.jobs)} {share}")
    other = replace(case, jobs=[_other(job, rng, share) for job in case.jobs])
    try:
        runs = [each.replay(decisions=True) for each in (case, other)]
    except RingbcoError:  # of longer jobs
        return None
    ends = [_ends(run) for run in runs]
    until = min((event[0] for event in ends[0] ^ ends[1]), default=math.inf)  # type: ignore[type-var]
    first, second = (_decided(run, until) for run in runs)
    pairs = list(zip(first, second, strict=False))
    if len(first) == len(second) and all(same(*pair) for pair in pairs):
        return None
    at = next(
        (number for number, pair in enumerate(pairs) if not same(*pair)),
        min(len(first), len(second)),
    )
    return f"{first[at : at + 1]} or {second[at : at + 1]}, before an end differs at {until}"


def same(event: Event, other: Event) -> bool:
    """Progress is what is left of a run time, and so rounded by it."""
    times: Any = event[0], other[0]
    return math.isclose(*times, rel_tol=1e-12) and event[1:] == other[1:]


def _other(job: dict[str, object], rng: Random, share: float) -> dict[str, object]:
    """The job with another run time, and as many times the iterations."""
    if rng.random() < share:
        return job
    whole = job.get("iterations") is None
    factor = rng.choice((0.5, 2.0, 4.0, 8.0) if whole else (2, 4, 8))
    told = ("duration",) if whole else ("duration", "iterations")
    return {**job, **{name: job[name] * factor for name in told}}  # type: ignore[operator]


def _ends(outcome: ringbco.Outcome) -> set[Event]:
    stays, rungs = outcome.stays, outcome.rungs
    assert stays is not None
    result = {row for row in stays.select("end_time", "job_id", "ended").rows() if row[2] in ENDS}
    return result if rungs is None else result | {*rungs.select("time", "job_id", "rung").rows()}


def _decided(outcome: ringbco.Outcome, until: object) -> Sequence[Event]:
    assert outcome.decisions is not None
    # Those of one instant are written in an order that says nothing.
    return sorted((row for row in outcome.decisions.rows() if row[0] < until), key=lambda r: (r[0], repr(r)))
