"""Tables of docs pages, of what is sure: lower bounds (docs/bound.md), and verdicts on differences."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from page_tables import TableInputs, head, line
from page_traces import CLUSTERS, ORACLE, VENUS, WORST, at_speeds, parts
from ringbco.cluster.spec import Cluster
from ringbco.result.certainty import Held, Interval
from ringbco.result.comparison import Comparison
from ringbco.result.sentences import Pair, in_parts, share
from ringbco.run.bound import bound
from ringbco.run.compare import compare
from ringbco.run.replay import replay
from ringbco.trace.jobs import JobTable, from_frame
from ringbco.trace.synthetic import generate
from ringbco.units import rounded_down, rounded_up

# docs/bound.md


def meets(jobs: list[tuple[float, float]], slowdown: float) -> bool:
    """Whether jobs of (submission, run time), in that order, can all be done one at a time within `slowdown`
    times their run times: by earliest deadline first, which preempts at no cost."""
    open_jobs: list[tuple[float, float]] = []
    for (submitted, run), (until, _) in itertools.pairwise([*jobs, (math.inf, 0.0)]):
        heapq.heappush(open_jobs, (submitted + slowdown * run, run))
        now = submitted
        while open_jobs and now < until:
            deadline, left = heapq.heappop(open_jobs)
            done = now + left
            if done > until:
                heapq.heappush(open_jobs, (deadline, done - until))
            elif done > deadline + 1e-6:
                return False
            now = min(done, until)
    return True


def worst_slowdown_bound(jobs: pl.DataFrame, cluster: Cluster) -> float:
    """What the worst slowdown is at least under any policy: gangs of more than half of the GPUs run one at a
    time (docs/bound.md#slowdown). jobs: of a result."""
    bounds = [1.0]
    for own, gpus in parts(cluster, jobs):
        big = own.filter(2 * pl.col("num_gpus") > gpus).select("submit_time", "ideal_run_time")
        alone = sorted(big.iter_rows())
        low, high = 1.0, 2.0
        while not meets(alone, high):
            low, high = high, 2 * high
        while high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (low, middle) if meets(alone, middle) else (middle, high)
        bounds.append(math.floor(100 * low) / 100)
    return max(bounds)


def bounds(given: TableInputs) -> Iterator[str]:
    """A line a trace and speed. As SRTF does, repack knows the run times."""
    names = ("ideal run time, s", "bound, s", "jobs by term", "srtf, s", "srtf / bound", "repack, s")
    names += ("repack / bound", "repack, worst slowdown", "its bound")
    yield from head("trace", "links", "jobs", *names, words=2)
    for trace in given.some(CLUSTERS):
        jobs = given.jobs(trace)
        for speed, cluster in at_speeds(trace):
            result = bound(jobs, cluster, oversize="drop")
            first, packed = (
                replay(jobs, cluster, oversize="drop", **of) for of in ({"policy": "srtf"}, ORACLE)
            )
            ratios: list[str] = []
            for outcome in (first, packed):
                mean = outcome.summary["mean_jct"]
                ratios += [f"{mean:,.0f}", f"{rounded_up(mean / result.mean_jct, 4):.4f}"]
            ideal, terms = first.jobs["ideal_run_time"].mean(), result.set_jobs.values()
            yield line(
                trace, speed, f"{result.jobs:,}", f"{ideal:,.0f}", f"{rounded_down(result.mean_jct, 0):,.0f}",
                ", ".join(f"{count:,}" for count in terms), *ratios, f"{packed.summary[WORST]:,.2f}",
                f"{worst_slowdown_bound(packed.jobs, cluster):,.2f}",
            )  # fmt: skip


DELAYED: Final = {"repack, exact": ORACLE} | {name: {"policy": name} for name in ("srtf", "gittins", "fifo")}
"""Policies whose mean delay stands beside the least."""
LARGE: Final = 16
"""The servers of a cluster that is replayed on half of them, too."""


def delays(given: TableInputs) -> Iterator[str]:
    """A line a large cluster of one size of servers, all of them and half, and speed: the tight bound, and
    delays beyond the ideal run time."""
    names = ("jobs", "tight bound, s", "repack, exact / bound", "delay, at least, s")
    yield from head("trace", "servers", "links", *names, *(f"{name}, s" for name in DELAYED), words=3)
    large = [trace for trace, (group, *more) in CLUSTERS.items() if group.count >= LARGE and not more]
    for trace in given.some(large):
        jobs = given.jobs(trace)
        for speed, cluster in at_speeds(trace):
            for servers in (cluster.num_servers, cluster.num_servers // 2):
                on = Cluster(cluster.server_gpus[:servers], network=cluster.network)
                result = bound(jobs, on, oversize="drop", tight=True)
                means, ideal = {}, 0.0
                for name, of in DELAYED.items():
                    outcome = replay(jobs, on, oversize="drop", **of)
                    means[name] = outcome.summary["mean_jct"]
                    ideal = float(outcome.jobs["ideal_run_time"].mean())  # type: ignore[arg-type]
                yield line(
                    trace, servers, speed, f"{result.jobs:,}", f"{rounded_down(result.mean_jct, 0):,.0f}",
                    f"{rounded_up(means['repack, exact'] / result.mean_jct, 3):.3f}",
                    f"{rounded_down(result.mean_delay, 0):,.0f}",
                    *(f"{mean - ideal:,.0f}" for mean in means.values()),
                )  # fmt: skip


# docs/certainty.md

MEASURE: Final = "mean_jct"
TABLES: Final = 60
RUNS: Final = 6
ALIKE: Final = {name: {"policy": "fifo", "order": f"column:{name}"} for name in ("heads", "tails")}
"""Two orders by random numbers: one is as good as the other, and yet they differ on any table."""
FIRST_FRESH: Final = 1000
"""The least seed of the fresh tables, above those of the others."""
COMPARED: Final = (*(f"philly/{vc}" for vc in ("6214e9", "103959", "0e4a51", "2869ce", "e13805")), VENUS)


class Kind(NamedTuple):
    """Generated tables of a preset. jobs: enough for six weeks, but for `paper`, whose jobs all come at 0."""

    preset: str
    jobs: int
    gpus: int
    load: float = 0.8

    @property
    def cluster(self) -> str:
        return f"{self.gpus // 8}x8"


KINDS: Final = (Kind("philly", 12_000, 64), Kind("helios", 12_000, 128), Kind("paper", 160, 64))


def compared(jobs: JobTable, cluster: Cluster | str, **more: Any) -> Comparison:
    """sjf beside fifo."""
    return compare(jobs, cluster, ["fifo", "sjf"], seeds=RUNS, oversize="drop", allocations=False, **more)


def held(found: Comparison, label: str = "sjf", against: str | None = None) -> Held:
    """A mean held against fifo's, or another one's."""
    one = found.difference(label, MEASURE, against)
    assert one is not None
    return one


def pair(found: Comparison) -> Pair:
    """What words need to know of sjf against fifo."""
    return Pair("sjf", "fifo", next(row for row in found.rows if row.key == MEASURE), found.variation)


def cells(held: Held, words: Pair) -> Iterator[str]:
    """On these jobs, when moved, in six parts, the verdict, and what carries it."""
    yield words.off(held.ratio)
    yield words.range(held.interval or (1.0, 1.0), side=True)
    told = in_parts(words, held).partition(",")[0] if held.ratio == 1.0 else ""
    yield "-" if held.parts_range is None else told or in_parts(words, held)
    yield held.verdict or "-"
    if (result := held.carried) is None:
        yield "-"
    else:
        days = f"day{'s' * (len(result.days) > 1)} {', '.join(map(str, result.days))}: {share(result)}"
        yield days if result.without is None else f"{days}; without {words.off(result.without)}"


def certainty(given: TableInputs) -> Iterator[str]:
    """sjf held against fifo on traces."""
    yield "| trace | servers | on these jobs | when moved | in six parts | verdict | what carries it |"
    yield "| --- | ---: | --- | --- | --- | --- | --- |"
    for name in given.some(COMPARED, slice(-1, None)):
        groups, stem = CLUSTERS[name], name.rpartition("/")[2]
        result = compared(given.jobs(name), Cluster.from_groups(groups, name=stem))
        yield line(stem, " + ".join(f"{group.count}" for group in groups), *cells(held(result), pair(result)))


def alone(kind: Kind, seed: int) -> tuple[Held, Held]:
    """One table compared by itself: sjf against fifo, and of two alike orders one against the other."""
    frame, rng = generate(*kind[:2], seed, *kind[2:]).frame, np.random.default_rng(seed)
    frame = frame.with_columns(pl.Series(name, rng.random(kind.jobs)) for name in ALIKE)
    result = compared(from_frame(frame), kind.cluster, runs=ALIKE)
    return held(result), held(result, "tails", "heads")


def fresh(kind: Kind, number: int) -> tuple[list[Interval], list[list[float]]]:
    """Intervals over fresh tables, and what they are of: fifo's and sjf's mean, and the ratio of the two."""
    jobs = generate(*kind[:2], FIRST_FRESH + RUNS * number, *kind[2:])
    result = compared(jobs, kind.cluster, fresh=True)
    ends = [*(result.figure(label, MEASURE).interval for label in ("fifo", "sjf")), held(result).interval]
    values = [[float(one or 0.0) for one in result.values(label, MEASURE)] for label in ("fifo", "sjf")]
    values.append([one / other for other, one in zip(*values, strict=True)])
    known = [one for one in ends if one is not None]
    assert len(known) == len(values)
    assert min(map(min, known)) >= 0.0
    return known, values


def counted(kind: Kind, tables: int) -> str:
    """How often `apart in all parts` is wrong, and how often an interval of fresh tables holds the median of
    their kind."""
    differ, alike = zip(*(alone(kind, seed) for seed in range(tables)), strict=True)
    expected = median(one.ratio for one in differ)
    (parts, these), (false, chance) = (
        [sum(one.verdict == f"apart {where}" for one in pairs) for where in ("in all parts", "on these jobs")]
        for pairs in (differ, alike)
    )
    wrong = sum(
        one.verdict == "apart in all parts" and (one.ratio < 1.0) != (expected < 1.0) for one in differ
    )
    ends, values = zip(*(fresh(kind, number) for number in range(tables)), strict=True)
    medians = [median(one for table in values for one in table[number]) for number in range(3)]
    there = sum(low <= medians[number] <= high for table in ends for number, (low, high) in enumerate(table))
    asked = "" if kind.preset == "paper" else f" --gpus {kind.gpus} --load {kind.load}"
    return line(
        kind.preset, f"`--jobs {kind.jobs}{asked}`", kind.cluster, f"{parts}, {these}",
        f"{wrong} of {tables}", chance, f"{false} of {tables}",
        f"{there} of {3 * tables} ({100 * there / (3 * tables):.1f} %)",
    )  # fmt: skip


def generated(given: TableInputs, kinds: Sequence[Kind] = KINDS) -> Iterator[str]:
    """Of generated tables, of which the truth is known."""
    names = ("sjf, fifo: apart in all parts, on these jobs alone", "wrong", "alike: apart on these jobs")
    names += ("false: in all parts", "intervals of fresh tables that hold the median")
    yield from head("preset", "tables", "cluster", *names, words=3)
    tables = given.draws(TABLES)
    yield from (counted(kind, tables) for kind in given.some(kinds, slice(-1, None)))
