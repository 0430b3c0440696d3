"""The reference model of a case: those of its features, one put upon another."""

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from agreement import result_or_error
from cases import decided
from cases.case import Case
from cases.of_requests import asked_of
from cases.owned import claims_of, fair_of
from cases.seated import seating_of
from cases.trees import groups_of, level_of, net_of
from reference import Job, Options
from reference.answering import Told, answering_world
from reference.chains import Chains, chained_world
from reference.claims import Log
from reference.deciding import Decides
from reference.elastic import POLICIES as RESIZING
from reference.elastic import Elastic
from reference.elastic import simulation_arguments as given_elastic
from reference.energy import Sleep, sleeping_world
from reference.following import Entry, Follow
from reference.limits import Limits, limited_world
from reference.links import Carried, Held, carried_of
from reference.maintenance import Window, maintained_world
from reference.mechanism import World as PreemptWorld
from reference.mechanism import simulate as simulate_preempt
from reference.model import RowError
from reference.outages import Failures, Queue
from reference.preemption import INTERVALS, Preemption
from reference.priorities import priority_world
from reference.repack_world import repack_world
from reference.result import PreemptResult
from reference.searches import Climbs, Search, curve, searching_world
from reference.seats import Seating, lucid_world, seats_world
from reference.shares import Pair, Sharing
from reference.shares import Row as ShareRow
from reference.shares import preempt_world as share_world
from reference.tables import MeasuredJob, TableTypes, table_preempt_world
from reference.types import Choices, Types, preempt_world
from ringbco import KeyPolicy
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
RANKINGS = ("srtf", "srsf", "tiresias", "gittins", "ftf", "edf", "time-slice")


@dataclass(frozen=True)
class ReferenceResult:
    """What the reference models say; None where they say nothing of searches, of who makes room, or of sleep.

    shares: who held what of which GPU, where jobs may share one. tells_waits: whether it says why jobs wait.
    """

    result: PreemptResult
    climbs: Climbs | None = None
    log: Log | None = None
    sleep: Sleep | None = None
    shares: Sequence[ShareRow] = ()
    tells_waits: bool = True
    carried: Carried | None = None
    reached: Collection[int] = ()
    """The rows that reached their time limits."""
    told: Told | None = None
    seating: Seating | None = None


@dataclass(frozen=True)
class Parts:
    """What `reference.mechanism.simulate` is given, and what is told of the run."""

    given: tuple[Any, ...]
    log: Log
    limits: Limits
    sharing: Sharing
    climbs: Climbs | None = None
    sleep: Sleep | None = None
    told: Told | None = None


def _options(case: Case) -> dict[str, Any]:
    """The options, with those that a custom policy stands for."""
    options = {"policy": "fifo", "clock": "continuous", **case.options}
    if not isinstance(case.policy, str):
        options |= (
            {"policy": case.policy.__name__}
            if case.policy.like is None
            else {"policy": "fifo", **case.policy.like, "interval": None}
        )
    return options


def reference_result(case: Case) -> ReferenceResult | RowError:
    """What the reference makes of a case, or the error with which it refuses the case."""
    return result_or_error(lambda: Model(case, decides=decided.policy_of(case)).simulate())


def by_log(case: Case) -> ReferenceResult | RowError:
    """What the reference makes of the decisions of the engine. Raises WrongError where they cannot be."""
    decisions = case.replay(decisions=True).decisions
    log = decided.entries(decisions, [job["job_id"] for job in case.jobs])
    return result_or_error(lambda: Model(case, log=log).simulate())


class Model:
    """The inputs of the reference models."""

    def __init__(
        self,
        case: Case,
        *,
        log: Sequence[Entry] | None = None,
        decides: Decides | None = None,
    ) -> None:
        """log: decisions to be carried out, whatever the policy. decides: makes what decides instead."""
        self.case, self.told, self.log = case, _options(case), log
        self.decides = decides if log is None else lambda _: Follow(log)
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
            tiers=tuple(groups_of(case, tier) for tier in case.tiers),
        )
        self.net = net_of(case, shares=self.told.get("sharing") != "off")
        self.servers = tuple(server["gpus"] for server in case.servers)
        self.server_vc = tuple(self.vcs.index(server["vc"]) for server in case.servers) if self.vcs else None
        self.types = self._types() if named[0] else None
        self.ties = key(np.arange(len(case.jobs)), self.told.get("ties", "rows")).tolist()
        self.seating = seating_of(self)
        self.jobs = tuple(self._job(row) for row in range(len(case.jobs)))

    def _job(self, row: int) -> Job:
        job = self.case.jobs[row]
        compute = job.get("fp_time", 1.0) * (job.get("batch_size") or 1) + job.get("bp_time", 0.0)
        vc = self.vcs.index(job["vc"]) if self.vcs else None
        within = job.get("within_tier")
        plain = Job(
            job["submit_time"],
            job["num_gpus"],
            job["duration"],
            job.get("iterations", 1),
            job.get("gradient_bytes", 0.0),
            compute,
            vc,
            round(1000 * (job.get("gpu_share") or 0.0)),
            self.ties[row],
            job.get("gpus_per_pod") or 1,
            level_of(self.case, within),
            within is not None and not within.endswith("?"),
            job.get("segment") or 0,
            level_of(self.case, job.get("segment_tier")) or 0,
        )
        if self.told["model"] != "table":
            return plain
        rows = tuple(
            (*self._measured(row), row["gpus"], row["servers"], row["rate"])
            for row in self.case.files["tables"]
            if row.get("partner") is None
        )
        on = self.names.index(self._recorded(job))
        return MeasuredJob(**asdict(plain), rows=rows, measured_as=int(job["model"][1:]), on=on)

    def _measured(self, row: dict[str, Any]) -> tuple[int, int]:
        """Model and type of a row of measured speeds."""
        return int(row["model"][1:]), self.names.index(row["gpu_type"])

    def _pairs(self) -> tuple[Pair, ...]:
        """What was measured of two jobs on one GPU."""
        return tuple(
            (*self._measured(row), int(row["partner"][1:]), row["rate"], row["partner_rate"])
            for row in self.case.files.get("tables", ())
            if row.get("partner") is not None and row["gpus"] == 1
        )

    def _listed(self, job: dict[str, Any]) -> list[str]:
        there = [server["gpu_type"] for server in self.case.servers]
        listed = [name for name in (job.get("gpu_type") or "").split("|") if name in there]
        return listed or [name for name in self.names if name in there]

    def _recorded(self, job: dict[str, Any]) -> str:
        return job.get("recorded_on") or self._listed(job)[0]

    def _types(self) -> Types:
        choices = []
        for job in self.case.jobs:
            listed = self._listed(job)
            at = [self.names.index(name) for name in listed]
            own = {t: self.case.speed(job, name) for t, name in zip(at, listed, strict=True)}
            choices.append(Choices(tuple(at), own, self.case.speed(job, self._recorded(job))))
        price = tuple(self.case.gpu_types[name].get("price_per_hour", 1.0) for name in self.names)
        of = tuple(self.names.index(server["gpu_type"]) for server in self.case.servers)
        kind = TableTypes if self.told["model"] == "table" else Types
        return kind(of, tuple(choices), price, self.told.get("type_order", "fastest"))

    def _windows(self, name: str, *, drains: bool = False) -> tuple[Window, ...]:
        return tuple(
            (row["server"], row["down_at"], math.inf if row["up_at"] is None else row["up_at"])
            for row in self.case.files.get(name, ())
            if (row.get("kind") == "drain") == drains
        )

    def _failures(self) -> Failures:
        outages = (*self._windows("outages"), *self._windows("maintenance"))
        usual = self.told.get("checkpoint_interval", 1800.0)
        own = (job.get("checkpoint_interval") for job in self.case.jobs)
        intervals = tuple(usual if every is None else every for every in own)
        drains = self._windows("outages", drains=True)
        return Failures(outages, intervals, self.told.get("checkpoint_cost", 0.0), drains)

    def _queue(self) -> Queue | None:
        if self.told["policy"] not in PRESETS:
            return None
        users = sorted({job.get("user") for job in self.case.jobs}, key=str)
        text = "user" in self.case.jobs[0]
        return Queue(
            self.told.get("aging"),
            self.told.get("estimate_factor", 1.0),
            self.told.get("predict") == "exact",
            tuple(users.index(job["user"]) for job in self.case.jobs) if text else None,
            self.told.get("reservations", 100),
            fair_of(self.case, self.told["half_life"]) if self.options.order == "fairshare" else None,
            self._told("predict") or {},
            self._told("estimate"),
        )

    def _rules(self) -> Preemption:
        name = self.told["policy"] if self.told["policy"] in (*RANKINGS, "repack") else "srtf"
        return Preemption(
            name,
            self.told.get("preempt_cost", 30.0),
            tuple(self.told.get("thresholds", (18_000.0,))),
            self._interval(self.told["policy"]),
            self.told.get("admission", False),
            self.told.get("start_cost", 0.0),
            self.told.get("move_cost"),
            self.told.get("within", "fifo"),
            *self._protection(),
            self._values("preempt_cost"),
            *self._by_cost(),
        )

    def _by_cost(self) -> tuple[float, dict[int, float]]:
        """How repack protects stays by what its jobs' preemptions cost and lose."""
        if self.told["policy"] != "repack" or "preempt_after" in self.told:
            return 0.0, {}
        begins = self.told.get("start_cost", 0.0) + self.told.get("checkpoint_cost", 0.0)
        saved = {row: every + begins for row, every in enumerate(self._failures().intervals)}
        return 2.0, saved if self.told.get("preempt_loses") else {}

    def _values(self, name: str) -> dict[int, float]:
        """A column of numbers by row, without empty cells."""
        values = ((row, job.get(name)) for row, job in enumerate(self.case.jobs))
        return {row: value for row, value in values if value is not None}

    def _told(self, option: str) -> dict[int, float] | None:
        """The column that an option names, without what is no time; None where it names none."""
        named = str(self.told.get(option))
        if not named.startswith("column:"):
            return None
        values = self._values(named.removeprefix("column:"))
        return {row: value for row, value in values.items() if value > 0.0}

    def _protection(self) -> tuple[float, float, frozenset[int]]:
        """Where jobs are stopped for others."""
        stops = self.decides or self.told["policy"] not in PRESETS or self.told.get("evict")
        most = self.told.get("max_preemptions") if stops else None
        keeps = stops and self.told.get("keep_unpreemptible", False)
        kept = (row for row, job in enumerate(self.case.jobs) if not job.get("preemptible", True))
        return (
            self.told.get("preempt_after", 0.0) if stops else 0.0,
            math.inf if most is None else most,
            frozenset(kept if keeps else ()),
        )

    def _interval(self, name: str) -> float | None:
        if name == "time-slice":
            return float(self.told.get("quantum", 60.0))
        usual = 60.0 if name in INTERVALS else None
        return self.told.get("interval", usual) if name in RANKINGS else None

    def _sleep(self) -> Sleep | None:
        if "sleep_after" not in self.told:
            return None
        after = self._chains().after
        opens = min(job.submit for job, before in zip(self.jobs, after, strict=True) if before is None)
        slot = self.options.slot if self.options.clock == "slot" else None
        after, wake = self.told["sleep_after"], self.told["wake_time"]
        return Sleep(after, wake, opens, slot, self._failures().outages, self._failures().drains)

    def _search(self) -> tuple[Search, Climbs] | None:
        if "search" not in self.told:
            return None
        eta, rungs = (
            int(part.partition("=")[2]) for part in self.told["search"].partition(":")[2].split(",")
        )
        groups = sorted({job["group"] for job in self.case.jobs if job["group"]})
        of = tuple(groups.index(job["group"]) if job["group"] else None for job in self.case.jobs)
        curves = tuple(curve(self.options.seed, job["job_id"]) for job in self.case.jobs)
        return Search(eta, rungs, of, curves), Climbs()

    def _base(self, sharing: Sharing) -> type[PreemptWorld]:
        if self.decides:
            return decided.base(self, sharing)
        under = PreemptWorld if self.types is None else preempt_world(self.types)
        if self.shared():
            under = share_world(sharing)
        elif isinstance(self.types, TableTypes):
            under = table_preempt_world(self.types)
        return under if self.seating is None else seats_world(self.seating, under)

    def _sharing(self) -> Sharing:
        has_shares = any(job.share for job in self.jobs)
        return Sharing(
            self.types, self.told.get("interference", 0.0), pairs=self._pairs(), has_shares=has_shares
        )

    def shared(self) -> bool:
        """Whether jobs hold shares of GPUs, or go where they would."""
        return any(job.share for job in self.jobs) or self.options.placement in FOR_SHARES

    def simulate(self) -> ReferenceResult:
        """What comes of the case."""
        parts = self.parts()
        asked = asked_of(self.case, self.names)
        if asked is not None:
            told = Told()
            world = answering_world(asked, told, parts.log, parts.given[-1])
            parts = replace(parts, given=(*parts.given[:-1], world), told=told)
        result = simulate_preempt(*parts.given)
        if asked is None:
            _close(parts.log, result)
        shares, reached = parts.sharing.rows, parts.limits.reached
        resizes = self.told["policy"] in RESIZING and not self.decides
        carried = carried_of(result, self.ring) if self.case.tiers and result.seen_by_links else None
        return ReferenceResult(
            result,
            *(parts.climbs, parts.log, parts.sleep, shares, not resizes, carried, reached, parts.told),
            self.seating,
        )

    def ring(self, held: Held) -> Job | None:
        """A job on these GPUs, where bandwidth says how long its iterations take."""
        if self.options.model != "rar":
            return None
        job = replace(self.jobs[held.row], num_gpus=len(held.gpus))
        return job if self.types is None else self.types.on(held.row, job, self.types.of[held.gpus[0][0]])

    def parts(self) -> Parts:
        """The world of the case, and what it writes down."""
        due = tuple(math.nan if job.get("deadline") is None else job["deadline"] for job in self.case.jobs)
        if self.told["policy"] in RESIZING and not self.decides:
            return self._elastic(due)
        facts, claims = self._failures(), claims_of(self.case, self.told, self.column)
        queue = None if self.decides else self._queue()
        sharing = self._sharing()
        world, sleep = self._base(sharing), self._sleep()
        if sleep is not None:
            world = sleeping_world(sleep, world)
        log, search = Log([0] * len(self.jobs)), self._search()
        types = decided.types_of(self) if self.decides else self.types
        world = priority_world(claims, log, facts, world, queue, types)
        if self.told["policy"] == "lucid":
            assert self.seating is not None, "a run in which jobs may sit together"
            world = lucid_world(self.seating, world)
        # Custom policies meet maintenance as an outage, but for those that are an order.
        own = self.case.policy
        keeps_clear = queue is not None or self.told["policy"] in ("srtf", "srsf")
        keeps_clear &= isinstance(own, str) or issubclass(own, KeyPolicy)
        if "maintenance" in self.case.files and keeps_clear and not self.decides:
            estimate = "reckoned" if queue is not None else "remaining"
            world = maintained_world(
                self._windows("maintenance"), world, lambda own, row: float(getattr(own, estimate)(row))
            )
        if search is not None:
            world = searching_world(*search, world)
        if self.told["policy"] == "repack" and not self.decides:
            named = "user" in self.case.jobs[0]
            users = [job["user"] for job in self.case.jobs] if named else None
            whole = not any(job.share for job in self.jobs) and self.options.placement not in FOR_SHARES
            shared = None if whole else sharing
            world = repack_world(
                claims,
                users,
                world,
                self.types,
                shared,
                exact=self.told.get("predict") == "exact",
                tail=self.told.get("tail", 0.5),
                predicted=self._told("predict"),
            )
        if self.decides:
            world = decided.world(self, claims, world, sharing)
        limits = self._limits()
        world = chained_world(self._chains(), limited_world(limits, world))
        rules = replace(self._rules(), policy="own", admission=False) if self.decides else self._rules()
        given = (self.jobs, due, self.servers, self.net, self.options, rules, self.server_vc, world)
        return Parts(given, log, limits, sharing, search and search[1], sleep)

    def _chains(self) -> Chains:
        """Which jobs arrive after which."""
        ids = [job["job_id"] for job in self.case.jobs]
        named = (job.get("after") for job in self.case.jobs)
        think = tuple(job.get("think_time") for job in self.case.jobs)
        return Chains(tuple(ids.index(name) if name else None for name in named), think)

    def _limits(self) -> Limits:
        own = (job.get("time_limit") for job in self.case.jobs)
        return Limits(
            tuple(math.inf if limit is None else limit for limit in own),
            self.told.get("estimate") == "limit",
            self.told.get("enforce_limits", False),
        )

    def _elastic(self, due: tuple[float, ...]) -> Parts:
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
            due if told["policy"] == "elasticflow" else (math.nan,) * len(jobs),
            told.get("resize_every", 300.0),
            told.get("interval"),
            told.get("start_cost", 0.0),
            pause,
            told.get("move_cost"),
            told.get("resize_cost"),
            noise,
            *self._protection(),
            self._values("preempt_cost"),
        )
        log, limits, sleep, search = Log([0] * len(jobs)), self._limits(), self._sleep(), self._search()
        sharing = self._sharing()
        given = given_elastic(
            self.jobs,
            self.servers,
            self.net,
            self.options,
            rules,
            self.types,
            self._failures(),
            self.server_vc,
            claims_of(self.case, self.told, self.column),
            log,
            sharing if self.shared() else None,
            limits,
            sleep,
            search,
        )
        given = (*given[:-1], chained_world(self._chains(), given[-1]))
        return Parts(given, log, limits, sharing, search and search[1], sleep)


def _close(log: Log, found: PreemptResult) -> None:
    """Replicas end with the run. A trial that ended at a rung has no finish, but it held GPUs."""
    last = max((end for rows in found.allocations for *_, end in rows), default=math.inf)
    for replica in log.replicas:
        replica.end = min(replica.end, last)
    log.replicas = [replica for replica in log.replicas if replica.start < replica.end]
