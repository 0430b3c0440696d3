"""Jobs after others by hand (docs/chains.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from cases.case import Case, by_hand
from cases.compare import agreed
from conftest import Invoke
from frames import cluster_of
from ringbco.errors import InputError, RingbcoError
from ringbco.sweeps.run import scaled
from ringbco.trace.recorded import recorded_waits

COLUMNS = "submit_time num_gpus duration after think_time"
Row = tuple[Any, ...]


def table(*rows: Row, **columns: Any) -> pl.DataFrame:
    """Jobs a, b, ... of (submit_time, num_gpus, duration, after, think_time)."""
    names = COLUMNS.split()
    frame = pl.DataFrame(
        {name: [row[at] for row in rows] for at, name in enumerate(names)},
        schema=dict(zip(names, (pl.Float64, pl.UInt32, pl.Float64, pl.String, pl.Float64), strict=True)),
    )
    ids = pl.Series("job_id", [chr(ord("a") + at) for at in range(len(rows))])
    return frame.insert_column(0, ids).with_columns(**{n: pl.Series(v) for n, v in columns.items()})


def times(outcome: ringbco.Outcome, *names: str) -> list[Row]:
    return outcome.jobs.select(*(names or ("submit_time", "start_time", "finish_time"))).rows()


def replay(*rows: Row, cluster: str = "2x8", columns: dict[str, Any] | None = None, **options: Any) -> Any:
    frame = table(*rows, **(columns or {}))
    outcome = ringbco.replay(frame, cluster, **{"policy": "fifo", "model": "fixed", **options})
    assert ringbco.audit(outcome, frame) == []
    return outcome


def case_of(servers: Sequence[int], rows: Iterable[Row], *more: str, **given: Any) -> Case:
    """The same for the reference model. more: columns behind those of `table`."""
    case = by_hand(servers, " ".join((COLUMNS, *more)), rows, **given)
    for job in case.jobs:
        job["after"] = None if job["after"] is None else f"j{ord(job['after']) - ord('a')}"
    return case


CHAIN = ((0, 8, 100, None, None), (10, 16, 50, None, None), (5, 8, 100, "a", None), (900, 8, 20, "c", 30.0))


def test_the_place_is_that_of_the_submission_and_the_arrival_that_of_the_end() -> None:
    outcome = replay(*CHAIN)
    assert times(outcome) == [(0, 0, 100), (10, 200, 250), (100, 100, 200), (230, 250, 270)]
    assert outcome.jobs["submitted"].to_list() == [0, 10, 5, 900]
    assert outcome.jobs["after"].to_list() == [None, None, "a", "c"]
    assert outcome.jobs["jct"].to_list() == [100, 240, 100, 40]
    figures = [outcome.summary[f"{name}_chain_time"] for name in ("mean", "median", "p90")]
    assert (outcome.summary["chains"], *figures) == (1, 270, 270, 270)


def test_the_slot_clock_sees_an_arrival_at_the_next_boundary() -> None:
    # a ends at 100 = 10 slots of 10 s; 100 + 3 is seen at 110.
    outcome = replay(
        (0, 1, 95, None, None), (0, 1, 5, "a", 3.0), (0, 1, 5, "a", 0.0), clock="slot", slot=10.0
    )
    assert times(outcome) == [(0, 0, 100), (103, 110, 120), (100, 100, 110)]


def test_chains_are_trees_of_at_least_two_jobs() -> None:
    # Of a: b and c, of b: d. e is alone. f has g.
    outcome = replay(
        (0, 1, 10, None, None), (0, 1, 10, "a", None), (0, 1, 30, "a", None), (0, 1, 5, "b", 100.0),
        (0, 1, 900, None, None), (7, 1, 10, None, None), (0, 1, 10, "f", None),
    )  # fmt: skip
    assert outcome.summary["chains"] == 2
    assert outcome.summary["mean_chain_time"] == (125 + 20) / 2
    windowed = replay(*[(0, 1, 10, None, None), (0, 1, 10, "a", None)], measure_to="5s")
    # b arrives at 10, outside; its chain began inside.
    assert (windowed.summary["jobs"], windowed.summary["chains"]) == (1, 1)


def test_no_chain_is_a_count_of_zero() -> None:
    outcome = replay((0, 1, 10, None, None), (3, 1, 10, None, None))
    assert outcome.summary["chains"] == 0
    assert "mean_chain_time" not in outcome.summary
    assert outcome.jobs["submitted"].to_list() == [0, 3]


def test_a_job_after_one_that_is_refused_arrives_in_one_more_round() -> None:
    # b is due at 20 and is refused as it arrives at 5; c arrives then, at once.
    outcome = replay(
        (0, 8, 10, None, None), (5, 8, 60, None, None), (5, 8, 10, "b", None), (0, 8, 10, "b", 7.0),
        columns={"deadline": [None, 20.0, None, None]}, policy="edf", admission=True,
    )  # fmt: skip
    assert times(outcome, "job_id", "submit_time", "start_time") == [("a", 0, 0), ("c", 5, 5), ("d", 12, 12)]
    assert outcome.summary["jobs_refused"] == 1
    assert outcome.summary["chains"] == 1


def test_a_job_at_its_limit_is_gone() -> None:
    outcome = replay(
        (0, 8, 100, None, None),
        (0, 8, 10, "a", 5.0),
        columns={"time_limit": [40.0, None]},
        enforce_limits=True,
    )
    assert times(outcome) == [(0, 0, 40), (45, 45, 55)]


def test_a_job_that_was_left_out_was_gone_before_the_beginning() -> None:
    rows = ((50, 99, 10, None, None), (20, 1, 10, "a", None), (30, 1, 10, "a", 500.0), (0, 1, 10, "b", None))
    outcome = replay(*rows, oversize="drop")
    assert times(outcome, "submit_time", "finish_time") == [(20, 30), (30, 40), (30, 40)]
    assert outcome.summary["chains"] == 1  # b and d


def test_ages_count_from_the_arrival() -> None:
    # small jobs go first; b arrives at 100 and is aged at 130, c at 10 and aged at 40: at 150 c, then b.
    rows = ((0, 8, 100, None, None), (0, 8, 10, "a", None), (10, 8, 10, None, None), (0, 8, 50, "a", None))
    outcome = replay(*rows, cluster="1x8", order="sjf", aging=30.0)
    assert times(outcome, "job_id", "start_time") == [("a", 0), ("b", 110), ("c", 100), ("d", 120)]
    assert agreed(case_of((8,), rows, order="sjf", aging=30.0)).result.start == [0, 110, 100, 120]


def test_a_search_frees_those_after_its_trials() -> None:
    rows = ((0, 1, 81, None, None), (0, 1, 81, None, None), (0, 1, 81, None, None), (0, 1, 5, "b", None))
    outcome = replay(*rows, columns={"group": ["s", "s", "s", None]}, search="asha:eta=3,rungs=1")
    ended = outcome.allocations.filter(pl.col("job_id") == "b")["end_time"].max()
    assert outcome.jobs.filter(pl.col("job_id") == "d")["submit_time"].to_list() == [ended]


def test_a_search_that_would_wait_for_itself_is_refused() -> None:
    rows = ((0, 1, 81, None, None), (0, 1, 9, "a", None), (0, 1, 81, "b", None))
    with pytest.raises(InputError, match=r"row 2, column after: a: expected no circle of jobs and searches"):
        replay(*rows, columns={"group": ["s", None, "s"]}, search="asha:eta=3,rungs=1")


SEEN: list[tuple[float, list[int], list[float]]] = []


class Recording(ringbco.Policy):
    """Starts what waits, and notes when it saw whom."""

    def decide(self, state: Any) -> None:
        arrived = state.arrived.tolist()
        SEEN.append((state.now, arrived, state.arrival_time[arrived].tolist()))
        state.start(state.waiting, strict=False)


def test_a_custom_policy_sees_a_job_as_it_arrives() -> None:
    SEEN.clear()
    outcome = ringbco.replay(table(*CHAIN), "2x8", policy=Recording, model="fixed")
    assert [(now, rows) for now, rows, _ in SEEN if rows] == [
        (0.0, [0]), (10.0, [1]), (100.0, [2]), (230.0, [3])
    ]  # fmt: skip
    assert [at for _, rows, at in SEEN if rows] == [[0.0], [10.0], [100.0], [230.0]]
    assert times(outcome, "submit_time") == [(0,), (10,), (100,), (230,)]


def test_a_verb_that_refuses_lets_the_next_arrive_at_the_instant() -> None:
    run = ringbco.Simulation(table((0, 1, 5, None, None), (3, 1, 5, "a", None)), "1x1", model="fixed")
    assert run.advance()
    run.refuse([0])
    assert run.advance()
    assert (run.state.now, run.state.arrived.tolist()) == (3.0, [1])
    fork = run.fork()
    for own in (run, fork):
        own.start([1])
        assert not own.advance()
        assert own.outcome().jobs.select("job_id", "submit_time", "finish_time").rows() == [("b", 3.0, 8.0)]


def test_a_log_gives_the_same_arrivals(tmp_path: Path) -> None:
    frame = table(*CHAIN)
    outcome = ringbco.replay(frame, "2x8", policy="fifo", model="fixed", decisions=True)
    outcome.write(tmp_path / "run")
    again = ringbco.replay(frame, "2x8", policy=f"log:{tmp_path}/run/decisions.parquet")
    assert again.jobs.equals(outcome.jobs)


def test_recorded_starts_are_not_before_the_arrival() -> None:
    # b was recorded at 40, but a runs until 100 here: it is late. c thinks, and starts as recorded.
    rows = ((0, 1, 100, None, None), (0, 1, 10, "a", None), (30, 1, 10, "b", 5.0))
    outcome = replay(*rows, columns={"recorded_start": [0.0, 40.0, 120.0]}, policy="recorded")
    assert times(outcome) == [(0, 0, 100), (100, 100, 110), (115, 120, 130)]
    assert outcome.summary["late_jobs"] == 1


def test_a_recorded_wait_counts_from_the_recorded_end_of_the_job_before() -> None:
    # b waits from 130 on, c from its submission at 300, d and e not at all: their predecessors end later.
    rows = (
        (0, 1, 100, None, None), (0, 1, 10, "a", None), (300, 1, 10, "a", 1.0), (0, 1, 10, "a", None),
        (0, 1, 10, "d", None),
    )  # fmt: skip
    starts, ends = [20.0, 150.0, 310.0, 125.0, 130.0], [130.0, None, None, None, None]
    columns = {"recorded_start": starts, "recorded_end": ends}
    assert recorded_waits(table(*rows, **columns)).tolist() == [20, 20, 10, 0, 0]  # type: ignore[union-attr]
    outcome = replay(*rows, cluster="1x1", columns=columns)  # which the audit reads, too
    assert outcome.summary["as_recorded_jobs"] == 5


def test_a_load_moves_submissions_and_not_think_times(tmp_path: Path) -> None:

    jobs = ringbco.from_frame(table((0, 1, 10, None, None), (100, 1, 10, "a", 7.0)))
    moved = scaled(jobs, 2.0, 1).frame
    assert moved["think_time"].to_list() == [None, 7.0]
    assert moved["submit_time"].to_list() == [0.0, 10.0]


FAULTS = {
    "of no row": ([(0, "x", None)], "row 1, column after: x: expected the job_id of another row"),
    "itself": (
        [(0, None, None), (0, "b", None)],
        "row 2, column after: b: expected the job_id of another row, not",
    ),
    "a circle": (
        [(0, None, None), (0, "d", None), (0, "b", None), (0, "c", None)],
        "row 2, column after: d: expected no circle, but b after d, d after c, c after b; name the job",
    ),
    "a time without a job": (
        [(0, None, None), (0, None, 3.0)],
        "row 2, column think_time: 3: expected nothing where after names no job",
    ),
    "below 0": (
        [(0, None, None), (0, "a", -1.0)],
        "row 2, column think_time: -1: expected a finite number",
    ),
    "the lowest": ([(0, None, None), (0, None, 1.0), (0, "x", None)], "row 2, column think_time"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_row_is_named(fault: str) -> None:
    rows, said = FAULTS[fault]
    with pytest.raises(InputError) as caught:
        ringbco.from_frame(table(*((at, 1, 10, after, think) for at, after, think in rows)))
    assert said in str(caught.value)


def test_an_id_that_two_rows_have_is_that_fault_whoever_comes_after_it(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_time,num_gpus,duration,after\na,0,1,5,\na,0,1,5,b\nc,0,1,5,a\n")
    with pytest.raises(InputError, match=r"row 2 \(line 3\), column job_id: a: expected every job_id once"):
        ringbco.read_jobs(path)


def test_a_csv_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_time,num_gpus,duration,after\na,0,1,5,\nb,0,1,5,c\n")
    with pytest.raises(InputError) as caught:
        ringbco.read_jobs(path)
    assert str(caught.value) == (
        f"{path}: row 2 (line 3), column after: c: expected the job_id of another row; name the job by its"
        " job_id, or leave it empty"
    )


def test_a_job_of_another_virtual_cluster_is_refused() -> None:
    frame = table((0, 1, 10, None, None), (0, 1, 10, "a", None), vc=["one", "two"])
    cluster = cluster_of('[[servers]]\ngpus = 1\nvc = "one"\n[[servers]]\ngpus = 1\nvc = "two"\n')
    with pytest.raises(
        InputError, match="row 2, column after: a: expected a job of its own virtual cluster 'two'"
    ):
        ringbco.replay(frame, cluster, policy="fifo", model="fixed")


def test_plans_and_bounds_refuse_the_column() -> None:
    frame = table(*CHAIN)
    with pytest.raises(
        RingbcoError, match="option after: jobs after others: expected jobs that arrive at once"
    ):
        ringbco.plan(frame, "2x8", policy="sjf-bco", model="fixed")
    with pytest.raises(
        InputError, match="row 3, column after: a: expected nothing: a job that arrives later"
    ):
        ringbco.bound(frame, "2x8", model="fixed")
    compared = ringbco.compare(frame, "2x8", policies=["fifo", "sjf"], model="fixed", seeds=1)
    assert compared.bounds == {"fifo": None, "sjf": None}


def test_a_plan_takes_a_column_in_which_no_job_is_named() -> None:
    frame = table((0, 1, 10, None, None), (5, 2, 10, None, None))
    planned = ringbco.plan(frame, "2x8", policy="sjf-bco", model="fixed")
    assert planned.jobs["submitted"].to_list() == planned.jobs["submit_time"].to_list()


def test_an_audit_finds_an_arrival_that_is_not_the_end() -> None:
    frame = table(*CHAIN)
    outcome = ringbco.replay(frame, "2x8", policy="fifo", model="fixed")
    wrong = outcome.jobs.with_columns(
        submit_time=pl.when(pl.col("job_id") == "d").then(225.0).otherwise("submit_time")
    )
    outcome.__dict__["jobs"] = wrong
    assert any(finding.job == "d" and finding.code == "inputs" for finding in ringbco.audit(outcome, frame))


def test_inspect_counts_chains(invoke: Invoke, tmp_path: Path) -> None:
    rows = [(0, 1, 5, None, None), (0, 1, 5, "a", None), (0, 1, 5, "b", None), (0, 1, 5, "a", None),
            (0, 1, 5, None, None), (0, 1, 5, None, None), (0, 1, 5, "f", None)]  # fmt: skip
    figures = ringbco.inspect(ringbco.from_frame(table(*rows)))
    assert figures["chains"] == {"chains": 2, "longest": 3, "jobs": 6}
    path = tmp_path / "jobs.parquet"
    ringbco.write_jobs(table(*rows), path)
    done = invoke("inspect", str(path))
    assert "2, of 6 jobs, at most 3 one after another" in " ".join(done.stdout.split())


def test_inspect_leaves_out_what_follows_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    rows = ("a,0,0,5,", "b,0,1,5,a", "c,0,1,5,b", "d,0,1,5,", "e,0,1,5,d")
    path.write_text("\n".join(("job_id,submit_time,num_gpus,duration,after", *rows)) + "\n")
    figures = ringbco.inspect(path)
    assert figures["jobs"] == 2
    told = [(each["reason"], each["rows"], each["first_row"]) for each in figures["cleaning"]["dropped"]]
    assert told[-1] == ("after is not the job_id of a row that is kept", 2, 2)


RANKINGS = ("srtf", "srsf", "tiresias", "gittins", "ftf", "edf", "time-slice", "repack", "afs", "elasticflow")


@pytest.mark.parametrize("policy", ["fifo", "sjf", "smallest", "sjf-bco", *RANKINGS])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_every_policy_meets_coincidences(policy: str, clock: str) -> None:
    # Ends, arrivals and submissions lie on the same minutes.
    rows = [
        (0, 2, 60, None, None), (60, 2, 60, "a", None), (60, 1, 60, "a", 0.0), (0, 2, 120, None, None),
        (60, 1, 60, "d", None), (120, 1, 60, "b", 60.0), (180, 2, 60, "b", None), (0, 1, 60, "c", None),
    ]  # fmt: skip
    slots = {"clock": clock, "slot": 30.0} if clock == "slot" else {}
    deadlines = {"deadline": 400.0} if policy in ("edf", "elasticflow") else {}
    rows = [(*row, *deadlines.values()) for row in rows]
    agreed(case_of((2, 1), rows, *deadlines, policy=policy, **slots))
