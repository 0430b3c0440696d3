"""Slurm: what `sacct -P` prints, steps included, with every defect that is known to occur."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from raw import Job, Raw, in_order, plan

COLUMNS = (
    *("JobID", "JobIDRaw", "Cluster", "User", "Account", "Partition", "QOS", "JobName", "Comment", "State"),
    *("Submit", "Eligible", "Start", "End", "ElapsedRaw", "Suspended", "Timelimit", "NNodes", "AllocTRES"),
    *("ReqTRES", "NodeList", "Priority"),
)
DAY = datetime(2026, 5, 4, tzinfo=UTC).timestamp()
CPU = "billing=8,cpu=8,mem=64G,node=1"
NODES = """\
NodeName=n01 Gres=gpu:kx:8(S:0-1) State=IDLE Partitions=gpu,dev
NodeName=n02 Gres=gpu:kx:8 State=DOWN Partitions=gpu
NodeName=c01 Gres=(null) State=IDLE Partitions=cpu
"""
DROPPED = {
    "too many cells": "more cells than names",
    "twice": "listed twice",
    "step": "a step of a job that has a row of its own",
    "lone step": "a step whose job has no row",
    "pending": "waits, or was cancelled before it started",
    "never started": "waits, or was cancelled before it started",
    "nodes assigned to none": "waits, or was cancelled before it started",
    "running": "still runs",
    "no end": "still runs",
    "odd state": "state is not one of a job that ended",
    "shard": "a share of a GPU whose size is not told (gres/shard, gres/mps)",
    "mig": "holds MIG profiles alone (--mig gpu counts each as a GPU)",
    "cpu job": "no GPUs (a CPU job)",
    "no submit": "Submit unreadable",
    "no time": "ran for no time",
    "early start": "starts before it is submitted",
    "component": "a component of a heterogeneous job, joined",
}
CHANGED = {
    "eligible": "submitted before it was eligible: counted from then",
    "clocks": "recorded run time differs from End - Start by 3,600 s: the clocks changed",
    "suspended": "recorded run time differs from End - Start by Suspended",
    "other time": "recorded run time differs from End - Start: used",
}
NOTED = {
    "two types": "holds several GPU types: recorded_on left empty",
    "more": "holds more GPUs than ReqTRES asks for",
    "odd limit": "Timelimit unreadable: left out",
    "odd eligible": "Eligible unreadable: left out",
    "odd nodes": "NNodes unreadable: left out",
    "odd priority": "Priority unreadable: left out",
}
KEPT = ("requeued", "named", "no limit")


def iso(seconds: float) -> str:
    """Seconds since 1970 as sacct prints them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def hms(seconds: int) -> str:
    """A duration as sacct prints it."""
    days, rest = divmod(seconds, 86_400)
    text = f"{rest // 3_600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


def generate(seed: int = 0, good: int = 60, each: int = 2) -> Raw:
    """A log of `good` sound jobs and `each` of every defect."""
    rng = random.Random(seed)
    kinds = ["", *plan(rng, good - 1, [*DROPPED, *CHANGED, *NOTED, *KEPT], each)]
    lines, jobs, dropped = [], [], Counter[str]()
    for number, kind in enumerate(kinds, start=1):
        rows, job = _made(rng, str(number), kind)
        lines += [
            "|".join(row[name] for name in COLUMNS) + "|extra" * (kind == "too many cells") for row in rows
        ]
        if kind in DROPPED:
            dropped[DROPPED[kind]] += 1
        jobs += job
    changed, noted = (
        Counter(reasons[kind] for kind in kinds if kind in reasons) for reasons in (CHANGED, NOTED)
    )
    text = "|".join(COLUMNS) + "\n" + "\n".join(lines) + "\n"
    return Raw({"made.psv": text}, len(lines), in_order(jobs, DAY), dropped, changed, noted)


def _made(rng: random.Random, number: str, kind: str) -> tuple[list[dict[str, str]], list[Job]]:
    """The rows of one job or defect, and the jobs that they are."""
    submit = DAY + rng.randrange(0 if number == "1" else 40_000, 80_000)
    wait, run, gpus = rng.randrange(20_000), rng.randrange(60, 200_000), rng.choice([1, 2, 4, 8])
    limit = rng.choice([3_600, 90_000, 345_600])
    start, end = submit + wait, submit + wait + run
    held = f"billing=8,cpu=8,gres/gpu:kx={gpus},gres/gpu={gpus},mem=64G,node=1"
    node, state = (
        f"n{rng.randrange(1, 20):02}",
        rng.choice(["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 7"]),
    )
    row = dict(
        zip(
            COLUMNS,
            (
                *(number, number, "c", f"u{rng.randrange(5)}", "acc", "gpu", "normal", "train", "", state),
                *(iso(submit), iso(submit), iso(start), iso(end), str(run), "00:00:00", hms(limit), "1"),
                *(held, held, node, "100"),
            ),
            strict=True,
        )
    )
    job: Job = {
        "job_id": number,
        "submit_time": submit,
        "num_gpus": gpus,
        "duration": float(run),
        "user": row["User"],
        "vc": "gpu",
        "status": state.split(maxsplit=1)[0],
        "gpu_type": "kx",
        "recorded_on": "kx",
        "time_limit": float(limit),
    }
    step = row | {"JobID": f"{number}.batch", "JobIDRaw": f"{number}.batch", "User": "", "Partition": ""}
    rows = [row]
    match kind:
        case "twice":
            rows = [row, row | {"End": "Unknown", "State": "RUNNING"}]
            rng.shuffle(rows)
        case "step":
            rows = [row, step | {"End": iso(end + 76)}]
            rng.shuffle(rows)
        case "lone step":
            rows = [step]
        case "component":
            first = row | {"JobID": f"{number}+0"}
            half = held.replace(f"={gpus}", "=1")
            rows = [first, row | {"JobID": f"{number}+1", "AllocTRES": half}]
            rows[1] |= {"End": iso(end - 10), "ElapsedRaw": str(run - 10)}
            job["num_gpus"] += 1
        case "requeued":
            again = row | {"Submit": iso(end + 5), "Eligible": iso(end + 5), "Start": iso(end + 9)}
            rows = [row | {"State": "REQUEUED"}, again | {"End": iso(end + 9 + run)}]
            second = job | {"job_id": f"{number}#2", "submit_time": end + 5}
            return rows, [job | {"job_id": f"{number}#1", "status": "REQUEUED"}, second]
        case "eligible":
            row["Eligible"] = iso(start)
            job["submit_time"] = start
        case _:
            row |= _cells(kind, row, gpus, start, end)
            job |= {
                "two types": {"recorded_on": None, "num_gpus": gpus + 1},
                "more": {"num_gpus": gpus + 1},
                "odd limit": {"time_limit": None},
                "no limit": {"time_limit": None},
            }.get(kind, {})
    kept = kind not in DROPPED or kind in ("twice", "step", "component")
    return rows, [job] if kept else []


def _cells(kind: str, row: dict[str, str], gpus: int, start: float, end: float) -> dict[str, str]:
    """The cells by which a row of that kind differs from a sound one."""
    two = f"cpu=8,gres/gpu:kx={gpus},gres/gpu:ky=1,node=2"
    return {
        "pending": {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "AllocTRES": ""},
        "never started": {"State": "CANCELLED by 5", "Start": "None", "AllocTRES": "", "ElapsedRaw": "0"},
        "nodes assigned to none": {"State": "CANCELLED", "NodeList": "None assigned"},
        "running": {"State": "RUNNING", "End": "Unknown"},
        "no end": {"State": "COMPLETED", "End": ""},
        "odd state": {"State": "LOST"},
        "shard": {"AllocTRES": "cpu=2,gres/shard=4,node=1", "ReqTRES": ""},
        "mig": {"AllocTRES": "cpu=2,gres/gpu:1g.10gb=2,gres/gpu=2,node=1", "ReqTRES": ""},
        "cpu job": {"AllocTRES": CPU, "ReqTRES": CPU},
        "no submit": {"Submit": "Unknown", "Eligible": "Unknown"},
        "no time": {"End": row["Start"], "ElapsedRaw": "0"},
        "early start": {"Submit": iso(start + 5), "Eligible": iso(start + 5)},
        "clocks": {"End": iso(end + 3_600)},
        "suspended": {"End": iso(end + 90), "Suspended": "00:01:30"},
        "other time": {"End": iso(end + 7)},
        "two types": {"AllocTRES": two, "ReqTRES": f"cpu=8,gres/gpu:kx={gpus + 1},node=2"},
        "more": {"AllocTRES": f"cpu=8,gres/gpu:kx={gpus + 1},node=1"},
        "odd limit": {"Timelimit": "a week"},
        "odd eligible": {"Eligible": "soon"},
        "odd nodes": {"NNodes": "few"},
        "odd priority": {"Priority": "high"},
        "named": {"JobName": "a long name", "Comment": "best, so far"},
        "no limit": {"Timelimit": "UNLIMITED"},
    }.get(kind, {})


def write_large(path: Path, rows: int, seed: int = 0) -> None:
    """A log of sound jobs in bulk with two steps each: `rows` rows of `sacct -P`."""
    with path.open("w") as file:
        file.write("|".join(COLUMNS) + "\n")
        for row in _sound(-(-rows // 3), seed):
            steps = ({"JobID": f"{row['JobID']}.{name}", "User": ""} for name in ("batch", "0"))
            file.writelines("|".join((row | step).values()) + "\n" for step in ({}, *steps))


def write_large_json(path: Path, jobs: int, seed: int = 0) -> None:
    """The same as `sacct --json` prints it: over several lines, with a step and much that nothing reads."""
    with path.open("w") as file:
        file.write('{\n  "jobs": [')
        for number, row in enumerate(_sound(jobs, seed)):
            text = msgspec.json.format(msgspec.json.encode(as_json(row)), indent=2).decode()
            file.write(("," if number else "") + "\n    " + text.replace("\n", "\n    "))
        file.write(
            '\n  ],\n  "meta": {"slurm": {"release": "23.02.4"}},\n  "errors": [],\n  "warnings": []\n}\n'
        )


def _sound(jobs: int, seed: int) -> Iterator[dict[str, str]]:
    """The rows of sound jobs in order of submission."""
    rng = random.Random(seed)
    for number in range(1, jobs + 1):
        [row], _ = _made(rng, str(number), "")
        submit = DAY + 9 * number
        wait, run = rng.randrange(20_000), int(row["ElapsedRaw"])
        times = {"Submit": submit, "Eligible": submit, "Start": submit + wait, "End": submit + wait + run}
        yield row | {name: iso(seconds) for name, seconds in times.items()}


def as_json(row: dict[str, str]) -> dict[str, Any]:
    """A row of sacct, no step, as an object of `jobs` in what `sacct --json` prints."""

    def number(value: int) -> dict[str, Any]:
        return {"set": True, "infinite": False, "number": value}

    def resources(text: str) -> list[dict[str, Any]]:
        items = (item.split("=") for item in text.split(",") if item)
        parts = ((*key.partition("/"), value) for key, value in items)
        return [
            {"type": kind, "name": name, "id": 1_001, "count": int(value.removesuffix("G"))}
            for kind, _, name, value in parts
        ]

    def instant(text: str) -> int:
        return int(datetime.fromisoformat(text + "+00:00").timestamp()) if text[:1].isdigit() else 0

    def seconds(text: str) -> int:
        days, _, clock = text.rpartition("-")
        hours, minutes, rest = map(int, clock.split(":"))
        return int(days or 0) * 86_400 + hours * 3_600 + minutes * 60 + rest

    times = {name: instant(row[name.capitalize()]) for name in ("eligible", "start", "end")}
    times |= {"elapsed": int(row["ElapsedRaw"]), "submission": instant(row["Submit"])}
    limit = row["Timelimit"]
    endless = {"set": False, "infinite": True, "number": 0}
    lead, _, offset = row["JobID"].partition("+")
    tres, user = resources(row["AllocTRES"]), {"user": row["User"], "account": row["Account"]}
    state = row["State"].split(maxsplit=1)[0]
    step = {
        "time": times | {"user": {"seconds": 0, "microseconds": 0}},
        "exit_code": {"status": "SUCCESS", "return_code": 0},
        "nodes": {"count": 1, "range": row["NodeList"], "list": [row["NodeList"]]},
        "state": [state],
        "step": {"id": f"{row['JobID']}.batch", "name": "batch"},
        "tres": {"allocated": tres, "requested": {"max": [], "min": [], "total": tres}},
    }
    return {
        "account": row["Account"],
        "comment": {"administrator": "", "job": 'says "{[" of it', "system": ""},
        "allocation_nodes": int(row["NNodes"]),
        "array": {"job_id": 0, "limits": {"max": {"running": {"tasks": 0}}}, "task_id": 0, "task": ""},
        "association": user | {"cluster": row["Cluster"], "id": 7},
        "cluster": row["Cluster"],
        "constraints": "",
        "derived_exit_code": {"status": "SUCCESS", "return_code": 0},
        "exit_code": {"status": "SUCCESS", "return_code": 0},
        "flags": ["CLEAR_SCHEDULING", "STARTED_ON_BACKFILL"],
        "group": row["User"],
        "het": {"job_id": int(lead) if offset else 0, "job_offset": number(int(offset or 0))},
        "job_id": int(lead),
        "name": row["JobName"],
        "nodes": row["NodeList"],
        "partition": row["Partition"],
        "priority": number(int(row["Priority"])),
        "qos": row["QOS"],
        "required": {"CPUs": 8, "memory_per_cpu": number(0), "memory_per_node": number(65_536)},
        "state": {"current": state, "reason": "None"},
        "steps": [step],
        "time": times
        | {
            "suspended": seconds(row["Suspended"]),
            "limit": endless if limit == "UNLIMITED" else number(seconds(limit) // 60),
        },
        "tres": {"allocated": tres, "requested": resources(row["ReqTRES"])},
        "user": row["User"],
        "working_directory": f"/home/{row['User']}/runs",
    }
