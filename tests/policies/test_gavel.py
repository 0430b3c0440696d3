"""gavel and allox: their programs against enumerated optima, small cases by hand, Gavel's own simulator."""

from __future__ import annotations

import ast
import csv
import gzip
import itertools
import json
import math
import random
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import ringbco
from conftest import SHARED, Invoke
from frames import cluster_of, typed_servers
from reference.peers import FinishTime
from ringbco.cluster.spec import Cluster
from ringbco.errors import UsageError

pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")

from ringbco.policies import gavel
from ringbco.policies.allox import Slot, firsts, matching
from ringbco.policies.finish_time import Finish, finish_time
from ringbco.policies.gavel import first_come, shares
from ringbco.policies.programs import Program

PEERS: Final = SHARED / "peers" / "gavel"
TYPES: Final = ("v100", "p100", "k80")
SPEEDS: Final = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0, 2.0, 3.5])
TWO: Final = typed_servers((2, 4, "V100"), (3, 2, "T4"))


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
    found = shares(rates, wanted, gpus)
    worth = (found * rates).sum(axis=1) * wanted / (rates @ gpus / gpus.sum())
    least, most = corners(rates, wanted, gpus)
    assert worth.min() == pytest.approx(least, abs=1e-6)
    assert worth.sum() == pytest.approx(most, abs=1e-5)
    assert (found >= 0).all()
    assert (found.sum(axis=1) <= 1 + 1e-6).all()
    assert (wanted @ found <= gpus + 1e-6).all()
    assert shares(rates, wanted, gpus).tobytes() == found.tobytes()


def test_many_jobs_that_are_alike_share_equally(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same least worth and the same sum as where each is by itself."""
    rng = np.random.default_rng(1)
    kinds = rng.integers(1, 9, (6, 2)).astype(float)
    of = rng.integers(0, 6, 60)
    rates, wanted, gpus = kinds[of], np.array([1, 2, 4, 1, 2, 8])[of], np.array([20, 30])

    def worth() -> np.ndarray:
        found = shares(rates, wanted, gpus)
        assert (found.sum(axis=1) <= 1 + 1e-9).all()
        assert (wanted @ found <= gpus + 1e-6).all()
        for kind in range(6):
            assert np.unique(found[of == kind], axis=0).shape[0] == 1 or gavel.MANY > 60
        return (found * rates).sum(axis=1) * wanted / (rates @ gpus / gpus.sum())

    alone = worth()
    monkeypatch.setattr(gavel, "MANY", 59)
    together = worth()
    assert together.min() == pytest.approx(alone.min(), rel=1e-8)
    assert together.sum() == pytest.approx(alone.sum(), rel=1e-8)


def test_shares_by_hand() -> None:
    """Half of each type is worth 0.75 / 0.75 = 1 to one job, and 0.55 / 0.55 = 1 to the other."""
    found = shares(np.array([[1.0, 0.5], [1.0, 0.1]]), np.array([1, 1]), np.array([1, 1]))
    assert found == pytest.approx(np.full((2, 2), 0.5))


@settings(max_examples=100, deadline=None)
@given(demands(), st.randoms(use_true_random=False))
def test_who_comes_first_gets_the_fastest_type_with_room(
    case: tuple[np.ndarray, np.ndarray, np.ndarray], rnd: random.Random
) -> None:
    rates, wanted, gpus = case
    order = rnd.sample(range(len(wanted)), len(wanted))
    found = first_come(rates, wanted, gpus, np.array(order))
    for place, job in enumerate(order):
        left = gpus - wanted[order[:place]] @ found[order[:place]]
        open_to = [kind for kind in range(len(gpus)) if left[kind] >= wanted[job] and rates[job, kind] > 0]
        best = max(open_to, key=lambda kind: (rates[job, kind], -kind), default=None)
        assert np.flatnonzero(found[job]).tolist() == ([] if best is None else [best])
    assert set(found.ravel()) <= {0.0, 1.0}


def test_first_come_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """No solver is needed. Four V100s are a's until 100, then idle until 300: b keeps its T4s, c has no type.

    At 300 both get V100s. b has made 0.36 x 300 s of its 400 by then. With a higher priority c comes first,
    and a, of 4, waits for all V100s.
    """
    monkeypatch.setitem(sys.modules, "highspy", None)
    cluster = cluster_of(typed_servers((1, 4, "V100"), (1, 2, "T4")))
    jobs = jobs_of((0, 4, 100), (0, 2, 400), (0, 2, 1000))
    options: dict[str, Any] = {"round": 100.0, "renew": 300.0, "shares": "first-come"}
    found = times(jobs, cluster, "gavel", **options)
    assert found == {"a": (0.0, 100.0), "b": (0.0, pytest.approx(592.0)), "c": (300.0, 1300.0)}
    jobs = jobs.with_columns(priority=pl.Series([0, None, 1]))
    found = times(jobs, cluster, "gavel", **options)
    assert found == {"a": (1000.0, 1100.0), "b": (0.0, 400.0), "c": (0.0, 1000.0)}


@settings(max_examples=60, deadline=None)
@given(demands(), st.randoms(use_true_random=False))
def test_no_shares_have_a_fairer_greatest_finish(
    case: tuple[np.ndarray, np.ndarray, np.ndarray], rnd: random.Random
) -> None:
    """Beside a program that asks for the greatest multiple of what a fairness takes."""
    rates, wanted, gpus = case
    since, left = (np.array([rnd.uniform(least, 9.0) for _ in wanted]) for least in (0.0, 0.1))
    alone = left * [rnd.uniform(1.0, 3.0) for _ in wanted] + [rnd.uniform(0.0, 5.0) for _ in wanted]
    found = finish_time(rates, wanted, gpus, Finish(since, left, alone))
    assert (found >= 0).all()
    assert (found.sum(axis=1) <= 1 + 1e-6).all()
    assert (wanted @ found <= gpus + 1e-6).all()
    worth = rates / (rates @ gpus / gpus.sum())[:, None]
    able = worth.sum(axis=1) > 0
    fairness = ((since + left / (found * worth).sum(axis=1).clip(1e-12)) / alone)[able].max()
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
    found = finish_time(np.ones((3, 1)), np.array([1, 1, 1]), gpus, three)[:, 0]
    fairness = 0.5 / found[0]
    assert found == pytest.approx([0.5 / fairness, 0.5 / fairness, 10 / (30 * fairness - 30)])
    assert found.sum() == pytest.approx(1.0)


def test_what_is_left_over_goes_to_all() -> None:
    """It goes in proportion to the part of its time that each job has not got."""
    finish = Finish(np.array([0.0, 10.0]), np.array([10.0, 10.0]), np.array([20.0, 10.0]))
    # b is late whatever it gets: (10 + 10 / 1) / 10 = 2, at which a takes 10 / (2 x 20) = 1/4. 3/4 are left.
    assert finish_time(np.ones((2, 1)), np.array([1, 1]), np.array([2]), finish)[:, 0] == pytest.approx(
        [1.0, 1.0]
    )
    gang = finish_time(np.ones((2, 1)), np.array([2, 1]), np.array([2]), finish)[:, 0]
    assert gang == pytest.approx([0.25 + 0.75 * 0.5 / 1.5, 1.0])


@pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
@pytest.mark.parametrize("seed", range(8))
def test_the_slow_twin_of_finish_times(seed: int) -> None:
    rnd = random.Random(seed)
    rows = [(rnd.randint(0, 900), rnd.choice((1, 1, 2, 4, 8)), rnd.randint(50, 3000)) for _ in range(40)]
    jobs = jobs_of(*sorted(rows)).with_columns(job_id=pl.Series([f"j{row}" for row in range(40)]))
    given: dict[str, Any] = {"model": "fixed", "preempt_cost": 7.0}
    parameters = {"shares": "finish-time", "renew": 0.0, "round": 100.0}
    fast = ringbco.replay(jobs, "2x8", policy="gavel", parameters=parameters, **given)
    assert ringbco.audit(fast, jobs) == []
    slow = ringbco.replay(jobs, "2x8", policy=FinishTime(100.0), **given)
    assert_frame_equal(fast.jobs.drop("priority", strict=False), slow.jobs.drop("priority", strict=False))


def test_the_matching_has_as_many_as_gpus_are_idle() -> None:
    """Two GPUs, one idle. Of three that wait alpha takes one, the oldest, though the others are shorter."""
    jobs = jobs_of((0, 1, 100), (0, 1, 10), (1, 1, 50), (2, 1, 5), (3, 1, 6))
    assert times(jobs, "1x2", "allox", alpha=0.1)["c"] == (10.0, 60.0)
    assert times(jobs, "1x2", "allox", alpha=1.0)["c"] == (21.0, 71.0)


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
    found = matching(times, np.ones(len(times), np.int64), slots)
    total = sum(
        slots[slot].ready + times[job, slots[slot].kind] * position
        for job, (slot, position) in enumerate(found.tolist())
    )
    assert total == pytest.approx(least_sum(times, slots))
    for number, slot in enumerate(slots):
        positions = found[found[:, 0] == number, 1]
        assert (np.bincount(positions, minlength=1) <= slot.gpus).all()


def test_many_jobs_of_one_gpu_alone() -> None:
    """Four jobs may use one of four GPUs: it has more places than the GPUs need on average."""
    only = np.column_stack((np.arange(1.0, 5.0), np.full(4, math.inf)))
    found = matching(only, np.ones(4, np.int64), [Slot(0, 0.0, 1), Slot(1, 0.0, 3)])
    assert found.tolist() == [[0, 4], [0, 3], [0, 2], [0, 1]]


def test_the_first_of_each_gpu_starts() -> None:
    """Three on two idle GPUs: two are last, at position 1, and the other one is ahead of one of them."""
    found = np.array([[0, 1], [0, 2], [0, 1], [1, 1]])
    slots = [Slot(0, 0.0, 2), Slot(0, 5.0, 1)]
    assert firsts(found, slots, np.array([9.0, 1.0, 3.0, 1.0])) == [(1, 0), (2, 0)]


def jobs_of(*rows: tuple[float, int, float]) -> pl.DataFrame:
    """Jobs a, b, ... from (submit_time, num_gpus, duration)."""
    columns = [[float(row[0]) for row in rows], [row[1] for row in rows], [float(row[2]) for row in rows]]
    names = [chr(ord("a") + number) for number in range(len(rows))]
    return pl.DataFrame([names, *columns], ["job_id", "submit_time", "num_gpus", "duration"], orient="col")


def times(
    jobs: pl.DataFrame, cluster: Cluster | str, policy: str, **parameters: Any
) -> dict[str, tuple[float, float]]:
    """When each job started and finished; the audit has nothing to say."""
    outcome = ringbco.replay(
        jobs, cluster, policy=policy, parameters=parameters, model="fixed", preempt_cost=0.0
    )
    assert ringbco.audit(outcome, jobs) == []
    rows = outcome.jobs.select("job_id", "start_time", "finish_time").rows()
    return {job: (start, finish) for job, start, finish in rows}


def test_rounds_take_turns() -> None:
    two = jobs_of((0, 1, 300), (0, 1, 300))
    assert times(two, "1x1", "gavel", round=100.0) == {"a": (0.0, 500.0), "b": (100.0, 600.0)}


def test_a_gang_gets_less_time() -> None:
    """Of two GPUs b asks for both. Half of the time is worth as much to it as all the time to a."""
    found = shares(np.ones((2, 1)), np.array([1, 2]), np.array([2]))
    assert found[:, 0] == pytest.approx([1.0, 0.5])


def test_who_arrives_waits_for_its_share() -> None:
    jobs = jobs_of((0, 1, 1000), (10, 1, 100))
    given: dict[str, Any] = {"round": 100.0, "renew": 300.0}
    assert times(jobs, "1x2", "gavel", **given)["b"] == (300.0, 400.0)
    assert times(jobs, "1x2", "gavel", **given, newcomers=True)["b"] == (100.0, 200.0)


@pytest.mark.parametrize(("other", "begins"), [(150, 100.0), (80, 80.0)])
def test_a_round_lasts_as_long_as_one_of_its_jobs(other: float, begins: float) -> None:
    jobs = jobs_of((0, 1, 50), (0, 1, other), (60, 1, 10))
    assert times(jobs, "1x2", "gavel", round=100.0, newcomers=True)["c"][0] == begins


def test_a_gang_that_finds_no_room_goes_first_when_it_is_due(tmp_path: Path) -> None:
    """Gangs of 3 leave one GPU a server: b, of 2, would never run if the largest always went first."""
    jobs = jobs_of((0, 3, 4000), (0, 2, 100), (0, 3, 4000))
    assert times(jobs, "2x4", "gavel", round=100.0)["b"][1] < 1000.0


def test_allox_by_hand() -> None:
    """Shortest first on one GPU; nobody who runs is stopped for who arrives later."""
    jobs = jobs_of((0, 1, 30), (0, 1, 10), (5, 1, 1))
    assert times(jobs, "1x1", "allox") == {"a": (11.0, 41.0), "b": (0.0, 10.0), "c": (10.0, 11.0)}


def test_allox_waits_for_a_faster_gpu() -> None:
    """A T4 takes 100 / 0.36 = 278 s, a V100 that is busy for 10 s more 110 s."""
    cluster = cluster_of(typed_servers((1, 1, "V100"), (3, 2, "T4")))
    jobs = jobs_of((0, 1, 10), (0, 1, 100))
    assert times(jobs, cluster, "allox") == {"a": (0.0, 10.0), "b": (10.0, 110.0)}


@pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
@pytest.mark.parametrize("policy", ["gavel", "allox"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
@pytest.mark.parametrize("model", ["fixed", "rar"])
def test_both_on_types_that_jobs_choose(policy: str, clock: str, model: str) -> None:
    """Gangs, jobs of one type alone, pauses: the audit passes, and a second run is the same bytes."""
    cluster = cluster_of(TWO)
    frame = ringbco.generate("philly", 48, 3, gpus=64).frame.drop("vc", strict=False)
    sizes = pl.Series([1, 1, 2, 3, 4, 1, 6, 1] * 6, dtype=pl.UInt32)
    kinds = pl.Series([None, "V100", None, "T4", "V100|T4", "T4", None, "A100|T4"] * 6)
    jobs = ringbco.from_frame(
        frame.with_columns(
            num_gpus=sizes,
            gpu_type=kinds,
            duration=pl.col("duration") * 0.1237,
            submit_time=pl.col("submit_time") / 9,
        )
    )
    runs = [ringbco.replay(jobs, cluster, policy=policy, clock=clock, model=model) for _ in range(2)]
    assert ringbco.audit(runs[0], jobs) == []
    assert runs[0].jobs.height == 48
    assert runs[0].jobs.equals(runs[1].jobs)
    assert runs[0].allocations is not None
    assert runs[0].allocations.equals(runs[1].allocations)


@pytest.mark.parametrize("policy", ["gavel", "allox"])
def test_both_in_virtual_clusters(policy: str) -> None:
    """Each virtual cluster is shared out alone: as if the other were not there."""
    group = '[[servers]]\ncount = 1\ngpus = {}\nvc = "{}"\n'
    jobs = jobs_of(*((9.0 * row, 1 + row % 2, 100.0 + 7 * row) for row in range(20)))
    jobs = jobs.with_columns(vc=pl.Series(["x", "y", "y", "x"] * 5))
    together = times(jobs, cluster_of(group.format(2, "x") + group.format(4, "y")), policy)
    for name, cluster in (("x", "1x2"), ("y", "1x4")):
        mine = jobs.filter(pl.col("vc") == name)
        assert times(mine, cluster, policy) == {job: together[job] for job in mine["job_id"]}


def test_a_policy_by_name_is_repeated_by_name(invoke: Invoke, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    jobs_of((0, 1, 300), (0, 1, 300), (5, 2, 100)).write_csv("jobs.csv")
    ran = invoke("replay", "jobs.csv", "--cluster", "1x2", "--policy", "gavel", "-P", "round=100", "-o", "r")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(Path("r/summary.json").read_text())["policy"] == "gavel"
    again = invoke("replay", "--again", "r")
    assert (again.returncode, again.stderr) == (0, "")
    listed = {row["name"]: row for row in json.loads(invoke("policies", "--json").stdout)}
    assert listed["gavel"]["options"] == ["-P round", "-P renew", "-P newcomers", "-P shares"]
    assert [listed[name]["preemptive"] for name in ("gavel", "allox")] == [True, False]
    assert [listed[name]["clairvoyant"] for name in ("gavel", "allox")] == [False, True]


@pytest.mark.parametrize(
    ("policy", "given", "said"),
    [
        ("gavel", "round=0", "round: 0.0: expected a number of seconds > 0 and <= 1e+09"),
        ("gavel", "round=-360", "round: -360.0: expected a number of seconds > 0 and <= 1e+09"),
        ("gavel", "renew=1e99", "renew: 1e+99: expected a number of seconds >= 0 and <= 1e+09"),
        ("gavel", "renew=-1", "renew: -1.0: expected a number of seconds >= 0 and <= 1e+09"),
        ("gavel", "rounds=5", "rounds: expected one of round, renew, newcomers, shares; policy gavel"),
        ("gavel", "shares=fair", "shares: fair: expected one of max-min, finish-time, first-come"),
        ("allox", "alpha=0", "alpha: 0.0: expected a number > 0 and <= 1"),
        ("allox", "alpha=nan", "alpha: nan: expected a number"),
    ],
)
def test_odd_fields_are_refused(policy: str, given: str, said: str) -> None:
    name, value = given.split("=")
    with pytest.raises(UsageError) as error:
        ringbco.replay(jobs_of((0, 1, 1)), "1x1", policy=policy, parameters={name: value})
    assert str(error.value) == f"option P: {said}"


@pytest.mark.parametrize("policy", ["gavel", "allox"])
def test_without_the_extra_one_line_says_so(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(UsageError) as error:
        ringbco.replay(jobs_of((0, 1, 1)), "1x1", policy=policy)
    said = f"option policy: {policy}: the package highspy is not installed: pip install 'ringbco[lp]'"
    assert str(error.value) == said


def single60(folder: Path) -> tuple[pl.DataFrame, Path]:
    """Gavel's 60 jobs, and a cluster file with its 12 GPUs and its throughputs relative to a V100's."""
    if not PEERS.is_dir():
        pytest.skip(f"needs Gavel's own results in {PEERS}")
    with gzip.open(PEERS / "simulation_throughputs.json.gz", "rt") as file:
        table = json.load(file)
    rates: dict[str, dict[str, float]] = {kind: {} for kind in TYPES}
    for kind in TYPES:
        for key, row in table[kind].items():
            model, gpus = ast.literal_eval(key)
            if gpus == 1:
                rates[kind][model] = row["null"]
    with (PEERS / "single60.trace").open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    models = [row[0] for row in rows]
    jobs = pl.DataFrame(
        {
            "job_id": [str(number) for number in range(len(rows))],
            "submit_time": [float(row[9]) for row in rows],
            "num_gpus": [1] * len(rows),
            "model": models,
            "duration": [int(row[5]) / rates["v100"][row[0]] for row in rows],
        }
    )
    lines = [typed_servers((1, 4, kind)) for kind in TYPES]
    for kind in TYPES:
        lines.append(f"[gpu_types.{kind}]\nspeed = 1.0")
        for model in sorted(set(models)):
            lines.append(f'models."{model}" = {rates[kind][model] / rates["v100"][model]!r}')
    cluster = folder / "gavel.toml"
    cluster.write_text("\n".join(lines), encoding="utf-8")
    return jobs, cluster


@pytest.mark.parametrize(
    ("policy", "theirs", "ratio", "close"),
    [("gavel", "max_min_fairness_perf", 0.9955, 50), ("allox", "allox", 0.814, 10)],
)
def test_beside_gavels_own_simulator(
    policy: str, theirs: str, ratio: float, close: int, tmp_path: Path
) -> None:
    """docs/gavel.md has these figures, and says why allox is no copy of Gavel's."""
    jobs, cluster = single60(tmp_path)
    mine = times(jobs, str(cluster), policy)
    with (PEERS / f"single60-{theirs}_jct.csv").open(encoding="utf-8") as file:
        reference = {row["job"]: float(row["jct_s"]) for row in csv.DictReader(file)}
    jct = {row["job_id"]: mine[row["job_id"]][1] - row["submit_time"] for row in jobs.to_dicts()}
    assert jct.keys() == reference.keys()
    found = sum(jct.values()) / sum(reference.values())
    assert found == pytest.approx(ratio, abs=0.005)
    assert sum(abs(jct[job] / reference[job] - 1) < 0.05 for job in jct) >= close


def test_the_length_of_a_round_is_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """--round S is short for -P round=S, in `compare --run` too, and only policies of rounds take it."""
    monkeypatch.chdir(tmp_path)
    Path("two.toml").write_text(TWO)
    Path("jobs.csv").write_text(
        "job_id,submit_time,num_gpus,duration\na,0,4,900\nb,0,4,900\nc,0,8,900\nd,0,8,900\n"
    )
    run = ("replay", "jobs.csv", "--cluster", "two.toml", "--policy", "gavel", "--model", "fixed", "-q")
    for out, more in (("long", ("--round", "500")), ("same", ("-P", "round=500")), ("short", ())):
        assert invoke(*run, *more, "-o", out).returncode == 0
    told = {out: Path(out, "allocations.parquet").read_bytes() for out in ("long", "same", "short")}
    assert told["long"] == told["same"] != told["short"]
    twice = invoke(*run, "--round", "500", "-P", "round=360", "-o", "x")
    assert (twice.returncode, twice.stderr) == (
        2,
        "error: option P: round=500: expected NAME=VALUE, each name once\n",
    )
    other = invoke(*run[:5], "fifo", "--round", "500", "-o", "x")
    assert other.returncode == 2
    assert "option round: 500: expected none beside fifo: gavel and sia have rounds" in other.stderr
    runs = ("--run", "gavel --round 500", "--run", "fifo")
    both = ("compare", "jobs.csv", "--cluster", "two.toml", "--model", "fixed", *runs, "-o", "c", "-q")
    assert invoke(*both).returncode == 0
    (kept,) = Path("c").glob("gavel*/allocations.parquet")
    assert kept.read_bytes() == told["long"]
