"""Results under another label, and other runs under a case's label: for benches/audit_catalogue.py."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

import polars as pl

import ringbco
import wrong_policies
from cases.case import Case
from cases.of_policies import IN_PYTHON, QUEUES, RANKINGS, RESIZING
from corrupt import Corrupt, unlike
from ringbco.errors import RingbcoError
from ringbco.result.tables import TABLES

FAMILIES: Final = {
    "queue": ("fifo", *QUEUES),
    "ranking": (*RANKINGS, "srsf", "repack"),
    "resizing": RESIZING,
    "in Python": IN_PYTHON,
}
ORDERS: Final = ("fifo", "sjf", "smallest", "qssf")
DISCIPLINES: Final = ("strict", "skip", "easy")
PLACEMENTS: Final = (
    *("consolidate", "first-fit", "emptiest", "least-loaded", "random", "fa-ffp", "lbsgf", "sjf-bco"),
    *("best-fit", "worst-fit", "fgd"),
)
WHOSE: Final = ("policy", "order", "placement", "queue")
"""Options that are drawn more often than the others: who goes first, and where."""
NUMBERS: Final = {
    "preempt_cost": 30.0,
    "start_cost": 0.0,
    "move_cost": None,
    "resize_cost": None,
    "quantum": 60.0,
    "interval": 60.0,
    "resize_every": 300.0,
    "checkpoint_interval": 1800.0,
    "sleep_after": math.inf,
    "wake_time": 0.0,
    "estimate_factor": 1.0,
    "interference": 0.0,
    "slot": 0.0,
    "aging": None,
}
"""Options that are numbers, and what they are where a case says nothing."""
TRIES: Final = 40
OF_QUEUES: Final = ("order", "queue", "aging", "predict", "estimate_factor", "admission", "parameters")


def family(policy: Any) -> str:
    """The kind of a case's policy."""
    if not isinstance(policy, str):
        return "own key" if issubclass(policy, ringbco.KeyPolicy) else "own"
    return next(name for name, names in FAMILIES.items() if policy in names)


# Labels.


def labels(case: Case, genuine: ringbco.Outcome, rng: Random, count: int) -> Iterator[Corrupt]:
    """The result under `count` labels at most, each of a run of another option that decides otherwise."""
    values = {name: found for name, found in _values(case, rng).items() if found}
    for _ in range(TRIES):
        names = [name for name in values for _ in range(4 if name in WHOSE else 1)]
        if not count or not names:
            return
        name = rng.choice(names)
        value = values[name].pop(rng.randrange(len(values[name])))
        changed = _labelled(case, genuine, name, value)
        if changed is not None:
            count -= 1
            yield changed
        if changed is not None or not values[name]:
            del values[name]


def _labelled(case: Case, genuine: ringbco.Outcome, name: str, value: Any) -> Corrupt | None:
    given = {"quota": value} if name == "quota" else {}
    options = case.options if given else {**case.options, name: value}
    if name == "policy":
        options.pop("parameters", None)
    other = _run(replace(case, options=options), **given)
    # What a folder has is in its run.toml, too: another list of files would be no question of the audit's.
    if other is None or _files(other) != _files(genuine) or not unlike(case, genuine, other):
        return None
    summary = {**genuine.summary, "policy": other.summary["policy"]}
    outcome = replace(genuine, run=copy.deepcopy(other.run), summary=summary)
    if given:
        outcome = replace(outcome, quota=other.quota)
    old, new = (_said(each, name) for each in (genuine, other))
    if name == "quota":
        return Corrupt(
            "quota: borrow of an owner", f"quota: {case.files['quota']} -> {value.rows()}", outcome
        )
    words = isinstance(old, str) and name != "search"
    what = f"{name}: {old} -> {new}" if words else name
    return Corrupt(what, f"{name}: {old!r} -> {new!r}", outcome, other)


def _said(outcome: ringbco.Outcome, name: str) -> Any:
    said = outcome.run["options"].get("lambda" if name == "lambda_" else name)
    return said.rpartition(":")[2] if name == "policy" else said


def _files(outcome: ringbco.Outcome) -> list[str]:
    told = outcome.run["options"], outcome.run.get("record", {})
    return [name for name, table in TABLES.items() if table.is_there(*told)]


def _run(case: Case, **given: Any) -> ringbco.Outcome | None:
    try:
        return case.replay(**given)
    except RingbcoError:
        return None


def _values(case: Case, rng: Random) -> dict[str, list[Any]]:
    """What else each option might be."""
    told, unit = case.options, case.unit
    mine = family(case.policy)
    near = [name for name in FAMILIES.get(mine, ()) if name != case.policy]
    far = [name for names in FAMILIES.values() for name in names if name != case.policy and name not in near]
    found: dict[str, list[Any]] = {
        "policy": [*near, *rng.sample(far, 3)],
        "order": [name for name in ORDERS if name != told.get("order")],
        "placement": [name for name in PLACEMENTS if name != told.get("placement")],
        "queue": [name for name in DISCIPLINES if name != told.get("queue")],
        "variant": ["literal" if told.get("variant", "practical") == "practical" else "practical"],
        "kappa": [each for each in (1, 2, 4, 8) if each != told.get("kappa", 8)],
        "lambda_": [2.0 if told.get("lambda_", 1.0) == 1.0 else 1.0],
        "seed": [each for each in (0, 1, 2, 7) if each != told.get("seed", 0)],
        "ties": ["reverse" if told.get("ties", "rows") == "rows" else "rows"],
        "type_order": [n for n in ("fastest", "cheapest", "listed") if n != told.get("type_order")],
        "model": ["rar" if told["model"] == "fixed" else "fixed"],
        "predict": ["history" if told.get("predict") == "exact" else "exact"],
        "evict": [not told.get("evict", False)],
        "admission": [not told.get("admission", False)],
        "clock": ["continuous"] if told.get("clock") == "slot" else [],
        "thresholds": [[unit * 3.0], [unit * 8.0, unit * 20.0]],
        "search": ["asha:eta=2,rungs=1", "asha:eta=3,rungs=1", "asha:eta=2,rungs=2"]
        if "search" in told
        else [],
    }
    for name, default in NUMBERS.items():
        old = told.get(name, default)
        if name == "slot" and told.get("clock") != "slot":
            continue
        grown = unit if old is None or not math.isfinite(old) else old + unit
        found[name] = [grown, 3.0 * grown, *([old / 2.0] if old else [])]
        if name in ("estimate_factor", "interference"):
            found[name] = [each for each in (0.5, 1.0, 3.0) if each != old]
    found["quota"] = [_lent(case, row) for row in range(len(case.files.get("quota", ())))]
    return found


def _lent(case: Case, row: int) -> pl.DataFrame:
    """The quotas with another word on whether an owner may borrow."""
    frame: pl.DataFrame = case.given()["quota"]
    flipped = pl.int_range(pl.len()) == row
    return frame.with_columns(borrow=pl.col("borrow") ^ flipped)


# Runs.


def runs(case: Case, genuine: ringbco.Outcome, rng: Random, count: int) -> Iterator[Corrupt]:
    """`count` runs at most that decide otherwise, under the label of the case.

    None for a case with a policy of one's own but a key: nobody but its author knows what it may decide.
    """
    if family(case.policy) == "own":
        return
    changes = _decisions(case)
    for _ in range(TRIES):
        if not count or not changes:
            return
        kind = rng.choice(list(changes))
        what, options = changes[kind].pop(rng.randrange(len(changes[kind])))
        if not changes[kind]:
            del changes[kind]
        other = _run(replace(case, options=options))
        told = None if other is None else under_the_label(other, genuine)
        if other is None or told is None or not unlike(case, genuine, told):
            continue
        count -= 1
        yield Corrupt(what, f"{what}, of {_label(case, genuine)}", told)


def _label(case: Case, genuine: ringbco.Outcome) -> str:
    return ", ".join(str(_said(genuine, name)) for name in WHOSE)


def _decisions(case: Case) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """By kind of what is otherwise: what, and the options of the run that does it."""
    told, mine = case.options, family(case.policy)
    name = mine if mine == "own key" else case.policy
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {"policy": [], "family": [], "wrong": []}
    for each, names in FAMILIES.items() if mine != "own key" else ():
        for other in (other for other in names if other != case.policy):
            options = {key: value for key, value in told.items() if key != "parameters"} | {"policy": other}
            kind = "policy" if each == mine else "family"
            found[kind].append((f"policy {other} told as {name}", options))
    for part, values in (("order", ORDERS), ("placement", PLACEMENTS), ("queue", DISCIPLINES)):
        said = told.get(part)
        shown = "an array" if isinstance(said, list) else said or f"that of {name}"
        found[part] = [(f"{part} {v} told as {shown}", {**told, part: v}) for v in values if v != said]
    plain = {key: value for key, value in told.items() if key not in OF_QUEUES}
    for wrong in wrong_policies.ALIKE[mine]:
        options = {**(told if wrong is wrong_policies.Lifo else plain), "policy": wrong}
        if wrong is wrong_policies.Lifo:
            options.pop("order", None)
        for own_fields in _fields(wrong, case):
            whole = {**options, "parameters": own_fields} if own_fields else options
            found["wrong"].append((f"{wrong.__name__} told as {name}", whole))
    if mine == "own key":
        del found["order"]
    return {kind: each for kind, each in found.items() if each}


def _fields(wrong: type[Any], case: Case) -> list[dict[str, Any]]:
    if wrong is wrong_policies.Late:
        return [{"delay": case.unit}]
    if wrong is wrong_policies.Elsewhere:
        return [{"placement": name} for name in ("first-fit", "emptiest", "worst-fit")]
    return [{}]


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
    found: dict[str, Any] = {}
    for name, value in like.items():
        if name not in summary:
            return None
        if isinstance(value, list) and value:
            keys = {key for row in value for key in row}
            found[name] = [{key: own for key, own in row.items() if key in keys} for row in summary[name]]
        else:
            found[name] = summary[name]
    return found
