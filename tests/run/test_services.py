"""Replays with services: the command line, the audit, reports, timelines, sweeps, decisions of one's own."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from frames import services
from ringbco.audits import check_outcome
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.reports.perfetto import trace_events
from ringbco.reports.viewport import viewport
from ringbco.result.outcome import Outcome
from ringbco.trace.jobs import as_table

ONE = "job_id,submit_time,num_gpus,duration\na,0,8,10000\n"
DAY = "service,time,replicas,gpus_per_replica\nchat,4000,1,4\nchat,5000,0,4\n"


def test_the_command_line(invoke: Invoke) -> None:
    """The job runs for 4,000 s, makes room for 1,000 s, pauses for 30 s, and has 6,000 s left."""
    Path("jobs.csv").write_text(ONE)
    Path("services.csv").write_text(DAY)
    ran = invoke(
        *("replay", "jobs.csv", "--cluster", "1x8", "--policy", "fifo", "--model", "fixed"),
        *("--services", "services.csv", "-o", "r"),
    )
    assert ran.returncode == 0
    assert re.search(r"attainment of services +100.0 % *\nGPU-hours of services +1.11", ran.stdout)
    result = Outcome.read("r")
    assert result.allocations is not None
    assert result.replicas is not None
    assert result.services is not None
    assert result.allocations["end_time"].to_list() == [4000.0, 11030.0]
    assert result.replicas.rows() == [("chat", 0, 0, 4, 4000.0, 5000.0, 4000.0, 5000.0, "surplus")]
    assert result.services["time"].to_list() == [4000.0, 5000.0]
    assert result.run["services"]["path"] == "services.csv"
    assert (result.run["services"]["rows"], result.run["services"]["services"]) == (2, 1)
    summary = json.loads(Path("r", "summary.json").read_text())
    assert (summary["evictions"], summary["preemptions"]) == (1, 0)
    assert summary["services"] == [
        {
            "service": "chat",
            "gpus_per_replica": 4,
            "attainment": 1.0,
            "replica_seconds_wanted": 1000.0,
            "replica_seconds_served": 1000.0,
            "mean_time_to_scale_up": 0.0,
            "worst_time_to_scale_up": 0.0,
            "gpu_hours": 4000 / 3600,
        }
    ]
    assert summary["gpu_hours_lent_to_training"] == pytest.approx(4 * 10030 / 3600)
    assert invoke("audit", "r").returncode == 0
    again = invoke("replay", "--again", "r")
    assert again.returncode == 0
    assert "services.parquet" in again.stdout
    assert "replicas.parquet" in again.stdout
    Path("services.csv").write_text(DAY.replace("5000", "noon"))
    refused = invoke("replay", "jobs.csv", "--cluster", "1x8", "--services", "services.csv", "-o", "s")
    assert refused.returncode == 1
    assert "services.csv: row 2 (line 3), column time: noon: expected" in refused.stderr
    assert not Path("s").exists()


def drawn(rnd: random.Random, policy: str) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Jobs, and options with services among them, and in some cases outages."""
    count = rnd.randint(5, 40)
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(count)],
            "submit_time": [float(rnd.randint(0, 3000)) for _ in range(count)],
            "num_gpus": [rnd.choice((1, 1, 2, 4, 8, 12)) for _ in range(count)],
            "duration": [rnd.expovariate(1 / 900) + 1 for _ in range(count)],
            "user": [rnd.choice("abc") for _ in range(count)],
            "deadline": [rnd.choice((None, 9000.0)) for _ in range(count)],
            "preemptible": [rnd.random() < 0.8 for _ in range(count)],
        },
        schema_overrides={"deadline": pl.Float64},
    )
    rows: list[tuple[str, float, int, int]] = []
    for service in range(rnd.randint(1, 3)):
        size = rnd.randint(1, 8)
        times = rnd.sample(range(0, 6000, 7), rnd.randint(1, 8))
        rows += [(f"s{service}", float(time), rnd.randint(0, 4), size) for time in times]
        rows.append((f"s{service}", 6000.0, 0, size))
    rnd.shuffle(rows)
    options: dict[str, Any] = {
        "policy": policy,
        "services": services(*rows),
        "preempt_cost": 20.0,
        "quantum": 150.0,
    }
    options |= {"quantum": 150.0} if policy == "time-slice" else {}
    options["model"] = rnd.choice(("fixed", "rar"))
    if policy in {"fifo", "sjf", "smallest", "qssf"}:
        options["queue"] = rnd.choice(("strict", "skip", "easy"))
    if rnd.random() < 0.4:
        options |= {"clock": "slot", "slot": rnd.choice((5.0, 60.0))}
    if rnd.random() < 0.4:
        down = [(rnd.randrange(4), float(rnd.randint(0, 4000))) for _ in range(rnd.randint(1, 5))]
        data = {"server": [s for s, _ in down], "down_at": [at for _, at in down]}
        ups = [at + rnd.randint(1, 900) for _, at in down]
        options["outages"] = pl.DataFrame(data | {"up_at": ups})
    return jobs, options


@pytest.fixture(scope="module")
def sound() -> tuple[pl.DataFrame, Outcome]:
    for number in range(100):
        jobs, options = drawn(random.Random(f"sound {number}"), "fifo")
        options |= {"model": "fixed", "clock": "continuous", "slot": 1.0} | {"queue": "skip"}
        result = ringbco.replay(jobs, "4x8", **options)
        assert result.replicas is not None
        if result.outages is not None and result.replicas.height > 20 and result.summary["evictions"] > 3:
            break
    assert not check_outcome(result, as_table(jobs)).findings
    return jobs, result


def failed_checks(table: pl.DataFrame, result: Outcome, **other: Any) -> set[str]:
    return {finding.code for finding in check_outcome(replace(result, **other), as_table(table)).findings}


def test_the_audit_finds_what_is_wrong(sound: tuple[pl.DataFrame, Outcome]) -> None:
    jobs, result = sound
    held, given = result.replicas, result.services
    assert held is not None
    assert given is not None
    row = int((held["end_time"] - held["start_time"]).arg_max() or 0)
    at = pl.int_range(pl.len()) == row

    def changed(**columns: pl.Expr) -> pl.DataFrame:
        return held.with_columns(
            pl.when(at).then(value).otherwise(pl.col(name)).cast(held.schema[name]).alias(name)
            for name, value in columns.items()
        )

    for wrong in (
        changed(service=pl.lit("nobody")),
        changed(num_gpus=pl.col("num_gpus") + 1),
        changed(server=pl.lit(4)),
        changed(start_time=pl.col("start_time") + 1),
        changed(end_time=pl.col("end_time") - 1),
        changed(end_time=pl.col("start_time")),
        held[::-1],
        held.filter(~at),
        held.head(0),
        pl.concat((held.head(row + 1), held.tail(held.height - row))),
    ):
        assert "services" in failed_checks(jobs, result, replicas=wrong)
    taken = held.with_columns(server=(pl.col("server") + 1) % 4).sort("service", "start_time", "server")
    assert "capacity" in failed_checks(jobs, result, replicas=taken)
    fewer = given.with_columns(replicas=pl.max_horizontal(pl.col("replicas"), pl.lit(1)) - 1)
    assert "services" in failed_checks(jobs, result, services=fewer)
    assert result.outages is not None
    longer = result.outages.with_columns(down_at=pl.lit(0.0), up_at=pl.lit(9000.0))
    assert {"services", "outages"} <= failed_checks(jobs, result, outages=longer)
    more = result.jobs.with_columns(evictions=pl.col("evictions") + 1)
    assert failed_checks(jobs, result, jobs=more) == {"evictions"}
    shielded = jobs.with_columns(preemptible=pl.lit(value=False))
    assert "services" in failed_checks(shielded, result)
    for name in ("service_attainment", "service_gpu_hours", "gpu_hours_lent_to_training", "evictions"):
        assert failed_checks(jobs, result, summary={**result.summary, name: 0.123}) == {"summary"}
    for name, value in result.summary["services"][0].items():
        for other in ("x", None) if isinstance(value, str) else (0.123, None if value is not None else 1):
            rows = [{**result.summary["services"][0], name: other}, *result.summary["services"][1:]]
            summary = {**result.summary, "services": rows}
            assert failed_checks(jobs, result, summary=summary) == {"summary"}, (name, other)
    with pytest.raises(InputError, match=r"services\.parquet: .* column time"):
        failed_checks(jobs, result, services=given.with_columns(time=pl.lit(-1.0)))


def test_what_the_audit_looks_at(sound: tuple[pl.DataFrame, Outcome]) -> None:
    jobs, result = sound
    checks = {check.code: check for check in check_outcome(result, as_table(jobs)).checks}
    assert checks["services"].looked_at > 0
    without = ringbco.replay(jobs, "4x8", policy="fifo", model="fixed")
    report = {check.code: check for check in check_outcome(without, as_table(jobs)).checks}
    assert report["services"].not_run == "the run knows no services"


def test_the_timeline_and_the_report_show_services(
    sound: tuple[pl.DataFrame, Outcome], tmp_path: Path
) -> None:
    _, result = sound
    shown = viewport(result, None, None, None)
    drawn = [event for event in trace_events(result, shown) if event.get("cat") == "service"]
    assert result.replicas is not None
    assert len(drawn) == result.replicas.height
    assert {event["name"] for event in drawn} == {f"service: {name}" for name in result.replicas["service"]}
    ringbco.timeline(result, tmp_path / "t.json")
    ringbco.report(result, out=tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for title in ("Attainment", "Replicas of s0"):
        assert title in page


def test_runs_without_services_say_nothing_of_them() -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [5.0]})
    result = ringbco.replay(jobs, "1x1", policy="fifo")
    assert (result.services, result.replicas) == (None, None)
    assert "evictions" not in result.jobs.columns
    assert not {"services", "service_attainment", "service_gpu_hours"} & set(result.summary)
    empty = ringbco.replay(jobs, "1x1", policy="fifo", model="fixed", services=services())
    alone = ringbco.replay(jobs, "1x1", policy="fifo", model="fixed").jobs
    assert {"evictions", "held_time"} <= set(empty.jobs.columns)
    assert empty.jobs.select(alone.columns).equals(alone)
    assert empty.summary["services"] == []
    assert empty.summary["service_attainment"] == 1.0


TOLD: list[tuple[float, list[int], list[int]]] = []


class InTurn(ringbco.Policy):
    """Starts what fits, first come first served, and notes what it was told."""

    def decide(self, state: ringbco.State) -> None:
        TOLD.append((state.now, state.evicted.tolist(), state.idle.tolist()))
        for row in state.waiting:
            state.start(row)


def test_a_policy_of_ones_own_sees_what_services_take() -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [4], "duration": [100.0]})
    TOLD.clear()
    result = ringbco.replay(
        jobs, "1x8", policy=InTurn(), model="fixed", preempt_cost=0.0,
        services=services(("s", 10.0, 3, 2), ("s", 30.0, 2, 2), ("s", 40.0, 0, 2)),
    )  # fmt: skip
    assert result.allocations is not None
    assert result.allocations.select("start_time", "end_time").rows() == [(0.0, 10.0), (30.0, 120.0)]
    entries = [entry for entry in TOLD if entry[0] in {10.0, 30.0}]
    assert entries == [(10.0, [0], [2]), (30.0, [], [4])]
    assert not check_outcome(result, as_table(jobs)).findings


def test_a_fork_comes_to_the_same_end(sound: tuple[pl.DataFrame, Outcome]) -> None:
    jobs, result = sound
    options: dict[str, Any] = {"services": result.services, "outages": result.outages, "model": "fixed"}

    def to_the_end(course: ringbco.Simulation) -> Outcome:
        while course.advance():
            for row in course.state.waiting:
                course.start(row)
        return course.outcome()

    whole = to_the_end(ringbco.Simulation(jobs, "4x8", **options))
    assert whole.summary["evictions"] > 0
    course = ringbco.Simulation(jobs, "4x8", **options)
    for _ in range(25):
        course.advance()
        for row in course.state.waiting:
            course.start(row)
    for ended in (to_the_end(course.fork()), to_the_end(course)):
        assert whole.replicas is not None
        assert ended.replicas is not None
        assert ended.replicas.equals(whole.replicas)
        assert ended.jobs.equals(whole.jobs)
    assert not check_outcome(whole, as_table(jobs)).findings


def test_a_sweep_reads_services_once(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(ONE)
    (tmp_path / "services.csv").write_text(DAY)
    spec = tmp_path / "sweep.toml"
    spec.write_text(
        '[base]\ntrace = "jobs.csv"\ncluster = "1x8"\nmodel = "fixed"\n[grid]\npolicy = ["fifo", "srtf"]\n'
        'services = ["services.csv"]\n'
    )
    result = ringbco.sweep(spec, tmp_path / "out").frame
    assert result["services"].to_list() == ["services.csv", "services.csv"]
    assert result["mean_jct"].to_list() == [11030.0, 11030.0]


def test_types_of_gpus_and_elastic_jobs_make_room() -> None:
    document = {
        "servers": [
            {"count": 1, "gpus": 4, "gpu_type": "V100"},
            {"count": 1, "gpus": 4, "gpu_type": "T4"},
        ]
    }
    cluster = Cluster.from_document(document, "test", name="test")
    jobs = pl.DataFrame(
        {
            "job_id": ["v", "t"],
            "submit_time": [0.0, 5.0],
            "num_gpus": [4, 4],
            "min_gpus": [1, 4],
            "duration": [100.0, 100.0],
            "gpu_type": ["V100", "T4"],
        }
    )
    options: dict[str, Any] = {"policy": "srtf", "model": "fixed", "preempt_cost": 0.0}
    given = services(("s", 10.0, 1, 3), ("s", 50.0, 0, 3))
    result = ringbco.replay(jobs, cluster, services=given, victims="youngest", **options)
    # t started last: it goes, and waits for its own type.
    assert result.jobs["evictions"].to_list() == [0, 1]
    assert result.jobs["finish_time"].to_list() == [100.0, 145.0]
    assert result.replicas is not None
    assert result.replicas["server"].to_list() == [1]
