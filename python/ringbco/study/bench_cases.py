"""What `ringbco bench` replays: its cases, the clusters they grow to, and the jobs generated for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from ringbco.cluster.groups import MAX_GPUS
from ringbco.cluster.spec import Cluster
from ringbco.trace.jobs import JobTable, from_frame
from ringbco.trace.synthetic import generate

CLUSTER: Final = "256x8"
LOAD: Final = 0.9
HIGH_LOAD: Final = 1.5
BURST: Final = 10_000
MANY_SERVERS: Final = 100_000


@dataclass(frozen=True)
class Case:
    """One row of the benchmark: what is replayed, on what, and how.

    servers: to how many the cluster grows, by repeating its own; None leaves it as it is.
    arrivals: where the generated submissions go. "spread": as generated; "bursts": each 10,000 in one second;
    "half at once": every second job comes with the first one; "filled": sped up until the jobs running at the
    last submission ask for every GPU. The first and the last stay, but for "filled".
    """

    group: str
    label: str
    policy: str
    jobs: int = 0
    servers: int | None = None
    load: float = LOAD
    arrivals: str = "spread"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def work(self) -> tuple[Any, ...]:
        """What is measured, whatever it is called: cases of equal work are measured once."""
        return (self.policy, *self.trace, tuple(sorted(self.options.items())))

    @property
    def trace(self) -> tuple[Any, ...]:
        """What decides the generated jobs."""
        return (self.jobs, self.servers, self.load, self.arrivals)


#: The policies whose speed is named, with their options.
POLICIES: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "fifo, fixed": ("fifo", {"model": "fixed"}),
    "sjf": ("sjf", {}),
    "sjf-bco practical": ("sjf-bco", {}),
    "sjf-bco literal": ("sjf-bco", {"variant": "literal"}),
}
#: Preemptive ones, measured at one size.
PREEMPTIVE: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "srtf": ("srtf", {"model": "fixed"}),
    "tiresias": ("tiresias", {"model": "fixed"}),
}
DISCIPLINES: Final = ("strict", "skip", "easy")


def policy_cases(names: Sequence[str], jobs: int) -> list[Case]:
    """The named policies; of none, the ones of `POLICIES`."""
    if not names:
        named = {**POLICIES, **PREEMPTIVE}
        return [Case("policy", label, policy, jobs, options=o) for label, (policy, o) in named.items()]
    return [Case("policy", name, name, jobs) for name in names]


def scaling_cases(jobs: int, cluster: Cluster) -> list[Case]:
    """Cost per job as jobs, servers, and the queue grow, and as arrivals come in bursts."""
    by_jobs, by_servers, filled, queues = [], [], [], []
    sizes = _server_counts(cluster)
    for label, (policy, options) in POLICIES.items():
        for count in (jobs // 100, jobs // 10, jobs):
            by_jobs.append(Case("jobs", label, policy, max(count, 1), options=options))
        for servers in (None, *sizes):
            by_servers.append(Case("servers", label, policy, jobs, servers, options=options))
        # A million jobs at this load are over before they fill 800,000 GPUs; these do fill them.
        if sizes:
            filled.append(
                Case("servers", f"{label}, filled", policy, jobs, sizes[-1], LOAD, "filled", options)
            )
    for policy in ("sjf", "fifo"):
        for queue in DISCIPLINES:
            options = {} if queue == "strict" else {"queue": queue}  # strict is what both do by default
            label = f"{policy}, {queue}"
            for load, arrivals in ((LOAD, "spread"), (HIGH_LOAD, "spread"), (HIGH_LOAD, "half at once")):
                queues.append(Case("queue", label, policy, jobs, None, load, arrivals, options))
    bursts = [
        Case("bursts", "spread", "sjf-bco", jobs),
        Case("bursts", f"in bursts of {BURST:,}", "sjf-bco", jobs, arrivals="bursts"),
    ]
    return by_jobs + by_servers + filled + queues + bursts


def _server_counts(cluster: Cluster) -> list[int]:
    """The sizes that the cluster grows to."""
    most = MAX_GPUS // int(cluster.server_gpus.max())
    wanted = (16 * cluster.num_servers, min(MANY_SERVERS, most))
    return sorted({servers for servers in wanted if cluster.num_servers < servers <= most})


def grown(cluster: Cluster, servers: int | None) -> Cluster:
    """The cluster with that many servers, its own over and over."""
    if servers is None:
        return cluster
    return dataclasses.replace(cluster, server_gpus=np.resize(cluster.server_gpus, servers))


def jobs_of(case: Case, cluster: Cluster, seed: int) -> JobTable:
    """The generated jobs of a case, for the cluster that it grows to."""
    gpus = grown(cluster, case.servers).num_gpus
    table = generate("philly", case.jobs, seed, gpus=gpus, load=case.load)
    submit = table.frame["submit_time"].to_numpy()
    rows = np.arange(submit.size)
    if case.arrivals == "bursts":
        moved = submit[rows // BURST * BURST]
    elif case.arrivals == "half at once":
        moved = np.where((rows % 2 == 0) & (rows < submit.size - 1), submit[0], submit)
    elif case.arrivals == "filled":
        moved = _filling(table, gpus)
    else:
        return table
    frame = table.frame.with_columns(pl.Series("submit_time", moved))
    return from_frame(frame.sort("submit_time", maintain_order=True), table.source)


def _filling(table: JobTable, gpus: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Submissions sped up until those of the jobs that would still run at the last one ask for `gpus`.

    A job still runs then at every speed-up above (last - submit) / duration. Where all jobs together ask for
    less, all of them are made to run at once.
    """
    submit, duration = (table.frame[name].to_numpy() for name in ("submit_time", "duration"))
    from_last = (submit[-1] - submit) / duration
    soonest = np.argsort(from_last, kind="stable")
    asked = np.cumsum(table.frame["num_gpus"].to_numpy()[soonest], dtype=np.int64)
    needed = from_last[soonest[min(int(np.searchsorted(asked, gpus)), submit.size - 1)]]
    return np.asarray(np.rint(submit / max(1.0, float(needed))))


def offered_load(table: JobTable, cluster: Cluster) -> float | None:
    """GPU-seconds / span of submissions / GPUs, as `inspect` has it; None where all come at once."""
    frame = table.frame
    submit = frame["submit_time"]
    span = float(submit.max() - submit.min())  # type: ignore[arg-type,operator]
    work = float((frame["num_gpus"].to_numpy() * frame["duration"].to_numpy()).sum())
    return work / span / cluster.num_gpus if span > 0 else None
