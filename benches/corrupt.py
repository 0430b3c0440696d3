"""A result with something wrong in it, and when two results differ: for benches/audit_catalogue.py."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

import ringbco
from cases.case import Case

STEPS: Final = 64.0 * 2.0**-52
"""Times that differ by less of the last one are the same."""
CLOSE: Final = 1e-6
ASIDE: Final = ("engine_seconds", "total_seconds", "jobs_per_second", "decisions")
"""Figures of the engine, and of nothing that happened in the run."""


@dataclass(frozen=True)
class Corrupt:
    """what: what was changed, by which misses are grouped. how: where, from what to what.

    other: of a label, the run that it tells of.
    """

    what: str
    how: str
    outcome: ringbco.Outcome
    other: ringbco.Outcome | None = None


def resolution(case: Case, outcome: ringbco.Outcome) -> float:
    """Seconds by which times of a case must differ to be told apart."""
    return max(CLOSE * case.unit, coarse(outcome))


def coarse(outcome: ringbco.Outcome) -> float:
    """Seconds that rounding may make of late times."""
    return STEPS * max(map(abs, outcome.jobs["finish_time"].to_list()), default=0.0)


def unlike(case: Case, one: ringbco.Outcome, other: ringbco.Outcome) -> bool:
    """Whether other jobs or replicas held GPUs, at other times or of other servers."""
    near = resolution(case, one)
    return any(
        _unlike(getattr(one, name), getattr(other, name), near) for name in ("allocations", "replicas")
    )


def unlike_at_all(case: Case, one: ringbco.Outcome, other: ringbco.Outcome) -> bool:
    """The same, or changes of servers or figures differ."""
    if unlike(case, one, other) or _unlike(one.servers, other.servers, resolution(case, one)):
        return True
    return _far(one.summary, other.summary)


def _unlike(one: pl.DataFrame | None, other: pl.DataFrame | None, near: float) -> bool:
    if one is None or other is None:
        return one is not other
    if one.shape != other.shape or one.columns != other.columns:
        return True
    for name in one.columns:
        if not one[name].dtype.is_float():
            if not one[name].equals(other[name]):
                return True
        elif any(_apart(a, b, near) for a, b in zip(one[name], other[name], strict=True)):
            return True
    return False


def _apart(one: float | None, other: float | None, near: float) -> bool:
    if one is None or other is None:
        return one is not other
    return one != other and not abs(one - other) <= near


def _far(one: Any, other: Any) -> bool:
    """Whether figures differ by more than rounding does."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = (one.keys() | other.keys()) - {*ASIDE}
        return any(_far(one.get(name), other.get(name)) for name in names)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) != len(other) or any(_far(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return not math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)
    return bool(one != other)
