"""What a run's decisions will take at least, and the refusal of one that would take hours.

A policy that decides at rounds, quanta or intervals decides as often as they fit in the time in which there
are jobs; what a decision costs grows with the jobs that it looks at. The rule, and how far the estimate may
be off, are in docs/reliability.md#runs-that-would-take-hours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ringbco.errors import UsageError
from ringbco.run.custom_policy import CustomPolicy, RankPolicy
from ringbco.run.options import Policy, is_log
from ringbco.run.outage_draws import MOST_OUTAGES, as_draw, failures_until, is_draw, servers_of
from ringbco.run.refusals import uses, waking
from ringbco.run.registry import BUILT_IN
from ringbco.trace.jobs import gpus_of
from ringbco.trace.searches import NO_SEARCH
from ringbco.trace.shares import asked_gpus

if TYPE_CHECKING:
    from ringbco.trace.workload import Workload

Floats = NDArray[np.float64]

MOST_PASSES: Final = 50_000_000
"""Decisions of one run, each of which may leave a stay of every running job in memory."""
MOST_SECONDS: Final = 600.0
"""What the decisions of a run may take by the estimate, which is a low one."""
MOST_BYTES: Final = 16e9
"""What the stays of a run may take of memory by the estimate, which is a low one."""
_STRETCH: Final = 150.0
"""Bytes that a stay takes at least, until the result is written, as measured."""
_CHECKPOINT: Final = 4e-8
"""Seconds that a checkpoint takes which costs its job time, as measured."""
_INTERVAL: Final = 60.0
"""Seconds between a ranking's decisions, where `interval` does not say it (`Options::interval` in Rust)."""
_LEAST: Final = 1e-200
_MOST: Final = 1e200
_LONGEST: Final = 1e9  # s: no option for a time between decisions takes more


@dataclass(frozen=True)
class Load:
    """What is known ahead of the jobs of one (virtual) cluster.

    jobs: how many there are. gpus: of the cluster. length: for how long some job is there at least, s.
    running, waiting: how many run and wait meanwhile, on average and at least.
    """

    jobs: int
    gpus: int
    length: float
    running: float
    waiting: float

    @property
    def present(self) -> float:
        """Jobs that run or wait."""
        return self.running + self.waiting

    @property
    def queued(self) -> float:
        """The part of the time in which somebody waits, as far as it is known."""
        return min(1.0, self.waiting)


def _gavel(load: Load, period: float, fields: Mapping[str, Any]) -> float:
    rounds = load.length / period
    renewals = min(load.length / max(period, float(fields["renew"])), 2.0 * load.jobs)
    programs = {"first-come": 0.0, "max-min": 2.0}.get(fields["shares"], 20.0)
    # Of many jobs max-min sees the kinds, which may be few.
    rows = min(load.present, 1000.0) if fields["shares"] == "max-min" else load.present
    each = 4e-4 + 2e-6 * load.present + load.queued * (2e-4 + 1e-6 * load.running)
    return rounds * each + renewals * programs * 4e-8 * rows**2


def _sia(load: Load, period: float, fields: Mapping[str, Any]) -> float:
    # Where nobody waits and all have the best there is, a round only looks whether that is still so.
    return load.length / period * (4e-5 + load.queued * (7e-4 + 2.5e-6 * load.present))


def _allox(load: Load, period: float, fields: Mapping[str, Any]) -> float:
    # The matching has a column for each job, slot and position.
    matched = max(1.0, float(fields["alpha"]) * load.waiting)
    columns = matched * min(load.running, matched) * (1.0 + matched / load.gpus)
    return load.jobs * load.queued * (1e-3 + 6e-6 * columns)


def _custom_cost(load: Load, period: float, fields: Mapping[str, Any]) -> float:
    return load.length / period * 1e-5


def _ranks(load: Load, period: float, fields: Mapping[str, Any]) -> float:
    return load.queued * _custom_cost(load, period, fields)  # where nobody waits nobody is asked


def _compiled(running: float, present: float = 0.0) -> Callable[[Load, float, Mapping[str, Any]], float]:
    """Passes of the engine: seconds for each job that runs, and for each one that is there."""

    def cost(load: Load, period: float, fields: Mapping[str, Any]) -> float:
        each = 5e-7 + running * load.running + present * load.present
        return load.length / period * load.queued * each

    return cost


COSTS: Final[dict[str, Callable[[Load, float, Mapping[str, Any]], float]]] = {
    "gavel": _gavel,
    "sia": _sia,
    "allox": _allox,
    # Each quantum ends the stays of those that run, which stay in memory and are written.
    "time-slice": _compiled(7e-7),
    "gittins": _compiled(0.0, 5e-9),
    "ftf": _compiled(1e-7, 2e-8),
    "afs": _compiled(1e-8),
    "elasticflow": _compiled(0.0, 3e-7),
}
"""Seconds that decisions take, as measured, by policy."""
_LOOKS: Final = {
    "srtf": 3e-8,
    "srsf": 3e-8,
    "repack": 5e-7,
    "afs": 1e-7,
    "optimus": 1e-7,
    "elastic-srtf": 1e-7,
}
_LOOK: Final = 1e-8
_FLOW: Final = 3e-6
"""Seconds that a decision takes for each waiting job where it looks at all of them, as measured: of policies
by name, of any other ranking, and of elasticflow."""


def check_passes(
    policy: Policy, options: Mapping[str, Any], custom: CustomPolicy | None, workload: Workload
) -> None:
    """Raises UsageError where the decisions of a run would take hours, or be too many for any memory."""
    _check_checkpoints(options, workload)
    if custom is not None:
        _check_custom(custom, options, workload)
        return
    _check_looks(policy, options, workload)
    name = next((name for name in ("interval", "quantum") if uses(policy, name)), None)
    if name is None:
        return
    busy = sum(seconds / gpus for seconds, gpus in _work(workload) if gpus)
    # A quantum may pass in resuming but for what it is longer than that.
    lost = options["preempt_cost"] + waking(options) if name == "quantum" else 0.0
    slot = options["slot"] if options["clock"] == "slot" else 0.0
    period = options[name]
    if period is None:
        if not policy.is_("at intervals"):
            return
        period = _INTERVAL
    if 0 < max(period - lost, slot) < busy / MOST_PASSES:
        least = lost + busy / MOST_PASSES
        raise UsageError(
            f"option {name}: {period}: expected {'an' if name[0] == 'i' else 'a'} {name} of at least"
            f" {least:.3g} s; the jobs keep the cluster busy for {busy:,.0f} s, and that would take more"
            f" than {MOST_PASSES:,} decisions"
        )
    cost = COSTS.get(policy.preemption)
    # Only a run that may be long is looked at closely: no more jobs run or wait than there are.
    jobs, gpus = workload.table.num_jobs, workload.cluster.num_gpus
    most = Load(jobs, gpus, 2.0 * busy, min(jobs, gpus), jobs)
    memory = 2.0 * busy / period * min(jobs, gpus) * _STRETCH if name == "quantum" else 0.0
    if cost is None or (cost(most, period, {}) <= MOST_SECONDS and memory <= MOST_BYTES):
        return
    found = list(loads(workload, options["model"], resizes=policy.is_("resizes")))
    period = max(period, slot)
    _check(policy.name, name, period, found, lambda load, period: cost(load, period, {}))
    if name == "quantum":
        # As many stays end as jobs take turns.
        turns = sum(load.length * load.queued * min(load.running, load.waiting) for load in found)
        if turns * _STRETCH > MOST_BYTES * period:
            least = turns * _STRETCH / MOST_BYTES
            size = turns * _STRETCH / period / 1e9
            raise UsageError(
                f"option quantum: {period:g}: expected a quantum of at least {1.01 * least:.3g} s, or fewer"
                f" jobs; the stays of {policy.name} would take {size:,.0f} GB of memory or more"
            )


def _check_looks(policy: Policy, options: Mapping[str, Any], workload: Workload) -> None:
    """Raises UsageError where decisions look at all waiting jobs, and the jobs' ends alone bring too many."""
    protects = (options["preempt_after"] or 0.0) > 0.0 or options["max_preemptions"] is not None
    protects |= options["keep_unpreemptible"] and "preemptible" in workload.table.frame.columns
    if policy.preemption == "elasticflow":
        each, why = _FLOW, "jobs with deadlines"
    elif policy.preemption != "none" and options["quota"] is not None:
        each, why = _LOOKS.get(policy.preemption, _LOOK), "quotas"
    elif policy.is_("ranks") and protects:
        each, why = _LOOKS.get(policy.preemption, _LOOK), "protected jobs"
    else:
        return
    jobs = workload.table.num_jobs
    if each * jobs**2 / 2.0 <= MOST_SECONDS:
        return  # no more wait than there are
    period = options["interval"] or _INTERVAL if policy.is_("at intervals") else 0.0
    if policy.preemption == "time-slice":
        period = options["quantum"]
    period = max(period, options["slot"] if options["clock"] == "slot" else 0.0)
    resizes = policy.is_("resizes")
    seconds = each * sum(
        _looks(workload, rows, gpus, _times(workload, gpus, options["model"], resizes=resizes), period)
        for rows, gpus in _parts(workload)
    )
    if seconds > MOST_SECONDS:
        raise UsageError(
            f"option policy: {policy.name}: expected fewer jobs, or another policy; with {why} each decision"
            f" looks at all who wait, and the decisions for {jobs:,} jobs would take"
            f" {seconds / 3600.0:,.1f} hours or more"
        )


def _looks(
    workload: Workload, rows: NDArray[np.intp], gpus: int, times: tuple[Floats, Floats], period: float
) -> float:
    """How many jobs wait at least, added up over the instants at which jobs of a cluster are done.

    However they are scheduled, i jobs are done no sooner than the work of the i least can be, and than the i
    shortest can be if no job waits. By then others have come. period: seconds between two decisions at least.
    """
    if not rows.size:
        return 0.0
    come, shortest, work = workload.columns["submit"][rows].astype(np.float64), times[0][rows], times[1][rows]
    if "deadline" in workload.table.frame.columns:
        # Whoever may be refused is not there.
        late = workload.table.frame["deadline"].cast(float).to_numpy()[rows]
        sure = late - come > 2.0 * (np.ptp(come) + work.sum() / gpus + shortest.max())
        come, shortest, work = come[sure], shortest[sure], work[sure]
    if not come.size:
        return 0.0
    ends = np.maximum(come.min() + np.cumsum(np.sort(work)) / gpus, np.sort(come + shortest))
    running = gpus / min(1.0, float(asked_gpus(workload.table.frame).min()))
    there = np.searchsorted(np.sort(come), ends, side="right")
    looks = float(np.maximum(there - np.arange(1, come.size + 1) - running, 0.0).sum())
    # Jobs that end together share a decision.
    apart = max(period, _step(come, shortest))
    return looks * (min(1.0, (ends[-1] - come.min()) / apart / come.size) if apart > 0.0 else 1.0)


def _step(*times: Floats) -> float:
    """The longest step of which all times are multiples, s; 0 where that is less than a millisecond."""
    thousandths = 1e3 * np.concatenate(times)
    if not (np.abs(thousandths) < 2.0**52).all() or (thousandths != np.rint(thousandths)).any():
        return 0.0
    return float(np.gcd.reduce(thousandths.astype(np.int64))) / 1e3


def _every(options: Mapping[str, Any], workload: Workload) -> Floats:
    """By job, seconds of progress between two checkpoints."""
    frame = workload.table.frame
    every = np.full(frame.height, options["checkpoint_interval"], dtype=np.float64)
    if "checkpoint_interval" in frame.columns:
        given = frame["checkpoint_interval"].cast(float).fill_null(math.nan).to_numpy()
        every = np.where(np.isnan(given), every, given)
    return every


def _check_checkpoints(options: Mapping[str, Any], workload: Workload) -> None:
    """Raises UsageError where checkpoints that cost time, which the engine counts, would take hours."""
    if options["checkpoint_cost"] <= 0.0:
        return
    every = _every(options, workload)
    runs = np.minimum(workload.profiled.ideal_run_time, _MOST)
    if workload.kinds is not None:
        runs = runs / workload.kinds.most_speedup()
    counts = np.divide(runs, every, out=np.zeros_like(runs), where=every > 0.0)
    if float(counts.sum()) * _CHECKPOINT <= MOST_SECONDS:
        return
    worst = int(np.argmax(counts))
    least = float(runs.sum()) * _CHECKPOINT / MOST_SECONDS
    mend = f"--checkpoint-interval {1.01 * least:.3g}"
    if every[worst] != options["checkpoint_interval"]:
        mend = f"the column checkpoint_interval of the job table, at least {1.01 * least:.3g}"
    raise UsageError(
        f"option checkpoint-interval: {every[worst]:g}: expected at least {least:.3g} s between checkpoints;"
        f" there would be {counts.sum():.1e} of them, {counts[worst]:.1e} in job"
        f" {workload.table.frame['job_id'][worst]!r}, which would take"
        f" {counts.sum() * _CHECKPOINT / 3600.0:,.1f} hours or more ({mend})"
    )


def _check_custom(custom: CustomPolicy, options: Mapping[str, Any], workload: Workload) -> None:
    """The same of a policy in Python."""
    fields = vars(custom.scheduler) if hasattr(custom.scheduler, "__dict__") else {}
    built_in = custom.name in BUILT_IN
    name = "round" if built_in else "interval"
    period = fields.get("round") if built_in else getattr(custom.scheduler, "interval", None)
    if custom.name == "allox":
        period = math.inf
    if isinstance(period, bool) or not isinstance(period, int | float) or not period > 0:
        return  # none, or one that is refused as the run begins
    slot = options["slot"] if options["clock"] == "slot" else 0.0
    cost = (
        COSTS[custom.name]
        if built_in
        else _ranks
        if isinstance(custom.scheduler, RankPolicy)
        else _custom_cost
    )
    found = list(loads(workload, options["model"], resizes=bool(getattr(custom.scheduler, "resizes", False))))
    _check(
        custom.name, name, max(float(period), slot), found, lambda load, period: cost(load, period, fields)
    )


def _check(
    policy: str, name: str, period: float, found: list[Load], cost: Callable[[Load, float], float]
) -> None:
    """Raises UsageError where the decisions take too long by the estimate."""

    def takes(period: float) -> float:
        return sum(cost(load, period) for load in found)

    seconds = takes(period)
    if seconds <= MOST_SECONDS:
        return
    length = sum(load.length for load in found)
    hours = f"take {max(seconds / 3600.0, 0.1):,.1f} hours or more"
    if period < _LONGEST and takes(_LONGEST) <= MOST_SECONDS / 2:
        low, high = period, _LONGEST
        while high > 1.001 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if takes(middle) <= MOST_SECONDS else (middle, high)
        digits = 10.0 ** (math.floor(math.log10(high)) - 2)
        least = math.ceil(high / digits) * digits
        raise UsageError(
            f"option {name}: {period:g}: expected {'an' if name[0] == 'i' else 'a'} {name} of at least"
            f" {least:g} s, or fewer jobs; the jobs keep the cluster busy for {length:,.0f} s, and the"
            f" decisions of {policy} would {hours}"
        )
    jobs = sum(load.jobs for load in found)
    waiting = max(load.waiting for load in found)
    raise UsageError(
        f"option policy: {policy}: expected fewer jobs, or another policy; of {jobs:,} jobs"
        f" {waiting:,.0f} or more wait on average, and its decisions would {hours}"
    )


def check_failures(
    policy: Policy, options: Mapping[str, Any], custom: CustomPolicy | None, workload: Workload
) -> None:
    """Raises UsageError for a job that is not expected to be done within as many outages as are drawn."""
    if not is_draw(options["outages"]):
        return
    draw, table, cluster = as_draw(options["outages"]), workload.table, workload.cluster
    of_user = custom is not None and custom.name not in BUILT_IN
    if is_log(policy.name) or (of_user and table.num_jobs > 1):
        return  # what stops their jobs, and when, is not known
    every = _every(options, workload)
    if table.num_jobs > 1 and policy.preemption == "time-slice" and not options["preempt_loses"]:
        # A job whose turn is over keeps its progress, as at a checkpoint.
        every = np.minimum(every, options["quantum"])
    resizes = policy.is_("resizes") or (custom is not None and custom.scheduler.resizes)
    runs = _times(workload, cluster.num_gpus, options["model"], resizes=resizes)[0]
    if options["enforce_limits"] and "time_limit" in table.frame.columns:
        runs = np.where(table.frame["time_limit"].is_null().to_numpy(), runs, 0.0)  # limits end the others
    if workload.trials is not None:  # which may end at their first rung
        runs = np.where(workload.trials.of == NO_SEARCH, 1.0, workload.trials.search.part(0)) * runs
    asked = gpus_of(table.frame, "min_gpus") if resizes else workload.columns["num_gpus"]
    groups = servers_of(cluster, draw.tier)
    hosts = np.ceil(asked / max(cluster.server_gpus[group].sum() for group in groups))
    pause, cost = options["preempt_cost"], options["checkpoint_cost"]

    def drawn(rows: NDArray[np.intp], every: Floats) -> Floats:
        """Outages of all servers, while those of each job, or their groups, fail as often as it takes."""
        failures = failures_until(runs[rows], hosts[rows], every, mtbf=draw.mtbf, pause=pause, cost=cost)
        others = draw.mtbf / (draw.mtbf + draw.mttr)
        least: Floats = failures * np.maximum(1.0, len(groups) / hosts[rows] * others)
        return least * (cluster.num_servers / len(groups))

    expected = drawn(np.arange(table.num_jobs), every)
    worst = int(np.argmax(expected))
    if not expected[worst] > MOST_OUTAGES:
        return
    low, high = 0.0, min(float(every[worst]), float(runs[worst]))
    for _ in range(60):
        middle = 0.5 * (low + high)
        fits = drawn(np.array([worst]), np.array([middle]))[0] <= MOST_OUTAGES / 10
        low, high = (middle, high) if fits else (low, middle)
    mend = f"checkpoints at most {low:.3g} s apart, not {every[worst]:g} (--checkpoint-interval {low:.3g})"
    if low < 1e-6 * draw.mtbf:
        mend = "a longer mtbf: no checkpoints are close enough"
    raise UsageError(
        f"option outages: {draw.source}: expected {mend}; job {table.frame['job_id'][worst]!r} would be"
        f" done after {expected[worst]:.1e} outages on average, and at most {MOST_OUTAGES:,} are drawn"
    )


def loads(workload: Workload, model: str, *, resizes: bool) -> Iterator[Load]:
    """What is known of each (virtual) cluster that has jobs.

    model: of execution. resizes: whether elastic jobs may have other GPUs than they ask for.
    """
    from ringbco.result.bound import lower_bound

    submit = workload.columns["submit"]
    for rows, gpus in _parts(workload):
        if not rows.size:
            continue
        shortest, work = (
            np.clip(figure[rows], _LEAST, _MOST) for figure in _times(workload, gpus, model, resizes=resizes)
        )
        come = submit[rows].astype(np.float64)
        total = lower_bound(come, shortest, work, gpus).total
        length = max(float(work.sum()) / gpus, _covered(come, shortest), math.ulp(1.0))
        alone = float(shortest.sum())
        yield Load(rows.size, gpus, length, alone / length, max(0.0, total - alone) / length)


def _times(workload: Workload, gpus: int, model: str, *, resizes: bool) -> tuple[Floats, Floats]:
    """The jobs' shortest run times, s, and their GPU-seconds at least."""
    if resizes:
        from ringbco.run.bound import limits

        shortest, work = limits(workload, model)(gpus)
        return shortest, work * asked_gpus(workload.table.frame) / workload.columns["num_gpus"]
    shortest = workload.profiled.ideal_run_time
    if workload.kinds is not None:
        shortest = shortest / workload.kinds.most_speedup()
    return shortest, shortest * np.minimum(asked_gpus(workload.table.frame), gpus)


def _covered(submit: Floats, shortest: Floats) -> float:
    """The time in which some job would run if none waited, s."""
    order = np.argsort(submit, kind="stable")
    begin, end = submit[order], np.maximum.accumulate((submit + shortest)[order])
    return float(end[-1] - begin[0] - np.maximum(begin[1:] - end[:-1], 0.0).sum())


def _parts(workload: Workload) -> Iterator[tuple[NDArray[np.intp], int]]:
    """Of each (virtual) cluster the rows of the jobs that it can hold, and its GPUs.

    Without jobs after others, whose arrivals are not known.
    """
    cluster, vc, asked = workload.cluster, workload.vc, workload.columns["num_gpus"]
    known = np.zeros(asked.size, np.bool_)
    known[workload.independent] = True
    asked = np.where(known, asked, np.iinfo(asked.dtype).max)
    if vc is None:
        yield np.flatnonzero(asked <= cluster.num_gpus), cluster.num_gpus
        return
    for number, name in enumerate(cluster.vc_names):
        gpus = int(cluster.server_gpus[cluster.vc_servers(name)].sum())
        yield np.flatnonzero((vc == number) & (asked <= gpus)), gpus


def _work(workload: Workload) -> Iterator[tuple[float, float]]:
    """Of each (virtual) cluster, the GPU-seconds that its jobs ask for, and its GPUs."""
    asked = asked_gpus(workload.table.frame) * workload.profiled.ideal_run_time
    if workload.vc is None:
        yield float(asked.sum()), workload.cluster.num_gpus
        return
    cluster = workload.cluster
    sums = np.bincount(workload.vc, asked, len(cluster.vc_names))
    for name, work in zip(cluster.vc_names, sums, strict=True):
        yield float(work), int(cluster.server_gpus[cluster.vc_servers(name)].sum())


def too_short_rounds(mine: CustomPolicy | None, values: Mapping[str, Any]) -> str | None:
    """What to do where a policy's rounds are over before a job that changes GPUs has paused; else None."""
    pause = max(values[name] for name in ("preempt_cost", "start_cost")) + waking(values)
    length = None if mine is None else (mine.described.get("parameters") or {}).get("round")
    if not isinstance(length, int | float) or length > pause:
        return None
    return (
        f"rounds of {length:g} s are no longer than the pause of {pause:g} s that begins a stay, so none"
        f" does any work: give longer rounds, as -P round={10 * pause:g}, or a smaller --preempt-cost"
    )
