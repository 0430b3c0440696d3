"""The demo and the sample it replays."""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess

import polars as pl
import pytest

import ringbco
import sample_log
from conftest import Invoke, run_ringbco
from ringbco.cli.demo import PICTURE, POLICIES, REPORT, SAMPLE, SUMMARIES
from ringbco.io.manifest import MANIFEST
from ringbco.reports import charts
from ringbco.result.outcome import Outcome
from ringbco.run.clairvoyance import foreknowledge
from ringbco.run.replay import replay
from ringbco.trace.synthetic import generate
from ringbco.units import percent

DATA = Path(ringbco.__file__).parent / "data"
PNG = b"\x89PNG\r\n\x1a\n"


def width_and_height(png: Path) -> tuple[int, int]:
    data = png.read_bytes()
    assert data.startswith(PNG)
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess[str]]:
    """What the command leaves, and what it says."""
    folder = tmp_path_factory.mktemp("demo")
    return folder / "d", run_ringbco(folder, [], "demo", "-o", "d")


def test_the_demo_leaves_four_results_and_a_picture(made: tuple[Path, CompletedProcess[str]]) -> None:
    folder, run = made
    assert (run.returncode, run.stderr) == (0, "")
    assert str(folder / PICTURE) in run.stdout
    assert str(folder / REPORT) in run.stdout
    assert {path.name for path in folder.iterdir()} == {*POLICIES, PICTURE, REPORT, SUMMARIES, MANIFEST}
    width, height = width_and_height(folder / PICTURE)
    assert width > 1200
    assert height > 600
    summaries = json.loads((folder / SUMMARIES).read_text())
    for policy, summary in zip(POLICIES, summaries, strict=True):
        assert policy in run.stdout
        outcome = Outcome.read(folder / policy)
        assert outcome.jobs.height == summary["jobs"] == 5000
        assert outcome.run["options"]["policy"] == summary["policy"] == policy
        assert percent(summary["utilisation_to_last_submission"]) in run.stdout


def test_what_the_demo_tells_is_so(made: tuple[Path, CompletedProcess[str]]) -> None:
    """Figures are worked out again; what is said without a figure is replayed."""
    folder, run = made
    output = " ".join(run.stdout.split())
    outcomes = {policy: Outcome.read(folder / policy) for policy in POLICIES}
    mean = {policy: outcome.jobs["jct"].mean() for policy, outcome in outcomes.items()}
    spread = {policy: (outcome.jobs["num_servers"] > 1).sum() for policy, outcome in outcomes.items()}
    below = {policy: f"{100 - 100 * mean[policy] / mean['fifo']:.0f} %" for policy in POLICIES}
    assert f"completion time is {below['gittins']} and {below['repack']} below fifo's." in output
    assert f"sjf-bco preempts no job: {below['sjf-bco']} below." in output
    assert f"{spread['sjf-bco']} of its jobs span servers, against {spread['fifo']} under fifo." in output
    assert not any(foreknowledge(outcomes[policy].run) for policy in ("gittins", "repack"))
    sjf, *blind = (replay(DATA / SAMPLE, "32x8", policy=policy) for policy in ("sjf", "ff", "ls", "rand"))
    assert sjf.summary["mean_jct"] < mean["sjf-bco"] < min(other.summary["mean_jct"] for other in blind)


def test_the_demo_replaces_only_what_an_earlier_demo_left(
    made: tuple[Path, CompletedProcess[str]],
    tmp_path: Path,
    invoke: Invoke,
    small_jobs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a small sample and the pictures drawn before, which take most of its time."""
    monkeypatch.setattr("ringbco.cli.demo.SAMPLE", str(small_jobs))
    drawn = (made[0] / REPORT).read_text(encoding="utf-8")
    monkeypatch.setattr(import_module("ringbco.reports.html"), "page", lambda *_, **__: drawn)
    monkeypatch.setattr(charts, "save_png", lambda _, path: shutil.copy(made[0] / PICTURE, path))
    shutil.copytree(made[0], tmp_path / "d")
    refused = invoke("demo", "-o", "d")
    assert refused.returncode == 1
    assert refused.stderr == "error: d: already exists; pass --force to replace it, or give another name\n"
    assert Outcome.read(tmp_path / "d" / "fifo").jobs.height == 5000
    again = invoke("demo", "-o", "d", "--force", "--quiet")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert {path.name for path in (tmp_path / "d").iterdir()} == {
        *POLICIES,
        PICTURE,
        REPORT,
        SUMMARIES,
        MANIFEST,
    }
    assert Outcome.read(tmp_path / "d" / "fifo").jobs.height == 7
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    assert invoke("demo", "-o", "other", "--force").returncode == 1
    assert (tmp_path / "other" / "file").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"d", "other", small_jobs.name}


def test_the_sample_is_what_its_description_says() -> None:
    says = json.loads((DATA / SAMPLE).with_suffix(".json").read_text())
    assert hashlib.sha256((DATA / SAMPLE).read_bytes()).hexdigest() == says["sha256"]
    made = generate(says["preset"], says["jobs"], says["seed"], gpus=says["gpus"], load=says["load"])
    assert pl.read_parquet(DATA / SAMPLE).equals(made.frame)


def test_the_sample_log_is_what_its_script_makes() -> None:
    assert sample_log.LOG.read_text(encoding="utf-8") == sample_log.log().write_csv()


@pytest.mark.parametrize("frame", ["one job", "one instant", "queue at the end"])
def test_the_picture_of_a_tiny_replay(tmp_path: Path, frame: str) -> None:
    rows = {"one job": 1, "one instant": 3, "queue at the end": 5}[frame]
    jobs = pl.DataFrame(
        {
            "job_id": [str(row) for row in range(rows)],
            "submit_time": [0.0] * rows,
            "num_gpus": [2] * rows,
            "duration": [10.0] * rows,
        }
    )
    outcomes = {policy: replay(jobs, "1x8", policy=policy, model="fixed") for policy in ("fifo", "sjf")}
    charts.save_png(charts.comparison(outcomes, title="tiny", num_gpus=8), tmp_path / "c.png")
    assert min(width_and_height(tmp_path / "c.png")) > 500


def test_the_axis_ends_when_demand_does() -> None:
    """Three jobs of the whole cluster one after another: the last one starts, and the queue ends, at 20 s."""
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "submit_time": [0.0, 1.0, 2.0],
            "num_gpus": [8] * 3,
            "duration": [10.0] * 3,
        }
    )
    outcome = replay(jobs, "1x8", policy="fifo", model="fixed", sample=5.0)
    data = charts.over_time({"FIFO": outcome}, "queued_gpus", "queued").data
    # Points before the end at 15 s, the last one at which a job waits: 0, 5 and 10 s.
    assert data["value"].to_list() == [0.0, 16.0, 8.0]
    assert data["day"].is_sorted()
    assert data["day"][-1] * 86_400 < 15.0
