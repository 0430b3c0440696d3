"""A lower bound on the mean completion time of any schedule (docs/bound.md has the proof)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco import _core
from ringbco.errors import InputError
from ringbco.io.bridge import open_arrays
from ringbco.result.folder import cluster_of
from ringbco.result.rows import gpus_of
from ringbco.result.window import measured

if TYPE_CHECKING:
    from ringbco.cluster.spec import Cluster
    from ringbco.result.outcome import Outcome

Floats = NDArray[np.float64]

TERMS: Final = ("run_times", "srpt", "busy")
"""What the bound of a set follows from, in the engine's order."""
PRICES: Final = "prices"
"""What a tight bound may follow from instead."""
PRICED: Final = ("gpus", "above_half", "above_third")
"""What has a price: a GPU, and a gang of more than a half, or a third, of the GPUs."""
_READ: Final = ("submit_time", "num_gpus", "gpu_share", "ideal_run_time", "vc")


@dataclass(frozen=True)
class Bound:
    """No schedule of the jobs has a mean completion time below `mean_jct`, s, to a rounding.

    total: the same as a sum over the jobs, s. jobs: how many there are. dropped: how many were left out as
        too large. elastic: how many of the jobs may hold other GPUs than num_gpus, and did so in the bound.
    sets, set_jobs: how many sets the bound is the sum of, and how many jobs are in them, by the term that
        counts: run_times, srpt or busy; of a tight bound also prices.
    run_times: the sum of the shortest run times, s.
    vcs: the bound of each virtual cluster that has a job.
    certificate: the prices of a tight bound and what they are of, for `ringbco audit`.
    """

    total: float
    jobs: int
    sets: dict[str, int]
    set_jobs: dict[str, int]
    run_times: float
    dropped: int = 0
    elastic: int = 0
    vcs: dict[str, Bound] = field(default_factory=dict)
    certificate: dict[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def mean_jct(self) -> float:
        """The bound on the mean, s."""
        return self.total / self.jobs

    @property
    def mean_delay(self) -> float:
        """How long jobs take beyond their shortest run times on average, s, at least."""
        return max(self.total - self.run_times, 0.0) / self.jobs

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `ringbco bound --json` prints them."""
        own = {
            "mean_jct": self.mean_jct,
            "mean_delay": self.mean_delay,
            **asdict(replace(self, certificate=None)),
        }
        del own["certificate"]
        own["vcs"] = {name: bound.to_dict() for name, bound in self.vcs.items()}
        for bound in own["vcs"].values():
            del bound["vcs"], bound["dropped"], bound["elastic"]
        return own


def lower_bound(submit: Floats, shortest: Floats, work: Floats, gpus: int) -> Bound:
    """The bound of jobs on so many GPUs. shortest: run times, s. work: the least GPU-seconds of each job."""
    open_arrays()
    total, sets, jobs = _core.bound(submit, shortest, work, gpus)
    sets_of, jobs_of = (dict(zip(TERMS, counts, strict=True)) for counts in (sets, jobs))
    return Bound(total, len(submit), sets_of, jobs_of, math.fsum(shortest))


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices of GPUs over time, and the bound that they prove (docs/bound.md).

    total: no schedule has a lower sum of completion times less submissions, s. ends: when intervals begin and
    the last one ends, s, shape (intervals + 1,). prices: of a second of a GPU and of a gang of more than a
    half and of a third of the GPUs, s, each of shape (intervals,).
    """

    total: float
    ends: Floats
    prices: tuple[Floats, Floats, Floats]

    @classmethod
    def of(cls, submit: Floats, shortest: Floats, work: Floats, least: Floats, gpus: int) -> Prices:
        """Good prices. submit, shortest: s. work: GPU-seconds. least: the fewest GPUs that a job holds."""
        open_arrays()
        return cls(*_core.prices(submit, shortest, work, least, gpus))

    def greater(self, sets: Bound) -> Bound:
        """The greater of two bounds of the same jobs."""
        if self.total <= sets.total:
            return replace(sets, sets={**sets.sets, PRICES: 0}, set_jobs={**sets.set_jobs, PRICES: 0})
        none = dict.fromkeys(TERMS, 0)
        sets_of, jobs_of = {**none, PRICES: 1}, {**none, PRICES: sets.jobs}
        return replace(sets, total=self.total, sets=sets_of, set_jobs=jobs_of)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as a certificate has them."""
        prices = {row: price.tolist() for row, price in zip(PRICED, self.prices, strict=True)}
        return {"total": self.total, "ends": self.ends.tolist(), "prices": prices}


def by_cluster(vcs: Mapping[str, Bound], dropped: int = 0, elastic: int = 0) -> Bound:
    """The bound of a cluster whose virtual clusters have these; "" names a cluster without."""
    parts = list(vcs.values())
    terms = parts[0].sets if parts else TERMS
    sets, jobs = (
        {term: sum(getattr(part, name)[term] for part in parts) for term in terms}
        for name in ("sets", "set_jobs")
    )
    total, count = float(sum(part.total for part in parts)), sum(part.jobs for part in parts)
    named = {name: part for name, part in vcs.items() if name}
    run_times = float(sum(part.run_times for part in parts))
    return Bound(total, count, sets, jobs, run_times, dropped, elastic, named)


class Bounds:
    """The bounds of results, which share the work where they are of the same jobs on the same cluster."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], float | None] = {}

    def of(self, outcome: Outcome) -> float | None:
        """The bound on the mean completion time of a result's jobs on its cluster, s.

        Of a window those of the jobs submitted in it: other jobs there make them no faster.

        None where the result alone does not say it: jobs that may have held other GPUs than they ask for, or
        faster ones than they were recorded on; jobs that arrived after others; rings that may be faster over
        several servers than in one; jobs that may have held the same GPUs; a result that is damaged.
        """
        if (
            _shares_gpus(outcome)
            or _resizes(outcome)
            or "run_on_type" in outcome.jobs.columns
            or _chained(outcome)
        ):
            return None
        jobs = measured(outcome).select(name for name in _READ if name in outcome.jobs.columns)
        rows = hashlib.sha256(jobs.hash_rows().to_numpy().tobytes()).hexdigest()
        key = repr((outcome.run.get("cluster"), _recorded(outcome, "options", "model"))), rows
        if key not in self._known:
            self._known[key] = _of_result(outcome)
        return self._known[key]


def of_results(outcomes: Mapping[str, Outcome]) -> dict[str, float | None]:
    """The bound of each result, by label."""
    bounds = Bounds()
    return {label: bounds.of(outcome) for label, outcome in outcomes.items()}


def _recorded(outcome: Outcome, table: str, key: str) -> object:
    """What run.toml has there; None in a damaged one."""
    found = outcome.run.get(table)
    return found.get(key) if isinstance(found, Mapping) else None


def _resizes(outcome: Outcome) -> bool:
    """Whether jobs held other GPUs than they ask for, or a custom policy may have given them such."""
    if "run_resized" not in outcome.jobs.columns:
        return False
    held = outcome.jobs["num_gpus"] * outcome.jobs["held_time"]
    if ((outcome.jobs["held_gpu_time"] - held).abs() > 1e-9 * held).any():
        return True
    by_log = str(_recorded(outcome, "options", "policy")).startswith("log:")
    return by_log or _recorded(outcome, "own_policy", "kind") == "Policy"


def _shares_gpus(outcome: Outcome) -> bool:
    """Whether several jobs may have held the same GPUs: together they may do more than one of them."""
    most = _recorded(outcome, "options", "jobs_per_gpu")
    return isinstance(most, int) and most > 1


def _chained(outcome: Outcome) -> bool:
    """Whether jobs arrived after others: one that arrives later has a shorter completion time."""
    after = outcome.jobs.get_column("after", default=None)
    return after is not None and after.null_count() < after.len()


def _of_result(outcome: Outcome) -> float | None:
    jobs = measured(outcome)
    try:
        cluster = cluster_of(outcome.run)
        if _faster_spread(outcome, cluster):
            return None
        parts = {name: _of_columns(jobs.filter(rows), gpus) for name, rows, gpus in _parts(jobs, cluster)}
    except (InputError, _core.CoreError):
        return None
    bound = by_cluster(parts)
    return bound.mean_jct if bound.jobs == jobs.height > 0 else None


def _faster_spread(outcome: Outcome, cluster: Cluster) -> bool:
    """Whether a ring may be faster over several servers than in one."""
    network = cluster.network
    return (
        _recorded(outcome, "options", "model") not in ("fixed", "table")
        and network.inter_bandwidth > network.intra_bandwidth
        and cluster.nics == "server"
    )


def _parts(jobs: pl.DataFrame, cluster: Cluster) -> Iterator[tuple[str, pl.Series, int]]:
    """Each virtual cluster that has a job: its name, which rows are its jobs, its GPUs."""
    names: Sequence[str] = cluster.vc_names
    if not names:
        yield "", pl.repeat(True, jobs.height, eager=True), cluster.num_gpus
    elif "vc" in jobs.columns:
        for name in names:
            rows = (jobs["vc"] == name).fill_null(False)
            if rows.any():
                yield name, rows, int(cluster.server_gpus[cluster.vc_servers(name)].sum())


def _of_columns(jobs: pl.DataFrame, gpus: int) -> Bound:
    submit, ideal = (jobs[name].cast(pl.Float64).to_numpy() for name in ("submit_time", "ideal_run_time"))
    return lower_bound(submit, ideal, gpus_of(jobs) * ideal, gpus)
