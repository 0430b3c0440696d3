"""Figures of services, worked out again from replicas, stays and loads by the words of docs/services.md."""

import itertools
import math
from collections.abc import Callable, Iterator

import ringbco
from cases import window
from cases.case import Case, Row
from cases.holding import Span, boundary, down, stays_of

Held = tuple[float, float]
"""A replica's start and end."""


def check(case: Case, outcome: ringbco.Outcome) -> Iterator[tuple[str, str]]:
    """What a summary says otherwise: (figure, how)."""
    if outcome.replicas is None or "services" not in outcome.summary:
        return
    stays = stays_of(outcome)
    first = min(job["submit_time"] for job in case.jobs if job["job_id"] in stays)
    run = window.within(case, (first, max(stay.end for own in stays.values() for stay in own)))
    served_all = wanted_all = hours_all = 0.0
    for entry in outcome.summary["services"]:
        service = entry["service"]
        own = [row for row in case.files["services"] if row["service"] == service]
        rows = outcome.replicas.filter(service=service).select("start_time", "end_time").rows()
        served = sum(max(0.0, min(end, run[1]) - max(start, run[0])) for start, end in rows)
        changes = {_seen(case, row["time"]) for row in own}
        wanted = _integral(lambda now, own=own: wanted_at(case, own, now), changes, run)
        hours = served * own[0]["gpus_per_replica"] / 3600.0
        found = _waits(case, own, rows, run)
        right = {
            "attainment": served / wanted if wanted else 1.0,
            "gpu_hours": hours,
            "mean_time_to_scale_up": sum(found) / len(found) if found else None,
            "worst_time_to_scale_up": max(found) if found else None,
        }
        yield from _unlike(entry, right, f"{service}: ")
        served_all, wanted_all, hours_all = served_all + served, wanted_all + wanted, hours_all + hours
    whole = {
        "service_attainment": served_all / wanted_all if wanted_all else 1.0,
        "service_gpu_hours": hours_all,
        "gpu_hours_lent_to_training": _lent(case, outcome, run) / 3600.0,
    }
    yield from _unlike(outcome.summary, whole, "")


def _unlike(told: Row, right: Row, who: str) -> Iterator[tuple[str, str]]:
    for name, value in right.items():
        mine = told[name]
        if mine is None or value is None:
            if mine is not value:
                yield name, f"{who}{mine}; expected {value}"
        elif not math.isclose(mine, value, rel_tol=1e-6, abs_tol=1e-6):
            yield name, f"{who}{mine}; expected {value}"


def _seen(case: Case, time: float) -> float:
    """When what happens at a time counts."""
    return boundary(time, case.options["slot"] if case.options.get("clock") == "slot" else None)


def wanted_at(case: Case, own: list[Row], now: float) -> int:
    """Replicas that a service wants: those of its latest row."""
    come = [row for row in own if _seen(case, row["time"]) <= now]
    return int(max(come, key=lambda row: row["time"])["replicas"]) if come else 0


def _integral(of: Callable[[float], float], times: set[float], run: Span) -> float:
    """Of what changes at those times only."""
    inside = sorted({*run, *(time for time in times if run[0] < time < run[1])})
    return sum(of(a) * (b - a) for a, b in itertools.pairwise(inside))


def _waits(case: Case, own: list[Row], replicas: list[Held], run: Span) -> list[float]:
    """From the instant at which a replica was wanted to its start, of each that started in the run."""
    waiting: list[float] = []
    found = []
    times = {time for time in (_seen(case, row["time"]) for row in own) if time < run[1]}
    for now in sorted({*times, *itertools.chain.from_iterable(replicas)}):
        there = sum(start < now < end for start, end in replicas)
        need = max(0, wanted_at(case, own, now) - there)
        waiting = [*waiting, *[now] * (need - len(waiting))][:need]
        for start, _ in replicas:
            if start == now:
                since = waiting.pop(0)
                if run[0] <= now < run[1]:
                    found.append(now - since)
    return found


def _lent(case: Case, outcome: ringbco.Outcome, run: Span) -> float:
    """GPU-seconds that jobs held beyond what is left if services keep their largest numbers."""
    rows = case.files["services"]
    most: dict[str, int] = {}
    for row in rows:
        own = row["replicas"] * row["gpus_per_replica"]
        most[row["service"]] = max(own, most.get(row["service"], 0))
    stays = [stay for own in stays_of(outcome).values() for stay in own]
    spans = [(server, span) for server, own in down(case).items() for span in own]
    times = {time for stay in stays for time in (stay.start, stay.end)}
    times |= {time for _, span in spans for time in span}

    def now(time: float) -> float:
        held = sum(stay.gpus for stay in stays if stay.start <= time < stay.end)
        off = {server for server, (a, b) in spans if a <= time < b}
        up = sum(server["gpus"] for number, server in enumerate(case.servers) if number not in off)
        return max(0.0, held - max(0, up - sum(most.values())))

    return _integral(now, times, run)
