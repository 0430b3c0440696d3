"""With whom a job sat on the same GPUs, and why no job was its partner (docs/lucid.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ringbco.result.why_things import figure, listed, some
from ringbco.units import duration

if TYPE_CHECKING:
    from ringbco.result.why_record import Allocations, Record

    Told = Mapping[str, Any]

_MIB_OF_GB: Final = 1024.0
_MOST_OF_SCORES: Final = 2
_LACKS: Final = ("gpus", "memory", "score", "value", "untold")
"""What keeps a job that is alone on its GPUs from being a partner; the last: nothing that a result tells."""


def pairs(record: Record) -> bool:
    """Whether the policy of a run looks for partners itself."""
    return record.policy == "lucid" and int(record.options.get("jobs_per_gpu") or 2) > 1


def lacking(record: Record, row: int, held: Allocations) -> dict[str, Any]:
    """What kept each job that was alone on its GPUs from being the partner of a job that waits.

    held: who holds what of the servers that the job may use, at that moment. alone: how many there were.
    """
    largest = int(record.gpus[record.servers_of(row)].max(initial=0))
    if record.gpus_of(row) > largest:
        return {"alone": 0, "largest": largest}
    seats, at, jobs = _alone(held)
    count = dict.fromkeys(_LACKS, 0)
    for seat, first, who in zip(seats.tolist(), at.tolist(), jobs.tolist(), strict=True):
        own = held.seat == seat
        count[_lack(record, row, who, int(held.milli_gpus[own].sum()) // 1000, int(held.server[first]))] += 1
    return {"alone": int(seats.size)} | {name: number for name, number in count.items() if number}


def _alone(held: Allocations) -> tuple[Any, Any, Any]:
    """The seats of one job each: their numbers, the first row of each, and the job."""
    of, who = np.unique(np.stack([held.seat, held.who]), axis=1)
    seats, first, count = np.unique(of, return_index=True, return_counts=True)
    own = (seats >= 0) & (count == 1)
    row = {seat: at for at, seat in reversed(list(enumerate(held.seat.tolist())))}
    return seats[own], np.array([row[seat] for seat in seats[own].tolist()], np.int64), who[first[own]]


def _lack(record: Record, row: int, other: int, gpus: int, server: int) -> str:
    """What a partner lacks, as the columns of both tell it."""
    if gpus != record.gpus_of(row):
        return "gpus"
    memory, room = _both(record, "gpu_memory_mib", row, other), _room(record, server)
    if memory is not None and room is not None and memory[0] + memory[1] >= room:
        return "memory"
    scores = _both(record, "colocation_score", row, other)
    if scores is not None and scores[0] + scores[1] > _MOST_OF_SCORES:
        return "score"
    estimates = _both(record, "estimated_duration", row, other)
    if estimates is not None and 2.0 * estimates[1] < estimates[0]:
        return "value"
    return "untold"


def _both(record: Record, name: str, row: int, other: int) -> tuple[float, float] | None:
    """A column of both jobs; None unless it says something of each."""
    own, its = (record.said(name, who) for who in (row, other))
    return None if own is None or its is None else (float(own), float(its))


def _room(record: Record, server: int) -> float | None:
    """MiB of a GPU of a server."""
    cluster = record.cluster
    if cluster.server_types is None:
        return None
    gb = cluster.type_facts[int(cluster.server_types[server])].memory_gb
    return None if gb is None else gb * _MIB_OF_GB


def _partners(told: Told, when: str, clock: Callable[[float], str]) -> str:
    """The fact in words."""
    if "largest" in told:
        return f"Jobs of more than {figure(told['largest'])} GPUs take no partner."
    if not told["alone"]:
        return "No job was alone on its GPUs: there was no partner for it."
    words = {
        "gpus": "held another number of GPUs",
        "memory": "needed too much memory beside it",
        "score": "had a score that sums to more than two with its own",
        "value": "had less than half of its estimated duration x num_gpus",
        "untold": "lacked something that the result does not tell: a score, or an estimate",
    }
    parts = [f"{figure(told[name])} {text}" for name, text in words.items() if name in told]
    alone = f"{some(told['alone'], 'job')} alone on {'its' if told['alone'] == 1 else 'their'} GPUs"
    return f"It found no partner among {alone}: {listed(parts)}."


def cost(told: Told) -> str:
    """What others on its GPUs cost a job, or gave it."""
    names = listed(told["beside"][:3], len(told["beside"]) - 3)
    what = f"Sharing its GPUs with {names}" + (", with the rounding to slots," if told["slots"] else "")
    gave = "cost" if told["seconds"] > 0 else "gave"
    said = f"{what} {gave} it {duration(abs(told['seconds']))}: it ran {told['factor']:,.2f} times as long"
    return f"{said} as alone on them."


SENTENCES: Final = {"partners": _partners}
"""The facts about partners in words."""
