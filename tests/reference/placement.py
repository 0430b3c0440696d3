"""Placements: from the idle GPUs and their accumulated time U to the GPUs one job gets, or None: it waits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reference.compact import compact
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
    return (_whole_pods(name, job, cluster, options) if holds(job, cluster) else None), rng


def holds(job: Job, cluster: ClusterState) -> bool:
    """Whether the idle GPUs of the servers are enough for its pods, each on one server."""
    pods = sum(len(cluster.idle_on(s)) // job.pod for s in cluster.sizes)
    return pods >= job.num_gpus // job.pod


def _whole_pods(name: str, job: Job, cluster: ClusterState, options: Options) -> list[GPU] | None:
    w, g = job.num_gpus, job.pod
    idle = {s: len(cluster.idle_on(s)) for s in sorted(cluster.sizes)}
    if name == "first-fit":
        return _in_order(job, list(idle), cluster)
    if name == "emptiest":
        return _in_order(job, sorted(idle, key=lambda s: (-(idle[s] // g), s)), cluster)
    if name == "binpack":
        return _in_order(job, sorted(idle, key=lambda s: (idle[s], s)), cluster)
    if name == "compact":
        return compact(job, {s: cluster.idle_on(s) for s in sorted(cluster.sizes)}, options.tiers)
    if name == "consolidate":
        return _consolidate(job, cluster)
    if name == "least-loaded" or (name == "fa-ffp" and options.variant == "literal"):
        return _pod_by_pod(job, cluster.idle, cluster)
    if name == "fa-ffp":
        return _fa_ffp(w, g, cluster)
    if name == "lbsgf":
        return _lbsgf(job, cluster, options)
    raise ValueError(name)


def _in_order(job: Job, servers: Sequence[int], cluster: ClusterState) -> list[GPU]:
    """As many pods of each server as it holds, until there are enough."""
    gpus: list[GPU] = []
    for s in servers:
        here = cluster.idle_on(s)
        gpus += here[: min(len(here) // job.pod * job.pod, job.num_gpus - len(gpus))]
    return gpus


def _pod_by_pod(job: Job, idle: Sequence[GPU], cluster: ClusterState) -> list[GPU]:
    """Each pod where its GPUs with least U have the least sum, added up by index; ties the lower server."""
    left, gpus = list(idle), list[GPU]()
    while len(gpus) < job.num_gpus:
        choices = []
        for s in cluster.sizes:
            pod = cluster.least([gpu for gpu in left if gpu[0] == s], job.pod)
            if len(pod) == job.pod:
                total = 0.0
                for gpu in sorted(pod):
                    total += cluster.load[gpu]
                choices.append((total, s, pod))
        _, _, pod = min(choices, key=lambda choice: choice[:2])
        gpus += pod
        left = [gpu for gpu in left if gpu not in pod]
    return gpus


def _consolidate(job: Job, cluster: ClusterState) -> list[GPU] | None:
    w, g = job.num_gpus, job.pod
    largest = max(cluster.sizes.values())
    idle = {s: cluster.idle_on(s) for s in sorted(cluster.sizes)}
    if w <= largest:
        holding = [s for s in idle if len(idle[s]) >= w]
        return idle[min(holding, key=lambda s: (len(idle[s]), s))][:w] if holding else None
    most = largest // g
    count, rest = divmod(w // g, most)
    chosen = [s for s in idle if len(idle[s]) >= g * most][:count]
    if len(chosen) < count:
        return None
    gpus = [gpu for s in chosen for gpu in idle[s][: g * most]]
    if rest:
        others = [s for s in idle if s not in chosen]
        last = min(others, key=lambda s: (-len(idle[s]), s), default=None)
        if last is None or len(idle[last]) < g * rest:
            return None
        gpus += idle[last][: g * rest]
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


def _fa_ffp(w: int, g: int, cluster: ClusterState) -> list[GPU]:
    """The practical reading: few idle GPUs first, opened servers before unopened ones."""
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
            here = cluster.idle_on(s)
            gpus += cluster.least(here, min(len(here) // g * g, w - len(gpus)))
    return gpus


def _lbsgf(job: Job, cluster: ClusterState, options: Options) -> list[GPU] | None:
    def mean_load(s: int) -> float:
        total = 0.0
        for g in range(cluster.sizes[s]):
            total += cluster.load[s, g]
        return total / cluster.sizes[s]

    prefix: list[int] = []
    room = candidates = 0
    for s in sorted(cluster.sizes, key=lambda s: (mean_load(s), s)):
        if room >= options.lambda_ * job.num_gpus:
            break
        prefix.append(s)
        whole = len(cluster.idle_on(s)) // job.pod * job.pod
        candidates += whole
        room += cluster.sizes[s] if options.variant == "literal" else whole
    if candidates < job.num_gpus:
        return None
    return _pod_by_pod(job, [g for g in cluster.idle if g[0] in prefix], cluster)


def clusters(
    jobs: Sequence[Job], servers: Sequence[int], server_vc: Sequence[int] | None, seed: int
) -> Iterator[tuple[dict[int, int], dict[int, Job], int]]:
    """The cluster, or each virtual one: its servers (index to size), its jobs by row, its random numbers."""
    for v in sorted(set(server_vc)) if server_vc is not None else [0]:
        sizes = {s: size for s, size in enumerate(servers) if server_vc is None or server_vc[s] == v}
        mine = {row: job for row, job in enumerate(jobs) if server_vc is None or job.vc == v}
        yield sizes, mine, (seed + v * GOLDEN) & MASK
