"""What a job waited for: who else did, who held the GPUs, what was idle, and who was first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.result.causes import WAITS
from ringbco.result.why_asked import Said, is_queue, order_of, ranks
from ringbco.result.why_held import MOST, Held, gpus
from ringbco.result.why_record import MILLI_GPU, RIGID, Moment, Record
from ringbco.result.why_stays import Stays
from ringbco.trace.owners import USUAL
from ringbco.trace.quotas import BOOKS, Quotas

if TYPE_CHECKING:
    from ringbco import _core
    from ringbco.result.why_asked import Asked

_AHEAD: Final = 3
"""Jobs that are named of those that go before."""
_CAUSES: Final = dict(zip(("fits", "few", "apart"), WAITS, strict=True))
"""What the engine calls the causes of waits."""


class Waits(Stays):
    """The facts of waits, too."""

    def __init__(self, record: Record, row: int, asked: Asked) -> None:
        super().__init__(record, row, asked)
        self.there = record.servers_of(row)
        self.holders: list[str] = []

    def _waited(self, number: int) -> None:
        record, place = self.record, int(self.stay_rows[number])
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
        said = self.asked.said.get(number)
        begun, over = (None, None) if said is None else (said.begun, said.over)
        self._queue(Moment(since), begun)
        self._state(Moment(since), begun, causes if known else None)
        self._reservation(since, begun)
        self._delay(since, begun)
        if number == 0:
            self._holders(since, start)
            self._overtaken(since, start)
        self._heads(start, said)
        self._state(Moment(start, before=True), over, causes if known else None)
        told = {name: float(value) for name, value in causes.items()} if known else {}
        self.say("waited", start, seconds=start - first, **told)

    def _queue(self, moment: Moment, answer: _core._Answer | None) -> None:
        """Who else waited, and which of them goes first."""
        others = self.record.waiting(self.row, moment) if answer is None else answer["others"]
        told: dict[str, Any] = {"others": others}
        if others and answer is None:
            told["why_not"] = self.asked.why_not
        elif others and answer is not None and answer["by"] == "line":
            told |= {"order": order_of(self.record), "place": answer["ahead"] + 1}
            told["ahead"] = [self.record.name(row) for row in answer["first"]]
        self.say("queue", moment.time, **told)
        if answer is not None and answer["by"] == "allocation":
            at = None if np.isnan(answer["decided"]) else answer["decided"]
            got = self._began(answer["decided"])
            self.say("decision", moment.time, policy=self.record.policy, at=at, **got)

    def _reservation(self, time: float, answer: _core._Answer | None) -> None:
        """When the job could start by the estimates, as the pass of an instant reserved it."""
        if answer is not None and answer["beyond"]:
            self.say("beyond", time, most=int(self.record.options["reservations"]))
        elif answer is not None and answer["reserved"] is not None:
            begins, parts = answer["reserved"]
            on = [{"server": server, "gpus": count} for server, count in parts]
            self.say("reservation", time, begins=begins, on=on)

    def _delay(self, time: float, answer: _core._Answer | None) -> None:
        """From when on the job could evict others."""
        if answer is not None and answer["evicts_from"] is not None:
            self.say("evicts from", time, at=answer["evicts_from"])

    def _state(
        self, moment: Moment, answer: _core._Answer | None, causes: Mapping[str, float] | None
    ) -> None:
        """Who held the GPUs, what was idle, and why it was not enough."""
        if self.near is None:
            return
        held = Held(self.record, moment, self.there, self.near)
        told = held.told(self.want)
        when = "just before" if moment.before else "then"
        names = [each["name"] for each in told["holders"]]
        self.say("held", moment.time, when=when, **told, **self._users(held), as_before=names == self.holders)
        self.holders = names
        cause = self._cause(held, causes) if answer is None else answer["room"]
        asks: dict[str, Any] = {"gpus": self.want.asks, "when": when}
        if cause == "few":
            several, usable = len(self.want.pools or ()) > 1, held.most(self.want)
            asks |= {"usable": usable, "typed": self._typed(), "several": several}
            if usable < self.want.asks:  # else the result shows other holders than the run has
                self.say("too few", moment.time, **asks, **self._least())
        elif cause == "apart" and self.want.pools is not None:
            about = ["usable", "usable_on", "most_on_one", "most_of_one_gpu", "pod", "pods"]
            about += ("within_tier", "most_in_tier", "segment", "segment_tier", "segments")
            placement = str(self.record.options.get("placement"))
            largest = max(int(self.record.gpus[own].max()) for _, own in self.want.pools)
            more = {name: told[name] for name in about if name in told}
            self.say("apart", moment.time, **asks, **more, placement=placement, largest=largest)
        elif cause == "fits":
            self._turn(moment, answer, asks)
        if answer is not None and answer["partners"] is not None:
            self.say("partners", moment.time, **answer["partners"])

    def _cause(self, held: Held, causes: Mapping[str, float] | None) -> str | None:
        """The same without the engine: what the wait as a whole was for, and whom numbers alone rule out."""
        if held.most(self.want) * MILLI_GPU < self.want.milli_gpus:
            return "few"
        met = [cause for cause in ("fits", "apart") if causes is not None and causes[_CAUSES[cause]] > 0]
        return met[0] if len(met) == 1 and self.want.pools is not None else None

    def _users(self, room: Held) -> dict[str, Any]:
        """The users whose jobs held most."""
        record = self.record
        if "user" not in record.asked.columns:
            return {}
        jobs = room.held.who
        those = (jobs >= 0) & (jobs < record.asked.height)
        users = record.asked["user"].gather(jobs[those])
        sums = pl.DataFrame({"user": users, "milli_gpus": room.held.milli_gpus[those]}).drop_nulls()
        sums = (
            sums.group_by("user", maintain_order=True)
            .sum()
            .sort("milli_gpus", descending=True, maintain_order=True)
        )
        return {
            "users": [
                {"user": user, "gpus": gpus(milli_gpus)} for user, milli_gpus in sums.head(_AHEAD).iter_rows()
            ]
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

    def _turn(self, moment: Moment, answer: _core._Answer | None, asks: dict[str, Any]) -> None:
        """Why it had no turn though there was room."""
        record = self.record
        if answer is not None and answer["quota"]:
            book, quota, holds = answer["quota"]
            column = self._owners(book)
            owner = record.said(column, self.row)
            owner = owner if column in USUAL else f"{column} {owner}"
            self.say("over quota", moment.time, **asks, owner=owner, owner_holds=holds, quota=quota)
            return
        if answer is not None and answer["by"] == "record":
            self.say("recorded", moment.time, **asks)
            return
        discipline = (
            record.options.get("queue") if is_queue(record) else "ranking" if ranks(record) else "none"
        )
        head = None if answer is None else answer["head"]
        if answer is not None and answer["down"] is not None and (head is None or discipline != "strict"):
            self.say("maintenance", moment.time, **asks, down=answer["down"])
            return
        if record.options.get("order") == "fairshare" and moment.before and discipline != "conservative":
            discipline = "none"  # the last pass before went by what had been used by then
        if answer is None or head is None or discipline in ("skip", "none"):
            self.say("turn", moment.time, **asks, policy=record.policy)
        elif discipline == "conservative":
            self.say("kept", moment.time, **asks)
        else:
            self._behind(moment, answer, head, asks)

    def _behind(self, moment: Moment, answer: _core._Answer, head: int, asks: dict[str, Any]) -> None:
        """The job that none may overtake, or delay."""
        kind, more, shadow = "behind", dict[str, Any](), answer["shadow"]
        if not is_queue(self.record):
            kind, more = "ranked behind", {"ahead": answer["ahead"]}
        elif self.record.options.get("queue") == "easy":
            kind = "reserved"
            if shadow is not None and answer["estimate"] is not None:
                head = shadow[0]
                more = {"shadow": shadow[1], "own_end": moment.time + answer["estimate"]}
        told = {"head": self.record.name(head), "head_gpus": self.record.gpus_of(head)}
        self.say(kind, moment.time, **asks, **told, **more)

    def _owners(self, book: int) -> str:
        """The column that says whose quota counts, in a file of quotas."""
        return Quotas(getattr(self.record.outcome, BOOKS[book]), "").column

    def _holders(self, since: float, until: float) -> None:
        """Who held most GPU-seconds before the job first started."""
        if self.near is None:
            return
        rows = self.near
        seconds = np.minimum(rows.end, until) - np.maximum(rows.start, since)
        those = (seconds > 0) & (rows.who >= 0) & self.there[rows.server] & (rows.who != self.row)
        who, at = np.unique(rows.who[those], return_inverse=True)
        total = np.bincount(at, seconds[those] * rows.milli_gpus[those], who.size) / MILLI_GPU
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
        submitted = record.submitted[record.row[firsts]]
        own = record.submitted[self.row]
        those = record.row[firsts[(submitted > own) & (record.start[firsts] < start)]]
        if those.size:
            names = [record.name(int(row)) for row in those[:_AHEAD]]
            self.say("overtaken", start, jobs=int(those.size), names=names)

    def _heads(self, until: float, said: Said | None) -> None:
        """Who was at the head of the queue meanwhile, the longest first."""
        if said is None or not said.heads:
            return
        heads = sorted(said.heads, key=lambda head: (-head[1], head[0]))
        told = [
            {"job": self.record.name(row), "gpus": self.record.gpus_of(row), "seconds": seconds}
            for row, seconds in heads[:_AHEAD]
        ]
        whole = sum(seconds for _, seconds in heads)
        self.say("heads", until, seconds=whole, jobs=len(heads), heads=told)
