"""Runs a case, and everything that must hold of it."""

import copy
import random
import re
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

import ringbco
from cases import bounded, compare, knowing, modelled, seated
from cases.case import Case
from cases.draw import build, toss
from frames import cluster_of
from reference.model import RowError
from ringbco.errors import RingbcoError
from ringbco.io.digests import sha256_of
from ringbco.result.tables import SUMMARY
from ringbco.run.again import compare_results

TABLES = ("jobs", "allocations", "timeline", "links", "replicas", "latency", "requests", "rungs", "searches")

POLICIES = ("policy", "own_policy")


@dataclass(frozen=True)
class Fault:
    """What is wrong with a result. kind: by which a smaller case is known to show the same."""

    kind: str
    text: str


@dataclass
class Seen:
    """A case that was run. refusal: why it was not."""

    case: Case
    refusal: str | None = None
    outcome: ringbco.Outcome | None = None
    faults: list[Fault] = field(default_factory=list)


@dataclass
class Met:
    """A case that ran, with the features that it kept."""

    seed: object
    features: tuple[str, ...]
    seen: Seen
    refusals: list[str]


def meet(seed: object, *, check: bool = True, features: tuple[str, ...] | None = None) -> Met:
    """The case of a seed: while it is refused, it loses one, which the refusal names if it can.

    check: whether it is not only run. features: those to begin with, if not by their coins.
    """
    features, refusals = toss(seed) if features is None else features, list[str]()
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
    outcome = seen.outcome
    for name, check in CHECKS.items():
        if name == "bound" and seated.most_of(case) > 1:
            continue
        try:
            seen.faults += [Fault(f"{name} {kind}", text) for kind, text in check(case, outcome)]
        except Exception as error:
            seen.faults.append(_crash(name, error))
    return seen


def _crash(where: str, error: Exception) -> Fault:
    return Fault(f"{where} {type(error).__name__}", traceback.format_exc(limit=-3))


def _audit(case: Case, outcome: ringbco.Outcome) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        if "requests" in case.files:
            outcome = _of_file(case, outcome, Path(folder, "requests.parquet"))
        for finding in ringbco.audit(outcome, case.frame()):
            yield finding.code, str(finding)


def _of_file(case: Case, outcome: ringbco.Outcome, path: Path) -> ringbco.Outcome:
    """The outcome as if its requests had come from a file: an audit reads them there."""
    pl.DataFrame(case.files["requests"], infer_schema_length=None).write_parquet(path)
    run = {
        **outcome.run,
        "requests": {**outcome.run["requests"], "path": str(path), "sha256": sha256_of(path)},
    }
    told = copy.copy(outcome)
    told.run = run
    return told


def _reference(case: Case, outcome: ringbco.Outcome) -> Iterator[tuple[str, str]]:
    expected = modelled.reference_result(case)
    if isinstance(expected, RowError):
        yield "refuses", f"the reference model refuses it: {expected!r}"
    else:
        yield from compare.differences(case, outcome, expected)


def _again(case: Case, outcome: ringbco.Outcome) -> Iterator[tuple[str, str]]:
    """The same once more with a log, and by that log alone, from the folder in which it lies."""
    logged = case.replay(decisions=True)
    for name in TABLES:
        mine, theirs = getattr(outcome, name), getattr(logged, name)
        if mine is None or theirs is None:
            if mine is not theirs:
                yield name, "is not there again"
        elif not mine.equals(theirs):
            yield name, f"{mine}\nthen\n{theirs}"
    if "requests" in case.files:  # of a table in memory, which no folder keeps
        return
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "first"), Path(folder, "second")
        logged.write(first)
        followed = ringbco.replay(
            case.frame(), cluster_of(case.toml()), policy=f"log:{first}/decisions.parquet"
        )
        followed.write(second)
        for name, difference in compare_results(first, second).items():
            if difference is not None and name != SUMMARY:  # which names another policy
                yield f"log {name}", difference
    for finding in ringbco.audit(followed, case.frame()):
        yield f"log {finding.code}", str(finding)


CHECKS = {
    "audit": _audit,
    "reference": _reference,
    "again": _again,
    "bound": bounded.check,
    "knowing": knowing.check,
}
