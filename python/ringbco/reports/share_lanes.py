"""Jobs that hold one GPU at once, each with thousandths of its own: lanes for a drawing of shares."""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from typing import NamedTuple

import polars as pl

from ringbco.errors import InputError
from ringbco.reports.server_load import server_gpus
from ringbco.result.outcome import Outcome
from ringbco.trace.shares import WHOLE

Span = tuple[int, int]
"""Thousandths of a GPU: the first one, and how many."""


class Held(NamedTuple):
    """What one row of `held_rows` holds of its GPU. spans: thousandths that no other job has at the time."""

    row: int
    server: int
    gpu: int
    spans: list[Span]


class _Gpu:
    """One GPU while its jobs come and go in the order of their starts."""

    def __init__(self) -> None:
        self.free: list[Span] = [(0, WHOLE)]
        self.jobs: list[tuple[float, list[Span]]] = []  # a heap of (end, what it holds)

    def put(self, start: float, end: float, need: int) -> list[Span] | None:
        """The thousandths of a job that starts now; None where there is no room for it."""
        while self.jobs and self.jobs[0][0] <= start:
            self.free = _joined([*self.free, *heappop(self.jobs)[1]])
        if sum(width for _, width in self.free) < need:
            return None
        taken = self._take(need)
        heappush(self.jobs, (end, taken))
        return taken

    def _take(self, need: int) -> list[Span]:
        """The first gap that is wide enough; else what the job needs, in pieces."""
        gaps = [gap for gap in self.free if gap[1] >= need][:1] or self.free.copy()
        taken = []
        for first, width in gaps:
            if need == 0:
                break
            part = min(width, need)
            self.free.remove((first, width))
            if part < width:
                insort(self.free, (first + part, width - part))
            taken.append((first, part))
            need -= part
        return taken


def _joined(spans: list[Span]) -> list[Span]:
    """The spans in order, neighbours as one."""
    joined: list[Span] = []
    for first, width in sorted(spans):
        if joined and sum(joined[-1]) == first:
            joined[-1] = (joined[-1][0], joined[-1][1] + width)
        else:
            joined.append((first, width))
    return joined


def assign_shares(frame: pl.DataFrame, outcome: Outcome) -> list[Held]:
    """What every row of `held_rows` holds; its GPU is the one that the result records.

    Raises InputError where a server lacks the GPU, or jobs hold more than all of it.
    """
    sizes = server_gpus(outcome)
    needs = (frame["share"].fill_null(1.0) * WHOLE).round().cast(pl.Int64).to_list()
    gpus: dict[tuple[int, int], _Gpu] = {}
    held = []
    columns = (frame[name].to_list() for name in ("server", "gpu", "start", "end"))
    for row, (server, gpu, start, end) in enumerate(zip(*columns, strict=True)):
        put = None
        if server < len(sizes) and gpu < sizes[server]:
            put = gpus.setdefault((server, gpu), _Gpu()).put(start, end, needs[row])
        if put is None:
            raise InputError(
                f"server {server} has no room for what its GPU {gpu} holds at {start:g} s;"
                " `ringbco audit` says more"
            )
        held.append(Held(row, server, gpu, put))
    return held
