"""Who held which GPUs at an instant, and what was idle for a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ringbco.result.why_record import MILLI_GPU, Allocations, Moment, Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

MOST: Final = 5
"""Holders that are named."""


class Want(NamedTuple):
    """What a job needs GPUs for. milli_gpus: thousandths in all. share: of one GPU, 0 for whole ones.

    pod: GPUs of each pod. pools: servers among which it may be placed, by GPU type: a gang is on GPUs of one
    type. None where the type is not known. tier: the name of the tier that must hold it, and the group of
    each server there. segment: GPUs of each segment, the name of its tier, and the groups there.
    """

    gpus: int
    share: int
    milli_gpus: int
    pools: list[tuple[int, Rows]] | None
    pod: int = 1
    tier: tuple[str, Rows] | None = None
    segment: tuple[int, str, Rows] | None = None

    @property
    def asks(self) -> int | float:
        """GPUs, less than 1 of a share."""
        return self.share / MILLI_GPU if self.share else self.gpus


def want_of(record: Record, row: int, types: Sequence[int] | None) -> Want:
    """What a job asks for, and where it may be. types: those that it may use, where they are known."""
    asked, share = record.gpus_of(row), record.share_of(row)
    there = np.flatnonzero(record.servers_of(row))
    own = record.cluster.server_types
    pools: list[tuple[int, Rows]] | None = [(0, there)]
    if own is not None and len(record.cluster.types) > 1:
        pools = None if types is None else pools
        if types:  # none where all GPUs are alike to every job
            pools = [(kind, there[own[there] == kind]) for kind in sorted(types)]
    pod = record.said("gpus_per_pod", row) or 1
    tier, segment = record.said("within_tier", row), record.said("segment", row)
    if record.options.get("placement") != "compact":
        tier = segment = None
    return Want(
        asked,
        share,
        share or MILLI_GPU * asked,
        pools,
        pod,
        None if not tier or tier.endswith("?") else (tier, _groups(record, tier)),
        None if not segment else (segment, kind := record.said("segment_tier", row), _groups(record, kind)),
    )


def _groups(record: Record, tier: str) -> Rows:
    """The group of each server in a tier."""
    count = record.cluster.num_servers
    found = [own.group_of(count) for own in record.cluster.tiers if own.name == tier]
    return found[0].astype(np.int64) if found else np.arange(count)


class Held:
    """Who held what at a moment, among servers of a job's virtual cluster.

    held: their GPUs; used: the same, once where several jobs hold them. empty: by server, GPUs without a job;
    milli_gpus: thousandths that no job holds;
    room: the most that is left of one GPU.
    """

    def __init__(self, record: Record, moment: Moment, there: NDArray[np.bool_], rows: Allocations) -> None:
        self.record, self.there = record, there
        held = rows.at(moment)
        self.held = held.those(np.flatnonzero(there[held.server]))
        self.used = held = self.held.once()
        server, since, until = record.down
        self.down = np.zeros(there.size, np.bool_)
        self.down[server[moment.within(since, until)]] = True
        server, since, until = record.drains
        self.drains = np.zeros(there.size, np.bool_)
        self.drains[server[moment.within(since, until)]] = True
        self.drains &= ~self.down
        sizes, up = record.gpus, there & ~self.down & ~self.drains
        milli_gpus = np.bincount(held.server, held.milli_gpus, sizes.size).astype(np.int64)
        touched = milli_gpus // MILLI_GPU
        self.room = np.where(up, MILLI_GPU, 0)
        if record.shared:
            own, most = held.gpu >= 0, int(sizes.max())
            places = held.server[own] * most + held.gpu[own]
            taken = (
                np.bincount(places, held.milli_gpus[own], sizes.size * most)
                .astype(np.int64)
                .reshape(-1, most)
            )
            whole = (
                np.bincount(held.server[~own], held.milli_gpus[~own], sizes.size).astype(np.int64)
                // MILLI_GPU
            )
            touched = (taken > 0).sum(axis=1) + whole
            left = np.where(taken > 0, MILLI_GPU - taken, 0).max(axis=1)
            self.room = np.where(up, np.where(touched < sizes, MILLI_GPU, left), 0)
        self.drained = int((sizes - touched)[there & self.drains].sum())
        self.milli_gpus = np.where(up, sizes * MILLI_GPU - milli_gpus, 0)
        self.empty = np.where(up, sizes - touched, 0)

    def most(self, want: Want) -> int | float:
        """The most idle GPUs of one type that a job may use; of any, where its type is not known."""
        pools = [np.arange(self.milli_gpus.size)] if want.pools is None else [own for _, own in want.pools]
        return gpus(max((int(self.milli_gpus[own].sum()) for own in pools), default=0))

    def _in_tiers(self, want: Want, pools: list[Rows]) -> dict[str, Any]:
        """The most GPUs of one group of its tier that were idle, and the most segments of one region."""
        room = self.empty // want.pod * want.pod
        region = np.zeros(room.size, np.int64) if want.tier is None else want.tier[1]
        found: dict[str, Any] = {}
        if want.tier is not None:
            most = max((_largest(region[own], room[own]) for own in pools), default=0)
            found |= {"within_tier": want.tier[0], "most_in_tier": most}
        if want.segment is not None:
            each, name, part = want.segment
            most = 0
            for own in pools:
                for number in np.unique(region[own]).tolist():
                    here = own[region[own] == number]
                    rooms = np.bincount(part[here], room[here]).astype(np.int64)
                    most = max(most, int((rooms // each).sum()))
            found |= {"segment": each, "segment_tier": name, "segments": most}
        return found

    def told(self, want: Want) -> dict[str, Any]:
        """Who held how much, and what was idle: GPUs, which with shares may be parts of some."""
        record, held = self.record, self.held
        who, at = np.unique(held.who, return_inverse=True)
        milli_gpus = np.bincount(at, held.milli_gpus, who.size).astype(np.int64)
        order = np.lexsort((who, -milli_gpus))[:MOST]
        jobs, used = who >= 0, self.used
        idle = [np.arange(self.empty.size)] if want.pools is None else [own for _, own in want.pools]
        usable = np.concatenate([np.zeros(0, np.int64), *idle])
        found: dict[str, Any] = {
            "gpus": int(record.gpus[self.there].sum()),
            "held": gpus(int(used.milli_gpus[used.who >= 0].sum())),
            "jobs": int(jobs.sum()),
            "replicas": gpus(int(milli_gpus[~jobs].sum())),
            "down": int(record.gpus[self.there & self.down].sum()),
            "drained": self.drained,
            "idle": gpus(int(self.milli_gpus[self.there].sum())),
            "usable": gpus(int(self.milli_gpus[usable].sum())),
            "usable_on": int((self.empty[usable] > 0).sum()),
            "most_on_one": int(self.empty[usable].max(initial=0)),
            "holders": [{"name": record.name(int(who[i])), "gpus": gpus(int(milli_gpus[i]))} for i in order],
        }
        if want.pod > 1:
            pods = self.empty // want.pod
            found |= {"pod": want.pod, "pods": max((int(pods[own].sum()) for own in idle), default=0)}
        if want.tier is not None or want.segment is not None:
            found |= self._in_tiers(want, idle)
        if record.shared:
            found["most_of_one_gpu"] = int(self.room[usable].max(initial=0)) / MILLI_GPU
        types = record.cluster.server_types
        if types is not None:
            found["idle_by_type"] = {
                name: gpus(int(self.milli_gpus[self.there & (types == own)].sum()))
                for own, name in enumerate(record.cluster.types)
                if (self.there & (types == own)).any()
            }
        return found


def _largest(of: Rows, room: Rows) -> int:
    """The most room of one group."""
    return int(np.bincount(of, room).max(initial=0))


def gpus(milli_gpus: int) -> int | float:
    """Thousandths of a GPU as GPUs: a whole number where they are one."""
    return milli_gpus // MILLI_GPU if milli_gpus % MILLI_GPU == 0 else milli_gpus / MILLI_GPU
