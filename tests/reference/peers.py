"""Three policies of other schedulers, slow and obvious, on the interface for custom policies.

The built-in ones that stand for them must do the same, job by job (tests/policies/test_peers.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ringbco


@dataclass
class GavelFifo(ringbco.Policy):
    """Gavel's performance-aware FIFO: each job in order of arrival on the fastest GPU type that is free.

    reset: the least seconds between two assignments. interval: a round.
    """

    reset: float = 1920.0
    interval: float = 360.0

    def __post_init__(self) -> None:
        self.assigned: float | None = None
        self.changed = False

    def decide(self, state: Any) -> None:
        """Assigns everybody anew where that is due. Who keeps its type keeps its GPUs."""
        self.changed |= len(state.arrived) + len(state.completed) > 0
        early = self.assigned is not None and state.now - self.assigned < self.reset
        if early or not self.changed:
            return
        self.assigned, self.changed = state.now, False
        chosen = self.assign(state)
        on = {row: state.type[state.allocation(row)[0][0]] for row in state.running}
        state.stop([row for row, name in on.items() if chosen.get(row) != name])
        for row in sorted(set(chosen) & set(state.waiting), key=lambda row: -int(state.jobs.num_gpus[row])):
            state.start([row], type=chosen[row], strict=False)

    def assign(self, state: Any) -> dict[int, str]:
        """The type of every job that gets GPUs; one that does not fit is passed over."""
        free: dict[str, int] = {}
        for name, gpus in zip(state.type, state.gpus, strict=True):
            free[name] = free.get(name, 0) + int(gpus)
        chosen = {}
        rows = [*state.running, *state.waiting]
        for row in sorted(rows, key=lambda row: (state.jobs.submit_time[row], row)):
            gpus = int(state.jobs.num_gpus[row])
            rates = {name: state.rate([row], [gpus], type=name)[0] for name in free if free[name] >= gpus}
            best = max(rates, key=lambda name: rates[name], default=None)
            if best is not None and rates[best] > 0:
                chosen[row] = best
                free[best] -= gpus
        return chosen


@dataclass
class PolluxTiresias(ringbco.Policy):
    """Tiresias as Pollux' simulator has it: two queues, no promotion, and a gang on the emptiest servers.

    A job that has held `threshold` GPU-seconds falls to the end of the second queue and stays there. The
    first queue goes before the second, and who does not fit is passed over. Who runs on keeps its GPUs; who
    starts takes the server with most idle GPUs, then the next. interval: seconds between decisions.
    """

    threshold: float = 57_600.0
    interval: float = 60.0

    def __post_init__(self) -> None:
        self.queues: tuple[list[int], list[int]] = ([], [])

    def decide(self, state: Any) -> None:
        """Walks both queues with all GPUs: who is passed over stops, who is chosen runs."""
        there = {*state.waiting, *state.running}
        first, second = ([row for row in queue if row in there] for queue in self.queues)
        first += [row for row in state.waiting if row not in {*first, *second}]
        fallen = [row for row in first if state.attained[row] >= self.threshold]
        first = [row for row in first if row not in fallen]
        self.queues = first, second + fallen
        left, chosen = int(sum(state.gpus)), []
        for row in (*first, *second, *fallen):
            if state.jobs.num_gpus[row] <= left:
                left -= int(state.jobs.num_gpus[row])
                chosen.append(row)
        state.stop([row for row in state.running if row not in chosen])
        running = set(state.running)
        for row in chosen:
            if row not in running:
                state.start([row], servers=emptiest(state.idle.tolist(), int(state.jobs.num_gpus[row])))


def emptiest(idle: list[int], wanted: int) -> list[tuple[int, int]]:
    """(server, GPUs): so many idle GPUs, of the servers with most of them first."""
    parts = []
    for server in sorted(range(len(idle)), key=lambda server: -idle[server]):
        parts.append((server, min(wanted, idle[server])))
        wanted -= parts[-1][1]
        if not wanted:
            return parts
    raise AssertionError("who is chosen fits")


@dataclass
class FinishTime(ringbco.Policy):
    """Shares of the greatest finish-time fairness that is least, on GPUs that are alike, in rounds.

    As Muri's testbed has Themis: new shares at the round after anybody came or went. A round ends when its
    time, s, is over, or when nobody runs.
    """

    clairvoyant = True
    round: float = 360.0

    def __post_init__(self) -> None:
        self.ends = -1.0
        self.members: set[int] = set()
        self.share: dict[int, float] = {}
        self.rounds: dict[int, int] = {}
        self.seen: dict[int, tuple[float, float]] = {}
        self.isolated: dict[int, float] = {}
        self.due: dict[int, float] = {}
        self.had: dict[int, float] = {}
        self.began = self.looked = 0.0
        self.on: list[int] = []

    def decide(self, state: Any) -> None:
        """A round: who has the greatest share for the rounds that it has had."""
        if state.running.size and state.now < self.ends:
            return
        rows = sorted([*state.running.tolist(), *state.waiting.tolist()])
        if not rows:
            return
        for row in self.on:
            if row in rows and row in state.running:
                self.had[row] += state.now - self.began
        self.began, self.ends = state.now, state.now + self.round
        if self.members != set(rows):
            self.look(state, rows)
        size = state.jobs.num_gpus
        left, chosen = int(sum(state.gpus)), []
        order = sorted(rows, key=lambda row: (-self.priority(row), -self.due[row], -self.share[row], row))
        for row in order:
            if size[row] <= left:
                left -= int(size[row])
                chosen.append(row)
        old = {row: state.allocation(row) for row in state.running.tolist()}
        state.stop(state.running)
        self.on = []
        for row in sorted(chosen, key=lambda row: (-int(size[row]), row not in old)):
            if row in old and all(state.idle[server] >= count for server, count in old[row]):
                started = state.start(row, old[row])
            else:
                started = state.start([row], strict=False)
            if started:
                self.on.append(row)
                self.rounds[row] += 1
        state.wake(self.ends)

    def priority(self, row: int) -> float:
        return self.share[row] / self.rounds[row] if self.rounds[row] else float("inf")

    def look(self, state: Any, rows: list[int]) -> None:
        """Shares anew, by halving the greatest fairness."""
        whole = int(sum(state.gpus))
        for row in rows:
            self.isolated.setdefault(row, 0.0)
            self.rounds.setdefault(row, 0)
            due = self.share.get(row, 0.0) * (state.now - self.looked) - self.had.get(row, 0.0)
            self.due[row] = self.due.get(row, 0.0) + (due if row in self.share else 0.0)
            self.had[row] = 0.0
        part = {row: min(1.0, -(-whole // len(rows)) / int(state.jobs.num_gpus[row])) for row in rows}
        rest = {row: float(state.remaining_iterations[row]) for row in rows}
        for row in rows:
            if row in self.seen:
                before, under = self.seen[row]
                self.isolated[row] += (before - rest[row]) / under
        self.seen = {row: (rest[row], part[row]) for row in rows}
        since = {row: state.now - float(state.arrival_time[row]) for row in rows}
        alone = {row: self.isolated[row] + rest[row] / part[row] for row in rows}

        def needed(fairness: float) -> dict[int, float]:
            return {row: min(1.0, rest[row] / (fairness * alone[row] - since[row])) for row in rows}

        def fits(fairness: float) -> bool:
            need = needed(fairness)
            return sum(need[row] * int(state.jobs.num_gpus[row]) for row in rows) <= whole

        low = max((since[row] + rest[row]) / alone[row] for row in rows)
        high = low
        while not fits(high):
            high *= 2.0
        for _ in range(200):
            middle = (low + high) / 2.0
            low, high = (low, middle) if fits(middle) else (middle, high)
        self.share = needed(low if fits(low) else high)
        gpus = {row: int(state.jobs.num_gpus[row]) for row in rows}
        room = whole - sum(self.share[row] * gpus[row] for row in rows)
        wish = sum((1.0 - self.share[row]) * gpus[row] for row in rows)
        if wish > 0.0:
            part_of = max(0.0, min(1.0, room / wish))
            self.share = {row: share + (1.0 - share) * part_of for row, share in self.share.items()}
        self.members, self.looked = set(rows), state.now
