"""The instants of a run: slot boundaries, and outages and loads as the clock sees them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ringbco.checker.inputs import Floats
from ringbco.checker.settings import Load, Outage


def boundary(times: Floats, slot: float | None) -> Floats:
    """The first instants of the clock that are not before some times."""
    if slot is None:
        return times
    n = np.ceil(times / slot)
    n = np.where((n - 1) * slot >= times, n - 1, np.where(n * slot < times, n + 1, n))
    return np.where(np.isinf(times), times, n * slot)


def instant(time: float, slot: float | None) -> float:
    """The same of one time."""
    return float(boundary(np.array([time]), slot)[0])


def whole_slots(seconds: float, slot: float | None) -> float:
    """Rounded up to whole slots."""
    return seconds if slot is None else math.ceil(seconds / slot) * slot


def seen(outages: Iterable[Outage], slot: float | None) -> list[Outage]:
    """Outages of one kind at instants of the clock, by server and time: those that touch are one."""
    plain = _merged(outages)
    if slot is None or not plain:
        return plain
    down, up = (boundary(np.array([outage[i] for outage in plain]), slot).tolist() for i in (1, 2))
    return _merged(outage._replace(down=a, up=b) for outage, a, b in zip(plain, down, up, strict=True))


def drains(outages: Iterable[Outage], slot: float | None) -> list[Outage]:
    """When servers drain; a drain of no length is none."""
    mine = seen([outage for outage in outages if outage.drains], slot)
    return [outage for outage in mine if outage.down < outage.up]


def down(outages: Iterable[Outage], slot: float | None) -> list[Outage]:
    """When servers are down."""
    return seen([outage for outage in outages if not outage.drains], slot)


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
            {instant(row.time, slot): row.replicas for row in sorted(own, key=lambda r: r.time)}.items()
        )
        for name, own in names.items()
    }
