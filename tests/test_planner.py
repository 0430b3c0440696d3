"""The planner against the slow one, on random instances."""

import math
import random

import numpy as np
import pytest
from oracle.model import Job, Net, fewest_servers, iteration_time, iterations_per_slot
from oracle.planner import Planned, PlanOptions
from oracle.planner import plan as slow_plan

from ringbco import _core

POLICIES = ("sjf-bco", "sjf-bco", "sjf-bco", "ff", "ls", "rand")
CASES = 2400
BATCH = 100


def core_plan(
    jobs: list[Job], sizes: list[int], net: Net, options: PlanOptions, threads: int | None = None
) -> _core.PlanResult:
    return _core.plan(
        num_gpus=np.array([j.num_gpus for j in jobs], dtype=np.uint32),
        duration=np.array([j.duration for j in jobs]),
        iterations=np.array([j.iterations for j in jobs], dtype=np.uint64),
        gradient_bytes=np.array([j.gradient_bytes for j in jobs]),
        compute_time=np.array([j.compute_time for j in jobs]),
        server_gpus=np.array(sizes, dtype=np.uint32),
        network=(net.intra, net.inter, net.reduce, net.xi1, net.xi2, net.alpha),
        policy=options.policy,
        order=options.order,
        dispatch=options.dispatch,
        variant=options.variant,
        model=options.model,
        kappa=options.kappa,
        lambda_=options.lambda_,
        u=options.u,
        horizon=options.horizon,
        slot=options.slot,
        seed=options.seed,
        oversize="error",
        sample=None,
        threads=threads,
        progress=None,
    )


def draw_instance(rnd: random.Random) -> tuple[list[Job], list[int], Net, PlanOptions]:
    """Up to ten jobs of a few slots on up to four servers; contention bites, and equal values abound."""
    sizes = [rnd.choice((1, 2, 2, 3, 4, 8)) for _ in range(rnd.randint(1, 4))]
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
        gang = min(sum(sizes), rnd.choice((1, 1, 1, 2, 2, 3, 4, 5, 8, rnd.randint(1, sum(sizes)))))
        if model == "fixed":
            duration = rnd.uniform(0.1, 8) * slot if ugly else rnd.randint(1, 8) * slot
            jobs.append(Job(0.0, gang, duration=duration))
            continue
        compute = slot * (rnd.uniform(0.05, 0.4) if ugly else rnd.choice((0.0625, 0.125, 0.25)))
        share = rnd.choice((0.0, 0.0625, 0.125, 0.3)) * (rnd.uniform(0.5, 1.2) if ugly else 1.0)
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
    schedule = planned.schedule
    start = [slow.schedule.start[row] * options.slot for row in rows]
    finish = [slow.schedule.finish[row] * options.slot for row in rows]
    assert schedule.finish.max() == slow.schedule.makespan * options.slot
    assert (planned.theta, planned.horizon) == (slow.theta, slow.horizon)
    assert planned.kappa == (slow.kappa if options.policy == "sjf-bco" else None)
    assert schedule.start.tolist() == start
    assert schedule.finish.tolist() == finish
    assert planned.w_max == slow.schedule.w_max
    assert planned.work_bound == slow.work_bound
    stretches = sorted(zip(schedule.alloc_job.tolist(), schedule.alloc_server.tolist(), schedule.alloc_gpus.tolist()))
    given = {(row, s): 0 for row in rows for s, _ in slow.schedule.gpus[row]}
    for row in rows:
        for s, _ in slow.schedule.gpus[row]:
            given[row, s] += 1
    assert stretches == sorted((row, s, count) for (row, s), count in given.items())


@pytest.mark.parametrize("batch", range(CASES // BATCH))
def test_equals_the_slow_planner(batch: int) -> None:
    planned = refused = 0
    for case in range(batch * BATCH, (batch + 1) * BATCH):
        jobs, sizes, net, options = draw_instance(random.Random(case))
        shown = f"case {case}: {jobs} on {sizes}, {net}, {options}"
        try:
            got = core_plan(jobs, sizes, net, options)
        except _core.CoreError as error:
            if error.kind == "no-schedule":
                assert slow_plan(jobs, sizes, net, options) is None, shown
                refused += 1
            else:
                assert error.kind == "stuck", shown
            continue
        slow = slow_plan(jobs, sizes, net, options)
        assert slow is not None, shown
        try:
            assert_equal(got, slow, options)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{shown}") from None
        planned += 1
    assert planned > 0.7 * BATCH
    assert refused > 0
