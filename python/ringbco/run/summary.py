"""summary.json: figures from what the engine returns (docs/results-reference.md#summaryjson)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.result.contention import mean_contention
from ringbco.result.links import OfTier, of_tiers
from ringbco.result.metrics import column
from ringbco.result.reliability import DownTime
from ringbco.result.rows import JobArrays, Measured, OfType, Place, Rows
from ringbco.result.stays import BEGAN, ENDED
from ringbco.run.frames import asleep, busy_from, ended, held_gpus, refused
from ringbco.trace.shares import MILLI_GPU, asked_gpus, thousandths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco import _core
    from ringbco.cluster.spec import Cluster
    from ringbco.result.columns import Columns
    from ringbco.result.serving import OfService, Serving
    from ringbco.result.window import Window
    from ringbco.trace.outages import Outages
    from ringbco.trace.users import Users

_HOUR: Final = 3600.0
CAUSES: Final = {"evicted": "eviction", "preempted": "preemption"}
"""The causes of lost work besides outages, by how stays end."""


def losing(options: Mapping[str, Any]) -> list[str]:
    """How stays end that lose work besides failures."""
    told = {"evicted": "evict_loses", "preempted": "preempt_loses"}
    return [ended for ended, option in told.items() if options.get(option)]


@dataclass(frozen=True, eq=False)
class Source:
    """What is known of a whole run, for its figures.

    frame: when the jobs of the table come and what they ask for; finished: jobs.parquet. vc: as
    `profiles.vc_index` gives it. outages: where the run was given any, and as the clock saw them; serving:
    what became of its services, likewise. searches: searches.parquet, where there is one. may_resize: whether
    the policy may resize jobs. window: of what the figures are; None for the whole run.
    users: those of the job table, where it names any. losing: how stays end that
    lose work, besides failures. chains: how
    long each chain took, s; None without a column after. recorded: when the clock saw each recorded start,
    under a policy that follows these. log_waits: how long each job waited in the log, s, or NaN.
    """

    policy: str
    frame: pl.DataFrame
    finished: Columns
    cluster: Cluster
    result: _core.RunResult
    vc: NDArray[np.uint32] | None = None
    outages: Outages | None = None
    seen: pl.DataFrame | None = None
    serving: Serving | None = None
    searches: pl.DataFrame | None = None
    may_resize: bool = False
    window: Window | None = None
    users: Users | None = None
    losing: Sequence[str] = ()
    chains: NDArray[np.float64] | None = None
    recorded: NDArray[np.float64] | None = None
    log_waits: NDArray[np.float64] | None = None

    @cached_property
    def whole(self) -> Rows:
        """All jobs that were done, whatever the window."""
        return replace(self, window=None).rows if self.window is not None else self._rows(None)

    @cached_property
    def rows(self) -> Rows:
        """The jobs that were done; those of the window."""
        return self.whole if self.window is None else self._rows(np.flatnonzero(self._counted[self._kept]))

    def _rows(self, among: NDArray[np.intp] | None) -> Rows:
        everywhere, everybody = np.arange(self.cluster.num_servers), np.ones_like(self._kept)
        place = self._place(everywhere, everybody, self.result.held_while_submitting)
        table = JobArrays(self.finished, None if self.users is None else self._users)
        return Rows("run", table, among, place=place, run=self)

    def _users(self) -> NDArray[np.int32]:
        assert self.users is not None, "a table with users"
        numbers = self.users.numbers
        return numbers if self._kept.all() else numbers[self._kept]

    @cached_property
    def last(self) -> float:
        """When the run ends, s."""
        return self.whole.last("finish_time")

    @cached_property
    def span(self) -> tuple[float, float, float]:
        """From when on, for how long and until when time is measured: the run, what of a window is in it."""
        if self.window is None:
            return self.whole.first, self.whole.makespan, self.last
        first, last = max(self.whole.first, self.window.since), min(self.last, self.window.until)
        return first, last - first, last

    @cached_property
    def vcs(self) -> list[Rows] | None:
        """The jobs of each virtual cluster; None of a cluster without."""
        if self.vc is None:
            return None
        told, found = self.result.tables["vcs"]["held_while_submitting"].tolist(), []
        for number, name in enumerate(self.cluster.vc_names):
            mine = self.vc == number
            place = self._place(self.cluster.vc_servers(name), mine, told[number])
            jobs = np.flatnonzero((mine & self._counted)[self._kept])
            found.append(Rows("vc" if jobs.size else "empty vc", self.rows.table, jobs, name, place))
        return found

    @cached_property
    def services(self) -> list[OfService] | None:
        """What each service got; None of a run without."""
        first, _, last = self.span
        return None if self.serving is None else self.serving.services(first, last)

    @cached_property
    def lent(self) -> float:
        """GPU-seconds of services that jobs held."""
        assert self.serving is not None, "a run with services"
        if self.window is None:
            return self.serving.lent
        first, _, last = self.span
        return self.serving.lent_within(
            self._held, self.cluster.num_gpus, self._lacking, first=first, last=last
        )

    @cached_property
    def contention(self) -> float | None:
        """Mean contention; None where nothing tells of a window who spanned which servers."""
        result, allocated = self.result, self.result.tables["allocations"]
        if self.window is None or not result.spanning_seconds > 0:
            of_all = result.spanning_seconds
            return result.contention_seconds / of_all if of_all > 0 else 0.0
        first, _, last = self.span
        return mean_contention(allocated, first, last) if allocated["server"].size else None

    @cached_property
    def lossy(self) -> dict[str, NDArray[Any]] | None:
        """The stays that a failing server, or another end that loses work, ended; None of a run without."""
        words = ["failed"] * (self.outages is not None) + [*self.losing]
        return self._stays("ended", *map(ENDED.index, words)) if words else None

    @cached_property
    def failed(self) -> NDArray[np.bool_]:
        """Which of `lossy` a failing server ended."""
        assert self.lossy is not None, "a run in which work is lost"
        return np.asarray(self.lossy["ended"] == ENDED.index("failed"))

    @cached_property
    def causes(self) -> list[str | None]:
        """Of each of `lossy` that of its outage, `eviction` or `preemption`."""
        if self.lossy is None:
            return []
        causes = [] if self.outages is None else self.outages.merged["cause"].to_list()
        told = zip(self.failed.tolist(), self.lossy["by"].tolist(), strict=True)
        others = [CAUSES.get(ENDED[ended], "") for ended in self.lossy["ended"].tolist()]
        return [
            causes[outage] if failed else other for (failed, outage), other in zip(told, others, strict=True)
        ]

    @cached_property
    def lateness(self) -> NDArray[np.float64] | None:
        """By how much each job that was done started after its recorded start, s; None without these."""
        if self.recorded is None:
            return None
        late: NDArray[np.float64] = self.result.tables["jobs"]["start"] - self.recorded
        return late[self._kept & self._counted]

    @cached_property
    def recorded_waits(self) -> NDArray[np.float64] | None:
        """How long each job that was done waited in the log, s, NaN where unknown; None without any."""
        if self.log_waits is None:
            return None
        waits = self.log_waits[self._kept & self._counted]
        return None if np.isnan(waits).all() else waits

    @property
    def latest(self) -> str | None:
        """The job that started the longest after its recorded start, the first of several; None of none."""
        late = self.lateness
        if late is None or not late.any():
            return None
        names: pl.Series = self.finished["job_id"]
        among = np.flatnonzero(self._counted[self._kept])
        return str(names[int(among[late.argmax()])])

    @cached_property
    def resized(self) -> dict[str, NDArray[Any]] | None:
        """The stays that began resized; None where no job may be."""
        resizes = self.may_resize and "held_gpus" in self.result.tables["jobs"]
        return self._stays("began", BEGAN.index("resized")) if resizes else None

    @cached_property
    def types(self) -> list[OfType]:
        """Empty where servers name no GPU type, or where allocations are not written down."""
        cluster, allocated = self.cluster, self.result.tables["allocations"]
        if cluster.server_types is None or not allocated["server"].size:
            return []
        length, sleeps = self._length(busy_from(self.result), allocated["end"]), asleep(self.result)
        first, _, last = self.span
        types, count = cluster.server_types, len(cluster.types)
        held = np.bincount(types[allocated["server"]], held_gpus(self.result) * length, count)
        slept, served = (
            None if one is None else one.gpu_seconds(cluster, first, last)
            for one in (
                None if sleeps is None else sleeps.held(cluster),
                None if self.serving is None else self.serving.held(self.last),
            )
        )
        found, drained = [], self.drained
        for number, fact in enumerate(cluster.type_facts):
            own = np.flatnonzero(types == number)
            place = self._place(own, np.zeros_like(self._kept))
            found.append(
                OfType(
                    fact,
                    place.servers,
                    place.gpus,
                    float(held[number]) / _HOUR,
                    place.up(*self.span) / _HOUR,
                    None if slept is None else float(slept[number]) / _HOUR,
                    0.0 if served is None else float(served[number]) / _HOUR,
                    0.0 if drained is None else drained.among(own).gpu_seconds(first, last) / _HOUR,
                )
            )
        return found

    @property
    def tiers(self) -> list[OfTier]:
        """What the uplinks of each tier carried; empty without tiers."""
        busiest = self.result.tables.get("busiest_links")
        return [] if busiest is None else of_tiers(self.cluster, busiest)

    @cached_property
    def _kept(self) -> NDArray[np.bool_]:
        return self.result.tables["jobs"]["kept"]

    @cached_property
    def _counted(self) -> NDArray[np.bool_]:
        """Of each job of the table whether figures of jobs are of it: those submitted in the window."""
        submit = column(self.frame, "submit_time")
        return np.ones_like(self._kept) if self.window is None else self.window.holds(submit)

    def _length(self, start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much of each interval counts, s."""
        return end - start if self.window is None else self.window.cut(start, end)

    @cached_property
    def _held(self) -> Mapping[str, NDArray[Any]]:
        """All stays: job, GPUs, start, end. A guest's begins when no other job holds its GPUs already."""
        tables = self.result.tables
        if "stays" in tables:
            job, own = tables["stays"]["job"], tables["stays"]
            start = own.get("busy_from", own["start_time"])
            gpus = self._gpus(job, own["num_gpus"])
            return {"job": job, "gpus": gpus, "start": start, "end": own["end_time"]}
        job, own = np.flatnonzero(self._kept), tables["jobs"]
        gpus = asked_gpus(self.frame)[job]
        return {"job": job, "gpus": gpus, "start": own["start"][job], "end": own["finish"][job]}

    @cached_property
    def _held_by(self) -> NDArray[np.float64]:
        """GPU-seconds that each job of the table held in the window."""
        stays = self._held
        seconds = stays["gpus"] * self._length(stays["start"], stays["end"])
        return np.bincount(stays["job"], seconds, self._kept.size).astype(np.float64)

    @cached_property
    def _down(self) -> DownTime | None:
        return None if self.seen is None else DownTime.of(self.seen, self.cluster.server_gpus)

    @cached_property
    def _lacking(self) -> DownTime | None:
        """What is not up: servers that are down, and idle GPUs of those that drain."""
        down = self._down
        return None if down is None else down.with_drained(self.result.tables.get("drained"))

    @cached_property
    def drained(self) -> DownTime | None:
        """Idle GPUs of servers that drained; None of a run without drains."""
        if self.outages is None or not self.outages.drains:
            return None
        nothing = DownTime.of(self.outages.merged.clear(), self.cluster.server_gpus)
        return nothing.with_drained(self.result.tables.get("drained"))

    @cached_property
    def _fates(self) -> Mapping[str, NDArray[np.bool_]]:
        """Of each job of the table whether it was left out and, where any was, refused or ended."""
        others = {"jobs_refused": refused(self.result), "jobs_ended": ended(self.result)}
        left_out = ~(self._kept | others["jobs_refused"] | others["jobs_ended"])
        return {"jobs_dropped": left_out} | {name: fate for name, fate in others.items() if fate.any()}

    def _place(
        self, servers: NDArray[np.integer[Any]] | Sequence[int], mine: NDArray[np.bool_], held: float = 0.0
    ) -> Place:
        """Some servers, and what became of some jobs of the table."""
        gpus = int(self.cluster.server_gpus[servers].sum())
        counted = mine & self._counted
        fates = {name: int(np.count_nonzero(fate & counted)) for name, fate in self._fates.items()}
        down, measured = self._lacking, None
        if self.window is not None:
            first, _, last = self.span
            measured = Measured(first, last, float(self._held_by[mine].sum()))
        place = Place(
            *(len(servers), gpus, held, fates),
            down=None if down is None else down.among(np.asarray(servers)),
            measured=measured,
        )
        own = self.result.tables["jobs"]
        if "guest_gpus" in own:
            place = place._replace(shared=float(pl.Series(own["guest_gpus"][self._kept & mine]).sum()))
        those = ended(self.result) & ~np.isnan(own["finish"]) & counted
        if not those.any():
            return place
        times = own["held_gpus"] if "held_gpus" in own else asked_gpus(self.frame) * own["held"]
        times = times - own.get("guest_gpus", 0.0)
        told = {"submit_time": column(self.frame, "submit_time"), "finish_time": own["finish"], "held": times}
        return place._replace(ended={name: values[those] for name, values in told.items()})

    def _stays(self, word: str, *numbers: int) -> dict[str, NDArray[Any]]:
        """Those that began or ended so, of the jobs that were done."""
        table = self.result.tables["stays"]
        mine = np.isin(table[word], numbers) & (self._kept & self._counted)[table["job"]]
        stays = {name: table[name][mine] for name in ("job", "by", "pause", "lost_time", "ended")}
        return stays | {"gpus": self._gpus(stays["job"], table["num_gpus"][mine])}

    def _gpus(self, job: NDArray[Any], num_gpus: NDArray[Any]) -> NDArray[np.float64]:
        """GPUs of stays of those jobs; less than 1 of a share."""
        shares, gpus = thousandths(self.frame), num_gpus.astype(np.float64)
        if shares is not None:
            share = shares[job]
            gpus = np.where(share > 0, share / MILLI_GPU, gpus)
        return gpus
