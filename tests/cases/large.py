"""Long runs of each policy, of which single decisions are compared with the reference model's."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import polars as pl

import ringbco
from cases.case import Case, outage_rows
from cases.modelled import Model
from reference.at_size import Compared, Run
from reference.leading import Costs, Record, Stay, Verb
from reference.model import GPU
from ringbco import KeyPolicy, Simulation, State
from ringbco.run.simulation import prepared_of

STEP = 10.0
"""All times are multiples of it, s, so that much happens at one instant, and sums are exact."""
SIZES = {1: 45, 2: 20, 3: 5, 4: 12, 8: 10, 12: 4, 16: 3, 24: 1}
"""Jobs of so many GPUs, percent."""
SERVERS = [8] * 12 + [4] * 8
WAVE = 500
"""Jobs that come too fast, and then as many slowly enough, so that many wait, and all have their turn."""
QUEUES = ("fifo", "sjf", "smallest", "qssf", "ff", "ls", "rand", "sjf-bco")
RESIZING = ("afs", "optimus", "elastic-srtf", "elasticflow")
DECIDED = ("start", "stop", "move", "resize", "evicted")
"""Verbs of a log by which jobs get GPUs and lose them."""
RANKED = ("srtf", "srsf", "tiresias", "gittins", "ftf", "edf", "time-slice")


@dataclass(frozen=True)
class Large:
    """A policy, what it is told, and what else there is."""

    name: str
    options: dict[str, Any]
    features: tuple[str, ...] = ()

    @property
    def policy(self) -> str:
        return str(self.options["policy"])

    @property
    def slow(self) -> bool:
        """Whether a tenth of the jobs must do."""
        lists = self.policy == "time-slice" or self.options.get("within") == "list"
        return (
            lists
            or self.policy in (*RESIZING, "repack")
            or bool({"rar", "quotas", "shares"} & {*self.features})
        )


def _large(name: str, *features: str, **options: Any) -> Large:
    policy = name.partition(" ")[0]
    return Large(name, {"policy": policy, "model": "fixed", "oversize": "drop", **options}, features)


PLAIN = [
    *(_large(name) for name in QUEUES),
    _large("fifo skip", queue="skip"),
    _large("fifo easy", queue="easy"),
    _large("fifo conservative", queue="conservative", reservations=20),
    _large("fifo fairshare", "users", order="fairshare", half_life=7200.0),
    _large("sjf aging", aging=3600.0),
    *(_large(name) for name in RANKED[:-1]),
    _large("time-slice", quantum=300.0),
    _large("repack"),
    *(_large(name) for name in RESIZING),
]
"""One of each policy and discipline, with nothing else."""

VARIED = [
    _large("fifo easy varied", "users", "priorities", queue="easy", evict=True, estimate_factor=2.0),
    _large("sjf conservative varied", "outages", queue="conservative", reservations=10, aging=7200.0),
    _large("smallest skip varied", "types", "outages", queue="skip", placement="emptiest"),
    _large("qssf varied", "users", "quotas", "rar", queue="skip"),
    _large("ff varied", "vcs", "outages", queue="easy"),
    _large("ls varied", "rar", "users", order="fairshare", half_life=3600.0, queue="skip"),
    _large("rand varied", "outages", "vcs", "priorities", seed=7, queue="skip", evict=True),
    _large("sjf-bco varied", "rar", queue="skip", kappa=2, lambda_=2.0),
    _large("sjf-bco literal", "outages", variant="literal", aging=7200.0, queue="easy"),
    _large("sjf-bco guests", "users", "quotas", "priorities", evict=True),
    _large("srtf varied", "types", "users", "quotas", preempt_after=600.0, move_cost=10.0),
    _large("srsf varied", "outages", interval=300.0, placement="random", start_cost=20.0),
    _large(
        "tiresias varied", "users", "priorities", within="list", interval=300.0, thresholds=[3600.0, 36e3]
    ),
    _large("gittins varied", "types", interval=120.0, within="list", max_preemptions=2),
    _large("ftf varied", "vcs", "outages", interval=300.0),
    _large("edf varied", "rar", admission=True, preempt_cost=60.0),
    _large("time-slice varied", "types", "priorities", quantum=600.0, evict=True),
    _large(
        "repack exact", "users", "quotas", "outages", predict="exact", preempt_after=600.0, move_cost=20.0
    ),
    _large("repack varied", "types", "users", "quotas", "priorities", evict=True),
    _large("afs varied", "types", "users", "quotas", interval=300.0, resize_every=600.0),
    _large("optimus varied", "noise", "outages", "users", "priorities", evict=True, resize_cost=60.0),
    _large("elastic-srtf varied", "rar", "vcs"),
    _large("fifo conservative windows", "maintenance", "limits", queue="conservative", reservations=10),
    _large("smallest easy limits", "limits", "users", "quotas", queue="easy", estimate="limit"),
    _large("srtf windows", "maintenance", "limits", enforce_limits=True),
    _large("fifo best-fit", "shares", "users", placement="best-fit", order="fairshare", half_life=7200.0),
    _large("srtf worst-fit", "shares", placement="worst-fit", interference=0.25),
    _large("tiresias shares", "shares", "outages", interval=300.0, placement="random"),
    _large("repack shares", "shares"),
    _large("elasticflow varied", "users", "quotas", "outages", "types", preempt_after=900.0),
    _large("smallest skip books", "users", "quotas", "books", "priorities", queue="skip", evict=True),
    _large("srtf books", "users", "quotas", "books", "outages"),
    _large("fifo easy tree", "users", "tree", order="fairshare", half_life=3600.0, queue="easy"),
    _large("fifo tree", "users", "quotas", "books", "tree", order="fairshare", half_life=7200.0),
    _large(
        "fifo binpack pods", "pods", "priorities", "outages", placement="binpack", queue="skip", evict=True
    ),
    _large("sjf emptiest pods", "pods", "types", placement="emptiest", queue="easy"),
    _large("fifo least-loaded pods", "pods", placement="least-loaded", queue="conservative"),
    _large("srtf sjf-bco pods", "pods", "rar", placement="sjf-bco", kappa=2, lambda_=2.0),
]
"""One or more of each policy among other features."""


def draw(large: Large, count: int, seed: int) -> Case:
    """A table of so many jobs, and a cluster."""
    rng = Random(f"{large.name} {seed}")
    case = Case(1.0, STEP, servers=[{"gpus": gpus} for gpus in SERVERS])
    case.network = {"intra_bandwidth": 150e9, "inter_bandwidth": 1e9, "reduce_speed": 500e9}
    case.network |= {"xi1": 0.5, "xi2": 0.0, "alpha": 0.3}
    case.options = dict(large.options)
    sizes, shares = list(SIZES), list(SIZES.values())
    room, at = sum(SERVERS), 0.0
    flow = large.policy == "elasticflow"
    for row in range(count):
        gpus = rng.choices(sizes, shares)[0]
        length = STEP * max(1, min(2000, round(rng.lognormvariate(6.0, 1.1) / STEP)))
        job = {"job_id": f"j{row}", "submit_time": at, "num_gpus": gpus, "duration": length}
        case.jobs.append(job)
        load = (1.6, 0.5)[row // (WAVE // 2 if flow else WAVE) % 2]
        at += STEP * round(rng.expovariate(load * room / 2600.0) / STEP)
        _columns(rng, case, job, large)
    _beside(rng, case, large, at)
    if large.policy in RESIZING:
        case.options["thresholds"] = None
    case.options = {name: value for name, value in case.options.items() if value is not None}
    return case


def _columns(rng: Random, case: Case, job: dict[str, Any], large: Large) -> None:
    """More of a job."""
    features, gpus = large.features, job["num_gpus"]
    if "users" in features or large.policy in ("qssf", "repack"):
        job["user"] = f"u{min(rng.randrange(6), rng.randrange(6))}"
    if "vcs" in features:
        job["vc"] = rng.choice(("a", "a", "a", "b"))
        job["num_gpus"] = gpus = min(gpus, 16)
    if "limits" in features:
        job["time_limit"] = rng.choice((None, 0.5, 1, 4))
        job["time_limit"] = job["time_limit"] and job["time_limit"] * job["duration"] + 60.0
    if "shares" in features:
        job["gpu_share"] = rng.choice((None, 0.2, 0.3, 0.5)) if gpus == 1 else None
    if "pods" in features:
        job["gpus_per_pod"] = rng.choice([pod for pod in (1, 2, 3, 4, 8) if gpus % pod == 0])
    if "priorities" in features:
        job["priority"] = rng.choice((0, 0, 0, 1, 5))
        job["preemptible"] = rng.random() < 0.8
    if large.policy in ("edf", "elasticflow"):
        slack = job["duration"] * rng.choice((2, 3, 5)) + 600.0
        job["deadline"] = job["submit_time"] + slack if rng.random() < 0.6 else None
    if large.policy in RESIZING:
        rigid = rng.random() < 0.3
        job["min_gpus"] = gpus if rigid else max(1, gpus // 2)
        job["max_gpus"] = gpus if rigid else gpus + rng.choice((0, 1, 2, 4))
    if "noise" in features:
        job["noise_scale"] = rng.choice((None, 1.0, 64.0))
        job["batch_size"] = rng.choice((4, 32))
    if "rar" in features:
        job["iterations"] = max(1, round(job["duration"] / 2))
        job["gradient_bytes"] = rng.choice((1e7, 1e8, 5e8))
        job["batch_size"], job["fp_time"], job["bp_time"] = 32, 0.01, 1.5
    if "types" in features:
        job["gpu_type"] = rng.choice((None, None, "V100", "P100", "P100|V100"))
        job["recorded_on"] = rng.choice(("V100", "P100"))


def _beside(rng: Random, case: Case, large: Large, last: float) -> None:
    """Servers' types and virtual clusters, and the tables beside the jobs."""
    if "rar" in large.features:
        case.options["model"] = "rar"
    if "vcs" in large.features:
        for at, server in enumerate(case.servers):
            server["vc"] = "b" if at % 4 == 3 else "a"
    if "types" in large.features:
        case.gpu_types = {"V100": {"speed": 2.0}, "P100": {"speed": 1.0}}
        for at, server in enumerate(case.servers):
            server["gpu_type"] = "V100" if at % 2 else "P100"
    for name in {"outages", "maintenance"} & {*large.features}:
        case.options["checkpoint_interval"] = 300.0
        windows, at, back = [], 0.0, dict.fromkeys(range(len(SERVERS)), -1.0)
        while at < last:
            at += STEP * rng.randint(100, 2000)
            server = rng.choice([server for server in back if back[server] < at])
            back[server] = at + STEP * rng.randint(30, 400)
            windows.append((server, at, back[server]))
        case.files[name] = outage_rows(windows)
    if "quotas" in large.features:
        case.files["quota"] = [
            {"user": "u0", "gpus": 40, "borrow": True},
            {"user": "u1", "gpus": 30, "borrow": False},
            {"user": "u2", "gpus": 30, "borrow": True},
        ]
    if {"books", "tree"} & {*large.features}:
        for job in case.jobs:
            job["account"] = rng.choice(("a0", "a0", "a1", "a2", None))
    if "books" in large.features:
        case.files["quota-2"] = [
            {"account": "a0", "gpus": 48, "borrow": False},
            {"account": "a1", "gpus": 24, "borrow": True},
        ]
    if "tree" in large.features:
        case.files["fair_shares"] = [
            {"account": "a0", "user": None, "share": 2.0},
            {"account": "a0", "user": "u1", "share": 0.5},
            {"account": "a1", "user": "u0", "share": 0.0},
        ]


def recorded(case: Case, model: Model, outcome: ringbco.Outcome) -> Record:
    """What the engine wrote down."""
    assert outcome.allocations is not None
    assert outcome.decisions is not None
    rows = pl.DataFrame({"job_id": [job["job_id"] for job in case.jobs]}).with_row_index("row")
    finish = dict(outcome.jobs.join(rows, "job_id").select("row", "finish_time").rows())
    stays = (
        outcome.allocations.join(rows, "job_id")
        .group_by("row", "stay", "start_time", "end_time")
        .agg(parts=pl.struct("server", "num_gpus").sort_by("server"))
        .sort("start_time", "row")
    )
    result = [
        Stay(row, start, end, tuple((part["server"], part["num_gpus"]) for part in parts), end == finish[row])
        for row, start, end, parts in stays.select("row", "start_time", "end_time", "parts").rows()
    ]
    log = outcome.decisions.join(rows, "job_id", maintain_order="left").filter(pl.col("verb").is_in(DECIDED))
    of = {job["job_id"]: row for row, job in enumerate(case.jobs)}
    verbs: dict[float, list[Verb]] = defaultdict(list)
    for time, what, row, server, gpus, by, gpu in log.select(
        "time", "verb", "row", "server", "num_gpus", "by", "gpu"
    ).rows():
        # A row a server where a job gets GPUs of several, or a row a GPU.
        last = verbs[time][-1] if verbs[time] else None
        more = last is not None and last.parts and gpus and (last.row, last.what) == (row, what)
        before = verbs[time].pop() if more else Verb(row, what, by=of.get(by))
        own = () if gpu is None else ((server, gpu),)
        parts = ((server, gpus),) if gpus else ()
        verbs[time].append(replace(before, parts=before.parts + parts, gpus=before.gpus + own))
    options = case.options
    pause = options.get("preempt_cost", 30.0)
    costs = Costs(
        options.get("start_cost", 0.0),
        pause,
        options.get("move_cost", pause),
        options.get("resize_cost", pause),
    )
    refused = frozenset(range(len(case.jobs))) - {*finish}
    gpus = which_gpus(case, result) if options.get("queue") == "conservative" else {}
    return Record(result, refused, verbs, costs, gpus, model._queue(), "interference" in options)


class _ByKey(KeyPolicy):
    """The orders of conservative runs: only runs of a custom policy can be looked at on their way."""

    clairvoyant = True
    is_sjf = False

    def key(self, state: State, rows: Any) -> Any:
        return state.duration[rows] if self.is_sjf else np.zeros(len(rows))


class _Paused(Simulation):
    """A run of one cluster under a custom policy that can be looked at on its way."""

    def __init__(self, case: Case, policy: KeyPolicy) -> None:
        setup = case.setup(policy=policy)
        setup.workload.begin()
        self._begin(setup, prepared_of(setup), 0, policy, None)


def which_gpus(case: Case, stays: Sequence[Stay]) -> dict[tuple[int, float], list[GPU]]:
    """Of each stay, by row and start, those that it holds: those whose U it raised.

    Which of a server they are shows nowhere else, and reservations are of single ones.
    """
    policy = _ByKey()
    policy.is_sjf = case.policy == "sjf"
    paused, begun = _Paused(case, policy), defaultdict[float, list[Stay]](list)
    for stay in stays:
        begun[stay.start].append(stay)
    gpus = [(server, gpu) for server, each in enumerate(case.servers) for gpu in range(each["gpus"])]
    before, result = np.zeros(len(gpus)), dict[tuple[int, float], list[GPU]]()
    for time in sorted(begun):
        paused.advance(time)
        after = np.array(paused.state.U)
        raised = dict(zip(gpus, (after - before).tolist(), strict=True))
        before = after
        for stay in begun[time]:
            own = result[stay.row, time] = []
            for server, count in stay.parts:
                there = [
                    gpu
                    for gpu, by in raised.items()
                    if gpu[0] == server and abs(by - case.jobs[stay.row]["duration"]) < 1e-3
                ]
                assert len(there) >= count, (stay, raised)
                own += there[:count]
            for gpu in own:
                del raised[gpu]
    return result


def instants(record: Record, model: Model, ticks: float | None, count: int, rng: Random) -> list[set[float]]:
    """Drawn instants at which the engine decides, by virtual cluster.

    Three fifths are those of a start, one fifth those of one where several things happen at once, one any.
    """
    of, parts = model.server_vc, 1 if model.server_vc is None else 1 + max(model.server_vc)
    changes, quiet = ([set[float]() for _ in range(parts)] for _ in range(2))
    happen = [Counter[float]() for _ in range(parts)]
    last = max(job.submit for job in model.jobs)
    seen: set[int] = set()
    for stay in record.stays:
        vc = 0 if of is None else of[stay.parts[0][0]]
        changes[vc] |= {stay.start}
        quiet[vc] |= {stay.end, model.jobs[stay.row].submit}
        happen[vc].update([stay.end] * stay.last + [model.jobs[stay.row].submit] * (stay.row not in seen))
        seen.add(stay.row)
    if ticks is not None:
        quiet = [{ticks * n for n in range(1, math.ceil(last / ticks))} for _ in range(parts)]
    at_once = [{time for time in own if times[time] > 1} for own, times in zip(changes, happen, strict=True)]
    drawn: list[set[float]] = [set() for _ in range(parts)]
    for choices, part in ((changes, count - 2 * (count // 5)), (at_once, count // 5), (quiet, count // 5)):
        pairs = [(vc, time) for vc, own in enumerate(choices) for time in sorted(own - drawn[vc])]
        pairs = [pair for pair in pairs if 0.05 * last < pair[1] <= last]
        for vc, time in rng.sample(pairs, min(part, len(pairs))):
            drawn[vc].add(time)
    return drawn


def chosen(large: Large, model: Model, record: Record, count: int, seed: int) -> list[set[float]]:
    """The `instants` of a run."""
    rules = model.parts().given[5]
    ticks = rules.interval if rules.ticks and large.policy not in RESIZING else None
    return instants(record, model, ticks, count, Random(f"{large.name} {seed} instants"))


def compared(large: Large, jobs: int, count: int, seed: int) -> Iterator[Compared]:
    """So many decisions of a run of so many jobs."""
    case = draw(large, jobs, seed)
    model = Model(case)
    record = recorded(case, model, case.replay(decisions=True))
    yield from Run(model.parts().given, record).compared(chosen(large, model, record, count, seed))
