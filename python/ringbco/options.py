"""What a run may be asked to do: policies and their parts, options, and the checks on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import numpy as np

from ringbco import _core
from ringbco import ties as ties_
from ringbco.errors import UsageError

MODELS: Final = ("rar", "fixed")
CLOCKS: Final = ("continuous", "slot")
VARIANTS: Final = ("practical", "literal")
OVERSIZE: Final = ("error", "drop")
_LARGEST: Final = {"kappa": 2**32 - 1, "seed": 2**64 - 1}
MOST_SAMPLES: Final = 10_000_000


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
    """The options of a run beside its policy, checked."""

    model: str
    clock: str
    slot: float
    kappa: int
    lambda_: float
    variant: str
    seed: int
    ties: str
    oversize: str
    sample: float | None

    def __post_init__(self) -> None:
        check_name("model", self.model, MODELS)
        check_name("clock", self.clock, CLOCKS)
        check_name("variant", self.variant, VARIANTS)
        check_name("oversize", self.oversize, OVERSIZE)
        ties_.check(self.ties)
        check_number("slot", self.slot, 0 < self.slot < np.inf, "a finite number of seconds > 0")
        check_number("lambda", self.lambda_, 1 <= self.lambda_ < np.inf, "a finite number >= 1")
        for name, largest in _LARGEST.items():
            value = getattr(self, name)
            check_number(name, value, 0 <= value <= largest, f"an integer from 0 to {largest}")
        if self.sample is not None:
            check_number("sample", self.sample, 0 < self.sample < np.inf, "a finite number of seconds > 0")


def policies() -> list[Policy]:
    """Every preset, with the order, the placement and the queue discipline that it stands for."""
    return [Policy(*preset) for preset in _core.presets()]


def resolve_policy(
    policy: str, *, order: str | None = None, placement: str | None = None, queue: str | None = None
) -> Policy:
    """The preset of that name with parts replaced; UsageError if a name is in no registry."""
    presets = {preset.name: preset for preset in policies()}
    check_name("policy", policy, tuple(presets))
    preset = presets[policy]
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


def check_name(option: str, value: str, known: Sequence[str]) -> None:
    """Raises UsageError, with the nearest name, unless `value` is among `known`."""
    if value not in known:
        near = get_close_matches(value, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"option {option}: {value!r}: expected one of {', '.join(known)}{hint}")


def check_number(option: str, value: float, good: bool, expected: str) -> None:
    """Raises UsageError with what was `expected` unless `value` is `good`."""
    if not good:
        raise UsageError(f"option {option}: {value}: expected {expected}")
