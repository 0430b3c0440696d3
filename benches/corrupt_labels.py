"""Results under another label, and other runs under a case's label: for benches/audit_catalogue.py."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

import ringbco
from cases.case import Case
from cases.of_policies import IN_PYTHON, QUEUES, RANKINGS, RESIZING
from corrupt import Corrupt, unlike
from ringbco.errors import RingbcoError
from ringbco.result.tables import TABLES
from strategies import ORDERS, PLACEMENTS
from strategies import QUEUES as DISCIPLINES

OTHERS: Final[dict[str, tuple[Any, ...]]] = {
    "policy": ("fifo", *QUEUES, *RANKINGS, "srsf", "repack", *RESIZING, *IN_PYTHON),
    "order": ORDERS,
    "placement": PLACEMENTS,
    "queue": DISCIPLINES,
    "preempt_cost": (0.0, 7.0, 90.0),
    "start_cost": (0.0, 7.0),
    "estimate_factor": (0.5, 3.0),
    "evict": (False, True),
    "seed": (1, 7),
    "kappa": (1, 4),
}
"""What options of a run might be instead. Those of decisions are most of them."""
TRIES: Final = 40


def labels(case: Case, genuine: ringbco.Outcome, rng: Random, count: int) -> Iterator[Corrupt]:
    """The result under `count` labels at most, each of a run that decides otherwise."""
    for what, other in _others(case, genuine, rng):
        if not count:
            return
        # run.toml says what a folder has: another list of files would be found by that alone.
        if _files(other) == _files(genuine):
            count -= 1
            summary = {**genuine.summary, "policy": other.summary["policy"]}
            outcome = replace(genuine, run=copy.deepcopy(other.run), summary=summary)
            yield Corrupt(what.partition(":")[0], what, outcome, other)


def runs(case: Case, genuine: ringbco.Outcome, rng: Random, count: int) -> Iterator[Corrupt]:
    """`count` runs at most that decide otherwise, under the label of the case."""
    for what, other in _others(case, genuine, rng):
        if not count:
            return
        told = under_the_label(other, genuine)
        if told is not None and unlike(case, genuine, told):
            count -= 1
            yield Corrupt(what.partition(":")[0], f"{what}, told as it was", told)


def _others(case: Case, genuine: ringbco.Outcome, rng: Random) -> Iterator[tuple[str, ringbco.Outcome]]:
    """Runs with one option otherwise in which other jobs held GPUs, or at other times; and which option."""
    drawn = [(name, value) for name, values in OTHERS.items() for value in values]
    rng.shuffle(drawn)
    for name, value in drawn[:TRIES]:
        if value == case.options.get(name):
            continue
        options = {**case.options, name: value}
        if name == "policy":
            options.pop("parameters", None)
        try:
            other = replace(case, options=options).replay()
        except RingbcoError:
            continue
        if unlike(case, genuine, other):
            yield f"{name}: {_shown(case.options.get(name))} -> {value}", other


def _shown(value: Any) -> str:
    return (
        value.__name__ if isinstance(value, type) else "an array" if isinstance(value, list) else str(value)
    )


def _files(outcome: ringbco.Outcome) -> list[str]:
    recorded = outcome.run["options"], outcome.run.get("record", {})
    return [name for name, table in TABLES.items() if table.is_there(*recorded)]


def under_the_label(other: ringbco.Outcome, genuine: ringbco.Outcome) -> ringbco.Outcome | None:
    """A run in the form of another, with its run.toml; None where it lacks something of that form."""
    frames: dict[str, Any] = {}
    for name in TABLES:
        wanted, there = getattr(genuine, name), getattr(other, name)
        if wanted is None:
            frames[name] = None
        elif there is None or not {*wanted.columns} <= {*there.columns}:
            return None
        else:
            frames[name] = there.select(wanted.columns)
    summary = _formed(other.summary, genuine.summary)
    if summary is None:
        return None
    summary["policy"] = genuine.summary["policy"]
    return replace(other, **frames, summary=summary, run=copy.deepcopy(genuine.run))


def _formed(summary: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any] | None:
    """The figures that the other has; None where one is missing."""
    result: dict[str, Any] = {}
    for name, value in like.items():
        if name not in summary:
            return None
        if isinstance(value, list) and value:
            keys = {key for row in value for key in row}
            result[name] = [{key: own for key, own in row.items() if key in keys} for row in summary[name]]
        else:
            result[name] = summary[name]
    return result
