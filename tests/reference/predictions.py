"""The reference model of what `repack` predicts: docs/repack-reference.md, "Predicting".

One `Predictions` is about one (virtual) cluster. Everything is worked out from the list of the jobs that are
done, and from the counts that were taken of it now and then. Floats are added one by one, as the page does:
`sum` rounds in another way in newer Pythons.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

BINS = 260
EDGES = list(itertools.accumulate([1.08] * BINS, float.__mul__, initial=1.0))
"""Bin k is from EDGES[k] up to EDGES[k + 1]; but bin 0 is from 0."""
EDGES[0] = 0.0
MIDDLES = [(low + high) / 2 for low, high in itertools.pairwise(EDGES)]
LATEST = 40
"""Jobs of one user and size that count more."""
UNIT = 10_000.0
"""Seconds to which predictions in a column are scaled."""
FEWEST = 20
"""Completed jobs with a prediction before a column counts."""
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


def spread(numbers: Iterable[int]) -> int:
    """Their variance times the square of their number."""
    numbers = list(numbers)
    return len(numbers) * sum(number * number for number in numbers) - sum(numbers) ** 2


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
        predicted: Mapping[int, float] | None = None,
    ) -> None:
        """predicted: run times in a column, by row; None where the run has none."""
        self.predicted = predicted or {}
        scaled = [self.scaled(row, seconds) for row, seconds in enumerate(whole)]
        self.by_ratio = None if predicted is None else Predictions(submit, gpus, user, scaled)
        self.is_used = False
        """Whether the column tells more of the run times of completed jobs than these do."""
        self.submit, self.gpus, self.user, self.whole = submit, gpus, user, whole
        self.bins = [bin_of(seconds) for seconds in whole]
        self.done: list[int] = []
        """In order of completion."""
        self.counts: Counter[float | None] = Counter()
        """How many are done, by size; under None those of all sizes."""
        self.bins_of: dict[float | None, Counter[int]] = {None: Counter()}
        """How many of these are in each bin."""

    def news(self, completed: Iterable[int]) -> None:
        """At every completion, whether somebody waits or not."""
        rows = sorted(map(int, completed), key=lambda row: (self.submit[row], row))
        self.done += rows
        if self.by_ratio is not None:
            self.by_ratio.news(row for row in rows if row in self.predicted)

    def begin(self, left: dict[int, float]) -> None:
        """At the beginning of a pass. left: by row, of all that wait or run."""
        self.found: dict[tuple[str | None, float, int], float] = {}
        self.refresh()
        if self.by_ratio is not None:
            self.by_ratio.found = {}
            if self.by_ratio.refresh():
                rows = self.by_ratio.done
                narrower = spread(self.by_ratio.bins[row] for row in rows) < spread(
                    self.bins[row] for row in rows
                )
                self.is_used = len(rows) >= FEWEST and narrower
        self.see(left)

    def see(self, left: dict[int, float]) -> None:
        """What is left now."""
        self.progress = {row: self.whole[row] - time for row, time in left.items()}

    def refresh(self) -> bool:
        """Takes the counts anew if there is enough that is new; whether there is."""
        is_new = len(self.done) - self.counts[None] > self.counts[None] // 64
        if is_new:
            self.count()
        return is_new

    def scaled(self, row: int, seconds: float) -> float:
        """A time as a multiple of the prediction, as if that was `UNIT`."""
        return seconds / self.predicted[row] * UNIT if row in self.predicted else 0.0

    def count(self) -> None:
        """Takes the counts anew."""
        sizes = {None, *(self.gpus[row] for row in self.done)}
        alike = {size: [row for row in self.done if size in (None, self.gpus[row])] for size in sizes}
        self.counts = Counter({size: len(rows) for size, rows in alike.items()})
        self.bins_of = {size: Counter(self.bins[row] for row in rows) for size, rows in alike.items()}

    def left(self, row: int) -> float:
        """What is predicted to be left of a job, which waits or runs."""
        if self.by_ratio is not None and self.is_used and row in self.predicted:
            # As the page does: no float is negative here.
            progress = self.scaled(row, max(0.0, self.progress[row]))
            return self.by_ratio.index(row, progress) / UNIT * self.predicted[row]
        return self.index(row, self.progress[row])

    def index(self, row: int, progress: float) -> float:
        """That of a job with that progress."""
        user = None if self.user is None else self.user[row]
        gpus, own = self.gpus[row], bin_of(progress)
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
        own = [row for row in reversed(self.done) if (self.user[row], self.gpus[row]) == (user, gpus)]
        total, weight = 0.0, 1.0
        recent: Weights = {}
        for row in own[:LATEST]:
            recent[self.bins[row]] = recent.get(self.bins[row], 0.0) + weight
            total += weight
            weight *= 0.9
        if not own:
            return weights
        return {k: (recent.get(k, 0.0) + 3 * weights.get(k, 0.0)) / (total + 3) for k in {*weights, *recent}}
