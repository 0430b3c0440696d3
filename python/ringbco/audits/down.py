"""When servers are down, as outages.parquet and the clock say it (docs/outages.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ringbco.checker import clock
from ringbco.checker.settings import Outage
from ringbco.trace.outages import DRAIN, Outages
from ringbco.trace.side_table import ReadContext

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Down:
    """When servers are down, or drain: instants of the clock, s, in order of (server, down). None touch."""

    server: NDArray[np.int64]
    down: NDArray[np.float64]
    up: NDArray[np.float64]

    @property
    def keys(self) -> NDArray[np.complex128]:
        """(server, down) as numbers that sort so."""
        return np.asarray(self.server + 1j * self.down)

    def latest(self, server: NDArray[np.int64], time: NDArray[np.float64]) -> NDArray[np.int64]:
        """The latest outage of each server that begins before a time; -1 where none does."""
        if not self.server.size:
            return np.full(server.size, -1)
        at = np.searchsorted(self.keys, server + 1j * time) - 1
        return np.where((at >= 0) & (self.server[at] == server), at, -1)


def read_down(
    outages: pl.DataFrame | None, num_servers: int, slot: float | None
) -> tuple[Down | None, Down | None]:
    """The folder's outages, as the clock sees them, and its drains; None for a run that knows none."""
    if outages is None:
        return None, None
    frame = Outages.read(outages, ReadContext(servers=num_servers), Outages.form.file).frame
    rows = [
        Outage(int(server), float(down), np.inf if up is None else float(up), None, kind == DRAIN)
        for server, down, up, kind in frame.select("server", "down_at", "up_at", "kind").iter_rows()
    ]
    return _arrays(clock.down(rows, slot)), _arrays(clock.drains(rows, slot))


def _arrays(seen: list[Outage]) -> Down:
    return Down(
        np.array([outage.server for outage in seen], np.int64),
        np.array([outage.down for outage in seen], np.float64),
        np.array([outage.up for outage in seen], np.float64),
    )
