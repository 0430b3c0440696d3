"""Columns of the job table as a scheduler sees them: those that it may know, read-only.

For example, `state.jobs.duration` is for clairvoyant policies alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ringbco.deprecation import renamed
from ringbco.run.clairvoyance import SECRET
from ringbco.trace.jobs import gpus_of
from ringbco.trace.noise import noise_scale

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from ringbco import _core
    from ringbco.trace.workload import Workload


def frozen(values: NDArray[Any]) -> NDArray[Any]:
    """The array, read-only."""
    view = values.view()
    view.flags.writeable = False
    return view


class Arrivals:
    """When jobs arrive, as a state has it."""

    _workload: Workload
    _course: _core.Course
    _once: Callable[[str, Callable[[], Any]], NDArray[Any]]

    @property
    def arrival_time(self) -> NDArray[np.float64]:
        """When each row arrives, s: its submit_time, or what the end of the job before it makes of it.

        NaN while that job is not gone, and in other virtual clusters. Ages count from here, places in fifo
        order from submit_time (docs/chains.md).
        """
        columns = self._workload.columns
        if columns["chains"] is None:
            return frozen(columns["submit"])
        return self._once("arrival_time", self._course.arrival_times)


class OldNames:
    """What a state's attributes were called before 0.2.0."""

    left = renamed("left", "remaining_iterations")
    remaining = renamed("remaining", "remaining_time")
    guest = renamed("guest", "over_quota")
    room = renamed("room", "free_shares")
    parts = renamed("parts", "allocation")
    places = renamed("places", "allocations")


class Columns:
    """Columns of the job table that a scheduler may know, read-only: `jobs.num_gpus`, `jobs["user"]`."""

    def __init__(self, workload: Workload, *, clairvoyant: bool) -> None:
        self._workload = workload
        self._clairvoyant = clairvoyant
        self._read: dict[str, NDArray[Any]] = {}

    @property
    def _frame(self) -> pl.DataFrame:
        return self._workload.table.frame

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._read:
            if name in SECRET and not self._clairvoyant:
                raise AttributeError(hidden(name))
            values: NDArray[Any]
            if name == "iterations":
                values = self._workload.profiled.iterations
            elif name in ("min_gpus", "max_gpus"):
                values = gpus_of(self._frame, name)
            elif name == "noise_scale":
                values = noise_scale(self._frame)
            elif name in self._frame.columns:
                values = self._frame[name].to_numpy()
            else:
                known = [
                    column for column in self._frame.columns if self._clairvoyant or column not in SECRET
                ]
                raise AttributeError(f"the job table has no column {name!r}: it has {', '.join(known)}")
            self._read[name] = frozen(values)
        return self._read[name]

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        return name in self._frame.columns

    def __len__(self) -> int:
        return self._workload.columns["submit"].size


def hidden(name: str) -> str:
    """Why a scheduler may not read something."""
    return f"{name} is not known to a scheduler; a class that says clairvoyant = True may read it"
