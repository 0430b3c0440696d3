"""What each stay did of its job's work, and what a failure took of it (docs/outages.md, searches.md).

An eviction or a preemption that loses work is a failure here. The time of a stay is cut where its work is
looked at: at rungs, at the latest checkpoint before a failure, at its end. What is done between cuts is
summed up over pieces of one rate. Then the cuts of each job come in turn: the first of all jobs at once, the
second of all that have one, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ringbco.checker.arrays import codes, most_of, ranges
from ringbco.checker.contention import Parts
from ringbco.checker.inputs import (
    DONE,
    LIMIT,
    NONE,
    PREEMPTED,
    RUNG,
    Bools,
    Floats,
    Ints,
    Rungs,
    RunInputs,
    Stays,
)
from ringbco.checker.saves import Save, Saves
from ringbco.checker.seats import later
from ringbco.checker.speed import EVEN, Company, Speeds
from ringbco.checker.stays import Marks


@dataclass
class Cuts:
    """Instants of stays, in order. target: all that must be done by then; NaN where nothing says it.

    since: the cut before it in its stay, or when the stay's progress begins.
    """

    stay: Ints
    time: Floats
    target: Floats
    since: Floats


class Worker:
    """Integrates the stays of a run."""

    def __init__(self, inputs: RunInputs, speeds: Speeds, stays: Stays, parts: Parts) -> None:
        self.inputs, self.speeds, self.stays, self.parts = inputs, speeds, stays, parts
        self.unit, self.saves = speeds.unit, Saves(inputs)
        self.begin = stays.start + stays.pause
        self.written: dict[int, list[Save]] = {}
        """The checkpoints that take time, of each stay that writes any."""
        self.rate = speeds.rate(stays.job, inputs.cluster.of_type[stays.at], stays.gpus, stays.servers)

    def integrate(self, marks: Marks, rungs: Rungs) -> tuple[Ints, Floats]:
        """Writes saving, work, lost, lost_time and off into the stays.

        Returns the jobs whose ends were seen, and how far the work of each is off then.
        """
        stays = self.stays
        size = len(stays)
        self._save()
        self._take_turns()
        failed = self._failed()
        until, since = stays.end.copy(), np.zeros(size)
        if failed.any():
            until[failed], since[failed] = self.saves.latest(
                stays.job[failed], self.begin[failed], stays.end[failed]
            )
        stays.lost_time = np.where(failed, since, 0.0)
        cuts = self._cuts(marks, rungs, failed & (until < stays.end), until)
        now = self._in_turn(cuts, until, failed)
        limit = stays.ended == LIMIT
        if limit.any():
            self._limited(np.flatnonzero(limit), now, marks)
        head, far = stays.head, np.abs(stays.off)
        # Of a job with several stays: the first that is off by most; where one came to a rung, or the end.
        first = far == np.repeat(most_of(far, head), np.diff(np.append(head, size)))
        short = stays.off[np.minimum.reduceat(np.where(first, np.arange(size), size - 1), head)]
        seen = np.logical_or.reduceat(np.isin(stays.ended, (DONE, LIMIT, RUNG)), head)
        return stays.job[head[seen]], short[seen] * self.unit

    def _failed(self) -> Bools:
        """Which stays lost the work since their latest checkpoint, by how they ended."""
        stays, inputs = self.stays, self.inputs
        failed = np.isin(stays.ended, inputs.losing)
        differ = inputs.decides and inputs.makes_room and inputs.evict_loses != inputs.preempt_loses
        if differ and stays.falls is not None:
            # Who was evicted for a job that gave the GPUs up at once is preempted, and lost as evicted.
            failed = np.where(stays.ended == PREEMPTED, stays.falls, failed)
        return np.asarray(failed)

    def _save(self) -> None:
        """Writes the seconds that checkpoints take into the stays."""
        stays, saves = self.stays, self.saves
        stays.saving = np.zeros(len(stays))
        if not saves.cost:
            return
        rows = np.flatnonzero(saves.some(stays.job, self.begin, stays.end))
        by_itself = np.isin(stays.ended[rows], (DONE, RUNG)).tolist()
        every = saves.every(stays.job[rows]).tolist()
        for row, often, itself in zip(rows.tolist(), every, by_itself, strict=True):
            end = float(stays.end[row])
            own = list(saves.of(often, float(self.begin[row]), end, by_itself=itself))
            if own:
                self.written[row] = own
                stays.saving[row] = saves.time(own, end)

    def _take_turns(self) -> None:
        """Writes which of two jobs of one model that began on a seat at one instant was the later.

        No table says it, but it decides which rate of the pair each has: so it is as the work of both tells.
        """
        stays, parts, models = self.stays, self.parts, self.inputs.jobs.model
        if stays.seat is None or models is None:
            return
        one, other, of = parts.stay, parts.other, codes(models)[0]
        alike = (parts.company == 1) & (one < other) & (stays.start[one] == stays.start[other])
        alike &= (of[stays.job[one]] == of[stays.job[other]]) & (stays.seat[one] != NONE)
        pairs = np.unique(np.stack([one[alike], other[alike]]), axis=1)
        rows = pairs.reshape(-1)
        told = self.speeds.work[stays.job] * self.unit if stays.told is None else stays.told
        off = []
        in_order = stays.turn
        for turn in (in_order, -in_order):
            stays.turn = turn
            done = self._between(rows, self.begin[rows], stays.end[rows]) * self.unit
            off.append(np.abs(done - told[rows]).reshape(2, -1).sum(axis=0))
            vars(self).pop("_rates", None)
        swapped = pairs[:, off[1] < off[0]]
        stays.turn = in_order.copy()
        stays.turn[swapped] = in_order[swapped[::-1]]

    def _cuts(self, marks: Marks, rungs: Rungs, cut: Bools, until: Floats) -> Cuts:
        stays, whole = self.stays, self.speeds.work
        size, early = len(stays), np.flatnonzero(cut)
        target = np.where(stays.ended == DONE, whole[stays.job], np.nan)
        if not (early.size or marks.stay.size):
            return Cuts(np.arange(size), stays.end, target, self.begin)
        eta, levels = self.inputs.search
        part = 1.0 / float(eta) ** (levels - rungs.rung[marks.rung])
        stay = np.concatenate([marks.stay, early, np.arange(size)])
        time = np.concatenate([rungs.time[marks.rung], until[early], stays.end])
        aim = np.concatenate([whole[stays.job[marks.stay]] * part, np.full(early.size, np.nan), target])
        last = np.arange(stay.size) >= stay.size - size
        order = np.lexsort((time, last, stay))
        stay, time, aim = stay[order], time[order], aim[order]
        # A cut before the stay's progress begins, or out of turn, leaves it where it is.
        first = np.diff(stay, prepend=-1) != 0
        since = self.begin[stay]
        for row in np.flatnonzero(~first).tolist():
            since[row] = max(since[row - 1], time[row - 1])
        return Cuts(stay, time, aim, since)

    def _in_turn(self, cuts: Cuts, until: Floats, failed: Bools) -> Floats:
        """Writes what was done and lost. Returns what was done of each job by the end of each stay."""
        stays, slot, unit = self.stays, self.inputs.slot, self.unit
        size, jobs = len(stays), len(self.inputs.jobs)
        work = self._between(cuts.stay, cuts.since, cuts.time)
        aimed = ~np.isnan(cuts.target)
        if slot is not None:
            back = cuts.time - np.minimum(slot, cuts.time - cuts.since)
            before_last = np.zeros(work.size)
            before_last[aimed] = self._between(cuts.stay[aimed], cuts.since[aimed], back[aimed])
        first = np.diff(cuts.stay, prepend=-1) != 0
        last = np.append(first[1:], np.ones(min(1, first.size), np.bool_))
        job = stays.job[cuts.stay]
        begins = np.flatnonzero(np.diff(job, prepend=-1))
        turn = np.arange(job.size) - np.repeat(begins, np.diff(np.append(begins, job.size)))
        order = np.argsort(turn, kind="stable") if turn.any() else np.arange(turn.size)
        bounds = np.searchsorted(turn[order], np.arange(int(turn.max(initial=-1)) + 2))
        now, kept, since, after = np.zeros(jobs), np.zeros(jobs), np.zeros(jobs), np.empty(size)
        stays.work, stays.lost, stays.off = np.zeros(size), np.zeros(size), np.zeros(size)
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            rows = order[low:high]
            own, stay = job[rows], cuts.stay[rows]
            begun = own[first[rows]]
            since[begun] = kept[begun] = now[begun]
            before = now[own]
            done, target = before + work[rows], cuts.target[rows]
            aims = aimed[rows]
            if aims.any():
                off = np.where(aims, done - target, 0.0)
                if slot is not None:
                    off = np.where(off > 0, self._far(off, before + before_last[rows], target), off)
                other = np.abs(off) > np.abs(stays.off[stay])
                stays.off[stay[other]] = off[other]
                done = np.where(aims, target, done)
            now[own] = done
            keeps = cuts.time[rows] <= until[stay]
            kept[own[keeps]] = done[keeps]
            ends = last[rows]
            own, stay = own[ends], stay[ends]
            stays.work[stay] = (now[own] - since[own]) * unit
            after[stay] = now[own]
            lost = failed[stay]
            if lost.any():
                own, stay = own[lost], stay[lost]
                stays.lost[stay] = (now[own] - kept[own]) * unit
                now[own] = kept[own]
        return after

    @staticmethod
    def _far(off: Floats, before: Floats, target: Floats) -> Floats:
        """How far what is done is beyond a target; 0 for what the last slot did beyond it.

        before: what was done a slot before.
        """
        # Whole numbers are exact; of others a sum is known to a rounding only.
        slack = np.where(before == np.floor(before), 0.0, target * (EVEN - 1.0) / 4.0)
        return np.where(before >= target - slack, off, 0.0)

    def _limited(self, rows: Ints, now: Floats, marks: Marks) -> None:
        """Of stays that a limit ended: whether the job would have been done.

        What the last slot did beyond a trial's next rung is not done.
        """
        stays, group = self.stays, self.inputs.jobs.group
        most = self.speeds.work[stays.job[rows]]
        trial = np.zeros(rows.size, np.bool_)
        if self.inputs.searched and group is not None:
            eta, rungs = self.inputs.search
            job = stays.job[rows]
            reached = np.bincount(stays.job[marks.stay], minlength=len(self.inputs.jobs))[job]
            trial = group.is_not_null().to_numpy()[job] & (reached < rungs)
            most = np.where(trial, most / float(eta) ** np.maximum(0, rungs - reached), most)
        beyond = np.maximum(0.0, now[rows] - most)
        stays.work[rows[trial]] -= beyond[trial] * self.unit
        stays.off[rows[~trial]] = beyond[~trial]

    def _between(self, stay: Ints, since: Floats, until: Floats) -> Floats:
        """Work done by stays between two instants."""
        of = None
        if self.written:
            of, stay, since, until = self._without_saves(stay, since, until)
        size = stay.size
        found = np.zeros(size)
        if self.parts.stay.size:
            low, high = (np.searchsorted(self.parts.stay, stay, side=side) for side in ("left", "right"))
            met = np.flatnonzero(high > low)
            plain = np.flatnonzero((high == low) & (until > since))
            piece = np.repeat(met, (high - low)[met])
            at = ranges(low[met], (high - low)[met])
            length = np.minimum(self.parts.until[at], until[piece]) - np.maximum(
                self.parts.since[at], since[piece]
            )
            inside = (self.parts.until[at] > since[piece]) & (self.parts.since[at] < until[piece])
            inside &= until[piece] > since[piece]
            piece, at, length = piece[inside], at[inside], length[inside]
            found += np.bincount(piece, self.speeds.done(self._rates[at], length), size)
        else:
            plain = np.flatnonzero(until > since)
        found[plain] = self.speeds.done(self.rate[stay[plain]], until[plain] - since[plain])
        return found if of is None else np.bincount(of[0], found, of[1]).astype(np.float64)

    def uplinks(self) -> Floats:
        """Seconds that its uplinks cost each stay."""
        stays, parts = self.stays, self.parts
        slower = np.flatnonzero(parts.without > parts.bandwidth)
        if self.inputs.model != "rar" or not slower.size:
            return np.zeros(len(stays))
        stay = parts.stay[slower]
        since, until = np.maximum(parts.since[slower], self.begin[stay]), parts.until[slower]
        length = np.maximum(0.0, until - since)
        for at in np.flatnonzero(np.isin(stay, np.array(list(self.written), np.int64))).tolist():
            begin, end = float(since[at]), float(until[at])
            for begun, over in self.written[int(stay[at])]:
                length[at] -= max(0.0, min(over, end) - max(begun, begin))
        part = 1.0 - self._rates[slower] / self._rates_at(parts.without)[slower]
        return np.bincount(stay, length * part, len(stays)).astype(np.float64)

    @cached_property
    def _rates(self) -> Floats:
        """The rate of each part."""
        return self._rates_at(self.parts.bandwidth)

    def _rates_at(self, bandwidth: Floats) -> Floats:
        stays, parts = self.stays, self.parts
        return self.speeds.rate(
            stays.job[parts.stay],
            self.inputs.cluster.of_type[stays.at[parts.stay]],
            stays.gpus[parts.stay],
            stays.servers[parts.stay],
            p=parts.p,
            company=Company(parts.company, stays.job[parts.other], later(stays, parts.stay, parts.other)),
            bandwidth=bandwidth,
        )

    def _without_saves(
        self, stay: Ints, since: Floats, until: Floats
    ) -> tuple[tuple[Ints, int], Ints, Floats, Floats]:
        """Parts of stays without their checkpoints; of which each is a piece, and of how many."""
        writes = np.isin(stay, np.array(list(self.written), np.int64))
        of: list[int] = []
        begins: list[float] = []
        ends: list[float] = []
        for row in np.flatnonzero(writes).tolist():
            begin, end = float(since[row]), float(until[row])
            for begun, over in self.written[int(stay[row])]:
                if over > begin and begun < end:
                    of.append(row)
                    begins.append(begin)
                    ends.append(begun)
                    begin = over
            of.append(row)
            begins.append(begin)
            ends.append(end)
        rest = np.flatnonzero(~writes)
        piece = np.concatenate([rest, np.array(of, np.int64)])
        return (
            (piece, stay.size),
            stay[piece],
            np.concatenate([since[rest], np.array(begins)]),
            np.concatenate([until[rest], np.array(ends)]),
        )
