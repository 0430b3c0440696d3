"""How often intervals from resampled days hold the truth, where the truth is known (docs/intervals.md).

`python benches/interval_coverage.py` simulates traces of 4, 12 and 26 weeks of a small cluster: six queues
with a server each, in order of arrival, as virtual clusters are. Submissions have daily and weekly cycles,
days are busy or quiet, and users submit several jobs at once. From each trace alone an interval is made as
`compare --resample` does, by the same code. The truth is the mean of the figure over all simulated traces
of that length. --traces 2000 takes some minutes a kind of trace; the default is short.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringbco.result.seeds import Drawn, over_seeds, paired
from ringbco.trace.resample import DAY, WEEK, redrawn

Floats = NDArray[np.float64]
Figures = Mapping[str, Sequence[float]]
WEEKS: Final = (4, 12, 26)
_HOURS: Final = np.array(
    (5, 4, 3, 3, 3, 3, 4, 5, 7, 10, 13, 13, 9, 11, 14, 14, 14, 13, 10, 9, 10, 10, 9, 7.0)
)
_QUEUES: Final = 6
_A_DAY: Final = 120  # jobs, in the mean of weekdays
_WEEKEND: Final = 0.55
_SPREAD: Final = 0.3  # of the logarithm of a day's rate
_FASTER: Final = 1.05
_DIFFERENCE: Final = "mean completion time, 5 % faster servers against these (paired)"


class Kind(NamedTuple):
    """What is simulated.

    load: of the servers. sigma: of the logarithm of the run times; Philly's is about 2.46. lasting: how much
    of a day's level (the logarithm of its rate) the next day keeps. block: mean length of a block, days.
    figures: those told.
    """

    figures: tuple[str, ...]
    load: float = 0.4
    sigma: float = 1.0
    lasting: float = 0.0
    block: float = 1.0


KINDS: Final = {
    "a light load": Kind(
        ("mean run time", "mean completion time", "mean waiting time", "p90 waiting time", _DIFFERENCE)
    ),
    "load .7": Kind(("mean completion time", "mean waiting time"), load=0.7),
    "busy days follow each other": Kind(("mean completion time",), lasting=0.5),
    "the same, blocks of 3 days": Kind(("mean completion time",), lasting=0.5, block=3.0),
    "heavy tails": Kind(("mean run time", "mean waiting time"), sigma=2.46),
}


class Trace(NamedTuple):
    """Submission times, ascending, seconds of work and the queue of each job."""

    submit: Floats
    work: Floats
    queue: NDArray[np.int64]


def simulated(weeks: int, kind: Kind, rng: np.random.Generator) -> Trace:
    """A trace of that kind."""
    days = weeks * WEEK
    level = rng.standard_normal(days)
    for day in range(1, days):
        level[day] = kind.lasting * level[day - 1] + math.sqrt(1 - kind.lasting**2) * level[day]
    rate = np.exp(_SPREAD * level - _SPREAD**2 / 2) * np.where(np.arange(days) % WEEK < 5, 1.0, _WEEKEND)
    of_day = np.repeat(np.arange(days), rng.poisson(rate * _A_DAY / 2))
    hour = rng.choice(24, of_day.size, p=_HOURS / _HOURS.sum())
    begin = of_day * DAY + (hour + rng.random(of_day.size)) * 3600.0
    # Two jobs at once in the mean, alike in their run times, of one queue.
    jobs = rng.geometric(0.5, of_day.size)
    common = rng.standard_normal(of_day.size)
    normal = math.sqrt(0.5) * (np.repeat(common, jobs) + rng.standard_normal(int(jobs.sum())))
    mean = kind.load * _QUEUES * DAY / (_A_DAY * (5 + 2 * _WEEKEND) / WEEK)
    work = np.exp(kind.sigma * normal - kind.sigma**2 / 2) * mean
    submit, queue = np.repeat(begin, jobs), np.repeat(rng.integers(_QUEUES, size=of_day.size), jobs)
    order = np.argsort(submit, kind="stable")
    return Trace(submit[order], work[order], queue[order])


def waits(trace: Trace, speed: float = 1.0) -> Floats:
    """Seconds that each job waits for its server (Lindley's recursion, all of a queue at once)."""
    waited = np.empty(trace.submit.size)
    for queue in range(_QUEUES):
        own = np.flatnonzero(trace.queue == queue)
        steps = np.cumsum(trace.work[own[:-1]] / speed - np.diff(trace.submit[own]))
        steps = np.concatenate([[0.0], steps])
        waited[own] = steps - np.minimum.accumulate(steps)
    return waited


def _figures(trace: Trace) -> dict[str, float]:
    wait = waits(trace)
    return {
        "mean run time": float(trace.work.mean()),
        "mean completion time": float((wait + trace.work).mean()),
        "mean waiting time": float(wait.mean()),
        "p90 waiting time": float(np.percentile(wait, 90)),
        _DIFFERENCE: float((waits(trace, _FASTER) + trace.work / _FASTER).mean()),
    }


def _told(values: Figures, title: str, drawn: Drawn) -> tuple[float, float]:
    """The interval of a figure of these values, one of the trace and then one a draw."""
    if title == _DIFFERENCE:
        difference = paired(values[title], values["mean completion time"], drawn)
        assert difference is not None
        assert difference.interval is not None
        return difference.interval
    told = over_seeds(values[title], drawn)
    assert told is not None
    assert told.interval is not None
    return told.interval


def held(kind: Kind, weeks: int, traces: int, draws: int, seed: int) -> list[tuple[float, float]]:
    """For each figure the share of the traces whose interval holds the truth, and half its width."""
    drawn = Drawn("resampled", weeks=float(weeks), block=kind.block)
    own: dict[str, list[float]] = {}
    intervals: dict[str, list[tuple[float, float]]] = {title: [] for title in kind.figures}
    for number in range(traces):
        rng = np.random.default_rng([seed, weeks, number])
        trace = simulated(weeks, kind, rng)
        values = {title: [value] for title, value in _figures(trace).items()}
        for _ in range(draws):
            rows, times, _blocks = redrawn(trace.submit, rng, kind.block)
            for title, value in _figures(Trace(times, trace.work[rows], trace.queue[rows])).items():
                values[title].append(value)
        for title, those in values.items():
            own.setdefault(title, []).append(those[0])
        for title in kind.figures:
            intervals[title].append(_told(values, title, drawn))
    truths = {title: math.fsum(values) / traces for title, values in own.items()}
    truths[_DIFFERENCE] = truths[_DIFFERENCE] / truths["mean completion time"] - 1.0
    found = []
    for title in kind.figures:
        low, high = np.array(intervals[title]).T
        truth = truths[title]
        found.append(
            (float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean() / 2 / abs(truth)))
        )
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=50)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(f"{given.traces:,} traces, {given.draws} draws of each: coverage (half width over the truth)\n")
    print("| traces | figure | " + " | ".join(f"{weeks} weeks" for weeks in WEEKS) + " |")
    print("| --- | --- |" + " --- |" * len(WEEKS))
    for name, kind in KINDS.items():
        columns = [held(kind, weeks, given.traces, given.draws, given.seed) for weeks in WEEKS]
        for title, cells in zip(kind.figures, zip(*columns, strict=True), strict=True):
            told = " | ".join(f"{share:.1%} (± {width:.0%})" for share, width in cells)
            print(f"| {name} | {title} | {told} |", flush=True)


if __name__ == "__main__":
    main()
