"""What was idle for a job at an instant, and why it could not be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ringbco.result.why_record import PACKING, WHOLE, Moment, Record, Stretches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

MOST: Final = 5
"""Holders that are named."""


class Wants(NamedTuple):
    """What a job needs GPUs for. units: thousandths in all. share: of one GPU, 0 for whole ones.

    pools: servers among which it may be placed, by GPU type: a gang is on GPUs of one type. None where only
    the job table says of which. sure: whether the placement's rule is told by who is idle.
    """

    gpus: int
    share: int
    units: int
    pools: list[tuple[int, Rows]] | None
    sure: bool


def wants(record: Record, row: int) -> Wants:
    """What a job asks for, and where it may be."""
    gpus, share = record.gpus_of(row), record.share_of(row)
    there = np.flatnonzero(record.servers_of(row))
    types, options = record.cluster.server_types, record.options
    pools: list[tuple[int, Rows]] | None = [(0, there)]
    sure = not _by_load(options, gpus) and not record.planned
    known = record.workload
    if types is not None and len(record.cluster.types) > 1:
        if known is None or known.columns["types"] is None:
            pools = None if known is None else pools
        else:
            told = known.columns["types"]
            allowed = sorted(own for own, _ in told["kinds"][int(told["of"][row])][2])
            pools = [(own, there[types[there] == own]) for own in allowed]
            # A type on which it makes no progress is not tried; only speeds say which.
            sure &= options.get("model") != "table" and options.get("clock") != "slot"
    if pools is not None:
        pools = [(own, servers) for own, servers in pools if servers.size]
        full = [record.gpus[servers] for _, servers in pools]
        pools = [pool for pool, idle in zip(pools, full, strict=True) if _fits(record, idle, idle, gpus)]
    return Wants(gpus, share, share or WHOLE * gpus, pools, sure)


def _by_load(options: Any, gpus: int) -> bool:
    """Whether a gang goes to idle GPUs of the least busy servers, or waits: lbsgf, read literally."""
    name = options.get("placement")
    kappa = options.get("kappa", 0)
    # A plan looks for one of its own.
    looks = name == "lbsgf" or (name == "sjf-bco" and (isinstance(kappa, str) or gpus > kappa))
    return bool(looks and options.get("variant") == "literal")


def _fits(record: Record, sizes: Rows, empty: Rows, gpus: int) -> bool:
    """Whether the placement finds whole GPUs. sizes, empty: GPUs of each server, and those nobody is on."""
    if record.options.get("placement") not in PACKING:
        return gpus <= int(empty.sum())
    largest = int(sizes.max())
    if gpus <= largest:
        return gpus <= int(empty.max())
    whole, rest = divmod(gpus, largest)
    ready = int((empty == largest).sum()) >= whole
    return ready and (not rest or int((empty >= rest).sum()) > whole)


class Room:
    """Who held what at a moment, among servers of a job's virtual cluster.

    held: their GPUs. empty: by server, GPUs that nobody is on; units: thousandths that nobody holds; room:
    the most that is left of one GPU.
    """

    def __init__(self, record: Record, moment: Moment, there: NDArray[np.bool_], rows: Stretches) -> None:
        self.record, self.moment, self.there = record, moment, there
        held = rows.at(moment)
        self.held = held.those(np.flatnonzero(there[held.server]))
        server, since, until = record.down
        self.down = np.zeros(there.size, np.bool_)
        self.down[server[moment.within(since, until)]] = True
        self._count(self.held)

    def _count(self, held: Stretches) -> None:
        gpus, up = self.record.gpus, self.there & ~self.down
        size = gpus.size
        units = np.bincount(held.server, held.units, size).astype(np.int64)
        touched = units // WHOLE
        self.room = np.where(up, WHOLE, 0)
        if self.record.shared:
            own = held.gpu >= 0
            most = int(gpus.max())
            places = held.server[own] * most + held.gpu[own]
            used = np.bincount(places, held.units[own], size * most).astype(np.int64).reshape(size, most)
            whole = np.bincount(held.server[~own], held.units[~own], size).astype(np.int64) // WHOLE
            touched = (used > 0).sum(axis=1) + whole
            left = np.where(used > 0, WHOLE - used, 0).max(axis=1)
            self.room = np.where(up, np.where(touched < gpus, WHOLE, left), 0)
        self.units = np.where(up, gpus * WHOLE - units, 0)
        self.empty = np.where(up, gpus - touched, 0)

    def cause(self, want: Wants, gone: set[int] | None = None) -> str | None:
        """Whether a job fits or, if not, whether too few GPUs are idle or enough apart; None: unknown.

        gone: jobs to take for gone.
        """
        if gone is not None:
            self._count(self.held.those(np.flatnonzero(~np.isin(self.held.who, list(gone)))))
        try:
            if want.pools is None:
                return "few" if self.units.sum() < want.units else None
            enough = [servers for _, servers in want.pools if self.units[servers].sum() >= want.units]
            if not enough:
                return "few"
            if not want.sure:
                return None
            if want.share:
                fits = (int(self.room[own].max()) >= want.share for own in enough)
            else:
                sizes = self.record.gpus
                fits = (_fits(self.record, sizes[own], self.empty[own], want.gpus) for own in enough)
            return "fits" if any(fits) else "apart"
        finally:
            if gone is not None:
                self._count(self.held)

    def most(self, want: Wants) -> int | float:
        """The most idle GPUs of one type that a job may use; of any, where only the job table says which."""
        if want.pools is None:
            return gpus(int(self.units.sum()))
        return gpus(max((int(self.units[own].sum()) for _, own in want.pools), default=0))

    def told(self, want: Wants) -> dict[str, Any]:
        """Who held how much, and what was idle: GPUs, which with shares may be parts of some."""
        record, held = self.record, self.held
        who, at = np.unique(held.who, return_inverse=True)
        units = np.bincount(at, held.units, who.size).astype(np.int64)
        order = np.lexsort((who, -units))[:MOST]
        jobs = who >= 0
        idle = [np.arange(self.empty.size)] if want.pools is None else [own for _, own in want.pools]
        usable = np.concatenate([np.zeros(0, np.int64), *idle])
        found: dict[str, Any] = {
            "gpus": int(record.gpus[self.there].sum()),
            "held": gpus(int(units[jobs].sum())),
            "jobs": int(jobs.sum()),
            "replicas": gpus(int(units[~jobs].sum())),
            "down": int(record.gpus[self.there & self.down].sum()),
            "idle": gpus(int(self.units[self.there].sum())),
            "usable": gpus(int(self.units[usable].sum())),
            "usable_on": int((self.empty[usable] > 0).sum()),
            "most_on_one": int(self.empty[usable].max(initial=0)),
            "holders": [{"name": record.name(int(who[i])), "gpus": gpus(int(units[i]))} for i in order],
        }
        if record.shared:
            found["most_of_one_gpu"] = int(self.room[usable].max(initial=0)) / WHOLE
        types = record.cluster.server_types
        if types is not None:
            found["idle_by_type"] = {
                name: gpus(int(self.units[self.there & (types == own)].sum()))
                for own, name in enumerate(record.cluster.types)
                if (self.there & (types == own)).any()
            }
        return found


def gpus(units: int) -> int | float:
    """Thousandths of a GPU as GPUs: a whole number where they are one."""
    return units // WHOLE if units % WHOLE == 0 else units / WHOLE
