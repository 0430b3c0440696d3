"""Noise scales: what more GPUs are worth to an elastic job, by hand and where nothing may change."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from frames import cluster_of
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, RingbcoWarning
from ringbco.trace.jobs import from_frame

ONE = {
    "job_id": ["a"], "submit_time": [0.0], "num_gpus": [4], "duration": [100.0], "min_gpus": [1],
    "max_gpus": [16], "noise_scale": [256.0], "batch_size": [32],
}  # fmt: skip
RING = {"iterations": [100], "gradient_bytes": [3e9], "fp_time": [0.0], "bp_time": [0.5]}


class On(ringbco.Policy):
    """Starts every job on so many GPUs."""

    def __init__(self, gpus: int) -> None:
        self.gpus = gpus

    def decide(self, state: Any) -> None:
        state.start(state.waiting, gpus=self.gpus)


def run(
    gpus: int, columns: dict[str, Any], cluster: str | Cluster = "2x8", **options: Any
) -> ringbco.Outcome:
    outcome = ringbco.replay(pl.DataFrame(columns), cluster, policy=On(gpus), **options)
    assert ringbco.audit(outcome, pl.DataFrame(columns)) == []
    return outcome


def finish(gpus: int, columns: dict[str, Any], cluster: str | Cluster = "2x8", **options: Any) -> float:
    return float(run(gpus, columns, cluster, **options).jobs["finish_time"][0])


@pytest.mark.parametrize(
    ("gpus", "rate"),
    [
        (2, 2 / 4 * ((256.0 + 128.0) / (256.0 + 64.0))),
        (4, 1.0),
        (8, 8 / 4 * ((256.0 + 128.0) / (256.0 + 256.0))),
        (16, 16 / 4 * ((256.0 + 128.0) / (256.0 + 512.0))),
    ],
)
def test_the_example_of_the_page(gpus: int, rate: float) -> None:
    """docs/model.md#statistical-efficiency: 0.6, 1 and 1.5 recorded seconds a second on 2, 4 and 8 GPUs."""
    assert rate == pytest.approx({2: 0.6, 4: 1.0, 8: 1.5, 16: 2.0}[gpus])
    assert finish(gpus, ONE, model="fixed") == 100.0 * (1.0 / rate)
    slots = finish(gpus, ONE, model="fixed", clock="slot", slot=7.0)
    assert slots == 7.0 * math.ceil(100.0 / 7.0 / rate * (1 - 1e-12))
    # A ring of so many, on one server, and on two.
    x = 3e9 * (gpus - 1) / gpus
    servers = 1 if gpus <= 8 else 2
    link = 150e9 if servers == 1 else 12.5e9
    tau = 2.0 * x / link + x / 500e9 + 5e-4 * servers + 0.5
    assert finish(gpus, ONE | RING) == 100.0 * (tau / rate)
    phi = math.floor(3.0 / (tau / rate) * (1 + 1e-12))
    assert finish(gpus, ONE | RING, clock="slot", slot=3.0) == 3.0 * math.ceil(100 / phi)


def test_a_faster_type_computes_faster() -> None:
    types = "[gpu_types.fast]\nspeed = 4.0\n[gpu_types.slow]\nspeed = 1.5\n"
    cluster = cluster_of(f'{types}[[servers]]\ngpus = 8\ngpu_type = "fast"\n')
    columns = ONE | RING | {"recorded_on": ["slow"]}
    rate = 8 / 4 * ((256.0 + 128.0) / (256.0 + 256.0))
    assert finish(8, columns, cluster, model="fixed") == 100.0 * (1.0 / (rate * 4.0 / 1.5))
    x = 3e9 * 7 / 8
    tau = 2.0 * x / 150e9 + x / 500e9 + 5e-4 + 0.5 / (4.0 / 1.5)
    assert finish(8, columns, cluster) == 100.0 * (tau / rate)


@pytest.mark.parametrize("model", ["fixed", "rar"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_an_infinite_noise_scale_is_none(model: Any, clock: Any) -> None:
    """Null, inf, and no column at all: the same bits."""
    columns = {name: values * 3 for name, values in (ONE | RING).items()} | {"job_id": ["a", "b", "c"]}
    without = {name: values for name, values in columns.items() if name != "noise_scale"}
    outcomes = [
        run(3, given, model=model, clock=clock)
        for given in (without, columns | {"noise_scale": [None, math.inf, None]})
    ]
    assert outcomes[0].jobs.equals(outcomes[1].jobs)


@pytest.mark.parametrize("model", ["fixed", "rar"])
def test_no_noise_at_all(model: Any) -> None:
    """phi = 0: more GPUs are no gain, and fewer no loss, but for the ring."""
    columns = ONE | RING | {"noise_scale": [0.0], "gradient_bytes": [0.0]}
    alone = finish(4, columns, model=model)
    for gpus in (1, 2, 8):
        assert finish(gpus, columns, model=model) == pytest.approx(alone, rel=1e-12)


def test_batch_size_is_1_where_nothing_says_it() -> None:
    """Whatever the profile: E depends on the table alone."""
    for absent in ({"batch_size": [None]}, {"batch_size": [1]}):
        columns = ONE | absent
        assert finish(8, columns, model="fixed") == 100.0 * (1.0 / (2.0 * ((256.0 + 4.0) / (256.0 + 8.0))))
    by_seed = [ringbco.Simulation(pl.DataFrame(ONE), "2x8", seed=seed) for seed in (0, 1)]
    gains = []
    for simulation in by_seed:
        simulation.advance()
        one, two = simulation.state.rate([0, 0], [1, 2])
        gains.append(two / one)
    assert gains[0] != gains[1]  # other rings
    assert max(gains) < 2.0 * (256.0 + 32.0) / (256.0 + 64.0)


def test_a_policy_reads_rates_with_it() -> None:
    simulation = ringbco.Simulation(pl.DataFrame(ONE | RING), "2x8")
    assert simulation.advance()
    state = simulation.state
    assert state.jobs.noise_scale.tolist() == [256.0]
    for gpus in (1, 4, 8):
        state = simulation.state
        x = 3e9 * (gpus - 1) / gpus
        tau = 2.0 * x / 150e9 + x / 500e9 + 5e-4 + 0.5
        rate = gpus / 4 * ((256.0 + 128.0) / (256.0 + gpus * 32.0)) if gpus != 4 else 1.0
        assert state.rate([0], [gpus]).tolist() == [rate / tau]
    fixed = ringbco.Simulation(pl.DataFrame(ONE), "2x8", model="fixed")
    assert fixed.advance()
    assert fixed.state.rate([0, 0], [2, 8]).tolist() == [0.5 * (384.0 / 320.0), 1.5]
    rigid = ringbco.Simulation(pl.DataFrame(ONE).drop("noise_scale"), "2x8", model="fixed")
    assert rigid.advance()
    assert rigid.state.jobs.noise_scale.tolist() == [math.inf]


def test_a_resize_changes_the_rate() -> None:
    simulation = ringbco.Simulation(pl.DataFrame(ONE), "2x8", model="fixed", resize_cost=5.0)
    assert simulation.advance()
    simulation.start([0], gpus=8)
    simulation.wake(20.0)
    assert simulation.advance()
    simulation.resize(0, 2)  # 30 s of work done in 20 s; the other 70 s at 0.6 a second
    while simulation.advance():
        pass
    outcome = simulation.outcome()
    assert outcome.jobs["finish_time"].to_list() == [pytest.approx(20.0 + 5.0 + 70.0 / 0.6)]
    assert outcome.jobs["run_resized"].to_list() == [pytest.approx(20.0 + 70.0 / 0.6 - 100.0, rel=1e-6)]
    assert ringbco.audit(outcome, pl.DataFrame(ONE)) == []


def test_the_audit_knows_it() -> None:
    """A result under one noise scale is none under another."""
    for model, others in (("fixed", ONE), ("rar", ONE | RING)):
        outcome = run(8, others, model=model)
        for scale in (None, 255.0):
            report = ringbco.audit(
                outcome,
                pl.DataFrame(others | {"noise_scale": [scale]}, schema_overrides={"noise_scale": pl.Float64}),
            )
            assert "run-times" in {finding.code for finding in report}


def test_measured_speeds_have_it_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text('[[servers]]\ngpus = 8\ngpu_type = "V100"\n')
    Path("speeds.csv").write_text("model,gpu_type,gpus,servers,rate\nm,V100,1,1,1\nm,V100,16,1,16\n")
    columns = ONE | {"model": ["m"], "iterations": [800]}
    # A size that no cluster has needs no rate.
    columns |= {"max_gpus": [4_000_000_000]}
    assert finish(8, columns, "c.toml", model="table", tables="speeds.csv") == 100.0
    Path("speeds.csv").write_text("model,gpu_type,gpus,servers,rate\nm,V100,2,1,1\nm,V100,16,1,16\n")
    with pytest.raises(
        InputError, match=r"on 1 GPU of V100 is in speeds.csv; job 'a' may run there"
    ) as raised:
        run(8, columns, "c.toml", model="table", tables="speeds.csv")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("value", [-1.0, math.nan, -math.inf])
def test_scales_that_are_none(value: float) -> None:
    with pytest.raises(InputError) as raised:
        from_frame(pl.DataFrame(ONE | {"noise_scale": [value]}))
    said = str(raised.value)
    assert "row 1, column noise_scale" in said
    assert "expected a number of samples >= 0, or inf" in said
    assert "\n" not in said


def test_scales_of_a_csv(tmp_path: Path, invoke: Invoke) -> None:
    header = "job_id,submit_time,num_gpus,duration,noise_scale\n"
    for cell, good in (("0", True), ("inf", True), ("", True), ("1e5", True), ("-1", False), ("x", False)):
        (tmp_path / "jobs.csv").write_text(f"{header}a,0,1,10,{cell}\n")
        done = invoke("replay", "jobs.csv", "--cluster", "1x1", "-o", "out", "--force", "--quiet")
        assert (done.returncode == 0) == good, done.stderr
        if not good:
            assert f"jobs.csv: row 1 (line 2), column noise_scale: {cell}: expected" in done.stderr


def test_policies_that_resize_nobody_say_so(tmp_path: Path, invoke: Invoke) -> None:
    pl.DataFrame(ONE | RING).write_parquet(tmp_path / "jobs.parquet")
    (tmp_path / "own.py").write_text(
        "import ringbco\n"
        "class Mine(ringbco.Policy):\n    def decide(self, state):\n        state.start(state.waiting)\n"
        "class Key(ringbco.KeyPolicy):\n    def key(self, state, rows):\n        return rows\n"
        "class Rank(ringbco.RankPolicy):\n    def rank(self, state, rows):\n        return rows\n"
    )
    note = "note: 1 elastic job of jobs.parquet: num_gpus GPUs each under {}, which resizes no job\n"

    def told(verb: str, *arguments: str) -> str:
        done = invoke(verb, *arguments, "--cluster", "2x8", "-o", verb, "--force")
        assert done.returncode == 0, done.stderr
        lines = str(done.stderr).splitlines(keepends=True)
        return "".join(
            line
            for line in lines
            if "went by in pauses" not in line and " times the recorded duration" not in line
        )

    for policy in ("fifo", "srtf", "tiresias", "sjf-bco", "own.py:Key", "own.py:Rank"):
        assert told("replay", "jobs.parquet", "--policy", policy) == note.format(policy)
        assert told("replay", "jobs.parquet", "--policy", policy, "--quiet") == ""
    if find_spec("highspy"):
        for policy in ("gavel", "allox"):
            assert told("replay", "jobs.parquet", "--policy", policy) == note.format(policy)
        assert told("replay", "jobs.parquet", "--policy", "sia") == ""
    assert told("replay", "jobs.parquet", "--policy", "own.py:Mine") == ""
    both = told("compare", "jobs.parquet", "--policy", "fifo", "--policy", "own.py:Mine", "--policy", "srtf")
    assert both == note.format("fifo and srtf").replace("resizes", "resize")
    assert note.format("ff") in told("plan", "jobs.parquet", "--policy", "ff")
    base = {"trace": str(tmp_path / "jobs.parquet"), "cluster": "2x8"}
    with pytest.warns(RingbcoWarning, match="num_gpus GPUs each under fifo, which resizes no job"):
        ringbco.sweep({"base": base, "grid": {"policy": ["fifo", "afs"]}}, tmp_path / "sweep")
    pl.DataFrame(ONE | RING).drop("max_gpus", "min_gpus").write_parquet(tmp_path / "jobs.parquet")
    assert told("replay", "jobs.parquet", "--policy", "fifo") == ""


@pytest.mark.parametrize(("most", "rate"), [(4, 1.0), (8, 1.5), (16, 2.0)])
def test_the_bound_by_hand(most: int, rate: float) -> None:
    """A job alone takes as long as on its most GPUs; ones that others wait for hold as few as they can."""
    bound = ringbco.bound(pl.DataFrame(ONE | {"max_gpus": [most]}), "1x16", model="fixed").total
    assert bound == pytest.approx(100.0 / rate)
    crowd = {name: values * 40 for name, values in ONE.items()} | {"job_id": [f"j{row}" for row in range(40)]}
    # Each takes 4 x 100 / E(1) GPU-seconds at least, E(1) = 384 / 288, and 16 GPUs are there.
    work = 400.0 / (384.0 / 288.0)
    least = ringbco.bound(pl.DataFrame(crowd), "1x16", model="fixed").total
    assert least >= sum(work * number / 16 for number in range(1, 41)) * (1 - 1e-9)
    rigid = {name: values for name, values in crowd.items() if name not in ("min_gpus", "noise_scale")}
    assert least < ringbco.bound(pl.DataFrame(rigid), "1x16", model="fixed").total
