"""Jobs on the same GPUs, of cases: what their reference model is told, and what the engine says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import ringbco
from reference.seats import PairRow, Seating, numbered

if TYPE_CHECKING:
    from cases.case import Case
    from cases.modelled import Model


def most_of(case: Case) -> int:
    """Jobs on a GPU."""
    return int(case.options.get("jobs_per_gpu") or (2 if case.policy == "lucid" else 1))


def seating_of(model: Model) -> Seating | None:
    """Of a case; None where every job has its GPUs to itself."""
    case = model.case
    if most_of(case) == 1:
        return None
    jobs, rows = case.jobs, case.files.get("tables", ())
    names = model.names or ["t0"]
    known = [row for row in rows if row["gpu_type"] in names]
    types = model.types

    def column(name: str) -> tuple[Any, ...]:
        return tuple(job.get(name) for job in jobs)

    return Seating(
        most_of(case),
        case.options.get("interference", 0.0),
        *(column(name) for name in ("gpu_memory_mib", "estimated_duration", "colocation_score")),
        *(column(name) for name in ("model", "user")),
        frozenset(
            row
            for row, job in enumerate(jobs)
            if {job.get("min_gpus"), job.get("max_gpus")} - {None, job["num_gpus"]}
        ),
        {
            number: facts["memory_gb"] * 1024.0
            for number, name in enumerate(names)
            if "memory_gb" in (facts := case.gpu_types.get(name, {}))
        },
        [
            PairRow(
                *(row["model"], names.index(row["gpu_type"]), row["gpus"], row["servers"], row["rate"]),
                *(row["partner"], row["partner_rate"]),
            )
            for row in known
            if row.get("partner") is not None
        ],
        {
            (row["model"], names.index(row["gpu_type"]), row["gpus"], row["servers"]): row["rate"]
            for row in known
            if row.get("partner") is None
        },
        model.told["model"] == "table",
        (lambda server: types.of[server]) if types is not None else lambda _: 0,
    )


def differences(case: Case, outcome: ringbco.Outcome, seating: Seating) -> Iterator[tuple[str, str]]:
    """What the engine says otherwise of seats, and of the GPUs that are busy."""
    allocations = outcome.allocations
    assert allocations is not None
    ids = [job["job_id"] for job in case.jobs]
    wanted = numbered(seating.seats)
    spans: dict[int, tuple[float, float, int]] = {}
    for job, start, end, seat, gpus in (
        allocations.group_by("job_id", "stay", maintain_order=True)
        .agg(pl.col("start_time", "end_time", "seat").first(), pl.col("num_gpus").sum())
        .select("job_id", "start_time", "end_time", "seat", "num_gpus")
        .rows()
    ):
        near = [own for own in wanted if own[0] == ids.index(job)]
        right = wanted[min(near, key=lambda own: abs(own[1] - start))] if near else None
        if seat != right:
            yield "seats", f"{job} from {start} on seat {seat}; not {right}"
        if seat is not None:
            first, last, _ = spans.get(seat, (start, end, gpus))
            spans[seat] = min(first, start), max(last, end), gpus
    if any(job.get("gpu_share") for job in case.jobs):
        return
    time, busy = (outcome.timeline[name].to_numpy() for name in ("time", "busy_gpus"))
    first, last, gpus = (np.array(values) for values in zip(*spans.values(), strict=True))
    times, edges = time[:, None], np.concatenate([first, last])
    clear = (np.abs(times - edges) > 1e-6 * (last.max() - first.min())).all(axis=1)
    right = (((first <= times) & (times < last)) * gpus).sum(axis=1)
    if (busy[clear] != right[clear]).any():
        yield "busy_gpus", f"{busy[clear].tolist()}; not {right[clear].tolist()}"
    held = float((gpus * (last - first)).sum())
    told = outcome.summary.get("gpu_types") or []
    if told and not any(name.startswith("measure") for name in case.options):
        hours = sum(each["gpu_hours"] for each in told)
        if not np.isclose(hours, held / 3600.0, rtol=1e-6, atol=1e-12):
            yield "gpu_hours", f"{hours}; not {held / 3600.0}"
