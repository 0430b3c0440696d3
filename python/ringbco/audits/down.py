"""When servers are down, as outages.parquet and the clock say it (docs/outages.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ringbco.errors import InputError
from ringbco.trace.outages import as_outages

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Down:
    """When servers are down: instants of the clock, s, in order of (server, down). None overlap or touch."""

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
    outages: pl.DataFrame | None,
    num_servers: int,
    first_instant: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Down | None:
    """The folder's outages, as the clock sees them; None for a run that knows none."""
    if outages is None:
        return None
    try:
        frame = as_outages(outages, num_servers).frame
    except InputError as error:
        raise InputError(f"outages.parquet: {error}") from None
    rows = [
        (int(server), float(down), np.inf if up is None else float(up))
        for server, down, up in frame.select("server", "down_at", "up_at").iter_rows()
    ]
    plain = _as_down(list(_merged(rows)))
    never = np.isinf(plain.up)
    down = first_instant(plain.down)
    up = np.where(never, np.inf, first_instant(np.where(never, 0.0, plain.up)))
    seen = zip(plain.server.tolist(), down.tolist(), up.tolist(), strict=True)
    return _as_down(list(_merged(list(seen))))


def _merged(rows: list[tuple[int, float, float]]) -> Iterator[tuple[int, float, float]]:
    """Outages that overlap or touch as one."""
    last: tuple[int, float, float] | None = None
    for row in sorted(rows, key=lambda row: row[:2]):
        if last is not None and row[0] == last[0] and row[1] <= last[2]:
            last = (last[0], last[1], max(last[2], row[2]))
            continue
        if last is not None:
            yield last
        last = row
    if last is not None:
        yield last


def _as_down(rows: list[tuple[int, float, float]]) -> Down:
    return Down(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.float64),
        np.array([row[2] for row in rows], np.float64),
    )
