"""Replays with outages: the documented example, figures, refusals, the audit, reports and timelines."""

from __future__ import annotations

import json
import random
import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from frames import outages, stays, table
from outage_forms import daly, expected_run_time, young
from ringbco.audits import check_outcome
from ringbco.errors import InputError, UsageError
from ringbco.reports.down_times import down_times
from ringbco.reports.perfetto import trace_events
from ringbco.reports.viewport import viewport
from ringbco.result.outcome import Outcome
from ringbco.trace.jobs import as_table

ONE = "job_id,submit_time,num_gpus,duration\na,0,1,10000\n"


def replay(
    jobs: pl.DataFrame, cluster: str, *rows: tuple[int, float, float | None], **options: Any
) -> Outcome:
    given = {"policy": "fifo", "model": "fixed"} | options
    return ringbco.replay(jobs, cluster, outages=outages(*rows), **given)


def test_the_documented_example(invoke: Invoke) -> None:
    Path("jobs.csv").write_text(ONE)
    Path("outages.csv").write_text("server,down_at,up_at,cause\n0,4000,5000,gpu\n")
    ran = invoke(
        *("replay", "jobs.csv", "--cluster", "1x1", "--policy", "fifo", "--model", "fixed"),
        *("--outages", "outages.csv", "-o", "r"),
    )
    assert ran.returncode == 0
    assert re.search(r"failures +1 *\nGPU time of lost work +6.7 min", ran.stdout)
    result = Outcome.read("r")
    assert stays(result) == [("a", 0, 1, 0.0, 4000.0), ("a", 0, 1, 5000.0, 11430.0)]
    summary = json.loads(Path("r", "summary.json").read_text())
    assert summary["failures"] == 1
    assert summary["lost_gpu_hours_by_cause"] == {"gpu": pytest.approx(400 / 3600)}
    assert summary["goodput"] == pytest.approx(1 - 430 / 10430)
    assert summary["effective_training_time_ratio"] == pytest.approx(10000 / 11430)
    assert summary["utilisation"] == pytest.approx(10430 / (11430 - 1000))
    assert invoke("audit", "r").returncode == 0
    again = invoke("replay", "--again", "r")
    assert again.returncode == 0
    assert "outages.parquet      the same" in again.stdout


def test_a_gang_falls_back_on_all_its_servers() -> None:
    jobs = table(num_gpus=[4, 2], duration=[100.0, 10.0], submit_time=[0.0, 1.0])
    result = replay(jobs, "2x2", (1, 50.0, 60.0), preempt_cost=0.0, checkpoint_interval=20.0)
    # From 50 s on server 0 is idle. The gang is first in a strict queue and waits for both.
    assert stays(result) == [
        ("j0", 0, 2, 0.0, 50.0), ("j0", 1, 2, 0.0, 50.0),
        ("j0", 0, 2, 60.0, 120.0), ("j0", 1, 2, 60.0, 120.0),
        ("j1", 0, 2, 120.0, 130.0),
    ]  # fmt: skip
    assert result.jobs["lost_work"].to_list() == [10.0, 0.0]
    skipped = replay(jobs, "2x2", (1, 50.0, 60.0), preempt_cost=0.0, checkpoint_interval=20.0, queue="skip")
    assert stays(skipped)[-1] == ("j1", 0, 2, 50.0, 60.0)


def test_an_outage_inside_a_slot_ends_stays_and_leaves_the_server_up() -> None:
    jobs = table(duration=[600.0])
    result = replay(jobs, "1x1", (0, 130.0, 140.0), clock="slot", slot=60.0, checkpoint_interval=100.0)
    # At 180 s: the checkpoint of 100 s counts at 120 s, so a slot is lost. A pause of a slot, then 8 slots.
    assert stays(result) == [("j0", 0, 1, 0.0, 180.0), ("j0", 0, 1, 180.0, 720.0)]
    assert (result.jobs["lost_work"][0], result.jobs["lost_time"][0], result.jobs["failures"][0]) == (
        60,
        60,
        1,
    )


@pytest.mark.parametrize(
    ("interval", "lost", "finish"),
    [(0.0, 0.0, 260.0), (50.0, 0.0, 260.0), (40.0, 20.0, 280.0), (float("inf"), 100.0, 360.0)],
)  # fmt: skip
def test_what_a_checkpoint_saves(interval: float, lost: float, finish: float) -> None:
    """The column comes before the option. A checkpoint at the failing instant counts."""
    other = {"checkpoint_interval": 7.0, "preempt_cost": 0.0}
    own = table(duration=[200.0], checkpoint_interval=[interval])
    for jobs, options in (
        (own, other),
        (own.drop("checkpoint_interval"), other | {"checkpoint_interval": interval}),
    ):
        result = replay(jobs, "1x1", (0, 100.0, 160.0), **options)
        assert (result.jobs["lost_work"][0], result.jobs["finish_time"][0]) == (lost, finish)


def test_a_job_that_completes_as_its_server_fails_is_complete() -> None:
    result = replay(table(duration=[100.0]), "1x1", (0, 100.0, None))
    assert (result.jobs["finish_time"][0], result.jobs["failures"][0]) == (100.0, 0)


def test_a_failed_job_waits_at_its_old_place() -> None:
    jobs = table(duration=[100.0, 100.0, 100.0], submit_time=[0.0, 1.0, 2.0])
    result = replay(jobs, "1x1", (0, 150.0, 160.0), preempt_cost=0.0)
    assert [stay[0] for stay in stays(result)] == ["j0", "j1", "j1", "j2"]


def test_servers_that_stay_down_end_the_run() -> None:
    with pytest.raises(InputError, match=r"job 'j0': still waits at 50 s, and nothing can change"):
        replay(table(duration=[100.0]), "1x1", (0, 50.0, None))
    with pytest.raises(InputError, match=r"job 'j0': still waits"):
        replay(table(duration=[100.0]), "1x1", (0, 50.0, None), policy="time-slice")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("server,down_at,up_at\n5,1,2\n", "column server: 5: expected the index of a server"),
        ("server,down_at,up_at\n0,5,2\n", "column up_at: 2: expected a number of seconds > down_at"),
        ("server,down_at,up_at\n0,-5,2\n", "column down_at: -5: expected a finite number of seconds >= 0"),
        ("server,down_at\n0,5\n", "has no column up_at"),
    ],
)  # fmt: skip
def test_bad_files_are_named(text: str, told: str, invoke: Invoke) -> None:
    Path("jobs.csv").write_text(ONE)
    Path("o.csv").write_text(text)
    ran = invoke("replay", "jobs.csv", "--cluster", "2x1", "--outages", "o.csv", "-o", "r")
    assert (ran.returncode, Path("r").exists()) == (1, False)
    assert told in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_bad_intervals_are_named() -> None:
    with pytest.raises(
        UsageError, match=r"option checkpoint-interval: -1\.0: expected a time >= 0 s, or inf"
    ):
        replay(table(duration=[100.0]), "1x1", (0, 50.0, 60.0), checkpoint_interval=-1.0)
    with pytest.raises(
        InputError, match=r"column checkpoint_interval: -1: expected a number of seconds >= 0"
    ):
        replay(table(duration=[100.0], checkpoint_interval=[-1.0]), "1x1", (0, 50.0, 60.0))


def test_own_policies_see_what_failed() -> None:
    seen: list[tuple[float, list[int], list[bool]]] = []

    class Fifo(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            seen.append((state.now, state.evicted.tolist(), state.up.tolist()))
            state.start(state.waiting)

    jobs = table(duration=[100.0, 100.0], num_gpus=[2, 2])
    mine = replay(jobs, "2x2", (1, 30.0, 90.0), policy=Fifo, placement="first-fit")
    theirs = replay(jobs, "2x2", (1, 30.0, 90.0), placement="first-fit")
    assert stays(mine) == stays(theirs)
    assert seen[1] == (30.0, [1], [True, False])
    assert (90.0, [], [True, True]) in seen


def drawn(rnd: random.Random, policy: str) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Jobs, and options with outages among them: several a server, some that overlap, some in one slot."""
    count = rnd.randint(4, 30)
    submit = sorted(rnd.choice([float(rnd.randrange(4000)), rnd.uniform(0, 4000)]) for _ in range(count))
    duration = [rnd.choice([float(rnd.randrange(1, 4000)), rnd.uniform(1, 2000)]) for _ in range(count)]
    columns: dict[str, list[Any]] = {
        "submit_time": submit,
        "duration": duration,
        "num_gpus": [rnd.choice([1, 1, 2, 4, 6, 8]) for _ in range(count)],
        "deadline": [s + 3 * d for s, d in zip(submit, duration, strict=True)],
    }
    if rnd.random() < 0.5:
        columns["checkpoint_interval"] = [
            rnd.choice([None, 0.0, float("inf"), 60.0, 7.3]) for _ in range(count)
        ]
    rows = []
    for _ in range(rnd.randint(0, 20)):
        down = rnd.choice([float(rnd.randrange(8000)), rnd.uniform(0, 8000), rnd.choice(submit)])
        rows.append(
            (rnd.randrange(4), down, down + rnd.choice([rnd.uniform(0.1, 30), rnd.uniform(10, 2000)]))
        )
    options: dict[str, Any] = {
        "policy": policy,
        "outages": outages(*rows),
        "model": rnd.choice(["rar", "fixed"]),
        "checkpoint_interval": rnd.choice([0.0, 1800.0, 100.0, float("inf"), 33.3]),
        "start_cost": rnd.choice([0.0, 0.0, 12.5]),
        "preempt_cost": rnd.choice([0.0, 30.0, 7.7]),
        "oversize": "drop",
    }
    if policy in ("fifo", "sjf", "smallest", "qssf"):
        options["queue"] = rnd.choice(["strict", "skip", "easy"])
    if rnd.random() < 0.5:
        options |= {"clock": "slot", "slot": rnd.choice([1.0, 7.0, 20.0, 0.7])}
    return table(**columns), options


SLOTS = {"clock": "slot", "slot": 100.0, "checkpoint_interval": float("inf"), "preempt_cost": 0.0}


@pytest.mark.parametrize(("up_at", "seen"), [(99.0, 100.0), (101.0, 200.0)])
def test_figures_and_pictures_go_by_the_boundaries_of_slots(up_at: float, seen: float) -> None:
    jobs = table(job_id=["a"])
    result = replay(jobs, "1x1", (0, 1.0, up_at), **SLOTS)
    # Done at 100 s, as its server goes down: until then the server was up.
    assert result.summary["utilisation"] == 1.0
    assert down_times(result, viewport(result, 0.0, 300.0, None)).rows() == [
        (0, 100.0, seen, "unknown", False)
    ]
    assert check_outcome(result, as_table(jobs)).findings == []


def causes(cluster: str, jobs: pl.DataFrame, *rows: tuple[int, float, float, str]) -> dict[str, float]:
    """Lost GPU-hours by cause, of outages with one, on the slot clock."""
    down = outages(*(row[:3] for row in rows)).with_columns(cause=pl.Series([row[3] for row in rows]))
    result = ringbco.replay(jobs, cluster, policy="fifo", model="fixed", outages=down, **SLOTS)
    assert check_outcome(result, as_table(jobs)).findings == []
    recorded: dict[str, float] = result.summary["lost_gpu_hours_by_cause"]
    return recorded


def test_outages_that_meet_at_a_boundary_have_the_cause_of_the_first() -> None:
    jobs = table(job_id=["a"], duration=[1000.0])
    rows = [(0, 130.0, 250.0, "network"), (0, 110.0, 120.0, "gpu")]
    assert causes("1x1", jobs, *rows) == {"gpu": pytest.approx(200 / 3600)}


def test_of_several_servers_at_a_boundary_the_lower_fails_first() -> None:
    jobs = table(job_id=["a"], num_gpus=[2], duration=[1000.0])
    rows = [(1, 110.0, 450.0, "network"), (0, 150.0, 160.0, "gpu")]
    assert causes("2x1", jobs, *rows) == {"gpu": pytest.approx(400 / 3600)}


@pytest.fixture(scope="module")
def sound() -> tuple[pl.DataFrame, Outcome]:
    jobs, options = drawn(random.Random("sound 1"), "srtf")
    jobs = jobs.drop("checkpoint_interval", strict=False)
    options["checkpoint_interval"] = 100.0
    result = ringbco.replay(jobs, "4x8", **options | {"model": "fixed"})
    assert not check_outcome(result, as_table(jobs)).findings
    assert result.summary["failures"] > 3
    return jobs, result


def failed_checks(table: pl.DataFrame, result: Outcome, **other: Any) -> set[str]:
    return {finding.code for finding in check_outcome(replace(result, **other), as_table(table)).findings}


def test_the_audit_finds_what_is_wrong(sound: tuple[pl.DataFrame, Outcome]) -> None:
    jobs, result = sound
    assert result.allocations is not None
    assert result.outages is not None
    failed = result.jobs["failures"] > 0
    row = int(failed.arg_max() or 0)
    at = pl.int_range(pl.len()) == row
    fewer = result.jobs.with_columns(failures=pl.when(at).then(pl.col("failures") - 1).otherwise("failures"))
    assert "outages" in failed_checks(jobs, result, jobs=fewer)
    more = result.jobs.with_columns(
        lost_work=pl.when(at).then(pl.col("lost_work") + 1).otherwise("lost_work")
    )
    assert "outages" in failed_checks(jobs, result, jobs=more)
    longer = result.outages.with_columns(up_at=pl.col("up_at") + 3000.0)
    assert "outages" in failed_checks(jobs, result, outages=longer)
    assert "outages" in failed_checks(jobs, result, outages=result.outages.clear())
    saved = {**result.run, "options": {**result.run["options"], "checkpoint_interval": 1.0}}
    assert "run-times" in failed_checks(jobs, result, run=saved)
    for name in (
        "goodput",
        "effective_training_time_ratio",
        "lost_work_gpu_seconds",
        "failures",
        "utilisation",
    ):
        assert failed_checks(jobs, result, summary={**result.summary, name: 0.123}) == {"summary"}
    causes = {**result.summary, "lost_gpu_hours_by_cause": {"gpu": 1.0}}
    assert failed_checks(jobs, result, summary=causes) == {"summary"}


def test_the_timeline_and_the_report_show_outages(
    sound: tuple[pl.DataFrame, Outcome], tmp_path: Path
) -> None:
    _, result = sound
    shown = viewport(result, None, None, None)
    events = list(trace_events(result, shown))
    down = [event for event in events if event.get("cat") == "down"]
    assert down
    assert {event["name"] for event in down} == {"down: unknown"}
    assert len(down) == down_times(result, shown).height
    named = [(e["pid"], e["tid"]) for e in events if e["args"].get("name") == "outages"]
    assert {(event["pid"], event["tid"]) for event in down} == set(named)
    ringbco.timeline(result, tmp_path / "t.json")
    ringbco.report(result, out=tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "GPUs down over time" in page
    assert "Work lost by cause" in page


def test_runs_without_outages_say_nothing_of_them() -> None:
    result = ringbco.replay(table(duration=[5.0]), "1x1", policy="fifo")
    assert result.outages is None
    assert not {"failures", "lost_work"} & set(result.jobs.columns)
    assert not {"failures", "goodput"} & set(result.summary)


def test_the_mean_run_time_is_that_of_the_closed_form() -> None:
    """A job on a server that fails at exponential times; Young's interval is the best of those tried."""
    example = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "examples" / "checkpoint_interval.py"))
    day, mean = 86_400.0, {}
    for interval in (3600.0, 10_182.0, 43_200.0):
        mean[interval] = example["mean_run_time"](interval, 400)
        expected = expected_run_time(5 * day, 1 / (2 * day), interval, 0.0, 3600.0, 300.0)
        assert mean[interval] == pytest.approx(expected, rel=0.02)
    assert min(mean, key=lambda interval: mean[interval]) == 10_182.0
    assert young(300.0, 2 * day) == pytest.approx(10_182.0, rel=1e-4)
    assert daly(300.0, 2 * day) == pytest.approx(9_983.0, rel=1e-4)
    page = (Path(__file__).parents[2] / "docs" / "outages.md").read_text(encoding="utf-8")
    forms = [expected_run_time(5 * day, 1 / (2 * day), at, 0.0, 3600.0, 300.0) for at in example["INTERVALS"]]
    assert re.findall(r"^\| *[\d.]+ h \|.*\| ([\d.]+) \|$", page, re.MULTILINE) == [
        f"{form / day:.3f}" for form in forms
    ]
