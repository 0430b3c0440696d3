"""What repack predicts to be left of a job from the jobs that are done (docs/repack.md, "Predicting")."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from judge.deciding import UnclearError

BINS: Final = 260
EDGES: Final = [0.0, *list(accumulate([1.08] * BINS, float.__mul__, initial=1.0))[1:]]
"""Bin k is from the k-th edge up to the next."""
MIDDLES: Final = [(low + high) / 2.0 for low, high in pairwise(EDGES)]
EVERY: Final = 64
"""Counts are taken anew once a part in so many of them is new."""
LATEST: Final = 40
"""Jobs of one user and size that count more."""
ROUNDING: Final = 1e-12
"""A time this close to an edge, relative, may be in either bin."""
Weights = dict[int, float]


def bin_of(seconds: float) -> int:
    """The bin of a time. Unclear where rounding decides."""
    at = bisect_right(EDGES, seconds)
    for edge in EDGES[max(1, at - 1) : at + 1]:
        if 0.0 < abs(seconds - edge) <= ROUNDING * edge:
            raise UnclearError
    return min(max(at - 1, 0), BINS - 1)  # progress may be rounded below 0


def index(weights: Weights, own: int) -> float:
    """The least mean time for a completion, of a job whose progress is in the bin `own`."""
    gone = EDGES[own]
    ahead = [(weights[k], MIDDLES[k] - gone) for k in sorted(weights) if k >= own and weights[k]]
    everybody, done, spent, least = 0.0, 0.0, 0.0, None
    for weight, _ in ahead:  # `sum` rounds in another way in newer Pythons
        everybody += weight
    for weight, left in ahead:
        done += weight
        spent += weight * left
        mean = (spent + (everybody - done) * left) / done
        least = mean if least is None else min(least, mean)
    return gone if least is None else least


class Predictor:
    """Of one (virtual) cluster. user: of each job; None where none is named.

    done: size and bin of those that completed. latest: of a user and size, in order. counted: of how many the
    counts are, at each size, under None of all. unsure: whether it is not known when they were taken.
    """

    def __init__(self, submit: Sequence[float], user: Sequence[str | None] | None) -> None:
        self.submit, self.user = submit, user
        self.done: list[tuple[int, int]] = []
        self.latest: dict[tuple[str | None, int], list[tuple[float, float, int, int]]] = {}
        self.counted: Counter[int | None] = Counter()
        self.bins: dict[int | None, Counter[int]] = {None: Counter()}
        self.unsure = False
        self.found: dict[tuple[str | None, int, int], float] = {}

    def completed(self, time: float, job: int, size: int, whole: float) -> None:
        """A job is done."""
        try:
            own = bin_of(whole)
        except UnclearError:
            own, self.unsure = 0, True
        self.done.append((size, own))
        user = None if self.user is None else self.user[job]
        insort(self.latest.setdefault((user, size), []), (time, self.submit[job], job, own))

    def is_due(self) -> bool:
        """Whether counts are taken anew if a pass begins now."""
        return len(self.done) - self.counted[None] > self.counted[None] // EVERY

    def begin(self) -> None:
        """A pass begins."""
        self.found.clear()
        if self.is_due():
            sizes = Counter[int | None](size for size, _ in self.done)
            self.counted = sizes + Counter({None: len(self.done)})
            self.bins = {size: Counter() for size in self.counted}
            for size, own in self.done:
                self.bins[size][own] += 1
                self.bins[None][own] += 1

    def passed(self) -> None:
        """There may have been a pass that nobody followed, of which hangs when counts are taken anew."""
        self.unsure |= len(self.done) >= EVERY - 1

    def left(self, job: int, size: int, progress: float) -> float:
        """What is predicted to be left, s. Unclear where the counts may be others."""
        if self.unsure:
            raise UnclearError
        user = None if self.user is None else self.user[job]
        key = user, size, bin_of(progress)
        if key not in self.found:
            self.found[key] = index(self._weights(user, size), key[2])
        return self.found[key]

    def _weights(self, user: str | None, size: int) -> Weights:
        everybody, n = self.counted[None], self.counted[size]
        alike = self.bins.get(size, Counter())
        weights = {
            k: (alike[k] + 10.0 * count / everybody) / (n + 10.0) for k, count in self.bins[None].items()
        }
        recent: Weights = {}
        known = self.latest.get((user, size))
        if self.user is None or not known:
            return weights
        total, weight = 0.0, 1.0
        for *_, k in reversed(known[-LATEST:]):
            recent[k] = recent.get(k, 0.0) + weight
            total += weight
            weight *= 0.9
        return {
            k: (recent.get(k, 0.0) + 3.0 * weights.get(k, 0.0)) / (total + 3.0)
            for k in weights.keys() | recent.keys()
        }
