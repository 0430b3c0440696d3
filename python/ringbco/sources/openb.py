"""Alibaba openb (cluster-trace-gpu-v2023): Kubernetes pods on 1,213 GPU nodes of several GPU models.

A pod is a job. It is submitted when it is created and runs from scheduled_time to deletion_time: the time
between creation and scheduling was spent waiting, so it is no run time.
"""

from __future__ import annotations

import json
from typing import Final

import polars as pl

from ringbco.cluster.presets import BESIDE, ServerGroup
from ringbco.io.times import divided
from ringbco.sources.account import drop, note
from ringbco.sources.parsing import number, optional_text, whole_number
from ringbco.sources.rules import SECONDS, asks_gpus, has_id, in_order, not_negative, timed, whole_gpus
from ringbco.sources.source import (
    Inputs,
    Options,
    Source,
    Trace,
    by_submission,
    clean_csv,
    ran_from,
    read_nodes,
)
from ringbco.sources.tables import CsvFile, CsvTable
from ringbco.trace.cpu_memory import WITHOUT_GPUS
from ringbco.trace.recorded import RAN

LOG_END: Final = 12_902_960.0  # s: the last second of the published log
ENDED: Final = ("Running", "Failed", "Succeeded")

PODS: Final = CsvTable(
    role="pods",
    what="an openb list of pods (openb_pod_list_*.csv)",
    columns=(
        *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase"),
        *("creation_time", "deletion_time", "scheduled_time"),
    ),
    required=(
        *("name", "num_gpu", "gpu_milli", "pod_phase", "creation_time", "deletion_time", "scheduled_time"),
    ),
    looks={"pod_phase": "Running|Pending|Failed|Succeeded", "num_gpu": r"\d+", "gpu_milli": r"\d+"},
)
NODES: Final = CsvTable(
    role="nodes",
    what="an openb list of nodes (openb_node_list_*.csv)",
    columns=("sn", "cpu_milli", "memory_mib", "gpu", "model"),
    required=("sn", "gpu", "model"),
    looks={"sn": "openb-node.*", "gpu": r"\d+"},
)

PENDING: Final = "never scheduled (Pending)"
CENSORED: Final = "still running at the log's last second: run time is cut off there (kept)"
_PHASE = pl.col("status")
_CUT = (_PHASE == "Running") & (pl.col("deletion_time") == LOG_END)

RULES: Final = (
    drop(PENDING, _PHASE == "Pending", "pod_phase", "a pod that ran"),
    asks_gpus("num_gpu"),
    has_id("name"),
    drop(
        "pod_phase is unknown",
        ~_PHASE.is_in([*ENDED, "Pending"]).fill_null(False),
        "pod_phase",
        f"one of {', '.join(ENDED)}",
    ),
    whole_gpus("num_gpu"),
    drop(
        "gpu_milli missing or not in 1 to 1000",
        ~pl.col("gpu_milli").is_between(1, 1000).fill_null(False) & (pl.col("num_gpu") != 0),
        "gpu_milli",
        "thousandths of a GPU, 1 to 1000",
    ),
    *timed("creation_time", "scheduled_time", "deletion_time", expected=SECONDS),
    not_negative("creation_time"),
    *in_order("creation_time", "scheduled_time", "deletion_time"),
    note(CENSORED, _CUT, "deletion_time"),
)


def read(inputs: Inputs, options: Options) -> Trace:
    """The job table of the pods, on the log's own clock."""
    frame, account = clean_csv(
        inputs.csv("pods"),
        [
            optional_text("name").alias("job_id"),
            optional_text("gpu_spec"),
            optional_text("qos"),
            optional_text("pod_phase").alias("status"),
            *map(number, ("num_gpu", "gpu_milli", "creation_time", "scheduled_time", "deletion_time")),
            *map(whole_number, BESIDE),
        ],
        RULES,
        unit="pods",
        options=options,
        id_column="name",
    )
    frame = by_submission(
        frame.with_columns(
            _share(frame).alias("gpu_share"), pl.when(~_CUT).then("deletion_time").alias("ended")
        ),
        [
            *("job_id", "submit_time", "num_gpus", "duration", "status", "gpu_type"),
            *("gpu_share", "gpu_spec", "qos", *BESIDE, *RAN),
        ],
        submit_time=pl.col("creation_time"),
        **ran_from("scheduled_time", "ended"),
        duration=pl.col("deletion_time") - pl.col("scheduled_time"),
        num_gpus=pl.col("num_gpu").cast(pl.UInt32),
        gpu_type=pl.col("gpu_spec"),  # several models are separated by |, as gpu_type has them
    )
    servers: tuple[ServerGroup, ...] | None = None
    if options.want_cluster and "nodes" in inputs:
        servers, left_out = read_nodes(
            inputs.csv("nodes"), options, name="sn", gpus="gpu", model="model", beside=BESIDE
        )
        account = account.plus(left_out)
    return Trace(
        frame,
        account,
        "1970-01-01T00:00:00",
        "a placeholder: the log counts seconds from an undisclosed moment",
        servers,
        facts=_without_gpus(inputs.csv("pods")),
    )


def _without_gpus(file: CsvFile) -> dict[str, str]:
    """What the pods that ran without a GPU asked for. They are no jobs, but packing counts them."""
    ran = (pl.col("pod_phase").is_in(ENDED)) & (pl.col("num_gpu") == 0)
    pods = file.read([optional_text("pod_phase"), number("num_gpu"), *map(whole_number, BESIDE)]).filter(ran)
    if pods.is_empty() or pods.select(pl.any_horizontal(pl.col(BESIDE).is_null()).any()).item():
        return {}
    counted = pods.group_by(BESIDE).len().sort(BESIDE)
    return {WITHOUT_GPUS: json.dumps(counted.rows())}


def _share(frame: pl.DataFrame) -> pl.Series:
    """The share of its one GPU that a pod asks for; null for whole GPUs."""
    share = divided(frame["gpu_milli"], 1000)
    return share.set((share == 1.0) | (frame["num_gpu"] != 1), None)


SOURCE: Final = Source(
    name="openb",
    title="Alibaba openb (cluster-trace-gpu-v2023)",
    url="https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2023",
    licence="as alibaba/clusterdata (for study or research; no formal licence)",
    citation="""\
@inproceedings{weng2023fgd,
  author    = {Weng, Qizhen and Yang, Lingyun and Yu, Yinghao and Wang, Wei and Tang, Xiaochuan and
               Yang, Guodong and Zhang, Liping},
  title     = {Beware of Fragmentation: Scheduling {GPU}-Sharing Workloads with Fragmentation Gradient
               Descent},
  booktitle = {2023 USENIX Annual Technical Conference (USENIX ATC 23)},
  year      = {2023},
  url       = {https://www.usenix.org/conference/atc23/presentation/weng}
}""",
    shapes=(PODS, NODES),
    needs=("pods",),
    read=read,
    cluster_hint="give openb_node_list_gpu_node.csv beside the pods, or use --cluster preset:openb",
)
