"""`ringbco profile`: the values of a profile written down, and replays that do not notice."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.errors import UsageError
from ringbco.trace.jobs import from_frame, read_jobs
from ringbco.trace.profiles import CATALOGUE

FILLED = ("model", "iterations", "gradient_bytes", "batch_size", "fp_time", "bp_time")


def partly_filled() -> pl.DataFrame:
    """Jobs that say all, some and nothing of what they trained."""
    return pl.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(8)],
            "submit_time": [0.0, 0.0, 5.0, 9.0, 9.0, 50.0, 60.0, 61.0],
            "num_gpus": [1, 4, 12, 8, 2, 16, 4, 12],
            "duration": [50.0, 300.0, 200.0, 1000.0, 70.0, 400.0, 80.0, 90.0],
            "model": ["GPT-2", "my own", None, None, "vgg-16", None, None, None],
            "iterations": [7, None, None, 90, None, None, 120, 120],
            "gradient_bytes": [None, 5e8, None, 1e9, None, 1e9, None, 1e9],
            "batch_size": [None, 4, 4, None, None, None, None, 8],
            "fp_time": [0.5, 0.25, None, None, None, None, None, None],
            "bp_time": [None, 0.125, None, 0.3, None, 0.25, None, None],
            "colour": ["red"] * 8,
        },
        schema_overrides={"iterations": pl.UInt64, "batch_size": pl.UInt32, "num_gpus": pl.UInt32},
    )


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("recorded", [None, "9x4"])
def test_a_replay_of_the_filled_table_is_the_same(bare: bool, recorded: str | None) -> None:
    frame = partly_filled()
    jobs = from_frame(frame.drop(FILLED) if bare else frame)
    filled = ringbco.profile(jobs, recorded_cluster=recorded, seed=5)
    for cluster in ("4x8", "16x2"):
        one = ringbco.replay(jobs, cluster, recorded_cluster=recorded, seed=5)
        # Neither the seed nor the recorded cluster has anything left to decide.
        other = ringbco.replay(filled, cluster, recorded_cluster="1x1", seed=77)
        assert one.jobs.equals(other.jobs)
        assert one.allocations is not None
        assert one.allocations.equals(other.allocations)


def test_given_values_stay_and_gaps_are_filled() -> None:
    frame = partly_filled()
    filled = ringbco.profile(from_frame(frame), seed=5)
    for name in (*FILLED, "colour", "duration"):
        given = frame[name].is_not_null()
        assert filled.frame[name].filter(given).equals(frame[name].filter(given)), name
    whole = filled.frame.select(FILLED[1:])
    assert sum(whole.null_count().row(0)) == 0
    names = {entry.name for entry in CATALOGUE}
    # j3 and j5 give gradient and compute time, j7 its iterations: no entry of the catalogue was used.
    assert filled.frame["model"].to_list()[3::2] == [None, None, None]
    assert filled.frame["model"][2] in names
    assert filled.frame["model"][6] in names
    recorded = json.loads(filled.metadata["ringbco.profile"])
    assert recorded["seed"] == 5
    assert recorded["filled"] == {
        "model": 2, "iterations": 4, "gradient_bytes": 4, "batch_size": 5, "fp_time": 6, "bp_time": 5,
    }  # fmt: skip


def test_the_verb_writes_a_table_and_says_what_it_filled_in(small_jobs: Path, invoke: Invoke) -> None:
    run = invoke("profile", small_jobs, "-o", "pinned.parquet", "--json")
    assert run.returncode == 0
    output = json.loads(run.stdout)
    assert (output["jobs"], output["filled"]["iterations"]) == (7, 7)
    assert read_jobs("pinned.parquet").frame["iterations"].null_count() == 0
    assert invoke("replay", small_jobs, "--cluster", "2x8", "-o", "a", "-q").returncode == 0
    assert invoke("replay", "pinned.parquet", "--cluster", "2x8", "-o", "b", "-q").returncode == 0
    for name in ("jobs", "allocations", "timeline"):
        assert Path("a", f"{name}.parquet").read_bytes() == Path("b", f"{name}.parquet").read_bytes()
    shown = invoke("profile", small_jobs, "-o", "pinned.csv", "--recorded-cluster", "3x4")
    assert "7 jobs recorded on servers of 4 GPUs, default network, in pinned.csv" in shown.stdout
    assert read_jobs("pinned.csv").frame.height == 7


def test_the_recorded_cluster_of_a_file(small_jobs: Path, invoke: Invoke, tmp_path: Path) -> None:
    text = "[recorded]\ngpus = 2\ninter_bandwidth = 1e9\n\n[[servers]]\ncount = 2\ngpus = 8\n"
    (tmp_path / "c.toml").write_text(text)
    run = invoke("profile", small_jobs, "--cluster", "c.toml", "-o", "a.parquet")
    assert "servers of 2 GPUs, inter_bandwidth 1e+09" in run.stdout
    # A cluster named by itself wins over the file's.
    run = invoke("profile", small_jobs, "--cluster", "c.toml", "--recorded-cluster", "4x8", "-o", "b.parquet")
    assert "servers of 8 GPUs, default network" in run.stdout
    output = invoke("inspect", small_jobs, "--cluster", "c.toml")
    assert "servers of 2 GPUs, inter_bandwidth 1e+09" in " ".join(output.stdout.split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpus = 0", "recorded.gpus: 0: expected an integer >= 1"),
        ("gpu = 8", "recorded.gpu: expected only the keys gpus"),
        ("xi1 = 2", "recorded.xi1: 2: expected a number in (0, 1]"),
        (
            "gpus = 4\nservers = [{gpus = 4}]",
            "recorded: expected either gpus and gpu_type or a list of servers",
        ),
        ("servers = [{gpus = -1}]", "recorded.servers[1].gpus: -1: expected an integer >= 1"),
    ],
)
def test_a_bad_recorded_cluster(
    small_jobs: Path, invoke: Invoke, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "c.toml").write_text(f"[recorded]\n{text}\n\n[[servers]]\ngpus = 8\n")
    for verb in (("replay", "-q"), ("profile",)):
        run = invoke(verb[0], small_jobs, *verb[1:], "--cluster", "c.toml", "-o", "out.parquet")
        assert run.returncode == 1
        assert said in run.stderr
        assert not Path("out.parquet").exists()


def test_bad_arguments(small_jobs: Path, invoke: Invoke) -> None:
    run = invoke("replay", small_jobs, "--cluster", "2x8", "--recorded-cluster", "2y8", "-o", "r")
    assert run.returncode == 1
    assert "recorded-cluster: 2y8: expected SxG such as 32x8" in run.stderr
    assert invoke("profile", small_jobs, "-o", small_jobs, "--force").returncode == 1
    assert small_jobs.read_text().startswith("job_id")
    with pytest.raises(UsageError, match="seed"):
        ringbco.profile(small_jobs, seed=-1)


@pytest.mark.long
def test_results_say_the_recorded_cluster(small_jobs: Path, invoke: Invoke) -> None:
    from ringbco.result.outcome import Outcome

    options = ("--cluster", "4x4", "--recorded-cluster", "2x2", "--policy", "ff")
    assert invoke("replay", small_jobs, *options, "-o", "r").returncode == 0
    recorded = Outcome.read("r").run["cluster"]["recorded"]
    assert recorded["gpus"] == 2
    assert invoke("audit", "r").returncode == 0
    assert invoke("report", "r", "-o", "r.html").returncode == 0
    assert "servers of 2 GPUs, default network" in Path("r.html").read_text(encoding="utf-8")
    # A what-if on the network keeps the work: the audit and an equal replay agree.
    slow = (*options, "--inter-bandwidth", "1e8")
    assert invoke("replay", small_jobs, *slow, "-o", "slow").returncode == 0
    assert invoke("audit", "slow").returncode == 0
    fast, slower = (Outcome.read(name).jobs for name in ("r", "slow"))
    spread = fast["num_servers"].to_numpy() > 1
    assert spread.any()
    assert (slower["run_time"].to_numpy()[spread] > fast["run_time"].to_numpy()[spread]).all()
    default = invoke("replay", small_jobs, "--cluster", "4x4", "-o", "d")
    assert default.returncode == 0
    assert Outcome.read("d").run["cluster"]["recorded"]["gpus"] == 8
