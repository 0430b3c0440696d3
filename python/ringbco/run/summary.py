"""summary.json: the figures of a run out of what the engine gives back (docs/results.md#summaryjson)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ringbco.result.by_type import OfType, of_types
from ringbco.result.figures import evaluate
from ringbco.result.metrics import column
from ringbco.result.reliability import DownTime
from ringbco.result.rows import Ended, Place, Rows, Run, Table
from ringbco.result.stays import BEGAN, ENDED
from ringbco.run.steps import asleep, ended, held_gpus, refused
from ringbco.trace.shares import WHOLE, asked_gpus, thousandths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco import _core
    from ringbco.cluster.spec import Cluster
    from ringbco.result.energy import Held
    from ringbco.result.serving import Serving
    from ringbco.trace.outages import Outages


def run_time(frame: pl.DataFrame, finished: pl.DataFrame, result: _core.RunResult) -> tuple[float, float]:
    """When the run begins and ends, s: its makespan lies between."""
    place = Place(0, 0, 0.0, {}, ended=_ended(frame, result))
    rows = Rows("run", Table(finished), at=place)
    return rows.first, rows.last("finish")


def _ended(
    frame: pl.DataFrame, result: _core.RunResult, among: NDArray[np.bool_] | None = None
) -> Ended | None:
    """Jobs that a verb ended after they had run, of those `among`; None where there is none."""
    own = result.tables["jobs"]
    those = ended(result) & ~np.isnan(own["finish"])
    if among is not None:
        those &= among
    if not those.any():
        return None
    held = own["held_gpus"] if "held_gpus" in own else asked_gpus(frame) * own["held"]
    return Ended(column(frame, "submit_time")[those], own["finish"][those], held[those])


@dataclass(frozen=True, eq=False)
class Source:
    """What a summary is made of.

    frame: the job table; finished: jobs.parquet. vc: as `profiles.vc_index` gives it. outages: where the run
    was given any, and as the clock saw them; serving: what became of its services, likewise. searches:
    searches.parquet, where there is one. resizes: whether the policy may resize jobs.
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
    resizes: bool = False

    def summary(self) -> dict[str, Any]:
        """summary.json without the times that reading and writing take."""
        rows = self._rows
        return evaluate(replace(rows, whole=self._run(rows)))

    @cached_property
    def _kept(self) -> NDArray[np.bool_]:
        return self.result.tables["jobs"]["kept"]

    @cached_property
    def _down(self) -> DownTime | None:
        return None if self.seen is None else DownTime.of(self.seen, self.cluster.server_gpus)

    @cached_property
    def _fates(self) -> Mapping[str, NDArray[np.bool_]]:
        """Of each job of the table whether it was left out and, where any was, refused or ended."""
        others = {"jobs_refused": refused(self.result), "jobs_ended": ended(self.result)}
        left_out = ~(self._kept | others["jobs_refused"] | others["jobs_ended"])
        return {"jobs_dropped": left_out} | {name: fate for name, fate in others.items() if fate.any()}

    @cached_property
    def _rows(self) -> Rows:
        fates = {name: int(np.count_nonzero(fate)) for name, fate in self._fates.items()}
        place = Place(
            self.cluster.num_servers,
            self.cluster.num_gpus,
            self.result.held_while_submitting,
            fates,
            _ended(self.frame, self.result),
            self._down,
        )
        return Rows("run", Table(self.finished), at=place)

    def _run(self, rows: Rows) -> Run:
        result = self.result
        first, last = rows.first, rows.last("finish")
        spanning = result.spanning_seconds
        counts = {
            "mean_contention": result.contention_seconds / spanning if spanning > 0 else 0.0,
            "events": result.events,
            "decisions": result.decisions,
            "engine_seconds": result.engine_seconds,
        }
        resizes = self.resizes and "held_gpus" in result.tables["jobs"]
        return Run(
            self.policy,
            counts,
            stays=self._stays() if resizes or self.outages is not None else None,
            causes=None if self.outages is None else self.outages.merged["cause"].to_list(),
            resizes=resizes,
            services=None if self.serving is None else self.serving.services(first, last),
            lent=0.0 if self.serving is None else self.serving.lent,
            searches=self.searches,
            types=self._types(rows, first, last),
            vcs=None if self.vc is None else self._vcs(rows, self.vc),
        )

    def _stays(self) -> dict[str, NDArray[Any]]:
        """Those of the jobs that were done."""
        table = self.result.tables["stays"]
        mine = self._kept[table["job"]]
        stays = {name: table[name][mine] for name in ("job", "by", "pause", "lost_time")}
        shares, gpus = thousandths(self.frame), table["num_gpus"][mine].astype(np.float64)
        if shares is not None:
            share = shares[stays["job"]]
            gpus = np.where(share > 0, share / WHOLE, gpus)
        failed, resized = ENDED.index("failed"), BEGAN.index("resized")
        words = {"failed": table["ended"][mine] == failed, "resized": table["began"][mine] == resized}
        return stays | words | {"gpus": gpus}

    def _vcs(self, whole: Rows, vc: NDArray[np.uint32]) -> list[Rows]:
        held = self.result.tables["vcs"]["held_while_submitting"]
        found = []
        for number, name in enumerate(self.cluster.vc_names):
            servers = self.cluster.vc_servers(name)
            jobs = np.flatnonzero(vc[self._kept] == number)
            place = Place(
                len(servers),
                int(self.cluster.server_gpus[servers].sum()),
                float(held[number]),
                {name: int(np.count_nonzero(fate & (vc == number))) for name, fate in self._fates.items()},
                _ended(self.frame, self.result, vc == number),
                None if self._down is None else self._down.among(servers),
            )
            found.append(Rows("vc" if jobs.size else "empty vc", whole.table, jobs, name, place))
        return found

    def _types(self, rows: Rows, first: float, last: float) -> list[OfType]:
        """Empty where servers name no type, or where allocations are not written down."""
        cluster, allocated = self.cluster, self.result.tables["allocations"]
        if cluster.server_types is None or not allocated["server"].size:
            return []
        types = cluster.server_types
        length = allocated["end"] - allocated["start"]
        held = held_gpus(self.result) * length
        held = np.bincount(types[allocated["server"]], held, len(cluster.types)).astype(np.float64)

        def seconds(of: Held | None) -> NDArray[np.float64] | None:
            return None if of is None else of.gpu_seconds(cluster, first, last)

        spells = asleep(self.result)
        down = None
        if self._down is not None:
            own = [np.flatnonzero(types == number) for number in range(len(cluster.types))]
            down = np.array([self._down.among(servers).gpu_seconds(first, last) for servers in own])
        return list(
            of_types(
                cluster,
                held=held,
                span=rows.span,
                down=down,
                asleep=seconds(None if spells is None else spells.held(cluster)),
                served=seconds(None if self.serving is None else self.serving.held(last)),
            )
        )
