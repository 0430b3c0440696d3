"""Iterations beside a recorded duration: the duration counts, and what contradicts it is said."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ringbco
from conftest import Invoke
from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster
from ringbco.errors import RingbcoWarning
from ringbco.trace.jobs import JobTable, from_frame, read_jobs
from ringbco.trace.profiles import resolve
from ringbco.trace.records import apart

# After the shape of Tiresias' 60_job.csv; the second is also that of Chronus' and ElasticFlow's testbeds.
TIRESIAS = """\
job_id,num_gpus,submit_time,iterations,model,duration
0,1,0,606,vgg19,164
1,8,30,133,vgg11,147
2,2,53,157,inception4,127
3,4,99,138,vgg16,121
"""
CHRONUS = """\
job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type
0,vc_a,4,12198,6910,resnet101,2110,8,282,10,0,strict
1,vc_b,1,19772,8897,resnet101,31,6,88,10,0,strict
2,vc_a,1,7199,7676,mobilenet_v2,106,24,241,10,0,strict
3,vc_b,8,16739,9660,vgg16,1136,12,1621,10,0,strict
"""
ELASTICFLOW = """\
job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration
0,3715485,2011,cifar10,3719996,4096,1,5644
1,3717550,1548,ncf,3717583,32768,8,66
2,3721209,14577,yolov3,3758928,64,2,33276
6,3721372,23972,imagenet,3849181,6400,16,96857
"""


def table(**columns: Any) -> JobTable:
    length = len(next(iter(columns.values())))
    base = {"job_id": [f"j{row}" for row in range(length)], "submit_time": [0.0] * length}
    known = {"num_gpus": [1] * length, "duration": [100.0] * length, **columns}
    return from_frame(pl.DataFrame(base | known, strict=False))


def hours(jobs: pl.DataFrame, run: str) -> float:
    return float((jobs["num_gpus"] * jobs[run]).sum()) / 3600


@pytest.mark.parametrize("policy", ["fifo", "sjf", "srtf", "sjf-bco"])
def test_the_recorded_run_times_are_replayed(tmp_path: Path, policy: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(TIRESIAS)
    jobs = ringbco.replay(path, "8x8", policy=policy).jobs
    assert jobs["run_time"].to_list() == pytest.approx([164, 147, 127, 121], rel=1e-12)
    assert hours(jobs, "run_time") == pytest.approx(0.577, abs=5e-4)


@pytest.mark.parametrize("text", [TIRESIAS, CHRONUS, ELASTICFLOW])
@pytest.mark.parametrize("direct", [False, True])
def test_public_tables_replay_the_recorded_gpu_hours(
    tmp_path: Path, invoke: Invoke, text: str, direct: bool
) -> None:
    names = {"num_gpu": "num_gpus", "model_name": "model", "iteration": "iterations", "ddl": "deadline"}
    raw, made = tmp_path / "raw.csv", tmp_path / "jobs.parquet"
    if direct:  # the header alone is renamed
        first, rest = text.split("\n", 1)
        raw.write_text(",".join(names.get(name, name) for name in first.split(",")) + "\n" + rest)
        table = read_jobs(raw)
    else:
        raw.write_text(text)
        header = text.split("\n", maxsplit=1)[0].split(",")
        maps = [f"--map={ours}={theirs}" for theirs, ours in names.items() if theirs in header]
        done = invoke("convert", "csv", raw, *maps, "-o", made)
        assert done.returncode == 0, done.stderr
        table = read_jobs(made)
    assert "iterations" in table.frame.columns
    with warnings.catch_warnings():
        warnings.simplefilter("error", RingbcoWarning)
        jobs = ringbco.replay(table, "16x8", policy="fifo").jobs
    assert jobs["wait_time"].sum() == 0
    assert hours(jobs, "run_time") == pytest.approx(hours(table.frame, "duration"), rel=1e-12)


def test_elasticflow_as_it_is_converted_replays_the_recorded_gpu_hours(
    tmp_path: Path, invoke: Invoke
) -> None:
    raw, made = tmp_path / "cluster01.csv", tmp_path / "jobs.parquet"
    ids = [f"0000000{row}-0000-4000-8000-000000000000" for row in range(3)]
    rows = [f"{ids[row]},{10 * row},{4000 + row},{2**row}" for row in range(3)]
    raw.write_text("\n".join(["job_id,submission_time,duration,num_gpu", *rows, ""]))
    assert invoke("convert", "elasticflow", raw, "-o", made).returncode == 0
    jobs = ringbco.replay(made, "4x8", policy="fifo").jobs
    assert hours(jobs, "run_time") == pytest.approx(hours(read_jobs(made).frame, "duration"), abs=1e-3)


@given(
    rows=st.lists(
        st.tuples(
            st.integers(1, 40),
            st.floats(1, 1e6),
            st.one_of(st.none(), st.integers(1, 10**7)),
            st.one_of(st.none(), st.floats(0, 1e10)),
            st.sampled_from([(None, None), (None, None), (0.25, None), (None, 0.5), (0.0, 0.0)]),
            st.one_of(st.none(), st.integers(1, 64)),
        ),
        min_size=1,
        max_size=12,
    ),
    recorded=st.sampled_from(["1x8", "3x2", "1x64"]),
    server=st.integers(1, 16),
)
def test_f_times_tau_is_the_duration_where_nothing_else_says_it(
    rows: list[tuple[Any, ...]], recorded: str, server: int
) -> None:
    """Against the rules of docs/profiles.md, job by job."""
    gpus, duration, iterations, gradient, compute, batch = map(list, zip(*rows, strict=True))
    forward, backward = map(list, zip(*compute, strict=True))
    jobs = table(
        num_gpus=gpus,
        duration=duration,
        iterations=iterations,
        gradient_bytes=gradient,
        fp_time=forward,
        bp_time=backward,
        batch_size=batch,
    )
    cluster = Cluster.parse(f"40x{server}").with_recorded(Cluster.parse(recorded))
    work = resolve(jobs, cluster, model="rar", seed=2)
    net, most = Network(), int(recorded.split("x")[1])
    for row, size in enumerate(gpus):
        servers = -(-size // most)
        x = work.gradient_bytes[row] * (size - 1) / size
        link = net.inter_bandwidth if servers > 1 else net.intra_bandwidth
        sends = 2 * x / link + x / net.reduce_speed + net.xi2 * servers
        whole = work.iterations[row] * (sends + work.compute_time[row])
        if iterations[row] is None:
            continue
        assert work.iterations[row] == iterations[row]
        if (forward[row], backward[row]) == (None, None):
            if sends < duration[row] / iterations[row]:
                assert whole == pytest.approx(duration[row], rel=1e-9)
            else:
                assert work.compute_time[row] == 0
        else:
            given = (forward[row] or 0) * (batch[row] or 1) + (backward[row] or 0)
            assert work.compute_time[row] == given


def test_shares_types_and_ranges_keep_the_recorded_run_time() -> None:
    cluster = Cluster(np.full(4, 8, np.uint32), server_gpu_type=("V100", "V100", "T4", "T4"))
    jobs = table(
        num_gpus=[1, 4, 2],
        iterations=[500, 40, 7],
        gpu_share=[0.5, None, None],
        gpu_type=["T4", "T4", "V100"],
        recorded_on=["T4", "V100", "V100"],
        min_gpus=[1, 2, 1],
        max_gpus=[1, 8, 2],
    )
    ran = ringbco.replay(jobs, cluster, policy="fifo").jobs["run_time"].to_list()
    assert ran[0] == pytest.approx(100, rel=1e-12)
    assert ran[2] == pytest.approx(100, rel=1e-12)
    assert ran[1] > 150  # on slower GPUs than those it was recorded on


def lines(run: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(one.message) for one in caught if issubclass(one.category, RingbcoWarning)]


def over(path: Path, options: Mapping[str, Any]) -> list[str]:
    spec = {"base": {"trace": str(path), "cluster": "8x8", **options}, "grid": {"policy": ["fifo", "sjf"]}}
    return lines(lambda: ringbco.sweep(spec, path.parent / f"s{len(list(path.parent.iterdir()))}"))


def test_work_that_contradicts_the_durations_is_said_by_every_verb(tmp_path: Path) -> None:
    path, steps = tmp_path / "jobs.csv", 1000
    jobs = table(iterations=[steps] * 20, fp_time=[0.2] * 20, duration=[50.0 + row for row in range(20)])
    ringbco.write_jobs(jobs, path)
    (line,) = lines(lambda: ringbco.replay(path, "8x8"))
    whole = steps * (0.2 + Network().xi2)
    ratio = whole / jobs.frame["duration"].to_numpy()
    low, median, high = np.quantile(ratio, (0.05, 0.5, 0.95))
    spread = f"(median of 20 jobs; p5 {low:.3g}, p95 {high:.3g})"
    assert f"{median:.3g} times the recorded duration {spread}" in line
    assert line.startswith(f"{path}: column iterations: ")
    assert "leave out fp_time and bp_time" in line
    assert "--model fixed" in line
    assert lines(lambda: ringbco.compare(path, "8x8", ["fifo", "sjf"])) == [line]
    assert lines(lambda: ringbco.plan(path, "8x8")) == [line]
    assert lines(lambda: ringbco.inspect(path)) == [line]
    assert lines(lambda: ringbco.Simulation(path, "8x8")) == [line]
    assert over(path, {}) == [line]
    assert ringbco.replay(path, "8x8").run["warnings"] == [line]
    # Both ways out.
    for run in (
        lambda: ringbco.replay(path, "8x8", model="fixed"),
        lambda: ringbco.compare(path, "8x8", ["fifo", "sjf"], model="fixed"),
        lambda: ringbco.replay(jobs.frame.drop("fp_time"), "8x8"),
    ):
        assert lines(run) == []
    assert over(path, {"model": "fixed"}) == []


@pytest.mark.parametrize(("scale", "told"), [(0.91, False), (1.09, False), (0.89, True), (1.11, True)])
def test_the_bounds_of_the_median(scale: float, told: bool) -> None:
    each = 0.1 - Network().xi2
    jobs = table(iterations=[1000] * 3, bp_time=[each] * 3, duration=[100.0 / scale, 1.0, 1e6])
    assert bool(apart(jobs, Cluster.parse("1x8"))) == told


def test_more_communication_than_the_duration_has_room_for_is_said() -> None:
    jobs = table(num_gpus=[8, 1], iterations=[100_000, 10], gradient_bytes=[1e9, 1e9])
    (line,) = apart(jobs, Cluster.parse("1x8"))
    assert "communication of so many iterations alone takes" in line
    assert "median of 1 job;" in line
    assert "leave out iterations" in line


def test_inspect_does_not_offer_iterations_that_change_nothing(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(ELASTICFLOW.replace("num_gpu", "num_gpus"))
    assert "did you mean iterations" not in invoke("inspect", path).stdout
    assert ringbco.inspect(path)["columns"]["extra"]["iteration"] is None
