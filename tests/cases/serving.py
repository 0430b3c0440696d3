"""Random services and requests as a text file, with what the reference model makes of them.

    python tests/cases/serving.py [COUNT [FILE]]

A line is a name and its values; an empty line ends a case. Many cases have times on a grid, so that
arrivals, ends of steps and batches, ticks, drains and failures meet at one instant.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference.replicas import Batch, Request, Tokens
    from reference.scaling import Fixed, Loads, Target
    from reference.serving import Outage, Result, Scheduled, Service

FILE = Path(__file__).parents[2] / "rust" / "tests" / "serving.txt"
COUNT = 100
SHOWN = (715, 758, 1124)
"""Cases that come first, for faults that few others show."""


@dataclass
class Case:
    services: list[Service]
    requests: list[Request]
    schedule: list[Scheduled]
    speeds: list[float]
    outages: list[Outage]
    jobs_end: float
    samples: list[float]


class Draw:
    """Draws a case. unit: of its grid, s; None without one. base: its first instant, s."""

    def __init__(self, name: str) -> None:
        self.rng = rng = Random(name)
        self.unit = rng.choice((None, 0.25, 0.5, 1.0, 1.0))
        self.length = rng.choice((2.0, 8.0, 30.0, 200.0))
        self.is_scaled = rng.random() < 0.6
        self.base = 0.0 if self.is_scaled else rng.choice((0.0, 0.0, 1e6 / 3, 2.0**31 - 4))

    def seconds(self, most: float, *, least: float = 0.0) -> float:
        if self.unit is None:
            return self.rng.uniform(least, most)
        return max(least, self.unit * self.rng.randint(0, max(1, int(most / self.unit))))

    def share(self, part: float) -> float:
        """A small part of a second, or none."""
        if self.rng.random() < 0.3:
            return 0.0
        return (
            part * self.rng.random() if self.unit is None else self.unit * self.rng.choice((1, 2)) * part / 4
        )

    def time(self) -> float:
        return self.base + self.seconds(self.length)

    def tokens(self) -> Tokens:
        from reference.replicas import Tokens

        rng = self.rng
        return Tokens(
            step=self.seconds(1.0, least=0.05),
            prefill=self.share(1 / 8),
            decode=self.share(1 / 4),
            context=self.share(1 / 64),
            max_running=rng.choice((1, 2, 3, 8, 1000)),
            kv_tokens=rng.choice((40, 60, 100, 1000)) if rng.random() < 0.9 else 10**12,
            max_step_tokens=rng.choice((None, None, 1, 2, 3, 7, 16, 64)),
        )

    def batch(self) -> Batch:
        from reference.replicas import Batch

        sizes = sorted(self.rng.sample(range(1, 9), self.rng.randint(1, 3)))
        times = sorted(self.seconds(3.0, least=0.05) for _ in sizes)
        return Batch(list(zip(sizes, times, strict=True)), self.rng.choice((0.0, self.seconds(3.0))))

    def scale(self) -> Fixed | Loads | Target:
        from reference.scaling import Fixed, Loads, Target

        rng, kind = self.rng, self.rng.random()
        if kind < 0.15:
            return Fixed(rng.randint(1, 3))
        if kind < 0.35:
            times = sorted({self.time() for _ in range(rng.randint(1, 6))})
            counts = [(time, rng.randint(0, 4)) for time in times]
            return Loads([*counts[:-1], (counts[-1][0], rng.randint(1, 4))])
        least = rng.randint(0, 2)
        return Target(
            target=rng.choice((0.5, 1.0, 2.0, 3.0, 4.7)),
            least=least,
            most=max(1, least) + rng.randint(0, 4),
            every=max(self.seconds(rng.choice((2.0, 10.0))), 0.25),
            tolerance=rng.choice((0.0, 0.1, 0.5)),
            down_after=rng.choice((0.0, self.seconds(5.0), self.seconds(40.0))),
        )

    def service(self) -> Service:
        from reference.serving import Service

        return Service(
            self.tokens() if self.rng.random() < 0.65 else self.batch(),
            startup=self.rng.choice((0.0, 0.0, self.seconds(4.0))),
            drain=self.rng.choice((0.0, self.seconds(2.0), self.seconds(10.0), 60.0)),
            scale=self.scale() if self.is_scaled else None,
        )

    def requests(self, service: int, kind: Batch | Tokens) -> Iterator[Request]:
        from reference.replicas import Batch, Request

        rng, most = self.rng, 400 if isinstance(kind, Batch) else min(kind.kv_tokens, 400)
        longest = rng.choice((1, 4, 15, 15, most - 25))
        for _ in range(rng.choice((0, 1, 4, 12, 30))):
            prompt, output = rng.randint(0, 25), rng.randint(1, longest)
            cached = rng.choice((0, 0, rng.randint(0, prompt), prompt))
            yield Request(service, self.time(), prompt, output, cached)

    def scheduled(self, service: int) -> Iterator[Scheduled]:
        from reference.serving import Scheduled

        for _ in range(self.rng.randint(1, 5)):
            start = self.rng.choice((self.base, self.time()))
            after = [math.inf if self.rng.random() < 0.6 else self.time() for _ in range(2)]
            drains, fails = (time if time > start else math.inf for time in after)
            server, speed = self.rng.randint(0, 3), self.rng.choice((1.0, 1.0, 0.5, 1.7))
            yield Scheduled(service, start, server, speed, drains, fails)

    def case(self) -> Case:
        from reference.serving import Outage

        rng = self.rng
        services = [self.service() for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        each = range(len(services))
        requests = [request for at in each for request in self.requests(at, services[at].kind)]
        rng.shuffle(requests)
        schedule = [] if self.is_scaled else [told for at in each for told in self.scheduled(at)]
        speeds = (
            [rng.choice((1.0, 1.0, 0.5, 1.7)) for _ in range(rng.randint(1, 6))] if self.is_scaled else []
        )
        outages = []
        for _ in range(rng.choice((0, 0, 1, 3)) if self.is_scaled else 0):
            start = self.time()
            outages.append(Outage(rng.randrange(len(speeds)), start, start + self.seconds(9.0, least=0.25)))
        jobs_end = self.time() if rng.random() < 0.3 else 0.0
        samples = sorted({self.time() for _ in range(6)})
        return Case(services, requests, schedule, speeds, outages, jobs_end, samples)


def result(case: Case) -> Result | None:
    """What the reference model makes of a case; None where requests can never be answered."""
    from reference.serving import UnansweredError, World

    world = World(
        case.services,
        case.requests,
        case.schedule,
        speeds=case.speeds,
        outages=case.outages,
        jobs_end=case.jobs_end,
        samples=case.samples,
    )
    try:
        return world.run()
    except UnansweredError:
        return None


def lines(case: Case, result: Result) -> Iterator[str]:
    from reference.replicas import Batch
    from reference.scaling import Fixed, Loads

    def line(*words: object) -> str:
        return " ".join("nan" if word is None else str(word) for word in words)

    for each in case.services:
        kind, scale = each.kind, each.scale
        if isinstance(kind, Batch):
            own: list[object] = [
                "batch",
                kind.max_wait,
                *(number for pair in kind.seconds for number in pair),
            ]
        else:
            own = ["tokens", kind.step, kind.prefill, kind.decode, kind.context]
            own += [kind.max_running, kind.kv_tokens, kind.max_step_tokens or 0]
        if scale is None:
            own += ["none"]
        elif isinstance(scale, Fixed):
            own += ["loads", 0.0, scale.replicas]
        elif isinstance(scale, Loads):
            own += ["loads", *(number for pair in scale.counts for number in pair)]
        else:
            own += ["target", scale.target, scale.least, scale.most]
            own += [scale.every, scale.tolerance, scale.down_after]
        yield line("service", each.startup, each.drain, *own)
    for name in ("service", "arrival", "input", "output", "cached"):
        yield line(name.replace("service", "of"), *(getattr(request, name) for request in case.requests))
    for told in case.schedule:
        yield line("schedule", told.service, told.start, told.server, told.speed, told.drains, told.fails)
    yield line("speeds", *case.speeds)
    yield line("outages", *(number for o in case.outages for number in (o.server, o.start, o.end)))
    yield line("jobs_end", case.jobs_end)
    for name in ("replica", "start", "first_token", "finish"):
        yield line(name, *(getattr(answer, name) for answer in result.answers))
    for r in result.replicas:
        yield line(
            "held", r.service, r.number, r.start, r.server, r.serves_from, r.drains_from, r.end, r.busy
        )
    before: dict[int, int] = {}
    changes = []
    for time, service, wanted in result.wanted:
        if before.get(service) != wanted:
            changes += [time, service, wanted]
        before[service] = wanted
    yield line("wanted", *changes)
    yield line("begun_anew", *result.begun_anew)
    for s in result.samples:
        yield line("sample", s.service, s.time, s.queued, s.running, s.serving, s.wanted)
    yield line("end", result.end)


def cases() -> Iterator[str]:
    for number in chain(SHOWN, count()):
        case = Draw(f"serving {number}").case()
        found = result(case)
        if found is not None:
            yield "\n".join([f"case {number}", *lines(case, found)])


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    length = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    file = Path(sys.argv[2]) if len(sys.argv) > 2 else FILE
    file.write_text("\n\n".join(islice(cases(), length)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
