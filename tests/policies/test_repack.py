"""The policy repack: against a model made from docs/repack-reference.md, by hand, and on public traces."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import Invoke
from core_run import CASES, LONG
from reference import Options
from reference.predictions import Predictions
from reference.repack_custom import Repack
from ringbco.audits import check_outcome
from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster, ServerGroup
from ringbco.errors import InputError, UsageError
from ringbco.result.outcome import Outcome
from ringbco.trace.jobs import JobTable, from_frame
from ringbco.trace.profiles import resolve
from strategies import CLOCKS, MODELS, PLACEMENTS, build_case

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

EACH = CASES * 3 // 10 if LONG else 24
"""Random cases of each kind, with known and with predicted run times."""
WHOLE = CASES >= 1000
"""Whether there is time for whole public traces with predictions."""
Problem = tuple[JobTable, Cluster, dict[str, Any]]


# The reference model


def tiny(rnd: random.Random, model: str, clock: str) -> Problem:
    """As the other reference models have them: a dozen jobs, odd servers and networks, coinciding times."""
    case = build_case(
        rnd,
        Options("fifo", "strict", "consolidate", model, clock),
        vcs=rnd.random() < 0.15,
        oversize=rnd.random() < 0.1,
    )
    vcs = case.server_vc
    groups = [
        ServerGroup(1, gpus, vc=None if vcs is None else f"v{vcs[at]}")
        for at, gpus in enumerate(case.servers)
    ]
    columns: dict[str, list[Any]] = {
        "job_id": [f"j{row}" for row in range(len(case.jobs))],
        "submit_time": [job.submit for job in case.jobs],
        "num_gpus": [job.num_gpus for job in case.jobs],
        "duration": [job.duration for job in case.jobs],
    }
    if model == "rar":
        columns["iterations"] = [job.iterations for job in case.jobs]
        columns["gradient_bytes"] = [job.gradient_bytes for job in case.jobs]
        columns["bp_time"] = [job.compute_time for job in case.jobs]
    if vcs is not None:
        columns["vc"] = [f"v{job.vc}" for job in case.jobs]
    slot = case.options.slot
    options = {
        "slot": slot,
        "oversize": case.options.oversize,
        "preempt_cost": slot * rnd.choice((0.0, 0.0, 0.25, 0.5, 1.0, 2.0, rnd.uniform(0.0, 3.0))),
    }
    return (
        from_frame(pl.DataFrame(columns)),
        Cluster.from_groups(groups, Network(*astuple(case.net)[:6])),
        options,
    )


def crowded(rnd: random.Random, model: str, clock: str) -> Problem:
    """Up to 40 jobs, short and long ones, on servers that hold several: much is moved and evicted."""
    sizes = rnd.choice(((8,), (4,), (4, 8), (1, 2, 4, 8), tuple(range(1, 9))))
    servers = [rnd.choice(sizes) for _ in range(rnd.randint(1, 6))]
    split = rnd.random() < 0.15
    names = [rnd.choice("ab") if split else None for _ in servers]
    gap, gangs, whole = rnd.choice((1, 3, 10)), rnd.random() < 0.5, rnd.random() < 0.6
    at = 0.0
    rows = []
    for number in range(rnd.randint(3, 40)):
        if rnd.random() < 0.7:
            at += 10.0 * rnd.randint(0, gap) if whole else rnd.uniform(0.0, 10.0 * gap)
        vc = rnd.choice(names)
        own = [gpus for gpus, name in zip(servers, names, strict=True) if name == vc]
        wanted = [1, 1, 1, 2, 2, 3, 4, 4, 8, 8]
        wanted += [max(own) + rnd.randint(0, max(own)), rnd.randint(1, sum(own))] if gangs else []
        duration = rnd.choice((10, 20, 30, 40, 50)) if rnd.random() < 0.6 else rnd.choice((200, 500, 1500))
        seconds = float(duration) if whole else duration * rnd.uniform(0.1, 1.0)
        rows.append((f"j{number}", at, min(sum(own), rnd.choice(wanted)), seconds, vc))
    frame = pl.DataFrame(rows, schema=["job_id", "submit_time", "num_gpus", "duration", "vc"], orient="row")
    if not split:
        frame = frame.drop("vc")
    if model == "rar" and whole:
        frame = frame.with_columns(
            iterations=(4 * pl.col("duration")).cast(pl.UInt64),
            gradient_bytes=pl.Series([rnd.choice((0.0, 1e9)) for _ in rows]),
            bp_time=pl.lit(0.25),
        )
    network = Network(inter_bandwidth=rnd.choice((12.5e9, 1e9)), xi1=rnd.choice((0.25, 0.5, 1.0)))
    groups = [ServerGroup(1, gpus, vc=name) for gpus, name in zip(servers, names, strict=True)]
    options = {
        "slot": rnd.choice((0.5, 1.0, 5.0, 7.0, 10.0)),
        "oversize": "drop",
        "preempt_cost": rnd.choice((0.0, 1.0, 1.0, 5.0, 10.0, 30.0, rnd.uniform(0.0, 20.0))),
    }
    if rnd.random() < 0.3:
        options["placement"] = rnd.choice(PLACEMENTS)
    return from_frame(frame), Cluster.from_groups(groups, network), options


def hours(rnd: random.Random, model: str, clock: str) -> Problem:
    """Some 35 jobs of minutes and hours, mostly of users who ask for the like again: much waits for long."""
    servers = [rnd.choice((4, 8)) for _ in range(rnd.randint(1, 3))]
    split = rnd.random() < 0.2
    servers += [4] * split
    names = [None if not split else "b" if at == 0 else "a" for at in range(len(servers))]
    users = rnd.choice(((), ("ann", "bob", None), ("ann", "bob", "cyd", "dan", None)))
    usual = {user: (rnd.choice((600, 1800, 3600)), rnd.choice((1, 2, 4))) for user in users}
    at, load = 0.0, rnd.uniform(0.7, 1.2) * sum(servers)
    rows = []
    for number in range(rnd.randint(30, 40)):
        vc = rnd.choice(names)
        user = rnd.choice(users) if users else None
        mean, size = usual.get(user, (1800, 1))
        wanted = size if users and rnd.random() < 0.5 else rnd.choice((1, 1, 2, 2, 4, 8))
        own = sum(gpus for gpus, name in zip(servers, names, strict=True) if name == vc)
        seconds = mean * rnd.choice((0.1, 0.3, 1, 1, 1, 2, 6)) * rnd.choice((1.0, rnd.uniform(0.5, 1.5)))
        rows.append((f"j{number}", float(round(at)), min(own, wanted), float(round(seconds)), user, vc))
        if rnd.random() < 0.8:
            at += rnd.expovariate(1) * min(own, wanted) * seconds / load
    schema = ["job_id", "submit_time", "num_gpus", "duration", "user", "vc"]
    frame = pl.DataFrame(rows, schema=schema, orient="row", infer_schema_length=None)
    frame = frame.drop([] if users else ["user"], [] if split else ["vc"])
    network = Network(inter_bandwidth=rnd.choice((12.5e9, 1e9)))
    groups = [ServerGroup(1, gpus, vc=name) for gpus, name in zip(servers, names, strict=True)]
    options = {
        "slot": rnd.choice((60.0, 300.0)),
        "oversize": "drop",
        "preempt_cost": rnd.choice((30.0, 300.0, 900.0, 1800.0)),
    }
    if rnd.random() < 0.3:
        options["placement"] = rnd.choice(PLACEMENTS)
    return from_frame(frame), Cluster.from_groups(groups, network), options


TOLD = ("submit_time", "num_gpus", "user")
"""What predictions need of a job table."""


def reference(jobs: JobTable, cluster: Cluster, options: dict[str, Any], predict: str) -> Repack:
    workload = resolve(jobs, cluster, model=options.get("model", "rar"), seed=0)
    tau = np.ones(jobs.num_jobs) if options.get("model") == "fixed" else workload.tau0
    cost = options.get("preempt_cost", 30.0)
    if options.get("clock") == "slot":
        cost = math.ceil(cost / options["slot"]) * options["slot"]
    if predict == "exact":
        return Repack(tau, cost)
    table = [jobs.frame[name].to_list() if name in jobs.frame.columns else None for name in TOLD]
    predictions = Predictions(*table, workload.ideal_run_time.tolist())
    return Repack(tau, cost, predictions, options.get("tail", 0.5))


def agree(jobs: JobTable, cluster: Cluster, options: dict[str, Any], predict: str) -> Outcome:
    """The built-in policy's result, which is the reference model's bit by bit; the model protects nobody."""
    options = {"preempt_after": 0.0, **options}
    told = {name: value for name, value in options.items() if name != "tail"}
    built_in = ringbco.replay(jobs, cluster, policy="repack", predict=predict, decisions=True, **options)
    slow = ringbco.replay(jobs, cluster, policy=reference(jobs, cluster, options, predict), **told)
    columns = [name for name in built_in.jobs.columns if name in slow.jobs.columns]
    assert {"start_time", "finish_time", "preemptions"} < set(columns)
    assert slow.jobs.select(columns).equals(built_in.jobs.select(columns))
    assert slow.allocations is not None
    assert built_in.allocations is not None
    assert slow.allocations.equals(built_in.allocations)
    return built_in


def problem(make: Any, number: int) -> Problem:
    rnd = random.Random(f"repack {number}")
    settings = {"model": MODELS[number % 2], "clock": CLOCKS[number // 2 % 2]}
    jobs, cluster, options = make(rnd, **settings)
    options |= settings
    if settings["clock"] == "continuous":
        del options["slot"]
    return jobs, cluster, options


def sound(built_in: Outcome, jobs: JobTable, cluster: Cluster, options: dict[str, Any], folder: Path) -> None:
    """The audit finds nothing, neither in the result nor in what its log gives."""
    assert check_outcome(built_in, jobs).findings == []
    built_in.write(folder)
    log = f"log:{folder / 'decisions.parquet'}"
    # A log has no placement, so it does not drop who can be placed on no idle cluster.
    jobs = from_frame(jobs.frame.filter(pl.col("job_id").is_in(built_in.jobs["job_id"].to_list())))
    again = ringbco.replay(
        jobs, cluster, policy=log, **{k: v for k, v in options.items() if k != "placement"}
    )
    assert again.allocations is not None
    assert built_in.allocations is not None
    assert again.allocations.equals(built_in.allocations)
    assert check_outcome(again, jobs).findings == []


def changes(outcome: Outcome) -> Counter[str]:
    """How many stops of the log are moves: at the instant of a start of the same job; and how many evict."""
    assert outcome.decisions is not None
    stops = outcome.decisions.filter(verb="stop").select("time", "job_id")
    starts = outcome.decisions.filter(pl.col("verb") != "stop").select("time", "job_id").unique()
    moves = stops.join(starts, on=["time", "job_id"], how="semi").height
    moves += outcome.decisions.filter(verb="move").select("time", "job_id").n_unique()
    return Counter(moves=moves, evictions=stops.height)


def polled(outcome: Outcome, options: dict[str, Any]) -> int:
    """How many decisions fall on instants at which nobody arrives or completes."""
    assert outcome.decisions is not None
    slot = options.get("slot", 1e-9)
    seen = np.ceil(outcome.jobs["submit_time"].to_numpy() / slot) * slot
    events = np.concatenate([seen, outcome.jobs["finish_time"].to_numpy()])
    times = outcome.decisions["time"].unique().to_numpy()
    return int(sum(np.abs(events - time).min() > 1e-6 * max(time, 1.0) for time in times))


@pytest.mark.parametrize("predict", ["exact", "history"])
@pytest.mark.parametrize("make", [tiny, crowded])
def test_the_reference_decides_the_same(make: Any, predict: str, tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for number in range(EACH):
        try:
            jobs, cluster, options = problem(make, number)
            built_in = agree(jobs, cluster, options, predict)
        except InputError:  # no job fits, or an iteration does not fit in a slot
            continue
        seen += Counter(cases=1) + changes(built_in)
        if number % 10 == 0:
            sound(built_in, jobs, cluster, options, tmp_path / str(number))
    assert seen["cases"] > 0.9 * EACH
    assert seen["evictions"] > 0.5 * EACH, seen
    assert make is tiny or seen["moves"] > 0.5 * EACH, seen


@pytest.mark.parametrize("predict", ["exact", "history"])
def test_the_reference_looks_again_when_the_policy_does(predict: str, tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    count = max(EACH // 12, 3)
    for number in range(count):
        jobs, cluster, options = problem(hours, number)
        built_in = agree(jobs, cluster, options, predict)
        seen += Counter(cases=1, polled=polled(built_in, options))
        if number % 5 == 0:
            sound(built_in, jobs, cluster, options, tmp_path / str(number))
    assert seen["polled"] > (count if predict == "history" else 0), seen


PUBLIC = [
    ("philly/103959.csv", "8x8", slice(2000, 2400)),
    ("helios/venus_2vc_2020-09.csv", "32x8", slice(500)),
]
"""Trace, cluster, and which jobs if run times are predicted."""


@pytest.mark.parametrize("predict", ["exact", "history"])
@pytest.mark.parametrize(("trace", "cluster", "some"), PUBLIC, ids=["philly", "helios"])
def test_the_reference_decides_the_same_on_a_public_trace(
    trace: str, cluster: str, some: slice, predict: str, shared_traces: Path, tmp_path: Path
) -> None:
    jobs, servers = ringbco.read_jobs(shared_traces / trace), Cluster.parse(cluster)
    if predict == "history" and not WHOLE:
        jobs = from_frame(jobs.frame[some])
    built_in = agree(jobs, servers, {}, predict)
    assert changes(built_in)["evictions"] > 5
    sound(built_in, jobs, servers, {}, tmp_path / "r")


def test_the_reference_decides_the_same_where_gangs_take_most_of_a_cluster(
    shared_traces: Path, tmp_path: Path
) -> None:
    """Links are slow, so that long gangs of more than half of the GPUs wait for each other."""
    jobs = ringbco.read_jobs(shared_traces / "helios/venus_2vc_2020-09.csv")
    jobs = from_frame(jobs.frame[: None if WHOLE else 200])
    cluster = Cluster.parse("20x8").with_network(inter_bandwidth=1.25e9)
    built_in = agree(jobs, cluster, {}, "exact")
    assert changes(built_in)["evictions"] > 50
    sound(built_in, jobs, cluster, {}, tmp_path / "r")


# By hand


def by_hand(
    jobs: list[tuple[float, int, float]],
    cluster: str,
    predict: str = "exact",
    users: list[str] | None = None,
    **options: Any,
) -> Outcome:
    """Jobs a, b, ... of (submit_time, num_gpus, duration) under `fixed`; as the reference has it."""
    columns = ["submit_time", "num_gpus", "duration"]
    frame = pl.DataFrame(jobs, schema=columns, orient="row", strict=False)
    frame = frame.with_columns(job_id=pl.Series(list("abcdefgh"[: len(jobs)])))
    table = from_frame(frame if users is None else frame.with_columns(user=pl.Series(users)))
    return agree(table, Cluster.parse(cluster), {"model": "fixed", **options}, predict)


def stays(outcome: Outcome) -> dict[str, list[tuple[int, float, float]]]:
    """Each job's (server, start, end)."""
    assert outcome.allocations is not None
    result: dict[str, list[tuple[int, float, float]]] = {}
    rows = outcome.allocations.sort("start_time", "server")
    for job, *stay in rows.select("job_id", "server", "start_time", "end_time").iter_rows():
        result.setdefault(job, []).append((stay[0], stay[1], stay[2]))
    return result


def test_the_example_of_the_page() -> None:
    """A resident of 4 GPUs has 1,000 s left when 8 GPUs are wanted for 100 s."""
    outcome = by_hand([(0, 4, 1100), (100, 8, 100)], "1x8")
    assert stays(outcome) == {"a": [(0, 0.0, 100.0), (0, 200.0, 1230.0)], "b": [(0, 100.0, 200.0)]}


def test_a_job_moves_out_of_the_way() -> None:
    """Once b is done, one server has a and the other c. Either can move; the greater key does: c."""
    outcome = by_hand([(0, 2, 1000), (0, 2, 10), (0, 2, 2000), (20, 4, 100)], "2x4")
    assert stays(outcome) == {
        "a": [(0, 0.0, 1000.0)],
        "b": [(0, 0.0, 10.0)],
        "c": [(1, 0.0, 20.0), (0, 20.0, 2030.0)],
        "d": [(1, 20.0, 120.0)],
    }
    assert outcome.jobs["preemptions"].to_list() == [0, 0, 1, 0]


def test_a_gang_of_two_servers() -> None:
    """Server 1 is idle. Server 0 has d (1 GPU), server 2 has a (3 GPUs): either fits beside the other."""
    outcome = by_hand([(0, 3, 1000), (0, 1, 10), (0, 4, 10), (0, 1, 1000), (20, 8, 50)], "3x4")
    assert stays(outcome) == {
        "a": [(2, 0.0, 20.0), (0, 20.0, 1030.0)],
        "b": [(0, 0.0, 10.0)],
        "c": [(1, 0.0, 10.0)],
        "d": [(0, 0.0, 1000.0)],
        "e": [(1, 20.0, 70.0), (2, 20.0, 70.0)],
    }


def test_evicting_pays_more_if_others_wait() -> None:
    """c (8 GPUs, 60 s) could wait 70 s for b. Evicting a costs 30 + 60 s: too much for c alone."""
    residents = [(0.0, 8, 400.0), (0.0, 8, 170.0)]
    alone = by_hand([*residents, (100.0, 8, 60.0)], "2x8")
    assert stays(alone)["c"] == [(0, 170.0, 230.0)]
    assert alone.jobs["preemptions"].sum() == 0
    two = by_hand([*residents, (100.0, 8, 60.0), (100.0, 8, 5000.0)], "2x8")
    assert stays(two)["c"] == [(1, 100.0, 160.0)]
    assert stays(two)["a"] == [(1, 0.0, 100.0), (1, 160.0, 490.0)]


@pytest.mark.parametrize(("left", "begun"), [(230.0, 330.0), (231.0, 100.0)])
def test_who_has_little_more_to_do_stays(left: float, begun: float) -> None:
    """The page's example with other times: 4 x (left - 30) must be above 800."""
    assert stays(by_hand([(0, 4, 100 + left), (100, 8, 100)], "1x8"))["b"] == [(0, begun, begun + 100)]


@pytest.mark.parametrize(("predict", "begun"), [("exact", 2240.0), ("history", 2080.0)])
def test_the_example_of_urgent_jobs(predict: str, begun: float) -> None:
    jobs = [(0, 1, 3000), (0, 1, 3000), (2000, 2, 10)]
    assert by_hand(jobs, "1x2", predict, preempt_cost=990.0).jobs["start_time"][2] == begun


def test_urgent_jobs_spare_who_has_waited_as_long_for_its_run() -> None:
    """At 80 s c's strain is 16. b runs since a's end and has 80 / (run + 5): above 8 if that was at 76 s."""
    for first, begun in ((76.0, 140.0), (74.0, 80.0)):
        jobs = [(0.0, 4, first), (0.0, 4, 1000.0), (0.0, 4, 1000.0)]
        assert stays(by_hand(jobs, "1x4", "history"))["c"][0][1] == begun, first


def test_a_gang_counts_for_as_many_gpus_as_are_waited_for() -> None:
    """b asks for 1 GPU for 500 s. a has 4 and 400 s left, 370 but for a pause. With c 2 of them count."""
    first, second, third = (0.0, 4, 500.0), (100.0, 1, 500.0), (100.0, 1, 600.0)
    assert by_hand([first, second], "1x4").jobs["start_time"][1] == 500.0
    assert by_hand([first, second, third], "1x4").jobs["start_time"][1] == 100.0


@pytest.mark.parametrize(
    ("cluster", "others", "begun"), [("4x8", 0, 100.0), ("9x8", 5, 100.0), ("10x8", 6, 1100.0)]
)
def test_a_gang_of_a_third_or_more_counts_as_one_server(cluster: str, others: int, begun: float) -> None:
    """The last job asks for 24 GPUs for 700 s. The first has 16 GPUs and 1,000 s left: 16 x 970 is more than
    8 x 700, but less than 24 x 700."""
    jobs = [(0.0, 16, 1100.0)] + [(0.0, 8, 1100.0)] * others + [(100.0, 24, 700.0)]
    assert by_hand(jobs, cluster).jobs["start_time"].to_list()[-1] == begun


def test_a_short_wait_is_waited_out() -> None:
    """T is 59 s, less than two pauses: nobody is evicted. A second more and a is."""
    for left, begun in ((59.0, 159.0), (60.0, 100.0)):
        outcome = by_hand([(0, 8, 100 + left), (100, 1, 10), (100, 1, 10)], "1x8")
        assert stays(outcome)["b"][0][1] == begun


# By hand, with predictions


def test_the_example_of_predicting() -> None:
    """Half of the jobs run for 10 s, half for 1,000 s. c will, and d comes when c has run for so long.

    The new d has some 20 s to go. c has 10 s to go as long as it may be one of 10 s; then some 980 s. Then
    nobody looks until d is urgent.
    """
    for ran, begun in ((5.0, 2085.0), (9.0, 2089.0), (11.0, 2011.0), (20.0, 2020.0)):
        jobs = [(0.0, 1, 10.0), (100.0, 1, 1000.0), (2000.0, 1, 1000.0), (2000.0 + ran, 1, 10.0)]
        outcome = by_hand(jobs, "1x1", "history", preempt_cost=5.0)
        assert stays(outcome)["d"] == [(0, begun, begun + 10.0)], ran


def test_nothing_is_known_before_a_job_is_done() -> None:
    """All three have 0 s to go: fifo. If their run times are known, the shortest goes first."""
    jobs = [(0.0, 1, 20.0), (0.0, 1, 40.0), (0.0, 1, 10.0)]
    assert by_hand(jobs, "1x1", "history").jobs["start_time"].to_list() == [0.0, 20.0, 60.0]
    assert by_hand(jobs, "1x1", "exact").jobs["start_time"].to_list() == [10.0, 30.0, 0.0]


def test_a_job_that_has_run_longer_than_all_others_is_at_its_half() -> None:
    """c comes when b has run for 500 s. The bin of that begins at 1.08^80 = 472 s: so long c would wait."""
    jobs = [(0.0, 4, 10.0), (100.0, 4, 1000.0), (600.0, 4, 10.0)]
    for cost, begun in ((235.0, 600.0), (237.0, 680.0)):  # two pauses are shorter than that, or longer
        assert by_hand(jobs, "1x4", "history", preempt_cost=cost).jobs["start_time"][2] == begun


def test_a_users_latest_jobs_count_more() -> None:
    """Of ann's job and bob's, who was first, ann's goes ahead: bob's jobs ran longer."""
    jobs = [(0.0, 1, 10.0), (100.0, 1, 1000.0), (2000.0, 1, 10.0), (2001.0, 1, 10.0), (2002.0, 1, 10.0)]
    users = ["ann", "bob", "ann", "bob", "ann"]
    alike = by_hand(jobs, "1x1", "history")
    assert alike.jobs["start_time"].to_list()[3:] == [2010.0, 2020.0]
    named = by_hand(jobs, "1x1", "history", users)
    assert named.jobs["start_time"].to_list()[3:] == [2020.0, 2010.0]


def test_of_two_that_complete_at_once_the_later_submitted_is_the_later() -> None:
    """Ann's a (1,000 s) and b (10 s) end together, bob's c (10 s) before d (1,000 s): h goes before g."""
    jobs = [(0.0, 1, 1000.0), (990.0, 1, 10.0), (1001.0, 1, 10.0), (1020.0, 1, 1000.0)]
    jobs += [(3000.0, 1, 50.0), (3000.0, 1, 5000.0), (3001.0, 1, 10.0), (3002.0, 1, 10.0)]
    users = ["ann", "ann", "bob", "bob", "cyd", "cyd", "bob", "ann"]
    outcome = by_hand(jobs, "1x2", "history", users, preempt_cost=1e6)
    assert outcome.jobs["start_time"].to_list()[6:] == [3060.0, 3050.0]


# Options


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"order": "sjf"}, "order"),
        ({"queue": "easy"}, "queue"),
        ({"admission": True}, "repack ignores it"),
        ({"aging": 30.0}, "repack ignores it"),
        ({"preempt_cost": -1.0}, "preempt-cost"),
    ],
)
def test_options_that_cannot_be_meant(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        by_hand([(0, 1, 5)], "1x1", **given)


def test_options_that_it_does_not_use_are_told(invoke: Invoke, small_jobs: Path) -> None:
    more = ("--thresholds", "10", "--interval", "5", "--quantum", "5", "--move-cost", "5")
    run = invoke("replay", small_jobs, "--cluster", "2x8", "--policy", "repack", *more, "-o", "r")
    names = ("move-cost", "thresholds", "interval", "quantum")
    assert run.returncode == 0
    assert sorted(run.stderr.splitlines()) == sorted(f"note: option {n}: not used by repack" for n in names)
    assert "clairvoyant" not in run.stdout
    exact = ("--policy", "repack", "--predict", "exact")
    run = invoke("replay", small_jobs, "--cluster", "2x8", *exact, "-o", "e")
    assert run.stdout.endswith("clairvoyant, reading recorded run times: predict exact\n")
