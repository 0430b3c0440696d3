"""Random replays with priorities, eviction, quotas and services, and the files that a user writes of them."""

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl

from oracle import Options, RefusedError, StuckError
from oracle_outages import Failures, Queue
from oracle_preempt import INTERVALS, Preemption
from oracle_preempt import World as PreemptWorld
from oracle_priorities import Claims, Load, Log, Quota, simulate
from oracle_result import PreemptResult
from oracle_shares import PLACEMENTS as SHARE_PLACEMENTS
from oracle_shares import Sharing
from oracle_shares import preempt_world as share_world
from oracle_tables import MeasuredJob, TableTypes, table_preempt_world
from oracle_types import Types, preempt_world
from outage_cases import build_failures
from strategies import Case, build_case, network_toml
from test_preempt_equality import rules_for
from test_shares_equality import INTERFERENCE, shared
from test_tables_equality import measured
from test_types_equality import types_of

OWNERS = ("u0", "u1", "u2", None)


@dataclass(frozen=True)
class Problem:
    """One replay; its repr can be pasted into a test. queue: None where `rules` rank."""

    case: Case
    claims: Claims
    facts: Failures
    rules: Preemption
    deadlines: tuple[float, ...]
    queue: Queue | None = None
    types: Types | None = None
    users: tuple[str | None, ...] = ()
    by_vc: bool = False
    """Whether quotas go by vc."""
    interference: float | None = None
    """Given where jobs have shares of a GPU."""

    def base(self) -> type[PreemptWorld]:
        if self.interference is not None:
            return share_world(Sharing(None, self.interference))
        if isinstance(self.types, TableTypes):
            return table_preempt_world(self.types)
        return PreemptWorld if self.types is None else preempt_world(self.types)

    def truth(self) -> tuple[PreemptResult, Log]:
        case = self.case
        return simulate(
            case.jobs, case.servers, case.net, case.options, self.claims, self.facts, self.rules,
            self.deadlines, case.server_vc, self.queue, self.base(), self.types,
        )  # fmt: skip


# What a user writes.


def frame_of(problem: Problem) -> pl.DataFrame:
    """The job table."""
    case, jobs, claims, types = problem.case, problem.case.jobs, problem.claims, problem.types
    every = problem.facts.intervals[0]
    columns: dict[str, Any] = {
        "job_id": [f"j{row}" for row in range(len(jobs))],
        "submit_time": [job.submit for job in jobs],
        "num_gpus": pl.Series([job.num_gpus for job in jobs], dtype=pl.UInt32),
        "duration": [job.duration for job in jobs],
        "iterations": pl.Series([job.iterations for job in jobs], dtype=pl.UInt64),
        "gradient_bytes": [job.gradient_bytes for job in jobs],
        "batch_size": pl.Series([1] * len(jobs), dtype=pl.UInt32),
        "fp_time": [job.compute_time for job in jobs],
        "bp_time": [0.0] * len(jobs),
        "priority": pl.Series(claims.priority, dtype=pl.Int32),
        "preemptible": list(claims.preemptible),
        "user": pl.Series(problem.users, dtype=pl.String),
        "checkpoint_interval": pl.Series(
            [None if own == every else own for own in problem.facts.intervals], dtype=pl.Float64
        ),
        "deadline": pl.Series(problem.deadlines, dtype=pl.Float64).fill_nan(None),
    }
    if case.server_vc is not None:
        columns["vc"] = [f"vc{job.vc}" for job in jobs]
    elif problem.by_vc:
        columns["vc"] = pl.Series(claims.owners, dtype=pl.String)
    if problem.interference is not None:
        columns["gpu_share"] = [job.share / 1000 if job.share else None for job in jobs]
    if claims.column:
        columns["mine"] = list(claims.column)
    if types is not None:
        columns["gpu_type"] = ["|".join(f"t{t}" for t in choice.listed) for choice in types.choices]
        columns["recorded_on"] = [f"rec{row}" for row in range(len(jobs))]
        columns["model"] = [f"m{row}" for row in range(len(jobs))]
    if isinstance(types, TableTypes):
        measured_jobs = [job for job in jobs if isinstance(job, MeasuredJob)]
        columns["recorded_on"] = [f"t{job.on}" for job in measured_jobs]
        columns["model"] = [f"m{job.measured_as}" for job in measured_jobs]
    return pl.DataFrame(columns)


def toml_of(problem: Problem) -> str:
    """The cluster file."""
    case, types = problem.case, problem.types
    lines = network_toml(case.net)
    if types is not None:
        # One more than there are servers of: tables may have been measured there.
        for t in range(max(types.of) + 2):
            price = types.price[t] if t < len(types.price) else 1.0
            lines += [f"[gpu_types.t{t}]", "speed = 1.0", f"price_per_hour = {price!r}"]
            for row, choice in enumerate(types.choices):
                if t in choice.speed and not isinstance(types, TableTypes):
                    lines.append(f"models.m{row} = {choice.speed[t]!r}")
        for row, choice in enumerate(types.choices):
            lines += [f"[gpu_types.rec{row}]", f"speed = {choice.recorded!r}"]
    for server, size in enumerate(case.servers):
        lines += ["[[servers]]", f"gpus = {size}"]
        if types is not None:
            lines.append(f'gpu_type = "t{types.of[server]}"')
        if case.server_vc is not None:
            lines.append(f'vc = "vc{case.server_vc[server]}"')
    return "\n".join(lines) + "\n"


def options_of(problem: Problem) -> dict[str, Any]:
    """What `ringbco.replay` is told besides the table and the cluster."""
    case, rules, queue, claims = problem.case, problem.rules, problem.queue, problem.claims
    options = case.options if case.options.clock == "slot" else replace(case.options, slot=1.0)
    given: dict[str, Any] = asdict(options)
    given |= {"preempt_cost": rules.cost, "start_cost": rules.start_cost, "policy": rules.policy}
    given["checkpoint_interval"] = problem.facts.intervals[0]
    if queue is None:
        del given["order"], given["queue"]
        if rules.policy in INTERVALS:
            given["quantum" if rules.policy == "time-slice" else "interval"] = rules.interval
        if rules.policy in ("tiresias", "gittins"):
            given["thresholds"] = rules.thresholds
        if rules.policy == "edf":
            given["admission"] = rules.admission
    else:
        given |= {"policy": "fifo", "estimate_factor": queue.factor}
        given["predict"] = "exact" if queue.exact else "history"
        if claims.column:
            given["order"] = "column:mine"
        if queue.aging is not None:
            given["aging"] = queue.aging
    if problem.interference is not None:
        given["interference"] = problem.interference
    if problem.types is not None:
        given["type_order"] = problem.types.order
    if isinstance(problem.types, TableTypes):
        first = case.jobs[0]
        assert isinstance(first, MeasuredJob)
        given["tables"] = pl.DataFrame(
            [(f"m{model}", f"t{t}", gpus, servers, rate) for model, t, gpus, servers, rate in first.rows],
            ["model", "gpu_type", "gpus", "servers", "rate"],
            orient="row",
        )
    return given | files_of(problem)


def files_of(problem: Problem) -> dict[str, Any]:
    """Outages, quotas and services."""
    claims, given = problem.claims, dict[str, Any]()
    if problem.facts.outages:
        schema = {"server": pl.UInt32, "down_at": pl.Float64, "up_at": pl.Float64}
        rows = [(s, down, None if math.isinf(up) else up) for s, down, up in problem.facts.outages]
        given["outages"] = pl.DataFrame(rows, schema=schema, orient="row")
    if claims.evict:
        given["evict"] = True
    if claims.quotas:
        told = [pair for pair in claims.quotas if pair[0] in claims.owners]
        rows_of_owners = [(owner, quota.gpus, quota.borrow) for owner, quota in told]
        names = ["vc" if problem.by_vc else "user", "gpus", "borrow"]
        given["quota"] = pl.DataFrame(rows_of_owners, names, orient="row")
    if claims.loads:
        loads = [(load.service, load.time, load.replicas, load.gpus_per_replica) for load in claims.loads]
        given["services"] = pl.DataFrame(
            loads, ["service", "time", "replicas", "gpus_per_replica"], orient="row"
        )
    return given


# Random ones.


def build_problem(
    rnd: random.Random,
    base: Options,
    policy: str | None,
    *,
    kind: str = "plain",
    evict: bool = False,
    quotas: bool = False,
    services: bool = False,
) -> Problem:
    """A case with priorities. policy: None for a queue. kind: plain, types, tables or shares."""

    def drawn() -> Case:
        return build_case(rnd, base, vcs=not services and rnd.random() < 0.1, most=rnd.choice((10, 16, 30)))

    case = drawn()
    while case.jobs[0].submit > 2.0**50:
        case = drawn()  # times so coarse that a stay has no length
    case = replace(case, options=replace(case.options, oversize="drop"))
    if rnd.random() < 0.6:
        case = _crowded(rnd, case)
    interference: float | None = None
    if kind == "shares":
        base = replace(case.options, placement=rnd.choice(SHARE_PLACEMENTS))
        base = replace(base, queue="strict" if base.queue == "easy" else base.queue)
        case = shared(rnd, replace(case, options=base))
        # Sums of fractional rates may reach a whole slot or just miss it: docs/model.md.
        interference = 0.0 if case.options.clock == "slot" else rnd.choice(INTERFERENCE)
    deadlines: tuple[float, ...] = (math.nan,) * len(case.jobs)
    types: Types | None = None
    users = tuple(rnd.choice(OWNERS) for _ in case.jobs)
    queue: Queue | None = None
    claims = _claims(rnd, len(case.jobs), evict=evict)
    if policy is None:
        case, rules, queue, claims = _queue(rnd, case, users, claims)
    else:
        deadlines, rules = rules_for(rnd, policy, case)
        rules = replace(rules, start_cost=rnd.choice((0.0, 0.0, rules.cost)))
    if kind == "types":
        types = types_of(rnd, case)
    elif kind == "tables":
        found = measured(rnd, case)
        case, types = found.case, found.types
    none = Failures((), (math.inf,) * len(case.jobs))
    problem = Problem(case, claims, none, rules, deadlines, queue, types, users, interference=interference)
    if quotas:
        problem = _with_quotas(rnd, problem)
    return _with_times(rnd, problem, services=services)


def _crowded(rnd: random.Random, case: Case) -> Case:
    """The jobs come sooner after each other; in some cases most are small, so that idle GPUs lie apart."""
    first = min(job.submit for job in case.jobs)
    faster, small = rnd.choice((0.125, 0.25, 0.5)), rnd.random() < 0.5
    jobs = []
    for job in case.jobs:
        gpus = min(job.num_gpus, rnd.choice((1, 2, 3, job.num_gpus))) if small else job.num_gpus
        jobs.append(replace(job, submit=first + faster * (job.submit - first), num_gpus=gpus))
    return replace(case, jobs=tuple(jobs))


def _claims(rnd: random.Random, count: int, *, evict: bool) -> Claims:
    levels = sorted(rnd.sample((-(2**31), -1, 0, 0, 1, 2, 2**31 - 1), rnd.randint(2, 4)))
    always = rnd.random() < 0.5
    rising = rnd.random() < 0.7  # the later, the higher: these have somebody to evict

    def level(row: int) -> int:
        if rising and rnd.random() < 0.8:
            return levels[row * len(levels) // count]
        return rnd.choice(levels)

    return Claims(
        tuple(level(row) for row in range(count)),
        tuple(always or rnd.random() < 0.75 for _ in range(count)),
        evict,
    )


def _queue(
    rnd: random.Random, case: Case, users: Sequence[str | None], claims: Claims
) -> tuple[Case, Preemption, Queue, Claims]:
    slot = case.options.slot
    cost, start = (slot * rnd.choice((0.0, 0.25, 1.0, 2.0, rnd.uniform(0.0, 3.0))) for _ in range(2))
    rules = Preemption("queue", cost, start_cost=rnd.choice((0.0, 0.0, start)))
    queue = Queue(
        factor=rnd.choice((1.0, 1.0, 0.5, rnd.uniform(0.1, 4.0))), users=tuple(map(OWNERS.index, users))
    )
    order = case.options.order
    if rnd.random() < 0.4:
        order = rnd.choice(("sjf", "smallest", "qssf", "column"))
        if order == "column":
            column = tuple(float(rnd.randint(-3, 3)) for _ in case.jobs)
            order, claims = "fifo", replace(claims, column=column)
        case = replace(case, options=replace(case.options, order=order))
        aging = rnd.choice((None, 0.0, 1.0, 5.0, rnd.uniform(0.0, 20.0)))
        if claims.column or order != "fifo":
            queue = replace(queue, aging=None if aging is None else aging * slot, exact=rnd.random() < 0.3)
    return case, rules, queue, claims


def _with_quotas(rnd: random.Random, problem: Problem) -> Problem:
    case, by_vc = problem.case, rnd.random() < 0.5
    owners = problem.users
    if by_vc and case.server_vc is not None:
        owners = tuple(f"vc{job.vc}" for job in case.jobs)
    elif by_vc:
        owners = tuple(rnd.choice(OWNERS) for _ in case.jobs)
    room = sum(case.servers)
    owners = (owners[0] or "u0", *owners[1:])
    known = sorted({owner for owner in owners if owner is not None})
    told = rnd.sample(known, rnd.randint(1, len(known)))
    quotas = tuple(
        (owner, Quota(rnd.choice((0, 1, 2, rnd.randint(0, room), room)), rnd.random() < 0.6))
        for owner in told
    )
    problem = replace(problem, by_vc=by_vc, claims=replace(problem.claims, owners=owners, quotas=quotas))
    if by_vc or problem.queue is None:
        return problem
    users = tuple(map(OWNERS.index, owners))
    return replace(problem, users=owners, queue=replace(problem.queue, users=users))


def _with_times(rnd: random.Random, problem: Problem, *, services: bool) -> Problem:
    """With checkpoints, outages in half of the cases, and services; some at the instants of what happens."""
    try:
        instants = tuple(problem.truth()[0].finish)
    except (RefusedError, StuckError):
        instants = ()
    facts = build_failures(rnd, problem.case, instants)
    if rnd.random() < 0.5:
        facts = replace(facts, outages=())
    problem = replace(problem, facts=facts)
    if services:
        loads = _loads(rnd, problem.case, instants)
        problem = replace(problem, claims=replace(problem.claims, loads=loads))
    return problem


def _loads(rnd: random.Random, case: Case, instants: tuple[float, ...]) -> tuple[Load, ...]:
    """One to three services with some rows each; the last is 0 replicas in most, so that jobs may end."""
    slot = case.options.slot
    times = [job.submit for job in case.jobs] + [time for time in instants if math.isfinite(time)]
    first, last = min(times), max(times)
    loads: list[Load] = []
    for service in rnd.sample(("chat", "search", "vision"), rnd.randint(1, 3)):
        size = rnd.randint(1, min(4, max(case.servers)))
        at = {
            rnd.choice((0.0, rnd.choice(times), float(round(rnd.uniform(first, last))), last + 2.0 * slot))
            for _ in range(rnd.randint(1, 6))
        }
        rows = [Load(service, time, rnd.choice((0, 0, 1, 2, 3, 5)), size) for time in sorted(at)]
        if rnd.random() < 0.8:
            rows.append(Load(service, max(at) + slot * rnd.randint(1, 10), 0, size))
        loads += rows
    rnd.shuffle(loads)
    return tuple(loads)
