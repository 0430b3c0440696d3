"""Shares of a GPU: the room of every GPU over time, and how much jobs on one GPU slow each other down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ringbco.audits.findings import Check, Finding, blame
from ringbco.audits.seating import taken_from
from ringbco.trace.shares import MILLI_GPU

if TYPE_CHECKING:
    from ringbco.audits.facts import Facts, Ints
    from ringbco.audits.gpu_rows import OnGpus


def check_holdings(check: Check, facts: Facts) -> None:
    """A job holds the share that it asks for, or whole GPUs, each one once."""
    rows = facts.on_gpus
    if rows is None:
        return
    wanted = np.where(facts.share[rows.job] > 0, facts.share[rows.job], MILLI_GPU)
    odd = check.broken((rows.milli_gpus != wanted) | (rows.num_gpus != 1))
    blame(
        check,
        facts,
        odd,
        lambda i: (
            f"holds {rows.num_gpus[i]} x {rows.milli_gpus[i]} thousandths of a GPU; expected {wanted[i]}"
            " of one"
        ),
        job=rows.job,
        time=rows.start,
    )
    order = np.lexsort((rows.gpu, rows.server, rows.end, rows.start, rows.job))
    same = np.ones(max(order.size - 1, 0), bool)
    for column in (rows.job, rows.start, rows.end, rows.server, rows.gpu):
        same &= column[order][1:] == column[order][:-1]
    twice = order[1:][check.broken(same)]
    blame(check, facts, twice, "holds one GPU twice", job=rows.job, time=rows.start)


def check_room(check: Check, facts: Facts) -> None:
    """No GPU has more than 1,000 thousandths of it taken: so whole-GPU jobs are alone on theirs."""
    rows = facts.on_gpus
    if rows is None:
        return
    known = rows.server < facts.cluster.num_servers
    known[known] = (rows.gpu[known] >= 0) & (rows.gpu[known] < facts.server_gpus[rows.server[known]])
    blame(
        check,
        facts,
        check.broken(~known),
        lambda i: f"holds GPU {rows.gpu[i]} of server {rows.server[i]}, which is none of it",
        job=rows.job,
        time=rows.start,
    )
    place = _places(facts, rows)
    seat = None if facts.a_seat is None else rows.seat
    start = taken_from(seat, np.maximum(place, 0), rows.start, rows.end)
    held = known & (rows.end > start)
    place, milli_gpus = place[held], np.maximum(rows.milli_gpus[held], 0)
    place = np.concatenate([place, place])
    time = np.concatenate([start[held], rows.end[held]])
    change = np.concatenate([milli_gpus, -milli_gpus])
    order = np.lexsort((change, time, place))
    place, time, used = place[order], time[order], np.cumsum(change[order])
    over = used > MILLI_GPU
    began = check.broken(over & ~np.append(False, over[:-1] & (place[1:] == place[:-1]))[: over.size])
    first = np.append(0, np.cumsum(facts.server_gpus))
    server = np.searchsorted(first, place[began], side="right") - 1
    check.add(
        (
            Finding(
                check.code,
                f"{used[i]} thousandths of GPU {place[i] - first[s]} in use; it has {MILLI_GPU}",
                server=int(s),
                time=float(time[i]),
            )
            for i, s in zip(began, server, strict=True)
        ),
        began.size,
    )


def _places(facts: Facts, rows: OnGpus) -> Ints:
    """GPUs numbered by (server, index)."""
    first = np.append(0, np.cumsum(facts.server_gpus))
    return np.asarray(first[np.minimum(rows.server, facts.cluster.num_servers)] + rows.gpu)
