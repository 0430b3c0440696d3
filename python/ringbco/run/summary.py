"""summary.json: the figures of a run out of what the engine gives back (docs/results.md#summaryjson)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.result.metrics import column
from ringbco.result.reliability import DownTime
from ringbco.result.rows import OfType, Place, Rows, Table
from ringbco.result.stays import BEGAN, ENDED
from ringbco.run.steps import asleep, ended, held_gpus, refused
from ringbco.trace.shares import WHOLE, asked_gpus, thousandths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco import _core
    from ringbco.cluster.spec import Cluster
    from ringbco.result.serving import OfService, Serving
    from ringbco.trace.outages import Outages

_HOUR: Final = 3600.0


@dataclass(frozen=True, eq=False)
class Source:
    """What is known of a whole run, for its figures.

    frame: when the jobs of the table come and what they ask for; finished: jobs.parquet. vc: as
    `profiles.vc_index` gives it. outages: where the run was given any, and as the clock saw them; serving:
    what became of its services, likewise. searches: searches.parquet, where there is one. may_resize: whether
    the policy may resize jobs.
    """

    policy: str
    frame: pl.DataFrame
    finished: pl.DataFrame
    cluster: Cluster
    result: _core.RunResult
    vc: NDArray[np.uint32] | None = None
    outages: Outages | None = None
    seen: pl.DataFrame | None = None
    serving: Serving | None = None
    searches: pl.DataFrame | None = None
    may_resize: bool = False

    @cached_property
    def rows(self) -> Rows:
        """All jobs that were done."""
        everywhere, everybody = np.arange(self.cluster.num_servers), np.ones_like(self._kept)
        place = self._place(everywhere, everybody, self.result.held_while_submitting)
        return Rows("run", Table(self.finished), place=place, run=self)

    @cached_property
    def last(self) -> float:
        """When the run ends, s."""
        return self.rows.last("finish_time")

    @cached_property
    def vcs(self) -> list[Rows] | None:
        """The jobs of each virtual cluster; None of a cluster without."""
        if self.vc is None:
            return None
        told, found = self.result.tables["vcs"]["held_while_submitting"].tolist(), []
        for number, name in enumerate(self.cluster.vc_names):
            mine = self.vc == number
            place = self._place(self.cluster.vc_servers(name), mine, told[number])
            jobs = np.flatnonzero(mine[self._kept])
            found.append(Rows("vc" if jobs.size else "empty vc", self.rows.table, jobs, name, place))
        return found

    @cached_property
    def services(self) -> list[OfService] | None:
        """What each service got; None of a run without."""
        return None if self.serving is None else self.serving.services(self.rows.first, self.last)

    @cached_property
    def failed(self) -> dict[str, NDArray[Any]] | None:
        """The stays that a failing server ended; None of a run without outages."""
        return None if self.outages is None else self._stays("ended", ENDED.index("failed"))

    @cached_property
    def causes(self) -> list[str | None]:
        """Of each of `failed` that of its outage."""
        if self.outages is None or self.failed is None:
            return []
        causes = self.outages.merged["cause"].to_list()
        return [causes[outage] for outage in self.failed["by"].tolist()]

    @cached_property
    def resized(self) -> dict[str, NDArray[Any]] | None:
        """The stays that began resized; None where nobody may be."""
        resizes = self.may_resize and "held_gpus" in self.result.tables["jobs"]
        return self._stays("began", BEGAN.index("resized")) if resizes else None

    @cached_property
    def types(self) -> list[OfType]:
        """Empty where servers name no GPU type, or where allocations are not written down."""
        cluster, rows, allocated = self.cluster, self.rows, self.result.tables["allocations"]
        if cluster.server_types is None or not allocated["server"].size:
            return []
        length, spells = allocated["end"] - allocated["start"], asleep(self.result)
        types, count = cluster.server_types, len(cluster.types)
        held = np.bincount(types[allocated["server"]], held_gpus(self.result) * length, count)
        slept, served = (
            None if one is None else one.gpu_seconds(cluster, rows.first, self.last)
            for one in (
                None if spells is None else spells.held(cluster),
                None if self.serving is None else self.serving.held(self.last),
            )
        )
        found = []
        for number, fact in enumerate(cluster.type_facts):
            own = np.flatnonzero(types == number)
            place = self._place(own, np.zeros_like(self._kept))
            found.append(
                OfType(
                    fact,
                    place.servers,
                    place.gpus,
                    float(held[number]) / _HOUR,
                    place.up(rows.first, rows.makespan, self.last) / _HOUR,
                    None if slept is None else float(slept[number]) / _HOUR,
                    0.0 if served is None else float(served[number]) / _HOUR,
                )
            )
        return found

    @cached_property
    def _kept(self) -> NDArray[np.bool_]:
        return self.result.tables["jobs"]["kept"]

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
        fates = {name: int(np.count_nonzero(fate & mine)) for name, fate in self._fates.items()}
        down = None if self.seen is None else DownTime.of(self.seen, self.cluster.server_gpus)
        place = Place(
            *(len(servers), gpus, held, fates), down=None if down is None else down.among(np.asarray(servers))
        )
        own = self.result.tables["jobs"]
        those = ended(self.result) & ~np.isnan(own["finish"]) & mine
        if not those.any():
            return place
        times = own["held_gpus"] if "held_gpus" in own else asked_gpus(self.frame) * own["held"]
        told = {"submit_time": column(self.frame, "submit_time"), "finish_time": own["finish"], "held": times}
        return place._replace(ended={name: values[those] for name, values in told.items()})

    def _stays(self, word: str, number: int) -> dict[str, NDArray[Any]]:
        """Those that began or ended so, of the jobs that were done."""
        table = self.result.tables["stays"]
        mine = (table[word] == number) & self._kept[table["job"]]
        stays = {name: table[name][mine] for name in ("job", "by", "pause", "lost_time")}
        shares, gpus = thousandths(self.frame), table["num_gpus"][mine].astype(np.float64)
        if shares is not None:
            share = shares[stays["job"]]
            gpus = np.where(share > 0, share / WHOLE, gpus)
        return stays | {"gpus": gpus}
