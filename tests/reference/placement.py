"""Placements: from the idle GPUs and their accumulated time U to the GPUs one job gets, or None: it waits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reference.model import GPU, Job, Options

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class ClusterState:
    """The servers as one placement sees them: sizes by server index, idle GPUs in order, U of every GPU."""

    sizes: dict[int, int]
    idle: list[GPU]
    load: dict[GPU, float]

    def idle_on(self, server: int) -> list[GPU]:
        return [g for g in self.idle if g[0] == server]

    def least(self, gpus: Sequence[GPU], count: int) -> list[GPU]:
        """The `count` GPUs with least U; ties by server, then GPU."""
        return sorted(gpus, key=lambda g: (self.load[g], g))[:count]


def place(job: Job, cluster: ClusterState, options: Options, rng: int) -> tuple[list[GPU] | None, int]:
    """The GPUs `job` would get now and the state of the random numbers afterwards."""
    name = options.placement
    if name == "sjf-bco":
        name = "fa-ffp" if job.num_gpus <= options.kappa else "lbsgf"
    if name == "random":
        return _random(job.num_gpus, cluster, rng)
    if name == "first-fit":
        return _first_fit(job.num_gpus, cluster), rng
    if name == "emptiest":
        return _emptiest(job.num_gpus, cluster), rng
    if name == "consolidate":
        return _consolidate(job.num_gpus, cluster), rng
    if name == "least-loaded" or (name == "fa-ffp" and options.variant == "literal"):
        return _least_loaded(job.num_gpus, cluster), rng
    if name == "fa-ffp":
        return _fa_ffp(job.num_gpus, cluster), rng
    if name == "lbsgf":
        return _lbsgf(job.num_gpus, cluster, options), rng
    raise ValueError(name)


def _first_fit(w: int, cluster: ClusterState) -> list[GPU] | None:
    return cluster.idle[:w] if len(cluster.idle) >= w else None


def _emptiest(w: int, cluster: ClusterState) -> list[GPU] | None:
    emptiest = sorted(cluster.idle, key=lambda gpu: (-len(cluster.idle_on(gpu[0])), gpu))
    return emptiest[:w] if len(emptiest) >= w else None


def _least_loaded(w: int, cluster: ClusterState) -> list[GPU] | None:
    return cluster.least(cluster.idle, w) if len(cluster.idle) >= w else None


def _consolidate(w: int, cluster: ClusterState) -> list[GPU] | None:
    largest = max(cluster.sizes.values())
    if w <= largest:
        holding = [s for s in cluster.sizes if len(cluster.idle_on(s)) >= w]
        if not holding:
            return None
        return cluster.idle_on(min(holding, key=lambda s: (len(cluster.idle_on(s)), s)))[:w]
    whole = [s for s, size in cluster.sizes.items() if size == largest and len(cluster.idle_on(s)) == size]
    count, rest = divmod(w, largest)
    if len(whole) < count:
        return None
    chosen = whole[:count]
    gpus = [g for s in chosen for g in cluster.idle_on(s)]
    if rest:
        others = [s for s in cluster.sizes if s not in chosen]
        if not others:
            return None
        last = min(others, key=lambda s: (-len(cluster.idle_on(s)), s))
        if len(cluster.idle_on(last)) < rest:
            return None
        gpus += cluster.idle_on(last)[:rest]
    return gpus


def splitmix64(state: int) -> tuple[int, int]:
    """The next number and the next state (Steele, Lea and Flood 2014)."""
    state = (state + GOLDEN) & MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31), state


def _random(w: int, cluster: ClusterState, rng: int) -> tuple[list[GPU] | None, int]:
    """Floyd's algorithm over the ranks of the idle GPUs."""
    idle = len(cluster.idle)
    if idle < w:
        return None, rng
    taken: set[int] = set()
    for i in range(idle - w, idle):
        number, rng = splitmix64(rng)
        t = (number * (i + 1)) >> 64
        taken.add(i if t in taken else t)
    return [cluster.idle[rank] for rank in sorted(taken)], rng


def _fa_ffp(w: int, cluster: ClusterState) -> list[GPU] | None:
    """The practical reading: few idle GPUs first, opened servers before unopened ones."""
    if len(cluster.idle) < w:
        return None
    opened = [s for s, size in cluster.sizes.items() if len(cluster.idle_on(s)) < size]
    unopened = [s for s in cluster.sizes if s not in opened]
    for group in (opened, unopened):
        holding = [s for s in group if len(cluster.idle_on(s)) >= w]
        if holding:
            best = min(holding, key=lambda s: (len(cluster.idle_on(s)), s))
            return cluster.least(cluster.idle_on(best), w)
    gpus: list[GPU] = []
    for group in (opened, unopened):
        for s in sorted(group, key=lambda s: (-len(cluster.idle_on(s)), s)):
            gpus += cluster.least(cluster.idle_on(s), w - len(gpus))
    return gpus


def _lbsgf(w: int, cluster: ClusterState, options: Options) -> list[GPU] | None:
    def mean_load(s: int) -> float:
        total = 0.0
        for g in range(cluster.sizes[s]):
            total += cluster.load[s, g]
        return total / cluster.sizes[s]

    prefix: list[int] = []
    room = 0
    for s in sorted(cluster.sizes, key=lambda s: (mean_load(s), s)):
        if room >= options.lambda_ * w:
            break
        prefix.append(s)
        room += cluster.sizes[s] if options.variant == "literal" else len(cluster.idle_on(s))
    candidates = [g for g in cluster.idle if g[0] in prefix]
    return cluster.least(candidates, w) if len(candidates) >= w else None


def clusters(
    jobs: Sequence[Job], servers: Sequence[int], server_vc: Sequence[int] | None, seed: int
) -> Iterator[tuple[dict[int, int], dict[int, Job], int]]:
    """The cluster, or each virtual one: its servers (index to size), its jobs by row, its random numbers."""
    for v in sorted(set(server_vc)) if server_vc is not None else [0]:
        sizes = {s: size for s, size in enumerate(servers) if server_vc is None or server_vc[s] == v}
        mine = {row: job for row, job in enumerate(jobs) if server_vc is None or job.vc == v}
        yield sizes, mine, (seed + v * GOLDEN) & MASK
