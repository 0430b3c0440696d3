"""Alibaba PAI (cluster-trace-gpu-v2020): jobs of tasks of instances, in headerless tables.

A job is submitted at its own start_time, asks for the sum over its tasks of inst_num x plan_gpu / 100 GPUs,
and runs from its first task's start to its last task's end. A start_time of 0 is published for "unknown".
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ringbco.cluster.presets import ServerGroup
from ringbco.io.times import divided
from ringbco.sources.account import ROW, Entry, change, clean, drop
from ringbco.sources.parsing import number, optional_text, whole_gpus_for
from ringbco.sources.rules import SECONDS, has_id, in_order, no_more_cells, not_too_many_gpus, terminal, timed
from ringbco.sources.source import (
    Inputs,
    Options,
    Source,
    Trace,
    by_submission,
    ran_from,
    read_nodes,
)
from ringbco.sources.tables import EXTRA, CsvTable
from ringbco.trace.recorded import RAN

ENDED: Final = ("Terminated", "Failed")
_STATUS: Final = "Running|Terminated|Failed|Waiting"
_NUMBER: Final = r"(\d+(\.\d*)?)?"

JOBS: Final = CsvTable(
    role="jobs",
    what="PAI's table of jobs (pai_job_table)",
    columns=("job_name", "inst_id", "user", "status", "start_time", "end_time"),
    required=("job_name", "user", "status", "start_time", "end_time"),
    looks={"status": _STATUS, "start_time": _NUMBER},
)
TASKS: Final = CsvTable(
    role="tasks",
    what="PAI's table of tasks (pai_task_table)",
    columns=(
        *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
        *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
    ),
    required=("job_name", "task_name", "inst_num", "start_time", "end_time", "plan_gpu"),
    looks={"status": _STATUS, "inst_num": _NUMBER},
)
INSTANCES: Final = CsvTable(
    role="instances",
    what="PAI's table of instances (pai_instance_table)",
    columns=(
        *("job_name", "task_name", "inst_name", "worker_name", "inst_id", "status"),
        *("start_time", "end_time", "machine"),
    ),
    required=("job_name", "inst_name", "worker_name", "machine"),
    looks={"status": _STATUS, "start_time": _NUMBER},
)
MACHINES: Final = CsvTable(
    role="machines",
    what="PAI's table of machines (pai_machine_spec)",
    columns=("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"),
    required=("machine", "gpu_type", "cap_gpu"),
    looks={"gpu_type": "[A-Z][A-Z0-9]*", "cap_cpu": r"\d+", "cap_gpu": r"\d+"},
)

_BAD_PLAN = (pl.col("plan_gpu").is_null() & pl.col("planned").is_not_null()) | (
    (pl.col("plan_gpu") != 0)
    & (
        (pl.col("plan_gpu") < 0)
        | pl.col("inst_num").is_null()
        | (pl.col("inst_num") < 1)
        | (pl.col("inst_num") != pl.col("inst_num").floor())
    )
)

RULES: Final = (
    terminal("status", ENDED),
    drop(
        "a task's inst_num or plan_gpu missing or impossible",
        pl.col("bad_plans") > 0,
        "bad_plans",
        "whole instances and GPUs in percent for every task",
    ),
    drop("no GPUs asked for (a CPU job)", pl.col("plan_gpus") == 0, "plan_gpus", "more than 0 GPUs"),
    not_too_many_gpus("plan_gpus", pl.col("plan_gpus")),
    has_id("job_name"),
    drop("no task in pai_task_table", pl.col("tasks").is_null(), "job_name", "a job with tasks"),
    *timed("start_time", expected=SECONDS + " (0 stands for unknown)"),
    *timed("first_task_start", "last_task_end", expected="a task with that time"),
    *in_order("start_time", "first_task_start", "last_task_end"),
    change(
        "tasks without a start or an end: its run time is that of the others",
        pl.col("untimed") > 0,
        "untimed",
        "a start and an end for every task",
    ),
    change(
        "task listed twice: counted once",
        pl.col("repeated") > 0,
        "repeated",
        "every task once",
    ),
)


def read(inputs: Inputs, options: Options) -> Trace:
    """The job table of jobs and tasks, on the trace's own clock."""
    jobs = inputs.csv("jobs")
    rows = jobs.read(
        [
            optional_text("job_name").alias("job_id"),
            optional_text("user"),
            optional_text("status"),
            _time("start_time"),
            pl.col(EXTRA),
        ]
    )
    tasks = _tasks(inputs)
    orphans = tasks.join(rows, on="job_id", how="anti")["tasks"].sum()
    frame = rows.join(tasks, on="job_id", how="left", maintain_order="left")
    places = jobs.locate()

    def locate(row: int, column: str) -> tuple[int | None, int | None, object]:
        data_row, line, value = places(row, column)
        if column in frame.columns and column not in jobs.columns:
            value = frame.filter(pl.col(ROW) == row)[column][0]
        return data_row, line, value

    kept, account = clean(
        frame,
        [no_more_cells(len(jobs.columns)), *RULES],
        unit="jobs",
        file=jobs.opened.shown,
        locate=locate,
        strict=options.strict,
        unique_column="job_name",
    )
    servers, left_out = _servers(inputs, options) if options.want_cluster else (None, ())
    columns = ["job_id", "submit_time", "num_gpus", "duration", "user", "status", "gpu_type", "gpu_share"]
    columns += ["plan_gpus", *RAN]
    if "instances" in inputs:
        kept = kept.join(_machines(inputs), on="job_id", how="left", maintain_order="left")
        columns.append("num_machines")
    return Trace(
        by_submission(
            kept,
            columns,
            submit_time=pl.col("start_time"),
            **ran_from("first_task_start", "last_task_end"),
            duration=pl.col("last_task_end") - pl.col("first_task_start"),
            num_gpus=whole_gpus_for(pl.col("plan_gpus")),
            gpu_share=pl.when(pl.col("plan_gpus") < 1).then("plan_gpus"),
        ),
        account.plus(left_out),
        "1970-01-01T08:00:00+08:00",
        "a made-up date: hour and weekday are those of the log, in UTC+8",
        servers,
        [f"{orphans:,} tasks belong to no job of {jobs.opened.shown}: left out"] if orphans else (),
    )


def _time(column: str) -> pl.Expr:
    """A number of seconds, 0 (the trace's null) as null."""
    seconds = number(column)
    return pl.when(seconds != 0).then(seconds).alias(column)


def _tasks(inputs: Inputs) -> pl.DataFrame:
    """One row per job: its tasks' GPUs, first start and last end, GPU types, and what is odd about them."""
    once = (
        inputs.csv("tasks")
        .read(
            [
                optional_text("job_name").alias("job_id"),
                pl.col("task_name"),
                optional_text("gpu_type"),
                optional_text("plan_gpu").alias("planned"),
                *map(number, ("inst_num", "plan_gpu")),
                *map(_time, ("start_time", "end_time")),
            ]
        )
        .with_columns(first=pl.struct("job_id", "task_name").is_first_distinct())
    )
    real, untimed = pl.col("first"), pl.col("start_time").is_null() | pl.col("end_time").is_null()
    percent = (pl.col("inst_num") * pl.col("plan_gpu")).filter(real)
    types = pl.col("gpu_type").filter(real & (pl.col("plan_gpu") > 0) & pl.col("gpu_type").is_not_null())
    of_jobs = (
        once.group_by("job_id", maintain_order=True)
        .agg(
            percent.sum().alias("plan_gpus"),
            pl.col("start_time").min().alias("first_task_start"),
            pl.col("end_time").max().alias("last_task_end"),
            types.unique().sort().str.join("|").alias("gpu_type"),
            real.sum().alias("tasks"),
            (~real).sum().alias("repeated"),
            (untimed & real).sum().alias("untimed"),
            (_BAD_PLAN.fill_null(False) & real).sum().alias("bad_plans"),
        )
        .with_columns(pl.when(pl.col("gpu_type") != "").then("gpu_type").alias("gpu_type"))
    )
    return of_jobs.with_columns(divided(of_jobs["plan_gpus"], 100))


def _machines(inputs: Inputs) -> pl.DataFrame:
    """Machines that each job's instances ran on; the table of millions of rows is only streamed through."""
    instances = inputs.csv("instances")
    return instances.collect(
        instances.scan()
        .filter(pl.col("machine") != "")
        .group_by(pl.col("job_name").alias("job_id"))
        .agg(pl.col("machine").n_unique().cast(pl.UInt32).alias("num_machines"))
    )


def _servers(inputs: Inputs, options: Options) -> tuple[tuple[ServerGroup, ...] | None, tuple[Entry, ...]]:
    if "machines" not in inputs:
        return None, ()
    return read_nodes(inputs.csv("machines"), options, name="machine", gpus="cap_gpu", model="gpu_type")


SOURCE: Final = Source(
    name="pai",
    title="Alibaba PAI (cluster-trace-gpu-v2020, July and August 2020)",
    url="https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2020",
    licence="as alibaba/clusterdata (for study or research; no formal licence)",
    citation="""\
@inproceedings{weng2022mlaas,
  author    = {Weng, Qizhen and Xiao, Wencong and Yu, Yinghao and Wang, Wei and Wang, Cheng and He, Jian and
               Li, Yong and Zhang, Liping and Lin, Wei and Ding, Yu},
  title     = {{MLaaS} in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous {GPU}
               Clusters},
  booktitle = {19th USENIX Symposium on Networked Systems Design and Implementation (NSDI 22)},
  year      = {2022},
  url       = {https://www.usenix.org/conference/nsdi22/presentation/weng}
}""",
    shapes=(JOBS, TASKS, INSTANCES, MACHINES),
    needs=("jobs", "tasks"),
    read=read,
    headers_apart=True,
    cluster_hint="give pai_machine_spec.csv beside the other tables",
)
