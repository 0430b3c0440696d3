"""A log of Slurm read plainly, a row at a time, and random logs full of collisions to read.

It shares no code with the converter: one reason per row, in the order of the documented rules.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any

Row = dict[str, Any]

COLUMNS = (
    *("JobID", "User", "Partition", "State", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "Suspended"),
    *("Timelimit", "AllocTRES", "ReqTRES", "NodeList"),
)
WAITING = {"PENDING", "CONFIGURING", "REQUEUE_HOLD"}
RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED"}
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "REQUEUED", "RESIZING", "NODE_FAIL"}


def log(rng: random.Random, rows: int) -> str:
    """A log of so many rows, whose ids, times and resources come from small pools."""
    lines = ["|".join(COLUMNS)]
    for _ in range(rows):
        submit = rng.randrange(0, 7_200, 300)
        start = submit + rng.choice([0, 0, 300, 600, 1_200, -300])
        end = start + rng.choice([0, 300, 900, 3_600])
        number = rng.randrange(1, rows // 2 + 3)
        ident = rng.choice(["{}", "{}", "{}", "{}_1", "{}+0", "{}+1", "{}.batch", "{}+0.0", "{}_[2-5,9%2]"])
        cells = (
            ident.format(number),
            rng.choice(["u1", "u2", ""]),
            rng.choice(["gpu", "big"]),
            rng.choice(
                [*sorted(ENDED)] * 4 + ["PENDING", "RUNNING", "SUSPENDED", "CANCELLED by 5", "LOST", ""]
            ),
            _odd(rng, submit),
            _odd(rng, rng.choice([submit, submit, start, start + 60])),
            _odd(rng, start),
            _odd(rng, end),
            rng.choice([str(end - start), str(end - start), "", "soon", str(end - start + 3_600), "77"]),
            rng.choice(["00:00:00", "", "00:05:00", "a while"]),
            rng.choice(["1-00:00:00", "01:00:00", "30:00", "UNLIMITED", "", "long", "2-12", "0-01:30"]),
            rng.choice(TRES),
            rng.choice(TRES),
            rng.choice(["n1", "n[1-2]", "None assigned", ""]),
        )
        extra = ("more",) if rng.random() < 0.03 else ()
        lines.append("|".join((*cells, *extra)))
    return "\n".join(lines) + "\n"


TRES = (
    *("gres/gpu=2", "cpu=8,gres/gpu:kx=4,gres/gpu=4", "gres/gpu:kx=1,gres/gpu:ky=2", "cpu=8,gres/gpu=1"),
    *("cpu=8,gres/gpumem=9", "", "gres/shard=3", "gres/gpu:1g.10gb=2,gres/gpu=2", "gres/mps=50,gres/gpu=1"),
    *("gres/gpu:1g.10gb=1,gres/gpu:kx=1,gres/gpu=2", "cpu=2,mem=4G"),
)


def _odd(rng: random.Random, seconds: int) -> str:
    if rng.random() < 0.04:
        return rng.choice(["Unknown", "None", "", "later"])
    return datetime.fromtimestamp(1_777_852_800 + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def read(text: str, mode: str = "split") -> tuple[dict[str, Row], Counter[str]]:
    """The jobs by id, with times in seconds since 1970, and how many rows were dropped for each reason."""
    names, *lines = (line.split("|") for line in text.splitlines())
    rows = [_row(names, cells) | {"row": at} for at, cells in enumerate(lines)]
    dropped = Counter[str]()
    listed = _records(rows)
    with_rows = {row["id"] for row in rows if "." not in row["id"]}
    kept = []
    for row in rows:
        reason = _reason(row, listed, with_rows)
        if reason is None:
            kept.append(row)
        else:
            dropped[reason] += 1
    kept = _joined(kept, dropped)
    return _attempts(kept, mode, dropped), dropped


def _row(names: list[str], cells: list[str]) -> Row:
    row: Row = dict(zip(names, cells, strict=False))
    times = {name.lower(): _time(row[name]) for name in ("Submit", "Eligible", "Start", "End")}
    elapsed = float(row["ElapsedRaw"]) if row["ElapsedRaw"].isdigit() else None
    held = _length(row["Suspended"]) or 0
    if elapsed is None and times["start"] is not None and times["end"] is not None:
        elapsed = times["end"] - times["start"] - held
    gpus, kinds, parts, shares = _gpus(row["AllocTRES"])
    asked = _gpus(row["ReqTRES"])[1]
    submit, eligible, start = times["submit"], times["eligible"], times["start"]
    later = None not in (submit, eligible, start) and submit < eligible <= start  # type: ignore[operator]
    return times | {
        "id": row["JobID"],
        "surplus": len(cells) > len(names),
        "state": row["State"].split(" ", maxsplit=1)[0],
        "unassigned": row["NodeList"] == "None assigned",
        "at": eligible if later else submit,
        "duration": elapsed,
        "gpus": gpus,
        "parts": parts,
        "shares": shares,
        "recorded_on": kinds[0] if len(kinds) == 1 else None,
        "gpu_type": "|".join(asked) or None,
        "limit": _length(row["Timelimit"]),
        "vc": row["Partition"],
        "user": row["User"] or None,
    }


def _time(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _length(text: str) -> float | None:
    """[D-]HH:MM:SS, MM:SS, D-HH or D-HH:MM in seconds."""
    days, dash, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in parts) or len(parts) > 3 or (not dash and len(parts) == 1):
        return None
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return float(int(days) * 86_400 + hours * 3_600 + minutes * 60 + seconds)
    hours, minutes, seconds = [0, 0, *numbers][-3:]
    return float(hours * 3_600 + minutes * 60 + seconds)


def _gpus(text: str) -> tuple[int, list[str], int, bool]:
    """GPUs without MIG profiles, their types, MIG profiles, and whether shares of a GPU are among them."""
    total, whole, parts = None, 0, 0
    kinds, shares = [], False
    for item in filter(None, text.split(",")):
        name, _, value = item.partition("=")
        if name == "gres/gpu":
            total = int(value)
        elif name.startswith("gres/gpu:"):
            if re.search(r"\dg\.\d+gb", name):
                parts += int(value)
            else:
                whole += int(value)
                kinds.append(name[9:])
        shares = shares or name in ("gres/shard", "gres/mps")
    return (whole if total is None else total - parts), kinds, parts, shares


def _records(rows: list[Row]) -> set[int]:
    """The rows that are the record of their job and start."""
    groups = defaultdict(list)
    for row in rows:
        if not row["surplus"]:
            started = row["start"] is not None
            groups[row["id"], started, row["start"] if started else row["submit"]].append(row)
    return {id(min(group, key=lambda row: row["end"] is None)) for group in groups.values()}


def _reason(row: Row, records: set[int], with_rows: set[str]) -> str | None:
    """Why a row is no job of its own; None if it is one."""
    state = row["state"]
    base, dot, _ = row["id"].partition(".")
    early = state in ENDED and (row["start"] is None or row["unassigned"])
    checks = (
        (row["surplus"], "more cells than names"),
        (id(row) not in records, "listed twice"),
        (dot and base in with_rows, "a step of a job that has a row of its own"),
        (dot, "a step whose job has no row"),
        ("[" in row["id"] or state in WAITING or early, "waits, or was cancelled before it started"),
        (state in RUNNING or row["end"] is None, "still runs"),
        (state not in ENDED, "state is not one of a job that ended"),
        (row["shares"] and row["gpus"] < 1, "a share of a GPU whose size is not told (gres/shard, gres/mps)"),
        (row["gpus"] < 1 and row["parts"], "holds MIG profiles alone (--mig gpu counts each as a GPU)"),
        (row["gpus"] < 1, "no GPUs (a CPU job)"),
        (row["submit"] is None, "Submit unreadable"),
        (row["duration"] is None or row["duration"] <= 0, "ran for no time"),
        (row["submit"] is not None and row["start"] < row["submit"] if row["start"] else False,
         "starts before it is submitted"),
    )  # fmt: skip
    return next((reason for met, reason in checks if met), None)


def _joined(rows: list[Row], dropped: Counter[str]) -> list[Row]:
    """One row per heterogeneous job."""
    groups = defaultdict(list)
    rest = []
    for row in rows:
        lead, plus, _ = row["id"].partition("+")
        if plus:
            groups[lead, row["submit"]].append(row)
        else:
            rest.append(row)
    for (lead, _), parts in groups.items():
        most = min(parts, key=lambda part: (-part["gpus"], int(part["id"].split("+")[1])))
        start, end = min(part["start"] for part in parts), max(part["end"] for part in parts)
        joined = most | {
            "id": lead,
            "gpus": sum(part["gpus"] for part in parts),
            "start": start,
            "end": end,
            "at": min(part["at"] for part in parts),
            "duration": end - start if len(parts) > 1 else most["duration"],
        }
        rest.append(joined)
        dropped["a component of a heterogeneous job, joined"] += len(parts) - 1
    return rest


def _attempts(rows: list[Row], mode: str, dropped: Counter[str]) -> dict[str, Row]:
    by_id = defaultdict(list)
    for row in rows:
        by_id[row["id"]].append(row)
    jobs: dict[str, Row] = {}
    for name, group in by_id.items():
        group.sort(key=lambda row: (row["submit"], row["start"], row["row"]))
        stays: list[list[Row]] = []
        for row in group:
            before = stays[-1][-1] if stays else None
            if before is not None and before["state"] == "RESIZING" and before["end"] == row["start"]:
                stays[-1].append(row)
                dropped["a stretch of a resized job, joined (GPUs of the longest)"] += 1
            else:
                stays.append([row])
        attempts: list[list[Row]] = []
        for stay in stays:
            row = _stay(stay)
            first, last = (attempts[-1][0], attempts[-1][-1]) if attempts else (None, None)
            if first is not None and last is not None and (
                row["submit"] == first["submit"] or abs(row["submit"] - last["end"]) <= 600
            ):  # fmt: skip
                attempts[-1].append(row)
            else:
                attempts.append([row])
        for number, each in enumerate(attempts):
            when = datetime.fromtimestamp(each[0]["submit"], UTC).strftime("%Y-%m-%dT%H:%M:%S")
            _job(f"{name}@{when}" if number else name, each, mode, jobs, dropped)
    return jobs


def _stay(stretches: list[Row]) -> Row:
    first, last = stretches[0], stretches[-1]
    longest = max(stretches, key=lambda row: row["duration"])
    return last | {
        **{key: first[key] for key in ("submit", "at", "start")},
        **{key: longest[key] for key in ("gpus", "gpu_type", "recorded_on")},
        "duration": sum(row["duration"] for row in stretches),
    }


def _job(name: str, attempts: list[Row], mode: str, jobs: dict[str, Row], dropped: Counter[str]) -> None:
    first, last = attempts[0], attempts[-1]
    if len(attempts) == 1:
        jobs[name] = first
    elif mode == "split":
        for number, row in enumerate(attempts, start=1):
            follows = number > 1 and attempts[number - 2]["vc"] == row["vc"]
            jobs[f"{name}#{number}"] = row | {"after": f"{name}#{number - 1}" if follows else None}
    else:
        left_out = "an earlier attempt of a job, left out" if mode == "last" else "an attempt, joined"
        dropped[left_out] += len(attempts) - 1
        row = last | {"at": first["at"]}
        if mode == "span":
            row |= {"gpus": first["gpus"], "start": first["start"], "duration": last["end"] - first["start"]}
        if mode == "sum":
            total = sum(each["duration"] for each in attempts)
            row |= {
                "gpus": max(each["gpus"] for each in attempts),
                "start": first["start"],
                "duration": total,
            }
        jobs[name] = row
