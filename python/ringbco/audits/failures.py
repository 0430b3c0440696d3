"""Nothing runs on a server that is down, and a job falls back to its last checkpoint (docs/outages.md).

What follows from the allocations, the folder's outages.parquet and the job table alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ringbco.audits import rungs
from ringbco.audits.findings import Check, blame, blame_stretches, number
from ringbco.audits.rows import compare, numeric

if TYPE_CHECKING:
    import polars as pl

    from ringbco.audits.contention import Episodes
    from ringbco.audits.facts import Bools, Facts, Floats, Ints


@dataclass(frozen=True)
class Failed:
    """Which episodes a failing server ended, and what that took. A value an episode.

    outage: which one; -1 for none. until: the time up to which what was done is kept, s. lost: seconds.
    """

    outage: Ints
    until: Floats
    lost: Floats

    @property
    def at_all(self) -> Bools:
        """Whether it failed."""
        return np.asarray(self.outage >= 0)


def failed(facts: Facts, eps: Episodes) -> Bools:
    """Which episodes ended as a server of theirs went down, before their job was done."""
    return _outage_of(facts, eps) >= 0


def _outage_of(facts: Facts, eps: Episodes) -> Ints:
    """The outage that ended each episode, of its lowest server that failed then; -1 for none."""
    none = np.full(eps.job.size, -1)
    if facts.outages is None or not eps.job.size:
        return none
    found = facts.outages.begins(eps.pair_server, eps.end[eps.pair_episode])
    which = np.flatnonzero(found >= 0)[::-1]  # pairs are in order of servers: the lowest is written last
    none[eps.pair_episode[which]] = found[which]
    last = np.append(eps.job[1:] != eps.job[:-1], True)
    none[last | ~np.isnan(rungs.rests(facts, eps))] = -1
    return none


def losses(facts: Facts, eps: Episodes, begin: Floats) -> Failed:
    """What each failed episode lost. begin: where its progress began, s."""
    outage = _outage_of(facts, eps)
    bad = outage >= 0
    every = _intervals(facts)[eps.job]
    passed = np.maximum(eps.end - begin, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        count = np.floor(passed / every * (1.0 + 1e-12))
        at = begin + count * every
    if facts.slots:
        # Counted from near where progress began: far from zero so little is more than a slot.
        near = np.floor(begin / facts.slot) * facts.slot
        at = near + np.ceil((at - near) / facts.slot * (1.0 - 1e-12)) * facts.slot
    at = np.where(every == np.inf, begin, np.where(count >= 1, np.minimum(at, eps.end), begin))
    at = np.where((every == 0) | (passed <= 0), eps.end, at)
    until = np.where(bad, at, eps.end)
    return Failed(outage, until, eps.end - until)


def _intervals(facts: Facts) -> Floats:
    """Seconds of progress between two checkpoints of each job."""
    default = float(facts.options.get("checkpoint_interval", 1800.0))
    frame = facts.table.frame
    if "checkpoint_interval" not in frame.columns:
        return np.full(facts.row.size, default)
    own = frame["checkpoint_interval"].fill_null(default).to_numpy()
    return np.asarray(own[facts.row], np.float64)


def check_outages(check: Check, facts: Facts, jobs: pl.DataFrame, eps: Episodes, begin: Floats) -> None:
    """Nothing runs on a server that is down; failures and lost_work follow from the stretches."""
    down = facts.outages
    if down is None:
        check.not_run = "the run knows no outages"
        return
    check.looked_at = facts.a_job.size + facts.done
    at = down.latest(facts.a_server, facts.a_end)
    if down.server.size:
        over = (at >= 0) & (down.up[at] > facts.a_start) & (facts.a_end > facts.a_start)
        blame_stretches(
            check,
            facts,
            np.flatnonzero(over),
            lambda i: (
                f"holds GPUs of server {facts.a_server[i]}, which is down from {number(down.down[at[i]])}"
                f" to {number(down.up[at[i]])} s"
            ),
        )
    if not {"failures", "lost_work"} <= set(jobs.columns):
        check.fail("jobs.parquet has no columns failures and lost_work; the run knows outages")
        return
    found = losses(facts, eps, begin)
    counted = np.bincount(eps.job[found.at_all], minlength=facts.row.size)[: facts.done]
    reported = jobs["failures"].to_numpy().astype(np.int64)
    blame(
        check,
        facts,
        np.flatnonzero(counted != reported),
        lambda j: f"failures is {reported[j]}; expected {counted[j]}",
    )
    lost = np.bincount(eps.job, found.lost, facts.row.size)
    slack = 1e-9 * lost + 8 * np.spacing(facts.finish)
    compare(check, facts, numeric(jobs, "lost_work"), lost, slack)


def effective(facts: Facts, ideal: Floats) -> float:
    """The mean of ideal run time over the time taken, of the jobs that were done; 1 for one of no time."""
    taken = (facts.finish - facts.start)[facts.finished]
    return float(np.divide(ideal, taken, out=np.ones_like(taken), where=taken > 0).mean())


def figures(facts: Facts, eps: Episodes, begin: Floats, held: float, paused: float) -> dict[str, Any]:
    """What a summary says of outages. held, paused: GPU-seconds of the jobs that were done."""
    found = losses(facts, eps, begin)
    mine = found.at_all & facts.finished[eps.job]
    gpus = facts.weight[eps.job] if facts.shared else eps.gpus
    lost = (gpus * found.lost)[mine]
    assert facts.outages is not None, "outages"
    by_cause: dict[str, float] = {}
    for outage, seconds in zip(found.outage[mine].tolist(), lost.tolist(), strict=True):
        cause = facts.outages.cause[outage]
        by_cause[cause] = by_cause.get(cause, 0.0) + seconds / 3600.0
    done = facts.finished
    ideal = facts.workload.ideal_run_time[facts.row[done]]
    return {
        "failures": int(mine.sum()),
        "lost_work_gpu_seconds": float(lost.sum()),
        "goodput": 1.0 - (paused + float(lost.sum())) / held if held > 0 else 1.0,
        "effective_training_time_ratio": effective(facts, ideal),
        "lost_gpu_hours_by_cause": by_cause,
    }
