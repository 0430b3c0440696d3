"""What a custom policy sees of jobs on the same GPUs, and how it starts such (docs/lucid.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ringbco.errors import UsageError

if TYPE_CHECKING:
    from ringbco import _core
    from ringbco.errors import DecisionError


class Seats:
    """The part of a state that is about single GPUs, and about jobs on the same ones."""

    _course: _core.Course
    _rows: Callable[[Any, str], NDArray[np.uint32]]
    _once: Callable[[str, Callable[[], Any]], NDArray[Any]]
    _do: Callable[[str, Callable[[], Any]], Any]
    _check_shares: Callable[[str, str], None]
    _error: Callable[[str, int | None, str], DecisionError]

    @property
    def started(self) -> NDArray[np.uint32]:
        """Rows of the jobs that hold GPUs, in the order in which their stays began (that of verbs)."""
        return self._once("started", self._course.started)

    def beside(self, row: int) -> NDArray[np.uint32]:
        """The rows on the same GPUs as a running row, in the order in which they started; empty of others."""
        (number,) = self._rows(row, "beside")
        return self._course.beside(int(number))

    def pair(self, row: int, other: int) -> tuple[float, float]:
        """The rates of two rows on the same GPUs, as fractions of those alone, if row starts beside other.

        On the GPUs of other if it runs, else on row's num_gpus on the fewest servers. By measured pairs
        (docs/tables.md), else by the run's interference.
        """
        (number,), (partner,) = self._rows(row, "pair"), self._rows(other, "pair")
        found = self._course.pair(int(number), int(partner))
        if found is None:
            raise UsageError(f"pair: {row}, {other}: expected jobs of the same virtual cluster")
        return found[0], found[1]

    def gpus_of(self, row: int) -> list[tuple[int, list[int]]]:
        """(server, [GPU, ...]) of a running row, empty of others. Where the job table has shares."""
        self._check_shares("gpus_of", "allocation has the GPUs of a row on each server")
        (number,) = self._rows(row, "gpus_of")
        found: dict[int, list[int]] = {}
        for server, gpu in self._course.gpus_of(int(number)):
            found.setdefault(server, []).append(gpu)
        return list(found.items())

    def _start_beside(self, numbers: NDArray[np.uint32], beside: int, *others: object) -> int:
        """Starts a single row on the GPUs of a running one. others: what must not be given beside."""
        if numbers.size != 1 or any(given is not None for given in others):
            raise self._error("start", None, "beside is given for one row at a time, and nothing with it")
        (other,) = self._rows(beside, "start")
        self._do("start", lambda: self._course.start_beside(int(numbers[0]), int(other)))
        return 1
