"""How fast jobs run: equation 8, statistical efficiency, measured speeds (docs/model.md, tables.md).

Every function takes columns: rows of the job table, GPUs, servers and so on, of equal lengths.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ringbco.checker.arrays import codes
from ringbco.checker.fabric import at_best
from ringbco.checker.inputs import Bools, Floats, Ints, RunInputs

EVEN = 1.0 + 1e-12
"""The tolerance of a floor."""


class Company(NamedTuple):
    """How many other jobs are on a job's GPUs, one of them, and whether it began after that one."""

    others: Ints
    other: Ints
    later: Bools


class Speeds:
    """Rates of jobs on GPUs of a run."""

    def __init__(self, inputs: RunInputs) -> None:
        self.inputs, self.jobs, self.net = inputs, inputs.jobs, inputs.cluster.network
        self.interference = float(inputs.options.get("interference") or 0.0)
        self._measured: dict[tuple[str, int], dict[int, tuple[list[int], list[float]]]] = {}
        self._pairs: dict[tuple[str, int, str], float] = {}
        self._seats: dict[tuple[str, int, int, str], dict[int, tuple[float, float]]] = {}
        """Both rates on the same GPUs: by model, type, GPUs, partner; by servers. 0 GPUs: fractions."""
        if inputs.speeds:
            self._read(inputs)

    def _read(self, inputs: RunInputs) -> None:
        own = {}
        for row in sorted(inputs.speeds, key=lambda row: (row.servers, row.gpus)):
            if row.partner is None:
                sizes = self._measured.setdefault((row.model, row.gpu_type), {})
                gpus, rates = sizes.setdefault(row.servers, ([], []))
                gpus.append(row.gpus)
                rates.append(row.rate)
            elif row.partner_rate is not None:
                both = self._seats.setdefault((row.model, row.gpu_type, row.gpus, row.partner), {})
                both[row.servers] = row.rate, row.partner_rate
                if row.gpus == row.servers == 1:
                    own[row.model, row.gpu_type, row.partner] = row.rate
                    self._pairs[row.partner, row.gpu_type, row.model] = row.partner_rate
        self._pairs |= own

    @property
    def meets(self) -> bool:
        """Whether jobs on one GPU may slow each other down."""
        return self.jobs.share is not None and (self.interference > 0 or bool(self._pairs))

    @cached_property
    def unit(self) -> float:
        """What work is counted in: iterations, recorded seconds or, with slots, so many of those."""
        return self.inputs.slot or 1.0 if self.inputs.model == "fixed" else 1.0

    @cached_property
    def work(self) -> Floats:
        """All there is to do for each job, in units."""
        return self.jobs.duration / self.unit if self.inputs.model == "fixed" else self.jobs.iterations

    def relative(self, job: Ints, gpus: Ints) -> Floats:
        """(w / G) E(w): the work that so many GPUs do beside those that the job asks for."""
        asked = self.jobs.gpus[job]
        share = gpus / asked
        if self.jobs.noise is None:
            return share
        phi = self.jobs.noise[job]
        batch = self.jobs.batch[job] if self.jobs.batch is not None else 1.0
        with np.errstate(invalid="ignore"):
            efficient = share * ((phi + asked * batch) / (phi + gpus * batch))
        return np.where((gpus == asked) | np.isinf(phi), share, efficient)

    @cached_property
    def estimates(self) -> Floats:
        """rho of each job: seconds for its work on one server of those recorded on, without contention."""
        jobs = self.jobs
        if self.inputs.model == "fixed":
            return jobs.duration
        all_jobs, one = np.arange(len(jobs)), np.ones(len(jobs), np.int64)
        if self.inputs.model == "rar":
            return jobs.iterations * self.tau(all_jobs, jobs.gpus, one)
        assert jobs.recorded is not None
        return jobs.iterations / self.measured(all_jobs, jobs.recorded, jobs.gpus, one)

    def speedup(self, job: Ints, gpu_type: Ints) -> Floats | float:
        """How fast GPUs of a type are beside those recorded on."""
        return 1.0 if self.jobs.speedup is None else self.jobs.speedup[job, gpu_type]

    def fewest(self, job: Ints, gpus: Ints) -> Ints:
        """The fewest servers of the job's cluster that hold so many GPUs."""
        vc = self.jobs.in_vc[job]
        if len(self._sizes) == 1:
            return 1 + np.searchsorted(self._sizes[0], gpus)
        found = np.ones(job.size, np.int64)
        for number, sums in enumerate(self._sizes):
            mine = vc == number
            found[mine] = 1 + np.searchsorted(sums, gpus[mine])
        return found

    @cached_property
    def _sizes(self) -> list[Ints]:
        """By virtual cluster: the GPUs of its largest server, of its two largest, and so on."""
        cluster = self.inputs.cluster
        count = max(1, len(cluster.vcs))
        return [np.cumsum(np.sort(cluster.gpus[cluster.in_vc == number])[::-1]) for number in range(count)]

    def tau(
        self,
        job: Ints,
        gpus: Ints,
        servers: Ints,
        p: Ints | int = 0,
        speedup: Floats | float = 1.0,
        *,
        bandwidth: Floats | None = None,
    ) -> Floats:
        """Seconds that the work of an iteration takes on so many GPUs and servers, under contention p.

        bandwidth: what a network of tiers leaves gangs that span, bytes/s; 0 or None: at best.
        """
        seconds = self.iteration(job, gpus, servers, p, speedup, given=bandwidth)
        other = gpus != self.jobs.gpus[job]
        if not other.any():
            return seconds
        return np.where(other, seconds / self.relative(job, gpus), seconds)

    def iteration(
        self,
        job: Ints,
        gpus: Ints,
        servers: Ints,
        p: Ints | int,
        speedup: Floats | float,
        *,
        given: Floats | None,
    ) -> Floats:
        """Equation 8: what so many GPUs take for an iteration of theirs."""
        net = self.net
        x = self.jobs.gradient[job] * (gpus - 1) / gpus
        k = np.maximum(1.0, net.xi1 * np.asarray(p))
        best = at_best(self.inputs, job, gpus, servers)
        across = net.inter_bandwidth / (k + net.alpha * (k - 1.0)) if best is None else best
        if given is not None:
            across = np.where(given > 0, given, across)
        bandwidth = np.where(servers > 1, across, net.intra_bandwidth)
        with np.errstate(divide="ignore", invalid="ignore"):
            once = self.jobs.compute[job] / speedup
        found: Floats = 2.0 * x / bandwidth + x / net.reduce_speed + net.xi2 * servers + once
        return found

    @cached_property
    def _models(self) -> tuple[Ints, list[str]]:
        assert self.jobs.model is not None
        return codes(self.jobs.model)

    def measured(self, job: Ints, gpu_type: Ints, gpus: Ints, servers: Ints) -> Floats:
        """Iterations a second; NaN where nothing was measured. Each distinct request is looked up once."""
        of, names = self._models
        if not job.size:
            return np.zeros(0)
        key = of[job]
        for part in (gpu_type, gpus, servers):
            key = key * (int(part.max()) + 1) + part
        _, at, inverse = np.unique(key, return_index=True, return_inverse=True)
        asked = zip(
            of[job[at]].tolist(), *(part[at].tolist() for part in (gpu_type, gpus, servers)), strict=True
        )
        rates = [_between(self._measured.get((names[m], t), {}), g, s) for m, t, g, s in asked]
        found: Floats = np.array(rates, np.float64)[inverse]
        return found

    def rate(
        self,
        job: Ints,
        gpu_type: Ints,
        gpus: Ints,
        servers: Ints,
        *,
        p: Ints | int = 0,
        company: Company | None = None,
        bandwidth: Floats | None = None,
    ) -> Floats:
        """Work a second under contention p. bandwidth: as `tau` has it."""
        model = self.inputs.model
        slowed, beside = self._beside(job, gpu_type, gpus, servers, company)
        if model == "fixed":
            return self.relative(job, gpus) * self.speedup(job, gpu_type) / slowed
        if model == "rar":
            tau = self.tau(job, gpus, servers, p, self.speedup(job, gpu_type), bandwidth=bandwidth) * slowed
            with np.errstate(divide="ignore"):
                return np.where(tau > 0, 1.0 / tau, math.inf)
        alone: Floats = self.measured(job, gpu_type, gpus, servers) / slowed
        for row, rate in beside.items():
            alone[row] = rate
        return alone

    def _beside(
        self, job: Ints, gpu_type: Ints, gpus: Ints, servers: Ints, company: Company | None
    ) -> tuple[Floats | float, dict[int, float]]:
        """How many times as long work takes beside others; and the rows whose rate was measured, with it."""
        rates: dict[int, float] = {}
        if company is None:
            return 1.0, rates
        slowed: Floats = np.asarray(1.0 + self.interference * company.others)
        if self.jobs.model is None or not self._seats:
            return slowed, rates
        (of, names), share, measured = self._models, self.jobs.share, self.inputs.model == "table"
        pairs = np.flatnonzero((company.others == 1) & (of[job] >= 0) & (of[company.other] >= 0))
        for row in pairs.tolist():
            mine, theirs = names[of[job[row]]], names[of[company.other[row]]]
            kind, rate = int(gpu_type[row]), None
            if share is not None and share[job[row]]:
                if measured and (rate := self._pairs.get((mine, kind, theirs))) is not None:
                    rates[row] = rate
                continue
            later = bool(company.later[row])
            if measured:
                rate = self._on_seat((mine, theirs), kind, int(gpus[row]), int(servers[row]), later=later)
            if rate is not None:
                rates[row] = rate
            elif (part := self._on_seat((mine, theirs), kind, 0, 0, later=later)) is not None:
                slowed[row] = 1.0 / part if part > 0 else math.inf
        return slowed, rates

    def _on_seat(
        self, models: tuple[str, str], gpu_type: int, gpus: int, servers: int, *, later: bool
    ) -> float | None:
        """What was measured of the first of two models, its own rows before those of the other.

        Of one model twice, the job that began later has the rate, the other that of the partner.
        """
        mine, theirs = models
        own = (mine, gpu_type, gpus, theirs), 0 if mine != theirs or later else 1
        for key, at in (own, ((theirs, gpu_type, gpus, mine), 1)):
            if key in self._seats:
                return self._seats[key][_servers_first(self._seats[key], servers)[0]][at]
        return None

    def done(self, rate: Floats, length: Floats) -> Floats:
        """Units of work done at a rate in so many seconds: in slots, whole iterations in each."""
        slot = self.inputs.slot
        if slot is None:
            return length * rate
        slots = length / slot
        if self.inputs.model == "fixed":
            return np.rint(slots) * rate
        if self.inputs.model == "rar":
            return np.rint(slots) * np.floor(slot * rate * EVEN)
        whole = np.floor(slots + 1e-9)
        rest = length - whole * slot
        left = np.where(rest > 1e-9 * slot, np.floor(rest * rate * EVEN), 0.0)
        return whole * np.floor(slot * rate * EVEN) + left


def _servers_first(measured: Iterable[int], servers: int) -> list[int]:
    """Numbers of servers in the order in which they count: the most not above that, then the fewest."""
    return sorted(measured, key=lambda count: (count > servers, abs(count - servers)))


def _between(measured: dict[int, tuple[list[int], list[float]]], gpus: int, servers: int) -> float:
    """The rate that counts: of the most servers that are not too many, else of the fewest beyond."""
    for count in _servers_first(measured, servers):
        sizes, rates = measured[count]
        if sizes[0] <= gpus <= sizes[-1]:
            at = bisect_left(sizes, gpus)
            if sizes[at] == gpus:
                return rates[at]
            part = (gpus - sizes[at - 1]) / (sizes[at] - sizes[at - 1])
            return rates[at - 1] + (rates[at] - rates[at - 1]) * part
    return math.nan
