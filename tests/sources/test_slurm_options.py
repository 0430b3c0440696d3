"""Each option of `convert slurm` by itself, with the numbers that it gives; each bad input as one line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Invoke
from ringbco.io.printed import SACCT
from ringbco.trace.jobs import read_jobs

NAMES = "JobID|State|Partition|Submit|Start|End|AllocTRES"
ROW = "{0}|COMPLETED|gpu|2026-05-04T08:00:00|2026-05-04T08:00:10|2026-05-04T09:00:10|cpu=4,gres/gpu={1}"
TABLE = (
    "id_job,id_array_job,id_array_task,id_user,partition,state,timelimit,time_submit,time_start,time_end,"
    "tres_alloc,tres_req"
)
DUMP = '{0},0,4294967294,7,gpu,3,60,1620000000,1620000010,1620003610,"{1}","{1}"'


def converted(invoke: Invoke, *arguments: object, text: str = "") -> tuple[list[tuple[Any, ...]], Any]:
    """job_id, num_gpus, recorded_on, duration of the jobs, and what --json says."""
    if text:
        Path("log").write_text(text)
    done = invoke("convert", "slurm", *arguments, "-o", "j.parquet", "--json", "--force")
    assert done.returncode == 0, done.stderr
    frame = read_jobs("j.parquet").frame
    named = [c for c in ("job_id", "num_gpus", "recorded_on", "duration") if c in frame.columns]
    return frame.select(named).rows(), json.loads(done.stdout)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (ROW, NAMES.replace("|", ",")),
        (ROW, "jobid%20,STATE%-12,partition,Submit%19,Start,End,AllocTRES%200"),
        (ROW + "|", NAMES.replace("|", ",")),  # sacct -p -n
        (ROW.replace("|", ";"), NAMES.replace("|", ",")),  # --delimiter
        (  # as many commas as bars, and more
            ROW.replace("gpu={1}", "gpu={1},mem=1G,node=1,billing=3,energy=4,fs/disk=5,vmem=6,pages=7"),
            NAMES.replace("|", ","),
        ),
        (ROW + "|n1|x", NAMES.replace("|", ",") + ",NodeList,JobName"),
    ],
)
def test_fields(text: str, fields: str, invoke: Invoke) -> None:
    rows = [text.format(i, gpus) for i, gpus in ((1, 2), ("1.batch", 2), ("2_3", 1))]
    jobs, account = converted(invoke, "log", "--fields", fields, text="\n".join(rows) + "\n")
    assert jobs == [("1", 2, None, 3_600.0), ("2_3", 1, None, 3_600.0)]
    assert account["rows_read"] == 3
    assert account["dropped"] == {"a step of a job that has a row of its own": 1}


def test_fields_are_those_of_each_file_without_a_header(invoke: Invoke) -> None:
    Path("headed").write_text(f"{NAMES}\n{ROW.format(1, 2)}\n")
    Path("bare").write_text(ROW.format(2, 4) + "\n")
    jobs, _ = converted(invoke, "headed", "bare", "--fields", NAMES.replace("|", ","))
    assert [job[:2] for job in jobs] == [("1", 2), ("2", 4)]


def test_tres(invoke: Invoke) -> None:
    """1001 is gres/gpu unless a file of names says otherwise; it may have slurmdbd's own three columns."""
    rows = [DUMP.format(1, "1=8,1001=2"), DUMP.format(2, "1=8,1002=4"), DUMP.format(3, "1=8,1003=1,1001=1")]
    text = "\n".join((TABLE, *rows)) + "\n"
    jobs, account = converted(invoke, "log", text=text)
    assert jobs == [("1", 2, None, 3_600.0), ("3", 1, None, 3_600.0)]
    assert account["dropped"] == {"no GPUs (a CPU job)": 1}
    assert read_jobs("j.parquet").frame["time_limit"].to_list() == [3_600.0] * 2
    for names in (
        "id,name\n1,cpu\n1001,gres/gpu:kx\n1002,gres/gpu:ky\n",
        "id|type|name\n1|cpu|\n1001|gres|gpu:kx\n1002|gres|gpu:ky\n",
    ):
        Path("tres").write_text(names)
        jobs, account = converted(invoke, "log", "--tres", "tres")
        assert jobs == [("1", 2, "kx", 3_600.0), ("2", 4, "ky", 3_600.0), ("3", 1, "kx", 3_600.0)]
        assert account["dropped"] == {}


@pytest.mark.parametrize(
    ("zone", "epoch", "submit"),
    [
        (None, "2026-05-04T00:00:00", 28_800.0),
        ("UTC", "2026-05-04T00:00:00Z", 28_800.0),
        ("Europe/Berlin", "2026-05-04T00:00:00Z", 21_600.0),
        ("America/New_York", "2026-05-04T00:00:00Z", 43_200.0),
        ("Asia/Kolkata", "2026-05-04T00:00:00Z", 9_000.0),
        ("Pacific/Auckland", "2026-05-03T00:00:00Z", 72_000.0),
    ],
)
def test_timezone(zone: str | None, epoch: str, submit: float, invoke: Invoke) -> None:
    """Wall clocks become UTC; so do the ends of a window, which are of the same zone."""
    options = () if zone is None else ("--timezone", zone)
    rows = [ROW.format(1, 1), ROW.format(2, 1).replace("T08:00:00", "T07:59:59")]
    text = "\n".join((NAMES, *rows)) + "\n"
    _, account = converted(invoke, "log", "--from", "2026-05-04T08:00", *options, text=text)
    assert account["epoch"] == epoch
    assert account["dropped"] == {"submitted before --from": 1}
    frame = read_jobs("j.parquet").frame
    assert frame.select("submit_time", "recorded_start", "recorded_end").rows() == [
        (submit, submit + 10, submit + 3_610)
    ]


NODES = """\
NodeName=g1 CPUTot=32 Gres=gpu:a100:4(S:0-1),shard:8 State=IDLE Partitions=big,all
NodeName=g2 CPUTot=32 Gres=gpu:a100:4 State=DOWN* Partitions=big,all
NodeName=g3 CPUTot=16 Gres=gpu:v100:2 State=MIXED+DRAIN Partitions=all
NodeName=g4 CPUTot=16 Gres=gpu:v100:8 State=IDLE Partitions=own
NodeName=c1 CPUTot=64 Gres=(null) State=IDLE Partitions=all,cpu
"""


def clusters(path: str) -> list[tuple[Any, ...]]:
    groups = tomllib.loads(Path(path).read_text())["servers"]
    return [(each.get("count", 1), each["gpus"], each.get("vc"), each.get("gpu_type")) for each in groups]


def test_cluster_out(invoke: Invoke) -> None:
    """Servers of nodes with GPUs; partitions that share a node are one virtual cluster, most GPUs first."""
    Path("nodes").write_text(NODES)
    held = ((1, 8, "big", "g[1-2]"), (2, 2, "all", "g3"), (3, 3, "own", "g4,g1"))
    rows = [f"{ROW.format(i, gpus)}|{nodes}".replace("|gpu|", f"|{vc}|") for i, gpus, vc, nodes in held]
    text = "\n".join((NAMES + "|NodeList", *rows)) + "\n"
    _, account = converted(invoke, "log", "nodes", "--cluster-out", "c.toml", text=text)
    served = [server for server in clusters("c.toml") for _ in range(server[0])]
    assert [server[1:] for server in served] == [
        (4, "all+big", "a100"), (4, "all+big", "a100"), (2, "all+big", "v100"), (8, "own", "v100")
    ]  # fmt: skip
    frame = read_jobs("j.parquet").frame
    assert frame["vc"].to_list() == ["all+big", "all+big", "own"]
    assert frame["partition"].to_list() == ["big", "all", "own"]
    assert frame["recorded_servers"].to_list() == ["0:4 1:4", "2:2", None]
    assert account["notes"][-2:] == [
        "nodes without GPUs, left out of the cluster: 1",
        "nodes drained or down, which count as servers: 2",
    ]
    _, account = converted(invoke, "log", "nodes", "--cluster-out", "c.toml", "--count", "cpu")
    assert [gpus for count, gpus, *_ in clusters("c.toml") for _ in range(count)] == [32, 32, 16, 16, 64]
    assert read_jobs("j.parquet").frame["num_gpus"].to_list() == [4, 4, 4]


def test_cluster_out_is_a_guess_without_nodes(invoke: Invoke) -> None:
    """The most that jobs held at once on a node, evenly over its jobs' nodes, rounded to 1, 2, 4, 8 or 16."""

    def row(job: int, gpus: int, nodes: str, start: str, end: str) -> str:
        text = ROW.format(job, gpus).replace("T08:00:10", f"T{start}:00").replace("T09:00:10", f"T{end}:00")
        return f"{text}|{nodes}"

    rows = (
        row(1, 3, "a1", "08:00", "09:00"),
        row(2, 2, "a1", "08:30", "10:00"),  # 5 at once: 8
        row(3, 2, "a2", "08:00", "09:00"),
        row(4, 1, "a2", "09:00", "10:00"),  # as the other ends: 2
        row(5, 9, "b[1-3]", "08:00", "09:00"),  # 3 each: 4
        row(6, 20, "c1", "08:00", "09:00"),  # beyond 16: as many
    )
    text = "\n".join((NAMES + "|NodeList", *rows)) + "\n"
    _, account = converted(invoke, "log", "--cluster-out", "c.toml", text=text)
    assert [gpus for count, gpus, *_ in clusters("c.toml") for _ in range(count)] == [8, 2, 4, 4, 4, 20]
    assert any(note.startswith("the cluster is a guess: 6 nodes of NodeList") for note in account["notes"])


BAD: dict[str, tuple[dict[str, str], tuple[str, ...], str]] = {
    "a header without a column": (
        {"log": "JobID|State|Submit|Start|AllocTRES\n1|COMPLETED|a|b|c\n"},
        (),
        f"log: has no column End; export the log with `{SACCT}`",
    ),
    "several columns are not there": (
        {"log": "JobIDRaw|JobName|Elapsed\n1|a|b\n"},
        (),
        "log: has no column State, Submit, Start, End, AllocTRES or AllocGRES; export the log with"
        f" `{SACCT}`",
    ),
    "names in --fields are too few": (
        {"log": ROW.format(1, 1) + "\n"},
        ("--fields", "JobID,State,Submit"),
        f"log: has no column Start, End, AllocTRES or AllocGRES; export the log with `{SACCT}`",
    ),
    "cells are too few": (
        {"log": "1|COMPLETED|2026-05-04T08:00:00\n"},
        ("--fields", NAMES.replace("|", ",")),
        "log: line 1: 1|COMPLETED|2026-05-04T08:00:00: expected 7 cells, as --fields has names",
    ),
    "no header": (
        {"log": ROW.format(1, 1) + "\n"},
        (),
        "log: has no header line (sacct -n); name its columns with --fields JobID,State,... as sacct's -o"
        " had them",
    ),
    "dashes": (
        {"log": "JobID           State\n------- ----------\n1      COMPLETED\n"},
        (),
        "log: is the output of `sacct` in columns cut to their width (line 2 is dashes), not a table of jobs;"
        f" use -P: export the log with `{SACCT} > jobs.psv`, then `ringbco convert slurm jobs.psv -o"
        " jobs.parquet`",
    ),
    "dashes between bars": (
        {"log": f"{NAMES}\n-----|-----|---|---|---|---|---\n{ROW.format(1, 1)}\n"},
        (),
        f"log: the columns of sacct are cut to their width (line 2 is dashes); use sacct -P: `{SACCT}`",
    ),
    "a hostlist without its end": (
        {"log": f"{NAMES}|NodeList\n{ROW.format(1, 1)}|n1\n{ROW.format('1.0', 1)}|\n"
         f"{ROW.format(2, 1)}|n[1-3\n"},
        (),
        "log: row 3 (line 4), column NodeList: n[1-3: expected a hostlist such as n[01-04],x7",
    ),
    "several clusters": (
        {"log": f"{NAMES}|Cluster\n{ROW.format(1, 1)}|east\n{ROW.format(2, 1)}|west\n"},
        (),
        "log: jobs of several clusters (east, west): choose one with --slurm-cluster NAME",
    ),
    "a node of several types": (
        {"log": f"{NAMES}\n{ROW.format(1, 1)}\n",
         "nodes": f"{NODES}NodeName=x CPUTot=8 Gres=gpu:a:4,gpu:b:2 Partitions=p\n"},
        (),
        "nodes: line 6, column Gres: gpu:a:4,gpu:b:2: expected GPUs of one type on node x: a server has one"
        " type",
    ),
    "names of resources": (
        {"log": f"{TABLE}\n{DUMP.format(1, '1001=1')}\n", "tres": "id,name\n1001\n"},
        ("--tres", "tres"),
        "tres: line 2: 1001: expected id,name such as 1001,gres/gpu",
    ),
    "a zone": (
        {"log": f"{NAMES}\n{ROW.format(1, 1)}\n"},
        ("--timezone", "Berlin"),
        "--timezone Berlin: no such zone; write one such as Europe/Berlin",
    ),
    "a date": (
        {"log": f"{NAMES}\n{ROW.format(1, 1)}\n"},
        ("--until", "04.05.2026"),
        "--until 04.05.2026: expected a date such as 2026-05-01 or 2026-05-01T08:00:00",
    ),
    "JSON that ends too early": (
        {"log": '{"meta": {"slurm": {}}, "jobs": [{"job_id": 1}'},
        (),
        "log: is no output of sacct --json (Input data was truncated); export it again",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_input_is_one_line(what: str, invoke: Invoke) -> None:
    files, options, said = BAD[what]
    for name, text in files.items():
        Path(name).write_text(text)
    inputs = [name for name in files if name != "tres"]
    done = invoke("convert", "slurm", *inputs, *options, "-o", "j.parquet")
    assert done.returncode in (1, 2)
    assert done.stderr == f"error: {said}\n"
    assert not Path("j.parquet").exists()


def test_json_is_read_beside_text(invoke: Invoke) -> None:
    """Its times are UTC, so those of the text need a zone."""
    times = {"submission": 1_777_881_600, "start": 1_777_881_600, "end": 1_777_885_200, "elapsed": 3_600}
    held = {"allocated": [{"type": "gres", "name": "gpu", "count": 8}], "requested": []}
    job = {"job_id": 7, "state": {"current": ["FAILED"]}, "time": times, "tres": held, "partition": "gpu"}
    Path("log.json").write_text(json.dumps({"meta": {"slurm": {}}, "jobs": [job]}))
    Path("log").write_text(f"{NAMES}\n{ROW.format(1, 2)}\n")
    refused = invoke("convert", "slurm", "log", "log.json", "-o", "j.parquet")
    assert refused.stderr.endswith("--timezone ZONE says what the others are\n")
    jobs, account = converted(invoke, "log", "log.json", "--timezone", "Europe/Berlin")
    assert [job[:2] for job in jobs] == [("1", 2), ("7", 8)]
    frame = read_jobs("j.parquet").frame
    assert frame.select("submit_time", "status").rows() == [(21_600.0, "COMPLETED"), (28_800.0, "FAILED")]
    assert frame.schema["num_gpus"] == pl.UInt32
    assert account["rows_read"] == 2
