"""Shanghai AI Lab Acme (2023): the logs of two clusters, Seren (Slurm) and Kalos (Kubernetes), for LLM work.

Run times are recomputed from start and end: in Kalos the recorded `duration` is end - submit, whatever its
documentation says. Times carry an offset and become UTC.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ringbco.cluster.presets import PRESETS
from ringbco.sources.account import note
from ringbco.sources.parsing import iso, number, offset_clock, optional_text
from ringbco.sources.rules import asks_gpus, has_id, in_order, terminal, timed, whole_gpus
from ringbco.sources.source import (
    Inputs,
    Options,
    Source,
    Trace,
    by_submission,
    clean_csv,
    first_submission,
    ran_from,
)
from ringbco.sources.tables import TIME_LIKE, CsvTable
from ringbco.trace.recorded import RAN

TERMINAL: Final = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")
_OFFSET_TIME: Final = TIME_LIKE + r"[+-]\d\d:\d\d"
_NEEDED: Final = ("job_id", "user", "gpu_num", "type", "state", "submit_time", "start_time", "end_time")

KALOS: Final = CsvTable(
    role="log",
    what="an Acme job log (trace_kalos.csv)",
    columns=(
        *("job_id", "user", "node_num", "gpu_num", "cpu_num", "mem_per_pod_GB", "shared_mem_per_pod", "type"),
        *("state", "submit_time", "start_time", "end_time", "fail_time", "stop_time", "duration", "queue"),
        "gpu_time",
    ),
    required=(*_NEEDED, "mem_per_pod_GB"),
    looks={"submit_time": _OFFSET_TIME, "state": "[A-Z_]+"},
)
SEREN: Final = CsvTable(
    role="log",
    what="an Acme job log (trace_seren.csv)",
    columns=(
        *("job_id", "user", "node_num", "gpu_num", "cpu_num", "type", "state", "submit_time", "start_time"),
        *("end_time", "duration", "queue", "gpu_time"),
    ),
    required=_NEEDED,
    looks={"submit_time": _OFFSET_TIME, "state": "[A-Z_]+"},
)
_TIME: Final = "a time such as 2023-03-01 00:18:22+08:00"

RULES: Final = (
    asks_gpus("gpu_num"),
    terminal("state", TERMINAL),
    has_id("job_id"),
    whole_gpus("gpu_num"),
    *timed("submit_time", "start_time", "end_time", expected=_TIME),
    *in_order("submit_time", "start_time", "end_time"),
    note(
        "recorded duration is not end_time - start_time: recomputed, as for every job",
        pl.col("recorded") != pl.col("end_time") - pl.col("start_time"),
        "duration",
    ),
)


def read(inputs: Inputs, options: Options) -> Trace:
    """The job table of one Acme cluster; submit_time 0 is the first kept submission."""
    log = inputs.csv("log")
    frame, account = clean_csv(
        log,
        [
            optional_text("job_id"),
            optional_text("user"),
            optional_text("type"),
            pl.col("state").alias("status"),
            number("gpu_num"),
            *map(offset_clock, ("submit_time", "start_time", "end_time")),
            number("duration").alias("recorded"),
        ],
        RULES,
        unit="jobs",
        options=options,
        id_column="job_id",
    )
    epoch = first_submission(frame)
    name = "kalos" if log.table is KALOS else "seren"
    servers = PRESETS[f"acme-{name}"].servers
    return Trace(
        by_submission(
            frame,
            [
                "job_id",
                "submit_time",
                "num_gpus",
                "duration",
                "user",
                "status",
                "gpu_type",
                "type",
                *RAN,
            ],
            submit_time=pl.col("submit_time") - epoch,
            **ran_from("start_time", "end_time", epoch),
            duration=pl.col("end_time") - pl.col("start_time"),
            num_gpus=pl.col("gpu_num").cast(pl.UInt32),
            gpu_type=pl.lit(servers[0].gpu_type),  # all of the cluster is of one type
        ),
        account,
        iso(epoch, utc=True),
        "the first kept submission",
        servers,
        choices={"cluster": name},
    )


SOURCE: Final = Source(
    name="acme",
    title="Shanghai AI Lab Acme (Seren and Kalos, March to August 2023)",
    url="https://github.com/InternLM/AcmeTrace",
    licence="CC-BY-4.0",
    citation="""\
@inproceedings{hu2024acme,
  author    = {Hu, Qinghao and Ye, Zhisheng and Wang, Zerui and Wang, Guoteng and Zhang, Meng and
               Chen, Qiaoling and Sun, Peng and Lin, Dahua and Wang, Xiaolin and Luo, Yingwei and
               Wen, Yonggang and Zhang, Tianwei},
  title     = {Characterization of Large Language Model Development in the Datacenter},
  booktitle = {21st USENIX Symposium on Networked Systems Design and Implementation (NSDI 24)},
  year      = {2024},
  url       = {https://www.usenix.org/conference/nsdi24/presentation/hu}
}""",
    shapes=(KALOS, SEREN),
    needs=("log",),
    read=read,
)
