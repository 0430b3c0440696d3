"""Who waits by the record of a run, and in which order: worked out row by row from the job table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from reference.fair import Fair
from ringbco import _core
from ringbco.result.why import Fact
from ringbco.result.why_record import Moment, Record
from ringbco.trace.workload import resolve

NEAR = 1e-9
"""Of seconds and GPU-seconds: what adding up in another order changes."""
RANKED = ("srtf", "srsf", "edf", "tiresias")
"""Rankings whose keys the reference model knows."""
QUEUED = frozenset(each["name"] for each in _core.policies() if each["preemption"] == "none")


class WaitingModel:
    """Who waits by the record, in an order that is worked out row by row from the job table."""

    def __init__(self, record: Record) -> None:
        assert record.found.table is not None
        self.record, self.outcome, self.options = record, record.outcome, record.options
        self.policy = record.policy
        self.jobs = {row["job_id"]: row for row in record.found.table.frame.rows(named=True)}
        self.row = {name: row for row, name in enumerate(self.jobs)}

    def vc_of(self, job: str) -> set[str]:
        """The jobs of a virtual cluster, and all services."""
        parted = bool(self.record.cluster.vc_names)
        own = {n for n, row in self.jobs.items() if not parted or row["vc"] == self.jobs[job]["vc"]}
        return own | {f"service {name}" for name in self.services}

    @cached_property
    def services(self) -> set[str]:
        replicas = self.outcome.replicas
        return set() if replicas is None else set(replicas["service"])

    def waiting(self, time: float, *, before: bool, job: str) -> set[str]:
        """Who else of its virtual cluster waits: by a stay, so that nobody counts who never started."""
        record, moment = self.record, Moment(time, before)
        waits = moment.within(record.since, record.start)
        return {record.name(int(row)) for row in record.row[waits]} & self.vc_of(job) - {job}

    @property
    def whole(self) -> bool:
        """Whether everybody who waited had a stay: nobody was refused or ended in the queue."""
        recorded = self.outcome.summary
        return not recorded.get("jobs_refused") and not recorded.get("jobs_ended")

    @property
    def knows(self) -> bool:
        """Whether the order is one that is worked out here."""
        options = self.options
        if options.get("aging") is not None or options["ties"] not in ("rows", "reverse"):
            return False
        if self.policy in RANKED:
            shared = self.record.shared and self.policy in ("tiresias", "srsf")
            return options["within"] == "fifo" and self.outcome.quota is None and not shared
        own = self.outcome.run.get("own_policy")
        learns = options["order"] == "qssf" and options["predict"] != "exact"
        return own is None and not learns and self.policy in QUEUED

    def places(self, time: float, job: str) -> dict[str, tuple[Any, ...]]:
        """By what each job stands at an instant: least first."""
        sign = -1 if self.options["ties"] == "reverse" else 1
        keys = self.ranking(time) if self.policy in RANKED else self.order(time, job)
        return {
            name: (-(row.get("priority") or 0), keys[name], row["submit_time"], sign * self.row[name])
            for name, row in self.jobs.items()
        }

    @cached_property
    def estimates(self) -> Mapping[str, float]:
        table = self.record.found.table
        assert table is not None
        model = str(self.options["model"])
        tables = self.outcome.speeds if model == "table" else None
        value = {"model": model, "seed": int(self.options["seed"]), "tables": tables}
        profiled = resolve(table, self.record.cluster, value).profiled
        self.work = dict(zip(self.jobs, profiled.iterations.tolist(), strict=True))
        return dict(zip(self.jobs, profiled.estimate.tolist(), strict=True))

    def order(self, time: float, job: str) -> Mapping[str, object]:
        """The keys of a queue."""
        name, jobs = str(self.options["order"]), self.jobs
        if name == "sjf":
            return dict(self.estimates)
        if name == "smallest":
            return {own: float(row["num_gpus"]) for own, row in jobs.items()}
        if name == "qssf":
            return {
                n: row["duration"] * row["num_gpus"] * (row.get("gpu_share") or 1) for n, row in jobs.items()
            }
        if name == "fairshare":
            return {own: self._used(own, time, job) for own in jobs}
        column = name.removeprefix("column:")
        return {own: float(row[column]) if column != name else 0.0 for own, row in jobs.items()}

    def _used(self, name: str, time: float, job: str) -> tuple[float, ...]:
        """What the owners of a job have used by an instant, in the cluster of another."""
        shares = self.outcome.fair_shares
        columns = [c for c in ("user", "vc") if any(c in row for row in self.jobs.values())][:1]
        if shares is not None:
            columns = [c for c in shares.columns if c != "share"]
            if shares.columns == ["vc", "user", "share"]:
                columns = ["user" if shares["user"].null_count() == 0 else "vc"]
        owner = {own: tuple(_text(row[c]) for c in columns) for own, row in self.jobs.items()}
        told = []
        for row in () if shares is None else shares.rows(named=True):
            names = tuple(row[c] for c in columns if row[c] is not None)
            told.append((names, 1.0 if row["share"] is None else row["share"]))
        fair = Fair(tuple(owner.values()), tuple(told), self.options["half_life"])
        found = []
        for level in fair.levels([*owner].index(name)):
            stays = [
                (gpus * (self.jobs[own].get("gpu_share") or 1), start, min(end, time))
                for own, gpus, start, end in self.stays
                if start < time and owner[own][: len(level)] == level and own in self.vc_of(job)
            ]
            found.append(fair.ratio(level, stays, time))
        return tuple(found)

    @cached_property
    def stays(self) -> list[tuple[str, int, float, float]]:
        columns = ("job_id", "num_gpus", "start_time", "end_time")
        return list(self.outcome.stays.select(columns).iter_rows())

    def ranking(self, time: float) -> dict[str, float]:
        """What srtf, srsf, edf and tiresias go by at an instant, of jobs that wait."""
        result: dict[str, float] = {}
        rows = list(self.outcome.stays.filter(pl.col("end_time") <= time).iter_rows(named=True))
        for name, row in self.jobs.items():
            own = [each for each in rows if each["job_id"] == name]
            if self.policy == "edf":
                due = row.get("deadline")
                result[name] = math.inf if due is None else due
            elif self.policy == "tiresias":
                attained = sum(each["num_gpus"] * (each["end_time"] - each["start_time"]) for each in own)
                result[name] = float(sum(limit <= attained for limit in self.options["thresholds"]))
            else:
                done, whole = sum(each["work"] - each["lost"] for each in own), self.estimates[name]
                fixed = self.options["model"] == "fixed"
                key = max(0.0, whole - done) if fixed else whole * (1.0 - done / self.work[name])
                result[name] = key * (row["num_gpus"] if self.policy == "srsf" else 1)
        return result

    def ahead(self, fact: Fact, job: str) -> list[str] | None:
        """Who waits and goes before a job at the moment of a fact; None where rounding may decide it."""
        assert fact.time is not None
        places = self.places(fact.time, job)
        waiting = self.waiting(fact.time, before=fact.figures.get("when") == "just before", job=job)
        own = places[job][1]
        # The key of a tree has two levels.
        others = (places[name][1] for name in waiting if places[name][1] != own)
        if any(np.isclose(own, key, rtol=NEAR, atol=0.0).all() for key in others):
            return None
        return sorted((name for name in waiting if places[name] < places[job]), key=places.__getitem__)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
