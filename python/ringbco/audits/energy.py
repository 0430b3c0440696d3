"""What each GPU type was used for and drew, worked out again from the allocations (docs/energy.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ringbco.audits.placing import until

if TYPE_CHECKING:
    from ringbco.audits.facts import Bools, Facts, Floats, Ints
    from ringbco.cluster.gpu_types import GpuType


def servers_of(facts: Facts, name: str) -> Bools:
    """Which servers are of a GPU type."""
    labels = np.array([str(label).lower() for label in facts.cluster.server_gpu_type or ()])
    return np.asarray(labels == name.lower())


def of_type(facts: Facts, name: str, fact: GpuType, up: float) -> dict[str, float]:
    """The figures of a GPU type. up: GPU-seconds of its servers that were up."""
    own = servers_of(facts, name)
    seconds = (facts.a_end - facts.a_start) * facts.a_held
    held = float(seconds[own[facts.a_server]].sum()) / 3600.0
    figures = {"gpus": int(facts.server_gpus[own].sum()), "servers": int(own.sum()), "gpu_hours": held}
    capacity = up / 3600.0
    if capacity > 0:
        figures["utilisation"] = held / capacity
    if fact.price_per_hour is not None:
        figures["cost"] = held * fact.price_per_hour
    asleep = 0.0
    if facts.sleep is not None:
        first, last = float(facts.submit.min()), float(facts.finish.max())
        since, end = np.clip(facts.sleep.since, first, last), np.clip(facts.sleep.until, first, last)
        gpus = np.where(own, facts.server_gpus, 0)[facts.sleep.server]
        asleep = float((gpus * (end - since)).sum()) / 3600.0
        figures["asleep_gpu_hours"] = asleep
    if fact.busy_watts is not None and fact.idle_watts is not None:
        server, gpus, start, end = _replicas(facts)
        first, last = float(facts.submit.min()), float(facts.finish.max())
        length = np.maximum(np.minimum(end, last) - np.maximum(start, first), 0.0)
        busy = held + float((gpus * length)[own[server]].sum()) / 3600.0
        idle = capacity - busy - asleep
        figures["energy_kwh"] = (busy * fact.busy_watts + idle * fact.idle_watts) / 1000.0
    return figures


def _replicas(facts: Facts) -> tuple[Ints, Ints, Floats, Floats]:
    """The server, the GPUs, the start and the end of each replica of a service."""
    replicas = facts.outcome.replicas
    if replicas is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    server, gpus, start, end = (
        replicas[name].to_numpy() for name in ("server", "num_gpus", "start_time", "end_time")
    )
    there = server < facts.server_gpus.size
    return server[there].astype(np.int64), gpus[there].astype(np.int64), start[there], end[there]


def totals(facts: Facts, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Energy and cost of the cluster, where every type has them. rows: the figures of each type."""
    named = len(rows) == len(facts.cluster.types) > 0
    return {
        key: sum(row[key] for row in rows.values())
        for key in ("energy_kwh", "cost")
        if named and all(key in row for row in rows.values())
    }


def watts(facts: Facts, times: Floats) -> tuple[Floats, float] | None:
    """What the GPUs draw at each time, W, and the most that they could; None where types lack watts."""
    facts_of = facts.cluster.type_facts if facts.cluster.server_types is not None else ()
    if not facts_of or facts.outcome.allocations is None:
        return None
    busy, idle = np.zeros((2, facts.server_gpus.size))
    for fact in facts_of:
        if fact.busy_watts is None or fact.idle_watts is None:
            return None
        own = servers_of(facts, fact.name)
        busy[own], idle[own] = fact.busy_watts, fact.idle_watts
    gpus = facts.server_gpus
    most = float((gpus * busy).sum())
    more = facts.a_held * (busy - idle)[facts.a_server]
    drawn = float((gpus * idle).sum()) + until(facts.a_start, times, more) - until(facts.a_end, times, more)
    server, held, start, end = _replicas(facts)
    more = held * (busy - idle)[server]
    drawn = drawn + until(start, times, more) - until(end, times, more)
    if facts.outages is not None:
        less = (gpus * idle)[facts.outages.server]
        drawn = drawn - until(facts.outages.down, times, less) + until(facts.outages.up, times, less)
    if facts.sleep is not None:
        less = (gpus * idle)[facts.sleep.server]
        drawn = drawn - until(facts.sleep.since, times, less) + until(facts.sleep.until, times, less)
    return np.asarray(drawn, np.float64), most
