"""The programs of gavel and allox, and shares in order of arrival, against enumerated optima."""

from __future__ import annotations

import itertools
import math
import random
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")

from ringbco.policies import gavel
from ringbco.policies.allox import Slot, firsts, matching
from ringbco.policies.finish_time import Finish, finish_time
from ringbco.policies.gavel import first_come, shares
from ringbco.policies.programs import Program

SPEEDS: Final = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0, 2.0, 3.5])


@st.composite
def demands(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rates of two or three jobs on two types, their GPUs, and GPUs by type. Each job runs on one of them."""
    jobs = draw(st.integers(2, 3))
    speeds = st.tuples(SPEEDS, SPEEDS).filter(any)
    rates = draw(st.lists(speeds, min_size=jobs, max_size=jobs))
    wanted = draw(st.lists(st.integers(1, 2), min_size=jobs, max_size=jobs))
    return np.array(rates), np.array(wanted), np.array(draw(st.tuples(*[st.integers(2, 4)] * 2)))


def corners(rates: np.ndarray, wanted: np.ndarray, gpus: np.ndarray) -> tuple[float, float]:
    """The greatest least worth, and then the greatest sum, over every corner of what is feasible."""
    jobs, types = rates.shape
    worth = rates * wanted[:, None] / (rates @ gpus / gpus.sum())[:, None]
    size = jobs * types + 1  # the shares, and the least worth
    rows: list[np.ndarray] = []
    bounds: list[float] = []
    for job in range(jobs):
        cells = np.arange(job * types, (job + 1) * types)
        for factors, bound in ((-worth[job], 0.0), (np.ones(types), 1.0)):
            row = np.zeros(size)
            row[cells] = factors
            row[-1] = 1.0 if bound == 0.0 else 0.0
            rows.append(row)
            bounds.append(bound)
    for kind in range(types):
        row = np.zeros(size)
        row[kind:-1:types] = wanted
        rows.append(row)
        bounds.append(float(gpus[kind]))
    limits = np.array(rows + list(-np.eye(size)))
    most = np.array(bounds + [0.0] * size)
    sets = np.array(list(itertools.combinations(range(len(limits)), size)))
    whole = np.abs(np.linalg.det(limits[sets])) > 1e-9
    points = np.linalg.solve(limits[sets[whole]], most[sets[whole]][:, :, None])[:, :, 0]
    points = points[(points @ limits.T <= most + 1e-7).all(axis=1)]
    least = points[:, -1].max()
    best = points[points[:, -1] >= least - 1e-7]
    return least, (best[:, :-1] @ worth.ravel()).max()


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(demands())
def test_shares_are_the_best_of_all_corners(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    rates, wanted, gpus = case
    result = shares(rates, wanted, gpus)
    worth = (result * rates).sum(axis=1) * wanted / (rates @ gpus / gpus.sum())
    least, most = corners(rates, wanted, gpus)
    assert worth.min() == pytest.approx(least, abs=1e-6)
    assert worth.sum() == pytest.approx(most, abs=1e-5)
    assert (result >= 0).all()
    assert (result.sum(axis=1) <= 1 + 1e-6).all()
    assert (wanted @ result <= gpus + 1e-6).all()
    assert shares(rates, wanted, gpus).tobytes() == result.tobytes()


def test_many_jobs_that_are_alike_share_equally(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same least worth and the same sum as where each is by itself."""
    rng = np.random.default_rng(1)
    kinds = rng.integers(1, 9, (6, 2)).astype(float)
    of = rng.integers(0, 6, 60)
    rates, wanted, gpus = kinds[of], np.array([1, 2, 4, 1, 2, 8])[of], np.array([20, 30])

    def worth() -> np.ndarray:
        result = shares(rates, wanted, gpus)
        assert (result.sum(axis=1) <= 1 + 1e-9).all()
        assert (wanted @ result <= gpus + 1e-6).all()
        for kind in range(6):
            assert np.unique(result[of == kind], axis=0).shape[0] == 1 or gavel.MANY > 60
        return (result * rates).sum(axis=1) * wanted / (rates @ gpus / gpus.sum())

    alone = worth()
    monkeypatch.setattr(gavel, "MANY", 59)
    together = worth()
    assert together.min() == pytest.approx(alone.min(), rel=1e-8)
    assert together.sum() == pytest.approx(alone.sum(), rel=1e-8)


def test_shares_by_hand() -> None:
    """Half of each type is worth 0.75 / 0.75 = 1 to one job, and 0.55 / 0.55 = 1 to the other."""
    result = shares(np.array([[1.0, 0.5], [1.0, 0.1]]), np.array([1, 1]), np.array([1, 1]))
    assert result == pytest.approx(np.full((2, 2), 0.5))


@settings(max_examples=100, deadline=None)
@given(demands(), st.randoms(use_true_random=False))
def test_who_comes_first_gets_the_fastest_type_with_room(
    case: tuple[np.ndarray, np.ndarray, np.ndarray], rnd: random.Random
) -> None:
    rates, wanted, gpus = case
    order = rnd.sample(range(len(wanted)), len(wanted))
    result = first_come(rates, wanted, gpus, np.array(order))
    for place, job in enumerate(order):
        left = gpus - wanted[order[:place]] @ result[order[:place]]
        open_to = [kind for kind in range(len(gpus)) if left[kind] >= wanted[job] and rates[job, kind] > 0]
        best = max(open_to, key=lambda kind: (rates[job, kind], -kind), default=None)
        assert np.flatnonzero(result[job]).tolist() == ([] if best is None else [best])
    assert set(result.ravel()) <= {0.0, 1.0}


@settings(max_examples=60, deadline=None)
@given(demands(), st.randoms(use_true_random=False))
def test_no_shares_have_a_fairer_greatest_finish(
    case: tuple[np.ndarray, np.ndarray, np.ndarray], rnd: random.Random
) -> None:
    """Beside a program that asks for the greatest multiple of what a fairness takes."""
    rates, wanted, gpus = case
    since, left = (np.array([rnd.uniform(least, 9.0) for _ in wanted]) for least in (0.0, 0.1))
    alone = left * [rnd.uniform(1.0, 3.0) for _ in wanted] + [rnd.uniform(0.0, 5.0) for _ in wanted]
    result = finish_time(rates, wanted, gpus, Finish(since, left, alone))
    assert (result >= 0).all()
    assert (result.sum(axis=1) <= 1 + 1e-6).all()
    assert (wanted @ result <= gpus + 1e-6).all()
    worth = rates / (rates @ gpus / gpus.sum())[:, None]
    able = worth.sum(axis=1) > 0
    fairness = ((since + left / (result * worth).sum(axis=1).clip(1e-12)) / alone)[able].max()
    need = left / (fairness * (1 - 1e-5) * alone - since)
    if (need[able] < 0).any() or (need > worth.max(axis=1))[able].any():
        return  # the one that is least fair has all the time of its fastest type
    cells = np.arange(rates.size).reshape(rates.shape)
    program = Program(np.append(np.zeros(rates.size), 1.0), np.append((worth > 0).ravel() * 1.0, 9.0))
    for job, own in enumerate(cells):
        program.row([*own, rates.size], [*worth[job], -need[job]], lower=0.0)
        program.row(own, 1.0, upper=1.0)
    for kind in range(len(gpus)):
        program.row(cells[:, kind], wanted, upper=float(gpus[kind]))
    assert program.solve()[-1] < 1.0


def test_finish_times_by_hand() -> None:
    """One GPU, two jobs that just came, of 10 s and 30 s, alone 20 s and 60 s (half a GPU each).

    Each gets x with (left / x) / alone = 0.5 / x: half. A third has waited for 30 s, its time alone, and has
    10 s left. The greatest fairness z of all takes 0.5 / z of the two, and 10 / (30 z - 30) of it.
    """
    gpus, ones = np.array([1]), np.ones((2, 1))
    two = Finish(np.zeros(2), np.array([10.0, 30.0]), np.array([20.0, 60.0]))
    assert finish_time(ones, np.array([1, 1]), gpus, two)[:, 0] == pytest.approx([0.5, 0.5])
    three = Finish(*(np.append(own, more) for own, more in zip(two, (30.0, 10.0, 30.0), strict=True)))
    result = finish_time(np.ones((3, 1)), np.array([1, 1, 1]), gpus, three)[:, 0]
    fairness = 0.5 / result[0]
    assert result == pytest.approx([0.5 / fairness, 0.5 / fairness, 10 / (30 * fairness - 30)])
    assert result.sum() == pytest.approx(1.0)


def test_what_is_left_over_goes_to_all() -> None:
    """It goes in proportion to the part of its time that each job has not got."""
    finish = Finish(np.array([0.0, 10.0]), np.array([10.0, 10.0]), np.array([20.0, 10.0]))
    # b is late whatever it gets: (10 + 10 / 1) / 10 = 2, at which a takes 10 / (2 x 20) = 1/4. 3/4 are left.
    assert finish_time(np.ones((2, 1)), np.array([1, 1]), np.array([2]), finish)[:, 0] == pytest.approx(
        [1.0, 1.0]
    )
    gang = finish_time(np.ones((2, 1)), np.array([2, 1]), np.array([2]), finish)[:, 0]
    assert gang == pytest.approx([0.25 + 0.75 * 0.5 / 1.5, 1.0])


@st.composite
def queues(draw: st.DrawFn) -> tuple[np.ndarray, list[Slot]]:
    """Run times of up to five jobs on two types, and slots of up to four GPUs."""
    jobs = draw(st.integers(1, 5))
    time = st.one_of(st.integers(1, 40).map(float), st.just(math.inf))
    times = draw(st.lists(st.tuples(st.integers(1, 40).map(float), time), min_size=jobs, max_size=jobs))
    slot = st.builds(Slot, st.integers(0, 1), st.integers(0, 30).map(float), st.integers(1, 2))
    return np.array(times), [Slot(0, draw(st.integers(0, 9)), 1), *draw(st.lists(slot, max_size=2))]


def least_sum(times: np.ndarray, slots: list[Slot]) -> float:
    """The least sum of completion times over every order and every choice of GPUs."""
    gpus = [slot for slot in slots for _ in range(slot.gpus)]
    best = math.inf
    for chosen in itertools.product(range(len(gpus)), repeat=len(times)):
        total = 0.0
        for number, slot in enumerate(gpus):
            # On one GPU the shortest first is best.
            now = slot.ready
            for took in sorted(times[job, slot.kind] for job, gpu in enumerate(chosen) if gpu == number):
                now += took
                total += now
        best = min(best, total)
    return best


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(queues())
def test_a_matching_has_the_least_sum_of_completion_times(case: tuple[np.ndarray, list[Slot]]) -> None:
    times, slots = case
    result = matching(times, np.ones(len(times), np.int64), slots)
    total = sum(
        slots[slot].ready + times[job, slots[slot].kind] * position
        for job, (slot, position) in enumerate(result.tolist())
    )
    assert total == pytest.approx(least_sum(times, slots))
    for number, slot in enumerate(slots):
        positions = result[result[:, 0] == number, 1]
        assert (np.bincount(positions, minlength=1) <= slot.gpus).all()


def test_many_jobs_of_one_gpu_alone() -> None:
    """Four jobs may use one of four GPUs: it has more places than the GPUs need on average."""
    only = np.column_stack((np.arange(1.0, 5.0), np.full(4, math.inf)))
    result = matching(only, np.ones(4, np.int64), [Slot(0, 0.0, 1), Slot(1, 0.0, 3)])
    assert result.tolist() == [[0, 4], [0, 3], [0, 2], [0, 1]]


def test_the_first_of_each_gpu_starts() -> None:
    """Three on two idle GPUs: two are last, at position 1, and the other one is ahead of one of them."""
    result = np.array([[0, 1], [0, 2], [0, 1], [1, 1]])
    slots = [Slot(0, 0.0, 2), Slot(0, 5.0, 1)]
    assert firsts(result, slots, np.array([9.0, 1.0, 3.0, 1.0])) == [(1, 0), (2, 0)]
