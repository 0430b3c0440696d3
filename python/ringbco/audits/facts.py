"""A result, its job table and its options as arrays; all of it comes from files, nothing from the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.audits import gpu_rows
from ringbco.audits.down import Down, read_down
from ringbco.audits.inputs import Profiles, inputs_of
from ringbco.audits.measured import Speeds
from ringbco.audits.options import decides_itself, jobs_per_gpu, options_of, preempts, resizes
from ringbco.audits.types import Types
from ringbco.checker.idle import Placeable
from ringbco.checker.inputs import RunInputs
from ringbco.checker.speed import Speeds as Rates
from ringbco.cluster.spec import Cluster
from ringbco.result.folder import cluster_of
from ringbco.result.outcome import Outcome
from ringbco.result.validation import places
from ringbco.trace import profiles
from ringbco.trace.jobs import JobTable, gpus_of
from ringbco.trace.pods import pod_sizes
from ringbco.trace.shares import thousandths

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Facts:
    """The jobs that ran, row by row of jobs.parquet, with what the table and the profiles say of them.

    `jobs` are their rows of jobs.parquet, `row` is the job table's. Times in seconds. Allocation columns have
    one entry per stay; `a_job` indexes the jobs that ran. `vc` is 0 for every job and server where the
    cluster has no virtual clusters.

    Jobs that a policy ended before they were done have no row in jobs.parquet. They come after the `done`
    that have: from their first stay to the end of their last. `least` and `most` GPUs may each job hold.

    `a_seat` is -1 where a row has none, and None where every job has its GPUs to itself.

    `outages` and `drains` are instants of the clock; None for a run that knows none.

    `share` is in thousandths of a GPU, 0 for whole GPUs. `on_gpus` are the rows of the allocations where some
    job has a share; then the allocation columns have one entry per stay and server as usual.
    """

    outcome: Outcome
    table: JobTable
    cluster: Cluster
    options: Mapping[str, Any]
    known: Profiles
    workload: profiles.Profiled
    jobs: pl.DataFrame
    row: Ints
    ids: pl.Series
    submit: Floats
    start: Floats
    finish: Floats
    num_gpus: Ints
    least: Ints
    most: Ints
    done: int
    share: Ints
    pod: Ints
    on_gpus: gpu_rows.OnGpus | None
    vc: Ints
    server_vc: Ints
    vc_of_row: Ints
    types: Types | None
    speeds: Speeds | None
    outages: Down | None
    drains: Down | None
    a_job: Ints
    a_server: Ints
    a_gpus: Ints
    a_start: Floats
    a_end: Floats
    a_stay: Ints
    a_seat: Ints | None

    @property
    def preemptive(self) -> bool:
        """Whether a job may have several stays: it may be preempted, fail, make room, or pause at rungs."""
        return preempts(self.options) or self.outages is not None or self.makes_room or self.searched

    @property
    def searched(self) -> bool:
        """Whether trials of searches were judged at rungs."""
        return self.options.get("search") is not None

    @property
    def makes_room(self) -> bool:
        """Whether jobs may be evicted, for others or for services."""
        beside = self.outcome.quota, self.outcome.services
        return bool(self.options.get("evict")) or any(table is not None for table in beside)

    @property
    def jobs_per_gpu(self) -> int:
        """How many jobs may hold the same whole GPUs."""
        return jobs_per_gpu(self.options)

    @property
    def shared(self) -> bool:
        """Whether some job of the table asks for a share of a GPU."""
        return self.on_gpus is not None

    @cached_property
    def inputs(self) -> RunInputs:
        """What the checker reads of the run."""
        return inputs_of(self.outcome, self.table, self.known)

    @cached_property
    def room(self) -> Placeable:
        """Where jobs could be placed, were all GPUs idle."""
        return Placeable(self.inputs, Rates(self.inputs))

    @property
    def logged(self) -> bool:
        """Whether a log or a custom policy decided, by a rule that is not known."""
        return decides_itself(self.options)

    @property
    def finished(self) -> Bools:
        """Which of the jobs that ran were done at the end, and not ended before."""
        return np.arange(self.row.size) < self.done

    @property
    def elastic(self) -> bool:
        """Whether jobs may hold other GPUs than they ask for, and the policy may give them."""
        return resizes(self.options) and bool((self.least != self.most).any())

    @property
    def planned(self) -> bool:
        """Whether this is a plan: theta decides who may have which GPU, not only who is idle."""
        return self.options.get("command") == "plan"

    @property
    def slots(self) -> bool:
        """Whether the slot clock was used."""
        return bool(self.options["clock"] == "slot")

    @property
    def slot(self) -> float:
        """The slot length, s."""
        return float(self.options["slot"])

    @property
    def server_gpus(self) -> Ints:
        """O_s."""
        return self.cluster.server_gpus.astype(np.int64)

    def id(self, job: int | np.integer[Any]) -> str:
        """The job's id."""
        return str(self.ids[int(job)])

    def first_instant(self, times: Floats) -> Floats:
        """The first instants, from each of `times` on, at which the clock lets anything happen."""
        return first_boundary(times, self.slot) if self.slots else times


def first_boundary(times: Floats, slot: float) -> Floats:
    """The first boundary not before each of `times`."""
    n = np.ceil(times / slot)
    n = np.where((n - 1) * slot >= times, n - 1, n)
    n = np.where(n * slot < times, n + 1, n)
    return n * slot


def gather(outcome: Outcome, table: JobTable) -> tuple[Facts, Mapping[str, Any]]:
    """The arrays, and the tables behind them: the `jobs` taken, and what was left out.

    Left out are jobs `unknown` to the table, `repeated` ones, and `strays`: stays of jobs without a row.
    """
    cluster = cluster_of(outcome.run)
    options = options_of(outcome.run)
    profiled = Profiles.read(outcome, table)
    index = profiles.vc_index(table, cluster)
    vc_of_row = np.zeros(table.num_jobs, np.int64) if index is None else index.astype(np.int64)
    numbers = {name: number for number, name in enumerate(cluster.vc_names)}
    vcs = cluster.server_vc
    server_vc = np.array([0] * cluster.num_servers if vcs is None else [numbers[vc] for vc in vcs], np.int64)

    known = table.frame.select(pl.col("job_id").cast(pl.String)).with_row_index("_row")
    jobs = outcome.jobs.with_columns(_row=places(outcome.jobs["job_id"], known["job_id"]))
    unknown = repeated = jobs.clear()
    if jobs["_row"].null_count() or (jobs["_row"].diff() < 1).any():
        unknown = jobs.filter(pl.col("_row").is_null())
        repeated = jobs.filter(pl.col("_row").is_not_null() & ~pl.col("job_id").is_first_distinct())
        jobs = jobs.filter(pl.col("_row").is_not_null()).unique("job_id", keep="first", maintain_order=True)

    def column(frame: pl.DataFrame, name: str, dtype: Any) -> NDArray[Any]:
        return np.asarray(frame[name].to_numpy().astype(dtype))

    allocations = outcome.allocations
    ended = known.clear()
    strays = None
    if allocations is None:
        held = pl.DataFrame(schema={"_job": pl.UInt32, "server": pl.UInt32, "num_gpus": pl.UInt32,
                                         "start_time": pl.Float64, "end_time": pl.Float64,
                                         "stay": pl.UInt32})  # fmt: skip
    else:
        if decides_itself(options) or options.get("search") is not None:
            ended = known.join(allocations, on="job_id", how="semi").join(jobs, on="job_id", how="anti")
        ids = pl.concat([jobs.select("job_id"), ended.sort("_row").select("job_id")])
        held = allocations.with_columns(_job=places(allocations["job_id"], ids["job_id"]))
        strays = held.clear()
        if held["_job"].null_count():
            strays = held.filter(pl.col("_job").is_null())
            held = held.filter(pl.col("_job").is_not_null())
    shares = thousandths(table.frame)
    on_gpus = None
    if shares is not None:
        on_gpus = gpu_rows.read(held)
        held = gpu_rows.by_server(held)

    done = jobs.height
    row = np.concatenate([column(jobs, "_row", np.int64), column(ended.sort("_row"), "_row", np.int64)])
    a_job = column(held, "_job", np.int64)
    a_start, a_end = (column(held, name, np.float64) for name in ("start_time", "end_time"))
    first, last = np.full(row.size, np.inf), np.full(row.size, -np.inf)
    np.minimum.at(first, a_job, a_start)
    np.maximum.at(last, a_job, a_end)
    first[:done], last[:done] = (column(jobs, name, np.float64) for name in ("start_time", "finish_time"))
    submit = profiled.arrivals.time
    slot = float(options["slot"]) if options["clock"] == "slot" else None
    down, drains = read_down(outcome.outages, cluster.num_servers, slot)
    a_server = column(held, "server", np.int64)
    facts = Facts(
        outcome=outcome,
        table=table,
        cluster=cluster,
        options=options,
        known=profiled,
        workload=profiled.workload,
        jobs=jobs,
        row=row,
        ids=pl.concat([jobs["job_id"], ended.sort("_row")["job_id"]]),
        # A plan takes all jobs as there at time 0.
        submit=submit[row] if options.get("command") != "plan" else np.zeros(row.size),
        start=first,
        finish=last,
        num_gpus=column(table.frame, "num_gpus", np.int64)[row],
        least=gpus_of(table.frame, "min_gpus")[row].astype(np.int64),
        most=gpus_of(table.frame, "max_gpus")[row].astype(np.int64),
        done=done,
        share=np.zeros(row.size, np.int64) if shares is None else shares[row].astype(np.int64),
        pod=pod_sizes(table.frame)[row],
        on_gpus=on_gpus,
        vc=vc_of_row[row],
        server_vc=server_vc,
        vc_of_row=vc_of_row,
        types=profiled.types,
        speeds=profiled.speeds,
        outages=down,
        drains=drains,
        a_job=a_job,
        a_server=a_server,
        a_gpus=column(held, "num_gpus", np.int64),
        a_start=a_start,
        a_end=a_end,
        a_stay=column(held, "stay", np.int64),
        a_seat=gpu_rows.numbers(held, "seat") if jobs_per_gpu(options) > 1 else None,
    )
    return facts, {"jobs": jobs, "unknown": unknown, "repeated": repeated, "strays": strays}
