"""Seats, sets of GPUs and the jobs that hold exactly them: who is there with whom, and from when on."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from ringbco.checker.contention import Part, Place
from ringbco.checker.inputs import NONE, Bools, Floats, Ints, Stays

HERE = -1
"""In place of a server: a seat."""


def busy_from(place: Ints, start: Floats, end: Floats) -> Floats:
    """From when on each of some holdings of places is the only one there; its end if it never is."""
    order = np.lexsort((start, place))
    told = pl.DataFrame({"place": place[order], "end": end[order]})
    before = told.select(pl.col("end").cum_max().shift(1).over("place").fill_null(-np.inf))
    found = np.empty(start.size)
    found[order] = np.minimum(end[order], np.maximum(start[order], before["end"].to_numpy()))
    return found


def sit(stays: Stays) -> dict[int, Place]:
    """Writes busy_from, turn and seated into the stays. Returns where those that last sit with others."""
    size = len(stays)
    stays.turn, stays.seated, stays.busy_from = np.arange(size), np.zeros(size, np.bool_), stays.start
    if stays.seat is None:
        return {}
    own = np.flatnonzero(stays.seat != NONE)
    start, end, seat = stays.start[own], stays.end[own], stays.seat[own]
    stays.busy_from = stays.start.copy()
    stays.busy_from[own] = busy_from(seat, start, end)
    several = (np.bincount(seat, minlength=int(seat.max(initial=0)) + 1) > 1)[seat]
    rows = own[several]
    stays.seated[rows] = _met(stays, rows)
    lasts = rows[stays.end[rows] > stays.start[rows]]
    return {
        row: (HERE, number) for row, number in zip(lasts.tolist(), stays.seat[lasts].tolist(), strict=True)
    }


def _met(stays: Stays, rows: Ints) -> Bools:
    """Which of some stays were ever on their seats with others, if only for an instant."""
    assert stays.seat is not None
    order = rows[np.lexsort((stays.start[rows], stays.seat[rows]))]
    met = set[int]()
    there: list[int] = []
    for row in order.tolist():
        start, seat = stays.start[row], stays.seat[row]
        there = [other for other in there if stays.seat[other] == seat and stays.end[other] > start]
        if there:
            met |= {row, *there}
        there.append(row)
    return np.isin(rows, np.array(sorted(met), np.int64))


def later(stays: Stays, one: Ints, other: Ints) -> Bools:
    """Which stays began later than others; those of one instant in their turn."""
    same = stays.start[one] == stays.start[other]
    return np.where(same, stays.turn[one] > stays.turn[other], stays.start[one] > stays.start[other])


def together(links: list[Part], others: list[Part]) -> list[Part]:
    """Parts of stays that share links, and of those with others on their GPUs; cut at both where both are."""
    of: dict[int, tuple[list[Part], list[Part]]] = {}
    for at, parts in enumerate((links, others)):
        for part in parts:
            of.setdefault(part[0], ([], []))[at].append(part)
    found: list[Part] = []
    for across, beside in of.values():
        found += _cut(across, beside) if across and beside else across or beside
    return found


def _cut(across: list[Part], beside: list[Part]) -> Iterable[Part]:
    for stay, since, until, p, _, _, *bandwidth, tier in across:
        for _, begins, ends, _, company, other, *_ in beside:
            first, last = max(since, begins), min(until, ends)
            if first < last:
                yield stay, first, last, p, company, other, bandwidth[0], bandwidth[1], tier
