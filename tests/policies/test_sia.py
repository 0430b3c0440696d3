"""sia: its program against every assignment there is, small cases by hand, random runs that are audited."""

from __future__ import annotations

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

import ringbco
from cases.case import by_hand
from cases.compare import agreed
from conftest import Invoke
from frames import cluster_of, typed_servers
from ringbco.cluster.spec import Cluster
from ringbco.errors import UsageError

pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")

from ringbco.policies.sia import Menu, Offer, Sia, assignment, sizes_of, worth

SPEEDS: Final = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 3.5, 7.0])

Program = tuple[np.ndarray, np.ndarray, np.ndarray, Menu, np.ndarray]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Rates of up to four jobs, some alike, on up to five configurations of two types; what each has now."""
    count = draw(st.integers(1, 5))
    pairs = st.tuples(st.integers(0, 1), st.sampled_from([1, 2, 3, 4]))
    pairs = draw(st.lists(pairs, min_size=count, max_size=count, unique=True).map(sorted))
    menu = Menu(np.array([kind for kind, _ in pairs]), np.array([size for _, size in pairs]))
    kinds = draw(st.lists(st.tuples(*[SPEEDS] * count), min_size=1, max_size=2))
    rates = np.array(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4)))
    now = [draw(st.sampled_from([-1, *np.flatnonzero(row)])) for row in rates]
    factor = st.one_of(st.just(0.0), st.floats(1e-9, 1.0))
    factors = draw(st.lists(factor, min_size=len(rates), max_size=len(rates)))
    return rates, np.array(now), np.array(factors), menu, np.array(draw(st.tuples(*[st.integers(0, 6)] * 2)))


def fits(choice: tuple[int, ...], menu: Menu, gpus: np.ndarray) -> bool:
    used = np.zeros(2)
    for one in choice:
        if one >= 0:
            used[menu.kinds[one]] += menu.sizes[one]
    return bool((used <= gpus).all())


def value(
    choice: tuple[int, ...], rates: np.ndarray, now: np.ndarray, factors: np.ndarray, p: float, price: float
) -> float:
    """The paper's objective, as a sum that is to be large: least is 1 for every job. docs/sia.md has it."""
    total = 0.0
    for job, one in enumerate(choice):
        if one < 0:
            total -= price
            continue
        r = factors[job] if now[job] >= 0 and one != now[job] else 1.0
        if rates[job, one] == 0 or r == 0:
            return -math.inf
        goodput = rates[job, one] / min(rate for rate in rates[job] if rate > 0)
        total += math.copysign(1.0, p) * (r * goodput) ** p
    return total


def compare(case: Program, p: float, price: float) -> None:
    """What is found is feasible, as good as the best of all assignments, and found again."""
    rates, now, factors, menu, gpus = case
    gains = worth(rates, np.ones(len(rates), np.int64), now, factors, power=p, incentive=price)
    result = assignment(gains, now, menu, gpus)
    assert fits(tuple(result), menu, gpus)
    choices = itertools.product(range(-1, menu.sizes.size), repeat=len(rates))
    best = max(value(one, rates, now, factors, p, price) for one in choices if fits(one, menu, gpus))
    assert value(tuple(result), rates, now, factors, p, price) == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert assignment(gains, now, menu, gpus).tobytes() == result.tobytes()


POWERS: Final = st.sampled_from([-1.0, -0.5, 0.5, 1.0])
PRICES: Final = st.sampled_from([1.1, 1.5, 3.0])


@settings(max_examples=25, deadline=None)
@given(programs(), POWERS, PRICES)
def test_an_assignment_is_the_best_of_all(case: Program, p: float, price: float) -> None:
    compare(case, p, price)


@pytest.mark.long
@settings(max_examples=600, deadline=None)
@given(programs(), POWERS, PRICES)
def test_more_assignments_are_the_best_of_all(case: Program, p: float, price: float) -> None:
    compare(case, p, price)


def most(units: np.ndarray, menu: Menu, gpus: np.ndarray) -> int:
    """The greatest sum of whole gains, by a table over the GPUs of two types that are left to later jobs."""
    best = np.zeros(gpus + 1, np.int64)
    for row in units:
        better = best.copy()
        for gain, kind, size in zip(row, *menu, strict=True):
            there = best[size:] if kind == 0 else best[:, size:]
            target = better[: len(there)] if kind == 0 else better[:, : there.shape[1]]
            np.maximum(target, there + gain, out=target)
        best = better
    return int(best[0, 0])


@pytest.mark.parametrize("seed", range(3))
def test_a_full_cluster_is_shared_out_to_the_unit(seed: int) -> None:
    """30 jobs, and gains that are whole numbers of units already: the sum is that of a dynamic program."""
    rng = np.random.default_rng(seed)
    menu = Menu(np.repeat([0, 1], 4), np.tile([1, 2, 4, 8], 2))
    gpus = np.array([16, 8])
    units = rng.integers(1, 1 << 30, (30, 8))
    units[0, 0] = (1 << 30) - 1  # so that a unit stays one
    units[10:20] = units[5]
    result = assignment(units * 2.0**-30, np.full(30, -1), menu, gpus)
    chosen = np.flatnonzero(result >= 0)
    assert units[chosen, result[chosen]].sum() == most(units, menu, gpus)


def test_goodput_by_hand() -> None:
    """min_gpus is 2, and the slowest is 3 a second there: 6 a second are worth 4. The other one restarts."""
    rates = np.array([[3.0, 6.0, 0.0]])
    asked = {"power": -0.5, "incentive": 1.1}
    here = worth(rates, np.array([2]), np.array([0]), np.array([0.64]), **asked)
    assert here[0].tolist() == pytest.approx([1.1 - 2**-0.5, 1.1 - (0.64 * 4) ** -0.5, -math.inf])
    fresh = worth(rates, np.array([2]), np.array([-1]), np.array([0.64]), **asked)
    assert fresh[0, 1] == pytest.approx(1.1 - 4**-0.5)
    more = worth(rates, np.array([2]), np.array([0]), np.array([0.64]), power=1.0, incentive=1.1)
    assert more[0].tolist() == pytest.approx([1.1 + 2, 1.1 + 2.56, -math.inf])


def test_two_jobs_on_two_types_by_hand() -> None:
    """a is 4 times as fast on the first type, b twice: 1/2 + 1 is less than 0.71 + 1, so a gets it."""
    rates = np.array([[4.0, 1.0], [2.0, 1.0]])
    menu, gpus = Menu(np.array([0, 1]), np.array([1, 1])), np.array([1, 1])
    fresh = np.array([-1, -1])
    gains = worth(rates, np.array([1, 1]), fresh, np.ones(2), power=-0.5, incentive=1.1)
    assert assignment(gains, fresh, menu, gpus).tolist() == [0, 1]
    # b runs there. Moving it by a factor of 0.9 costs 0.05, which is less than the 0.21 that are gained.
    now = np.array([-1, 0])
    gains = worth(rates, np.array([1, 1]), now, np.array([1.0, 0.9]), power=-0.5, incentive=1.1)
    assert assignment(gains, now, menu, gpus).tolist() == [0, 1]
    # By a factor of 0.6 it would cost 0.29, and b stays.
    dear = worth(rates, np.array([1, 1]), now, np.array([1.0, 0.6]), power=-0.5, incentive=3.0)
    assert assignment(dear, now, menu, gpus).tolist() == [1, 0]
    # With lambda = 1.1 it costs less to have b wait for the next round, in which no factor holds.
    gains = worth(rates, np.array([1, 1]), now, np.array([1.0, 0.6]), power=-0.5, incentive=1.1)
    assert assignment(gains, now, menu, gpus).tolist() == [0, -1]


def test_the_power_says_how_fair() -> None:
    """Eight GPUs: a on all of them has a goodput of 8; on four it has 4, and b has 1.

    8 > 4 + 1, but 2.8 < 2 + 1. An incentive counts for each job.
    """
    menu, gpus = Menu(np.array([0, 0]), np.array([4, 8])), np.array([8])
    rates, fresh = np.array([[4.0, 8.0], [0.5, 0.0]]), np.array([-1, -1])
    alone, both = [1, -1], [0, 0]
    for power, incentive, expected in (
        (1.0, 0.0, alone),
        (0.5, 0.0, both),
        (1.0, 5.0, both),
        (-0.5, 1.1, alone),  # 0.35 + 1.1 < 0.5 + 1
        (-0.5, 1.2, both),  # 0.35 + 1.2 > 0.5 + 1
    ):
        gains = worth(rates, np.array([4, 1]), fresh, np.ones(2), power=power, incentive=incentive)
        assert assignment(gains, fresh, menu, gpus).tolist() == expected


def test_ties_stay_and_then_go_to_the_first() -> None:
    menu, one = Menu(np.array([0]), np.array([1])), np.array([1])
    same = np.full((3, 1), 0.1)
    assert assignment(same, np.array([-1, -1, -1]), menu, one).tolist() == [0, -1, -1]
    assert assignment(same, np.array([-1, -1, 0]), menu, one).tolist() == [-1, -1, 0]


def test_configurations() -> None:
    """Powers of two on one server, the whole of it, and whole servers, the largest first."""
    assert sizes_of(np.array([8, 16, 24])) == [1, 2, 4, 8, 16, 24]
    assert sizes_of(np.array([6, 10])) == [1, 2, 4, 6, 10]


def elastic(*rows: tuple[float, int, int, int, float]) -> pl.DataFrame:
    """Jobs a, b, ... from (submit_time, min_gpus, num_gpus, max_gpus, duration)."""
    names = ["job_id", "submit_time", "min_gpus", "num_gpus", "max_gpus", "duration"]
    frame = pl.DataFrame([(chr(97 + at), *row) for at, row in enumerate(rows)], names, orient="row")
    return frame.with_columns(pl.col("submit_time", "duration").cast(pl.Float64))


def stays(jobs: pl.DataFrame, cluster: Cluster | str, **options: Any) -> dict[str, list[tuple[Any, ...]]]:
    """(start, end, GPUs) of each stay of each job; the audit has nothing to say."""
    outcome = ringbco.replay(
        jobs, cluster, policy="sia", **{"model": "fixed", "preempt_cost": 30.0, **options}
    )
    assert ringbco.audit(outcome, jobs) == []
    assert outcome.allocations is not None
    result: dict[str, list[tuple[Any, ...]]] = {}
    grouped = outcome.allocations.group_by("job_id", "start_time", "end_time").agg(pl.col("num_gpus").sum())
    for job, start, end, gpus in grouped.sort("job_id", "start_time").rows():
        result.setdefault(job, []).append((start, end, gpus))
    return result


def test_a_job_doubles_round_by_round() -> None:
    """From min_gpus, at most twice as many each round. At 60 s r = 60 / 90, and two GPUs are worth 4 / 3.

    At 120 s it has restarted once, and r = 90 / 150: four GPUs would be worth 2.4, which is more than 2.
    """
    result = stays(elastic((0, 1, 4, 8, 1000)), "1x8")
    assert [(start, gpus) for start, _, gpus in result["a"][:4]] == [(0, 1), (60, 2), (120, 4), (180, 8)]


def test_a_restart_that_costs_too_much_is_put_off() -> None:
    """With r = 60 / 160 two GPUs at 60 s are worth 0.75. At 120 s r is 120 / 220, and they are worth 1.09."""
    result = stays(elastic((0, 1, 2, 2, 1000)), "1x2", parameters={"restart": 100.0})
    assert [(start, gpus) for start, _, gpus in result["a"]] == [(0, 1), (120, 2)]
    never = stays(elastic((0, 1, 2, 2, 1000)), "1x2", parameters={"restart": 1e6})
    assert never["a"] == [(0.0, 2000.0, 1)]


def test_a_job_that_gains_nothing_by_more_does_not_grow() -> None:
    """With a noise scale of 0 four GPUs do as much as one: the goodput counts, not the samples."""
    jobs = elastic((0, 1, 4, 8, 400)).with_columns(noise_scale=0.0, batch_size=pl.lit(32, pl.UInt32))
    assert stays(jobs, "1x8")["a"] == [(0.0, 400.0, 1)]


def test_lambda_says_what_newcomers_are_worth() -> None:
    """a has four GPUs when three jobs of one arrive. At 300 s r is 240 / 330, so a on one GPU costs 1.17.

    With lambda = 1.1 it costs 0.5 + 3.3 to let them wait, and 1.17 + 3 not to. With lambda = 3 it is 9.5.
    """
    jobs = elastic((0, 1, 4, 4, 4000), *[(250, 1, 1, 1, 400)] * 3)
    result = stays(jobs, "1x4")
    assert [gpus for _, _, gpus in result["a"]] == [1, 2, 4]
    assert min(result[job][0][0] for job in "bcd") == result["a"][-1][1]
    result = stays(jobs, "1x4", parameters={"incentive": 3.0})
    assert [gpus for _, _, gpus in result["a"][:4]] == [1, 2, 4, 1]
    assert [result[job] for job in "bcd"] == [[(300.0, 700.0, 1)]] * 3


def test_rigid_jobs_choose_among_types() -> None:
    """Both are faster on V100s, a by a tenth and b by half. When b has ended, a moves there."""
    cluster = cluster_of(
        typed_servers((1, 4, "V100"), (2, 4, "T4")) + "[gpu_types.T4]\nspeed = 0.5\nmodels.slow = 0.9\n"
    )
    jobs = elastic((0, 4, 4, 4, 900), (0, 4, 4, 4, 900)).with_columns(model=pl.Series(["slow", "fast"]))
    result = stays(jobs, cluster)
    assert result == {"a": [(0.0, 900.0, 4), (900.0, 1020.0, 4)], "b": [(0.0, 900.0, 4)]}


def test_rigid_jobs_on_one_type_stay_and_arrivals_wait_for_the_round() -> None:
    """All gain alike: who runs goes on, and of those who wait the first is first."""
    jobs = elastic((0, 2, 2, 2, 100), (1, 2, 2, 2, 100), (61, 2, 2, 2, 50), (62, 2, 2, 2, 50))
    result = stays(jobs, "1x2")
    assert result["a"] == [(0.0, 100.0, 2)]
    assert result["b"] == [(100.0, 200.0, 2)]  # nobody ran any more: the round was over
    assert result["c"] == [(200.0, 250.0, 2)]
    assert result["d"] == [(250.0, 300.0, 2)]


def test_rounds_go_on_where_they_would_have_been() -> None:
    """From 60 s on nothing can change, and nothing is worked out. b arrives at 601 s and starts at 660 s."""
    result = stays(elastic((0, 1, 1, 1, 900), (601, 1, 1, 1, 10)), "1x2")
    assert result["b"] == [(660.0, 670.0, 1)]


def test_gpus_that_lie_apart_are_put_together() -> None:
    """d wants a server. a and b are on one half of each, and one of them makes room."""
    jobs = elastic((0, 2, 2, 2, 1000), (0, 2, 2, 2, 1000), (0, 2, 2, 2, 100), (110, 4, 4, 4, 100))
    result = stays(jobs, "2x4", placement="worst-fit")
    assert result["d"][0][0] == 120.0
    assert sorted(len(result[job]) for job in "ab") == [1, 2]


def test_who_finds_no_room_takes_fewer() -> None:
    """Two jobs of 3 leave one GPU on each server. c may have up to 2, which lie apart: it gets one."""
    jobs = elastic((0, 3, 3, 3, 1000), (0, 3, 3, 3, 1000), (0, 1, 2, 2, 1000))
    result = stays(jobs, "2x4")
    assert [gpus for _, _, gpus in result["c"]] == [1, 2]
    assert result["c"][1][0] >= 1000.0  # that is when a and b have ended
    wide = stays(jobs.with_columns(min_gpus=pl.Series([3, 3, 2])), "2x4")
    assert wide["c"][0][0] == 1000.0  # it may not: it waits


def test_settled_jobs_have_nothing_better() -> None:
    menu, places = Menu(np.array([0, 0]), np.array([1, 2])), {0: [(0, 1)]}
    both = np.array([[1.0, 2.0]])
    grown, level = np.ones((1, 2), bool), np.zeros(1, np.int64)
    assert not Offer(menu, both, np.array([0]), grown, places, level, level).settled()
    assert Offer(menu, both, np.array([1]), grown, places, level, level).settled()
    assert Offer(menu, np.array([[1.0, 0.0]]), np.array([0]), grown, places, level, level).settled()
    waits = np.array([[1.0, 2.0], [1.0, 0.0]])
    assert not Offer(menu, waits, np.array([1, -1]), grown, places, level, level).settled()


def drawn(seed: int) -> tuple[Cluster, pl.DataFrame, dict[str, Any]]:
    """A small cluster, jobs and options at random: types, virtual clusters, outages, tables, odd sizes."""
    draw = random.Random(seed)
    vcs, typed, table = draw.random() < 0.3, draw.random() < 0.6, draw.random() < 0.3
    text = []
    for group in range(draw.randint(2, 4)):
        kind = f'gpu_type = "{draw.choice(["V100", "T4", "A100"])}"\n' if typed else ""
        vc = f'vc = "{"xy"[group % 2]}"\n' if vcs else ""
        text.append(
            f"[[servers]]\ncount = {draw.randint(1, 3)}\ngpus = {draw.choice([1, 2, 3, 4, 6, 8])}\n{kind}{vc}"
        )
    cluster = cluster_of("".join(text))
    rows = []
    for _ in range(draw.randint(3, 14)):
        size = draw.choice([1, 1, 2, 3, 4, 5, 8])
        least, most = max(1, int(size * draw.choice([0.25, 0.5, 1]))), size * draw.choice([1, 2, 4])
        submit = draw.choice([draw.uniform(0, 600), float(draw.randint(0, 600))])
        rows.append((submit, least, size, most, draw.uniform(20, 1500)))
    jobs = elastic(*rows).with_columns(job_id=pl.Series([f"j{row}" for row in range(len(rows))]))
    if draw.random() < 0.3:
        jobs = jobs.drop("min_gpus", "max_gpus")
    if draw.random() < 0.4:
        jobs = jobs.with_columns(noise_scale=pl.Series([draw.choice([0.0, 3.5, None]) for _ in rows]))
    if vcs:
        jobs = jobs.with_columns(vc=pl.Series([draw.choice("xy") for _ in rows]))
    if typed and draw.random() < 0.5:
        jobs = jobs.with_columns(gpu_type=pl.Series([draw.choice([None, *cluster.types]) for _ in rows]))
    options: dict[str, Any] = {
        "model": draw.choice(["fixed", "rar"]),
        "clock": draw.choice(["continuous", "slot"]),
        "placement": draw.choice(["consolidate", "first-fit", "random", "sjf-bco", "worst-fit"]),
        "oversize": "drop",
        "parameters": {
            "round": draw.choice([20.0, 60.0, 100.5]),
            "power": draw.choice([-0.5, -1.0, 0.5, 1.0]),
            "restart": draw.choice([0.0, 30.0]),
        },
    }
    if options["clock"] == "slot":
        options["slot"] = draw.choice([1.0, 7.0, 60.0])
    if table:
        speeds = [(kind, size) for kind in cluster.types or ("V100",) for size in (1, 2, 4, 8, 16, 64)]
        options["tables"] = pl.DataFrame(
            {
                "model": ["m"] * len(speeds),
                "gpu_type": [kind for kind, _ in speeds],
                "gpus": [size for _, size in speeds],
                "servers": [1] * len(speeds),
                "rate": [len(kind) * size**0.8 for kind, size in speeds],
            }
        )
        options["model"] = "table"
        jobs = jobs.with_columns(model=pl.lit("m"))
    if draw.random() < 0.3:
        down = {"server": [0, cluster.num_servers - 1], "down_at": [100.0, 400.0], "up_at": [300.0, 900.0]}
        options["outages"] = pl.DataFrame(down)
    return cluster, jobs, options


def check(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit passes; a second run is the same; and so is one that holds every round."""
    cluster, jobs, options = drawn(seed)
    runs = [ringbco.replay(jobs, cluster, policy="sia", **options) for _ in range(2)]
    assert ringbco.audit(runs[0], jobs) == []
    with monkeypatch.context() as patched:
        patched.setattr(Offer, "settled", lambda self: False)
        runs.append(ringbco.replay(jobs, cluster, policy="sia", **options))
    for run in runs[1:]:
        assert runs[0].jobs.equals(run.jobs), seed
        assert runs[0].allocations is not None
        assert run.allocations is not None
        assert runs[0].allocations.equals(run.allocations), seed


@pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
@pytest.mark.parametrize("seed", range(1, 6))
def test_random_runs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(seed, monkeypatch)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
@pytest.mark.parametrize("block", range(4))
def test_more_random_runs(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(100 + 10 * block, 110 + 10 * block):
        check(seed, monkeypatch)


def test_each_virtual_cluster_is_shared_out_alone() -> None:
    group = '[[servers]]\ncount = 1\ngpus = {}\nvc = "{}"\n'
    cluster = cluster_of(group.format(2, "x") + group.format(4, "y"))
    jobs = elastic(*((9.0 * row, 1, 1 + row % 2, 2 + row % 3, 100.0 + 7 * row) for row in range(20)))
    jobs = jobs.with_columns(vc=pl.Series(["x", "y", "y", "x"] * 5))
    together = stays(jobs, cluster)
    for name, alone in (("x", "1x2"), ("y", "1x4")):
        mine = jobs.filter(pl.col("vc") == name)
        assert stays(mine, alone) == {job: together[job] for job in mine["job_id"]}


def test_all_servers_down() -> None:
    """Nothing can be given out. When a server comes back, the jobs start on it."""
    cluster = cluster_of("[[servers]]\ngpus = 2\ncount = 1\n[[servers]]\ngpus = 4\ncount = 1\n")
    outages = pl.DataFrame({"server": [0, 1], "down_at": [0.0, 0.0], "up_at": [500.0, 700.0]})
    jobs = elastic((10, 1, 1, 1, 100), (10, 2, 2, 2, 100), (10, 4, 4, 4, 100))
    result = stays(jobs, cluster, outages=outages)
    assert result["b"] == [(500.0, 600.0, 2)]
    assert result["c"][0][0] >= 700.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"round": "0"}, "round: 0.0: expected a number of seconds > 0 and <= 1e+09"),
        ({"power": "0"}, "power: 0.0: expected a number from -2 to 2 other than 0"),
        ({"power": "3"}, "power: 3.0: expected a number from -2 to 2 other than 0"),
        ({"power": "nan"}, "power: nan: expected a number"),
        (
            {"incentive": "1"},
            "incentive: 1.0: expected a number > 1 and <= 1000 where power < 0: else one GPU is worth none",
        ),
        ({"incentive": "-1", "power": "1"}, "incentive: -1.0: expected a number >= 0 and <= 1000"),
        ({"restart": "-5"}, "restart: -5.0: expected a number of seconds >= 0 and <= 1e+09"),
        ({"p": "1"}, "p: expected one of round, power, incentive, restart; policy sia"),
    ],
)
def test_odd_fields_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        ringbco.replay(elastic((0, 1, 1, 1, 1)), "1x1", policy="sia", parameters=given)
    assert str(error.value) == f"option P: {said}"


def test_odd_objects_are_refused() -> None:
    for fields in ({"power": True}, {"restart": "x"}, {"round": math.nan}, {"incentive": math.inf}):
        with pytest.raises(UsageError, match=r"^option P: "):
            Sia(**fields)  # type: ignore[arg-type]


def test_without_the_extra_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(UsageError) as error:
        ringbco.replay(elastic((0, 1, 1, 1, 1)), "1x1", policy="sia")
    said = "option policy: sia: the package highspy is not installed: pip install 'ringbco[lp]'"
    assert str(error.value) == said


def test_on_the_command_line(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, with --round and -P; and again as its run.toml says."""
    monkeypatch.chdir(tmp_path)
    elastic((0, 1, 2, 4, 300), (0, 1, 1, 1, 300), (5, 2, 2, 2, 100)).write_csv("jobs.csv")
    run = ("replay", "jobs.csv", "--cluster", "1x4", "--policy", "sia", "--model", "fixed")
    assert invoke(*run, "--round", "20", "-P", "power=-1", "-o", "r").returncode == 0
    assert json.loads(Path("r/summary.json").read_text())["policy"] == "sia"
    assert invoke(*run, "-P", "round=20", "-P", "power=-1", "-o", "same").returncode == 0
    assert invoke(*run, "-o", "other").returncode == 0
    told = {out: Path(out, "allocations.parquet").read_bytes() for out in ("r", "same", "other")}
    assert told["r"] == told["same"] != told["other"]
    again = invoke("replay", "--again", "r")
    assert (again.returncode, again.stderr) == (0, "")
    listed = {row["name"]: row for row in json.loads(invoke("policies", "--json").stdout)}["sia"]
    assert listed["options"] == ["-P round", "-P power", "-P incentive", "-P restart"]
    assert (listed["preemptive"], listed["clairvoyant"]) == (True, False)


@pytest.mark.parametrize("other", [1, 2])
def test_who_may_not_keep_its_number_changes_it_or_waits_for_a_round(other: int) -> None:
    """The second job may grow beyond the quota while the first is within it, and then not keep that."""
    rows = [(0.0, 3, 50.0, "a", 1), (10.0, 3, 70.0, "a", 1), (20.0, other, 70.0, None, 1)]
    quota = [{"user": "a", "gpus": 1, "borrow": True}]
    case = by_hand((8,), "submit_time num_gpus duration user min_gpus", rows, policy="sia", quota=quota)
    agreed(case)
    stays = case.replay().stays.filter(pl.col("job_id") == case.jobs[1]["job_id"])
    assert stays["num_gpus"].to_list() == [1, 2, 1]
