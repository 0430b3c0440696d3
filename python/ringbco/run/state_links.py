"""What a custom policy sees of the links between servers (docs/tiers.md#custom-policies)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ringbco import _core
from ringbco.run.job_columns import frozen

if TYPE_CHECKING:
    from ringbco.cluster.spec import Cluster
    from ringbco.errors import DecisionError


class Links:
    """The part of a state that is about links."""

    _cluster: Cluster
    _course: _core.Course
    _rows: Callable[[Any, str], NDArray[np.uint32]]
    _pairs: Callable[[Any, str, int], list[tuple[int, int]]]
    _error: Callable[[str, int | None, str], DecisionError]

    @property
    def tiers(self) -> dict[str, NDArray[np.uint32]]:
        """By tier of the network, from below: the number of each server's group, uint32[servers]."""
        count = self._cluster.num_servers
        return {tier.name: frozen(tier.group_of(count)) for tier in self._cluster.tiers}

    def bandwidth(self, row: int, servers: Iterable[tuple[int, int]]) -> float:
        """Bytes/s that a row would get on (server, GPUs) pairs now, if it held nothing else.

        This is B of equation 8; the jobs that run now are its contenders. The GPUs need not be idle. Raises
        DecisionError for a server of another virtual cluster.
        """
        (number,) = self._rows(row, "bandwidth")
        pairs = self._pairs(servers, "bandwidth", int(number))
        try:
            return float(self._course.bandwidth(int(number), pairs))
        except _core.CoreError as error:
            raise self._error(error.verb, error.row, error.message) from None
