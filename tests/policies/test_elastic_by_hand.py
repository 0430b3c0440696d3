"""Examples of docs/elastic-policies.md and more of the kind, by hand, for engine and reference model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from agreement import recorded_stays, stays_of
from cases import modelled
from cases.case import Case, by_hand, outage_rows

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

Stays = dict[int, list[tuple[float, float, dict[int, int]]]]
"""By row: from, to, and GPUs by server."""


@dataclass(frozen=True)
class Asks:
    """A job. work: recorded seconds; iterations where it has rates. rates: of 1, 2, 3, ... GPUs."""

    submit: float
    gpus: int
    work: float
    least: int | None = None
    most: int | None = None
    deadline: float | None = None
    priority: int = 0
    rates: tuple[tuple[int, float], ...] = ()
    listed: tuple[int, ...] = (0,)


def given(
    policy: str,
    servers: Sequence[int],
    jobs: Sequence[Asks],
    *,
    placement: str = "consolidate",
    slot: float | None = None,
    speeds: Sequence[float] = (1.0,),
    of: Sequence[int] | None = None,
    outages: Sequence[tuple[int, float, float]] = (),
    **rules: float,
) -> Case:
    """Nothing costs time and nobody is too young unless `rules` say so."""
    measured = any(job.rates for job in jobs)
    names = [f"t{number}" for number in range(len(speeds))]
    costs = {"resize_every": 0.0, "preempt_cost": 0.0, "move_cost": 0.0, "resize_cost": 0.0}
    options: dict[str, Any] = costs | {"policy": policy, "placement": placement} | rules
    if slot is not None:
        options |= {"clock": "slot", "slot": slot}
    if any(outages):
        options["checkpoint_interval"] = math.inf
    case = by_hand(
        servers, "submit_time num_gpus duration min_gpus max_gpus priority deadline",
        [
            (job.submit, job.gpus, job.work, job.least or job.gpus, job.most or job.gpus, job.priority,
             job.deadline)
            for job in jobs
        ],
        outages=outage_rows(outages), **options,
    )  # fmt: skip
    if of is not None or measured:
        case.gpu_types = {name: {"speed": speed} for name, speed in zip(names, speeds, strict=True)}
        for server, number in zip(case.servers, of or [0] * len(servers), strict=True):
            server["gpu_type"] = names[number]
        case.options["type_order"] = "listed"
        for row, job in zip(case.jobs, jobs, strict=True):
            row |= {"gpu_type": "|".join(names[t] for t in job.listed), "recorded_on": "other"}
        case.gpu_types["other"] = {"speed": 1.0}
    if measured:
        case.options["model"] = "table"
        case.files["tables"] = [
            {"model": f"m{m}", "gpu_type": "t0", "gpus": gpus, "servers": 1, "rate": rate}
            for m, job in enumerate(jobs)
            for gpus, rate in job.rates
        ]
        for m, job in enumerate(jobs):
            case.jobs[m] |= {"model": f"m{m}", "iterations": int(job.work), "recorded_on": "t0"}
    return case


def by_engine(case: Case) -> tuple[Stays, list[int]]:
    outcome = case.replay()
    return together(recorded_stays(outcome)), outcome.jobs["preemptions"].to_list()


def by_reference(case: Case) -> tuple[Stays, list[int]]:
    result = modelled.reference_result(case)
    assert isinstance(result, modelled.ReferenceResult)
    counts = [count for row, count in enumerate(result.result.preemptions) if result.result.kept[row]]
    return together(stays_of(result.result.allocations)), counts


def together(rows: np.ndarray) -> Stays:
    result: Stays = {}
    for row, start, server, gpus, end in rows.tolist():
        own = result.setdefault(row, [])
        if not own or own[-1][:2] != (start, end):
            own.append((start, end, {}))
        own[-1][2][server] = gpus
    return result


@pytest.fixture(params=[by_engine, by_reference], ids=["engine", "reference model"])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param


def of_afs(policy: str) -> Case:
    a = Asks(0, 1, 150, most=3, rates=((1, 1.0), (2, 1.5), (3, 1.7)))
    b = Asks(0, 1, 1000, most=3, rates=((1, 1.0), (2, 1.9), (3, 2.7)))
    return given(policy, [4], [a, b])


def test_afs_goes_by_pairs(run: Any) -> None:
    # The page's example: the third GPU to a, the fourth to b. a ends at 150 / 1.5; then b has done 190.
    stays, _ = run(of_afs("afs"))
    assert stays == {
        0: [(0, 100, {0: 2})],
        1: [(0, 100, {0: 2}), (100, pytest.approx(100 + 810 / 2.7), {0: 3})],
    }


def test_afs_gives_to_the_first_that_no_later_one_beats(run: Any) -> None:
    # c's v, 0.45, beats a's u, 0.4, and not b's, 0.54. So b gets the fourth GPU, though its v beats nobody.
    a = Asks(0, 1, 100, most=2, rates=((1, 1.0), (2, 1.4)))
    b = Asks(0, 1, 200, most=2, rates=((1, 1.0), (2, 1.54)))
    c = Asks(0, 1, 300, most=2, rates=((1, 1.0), (2, 1 / 0.55)))
    stays, _ = run(given("afs", [4], [a, b, c]))
    assert [stays[row][0][2] for row in range(3)] == [{0: 1}, {0: 2}, {0: 1}]


def test_optimus_gives_both_to_the_long_one(run: Any) -> None:
    # b gains 1,000 - 526 and 526 - 370 s, a would gain 50 s.
    stays, _ = run(of_afs("optimus"))
    assert stays == {0: [(0, 150, {0: 1})], 1: [(0, pytest.approx(1000 / 2.7), {0: 3})]}


def test_optimus_asks_whose_time_falls_most(run: Any) -> None:
    a = Asks(0, 1, 100, most=2, rates=((1, 1.0), (2, 100 / 60)))
    b = Asks(0, 1, 1000, most=2, rates=((1, 1.0), (2, 1000 / 900)))
    stays, _ = run(given("optimus", [3], [a, b]))
    assert stays == {0: [(0, 100, {0: 1})], 1: [(0, pytest.approx(900), {0: 2})]}


def test_optimus_breaks_ties_by_fifo(run: Any) -> None:
    jobs = [Asks(0, 2, 100, 1, 4), Asks(0, 2, 100, 1, 4)]
    stays, _ = run(given("optimus", [3], jobs))
    assert [stays[row][0][2] for row in (0, 1)] == [{0: 2}, {0: 1}]


FLOW = ((2, 3.0), (4, 6.0), (6, 10.0), (8, 12.0))
"""600 iterations take 200 s on 2 GPUs, 100 s on 4, 60 s on 6 and 50 s on 8."""


def test_elasticflow_gives_the_least_share_that_meets_the_deadline(run: Any) -> None:
    # The page's example. a gets 6 and is done at its deadline. b has done 180 of 600 by then, and 6 GPUs do
    # the rest in 42 s.
    a = Asks(0, 4, 600, 2, 6, deadline=60, rates=FLOW)
    b = Asks(0, 4, 600, 2, 6, deadline=120, rates=FLOW)
    stays, _ = run(given("elasticflow", [8], [a, b]))
    assert stays == {0: [(0, 60, {0: 6})], 1: [(0, 60, {0: 2}), (60, 102, {0: 6})]}


def test_elasticflow_gives_the_rest_away(run: Any) -> None:
    # On 5 GPUs, half-way between 6 and 10 a second, b would be done at 112.5. The other three are idle, so it
    # gets them too.
    a = Asks(0, 4, 600, 2, 6, deadline=60, rates=FLOW)
    b = Asks(0, 4, 600, 2, 8, deadline=120, rates=FLOW)
    stays, _ = run(given("elasticflow", [8], [a, b]))
    assert stays[1] == [(0, 60, {0: 2}), (60, 95, {0: 8})]


def test_elasticflow_refuses_who_would_make_others_late(run: Any) -> None:
    # b would go first, and a be done at 110. c itself would be late. d can wait for a. e has no deadline.
    jobs = [
        Asks(0, 4, 100, deadline=105),
        Asks(0, 4, 10, deadline=50),
        Asks(0, 4, 10, deadline=109),
        Asks(0, 4, 10, deadline=110),
        Asks(0, 4, 10),
    ]
    stays, _ = run(given("elasticflow", [4], jobs))
    assert stays == {0: [(0, 100, {0: 4})], 3: [(100, 110, {0: 4})], 4: [(110, 120, {0: 4})]}


def test_elasticflow_lets_others_run_while_a_job_need_not(run: Any) -> None:
    # b runs from 100 on. Until then the GPU that a leaves is for c, which has no deadline.
    jobs = [
        Asks(0, 3, 100, deadline=100),
        Asks(0, 4, 10, deadline=110),
        Asks(0, 1, 60),
    ]
    stays, _ = run(given("elasticflow", [4], jobs))
    assert stays == {0: [(0, 100, {0: 3})], 1: [(100, 110, {0: 4})], 2: [(0, 60, {0: 1})]}


def test_elasticflow_reckons_with_the_young(run: Any) -> None:
    # a keeps all 4 GPUs until 100, so b, admitted as if a could give some back, is late at 30 and gets none.
    a = Asks(0, 2, 200, 1, 4)
    b = Asks(20, 2, 10, deadline=35)
    young, _ = run(given("elasticflow", [4], [a, b], resize_every=300))
    assert young == {0: [(0, 100, {0: 4})], 1: [(100, 110, {0: 2})]}
    # Here a is old at 20, and young again at 30, when b is done: it keeps two.
    old, _ = run(given("elasticflow", [4], [a, b], resize_every=20))
    assert old == {0: [(0, 20, {0: 4}), (20, 180, {0: 2})], 1: [(20, 30, {0: 2})]}


def test_a_young_job_keeps_its_gpus(run: Any) -> None:
    a, b, c = Asks(0, 4, 1000, 1), Asks(100, 1, 50), Asks(350, 1, 50)
    stays, _ = run(given("optimus", [4], [a, b], resize_every=300))
    # Coming of age at 300 is no reason to decide.
    assert stays == {0: [(0, 1000, {0: 4})], 1: [(1000, 1050, {0: 1})]}
    stays, _ = run(given("optimus", [4], [a, b, c], resize_every=300))
    # At 400 a is young again: it does the other 650 s on two.
    assert stays[0] == [(0, 350, {0: 4}), (350, 1650, {0: 2})]
    assert stays[1] == stays[2] == [(350, 400, {0: 1})]


def test_decisions_at_multiples_of_the_interval(run: Any) -> None:
    # At 300 a is 300 s old, which is not younger. When b is done a is too young to grow, and at 600 it grows.
    a, b = Asks(0, 4, 1000, 1), Asks(100, 1, 50)
    stays, _ = run(given("optimus", [4], [a, b], resize_every=300, interval=100))
    assert stays[0][:2] == [(0, 300, {0: 4}), (300, 600, {0: 3})]
    assert stays[1] == [(300, 350, {0: 1})]


def test_decisions_at_the_first_boundary_from_the_interval_on(run: Any) -> None:
    # Slots of 10 s: the decision of 25 s is at 30. At 10 a is too young.
    a, b = Asks(0, 4, 300, 1), Asks(10, 1, 50)
    stays, _ = run(given("optimus", [4], [a, b], slot=10, resize_every=20, interval=25))
    assert stays[1][0][0] == 30
    assert stays[0][0] == (0, 30, {0: 4})


def fragmented(**rules: float) -> Case:
    """b and c leave one GPU idle on each server. a is to get two, and d to wait."""
    b, c = Asks(0, 3, 300), Asks(0, 3, 300)
    a, d = Asks(10, 2, 100, 1, 4), Asks(20, 4, 10)
    return given("optimus", [4, 4], [b, c, a, d], preempt_cost=7, move_cost=7, resize_cost=7, **rules)


def test_a_job_gets_fewer_gpus_where_no_more_are_together(run: Any) -> None:
    stays, _ = run(fragmented(resize_every=300))
    assert stays[2] == [(10, 210, {0: 1})]
    assert stays[3] == [(300, 310, {0: 4})]


def test_a_job_that_gets_its_own_gpus_back_goes_on(run: Any) -> None:
    # It is tried again at 20 and finds the GPU that it gave back.
    stays, preemptions = run(fragmented())
    assert stays[2] == [(10, 210, {0: 1})]
    assert preemptions == [0, 0, 0, 0]


def test_its_age_goes_on_too(run: Any) -> None:
    # At 20 a gets its GPU back. At 25 c is done and a is 15 s old: it grows. Were it 5 s old, it could not.
    b, c = Asks(0, 3, 300), Asks(0, 3, 25)
    a, d = Asks(10, 2, 100, 1, 4), Asks(20, 8, 10)
    stays, _ = run(given("optimus", [4, 4], [b, c, a, d], resize_every=10, resize_cost=7))
    assert stays[2] == [(10, 25, {0: 1}), (25, 25 + 7 + 92.5 / 2, {1: 4})]


def test_the_largest_is_placed_first(run: Any) -> None:
    stays, _ = run(given("optimus", [4, 4], [Asks(0, 1, 10), Asks(0, 4, 10)], placement="first-fit"))
    assert stays == {0: [(0, 10, {1: 1})], 1: [(0, 10, {0: 4})]}


def test_of_equal_numbers_the_first_is_placed_first(run: Any) -> None:
    jobs = [Asks(0, 2, 10), Asks(0, 2, 10), Asks(0, 2, 10, priority=1)]
    stays, _ = run(given("afs", [2, 2, 2], jobs))
    assert [stays[row][0][2] for row in range(3)] == [{1: 2}, {2: 2}, {0: 2}]


def test_a_resize_pauses(run: Any) -> None:
    # 10 s done on 4 GPUs; the other 90 take 180 on 2, after 7 of pause.
    a, b = Asks(0, 4, 100, 2), Asks(10, 2, 1000)
    stays, preemptions = run(given("optimus", [4], [a, b], resize_cost=7))
    assert stays == {0: [(0, 10, {0: 4}), (10, 197, {0: 2})], 1: [(10, 1010, {0: 2})]}
    assert preemptions == [1, 0]


def test_rigid_jobs_under_elastic_srtf(run: Any) -> None:
    a, b = Asks(0, 4, 100), Asks(20, 4, 10)
    stays, preemptions = run(given("elastic-srtf", [4], [a, b], preempt_cost=5))
    assert stays == {0: [(0, 20, {0: 4}), (30, 115, {0: 4})], 1: [(20, 30, {0: 4})]}
    assert preemptions == [1, 0]
    # A young job is not preempted.
    stays, _ = run(given("elastic-srtf", [4], [a, b], preempt_cost=5, resize_every=300))
    assert stays == {0: [(0, 100, {0: 4})], 1: [(100, 110, {0: 4})]}


def test_priorities_come_first_in_the_base(run: Any) -> None:
    a, b = Asks(0, 2, 10, 1), Asks(0, 3, 1000, priority=1)
    for policy in ("afs", "optimus", "elastic-srtf"):
        stays, _ = run(given(policy, [3], [a, b]))
        assert stays == {0: [(1000, pytest.approx(1000 + 10 * 2 / 2), {0: 2})], 1: [(0, 1000, {0: 3})]}


def test_each_type_is_given_out_by_itself(run: Any) -> None:
    # a draws on the fast type. b's two GPUs are not free there once a has its one: it has the others.
    a, b = Asks(0, 2, 100, 1, 4, listed=(0, 1)), Asks(0, 2, 100, 2, 4, listed=(0, 1))
    problem = given("optimus", [2, 4], [a, b], of=[0, 1], speeds=[2.0, 1.0])
    stays, _ = run(problem)
    assert stays == {0: [(0, 50, {0: 2})], 1: [(0, 50, {1: 4})]}


def test_a_server_that_goes_down_is_a_reason_to_decide(run: Any) -> None:
    # Without checkpoints b's 40 s are lost. It gets one of a's GPUs, and both when a is done: 40 s are left.
    a, b = Asks(0, 2, 100, 1), Asks(0, 2, 100, 1)
    stays, _ = run(given("optimus", [2, 2], [a, b], outages=[(1, 40, math.inf)]))
    assert stays[0] == [(0, 40, {0: 2}), (40, 160, {0: 1})]
    assert stays[1] == [(0, 40, {1: 2}), (40, 160, {0: 1}), (160, 200, {0: 2})]


def test_elastic_srtf_is_srtf_for_rigid_jobs() -> None:
    # First-fit finds GPUs for whoever the numbers select. Under `fixed` it is all the same which.
    jobs = ringbco.generate("philly", 400, seed=3, gpus=32, load=1.3)
    options: dict[str, Any] = {"placement": "first-fit", "model": "fixed", "preempt_cost": 20.0}
    mine = ringbco.replay(jobs, "4x8", policy="elastic-srtf", resize_every=0.0, **options).jobs
    theirs = ringbco.replay(jobs, "4x8", policy="srtf", **options).jobs
    columns = ("start_time", "finish_time", "preemptions")
    assert mine.select(columns).equals(theirs.select(columns))
    assert theirs["preemptions"].sum() > 50


def test_the_audit_knows_whom_elasticflow_may_refuse() -> None:
    due = [100.0, 120.0, None]
    jobs = {"job_id": ["a", "b", "c"], "submit_time": [0.0] * 3, "num_gpus": [4] * 3, "duration": [100.0] * 3}
    frame = pl.DataFrame({**jobs, "deadline": due})
    outcome = ringbco.replay(frame, "1x4", policy="elasticflow", model="fixed")
    assert outcome.jobs["job_id"].to_list() == ["a", "c"]
    assert ringbco.audit(outcome, frame) == []
    # Nobody refuses a job without a deadline.
    other = frame.with_columns(deadline=pl.Series([100.0, None, None]))
    assert any("b: has no row" in str(report) for report in ringbco.audit(outcome, other))
