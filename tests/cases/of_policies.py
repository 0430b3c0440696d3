"""Features of random cases: policies, and what they are told."""

from random import Random

from cases import custom_policies
from cases.case import Case, Row
from cases.draw import column, feature
from cases.of_jobs import deadlines
from strategies import PLACEMENTS


@feature(0.35)
def elastic(rng: Random, case: Case) -> None:
    for job in case.jobs:
        least, most = rng.randint(1, job["num_gpus"]), job["num_gpus"] + rng.choice((0, 1, 2, 4))
        rigid = rng.random() < 0.2 or job.get("gpu_share") or (job.get("gpus_per_pod") or 1) > 1
        job["min_gpus"], job["max_gpus"] = (None, None) if rigid else (least, most)


@feature(0.2)
def noise_scale(rng: Random, case: Case) -> None:
    column(case, "noise_scale", [rng.choice((None, 0.0, 1.0, 8.0)) for _ in case.jobs])
    if "batch_size" in case.jobs[0]:
        return
    column(case, "batch_size", [rng.choice((1, 4, 32)) for _ in case.jobs])


@feature(0.2)
def searches(rng: Random, case: Case) -> None:
    case.options["search"] = rng.choice(("asha:eta=2,rungs=1", "asha:eta=2,rungs=2", "asha:eta=3,rungs=2"))
    groups = [rng.choice(("s0", "s0", "s1", None)) for _ in case.jobs]
    groups[0] = groups[0] or "s0"
    # The trials of a search are all of one virtual cluster.
    split = "vc" in case.servers[0]
    column(
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

    column(case, "time_limit", [limit(job) for job in case.jobs])


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
        (
            custom_policies.Keyed,
            custom_policies.LeastLeft,
            custom_policies.Smallest,
            custom_policies.InTurn,
            custom_policies.Restless,
            custom_policies.Restless,
        )
    )


@feature(0.3)
def order(rng: Random, case: Case) -> None:
    """Every order, that of an array and of a column too."""
    if case.policy not in ("fifo", *QUEUES) and rng.random() < 0.9:
        return
    name = rng.choice(("sjf", "smallest", "qssf", "column:mine", "array"))
    keys = [float(rng.randint(-3, 3)) for _ in case.jobs]
    if name == "column:mine":
        column(case, "mine", list(keys))
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
        column(case, kinds[0], [rng.choice(("u0", "u1", "u2", None)) for _ in case.jobs])
    kind = rng.choice(kinds)
    owners = sorted({job[kind] for job in case.jobs if job[kind] is not None})
    if owners and rng.random() < 0.6:
        given = rng.sample(owners, rng.randint(1, len(owners)))
        shares = (0.0, 0.5, 1.0, 1.0, 2.0, 3.7, None)
        case.files["fair_shares"] = [{kind: owner, "share": rng.choice(shares)} for owner in given]


@feature(0.5)
def tree(rng: Random, case: Case) -> None:
    """Fair shares on two levels: accounts, and users or arrays in them. Many accounts rank alike."""
    if case.options.get("order") != "fairshare":
        return
    below = rng.choice([kind for kind in ("user", "vc", "array") if kind in case.jobs[0]] or ["team"])
    if below == "team":
        column(case, below, [rng.choice(("t0", "t1", None)) for _ in case.jobs])
    if "account" not in case.jobs[0]:
        column(case, "account", [rng.choice(("a0", "a1", "a2", None)) for _ in case.jobs])
    shares = (0.0, 0.5, 1.0, 1.0, 2.0, 3.7, None)
    pairs = sorted({(job["account"], job[below]) for job in case.jobs if job["account"]}, key=str)
    owners = [(account, None) for account in sorted({account for account, _ in pairs})]
    owners += [pair for pair in pairs if pair[1] is not None]
    if owners:
        given = rng.sample(owners, rng.randint(1, len(owners)))
        case.files["fair_shares"] = [
            {"account": account, below: own, "share": rng.choice(shares)} for account, own in given
        ]


@feature(0.35)
def queue(rng: Random, case: Case) -> None:
    if case.policy not in ("fifo", *QUEUES, custom_policies.Keyed) and rng.random() < 0.9:
        return
    case.options["queue"] = rng.choice(("skip", "easy"))


@feature(0.3)
def conservative(rng: Random, case: Case) -> None:
    """Reservations for all that wait, or for few of them."""
    if case.policy in ("fifo", *QUEUES, custom_policies.Keyed) or rng.random() < 0.1:
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
    if case.policy is custom_policies.InTurn and "after" in case.jobs[0]:
        return  # it is told no rule of ties
    case.options["ties"] = rng.choice(("reverse", "shuffle:3"))


@feature(0.1)
def sample(rng: Random, case: Case) -> None:
    case.options["sample"] = max(case.unit, case.span(rng, 0.5, 3.0))
