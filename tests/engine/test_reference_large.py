"""Single decisions of long runs of every policy: the engine's, and the reference model's of the same state.

RINGBCO_LARGE_JOBS sets how many jobs, RINGBCO_LARGE_DECISIONS how many decisions, RINGBCO_LARGE_SEED which.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from cases import large
from cases.case import Case, by_hand
from cases.large import Large
from cases.modelled import Model
from reference.at_size import Compared, Decision, Run, copied, deciding
from reference.leading import Record, Stay, Verb
from reference.mechanism import World

JOBS: Final = int(os.environ.get("RINGBCO_LARGE_JOBS", "1200"))
DECISIONS: Final = int(os.environ.get("RINGBCO_LARGE_DECISIONS", "5"))
SEED: Final = int(os.environ.get("RINGBCO_LARGE_SEED", "1"))
ALL: Final = [*large.PLAIN, *large.VARIED]

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")


@pytest.mark.parametrize("run", ALL, ids=lambda run: run.name)
def test_engine_and_reference_model_decide_alike(
    run: Large, record_property: Callable[[str, object], None]
) -> None:
    jobs = JOBS // 10 if run.slow and JOBS > 20_000 else JOBS
    result = list(large.compared(run, jobs, DECISIONS, SEED))
    value = {
        "policy": run.name,
        "jobs": jobs,
        "decisions": len(result),
        "waiting": sum(each.waiting for each in result),
        "starts": sum(each.starts for each in result),
        "stops": sum(each.stops for each in result),
        "agree": sum(not each.differences for each in result),
    }
    record_property("decisions", value)
    assert [said for each in result for said in each.differences][:20] == []
    assert len(result) >= 0.9 * DECISIONS
    assert sum(each.starts + each.stops > 0 for each in result) >= len(result) / 2


def test_every_policy_is_among_them() -> None:
    here = {run.policy for run in ALL}
    assert here == {*large.QUEUES, *large.RANKED, *large.RESIZING, "repack"}
    assert here == {run.policy for run in large.VARIED}


# What is planted is found.


def differing(given: tuple[Any, ...], record: Record, times: set[float]) -> list[str]:
    result = list(Run(given, record).compared([times]))
    assert len(result) == len(times)
    return [said for each in result for said in each.differences]


def small(**options: Any) -> tuple[Model, Record]:
    """Two jobs on the first of two servers, and one that takes all of the other."""
    rows = [(0.0, 1, 100.0), (0.0, 1, 50.0), (10.0, 2, 30.0), (20.0, 2, 40.0)]
    case = by_hand((2, 2), "submit_time num_gpus duration", rows, policy="fifo", **options)
    return (model := Model(case)), large.recorded(case, model, case.replay(decisions=True))


def replaced(record: Record, *stays: Stay) -> Record:
    """The record with other stays of these rows."""
    rows = {stay.row for stay in stays}
    kept = [stay for stay in record.stays if stay.row not in rows]
    verbs = defaultdict[float, list[Verb]](list)
    for stay in sorted([*kept, *stays], key=lambda stay: stay.row):
        verbs[stay.start].append(Verb(stay.row, "start", stay.parts))
    return replace(record, stays=[*kept, *stays], verbs=verbs)


def test_by_hand_the_two_agree() -> None:
    model, record = small()
    assert differing(model.parts().given, record, {0.0, 10.0, 20.0, 40.0}) == []


def test_another_server_is_found_at_the_instant_at_which_it_is_chosen_and_at_no_other() -> None:
    model, record = small()
    other = replaced(
        record,
        Stay(1, 0.0, 50.0, ((1, 1),), True),
        Stay(2, 50.0, 80.0, ((1, 2),), True),
        Stay(3, 80.0, 120.0, ((1, 2),), True),
    )
    assert differing(model.parts().given, other, {0.0, 10.0, 50.0, 80.0}) == [
        "t = 0, row 1: begins on {0: 1}; the run: begins on {1: 1}"
    ]


def test_a_start_that_is_missing_is_found() -> None:
    model, record = small()
    late = replaced(record, Stay(2, 20.0, 50.0, ((1, 2),), True), Stay(3, 50.0, 90.0, ((1, 2),), True))
    assert differing(model.parts().given, late, {0.0, 10.0, 20.0, 50.0}) == [
        "t = 10, row 2: begins on {1: 2}; the run: does not run"
    ]


def test_a_job_that_ends_when_its_work_is_not_done_is_no_record() -> None:
    model, record = small()
    early = replaced(record, Stay(2, 10.0, 30.0, ((1, 2),), True))
    with pytest.raises(AssertionError, match=r"row 2 is done 10\.0 s beside the record"):
        differing(model.parts().given, early, {30.0})


@pytest.mark.parametrize(
    ("policy", "other"),
    [
        ("fifo", {"policy": "smallest"}),
        ("sjf", {"queue": "skip"}),
        ("sjf-bco", {"kappa": 1}),
        ("srtf", {"policy": "srsf"}),
        ("tiresias", {"thresholds": [600.0]}),
        ("time-slice", {"policy": "ftf"}),
        ("afs", {"policy": "optimus"}),
    ],
)
def test_a_run_of_another_rule_is_found(policy: str, other: dict[str, Any]) -> None:
    run = next(run for run in large.PLAIN if run.name == policy)
    case = large.draw(run, 1000, 1)
    model = Model(case)
    options = {name: value for name, value in case.options.items() if name != "quantum"}
    quantum = {"interval": 300.0} if policy == "time-slice" else {}
    ruled = replace(case, options={**options, **quantum, **other})
    record = large.recorded(ruled, model, ruled.replay(decisions=True))
    given = model.parts().given
    result = list(Run(given, record).compared([large.chosen(run, model, record, 40, 1)[0]]))
    assert sum(bool(each.differences) for each in result) > len(result) / 10


def test_a_key_of_the_model_that_is_wrong_is_found() -> None:
    run = next(run for run in large.PLAIN if run.name == "srtf")
    case = large.draw(run, 1000, 1)
    model = Model(case)
    record = large.recorded(case, model, case.replay(decisions=True))
    *given, base = model.parts().given

    class Wrong(base):  # type: ignore[misc, valid-type]
        def size(self, row: int) -> float:
            return 2.0 if row % 7 == 0 else 1.0

        def remaining(self, row: int) -> float:
            return float(super().remaining(row) * self.size(row))

    times = large.chosen(run, model, record, 40, 1)[0]
    assert differing((*given, base), record, times) == []
    assert differing((*given, Wrong), record, times) != []


# Figures that are worked out once.


def world_of(name: str, case: Case | None = None) -> Any:
    """A copy of the model's world in the middle of a run, and of which class it is without notes."""
    run = next(run for run in ALL if run.name == name)
    case = large.draw(run, 600, 1)
    model = Model(case)
    record = large.recorded(case, model, case.replay(decisions=True))
    given = model.parts().given
    (world,) = Run(given, record).worlds()
    for time in world.instants():
        world.happen(time)
        if len(world.gpu_times) > 150 and len(world.waiting) > 5:
            break
        world.decide()
    return world, copied(world, deciding(given[-1], record)), given[-1]


def test_gittins_index_from_sums_is_that_of_the_model() -> None:
    _, noted, base = world_of("gittins")
    rows = [*noted.waiting, *(run.row for run in noted.running)]
    assert len(rows) > 20
    assert [noted.gittins(row) for row in rows] == [base.gittins(noted, row) for row in rows]


def test_predictions_from_sums_are_those_of_the_model() -> None:
    world, _, base = world_of("qssf")
    rows = world.waiting
    assert [world.predict(row) for row in rows] == [base.predict(world, row) for row in rows]


def test_a_copy_that_decides_leaves_its_world_alone() -> None:
    world, noted, _ = world_of("tiresias")
    before = (list(world.waiting), [(run.row, list(run.gpus)) for run in world.running], dict(world.load))
    assert isinstance(noted, World)
    noted.one_pass()
    after = (list(world.waiting), [(run.row, list(run.gpus)) for run in world.running], dict(world.load))
    assert before == after
    assert [run.row for run in noted.running] != [run.row for run in world.running]


def test_what_compared_counts() -> None:
    on = Counter({0: 1})
    recorded = Decision({1: (True, on), 2: (False, on), 4: (True, on)}, frozenset())
    each = Compared(0.0, 3, frozenset({2, 3, 4}), recorded, recorded)
    assert (each.starts, each.stops, each.differences) == (2, 2, [])
