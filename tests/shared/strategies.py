"""Random small replays, for comparing the engine with the reference model.

One generator serves both users: `random.Random(seed)` gives cases in bulk, hypothesis' own `st.randoms` cases
that shrink. Numbers come in three flavours, because they find different faults: whole and dyadic numbers make
events coincide exactly, ugly ones make every rounding count.
"""

import itertools
import math
import random
from dataclasses import dataclass, replace

from reference import Job, Net, Options
from reference.model import fewest_servers, iteration_time
from reference.placement import ClusterState, place

ORDERS = ("fifo", "sjf", "smallest")
QUEUES = ("strict", "skip", "easy")
PLACEMENTS = (
    "first-fit",
    "consolidate",
    "binpack",
    "emptiest",
    "least-loaded",
    "random",
    "fa-ffp",
    "lbsgf",
    "sjf-bco",
)
VARIANTS = ("practical", "literal")
MODELS = ("rar", "fixed")
CLOCKS = ("continuous", "slot")
SLOTS = (0.5, 1.0, 7.0, 60.0)

COMBINATIONS = [
    Options(order, queue, placement, model, clock, variant=variant)
    for order, queue, placement, variant, model, clock in itertools.product(
        ORDERS, QUEUES, PLACEMENTS, VARIANTS, MODELS, CLOCKS
    )
    if variant == "practical" or placement in ("fa-ffp", "lbsgf", "sjf-bco")
]


@dataclass(frozen=True)
class Case:
    """One replay; its repr can be pasted into a test."""

    jobs: tuple[Job, ...]
    servers: tuple[int, ...]
    net: Net
    options: Options
    server_vc: tuple[int, ...] | None = None


def build_case(
    rnd: random.Random,
    base: Options,
    *,
    vcs: bool = False,
    oversize: bool = False,
    pods: bool = False,
    most: int = 12,
) -> Case:
    """A tiny replay with the algorithms of `base`: 1 to `most` jobs on 1 to 5 servers of 1 to 8 GPUs.

    With `vcs` the servers are split into virtual clusters; with `oversize` some jobs fit nowhere: dropped;
    with `pods` most jobs of several GPUs have pods of several, unless the placement places GPU by GPU.
    """
    servers = _servers(rnd)
    flavour = rnd.choice(("whole", "dyadic", "ugly"))
    slot = rnd.choice(SLOTS)
    net = _net(rnd, flavour)
    server_vc: tuple[int, ...] | None = None
    if vcs:
        server_vc = tuple(rnd.randrange(3) for _ in servers)
        # Number them by first appearance, as a cluster file does.
        order = sorted(set(server_vc), key=server_vc.index)
        server_vc = tuple(order.index(v) for v in server_vc)

    jobs = []
    submit = _number(rnd, flavour, 0.0, 3.0 * slot)
    if base.clock == "continuous" and rnd.random() < 0.03:
        submit += 2.0**53  # where float64 seconds are 2 apart: short jobs end at the instant they start
    gap = rnd.choice((0.0, 0.25, 1.0, 4.0)) * slot
    for _ in range(rnd.randint(1, most)):
        vc = None if server_vc is None else rnd.randrange(max(server_vc) + 1)
        mine = [g for s, g in enumerate(servers) if server_vc is None or server_vc[s] == vc]
        jobs.append(_job(rnd, flavour, slot, net, mine, submit, vc, base, oversize=oversize))
        if rnd.random() < 0.6:
            submit += _number(rnd, flavour, 0.0, gap)
    if rnd.random() < 0.2:
        rnd.shuffle(jobs)  # rows need not be sorted by submission
    options = Options(
        order=base.order,
        queue=base.queue,
        placement=base.placement,
        model=base.model,
        clock=base.clock,
        variant=base.variant,
        slot=slot,
        kappa=rnd.choice((1, 2, 3, 8)),
        lambda_=rnd.choice((1.0, 1.0, 1.5, 2.0, 4.0)),
        seed=rnd.choice((0, 1, 12345, 2**64 - 1)),
        oversize="drop" if oversize else "error",
    )
    if pods and base.placement != "random" and base.variant != "literal":
        jobs = [_in_pods(rnd, job, servers, server_vc, options) for job in jobs]
    return Case(tuple(jobs), servers, net, options, server_vc)


def _in_pods(
    rnd: random.Random,
    job: Job,
    servers: tuple[int, ...],
    server_vc: tuple[int, ...] | None,
    options: Options,
) -> Job:
    """The job in pods; where none may be too large, only in such as the empty cluster holds."""
    sizes = {s: g for s, g in enumerate(servers) if server_vc is None or server_vc[s] == job.vc}
    pods = replace(job, pod=rnd.choice([g for g in range(1, job.num_gpus + 1) if job.num_gpus % g == 0]))
    gpus = [(s, gpu) for s, size in sizes.items() for gpu in range(size)]
    empty = ClusterState(sizes, gpus, dict.fromkeys(gpus, 0.0))
    fits = options.oversize == "drop" or place(pods, empty, options, 0)[0] is not None
    return pods if fits else job


def _servers(rnd: random.Random) -> tuple[int, ...]:
    count = rnd.randint(1, 5)
    if rnd.random() < 0.4:
        return (rnd.choice((1, 2, 4, 8)),) * count
    return tuple(rnd.randint(1, 8) for _ in range(count))


def _net(rnd: random.Random, flavour: str) -> Net:
    """Slow links and a large share make contention bite; powers of two keep the arithmetic exact."""
    if flavour == "ugly" and rnd.random() < 0.5:
        return Net(
            rnd.uniform(1e9, 2e11), rnd.uniform(1e8, 2e10), rnd.uniform(1e10, 1e12),
            rnd.uniform(0.01, 1.0), rnd.uniform(0.0, 0.1), rnd.uniform(0.0, 2.0),
        )  # fmt: skip
    if rnd.random() < 0.3:
        return Net()
    return Net(
        intra=rnd.choice((64.0, 1024.0)),
        inter=rnd.choice((1.0, 2.0, 8.0)),
        reduce=rnd.choice((256.0, 2.0**30)),
        xi1=rnd.choice((0.25, 0.5, 1.0, 1.0)),
        xi2=rnd.choice((0.0, 0.0, 0.015625)),
        alpha=rnd.choice((0.0, 0.25, 1.0, 3.0)),
    )


def _number(rnd: random.Random, flavour: str, low: float, high: float) -> float:
    if flavour == "ugly":
        return rnd.uniform(low, high)
    step = 1.0 if flavour == "whole" else 0.25
    return step * rnd.randint(math.ceil(low / step), max(math.ceil(low / step), math.floor(high / step)))


def _job(
    rnd: random.Random,
    flavour: str,
    slot: float,
    net: Net,
    servers: list[int],
    submit: float,
    vc: int | None,
    base: Options,
    *,
    oversize: bool,
) -> Job:
    room = sum(servers)
    if oversize and rnd.random() < 0.25:
        num_gpus = room + rnd.randint(1, 4)
    else:
        num_gpus = min(room, rnd.choice((1, 2, 3, 4, 5, 8, rnd.randint(1, room))))
        if base.placement == "consolidate" and not oversize:
            num_gpus = _consolidable(num_gpus, servers)
    if base.model == "fixed":
        low = 0.25 if flavour == "dyadic" else 1.0
        return Job(submit, num_gpus, duration=max(low, _number(rnd, flavour, low, 12.0 * slot)), vc=vc)

    # Compute takes a fair part of a slot; communication goes from nothing to several times that under
    # contention.
    if flavour == "ugly":
        compute = slot * rnd.uniform(0.01, 0.6)
    else:
        compute = slot * rnd.choice((0.015625, 0.0625, 0.125, 0.25, 0.5))
    share = rnd.choice((0.0, 0.125, 0.25, 0.5)) * (rnd.uniform(0.5, 1.5) if flavour == "ugly" else 1.0)
    gradient = slot * share * net.inter / 2.0
    job = Job(submit, num_gpus, 1.0, 1, gradient, compute, vc)
    tau0 = slot
    if num_gpus <= room:
        tau0 = iteration_time(job, fewest_servers(num_gpus, servers), 1, net)
    if tau0 > slot:
        compute = slot / 4.0
        gradient = 0.0
    iterations = max(1, round(_number(rnd, flavour, 1.0, 20.0 * slot) / min(tau0, slot)))
    return Job(submit, num_gpus, 1.0, min(iterations, 400), gradient, compute, vc)


def _consolidable(num_gpus: int, servers: list[int]) -> int:
    """The next lower size that `consolidate` can place on the empty cluster."""
    largest = max(servers)
    for w in range(num_gpus, 0, -1):
        whole, rest = divmod(w, largest)
        others = [0, *sorted(servers)[: max(0, len(servers) - whole)]]
        if w <= largest or (servers.count(largest) >= whole and max(others) >= rest):
            return w
    return 1
