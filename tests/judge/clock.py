"""The instants of a run: slot boundaries, outages and loads as the clock sees them, changes in order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from judge.given import Stay
from ringbco.checker.settings import Load, Outage


def boundary(time: float, slot: float | None) -> float:
    """The first instant of the clock that is not before a time."""
    if slot is None or math.isinf(time):
        return time
    n = math.ceil(time / slot)
    if (n - 1) * slot >= time:
        n -= 1
    elif n * slot < time:
        n += 1
    return n * slot


def whole_slots(seconds: float, slot: float | None) -> float:
    """Rounded up to whole slots."""
    return seconds if slot is None else math.ceil(seconds / slot) * slot


def seen(outages: Iterable[Outage], slot: float | None) -> list[Outage]:
    """Outages at instants of the clock, by server and time: those that overlap or touch are one."""
    plain = _merged(outages)
    if slot is None:
        return plain
    return _merged(
        outage._replace(down=boundary(outage.down, slot), up=boundary(outage.up, slot)) for outage in plain
    )


def _merged(outages: Iterable[Outage]) -> list[Outage]:
    found: list[Outage] = []
    for outage in sorted(outages, key=lambda outage: outage[:2]):
        last = found[-1] if found else None
        if last is not None and last.server == outage.server and outage.down <= last.up:
            found[-1] = last._replace(up=max(last.up, outage.up))
        else:
            found.append(outage)
    return found


def loads(rows: Iterable[Load], slot: float | None) -> dict[str, list[tuple[float, int]]]:
    """By service: how many replicas it wants from which instant on. Of several at one the latest counts."""
    names: dict[str, list[Load]] = {}
    for row in rows:
        names.setdefault(row.service, []).append(row)
    return {
        name: sorted(
            {boundary(row.time, slot): row.replicas for row in sorted(own, key=lambda r: r.time)}.items()
        )
        for name, own in names.items()
    }


Change = tuple[float, list[Stay], list[Stay]]


def changes(stays: Sequence[Stay]) -> Iterator[Change]:
    """Each instant at which stays end or begin: who leaves, who comes. Stays of no length are left out."""
    stays = [stay for stay in stays if stay.end > stay.start]
    starts, ends = sorted(stays, key=attrgetter("start")), sorted(stays, key=attrgetter("end"))
    # Their ends are never: outages may last for ever.
    begin, finish = [*(stay.start for stay in starts), math.nan], [*(stay.end for stay in ends), math.nan]
    i = j = 0
    while j < len(ends):
        time = begin[i] if begin[i] < finish[j] else finish[j]
        first, begun = j, i
        while finish[j] == time:
            j += 1
        while begin[i] == time:
            i += 1
        yield time, ends[first:j], starts[begun:i]
