"""The checker: what it makes of the stay log of a genuine result is that result; it knows no policy."""

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
import ringbco.checker
from cases.checked import differences
from cases.run import meet
from frames import cluster_of
from ringbco.audits.figures import UNJUDGED
from ringbco.audits.inputs import inputs_of, stay_log_of
from ringbco.audits.options import PRESETS
from ringbco.checker import RunInputs, check
from ringbco.checker.arrays import by_group, codes, optional, ranges
from ringbco.checker.clock import boundary
from ringbco.checker.idle import FEW, FITS, PACKING
from ringbco.checker.levels import Steps, Waiting, steps
from ringbco.trace.jobs import as_table, from_frame
from strategies import PLACEMENTS

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

ROOM = Path(ringbco.checker.__file__).parent


ONCE = (130, 1110, 1169, 1466, 1531, 1418, 2204, 24967, 31077, 33044, 43600, 63088, "9.359", "9.174")
"""Cases with findings once: no length, literal lbsgf, rungs, who woke a server, samples, a guest."""


@pytest.mark.parametrize("seed", ONCE)
def test_what_it_once_got_wrong(seed: int | str) -> None:
    """Of the first cases test_cases says the same."""
    met = meet(seed, check=False)
    assert met.seen.outcome is not None, met.seen.refusal or met.seen.faults
    report = ringbco.audit(met.seen.outcome, met.seen.case.frame())
    assert report == [], f"case {seed}, of {', '.join(met.features)}\n\n{met.seen.case.script()}"


TYPED = """
[network]
[gpu_types.v100]
idle_watts = 40
busy_watts = 300
price_per_hour = 2.5
[gpu_types.p100]
speed = 0.6
idle_watts = 30
busy_watts = 250
price_per_hour = 1.0
[[servers]]
count = 12
gpus = 8
gpu_type = "v100"
[[servers]]
count = 8
gpus = 8
gpu_type = "p100"
"""


def outages(seed: int, servers: int, last: float) -> pl.DataFrame:
    """A hundred, of some hours each; one never ends."""
    rng, rows = random.Random(seed), []
    for server in range(servers):
        at = 0.0
        for _ in range(100 // servers + 1):
            at += rng.uniform(0.0, last / 4.0)
            rows.append((server, at, at + rng.uniform(60.0, 9000.0), rng.choice(("disk", "network", None))))
            at = rows[-1][2]
    rows[-1] = (*rows[-1][:2], None, None)
    schema = {"server": pl.UInt32, "down_at": pl.Float64, "up_at": pl.Float64, "cause": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def services(last: float) -> pl.DataFrame:
    """Two, whose loads rise and fall."""
    rows = [
        (name, last * step / 12.0, (step * pace) % 5, gpus)
        for name, pace, gpus in (("chat", 3, 1), ("rank", 2, 4))
        for step in range(12)
    ]
    names = ("service", "time", "replicas", "gpus_per_replica")
    return pl.DataFrame(rows, schema=names, orient="row").cast(
        {"replicas": pl.UInt32, "gpus_per_replica": pl.UInt32}
    )


def with_columns(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """A job table with some more columns."""
    rng, size = random.Random(7), frame.height
    columns: dict[str, list[Any]] = {
        "priority": [rng.choice((0, 0, 1, 2)) for _ in range(size)],
        "preemptible": [rng.random() < 0.7 for _ in range(size)],
        "checkpoint_interval": [rng.choice((None, 300.0, 5000.0)) for _ in range(size)],
        "time_limit": [rng.choice((None, 600.0, 20_000.0)) for _ in range(size)],
        "deadline": [rng.choice((None, 1e5, 1e6)) for _ in range(size)],
        "group": [rng.choice((None, "a", "b", "c")) for _ in range(size)],
        "gpu_share": [rng.choice((0.25, 0.5)) if gpus == 1 else None for gpus in frame["num_gpus"]],
        "gpu_type": [rng.choice((None, "v100", "p100", "p100|v100")) for _ in range(size)],
    }
    nulls = {"deadline": pl.Float64, "group": pl.String, "gpu_share": pl.Float64, "gpu_type": pl.String}
    return frame.with_columns(pl.Series(name, columns[name], nulls.get(name)) for name in names)


LARGE: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "fifo": ("20x8", (), {"policy": "fifo", "model": "rar"}),
    "failures": ("20x8", ("checkpoint_interval",), {"policy": "srtf", "outages": 5, "model": "rar"}),
    "spread": ("40x4", (), {"policy": "ls", "model": "rar", "queue": "skip"}),
    "slots": ("20x8", (), {"policy": "srtf", "clock": "slot", "slot": 60.0, "outages": 6, "model": "rar"}),
    "slots, fixed": ("20x8", (), {"policy": "fifo", "clock": "slot", "slot": 7.0, "model": "fixed"}),
    "packed": ("20x8", (), {"policy": "repack", "model": "fixed"}),
    "turns": ("20x8", (), {"policy": "time-slice", "quantum": 1800.0, "model": "fixed"}),
    "elastic": ("20x8", (), {"policy": "elastic-srtf", "model": "rar", "elastic": "0.5:2"}),
    "optimus": ("20x8", (), {"policy": "optimus", "model": "fixed", "elastic": "0.5:2", "outages": 3}),
    "types": (
        TYPED,
        ("gpu_type",),
        {"policy": "srtf", "model": "rar", "sleep_after": 600.0, "wake_time": 60.0},
    ),
    "shares": ("20x8", ("gpu_share",), {"policy": "fifo", "placement": "fgd", "interference": 0.4}),
    "services": ("20x8", ("priority", "preemptible"), {"policy": "srtf", "services": 1, "evict": True}),
    "limits": ("20x8", ("time_limit",), {"policy": "srtf", "enforce_limits": True, "checkpoint_cost": 20.0}),
    "trials": ("20x8", ("group",), {"policy": "srtf", "search": "asha:eta=2,rungs=3", "model": "rar"}),
    "saves": ("20x8", ("checkpoint_interval",), {"policy": "fifo", "checkpoint_cost": 9.0, "outages": 2}),
    "least busy": ("20x8", (), {"policy": "fifo", "placement": "lbsgf", "variant": "literal"}),
    "window": ("20x8", ("deadline",), {"policy": "tiresias", "measure_from": 0.2, "measure_to": 0.7}),
}
"""Policies and features on 2,000 jobs: the cluster, columns beside the usual ones, options."""


def large(name: str, preset: str, jobs: int) -> tuple[ringbco.Outcome, pl.DataFrame]:
    """A run of many jobs."""
    cluster, columns, options = LARGE[name]
    options = {"model": "fixed", "oversize": "drop", **options}
    table = ringbco.generate(preset, jobs, 3, gpus=160, elastic=options.pop("elastic", None))
    frame = with_columns(table.frame, *columns)
    last = float(frame["submit_time"].max())  # type: ignore[arg-type]
    if "outages" in options:
        options["outages"] = outages(options["outages"], 20, last)
    if "services" in options:
        options["services"] = services(last)
    servers = cluster_of(cluster) if cluster == TYPED else cluster
    return ringbco.replay(frame, servers, **options), frame


@pytest.mark.parametrize("preset", ["philly", "helios"])
@pytest.mark.parametrize("name", LARGE)
def test_long_runs_are_what_the_checker_says(name: str, preset: str) -> None:
    outcome, frame = large(name, preset, 2000)
    assert list(differences(outcome, from_frame(frame))) == []


@pytest.mark.parametrize("dispatch", ["idle", "reserve"])
@pytest.mark.parametrize("policy", ["sjf-bco", "ls", "rand"])
def test_plans_are_what_the_checker_says(policy: str, dispatch: str) -> None:
    jobs = ringbco.generate("paper", 40, 1)
    assert list(differences(ringbco.plan(jobs, "4x8", policy=policy, dispatch=dispatch), jobs)) == []


def test_without_allocations() -> None:
    jobs = ringbco.generate("philly", 300, 3, gpus=64)
    outcome = ringbco.replay(jobs, "8x8", policy="srtf", allocations=False)
    assert outcome.allocations is None
    assert list(differences(outcome, jobs)) == [("allocations ", "allocations.parquet is missing")]


def test_it_names_no_policy() -> None:
    """Neither in code nor in words, nor placements but those that keep small gangs on one server."""
    names = {*PRESETS, "allox", "gavel", "sia", "conservative", "easy", *PLACEMENTS} - PACKING
    names -= {"recorded"}  # an everyday word, too
    named = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?![\w-])")
    for path in ROOM.glob("*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            result = named.search(line)
            assert result is None, f"{path.name}, line {number}: {line.strip()}"


@pytest.fixture(scope="module")
def several() -> list[tuple[ringbco.Outcome, Any]]:
    """Results that together have most columns and figures. Far from zero times are only so fine."""
    cases = (meet(seed, check=False).seen for seed in range(40))
    return [
        (seen.outcome, seen.case.frame())
        for seen in cases
        if seen.outcome is not None and not seen.case.epoch
    ]


STAY_LOG = {
    "jobs": (),
    "stays_written": (
        "job_id",
        "stay",
        "start_time",
        "end_time",
        "ended",
        "by_job",
        "by_service",
        "by_server",
    ),
    "timeline": (),
    "searches": (),
    "servers": ("by",),
}
"""The tables that follow from the stay log, with what of them is the stay log."""


@pytest.mark.parametrize("name", STAY_LOG)
def test_no_value_of_a_column_may_be_another(name: str, several: list[tuple[ringbco.Outcome, Any]]) -> None:
    tried = set()
    for outcome, jobs in several:
        frame = getattr(outcome, name)
        for column in () if frame is None or not frame.height else frame.columns:
            if column in STAY_LOG[name] or column in tried:
                continue
            changed = _changed(frame, column)
            if changed is None:
                continue
            result = list(differences(replace(outcome, **{name: changed}), as_table(jobs)))
            text = "stays" if name == "stays_written" else name
            if (column, text) in LENIENT and not result:
                continue
            tried.add(column)
            assert any(what == f"{text} {column}" for what, _ in result), f"{text} {column}"
    assert len(tried) >= {"jobs": 35, "stays_written": 12, "timeline": 8, "searches": 9, "servers": 3}[name]


LENIENT = {("work", "stays"), ("max_contention", "jobs")}
"""Columns that are not compared in every case."""


def _changed(frame: pl.DataFrame, column: str) -> pl.DataFrame | None:
    """The frame with another value in the first row of a column; None where there is none to change."""
    values, dtype = frame[column].to_list(), frame[column].dtype
    if values[0] is None:
        return None
    if dtype == pl.String:
        values[0] += "?"
    elif dtype == pl.Boolean:
        values[0] = not values[0]
    else:
        values[0] = values[0] + 1 if dtype.is_integer() else values[0] * 1.001 + 0.1
        if dtype == pl.Float32 or column.startswith("wait"):
            values[0] += 1e-4 * float(frame["jct" if "jct" in frame.columns else "end_time"][0])
    return frame.with_columns(pl.Series(column, values, dtype=dtype))


def test_no_figure_may_be_another(several: list[tuple[ringbco.Outcome, Any]]) -> None:
    tried = set()
    for outcome, jobs in several:
        table = as_table(jobs)
        for key, value in outcome.summary.items():
            if key in (*UNJUDGED, "jobs_refused", "jobs_ended", *tried) or not isinstance(value, int | float):
                continue
            tried.add(key)
            other = value + 1 if isinstance(value, int) else value * 1.001 + 0.1
            result = list(differences(replace(outcome, summary={**outcome.summary, key: other}), table))
            assert [what for what, _ in result] == [key]
    assert len(tried) > 45


def work(outcome: ringbco.Outcome, jobs: pl.DataFrame) -> tuple[RunInputs, list[float]]:
    """What the run was given, and by how much the work of each of its jobs is off."""
    inputs = inputs_of(outcome, as_table(jobs))
    result = check(inputs, stay_log_of(outcome, inputs))
    assert result.ended.tolist() == [*range(jobs.height)]
    return inputs, result.off.tolist()


@pytest.mark.parametrize("model", ["fixed", "rar"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
@pytest.mark.parametrize("later", [-3.0, 3.0])
def test_a_job_that_finishes_at_another_time(model: str, clock: str, later: float) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_time": [0.0, 0.0], "num_gpus": [1, 1]})
    jobs = jobs.with_columns(duration=pl.Series([10.5, 20.0]))
    outcome = ringbco.replay(jobs, "1x2", policy="fifo", model=model, clock=clock, slot=1.0)
    _, off = work(outcome, jobs)
    assert off == pytest.approx([0.0, 0.0], abs=1e-9)
    finish = outcome.jobs["finish_time"].to_list()
    moved = outcome.jobs.with_columns(finish_time=pl.Series([finish[0], finish[1] + later]))
    inputs, off = work(replace(outcome, jobs=moved), jobs)
    whole, alone = (inputs.jobs.duration if model == "fixed" else inputs.jobs.iterations)[1], finish[1]
    assert off[1] == pytest.approx(later * whole / alone, rel=0.5)  # the last slot had room


@pytest.mark.parametrize("later", [-1, 0, 1])
def test_a_slot_more_or_less_is_told(later: int) -> None:
    # 21 s in slots of 0.7 s take 31: the quotient is a little more than 30.
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [21.0]})
    outcome = ringbco.replay(jobs, "1x1", policy="fifo", model="fixed", clock="slot", slot=0.7)
    assert outcome.jobs["finish_time"].to_list() == [31 * 0.7]
    moved = outcome.jobs.with_columns(finish_time=pl.lit((31 + later) * 0.7))
    _, off = work(replace(outcome, jobs=moved), jobs)
    assert (off[0] == 0.0) == (later == 0)


# Its parts


def test_waits_are_what_lies_between_two_instants() -> None:
    state = Steps(np.array([10.0, 20.0, 30.0]), np.array([FITS, FEW, FITS, FEW]))
    few = Waiting.of(state, FEW)
    since, until = np.array([0.0, 12.0, 5.0, 25.0, 40.0]), np.array([5.0, 15.0, 25.0, 45.0, 41.0])
    assert few.between(since, until).tolist() == [0.0, 3.0, 10.0, 15.0, 1.0]
    always = Waiting.of(Steps(np.zeros(0), np.array([FEW])), FEW)
    assert always.between(since, until).tolist() == (until - since).tolist()


def test_steps_of_one_instant_are_one() -> None:
    result = steps(np.array([1.0, 1.0, 2.0, 3.0]), np.array([-2, 1, 0, 1]), 4)
    assert (result.time.tolist(), result.value.tolist()) == ([1.0, 3.0], [4, 3, 4])


def test_boundaries() -> None:
    times = np.array([0.0, 0.1, 0.7, 0.7000001, 21.0, np.inf])
    slots = np.round(boundary(times, 0.7)[:-1] / 0.7)
    assert slots.tolist() == [0.0, 1.0, 1.0, 2.0, 30.0]
    assert boundary(times, 0.7)[-1] == np.inf
    assert boundary(times, None) is times


def test_columns() -> None:
    assert ranges(np.array([4, 0, 9]), np.array([2, 0, 3])).tolist() == [4, 5, 9, 10, 11]
    assert by_group(np.array([1.0, 2.0, 3.0]), np.array([0, 2])).tolist() == [3.0, 3.0]
    assert optional(np.array([1, 2]), np.array([True, False])).to_list() == [1, None]
    numbers, names = codes(pl.Series(["b", None, "a", "b"]))
    assert (numbers.tolist(), names) == ([0, -1, 1, 0], ["b", "a"])
