"""What the engine says of a case, compared with its reference model."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

import ringbco
from agreement import recorded_stays, stays_of
from cases import requested, seated, window
from cases.case import Case
from cases.modelled import ReferenceResult, reference_result
from reference.links import Carried
from reference.result import PreemptResult

Rows = Sequence[Sequence[float]] | np.ndarray


def agreed(case: Case) -> ReferenceResult:
    """What the reference model makes of a case, which must be what the engine makes of it."""
    result = reference_result(case)
    assert isinstance(result, ReferenceResult), result
    assert list(differences(case, case.replay(), result)) == []
    return result


def differences(case: Case, outcome: ringbco.Outcome, expected: ReferenceResult) -> Iterator[tuple[str, str]]:
    """What the engine says otherwise: (column or table, how)."""
    ids = [job["job_id"] for job in case.jobs]
    true, kept = expected.result, [row for row in range(len(ids)) if expected.result.kept[row]]
    jobs = outcome.jobs.sort(pl.col("job_id").replace_strict(ids, range(len(ids)), return_dtype=pl.Int64))
    mine = jobs["job_id"].to_list()
    if mine != [ids[row] for row in kept]:
        yield "jobs", f"{mine} ran to their end; not {[ids[row] for row in kept]}"
        return
    counts = [window.counts(case, arrival) for arrival in true.arrival]
    refused = sum(own and counted for own, counted in zip(true.refused, counts, strict=True))
    if outcome.summary.get("jobs_refused", 0) != refused:
        yield "jobs_refused", f"{outcome.summary.get('jobs_refused')}; not {refused}"
    near = _Near(case, outcome)
    for name, wanted in _columns(expected).items():
        if name in jobs.columns or (name not in ONLY_IF_TOLD and any(wanted[row] for row in kept)):
            recorded = jobs[name].to_numpy().astype(float) if name in jobs.columns else np.zeros(len(kept))
            right = np.array([wanted[row] for row in kept], float)
            if not near.same(recorded, right, ROUGHLY.get(name)):
                yield name, f"{recorded.tolist()}; not {right.tolist()}"
    for name, recorded, right in _tables(case, outcome, expected, ids):
        if not near.same(np.array(recorded, float), np.array(right, float)):
            yield name, f"\n{recorded}\nnot\n{right}"
    if expected.carried is not None:
        yield from _links(case, outcome, expected.carried, near)
    if expected.seating is not None:
        yield from seated.differences(case, outcome, expected.seating)
    if expected.told is not None:
        yield from requested.differences(case, outcome, expected, near.same)
    if expected.sleep is not None and "gpu_types" in outcome.summary:
        recorded = sum(each["asleep_gpu_hours"] for each in outcome.summary["gpu_types"])
        right = _asleep(case, expected)
        if not math.isclose(recorded, right, rel_tol=1e-6, abs_tol=case.room * near.within(1e-6) / 3600.0):
            yield "asleep_gpu_hours", f"{recorded}; not {right}"


def service_names(case: Case) -> list[str]:
    """The services in order."""
    if "requests" in case.files:
        return [*case.options["services"]]
    return list(dict.fromkeys(row["service"] for row in case.files["services"]))


ONLY_IF_TOLD = (
    "max_crossing",
    "run_contention_uplinks",
    "wait_gpus",
    "wait_fragmented",
    "held_time",
    "lost_time",
)
ROUGHLY = {
    "run_contention_uplinks": 1e-6,
    "wait_gpus": 1e-6,
    "wait_fragmented": 1e-6,
    "held_time": 1e-9,
    "lost_time": 1e-9,
    "lost_work": 1e-12,
}
"""Sums, of the run's length; those of waits are in single precision."""


def _columns(expected: ReferenceResult) -> dict[str, list[Any]]:
    true = expected.result
    wanted: dict[str, list[Any]] = {
        "submit_time": true.arrival,
        "start_time": true.start,
        "finish_time": true.finish,
        "preemptions": true.preemptions,
        "max_contention": true.max_contention,
        "max_crossing": true.max_crossing,
        "failures": true.failures,
        "lost_work": true.lost_work,
        "held_time": true.held,
        "reached_limit": [row in expected.reached for row in range(len(true.start))],
    }
    if expected.log is not None:
        wanted |= {"evictions": expected.log.evictions, "lost_time": true.lost}
    if expected.log is not None and expected.tells_waits:
        wanted |= {"wait_gpus": true.wait_gpus, "wait_fragmented": true.wait_fragmented}
        wanted["run_contention_uplinks"] = true.run_contention_uplinks
    if expected.climbs is not None:
        wanted["pauses"] = [expected.climbs.pauses.get(row, 0) for row in range(len(true.start))]
    return wanted


def _tables(
    case: Case, outcome: ringbco.Outcome, expected: ReferenceResult, ids: list[str]
) -> Iterator[tuple[str, Rows, Rows]]:
    """(table, rows of the engine, rows of the reference model)."""
    if any(job.get("gpu_share") for job in case.jobs):
        assert outcome.allocations is not None
        columns = ("job_id", "start_time", "end_time", "server", "gpu", "share")
        table = outcome.allocations.with_columns(pl.col("share").fill_null(0.0)).select(columns).rows()
        yield (
            "allocations",
            sorted((ids.index(row[0]), *row[1:]) for row in table),
            sorted((*row[:5], row[5] / 1000) for row in expected.shares),
        )
    else:
        yield "allocations", recorded_stays(outcome), _in_rows(ids, expected.result)
    if expected.climbs is not None and outcome.rungs is not None:
        rungs = outcome.rungs.select("job_id", "rung", "time", "loss", "went_on").fill_null(math.nan)
        on = expected.climbs.went_on
        yield (
            "rungs",
            sorted((ids.index(row[0]), *row[1:]) for row in rungs.rows()),
            sorted((*climb, on.get(climb[:2], math.nan)) for climb in expected.climbs.reached),
        )
    if expected.log is not None and outcome.replicas is not None:
        names = service_names(case)
        rows = outcome.replicas.select("service", "server", "num_gpus", "start_time", "end_time").rows()
        yield (
            "replicas",
            sorted((names.index(row[0]), *row[1:]) for row in rows),
            sorted(
                (names.index(each.service), each.server, len(each.gpus), each.start, each.end)
                for each in expected.log.replicas
            ),
        )


def _links(
    case: Case, outcome: ringbco.Outcome, carried: Carried, near: "_Near"
) -> Iterator[tuple[str, str]]:
    """What uplinks carry: their rows, and the busiest of each tier."""
    assert outcome.links is not None
    vcs = list(dict.fromkeys(server.get("vc") for server in case.servers))
    names = []
    for tier in case.tiers:
        named = [server.get(tier["name"]) for server in case.servers]  # a group by name is its first server
        names.append([str(n) for n in range(len(named))] if "servers" in tier else named)
    right = [
        (vcs[vc], case.tiers[tier]["name"], names[tier][group], *rest)
        for vc, tier, group, *rest in carried.rows(case.options.get("sample"))
    ]
    recorded = [row if "vc" in outcome.links.columns else (None, *row) for row in outcome.links.rows()]
    same = [row[:3] + row[4:6] for row in recorded] == [row[:3] + row[4:6] for row in right]
    for at, most in ((3, None), (6, 1e-9)) if same else ():
        one, other = (np.array([row[at] for row in rows], float) for rows in (recorded, right))
        same &= near.same(one, other) if most is None else np.allclose(one, other, rtol=most, atol=0.0)
    if not same:
        yield "links", f"\n{recorded}\nnot\n{right}"
    for row, own, tier, of in zip(
        outcome.summary["links"], carried.summary(), case.tiers, names, strict=True
    ):
        if (row.get("vc"), row["tier"], row["group"]) != (vcs[own.vc], tier["name"], of[own.group]):
            yield "links", f"{row}; not {own}"
        for name in ("mean_share", "largest_share", "gpu_hours_lost"):
            slack = near.within(1e-9) * case.room / 3600.0 if name == "gpu_hours_lost" else 1e-12
            if not math.isclose(row[name], getattr(own, name), rel_tol=1e-6, abs_tol=slack):
                yield f"links {name}", f"{row[name]}; not {getattr(own, name)}"


def _asleep(case: Case, expected: ReferenceResult) -> float:
    """GPU-hours of servers that were asleep from the first submission of a job that ran to the last end.

    Of a window, in what of it lies between them.
    """
    assert expected.sleep is not None
    rows = zip(expected.result.arrival, expected.result.allocations, strict=True)
    submits = [arrival for arrival, stays in rows if stays]
    ends = [end for rows in expected.result.allocations for *_, end in rows]
    first, last = window.within(case, (min(submits), max(ends)))
    stays = list(expected.result.allocations)
    if expected.log is not None:
        stays.append([(each.server, len(each.gpus), each.start, each.end) for each in expected.log.replicas])
    return sum(
        case.servers[server]["gpus"] * max(0.0, min(until, last) - max(since, first)) / 3600.0
        for server, since, until in expected.sleep.sleep_intervals(stays, len(case.servers))
    )


def _in_rows(ids: list[str], true: PreemptResult) -> np.ndarray:
    """Its stays by the number in a job's name, as `stays_told` has them."""
    number = {int(name[1:]): row for row, name in enumerate(ids)}
    most = max(number) + 1
    return stays_of([true.allocations[number[n]] if n in number else [] for n in range(most)])


class _Near:
    """When numbers are the same: all bits under the slot clock, else within 1e-9 of the run."""

    def __init__(self, case: Case, outcome: ringbco.Outcome) -> None:
        first, last = min(job["submit_time"] for job in case.jobs), float(outcome.jobs["finish_time"].max())
        self.length, self.ulps = last - first, 256.0 * math.ulp(last)
        self.most = 0.0 if case.options.get("clock") == "slot" else self.within(1e-9)

    def within(self, part: float) -> float:
        """Seconds: a part of the run, and what times are known to."""
        return part * self.length + self.ulps

    def same(self, told: np.ndarray, right: np.ndarray, part: float | None = None) -> bool:
        """part: of the run's length, by which they may differ under either clock."""
        most = self.most if part is None else self.within(part)
        return told.shape == right.shape and bool(
            np.all((told == right) | (np.abs(told - right) <= most) | (np.isnan(told) & np.isnan(right)))
        )
