"""How fast a job runs: equation 8, statistical efficiency, measured speeds (docs/model.md, tables.md)."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cached_property
from typing import Any

from judge.given import Given, Stay

EVEN = 1.0 + 1e-12
"""The tolerance of a floor."""


class Speeds:
    """Rates of jobs on GPUs of a run."""

    def __init__(self, given: Given) -> None:
        self.given, self.jobs, self.net = given, given.jobs, given.cluster.network
        self.interference = float(given.options.get("interference") or 0.0)
        self._measured: dict[tuple[str, int], dict[int, tuple[list[int], list[float]]]] = {}
        self._pairs: dict[tuple[str, int, str], float] = {}
        self._known: dict[tuple[str, int, int, int], float] = {}
        self._fewest: dict[tuple[int, int], int] = {}
        self._estimates: dict[int, float] = {}
        if given.speeds:
            self._read(given)

    def _read(self, given: Given) -> None:
        own = {}
        for row in sorted(given.speeds, key=lambda row: (row.servers, row.gpus)):
            if row.partner is None:
                sizes = self._measured.setdefault((row.model, row.gpu_type), {})
                gpus, rates = sizes.setdefault(row.servers, ([], []))
                gpus.append(row.gpus)
                rates.append(row.rate)
            elif row.gpus == row.servers == 1 and row.partner_rate is not None:
                own[row.model, row.gpu_type, row.partner] = row.rate
                self._pairs[row.partner, row.gpu_type, row.model] = row.partner_rate
        self._pairs |= own

    @property
    def meets(self) -> bool:
        """Whether jobs on one GPU may slow each other down."""
        return self.jobs.share is not None and (self.interference > 0 or bool(self._pairs))

    def work(self, job: int) -> float:
        """All there is to do, in units."""
        return (
            self.jobs.duration[job] / self.unit if self.given.model == "fixed" else self.jobs.iterations[job]
        )

    @cached_property
    def unit(self) -> float:
        """What work is counted in: iterations, recorded seconds or, with slots, so many of those."""
        return self.given.slot or 1.0 if self.given.model == "fixed" else 1.0

    def relative(self, job: int, gpus: int) -> float:
        """(w / G) E(w): the work that so many GPUs do beside those that the job asks for."""
        asked = self.jobs.gpus[job]
        if gpus == asked:
            return 1.0
        share = gpus / asked
        phi = self.jobs.noise[job] if self.jobs.noise is not None else math.inf
        if phi == math.inf:
            return share
        batch = self.jobs.batch[job] if self.jobs.batch is not None else 1.0
        return share * ((phi + asked * batch) / (phi + gpus * batch))

    def estimate(self, job: int) -> float:
        """rho: seconds for all its work on one server of those recorded on, without contention."""
        found = self._estimates.get(job)
        if found is None:
            found = self._estimates[job] = self._estimate(job)
        return found

    def _estimate(self, job: int) -> float:
        jobs, gpus = self.jobs, self.jobs.gpus[job]
        if self.given.model == "fixed":
            return jobs.duration[job]
        if self.given.model == "rar":
            return jobs.iterations[job] * self.tau(job, gpus, 1)
        assert jobs.recorded is not None
        return jobs.iterations[job] / self.measured(job, jobs.recorded[job], gpus, 1)

    def type_of(self, stay: Stay) -> int:
        """The number of the GPU type that a stay holds."""
        return self.given.cluster.of_type(stay.held[0][0])

    def speedup(self, stay: Stay) -> float:
        """How fast its GPUs are beside those recorded on."""
        return 1.0 if self.jobs.speedup is None else self.jobs.speedup[stay.job][self.type_of(stay)]

    def fewest(self, job: int, gpus: int) -> int:
        """The fewest servers of the job's cluster that hold so many GPUs."""
        key = self.jobs.in_vc(job), gpus
        if key not in self._fewest:
            sums = self._sizes.get(key[0], [])
            self._fewest[key] = 1 + bisect_left(sums, gpus)
        return self._fewest[key]

    @cached_property
    def _sizes(self) -> dict[int, list[int]]:
        """By virtual cluster: the GPUs of its largest server, of its two largest, and so on."""
        sums: dict[int, list[int]] = {}
        servers = sorted(
            range(len(self.given.cluster.gpus)), key=lambda server: -self.given.cluster.gpus[server]
        )
        for server in servers:
            own = sums.setdefault(self.given.cluster.in_vc(server), [])
            own.append((own[-1] if own else 0) + self.given.cluster.gpus[server])
        return sums

    def tau(self, job: int, gpus: int, servers: int, p: int = 0, speedup: float = 1.0) -> float:
        """Seconds that the work of an iteration takes on so many GPUs and servers, under contention p."""
        seconds = self.iteration(job, gpus, servers, p, speedup)
        return seconds if gpus == self.jobs.gpus[job] else seconds / self.relative(job, gpus)

    def iteration(self, job: int, gpus: int, servers: int, p: int, speedup: float) -> float:
        """Equation 8: what so many GPUs take for an iteration of theirs."""
        net = self.net
        x = self.jobs.gradient[job] * (gpus - 1) / gpus
        bandwidth = net.intra_bandwidth
        if servers > 1:
            k = max(1.0, net.xi1 * p)
            bandwidth = net.inter_bandwidth / (k + net.alpha * (k - 1.0))
        return (
            2.0 * x / bandwidth + x / net.reduce_speed + net.xi2 * servers + self.jobs.compute[job] / speedup
        )

    def measured(self, job: int, gpu_type: int, gpus: int, servers: int) -> float:
        """Iterations a second; NaN where nothing was measured."""
        assert self.jobs.model is not None
        key = self.jobs.model[job], gpu_type, gpus, servers
        if key not in self._known:
            self._known[key] = _between(self._measured.get(key[:2], {}), gpus, servers)
        return self._known[key]

    def rate(self, stay: Stay, p: int, others: tuple[int, ...]) -> float:
        """Work a second under contention p, with the jobs `others` on its GPU."""
        job, model = stay.job, self.given.model
        slowed = 1.0 + self.interference * len(others) if others else 1.0
        if model == "fixed":
            return self.relative(job, stay.gpus) * self.speedup(stay) / slowed
        if model == "rar":
            speedup = 1.0 if self.jobs.speedup is None else self.speedup(stay)
            tau = self.tau(job, stay.gpus, len(stay.held), p, speedup) * slowed
            return 1.0 / tau if tau > 0 else math.inf
        if len(others) == 1:
            assert self.jobs.model is not None
            key = self.jobs.model[job], self.type_of(stay), self.jobs.model[others[0]]
            if key in self._pairs:
                return self._pairs[key]
        return self.measured(job, self.type_of(stay), stay.gpus, len(stay.held)) / slowed

    def done(self, stay: Stay, length: float, p: int, others: Any) -> float:
        """Units of work done in so many seconds of a stay: in slots, whole iterations in each."""
        rate, slot = self.rate(stay, p, others or ()), self.given.slot
        if slot is None:
            return length * rate
        slots = length / slot
        if self.given.model == "fixed":
            return round(slots) * rate
        if self.given.model == "rar":
            return round(slots) * float(math.floor(slot * rate * EVEN))
        whole = math.floor(slots + 1e-9)
        rest = length - whole * slot
        left = math.floor(rest * rate * EVEN) if rest > 1e-9 * slot else 0
        return whole * float(math.floor(slot * rate * EVEN)) + left


def _between(measured: dict[int, tuple[list[int], list[float]]], gpus: int, servers: int) -> float:
    """The rate that counts: of the most servers that are not too many, else of the fewest beyond."""
    below = sorted((count for count in measured if count <= servers), reverse=True)
    for count in (*below, *sorted(count for count in measured if count > servers)):
        sizes, rates = measured[count]
        if sizes[0] <= gpus <= sizes[-1]:
            at = bisect_left(sizes, gpus)
            if sizes[at] == gpus:
                return rates[at]
            part = (gpus - sizes[at - 1]) / (sizes[at] - sizes[at - 1])
            return rates[at - 1] + (rates[at] - rates[at - 1]) * part
    return math.nan
