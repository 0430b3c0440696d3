"""The figures of services, worked out again on random cases from the oracle's replicas, stays and loads."""

import itertools
import math
import random
from collections.abc import Callable

import pytest

from core_run import FEW
from oracle import RefusedError, StuckError
from oracle_outages import Outage
from oracle_priorities import Claims, Log, Replica
from oracle_result import PreemptResult
from priority_cases import Problem, build_problem
from strategies import COMBINATIONS
from test_priorities_equality import replayed

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

Span = tuple[float, float]


def boundary(problem: Problem, time: float) -> float:
    """When what happens at a time counts."""
    options = problem.case.options
    return math.ceil(time / options.slot) * options.slot if options.clock == "slot" else time


def same(mine: float | None, true: float | None) -> bool:
    if mine is None or true is None:
        return mine is true
    return math.isclose(mine, true, rel_tol=1e-6, abs_tol=1e-6)


def integral(of: Callable[[float], float], times: set[float], run: Span) -> float:
    """Of what changes at those times only."""
    inside = sorted({*run, *(time for time in times if run[0] < time < run[1])})
    return sum(of(a) * (b - a) for a, b in itertools.pairwise(inside))


def waits(
    claims: Claims, service: str, replicas: list[Replica], loads: list[float], run: Span
) -> list[float]:
    """From the instant at which a replica was wanted to its start, of each that started in the run."""
    waiting: list[float] = []
    found = []
    times = {*loads, *(replica.start for replica in replicas), *(replica.end for replica in replicas)}
    for now in sorted(times):
        there = sum(replica.start < now < replica.end for replica in replicas)
        need = max(0, claims.wanted(service, now) - there)
        waiting = [*waiting, *[now] * (need - len(waiting))][:need]
        for replica in replicas:
            if replica.start == now:
                wanted = waiting.pop(0)
                if now >= run[0]:
                    found.append(now - wanted)
    return found


def lent(problem: Problem, truth: PreemptResult, run: Span) -> float:
    """GPU-seconds that jobs held beyond what is left if services keep their largest numbers."""
    claims, outages = problem.claims, problem.facts.outages
    largest = sum(
        claims.size(service) * max(load.replicas for load in claims.loads if load.service == service)
        for service in claims.services()
    )
    stays = [stay for rows in truth.allocations for stay in rows]
    times = {time for _, _, start, end in stays for time in (start, end)}
    down: list[Outage] = [(s, boundary(problem, a), boundary(problem, b)) for s, a, b in outages]
    times |= {time for _, a, b in down for time in (a, b)}

    def now(time: float) -> float:
        held = sum(gpus for _, gpus, start, end in stays if start <= time < end)
        off = {server for server, a, b in down if a <= time < b}
        up = sum(size for server, size in enumerate(problem.case.servers) if server not in off)
        return max(0, held - max(0, up - largest))

    return integral(now, times, run)


def check(problem: Problem, truth: PreemptResult, log: Log) -> None:
    claims = problem.claims
    loads = tuple(
        (load.service, boundary(problem, load.time), load.time, load.replicas) for load in claims.loads
    )
    summary = replayed(problem).summary
    jobs = [row for row, keep in enumerate(truth.kept) if keep]
    run = min(problem.case.jobs[row].submit for row in jobs), max(truth.finish[row] for row in jobs)
    assert [entry["service"] for entry in summary["services"]] == claims.services()
    served_all = wanted_all = hours_all = 0.0
    for entry in summary["services"]:
        service = entry["service"]
        replicas = [replica for replica in log.replicas if replica.service == service]
        served = sum(max(0.0, min(each.end, run[1]) - max(each.start, run[0])) for each in replicas)
        own = [row[1] for row in loads if row[0] == service]

        def wanted_at(time: float, service: str = service) -> int:
            come = [row for row in loads if row[0] == service and row[1] <= time]
            return max(come, key=lambda row: row[2])[3] if come else 0

        wanted = integral(wanted_at, set(own), run)
        hours = served * claims.size(service) / 3600.0
        found = waits(claims, service, replicas, [time for time in own if time < run[1]], run)
        true = {
            "attainment": served / wanted if wanted else 1.0,
            "gpu_hours": hours,
            "mean_time_to_scale_up": sum(found) / len(found) if found else None,
            "worst_time_to_scale_up": max(found) if found else None,
        }
        for name, value in true.items():
            assert same(entry[name], value), (name, value, entry, problem)
        served_all, wanted_all, hours_all = served_all + served, wanted_all + wanted, hours_all + hours
    whole = {
        "service_attainment": served_all / wanted_all if wanted_all else 1.0,
        "service_gpu_hours": hours_all,
        "gpu_hours_lent_to_training": lent(problem, truth, run) / 3600.0,
    }
    for name, value in whole.items():
        assert same(summary[name], value), (name, value, summary, problem)


@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_figures(clock: str) -> None:
    bases = [base for base in COMBINATIONS if base.clock == clock]
    checked = 0
    for number in range(FEW):
        rnd = random.Random(f"figures {clock} {number}")
        problem = build_problem(rnd, rnd.choice(bases), None, services=True)
        try:
            truth, log = problem.truth()
        except (RefusedError, StuckError):
            continue
        if any(truth.kept) and log.replicas:
            check(problem, truth, log)
            checked += 1
    assert checked > 0.3 * FEW
