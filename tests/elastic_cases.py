"""Random replays of elastic jobs under the policies that resize them, and what a user writes of them."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from oracle import Job, Options, RefusedError, StuckError
from oracle.model import work
from oracle_elastic import Elastic, simulate
from oracle_outages import Failures
from oracle_preempt import Preemption, PreemptResult
from oracle_priorities import Claims
from oracle_types import Types
from outage_cases import build_failures
from priority_cases import Problem, frame_of, options_of, toml_of
from strategies import Case, build_case
from test_tables_equality import measured
from test_types_equality import types_of

KINDS = ("plain", "plain", "types", "tables")


@dataclass(frozen=True)
class ElasticCase:
    """One replay; its repr can be pasted into a test."""

    case: Case
    rules: Elastic
    facts: Failures
    types: Types | None = None

    def truth(self) -> PreemptResult:
        case = self.case
        return simulate(
            case.jobs,
            case.servers,
            case.net,
            case.options,
            self.rules,
            self.types,
            self.facts,
            case.server_vc,
        )

    # What a user writes.

    def problem(self) -> Problem:
        rules, count = self.rules, len(self.case.jobs)
        claims = Claims(rules.priority, (True,) * count)
        told = Preemption(rules.policy, rules.preempt, start_cost=rules.start)
        users = (None,) * count
        return Problem(self.case, claims, self.facts, told, rules.deadlines, types=self.types, users=users)

    def frame(self) -> pl.DataFrame:
        frame = frame_of(self.problem()).with_columns(
            min_gpus=pl.Series(self.rules.least, dtype=pl.UInt32),
            max_gpus=pl.Series(self.rules.most, dtype=pl.UInt32),
        )
        if not self.rules.noise:
            return frame
        scales, batches = zip(*self.rules.noise, strict=True)
        return frame.with_columns(
            noise_scale=pl.Series(scales, dtype=pl.Float64),
            batch_size=pl.Series(batches, dtype=pl.UInt32),
            # Computing takes as long with any batch.
            fp_time=pl.lit(0.0),
            bp_time=pl.col("fp_time"),
        )

    def toml(self) -> str:
        return toml_of(self.problem())

    def options(self) -> dict[str, Any]:
        given = options_of(self.problem())
        rules = self.rules
        given |= {"move_cost": rules.move, "resize_cost": rules.resize, "resize_every": rules.resize_every}
        return given if rules.interval is None else given | {"interval": rules.interval}


def cases(name: str, count: int, policy: str, bases: Sequence[Options]) -> Iterator[ElasticCase]:
    for number in range(count):
        rnd = random.Random(f"elastic {name} {policy} {number}")
        yield build_elastic(rnd, rnd.choice(bases), policy)


def build_elastic(rnd: random.Random, base: Options, policy: str) -> ElasticCase:
    """Up to 14 jobs on up to 6 servers. base: placement, model and clock of all but those with tables."""
    kind = rnd.choice(KINDS)
    if kind == "tables":
        base = replace(base, model="rar")
    case = build_case(rnd, base, vcs=rnd.random() < 0.1, most=14)
    while case.jobs[0].submit > 2.0**50:
        case = build_case(rnd, base, most=14)  # times so coarse that a stay has no length
    case = replace(case, options=replace(case.options, oversize="drop", order="fifo", queue="strict"))
    if rnd.random() < 0.5:
        vc = None if case.server_vc is None else (*case.server_vc, rnd.choice(case.server_vc))
        case = replace(case, servers=(*case.servers, rnd.randint(1, 8)), server_vc=vc)
    case = replace(case, jobs=_jobs(rnd, case))
    least, most = _ranges(rnd, case)
    types: Types | None = None
    if kind == "types":
        types = types_of(rnd, case)
    elif kind == "tables":
        # Measured as far as any job may go.
        asked = [job.num_gpus for job in case.jobs]
        wide = tuple(replace(job, num_gpus=max(most)) for job in case.jobs)
        found = measured(rnd, replace(case, jobs=wide))
        jobs = tuple(replace(job, num_gpus=gpus) for job, gpus in zip(found.case.jobs, asked, strict=True))
        case, types = replace(found.case, jobs=jobs), found.types
    rules = _rules(rnd, case, policy, least, most)
    none = Failures((), (math.inf,) * len(case.jobs))
    problem = ElasticCase(case, rules, none, types)
    return _with_outages(rnd, problem) if rnd.random() < 0.4 else problem


def _jobs(rnd: random.Random, case: Case) -> tuple[Job, ...]:
    """They come sooner after each other than they did, and some are like others."""
    first = min(job.submit for job in case.jobs)
    faster, alike = rnd.choice((0.0, 0.125, 0.5, 1.0)), rnd.choice((0.0, 0.3, 0.7))
    longer = rnd.choice((1, 1, 4))
    jobs = list[Job]()
    for job in case.jobs:
        submit = first + faster * (job.submit - first)
        if jobs and rnd.random() < alike:
            model = rnd.choice(jobs)
            jobs.append(replace(model, submit=submit) if rnd.random() < 0.5 else model)
        else:
            more = {"duration": job.duration * longer, "iterations": job.iterations * longer}
            jobs.append(replace(job, submit=submit, **more))
    return tuple(jobs)


def _ranges(rnd: random.Random, case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The least and the most GPUs; in some tables all jobs are rigid."""
    rigid = rnd.choice((0.1, 0.1, 0.4, 1.0))
    asked = [job.num_gpus for job in case.jobs]
    firm = [rnd.random() < rigid for _ in asked]
    least = (
        gpus if own else rnd.choice((1, gpus, rnd.randint(1, gpus)))
        for gpus, own in zip(asked, firm, strict=True)
    )
    most = (gpus if own else gpus + rnd.choice((0, 1, 4, 12)) for gpus, own in zip(asked, firm, strict=True))
    return tuple(least), tuple(most)


def _rules(
    rnd: random.Random, case: Case, policy: str, least: tuple[int, ...], most: tuple[int, ...]
) -> Elastic:
    slot, count = case.options.slot, len(case.jobs)
    levels = rnd.choice(((0,), (0,), (0, 1), (-(2**31), 0, 2**31 - 1)))
    cost = [slot * rnd.choice((0.0, 0.25, 1.0, 2.0, rnd.uniform(0.0, 3.0))) for _ in range(4)]
    every = rnd.choice((0.0, 0.0, slot, 2.5 * slot, 5.0 * slot, rnd.uniform(0.0, 20.0) * slot, 300.0))
    interval = rnd.choice((None, None, slot, 2.0 * slot, 3.7 * slot, rnd.uniform(0.7, 9.0) * slot, 60.0))
    return Elastic(
        policy,
        least,
        most,
        tuple(rnd.choice(levels) for _ in range(count)),
        tuple(_deadline(rnd, case, job) if policy == "elasticflow" else math.nan for job in case.jobs),
        every,
        None if interval is None else max(interval, every / 100.0),
        rnd.choice((0.0, 0.0, cost[0])),
        *cost[1:],
        _noise(rnd, count) if rnd.random() < 0.3 else (),
    )


def _noise(rnd: random.Random, count: int) -> tuple[tuple[float, int], ...]:
    return tuple(
        (rnd.choice((math.inf, 0.0, 1.0, 0.3, 2_500.0, 7.7e6)), rnd.choice((1, 64, rnd.randint(1, 3000))))
        for _ in range(count)
    )


def _deadline(rnd: random.Random, case: Case, job: Job) -> float:
    if rnd.random() < 0.25:
        return math.nan
    needs = work(job, case.options, case.net) if case.options.model != "table" else 10.0 * case.options.slot
    at = job.submit + needs * rnd.choice((0.5, 1.0, 2.0, 2.0, 4.0, 8.0, 16.0, rnd.uniform(0.1, 30.0)))
    return float(round(at)) if rnd.random() < 0.3 else at


def _with_outages(rnd: random.Random, problem: ElasticCase) -> ElasticCase:
    """With servers that fail, some at the very instants of what happens without that."""
    try:
        instants = tuple(problem.truth().finish)
    except (RefusedError, StuckError):
        instants = ()
    return replace(problem, facts=build_failures(rnd, problem.case, instants))
