"""Placements that look for idle GPUs among the least busy servers only: instant by instant."""

from __future__ import annotations

import numpy as np

from ringbco.checker.inputs import Floats, Ints, RunInputs, Stays
from ringbco.checker.levels import Moves
from ringbco.checker.speed import Speeds


class LeastBusyServers:
    """The mean accumulated time of each server's GPUs, rho of every job that began there, over time."""

    def __init__(self, inputs: RunInputs, speeds: Speeds, stays: Stays, moves: Moves) -> None:
        self.gpus, self.moves = inputs.cluster.gpus, moves
        rows = np.flatnonzero((stays.end > stays.start)[stays.of]) if stays.gpu is None else stays.of[:0]
        of = stays.of[rows]
        order = np.argsort(stays.start[of], kind="stable")
        rows, of = rows[order], of[order]
        self.server, self.time = stays.server[rows], stays.start[of]
        self.seconds = speeds.estimates[stays.job[of]] * stays.held[rows] / self.gpus[self.server]

    def fits(
        self, servers: Ints, wanted: float, gpus: int, waits: tuple[Floats, Floats]
    ) -> tuple[Floats, Ints]:
        """Instants, and before the first and from each on whether a gang fits.

        It does where so many of its GPUs are idle on the least busy of some servers that have `wanted` GPUs
        together. It is looked up only while somebody waits.
        """
        moves = self.moves
        place = np.full(self.gpus.size, -1)
        place[servers] = np.arange(servers.size)
        moved, used = np.flatnonzero(place[moves.server] >= 0), np.flatnonzero(place[self.server] >= 0)
        times = np.union1d(moves.time[moved], self.time[used])
        since, until = (np.searchsorted(times, own, side="right") for own in waits)
        asked = np.bincount(since, minlength=times.size + 2) - np.bincount(
            until + 1, minlength=times.size + 2
        )
        needed = np.cumsum(asked)[: times.size + 1] > 0
        to_moved = np.searchsorted(moves.time[moved], times, side="right").tolist()
        to_used = np.searchsorted(self.time[used], times, side="right").tolist()
        idle, busy, size = self.gpus[servers].copy(), np.zeros(servers.size), self.gpus[servers]
        found = np.zeros(times.size + 1, np.int64)
        among: Ints | None = None
        i = j = 0
        for at in range(times.size + 1):
            if at:
                for row in moved[i : to_moved[at - 1]].tolist():
                    idle[place[moves.server[row]]] = moves.after[row]
                for row in used[j : to_used[at - 1]].tolist():
                    busy[place[self.server[row]]] += self.seconds[row]
                    among = None
                i, j = to_moved[at - 1], to_used[at - 1]
            if not needed[at]:
                continue
            if among is None:
                order = np.argsort(busy, kind="stable")
                count = int(np.searchsorted(np.cumsum(size[order]), wanted)) + 1 if wanted > 0 else 0
                among = order[:count]
            found[at] = idle[among].sum() >= gpus
        return times, found
