"""The reference model of seats, several jobs of whole GPUs on the same ones, and of `lucid` (docs/lucid.md).

Who sits where is read from who runs on which seat; rates, idle GPUs and partners are worked out again at
every instant. Nothing here imports ringbco.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reference.mechanism import World as PreemptWorld
from reference.model import GPU, Job
from reference.running import RunningJob


class PairRow(NamedTuple):
    """Two jobs on the same GPUs, as measured; with 0 GPUs on 0 servers both rates are fractions."""

    model: str
    gpu_type: int
    gpus: int
    servers: int
    rate: float
    partner: str
    partner_rate: float


@dataclass(frozen=True)
class Seating:
    """What a run says of seats; by row memory in MiB, estimated duration in s, score, model, user.

    most: jobs on a GPU. room: MiB of a GPU by type. rated: whether rows of iterations a second count. alone:
    rates of jobs alone, by (model, type, GPUs, servers). type_of: of a server. elastic: rows that may hold
    other numbers of GPUs. seats: told by (row, start) the virtual cluster and seat of a stay.
    """

    most: int
    interference: float
    memory: tuple[float | None, ...]
    estimate: tuple[float | None, ...]
    score: tuple[int | None, ...]
    model: tuple[str | None, ...]
    user: tuple[str | None, ...]
    elastic: frozenset[int]
    room: Mapping[int, float]
    pairs: Sequence[PairRow]
    alone: Mapping[tuple[str, int, int, int], float]
    rated: bool
    type_of: Callable[[int], int]
    seats: dict[tuple[int, float], tuple[int, int]] = field(default_factory=dict)

    def measured(self, row: int, other: int, size: tuple[int, int, int], later: bool) -> float | None:
        """The rate of a row beside another, if it was measured; size: type, GPUs, servers."""
        gpu_type, gpus, servers = size
        return self._row(row, other, gpu_type, gpus, servers, later) if self.rated else None

    def fraction(self, row: int, other: int, gpu_type: int, later: bool) -> float | None:
        """The same as a fraction of the rate alone."""
        return self._row(row, other, gpu_type, 0, 0, later)

    def _row(self, row: int, other: int, gpu_type: int, gpus: int, servers: int, later: bool) -> float | None:
        mine, theirs = self.model[row], self.model[other]
        for own in (True, False):
            names = (mine, theirs) if own else (theirs, mine)
            rows = [
                pair
                for pair in self.pairs
                if (pair.model, pair.partner) == names and (pair.gpu_type, pair.gpus) == (gpu_type, gpus)
            ]
            # The most servers not above the real ones, else the fewest above.
            rows.sort(key=lambda pair: (pair.servers > servers, abs(pair.servers - servers)))
            if rows and own and (mine != theirs or later):
                return rows[0].rate
            if rows and not own:
                return rows[0].partner_rate
        return None

    def score_of(self, row: int) -> int:
        """How much it suffers beside others."""
        own = self.score[row]
        if own is not None:
            return own
        speeds = []
        for pair in self.pairs:
            for model, rate in ((pair.model, pair.rate), (pair.partner, pair.partner_rate)):
                whole = self.alone.get((model, pair.gpu_type, pair.gpus, pair.servers), 0.0)
                whole = whole if pair.gpus else 1.0
                if model == self.model[row] and whole > 0:
                    speeds.append(rate / whole)
        if not speeds:
            return 2
        mean = round(sum(speeds) / len(speeds), 3)
        return 0 if mean >= 0.95 else 1 if mean >= 0.85 else 2


def seats_world(seating: Seating, base: type[PreemptWorld]) -> type[PreemptWorld]:
    """The model `base` where jobs may sit on the same GPUs."""

    class Seated(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.joining: int | None = None
            """The seat that the job which starts next joins."""
            self.begun = self.numbered = 0
            self.here = min(self.sizes)

        # Who sits with whom.

        def neighbours(self, run: RunningJob) -> list[RunningJob]:
            """In the order in which they started."""
            others = [other for other in self.running if other.seat == run.seat and other.row != run.row]
            return sorted(others, key=lambda other: other.order) if run.seat >= 0 else []

        def started(self) -> list[RunningJob]:
            return sorted(self.running, key=lambda run: run.order)

        def freed(self, leaving: Sequence[RunningJob]) -> list[GPU]:
            """The GPUs that are idle once some have left: nobody sits there any more, and each once."""
            still = {gpu for run in self.running if run not in leaving for gpu in run.gpus}
            return sorted({gpu for run in leaving for gpu in run.gpus} - still)

        def may_sit(self, row: int, other: RunningJob, *, below: bool = False) -> bool:
            """Whether a job may start beside another. below: whether memory must not be full."""
            job, gpu_type = self.jobs[row], seating.type_of(other.gpus[0][0])
            there = [other, *self.neighbours(other)]
            if job.share or other.seat < 0 or row in seating.elastic or len(there) >= seating.most:
                return False
            if len(other.gpus) != job.num_gpus or other.servers & getattr(self, "draining", set()):
                return False
            if hasattr(self, "tried") and gpu_type not in self.tried(row):
                return False
            known = [seating.memory[row], *(seating.memory[run.row] for run in there)]
            room = seating.room.get(gpu_type)
            if room is not None and None not in known:
                needed = sum(own for own in known if own is not None)
                if needed > room or (below and needed == room):
                    return False
            return self.is_formed(job, other.gpus)

        def is_formed(self, job: Job, gpus: Sequence[GPU]) -> bool:
            """Whether its pods, and its segments, may lie there, in its tier."""
            held = {s: sum(own == s for own, _ in gpus) for s, _ in gpus}
            if any(count % job.pod for count in held.values()):
                return False

            def group(server: int, level: int) -> int:
                return server if level == 0 else self.options.tiers[level - 1][server]

            if job.strict and job.within is not None and len({group(s, job.within) for s in held}) > 1:
                return False
            if not job.segment:
                return True
            parts: dict[int, int] = {}
            for server, count in held.items():
                of = group(server, job.segment_tier)
                parts[of] = parts.get(of, 0) + count
            return not any(count % job.segment for count in parts.values())

        def sit(self, row: int, other: RunningJob) -> None:
            """Starts a job beside another."""
            self.joining, self.given = other.seat, (list(other.gpus), self.rng)
            self.try_start(row)
            self.joining = self.given = None

        # How stays begin and end.

        def try_start(self, row: int) -> None:
            super().try_start(row)
            for run in self.running:
                if run.row == row and run.order < 0:
                    run.order, self.begun = self.begun, self.begun + 1
                    if self.joining is not None:
                        run.seat = self.joining
                    elif not self.jobs[row].share:
                        run.seat, self.numbered = self.numbered, self.numbered + 1

        def goes_on(self, row: int, gpus: list[GPU]) -> bool:
            if self.kept_at == self.now and row in self.kept:
                seat = self.kept[row][0].seat
                taken = seat >= 0 and any(run.seat == seat for run in self.running)
                if taken != (self.joining is not None) or self.joining not in (None, seat):
                    return False
            return bool(super().goes_on(row, gpus))

        def stop(self, run: RunningJob) -> None:
            if run.seat >= 0:
                seating.seats[run.row, self.seconds(run.start)] = self.here, run.seat
            super().stop(run)

        # How fast they are.

        def whole(self, row: int) -> float:
            if self.fixed and self.slotted:
                return self.jobs[row].duration / self.options.slot
            return float(super().whole(row))

        def at_once(self, row: int) -> bool:
            return False

        def tau(self, run: RunningJob, p: int) -> float:
            alone, others = float(super().tau(run, p)), self.neighbours(run)
            if len(others) != 1:
                return alone * (1.0 + seating.interference * len(others)) if others else alone
            (other,), gpu_type = others, seating.type_of(run.gpus[0][0])
            size, later = (gpu_type, len(run.gpus), len(run.servers)), run.order > other.order
            rate = seating.measured(run.row, other.row, size, later)
            if rate is not None:
                return 1.0 / rate if rate > 0 else math.inf
            fraction = seating.fraction(run.row, other.row, gpu_type, later)
            if fraction is not None:
                return alone * (1.0 / fraction) if fraction > 0 else math.inf
            return alone * (1.0 + seating.interference)

        def new_rates(self) -> None:
            super().new_rates()
            busy = len({gpu for run in self.running for gpu in run.gpus})
            self.states[-1] = (*self.states[-1][:3], busy, self.states[-1][4])

    return Seated


def lucid_world(seating: Seating, base: type[PreemptWorld]) -> type[PreemptWorld]:
    """The model `base`, of `seats_world` and `priorities`, under `lucid`."""

    class Lucid(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.over_rows: list[int] = []
            self.values: dict[int, float] = {}

        def complete(self, run: RunningJob) -> None:
            super().complete(run)
            self.over_rows.append(run.row)

        def value(self, row: int) -> float:
            """GPU-seconds: as its column says, else as Helios predicts."""
            own, gpus = seating.estimate[row], self.jobs[row].num_gpus
            if own is not None:
                return own * gpus
            users = [done for done in self.over_rows if seating.user[done] == seating.user[row]]
            alike = [done for done in users if self.jobs[done].num_gpus == gpus] or users or self.over_rows
            total = 0.0
            for done in alike:
                total += self.jobs[done].duration
            return total / len(alike) * gpus if alike else 0.0

        def turn(self, row: int) -> tuple[float, ...]:
            return self.tier(row), self.values[row], *self.fifo(row)

        def partner(self, row: int) -> RunningJob | None:
            return next(iter(self.partners(row)), None)

        def partners(self, row: int) -> Iterator[RunningJob]:
            for run in self.started():
                if run.seat < 0 or self.neighbours(run):
                    continue
                gpu_type = seating.type_of(run.gpus[0][0])
                alike = [size for s, size in self.sizes.items() if seating.type_of(s) == gpu_type]
                if self.jobs[row].num_gpus > max(alike) or self.jobs[run.row].num_gpus != len(run.gpus):
                    continue
                scores = seating.score_of(row) + seating.score_of(run.row)
                near = self.values[run.row] >= self.values[row] / 2.0
                if scores <= 2 and near and self.may_sit(row, run, below=True):
                    yield run

        def one_pass(self) -> None:
            for row in self.waiting:
                if row not in self.values:
                    self.values[row] = self.value(row)
            turn: tuple[float, ...] = (-math.inf,)
            while coming := [row for row in self.waiting if self.turn(row) > turn]:
                row = min(coming, key=self.turn)
                turn = self.turn(row)
                if self.passed_over(row, self.need(row)):
                    continue
                partner = self.partner(row)
                if partner is not None:
                    self.sit(row, partner)
                else:
                    self.try_start(row)

    return Lucid


def numbered(seats: Mapping[tuple[int, float], tuple[int, int]]) -> dict[tuple[int, float], int]:
    """The seat of every stay, from 0 in the order in which they came to be; of several clusters at once."""
    began: dict[tuple[int, int], float] = {}
    for (_, start), seat in seats.items():
        began[seat] = min(start, began.get(seat, math.inf))
    order = sorted(began, key=lambda seat: (began[seat], seat))
    return {stay: order.index(seat) for stay, seat in seats.items()}


def beside_of(world: Any, row: int) -> list[int]:
    """The rows on the GPUs of a running one; none where no two jobs sit on any."""
    own = [run for run in world.running if run.row == row]
    return (
        [other.row for run in own for other in world.neighbours(run)] if hasattr(world, "neighbours") else []
    )
