"""A job's stays: where it ran, who was on the same links, and why each was over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ringbco.result import why_links, why_uplinks
from ringbco.result.why import Fact, Interval
from ringbco.result.why_held import MOST, gpus, want_of
from ringbco.result.why_record import MILLI_GPU

if TYPE_CHECKING:
    from ringbco.result.why_asked import Asked
    from ringbco.result.why_record import Allocations, Record


class Stays:
    """Collects the facts of a job. own: the places of its stays among all. done: its row of jobs.parquet.

    asked: what the engine said.
    """

    def __init__(self, record: Record, row: int, asked: Asked) -> None:
        self.record, self.row, self.name, self.asked = record, row, record.name(row), asked
        self.stay_rows = record.stays_of(row)
        jobs = record.outcome.jobs
        at = jobs["job_id"].index_of(self.name)
        self.done: dict[str, Any] = {} if at is None else jobs.row(int(at), named=True)
        self.want = want_of(record, row, asked.types)
        self.facts: list[Fact] = []
        self.company: dict[str, None] = {}
        """Whom it met on its GPUs, in that order."""
        self.stay: int | None = None
        self.near: Allocations | None = None
        if record.allocations is not None and self.stay_rows.size:
            rows, since = record.allocations, float(record.since[self.stay_rows[0]])
            until = float(record.end[self.stay_rows[-1]])
            self.near = rows.those(np.flatnonzero((rows.end >= since) & (rows.start <= until)))

    def say(self, kind: str, time: float | None, **told: Any) -> None:
        """Notes a fact."""
        submitted = float(self.record.submit[self.row])
        since = None if np.isnan(submitted) else submitted
        self.facts.append(Fact(kind, time, told, since, self.stay, self.record.zero, self.record.called))

    def _parts(self, place: int) -> list[tuple[int, float]]:
        """(server, GPUs) of a stay; empty where they were not recorded."""
        record = self.record
        if self.near is None:
            return []
        rows = self.near
        those = (rows.who == self.row) & (rows.stay == record.number[place])
        milli_gpus = np.bincount(rows.server[those], rows.milli_gpus[those]).astype(np.int64)
        return [(int(server), gpus(int(milli_gpus[server]))) for server in np.flatnonzero(milli_gpus)]

    def _held(self, place: int) -> float:
        """GPUs of a stay; less than 1 for a share, which only allocations know of a job without a row."""
        parts = self._parts(place)
        if parts:
            return gpus(sum(round(count * MILLI_GPU) for _, count in parts))
        return self.want.share / MILLI_GPU if self.want.share else int(self.record.held[place])

    def _started(self, number: int) -> None:
        record, place = self.record, int(self.stay_rows[number])
        stays, start = record.stays, float(record.start[place])
        told: dict[str, Any] = {
            "began": stays["began"][place],
            "gpus": self._held(place),
            "servers": int(stays["num_servers"][place]),
            "on": [{"server": server, "gpus": count} for server, count in self._parts(place)],
        }
        if number and told["began"] == "resized":
            told["before"] = int(record.held[place - 1])
        if "gpu_type" in stays.columns and stays["gpu_type"][place] is not None:
            told["gpu_type"] = stays["gpu_type"][place]
        if stays["pause"][place]:
            told["pause"] = float(stays["pause"][place])
        beside = {} if self.near is None else why_links.company(record, self.near, place, self.row)
        there = [each["job"] for each in beside.get("with", ()) if each["since"] < start]
        self.company |= dict.fromkeys(each["job"] for each in beside.get("with", ()))
        self.say("started", start, **told, **({"beside": there} if there else {}))
        if told["gpus"] < self.want.gpus and not self.want.share:
            self.say("given", start, gpus=told["gpus"], of=self.want.gpus, **self._began(start))
        if self.near is None or not told["on"]:
            return
        rows, servers = self.near, [part["server"] for part in told["on"]]
        self._gave(rows, start, servers)
        slows = bool(self.done.get("run_contention")) if self.done else None
        for met in (
            beside,
            why_links.neighbours(record, rows, place, self.row, servers),
        ):
            if met:
                self.say("shared", float(record.end[place]), **met, slowed=slows)
        if self.done.get("run_contention_uplinks"):
            crossed = why_uplinks.busiest(record, rows, place, self.row)
            if crossed:
                self.say("crossed", float(record.end[place]), **crossed)

    def _began(self, time: float) -> dict[str, Any]:
        """Which other jobs a decision gave GPUs."""
        record = self.record
        those = np.flatnonzero((record.start == time) & (record.end > time) & (record.row != self.row))
        those = those[record.beside(self.row)[record.row[those]]]
        gangs = zip(record.row[those].tolist(), record.held[those].tolist(), strict=True)
        found = [(record.share_of(row) or MILLI_GPU * count, row) for row, count in gangs]
        ranked = sorted(found, key=lambda each: (-each[0], each[1]))
        got = [{"name": record.name(row), "gpus": gpus(count)} for count, row in ranked]
        return {"got": got[:MOST], "others": len(got[MOST:])}

    def _gave(self, rows: Allocations, time: float, servers: list[int]) -> None:
        """Whose GPUs on its servers became free at the instant of its start."""
        those = (
            (rows.end == time) & (rows.start < time) & (rows.who != self.row) & np.isin(rows.server, servers)
        )
        server, until = (np.append(self.record.down[i], self.record.drains[i]) for i in (0, 2))
        back = sorted({int(own) for own in server[until == time]} & set(servers))
        if those.any() or back:
            by = self._grouped(rows.those(np.flatnonzero(those)))
            self.say("freed", time, by=by[:MOST], others=len(by[MOST:]), came_back=back)

    def _grouped(self, rows: Allocations) -> list[dict[str, Any]]:
        """Who holds how much in some rows, the most first."""
        found: dict[int, int] = {}
        for who, milli_gpus in zip(rows.who.tolist(), rows.milli_gpus.tolist(), strict=True):
            found[who] = found.get(who, 0) + milli_gpus
        ranked = sorted(found.items(), key=lambda each: (-each[1], each[0]))
        return [{"name": self.record.name(who), "gpus": gpus(milli_gpus)} for who, milli_gpus in ranked]

    def _ended(self, number: int) -> None:
        record, place = self.record, int(self.stay_rows[number])
        stay = record.stays.row(place, named=True)
        end, word = float(record.end[place]), stay["ended"]
        if word == "done":
            return
        told: dict[str, Any] = {"ended": word, "ran": end - float(record.start[place])}
        told |= {name: stay[name] for name in ("by_job", "by_service", "by_server") if stay[name] is not None}
        if stay["lost_time"] or stay["lost"]:
            told |= {"lost": float(stay["lost"]), "lost_time": float(stay["lost_time"])}
            told["units"] = "s" if record.options.get("model") == "fixed" else "iterations"
        if word == "failed":
            told |= self._outage(stay["by_server"], end)
        elif word == "rung":
            told |= self._rung(end)
        elif word == "preempted" and self.near is not None:
            rows, servers = self.near, [server for server, _ in self._parts(place)]
            those = (rows.start == end) & (rows.end > end) & (rows.who != self.row)
            those &= np.isin(rows.server, servers)
            came = self._grouped(rows.those(np.flatnonzero(those)))
            told |= {"came": came[:MOST], "others": len(came[MOST:])}
        self.say("stopped", end, **told)

    def _outage(self, server: int | None, time: float) -> dict[str, Any]:
        """Why a server failed, and until when it was down."""
        outages = self.record.outages
        servers, since, until = self.record.down
        those = np.flatnonzero((servers == server) & (since == time))
        if outages is None or not those.size:
            return {}
        cause, back = outages["cause"][int(those[0])], float(until[those[0]])
        return {"cause": cause} | ({"back": back} if np.isfinite(back) else {})

    def _rung(self, time: float) -> dict[str, Any]:
        """Which rung it came to, and how well it did."""
        rungs = self.record.outcome.rungs
        if rungs is None:
            return {}
        own = rungs.filter((pl.col("job_id") == self.name) & (pl.col("time") == time))
        own = own.filter(pl.col("went_on").is_null() | (pl.col("went_on") != time)).head(1)
        if not own.height:
            return {}
        return {
            "rung": int(own["rung"][0]),
            "loss": float(own["loss"][0]),
            "goes_on": own["went_on"][0] is not None,
        }

    def _skipped(self, numbers: range) -> None:
        record, first, last = self.record, int(self.stay_rows[numbers[0]]), int(self.stay_rows[numbers[-1]])
        words = record.stays["ended"][first : last + 1].value_counts(sort=True)
        self.say(
            "skipped", float(record.since[first]), stays=len(numbers), until=float(record.end[last]),
            ended=dict(words.rows()),
        )  # fmt: skip

    def _lane(self) -> Iterator[Interval]:
        record, stays = self.record, self.record.stays
        last = float(record.submit[self.row])
        for place in self.stay_rows.tolist():
            start, end, since = (float(times[place]) for times in (record.start, record.end, record.since))
            last = since if np.isnan(last) else last
            if place != self.stay_rows[0] and since > last:
                yield Interval(last, since, "resting")
                last = since
            if start > last:
                yield Interval(last, start, "waiting")
            servers = tuple(server for server, _ in self._parts(place))
            held = self._held(place)
            begin = min(end, start + float(stays["pause"][place] or 0.0))
            if begin > start:
                yield Interval(start, begin, "pausing", held, servers)
            yield Interval(begin, end, "running", held, servers, stays["ended"][place])
            last = end
