"""Runs a case, and everything that must hold of it."""

import random
import re
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

import ringbco
from cases import balance, compare, figures, holding, serving, twin
from cases.case import Case
from cases.draw import build, toss
from oracle.model import RowError
from ringbco.errors import RingbcoError

NO_LOG = (
    "outages",
    "services",
    "every server to be up",
    "every GPU to be there",
    "shares of a GPU",
    "search",
    "quota",
    "evict",
    "priorities",
)
"""What is said of runs whose decisions no log can tell."""

POLICIES = ("policy", "own_policy")


@dataclass(frozen=True)
class Fault:
    """What is wrong with a result. kind: by which a smaller case is known to show the same."""

    kind: str
    text: str


@dataclass
class Seen:
    """A case that was run. refusal: why it was not. lacks: why it has no twin."""

    case: Case
    refusal: str | None = None
    lacks: str | None = None
    outcome: ringbco.Outcome | None = None
    faults: list[Fault] = field(default_factory=list)


@dataclass
class Met:
    """A case that ran, with the features that it kept."""

    seed: object
    features: tuple[str, ...]
    seen: Seen
    refusals: list[str]


def meet(seed: object, *, check: bool = True) -> Met:
    """The case of a seed: while it is refused, it loses one, which the refusal names if it can.

    check: whether it is not only run.
    """
    features, refusals = toss(seed), list[str]()
    rng = random.Random(f"{seed} drops")
    while True:
        seen = (look if check else replayed)(build(seed, features))
        if seen.refusal is None or not features:
            return Met(seed, features, seen, refusals)
        refusals.append(seen.refusal)
        dropped = rng.choice(_named(features, seen.refusal) or features)
        features = tuple(name for name in features if name != dropped)


def _named(features: tuple[str, ...], refusal: str) -> tuple[str, ...]:
    """The features that a refusal names; the policy, which most of them name, only if it is alone."""
    words = re.findall(r"[a-z]+", refusal)
    named = [name for name in features if any(word.startswith(_stem(name)) for word in words)]
    return tuple(name for name in named if name not in POLICIES) or tuple(named)


def _stem(name: str) -> str:
    first = name.partition("_")[0]
    return first.removesuffix("es" if first.endswith("ches") else "s")


def replayed(case: Case) -> Seen:
    """Runs a case."""
    try:
        return Seen(case, outcome=case.replay())
    except RingbcoError as error:
        return Seen(case, refusal=str(error))
    except Exception as error:
        return Seen(case, faults=[_crash("run", error)])


def look(case: Case) -> Seen:
    """Runs a case and checks it."""
    seen = replayed(case)
    if seen.outcome is None:
        return seen
    seen.lacks, outcome = twin.lacks(case), seen.outcome
    for name, check in CHECKS.items():
        try:
            seen.faults += [Fault(f"{name} {kind}", text) for kind, text in check(case, outcome)]
        except Exception as error:
            seen.faults.append(_crash(name, error))
    return seen


def _crash(where: str, error: Exception) -> Fault:
    return Fault(f"{where} {type(error).__name__}", traceback.format_exc(limit=-3))


def _audit(case: Case, outcome: ringbco.Outcome) -> Iterator[tuple[str, str]]:
    for finding in ringbco.audit(outcome, case.frame()):
        yield finding.code, str(finding)


def _twin(case: Case, outcome: ringbco.Outcome) -> Iterator[tuple[str, str]]:
    if twin.lacks(case) is not None:
        return
    truth = twin.truth(case)
    if isinstance(truth, RowError):
        yield "refuses", f"the twin refuses it: {truth!r}"
    else:
        yield from compare.differences(case, outcome, truth)


def _again(case: Case, outcome: ringbco.Outcome) -> Iterator[tuple[str, str]]:
    """The same once more, and from the log of its decisions where there may be one."""
    try:
        logged = case.replay(decisions=True)
    except RingbcoError:
        yield from _unlike(outcome, case.replay())
        return
    yield from _unlike(outcome, logged)
    assert logged.decisions is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "decisions.parquet")
        logged.decisions.write_parquet(path)
        try:
            followed = case.replay(**_of_a_log(case), policy=f"log:{path}")
        except RingbcoError as error:
            if not any(word in str(error) for word in NO_LOG):
                yield "log", f"refused: {error}"
            return
    yield from ((f"log {name}", text) for name, text in _unlike(outcome, followed, "jobs", "allocations"))


def _of_a_log(case: Case) -> dict[str, object]:
    """Options that a log takes no part in."""
    return {
        name: None for name in ("order", "queue", "placement", "aging", "parameters") if name in case.options
    } | {name: False for name in ("admission",) if name in case.options}


def _unlike(one: ringbco.Outcome, other: ringbco.Outcome, *names: str) -> Iterator[tuple[str, str]]:
    """The tables in which two results differ."""
    for name in names or ("jobs", "allocations", "timeline", "replicas", "rungs", "searches"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine is None or theirs is None:
            if mine is not theirs:
                yield name, "is not there again"
        else:
            # What explains a run in single precision follows from other columns where a log is followed.
            shared = [
                column
                for column in mine.columns
                if column in theirs.columns and (not names or mine[column].dtype != pl.Float32)
            ]
            if not mine.select(shared).equals(theirs.select(shared)):
                yield name, f"{mine}\nthen\n{theirs}"


CHECKS = {
    "audit": _audit,
    "twin": _twin,
    "again": _again,
    "holding": holding.check,
    "figures": figures.check,
    "balance": balance.check,
    "serving": serving.check,
}
