"""Shares of a GPU: the room of every GPU over time, and how much jobs on one GPU slow each other down."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ringbco.audits.findings import Check, Finding, blame
from ringbco.trace.shares import WHOLE

if TYPE_CHECKING:
    from ringbco.audits.contention import Episodes, Segments
    from ringbco.audits.facts import Facts, Floats, Ints
    from ringbco.audits.gpu_rows import OnGpus


def check_holdings(check: Check, facts: Facts) -> None:
    """A job holds the share that it asks for, or whole GPUs, each one once; jobs.parquet says the same."""
    rows = facts.on_gpus
    if rows is None:
        return
    wanted = np.where(facts.share[rows.job] > 0, facts.share[rows.job], WHOLE)
    odd = np.flatnonzero((rows.units != wanted) | (rows.num_gpus != 1))
    blame(
        check,
        facts,
        odd,
        lambda i: (
            f"holds {rows.num_gpus[i]} x {rows.units[i]} thousandths of a GPU; expected {wanted[i]} of one"
        ),
        job=rows.job,
        time=rows.start,
    )
    order = np.lexsort((rows.gpu, rows.server, rows.end, rows.start, rows.job))
    same = np.ones(max(order.size - 1, 0), bool)
    for column in (rows.job, rows.start, rows.end, rows.server, rows.gpu):
        same &= column[order][1:] == column[order][:-1]
    twice = order[1:][same]
    blame(check, facts, twice, "holds one GPU twice", job=rows.job, time=rows.start)
    if "gpu_share" not in facts.jobs.columns:
        check.fail("jobs.parquet has no column gpu_share; the job table has shares")
        return
    told = facts.jobs["gpu_share"].cast(pl.Float64, strict=False).fill_null(0.0).to_numpy()
    wrong = np.flatnonzero(~(np.abs(told * WHOLE - facts.share[: facts.done]) < 1e-6))
    blame(check, facts, wrong, lambda j: f"gpu_share is {told[j]}; expected {facts.share[j] / WHOLE}")


def check_room(check: Check, facts: Facts) -> None:
    """No GPU has more than 1,000 thousandths of it taken: so whole-GPU jobs are alone on theirs."""
    rows = facts.on_gpus
    if rows is None:
        return
    known = rows.server < facts.cluster.num_servers
    known[known] = (rows.gpu[known] >= 0) & (rows.gpu[known] < facts.server_gpus[rows.server[known]])
    blame(
        check,
        facts,
        np.flatnonzero(~known),
        lambda i: f"holds GPU {rows.gpu[i]} of server {rows.server[i]}, which is none of it",
        job=rows.job,
        time=rows.start,
    )
    held = known & (rows.end > rows.start)
    place, units = _places(facts, rows)[held], np.maximum(rows.units[held], 0)
    place = np.concatenate([place, place])
    time = np.concatenate([rows.start[held], rows.end[held]])
    change = np.concatenate([units, -units])
    order = np.lexsort((change, time, place))
    place, time, used = place[order], time[order], np.cumsum(change[order])
    over = used > WHOLE
    began = np.flatnonzero(over & ~np.append(False, over[:-1] & (place[1:] == place[:-1])))
    first = np.append(0, np.cumsum(facts.server_gpus))
    server = np.searchsorted(first, place[began], side="right") - 1
    check.add(
        (
            Finding(
                check.code,
                f"{used[i]} thousandths of GPU {place[i] - first[s]} in use; it has {WHOLE}",
                server=int(s),
                time=float(time[i]),
            )
            for i, s in zip(began, server, strict=True)
        ),
        began.size,
    )


def _places(facts: Facts, rows: OnGpus) -> Ints:
    """GPUs numbered by (server, index)."""
    first = np.append(0, np.cumsum(facts.server_gpus))
    return np.asarray(first[np.minimum(rows.server, facts.cluster.num_servers)] + rows.gpu)


def slowed(facts: Facts, eps: Episodes, parts: Segments, alone: Floats | None) -> Segments:
    """The segments, cut where other jobs hold a share's GPU, and how many times as long the job takes there.

    With n jobs on the GPU that is 1 + interference (n - 1). If two of them were measured side by side, it is
    what their rates say. alone: under model `table` the rate of each episode on a GPU of its own.
    """
    interference = float(facts.options.get("interference") or 0.0)
    rows = facts.on_gpus
    paired = facts.speeds is not None and bool(facts.speeds.pairs)
    if rows is None or (interference == 0.0 and not paired):
        return parts
    own = np.flatnonzero(facts.share[rows.job] > 0)
    own = own[np.lexsort((rows.end[own], rows.start[own], rows.job[own]))]
    of_shares = np.flatnonzero(facts.share[eps.job] > 0)  # sorted by job, then time
    if not np.array_equal(rows.job[own], eps.job[of_shares]):
        return parts  # other checks say what is wrong with these rows
    places = _places(facts, rows)
    place, gpu_type = np.full((2, eps.job.size), -1, np.int64)
    place[of_shares] = places[own]
    gpu_type[of_shares] = facts.pool[np.minimum(rows.server[own], facts.pool.size - 1)]
    crowds = _crowds(*(column[own].tolist() for column in (places, rows.start, rows.end, rows.job)))
    row = facts.row.tolist()

    def factor(e: int, jobs: list[int]) -> float:
        others = [job for job in jobs if job != eps.job[e]]
        if len(others) == 1 and facts.speeds is not None and alone is not None and alone[e] > 0:
            rate = facts.speeds.beside(row[eps.job[e]], int(gpu_type[e]), row[others[0]])
            if rate is not None:
                return float(alone[e]) / rate if rate > 0 else np.inf
        return 1.0 + interference * len(others)

    cut: list[tuple[int, float, float, int, float]] = []
    columns = (column.tolist() for column in (parts.episode, parts.start, parts.end, parts.p))
    for e, a, b, p in zip(*columns, strict=True):
        times, jobs = crowds.get(int(place[e]), ([], []))
        inside = times[bisect_right(times, a) : bisect_left(times, b)]
        for low, high in zip([a, *inside], [*inside, b], strict=True):
            at = bisect_right(times, low) - 1
            cut.append((e, low, high, p, factor(e, jobs[at] if at >= 0 else [])))
    episode, start, end, contention, longer = zip(*cut, strict=True) if cut else ((),) * 5
    return replace(
        parts,
        episode=np.array(episode, np.int64),
        start=np.array(start, np.float64),
        end=np.array(end, np.float64),
        p=np.array(contention, np.int64),
        slowed=np.array(longer, np.float64),
    )


def _crowds(
    place: list[int], start: list[float], end: list[float], job: list[int]
) -> dict[int, tuple[list[float], list[list[int]]]]:
    """By GPU: the instants at which other jobs hold it, and who does from then on."""
    changes: dict[int, list[tuple[float, bool, int]]] = {}
    for gpu, a, b, j in zip(place, start, end, job, strict=True):
        if b > a:
            changes.setdefault(gpu, []).extend(((a, True, j), (b, False, j)))
    crowds: dict[int, tuple[list[float], list[list[int]]]] = {}
    for gpu, of_gpu in changes.items():
        times: list[float] = []
        who: list[list[int]] = []
        there: list[int] = []
        for time, comes, j in sorted(of_gpu):  # who leaves comes first
            there = [*there, j] if comes else [other for other in there if other != j]
            if times and times[-1] == time:
                who[-1] = there
            else:
                times.append(time)
                who.append(there)
        crowds[gpu] = times, who
    return crowds
