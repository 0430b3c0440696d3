"""summary.json of a plan: what of theta, kappa, the horizon, w_max and the bounds the schedule tells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ringbco.audits.facts import Facts, Floats, Ints
from ringbco.audits.findings import Check, number

RELATIVE: Final = 1e-9
ROUNDING: Final = 1e-12


def check_plan(check: Check, facts: Facts) -> None:
    """Theta admits the schedule; w_max and the bounds follow from it; kappa and horizon could be tried."""
    summary = facts.outcome.summary
    rho = facts.workload.estimate[facts.row]
    expected = _bounds(facts, rho)
    _compare(check, summary, expected)
    keys = ("theta", "horizon", "w_max")
    if not all(isinstance(summary.get(key), int | float) for key in keys):
        check.fail(f"expected numbers for {', '.join(keys)}")
        return
    theta, horizon, slot = float(summary["theta"]), float(summary["horizon"]), facts.slot
    said: list[str] = []
    if not (theta.is_integer() and 1 <= theta <= horizon):
        said.append(
            f"theta is {number(theta)}; expected a whole number from 1 to the horizon, {number(horizon)}"
        )
    elif facts.options.get("policy") == "rand" and theta != horizon:
        said.append(
            f"theta is {number(theta)}; expected the horizon, {number(horizon)}, as always under rand"
        )
    if not float(facts.finish.max()) < horizon * slot:
        said.append(
            f"horizon is {number(horizon)} slots; the schedule ends at {number(facts.finish.max())} s"
        )
    said += _searched(facts, summary, horizon, float(expected["work_lower_bound"]))
    for text in said:
        check.fail(text)
    if facts.outcome.allocations is not None:
        _check_times(check, facts, rho, float(summary["w_max"]), theta * slot)


def in_turn(facts: Facts) -> Ints:
    """The place of each job in the plan's order: by GPUs, or as the rows are."""
    by = facts.num_gpus if facts.options["order"] == "smallest" else np.zeros(facts.row.size)
    place = np.empty(facts.row.size, np.int64)
    place[np.lexsort((facts.row, by))] = np.arange(facts.row.size)
    return place


def check_order(check: Check, facts: Facts) -> None:
    """Nobody starts before one ahead of it, unless GPUs are reserved, each with a queue of its own."""
    if facts.options.get("dispatch") == "reserve":
        check.not_run = "GPUs are reserved, each with a queue of its own"
        return
    check.looked_at = facts.row.size
    order = np.argsort(in_turn(facts))
    start = facts.start[order]
    for at in np.flatnonzero(start[1:] < start[:-1]).tolist():
        late, head = facts.id(order[at + 1]), facts.id(order[at])
        check.fail(f"starts before job {head}, which is ahead of it", late, float(start[at + 1]))


def _bounds(facts: Facts, rho: Floats) -> dict[str, float]:
    """The work bound and Theorem 5's factors, as docs/paper.md defines them."""
    ratio = (facts.finish - facts.start) / rho
    gang, phi = int(facts.num_gpus.max()), float(rho.max() / rho.min())
    high, low = max(1.0, float(ratio.max())), min(1.0, float(ratio.min()))
    work = math.fsum(facts.num_gpus * rho) / int(facts.server_gpus.sum())
    return {
        "work_lower_bound": max(float(rho.max()), work),
        "bound_n_g": gang,
        "bound_phi": phi,
        "bound_u": high,
        "bound_l": low,
        "approximation_bound": gang * phi * high / low,
    }


def _compare(check: Check, summary: Mapping[str, Any], expected: Mapping[str, float]) -> None:
    check.looked_at += len(expected)
    for name, value in expected.items():
        found = summary.get(name)
        if not (isinstance(found, int | float) and math.isclose(found, value, rel_tol=RELATIVE)):
            check.fail(f"{name} is {found}; expected {number(value)}")


def _searched(facts: Facts, summary: Mapping[str, Any], horizon: float, work: float) -> list[str]:
    """What is wrong with the kappa and the horizon: given ones are kept, others are among those tried."""
    said = []
    kappa, told = summary.get("kappa"), facts.options.get("kappa")
    if facts.options.get("policy") != "sjf-bco":
        right: set[Any] = {None}
    elif told == "auto":
        right = {1, *np.unique(facts.num_gpus).tolist()}
    else:
        right = {told}
    if kappa not in right:
        said.append(f"kappa is {kappa}; expected one of {sorted(right, key=str)}")
    given = facts.options.get("horizon")
    if isinstance(given, int | float):
        if horizon != given:
            said.append(f"horizon is {number(horizon)}; run.toml says {number(given)}")
        return said
    first = {math.ceil(2.0 * work / facts.slot * (1.0 + way * ROUNDING)) for way in (-1, 0, 1)}
    if not any(one and math.log2(horizon / one).is_integer() and horizon >= one for one in first):
        said.append(f"horizon is {number(horizon)}; expected {max(first)}, doubled or not")
    return said


def _check_times(check: Check, facts: Facts, rho: Floats, w_max: float, theta: float) -> None:
    """U of every GPU again: which of a server's GPUs a job was given follows, but for `rand`, from U."""
    charge = rho / float(facts.options.get("u", 1.0))
    if facts.options.get("policy") == "rand":
        given = np.bincount(facts.a_server, facts.a_gpus * charge[facts.a_job], facts.cluster.num_servers)
        least = max(float((given / facts.server_gpus).max()), float(charge.max()))
        most = min(theta, float(np.bincount(facts.a_server, charge[facts.a_job]).max()))
        if not least * (1 - RELATIVE) <= w_max <= most * (1 + RELATIVE):
            said = f"w_max is {number(w_max)}; expected {number(least)} to {number(most)}"
            check.fail(said)
        return
    times = _Times(facts, charge, theta * (1 + ROUNDING))
    for job in times.run():
        said = f"is given GPUs that a theta of {number(theta)} s keeps from it"
        check.fail(said, facts.id(job))
        return  # what follows rests on it
    if not math.isclose(times.largest, w_max, rel_tol=RELATIVE):
        check.fail(f"w_max is {number(w_max)}; expected {number(times.largest)}")


class _Times:
    """U and the free GPUs of every server while a plan's jobs are placed in their order."""

    def __init__(self, facts: Facts, charge: Floats, theta: float) -> None:
        self.facts, self.theta = facts, theta
        self.charge = charge.tolist()
        self.times = [[0.0] * size for size in facts.server_gpus.tolist()]
        self.busy = [[False] * size for size in facts.server_gpus.tolist()]
        self.least_first = facts.options.get("policy") != "ff"
        self.largest = 0.0

    def run(self) -> list[int]:
        """The first job, if any, whose GPUs theta does not admit."""
        facts = self.facts
        place = in_turn(facts)
        reserve = facts.options.get("dispatch") == "reserve"
        order = np.argsort(place) if reserve else np.lexsort((place, facts.start))
        parts: dict[int, list[tuple[int, int]]] = {}
        for job, server, gpus in zip(
            facts.a_job.tolist(), facts.a_server.tolist(), facts.a_gpus.tolist(), strict=True
        ):
            parts.setdefault(job, []).append((server, gpus))
        start, finish = facts.start.tolist(), facts.finish.tolist()
        leaving = np.argsort(facts.finish, kind="stable").tolist()
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
