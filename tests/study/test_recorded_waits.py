"""Recorded waits and recorded utilisation of `inspect`: a plain computation on random tables, and by hand."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Invoke
from core_run import CASES
from ringbco.study.inspection import inspect

Row = dict[str, Any]


def p90(values: Iterable[float]) -> float:
    ordered = sorted(values)
    at = 0.9 * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def spread(waits: list[float]) -> Row:
    return {"mean": statistics.mean(waits), "median": statistics.median(waits), "p90": p90(waits)}


def jobs_of(draw: random.Random) -> list[Row]:
    """Few distinct times: runs end when others start, and submissions tie."""
    rows = []
    for number in range(draw.randint(1, 25)):
        submit = float(draw.randint(0, 12))
        start = None if draw.random() < 0.2 else submit + draw.randint(0, 6)
        duration = float(draw.randint(1, 8))
        ends = start is not None and draw.random() < 0.4
        row = {
            "job_id": f"j{number}",
            "submit_time": submit,
            "num_gpus": draw.randint(1, 4),
            "duration": duration,
        }
        row |= {"gpu_share": 0.5 if row["num_gpus"] == 1 and draw.random() < 0.5 else None}
        row |= {"user": draw.choice(["a", "b", None]), "recorded_start": start}
        rows.append(
            row
            | {"recorded_end": start + duration + draw.randint(0, 3) if ends and start is not None else None}
        )
    return rows


def plain(rows: list[Row], num_gpus: int | None) -> Row | None:
    """Second by second: all times are whole."""
    known = [row for row in rows if row["recorded_start"] is not None]
    if not known:
        return None
    held: dict[int, float] = {}
    for row in known:
        end = row["recorded_start"] + row["duration"] if row["recorded_end"] is None else row["recorded_end"]
        for second in range(int(row["recorded_start"]), int(end)):
            held[second] = held.get(second, 0.0) + (row["gpu_share"] or row["num_gpus"])
    first, last = (int(end(row["submit_time"] for row in rows)) for end in (min, max))
    most = max(held.values())
    seconds = sum(gpus for second, gpus in held.items() if first <= second < last)
    gpus = most if num_gpus is None else num_gpus
    waits = {row["job_id"]: row["recorded_start"] - row["submit_time"] for row in known}
    by: dict[str, dict[Any, list[float]]] = {"num_gpus": {}, "user": {}}
    for row in known:
        for name, groups in by.items():
            groups.setdefault(row[name], []).append(waits[row["job_id"]])
    named = any(row["user"] is not None for row in rows)
    return {
        "jobs": len(known),
        "waits": spread(list(waits.values())),
        "num_gpus": {key: (len(own), spread(own)) for key, own in by["num_gpus"].items()},
        "user": {key: (len(own), spread(own)) for key, own in by["user"].items()} if named else None,
        "most_gpus": most,
        "gpus": gpus,
        "gpu_seconds": seconds,
        "utilisation": seconds / gpus / (last - first) if last > first else None,
        "from": first,
        "to": last,
    }


def agree(found: Row, right: Row) -> None:
    for key in ("jobs", "most_gpus", "gpus", "gpu_seconds", "utilisation", "from", "to"):
        assert found[key] == (None if right[key] is None else pytest.approx(right[key])), key
    assert {key: found["waits"][key] for key in right["waits"]} == pytest.approx(right["waits"])
    assert found["waits_by"]["vc"] is None
    for column in ("num_gpus", "user"):
        groups, told = right[column], found["waits_by"][column]
        if groups is None:
            assert told is None
            continue
        assert {row[column]: row["jobs"] for row in told} == {key: jobs for key, (jobs, _) in groups.items()}
        for row in told:
            assert {key: row[key] for key in ("mean", "median", "p90")} == pytest.approx(
                groups[row[column]][1]
            )
    sizes = [row["num_gpus"] for row in found["waits_by"]["num_gpus"]]
    assert sizes == sorted(sizes)
    counts = [row["jobs"] for row in found["waits_by"]["user"] or ()]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("chunk", range(-(-CASES // 100)))
def test_random_tables_are_as_a_plain_computation_says(chunk: int) -> None:
    agreed = 0
    for seed in range(100 * chunk, 100 * (chunk + 1)):
        draw = random.Random(seed)
        rows = jobs_of(draw)
        frame = pl.DataFrame(
            rows,
            schema_overrides={
                "recorded_start": pl.Float64,
                "recorded_end": pl.Float64,
                "gpu_share": pl.Float64,
                "user": pl.String,
            },
        )
        if draw.random() < 0.5:
            frame, rows = frame.drop("recorded_end"), [row | {"recorded_end": None} for row in rows]
        num_gpus = draw.choice([None, 16])
        found = inspect(frame, None if num_gpus is None else "2x8")["recorded"]
        right = plain(rows, num_gpus)
        if right is None:
            assert found is None
            continue
        agree(found, right)
        agreed += 1
    assert agreed > 50


def test_the_terminal_and_json_tell_them(invoke: Invoke, tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text(
        "job_id,submit_time,num_gpus,duration,user,recorded_start\n"
        "a,0,4,100,ada,0\nb,0,2,100,ada,60\nc,200,2,100,bo,260\nd,200,2,100,bo,\n"
    )
    shown = " ".join(invoke("inspect", table, "--cluster", "1x8").stdout.split())
    assert "recorded starts 3 jobs, 75.0 %" in shown
    # 4 GPUs for 100 s and 2 GPUs for 100 s of 8 GPUs for 200 s.
    assert "recorded utilisation 37.5 % of the 8 GPUs of 1x8, from the first to the last submission" in shown
    assert "user jobs mean recorded wait median p90" in shown
    assert "ada 2 30.0 s 30.0 s 54.0 s" in shown
    shown = " ".join(invoke("inspect", table).stdout.split())
    assert "50.0 % of 6 GPUs, the most that they held at once, from the first" in shown
    assert '"utilisation": 0.5' in invoke("inspect", table, "--json").stdout
    table.write_text("job_id,submit_time,num_gpus,duration\na,0,4,100\n")
    assert "recorded starts" not in invoke("inspect", table).stdout


def test_a_start_that_is_no_time_is_told_by_row(invoke: Invoke, tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text("job_id,submit_time,num_gpus,duration,recorded_start\na,0,4,100,soon\n")
    run = invoke("inspect", table)
    assert run.returncode == 1
    assert "recorded_start" in run.stderr
    assert "row 1" in run.stderr
    assert "soon" in run.stderr
