"""The options of the schedulers beside SJF-BCO: preemption, predictions, deadlines, aging, estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ringbco.errors import InputError, UsageError

if TYPE_CHECKING:
    from ringbco.jobs import JobTable

PREDICT: Final = ("history", "exact")
NOBODY: Final = 2**32 - 1
"""The number of the user of jobs that name none."""


@dataclass(frozen=True)
class Scheduling:
    """What the other schedulers are told. Times in seconds; docs/policies.md has their meaning.

    thresholds: GPU-seconds, as numbers or as text with commas.

    Raises UsageError for a value out of its range.
    """

    preempt_cost: float = 30.0
    thresholds: Sequence[float] | str = (18_000.0,)
    interval: float = 60.0
    quantum: float = 60.0
    predict: str = "history"
    admission: bool = False
    aging: float | None = None
    estimate_factor: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.thresholds, str):
            object.__setattr__(self, "thresholds", parse_thresholds(self.thresholds))

        def check(name: str, value: object, good: bool, expected: str) -> None:
            if not good:
                raise UsageError(f"option {name}: {value}: expected {expected}")

        for name in ("interval", "quantum"):
            value = getattr(self, name)
            check(name, value, 0 < value < math.inf, "a finite number of seconds > 0")
        check("preempt-cost", self.preempt_cost, 0 <= self.preempt_cost < math.inf, "a finite time >= 0 s")
        check("predict", repr(self.predict), self.predict in PREDICT, f"one of {', '.join(PREDICT)}")
        check("estimate-factor", self.estimate_factor, 0 < self.estimate_factor < math.inf, "a number > 0")
        if self.aging is not None:
            check("aging", self.aging, 0 <= self.aging < math.inf, "a finite time >= 0 s")
        steps = [0.0, *self.thresholds]
        good = all(a < b < math.inf for a, b in pairwise(steps))
        check("thresholds", ",".join(map(str, self.thresholds)), good, "GPU-seconds > 0 in ascending order")

    def check_policy(self, name: str, order: str, preemption: str) -> None:
        """Raises UsageError where an option cannot mean anything under the policy."""
        if self.admission and preemption != "edf":
            raise UsageError(f"option admission: {name} knows no deadlines; expected --policy edf")
        if self.aging is not None and preemption != "none":
            raise UsageError(f"option aging: {name} preempts; expected a policy with a queue order")
        if self.aging is not None and order == "fifo":
            raise UsageError(f"option aging: {name} is fifo as it is; expected order sjf, smallest or qssf")

    def columns(self, table: JobTable, order: str, preemption: str) -> dict[str, Any]:
        """The columns that the policy reads beside the usual ones, as the engine takes them.

        Raises InputError where `edf` finds no deadlines.
        """
        columns: dict[str, Any] = {}
        if preemption == "edf":
            if "deadline" not in table.frame.columns:
                raise InputError(
                    "a column with absolute times, s; there is none",
                    file=table.source,
                    column="deadline",
                    hint="add deadlines to the job table, or use another --policy than edf",
                )
            columns["deadline"] = table.frame["deadline"].fill_null(math.nan).to_numpy()
        if order == "qssf" and "user" in table.frame.columns:
            users = table.frame["user"].rank("dense").cast(int)
            columns["user"] = users.fill_null(NOBODY).to_numpy().astype(np.uint32)
        return columns

    def as_options(self) -> dict[str, Any]:
        """As run.toml holds them."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"thresholds": list(map(float, self.thresholds))}


def parse_thresholds(text: str) -> tuple[float, ...]:
    """GPU-seconds separated by commas. Raises UsageError where they are no numbers."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UsageError(f"option thresholds: {text!r}: expected numbers separated by commas") from None
