"""Warnings of values unlike any public trace or network: which, where they are told, and how often."""

from __future__ import annotations

import json
import tomllib
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.cluster.spec import Cluster, preset_names
from ringbco.errors import RingbcoWarning
from ringbco.io.toml import toml_text
from ringbco.reports.facts import facts
from ringbco.study.inspection import inspect_jobs
from ringbco.trace.jobs import JobTable, from_frame, read_jobs
from ringbco.trace.plausibility import (
    FASTEST,
    LATEST,
    LONGEST_MEDIAN_RUN,
    LONGEST_RUN,
    LONGEST_SPAN,
    MOST_ALPHA,
    MOST_XI2,
    SLOWEST,
    warnings_of,
)
from ringbco.trace.synthetic import generate

SLOW = "network.inter_bandwidth: 100 bytes/s is slower than a network of a GPU cluster has ever been"


def table(submit: list[float], duration: list[float]) -> JobTable:
    ids = [f"j{number}" for number in range(len(submit))]
    columns = {"job_id": ids, "submit_time": submit, "num_gpus": [1] * len(ids), "duration": duration}
    return from_frame(pl.DataFrame(columns, schema_overrides={"submit_time": float, "duration": float}))


def slow_cluster() -> Cluster:
    return Cluster.parse("2x8").with_network(inter_bandwidth=100)


@pytest.mark.parametrize(
    ("name", "allowed", "doubted", "words"),
    [
        *(
            (name, bound, beyond, f"bytes/s is {end} than")
            for name in ("intra_bandwidth", "inter_bandwidth", "reduce_speed")
            for bound, beyond, end in (
                (SLOWEST, SLOWEST * 0.999, "slower"),
                (FASTEST, FASTEST * 1.001, "faster"),
            )
        ),
        ("xi2", MOST_XI2, MOST_XI2 * 1.001, "s per server and iteration"),
        ("alpha", MOST_ALPHA, MOST_ALPHA * 1.001, "is it a percentage?"),
    ],
)
def test_each_constant_is_doubted_beyond_its_bound(
    name: str, allowed: float, doubted: float, words: str
) -> None:
    cluster = Cluster.parse("2x8")
    assert warnings_of(None, cluster.with_network(**{name: allowed})) == []
    (line,) = warnings_of(None, cluster.with_network(**{name: doubted}))
    assert line.startswith(f"network.{name}: ")
    assert words in line
    (line,) = warnings_of(None, cluster.with_recorded(cluster.with_network(**{name: doubted})))
    assert line.startswith(f"recorded.{name}: ")


def test_no_preset_and_no_generated_trace_is_doubted() -> None:
    for name in preset_names():
        assert warnings_of(None, Cluster.parse(f"preset:{name}")) == []
    for shape in ("philly", "helios", "paper"):
        assert warnings_of(generate(shape, 2_000, 1), None) == []


def test_times_are_doubted_beyond_their_bounds() -> None:
    assert warnings_of(table([0.0, LONGEST_SPAN, 5.0], [1.0, LONGEST_RUN, LONGEST_MEDIAN_RUN]), None) == []
    (line,) = warnings_of(table([0.0, LONGEST_SPAN * 1.001], [1.0, 1.0]), None)
    assert line == (
        "<frame>: column submit_time: submissions over 1,826.8 d are longer than any public trace;"
        " is it in milliseconds? Then they are over 43.8 h"
    )
    (line,) = warnings_of(table([0.0, 1.0, 2.0], [1.0, 1.0, LONGEST_RUN * 1.001]), None)
    assert "column duration: a run of 365.4 d is longer than in any public trace" in line
    assert line.endswith("Then it is 8.8 h")
    (line,) = warnings_of(table([0.0, 1.0], [LONGEST_MEDIAN_RUN * 1.001] * 2), None)
    assert "a median run of 7.0 d" in line


def test_milliseconds_since_1970_are_doubted_however_short_the_trace() -> None:
    in_seconds, in_milliseconds = (
        table([1.7e9 * unit, (1.7e9 + 60) * unit], [9.0, 9.0]) for unit in (1, 1e3)
    )
    assert warnings_of(in_seconds, None) == []
    (line,) = warnings_of(in_milliseconds, None)
    assert (
        "1700000060000 s is beyond any date; is it in milliseconds? Then submissions are over 60.0 s" in line
    )
    assert LATEST > 1.7e9 * 2


def test_a_trace_of_a_week_in_milliseconds_is_doubted() -> None:
    week = generate("philly", 2_000, 1)
    frame = week.frame.with_columns(pl.col("submit_time", "duration") * 1e3)
    frame = frame.with_columns(pl.col("submit_time") * (7 * 86_400e3 / frame["submit_time"].max()))
    assert [line.split(": ")[1] for line in warnings_of(from_frame(frame), None)] == [
        "column submit_time",
        "column duration",
    ]


def warnings_given(run: Any) -> list[str]:
    """The texts of the warnings that `run` gives."""
    with pytest.warns(RingbcoWarning) as caught:
        run()
    assert {Path(one.filename).name for one in caught} == {Path(__file__).name}  # the caller's line
    return [str(one.message) for one in caught]


def test_python_is_warned_once_by_each_function(small_jobs: Path, tmp_path: Path) -> None:
    jobs, cluster = read_jobs(small_jobs), slow_cluster()
    (line,) = warnings_of(None, cluster)
    assert line.startswith(SLOW)
    assert warnings_given(lambda: ringbco.replay(jobs, cluster)) == [line]
    assert warnings_given(lambda: ringbco.compare(jobs, cluster, ["fifo", "sjf"])) == [line]
    assert warnings_given(lambda: ringbco.plan(jobs, cluster, model="fixed")) == [line]
    assert warnings_given(lambda: inspect_jobs(jobs, cluster)) == [line]
    spec = {
        "base": {"trace": str(small_jobs), "cluster": "2x8"},
        "grid": {"inter_bandwidth": [100.0, 1e9], "seed": [0, 1]},
    }
    assert warnings_given(lambda: ringbco.sweep(spec, tmp_path / "s")) == [line]
    assert warnings_given(lambda: ringbco.sweep(spec, tmp_path / "s")) == [
        line
    ]  # runs that are kept count too


def test_what_is_usual_warns_of_nothing(small_jobs: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RingbcoWarning)
        outcome = ringbco.replay(small_jobs, "2x8")
        ringbco.compare(small_jobs, "2x8", ["fifo", "sjf"])
        inspect_jobs(read_jobs(small_jobs))
    assert "warnings" not in outcome.run


def test_the_run_and_its_report_hold_the_warnings(small_jobs: Path, tmp_path: Path) -> None:
    outcome = ringbco.replay(small_jobs, slow_cluster())
    outcome.write(tmp_path / "r")
    document = tomllib.loads((tmp_path / "r" / "run.toml").read_text())
    assert document["warnings"] == warnings_of(None, slow_cluster())
    planned = ringbco.plan(small_jobs, slow_cluster(), model="fixed")
    assert planned.run["warnings"] == document["warnings"]
    usual = ringbco.replay(small_jobs, "2x8")
    values = {fact.title: fact.values for fact in facts({"slow": outcome, "usual": usual})}
    assert values["warnings"] == (document["warnings"][0], "-")
    assert "warnings" not in {fact.title for fact in facts({"usual": usual})}


@pytest.mark.parametrize("value", ['"text"', "[1]"])
def test_a_report_refuses_damaged_warnings(invoke: Invoke, small_jobs: Path, value: str) -> None:
    ringbco.replay(small_jobs, slow_cluster()).write("r")
    path = Path("r/run.toml")
    document = tomllib.loads(path.read_text())
    assert len(document.pop("warnings")) == 1
    path.write_text(f"warnings = {value}\n" + toml_text(document))
    run = invoke("report", "r", "-o", "r.html")
    assert run.returncode == 1
    assert "run.toml: warnings: " in run.stderr
    assert "expected a list of texts" in run.stderr


@pytest.mark.long
def test_the_command_line_prints_a_line_and_none_when_quiet(invoke: Invoke, small_jobs: Path) -> None:
    slow = ("--cluster", "2x8", "--inter-bandwidth", "100")
    verbs = {
        "replay": (small_jobs.name, *slow, "-o", "r"),
        "plan": (small_jobs.name, *slow, "--model", "fixed", "-o", "p"),
        "compare": (small_jobs.name, *slow, "-o", "c", "--policy", "fifo", "--policy", "sjf"),
        "sweep": ("spec.toml", "-o", "s"),
        "inspect": (small_jobs.name, "--cluster", "slow.toml"),
    }
    Path("slow.toml").write_text(slow_cluster().to_toml())
    Path("spec.toml").write_text(
        '[base]\ntrace = "small.csv"\ncluster = "slow.toml"\n[grid]\nseed = [0, 1]\n'
    )
    for verb, arguments in verbs.items():
        force = ("--force",) if "-o" in arguments and verb != "sweep" else ()
        run = invoke(verb, *arguments, *force)
        assert run.returncode == 0, verb
        lines = [line for line in run.stderr.splitlines() if not line.startswith("note: ")]
        assert len(lines) == 1, verb
        assert lines[0].startswith(f"warning: {SLOW}"), verb
        assert invoke(verb, *arguments, *force, "--quiet").stderr == "", verb


def test_inspect_tells_the_times_in_the_other_unit(invoke: Invoke, small_jobs: Path) -> None:
    seen = inspect_jobs(read_jobs(small_jobs))
    assert seen["if_milliseconds"] == {"span": 1.0, "median_duration": 0.06}
    assert seen["warnings"] == []
    run = invoke("inspect", small_jobs.name)
    assert "if times are in ms  1.0 s, and a median run of 0.060 s" in run.stdout
    assert json.loads(invoke("inspect", small_jobs.name, "--json").stdout)["warnings"] == []
