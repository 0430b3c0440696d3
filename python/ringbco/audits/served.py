"""Services and their replicas: what follows from services.parquet, replicas.parquet and the outages.

No replica is on a server that is down, and no service has more than it wants or ends others than it must
(docs/services.md). Where a replica goes, and whether it waits in vain, is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ringbco.audits.findings import Check, Finding, number
from ringbco.errors import show_value
from ringbco.trace.services import Services
from ringbco.trace.side_table import ReadContext

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringbco.audits.facts import Bools, Facts, Floats, Ints


@dataclass(frozen=True)
class Served:
    """Services and their replicas: names and GPUs by service, then one value per replica, times in s.

    loads: for each service (time, replicas) at instants of the clock, in order. drains: NaN for never.
    longest: for each service, how long a replica may drain, s; None for a run without requests.
    """

    names: list[str]
    gpus: Ints
    loads: list[list[tuple[float, int]]]
    service: Ints
    server: Ints
    num_gpus: Ints
    start: Floats
    end: Floats
    number: Ints
    drains: Floats
    ended: pl.Series
    longest: Floats | None

    @property
    def leaves(self) -> Floats:
        """From when on each is none of those that its service wants."""
        return self.end if self.longest is None else np.fmin(self.drains, self.end)


@dataclass
class _Course:
    """One service, as its rows and replicas say one after the other.

    live: rows of the replicas that run, by start. waiting: how many more are wanted.
    """

    live: list[int] = field(default_factory=list)
    waiting: int = 0


def read(facts: Facts) -> Served | None:
    """The folder's services; None for a run that knows none.

    Raises InputError where services.parquet is none.
    """
    table, replicas = facts.outcome.services, facts.outcome.replicas
    if table is None or replicas is None:
        return None
    known = ReadContext(largest=int(facts.server_gpus.max()))
    checked = Services.read(table, known, Services.form.file).frame
    answering = facts.inputs.answering
    own_services = () if answering is None else answering.services
    names = [service.name for service in own_services]
    gpus = [service.gpus for service in own_services]
    rows: list[list[tuple[float, int]]] = [[] for _ in names]
    for name, time, wanted, size in checked.iter_rows():
        if name not in names:
            names.append(name)
            gpus.append(size)
            rows.append([])
        rows[names.index(name)].append((time, wanted))
    loads = []
    for own in rows:
        own.sort()
        instants = facts.first_instant(np.array([time for time, _ in own]))
        # Of several at one instant the latest counts.
        loads.append(sorted(dict(zip(instants.tolist(), (wanted for _, wanted in own), strict=True)).items()))
    number_of = {name: at for at, name in enumerate(names)}

    def column(name: str, dtype: Any) -> Any:
        return replicas[name].to_numpy().astype(dtype)

    return Served(
        names,
        np.array(gpus, np.int64),
        loads,
        np.array([number_of.get(name, -1) for name in replicas["service"]], np.int64),
        column("server", np.int64),
        column("num_gpus", np.int64),
        column("start_time", np.float64),
        column("end_time", np.float64),
        column("replica", np.int64),
        replicas["drains_from"].cast(pl.Float64).fill_null(np.nan).to_numpy(),
        replicas["ended"],
        None if answering is None else np.array([service.drain for service in own_services], np.float64),
    )


def check_services(check: Check, facts: Facts, found: Served | None) -> None:
    """Replicas are those of the services, on servers that are up, and as many as are wanted at most."""
    if found is None:
        check.not_run = "the run knows no services"
        return
    if _strangers(check, facts, found):
        return
    down = facts.outages
    if down is not None and down.server.size:
        at = down.latest(found.server, found.end)
        for i in check.broken((at >= 0) & (down.up[at] > found.start)).tolist():
            spans = f"which is down from {number(down.down[at[i]])} to {number(down.up[at[i]])} s"
            told = f"holds a replica of {show_value(found.names[found.service[i]])}, {spans}"
            check.add([_finding(check, found, i, told)], 1)
    drains = facts.drains
    if drains is not None and drains.server.size:
        at = drains.latest(found.server, np.nextafter(found.start, np.inf))
        for i in check.broken((at >= 0) & (drains.up[at] > found.start)).tolist():
            spans = f"which drains from {number(drains.down[at[i]])} to {number(drains.up[at[i]])} s"
            told = f"takes a replica of {show_value(found.names[found.service[i]])}, {spans}"
            check.add([_finding(check, found, i, told)], 1)
    for service in range(len(found.names)):
        for time, told in _faults(check, facts, found, service):
            check.fail(f"service {show_value(found.names[service])}: {told}", time=time)


def _finding(check: Check, found: Served, row: int, told: str) -> Finding:
    return Finding(check.code, told, server=int(found.server[row]), time=float(found.start[row]))


def _strangers(check: Check, facts: Facts, found: Served) -> bool:
    """Rows that can be of no service, or not in order. Whether there are any."""
    known = found.service >= 0
    bad = ~known
    if found.gpus.size:
        bad |= found.num_gpus != found.gpus[found.service]
    for wrong, told in (
        (bad, "is of no service, or of another size than its service"),
        (found.server >= facts.cluster.num_servers, "is on a server that does not exist"),
        (~(found.end > found.start), "does not end after its start"),
        *_of_drains(found, known),
    ):
        for i in check.broken(wrong).tolist():
            check.add([_finding(check, found, i, f"row {i + 1} of replicas.parquet {told}")], 1)
    keys = list(zip(found.service.tolist(), found.start.tolist(), found.server.tolist(), strict=True))
    said = "replicas.parquet is not in order of service, start and server"
    check.expect(holds=keys == sorted(keys), message=said)
    if found.longest is not None:
        placed = [found.start[found.service == service] for service in range(len(found.names))]
        numbers = [found.number[found.service == service] for service in range(len(found.names))]
        for name, own, start in zip(found.names, numbers, placed, strict=True):
            counts = np.array_equal(np.sort(own), np.arange(own.size))
            in_turn = counts and bool((np.diff(start[np.argsort(own)]) >= 0).all())
            said = f"replicas of service {show_value(name)} are not numbered 0, 1, ... by their starts"
            check.expect(holds=in_turn, message=said)
    return check.failed > 0


def _of_drains(found: Served, known: Bools) -> Iterator[tuple[Bools, str]]:
    """What may be wrong with how replicas drain, where they answer requests."""
    if found.longest is None:
        return
    longest = np.where(known, found.longest[found.service], np.inf)
    yield found.drains < found.start, "drains before it starts"
    yield found.drains > found.end, "drains after its end"
    yield found.end > found.drains + longest, "drains for longer than its service lets it"
    never, ended = np.isnan(found.drains), found.ended.cast(pl.String)
    yield never & (ended == "surplus").to_numpy(), "ends as surplus, and does not drain"
    yield ~never & (ended == "end of run").to_numpy(), "drains, and ends with the run"


def _faults(check: Check, facts: Facts, found: Served, service: int) -> Iterator[tuple[float, str]]:
    """Goes through what happens to a service, in the order of an instant, up to the end of the run."""
    course = _Course()
    last, leaves = float(facts.finish.max()), found.leaves
    mine = np.flatnonzero(found.service == service)
    failed = np.zeros(found.start.size, dtype=bool)
    if facts.outages is not None:
        failed[mine] = np.isin(found.server[mine] + 1j * found.end[mine], facts.outages.keys)
    if found.longest is not None:
        last = float(found.end.max(initial=last))
        failed &= np.isnan(found.drains)
    starts: dict[float, list[int]] = {}
    ends: dict[float, list[int]] = {}
    loads = dict(found.loads[service])
    for i in mine.tolist():
        starts.setdefault(float(found.start[i]), []).append(i)
        ends.setdefault(float(leaves[i]), []).append(i)
    for time in sorted(time for time in {*starts, *ends, *loads} if time < last):
        over = [i for i in ends.get(time, []) if not failed[i]]
        for i in ends.get(time, []):
            if failed[i]:
                course.live.remove(i)
                course.waiting += 1
        check.looked_at += 1
        yield from _load(found, course, time, loads.get(time), over)
        for i in starts.get(time, []):
            check.looked_at += 1
            if not course.waiting:
                yield time, "has more replicas than it wants"
                return
            course.waiting -= 1
            course.live.append(i)
    early = [i for i in course.live if leaves[i] != last]
    if early:  # pragma: no cover - every end is an instant of the loop
        yield last, f"{len(early)} replicas end otherwise than with the run"
    if any(found.end[mine] > last):
        yield last, "has replicas after the run"


def _load(
    found: Served, course: _Course, time: float, wanted: int | None, over: list[int]
) -> Iterator[tuple[float, str]]:
    """What a row does, or that replicas end without one."""
    surplus = 0
    if wanted is not None:
        more = wanted - len(course.live) - course.waiting
        given_up = min(max(-more, 0), course.waiting)
        course.waiting += max(more, 0) - given_up
        surplus = max(-more, 0) - given_up
    if len(over) != surplus:
        yield time, f"ends {len(over)} replicas; expected {surplus}"
    elif over and found.longest is None:
        # Those that started last; who of those that started together was placed last nobody tells.
        oldest = min(found.start[i] for i in over)
        if any(found.start[i] > oldest for i in course.live if i not in over):
            yield time, "ends replicas that started before others that go on"
    course.live = [i for i in course.live if i not in over]
