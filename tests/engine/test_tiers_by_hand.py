"""A network of tiers by hand: what jobs get of links, and what that costs (docs/tiers.md)."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from cases.case import Case
from cases.compare import agreed
from ringbco.errors import InputError

TEN = 10e9
"""Bytes/s; what every ring sends in an iteration."""


def spanning(
    rows: int, *, gpus: int = 2, iterations: int = 100, **columns: list[Any]
) -> list[dict[str, Any]]:
    """Jobs that compute 1 s an iteration and send 2 x = 10e9 bytes in it, submitted at 0."""
    own = {"num_gpus": gpus, "duration": 100.0, "iterations": iterations}
    own["gradient_bytes"] = TEN / 2 * gpus / (gpus - 1)
    compute = {"batch_size": 1, "fp_time": 1.0, "bp_time": 0.0}
    return [
        {"job_id": f"j{row}", "submit_time": 0.0, **own, **compute}
        | {name: values[row] for name, values in columns.items()}
        for row in range(rows)
    ]


def case_of(
    servers: int, jobs: list[dict[str, Any]], tiers: list[dict[str, Any]], gpus: int = 1, **more: Any
) -> Case:
    case = Case(1.0, 1.0, jobs=jobs, servers=[{"gpus": gpus} for _ in range(servers)], tiers=tiers)
    case.network = {"intra_bandwidth": 1e12, "inter_bandwidth": TEN, "reduce_speed": 1e300}
    case.network |= {"xi1": 1.0, "xi2": 0.0, "alpha": 0.0}
    case.nics = more.pop("nics", "server")
    case.options = {"placement": "first-fit", "model": "rar", "oversize": "drop", **more}
    return case


def finishes(case: Case) -> list[float]:
    agreed(case)
    outcome = case.replay()
    assert ringbco.audit(outcome, case.frame()) == []
    return outcome.jobs["finish_time"].to_list()


def test_an_uplink_is_shared_by_those_who_cross_it() -> None:
    """Racks are servers of 2 GPUs; j0 holds 2 and 1, j1 holds 1 and 2: both are on the second."""
    racks = [{"name": "rack", "bandwidth": TEN, "servers": 1}]
    jobs = spanning(2, gpus=3)
    jobs[1]["iterations"] = 150
    # k = 2 at the server's link as at the uplink: 3 s. From 300 s on j1 is alone: 2 s.
    assert finishes(case_of(3, jobs, racks, gpus=2)) == [300.0, 400.0]


def test_what_uplinks_cost_is_told() -> None:
    """1 s over the links of servers, 2 s over uplinks of half of that."""
    racks = [{"name": "rack", "bandwidth": TEN / 2, "servers": 2}]
    case = case_of(4, spanning(1, gpus=4), racks)
    assert finishes(case) == [300.0]
    row = case.replay().jobs.row(0, named=True)
    assert row["ideal_run_time"] == 200.0
    assert row["run_contention_uplinks"] == row["run_contention"] == 100.0
    assert (row["max_crossing"], row["max_contention"], row["run_spread"]) == (1.0, 1, 0.0)


def test_who_crosses_no_uplink_loses_nothing() -> None:
    racks = [{"name": "rack", "bandwidth": 1.0, "servers": 2}]
    case = case_of(2, spanning(1), racks)
    assert finishes(case) == [200.0]
    row = case.replay().jobs.row(0, named=True)
    assert (row["max_crossing"], row["run_contention_uplinks"], row["run_contention"]) == (0.0, 0.0, 0.0)


def test_sharing_off_leaves_the_slowness_of_an_uplink() -> None:
    racks = [{"name": "rack", "bandwidth": TEN / 2, "servers": 1}]
    assert finishes(case_of(3, spanning(2, gpus=3), racks, gpus=2, sharing="off")) == [300.0, 300.0]


def test_intensity_counts_without_tiers() -> None:
    jobs = spanning(2, gpus=3, intensity=[0.5, None])
    # j0 meets 1 + 1 on the second server: 3 s; j1 meets 1.5: 2.5 s. From 250 s on j0 is alone: 2 s.
    assert finishes(case_of(3, jobs, [], gpus=2)) == [pytest.approx(250.0 + 2.0 * (100 - 250 / 3)), 250.0]


def test_a_paused_job_crosses_its_links() -> None:
    racks = [{"name": "rack", "bandwidth": TEN, "servers": 1}]
    jobs = spanning(2, gpus=3)
    jobs[1]["submit_time"] = 100.0
    case = case_of(3, jobs, racks, gpus=2, start_cost=100.0)
    # j0 pauses until 100 s, j1 from then until 200 s, and slows j0 all the same: 3 s.
    assert finishes(case)[0] == 400.0
    assert case.replay().jobs["run_contention_uplinks"].to_list() == [0.0, 0.0]


def test_the_slot_clock_floors_what_is_left() -> None:
    racks = [{"name": "rack", "bandwidth": TEN / 4, "servers": 1}]
    # 5 s an iteration over the uplink: 2 in a slot of 12 s.
    assert finishes(case_of(2, spanning(1), racks, clock="slot", slot=12.0)) == [600.0]


def test_a_plan_refuses_tiers(tmp_path: Path) -> None:
    case = case_of(2, spanning(1), [{"name": "rack", "bandwidth": TEN, "servers": 1}])
    per_gpu = case_of(2, spanning(1), [], nics="gpu")
    for changed, has in ((case, "a network of tiers"), (per_gpu, "a link for each GPU")):
        (path := tmp_path / "cluster.toml").write_text(changed.toml(), encoding="utf-8")
        with pytest.raises(InputError, match=f"has {has}, and a plan") as caught:
            ringbco.plan(changed.frame(), path)
        assert "\n" not in str(caught.value)


def shared_cases() -> list[Any]:
    """The cases worked by hand that lie beside the project, if they do."""
    from conftest import SHARED

    path = SHARED / "cases" / "tiers.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def test_cases_worked_by_hand(tmp_path: Path) -> None:
    cases = shared_cases()
    if not cases:
        pytest.skip("there are no cases worked by hand beside the project")
    for case in cases:
        path = tmp_path / "cluster.toml"
        path.write_text(case["cluster"], encoding="utf-8")
        words = shlex.split(case["options"])
        given = {words[at].removeprefix("--"): words[at + 1] for at in range(0, len(words), 2)}
        rows = [{name: value if value != "" else None for name, value in job.items()} for job in case["jobs"]]
        jobs = pl.DataFrame(rows, schema_overrides={"segment": pl.UInt32})
        outcome = ringbco.replay(jobs, path, policy=given.pop("policy"), allocations=True, **given)  # type: ignore[arg-type]
        assert ringbco.audit(outcome, jobs) == [], case["name"]
        held = outcome.allocations
        assert held is not None
        for name, want in case["expect"].items():
            own = held.filter(pl.col("job_id") == name)
            there = dict(zip(map(str, own["server"]), own["num_gpus"], strict=True))
            row = outcome.jobs.filter(pl.col("job_id") == name).row(0, named=True)
            row |= {"start": row["start_time"], "finish": row["finish_time"], "servers": there}
            assert row.pop("servers") == want.pop("servers"), (case["name"], name)
            assert {key: row[key] for key in want} == pytest.approx(want, rel=1e-15), (case["name"], name)
