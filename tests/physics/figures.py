"""summary.json: every figure of docs/results.md but wall time, decisions and what a policy alone knows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import fsum
from typing import Any, TypeVar

from judge.contention import Spanning
from judge.given import Stay
from judge.stays import may_pause
from physics import services
from physics.columns import OVER, Record, Table, by_job
from physics.searches import merged
from physics.span import HOUR, Span, overlap
from ringbco.errors import InputError

SHARES = (("median", 0.5), ("p90", 0.9), ("p99", 0.99))
CLASSES = (("1", 1), ("2-4", 4), ("5-8", 8), ("9-16", 16), ("17-32", 32), ("33-", math.inf))
Figures = dict[str, Any]
T = TypeVar("T")


def mean(values: Sequence[float]) -> float:
    """Of one value or more."""
    return fsum(values) / len(values)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between the order statistics around (n - 1) x share."""
    at = (len(ordered) - 1) * share
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def sorted_out(things: Iterable[T], of: Callable[[T], int], count: int) -> list[list[T]]:
    """Those of number 0, of number 1 and so on."""
    found: list[list[T]] = [[] for _ in range(count)]
    for thing in things:
        found[of(thing)].append(thing)
    return found


class Summary:
    """The figures of a run. lost: whether a row of the job table could never run.

    Figures of jobs are of those of the window, figures of time of what of it is in the run. Raises InputError
    where no job of the window was done.
    """

    def __init__(self, span: Span, done: list[Record], lost: Callable[[int], bool]) -> None:
        self.span, self.given, self.lost = span.measured(), span.given, lost
        counts = span.given.counts
        self.rows = [job for job in range(len(span.given.jobs.id)) if counts(job)]
        self.done = [record for record in done if counts(record.job)]
        if not self.done:
            raise InputError("a job that was done and submitted in the window", key="options.measure_from")
        ended = [own for own in by_job(span.ran) if own[-1].ended not in OVER]
        self.ended, self.ends = [own for own in ended if counts(own[0].job)], bool(ended)
        self.known = {stay.job for stay in span.ran}
        missing = [job for job in range(len(span.given.jobs.id)) if job not in self.known]
        self.dropped = sum(map(lost, missing))

    def of(self, spanning: Spanning, searches: Table | None) -> Figures:
        """All of them."""
        span, given, done = self.span, self.given, self.done
        everywhere = range(len(given.cluster.gpus))
        figures: Figures = {"policy": given.options["policy"], "jobs": len(done)}
        window = given.window or (-math.inf, math.inf)
        named = zip(("measure_from", "measure_to"), window, strict=True)
        figures |= {name: time for name, time in named if math.isfinite(time)}
        figures |= self._fates(self.rows)
        figures |= self._common(done, every=True) | self._place(done, self.ended, everywhere, span.ran)
        figures |= self._events() | self._resizes() | self._outages() | self._used()
        figures["mean_contention"] = _contention(spanning, span)
        figures["size_classes"] = list(self._classes(done))
        if given.cluster.vc is not None:
            figures["vcs"] = list(self._vcs())
        if given.cluster.gpu_type is not None:
            figures |= self._types()
        if given.services is not None:
            figures |= services.figures(span)
        return figures | _searches(searches, window)

    def _fates(self, rows: Sequence[int]) -> Figures:
        """Of rows of the job table: how many were left out and, where any of all were, refused and ended."""
        given, known, mine = self.given, self.known, set(rows)
        dropped = sum([self.lost(job) for job in rows if job not in known])
        figures: Figures = {"jobs_dropped": dropped}
        refused = len(given.jobs.id) - len(known) - self.dropped
        if refused and given.decides:
            return figures  # nobody tells whom it refused, and whom it ended before they ever ran
        if refused:
            figures["jobs_refused"] = sum(job not in known for job in rows) - dropped
        if self.ends:
            figures["jobs_ended"] = sum(own[0].job in mine for own in self.ended)
        return figures

    def _events(self) -> Figures:
        """Every job in the run comes, and completes, is refused, or ended."""
        return {"events": 2 * (len(self.given.jobs.id) - self.dropped)}

    def _common(self, done: list[Record], *, every: bool) -> Figures:
        """Of jobs that were done. every: percentiles too."""
        given = self.given
        figures: Figures = {}
        waits = [r.to_start for r in done]
        for name, values in (
            ("jct", [r.jct for r in done]),
            ("wait", [r.wait for r in done] if given.several else waits),
            ("time_to_start", waits),
            ("slowdown", [r.rho for r in done]),
            ("bounded_slowdown", [r.bounded for r in done]),
        ):
            figures[f"mean_{name}"] = mean(values)
            if every:
                values.sort()
                figures |= {f"{label}_{name}": percentile(values, share) for label, share in SHARES}
        if given.several or may_pause(given):
            figures["preemptions"] = sum(r.stopped for r in done)
            figures["lost_gpu_seconds"] = fsum(r.paused_gpu for r in done)
        if given.makes_room:
            figures["evictions"] = sum(r.ended("evicted") for r in done)
        return figures | self._fairness(done) | self._deadlines(done)

    def _fairness(self, done: list[Record]) -> Figures:
        jobs, rho = merged(self.given, done)
        figures: Figures = {"mean_finish_time_fairness": mean(rho), "worst_finish_time_fairness": max(rho)}
        user = self.given.jobs.user
        if user is not None:
            speeds: dict[str, list[float]] = {}
            for job, value in zip(jobs, rho, strict=True):
                name = user[job]
                if name is not None and value > 0:
                    speeds.setdefault(name, []).append(1.0 / value)
            means = [mean(own) for own in speeds.values()]
            if means:
                figures["jain_index_users"] = fsum(means) ** 2 / (len(means) * fsum(m * m for m in means))
        return figures

    def _deadlines(self, done: list[Record]) -> Figures:
        due = self.given.jobs.deadline
        if due is None:
            return {}
        told = [(r.finish, by) for r in done if (by := due[r.job]) is not None]
        missed = sum(finish > by for finish, by in told)
        figures: Figures = {"deadlines": len(told), "deadlines_missed": missed}
        return figures | ({"deadlines_met": (len(told) - missed) / len(told)} if told else {})

    def _place(
        self, done: list[Record], ended: list[list[Stay]], servers: Sequence[int], ran: Iterable[Stay]
    ) -> Figures:
        """Makespan and utilisation, of jobs that were done or ended, on some servers.

        ran: all stays there, which hold GPUs in the window whosever they are.
        """
        span, submit = self.span, self.given.jobs.submit
        stays = [stay for r in done for stay in r.stays] + [stay for own in ended for stay in own]
        came = [submit[stay.job] for stay in stays]
        first, last, closes = min(came), max([stay.end for stay in stays]), max(came)
        figures: Figures = {"makespan": last - first, "jobs_spread": sum(r.servers > 1 for r in done)}
        if self.given.limited:
            others = [r.jct for r in done if not r.cut]
            figures["jobs_over_limit"] = len(done) - len(others)
            figures["mean_jct_completed"] = mean(others) if others else None
        if self.given.window is not None:
            up = span.up(servers, span.first, span.last)
            used = span.held(ran, span.first, span.last) / up if up > 0 else 0.0
            return figures | {"utilisation": used}
        up, window = span.up(servers, first, last), span.up(servers, first, closes)
        figures["utilisation"] = span.held(stays, first, last) / up if up > 0 else 0.0
        if closes > first:
            share = span.held(stays, first, closes) / window if window > 0 else None
            figures["utilisation_to_last_submission"] = share
        return figures

    def _classes(self, done: list[Record]) -> list[Figures]:
        gpus, found, bounds = self.given.jobs.gpus, [], [high for _, high in CLASSES]
        classes = sorted_out(done, lambda r: bisect_left(bounds, gpus[r.job]), len(CLASSES))
        for (name, _), mine in zip(CLASSES, classes, strict=True):
            if mine:
                figures = {"gpus": name, "jobs": len(mine), "preemptions": 0}
                found.append(figures | self._common(mine, every=False))
        return found

    def _vcs(self) -> Iterator[Figures]:
        """Of each virtual cluster."""
        cluster, of = self.given.cluster, self.given.jobs.in_vc
        count = len(cluster.vcs)
        servers = sorted_out(range(len(cluster.gpus)), cluster.in_vc, count)
        rows = sorted_out(self.rows, of, count)
        done = sorted_out(self.done, lambda r: of(r.job), count)
        ended = sorted_out(self.ended, lambda own: of(own[0].job), count)
        ran = sorted_out(self.span.ran, lambda stay: of(stay.job), count)
        for number, name in enumerate(cluster.vcs):
            gpus = sum(cluster.gpus[server] for server in servers[number])
            figures: Figures = {"vc": name, "servers": len(servers[number]), "gpus": gpus}
            figures |= {"jobs": len(done[number])} | self._fates(rows[number])
            if done[number]:
                figures |= self._common(done[number], every=True)
                figures |= self._place(done[number], ended[number], servers[number], ran[number])
                figures["size_classes"] = self._classes(done[number])
            yield figures

    def _resizes(self) -> Figures:
        if not self.given.elastic or not self.given.resizes:
            return {}
        resized = [stay for r in self.done for stay in r.stays if stay.began == "resized"]
        return {
            "resizes": len(resized),
            "jobs_resized": len({stay.job for stay in resized}),
            "resize_lost_gpu_seconds": fsum(stay.gpus * stay.pause for stay in resized),
        }

    def _outages(self) -> Figures:
        given = self.given
        if given.outages is None:
            return {}
        failed = [stay for r in self.done for stay in r.stays if stay.ended == "failed"]
        cause = {(outage.server, outage.down): outage.cause or "unknown" for outage in self.span.down}
        hours: dict[str, list[float]] = {}
        for stay in failed:
            own = cause.get((-1 if stay.by_server is None else stay.by_server, stay.end), "unknown")
            lost = stay.lost_time * stay.gpus * given.jobs.weight(stay.job) / HOUR
            hours.setdefault(own, []).append(lost)
        return {
            "failures": len(failed),
            "lost_work_gpu_seconds": fsum(r.lost_gpu for r in self.done),
            "lost_gpu_hours_by_cause": {name: fsum(own) for name, own in hours.items()},
        }

    def _used(self) -> Figures:
        """Goodput, and how long jobs took beside their ideal run times."""
        if self.given.outages is None and not self.given.makes_room:
            return {}
        held = fsum(r.held_gpu for r in self.done)
        wasted = fsum(part for r in self.done for part in (r.paused_gpu, r.lost_gpu))
        done = [r for r in self.done if not r.cut]
        taken = [r.ideal / (r.finish - r.start) if r.finish > r.start else 1.0 for r in done]
        return {
            "goodput": 1.0 - wasted / held if held > 0 else 1.0,
            "effective_training_time_ratio": mean(taken) if taken else None,
        }

    def _types(self) -> Figures:
        """What each GPU type was used for, and the sums where every type has them."""
        span, given, cluster = self.span, self.given, self.given.cluster
        rows, count = [], len(cluster.types)
        servers_of = sorted_out(range(len(cluster.gpus)), cluster.of_type, count)
        stays_of = sorted_out(span.ran, lambda stay: cluster.of_type(stay.held[0][0]), count)
        for fact, servers, mine in zip(cluster.types, servers_of, stays_of, strict=True):
            held, up = (
                seconds / HOUR
                for seconds in (
                    span.held(mine, span.first, span.last),
                    span.up(servers, span.first, span.last),
                )
            )
            row: Figures = {
                "gpu_type": fact.name,
                "servers": len(servers),
                "gpus": sum(cluster.gpus[server] for server in servers),
                "gpu_hours": held,
                "utilisation": held / up if up > 0 else 0.0,
            }
            own = set(servers)
            asleep = span.hours(
                (cluster.gpus[s.server], s.since, s.until) for s in span.slept if s.server in own
            )
            served = span.hours((r.gpus, r.start, r.end) for r in span.replicas if r.server in own)
            if given.sleep_after < math.inf:
                row["asleep_gpu_hours"] = asleep
            if fact.idle_watts is not None and fact.busy_watts is not None:
                busy, idle = held + served, up - held - served - asleep
                row["energy_kwh"] = (busy * fact.busy_watts + idle * fact.idle_watts) / 1000.0
            if fact.price_per_hour is not None:
                row["cost"] = held * fact.price_per_hour
            rows.append(row)
        totals = {
            key: fsum(row[key] for row in rows)
            for key in ("energy_kwh", "cost")
            if all(key in row for row in rows)
        }
        return {"gpu_types": rows} | totals


def _contention(spanning: Spanning, span: Span) -> float:
    """p averaged over all the time that spanning jobs ran."""
    first, last = span.first, span.last
    steps = [
        (overlap(since, until, first, last), jobs, p)
        for since, until, jobs, p in zip(
            spanning.time, spanning.time[1:], spanning.jobs, spanning.p, strict=False
        )
    ]
    ran = fsum(length * jobs for length, jobs, _ in steps)
    return fsum(length * p for length, _, p in steps) / ran if ran > 0 else 0.0


def _searches(table: Table | None, window: tuple[float, float]) -> Figures:
    """Means over searches.parquet, of searches whose first trial was submitted in the window."""
    if table is None:
        return {}
    mine = [window[0] <= time < window[1] for time in table["submit_time"]]
    figures: Figures = {"searches": sum(mine)}
    for name in ("gpu_hours", "time_to_best"):
        known = [value for value, own in zip(table[name], mine, strict=True) if own and value is not None]
        if known:
            figures["mean_search_gpu_hours" if name == "gpu_hours" else "mean_time_to_best"] = mean(known)
    return figures
