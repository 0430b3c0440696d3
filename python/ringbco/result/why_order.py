"""The order of a queue, worked out again: who was ahead and, where it is static, at the head until when."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ringbco.result.why_record import QUEUES, Moment, Record
from ringbco.trace import ties
from ringbco.trace.fair_shares import USUAL, FairShares, owners

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

RANKED: Final = {
    "srtf": "the ranking by least remaining run time",
    "srsf": "the ranking by least remaining run time x num_gpus",
    "edf": "the ranking by deadline",
    "tiresias": "the ranking by attained service",
}
"""Rankings that the record tells, of jobs that wait: what they go by does not change meanwhile."""
CLOSE: Final = 1e-9
"""By so much, relative, two ways of working a time out may differ."""


class Head(NamedTuple):
    """A job at the head of the queue, and for how long."""

    row: int
    seconds: float


class Shadow(NamedTuple):
    """EASY's reservation: when its head could start by the estimates, and when the job would have ended."""

    head: int
    time: float
    own_end: float


class Order:
    """The queue that a job waits in. why_not: why its order is not worked out again; None where it is."""

    def __init__(self, record: Record, row: int) -> None:
        self.record, self.row, self.options = record, row, record.options
        self.order = str(self.options.get("order", "fifo"))
        self.discipline = str(self.options.get("queue", "strict"))
        self.why_not = self._why_not()
        waits = (record.start > record.since) & record.beside(row)[record.row]
        self.waits = np.flatnonzero(waits)

    def _why_not(self) -> str | None:
        """What keeps the order from being worked out again."""
        policy, record = self.record.policy, self.record
        if record.planned:
            return "a plan has no queue"
        if policy not in (*QUEUES, *RANKED):
            return f"the result does not keep how {policy} ranks them"
        if self.options.get("within") == "list" or self.options.get("aging") is not None:
            moving = "aging" if policy in QUEUES else "within list"
            return f"with --{moving} jobs change places as they wait"
        if record.ended.len():
            return f"some jobs have no row, and {record.found.why_not}"
        if not record.whole and self.options.get("ties", "rows") not in ("rows", "reverse"):
            return f"ties hang on the job table, and {record.found.why_not}"
        return self._no_keys()

    def _no_keys(self) -> str | None:
        """Why what jobs are ordered by is not known."""
        policy, order, record = self.record.policy, self.order, self.record
        if policy in ("tiresias", "srsf") and record.shared:
            return f"the result does not keep how {policy} ranks shares of a GPU"
        if self.moves:
            known = owners(record.asked, self._shares) is not None
            return (
                None if known else f"whose jobs they are hangs on the job table, and {record.found.why_not}"
            )
        by_rest = policy in ("srtf", "srsf")
        if policy in ("edf", "tiresias") or (not by_rest and order in ("fifo", "smallest")):
            return None
        exact = order == "qssf" and self.options.get("predict") == "exact"
        if by_rest or order == "sjf" or exact:
            known = "duration" in record.asked.columns if exact else not np.isnan(record.estimates).any()
            return None if known else f"run times hang on the job table, and {record.found.why_not}"
        if order.startswith("column:") and order.removeprefix("column:") in record.asked.columns:
            return None
        goes_by = "the keys of order " + order if order != "qssf" else "what qssf had learnt by then"
        return f"the result does not keep {goes_by}"

    @property
    def ranks(self) -> bool:
        """Whether a ranking decides, not a queue."""
        return self.record.policy in RANKED

    @property
    def moves(self) -> bool:
        """Whether the order of a queue hangs on the time."""
        return self.order == "fairshare" and not self.ranks

    @cached_property
    def _shares(self) -> FairShares | None:
        """The fair shares that were given."""
        frame = self.record.outcome.fair_shares
        return None if frame is None else FairShares(frame, "fair_shares.parquet")

    @property
    def told(self) -> str:
        """By what jobs are ranked, as a sentence tells it."""
        return RANKED.get(self.record.policy, f"the order of {self.order}")

    def ahead(self, rows: Rows, moment: Moment) -> Rows:
        """Those of some waiting jobs that go before this one, the first first."""
        keys = self._keys(np.append(rows, self.row), moment)
        order = np.lexsort(
            (self.place[np.append(rows, self.row)], keys, self._level(np.append(rows, self.row)))
        )
        found = np.append(rows, self.row)[order]
        return found[: int(np.flatnonzero(found == self.row)[0])]

    def _level(self, rows: Rows) -> Rows:
        """Where a key stands between priority and fifo: the priority, higher first."""
        asked = self.record.asked
        if not (self.ranks or self.moves) or "priority" not in asked.columns:
            return np.zeros(rows.size, np.int64)
        return -asked["priority"].fill_null(0).cast(int).to_numpy()[rows]

    def _keys(self, rows: Rows, moment: Moment) -> Floats:
        """What a ranking goes by among jobs that wait; a queue's static order has it in `place`."""
        if self.moves:
            return self._used(moment.time)[rows]
        early = np.flatnonzero(self.record.end <= moment.time)
        spent = np.bincount(self.record.row[early], self._spent[early], len(self.record.names))
        return self._key(rows, spent[rows].astype(np.float64))

    def _used(self, time: float) -> Floats:
        """By job, what its owner has used for its share, to 31 binary digits (docs/operators.md)."""
        record, asked, half_life = self.record, self.record.asked, float(self.options["half_life"])
        names = owners(asked, self._shares) or []
        numbers = {owner: number for number, owner in enumerate(dict.fromkeys(names))}
        owner = np.array([numbers[name] for name in names])
        said = {} if self._shares is None else self._shares.shares()
        share = np.array([USUAL if name is None else said.get(name, USUAL) for name in numbers])
        those = record.beside(self.row)[record.row] & (record.start < time)
        rows, end = record.row[those], np.minimum(record.end[those], time)
        held = record.held[those].astype(np.float64)
        if "gpu_share" in asked.columns:
            held *= asked["gpu_share"].fill_null(1.0).to_numpy()[rows]
        lengths, ages = (end - record.start[those]) / half_life, (time - end) / half_life
        seconds = half_life / np.log(2.0) * -np.expm1(-lengths * np.log(2.0)) * np.exp2(-ages)
        used = np.bincount(owner[rows], held * seconds, share.size)
        part, exponent = np.frexp(used / np.where(share > 0, share, 1.0))
        ratio = np.ldexp(np.round(np.ldexp(part, 31)), exponent - 31)
        return np.asarray(np.where(share > 0, ratio, np.inf)[owner])

    @cached_property
    def _spent(self) -> Floats:
        """What each stay adds to what a ranking goes by: GPU-seconds of tiresias, else work that was kept."""
        record = self.record
        if record.policy == "tiresias":
            return np.asarray((record.end - record.start) * record.held)
        return (record.stays["work"].fill_null(0.0) - record.stays["lost"]).to_numpy()

    def _key(self, rows: Rows, spent: Floats) -> Floats:
        """What a ranking goes by, of jobs whose stays have added so much."""
        record, policy = self.record, self.record.policy
        if policy == "edf" and "deadline" in record.asked.columns:
            return record.asked["deadline"].fill_null(float("inf")).to_numpy()[rows]
        if policy == "tiresias":
            return np.searchsorted(np.sort(self.options["thresholds"]), spent, side="right").astype(float)
        if policy not in ("srtf", "srsf"):
            return np.zeros(rows.size)
        gpus = record.asked["num_gpus"].to_numpy()[rows] if policy == "srsf" else 1
        whole = record.estimates[rows]
        if self.options.get("model") == "fixed":
            return np.asarray(np.maximum(0.0, whole - spent) * gpus)
        assert record.workload is not None
        return np.asarray(whole * (1.0 - spent / record.workload.profiled.iterations[rows]) * gpus)

    def of_waits(self) -> Rows:
        """Of each stay the place of the wait before it among all waits: the lower goes first."""
        record = self.record
        sums = np.cumsum(self._spent) - self._spent
        spent = sums - sums[record.first[record.row]]
        keys = self._key(record.row, spent)
        found = np.empty(record.row.size, np.int64)
        found[np.lexsort((self.place[record.row], keys, self._level(record.row)))] = np.arange(found.size)
        return found

    @cached_property
    def place(self) -> Rows:
        """The place of every job: a lower one goes first. Only where there is no `why_not`."""
        record, asked = self.record, self.record.asked
        jobs = asked.height
        rows = np.arange(jobs)
        tied = ties.key(rows.astype(np.int64), str(self.options.get("ties", "rows")))
        priority = np.zeros(jobs, np.int64)
        if "priority" in asked.columns:
            priority = asked["priority"].fill_null(0).cast(int).to_numpy()
        keys: Floats = np.zeros(jobs)
        if self.order == "smallest":
            keys = asked["num_gpus"].to_numpy().astype(np.float64)
        elif self.order == "sjf":
            keys = record.estimates
        elif self.order == "qssf":
            shares = asked["gpu_share"].fill_null(1.0).to_numpy() if "gpu_share" in asked.columns else 1.0
            keys = asked["duration"].to_numpy() * asked["num_gpus"].to_numpy() * shares
        elif self.order not in ("fifo", "fairshare"):
            keys = asked[self.order.removeprefix("column:")].cast(float).to_numpy()
        found = np.empty(len(record.names), np.int64)
        found[jobs:] = np.arange(jobs, found.size)
        found[np.lexsort((rows, tied, record.submit[:jobs], keys, -priority))] = rows
        return found

    def waiting(self, moment: Moment) -> Rows:
        """The other jobs that wait at a moment."""
        record = self.record
        there = self.waits[moment.within(record.since[self.waits], record.start[self.waits])]
        return np.asarray(record.row[there[record.row[there] != self.row]])

    def doubtful(self, rows: Rows, moment: Moment) -> bool:
        """Whether rounding may decide who of some jobs goes before this one."""
        if self.ranks or self.moves:
            keys = self._keys(np.append(rows, self.row), moment)
            own, others = keys[-1], keys[:-1]
        elif self.order == "sjf" and self.options.get("model") != "fixed":
            own, others = self.record.estimates[self.row], self.record.estimates[rows]
        else:
            return False
        with np.errstate(invalid="ignore"):
            apart = np.abs(others - own)
            near: NDArray[np.bool_] = (apart > 0) & (apart <= CLOSE * abs(own)) & np.isfinite(apart)
        return bool(near.any())

    def heads(self, since: float, until: float) -> list[Head]:
        """Who was at the head of the queue while the job waited; the longest first, itself left out."""
        record = self.record
        start, begins = record.start[self.waits], record.since[self.waits]
        those = self.waits[(start > since) & (begins < until)]
        those = those[self.place[record.row[those]] < self.place[self.row]]
        those = those[np.argsort(record.since[those], kind="stable")]
        found: dict[int, float] = {}
        queue: list[tuple[int, float, int]] = []
        begin, end = record.since[those].tolist(), record.start[those].tolist()
        rows = record.row[those].tolist()
        places = self.place[record.row[those]].tolist()
        time, at = since, 0
        while time < until:
            while at < len(rows) and begin[at] <= time:
                heapq.heappush(queue, (places[at], end[at], rows[at]))
                at += 1
            while queue and queue[0][1] <= time:
                heapq.heappop(queue)
            following = begin[at] if at < len(rows) else until
            if queue:
                _, leaves, row = queue[0]
                after = min(leaves, following, until)
                found[row] = found.get(row, 0.0) + after - time
            else:
                after = min(following, until)
            time = after
        return sorted((Head(*each) for each in found.items()), key=lambda head: (-head.seconds, head.row))

    def reckoned(self) -> NDArray[np.float64]:
        """Backfilling's estimate of each job before its first start, s; NaN where it is not known."""
        if self.options.get("estimate") != "limit":
            return float(self.options.get("estimate_factor", 1.0)) * self.record.estimates
        found = np.full(len(self.record.names), np.nan)
        if self.record.whole:
            rows = range(self.record.asked.height)
            # A job without a limit is reckoned to run for ever.
            found[: len(rows)] = [self.record.said("time_limit", row) or np.inf for row in rows]
        return found

    def shadow(self, moment: Moment, head: int, fits: Callable[[set[int]], bool]) -> Shadow | None:
        """The reservation of the queue's head at a moment, after its pass; None where it is not sure.

        fits: whether the head finds room once those of some jobs' numbers are gone.
        """
        record = self.record
        running = np.flatnonzero(moment.within(record.start, record.end))
        running = running[record.beside(self.row)[record.row[running]]]
        # A pass that starts jobs works it out in between; an interrupted job has less left to do.
        if (record.start[running] == moment.time).any() or record.number[running].any():
            return None
        reckoned = self.reckoned()
        ends = record.start[running] + reckoned[record.row[running]]
        own_end = moment.time + float(reckoned[self.row])
        if np.isnan(ends).any() or np.isnan(own_end):
            return None
        gone: set[int] = set()
        order = np.argsort(ends, kind="stable")
        for place, at in enumerate(order.tolist()):
            gone.add(int(record.row[running[at]]))
            after = ends[order[place + 1]] if place + 1 < order.size else np.inf
            if after != ends[at] and fits(gone):
                time = float(ends[at])
                return Shadow(head, time, own_end) if own_end > time * (1 + CLOSE) else None
        return None


def named(record: Record, rows: Rows | list[int], most: int) -> list[Any]:
    """The names of the first few of some jobs."""
    return [record.name(int(row)) for row in rows[:most]]
