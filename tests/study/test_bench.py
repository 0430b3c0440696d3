"""`ringbco bench`: small runs of the real thing."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from conftest import Invoke, RunCli
from ringbco.cluster.spec import Cluster
from ringbco.reports.charts import png
from ringbco.reports.scaling import scaling
from ringbco.run.options import resolve_policy
from ringbco.run.replay import replay
from ringbco.study import bench
from ringbco.study.bench_cases import (
    DISCIPLINES,
    Case,
    grown,
    jobs_of,
    offered_load,
    policy_cases,
    scaling_cases,
)
from ringbco.study.bench_table import show
from ringbco.study.inspection import inspect_jobs
from ringbco.trace.jobs import from_frame, read_jobs, write_jobs
from ringbco.trace.synthetic import generate

CLUSTER = Cluster.parse("256x8")


@pytest.fixture
def jobs_csv(tmp_path: Path) -> Path:
    path = tmp_path / "j.csv"
    write_jobs(generate("philly", 300, 1), path)
    return path


@pytest.mark.long
def test_own_trace(run_cli: RunCli, jobs_csv: Path, tmp_path: Path) -> None:
    done = run_cli(
        "bench", jobs_csv, "--cluster", "32x8", "--policy", "fifo", "--policy", "sjf-bco",
        "--repeat", "1", "--json", tmp_path / "bench.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads((tmp_path / "bench.json").read_text())
    assert [case["label"] for case in said["cases"]] == ["fifo", "sjf-bco"]
    load = inspect_jobs(read_jobs(jobs_csv), cluster=Cluster.parse("32x8"))["cluster"]["load"]
    for case in said["cases"]:
        assert (case["jobs"], case["servers"]) == (300, 32)
        assert case["load"] == pytest.approx(load, rel=1e-12)
        assert case["events_per_second"] == pytest.approx(600 / case["engine_seconds"])
        assert case["ratio"] == pytest.approx(case["engine_seconds"] / case["floor_seconds"])
        assert 0 < case["busy"] <= 1
        assert case["peak_bytes"] > 10_000_000
    assert said["machine"]["cores"] >= 1
    assert "command" not in said
    assert "sjf-bco" in done.stdout
    assert f" {load:.3g} " in done.stdout
    assert "0.9 " not in done.stdout.split("x sort")[0]


OWN = """\
import time
import ringbco

class Slow(ringbco.Policy):
    def decide(self, state):
        time.sleep(0.002)
        state.start(state.waiting)

class Ranked(ringbco.RankPolicy):
    preemptive = True

    def rank(self, state, rows):
        time.sleep(0.002)
        return state.attained[rows]

class Keyed(ringbco.KeyPolicy):
    def key(self, state, rows):
        time.sleep(0.002)
        return state.jobs.num_gpus[rows]
"""


@pytest.mark.long
def test_where_the_time_of_a_policy_of_ones_own_goes(invoke: Invoke, jobs_csv: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    chosen = [f"--policy={name}" for name in ("own.py:Slow", "own.py:Ranked", "own.py:Keyed", "fifo")]
    done = invoke(
        "bench", jobs_csv, "--cluster", "32x8", *chosen, "--repeat", "1", "--json", tmp_path / "bench.json"
    )
    assert done.returncode == 0, done.stderr
    *own, fifo = json.loads((tmp_path / "bench.json").read_text())["cases"]
    assert fifo["split"] is None
    for case in own:
        split = case["split"]
        assert split["decisions"] >= 100
        # What it sleeps is the policy's, and of the engine's time too.
        assert 0.002 * split["decisions"] <= split["policy"] < split["decisions"]
        assert case["engine_seconds"] >= 0.002 * split["decisions"]
        assert 0 < split["machine"] < split["policy"]
        assert 0 < split["view"] < split["policy"]
    assert "policy, s" in done.stdout


def once(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """Has a function of bench measure once, and notes how often it was to do so."""
    asked: list[int] = []
    real = getattr(bench, name)

    def measured(*arguments: Any, repeat: int, **options: Any) -> Any:
        asked.append(repeat)
        return real(*arguments, repeat=1, **options)

    monkeypatch.setattr(bench, name, measured)
    return asked


@pytest.mark.long
def test_generated_jobs_are_for_the_cluster(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of virtual clusters and servers of two sizes; every run's seconds are told."""
    small_costs, start_up = once(monkeypatch, "small_costs"), once(monkeypatch, "start_up")
    # A case in a process of its own is tested above.
    monkeypatch.setattr(bench, "_apart", lambda function, *arguments: function(*arguments))
    servers = tmp_path / "c.toml"
    servers.write_text(
        "[[servers]]\ncount = 3\ngpus = 8\nvc = 'a'\n[[servers]]\ncount = 4\ngpus = 4\nvc = 'b'\n"
    )
    done = invoke(
        "bench", "--cluster", servers, "--jobs", "200", "--policy", "fifo", "--repeat", "2",
        "--json", "b.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (small_costs, start_up) == ([3], [5])
    said = json.loads((tmp_path / "b.json").read_text())
    (case,) = said["cases"]
    assert (case["jobs"], case["servers"]) == (200, 7)
    assert case["load"] == pytest.approx(0.9, rel=1e-3)
    for name in ("floor_seconds", "engine_seconds", "total_seconds", "ratio"):
        assert len(case[f"{name}_all"]) == 2
        assert case[name] == pytest.approx(np.median(case[f"{name}_all"]))
    command = said["command"]
    assert command["wall_seconds"] > command["engine_seconds"]
    assert command["start_up_seconds"] > 0
    small = said["small_costs"]
    assert small["reported_jobs"] == 200
    # Which is more is the machine's to say: one that does other work may import for longer than it replays.
    for name in ("imports", "one_job", "report"):
        assert small[f"{name}_cpu_seconds"] > 0
    assert len(command["wall_seconds_all"]) == 2
    output = " ".join(done.stdout.split())  # a long path breaks the line where it will
    assert all(word in output for word in ("start-up", "target", "sort, ms", "put together"))
    assert f"({min(case['ratio_all']):.2f}-{max(case['ratio_all']):.2f})" in done.stdout


@pytest.mark.parametrize("arrivals", ["spread", "bursts", "half at once", "filled"])
def test_submissions_are_moved_as_named(arrivals: str) -> None:
    case = Case("x", "x", "fifo", jobs=25_001, load=1.5, arrivals=arrivals)
    table = jobs_of(case, CLUSTER, seed=1)
    submit = table.frame["submit_time"].to_numpy()
    assert table.num_jobs == 25_001
    assert table.is_sorted
    load = offered_load(table, CLUSTER)
    assert load is not None
    if arrivals == "spread":
        assert load == pytest.approx(1.5, rel=1e-3)
        assert np.count_nonzero(submit == submit[0]) < 100
    elif arrivals == "bursts":
        assert np.unique(submit).size == 3
    elif arrivals == "half at once":
        assert load == pytest.approx(1.5, rel=1e-3)
        assert np.count_nonzero(submit == submit[0]) == pytest.approx(12_500, rel=0.01)
    else:
        still = submit + table.frame["duration"].to_numpy() > submit[-1]
        asked = int(table.frame["num_gpus"].to_numpy()[still].sum())
        assert asked == pytest.approx(CLUSTER.num_gpus, rel=0.05)


def test_too_few_jobs_to_fill_the_cluster_run_all_at_once() -> None:
    table = jobs_of(Case("x", "x", "fifo", jobs=100, arrivals="filled"), grown(CLUSTER, 4096), seed=1)
    submit, duration = (table.frame[name].to_numpy() for name in ("submit_time", "duration"))
    assert (submit + duration).min() >= submit.max()


def test_scaling_cases_cover_what_the_docs_name() -> None:
    cases = scaling_cases(1_000, CLUSTER)
    assert {case.group for case in cases} == {"jobs", "servers", "queue", "bursts"}
    for policy in ("fifo", "sjf"):
        for queue in DISCIPLINES:
            loads = [
                (case.load, case.arrivals)
                for case in cases
                if (case.group, case.policy) == ("queue", policy)
                and case.options.get("queue", "strict") == queue
            ]
            assert loads == [(0.9, "spread"), (1.5, "spread"), (1.5, "half at once")]
    for case in (case for case in cases if case.group == "servers"):
        assert case.servers in (None, 4096, 100_000)
    assert {case.arrivals for case in cases if case.servers == 100_000} == {"spread", "filled"}


def test_strict_is_what_the_orders_do_by_default() -> None:
    """So the cases called strict need name no queue, and share a measurement with the policy's own."""
    assert {resolve_policy(policy).queue for policy in ("sjf", "fifo")} == {"strict"}


def test_growing_repeats_the_servers() -> None:
    cluster = Cluster(np.array([8, 4], dtype=np.uint32))
    assert grown(cluster, 5).server_gpus.tolist() == [8, 4, 8, 4, 8]
    assert grown(cluster, None) is cluster


def test_equal_work_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, that the calls can be counted."""
    measured = []

    def here(function, *arguments):  # type: ignore[no-untyped-def]
        if function is bench._measure:
            measured.append(arguments[0])
        return function(*arguments)

    monkeypatch.setattr(bench, "_apart", here)
    cases = policy_cases((), 100) + scaling_cases(100, CLUSTER)[12:15]
    assert [case.group for case in cases[-3:]] == ["servers"] * 3
    results = list(bench.run(cases, CLUSTER, repeat=1, seed=1))
    assert len(results) == len(measured) + 1
    assert results[6].engine_seconds == results[0].engine_seconds
    assert (results[6].group, results[6].label) == ("servers", "fifo, fixed")


def test_the_longest_queue_is_no_sample() -> None:
    """Two jobs wait for a moment that the timeline's points miss."""
    table = from_frame(
        pl.DataFrame(
            {
                "job_id": ["a", "b", "c", "d"],
                "submit_time": [0.0, 0.25, 0.25, 1000.0],
                "num_gpus": [1, 1, 1, 1],
                "duration": [0.5, 0.5, 0.5, 1.0],
            }
        )
    )
    outcome = replay(table, "1x1", policy="fifo", model="fixed", sample=100.0)
    assert outcome.timeline["queued_jobs"].max() == 0
    assert bench._longest_queue(outcome) == 2


@pytest.mark.parametrize("columns", [80, 200])
def test_the_table_is_never_cut(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal, which keeps its width
    monkeypatch.setenv("TERM", "xterm")
    made = bench.Measurement(
        "servers", "sjf-bco practical, filled", "filled", 1_000_000, 100_000, 0.9, 0.1, 1.0, 2.0, 10.0,
        1e6, 2e6, 3e6, 10, 0.5, 10**9, (0.1, 0.1), (1.0, 1.0), (2.0, 2.0), (10.0, 10.0),
    )  # fmt: skip
    machine = {"cpu": "a", "cores": 2, "memory_bytes": 0, "system": "b", "python": "c", "ringbco": "d"}
    show([made], machine, {}, "generated jobs")
    said = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
    assert "…" not in said
    assert all(title in said for title in ("servers", "x sort", "events/s", "MB"))
    assert all(len(line) <= columns for line in said.splitlines())


def test_the_curves_show_the_queue() -> None:
    def made(group: str, queue: int, arrivals: str = "spread") -> bench.Measurement:
        return bench.Measurement(
            group, "sjf", arrivals, 1000, 256, None, 0.1, 0.2, 0.3, 2.0, 1.0, 2.0, 3.0, queue, 0.5, 1,
            (0.1,), (0.2,), (0.3,), (2.0,),
        )  # fmt: skip

    chart = scaling([made("queue", 0), made("queue", 500_000, "half at once"), made("servers", 0, "filled")])
    panels = chart.to_dict()["hconcat"]
    assert [panel["layer"][0]["encoding"]["x"]["field"] for panel in panels] == ["servers", "longest_queue"]
    assert png(chart).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--policy", "nonsense"], 2, "nonsense"),
        (["--jobs", "200", "--no-scaling", "--png", "x.png"], 2, "no scaling curves"),
        (["missing.csv"], 1, "missing.csv"),
        (["j.csv", "--jobs", "500"], 2, "option jobs"),
        (["j.csv", "--seed", "0"], 2, "option seed"),
        (["j.csv", "--scaling"], 2, "option scaling"),
        (["--policy", "fifo", "--scaling"], 2, "option scaling"),
        (["j.csv", "--policy", "edf"], 1, "deadline"),
        (["--jobs", "500", "--policy", "edf"], 2, "bench JOBS --policy edf"),
        (["--cluster", "1x8"], 2, "option cluster: 1x8"),
        (["--cluster", "no.toml"], 1, "no.toml"),
    ],
)
def test_bad_input(invoke: Invoke, tmp_path: Path, arguments: list[str], status: int, said: str) -> None:
    (tmp_path / "j.csv").write_text("job_id,submit_time,num_gpus,duration\na,0,1,5\n")
    done = invoke("bench", *arguments)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["j.csv"]


@pytest.mark.long
def test_generated_jobs_that_the_cluster_cannot_hold_are_named_so(invoke: Invoke, tmp_path: Path) -> None:
    """Gangs of two wholly idle servers of 8, where there is one: no path of a file that is gone."""
    (tmp_path / "c.toml").write_text("[[servers]]\ngpus = 8\n[[servers]]\ncount = 400\ngpus = 1\n")
    done = invoke("bench", "--cluster", "c.toml", "--jobs", "1000", "--policy", "fifo", "--repeat", "1")
    assert done.returncode == 1
    assert "generated jobs" in done.stderr
    assert "/" not in done.stderr


def test_submission_in_one_second_has_no_load() -> None:
    table = from_frame(
        pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [1.0]})
    )
    assert offered_load(table, CLUSTER) is None
    assert inspect_jobs(table, cluster=CLUSTER)["cluster"]["load"] is None
