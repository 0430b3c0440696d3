"""pollux: workloads, and profiles of applications as tables of speeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ringbco
from conftest import Invoke
from raw import pollux
from raw.agreement import converted as agreed
from ringbco.errors import InputError, UsageError
from ringbco.sources import recognise

WORKLOAD = "name,time,application,num_replicas,batch_size\na,60,toy,2,16\nb,0,toy,1,8\nc,5,toy,1,16\n"
FILES = {
    # 2 GPUs of one server, 3 GPUs on two in two ways, of which the one that fills a server counts.
    "placements.csv": (
        "placement,local_bsz,step_time,sync_time\n1,4,1.0,0.0\n1,8,2.0,0.0\n2,4,1.2,0.2\n2,8,2.4,0.4\n"
        "11,4,1.5,0.5\n11,8,2.5,0.5\n12,4,3.0,1.0\n12,8,4.0,1.0\n"
    ),
    "scalability.csv": "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,6,1,9.0,1.0\n6,6,8,9.0,1.0\n",
    # Two epochs of 10 and 30 steps. In the first a step at 16 is worth 2 steps at 8, in the second 1.
    "validation-8.csv": "progress,iteration,metric,grad_sqr,grad_var\n10,10,0.5,1,1\n40,40,0.9,1,1\n",
    "validation-16.csv": "progress,iteration,metric,grad_sqr,grad_var\n11,6,0.5,0,1\n41,40,0.9,1e9,1e-9\n",
}


@pytest.fixture
def workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("profiles/toy").mkdir(parents=True)
    for name, text in FILES.items():
        Path("profiles/toy", name).write_text(text)
    Path("workload-1.csv").write_text(WORKLOAD)
    return Path("workload-1.csv")


def converted(workload: Path, **options: Any) -> Any:
    return ringbco.convert("pollux", workload, **{"profiles": "profiles"} | options)


@pytest.mark.parametrize("seed", range(4))
def test_every_planted_defect_is_accounted_for(seed: int, tmp_path: Path) -> None:
    agreed("pollux", pollux.generate(seed), tmp_path, profiles=pollux.write_profiles(tmp_path))


def test_by_hand(workload: Path) -> None:
    """40 steps at batch 8 take 40 x 2 s on a GPU. At 16 they are 5 + 30 = 35, on a GPU in two parts each."""
    result = converted(workload, strict=True)
    rates = {
        row[:4]: row[4]
        for row in result.tables.frame.select("model", "gpu_type", "gpus", "servers", "rate").rows()
    }
    eight, sixteen = "toy (batch size 8)", "toy (batch size 16)"
    assert rates[eight, "T4", 1, 1] == pytest.approx(1000 / 2.0)
    assert rates[eight, "T4", 2, 1] == pytest.approx(1000 / 1.2)  # 4 on each
    assert rates[eight, "T4", 2, 2] == pytest.approx(1000 / 1.5)
    assert rates[sixteen, "T4", 1, 1] == pytest.approx(1000 * 40 / 35 / (2 * 2.0))
    assert rates[sixteen, "T4", 2, 1] == pytest.approx(1000 * 40 / 35 / 2.4)  # 8 on each
    assert rates[sixteen, "T4", 2, 2] == pytest.approx(1000 * 40 / 35 / 2.5)
    # 5 on each of 3 GPUs, 15 in all: between the gradients measured at 8 and at 16.
    steps = 10 / _gain(0.125, 1.0) + 30 / _gain(0.125 + 0.875e9, 0.125 + 0.875e-9)
    assert rates[sixteen, "T4", 3, 2] == pytest.approx(1000 * 40 / steps / 3.25)
    # At 8 in all nobody profiled 3 on a GPU; on 6 GPUs 2 on each are 12 in all.
    assert [key[2:] for key in rates if key[0] == eight] == [(1, 1), (2, 1), (2, 2), (6, 6)]
    frame = result.table.frame
    assert frame.select("job_id", "submit_time", "num_gpus", "model", "gpu_type", "iterations").rows() == [
        ("b", 0.0, 1, eight, "T4", 40_000),
        ("c", 5.0, 1, sixteen, "T4", 40_000),
        ("a", 60.0, 2, sixteen, "T4", 40_000),
    ]
    assert frame["duration"].to_list() == pytest.approx([80.0, 35 * 4.0, 35 * 2.4])


def test_how_far_a_job_may_be_split(workload: Path) -> None:
    """The least batch on a GPU is 4: 8 goes on two GPUs, 16 on four. But nobody profiled four."""
    frame = converted(workload, strict=True).table.frame
    assert frame.select("job_id", "num_gpus", "min_gpus", "max_gpus").rows() == [
        ("b", 1, 1, 2),
        ("c", 1, 1, 3),
        ("a", 2, 1, 3),
    ]


def _gain(square: float, variance: float) -> float:
    """What a step at 15 is worth beside one at 8."""
    return (variance + square) / (variance * 8 / 15 + square)


def test_both_tables_are_what_a_replay_wants(invoke: Invoke, workload: Path) -> None:
    done = invoke(
        "convert", "pollux", workload, "--profiles", "profiles", "-o", "j.parquet", "--tables-out", "t.csv"
    )
    assert done.returncode == 0, done.stderr
    assert "speeds of 2 models in t.csv" in done.stdout
    done = invoke(
        *("replay", "j.parquet", "--cluster", "2x4", "--policy", "tiresias", "--thresholds", "57600"),
        *(
            "--clock",
            "slot",
            "--slot",
            "60",
            "--start-cost",
            "30",
            "--model",
            "table",
            "--tables",
            "t.csv",
            "-o",
            "r",
        ),
    )
    assert done.returncode == 0, done.stderr
    # After 30 s: b 80 s of work, c 140 s, a 84 s; c and a start at 60.
    assert ringbco.Outcome.read("r").jobs["finish_time"].to_list() == [120.0, 240.0, 180.0]
    assert invoke("audit", "r").returncode == 0


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("a,60,toy,2,16", "a,60,toy,0,16", "column num_replicas: 0: expected one GPU or more"),
        ("a,60,toy,2,16", "a,60,toy,2,1.5", "column batch_size: 1.5: expected a whole number of samples"),
        ("a,60,toy,2,16", "a,60,gpt,2,16", "application: gpt: expected one of toy"),
        ("a,60,toy,2,16", "a,-60,toy,2,16", "column time: -60: expected 0 s or later"),
        (
            "a,60,toy,2,16",
            "a,60,toy,40,16",
            "column num_replicas: 40: expected a number of GPUs at which toy",
        ),
        ("a,60,toy,2,16", "a,60,toy,2,99", "column num_replicas: 2: expected a number of GPUs at which toy"),
    ],
)
def test_bad_lines(workload: Path, was: str, now: str, told: str) -> None:
    workload.write_text(WORKLOAD.replace(was, now))
    with pytest.raises(InputError, match=told) as raised:
        converted(workload, strict=True)
    assert str(raised.value).startswith("workload-1.csv: row 1 (line 2), ")


def test_a_job_beyond_the_profiles_is_left_out_and_said(workload: Path) -> None:
    workload.write_text(WORKLOAD.replace("a,60,toy,2,16", "a,60,toy,40,16"))
    result = converted(workload)
    assert result.table.frame["job_id"].to_list() == ["b", "c"]
    assert result.account.dropped == {"batch size on so many GPUs beyond the profiles": 1}
    assert result.notes == (
        "first batch size on so many GPUs beyond the profiles: line 2, toy (batch size 16) on 40 GPUs",
    )
    workload.write_text(WORKLOAD.splitlines()[0] + "\na,60,toy,40,16\n")
    with pytest.raises(InputError, match="none of its 1 jobs can be kept; dropped: 1 batch size on so many"):
        converted(workload)


def test_columns_that_are_not_kept_are_named(workload: Path) -> None:
    workload.write_text(
        "".join(f"{row},{more}\n" for row, more in zip(WORKLOAD.split(), "smpl", strict=True))
    )
    assert converted(workload).notes == ("columns not kept: s",)


@pytest.mark.parametrize(
    ("file", "was", "now", "told"),
    [
        ("placements.csv", "step_time", "time", "placements.csv: has no column step_time; is it a"),
        ("placements.csv", "1.0,0.0", "0,0.0", "column step_time: 0: expected a number > 0, from 1e-15"),
        ("placements.csv", "1.0,0.0", "x,0.0", "column step_time: x: expected a number > 0, from 1e-15"),
        ("placements.csv", "1,4,1.0", "1,0.5,1.0", "column local_bsz: 0.5: expected a number > 0, from 1 to"),
        ("placements.csv", "1.0,0.0", "1.0,1.5", "column sync_time: 1.5: expected at most the step_time"),
        (
            "validation-8.csv",
            "10,10,0.5,1,1",
            "10,10,0.5,1,",
            "column grad_var: .*: expected a number > 0, from 1e-15",
        ),
        (
            "scalability.csv",
            "\n",
            "\n2,1,8,1.0,0.0\n",
            "row 1 .*num_nodes: .*: expected whole numbers of GPUs",
        ),
        ("validation-8.csv", "10,10,0.5,1,1", "10,10,0.5,1,1e308", "grad_var: 1e308: .* to 1e.16"),
        (
            "validation-8.csv",
            "10,10,0.5,1,1",
            "50,10,0.5,1,1",
            r"validation-8.csv: row 2 .*, column progress: 40: expected at least .* row before, 50: epochs",
        ),
        (
            "scalability.csv",
            FILES["scalability.csv"].partition("\n")[2],
            "",
            "scalability.csv: has a header but no rows",
        ),
    ],
)
def test_bad_profiles(workload: Path, file: str, was: str, now: str, told: str) -> None:
    Path("profiles/toy", file).write_text(FILES[file].replace(was, now, 1))
    with pytest.raises(InputError, match=told) as raised:
        converted(workload)
    assert "\n" not in str(raised.value)


def test_missing_profiles(workload: Path) -> None:
    with pytest.raises(UsageError, match="convert pollux: give --profiles DIR"):
        ringbco.convert("pollux", workload)
    with pytest.raises(InputError, match="expected the folder of Pollux' profiles"):
        converted(workload, profiles="nowhere")
    with pytest.raises(InputError, match="holds no folder of an application"):
        converted(workload, profiles="profiles/toy")
    Path("profiles/toy/validation-8.csv").rename("profiles/toy/validation-x.csv")
    with pytest.raises(InputError, match=r"a name such as validation-128.csv"):
        converted(workload)
    for path in Path("profiles/toy").glob("validation*"):
        path.unlink()
    with pytest.raises(InputError, match=r"holds no validation-\*.csv"):
        converted(workload)
    Path("profiles/toy/scalability.csv").unlink()
    with pytest.raises(InputError, match=r"scalability.csv: no such file"):
        converted(workload)


def test_a_workload_is_recognised(workload: Path) -> None:
    assert recognise(workload) == ("pollux", "a Pollux workload (workload-N.csv)")


FULL = """\
import resource, sys
from ringbco.shell import main
sys.dont_write_bytecode = True  # it would be cut off, too
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
main()
"""


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_a_disk_that_fills_under_the_speeds(workload: Path, name: str) -> None:
    """A limit on file sizes makes the write fail as a full disk does."""
    before = sorted(os.listdir())
    command = ["convert", "pollux", str(workload), "--profiles", "profiles"]
    done = subprocess.run(
        [sys.executable, "-c", FULL, *command, "-o", "jobs.parquet", "--tables-out", name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {name}: cannot be written: File too large")
    assert done.stderr.count("\n") == 1
    assert sorted(os.listdir()) == before
