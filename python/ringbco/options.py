"""What a run may be asked to do: policies and their parts, options, and the checks on them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from numbers import Integral, Real
from typing import Any, Final

import numpy as np

from ringbco import _core
from ringbco import ties as ties_
from ringbco.cluster import Cluster
from ringbco.errors import UsageError
from ringbco.other_names import nearest
from ringbco.validation import MOST_SECONDS

MODELS: Final = ("rar", "fixed")
CLOCKS: Final = ("continuous", "slot")
SLOT: Final = 1.0
"""Length of a slot unless another is given, seconds."""
VARIANTS: Final = ("practical", "literal")
OVERSIZE: Final = ("error", "drop")
MOST_KAPPA: Final = 2**32 - 1
MOST_SEED: Final = 2**64 - 1
MOST_THREADS: Final = 1024
MOST_SAMPLES: Final = 10_000_000
_LONGEST: Final = 60


@dataclass(frozen=True)
class Policy:
    """A preset's name and the parts it stands for, after overrides."""

    name: str
    order: str
    placement: str
    queue: str
    preemption: str = "none"


@dataclass(frozen=True)
class RunOptions:
    """The options of a run beside its policy, checked, and as plain Python values whatever was given."""

    model: str = "rar"
    clock: str = "continuous"
    slot: float = SLOT
    kappa: int = 8
    lambda_: float = 1.0
    variant: str = "practical"
    seed: int = 0
    ties: str = "rows"
    oversize: str = "error"
    sample: float | None = None

    def __post_init__(self) -> None:
        check_name("model", self.model, MODELS)
        check_name("clock", self.clock, CLOCKS)
        check_name("variant", self.variant, VARIANTS)
        check_name("oversize", self.oversize, OVERSIZE)
        if not isinstance(self.ties, str):
            raise refusal("ties", self.ties, "rows, reverse or shuffle:SEED")
        ties_.check(self.ties)
        given = {
            "slot": seconds("slot", self.slot),
            "kappa": integer("kappa", self.kappa, 0, MOST_KAPPA),
            "lambda_": factor("lambda", self.lambda_),
            "seed": integer("seed", self.seed, 0, MOST_SEED),
            "sample": None if self.sample is None else seconds("sample", self.sample),
        }
        if self.clock == "continuous" and given["slot"] != SLOT:
            raise refusal("slot", self.slot, "it together with clock slot; the continuous clock has no slots")
        for name, value in given.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> RunOptions:
        """Those of `options` that are of this kind, by the names of `replay`'s parameters."""
        return cls(**{field.name: options[field.name] for field in fields(cls) if field.name in options})


def policies() -> list[Policy]:
    """Every preset, with the order, the placement and the queue discipline that it stands for."""
    return list(_presets().values())


@cache
def _presets() -> dict[str, Policy]:
    return {preset[0]: Policy(*preset) for preset in _core.presets()}


def resolve_policy(
    policy: str, *, order: str | None = None, placement: str | None = None, queue: str | None = None
) -> Policy:
    """The preset of that name with parts replaced; UsageError if a name is in no registry."""
    check_name("policy", policy, tuple(_presets()))
    preset = _presets()[policy]
    for option, value, known in (
        ("order", order, _core.orders()),
        ("placement", placement, _core.placements()),
        ("queue", queue, _core.queues()),
    ):
        if value is not None:
            check_name(option, value, known)
    for option, value, own in (("order", order, preset.order), ("queue", queue, preset.queue)):
        if preset.preemption != "none" and value not in (None, own):
            raise UsageError(f"option {option}: {policy} ranks all jobs itself; leave the option out")
    parts = (order or preset.order, placement or preset.placement, queue or preset.queue)
    return Policy(preset.name, *parts, preset.preemption)


def as_cluster(cluster: object, recorded: object = None) -> Cluster:
    """A `Cluster`, or what `Cluster.parse` makes of a text or a path. UsageError for anything else.

    recorded: the same, for the cluster on which the trace was recorded; None leaves the cluster's own.
    """
    if recorded is not None:
        return as_cluster(cluster).with_recorded(as_cluster(recorded))
    if isinstance(cluster, Cluster):
        return cluster
    if isinstance(cluster, (str, os.PathLike)):
        return Cluster.parse(cluster)
    raise refusal("cluster", cluster, 'a Cluster, or SxG such as "32x8", a TOML file or preset:NAME')


def check_name(option: str, value: object, known: Sequence[str]) -> None:
    """Raises UsageError, with the name that was probably meant, unless `value` is among `known`."""
    if not isinstance(value, str) or value not in known:
        near = nearest(option, value, known) if isinstance(value, str) else None
        hint = f"; did you mean {near}?" if near else ""
        raise refusal(option, value, f"one of {', '.join(known)}{hint}")


def integer(option: str, value: object, least: int, most: int) -> int:
    """The value as an int, numpy's integers too; UsageError unless it is one from `least` to `most`."""
    good = isinstance(value, Integral) and not isinstance(value, bool)
    if not good or not least <= int(value) <= most:  # type: ignore[call-overload]
        raise refusal(option, value, f"an integer from {least} to {most}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def number(
    option: str, value: object, expected: str, *, least: float, most: float = math.inf, above: bool = False
) -> float:
    """The value as a finite float, numpy's numbers too.

    UsageError with what was `expected` unless it is a number from `least` (or, with `above`, greater than
    it) to `most`. A bool is no number.
    """
    try:
        found = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:  # an int beyond every float
        found = math.nan
    if not (least < found if above else least <= found) or found > most or math.isinf(found):
        raise refusal(option, value, expected)
    return found


def seconds(option: str, value: object) -> float:
    """A time > 0 that float64 still tells from the next second."""
    expected = f"a number of seconds > 0 and <= {MOST_SECONDS:.0e}"
    return number(option, value, expected, least=0.0, most=MOST_SECONDS, above=True)


def factor(option: str, value: object) -> float:
    """A finite number >= 1."""
    return number(option, value, "a finite number >= 1", least=1.0)


def flag(option: str, value: object) -> bool:
    """True or False, numpy's too."""
    if not isinstance(value, (bool, np.bool_)):
        raise refusal(option, value, "True or False")
    return bool(value)


def check_callback(value: object) -> None:
    """Raises UsageError unless progress can be told to `value`."""
    if value is not None and not callable(value):
        raise refusal("progress", value, "a function of (done, in all), or None")


def refusal(option: str, value: object, expected: str) -> UsageError:
    """What to raise for an option's value: the option, the value, what was expected."""
    text = repr(value) if isinstance(value, str) else " ".join(str(value).split())
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 3] + "..."
    return UsageError(f"option {option}: {text}: expected {expected}")
