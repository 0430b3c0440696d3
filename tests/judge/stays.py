"""How each stay began, since when its job had waited for it, and how long it pauses (docs/results.md)."""

from __future__ import annotations

import math
from typing import NamedTuple

from judge.clock import boundary, whole_slots
from judge.given import Book, Given, Rung, Stay
from ringbco.checker.settings import Outage

BEGAN = {"moved": "moved", "resized": "resized", "failed": "restarted"}
"""How a stay begins, by how the one before it ended: most are resumed."""
COST = {"first": "start_cost", "moved": "move_cost", "resized": "resize_cost"}
"""Which option says how long a stay pauses, by how it began: of most it is preempt_cost."""


class Spell(NamedTuple):
    """A server asleep. until: infinite where it sleeps on. woken: whether a stay or a replica ended it."""

    server: int
    since: float
    until: float
    woken: bool


def chain(given: Given, book: Book) -> None:
    """Writes number, began, since, rest and marks into the stays."""
    submit, slot = given.jobs.submit, given.slot
    rungs: dict[int, list[Rung]] = {}
    for rung in book.rungs:
        rungs.setdefault(rung.job, []).append(rung)
    before: Stay | None = None
    for stay in book.stays:
        if before is None or before.job != stay.job:
            stay.since = min(boundary(submit[stay.job], slot), stay.start)
        else:
            stay.number = before.number + 1
            stay.began = BEGAN.get(before.ended, "resumed")
            stay.since = before.end
            if before.ended == "rung" and before.marks and before.marks[-1].went_on is not None:
                stay.since = before.marks[-1].went_on
                stay.rest = stay.since - before.end
        if stay.job in rungs:
            stay.marks = _reached(stay, rungs[stay.job])
        before = stay


def _reached(stay: Stay, left: list[Rung]) -> list[Rung]:
    """Takes the rungs that a trial reached in a stay from those that are left.

    Only a stay that ended at a rung has one where the trial paused, as its last.
    """
    found: list[Rung] = []
    while left and left[0].time <= stay.end:
        pauses = left[0].went_on != left[0].time
        if pauses and stay.ended != "rung":
            break
        found.append(left.pop(0))
        if pauses:
            break
    return found


def spells(given: Given, book: Book, down: list[Outage]) -> list[Spell]:
    """When which servers slept, by server and time (docs/energy.md)."""
    after = given.sleep_after
    if after == math.inf:
        return []
    busy: list[list[tuple[float, float, bool]]] = [[] for _ in given.cluster.gpus]
    for stay in book.stays:
        if stay.end > stay.start:
            for server, _ in stay.held:
                busy[server].append((stay.start, stay.end, True))
    for replica in book.replicas:
        busy[replica.server].append((replica.start, replica.end, True))
    for outage in down:
        busy[outage.server].append((outage.down, outage.up, False))
    opens = boundary(min(given.jobs.submit), given.slot)
    found = []
    for server, own in enumerate(busy):
        idle = opens
        for start, end, wakes in sorted(own, key=lambda spell: spell[:2]):
            if start - idle > after:
                found.append(Spell(server, idle + after, start, wakes))
            idle = max(idle, end)
        if idle < math.inf:
            found.append(Spell(server, idle + after, math.inf, False))
    return found


def may_pause(given: Given) -> bool:
    """Whether a job that is not stopped may hold GPUs without progress."""
    wakes = given.sleep_after < math.inf and given.options.get("wake_time", 0.0) > 0
    return wakes or bool(given.options.get("start_cost"))


def pause(given: Given, stays: list[Stay], slept: list[Spell]) -> None:
    """Writes into the stays whether they woke a server, and for how long they make no progress at first."""
    woken = {(spell.server, spell.until) for spell in slept if spell.woken}
    if woken:
        for stay in stays:
            there = ((server, stay.start) in woken for server, _ in stay.held)
            stay.woke = stay.end > stay.start and any(there)
    if not given.several and not may_pause(given):
        return
    slot = None if given.model == "table" else given.slot
    cost = {
        began: given.cost(COST.get(began, "preempt_cost"))
        for began in ("first", "moved", "resized", "resumed")
    }
    if given.options.get("start_cost") is None:
        cost["first"] = 0.0
    longer = {began: whole_slots(seconds, slot) for began, seconds in cost.items()}
    wake = float(given.options.get("wake_time", 0.0))
    for stay in stays:
        began = stay.began if stay.began in cost else "resumed"
        seconds = whole_slots(cost[began] + wake, slot) if stay.woke else longer[began]
        stay.begin = stay.start + seconds
        stay.pause = min(seconds, stay.end - stay.start)
