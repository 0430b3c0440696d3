"""Alibaba spot-gpu (cluster-trace-v2026-spot-gpu): high-priority and spot jobs with their recorded run times.

A job has worker_num workers of gpu_request GPUs each. Times count from the first submission. High-priority
jobs go before spot jobs and may evict them (docs/priorities.md).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ringbco.cluster.presets import ServerGroup
from ringbco.sources import pods
from ringbco.sources.account import drop, note
from ringbco.sources.parsing import number, optional_text, whole_gpus_for
from ringbco.sources.rules import SECONDS, asks_gpus, has_id, lasting, not_negative, not_too_many_gpus, timed
from ringbco.sources.source import Inputs, Options, Source, Trace, by_submission, clean_csv, read_nodes
from ringbco.sources.tables import CsvTable

JOBS: Final = CsvTable(
    role="jobs",
    what="a spot-gpu list of jobs (job_info_df.csv)",
    columns=(
        *("job_name", "organization", "gpu_model", "cpu_request", "gpu_request", "worker_num"),
        *("submit_time", "duration", "job_type"),
    ),
    required=("job_name", "gpu_request", "worker_num", "submit_time", "duration"),
    looks={"job_type": "(?i)hp|spot|high.priority.*|spot.*", "worker_num": r"\d+(\.0)?"},
)
NODES: Final = CsvTable(
    role="nodes",
    what="a spot-gpu list of nodes (node_info_df.csv)",
    columns=("node_name", "gpu_model", "gpu_capacity_num", "cpu_num"),
    required=("node_name", "gpu_model", "gpu_capacity_num"),
)

_WORKERS = pl.col("worker_num")
_PER_WORKER = pl.col("gpu_request")
# "HP" and "Spot" in the file that is published; its description spells them out.
_HIGH = pl.col("job_type").str.contains("(?i)^(hp|high.?priority.*)$")
_SPOT = pl.col("job_type").str.contains("(?i)^spot.*$")

RULES: Final = (
    asks_gpus("gpu_request"),
    has_id("job_name"),
    drop(
        "gpu_request missing or negative",
        (_PER_WORKER.is_null() | (_PER_WORKER < 0)),
        "gpu_request",
        "GPUs per worker, above 0",
    ),
    drop(
        "worker_num missing or not a whole number above 0",
        _WORKERS.is_null() | (_WORKERS < 1) | (_WORKERS.floor() != _WORKERS),
        "worker_num",
        "a whole number of workers, 1 or more",
    ),
    not_too_many_gpus("worker_num", pl.max_horizontal(_WORKERS, _PER_WORKER * _WORKERS)),
    *timed("submit_time", expected=SECONDS),
    not_negative("submit_time"),
    *lasting("duration"),
    note(
        "job_type is neither HP nor Spot: priority 0, may be evicted",
        ~(_HIGH | _SPOT).fill_null(False),
        "job_type",
    ),
)


def read(inputs: Inputs, options: Options) -> Trace:
    """The job table of the jobs, on the log's own clock."""
    no_pods = pods.unknown("gpu_request is not a whole number of GPUs", _PER_WORKER, "gpu_request")
    frame, account = clean_csv(
        inputs.csv("jobs"),
        [
            optional_text("job_name").alias("job_id"),
            optional_text("organization").alias("user"),
            optional_text("gpu_model").alias("gpu_type"),
            optional_text("job_type"),
            *map(number, ("gpu_request", "worker_num", "submit_time", "duration")),
        ],
        (*RULES, *([no_pods] if options.pods else ())),
        unit="jobs",
        options=options,
        id_column="job_name",
    )
    frame = by_submission(
        frame,
        [
            *("job_id", "submit_time", "num_gpus", "duration", "user", "gpu_type", "priority", "preemptible"),
            *("job_type", "gpu_request", "worker_num", "plan_gpus"),
            *([pods.COLUMN] if options.pods else []),
        ],
        num_gpus=whole_gpus_for(_PER_WORKER * _WORKERS),
        gpus_per_pod=pods.whole(_PER_WORKER),
        plan_gpus=_PER_WORKER * _WORKERS,
        priority=pl.when(_HIGH).then(1).when(_SPOT).then(0).cast(pl.Int32),
        preemptible=pl.when(_HIGH).then(pl.lit(value=False)).when(_SPOT).then(pl.lit(value=True)),
        worker_num=_WORKERS.cast(pl.UInt32),
    )
    servers: tuple[ServerGroup, ...] | None = None
    if options.want_cluster and "nodes" in inputs:
        servers, left_out = read_nodes(
            inputs.csv("nodes"), options, name="node_name", gpus="gpu_capacity_num", model="gpu_model"
        )
        account = account.plus(left_out)
    return Trace(
        frame,
        account,
        "1970-01-01T00:00:00",
        "a placeholder: the log counts seconds from its first submission, on an undisclosed day",
        servers,
    )


SOURCE: Final = Source(
    name="spot-gpu",
    title="Alibaba spot-gpu (cluster-trace-v2026-spot-gpu)",
    url="https://github.com/alibaba/clusterdata/tree/master/cluster-trace-v2026-spot-gpu",
    licence="as alibaba/clusterdata (for study or research; no formal licence)",
    citation="""\
@inproceedings{duan2026gfs,
  author    = {Duan, Jiaang and Xu, Shenglin and Qian, Shiyou and Yang, Dingyu and Wang, Kangjin and
               Liao, Chenzhi and Yu, Yinghao and Hua, Qin and Hu, Hanwen and Wang, Qi and Wu, Wenchao and
               Bao, Dongqing and Lu, Tianyu and Cao, Jian and Xue, Guangtao and Yang, Guodong and
               Zhang, Liping and Chen, Gang},
  title     = {{GFS}: A Preemptive Scheduling Framework for {GPU} Clusters with Predictive Spot Management},
  booktitle = {Proceedings of the 31st ACM International Conference on Architectural Support for
               Programming Languages and Operating Systems (ASPLOS '26)},
  year      = {2026}
}""",
    shapes=(JOBS, NODES),
    needs=("jobs",),
    read=read,
    options=frozenset({"pods"}),
    cluster_hint="give node_info_df.csv beside the jobs",
)
