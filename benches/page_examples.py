"""Tables of docs pages, of their examples: priorities, quotas, services, outages, energy, what operators set;
and of clusters that ran, and of plans beside the optimum. The inputs are those that the pages show."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

import ringbco
from page_tables import DAY, HOUR, MINUTE, Figures, Note, TableInputs, line, table
from ringbco.cluster.network import Network
from ringbco.cluster.presets import ServerGroup
from ringbco.cluster.spec import Cluster
from ringbco.result.outcome import Outcome
from ringbco.trace import profiles
from ringbco.units import percent

LARGEST, SMALL, VENUS = "philly/6214e9", "philly/e13805", "helios/venus_2vc_2020-09"
"""The largest one is on 32 servers of 8 GPUs, half of those that it had."""


def waits(result: Outcome, **chosen: Any) -> Figures:
    """The figures of a result, and mean waits in seconds over chosen rows of the job table, all of which were
    done."""
    means = {key: result.jobs.filter(pl.Series(rows))["waited"].mean() for key, rows in chosen.items()}
    return Figures(result.summary, means)


def gpu_hours(result: Outcome, column: str) -> float:
    return float((result.jobs[column] * result.jobs["num_gpus"]).sum()) / HOUR


def priorities(given: TableInputs) -> Iterator[str]:
    """A tenth of the jobs goes first, under two policies, without and with evictions."""
    jobs = given.jobs(LARGEST).frame

    def ran(draw: int = 0, *, ranked: bool = True, **options: Any) -> tuple[Outcome, Figures]:
        urgent = pl.Series([zlib.crc32(name.encode()) % 10 == draw for name in jobs["job_id"]])
        asked = jobs.with_columns(priority=urgent.cast(pl.Int32)) if ranked else jobs
        result = ringbco.replay(asked, "32x8", **options)
        return result, waits(result, urgent=urgent, others=~urgent)

    runs: dict[str, tuple[Outcome, Figures]] = {}
    for policy in ("fifo", "sjf"):
        runs[f"`{policy}`, no priorities"] = ran(ranked=False, policy=policy)
        runs[f"`{policy}`"] = ran(policy=policy)
        runs[f"`{policy} --evict`"] = ran(policy=policy, evict=True)
    columns = {
        "mean wait, urgent": "{urgent:hours}",
        "mean wait, others": "{others:hours}",
        "evictions": "{evictions:,}",
    }
    yield from table(["policy"], columns, (([label], told) for label, (_, told) in runs.items()))
    last = runs["`sjf --evict`"][0]
    yield Note(
        f"pauses: {gpu_hours(last, 'lost_time'):,.0f} of {gpu_hours(last, 'held_time'):,.0f} GPU-hours"
    )
    for draw in given.some(range(4), slice(1)):
        done = (ran(draw, policy="sjf", evict=evict)[1]["others"] for evict in (False, True))
        yield Note(f"crc32 {draw}: others {' and with --evict '.join(f'{one:hours}' for one in done)}")


def quotas(given: TableInputs) -> Iterator[str]:
    """Two virtual clusters, apart and in one pool."""
    jobs = given.jobs(VENUS)
    of = jobs.frame["vc"]
    apart = Cluster.from_groups([ServerGroup(20, 8, "vcvGl"), ServerGroup(2, 8, "vcvlY")])
    runs: dict[str, tuple[Any, Any]] = {"each on its own servers": (apart, None), "one pool": ("22x8", None)}
    for borrow in (True, False):
        quota = {"vc": ["vcvGl", "vcvlY"], "gpus": [160, 16], "borrow": [borrow] * 2}
        runs[f"one pool, quotas, borrow {str(borrow).lower()}"] = ("22x8", pl.DataFrame(quota))
    columns = {f"mean wait, {vc}": f"{{{vc}:duration}}" for vc in ("vcvGl", "vcvlY")}
    ran = (
        ([label], ringbco.replay(jobs, cluster, policy="fifo", quota=quota))
        for label, (cluster, quota) in runs.items()
    )
    told = ((label, waits(result, vcvGl=of == "vcvGl", vcvlY=of == "vcvlY")) for label, result in ran)
    yield from table([""], columns | {"evictions": "{evictions:,}"}, told)


def services(given: TableInputs) -> Iterator[str]:
    """Jobs alone, beside a service, and on servers of their own."""
    jobs = given.jobs(LARGEST).frame
    wanted = [round(8 - 6 * math.cos((hour - 4) / 12 * math.pi)) for hour in range(135 * 24)]
    loads = pl.DataFrame(
        {"time": [hour * HOUR for hour in range(135 * 24 + 1)], "replicas": [*wanted, 0]}
    ).with_columns(service=pl.lit("chat"), gpus_per_replica=pl.lit(4))
    kept = jobs.with_columns(preemptible=pl.lit(False))
    runs = {
        "32 servers, jobs alone": (jobs, "32x8", None),
        "32 servers, jobs and the service": (jobs, "32x8", loads),
        "the same, no job preemptible": (kept, "32x8", loads),
        "25 servers for jobs, 7 for the service alone": (jobs, "25x8", None),
    }
    outcome = {
        label: ringbco.replay(of, cluster, policy="sjf-bco", services=beside)
        for label, (of, cluster, beside) in runs.items()
    }
    columns = {
        "mean JCT": "{mean_jct:time}",
        "median JCT": "{median_jct:hours}",
        "attainment": "{service_attainment:% .1f}",
        "evictions": "{evictions:,}",
    }
    yield from table(
        ["cluster"], columns, (([label], Figures(one.summary)) for label, one in outcome.items())
    )
    _, together, patient, _ = outcome.values()
    lent = together.summary["gpu_hours_lent_to_training"]
    yield Note(f"lent to training: {lent:,.0f} GPU-hours; pauses: {gpu_hours(together, 'lost_time'):,.0f}")
    form = "{mean_time_to_scale_up:duration} on average, at worst {worst_time_to_scale_up:duration}"
    yield Note(f"time to scale up: {form.format_map(Figures(patient.summary['services'][0]))}")


def outages(given: TableInputs) -> Iterator[str]:
    """Servers fail; jobs save seldom or often."""
    jobs = given.jobs(LARGEST)
    drawn = ringbco.outages("32x8", mtbf="42d", mttr="2h", days=135, seed=0, cause="hardware")
    every = {"30 min": 1800.0, "6 h": 6 * HOUR, "24 h": 24 * HOUR, "never": math.inf}
    runs: dict[str, dict[str, Any]] = {
        "(no outages)": {},
        **{name: {"outages": drawn, "checkpoint_interval": seconds} for name, seconds in every.items()},
    }
    columns = {
        "failures": "{failures:,}",
        "work lost, GPU-hours": "{lost_work_gpu_seconds:h ,.0f}",
        "goodput": "{goodput:% .1f}",
        "mean JCT": "{mean_jct:duration}",
    }
    none = {"failures": 0, "lost_work_gpu_seconds": 0.0, "goodput": 1.0}
    ran = ((name, ringbco.replay(jobs, "32x8", policy="sjf-bco", **of).summary) for name, of in runs.items())
    yield from table(["checkpoints every"], columns, (([name], Figures(none, told)) for name, told in ran))
    yield Note(f"{drawn.frame.height} outages")


def energy(given: TableInputs) -> Iterator[str]:
    """Servers that sleep, of a cluster that is mostly idle."""
    jobs = given.jobs(SMALL)
    cluster = Cluster.from_groups([ServerGroup(16, 8, gpu_type="P100")])
    rows: list[tuple[Sequence[object], Figures]] = []
    for placement, after, wake in (
        ("consolidate", "never", ""),
        *(("consolidate", after, "5 min") for after in ("1 h", "10 min", "1 min")),
        ("consolidate", "10 min", "30 min"),
        ("worst-fit", "never", ""),
        ("worst-fit", "10 min", "5 min"),
    ):
        sleep = {"sleep_after": after.replace(" ", ""), "wake_time": wake.replace(" ", "")} if wake else {}
        result = ringbco.replay(jobs, cluster, policy="fifo", placement=placement, **sleep)
        asleep = result.summary["gpu_types"][0].get("asleep_gpu_hours", 0.0)
        # fifo pauses nobody but for a server that wakes.
        waiting = int((result.jobs["lost_time"] > 0).sum()) if wake else 0
        rows.append(((placement, after, wake), Figures(result.summary, asleep=asleep, waiting=waiting)))
    columns = {
        "energy, kWh": "{energy_kwh:,.0f}",
        "GPU-hours asleep": "{asleep:,.0f}",
        "jobs that wait for a server": "{waiting}",
        "mean JCT": "{mean_jct:h .2f} h",
    }
    yield from table(["placement", "sleeps after", "wakes in"], columns, rows)
    saved = (percent(1 - told["energy_kwh"] / rows[0][1]["energy_kwh"], 0) for _, told in rows)
    yield Note(f"saved: {', '.join(saved)}; utilisation {percent(rows[0][1]['utilisation'], 0)}")
    own = Cluster.from_groups([ServerGroup(20, 8, "vcvGl", "V100"), ServerGroup(2, 8, "vcvlY", "V100")])
    for after in ("never", "1h", "1min"):
        sleep = {} if after == "never" else {"sleep_after": after, "wake_time": "5min"}
        recorded = Figures(ringbco.replay(given.jobs(VENUS), own, policy="sjf-bco", **sleep).summary)
        form = "{energy_kwh:,.0f} kWh, mean JCT {mean_jct:duration}, {utilisation:% .0f} busy"
        yield Note(f"Venus sleeps after {after}: {form.format_map(recorded)}")


def fair_share(_: TableInputs) -> Iterator[str]:
    """The demo's jobs on too few servers: those who ask for most, and the others."""
    jobs = ringbco.generate("philly", 5_000, 1, gpus=256, load=0.9).frame
    work = (pl.col("num_gpus") * pl.col("duration")).sum().alias("work")
    users = jobs.group_by("user").agg(work).sort("work", descending=True)
    most = users.head(4)
    names = most["user"].to_list()
    of = {name: jobs["user"] == name for name in names} | {"others": ~jobs["user"].is_in(names)}
    day = {"order": "fairshare", "half_life": "1d"}
    runs: dict[str, dict[str, Any]] = {
        "`fifo`": {},
        "`fairshare`": {"order": "fairshare"},
        "`fairshare --half-life 1d`": day,
        "the same, share 4 for u023": {
            **day,
            "fair_shares": pl.DataFrame({"user": ["u023"], "share": [4.0]}),
        },
    }
    ran = (
        ([label], waits(ringbco.replay(jobs, "28x8", policy="fifo", model="fixed", **options), **of))
        for label, options in runs.items()
    )
    yield from table(["order"], {f"mean wait, {name}": f"{{{name}:hours}}" for name in of}, ran)
    share = percent(most["work"].sum() / users["work"].sum(), 0)
    yield Note(f"of {users.height} users four: {share} of all GPU time")


# A Slurm-like configuration. The trace has no time limits, no priorities and no maintenance.

SERVERS: Final = 20
LIMITS: Final = [15 * MINUTE, HOUR, 4 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY, 14 * DAY, 28 * DAY]
SLURM: Final[Mapping[str, Any]] = {
    "policy": "fifo", "order": "fairshare", "half_life": "7d", "queue": "easy", "estimate": "limit",
    "evict": True, "preempt_after": "10min",
}  # fmt: skip
SLURM_RUNS: Final[Mapping[str, Mapping[str, Any]]] = {
    "fifo": {"policy": "fifo"},
    "fifo, easy": {"policy": "fifo", "queue": "easy", "estimate": "limit"},
    "Slurm-like": SLURM,
    "Slurm-like, conservative": {**SLURM, "queue": "conservative"},
    "repack": {"policy": "repack"},
}


def slurm(given: TableInputs) -> Iterator[str]:
    """Each job asks for the least of the limits that is enough, and goes first if that is an hour at most.
    From the fourth day on a server a day is down from 2 to 6 o'clock, one after the other."""
    jobs = given.jobs(VENUS).frame.filter(vc="vcvGl").drop("vc")
    enough = pl.min_horizontal(pl.when(pl.col("duration") <= limit).then(pl.lit(limit)) for limit in LIMITS)
    jobs = jobs.with_columns(time_limit=enough).with_columns(
        priority=(pl.col("time_limit") <= HOUR).cast(pl.Int32)
    )
    down = [(3 + server) * DAY + 2 * HOUR for server in range(SERVERS)]
    maintenance = pl.DataFrame(
        {"server": range(SERVERS), "down_at": down, "up_at": [time + 4 * HOUR for time in down]}
    )

    def ran(name: str, options: Mapping[str, Any]) -> Figures:
        outcome = ringbco.replay(jobs, f"{SERVERS}x8", model="fixed", maintenance=maintenance, **options)
        if ringbco.audit(outcome, jobs):
            raise RuntimeError(f"{name}: the audit found fault")
        text = outcome.jobs.join(jobs.select("job_id", "priority", "user"), on="job_id", suffix="_asked")
        users = text.group_by("user").agg(pl.mean("waited"))["waited"].sort()
        return Figures(
            outcome.summary,
            waited=text["waited"].mean(),
            short=text.filter(priority=1)["waited"].mean(),
            user=users.median(),
            worst=users.tail(max(1, users.len() // 10)).mean(),
            stopped=sum(outcome.summary.get(key, 0) for key in ("preemptions", "evictions")),
        )

    columns = {
        "mean wait, min": "{waited:min ,.0f}",
        "jct, h": "{mean_jct:h ,.2f}",
        "of jobs up to 1 h: wait, min": "{short:min ,.1f}",
        "median user's wait, min": "{user:min ,.1f}",
        "worst tenth of users, min": "{worst:min ,.0f}",
        "stopped": "{stopped:,}",
    }
    yield from table([""], columns, (([name], ran(name, options)) for name, options in SLURM_RUNS.items()))


# Plans beside the optimum of the fixed-duration relaxation: every job takes its least possible number of
# slots wherever it runs, so spreading and contention cost nothing. GPUs are then all alike, any idle ones
# will do, and what is left is gangs on N machines, which CP-SAT solves exactly. Under the model `fixed` the
# relaxation is the model; under `rar` its optimum is a lower bound.

PLANNED: Final = {"sjf-bco": "SJF-BCO", "ls": "LS", "ff": "FF", "rand": "RAND"}
PLANNED_JOBS: Final = 8


class Instance(NamedTuple):
    frame: pl.DataFrame
    cluster: Cluster


def draw(seed: int) -> Instance:
    """Eight jobs of the paper's run times on three servers of 2, 4 or 8 GPUs; some gangs span."""
    jobs, network = PLANNED_JOBS, Network()
    rng = np.random.Generator(np.random.PCG64([seed, jobs]))
    sizes = rng.choice(np.array([2, 4, 8], dtype=np.uint32), 3)
    num_gpus = np.minimum(rng.choice([1, 1, 2, 2, 4, 4, 6, 8], jobs), sizes.sum()).astype(np.uint32)
    iterations = rng.integers(1000, 6001, jobs)
    gradient = rng.uniform(1e6, 30e6, jobs)
    one = np.ones(jobs, dtype=np.uint32)
    ring = profiles.iteration_time(num_gpus, gradient, np.zeros(jobs), one, network)
    rho = rng.uniform(50, 300, jobs)
    frame = pl.DataFrame(
        {
            "job_id": [f"j{n}" for n in range(jobs)], "submit_time": 0.0, "num_gpus": num_gpus,
            "duration": rho, "iterations": iterations.astype(np.uint64),
            "gradient_bytes": gradient, "batch_size": one, "bp_time": 0.0,
            "fp_time": np.maximum(1e-3, rho / iterations - ring),
        }
    )  # fmt: skip
    return Instance(
        frame, Cluster(sizes, server_vc=None, server_gpu_type=None, network=network, name="drawn")
    )


def least_slots(instance: Instance, model: str) -> list[int]:
    """The fewest slots of 1 s that each job can take: uncontended, on as few servers as hold it."""
    if model == "fixed":
        return [math.ceil(seconds) for seconds in instance.frame["duration"]]
    jobs = ringbco.from_frame(instance.frame)
    work = profiles.resolve(jobs, instance.cluster, model=model, seed=0)
    phi = np.floor(1.0 / work.tau0 * (1 + 1e-12)).astype(np.int64)
    return (-(-work.iterations.astype(np.int64) // phi)).tolist()


def optimum(num_gpus: list[int], slots: list[int], gpus: int) -> int:
    """The least makespan of gangs of fixed length on `gpus` machines, proved by CP-SAT."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    horizon = sum(slots)
    ends, intervals = [], []
    for job, length in enumerate(slots):
        start = model.new_int_var(0, horizon, f"start{job}")
        ends.append(model.new_int_var(0, horizon, f"end{job}"))
        intervals.append(model.new_interval_var(start, length, ends[-1], f"job{job}"))
    makespan = model.new_int_var(0, horizon, "makespan")
    model.add_cumulative(intervals, num_gpus, gpus)
    model.add_max_equality(makespan, ends)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if solver.solve(model) != cp_model.OPTIMAL:
        raise RuntimeError("CP-SAT found no proof")
    return int(solver.objective_value)


def gaps(seed: int, model: str) -> Iterator[dict[str, Any]]:
    """Makespan over optimum of every policy and dispatch on one instance."""
    frame, cluster = draw(seed)
    best = optimum(
        frame["num_gpus"].to_list(), least_slots(Instance(frame, cluster), model), cluster.num_gpus
    )
    for dispatch, policy in product(("idle", "reserve"), PLANNED):
        recorded = ringbco.plan(
            frame, cluster, policy=policy, dispatch=dispatch, model=model, seed=seed
        ).summary
        of = {"model": model, "dispatch": dispatch, "policy": PLANNED[policy]}
        yield of | {"gap": recorded["makespan"] / best - 1, "bound": recorded["approximation_bound"]}


def optima(given: TableInputs) -> Iterator[str]:
    """Gap = makespan / optimum - 1, over the instances."""
    seeds = range(given.draws(300))
    of = ["model", "dispatch", "policy"]
    table = pl.DataFrame([row for model in ("fixed", "rar") for seed in seeds for row in gaps(seed, model)])
    gap = pl.col("gap")
    result = table.group_by(of, maintain_order=True).agg(
        mean=gap.mean(), worst=gap.max(), optimal=(gap == 0).mean(), bound=pl.col("bound").median()
    )
    yield line(*of, "mean gap", "worst gap", "optimal in", "Theorem 5, median")
    yield line(*["---"] * 7)
    for *called, mean, worst, optimal, bound in result.iter_rows():
        yield line(*called, percent(mean, 1), percent(worst, 0), percent(optimal, 0), f"{bound:.1f}")
