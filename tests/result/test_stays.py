"""The record of stays: how each began, why it ended, who ended it (docs/results.md#staysparquet)."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.audits import check_outcome
from ringbco.result.schema import STAYS_SCHEMA
from ringbco.trace.jobs import as_table

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")


def table(*rows: tuple[Any, ...], columns: str = "num_gpus duration") -> pl.DataFrame:
    names = ("job_id", "submit_time", *columns.split())
    return pl.DataFrame([dict(zip(names, row, strict=True)) for row in rows], infer_schema_length=None)


def loads(*rows: tuple[float, int, int]) -> pl.DataFrame:
    names = ("service", "time", "replicas", "gpus_per_replica")
    return pl.DataFrame([dict(zip(names, ("s", *row), strict=True)) for row in rows])


def outages(*rows: tuple[int, float, float, str | None]) -> pl.DataFrame:
    names = ("server", "down_at", "up_at", "cause")
    given = [dict(zip(names, row, strict=True)) for row in rows]
    return pl.DataFrame(given, schema_overrides={"cause": pl.String})


def replayed(jobs: pl.DataFrame, cluster: str, **options: Any) -> ringbco.Outcome:
    """A result that the audit finds nothing in."""
    outcome = ringbco.replay(jobs, cluster, **{"model": "fixed", **options})
    assert check_outcome(outcome, as_table(jobs)).findings == []
    return outcome


def reported_stays(outcome: ringbco.Outcome, *columns: str) -> list[tuple[Any, ...]]:
    return outcome.stays.select("job_id", "start_time", "end_time", "began", "ended", *columns).rows()


RANGED = "num_gpus duration min_gpus max_gpus"


def test_a_resize_as_a_replica_starts_there() -> None:
    outcome = replayed(
        table(("a", 0.0, 3, 1000.0, 1, 4), ("b", 0.0, 3, 100.0, 3, 3), columns=RANGED),
        "1x6",
        policy="optimus",
        services=loads((100.0, 2, 1), (900.0, 0, 1)),
        preempt_cost=30,
        resize_cost=50,
        resize_every=0,
    )
    assert reported_stays(outcome, "num_gpus", "pause") == [
        ("a", 0.0, 100.0, "first", "resized", 3, 0.0),
        ("a", 100.0, 825.0, "resized", "done", 4, 50.0),
        ("b", 0.0, 100.0, "first", "done", 3, 0.0),
    ]
    assert (outcome.summary["resizes"], outcome.summary["resize_lost_gpu_seconds"]) == (1, 200.0)
    assert outcome.jobs.select("resizes", "moves", "preemptions").row(0) == (1, 0, 1)


class Mover(ringbco.Policy):
    """Starts every job on server 0, and moves it to server 1 at 100 s."""

    def decide(self, state: ringbco.State) -> None:
        for row in state.waiting.tolist():
            state.start(row, [(0, 2)])
        if state.now == 100.0:
            state.move({row: [(1, 2)] for row in state.running.tolist()})
        if state.now < 100.0:
            state.wake(100.0)


def test_a_move_as_a_replica_starts_there() -> None:
    outcome = replayed(
        table(("a", 0.0, 2, 1000.0)),
        "2x4",
        policy=Mover,
        services=loads((100.0, 2, 2), (900.0, 0, 2)),
        move_cost=7,
        preempt_cost=30,
    )
    assert reported_stays(outcome, "num_gpus", "pause") == [
        ("a", 0.0, 100.0, "first", "moved", 2, 0.0),
        ("a", 100.0, 1007.0, "moved", "done", 2, 7.0),
    ]
    assert outcome.jobs.select("resizes", "moves", "preemptions").row(0) == (0, 1, 1)


def test_a_trial_that_pauses_and_is_let_go_on_at_one_instant() -> None:
    jobs = table(
        ("A", 0.0, 1, 100.0, None, "g"),
        ("B", 50.0, 1, 100.0, 51.0, "g"),
        columns="num_gpus duration deadline group",
    )
    outcome = replayed(jobs, "2x1", policy="edf", admission=True, search="asha:eta=2,rungs=1")
    assert reported_stays(outcome, "paused_at_rung") == [("A", 0.0, 100.0, "first", "done", 0.0)]
    assert outcome.jobs["pauses"].to_list() == [0]


def test_who_ended_a_stay() -> None:
    jobs = table(
        ("low", 0.0, 2, 100.0, 0),
        ("high", 10.0, 2, 20.0, 1),
        ("x", 40.0, 1, 500.0, 2),
        columns="num_gpus duration priority",
    )
    outcome = replayed(
        jobs, "1x2", policy="fifo", evict=True, preempt_cost=0, checkpoint_interval=1e9,
        outages=outages((0, 60.0, 70.0, "fan")),
    )  # fmt: skip
    by = {(job, start): who for job, start, *_, who in reported_stays(outcome, "by_job")}
    assert by[("low", 0.0)] == "high"
    ends = {(row[0], row[1]): row[4:] for row in reported_stays(outcome, "by_job", "by_server", "lost_time")}
    assert ends[("low", 0.0)] == ("evicted", "high", None, 0.0)
    assert ends[("low", 30.0)] == ("evicted", "x", None, 0.0)
    assert ends[("x", 40.0)] == ("failed", None, 0, 20.0)
    assert outcome.summary["lost_gpu_hours_by_cause"] == {"fan": pytest.approx(20.0 / 3600.0)}


def test_a_stop_of_another_job_at_the_end_of_one_that_waits() -> None:
    run = ringbco.Simulation(table(("a", 0.0, 1, 100.0), ("b", 0.0, 1, 100.0)), "1x2", model="fixed")
    run.advance()
    run.start([0, 1])
    run.advance(until=10.0)
    run.stop([0])
    run.advance(until=20.0)
    run.stop([1])
    run.end([0])
    run.start([1])  # where it was: the stop was none
    while run.advance():
        pass
    outcome = run.outcome()
    assert reported_stays(outcome) == [
        ("a", 0.0, 10.0, "first", "preempted"),
        ("b", 0.0, 100.0, "first", "done"),
    ]


def test_a_service_ended_it() -> None:
    outcome = replayed(
        table(("a", 0.0, 2, 100.0)),
        "1x2",
        policy="fifo",
        services=loads((10.0, 1, 1), (30.0, 0, 1)),
        preempt_cost=0,
    )
    assert reported_stays(outcome, "by_service") == [
        ("a", 0.0, 10.0, "first", "evicted", "s"),
        ("a", 30.0, 120.0, "resumed", "done", None),
    ]
    assert outcome.replicas is not None
    assert outcome.replicas.rows() == [("s", 0, 0, 1, 10.0, 30.0, 10.0, 30.0, "surplus")]
    assert outcome.jobs["waited"].to_list() == [20.0]
    assert (outcome.summary["mean_wait"], outcome.summary["mean_time_to_start"]) == (20.0, 0.0)


def test_a_replica_whose_server_fails() -> None:
    outcome = replayed(
        table(("a", 0.0, 1, 100.0)), "2x1", policy="fifo", services=loads((0.0, 1, 1)),
        outages=outages((1, 20.0, 40.0, None), (0, 30.0, 35.0, None)), preempt_cost=0,
    )  # fmt: skip
    assert outcome.replicas is not None
    assert outcome.replicas["ended"].to_list()[-1] == "end of run"
    failed = outcome.replicas.filter(ended="failed")
    assert failed.height > 0
    assert failed["drains_from"].null_count() == failed.height
    assert outcome.replicas["replica"].to_list() == list(range(outcome.replicas.height))


def test_servers_say_what_became_of_them() -> None:
    jobs = table(("a", 0.0, 1, 10.0), ("b", 100.0, 1, 10.0))
    outcome = replayed(
        jobs, "2x1", policy="fifo", sleep_after=20, wake_time=5, outages=outages((1, 50.0, 60.0, "fan"))
    )
    assert outcome.servers is not None
    assert outcome.servers.rows() == [
        (0, 30.0, "slept", None),
        (0, 100.0, "woke", "b"),
        (1, 20.0, "slept", None),
        (1, 50.0, "down", "fan"),
        (1, 60.0, "up", "fan"),
        (1, 80.0, "slept", None),
    ]


@pytest.mark.parametrize("policy", ["fifo", "srtf"])
def test_a_queue_has_the_same_table(policy: str, tmp_path: Path) -> None:
    jobs = table(("a", 0.0, 2, 10.0), ("b", 1.0, 1, 5.0))
    outcome = replayed(jobs, "1x2", policy=policy, preempt_cost=0)
    assert outcome.stays.columns == list(STAYS_SCHEMA)
    assert outcome.stays.schema == pl.Schema(STAYS_SCHEMA)
    assert outcome.stays["ended"].to_list()[-1] == "done"
    assert outcome.stays["work"].sum() == 15.0
    outcome.write(tmp_path / "r")
    assert (tmp_path / "r" / "stays.parquet").exists() == (policy == "srtf")
    again = ringbco.Outcome.read(tmp_path / "r")
    assert again.stays.drop("work").equals(outcome.stays.drop("work"))


def test_allocations_number_the_stays() -> None:
    jobs = table(("a", 0.0, 4, 100.0), ("b", 10.0, 4, 5.0))
    outcome = replayed(jobs, "2x2", policy="srtf", preempt_cost=0)
    assert outcome.allocations is not None
    held = outcome.allocations.select("job_id", "stay", "start_time").unique().sort("job_id", "stay")
    assert held.rows() == outcome.stays.select("job_id", "stay", "start_time").rows()


def test_afs_beside_services() -> None:
    """Summaries told a wrong number of resizes, and the audit refused the genuine result, in 31 of 40."""
    resizes = 0
    for number in range(12):
        jobs = ringbco.generate("philly", 60, number, gpus=16, load=1.5, elastic="0.5:2", elastic_share=1.0)
        submit = jobs.frame["submit_time"].to_numpy()
        times = submit.min() + (submit.max() - submit.min()) * np.array([0.2, 0.5, 0.7, 0.9])
        service = loads(*zip(times.tolist(), (2, 0, 3, 0), (1, 1, 1, 1), strict=True))
        outcome = ringbco.replay(jobs, "2x8", policy="afs", services=service, preempt_cost=30, resize_cost=50)
        assert ringbco.audit(outcome, jobs) == []
        assert outcome.summary["resizes"] == outcome.jobs["resizes"].sum()
        resizes += outcome.summary["resizes"]
    assert resizes > 100


def test_the_example_of_the_page(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    example = page.split("For example, of these jobs and outages\n")[1]
    for name, text in zip(
        ("jobs.csv", "outages.csv"), re.findall(r"```\n(.*?)```", example, re.S), strict=False
    ):
        Path(name).write_text(text)
    command = re.search(r"`ringbco (replay .*?)`", example)
    assert command is not None
    assert invoke(*command[1].split()).returncode == 0
    header, _, *rows = [line for line in example.splitlines() if line.startswith("|")][:6]
    columns = [name.strip() for name in header.strip("|").split("|")]
    table = pl.read_parquet("r/stays.parquet").select(columns).rows()
    shown = [tuple("" if c is None else c if isinstance(c, str) else f"{c:g}" for c in row) for row in table]
    assert shown == [tuple(cell.strip() for cell in row[1:-1].split("|")) for row in rows]


GONE = {
    "ringbco.result.resizing": None,
    "ringbco.result.causes": ("_interrupted", "split", "_longer"),
    "ringbco.result.reliability": ("causes", "Losses"),
    "ringbco.run.frames": ("_losses", "_cut_short"),
    "ringbco.result.rows": ("CutShort", "gpu_seconds"),
    "ringbco.reports.evictions": None,
    "ringbco.reports.lanes": ("stretches",),
    "ringbco.reports.cluster_state": ("_changes", "_seen"),
}


@pytest.mark.parametrize("module", GONE)
def test_nobody_guesses_any_more(module: str) -> None:
    """Readers that compared times to learn why a stay ended."""
    names = GONE[module]
    if names is None:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(module)
        return
    result = importlib.import_module(module)
    assert [name for name in names if hasattr(result, name)] == []
    if module == "ringbco.result.reliability":
        assert not hasattr(result.DownTime, "causes")


@pytest.mark.parametrize(
    ("file", "words"),
    [("rust/machine/cluster_state.rs", ("evicted:", "vacated:")), ("rust/machine/mod.rs", ("struct News",))],
)
def test_the_machine_keeps_no_copy(file: str, words: tuple[str, ...]) -> None:
    text = (Path(__file__).parents[2] / file).read_text(encoding="utf-8")
    assert [word for word in words if word in text] == []
