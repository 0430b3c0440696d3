"""Jobs, the network, and equations (6) to (8): contention, bandwidth, time of one iteration."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from reference.tiers import Tree, at_best

GPU = tuple[int, int]
"""(server, GPU inside the server)."""


@dataclass(frozen=True)
class Job:
    """One gang. Times in seconds, `gradient_bytes` in bytes; `vc` is the number of its virtual cluster.

    share: thousandths of one GPU, 0 for whole GPUs (`shares`). tie: the less, the sooner it goes of those
    submitted with it; of the same, the upper row (`--ties`). pod: GPUs of each of its pods, which lies on one
    server. within: the level of the tier that is to hold it, 0 for a server; strict: that must. segment: GPUs
    of each of its segments, 0 without; segment_tier: the level of the tier of which one group holds each.
    """

    submit: float
    num_gpus: int
    duration: float = 1.0
    iterations: int = 1
    gradient_bytes: float = 0.0
    compute_time: float = 1.0
    vc: int | None = None
    share: int = 0
    tie: int = 0
    pod: int = 1
    within: int | None = None
    strict: bool = False
    segment: int = 0
    segment_tier: int = 0

    @property
    def is_bound(self) -> bool:
        """Whether idle GPUs alone are not enough for it."""
        return self.strict or self.segment > 0

    def seconds(self, num_servers: int) -> float | None:
        """What an iteration was measured to take on so many servers; None: eq. 8 says it."""
        return None


@dataclass(frozen=True)
class Net:
    """b_i, b_e, C in bytes/s, then xi1, xi2 and alpha.

    tree: of tiers; None where servers' links are all. inside: the GPUs of the largest domain of a tier, and
    its bandwidth.
    """

    intra: float = 150e9
    inter: float = 12.5e9
    reduce: float = 500e9
    xi1: float = 0.5
    xi2: float = 5e-4
    alpha: float = 0.3
    tree: Tree | None = None
    inside: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Options:
    """The knobs of a replay, spelt as the engine spells them."""

    order: str = "smallest"
    queue: str = "strict"
    placement: str = "sjf-bco"
    model: str = "rar"
    clock: str = "continuous"
    slot: float = 1.0
    kappa: int = 8
    lambda_: float = 1.0
    variant: str = "practical"
    seed: int = 0
    oversize: str = "error"
    tiers: tuple[tuple[int, ...], ...] = ()
    """The group of each server by tier, from below, for placement `compact`."""

    def by_name(self) -> dict[str, object]:
        """Each option by the engine's name for it."""
        return {name.rstrip("_"): value for name, value in asdict(self).items() if name != "tiers"}


class RowError(Exception):
    """A run that cannot be; `row` is the lowest row at fault."""

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row}")
        self.row = row


class OversizeError(RowError):
    """The job could not be placed even on the empty cluster."""


class RefusedError(RowError):
    """Slot clock: not one iteration fits in a slot, even uncontended."""


class StuckError(RowError):
    """Jobs are left and nothing can ever change."""


def iteration_time(job: Job, num_servers: int, p: int, net: Net, bandwidth: float | None = None) -> float:
    """tau_j: as measured, else eq. 8, left to right as written.

    bandwidth: what a spanning job gets in a network of tiers; None: at best, or by eq. 7.
    """
    measured = job.seconds(num_servers)
    if measured is not None:
        return measured
    if num_servers < 2:
        bandwidth = net.intra
    elif bandwidth is None and net.tree is not None:
        bandwidth = at_best(job.num_gpus, num_servers, net)
    elif bandwidth is None:
        k = max(1.0, net.xi1 * p)
        bandwidth = net.inter / (k + net.alpha * (k - 1.0))
    x = job.gradient_bytes * (job.num_gpus - 1) / job.num_gpus
    return 2.0 * x / bandwidth + x / net.reduce + net.xi2 * num_servers + job.compute_time


def work(job: Job, options: Options, net: Net) -> float:
    """rho_j: the estimated run time, on one server and uncontended; the recorded one under `fixed`."""
    if options.model == "fixed":
        return job.duration
    return float(job.iterations) * iteration_time(job, 1, 0, net)


def fewest_servers(num_gpus: int, sizes: Sequence[int]) -> int:
    """Servers needed on the empty cluster, the largest taken first."""
    left = num_gpus
    for used, size in enumerate(sorted(sizes, reverse=True), start=1):
        left -= size
        if left <= 0:
            return used
    raise ValueError("larger than the cluster")


def iterations_per_slot(tau: float, slot: float) -> int:
    """phi_j, with the relative tolerance of 1e-12."""
    return math.floor(slot / tau * (1.0 + 1e-12))


def whole_slots(left: float, rate: float, work: float, mark: float = 0.0) -> int:
    """Slots until no more than `mark` of a job's work is left, `rate` of it a slot.

    Rounding is forgiven, by a part of all its work, but not where there is none: whole numbers were done
    before, and are done now.
    """
    if rate == math.floor(rate) and work - round(work - left) == left:
        return math.ceil((left - mark) / rate)
    return max(0, math.ceil((left - mark - 1e-12 * work) / rate))


def too_slow(job: Job, sizes: Sequence[int], net: Net, slot: float) -> bool:
    """Not one iteration fits in a slot, even uncontended and on the fewest servers."""
    tau0 = iteration_time(job, fewest_servers(job.num_gpus, sizes), 1, net)
    return iterations_per_slot(tau0, slot) == 0
