"""The slow twin of a case: the oracles of its features, one put upon another, held against the engine."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

import ringbco
from agreement import answer, stays_of, stays_told
from cases.case import Case
from oracle import Job, Net, Options
from oracle.model import RowError
from oracle_elastic import POLICIES as RESIZING
from oracle_elastic import Elastic
from oracle_elastic import simulate as simulate_elastic
from oracle_energy import Sleep, sleeping_world
from oracle_outages import Failures, Queue
from oracle_preempt import INTERVALS, Preemption
from oracle_preempt import World as PreemptWorld
from oracle_preempt import simulate as simulate_preempt
from oracle_priorities import Claims, Load, Log, Quota, priority_world
from oracle_result import PreemptResult
from oracle_searches import Climbs, Search, curve, searching_world
from oracle_shares import Sharing
from oracle_shares import preempt_world as share_world
from oracle_tables import MeasuredJob, TableTypes, table_preempt_world
from oracle_types import Choices, Types, preempt_world
from ringbco.trace.ties import key

PRESETS = {
    "fifo": ("fifo", "consolidate"),
    "sjf": ("sjf", "consolidate"),
    "smallest": ("smallest", "consolidate"),
    "ff": ("fifo", "first-fit"),
    "ls": ("fifo", "least-loaded"),
    "rand": ("fifo", "random"),
    "sjf-bco": ("smallest", "sjf-bco"),
    "qssf": ("qssf", "consolidate"),
}
"""Order and placement of the policies that let jobs run to their end."""
FOR_SHARES = ("best-fit", "worst-fit", "fgd")
RANKINGS = ("srtf", "tiresias", "gittins", "ftf", "edf", "time-slice")


@dataclass(frozen=True)
class Truth:
    """What the oracles say; None where they say nothing of searches, or of who makes room."""

    result: PreemptResult
    climbs: Climbs | None = None
    log: Log | None = None


def lacks(case: Case) -> str | None:
    """Why a case has no twin; None where it has one."""
    told = _told(case)
    policy, slotted = told["policy"], told["clock"] == "slot"
    if policy not in (*PRESETS, *RANKINGS, *RESIZING):
        return f"no twin of {policy}"
    if case.epoch and (slotted or policy in (*INTERVALS, *RESIZING)):
        return "slots and ticks are counted from zero"
    if policy in RESIZING and told.get("placement") in FOR_SHARES:
        return "placements for shares where jobs are resized"
    if policy in RESIZING and {"search", "sleep_after", "services"} & {*told, *case.files}:
        return "searches, sleep and services where jobs are resized"
    makes_room = told.get("evict") or {"services", "quota"} & {*case.files}
    if told.get("ties", "rows") != "rows" and makes_room:
        return "ties where jobs make room: the row decides there"
    whole = not any(job.get("gpu_share") for job in case.jobs)
    if whole and told.get("placement") in FOR_SHARES and makes_room:
        return "who makes room under placements for shares"
    if slotted and told["model"] == "table" and _pauses(told):
        return "pauses that end within a slot"
    if slotted and told.get("interference"):
        return "parts of slots"
    return None


def _told(case: Case) -> dict[str, Any]:
    """The options, with those that a policy of one's own stands for."""
    told = {"policy": "fifo", "clock": "continuous", **case.options}
    if not isinstance(case.policy, str):
        told |= (
            {"policy": case.policy.__name__}
            if case.policy.like is None
            else {"policy": "fifo", **case.policy.like}
        )
    return told


def _pauses(told: dict[str, Any]) -> bool:
    return any(
        told.get(name) for name in ("preempt_cost", "start_cost", "resize_cost", "move_cost", "wake_time")
    )


def truth(case: Case) -> Truth | RowError:
    """What the oracles make of a case, its rows `in_turn`, or the error with which they refuse it."""
    return answer(lambda: _Twin(in_turn(case)).simulate())


def in_turn(case: Case) -> Case:
    """The case with the jobs of each submission in the order in which `ties` lets them go."""
    ties = case.options.get("ties", "rows")
    if ties == "rows":
        return case
    rows = np.arange(len(case.jobs))
    first = dict(zip(rows.tolist(), key(rows, ties).tolist(), strict=True))
    order = rows.tolist()
    for at in {job["submit_time"] for job in case.jobs}:
        own = [row for row in rows.tolist() if case.jobs[row]["submit_time"] == at]
        for place, row in zip(own, sorted(own, key=lambda row: first[row]), strict=True):
            order[place] = row
    options = dict(case.options)
    if isinstance(options.get("order"), list):
        options["order"] = [options["order"][row] for row in order]
    return replace(case, jobs=[case.jobs[row] for row in order], options=options)


class _Twin:
    """The inputs of the oracles."""

    def __init__(self, case: Case) -> None:
        self.case, self.told = case, _told(case)
        named = [server.get("gpu_type") for server in case.servers]
        self.names = list(dict.fromkeys([*(name for name in named if name), *case.gpu_types]))
        self.vcs = list(dict.fromkeys(server["vc"] for server in case.servers if "vc" in server))
        preset = PRESETS.get(self.told["policy"])
        order = self.told.get("order", preset[0] if preset else "fifo")
        self.column: tuple[float, ...] = ()
        if isinstance(order, list):
            self.column = tuple(order)
        elif order == "column:mine":
            self.column = tuple(job["mine"] for job in case.jobs)
        self.options = Options(
            order="fifo" if self.column else order,
            queue=self.told.get("queue", "strict"),
            placement=self.told.get("placement", preset[1] if preset else "consolidate"),
            model=self.told["model"],
            clock=self.told["clock"],
            slot=self.told.get("slot", 1.0),
            kappa=self.told.get("kappa", 8),
            lambda_=self.told.get("lambda_", 1.0),
            variant=self.told.get("variant", "practical"),
            seed=self.told.get("seed", 0),
            oversize="drop",
        )
        self.net = Net(*case.network.values())
        self.servers = tuple(server["gpus"] for server in case.servers)
        self.server_vc = tuple(self.vcs.index(server["vc"]) for server in case.servers) if self.vcs else None
        self.types = self._types() if named[0] else None
        self.jobs = tuple(self._job(row) for row in range(len(case.jobs)))

    def _job(self, row: int) -> Job:
        job = self.case.jobs[row]
        compute = job.get("fp_time", 1.0) * (job.get("batch_size") or 1) + job.get("bp_time", 0.0)
        vc = self.vcs.index(job["vc"]) if self.vcs else None
        plain = Job(
            job["submit_time"],
            job["num_gpus"],
            job["duration"],
            job.get("iterations", 1),
            job.get("gradient_bytes", 0.0),
            compute,
            vc,
            round(1000 * (job.get("gpu_share") or 0.0)),
        )
        if self.told["model"] != "table":
            return plain
        rows = tuple(
            (
                int(row["model"][1:]),
                self.names.index(row["gpu_type"]),
                row["gpus"],
                row["servers"],
                row["rate"],
            )
            for row in self.case.files["tables"]
        )
        on = self.names.index(self._recorded(job))
        return MeasuredJob(**asdict(plain), rows=rows, measured_as=int(job["model"][1:]), on=on)

    def _listed(self, job: dict[str, Any]) -> list[str]:
        there = [server["gpu_type"] for server in self.case.servers]
        listed = [name for name in (job.get("gpu_type") or "").split("|") if name in there]
        return listed or [name for name in self.names if name in there]

    def _recorded(self, job: dict[str, Any]) -> str:
        return job.get("recorded_on") or self._listed(job)[0]

    def _types(self) -> Types:
        speed = {name: facts["speed"] for name, facts in self.case.gpu_types.items()}
        choices = []
        for job in self.case.jobs:
            listed = self._listed(job)
            at = [self.names.index(name) for name in listed]
            own = {t: speed[name] for t, name in zip(at, listed, strict=True)}
            choices.append(Choices(tuple(at), own, speed[self._recorded(job)]))
        price = tuple(self.case.gpu_types[name].get("price_per_hour", 1.0) for name in self.names)
        of = tuple(self.names.index(server["gpu_type"]) for server in self.case.servers)
        kind = TableTypes if self.told["model"] == "table" else Types
        return kind(of, tuple(choices), price, self.told.get("type_order", "fastest"))

    def _failures(self) -> Failures:
        outages = tuple(
            (row["server"], row["down_at"], row["up_at"]) for row in self.case.files.get("outages", ())
        )
        usual = self.told.get("checkpoint_interval", 1800.0)
        own = (job.get("checkpoint_interval") for job in self.case.jobs)
        return Failures(outages, tuple(usual if every is None else every for every in own))

    def _claims(self) -> Claims:
        jobs, files = self.case.jobs, self.case.files
        quotas = files.get("quota", ())
        kind = next(iter(quotas[0])) if quotas else None
        return Claims(
            tuple(job.get("priority", 0) for job in jobs),
            tuple(job.get("preemptible", True) for job in jobs),
            self.told.get("evict", False),
            tuple(job[kind] for job in jobs) if kind else (),
            tuple((row[kind], Quota(row["gpus"], row["borrow"])) for row in quotas),
            tuple(Load(**row) for row in files.get("services", ())),
            self.column,
        )

    def _queue(self) -> Queue | None:
        if self.told["policy"] not in PRESETS:
            return None
        users = sorted({job.get("user") for job in self.case.jobs}, key=str)
        told = "user" in self.case.jobs[0]
        return Queue(
            self.told.get("aging"),
            self.told.get("estimate_factor", 1.0),
            self.told.get("predict") == "exact",
            tuple(users.index(job["user"]) for job in self.case.jobs) if told else None,
        )

    def _rules(self) -> Preemption:
        name = self.told["policy"] if self.told["policy"] in RANKINGS else "srtf"
        return Preemption(
            name,
            self.told.get("preempt_cost", 30.0),
            tuple(self.told.get("thresholds", (18_000.0,))),
            self.told.get("quantum" if name == "time-slice" else "interval", 60.0),
            self.told.get("admission", False),
            self.told.get("start_cost", 0.0),
        )

    def _search(self) -> Search:
        eta, rungs = (
            int(part.partition("=")[2]) for part in self.told["search"].partition(":")[2].split(",")
        )
        groups = sorted({job["group"] for job in self.case.jobs if job["group"]})
        of = tuple(groups.index(job["group"]) if job["group"] else None for job in self.case.jobs)
        return Search(
            eta, rungs, of, tuple(curve(self.options.seed, job["job_id"]) for job in self.case.jobs)
        )

    def _base(self) -> type[PreemptWorld]:
        shared = any(job.share for job in self.jobs)
        if shared or self.options.placement in FOR_SHARES:
            return share_world(Sharing(self.types, self.told.get("interference", 0.0)))
        if isinstance(self.types, TableTypes):
            return table_preempt_world(self.types)
        return PreemptWorld if self.types is None else preempt_world(self.types)

    def simulate(self) -> Truth:
        due = tuple(math.nan if job.get("deadline") is None else job["deadline"] for job in self.case.jobs)
        if self.told["policy"] in RESIZING:
            return Truth(self._simulate_elastic(due))
        facts, claims, queue = self._failures(), self._claims(), self._queue()
        world = self._base()
        if "sleep_after" in self.told:
            opens = min(job.submit for job in self.jobs)
            slot = self.options.slot if self.options.clock == "slot" else None
            sleep = Sleep(self.told["sleep_after"], self.told["wake_time"], opens, slot, facts.outages)
            world = sleeping_world(sleep, world)
        log, climbs = Log([0] * len(self.jobs)), Climbs()
        world = priority_world(claims, log, facts, world, queue, self.types)
        if "search" in self.told:
            world = searching_world(self._search(), climbs, world)
        found = simulate_preempt(
            self.jobs, due, self.servers, self.net, self.options, self._rules(), self.server_vc, world
        )
        return Truth(found, climbs if "search" in self.told else None, log)

    def _simulate_elastic(self, due: tuple[float, ...]) -> PreemptResult:
        told, jobs = self.told, self.case.jobs
        pause = told.get("preempt_cost", 30.0)
        # A null noise scale: every sample counts in full.
        scales = (job.get("noise_scale") for job in jobs)
        noise = tuple(
            (math.inf if scale is None else scale, job.get("batch_size") or 1)
            for scale, job in zip(scales, jobs, strict=True)
        )
        rules = Elastic(
            told["policy"],
            tuple(job.get("min_gpus") or job["num_gpus"] for job in jobs),
            tuple(job.get("max_gpus") or job["num_gpus"] for job in jobs),
            tuple(job.get("priority", 0) for job in jobs),
            due if told["policy"] == "elasticflow" else (math.nan,) * len(jobs),
            told.get("resize_every", 300.0),
            told.get("interval"),
            told.get("start_cost", 0.0),
            pause,
            told.get("move_cost", pause),
            told.get("resize_cost", pause),
            noise,
        )
        return simulate_elastic(
            self.jobs,
            self.servers,
            self.net,
            self.options,
            rules,
            self.types,
            self._failures(),
            self.server_vc,
        )


def differences(case: Case, outcome: ringbco.Outcome, truth: Truth) -> Iterator[tuple[str, str]]:
    """What the engine says otherwise: (column or table, how)."""
    case = in_turn(case)
    ids = [job["job_id"] for job in case.jobs]
    true, kept = truth.result, [row for row in range(len(ids)) if truth.result.kept[row]]
    jobs = outcome.jobs.sort(pl.col("job_id").replace_strict(ids, range(len(ids)), return_dtype=pl.Int64))
    mine = jobs["job_id"].to_list()
    if mine != [ids[row] for row in kept]:
        yield "jobs", f"{mine} ran to their end; not {[ids[row] for row in kept]}"
        return
    near = _Near(case, outcome)
    for name, wanted in _columns(truth).items():
        if name in jobs.columns or any(wanted[row] for row in kept):
            told = jobs[name].to_numpy().astype(float) if name in jobs.columns else np.zeros(len(kept))
            right = np.array([wanted[row] for row in kept], float)
            if not near.same(told, right):
                yield name, f"{told.tolist()}; not {right.tolist()}"
    if not any(job.get("gpu_share") for job in case.jobs):
        told, right = stays_told(outcome), _in_rows(ids, true)
        if not near.same(told, right):
            yield "allocations", f"\n{told}\nnot\n{right}"
    if truth.climbs is not None and outcome.rungs is not None:
        rungs = outcome.rungs.select("job_id", "rung", "time", "loss", "went_on").fill_null(math.nan)
        told = sorted((ids.index(row[0]), *row[1:]) for row in rungs.rows())
        right = sorted(
            (*climb, truth.climbs.went_on.get(climb[:2], math.nan)) for climb in truth.climbs.reached
        )
        if not near.same(np.array(told), np.array(right)):
            yield "rungs", f"{told}; not {right}"
    if truth.log is not None and outcome.replicas is not None:
        names = list(dict.fromkeys(row["service"] for row in case.files["services"]))
        told = outcome.replicas.select("service", "server", "num_gpus", "start_time", "end_time").rows()
        told = sorted((names.index(row[0]), *row[1:]) for row in told)
        last = max(end for rows in true.allocations for *_, end in rows)
        ran = [(each, min(each.end, last)) for each in truth.log.replicas if each.start < min(each.end, last)]
        right = sorted(
            (names.index(each.service), each.server, len(each.gpus), each.start, end) for each, end in ran
        )
        if not near.same(np.array(told), np.array(right)):
            yield "replicas", f"{told}; not {right}"


def _columns(truth: Truth) -> dict[str, list[Any]]:
    true = truth.result
    wanted: dict[str, list[Any]] = {
        "start_time": true.start,
        "finish_time": true.finish,
        "preemptions": true.preemptions,
        "max_contention": true.max_contention,
        "failures": true.failures,
        "lost_work": true.lost_work,
    }
    if truth.log is not None:
        wanted["evictions"] = truth.log.evictions
    if truth.climbs is not None:
        wanted["pauses"] = [truth.climbs.pauses.get(row, 0) for row in range(len(true.start))]
    return wanted


def _in_rows(ids: list[str], true: PreemptResult) -> np.ndarray:
    """Its stays by the number in a job's name, as `stays_told` has them."""
    number = {int(name[1:]): row for row, name in enumerate(ids)}
    most = max(number) + 1
    return stays_of([true.allocations[number[n]] if n in number else [] for n in range(most)])


class _Near:
    """When numbers are the same: all bits under the slot clock, else within 1e-9 of the run."""

    def __init__(self, case: Case, outcome: ringbco.Outcome) -> None:
        first, last = min(job["submit_time"] for job in case.jobs), float(outcome.jobs["finish_time"].max())
        self.most = (
            0.0 if case.options.get("clock") == "slot" else 1e-9 * (last - first) + 64.0 * math.ulp(last)
        )

    def same(self, told: np.ndarray, right: np.ndarray) -> bool:
        if told.shape != right.shape:
            return False
        return bool(
            np.all((told == right) | (np.abs(told - right) <= self.most) | (np.isnan(told) & np.isnan(right)))
        )
