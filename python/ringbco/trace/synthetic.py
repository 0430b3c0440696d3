"""Synthetic job tables shaped like Philly's, Helios', Acme's and the paper's jobs (docs/job-table.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.cluster.gpu_types import listed_types
from ringbco.cluster.network import Network
from ringbco.cluster.presets import PRESETS as CLUSTERS
from ringbco.cluster.presets import presets_like
from ringbco.errors import InputError, UsageError
from ringbco.io.forks import use_polars
from ringbco.trace import language_models
from ringbco.trace.elastic import SHARE, parse
from ringbco.trace.jobs import METADATA_PREFIX, JobTable, from_frame, provenance
from ringbco.trace.other_names import hint_at
from ringbco.trace.predictions import COLUMN, predicted, sigma_of
from ringbco.trace.profiles import iteration_time
from ringbco.trace.schema import MOST_SECONDS
from ringbco.trace.weeks import within_weeks

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EPOCH: Final = "2018-01-01T00:00:00+00:00"
"""Time zero of the daily and weekly cycles: a Monday's midnight."""

MAX_JOBS: Final = 100_000_000


@dataclass(frozen=True)
class Shape:
    """The figures a preset follows.

    sizes: share of the jobs by number of GPUs. median, mean, longest: of the run time in seconds; nothing
    runs longer than `longest`. growth: median run time grows as num_gpus to this power. vcs: GPUs of each
    virtual cluster. users: their number in a full trace. statuses: share by final status. burst: exponent
    of the number of jobs a user submits at once, P(at least k) = k ** -burst. same_second: share of a
    burst's jobs submitted in the same second as the one before by design; others follow by chance. part: no
    job asks for more than the GPUs of the cluster / part.
    """

    sizes: Mapping[int, float]
    median: float
    mean: float
    longest: float
    growth: float
    vcs: Mapping[str, int]
    users: int
    statuses: Mapping[str, float]
    burst: float
    same_second: float
    part: int = 10


def _vc_gpus(cluster: str) -> dict[str, int]:
    """GPUs of each virtual cluster of a preset cluster."""
    gpus: dict[str, int] = {}
    for group in CLUSTERS[cluster].servers:
        if group.vc is not None:
            gpus[group.vc] = gpus.get(group.vc, 0) + group.count * group.gpus
    return gpus


# Philly: sizes, run times and statuses are the public trace's; the longest run is the longest recorded.
# Helios: run times are Venus', the longest is the cap of the usual cleaning; sizes and statuses approximate
# figures of Hu et al., SC '21. llm: of Acme's Kalos in Hu et al., NSDI '24, the median run time, the shares
# of evaluation (here of 8 GPUs) and of pretraining (64 and more), and statuses; mean and growth are such that
# pretraining has nearly all GPU time, and few of its jobs last a day. Jobs fall to virtual clusters by their
# GPUs, so that the load is even over the preset cluster.
SHAPES: Final = {
    "philly": Shape(
        sizes={1: 87.0, 2: 2.3, 4: 4.8, 8: 4.9, 16: 0.7, 32: 0.2},
        median=874.0,
        mean=18_006.0,
        longest=5_196_151.0,
        growth=0.3,
        vcs=_vc_gpus("philly"),
        users=319,
        statuses={"Pass": 60, "Killed": 9, "Failed": 31},
        burst=1.3,
        same_second=0.01,
    ),
    "helios": Shape(
        sizes={1: 53.0, 2: 10.0, 4: 11.0, 8: 20.0, 16: 3.5, 32: 1.7, 64: 0.7, 128: 0.1},
        median=204.0,
        mean=13_041.0,
        longest=1_209_600.0,
        growth=0.3,
        vcs=_vc_gpus("helios-venus"),
        users=277,
        statuses={"COMPLETED": 62.0, "CANCELLED": 22.5, "FAILED": 15.0, "TIMEOUT": 0.3, "NODE_FAIL": 0.2},
        burst=1.2,
        same_second=0.17,
    ),
    "llm": Shape(
        sizes={8: 92.9, 16: 2.0, 32: 1.9, 64: 0.9, 128: 0.8, 256: 0.7, 512: 0.5, 1024: 0.3},
        median=120.0,
        mean=1_000.0,
        longest=2_592_000.0,
        growth=0.9,
        vcs={"kalos": 2_416},
        users=64,
        statuses={"COMPLETED": 53.0, "FAILED": 40.0, "CANCELLED": 7.0},
        burst=1.2,
        same_second=0.17,
        part=2,
    ),
}

PRESETS: Final = (*SHAPES, "paper")

# The paper's experiment (section V): 160 jobs, all at time 0, of 1 to 32 GPUs.
_PAPER_SIZES: Final = {1: 80, 2: 14, 4: 26, 8: 30, 16: 8, 32: 2}


def generate(  # noqa: PLR0917 - the options of the command
    preset: str,
    num_jobs: int,
    seed: int,
    gpus: int = 2048,
    load: float = 0.9,
    types: Mapping[str, float] | None = None,
    *,
    elastic: str | None = None,
    elastic_share: float = SHARE,
    predictions: str | None = None,
) -> JobTable:
    """A synthetic job table; the same arguments give the same table.

    `philly`, `helios`, `llm`: the first job comes at 0 and times are whole seconds. Arrivals are scaled so
    that the offered load is `load`. The offered load is sum(num_gpus * duration) / (last submission - first
    submission) / gpus; it is exact but for the rounding of that span to a whole second. No job asks for more
    than a tenth of `gpus`, under `llm` half: larger sizes are left out of the mix. `llm`: gangs of 8 GPUs and
    more, with the columns of their models (docs/job-table.md#language-models). `paper`: all jobs come at time
    0 in the paper's mix of sizes, with iterations, gradients and compute times; `gpus` and `load` do not
    matter.

    types: share of the jobs that ask for a GPU type, or for one of several, such as {"A100": 0.3,
    "V100|T4": 0.2}; the others may run on any. Each share is met exactly, to a job, by jobs drawn at random;
    the other columns are what they are without.

    elastic: LOW:HIGH, such as "0.5:2", to let a share of the jobs, `elastic_share`, hold from half to twice
    of num_gpus, with noise scales of a catalogue (docs/noise-scales.md); None for rigid jobs.

    predictions: sigma=S for a column `predicted`, the duration times a lognormal factor; None for none.

    Raises UsageError for an unknown preset or a number out of range.
    """
    use_polars()
    elastic_rule = None if elastic is None else parse(elastic, share=elastic_share, seed=seed)
    sigma = None if predictions is None else sigma_of(predictions)
    if preset not in PRESETS:
        hint = hint_at(preset, PRESETS)
        if not hint:  # venus, say, is a cluster of helios
            meant = {cluster.split("-")[0] for cluster in presets_like(preset)} & {*PRESETS}
            hint = f"; did you mean {min(meant)}?" if len(meant) == 1 else ""
        raise UsageError(f"preset {preset!r}: expected one of {', '.join(PRESETS)}{hint}")
    for name, value, low, high in (
        ("jobs", num_jobs, 1, MAX_JOBS),
        ("seed", seed, 0, 2**64 - 1),
        ("gpus", gpus, 10, 2**24),
    ):
        if not low <= value <= high:
            raise UsageError(f"option {name}: {value}: expected an integer from {low} to {high}")
    if not 0 < load < math.inf:
        raise UsageError(f"option load: {load}: expected a finite number > 0")
    types = _checked(types or {})
    rng = np.random.Generator(np.random.PCG64(seed))
    options: dict[str, object] = {"preset": preset, "jobs": num_jobs, "seed": seed}
    if preset == "paper":
        columns = _paper(num_jobs, rng)
    else:
        columns = _trace(SHAPES[preset], num_jobs, gpus, load, rng)
        options |= {"gpus": gpus, "load": load}
    if preset == "llm":
        columns |= language_models.columns(columns["num_gpus"].to_numpy().astype(np.int64), rng)
    if types:
        columns["gpu_type"] = _asked(types, num_jobs, seed)
        # A list: the order counts.
        options["types"] = [[name, share] for name, share in types.items()]
    ids = pl.select((preset + "-") + pl.int_range(num_jobs, dtype=pl.Int64).cast(pl.String)).to_series()
    frame = pl.DataFrame({"job_id": ids, **columns})
    if elastic_rule is not None:
        frame, _ = elastic_rule.apply(frame)
        options |= {"elastic": elastic_rule.text, "elastic_share": elastic_rule.share}
    if sigma is not None:
        durations = frame["duration"].cast(pl.Float64).to_numpy()
        frame = frame.with_columns(pl.Series(COLUMN, predicted(durations, sigma, seed)))
        options["predictions"] = f"sigma={sigma:g}"
    return from_frame(
        frame,
        source=f"generated {preset}",
        metadata=provenance(
            f"synthetic {preset}", converter="generate", rows_read=num_jobs, epoch=EPOCH, options=options
        ),
    )


def again(table: JobTable, number: int) -> JobTable:
    """Jobs made as those of a generated table were, with its seed raised by `number`.

    Raises InputError where the footer does not tell how the table was made.
    """
    try:
        options = json.loads(table.metadata[f"{METADATA_PREFIX}options"])
        types = options.pop("types", None)
        preset, jobs, seed = (options.pop(name) for name in ("preset", "jobs", "seed"))
        made = generate(preset, jobs, seed + number, types=types and dict(types), **options)
    except (KeyError, ValueError, TypeError, AttributeError, UsageError) as error:
        raise InputError(
            f"expected a footer that tells how generate made the table ({error})",
            file=table.source,
            hint=_KEEP,
        ) from None
    return replace(made, source=f"{table.source}, made anew with its seed raised by {number}")


def check_generated(table: JobTable) -> None:
    """Raises InputError unless a table is what its footer says that `generate` made."""
    # A column may have been left out that no replay reads.
    made = again(table, 0).frame
    if not set(table.frame.columns) <= set(made.columns) or not made[table.frame.columns].equals(table.frame):
        raise InputError(
            "is not what its footer says that generate made: it was changed, or made by another version",
            file=table.source,
            hint=_KEEP,
        )


_KEEP: Final = "leave --fresh out: its submissions are then moved by under a minute"
Columns = dict[str, pl.Series]


def _checked(types: Mapping[str, float]) -> dict[str, float]:
    """The shares of the types that jobs ask for. Raises UsageError for names or shares that are none."""
    for name, share in types.items():
        if not listed_types(name):
            raise UsageError(f"option types: {name!r}: expected the name of a GPU type")
        if not 0 < share <= 1:
            raise UsageError(f"option types: {name}: {share}: expected a share above 0 and at most 1")
    if math.fsum(types.values()) > 1 + 1e-9:
        raise UsageError(f"option types: shares of {math.fsum(types.values()):g} in all: expected at most 1")
    return dict(types)


def _asked(types: Mapping[str, float], num_jobs: int, seed: int) -> pl.Series:
    """The types that each job asks for, null for any, from random numbers of their own."""
    rest = max(0.0, 1.0 - math.fsum(types.values()))
    counts = _quota(num_jobs, (*types.values(), rest))
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    dealt = rng.permutation(np.repeat(np.arange(counts.size), counts))
    names = ["|".join(listed_types(name)) for name in types]
    return pl.Series([*names, None], dtype=pl.String).gather(dealt)


def _trace(shape: Shape, num_jobs: int, gpus: int, load: float, rng: np.random.Generator) -> Columns:
    """A trace-like table. Jobs come in bursts: mostly one vc, one user, one size, close in time."""
    sizes = {size: share for size, share in shape.sizes.items() if shape.part * size <= gpus}
    if not sizes:
        raise UsageError(f"option gpus: {gpus}: expected an integer from {shape.part * min(shape.sizes)}")
    burst_of, leads = _bursts(num_jobs, shape.burst, rng)
    num_gpus = _deal(np.array(list(sizes)), _quota(num_jobs, sizes.values()), burst_of, rng)
    vc = _deal(np.arange(len(shape.vcs)), _quota(num_jobs, shape.vcs.values()), burst_of, rng)
    # What does not fit in its virtual cluster belongs to the largest one.
    vc_gpus = np.array(list(shape.vcs.values()))
    vc[num_gpus > vc_gpus[vc]] = vc_gpus.argmax()
    user = _users(shape, num_jobs, vc, burst_of, rng)
    duration = _durations(shape, sizes, num_gpus, user, burst_of, rng)
    work = float((num_gpus * duration).sum())
    span = work / (gpus * load)
    if span > MOST_SECONDS:
        least = work / (gpus * MOST_SECONDS)
        raise UsageError(
            f"option load: {load}: expected at least {least:.2g}, at which jobs come in {MOST_SECONDS:.0e} s"
        )
    submit = _arrivals(shape, span, burst_of, leads, rng)
    status = rng.choice(len(shape.statuses), num_jobs, p=_shares(shape.statuses.values()))
    order = np.argsort(submit, kind="stable")
    return {
        "user": _named(user[order], [f"u{number:03}" for number in range(int(user.max()) + 1)]),
        "vc": _named(vc[order], list(shape.vcs)),
        "submit_time": pl.Series(submit[order]),
        "num_gpus": pl.Series(num_gpus[order], dtype=pl.UInt32),
        "duration": pl.Series(duration[order].astype(np.float64)),
        "status": _named(status[order], list(shape.statuses)),
    }


def _named(index: Integers, names: list[str]) -> pl.Series:
    return pl.Series(names, dtype=pl.String).gather(index)


def _shares(weights: object) -> Floats:
    values = np.array(list(weights), dtype=np.float64)  # type: ignore[call-overload]
    shares: Floats = values / values.sum()
    return shares


def _quota(total: int, weights: object) -> Integers:
    """`total` divided in the ratio of the weights, by largest remainder."""
    exact = _shares(weights) * total
    counts = np.floor(exact).astype(np.int64)
    largest = np.argsort(counts - exact, kind="stable")[: total - int(counts.sum())]
    counts[largest] += 1
    return counts


def _bursts(num_jobs: int, exponent: float, rng: np.random.Generator) -> tuple[Integers, NDArray[np.bool_]]:
    """The burst of each job, ascending from 0, and whether the job opens it.

    A burst has k jobs or more with probability k ** -exponent, and never more than a twentieth of all jobs.
    """
    longest = max(1, min(500, num_jobs // 20))
    lengths = np.empty(0, dtype=np.int64)
    while lengths.sum() < num_jobs:
        drawn = np.floor((1.0 - rng.random(num_jobs // 2 + 16)) ** (-1.0 / exponent))
        lengths = np.concatenate([lengths, np.minimum(drawn, longest).astype(np.int64)])
    burst_of = np.repeat(np.arange(lengths.size), lengths)[:num_jobs]
    leads = np.diff(burst_of, prepend=-1) > 0
    return burst_of, leads


def _deal(values: Integers, counts: Integers, burst_of: Integers, rng: np.random.Generator) -> Integers:
    """Each value as often as counted; the bursts, in random order, take runs of equal values in turn."""
    places = rng.permutation(int(burst_of[-1]) + 1)
    dealt = np.empty(burst_of.size, dtype=np.int64)
    dealt[np.argsort(places[burst_of], kind="stable")] = np.repeat(values, counts)
    return dealt


def _users(
    shape: Shape, num_jobs: int, vc: Integers, burst_of: Integers, rng: np.random.Generator
) -> Integers:
    """Each job's user: those of a vc are its own, and submit bursts by Zipf's law."""
    in_all = max(len(shape.vcs), min(shape.users, num_jobs // 40))
    each = np.maximum(1, _quota(in_all, shape.vcs.values()))
    first = np.cumsum(each) - each
    draw = rng.random(int(burst_of[-1]) + 1)[burst_of]
    user = np.empty(num_jobs, dtype=np.int64)
    for number, (count, base) in enumerate(zip(each.tolist(), first.tolist(), strict=True)):
        own = vc == number
        cumulated = np.cumsum(_shares(np.arange(1.0, count + 1) ** -1.2))
        user[own] = base + np.minimum(np.searchsorted(cumulated, draw[own], side="right"), count - 1)
    return user


def _durations(  # noqa: PLR0917 - what it draws from and what it draws for
    shape: Shape,
    sizes: Mapping[int, float],
    num_gpus: Integers,
    user: Integers,
    burst_of: Integers,
    rng: np.random.Generator,
) -> Integers:
    """Run times in whole seconds: per size a truncated log-normal, alike within a user and within a burst.

    The likeness is by rank alone, so the distribution of each size is what it would be for independent jobs.
    """
    base, sigma = fit_durations(shape, sizes)
    rank_by = (
        0.6 * rng.standard_normal(int(user.max()) + 1)[user]
        + 0.6 * rng.standard_normal(int(burst_of[-1]) + 1)[burst_of]
        + 0.53 * rng.standard_normal(num_gpus.size)
    )
    duration = np.empty(num_gpus.size, dtype=np.int64)
    for size in sizes:
        rows = np.flatnonzero(num_gpus == size)
        limit = math.log(shape.longest / (base * size**shape.growth)) / sigma
        normal = rng.standard_normal(rows.size)
        while (beyond := np.flatnonzero(normal > limit)).size:
            normal[beyond] = rng.standard_normal(beyond.size)
        seconds = np.exp(np.sort(normal) * sigma) * (base * size**shape.growth)
        duration[rows[np.argsort(rank_by[rows], kind="stable")]] = np.maximum(1, np.rint(seconds))
    return duration


def fit_durations(shape: Shape, sizes: Mapping[int, float]) -> tuple[float, float]:
    """Median run time of one GPU (seconds) and sigma of the logarithm that give the shape's median and mean.

    Run times of s GPUs are log-normal about base * s ** growth, truncated at `longest`. Two nested
    bisections: the base for the median, sigma for the mean.
    """
    shares = list(zip(_shares(sizes.values()).tolist(), sizes, strict=True))

    def cumulated(log_value: float, log_base: float, sigma: float) -> float:
        total = 0.0
        for share, size in shares:
            middle = log_base + shape.growth * math.log(size)
            within = _normal((math.log(shape.longest) - middle) / sigma)
            total += share * _normal((log_value - middle) / sigma) / within
        return total

    def base_for(sigma: float) -> float:
        low, high = math.log(shape.median) - 10.0, math.log(shape.median) + 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (
                (middle, high) if cumulated(math.log(shape.median), middle, sigma) > 0.5 else (low, middle)
            )
        return low

    def mean_for(sigma: float, log_base: float) -> float:
        total = 0.0
        for share, size in shares:
            middle = log_base + shape.growth * math.log(size)
            room = (math.log(shape.longest) - middle) / sigma
            total += share * math.exp(middle + sigma * sigma / 2) * _normal(room - sigma) / _normal(room)
        return total

    low, high = 0.5, 4.5
    for _ in range(60):
        sigma = (low + high) / 2
        low, high = (sigma, high) if mean_for(sigma, base_for(sigma)) < shape.mean else (low, sigma)
    return math.exp(base_for(low)), low


def _normal(x: float) -> float:
    """The standard normal distribution function."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _arrivals(
    shape: Shape, span: float, burst_of: Integers, leads: NDArray[np.bool_], rng: np.random.Generator
) -> Floats:
    """Submission times in whole seconds from 0 to `span` inclusive, bursts opening by the weekly cycle."""
    if burst_of.size == 1:
        return np.zeros(1)
    opening = within_weeks(rng.random(int(burst_of[-1]) + 1), span)
    gaps = np.exp(1.2 * rng.standard_normal(burst_of.size)) * 6.0
    gaps[rng.random(burst_of.size) < shape.same_second] = 0.0
    gaps[leads] = 0.0
    elapsed = np.cumsum(np.floor(gaps))
    since_opening = elapsed - elapsed[leads][burst_of]
    # Whole seconds already here, so that a gap of 0 stays a shared second whatever the stretch below.
    times = np.mod(np.floor(opening)[burst_of] + since_opening, max(span, 1.0))
    low, high = times.min(), times.max()
    last = max(1.0, np.rint(span))
    if high == low:
        times = np.where(np.arange(times.size) == times.size - 1, last, 0.0)
        low, high = 0.0, last
    submit: Floats = np.rint((times - low) * (last / (high - low)))
    return submit


def _paper(num_jobs: int, rng: np.random.Generator) -> Columns:
    """The paper's experiment: on one server, tau in [0.01, 0.05] s and F tau in [50, 300] s."""
    num_gpus = np.repeat(np.array(list(_PAPER_SIZES)), _quota(num_jobs, _PAPER_SIZES.values()))
    num_gpus = rng.permutation(num_gpus).astype(np.uint32)
    iterations, tau = _paper_run_times(num_jobs, rng)
    gradient_bytes = rng.uniform(1e6, 30e6, num_jobs)
    one_server, network = np.ones(num_jobs, dtype=np.uint32), Network()
    ring = iteration_time(num_gpus, gradient_bytes, np.zeros(num_jobs), one_server, network)
    batch_size = rng.choice(np.array([16, 32, 64, 128], dtype=np.uint32), num_jobs)
    # A backward pass takes about twice as long as a forward pass.
    fp_time, bp_time = (tau - ring) / 3.0 / batch_size, (tau - ring) * (2.0 / 3.0)
    tau = iteration_time(num_gpus, gradient_bytes, fp_time * batch_size + bp_time, one_server, network)
    user = np.minimum(rng.zipf(1.6, num_jobs) - 1, 19)
    return {
        "user": _named(user, [f"u{number:03}" for number in range(20)]),
        "vc": pl.Series(["paper"] * num_jobs),
        "submit_time": pl.Series(np.zeros(num_jobs)),
        "num_gpus": pl.Series(num_gpus),
        "duration": pl.Series(iterations * tau),
        "iterations": pl.Series(iterations, dtype=pl.UInt64),
        "gradient_bytes": pl.Series(gradient_bytes),
        "batch_size": pl.Series(batch_size),
        "fp_time": pl.Series(fp_time),
        "bp_time": pl.Series(bp_time),
    }


def _paper_run_times(num_jobs: int, rng: np.random.Generator) -> tuple[Integers, Floats]:
    """F and tau, drawn again together until their product is at least 50 (it cannot exceed 300)."""
    iterations = rng.integers(1000, 6001, num_jobs)
    tau = rng.uniform(0.01, 0.05, num_jobs)
    while (short := np.flatnonzero(iterations * tau < 50.0)).size:
        iterations[short] = rng.integers(1000, 6001, short.size)
        tau[short] = rng.uniform(0.01, 0.05, short.size)
    return iterations, tau
