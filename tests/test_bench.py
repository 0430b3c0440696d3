"""`ringbco bench`: small runs of the real thing."""

import json
from pathlib import Path

import pytest

from ringbco import bench


def test_own_trace(run_cli, tmp_path: Path) -> None:
    done = run_cli(
        "generate", "--preset", "philly", "--jobs", "300", "--seed", "1", "-o", str(tmp_path / "j.csv")
    )
    assert done.returncode == 0, done.stderr
    done = run_cli(
        "bench", str(tmp_path / "j.csv"), "--cluster", "32x8", "--policy", "fifo", "--policy", "sjf-bco",
        "--repeat", "1", "--json", str(tmp_path / "bench.json"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads((tmp_path / "bench.json").read_text())
    assert [case["label"] for case in said["cases"]] == ["fifo", "sjf-bco"]
    for case in said["cases"]:
        assert (case["jobs"], case["servers"]) == (300, 32)
        assert case["events_per_second"] == pytest.approx(600 / case["engine_seconds"])
        assert case["ratio"] == pytest.approx(case["engine_seconds"] / case["floor_seconds"])
        assert case["peak_bytes"] > 10_000_000
    assert said["machine"]["cores"] >= 1
    assert "command" not in said
    assert "sjf-bco" in done.stdout


def test_bursts_arrive_together(tmp_path: Path) -> None:
    case = bench.Case("bursts", "in bursts", "fifo", jobs=25_000, bursts=True)
    bench._generate(case, 1, str(tmp_path / "j.parquet"))
    from ringbco.jobs import read_jobs

    assert read_jobs(tmp_path / "j.parquet").frame["submit_time"].n_unique() == 3


def test_scaling_cases_cover_what_the_docs_name() -> None:
    groups = {case.group for case in bench.scaling_cases(1_000)}
    assert groups == {"jobs", "servers", "queue", "bursts"}
    queues = {case.options["queue"] for case in bench.scaling_cases(1_000) if case.group == "queue"}
    assert queues == set(bench.DISCIPLINES)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--policy", "nonsense"], 2, "nonsense"),
        (["--jobs", "200", "--no-scaling", "--png", "x.png"], 2, "no scaling curves"),
        (["missing.csv"], 1, "missing.csv"),
    ],
)
def test_bad_input(run_cli, tmp_path: Path, arguments: list[str], status: int, said: str) -> None:
    done = run_cli("bench", *arguments)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
