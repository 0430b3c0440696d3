"""summary.json: docs/results-reference.md without wall times, decisions and what only a policy knows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from ringbco.checker import services
from ringbco.checker.arrays import codes, overlap, percentile, total
from ringbco.checker.chains import chain_times, log_waits
from ringbco.checker.columns import OVER, Records
from ringbco.checker.contention import Spanning
from ringbco.checker.inputs import EVICTED, FAILED, PREEMPTED, Bools, Floats, Ints, Jobs, Table
from ringbco.checker.run_interval import HOUR, RunInterval
from ringbco.checker.searches import merged
from ringbco.checker.stays import AS_RESIZED, may_pause
from ringbco.errors import InputError

SHARES: Final = (("median", 0.5), ("p90", 0.9), ("p99", 0.99))
CLASSES: Final = (("1", 1), ("2-4", 4), ("5-8", 8), ("9-16", 16), ("17-32", 32), ("33-", math.inf))
OTHERS: Final = {EVICTED: "eviction", PREEMPTED: "preemption"}
"""Causes of lost work besides outages, by how a stay ended."""
Figures = dict[str, Any]


def mean(values: Floats) -> float:
    """Of one value or more."""
    return total(values) / values.size


class Summary:
    """The figures of a run. placeable: which rows of the job table could ever run.

    Figures of jobs are of those of the window, figures of time of what of it is in the run. Raises InputError
    where no job of the window was done.
    """

    def __init__(self, interval: RunInterval, done: Records, placeable: Bools) -> None:
        self.interval, self.inputs, self.done, stays = (
            interval.measured(),
            interval.inputs,
            done,
            interval.stays,
        )
        inputs, counted = interval.inputs, interval.inputs.counted
        self.jobs = stays.job[stays.head]
        self.mine = np.flatnonzero(counted[done.job])
        """Of `done`, those of the window."""
        if not self.mine.size:
            raise InputError("a job that was done and submitted in the window", key="options.measure_from")
        over = np.isin(stays.ended[stays.tail], OVER)
        self.ends = not over.all()
        self.ended: Bools = np.zeros(len(inputs.jobs), np.bool_)
        """Jobs of the window that ran, and were ended before they were done."""
        self.ended[self.jobs[~over]] = True
        self.ended &= counted
        self.is_done: Bools = np.zeros(len(inputs.jobs), np.bool_)
        self.is_done[done.job[self.mine]] = True
        self.known: Bools = np.zeros(len(inputs.jobs), np.bool_)
        self.known[self.jobs] = True
        self.lost = ~self.known
        if self.lost.any():
            self.lost &= ~placeable
        self.dropped = int(self.lost.sum())
        weight = inputs.jobs.weight[stays.job] if inputs.jobs.share is not None else 1.0
        self.gpus = stays.gpus * weight
        """Of each stay, in whole GPUs."""

    def of(self, spanning: Spanning, searches: Table | None) -> Figures:
        """All of them."""
        interval, inputs, mine = self.interval, self.inputs, self.mine
        everywhere = np.ones(inputs.cluster.gpus.size, np.bool_)
        figures: Figures = {"policy": inputs.options["policy"], "jobs": mine.size}
        window = inputs.window or (-math.inf, math.inf)
        named = zip(("measure_from", "measure_to"), window, strict=True)
        figures |= {name: time for name, time in named if math.isfinite(time)}
        figures |= self._fates(inputs.counted)
        figures |= self._common(mine, every=True) | self._place(mine, self.ended, everywhere, slice(None))
        figures |= {"events": 2 * (len(inputs.jobs) - self.dropped)}
        figures |= self._resizes() | self._outages() | self._drained() | self._used() | self._recorded()
        figures["mean_contention"] = _contention(spanning, interval)
        figures["size_classes"] = self._classes(mine)
        if inputs.cluster.vc is not None:
            figures["vcs"] = list(self._vcs())
        if inputs.cluster.gpu_type is not None:
            figures |= self._types()
        if inputs.services is not None:
            figures |= services.figures(interval)
        if inputs.jobs.before is not None:
            figures |= self._chains(inputs.jobs, window)
        return figures | _searches(searches, window)

    def _chains(self, jobs: Jobs, window: tuple[float, float]) -> Figures:
        """Of chains whose first job arrived in the window."""
        finish = np.full(len(jobs), np.nan)
        finish[self.done.job] = self.done.finish
        times = np.sort(chain_times(jobs, ~self.lost, finish, window))
        figures: Figures = {"chains": times.size}
        if times.size:
            figures["mean_chain_time"] = mean(times)
            figures |= {f"{name}_chain_time": percentile(times, share) for name, share in SHARES[:2]}
        return figures

    def _fates(self, rows: Bools) -> Figures:
        """Of rows of the job table: how many were left out and, where any of all were, refused and ended."""
        inputs = self.inputs
        dropped = int((self.lost & rows).sum())
        figures: Figures = {"jobs_dropped": dropped}
        refused = int((~self.known).sum()) - self.dropped
        if refused and inputs.decides:
            return figures  # nobody tells whom it refused, and whom it ended before they ever ran
        if refused:
            figures["jobs_refused"] = int((~self.known & rows).sum()) - dropped
        if self.ends:
            figures["jobs_ended"] = int((self.ended & rows).sum())
        return figures

    def _common(self, rows: Ints, *, every: bool) -> Figures:
        """Of rows of `done`. every: percentiles too."""
        inputs, done = self.inputs, self.done
        figures: Figures = {}
        for name, column in (
            ("jct", done.jct),
            ("wait", done.wait if inputs.several else done.to_start),
            ("time_to_start", done.to_start),
            ("slowdown", done.rho),
            ("bounded_slowdown", done.bounded),
        ):
            values = column[rows]
            figures[f"mean_{name}"] = mean(values)
            if every:
                values.sort()
                figures |= {f"{label}_{name}": percentile(values, share) for label, share in SHARES}
        if inputs.several or may_pause(inputs):
            figures["preemptions"] = int(done.stopped[rows].sum())
            figures["lost_gpu_seconds"] = total(done.paused_gpu[rows])
        if inputs.makes_room:
            figures["evictions"] = int(done.ended(EVICTED)[rows].sum())
        return figures | self._fairness(rows) | self._deadlines(rows)

    def _fairness(self, rows: Ints) -> Figures:
        job, rho = merged(self.inputs, self.done, rows)
        figures: Figures = {
            "mean_finish_time_fairness": mean(rho),
            "worst_finish_time_fairness": float(rho.max()),
        }
        if self._users is not None:
            of, fair = self._users[job], rho > 0
            of, speed = of[(of >= 0) & fair], 1.0 / rho[(of >= 0) & fair]
            count = np.bincount(of)
            if of.size:
                some = np.flatnonzero(count)
                means = np.bincount(of, speed)[some] / count[some]
                figures["jain_index_users"] = total(means) ** 2 / (means.size * total(means * means))
        return figures

    @cached_property
    def _users(self) -> Ints | None:
        """The number of each job's user; -1 for none."""
        user = self.inputs.jobs.user
        return None if user is None else codes(user)[0]

    def _deadlines(self, rows: Ints) -> Figures:
        due = self.inputs.jobs.deadline
        if due is None:
            return {}
        by = due.cast(pl.Float64).fill_null(np.nan).to_numpy()[self.done.job[rows]]
        told, missed = int((~np.isnan(by)).sum()), int((self.done.finish[rows] > by).sum())
        figures: Figures = {"deadlines": told, "deadlines_missed": missed}
        return figures | ({"deadlines_met": (told - missed) / told} if told else {})

    def _place(self, rows: Ints, ended: Bools, servers: Bools, ran: Bools | slice) -> Figures:
        """Makespan and utilisation, of jobs that were done or ended, on some servers.

        ran: all stays there, which hold GPUs in the window whosever they are.
        """
        interval, stays, jobs, done = self.interval, self.interval.stays, self.inputs.jobs, self.done
        mine = ended.copy()
        mine[done.job[rows]] = True
        own = mine[stays.job]
        came = jobs.submit[stays.job[own]]
        first, last, closes = float(came.min()), float(stays.end[own].max()), float(came.max())
        figures: Figures = {
            "makespan": last - first,
            "jobs_spread": int((done.servers[rows] > 1).sum()),
        }
        if self.inputs.limited:
            others = done.jct[rows][~done.cut[rows]]
            figures["jobs_over_limit"] = rows.size - others.size
            figures["mean_jct_completed"] = mean(others) if others.size else None
        if self.inputs.window is not None:
            up = interval.up(servers, interval.first, interval.last)
            used = interval.held(ran, interval.first, interval.last) / up if up > 0 else 0.0
            return figures | {"utilisation": used}
        up, window = interval.up(servers, first, last), interval.up(servers, first, closes)
        figures["utilisation"] = interval.held(own, first, last) / up if up > 0 else 0.0
        if closes > first:
            share = interval.held(own, first, closes) / window if window > 0 else None
            figures["utilisation_to_last_submission"] = share
        return figures

    def _classes(self, rows: Ints) -> list[Figures]:
        of = np.searchsorted([high for _, high in CLASSES], self.inputs.jobs.gpus[self.done.job[rows]])
        found = []
        for number, (name, _) in enumerate(CLASSES):
            mine = rows[of == number]
            if mine.size:
                figures = {"gpus": name, "jobs": mine.size, "preemptions": 0}
                found.append(figures | self._common(mine, every=False))
        return found

    def _vcs(self) -> Iterator[Figures]:
        """Of each virtual cluster."""
        cluster, stays, inputs = self.inputs.cluster, self.interval.stays, self.inputs
        of = inputs.jobs.in_vc
        for number, name in enumerate(cluster.vcs):
            servers, jobs = cluster.in_vc == number, of == number
            gpus = int(cluster.gpus[servers].sum())
            rows = self.mine[jobs[self.done.job[self.mine]]]
            figures: Figures = {"vc": name, "servers": int(servers.sum()), "gpus": gpus}
            figures |= {"jobs": rows.size} | self._fates(jobs & inputs.counted)
            if rows.size:
                figures |= self._common(rows, every=True)
                figures |= self._place(rows, self.ended & jobs, servers, jobs[stays.job])
                figures["size_classes"] = self._classes(rows)
            yield figures

    def _resizes(self) -> Figures:
        if not self.inputs.elastic or not self.inputs.resizes:
            return {}
        stays = self.interval.stays
        resized = (stays.began == AS_RESIZED) & self.is_done[stays.job]
        return {
            "resizes": int(resized.sum()),
            "jobs_resized": int(np.unique(stays.job[resized]).size),
            "resize_lost_gpu_seconds": total((stays.gpus * stays.pause)[resized]),
        }

    def _outages(self) -> Figures:
        inputs, stays = self.inputs, self.interval.stays
        if not inputs.loses:
            return {}
        failed = np.flatnonzero(np.isin(stays.ended, inputs.losing) & self.is_done[stays.job])
        cause = {(outage.server, outage.down): outage.cause or "unknown" for outage in self.interval.down}
        lost = (stays.lost_time * self.gpus)[failed] / HOUR
        hours: dict[str, list[float]] = {}
        told = zip(stays.by_server[failed].tolist(), stays.end[failed].tolist(), lost.tolist(), strict=True)
        for (server, end, own), ended in zip(told, stays.ended[failed].tolist(), strict=True):
            name = OTHERS.get(ended) or cause.get((server, end), "unknown")
            hours.setdefault(name, []).append(own)
        failures = int(np.count_nonzero(stays.ended[failed] == FAILED))
        return {
            **({} if inputs.outages is None else {"failures": failures}),
            "lost_work_gpu_seconds": total(self.done.lost_gpu[self.mine]),
            "lost_gpu_hours_by_cause": {name: math.fsum(own) for name, own in hours.items()},
        }

    def _drained(self) -> Figures:
        """Idle GPUs of servers that drained."""
        if not any(outage.drains for outage in self.inputs.outages or ()):
            return {}
        interval = self.interval.measured()
        every = np.ones(self.inputs.cluster.gpus.size, np.bool_)
        return {"drained_gpu_hours": interval.drained_in(every, interval.first, interval.last) / HOUR}

    def _used(self) -> Figures:
        """Goodput, and how long jobs took beside their ideal run times."""
        if not self.inputs.loses and not self.inputs.makes_room:
            return {}
        done, mine = self.done, self.mine
        held = total(done.held_gpu[mine])
        wasted = total(done.paused_gpu[mine]) + total(done.lost_gpu[mine])
        whole = mine[~done.cut[mine]]
        took = done.finish[whole] - done.start[whole]
        with np.errstate(divide="ignore", invalid="ignore"):
            taken = np.where(took > 0, done.ideal[whole] / took, 1.0)
        return {
            "goodput": 1.0 - wasted / held if held > 0 else 1.0,
            "effective_training_time_ratio": mean(taken) if taken.size else None,
        }

    def _recorded(self) -> Figures:
        """How waits to the first start lie beside those of the log."""
        done, rows = self.done, self.mine
        if self.inputs.jobs.log_start is None:
            return {}
        waits = pl.DataFrame(
            {
                "here": done.to_start[rows],
                "log": log_waits(self.inputs.jobs).gather(done.job[rows]),
            }
        ).drop_nulls()
        if not waits.height:
            return {}
        here, there = pl.col("here"), pl.col("log")
        near = ((here - there).abs() <= pl.max_horizontal(there / 10.0, 60.0)).sum()
        several = all(waits[name].n_unique() > 1 for name in waits.columns)
        return {
            "as_recorded": waits.select(near).item() / waits.height,
            "as_recorded_correlation": waits.select(pl.corr(here, there, method="spearman")).item()
            if several
            else None,
            "as_recorded_jobs": waits.height,
        }

    def _types(self) -> Figures:
        """What each GPU type was used for, and the sums where every type has them."""
        interval, cluster = self.interval, self.inputs.cluster
        replicas, kind = interval.replicas, cluster.of_type
        asleep_on = np.array([sleep.server for sleep in interval.slept], np.int64)
        since, until = (np.array([sleep[i] for sleep in interval.slept], np.float64) for i in (1, 2))
        rows = []
        for number, fact in enumerate(cluster.types):
            servers = kind == number
            held = interval.held(servers[interval.stays.at], interval.first, interval.last) / HOUR
            up = interval.up(servers, interval.first, interval.last) / HOUR
            row: Figures = {
                "gpu_type": fact.name,
                "servers": int(servers.sum()),
                "gpus": int(cluster.gpus[servers].sum()),
                "gpu_hours": held,
                "utilisation": held / up if up > 0 else 0.0,
            }
            own = servers[asleep_on]
            asleep = interval.hours(cluster.gpus[asleep_on[own]], since[own], until[own])
            there = servers[replicas.server]
            served = interval.hours(replicas.gpus[there], replicas.start[there], replicas.end[there])
            if self.inputs.sleep_after < math.inf:
                row["asleep_gpu_hours"] = asleep
            if fact.idle_watts is not None and fact.busy_watts is not None:
                on = up + interval.drained_in(servers, interval.first, interval.last) / HOUR - asleep
                busy, idle = held + served, on - held - served
                row["energy_kwh"] = (busy * fact.busy_watts + idle * fact.idle_watts) / 1000.0
            if fact.price_per_hour is not None:
                row["cost"] = held * fact.price_per_hour
            rows.append(row)
        totals = {
            key: math.fsum(row[key] for row in rows)
            for key in ("energy_kwh", "cost")
            if all(key in row for row in rows)
        }
        return {"gpu_types": rows} | totals


def _contention(spanning: Spanning, interval: RunInterval) -> float:
    """p averaged over all the time that spanning jobs ran."""
    lengths = overlap(spanning.time[:-1], spanning.time[1:], interval.first, interval.last)
    ran = total(lengths * spanning.jobs[:-1])
    return total(lengths * spanning.p[:-1]) / ran if ran > 0 else 0.0


def _searches(table: Table | None, window: tuple[float, float]) -> Figures:
    """Means over searches.parquet, of searches whose first trial was submitted in the window."""
    if table is None:
        return {}
    submit = pl.Series(table["submit_time"]).to_numpy()
    mine = pl.Series((window[0] <= submit) & (submit < window[1]))
    figures: Figures = {"searches": int(mine.sum())}
    for name, figure in (("gpu_hours", "mean_search_gpu_hours"), ("time_to_best", "mean_time_to_best")):
        known = pl.Series(table[name]).filter(mine).drop_nulls()
        if known.len():
            figures[figure] = mean(known.to_numpy())
    return figures
