"""When servers were idle long enough to sleep, and who woke them (docs/energy.md).

What follows from the allocations, the folder's outages.parquet, run.toml and the first submission alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.audits.contention import Episodes
    from ringbco.audits.down import Down


@dataclass(frozen=True)
class Sleep:
    """Stretches in which a server was asleep: instants of the clock, s, by server and time.

    server, since, until. until: infinite where it still was at the end. woken: whether a stay ended it, and
    no outage. wake_time: s.
    """

    server: NDArray[np.int64]
    since: NDArray[np.float64]
    until: NDArray[np.float64]
    woken: NDArray[np.bool_]
    wake_time: float

    def wakes(self, eps: Episodes) -> NDArray[np.bool_]:
        """Which episodes begin on a server that was asleep before that instant."""
        found = np.zeros(eps.job.size, dtype=bool)
        woken = self.server[self.woken] + 1j * self.until[self.woken]
        begins = eps.pair_server + 1j * eps.start[eps.pair_episode]
        found[eps.pair_episode[np.isin(begins, woken)]] = True
        return found


def find_sleep(
    server: NDArray[np.int64],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    *,
    down: Down | None,
    num_servers: int,
    opens: float,
    after: float,
    wake_time: float,
) -> Sleep | None:
    """Of stays on servers, and of replicas. opens: from when on servers are idle. after: infinite: never.

    Times are instants of the clock, s. A stay of no length was none.
    """
    if after == np.inf:
        return None
    there = end > start
    server, start, end = server[there], start[there], end[there]
    stay = np.ones(server.size, dtype=bool)
    if down is not None:
        server = np.concatenate([server, down.server])
        start, end = np.concatenate([start, down.down]), np.concatenate([end, down.up])
        stay = np.concatenate([stay, np.zeros(down.server.size, dtype=bool)])
    order = np.lexsort((end, start, server))
    server, start, end, stay = server[order], start[order], end[order], stay[order]
    bounds = np.searchsorted(server, np.arange(num_servers + 1))
    found: list[tuple[int, float, float, bool]] = []
    for number in range(num_servers):
        rows = slice(bounds[number], bounds[number + 1])
        idle = np.maximum.accumulate(np.concatenate([[opens], end[rows]]))
        until = np.concatenate([start[rows], [np.inf]])
        with np.errstate(invalid="ignore"):  # one that never comes back
            asleep = np.flatnonzero(until - idle > after)
        by_stay = np.concatenate([stay[rows], [False]])
        found += [(number, float(idle[i]) + after, float(until[i]), bool(by_stay[i])) for i in asleep]
    servers, since, ends, woken = zip(*found, strict=True) if found else ((), (), (), ())
    return Sleep(
        np.array(servers, np.int64),
        np.array(since, np.float64),
        np.array(ends, np.float64),
        np.array(woken, np.bool_),
        wake_time,
    )
