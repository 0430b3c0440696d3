"""What a job waited for: who else did, who held the GPUs, what was idle, and who was first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from ringbco.result.why_order import Order, named
from ringbco.result.why_record import QUEUES, RIGID, WAITS, WHOLE, Moment, Record
from ringbco.result.why_reserved import reservation
from ringbco.result.why_room import MOST, Room, gpus, wants
from ringbco.result.why_stays import Stays

_AHEAD: Final = 3
"""Jobs that are named of those that go before."""


class Waits(Stays):
    """The facts of waits, too."""

    def __init__(self, record: Record, row: int) -> None:
        super().__init__(record, row)
        self.order = Order(record, row)
        self.there = record.servers_of(row)
        self.holders: list[str] = []

    def _waited(self, number: int) -> None:
        record, place = self.record, int(self.own[number])
        since, start = float(record.since[place]), float(record.start[place])
        rest = float(record.stays["paused_at_rung"][place])
        if rest > 0:
            self.say("rested", since, seconds=rest)
        if start <= since:
            if number == 0:
                late = start - float(record.submit[self.row])
                self.say("at once", start, seconds=late if late > 0 else 0.0)
            return
        causes = {name: record.stays[name][place] for name in WAITS}
        known = all(value is not None for value in causes.values())
        first = float(record.submit[self.row]) if number == 0 else since
        first = since if np.isnan(first) else first
        self._queue(Moment(since))
        self._state(Moment(since), causes if known else None)
        if self.order.discipline == "conservative" and self.record.policy in QUEUES:
            self._reservation(Moment(since))
        if number == 0:
            self._holders(since, start)
            self._overtaken(since, start)
        self._heads(since, start)
        self._state(Moment(start, before=True), causes if known else None)
        told = {name: float(value) for name, value in causes.items()} if known else {}
        self.say("waited", start, seconds=start - first, **told)

    def _queue(self, moment: Moment) -> None:
        """Who else waited, and which of them goes first."""
        rows = self.order.waiting(moment)
        told: dict[str, Any] = {"others": int(rows.size)}
        if rows.size and self.order.why_not is not None:
            told["why_not"] = self.order.why_not
        elif rows.size and self.order.doubtful(rows, moment):
            told["why_not"] = "what decides it is too close for rounding to tell them apart"
        elif rows.size:
            ahead = self.order.ahead(rows, moment)
            told |= {"order": self.order.told, "place": int(ahead.size) + 1}
            told["ahead"] = named(self.record, ahead, _AHEAD)
        self.say("queue", moment.time, **told)

    def _reservation(self, moment: Moment) -> None:
        """When the job could start by the estimates, as the pass of a moment reserved it."""
        order, rows = self.order, self.order.waiting(moment)
        if order.why_not is not None or self._passes_over() or order.doubtful(rows, moment):
            return
        most = int(self.record.options["reservations"])
        if order.ahead(rows, moment).size >= most:
            self.say("beyond", moment.time, most=most)
            return
        place = reservation(self.record, order, moment, self.row)
        if place is not None:
            on = [{"server": server, "gpus": gpus} for server, gpus in place.on]
            self.say("reservation", moment.time, begins=place.begin, on=on)

    def _state(self, moment: Moment, causes: Mapping[str, float] | None) -> None:
        """Who held the GPUs, what was idle, and why it was not enough."""
        if self.near is None:
            return
        room = Room(self.record, moment, self.there, self.near)
        told = room.told(self.want)
        when = "just before" if moment.before else "then"
        names = [each["name"] for each in told["holders"]]
        self.say("held", moment.time, when=when, **told, **self._users(room), as_before=names == self.holders)
        self.holders = names
        cause = room.cause(self.want)
        column = {"few": "wait_gpus", "apart": "wait_fragmented", "fits": "wait_behind"}.get(cause or "")
        if column is None or (causes is not None and not causes[column] > 0):
            return  # unlike what the run noted: nothing is said
        asks: dict[str, Any] = {
            "gpus": self.want.share / WHOLE if self.want.share else self.want.gpus,
            "when": when,
        }
        if cause == "few":
            several = len(self.want.pools or ()) > 1
            asks |= {"usable": room.most(self.want), "typed": self._typed(), "several": several}
            self.say("too few", moment.time, **asks, **self._least())
        elif cause == "apart":
            about = ("usable", "usable_on", "most_on_one", "most_of_one_gpu")
            placement = str(self.record.options.get("placement"))
            largest = max(int(self.record.gpus[own].max()) for _, own in self.want.pools or ())
            more = {name: told[name] for name in about if name in told}
            self.say("apart", moment.time, **asks, **more, placement=placement, largest=largest)
        else:
            self._turn(moment, room, asks)

    def _users(self, room: Room) -> dict[str, Any]:
        """The users whose jobs held most."""
        record = self.record
        if "user" not in record.asked.columns:
            return {}
        jobs = room.held.who
        those = (jobs >= 0) & (jobs < record.asked.height)
        users = record.asked["user"].gather(jobs[those])
        sums = pl.DataFrame({"user": users, "units": room.held.units[those]}).drop_nulls()
        sums = (
            sums.group_by("user", maintain_order=True)
            .sum()
            .sort("units", descending=True, maintain_order=True)
        )
        return {
            "users": [{"user": user, "gpus": gpus(units)} for user, units in sums.head(_AHEAD).iter_rows()]
        }

    def _least(self) -> dict[str, int]:
        """The fewest GPUs that an elastic job may run on, where the policy may give it so few."""
        least = self.record.said("min_gpus", self.row)
        fewer = least is not None and least < self.want.gpus and self.record.policy not in RIGID
        return {"least": int(least)} if fewer else {}

    def _typed(self) -> list[str]:
        """The GPU types that it may use, where not all."""
        types = self.record.cluster.types
        pools = self.want.pools or []
        return [types[own] for own, _ in pools] if types and len(pools) < len(types) else []

    def _turn(self, moment: Moment, room: Room, asks: dict[str, Any]) -> None:
        """Why it had no turn though there was room."""
        owner = self._quota(moment)
        if owner is not None:
            self.say("over quota", moment.time, **asks, **owner)
            return
        order = self.order
        rows = order.waiting(moment)
        known = order.why_not is None and not self._passes_over() and not order.doubtful(rows, moment)
        # The last pass before went by what had been used by then.
        known &= not (order.moves and moment.before)
        ahead = order.ahead(rows, moment) if known else rows[:0]
        if not ahead.size or order.discipline == "skip":
            self.say("turn", moment.time, **asks, policy=self.record.policy)
            return
        head = int(ahead[0])
        told = {"head": self.record.name(head), "head_gpus": self.record.gpus_of(head)}
        if self.record.ticks:
            self.say("turn", moment.time, **asks, policy=self.record.policy)
        elif order.ranks:
            self.say("ranked behind", moment.time, **asks, **told, ahead=int(ahead.size))
        elif order.discipline == "easy":
            want = wants(self.record, head)
            shadow = order.shadow(moment, head, lambda gone: room.cause(want, gone) == "fits")
            if shadow is not None and want.sure:
                told |= {"shadow": shadow.time, "own_end": shadow.own_end}
            self.say("reserved", moment.time, **asks, **told)
        elif order.discipline == "conservative":
            self.say("kept", moment.time, **asks)
        else:
            self.say("behind", moment.time, **asks, **told)

    def _passes_over(self) -> bool:
        """Whether a job over quota is passed over, so that the first of the queue may keep nobody waiting."""
        quota = self.record.outcome.quota
        return quota is not None and not quota["borrow"].all()

    def _quota(self, moment: Moment) -> dict[str, Any] | None:
        """What its owner holds, where that keeps a job from starting."""
        quota, record = self.record.outcome.quota, self.record
        if quota is None:
            return None
        column = "vc" if quota["vc"].null_count() == 0 else "user"
        owner = record.said(column, self.row)
        own = quota.filter(pl.col(column) == owner) if owner is not None else quota.head(0)
        if not own.height or own["borrow"][0] or column not in record.asked.columns:
            return None
        running = record.row[moment.within(record.start, record.end) & record.beside(self.row)[record.row]]
        names = record.asked[column].to_list()
        held = sum(
            record.share_of(row) or WHOLE * record.gpus_of(row)
            for row in running.tolist()
            if row < len(names) and names[row] == owner
        )
        most = int(own["gpus"][0])
        if held + self.want.units <= most * WHOLE:
            return None
        return {"owner": owner, "owner_holds": gpus(held), "quota": most}

    def _holders(self, since: float, until: float) -> None:
        """Who held most GPU-seconds before the job first started."""
        if self.near is None:
            return
        rows = self.near
        seconds = np.minimum(rows.end, until) - np.maximum(rows.start, since)
        those = (seconds > 0) & (rows.who >= 0) & self.there[rows.server] & (rows.who != self.row)
        who, at = np.unique(rows.who[those], return_inverse=True)
        total = np.bincount(at, seconds[those] * rows.units[those], who.size) / WHOLE
        order = np.lexsort((who, -total))[:MOST]
        if not who.size:
            return
        capacity = float(self.record.gpus[self.there].sum()) * (until - since)
        held = [{"job": self.record.name(int(who[i])), "gpu_seconds": float(total[i])} for i in order]
        self.say("most held", until, since=since, jobs=int(who.size), holders=held, of=capacity)

    def _overtaken(self, since: float, start: float) -> None:
        """Jobs that were submitted later and started before."""
        record = self.record
        firsts = np.flatnonzero((record.number == 0) & record.beside(self.row)[record.row])
        submitted = record.submit[record.row[firsts]]
        own = record.submit[self.row]
        those = record.row[firsts[(submitted > own) & (record.start[firsts] < start)]]
        if those.size:
            self.say("overtaken", start, jobs=int(those.size), names=named(record, those, _AHEAD))

    def _heads(self, since: float, until: float) -> None:
        """Who was at the head of the queue meanwhile."""
        order = self.order
        known = order.why_not is None and not (order.ranks or order.moves)
        if not known or order.discipline == "skip" or self._passes_over():
            return
        heads = order.heads(since, until)
        if not heads or order.doubtful(np.array([head.row for head in heads]), Moment(since)):
            return
        told = [
            {"job": self.record.name(row), "gpus": self.record.gpus_of(row), "seconds": seconds}
            for row, seconds in heads[:_AHEAD]
        ]
        whole = float(sum(head.seconds for head in heads))
        self.say("heads", until, seconds=whole, jobs=len(heads), heads=told)
