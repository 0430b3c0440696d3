"""What the judge says of policies that resize jobs: right decisions, and those of another policy."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

import ringbco
import ruled
from cases import judged
from cases.of_policies import RESIZING
from judge.deciding import Fault
from judge.doubts import Doubts
from judge.given import Book, Cluster, Given, Jobs, Stay
from judge.rules import faults
from physics import judge
from ringbco.checker.settings import Network, Speed
from ringbco.trace.jobs import as_table

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

NET = Network(150e9, 12.5e9, 500e9, 0.5, 0.0, 0.3)


def given(policy: str, gpus: int, jobs: Jobs, **options: Any) -> Given:
    """A run on one server."""
    told = {"model": "fixed", "clock": "continuous", "placement": "consolidate", "queue": "strict"}
    told |= {"variant": "practical", "kappa": 8, "order": "fifo", "policy": policy, "resize_cost": 0.0}
    told |= {"resize_every": 0.0, **options}
    speeds = told.pop("speeds", ())
    return Given(jobs, Cluster([gpus], NET), told, preempts=True, resizes=True, speeds=speeds)


def jobs(submit: list[float], gpus: list[int], duration: list[float], **more: Any) -> Jobs:
    """Jobs named a, b, c and so on, elastic ones by `least` and `most`."""
    none = [0.0] * len(submit)
    told = {"iterations": none, "gradient": none, "compute": none, "ideal": duration, **more}
    return Jobs([chr(97 + row) for row in range(len(submit))], submit, gpus, duration, **told)


def found(run: Given, stays: list[Stay]) -> list[Fault]:
    """The faults of a book whose work is right."""
    book = Book(stays)
    assert judge(run, book).off == pytest.approx(dict.fromkeys(sorted({stay.job for stay in stays}), 0.0))
    return list(faults(run, book))


def of_age(second: float) -> tuple[Jobs, list[Stay]]:
    """The example of resize-every: a job on 4 GPUs makes room for others, for the second as it comes."""
    table = jobs([0.0, 100.0, second], [4, 1, 1], [1000.0, 3000.0, 3000.0], least=[1, 1, 1], most=[4, 1, 1])
    end = second + 2.0 * (1000.0 - second)
    return table, [
        Stay(0, 0.0, second, ((0, 4),), "resized"),
        Stay(0, second, end, ((0, 2),)),
        Stay(1, second, second + 3000.0, ((0, 1),)),
        Stay(2, second, second + 3000.0, ((0, 1),)),
    ]


def test_a_job_that_is_of_age_makes_room() -> None:
    table, stays = of_age(350.0)
    assert found(given("optimus", 4, table, resize_every=300.0), stays) == []


def test_a_job_that_is_young_keeps_its_gpus() -> None:
    table, stays = of_age(350.0)
    late = found(given("optimus", 4, table, resize_every=100.0), stays)
    assert (late[0].what, late[0].time) == ("placement", 100.0)
    early = found(given("optimus", 4, table, resize_every=351.0), stays)
    assert {fault.time for fault in early} == {350.0}


def speeds() -> list[Speed]:
    """The example of afs: how fast a and b run on 1, 2 and 3 GPUs."""
    rates = {"a": (1.0, 1.5, 1.7), "b": (1.0, 1.9, 2.7)}
    return [
        Speed(model, 0, gpus, 1, rate, None, None)
        for model, own in rates.items()
        for gpus, rate in enumerate(own, 1)
    ]


def pair(b: int) -> list[Stay]:
    """a and b on 4 GPUs, b on so many until a is done, and on 3 from there on."""
    rates = 1.0, 1.5, 1.7, 1.9, 2.7
    a, fast = 4 - b, {1: 1.0, 2: 1.9, 3: 2.7}[b]
    done = 30.0 / rates[a - 1]
    if b == 3:
        return [Stay(0, 0.0, done, ((0, a),)), Stay(1, 0.0, 300.0 / fast, ((0, b),))]
    left = 300.0 - done * fast
    return [
        Stay(0, 0.0, done, ((0, a),)),
        Stay(1, 0.0, done, ((0, b),), "resized"),
        Stay(1, done, done + left / 2.7, ((0, 3),)),
    ]


def test_the_rest_goes_by_the_rule_of_the_policy() -> None:
    table = jobs(
        *([0.0, 0.0], [2, 2], [30.0, 300.0]),
        **{"iterations": [30.0, 300.0], "model": ["a", "b"], "recorded": [0, 0], "types": [(0,), (0,)]},
        **{"least": [1, 1], "most": [3, 3]},
    )
    right = {"afs": 2, "optimus": 3, "elastic-srtf": 3}
    for policy, b in right.items():
        for claimed in (1, 2, 3):
            run = given(policy, 4, table, model="table", speeds=speeds(), type_order="listed")
            whats = {fault.what for fault in found(run, pair(claimed))}
            assert whats == (set() if claimed == b else {"placement"}), (policy, claimed)


def test_who_is_late_is_refused() -> None:
    for duration, waits in ((60.0, False), (30.0, True)):
        table = jobs([0.0, 0.0], [1, 1], [60.0, duration], deadline=[100.0, 110.0])
        run = given("elasticflow", 1, table)
        alone = [Stay(0, 0.0, 60.0, ((0, 1),))]
        both = [*alone, Stay(1, 60.0, 60.0 + duration, ((0, 1),))]
        says = [fault.says for fault in found(run, alone)]
        assert says == (["is refused, though it could wait"] if waits else [])
        says = [fault.says for fault in found(run, both)]
        assert says == ([] if waits else ["waits, though the policy refuses it"])


def test_a_trial_may_go_on_because_another_is_refused() -> None:
    """j0 rests at its rung until j6 is refused, and so counts for nothing as j6 is tested."""
    table = pl.DataFrame(
        {
            "job_id": ["j0", "j3", "j5", "j6"],
            "submit_time": [5.0, 47.0, 62.0, 68.0],
            "num_gpus": [2, 4, 3, 3],
            "duration": [16.0, 80.0, 18.0, 85.0],
            "deadline": [243.0, 138.7, 202.0, 257.0],
            "priority": [2, 1, 2, 2],
            "group": ["s0", "s1", None, "s0"],
        }
    )
    outcome = ringbco.replay(table, "1x8", policy="elasticflow", model="fixed", search="asha:eta=2,rungs=2")
    assert outcome.jobs["job_id"].to_list() == ["j0", "j3", "j5"]
    rested = outcome.stays.filter(pl.col("paused_at_rung") > 0).select("job_id", "paused_at_rung").rows()
    assert rested == [("j0", 59.0)]
    assert ruled.audit(outcome, table) == []


def test_doubtful_comparisons_go_every_way() -> None:
    doubts, seen = Doubts(), []
    assert (doubts.up_to(1.0, 2.0, 0.1), doubts.met) == (True, False)
    assert (doubts.up_to(1.0, 1.0, 0.1), doubts.met) == (True, True)
    doubts.open, more = True, True
    while more:
        seen.append((doubts.choose(2), doubts.choose(3)))
        more = doubts.turn()
    assert seen == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


@pytest.fixture(scope="module")
def runs() -> dict[str, ringbco.Outcome]:
    """The same jobs under the four policies."""
    return {name: ringbco.replay(elastic(), "3x4", policy=name, resize_every=60.0) for name in RESIZING}


def elastic() -> pl.DataFrame:
    """Elastic jobs with deadlines, at times that are no round numbers."""
    table = as_table(ringbco.generate("philly", 80, 3, gpus=10, load=3.0, elastic="0.5:3")).frame
    due = pl.col("submit_time") + pl.col("duration") * (1.3 + 3.0 * (pl.int_range(pl.len()) % 4))
    return table.filter(pl.col("num_gpus") <= 8).with_columns(deadline=due)


@pytest.mark.parametrize("claimed", RESIZING)
@pytest.mark.parametrize("policy", RESIZING)
def test_no_run_passes_for_one_of_another_policy(
    policy: str, claimed: str, runs: dict[str, ringbco.Outcome]
) -> None:
    outcome = replace(runs[policy], run=runs[claimed].run)
    run, book = judged.book(outcome, as_table(elastic()))
    judge(run, book)
    assert (list(faults(run, book)) == []) == (policy == claimed)
