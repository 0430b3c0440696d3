"""The reference model of what `repack` predicts: docs/repack-reference.md, "Predicting".

One `Predictions` is about one (virtual) cluster. Everything is worked out from the list of the jobs that are
done, and from the counts that were taken of it now and then. Floats are added one by one, as the page does:
`sum` rounds in another way in newer Pythons.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

BINS = 260
EDGES = list(itertools.accumulate([1.08] * BINS, float.__mul__, initial=1.0))
"""Bin k is from EDGES[k] up to EDGES[k + 1]; but bin 0 is from 0."""
EDGES[0] = 0.0
MIDDLES = [(low + high) / 2 for low, high in itertools.pairwise(EDGES)]
LATEST = 40
"""Jobs of one user and size that count more."""
Weights = dict[int, float]


def bin_of(seconds: float) -> int:
    return min(max(bisect.bisect_right(EDGES, seconds) - 1, 0), BINS - 1)  # progress may be rounded below 0


def gittins(weights: Weights, own: int) -> float:
    """The index, as a time, of a job whose progress is in the bin `own`."""
    gone = EDGES[own]
    ahead = [(weights[k], MIDDLES[k] - gone) for k in range(own, BINS) if weights.get(k)]
    everybody = 0.0
    for weight, _ in ahead:
        everybody += weight
    done = spent = 0.0
    means = []
    for weight, left in ahead:
        done += weight
        spent += weight * left
        means.append((spent + (everybody - done) * left) / done)
    return min(means, default=gone)


class Predictions:
    """What is known of the run times of one (virtual) cluster's jobs.

    submit, gpus, user: of the job table, by row; user is None where it names none. whole: S by row; asked of
    jobs that are done, and for the progress of others.
    """

    def __init__(
        self,
        submit: Sequence[float],
        gpus: Sequence[float],
        user: Sequence[str | None] | None,
        whole: Sequence[float],
    ) -> None:
        self.submit, self.gpus, self.user, self.whole = submit, gpus, user, whole
        self.bins = [bin_of(seconds) for seconds in whole]
        self.done: list[int] = []
        """In order of completion."""
        self.done_of: dict[tuple[str | None, float], list[int]] = {}
        """The same of each user and size."""
        self.counts: Counter[float | None] = Counter()
        """How many are done, by size; under None those of all sizes."""
        self.bins_of: dict[float | None, Counter[int]] = {None: Counter()}
        """How many of these are in each bin."""

    def news(self, completed: Iterable[int]) -> None:
        """At every completion, whether somebody waits or not."""
        for row in sorted(map(int, completed), key=lambda row: (self.submit[row], row)):
            self.done.append(row)
            user = None if self.user is None else self.user[row]
            self.done_of.setdefault((user, self.gpus[row]), []).append(row)

    def begin(self, left: dict[int, float]) -> None:
        """At the beginning of a pass. left: by row, of all that wait or run."""
        if len(self.done) - self.counts[None] > self.counts[None] // 64:
            self.count()
        self.progress = {row: self.whole[row] - time for row, time in left.items()}
        self.found: dict[tuple[str | None, float, int], float] = {}

    def count(self) -> None:
        """Takes the counts anew."""
        sizes = {None, *(self.gpus[row] for row in self.done)}
        alike = {size: [row for row in self.done if size in (None, self.gpus[row])] for size in sizes}
        self.counts = Counter({size: len(rows) for size, rows in alike.items()})
        self.bins_of = {size: Counter(self.bins[row] for row in rows) for size, rows in alike.items()}

    def left(self, row: int) -> float:
        """What is predicted to be left of a job, which waits or runs."""
        user = None if self.user is None else self.user[row]
        gpus, own = self.gpus[row], bin_of(self.progress[row])
        if (user, gpus, own) not in self.found:  # during a pass nothing of it changes
            self.found[user, gpus, own] = gittins(self.weights(user, gpus), own)
        return self.found[user, gpus, own]

    def weights(self, user: str | None, gpus: float) -> Weights:
        """By bin; a bin that is not there has none."""
        everybody, n = self.counts[None], self.counts[gpus]
        alike = self.bins_of.get(gpus, Counter())
        weights = {
            k: (alike[k] + 10 * count / everybody) / (n + 10) for k, count in self.bins_of[None].items()
        }
        if self.user is None:
            return weights
        own = self.done_of.get((user, gpus), [])
        total, weight = 0.0, 1.0
        recent: Weights = {}
        for row in own[: -LATEST - 1 : -1]:
            recent[self.bins[row]] = recent.get(self.bins[row], 0.0) + weight
            total += weight
            weight *= 0.9
        if not own:
            return weights
        return {k: (recent.get(k, 0.0) + 3 * weights.get(k, 0.0)) / (total + 3) for k in {*weights, *recent}}
