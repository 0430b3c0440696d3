"""Jobs on the same GPUs, by hand (docs/lucid.md)."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from cases.case import by_hand
from ringbco.errors import DecisionError

COLUMNS = "submit_time num_gpus duration"
Act = Callable[[ringbco.State], None]


def scripted(at: Mapping[float, Act]) -> type[ringbco.Policy]:
    """Acts at some times, and starts whoever waits and is placed then."""

    class Scripted(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            for time in at:
                if time > state.now:
                    state.wake(time)
                    break
            if state.now in at:
                at[state.now](state)

    return Scripted


def run(servers: list[int], rows: list[tuple[Any, ...]], at: Mapping[float, Act], **given: Any) -> Any:
    given = {"jobs_per_gpu": 2, "policy": scripted(at), **given}
    return by_hand(servers, given.pop("columns", COLUMNS), rows, **given).replay(decisions=True)


def stays(outcome: ringbco.Outcome) -> list[tuple[Any, ...]]:
    assert outcome.allocations is not None
    return outcome.allocations.select("job_id", "server", "start_time", "end_time", "seat").rows()


def both(state: ringbco.State) -> None:
    state.start(0)
    state.start(1, beside=0)


def test_a_guest_keeps_the_gpus_when_its_host_leaves() -> None:
    """The third job waits for the second, not for the first."""
    rows = [(0, 2, 10), (0, 2, 30), (0, 2, 5)]
    outcome = run([2], rows, {0.0: both, 30.0: lambda state: state.start(state.waiting) and None})
    assert stays(outcome) == [("j0", 0, 0, 10, 0), ("j1", 0, 0, 30, 0), ("j2", 0, 30, 35, 1)]
    assert outcome.summary["utilisation"] == 1.0
    assert outcome.timeline["busy_gpus"].max() == 2
    assert outcome.jobs["held_time"].to_list() == [10.0, 30.0, 5.0]


def test_rates_of_pairs_and_of_more() -> None:
    def three(state: ringbco.State) -> None:
        both(state)
        state.start(2, beside=1)
        assert [*state.started] == [0, 1, 2]
        assert [*state.beside(0)] == [1, 2]

    outcome = run([1], [(0, 1, 10), (0, 1, 10), (0, 1, 40)], {0.0: three}, interference=0.5, jobs_per_gpu=3)
    # Three at half speed up to 20 s; then 30 s are left of the last, alone.
    assert outcome.jobs["finish_time"].to_list() == [20.0, 20.0, 50.0]


def test_a_stop_and_a_start_beside_are_netted() -> None:
    """On its own seat a stay goes on, whoever hosts it; on another it is a move."""

    def again(state: ringbco.State) -> None:
        state.stop(0)
        state.start(0, beside=1)

    def elsewhere(state: ringbco.State) -> None:
        state.stop(0)
        state.start(0)

    rows = [(0, 1, 20), (0, 1, 30)]
    same = run([2], rows, {0.0: both, 5.0: again}, preempt_cost=3.0)
    assert stays(same) == [("j0", 0, 0, 20, 0), ("j1", 0, 0, 30, 0)]
    assert same.summary["preemptions"] == 0
    moved = run([2], rows, {0.0: both, 5.0: elsewhere}, preempt_cost=3.0)
    assert stays(moved) == [("j0", 0, 0, 5, 0), ("j0", 0, 5, 23, 1), ("j1", 0, 0, 30, 0)]


def test_those_who_stop_together_may_sit_down_again() -> None:
    def again(state: ringbco.State) -> None:
        state.stop([0, 1])
        state.start(1)
        state.start(0, beside=1)
        assert [*state.started] == [0, 1]

    outcome = run([4], [(0, 3, 20), (0, 3, 30)], {0.0: both, 5.0: again}, preempt_cost=3.0)
    assert stays(outcome) == [("j0", 0, 0, 20, 0), ("j1", 0, 0, 30, 0)]


def test_an_outage_ends_the_stays_of_all() -> None:
    outages = [{"server": 0, "down_at": 5.0, "up_at": 8.0, "cause": None, "kind": None}]
    rows = [(0, 1, 20), (0, 1, 30)]
    at = {0.0: both, 8.0: both}
    outcome = run([1], rows, at, outages=outages, checkpoint_interval=0.0, preempt_cost=0.0)
    assert stays(outcome) == [
        *(("j0", 0, 0, 5, 0), ("j0", 0, 8, 23, 1)),
        *(("j1", 0, 0, 5, 0), ("j1", 0, 8, 33, 1)),
    ]


@pytest.mark.parametrize("priority", [0, 1])
def test_eviction_takes_all_or_none_of_a_seat(priority: int) -> None:
    """Alone on the GPU, 2 makes room; of two on one GPU both must be of lower priority."""
    columns = f"{COLUMNS} priority"
    rows = [(0, 1, 20, 0), (0, 1, 20, priority), (1, 1, 20, 0), (2, 1, 5, 1)]

    def third(state: ringbco.State) -> None:
        state.start(2)

    at = {0.0: both, 1.0: third, 2.0: lambda state: state.start(3) and None}
    at |= {
        time: lambda state: state.start(state.waiting, strict=False) and None for time in (7.0, 22.0, 30.0)
    }
    outcome = run([2], rows, at, columns=columns, evict=True, preempt_cost=0.0)
    assert outcome.decisions is not None
    gone = outcome.decisions.filter(pl.col("verb") == "evicted")["job_id"].to_list()
    # The latest start goes first: 2 alone makes room.
    assert gone == ["j2"]
    outcome = run([1], [*rows[:2], rows[3]], {0.0: both, 2.0: at[2.0] and start_third, **later()},
                  columns=columns, evict=True, preempt_cost=0.0)  # fmt: skip
    assert outcome.decisions is not None
    gone = outcome.decisions.filter(pl.col("verb") == "evicted")["job_id"].to_list()
    assert sorted(gone) == (["j0", "j1"] if priority == 0 else [])


def start_third(state: ringbco.State) -> None:
    state.start(2)


def later() -> dict[float, Act]:
    def act(state: ringbco.State) -> None:
        state.start(state.waiting, strict=False)

    return dict.fromkeys((7.0, 20.0, 25.0, 27.0, 45.0, 47.0), act)


def test_every_job_that_joins_adds_to_u() -> None:
    seen: list[list[float]] = []

    def act(state: ringbco.State) -> None:
        both(state)
        seen.append(state.U.tolist())

    run([2], [(0, 1, 20), (0, 1, 30)], {0.0: act}, placement="least-loaded")
    assert seen == [[50.0, 0.0]]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([(0, 2, 5), (0, 1, 5)], "it asks for 1 GPUs, and the other holds 2"),
        ([(0, 1, 5), (0, 1, 5), (0, 1, 5)], "there are 2 jobs on those GPUs"),
    ],
)
def test_why_a_job_may_not_join(rows: list[tuple[Any, ...]], why: str) -> None:
    told: list[str] = []

    def act(state: ringbco.State) -> None:
        state.start(0)
        for row in range(1, len(rows)):
            try:
                state.start(row, beside=0)
            except DecisionError as error:
                told.append(str(error))
                state.start(row)

    run([4], rows, {0.0: act})
    assert len(told) == 1
    assert why in told[0]


def test_no_seats_without_the_option() -> None:
    def act(state: ringbco.State) -> None:
        state.start(0)
        with pytest.raises(DecisionError, match="give --jobs-per-gpu 2"):
            state.start(1, beside=0)
        state.start(1)

    outcome = run([4], [(0, 1, 5), (0, 1, 5)], {0.0: act}, jobs_per_gpu=None)
    assert outcome.allocations is not None
    assert "seat" not in outcome.allocations.columns


def test_company_is_contention_and_spread_is_not() -> None:
    """A pair at 0.8 and 1.25 of their rates alone: one loses 0.25 s of its second, the other gains 0.2 s."""
    row = {"model": "m0", "gpu_type": "V100", "gpus": 0, "servers": 0, "rate": 1.25}
    tables = [{**row, "partner": "m1", "partner_rate": 0.8}]
    columns, rows = f"{COLUMNS} model", [(0, 1, 10, "m0"), (0, 1, 20, "m1"), (0, 1, 7, "m1")]

    def act(state: ringbco.State) -> None:
        both(state)
        assert state.pair(0, 1) == (1.25, 0.8)
        assert state.pair(1, 0) == (0.8, 1.25)
        assert state.pair(1, 2) == (1.0, 1.0)
        state.start(2)

    outcome = run([2], rows, {0.0: act}, columns=columns, tables=tables)
    # 8 s together, in which m1 does 6.4 of its 20.
    assert outcome.jobs["finish_time"].to_list() == [8.0, pytest.approx(21.6), 7.0]
    assert outcome.jobs["run_contention"].to_list() == [-2.0, pytest.approx(1.6), 0.0]
    assert outcome.jobs["run_spread"].to_list() == [0.0, 0.0, 0.0]


def test_some_rows_of_a_simulation_keep_their_pairs() -> None:
    jobs = {
        "job_id": list("abc"),
        "submit_time": [0.0] * 3,
        "num_gpus": [2] * 3,
        "duration": [50.0, 10.0, 20.0],
    }
    facts = {"model": ["other", "lm", "resnet"], "gpu_memory_mib": [900.0, 100.0, 100.0]}
    pair = {"model": "lm", "gpu_type": "V100", "gpus": 0, "servers": 0, "rate": 0.8}
    tables = pl.DataFrame([{**pair, "partner": "resnet", "partner_rate": 0.5}])
    whole = ringbco.Simulation(
        pl.DataFrame(jobs | facts), "1x2", model="fixed", jobs_per_gpu=2, tables=tables
    )
    part = whole._part(np.array([1, 2], np.uint32), "two of three")
    part.advance()
    both(part.state)
    assert part.state.pair(0, 1) == (0.8, 0.5)
    while part.advance():
        pass
    # 12.5 s together, in which resnet does 6.25 of its 20.
    assert part.outcome().jobs["finish_time"].to_list() == [12.5, 26.25]
