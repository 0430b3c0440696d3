"""Idle GPUs of servers that drained: all but what jobs and replicas held (docs/outages.md)."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ringbco.checker.inputs import Floats, Ints, RunInputs, StayLog
from ringbco.checker.settings import Outage


class Drained(NamedTuple):
    """Idle GPUs of a server that no job can have, from when until when; infinite where that does not end."""

    server: int
    since: float
    until: float
    gpus: int


def drained(inputs: RunInputs, stay_log: StayLog, down: list[Outage], drains: list[Outage]) -> list[Drained]:
    """By drain and time, without what of it the server is down."""
    found: list[Drained] = []
    if not drains:
        return found
    for drain in drains:
        gpu, start, end = _held(stay_log, drain.server)
        off = [(outage.down, outage.up) for outage in down if outage.server == drain.server]
        cuts = [
            drain.down,
            drain.up,
            *start.tolist(),
            *end.tolist(),
            *(time for both in off for time in both),
        ]
        times = sorted({time for time in cuts if drain.down <= time <= drain.up})
        for since, until in pairwise(times):
            if any(begin <= since and until <= over for begin, over in off):
                continue
            held = np.unique(gpu[(start <= since) & (end >= until)]).size
            found.append(Drained(drain.server, since, until, int(inputs.cluster.gpus[drain.server]) - held))
    return found


def _held(stay_log: StayLog, server: int) -> tuple[Ints, Floats, Floats]:
    """What jobs and replicas held of a server: a number for each GPU, from when until when, s."""
    stays, replicas = stay_log.stays, stay_log.replicas
    if stays.spot is not None and stays.on is not None and stays.gpu is not None:
        of = np.repeat(np.arange(len(stays)), np.diff(stays.spot))
        here = stays.on == server
        gpu, start, end = stays.gpu[here].astype(np.int64), stays.busy_from[of[here]], stays.end[of[here]]
    else:
        here = stays.server == server
        held, of = stays.held[here], stays.of[here]
        # As many numbers as it holds GPUs, of no other stay.
        start, end = np.repeat(stays.busy_from[of], held), np.repeat(stays.end[of], held)
        gpu = np.arange(start.size)
    mine = replicas.server == server
    count = replicas.gpus[mine]
    more = np.repeat(replicas.start[mine], count), np.repeat(replicas.end[mine], count)
    own = np.arange(more[0].size) + (int(gpu.max()) + 1 if gpu.size else 0)
    return np.concatenate([gpu, own]), np.append(start, more[0]), np.append(end, more[1])
