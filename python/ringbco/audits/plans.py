"""summary.json of a plan: w_max and bounds follow from the schedule, which theta and the horizon admit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from ringbco.audits.facts import Facts, Floats, Ints
from ringbco.audits.findings import Check, number

RELATIVE: Final = 1e-9
ROUNDING: Final = 1e-12


@dataclass(frozen=True)
class Planned:
    """What a plan is of: the jobs and the servers of one virtual cluster, or of the one cluster.

    The columns are those of `Facts`; jobs and servers are numbered by those of the cluster.
    """

    options: Mapping[str, Any]
    summary: Mapping[str, Any]
    slot: float
    row: Ints
    ids: pl.Series
    num_gpus: Ints
    start: Floats
    finish: Floats
    rho: Floats
    server_gpus: Ints
    a_job: Ints
    a_server: Ints
    a_gpus: Ints

    def id(self, job: int | np.integer[Any]) -> str:
        """The job's id."""
        return str(self.ids[int(job)])


def check_plan(check: Check, facts: Facts) -> None:
    """Theta and the horizon admit the schedule; w_max and the bounds follow from it."""
    for planned in parts(facts):
        _check(check, planned, places=facts.outcome.allocations is not None)


def parts(facts: Facts) -> Iterator[Planned]:
    """What was planned by itself, of which some job ran."""
    summary = facts.outcome.summary
    told = [summary] if facts.cluster.server_vc is None else summary.get("vcs")
    rho = facts.workload.estimate[facts.row]
    known = facts.a_server < facts.cluster.num_servers
    for vc, own in enumerate(told if isinstance(told, list) else ()):
        jobs, servers = np.flatnonzero(facts.vc == vc), np.flatnonzero(facts.server_vc == vc)
        if facts.cluster.server_vc is None:
            jobs = np.arange(facts.row.size)
        if jobs.size == 0 or not isinstance(own, Mapping):
            continue
        place, server_place = np.full(facts.row.size, -1), np.full(facts.cluster.num_servers, -1)
        place[jobs], server_place[servers] = np.arange(jobs.size), np.arange(servers.size)
        held = np.flatnonzero(known & (place[facts.a_job] >= 0))
        held = held[server_place[facts.a_server[held]] >= 0]
        yield Planned(
            options=facts.options,
            summary=own,
            slot=facts.slot,
            row=facts.row[jobs],
            ids=facts.ids.gather(jobs),
            num_gpus=facts.num_gpus[jobs],
            start=facts.start[jobs],
            finish=facts.finish[jobs],
            rho=rho[jobs],
            server_gpus=facts.server_gpus[servers],
            a_job=place[facts.a_job[held]],
            a_server=server_place[facts.a_server[held]],
            a_gpus=facts.a_gpus[held],
        )


def _check(check: Check, planned: Planned, *, places: bool) -> None:
    summary, rho = planned.summary, planned.rho
    expected = _bounds(planned)
    _compare(check, summary, expected)
    keys = ("theta", "horizon", "w_max")
    if not all(isinstance(summary.get(key), int | float) for key in keys):
        check.fail(f"expected numbers for {', '.join(keys)}")
        return
    theta, horizon, slot = float(summary["theta"]), float(summary["horizon"]), planned.slot
    said = f"theta is {number(theta)}; expected a whole number from 1 to the horizon, {number(horizon)}"
    check.expect(holds=theta.is_integer() and 1 <= theta <= horizon, message=said)
    ends = float(planned.finish.max())
    said = f"horizon is {number(horizon)} slots; the schedule ends at {number(ends)} s"
    check.expect(holds=ends < horizon * slot, message=said)
    for name in ("kappa", "horizon"):
        told, found = planned.options.get(name), summary.get(name)
        if isinstance(told, int | float):
            check.expect(
                holds=found in (told, None), message=f"{name} is {found}; run.toml says {number(told)}"
            )
    if places:
        _check_times(check, planned, rho, float(summary["w_max"]), theta * slot)


def in_turn(planned: Planned) -> Ints:
    """The place of each job in the plan's order: by GPUs, or as the rows are."""
    by = planned.num_gpus if planned.options["order"] == "smallest" else np.zeros(planned.row.size)
    place = np.empty(planned.row.size, np.int64)
    place[np.lexsort((planned.row, by))] = np.arange(planned.row.size)
    return place


def _bounds(planned: Planned) -> dict[str, float]:
    """The work bound and Theorem 5's factors, as docs/paper.md defines them."""
    rho = planned.rho
    ratio = (planned.finish - planned.start) / rho
    gang, phi = int(planned.num_gpus.max()), float(rho.max() / rho.min())
    high, low = max(1.0, float(ratio.max())), min(1.0, float(ratio.min()))
    work = math.fsum(planned.num_gpus * rho) / int(planned.server_gpus.sum())
    return {
        "work_lower_bound": max(float(rho.max()), work),
        "bound_n_g": gang,
        "bound_phi": phi,
        "bound_u": high,
        "bound_l": low,
        "approximation_bound": gang * phi * high / low,
    }


def _compare(check: Check, summary: Mapping[str, Any], expected: Mapping[str, float]) -> None:
    for name, value in expected.items():
        found = summary.get(name)
        near = isinstance(found, int | float) and math.isclose(found, value, rel_tol=RELATIVE)
        check.expect(holds=near, message=f"{name} is {found}; expected {number(value)}")


def _check_times(check: Check, planned: Planned, rho: Floats, w_max: float, theta: float) -> None:
    """U of every GPU again: which of a server's GPUs a job was given follows, but for `rand`, from U."""
    charge = rho / float(planned.options.get("u", 1.0))
    if planned.options.get("policy") == "rand":
        servers = planned.server_gpus.size
        charged = np.bincount(planned.a_server, planned.a_gpus * charge[planned.a_job], servers)
        least = max(float((charged / planned.server_gpus).max()), float(charge.max()))
        most = min(theta, float(np.bincount(planned.a_server, charge[planned.a_job]).max()))
        said = f"w_max is {number(w_max)}; expected {number(least)} to {number(most)}"
        check.expect(holds=least * (1 - RELATIVE) <= w_max <= most * (1 + RELATIVE), message=said)
        return
    times = _Times(planned, charge, theta * (1 + ROUNDING))
    for job in times.run():
        said = f"is given GPUs that a theta of {number(theta)} s keeps from it"
        check.fail(said, planned.id(job))
        return  # what follows rests on it
    near = math.isclose(times.largest, w_max, rel_tol=RELATIVE)
    check.expect(holds=near, message=f"w_max is {number(w_max)}; expected {number(times.largest)}")


class _Times:
    """U and the free GPUs of every server while a plan's jobs are placed in their order."""

    def __init__(self, planned: Planned, charge: Floats, theta: float) -> None:
        self.planned, self.theta = planned, theta
        self.charge = charge.tolist()
        self.times = [[0.0] * size for size in planned.server_gpus.tolist()]
        self.busy = [[False] * size for size in planned.server_gpus.tolist()]
        self.least_first = planned.options.get("policy") != "ff"
        self.largest = 0.0

    def run(self) -> list[int]:
        """The first job, if any, whose GPUs theta does not admit."""
        planned = self.planned
        place = in_turn(planned)
        reserve = planned.options.get("dispatch") == "reserve"
        order = np.argsort(place) if reserve else np.lexsort((place, planned.start))
        parts: dict[int, list[tuple[int, int]]] = {}
        for job, server, gpus in zip(
            planned.a_job.tolist(), planned.a_server.tolist(), planned.a_gpus.tolist(), strict=True
        ):
            parts.setdefault(job, []).append((server, gpus))
        start, finish = planned.start.tolist(), planned.finish.tolist()
        leaving = np.argsort(planned.finish, kind="stable").tolist()
        held: dict[int, list[tuple[int, int]]] = {}
        gone = 0
        for job in order.tolist():
            while not reserve and finish[leaving[gone]] <= start[job]:
                for server, gpu in held.pop(leaving[gone], ()):
                    self.busy[server][gpu] = False
                gone += 1
            chosen = [gpu for part in parts.get(job, ()) for gpu in self._take(job, *part)]
            if len(chosen) < sum(gpus for _, gpus in parts.get(job, ())):
                return [job]
            if not reserve:
                held[job] = chosen
                for server, gpu in chosen:
                    self.busy[server][gpu] = True
        return []

    def _take(self, job: int, server: int, wanted: int) -> list[tuple[int, int]]:
        """Books the job on its GPUs of one server: least U first, or by index under first-fit."""
        times, busy, charge = self.times[server], self.busy[server], self.charge[job]
        free = [g for g, u in enumerate(times) if not busy[g] and u + charge <= self.theta]
        if self.least_first:
            free.sort(key=times.__getitem__)
        for g in free[:wanted]:
            times[g] += charge
            self.largest = max(self.largest, times[g])
        return [(server, g) for g in free[:wanted]]
