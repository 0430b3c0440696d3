"""Protection from preemption by hand, and against the reference models (docs/operators.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import polars as pl
import pytest

import ringbco
from cases import compare, modelled
from cases.case import Case, by_hand, outage_rows
from cases.draw import build
from cases.run import replayed
from ringbco.errors import DecisionError, UsageError

Stays = dict[str, list[tuple[float, float, str]]]


def stays(case: Case) -> Stays:
    """(start, end, how it ended) of each job's stays; the result passes its audit."""
    outcome = case.replay()
    assert list(ringbco.audit(outcome, case.frame())) == []
    result: Stays = {}
    for name, *stay in outcome.stays.select("job_id", "start_time", "end_time", "ended").rows():
        result.setdefault(name, []).append((stay[0], stay[1], stay[2]))
    return result


def two(policy: str, **options: Any) -> Case:
    """On a server of 4 GPUs j0 has 100 s to run, and j1, shorter and of higher priority, comes at 10 s."""
    rows = [(0.0, 4, 100.0, 0), (10.0, 4, 20.0, 1)]
    return by_hand(
        [4], "submit_time num_gpus duration priority", rows, policy=policy, preempt_cost=0.0, **options
    )


ROOT = Path(__file__).parents[2]
PAGE, SAMPLE = ROOT / "docs" / "operators.md", ROOT / "python" / "ringbco" / "data" / "philly-5000.parquet"
BESIDE = ("evict", "priorities", "quotas", "interval", "costs", "of_clusters", "slot", "elastic", "predict")
"""Features that are drawn beside it."""
RANKINGS = ("srtf", "srsf", "ftf")


@pytest.mark.parametrize("policy", RANKINGS)
def test_a_young_stay_is_not_stopped_and_its_age_is_a_pass(policy: str) -> None:
    # 30 s is no tick of ftf, whose interval is 25 s.
    own = {"interval": 25.0} if policy == "ftf" else {}
    assert stays(two(policy, preempt_after=30.0, **own)) == {
        "j0": [(0.0, 30.0, "preempted"), (50.0, 120.0, "done")],
        "j1": [(30.0, 50.0, "done")],
    }


def test_under_the_slot_clock_it_is_the_first_boundary_not_before() -> None:
    result = stays(two("srtf", preempt_after=25.0, clock="slot", slot=10.0))
    assert result["j0"][0] == (0.0, 30.0, "preempted")


@pytest.mark.parametrize("options", [{"policy": "fifo"}, {"policy": "smallest", "queue": "skip"}])
def test_nobody_evicts_a_young_stay_nor_one_that_was_stopped_often_enough(options: dict[str, Any]) -> None:
    policy = options.pop("policy")
    assert stays(two(policy, evict=True, preempt_after=30.0, **options))["j1"] == [(30.0, 50.0, "done")]
    assert stays(two(policy, evict=True, max_preemptions=0, **options))["j1"] == [(100.0, 120.0, "done")]
    assert stays(two(policy, evict=True, max_preemptions=1, **options))["j1"] == [(10.0, 30.0, "done")]


def test_stays_that_a_failure_ended_do_not_count() -> None:
    case = two("srtf", max_preemptions=1, outages=outage_rows([(0, 5.0, 6.0)]), checkpoint_interval=0.0)
    assert [ended for *_, ended in stays(case)["j0"]] == ["failed", "preempted", "done"]


def test_owners_take_their_own_back_from_guests_whatever_their_age() -> None:
    rows = [(0.0, 4, 100.0, "u"), (10.0, 2, 20.0, "v")]
    options = {
        "quota": [{"user": "u", "gpus": 0, "borrow": True}],
        "preempt_after": 50.0,
        "preempt_cost": 0.0,
    }
    for policy in ("fifo", "srtf", "elastic-srtf", "repack"):
        case = by_hand([4], "submit_time num_gpus duration user", rows, policy=policy, **options)
        assert stays(case)["j1"] == [(10.0, 30.0, "done")], policy


@pytest.mark.parametrize("policy", ["afs", "optimus", "elastic-srtf"])
def test_a_protected_job_keeps_its_least_and_may_be_resized(policy: str) -> None:
    rows = [(0.0, 4, 100.0, 0, 2, 4), (10.0, 4, 10.0, 1, 2, 4), (11.0, 4, 10.0, 1, 2, 4)]
    columns = "submit_time num_gpus duration priority min_gpus max_gpus"
    options = {"resize_every": 0.0, "preempt_cost": 0.0, "preempt_after": 1000.0}
    result = stays(by_hand([4], columns, rows, policy=policy, **options))
    assert {ended for *_, ended in result["j0"]} == {"resized", "done"}
    # Of the same job without protection nothing is left while two of higher priority are there.
    result = stays(by_hand([4], columns, rows, policy=policy, **options | {"preempt_after": 0.0}))
    assert "preempted" in {ended for *_, ended in result["j0"]}


def test_repack_neither_stops_nor_moves_it() -> None:
    rows = [(0.0, 1, 500.0), (0.0, 1, 500.0), (1.0, 2, 10.0)]
    options = {"policy": "repack", "predict": "exact", "preempt_cost": 1.0, "placement": "consolidate"}
    free = by_hand(
        [2, 2],
        "submit_time num_gpus duration",
        [*rows[:1], (0.0, 2, 400.0), *rows[2:]],
        **options,
        preempt_after=0.0,
    )
    assert stays(free)["j2"][0][0] == 1.0
    held = by_hand(
        [2, 2],
        "submit_time num_gpus duration",
        [*rows[:1], (0.0, 2, 400.0), *rows[2:]],
        **options,
        preempt_after=60.0,
    )
    assert stays(held)["j2"][0][0] == 60.0


def test_a_turn_of_time_slice_is_a_quantum_at_least() -> None:
    rows = [(0.0, 4, 100.0), (0.0, 4, 100.0)]
    options = {"policy": "time-slice", "quantum": 60.0, "preempt_cost": 0.0}
    for after, end in ((30.0, 60.0), (60.0, 60.0), (90.0, 90.0)):
        result = stays(by_hand([4], "submit_time num_gpus duration", rows, **options, preempt_after=after))
        assert result["j0"][0] == (0.0, end, "preempted")


class Stops(ringbco.Policy):
    """Stops whoever runs for whoever comes, and notes what it is told."""

    told: ClassVar[list[Any]] = []

    def decide(self, state: ringbco.State) -> None:
        self.told.append((state.now, state.protected.tolist()))
        if len(state.waiting) and len(state.running):
            try:
                state.stop(state.running)
            except DecisionError as error:
                self.told.append(str(error))
        state.start(state.waiting, strict=False)


def test_a_policy_of_ones_own_may_not_stop_it_and_is_asked_when_that_is_over() -> None:
    Stops.told.clear()
    case = two("fifo", preempt_after=30.0)
    case.options["policy"] = Stops
    assert stays(case)["j0"] == [(0.0, 30.0, "preempted"), (50.0, 120.0, "done")]
    times = [line[0] for line in Stops.told if isinstance(line, tuple)]
    assert times == [0.0, 10.0, 30.0, 50.0]
    assert (10.0, [0]) in Stops.told
    assert (30.0, []) in Stops.told
    said = [line for line in Stops.told if isinstance(line, str)]
    assert len(said) == 1
    assert "it is protected until 30 s: its stay is younger than preempt-after, 30 s" in said[0]


def test_verbs_may_move_and_resize_it_but_not_stop_it_after_that() -> None:
    frame = by_hand([4, 4], "submit_time num_gpus duration min_gpus max_gpus", [(0.0, 2, 50.0, 1, 4)]).frame()
    run = ringbco.Simulation(frame, "2x4", model="fixed", max_preemptions=0)
    run.advance()
    run.start([0])
    run.stop([0])  # it has begun at this instant
    run.start([0])
    run.advance(10.0)
    run.move({0: [(1, 2)]})
    assert run.state.protected.tolist() == [0]
    with pytest.raises(DecisionError, match="0 of its stays were ended for others, and max-preemptions is 0"):
        run.stop([0])
    run.resize(0, 4)
    run.end([0])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"preempt_after": -1.0}, "option preempt-after: -1.*expected a time >= 0 and <= 1e\\+09 s"),
        ({"max_preemptions": -1}, "option max-preemptions: -1.*expected an integer from 0 to 4294967295"),
        ({"max_preemptions": 1.5}, "option max-preemptions: 1.5.*expected an integer from 0 to 4294967295"),
    ],
)
def test_bad_values_are_told(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        two("srtf", **options).replay()


def _drawn() -> Sequence[int]:
    return range(int(os.environ.get("RINGBCO_CASES", "40")))


def test_small_cases_are_as_the_reference_models_say() -> None:
    met = 0
    for seed in _drawn():
        rng = Random(f"protection {seed}")
        names = tuple(name for name in BESIDE if rng.random() < 0.5)
        case = build(f"protection {seed}", (*names, "policy", "protection"))
        outcome = replayed(case).outcome
        if outcome is None:
            continue
        met += 1
        expected = modelled.reference_result(case)
        assert isinstance(expected, modelled.ReferenceResult)
        assert list(compare.differences(case, outcome, expected)) == [], seed
    assert met > len(_drawn()) // 2


@pytest.mark.parametrize(
    ("typed", "options"),
    [
        ("none", {}),
        ("`--preempt-after 10min`", {"preempt_after": 600.0}),
        ("`--preempt-after 1h`", {"preempt_after": 3600.0}),
        ("`--preempt-after 10min --max-preemptions 3`", {"preempt_after": 600.0, "max_preemptions": 3}),
    ],
)
def test_the_page_says_what_it_does(typed: str, options: dict[str, Any]) -> None:
    outcome = ringbco.replay(SAMPLE, "28x8", policy="srtf", **options)
    own, recorded = outcome.stays.filter(pl.col("ended") == "preempted"), outcome.summary
    most = own.group_by("job_id").len()["len"].max()
    hours = recorded["mean_jct"] / 3600.0, recorded["lost_gpu_seconds"] / 3600.0
    row = f"| {typed} | {hours[0]:.2f} h | {recorded['preemptions']:,} | {most} | {hours[1]:.1f} |"
    assert row in PAGE.read_text(encoding="utf-8")
