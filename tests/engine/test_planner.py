"""The planner against the slow one, on random instances."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace

import numpy as np
import pytest

from core_run import CASES, Run
from reference.model import Job, Net, fewest_servers, iteration_time, iterations_per_slot
from reference.planner import Planned, PlanOptions, try_schedule, work_bound
from reference.planner import plan as slow_plan
from ringbco import _core

POLICIES = ("sjf-bco", "sjf-bco", "sjf-bco", "ff", "ls", "rand")
VARIANTS = ("practical", "literal")
BATCH = 100


def core_plan(
    jobs: list[Job], sizes: list[int], net: Net, options: PlanOptions, threads: int | None = None
) -> _core.PlanResult:
    given = {name.strip("_"): value for name, value in asdict(options).items()}
    return _core.plan(*columns(jobs, sizes, net), given, None, threads=threads)


def how_found(plan: _core.PlanResult) -> _core.PlanFound:
    """How the one plan was found."""
    (own,) = plan.found
    assert own is not None
    return own


def columns(jobs: list[Job], sizes: list[int], net: Net) -> tuple["_core._Jobs", "_core._Cluster"]:
    """The jobs, all there at time 0, and the cluster, as the engine takes them."""
    return {
        "submit": np.zeros(len(jobs)),
        "num_gpus": np.array([j.num_gpus for j in jobs], dtype=np.uint32),
        "duration": np.array([j.duration for j in jobs]),
        "iterations": np.array([j.iterations for j in jobs], dtype=np.uint64),
        "gradient_bytes": np.array([j.gradient_bytes for j in jobs]),
        "compute_time": np.array([j.compute_time for j in jobs]),
    }, {
        "server_gpus": np.array(sizes, dtype=np.uint32),
        "network": (net.intra, net.inter, net.reduce, net.xi1, net.xi2, net.alpha),
    }


def draw_instance(rnd: random.Random) -> tuple[list[Job], list[int], Net, PlanOptions]:
    """Up to ten jobs of a few slots on up to four servers; contention bites, and equal values abound."""
    sizes = [rnd.choice((1, 2, 2, 3, 4, 8)) for _ in range(rnd.randint(1, 4))]
    crowded = rnd.random() < 0.4  # gangs that span, several on a server
    if crowded:
        sizes = [rnd.choice((3, 4, 6, 8)) for _ in range(rnd.randint(2, 4))]
    if rnd.random() < 0.3:
        sizes = [sizes[0]] * len(sizes)
    ugly = rnd.random() < 0.4
    slot = rnd.choice((1.0, 1.0, 1.0, 0.5, 7.0))
    net = Net(
        intra=rnd.choice((64.0, 1024.0, 1.5)),
        inter=rnd.choice((1.0, 2.0, 8.0)),
        reduce=2.0**30,
        xi1=rnd.choice((0.5, 0.5, 1.0, 0.25)),
        xi2=rnd.choice((0.0, 0.0, 0.0078125)) * slot,
        alpha=rnd.choice((0.0, 0.3, 1.0)),
    )
    model = "fixed" if rnd.random() < 0.15 else "rar"
    jobs = []
    for _ in range(rnd.randint(1, 10)):
        gangs = (2, 3, 3, 4, 5, 5, 7) if crowded else (1, 1, 1, 2, 2, 3, 4, 5, 8, rnd.randint(1, sum(sizes)))
        gang = min(sum(sizes), rnd.choice(gangs))
        if model == "fixed":
            duration = rnd.uniform(0.1, 8) * slot if ugly else rnd.randint(1, 8) * slot
            jobs.append(Job(0.0, gang, duration=duration))
            continue
        compute = slot * (rnd.uniform(0.05, 0.4) if ugly else rnd.choice((0.0625, 0.125, 0.25)))
        share = rnd.choice((0.0, 0.0625, 0.125, 0.3, 0.5)) * (rnd.uniform(0.5, 1.2) if ugly else 1.0)
        gradient = slot * share * net.inter / 2.0
        job = Job(0.0, gang, 1.0, 1, gradient, compute)
        tau0 = iteration_time(job, fewest_servers(gang, sizes), 1, net)
        if iterations_per_slot(tau0, slot) == 0:
            job = Job(0.0, gang, 1.0, 1, 0.0, compute)
            tau0 = iteration_time(job, fewest_servers(gang, sizes), 1, net)
        length = rnd.randint(1, 12) if rnd.random() < 0.7 else 4
        jobs.append(Job(0.0, gang, 1.0, max(1, round(length * slot / tau0)), job.gradient_bytes, compute))
    options = PlanOptions(
        policy=rnd.choice(POLICIES),
        order=rnd.choice(("smallest", "smallest", "fifo")),
        dispatch=rnd.choice(("idle", "reserve")),
        variant=rnd.choice(("practical", "literal")),
        model=model,
        kappa=rnd.choice((None, None, None, 1, 2, 4, 9)),
        lambda_=rnd.choice((1.0, 1.0, 2.0, 4.0)),
        u=rnd.choice((1.0, 1.0, 1.5, 2.0)),
        horizon=rnd.choice((None, None, rnd.randint(1, 40), 64, 1000)),
        slot=slot,
        seed=rnd.choice((0, 1, 2**64 - 1)),
    )
    return jobs, sizes, net, options


def assert_equal(planned: _core.PlanResult, slow: Planned, options: PlanOptions) -> None:
    rows = range(len(slow.schedule.start))
    schedule, how = Run(planned.schedule), how_found(planned)
    start = [slow.schedule.start[row] * options.slot for row in rows]
    finish = [slow.schedule.finish[row] * options.slot for row in rows]
    assert schedule.finish.max() == slow.schedule.makespan * options.slot
    assert (how.theta, how.horizon) == (slow.theta, slow.horizon)
    assert how.kappa == (slow.kappa if options.policy == "sjf-bco" else None)
    assert schedule.start.tolist() == start
    assert schedule.finish.tolist() == finish
    assert how.w_max == slow.schedule.w_max
    assert how.work_bound == slow.work_bound
    columns = (schedule.alloc_job, schedule.alloc_server, schedule.alloc_gpus)
    allocated = sorted(zip(*(column.tolist() for column in columns), strict=True))
    given = {(row, s): 0 for row in rows for s, _ in slow.schedule.gpus[row]}
    for row in rows:
        for s, _ in slow.schedule.gpus[row]:
            given[row, s] += 1
    assert allocated == sorted((row, s, count) for (row, s), count in given.items())


@pytest.mark.parametrize("batch", range(4 * CASES // 3 // BATCH))
def test_equals_the_slow_planner(batch: int) -> None:
    planned = refused = 0
    for case in range(batch * BATCH, (batch + 1) * BATCH):
        jobs, sizes, net, options = draw_instance(random.Random(case))
        shown = f"case {case}: {jobs} on {sizes}, {net}, {options}"
        kind, got = core_try(jobs, sizes, net, options)
        if got is None:
            refused += 1
            # Where a job stalls for ever no horizon helps; a long one stands for all of them.
            horizon = options.horizon if kind == "no-schedule" else 500
            assert slow_plan(jobs, sizes, net, replace(options, horizon=horizon)) is None, shown
            continue
        slow = slow_plan(jobs, sizes, net, options)
        assert slow is not None, shown
        try:
            assert_equal(got, slow, options)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{shown}") from None
        planned += 1
    assert planned > 0.6 * BATCH
    assert refused > 0


def core_try(
    jobs: list[Job], sizes: list[int], net: Net, options: PlanOptions
) -> tuple[str, _core.PlanResult | None]:
    try:
        return "planned", core_plan(jobs, sizes, net, options)
    except _core.CoreError as error:
        return error.kind, None


def test_the_kinds_of_instances_that_the_comparison_needs_are_among_them() -> None:
    seen: Counter[object] = Counter()
    for case in range(600):
        jobs, sizes, net, options = draw_instance(random.Random(case))
        kind, got = core_try(jobs, sizes, net, options)
        seen[kind] += 1
        if got is None:
            continue
        seen[options.policy, options.dispatch, options.variant] += 1
        seen["contended"] += int(Run(got.schedule).max_contention.max() > 1)
        seen["waited"] += int(Run(got.schedule).start.max() > 0)
        how = how_found(got)
        seen["tight"] += int(how.theta * options.slot < 1.1 * how.w_max)
        seen["taken from a neighbouring theta"] += int(how.schedules_known > 0)
        if how.kappa is not None and options.kappa is None:
            seen["kappa 1" if how.kappa == 1 else "kappa above"] += 1
    for policy, dispatch, variant in itertools.product(set(POLICIES), ("idle", "reserve"), VARIANTS):
        assert seen[policy, dispatch, variant] >= 10, (policy, dispatch, variant)
    for kind, least in (
        *(("planned", 400), ("no-schedule", 30), ("stuck", 1), ("contended", 60), ("waited", 200)),
        *(("tight", 30), ("taken from a neighbouring theta", 200), ("kappa 1", 30), ("kappa above", 15)),
    ):
        assert seen[kind] >= least, kind


def test_kappas_between_two_sizes_give_the_same_schedules() -> None:
    differing = 0
    for case in range(60):
        jobs, sizes, net, options = draw_instance(random.Random(case))
        options = replace(options, policy="sjf-bco")
        distinct = sorted({1, *(job.num_gpus for job in jobs)})
        longest = math.ceil(2 * work_bound(jobs, sizes, net, options) / options.slot)
        for theta in (longest // 2, longest):
            under = {}
            for kappa in range(1, max(distinct) + 2):
                schedule = try_schedule(theta, kappa, jobs, sizes, net, options)
                under[kappa] = schedule and (schedule.start, schedule.finish, schedule.gpus)
                assert under[kappa] == under[max(size for size in distinct if size <= kappa)]
            differing += int(any(under[kappa] != under[1] for kappa in under))
    assert differing > 10


def test_threads_do_not_matter() -> None:
    for case in range(40):
        jobs, sizes, net, options = draw_instance(random.Random(10_000 + case))
        options = replace(options, kappa=None, horizon=None, policy="sjf-bco")
        kind, alone = core_try(jobs, sizes, net, options)
        if alone is None:
            assert kind == "stuck"
            continue
        for threads in (1, 2, 5):
            other = core_plan(jobs, sizes, net, options, threads)
            ours, theirs = how_found(other), how_found(alone)
            assert (ours.theta, ours.kappa, ours.w_max) == (theirs.theta, theirs.kappa, theirs.w_max)
            assert Run(other.schedule).start.tolist() == Run(alone.schedule).start.tolist()
            assert Run(other.schedule).finish.tolist() == Run(alone.schedule).finish.tolist()
            assert Run(other.schedule).alloc_server.tolist() == Run(alone.schedule).alloc_server.tolist()


def test_worked_example() -> None:
    """Worked by hand: two servers of two GPUs; d spans both once c is done."""
    jobs = [
        Job(0.0, 1, 1.0, 4, 0.0, 0.5),  # a: 2 slots
        Job(0.0, 1, 1.0, 8, 0.0, 0.5),  # b: 4 slots
        Job(0.0, 2, 1.0, 6, 0.0, 0.5),  # c: 3 slots
        # d: x = 0.8, 0.25 s an iteration on one server, 0.45 s over two: 2 a slot.
        Job(0.0, 3, 1.0, 6, 1.2, 0.05),
    ]
    net = Net(intra=8.0, inter=4.0, reduce=2.0**60, xi1=0.5, xi2=0.0, alpha=0.3)
    got = core_plan(jobs, [2, 2], net, PlanOptions())
    how = how_found(got)
    assert how.work_bound == pytest.approx((2 + 4 + 6 + 3 * 1.5) / 4)
    assert (how.horizon, how.theta, how.kappa) == (9, 5, 1)
    assert how.w_max == pytest.approx(4.5)
    assert Run(got.schedule).start.tolist() == [0, 0, 0, 3]
    assert Run(got.schedule).finish.tolist() == [2, 4, 3, 6]
    assert Run(got.schedule).alloc_server.tolist() == [0, 0, 1, 0, 1]
    assert Run(got.schedule).alloc_gpus.tolist() == [1, 1, 2, 1, 2]
    # theta = 5 is tried first, then 2, 3 and 4, under which nobody would take b or d.
    assert how.thetas == 4


def test_a_virtual_cluster_is_planned_by_itself() -> None:
    """Jobs and servers of several, mixed: to each what it gets alone, also where one of them has no jobs."""
    planned = 0
    for case in range(200):
        rnd = random.Random(20_000 + case)
        drawn = [draw_instance(rnd) for _ in range(rnd.randint(2, 3))]
        net, options = drawn[0][2], drawn[0][3]
        parts = [(rnd.choice((jobs, jobs, jobs, [])), sizes) for jobs, sizes, _, _ in drawn]
        alone = [core_try(jobs, sizes, net, options) if jobs else ("empty", None) for jobs, sizes in parts]
        rows = [(vc, job) for vc, (jobs, _) in enumerate(parts) for job in range(len(jobs))]
        servers = [(vc, server) for vc, (_, sizes) in enumerate(parts) for server in range(len(sizes))]
        rnd.shuffle(rows)
        rnd.shuffle(servers)
        # Inside a virtual cluster jobs and servers keep their order, which breaks ties.
        rows = [(vc, sorted(j for v, j in rows if v == vc)[n]) for vc, n in counted(vc for vc, _ in rows)]
        servers = [
            (vc, sorted(s for v, s in servers if v == vc)[n]) for vc, n in counted(vc for vc, _ in servers)
        ]
        table, cluster = columns(
            [parts[vc][0][j] for vc, j in rows], [parts[vc][1][s] for vc, s in servers], net
        )
        table["vc"] = np.array([vc for vc, _ in rows], dtype=np.uint32)
        cluster["server_vc"] = np.array([vc for vc, _ in servers], dtype=np.uint32)
        given = {name.strip("_"): value for name, value in asdict(options).items()}
        kinds = {kind for kind, _ in alone}
        if wrong := kinds - {"planned", "empty"} or ({"no-jobs"} if kinds == {"empty"} else set()):
            with pytest.raises(_core.CoreError) as raised:
                _core.plan(table, cluster, given, None)
            assert raised.value.kind in wrong
            continue
        got = _core.plan(table, cluster, given, None)
        planned += 1
        together = Run(got.schedule)
        for vc, ((_, own), how) in enumerate(zip(alone, got.found, strict=True)):
            if own is None:
                assert how is None
                continue
            theirs, expected = Run(own.schedule), how_found(own)
            assert how is not None
            for name in ("theta", "kappa", "horizon", "w_max", "work_bound", "thetas", "schedules"):
                assert getattr(how, name) == getattr(expected, name)
            mine = [row for row, (v, _) in enumerate(rows) if v == vc]
            assert together.start[mine].tolist() == theirs.start.tolist()
            assert together.finish[mine].tolist() == theirs.finish.tolist()
            held = [
                (rows[row][1], servers[server][1], gpus)
                for row, server, gpus in zip(
                    together.alloc_job.tolist(),
                    together.alloc_server.tolist(),
                    together.alloc_gpus.tolist(),
                    strict=True,
                )
                if rows[row][0] == vc
            ]
            expected_rows = (
                theirs.alloc_job.tolist(),
                theirs.alloc_server.tolist(),
                theirs.alloc_gpus.tolist(),
            )
            assert held == list(zip(*expected_rows, strict=True))
    assert planned > 60


def counted(values: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Each value, and how often it came before."""
    seen: Counter[int] = Counter()
    for value in values:
        yield value, seen[value]
        seen[value] += 1


def test_a_loose_theta_is_the_online_engine() -> None:
    """RAND under a horizon that excludes nobody: the replay with every submission at 0."""
    for case in range(40):
        jobs, sizes, net, options = draw_instance(random.Random(20_000 + case))
        options = replace(options, policy="rand", order="smallest", dispatch="idle", horizon=100_000, u=1.0)
        kind, got = core_try(jobs, sizes, net, options)
        if got is None:
            assert kind == "stuck"
            continue
        replayed = core_replay(jobs, sizes, net, options)
        assert Run(got.schedule).start.tolist() == replayed.start.tolist()
        assert Run(got.schedule).finish.tolist() == replayed.finish.tolist()
        assert Run(got.schedule).max_contention.tolist() == replayed.max_contention.tolist()
        assert Run(got.schedule).alloc_server.tolist() == replayed.alloc_server.tolist()
        assert Run(got.schedule).contention_seconds == pytest.approx(replayed.contention_seconds)
        for name in ("running", "queued", "busy_gpus", "spanning", "mean_contention"):
            assert getattr(Run(got.schedule), name).tolist() == getattr(replayed, name).tolist(), name


def core_replay(jobs: list[Job], sizes: list[int], net: Net, options: PlanOptions) -> Run:
    given = {name: getattr(options, name) for name in ("order", "model", "slot", "seed")}
    given |= {"placement": "random", "queue": "strict", "clock": "slot"}
    return Run(_core.replay(*columns(jobs, sizes, net), given, None))
