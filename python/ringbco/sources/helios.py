"""SenseTime Helios (2020): Slurm logs of four clusters, with the GPUs of every virtual cluster by day.

Cleaning as in the field: GPU jobs only, submitted from 1 April 2020 on, ended, at most 14 days long.
"""

from __future__ import annotations

from datetime import date
from typing import Final

import polars as pl

from ringbco.cluster.groups import MAX_GPUS as MOST_OF_CLUSTER
from ringbco.cluster.presets import ServerGroup, vc_groups
from ringbco.errors import InputError, UsageError
from ringbco.io.times import DAY
from ringbco.sources.account import ROW, change, drop
from ringbco.sources.parsing import iso, number, optional_text, wall_clock
from ringbco.sources.rules import asks_gpus, has_id, in_order, known_vc, terminal, timed, whole_gpus
from ringbco.sources.source import (
    Inputs,
    Options,
    Source,
    Trace,
    by_submission,
    clean_csv,
    first_submission,
    ran_from,
    without_servers,
)
from ringbco.sources.tables import TIME_LIKE, CsvFile, CsvTable
from ringbco.trace.recorded import RAN

TERMINAL: Final = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")
LONGEST: Final = 1_209_600.0  # s, 14 days: the cluster's own limit, which a few records exceed
FIRST_DAY: Final = date(2020, 4, 1)
SNAPSHOT: Final = "2020-09-01"  # the day whose sizes the paper's table 1 gives

LOG: Final = CsvTable(
    role="log",
    what="a Helios job log (cluster_log.csv)",
    columns=(
        *("job_id", "user", "vc", "gpu_num", "cpu_num", "node_num", "state"),
        *("submit_time", "start_time", "end_time", "duration", "queue"),
    ),
    required=("job_id", "user", "vc", "gpu_num", "state", "submit_time", "start_time", "end_time"),
    looks={"submit_time": TIME_LIKE, "state": "[A-Z_]+", "vc": "vc.*"},
)
GPUS: Final = CsvTable(
    role="gpus",
    what="a Helios table of GPUs per virtual cluster and day (cluster_gpu_number.csv)",
    columns=("date", "total"),
    required=("date", "total"),
)

RULES: Final = (
    asks_gpus("gpu_num"),
    drop(
        "submitted before 2020-04-01",
        pl.col("submit_time") < (FIRST_DAY - date(1970, 1, 1)).days * DAY,
        "submit_time",
        "2020-04-01 or later",
    ),
    terminal("state", TERMINAL),
    has_id("job_id"),
    whole_gpus("gpu_num"),
    *timed("submit_time", "start_time", "end_time"),
    *in_order("submit_time", "start_time", "end_time"),
    change(
        "recorded duration is not end_time - start_time: the difference used",
        pl.col("recorded") != pl.col("end_time") - pl.col("start_time"),
        "duration",
        "end_time - start_time",
    ),
    change(
        "longer than 1,209,600 s: cut to that",
        pl.col("duration") > LONGEST,
        "duration",
        "at most 1209600 s",
        duration=pl.lit(LONGEST),
    ),
)


def read(inputs: Inputs, options: Options) -> Trace:
    """The job table of one Helios cluster; submit_time 0 is the midnight before the first kept submission."""
    log = inputs.csv("log")
    for option, given in (("--snapshot", options.snapshot), ("--known-vcs", options.known_vcs)):
        if given and "gpus" not in inputs:
            raise UsageError(f"{option}: give cluster_gpu_number.csv as well as the log")
    servers, day = None, options.snapshot or SNAPSHOT
    if "gpus" in inputs and (options.want_cluster or options.known_vcs or options.snapshot):
        servers = _servers(inputs.csv("gpus"), day)
    known = [group.vc for group in servers or () if group.vc]
    frame, account = clean_csv(
        log,
        [
            optional_text("job_id"),
            optional_text("user"),
            optional_text("vc"),
            pl.col("state").alias("status"),
            number("gpu_num"),
            wall_clock("submit_time"),
            wall_clock("start_time"),
            wall_clock("end_time"),
            number("duration").alias("recorded"),
            (wall_clock("end_time") - wall_clock("start_time")).alias("duration"),
        ],
        (*RULES, *([known_vc(known)] if options.known_vcs else ())),
        unit="jobs",
        options=options,
        id_column="job_id",
    )
    epoch = first_submission(frame) // DAY * DAY
    frame = by_submission(
        frame,
        ["job_id", "submit_time", "num_gpus", "duration", "user", "vc", "status", *RAN],
        submit_time=pl.col("submit_time") - epoch,
        **ran_from("start_time", "end_time", epoch),
        num_gpus=pl.col("gpu_num").cast(pl.UInt32),
    )
    return Trace(
        frame,
        account,
        iso(epoch),
        "midnight before the first kept submission, on the log's own wall clock",
        servers,
        () if servers is None else without_servers(frame, servers, f"without servers on {day}"),
        {} if servers is None else {"snapshot": day, **({"known_vcs": "yes"} if options.known_vcs else {})},
    )


_DAY: Final = r"^\d{4}-\d\d-\d\d"


def _servers(file: CsvFile, day: str) -> tuple[ServerGroup, ...]:
    """Servers of 8 GPUs by virtual cluster, as of one day's row."""
    columns = [c for c in file.columns if c not in ("date", "total")]
    rows = file.read([pl.col("date"), *map(number, columns)])
    odd = rows.filter(~pl.col("date").str.contains(_DAY))
    if odd.height:
        raise file.bad_cell(int(odd[ROW][0]), "date", "a day such as 2020-09-01")
    row = rows.filter(pl.col("date").str.starts_with(day))
    if row.is_empty():
        days = rows["date"].drop_nulls().sort()
        raise InputError(
            f"has no row for {day}",
            file=file.opened.shown,
            hint=f"--snapshot takes a day from {days[0]} to {days[-1]}" if len(days) else None,
        )
    sizes = {column: row[column][0] for column in columns}
    for column, gpus in sizes.items():
        if gpus is None or gpus < 0 or gpus != int(gpus):
            raise file.bad_cell(int(row[ROW][0]), column, "a whole number of GPUs")
        if gpus > MOST_OF_CLUSTER:
            raise file.bad_cell(int(row[ROW][0]), column, f"at most {MOST_OF_CLUSTER} GPUs in all")
    return vc_groups({column: int(gpus) for column, gpus in sizes.items() if gpus})


SOURCE: Final = Source(
    name="helios",
    title="SenseTime Helios (four clusters, April to September 2020)",
    url="https://github.com/S-Lab-System-Group/HeliosData",
    licence="CC-BY-4.0",
    citation="""\
@inproceedings{hu2021helios,
  author    = {Hu, Qinghao and Sun, Peng and Yan, Shengen and Wen, Yonggang and Zhang, Tianwei},
  title     = {Characterization and Prediction of Deep Learning Workloads in Large-Scale {GPU} Datacenters},
  booktitle = {Proceedings of the International Conference for High Performance Computing, Networking,
               Storage and Analysis (SC '21)},
  year      = {2021},
  doi       = {10.1145/3458817.3476223}
}""",
    shapes=(LOG, GPUS),
    needs=("log",),
    read=read,
    options=frozenset({"snapshot", "known-vcs"}),
    cluster_hint="give cluster_gpu_number.csv beside the log, or replay with --cluster preset:helios-...",
)
