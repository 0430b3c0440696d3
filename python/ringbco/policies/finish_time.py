"""Shares by finish-time fairness, for gavel (docs/gavel.md).

The finish-time fairness of Themis (Mahajan et al., NSDI 2020), as shares of each job's time over GPU types
(Narayanan et al., OSDI 2020).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringbco.policies.programs import InfeasibleError, Program

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]

CLOSE: Final = 1e-12
"""Of the greatest fairness, where each step takes a program."""


class Finish(NamedTuple):
    """By job, s: the time since its submission, what is left of its run, and its run time in isolation.

    left is at the rate of an equal slice of the cluster.
    """

    since: Numbers
    left: Numbers
    alone: Numbers


@dataclass
class Alone:
    """What isolated jobs would have taken for the progress that they have made.

    past: s, by job. seen: by job, at its last look: work left, the rate of an equal slice, and the part of
    its speed that its equal share of the GPUs is worth. Both keep jobs that pause at a rung; who is done, the
    caller drops.
    """

    past: dict[int, float] = field(default_factory=dict)
    seen: dict[int, tuple[float, float, float]] = field(default_factory=dict)

    def look(
        self, rates: Numbers, wanted: Counts, gpus: Counts, left: Mapping[int, float], since: Numbers
    ) -> Finish:
        """The figures of jobs. rates: by job and type. wanted: GPUs by job. gpus: GPUs by type.

        left: the work left of each, by row, in units of the rates. since: times since submissions, s.
        """
        equal = rates @ gpus / max(1, int(gpus.sum()))
        part = np.minimum(1.0, math.ceil(gpus.sum() / len(left)) / wanted)
        for (row, work), rate, share in zip(left.items(), equal.tolist(), part.tolist(), strict=True):
            if rate <= 0.0:
                continue  # it can run nowhere now; its progress counts from the look before
            if row in self.seen:
                before, rate_then, share_then = self.seen[row]
                more = max(0.0, before - work) / rate_then / share_then
                self.past[row] = self.past.get(row, 0.0) + more
            self.seen[row] = work, rate, share
        past = np.array([self.past.get(row, 0.0) for row in left])
        with np.errstate(divide="ignore", invalid="ignore"):  # of those that can run nowhere now
            rest = np.array(list(left.values())) / equal
            return Finish(since, rest, past + rest / part)


def finish_time(rates: Numbers, wanted: Counts, gpus: Counts, finish: Finish) -> Numbers:
    """The share of its time that each job is to run on each type, so that the least fair finish is fairest.

    With x_i the worth of a job's shares, the greatest (since_i + left_i / x_i) / alone_i is least. What is
    left of a type goes to all who may use it, in proportion to the time that they have not got. rates:
    iterations a second by job and type; wanted: GPUs by job; gpus: GPUs by type. A job that can run on no
    type gets no share.
    """
    found, able = np.zeros(rates.shape), (rates > 0).any(axis=1)
    if able.any():
        own = Finish(*(figure[able] for figure in finish))
        found[able] = _fairest(rates[able], wanted[able], gpus, own)
    return found


def _fairest(rates: Numbers, wanted: Counts, gpus: Counts, finish: Finish) -> Numbers:
    """The shares of jobs each of which can run on some type."""
    worth = rates / (rates @ gpus / gpus.sum())[:, None]
    since, left, alone = finish
    soonest = left / worth.max(axis=1)
    low = float(((since + soonest) / alone).max())

    def least(fairness: float) -> Numbers | None:
        """The shares of that fairness on the fewest GPUs; None where they do not fit."""
        # Nobody is done sooner than at best, whatever rounding makes of a job with little left.
        return _least(worth, wanted, gpus, left / np.maximum(fairness * alone - since, soonest))

    found = least(low)
    if found is None:
        high = 2.0 * low
        while (found := least(high)) is None:
            low, high = high, 2.0 * high
        close = 0.0 if len(gpus) == 1 else CLOSE
        while low < (middle := 0.5 * (low + high)) < high and high - low > close * high:
            better = least(middle)
            if better is None:
                low = middle
            else:
                high, found = middle, better
    return _fill(found, worth, wanted, gpus)


def _least(worth: Numbers, wanted: Counts, gpus: Counts, need: Numbers) -> Numbers | None:
    """Shares worth `need` to each job on the fewest GPUs; None where there are none."""
    jobs, types = worth.shape
    if types == 1:  # whose worth is 1
        shares = np.minimum(need, 1.0)
        return shares[:, None] if float(wanted @ shares) <= gpus[0] else None
    cells = np.arange(jobs * types).reshape(jobs, types)
    most = (worth > 0).ravel().astype(float)
    program = Program(-np.repeat(wanted, types).astype(float), most)
    for job in range(jobs):
        program.row(cells[job], worth[job], lower=min(float(need[job]), float(worth[job].max())))
        program.row(cells[job], 1.0, upper=1.0)
    for kind in range(types):
        program.row(cells[:, kind], wanted, upper=float(gpus[kind]))
    try:
        return program.solve().reshape(jobs, types)
    except InfeasibleError:
        return None


def _fill(shares: Numbers, worth: Numbers, wanted: Counts, gpus: Counts) -> Numbers:
    """Gives out what is left of each type, in proportion to the time that jobs which may use it have left."""
    for kind in range(len(gpus)):
        free = np.where(worth[:, kind] > 0, np.maximum(0.0, 1.0 - shares.sum(axis=1)), 0.0)
        wish, room = float(wanted @ free), float(gpus[kind] - wanted @ shares[:, kind])
        if wish > 0.0 and room > 0.0:
            shares[:, kind] += free * min(1.0, room / wish)
    return shares
