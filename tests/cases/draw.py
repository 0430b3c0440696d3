"""The features of a random case, each a coin and a part of the case.

A feature sees what the features above it have put. It may rely on none of them: whatever is missing, what it
puts is something that a user could write, though perhaps refused.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from cases import own
from cases.case import Case, Row, plain
from strategies import PLACEMENTS

Put = Callable[[Random, Case], None]


@dataclass(frozen=True)
class Feature:
    """coin: the chance of it. draw: what it puts into a case."""

    name: str
    coin: float
    draw: Put


FEATURES: dict[str, Feature] = {}  # in the order in which they are put


def feature(coin: float) -> Callable[[Put], Put]:
    def register(draw: Put) -> Put:
        FEATURES[draw.__name__] = Feature(draw.__name__, coin, draw)
        return draw

    return register


def toss(seed: object) -> tuple[str, ...]:
    """The features of a case, each by its own coin."""
    return tuple(
        name for name, each in FEATURES.items() if Random(f"{seed} {name} coin").random() < each.coin
    )


def build(seed: object, features: tuple[str, ...]) -> Case:
    """The case of a seed with these features. Without one of them the others' draws stay the same."""
    case = plain(Random(f"{seed}"))
    for name, each in FEATURES.items():
        if name in features:
            each.draw(Random(f"{seed} {name}"), case)
    return case


def _column(case: Case, name: str, values: list[object]) -> None:
    for job, value in zip(case.jobs, values, strict=True):
        job[name] = value


# Jobs and their times.


@feature(0.1)
def late(rng: Random, case: Case) -> None:
    """All of it begins far from zero."""
    case.epoch = rng.choice((1e9, 1e12))
    for job in case.jobs:
        job["submit_time"] += case.epoch


@feature(0.12)
def shuffled(rng: Random, case: Case) -> None:
    """Rows that are not sorted by submission."""
    rng.shuffle(case.jobs)


@feature(0.15)
def tiny(rng: Random, case: Case) -> None:
    """Some jobs of next to no length."""
    for job in case.jobs:
        if rng.random() < 0.4:
            job["duration"] = rng.choice((1e-15, 1e-12, 1e-9, 1e-6))


@feature(0.35)
def ring(rng: Random, case: Case) -> None:
    """The ring-all-reduce model: iterations that contention stretches. On the grid few communicate."""
    case.options["model"] = "rar"
    for job in case.jobs:
        compute = (
            case.unit * rng.choice((0.125, 0.25, 0.5)) if case.grid else case.unit * rng.uniform(0.05, 0.6)
        )
        gradient = rng.choice((0.0, 0.0, 0.1, 0.3)) if case.grid else rng.uniform(0.0, 0.4)
        if job["duration"] < 1e-3 * case.unit:
            compute, gradient = job["duration"], 0.0
        job |= {
            "iterations": max(1, round(job["duration"] / compute)),
            "gradient_bytes": gradient * case.unit * case.network["inter_bandwidth"],
            "batch_size": 1,
            "fp_time": compute,
            "bp_time": 0.0,
        }


@feature(0.1)
def sharing(_: Random, case: Case) -> None:
    case.options["sharing"] = "off"


@feature(0.3)
def slot(rng: Random, case: Case) -> None:
    case.options |= {"clock": "slot", "slot": case.unit * rng.choice((0.5, 1.0, 1.0, 2.0, 0.7))}


@feature(0.3)
def users(rng: Random, case: Case) -> None:
    _column(case, "user", [rng.choice(("u0", "u1", None)) for _ in case.jobs])


@feature(0.3)
def deadlines(rng: Random, case: Case) -> None:
    due = [case.span(rng, 0.0, 30.0) if rng.random() < 0.8 else None for _ in case.jobs]
    _column(
        case,
        "deadline",
        [None if d is None else job["submit_time"] + d for d, job in zip(due, case.jobs, strict=True)],
    )


# GPUs of several types, speeds as measured.


@feature(0.22)
def types(rng: Random, case: Case) -> None:
    names = [f"t{number}" for number in range(rng.choice((2, 2, 3)))]
    case.servers += [{"gpus": rng.choice((1, 2, 4))} for _ in range(rng.randint(0, 2))]
    for server in case.servers:
        server["gpu_type"] = rng.choice(names)
    for name in [*names, "other"]:
        case.gpu_types[name] = {
            "speed": rng.choice((0.5, 1.0, 2.0, 4.0)) if case.grid else rng.uniform(0.3, 4.0),
            "price_per_hour": rng.choice((1.0, 2.0, 5.0)),
            "idle_watts": 50.0,
            "busy_watts": rng.choice((200.0, 300.0)),
        }
    case.options["type_order"] = rng.choice(("fastest", "cheapest", "listed"))


@feature(0.5)
def gpu_type(rng: Random, case: Case) -> None:
    """The types that a job may use."""
    names = sorted({server["gpu_type"] for server in case.servers if "gpu_type" in server})
    if names:
        lists = [rng.sample(names, rng.randint(1, len(names))) for _ in case.jobs]
        _column(case, "gpu_type", [rng.choice(("|".join(own), "|".join(own), None)) for own in lists])


@feature(0.5)
def recorded_on(rng: Random, case: Case) -> None:
    if case.gpu_types:
        _column(case, "recorded_on", [rng.choice((None, *case.gpu_types)) for _ in case.jobs])


@feature(0.4)
def models(rng: Random, case: Case) -> None:
    """Models that some types run faster, or slower, than others."""
    if case.gpu_types:
        _column(case, "model", [rng.choice(("m0", "m1", None)) for _ in case.jobs])
        for facts in case.gpu_types.values():
            if rng.random() < 0.5:
                facts["models.m0"] = rng.choice((0.5, 1.0, 2.0)) if case.grid else rng.uniform(0.3, 4.0)


@feature(0.15)
def tables(rng: Random, case: Case) -> None:
    """Model table: rates on one server, on two and here and there on three, on each type."""
    case.options["model"] = "table"
    names = list(case.gpu_types)
    if not names:
        names = ["t0"]
        for server in case.servers:
            server["gpu_type"] = "t0"
        case.gpu_types["t0"] = {"speed": 1.0}
    rows = []
    for model in ("m0", "m1"):
        for name in names:
            rate = rng.choice((1.0, 2.0, 4.0)) / case.unit * (1.0 if case.grid else rng.uniform(0.5, 2.0))
            for servers in rng.choice(((1, 2), (1, 2), (1,), (1, 3))):
                top = 40
                one = {"model": model, "gpu_type": name, "servers": servers}
                rows.append({**one, "gpus": servers, "rate": rate * servers})
                rows.append({**one, "gpus": top, "rate": rate * top * rng.choice((0.5, 0.75))})
                for gpus in rng.sample(range(servers + 1, servers + 8), rng.choice((0, 0, 1, 2))):
                    rows.append({**one, "gpus": gpus, "rate": rate * gpus * rng.choice((0.5, 1.0, 1.5))})
    case.files["tables"] = rows
    for job in case.jobs:
        job["model"] = rng.choice(("m0", "m1"))
        job["iterations"] = rng.randint(1, 40)


@feature(0.12)
def vcs(rng: Random, case: Case) -> None:
    names = ["a", "b", *rng.choice(((), ("c",)))][: len(case.servers)]
    for number, server in enumerate(case.servers):
        server["vc"] = names[number] if number < len(names) else rng.choice(names)
    _column(case, "vc", [rng.choice(names) for _ in case.jobs])


@feature(0.2)
def shares(rng: Random, case: Case) -> None:
    likely = rng.choice((0.5, 1.0))
    for job in case.jobs:
        small = job["num_gpus"] == 1 and rng.random() < likely
        job["gpu_share"] = rng.choice((0.1, 0.25, 0.5, 0.5, 0.6, 0.75)) if small else None


@feature(0.5)
def interference(rng: Random, case: Case) -> None:
    if any(job.get("gpu_share") for job in case.jobs):
        case.options["interference"] = rng.choice((0.25, 0.5, 1.0))


@feature(0.35)
def partners(rng: Random, case: Case) -> None:
    """What was measured of two jobs on one GPU, now and then that one makes no progress beside the other."""
    rows = case.files.get("tables", [])
    if not rows:
        return
    if "gpu_share" not in case.jobs[0]:
        shares(rng, case)
    alone = {(row["model"], row["gpu_type"]): row["rate"] for row in rows if row["gpus"] == 1}
    for row in rows:
        row |= {"partner": None, "partner_rate": None}
    for (model, name), rate in alone.items():
        for partner in ("m0", "m1"):
            if rng.random() < 0.6:
                mine = rate * rng.choice((0.0, 0.5, 0.5, 0.75, 0.75, 1.0))
                theirs = alone[partner, name] * rng.choice((0.5, 0.75, 1.0))
                one = {"model": model, "gpu_type": name, "servers": 1, "gpus": 1, "rate": mine}
                rows.append({**one, "partner": partner, "partner_rate": theirs})


# Who goes before whom.


@feature(0.3)
def priorities(rng: Random, case: Case) -> None:
    levels = rng.choice(((0, 1), (0, 1, 2), (-1, 0, 5)))
    drawn = [rng.choice(levels) for _ in case.jobs]
    # In half of the cases the later the higher, so that some have somebody to evict.
    _column(case, "priority", sorted(drawn) if rng.random() < 0.5 else drawn)


@feature(0.4)
def preemptible(rng: Random, case: Case) -> None:
    _column(case, "preemptible", [rng.random() < 0.7 for _ in case.jobs])


@feature(0.35)
def evict(rng: Random, case: Case) -> None:
    case.options["evict"] = True


@feature(0.3)
def quotas(rng: Random, case: Case) -> None:
    """Of users, or of vcs that need not be clusters."""
    kind = rng.choice(("user", "vc"))
    if kind not in case.jobs[0]:
        _column(case, kind, [rng.choice(("u0", "u1", "u2")) for _ in case.jobs])
    owners = sorted({job[kind] for job in case.jobs if job[kind] is not None})
    case.files["quota"] = [
        {kind: owner, "gpus": rng.choice((0, 1, 2, case.room // 2, case.room)), "borrow": rng.random() < 0.7}
        for owner in owners
        if rng.random() < 0.8
    ]
    if not case.files["quota"]:
        del case.files["quota"]


@feature(0.3)
def services(rng: Random, case: Case) -> None:
    """One or two, that want nothing in the end in most cases."""
    rows = []
    for name in ("chat", "code")[: rng.randint(1, 2)]:
        gpus = rng.randint(1, min(3, max(server["gpus"] for server in case.servers)))
        times = {case.moment(rng) for _ in range(rng.randint(1, 3))}
        wanted = {time: rng.choice((0, 1, 2, 3)) for time in sorted(times)}
        if rng.random() < 0.9:
            wanted[max(times) + case.span(rng, 1.0, 6.0)] = 0
        rows += [
            {"service": name, "time": time, "replicas": count, "gpus_per_replica": gpus}
            for time, count in wanted.items()
        ]
    case.files["services"] = rows


@feature(0.4)
def outages(rng: Random, case: Case) -> None:
    rows = []
    for _ in range(rng.choice((1, 3, 6, 12))):
        down = case.moment(rng)
        # One in four is over within a slot.
        up = down + (case.unit / 16.0 if rng.random() < 0.25 else case.span(rng, 0.25, 6.0))
        cause = rng.choice(("gpu", "network", None))
        rows.append(
            {"server": rng.randrange(len(case.servers)), "down_at": down, "up_at": up, "cause": cause}
        )
    case.files["outages"] = rows


@feature(0.25)
def maintenance(rng: Random, case: Case) -> None:
    """Now and then of all servers at once, as an outage begins or ends, or for good."""
    rows: list[dict[str, object]] = []
    failures = case.files.get("outages", [])
    for _ in range(rng.choice((1, 2, 4))):
        down = case.moment(rng)
        if failures and rng.random() < 0.3:
            down = rng.choice(failures)[rng.choice(("down_at", "up_at"))]
        up = down + (case.unit / 16.0 if rng.random() < 0.1 else case.span(rng, 0.25, 6.0))
        everywhere = rng.random() < 0.2
        for server in range(len(case.servers)) if everywhere else [rng.randrange(len(case.servers))]:
            rows.append(
                {"server": server, "down_at": down, "up_at": up, "cause": rng.choice(("disks", None))}
            )
    case.files["maintenance"] = rows


@feature(0.4)
def checkpoints(rng: Random, case: Case) -> None:
    def interval() -> float:
        return rng.choice(
            (0.0, math.inf, case.unit / 4.0, case.span(rng, 1.0, 4.0), case.span(rng, 1.0, 4.0))
        )

    case.options["checkpoint_interval"] = interval()
    if rng.random() < 0.5:
        _column(case, "checkpoint_interval", [rng.choice((None, interval())) for _ in case.jobs])


@feature(0.3)
def saving(rng: Random, case: Case) -> None:
    """Checkpoints that take time: nobody makes one at every instant."""
    case.options["checkpoint_cost"] = rng.choice((case.unit / 2.0, case.span(rng, 0.5, 2.0)))
    case.options.setdefault("checkpoint_interval", case.span(rng, 1.0, 4.0))
    for told in (case.options, *case.jobs):
        if told.get("checkpoint_interval") == 0.0:
            told["checkpoint_interval"] = case.unit


# Policies, and what they are told.


@feature(0.35)
def elastic(rng: Random, case: Case) -> None:
    for job in case.jobs:
        least, most = rng.randint(1, job["num_gpus"]), job["num_gpus"] + rng.choice((0, 1, 2, 4))
        rigid = rng.random() < 0.2 or job.get("gpu_share")
        job["min_gpus"], job["max_gpus"] = (None, None) if rigid else (least, most)


@feature(0.2)
def noise_scale(rng: Random, case: Case) -> None:
    _column(case, "noise_scale", [rng.choice((None, 0.0, 1.0, 8.0)) for _ in case.jobs])
    if "batch_size" in case.jobs[0]:
        return
    _column(case, "batch_size", [rng.choice((1, 4, 32)) for _ in case.jobs])


@feature(0.2)
def searches(rng: Random, case: Case) -> None:
    case.options["search"] = rng.choice(("asha:eta=2,rungs=1", "asha:eta=2,rungs=2", "asha:eta=3,rungs=2"))
    groups = [rng.choice(("s0", "s0", "s1", None)) for _ in case.jobs]
    groups[0] = groups[0] or "s0"
    # The trials of a search are all of one virtual cluster.
    split = "vc" in case.servers[0]
    _column(
        case,
        "group",
        [g and f"{g}{job['vc'] if split else ''}" for g, job in zip(groups, case.jobs, strict=True)],
    )


@feature(0.3)
def time_limit(rng: Random, case: Case) -> None:
    """Of some jobs: often just what they run, or less, or what their pauses leave them."""

    def limit(job: Row) -> float | None:
        near = case.span(rng, 1.0, 9.0)
        return rng.choice((None, job["duration"], job["duration"] + near, near, job["duration"] * 0.5))

    _column(case, "time_limit", [limit(job) for job in case.jobs])


@feature(0.25)
def enforce_limits(rng: Random, case: Case) -> None:
    if "time_limit" not in case.jobs[0]:
        time_limit(rng, case)
    case.options["enforce_limits"] = True


@feature(0.35)
def placement(rng: Random, case: Case) -> None:
    case.options["placement"] = rng.choice((*PLACEMENTS, "best-fit", "worst-fit", "fgd"))
    if rng.random() < 0.5:
        case.options |= {"variant": rng.choice(("practical", "literal")), "kappa": rng.choice((1, 2, 8))}
        case.options |= {"lambda_": rng.choice((1.0, 2.0)), "seed": rng.choice((0, 7))}


QUEUES = ("sjf", "smallest", "ff", "ls", "rand", "sjf-bco", "qssf")
RANKINGS = ("srtf", "tiresias", "gittins", "ftf", "edf", "time-slice")
RESIZING = ("afs", "optimus", "elastic-srtf", "elasticflow")
IN_PYTHON = ("gavel", "allox", "sia")


@feature(0.75)
def policy(rng: Random, case: Case) -> None:
    """Any but fifo."""
    kind = rng.choice((RANKINGS, RANKINGS, RANKINGS, RESIZING, RESIZING, QUEUES, IN_PYTHON, ("repack",)))
    case.options["policy"] = name = rng.choice(kind)
    if name in ("edf", "elasticflow") and "deadline" not in case.jobs[0]:
        deadlines(rng, case)
    if name in ("gavel", "sia"):
        case.options["parameters"] = {"round": max(case.unit, case.span(rng, 1.0, 6.0))}


@feature(0.15)
def own_policy(rng: Random, case: Case) -> None:
    """A rung of one's own in its place."""
    case.options.pop("parameters", None)
    case.options["policy"] = rng.choice(
        (own.Keyed, own.LeastLeft, own.Smallest, own.InTurn, own.Restless, own.Restless)
    )


@feature(0.3)
def order(rng: Random, case: Case) -> None:
    """Every order, that of an array and of a column too."""
    if case.policy not in ("fifo", *QUEUES) and rng.random() < 0.9:
        return
    name = rng.choice(("sjf", "smallest", "qssf", "column:mine", "array"))
    keys = [float(rng.randint(-3, 3)) for _ in case.jobs]
    if name == "column:mine":
        _column(case, "mine", list(keys))
    case.options["order"] = keys if name == "array" else name


@feature(0.4)
def fairshare(rng: Random, case: Case) -> None:
    """What owners used of late counts: users, or vcs that need not be clusters."""
    if case.policy not in ("fifo", *QUEUES) and rng.random() < 0.95:
        return
    case.options["order"] = "fairshare"
    case.options["half_life"] = rng.choice((case.unit / 8.0, case.span(rng, 1.0, 6.0), 30.0 * case.unit, 1e9))
    kinds = [kind for kind in ("user", "vc") if kind in case.jobs[0]]
    if not kinds:
        kinds = [rng.choice(("user", "vc"))]
        _column(case, kinds[0], [rng.choice(("u0", "u1", "u2", None)) for _ in case.jobs])
    kind = rng.choice(kinds)
    owners = sorted({job[kind] for job in case.jobs if job[kind] is not None})
    if owners and rng.random() < 0.6:
        given = rng.sample(owners, rng.randint(1, len(owners)))
        shares = (0.0, 0.5, 1.0, 1.0, 2.0, 3.7, None)
        case.files["fair_shares"] = [{kind: owner, "share": rng.choice(shares)} for owner in given]


@feature(0.35)
def queue(rng: Random, case: Case) -> None:
    if case.policy not in ("fifo", *QUEUES, own.Keyed) and rng.random() < 0.9:
        return
    case.options["queue"] = rng.choice(("skip", "easy"))


@feature(0.3)
def conservative(rng: Random, case: Case) -> None:
    """Reservations for all that wait, or for few of them."""
    if case.policy in ("fifo", *QUEUES, own.Keyed) or rng.random() < 0.1:
        case.options |= {"queue": "conservative", "reservations": rng.choice((1, 2, 3, 100))}


@feature(0.5)
def aging(rng: Random, case: Case) -> None:
    if "order" in case.options or case.policy in ("sjf", "smallest", "qssf") or rng.random() < 0.1:
        case.options["aging"] = case.span(rng, 0.0, 8.0)


@feature(0.5)
def predict(rng: Random, case: Case) -> None:
    case.options["predict"] = "exact"


@feature(0.5)
def estimate_factor(rng: Random, case: Case) -> None:
    case.options["estimate_factor"] = rng.choice((0.5, 2.0))


@feature(0.5)
def estimate(rng: Random, case: Case) -> None:
    if "time_limit" not in case.jobs[0]:
        time_limit(rng, case)
    case.options["estimate"] = "limit"


@feature(0.5)
def admission(rng: Random, case: Case) -> None:
    if case.policy == "edf" or rng.random() < 0.05:
        case.options["admission"] = True


@feature(0.7)
def thresholds(rng: Random, case: Case) -> None:
    case.options["thresholds"] = [case.unit * rng.choice((2.0, 5.0)), case.unit * rng.choice((12.0, 30.0))]


@feature(0.7)
def interval(rng: Random, case: Case) -> None:
    """Of decisions; a quantum that is longer than a pause."""
    if case.policy != "srtf":
        case.options["interval"] = max(case.unit, case.span(rng, 1.0, 5.0))
    case.options["quantum"] = 5.0 * case.unit + case.span(rng, 1.0, 5.0)


@feature(0.5)
def of_clusters(rng: Random, case: Case) -> None:
    """The rules of real clusters, where the policy has some."""
    if case.policy == "srtf":
        case.options["policy"] = rng.choice(("srtf", "srsf"))
        if rng.random() < 0.6:
            case.options["interval"] = max(case.unit, case.span(rng, 1.0, 5.0))
    if case.policy in ("tiresias", "gittins"):
        case.options["within"] = "list"
    if case.policy == "gavel":
        case.options["parameters"] |= {"shares": "finish-time", "renew": rng.choice((0.0, 1920.0))}
    if case.policy == "allox":
        case.options["parameters"] = {"alpha": rng.choice((0.3, 0.7))}


@feature(0.8)
def resize_every(rng: Random, case: Case) -> None:
    case.options["resize_every"] = rng.choice((0.0, case.span(rng, 1.0, 4.0)))


@feature(0.7)
def costs(rng: Random, case: Case) -> None:
    """Of a preemption, a start, a move and a resize: some of them as they are if nothing is said."""
    for name in ("preempt_cost", "start_cost", "move_cost", "resize_cost"):
        if name == "preempt_cost" or rng.random() < 0.5:
            case.options[name] = rng.choice((0.0, case.span(rng, 0.0, 2.0), case.span(rng, 1.0, 3.0)))


@feature(0.15)
def sleep(rng: Random, case: Case) -> None:
    case.options |= {"sleep_after": case.span(rng, 0.0, 5.0), "wake_time": case.span(rng, 0.0, 2.0)}


@feature(0.08)
def ties(rng: Random, case: Case) -> None:
    case.options["ties"] = rng.choice(("reverse", "shuffle:3"))


@feature(0.1)
def sample(rng: Random, case: Case) -> None:
    case.options["sample"] = max(case.unit, case.span(rng, 0.5, 3.0))
