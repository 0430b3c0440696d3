"""The rules of policies, cluster by cluster (docs/policies.md, placements.md, priorities.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from judge import clock
from judge.allox import Allox
from judge.deciding import Deciding, Fault
from judge.fair import Fair
from judge.floor import MOST, PLACEMENTS, Floor
from judge.given import Book, Given, Stay
from judge.idle import Room
from judge.keyless import Keyless
from judge.programs import Gavel, Sia
from judge.queue import Queue
from judge.ranked import RANKED, Ranking
from judge.repacking import Repacking
from judge.reserving import Reserving
from judge.resizing import RESIZING, Resizing
from judge.speed import Speeds
from judge.stays import spells
from judge.turns import Turns
from judge.work import Worker

ORDERS: Final = ("fifo", "sjf", "smallest", "qssf", "fairshare")
IN_PYTHON: Final[dict[str, type[Allox | Gavel | Sia]]] = {"allox": Allox, "gavel": Gavel, "sia": Sia}
"""Policies whose optimum need not be the only one: of these what holds of any."""


class FairReserving(Fair, Reserving):
    """A queue whose places hang on the time, and whose first jobs have reservations."""


QUEUES: Final[dict[tuple[bool, bool], type[Queue]]] = {
    (False, False): Queue,
    (False, True): Reserving,
    (True, False): Fair,
    (True, True): FairReserving,
}
"""By whether the order is fair share, and the discipline conservative."""
RULES: Final = ("placement", "order", "idle", "reservation")
"""What is looked at of decisions."""
RESERVES: Final = ("easy", "conservative")
"""Queues that keep GPUs for jobs that wait."""


def unknown(given: Given) -> dict[str, str]:
    """Which of `RULES` nobody can look at in a run, and why."""
    queue, policy = str(given.options["queue"]), str(given.options["policy"])
    if str(given.options["placement"]) not in PLACEMENTS:
        return dict.fromkeys(RULES, "the placement is none that is known here")
    if policy in IN_PYTHON:
        return {"reservation": "the policy has no queue"}
    if given.decides:
        return dict.fromkeys(RULES, "a log, or a policy of one's own, decided")
    if given.preempts:
        found = {"reservation": "the policy has no queue"}
        if policy in RESIZING:
            return found
        if given.resizes:
            found["placement"] = "who gave GPUs back and got the same again leaves no trace"
        if policy not in (*RANKED, "repack"):
            found |= dict.fromkeys(("order", "idle"), "the policy has no queue order")
        return found
    return _of_a_queue(given, queue)


def _of_a_queue(given: Given, queue: str) -> dict[str, str]:
    """The same of a policy that lets jobs run to their end."""
    if not _in_order(given):
        return dict.fromkeys(
            ("order", "reservation"), "the result does not tell by which keys the queue goes"
        )
    reasons = {} if queue in RESERVES else {"reservation": f"queue {queue} reserves nothing"}
    if queue != "strict":
        reasons["order"] = f"queue {queue} lets jobs overtake"
    return reasons


def _in_order(given: Given) -> bool:
    """Whether the keys of a queue are known."""
    return given.options["order"] in ORDERS or given.jobs.column is not None


def faults(given: Given, book: Book) -> Iterator[Fault]:
    """What the policy of a run would have decided otherwise. The book has been judged."""
    speeds = Speeds(given)
    room, worker = Room(given, speeds), Worker(given, speeds)
    down = clock.seen(given.outages or (), given.slot)
    own: dict[int, list[Stay]] = {}
    for stay in book.stays:
        own.setdefault(given.jobs.in_vc(stay.job), []).append(stay)
    # Those that were refused, too: fgd goes by what they ask for.
    jobs: dict[int, list[int]] = {}
    for job in range(len(given.jobs.gpus)) if given.options["placement"] == "fgd" else ():
        if room.placeable(job):
            jobs.setdefault(given.jobs.in_vc(job), []).append(job)
    slept = spells(given, book, list(down)) if given.options["policy"] == "repack" else []
    for vc, stays in sorted(own.items()):
        if sum(pool.empty for (own_vc, _), pool in room.pools.items() if own_vc == vc) > MOST:
            continue  # the first decision would be more to look at than all
        floor = Floor(given, speeds, room, vc, jobs.get(vc, []))
        policy = policy_of(given, floor, worker, stays)
        if isinstance(policy, Repacking):
            policy.slept = slept
        yield from Turns(book, down, policy, stays).faults()


def policy_of(given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> Deciding:
    """Who decides."""
    if not (given.preempts or given.decides):
        if not _in_order(given):
            return Keyless(given, floor, worker, stays)
        return QUEUES[given.options["order"] == "fairshare", given.options["queue"] == "conservative"](
            given, floor, worker, stays
        )
    policy = str(given.options["policy"])
    if policy in RANKED or policy == "repack":
        return (Repacking if policy == "repack" else Ranking)(given, floor, worker, stays)
    if policy in IN_PYTHON:
        return IN_PYTHON[policy](given, floor, worker, stays)
    return Resizing(given, floor, worker, stays) if policy in RESIZING else Deciding(given, floor, worker)
