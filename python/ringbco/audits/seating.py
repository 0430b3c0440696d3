"""Seats: all jobs of one hold the same GPUs, as many and as large ones as may sit there (docs/lucid.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from ringbco.audits.findings import blame, number
from ringbco.checker.inputs import NONE
from ringbco.checker.seats import busy_from

if TYPE_CHECKING:
    from ringbco.audits.facts import Bools, Facts, Floats, Ints
    from ringbco.audits.findings import Check

_MIB_OF_GB: Final = 1024.0


class Stays(NamedTuple):
    """The stays on seats, by seat and start. server: the first of each."""

    server: Ints
    seat: Ints
    job: Ints
    start: Floats
    end: Floats


def taken_from(seat: Ints | None, place: Ints, start: Floats, end: Floats) -> Floats:
    """From when on each row takes GPUs of a place that no other job on its seat has."""
    if seat is None:
        return start
    own = np.flatnonzero(seat != NONE)
    found = start.copy()
    found[own] = busy_from(seat[own] * (int(place.max(initial=0)) + 1) + place[own], start[own], end[own])
    return found


def check_seats(check: Check, facts: Facts) -> None:
    """Who is on one seat holds all of its GPUs, and as many jobs are there as may be, whose memory fits."""
    seat = facts.a_seat
    if seat is None:
        check.not_run = "every job has its GPUs to itself"
        return
    whole = facts.share[facts.a_job] == 0
    odd = check.broken(whole != (seat != NONE))
    blame(
        check,
        facts,
        odd,
        lambda i: "holds whole GPUs and has no seat" if whole[i] else "has a share and a seat",
        job=facts.a_job,
        time=facts.a_start,
    )
    stays, differ = _stays(facts, seat)
    said = "holds other GPUs than those who sat down first on its seat"
    blame(check, facts, check.broken(differ), said, job=stays.job, time=stays.start)
    first = np.flatnonzero(np.diff(stays.seat, prepend=-1))
    begins = stays.start[first]
    early = np.diff(begins, prepend=-np.inf) < 0
    numbered = check.broken((stays.seat[first] != np.arange(first.size)) | early)
    blame(
        check,
        facts,
        first[numbered],
        lambda i: f"its seat is {stays.seat[i]}; expected seats numbered from 0 as they come to be",
        job=stays.job,
        time=stays.start,
    )
    for at, faults in _company(facts, stays):
        check.looked_at += 1
        for says in faults:
            check.fail(says, job=facts.id(stays.job[at]), time=float(stays.start[at]))


def _stays(facts: Facts, seat: Ints) -> tuple[Stays, Bools]:
    """The stays, and which of them hold other GPUs than the first of their seats."""
    place = _rows(facts, seat)
    rows = np.flatnonzero(place.seat != NONE)
    keys = place.gpus, place.server, place.stay, place.job, place.start, place.seat
    rows = rows[np.lexsort([key[rows] for key in keys])]
    held, server = place.gpus[rows], place.server[rows]
    new_seat, *other_stay = (
        np.diff(key[rows], prepend=-1) != 0 for key in (place.seat, place.job, place.stay)
    )
    new = np.logical_or.reduce([new_seat, *other_stay])
    begins = np.flatnonzero(new)
    of = np.cumsum(new) - 1
    count = np.diff(np.append(begins, rows.size))
    leads = np.maximum.accumulate(np.where(new_seat[begins], np.arange(begins.size), 0))
    ref = begins[leads[of]] + np.minimum(np.arange(rows.size) - begins[of], count[leads[of]] - 1)
    other = (held != held[ref]) | (server != server[ref])
    differ = (np.bincount(of, other, begins.size) > 0) | (count != count[leads])
    at = rows[begins]
    columns = place.server, place.seat, place.job, place.start, place.end
    return Stays(*(column[at] for column in columns)), differ  # type: ignore[arg-type]


class _Rows(NamedTuple):
    """What is held, row by row: how many GPUs of the server or, with shares, which one."""

    seat: Ints
    job: Ints
    stay: Ints
    server: Ints
    gpus: Ints
    start: Floats
    end: Floats


def _rows(facts: Facts, seat: Ints) -> _Rows:
    rows = facts.on_gpus
    if rows is None:
        held = facts.a_job, facts.a_stay, facts.a_server, facts.a_gpus
        return _Rows(seat, *held, facts.a_start, facts.a_end)
    return _Rows(rows.seat, rows.job, rows.stay, rows.server, rows.gpu, rows.start, rows.end)


def _company(facts: Facts, stays: Stays) -> Iterator[tuple[int, list[str]]]:
    """The stays on seats of several, seat by seat, with what kept each from sitting down there."""
    count = np.bincount(stays.seat, minlength=1)
    needs, has = _memory(facts, stays)
    below = facts.options.get("policy") == "lucid"
    there: list[int] = []
    seat, until = NONE, -np.inf
    for at in np.flatnonzero(count[stays.seat] > 1).tolist():
        start = stays.start[at]
        if stays.seat[at] != seat:
            seat, there, until = int(stays.seat[at]), [], stays.end[at]
        faults: list[str] = []
        if start > until:
            faults.append(f"sits down on seat {seat}, which is empty since {number(until)} s")
        until = max(until, stays.end[at])
        there = [*(other for other in there if stays.end[other] >= start), at]
        on = [other for other in there if stays.end[other] > start]
        if len(on) > facts.jobs_per_gpu:
            faults.append(f"is one of {len(on)} jobs on seat {seat}; jobs_per_gpu is {facts.jobs_per_gpu}")
        elastic = facts.least[stays.job[at]] != facts.most[stays.job[at]]
        if elastic and any(stays.start[other] < start for other in on):
            faults.append(f"is elastic, and sits down on seat {seat} beside others")
        needed = float(needs[on].sum())
        full = needed > has[at] or (below and needed == has[at])
        if full and len(on) > 1 and not np.isnan(needs[there]).any():
            wanted = f"{'less than' if below else 'at most'} {number(has[at])}"
            told = f"needs {number(needed)} MiB of a GPU with the others on seat {seat}"
            faults.append(f"{told}; expected {wanted}")
        yield at, faults


def _memory(facts: Facts, stays: Stays) -> tuple[Floats, Floats]:
    """MiB that each stay needs of a GPU, and that its GPUs have; NaN and infinite where unknown."""
    frame, cluster = facts.table.frame, facts.cluster
    needs, has = np.full(stays.job.size, np.nan), np.full(stays.job.size, np.inf)
    if "gpu_memory_mib" not in frame.columns or cluster.server_types is None:
        return needs, has
    needs = frame["gpu_memory_mib"].cast(pl.Float64).fill_null(np.nan).to_numpy()[facts.row[stays.job]]
    room = [np.inf if fact.memory_gb is None else fact.memory_gb * _MIB_OF_GB for fact in cluster.type_facts]
    known = stays.server < cluster.num_servers
    has[known] = np.array(room)[cluster.server_types[stays.server[known]]]
    return needs, has
