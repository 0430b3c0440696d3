"""Why jobs waited: what was idle when, and where placements could have put them (docs/results-reference.md).

Idle GPUs, and servers with at least so many of them, are step functions of time. For each distinct demand
the time during which it could not be placed is a sum over their steps: a wait is the difference of two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from ringbco.checker import bounds
from ringbco.checker.bounds import Gang
from ringbco.checker.inputs import MILLI_GPU, Bools, Floats, Ints, RunInputs, StayLog
from ringbco.checker.leastbusy import LeastBusyServers
from ringbco.checker.levels import Changes, Moves, Steps, Waiting, atleast, both, compact, steps, together
from ringbco.checker.settings import Outage
from ringbco.checker.speed import EVEN, Speeds

PACKING: Final = frozenset({"consolidate", "best-fit", "worst-fit", "fgd"})
"""Placements that take one server, or whole ones of the largest size and one more."""
FITS, FEW, APART = range(3)
"""What keeps a demand waiting: nothing, too few idle GPUs, or enough of them but apart."""


@dataclass
class Pool:
    """The GPUs of one type in one virtual cluster.

    empty: GPUs. idle: thousandths. moves: of its servers. rooms: of each share that a job asks, how many GPUs
    have that much left.
    """

    servers: Ints
    sizes: Ints
    moves: Moves
    thousandths: Steps | None = None
    rooms: dict[int, Steps] = field(default_factory=dict)
    _holding: dict[int, Steps] = field(default_factory=dict)

    @cached_property
    def largest(self) -> int:
        """GPUs of its largest server."""
        return int(self.sizes.max())

    @cached_property
    def empty(self) -> Steps:
        """Its empty GPUs."""
        return steps(self.moves.time, self.moves.after - self.moves.before, int(self.sizes.sum()))

    @cached_property
    def idle(self) -> Steps:
        """Its idle thousandths of GPUs."""
        return self.thousandths or Steps(self.empty.time, self.empty.value * MILLI_GPU)

    def holding(self, gpus: int) -> Steps:
        """How many of its servers have so many empty GPUs at least."""
        if gpus not in self._holding:
            moves = self.moves
            change = (moves.after >= gpus).astype(np.int64) - (moves.before >= gpus)
            self._holding[gpus] = steps(moves.time, change, int((self.sizes >= gpus).sum()))
        return self._holding[gpus]

    def pods(self, size: int) -> Steps:
        """How many pods of so many GPUs its servers hold; of one GPU: its empty GPUs."""
        change = self.moves.after // size - self.moves.before // size
        return self.empty if size == 1 else steps(self.moves.time, change, int((self.sizes // size).sum()))


class Placeable:
    """The pools of a cluster, and who may go where."""

    def __init__(self, inputs: RunInputs, speeds: Speeds) -> None:
        self.inputs, self.speeds, self.jobs, self.cluster = inputs, speeds, inputs.jobs, inputs.cluster
        self.packing = inputs.options["placement"] in PACKING
        self.bound = self.jobs.bound if inputs.options["placement"] == "compact" else None
        """Of each job the tiers and segments that count."""
        self.kinds = 1 if self.jobs.types is None else self.jobs.types.shape[1]
        self.kind = np.zeros(self.cluster.gpus.size, np.int64) if self.kinds == 1 else self.cluster.of_type
        self.key = self.cluster.in_vc * self.kinds + self.kind
        """The number of each server's pool; where no job says anything of types, all GPUs are alike."""

    @cached_property
    def tries(self) -> Bools:
        """tries[row, type]: whether a job tries a type: whether it could hold it if all GPUs were idle."""
        jobs = self.jobs
        may = np.ones((len(jobs), 1), np.bool_) if jobs.types is None else jobs.types.copy()
        for kind in range(self.kinds):
            few = self._fewest(jobs.in_vc * self.kinds + kind)
            rows = np.flatnonzero(may[:, kind] & (few > 0))
            may[:, kind] = False
            may[rows[self._moves(rows, kind, few[rows])], kind] = True
        return may

    def _fewest(self, key: Ints) -> Ints:
        """The fewest servers of each job's pool that have its GPUs; 0 where no placement finds them."""
        found = np.zeros(key.size, np.int64)
        for pool in np.unique(key).tolist():
            servers = np.flatnonzero(self.key == pool)
            sizes = np.sort(self.cluster.gpus[servers])[::-1]
            if not sizes.size:
                continue
            sums, mine = np.cumsum(sizes), np.flatnonzero(key == pool)
            asked, inverse = np.unique(self.gangs(mine), axis=0, return_inverse=True)
            fits = [self._holds(servers, sizes, Gang(*gang)) for gang in asked.tolist()]
            few = np.where(fits, np.searchsorted(sums, asked[:, 0]) + 1, 0)
            found[mine] = few[inverse.reshape(-1)]
        return found

    def gangs(self, rows: Ints) -> Ints:
        """What jobs ask for, as the fields of a gang."""
        gang = [self.jobs.gpus[rows], self.jobs.pod[rows]]
        return np.stack([*gang, *([] if self.bound is None else self.bound[rows].T)], axis=1)

    def _holds(self, servers: Ints, sizes: Ints, gang: Gang) -> bool:
        """Whether empty servers hold a gang. sizes: largest first."""
        if gang.is_bound:
            return bounds.holds(gang, self.cluster.tiers, servers, self.cluster.gpus[servers])
        return (_packs if self.packing else _holds)(sizes, gang.gpus, gang.pod)

    def _moves(self, rows: Ints, kind: int, servers: Ints) -> Bools:
        """Whether jobs make progress on so many servers of a type, if they have them to themselves."""
        inputs, jobs = self.inputs, self.jobs
        if jobs.types is None or inputs.model == "fixed" or (inputs.slot is None and inputs.model == "rar"):
            return np.ones(rows.size, np.bool_)
        gpus, kinds = jobs.gpus[rows], np.full(rows.size, kind)
        if inputs.model == "table":
            rate = self.speeds.measured(rows, kinds, gpus, servers)
        else:
            rate = 1.0 / self.speeds.tau(rows, gpus, servers, 0, self.speeds.speedup(rows, kinds))
        if inputs.slot is None:
            return rate > 0
        return (rate > 0) & (np.floor(inputs.slot * rate * EVEN) > 0)

    @cached_property
    def placeable(self) -> Bools:
        """Whether the empty cluster, and its owners' quotas, could ever hold each job."""
        may: Bools = np.any(self.tries, axis=1)
        for book in self.inputs.quotas or ():
            for name, (most, borrows) in book.quotas.items():
                if not borrows:
                    mine = book.owner.eq_missing(pl.Series([name])).to_numpy()
                    may = may & ~(mine & (self.jobs.gpus > most))
        return may

    def waits(self, stay_log: StayLog, down: list[Outage]) -> None:
        """Writes into the stays for how long their jobs waited for which reason."""
        stays, jobs = stay_log.stays, self.jobs
        stays.few, stays.apart = np.zeros(len(stays)), np.zeros(len(stays))
        rows = np.flatnonzero(stays.start > stays.since)
        turn, turned = self._turns(stay_log)
        turns = np.flatnonzero(turn > 0.0)
        job = np.concatenate([stays.job[rows], stays.job[turned[turns]]])
        if not job.size:
            return
        since = np.concatenate([stays.since[rows], np.zeros(turns.size)])
        until = np.concatenate([stays.start[rows], turn[turns]])
        few, apart = np.zeros(job.size), np.zeros(job.size)
        share = np.zeros(job.size, np.int64) if jobs.share is None else jobs.share[job]
        demand = np.column_stack([jobs.in_vc[job], share, self.gangs(job)])
        tries = self.tries[job] if jobs.types is not None else np.ones((job.size, 1), np.bool_)
        key = np.zeros(job.size, np.int64)
        if tries.shape[1] > 1:
            key = np.unique(np.packbits(tries, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        for column in demand.T:
            key = key * (int(column.max()) + 1) + column
        _, at, of = np.unique(key, return_index=True, return_inverse=True)
        pools = Pools(self, stay_log, down, np.unique(share))
        order = np.argsort(of, kind="stable")
        bounds = np.append(np.searchsorted(of[order], np.arange(at.size)), job.size)
        for number, one in enumerate(at.tolist()):
            mine = order[bounds[number] : bounds[number + 1]]
            vc, part, *gang = demand[one].tolist()
            own = [vc * self.kinds + kind for kind in np.flatnonzero(tries[one]).tolist()]
            state = pools.state(own, Gang(*gang), part, (since[mine], until[mine]))
            few[mine] = Waiting.of(state, FEW).between(since[mine], until[mine])
            apart[mine] = Waiting.of(state, APART).between(since[mine], until[mine])
        stays.few[rows], stays.apart[rows] = few[: rows.size], apart[: rows.size]
        stays.apart[turned[turns]] -= apart[rows.size :]

    def _turns(self, stay_log: StayLog) -> tuple[Floats, Ints]:
        """Of a plan: from when theta, not the order, is in the way of stays, and of which."""
        inputs, stays, jobs = self.inputs, stay_log.stays, self.jobs
        if not inputs.planned or inputs.options.get("dispatch") == "reserve":
            return np.zeros(0), np.zeros(0, np.int64)
        by = jobs.gpus[stays.job] if inputs.by_gpus else np.zeros(len(stays), np.int64)
        vc = jobs.in_vc[stays.job]
        order = np.lexsort((stays.job, by, vc))
        turn = np.concatenate([[0.0], stays.start[order][:-1]])
        turn[np.diff(vc[order], prepend=-1) != 0] = 0.0
        return turn, order


def _holds(sizes: Ints, gpus: int, pod: int) -> bool:
    """Whether servers hold so many GPUs in pods of one size."""
    return int((sizes // pod).sum()) * pod >= gpus


def _packs(sizes: Ints, gpus: int, pod: int) -> bool:
    """Whether so many GPUs are one server's, or as many as the largest holds, of several, and one more's.

    sizes: largest first.
    """
    largest = int(sizes[0])
    if gpus <= largest or pod > largest:
        return gpus <= largest
    most = largest - largest % pod
    whole, rest = divmod(gpus, most)
    return bool((sizes >= most).sum() >= whole) and (not rest or bool((sizes >= rest).sum() > whole))


class Pools:
    """What is idle over time, pool by pool."""

    def __init__(self, room: Placeable, stay_log: StayLog, down: list[Outage], shares: Ints) -> None:
        self.room, self.inputs, self.stay_log, self.down = room, room.inputs, stay_log, down
        self.key, gpus = room.key, room.cluster.gpus
        shared = room.jobs.share is not None and stay_log.stays.gpu is not None
        gpu_moves = self._gpu_moves() if shared else None
        self.moves = moves = self._server_moves(gpu_moves)
        self.pools: dict[int, Pool] = {}
        keys = np.unique(self.key).tolist()
        for key in keys:
            servers = np.flatnonzero(self.key == key)
            pool = Pool(servers, gpus[servers], moves if len(keys) == 1 else moves.of(self.key == key))
            if gpu_moves is not None:
                own = gpu_moves.of(self.key == key)
                count = int(pool.sizes.sum())
                pool.thousandths = steps(own.time, own.after - own.before, MILLI_GPU * count)
                for share in shares[shares > 0].tolist():
                    change = (own.after >= share).astype(np.int64) - (own.before >= share)
                    pool.rooms[share] = steps(own.time, change, count)
            self.pools[key] = pool

    def state(self, keys: list[int], gang: Gang, share: int, waits: tuple[Floats, Floats]) -> Steps:
        """Whether a demand fits in some of its pools and, if not, what is in its way, over time."""
        pools = [self.pools[key] for key in keys if key in self.pools]
        found: Steps | None = None
        for pool in pools:
            own = self._in_one(pool, gang, share, waits)
            found = own if found is None else _either(found, own)
        return found or Steps(np.zeros(0), np.array([FEW]))

    def _in_one(self, pool: Pool, gang: Gang, share: int, waits: tuple[Floats, Floats]) -> Steps:
        gpus, pod, *_ = gang
        enough = atleast(pool.idle, share or MILLI_GPU * gpus)
        least_busy = self.inputs.least_busy
        if share:
            fits = atleast(pool.rooms[share], 1)
        elif self.inputs.planned:
            fits = Steps(np.zeros(0), np.zeros(1, np.int64))
        elif least_busy is not None and gpus > least_busy.over:
            looked = self._least_busy.fits(pool.servers, least_busy.spread * gpus, gpus, waits)
            fits = compact(Steps(*looked))
        elif gang.is_bound:
            fits = bounds.fits(gang, self.room.cluster.tiers, pool.servers, pool.sizes, pool.moves)
        elif not self.room.packing:
            fits = atleast(pool.pods(pod), gpus // pod)
        elif gpus <= pool.largest:
            fits = atleast(pool.holding(gpus), 1)
        else:
            most = pool.largest - pool.largest % pod
            whole, rest = divmod(gpus, most)
            fits = atleast(pool.holding(most), whole)
            if rest:
                fits = both(fits, atleast(pool.holding(rest), whole + 1))
        return _state(enough, fits)

    @cached_property
    def _least_busy(self) -> LeastBusyServers:
        return LeastBusyServers(self.inputs, self.room.speeds, self.stay_log.stays, self.moves)

    def _gpu_moves(self) -> Moves:
        """Thousandths left of each GPU; none while its server is down. server: that of the GPU."""
        stays, jobs, gpus = self.stay_log.stays, self.room.jobs, self.room.cluster.gpus
        assert stays.spot is not None
        assert stays.on is not None
        assert stays.gpu is not None
        of = np.repeat(np.arange(len(stays)), np.diff(stays.spot))
        lasts = (stays.end > stays.busy_from)[of]
        of, on, gpu = of[lasts], stays.on[lasts], stays.gpu[lasts]
        base = np.concatenate([[0], np.cumsum(gpus)])
        place, milli_gpus = base[on] + gpu, jobs.milli_gpus[stays.job[of]]
        changes = Changes.of(place, stays.busy_from[of], stays.end[of], milli_gpus)
        at = np.array([outage.server for outage in self.down], np.int64)
        every = np.repeat(np.arange(at.size), gpus[at])
        spot = np.arange(every.size) - np.repeat(np.cumsum(gpus[at]) - gpus[at], gpus[at]) + base[at[every]]
        down, up = (np.array([outage[i] for outage in self.down])[every] for i in (1, 2))
        left = changes.levels(
            np.full(int(gpus.sum()), MILLI_GPU), Changes.of(spot, down, up, np.ones_like(spot))
        )
        return left._replace(server=np.searchsorted(base, left.server, side="right") - 1)

    def _server_moves(self, gpu_moves: Moves | None) -> Moves:
        """Empty GPUs of each server; none while it is down."""
        stays, replicas, gpus = self.stay_log.stays, self.stay_log.replicas, self.room.cluster.gpus
        lasts = replicas.end > replicas.start
        server, held = replicas.server[lasts], replicas.gpus[lasts]
        start, end = replicas.start[lasts], replicas.end[lasts]
        if gpu_moves is None:
            long = (stays.end > stays.busy_from)[stays.of]
            of = stays.of[long]
            server, start = np.append(stays.server[long], server), np.append(stays.busy_from[of], start)
            held, end = np.append(stays.held[long], held), np.append(stays.end[of], end)
        changes = Changes.of(server, start, end, held)
        if gpu_moves is not None:
            empty = (gpu_moves.after == MILLI_GPU).astype(np.int64) - (gpu_moves.before == MILLI_GPU)
            rows = np.flatnonzero(empty)
            changes = Changes(
                np.concatenate([changes.place, gpu_moves.server[rows]]),
                np.concatenate([changes.time, gpu_moves.time[rows]]),
                np.concatenate([changes.change, empty[rows]]),
            )
        at = np.array([outage.server for outage in self.down], np.int64)
        down, up = (np.array([outage[i] for outage in self.down]) for i in (1, 2))
        return changes.levels(gpus, Changes.of(at, down, up, np.ones_like(at)))


def _state(enough: Steps, fits: Steps) -> Steps:
    time, a, b = together(enough, fits)
    return compact(Steps(time, np.where(a == 0, FEW, np.where(b == 0, APART, FITS))))


def _either(one: Steps, other: Steps) -> Steps:
    """In either of two pools: it fits in one, or enough is idle in one."""
    time, a, b = together(one, other)
    both = np.where((a == FITS) | (b == FITS), FITS, np.where((a == APART) | (b == APART), APART, FEW))
    return compact(Steps(time, both))
