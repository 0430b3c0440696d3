"""Decisions of one's own where jobs make room, owners have quotas and jobs hold shares; by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

import ringbco
from ringbco.errors import DecisionError


def jobs(*rows: tuple[int, float, int, str | None], share: Sequence[float | None] = ()) -> pl.DataFrame:
    """(num_gpus, duration, priority, user) of jobs a, b, c ... that come at 0, 1, 2 ... s."""
    frame = pl.DataFrame(
        {
            "job_id": [chr(97 + at) for at in range(len(rows))],
            "submit_time": [float(at) for at in range(len(rows))],
            "num_gpus": [row[0] for row in rows],
            "duration": [row[1] for row in rows],
            "priority": [row[2] for row in rows],
            "user": [row[3] for row in rows],
        },
        schema_overrides={"user": pl.String},
    )
    return frame.with_columns(gpu_share=pl.Series(share, dtype=pl.Float64)) if share else frame


def quota(*rows: tuple[str, int, bool]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["user", "gpus", "borrow"], orient="row")


def opened(frame: pl.DataFrame, cluster: str = "1x4", **options: Any) -> ringbco.Simulation:
    """A simulation at the submission of its last job; all earlier ones were started as they came."""
    result = ringbco.Simulation(frame, cluster, model="fixed", preempt_cost=0.0, **options)
    for _ in range(frame.height - 1):
        result.advance()
        result.start(result.state.waiting)
    result.advance()
    return result


def ended(simulation: ringbco.Simulation) -> dict[str, list[tuple[Any, ...]]]:
    """(end_time, ended, by_job) of the stays of each job, at the end. The result has no findings."""
    while simulation.advance():
        simulation.start(simulation.state.waiting, strict=False)
    outcome = simulation.outcome()
    assert ringbco.audit(outcome, simulation._setup.table.frame) == []
    rows = outcome.stays.select("job_id", "end_time", "ended", "by_job").rows()
    return {job: [row[1:] for row in rows if row[0] == job] for job, *_ in rows}


def test_a_start_evicts_in_its_turn() -> None:
    # a and b fill the server. c, of priority 1, takes b, which began later: both have the key 0 at first.
    run = opened(jobs((2, 50, 0, None), (2, 50, 0, None), (2, 10, 1, None)), evict=True)
    assert run.state.evicts
    assert run.start([2]) == 1
    assert (run.state.evicted.tolist(), run.state.waiting.tolist()) == ([1], [1])
    assert ended(run)["b"] == [(2.0, "evicted", "c"), (61.0, "done", None)]


def test_evict_for_makes_room_only_where_there_is_none() -> None:
    run = opened(jobs((2, 50, 0, None), (2, 10, 1, None)), evict=True)
    assert not run.evict_for(1)  # it can be placed as things are
    assert run.state.waiting.tolist() == [1]
    run = opened(jobs((4, 50, 0, None), (2, 10, 1, None)), evict=True)
    assert run.evict_for(1)
    assert (run.state.running.tolist(), run.state.evicted.tolist()) == ([1], [0])
    run = opened(jobs((4, 50, 1, None), (2, 10, 1, None)), evict=True)
    assert not run.evict_for(1)  # a is of the same priority
    assert run.start([1]) == 0
    run = opened(jobs((4, 50, 0, None), (2, 10, 1, None)))
    with pytest.raises(DecisionError, match="evict_for at 1 s: job b \\(row 1\\): this run has no --evict"):
        run.evict_for(1)


def test_who_made_room_for_one_that_goes_at_once_made_it_for_the_next() -> None:
    # b evicts a, and c, of a higher priority yet, evicts b at the same instant: a went for c.
    frame = jobs((4, 50, 0, None), (4, 10, 1, None), (4, 10, 2, None)).with_columns(submit_time=pl.lit(0.0))
    run = ringbco.Simulation(frame.with_columns(submit_time=pl.Series([0.0, 1.0, 1.0])), "1x4", model="fixed",
                             preempt_cost=0.0, evict=True)  # fmt: skip
    run.advance()
    run.start([0])
    run.advance()
    assert run.start([1, 2]) == 1
    assert run.state.running.tolist() == [2]
    told = ended(run)
    assert told["a"][0] == (1.0, "evicted", "c")
    assert told["b"] == [(21.0, "done", None)]


AT_FIRST = [(0, 1), (1, 1)]
STEPS: dict[str, Any] = {
    "move": lambda run: run.move({0: [(0, 2)]}),
    "other": lambda run: run.move({0: [(1, 2)]}),
    "resize": lambda run: run.resize(0, 1),
    "room": lambda run: run.evict_for(1),
    "evict": lambda run: (run.evict_for(1), run.stop([1])),
    "stop": lambda run: run.stop([0]),
    "end": lambda run: run.end([0]),
    "back": lambda run: run.start(0, AT_FIRST),
    "elsewhere": lambda run: run.start(0, [(0, 2)]),
    "fewer": lambda run: run.start(0, [(0, 1)]),
}
GOES_ON = [(2.0, "evicted", "b"), (110.0, "done", None)]
THEN_B = [(1.0, "preempted", None), (111.0, "done", None)]
NETTED = {
    "move evict back": GOES_ON,
    "move evict back stop": THEN_B,
    "move evict back evict": THEN_B,
    "move evict back room": [(1.0, "evicted", "b"), (110.0, "done", None)],
    "move other evict back stop": THEN_B,
    "move evict back other evict back stop": THEN_B,
    "resize evict back stop": THEN_B,
    "resize evict back resize evict back": GOES_ON,
    "evict elsewhere evict back": GOES_ON,
    "evict elsewhere evict back stop": THEN_B,
    "move evict elsewhere": [(1.0, "moved", None), *GOES_ON],
    "move evict fewer": [(1.0, "resized", None), (2.0, "evicted", "b"), (110.5, "done", None)],
    "move evict end": [(1.0, "dropped", None)],
}


@pytest.mark.parametrize(("steps", "ends"), NETTED.items())
def test_a_stay_is_told_once_however_often_its_job_loses_gpus_at_one_instant(
    steps: str, ends: list[tuple[Any, ...]]
) -> None:
    # GPUs that a got at this instant and lost at it were no stay: its latest is the one that began at 0 s.
    frame = jobs((2, 100, 0, None), (4, 10, 1, None)).with_columns(min_gpus=pl.lit(1), max_gpus=pl.lit(4))
    run = ringbco.Simulation(frame, "2x2", model="fixed", preempt_cost=0.0, evict=True)
    run.advance()
    run.start(0, AT_FIRST)
    run.advance()
    for step in steps.split():
        STEPS[step](run)
    run.wake(2.0)
    assert ended(run)["a"] == ends
    counts = run.outcome().jobs.select("preemptions", "evictions", "moves").row(0)
    hows = [how for _, how, _ in ends]
    preemptions = sum(how in ("preempted", "moved", "resized") for how in hows)
    assert counts == (preemptions, hows.count("evicted"), hows.count("moved"))


def test_who_is_back_at_the_same_instant_was_not_evicted() -> None:
    frame = jobs((2, 100, 0, None), (3, 10, 1, None)).with_columns(min_gpus=pl.lit(1))
    run = ringbco.Simulation(frame, "2x2", model="fixed", preempt_cost=0.0, evict=True)
    run.advance()
    run.start(0, [(1, 1)])
    run.advance()
    run.resize(0, 2)
    assert run.evict_for(1)
    assert run.state.evicted.tolist() == [0]
    run.start(0, [(1, 1)])  # b is on the others
    assert run.state.evicted.tolist() == []
    assert ended(run)["a"] == [(200.0, "done", None)]


def test_a_guest_makes_room_for_an_owner() -> None:
    # u may hold 2 GPUs and borrow: its second job is a guest. c of v, without a quota, takes its place.
    run = opened(jobs((2, 50, 0, "u"), (2, 50, 9, "u"), (2, 10, 0, "v")), quota=quota(("u", 2, True)))
    assert run.state.has_quotas
    assert run.state.over_quota.tolist() == [1]
    assert run.state.quota(1) == ("u", 2, 4, True)
    assert run.state.quota(2) is None
    assert run.start([2]) == 1
    assert run.state.over_quota.tolist() == []
    assert ended(run)["b"] == [(2.0, "evicted", "c"), (61.0, "done", None)]


def test_without_borrowing_nobody_starts_moves_or_grows_beyond_a_quota() -> None:
    frame = jobs((2, 50, 0, "u"), (2, 50, 0, "u"), (1, 10, 0, "u")).with_columns(
        min_gpus=pl.lit(1), max_gpus=pl.lit(4)
    )
    options: dict[str, Any] = {"model": "fixed", "quota": quota(("u", 3, False))}
    run = ringbco.Simulation(frame, "2x4", **options)
    run.advance()
    run.start([0])
    run.advance()
    said = "its owner has a quota of 3 GPUs, holds 2 beside these 2, and may not borrow"
    for act in (lambda: run.start([1]), lambda: run.start([1], [(0, 2)]), lambda: run.evict_for(1)):
        with pytest.raises(DecisionError, match=f"at 1 s: job b \\(row 1\\): {said}"):
            act()
    assert run.start([1], gpus=1) == 1
    for act in (lambda: run.resize(0, 3), lambda: run.move({0: [(1, 3)]})):
        with pytest.raises(
            DecisionError, match="job a \\(row 0\\): its owner has a quota of 3 GPUs, holds 1"
        ):
            act()
    run.move({0: [(1, 1)], 1: [(0, 2)]})  # one gives what the other takes
    assert run.state.held.tolist() == [1, 2, 0]
    run.advance()
    assert run.state.quota(2) == ("u", 3, 3, False)


def test_who_is_beyond_a_quota_because_of_others_of_the_call_is_passed_over() -> None:
    frame = jobs((2, 50, 0, "u"), (2, 50, 0, "u"), (2, 10, 0, "v")).with_columns(submit_time=pl.lit(0.0))
    run = ringbco.Simulation(frame, "1x4", model="fixed", quota=quota(("u", 2, False)))
    run.advance()
    assert run.start([0, 1, 2]) == 2
    assert run.state.waiting.tolist() == [1]


class LastFirst(ringbco.RankPolicy):
    """The latest submission first."""

    def rank(self, state: Any, rows: Any) -> Any:
        return -state.jobs.submit_time[rows]


class Preempting(LastFirst):
    preemptive = True


@pytest.mark.parametrize(
    ("policy", "ends"), [(LastFirst, [10.0, 19.0, 12.0]), (Preempting, [19.0, 11.0, 12.0])]
)
def test_rankings_have_owners_first(policy: type[ringbco.RankPolicy], ends: list[float]) -> None:
    # u has a quota of 2 and borrows. Without preemption a and b run, and c, v's, evicts the guest b. With it,
    # b is u's first by the ranking, so that a is the guest: it stops for c.
    frame = jobs((2, 10, 0, "u"), (2, 10, 0, "u"), (2, 10, 0, "v"))
    outcome = ringbco.replay(frame, "1x4", policy=policy, model="fixed", preempt_cost=0.0,
                           quota=quota(("u", 2, True)))  # fmt: skip
    assert ringbco.audit(outcome, frame) == []
    assert outcome.jobs["finish_time"].to_list() == ends


# Shares.

HALVES = (0.5, 0.3, None)


def shared(**options: Any) -> ringbco.Simulation:
    frame = jobs((1, 10, 0, None), (1, 10, 0, None), (1, 10, 0, None), share=HALVES)
    run = ringbco.Simulation(frame.with_columns(submit_time=pl.lit(0.0)), "1x2", model="fixed",
                             placement="best-fit", **options)  # fmt: skip
    run.advance()
    return run


def test_shares_go_on_gpus_that_are_named() -> None:
    run = shared()
    assert run.state.shares.tolist() == [500, 300, 0]
    run.start(0, [(0, [1])])
    assert run.state.free_shares.tolist() == [[1.0, 0.5]]
    run.start(1, [(0, [1])])
    run.start(2, [(0, [0])])
    assert run.state.free_shares.tolist() == [[0.0, pytest.approx(0.2)]]
    assert (run.state.gpus_of(1), run.state.allocation(1), run.state.held.tolist()) == (
        [(0, [1])],
        [(0, 1)],
        [1, 1, 1],
    )
    held = (run.state.idle.tolist(), run.state.gpus_of(2))
    assert held == ([0], [(0, [0])])
    ended(run)


BAD = [
    (lambda run: run.start(0, [(0, 1)]), "it takes a share of a GPU: name the GPU"),
    (lambda run: run.start(0, [(0, [0, 1])]), "GPUs given: 2, requested: 1"),
    (lambda run: run.start(0, [(0, [2])]), "GPU 2 of server 0 has 0 idle thousandths for the 500"),
    (lambda run: run.start(0, [(1, [0])]), "there is no server 1 in its cluster"),
    (lambda run: run.start(0, [(0, ["x"])]), "GPUs are given as \\(server, \\[GPU, ...\\]\\) pairs"),
    (lambda run: run.start(0, placement="sjf-bco"), "jobs hold shares of GPUs, which sjf-bco does not place"),
    (
        lambda run: (run.start(0), run.move({0: [(0, 1)]})),
        "jobs may hold shares of GPUs: stop it and start it",
    ),
]


@pytest.mark.parametrize(("act", "said"), BAD, ids=range(len(BAD)))
def test_a_share_that_cannot_be_had_is_refused(act: Any, said: str) -> None:
    run = shared()
    with pytest.raises(DecisionError, match=f"at 0 s: job a \\(row 0\\): {said}"):
        act(run)


def test_what_is_of_shares_alone() -> None:
    run = opened(jobs((2, 10, 0, None), (2, 10, 0, None)))
    for name in ("free_shares", "gpus_of"):
        with pytest.raises(AttributeError, match=f"{name} is of job tables with shares of a GPU"):
            _ = getattr(run.state, name)(0) if name == "gpus_of" else run.state.free_shares
    with pytest.raises(AttributeError, match="U is not known where jobs may hold shares"):
        _ = shared().state.U
