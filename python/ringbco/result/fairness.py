"""Who got what: figures by owner, how unequal users fare, and who pays for a policy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ringbco.errors import UsageError
from ringbco.result.figures import evaluate
from ringbco.result.metrics import gini, jain_index
from ringbco.result.owners import NOBODY, called, with_owners
from ringbco.result.rows import JobArrays, Rows
from ringbco.result.window import measured
from ringbco.trace.quotas import Quotas
from ringbco.units import duration, same

if TYPE_CHECKING:
    from ringbco.result.outcome import Outcome

_HOUR: Final = 3600.0
_WORST: Final = 0.05
_PAYERS: Final = 3


def by_owner(outcome: Outcome, column: str) -> pl.DataFrame:
    """One row per owner, those with most GPU-hours first; jobs that name none are one owner.

    column: of the job table, of text or of integers. Columns: owner; jobs; gpu_hours; share, of all owners'
    GPU-hours; due, the owner's share of the quotas of the first file, if they are of this column, else 1 /
    owners; ratio, share / due; mean_wait, s; mean_slowdown. Raises UsageError as `owners_of` does, and where
    no job has an owner.
    """
    jobs = _owned(outcome, column)
    rows = []
    for (owner,), own in jobs.group_by(called(column), maintain_order=True):
        of = Rows("jobs", JobArrays(own))
        told = evaluate(of)
        rows.append(
            {
                "owner": owner,
                "jobs": own.height,
                "gpu_hours": of.sum("held") / _HOUR,
                "mean_wait": told["mean_wait"],
                "mean_slowdown": told["mean_slowdown"],
            }
        )
    frame = pl.DataFrame(rows)
    due = _quotas(outcome, column)
    share = pl.col("gpu_hours") / pl.col("gpu_hours").sum()
    fair = pl.lit(1.0 / frame.height) if due is None else pl.col("owner").replace_strict(due, default=None)
    frame = frame.with_columns(share=share, due=fair.cast(pl.Float64))
    ratio = pl.when(pl.col("due") > 0).then(pl.col("share") / pl.col("due"))
    order = ["owner", "jobs", "gpu_hours", "share", "due", "ratio", "mean_wait", "mean_slowdown"]
    return (
        frame.with_columns(ratio=ratio).select(order).sort("gpu_hours", descending=True, maintain_order=True)
    )


def _owned(outcome: Outcome, column: str) -> pl.DataFrame:
    """The measured jobs with their owners; UsageError where no job has one."""
    jobs = measured(with_owners(outcome, [column]))
    if (jobs[called(column)] == NOBODY).all():
        raise UsageError(
            f"option by: {column}: expected a job table whose column {column} says whose jobs are"
        )
    return jobs


def others(outcome: Outcome, column: str, named: Sequence[str]) -> dict[str, Any] | None:
    """What `by_owner` tells, of all owners but the named ones as if they were one; None where there are none.

    due is the sum of theirs, None where one has none.
    """
    of = by_owner(outcome, column).filter(~pl.col("owner").is_in(named))
    own = _owned(outcome, column).filter(~pl.col(called(column)).is_in(named))
    if not of.height:
        return None
    told = evaluate(Rows("jobs", JobArrays(own)))
    due = None if of["due"].null_count() else float(of["due"].sum())
    share = float(of["share"].sum())
    return {
        **{name: of[name].sum() for name in ("jobs", "gpu_hours")},
        "share": share,
        "due": due,
        "ratio": share / due if due else None,
        **{name: told[name] for name in ("mean_wait", "mean_slowdown")},
    }


def _quotas(outcome: Outcome, column: str) -> dict[str, float] | None:
    """Each owner's share of the quotas of the first file; None where these are not of this column."""
    quota = outcome.quota
    if quota is None or Quotas(quota, "").column != column:
        return None
    total = float(quota["gpus"].sum())
    return dict(zip(quota[column], (quota["gpus"] / total if total else quota["gpus"] * 0.0), strict=True))


def inequality(outcome: Outcome) -> dict[str, float]:
    """How unequal users fare, by the mean of ideal_run_time / jct over each one's jobs: 1 is full speed.

    jain: Jain's index, as jain_index_users; gini: Gini's coefficient, 0 where all are alike; worst: the mean
    of the worst twentieth of the users, at least one of them. Nothing where no job names a user.
    """
    speeds = Rows("jobs", JobArrays(measured(outcome))).speeds
    if not speeds.size:
        return {}
    speeds.sort()
    worst = speeds[: math.ceil(_WORST * speeds.size)]
    return {"jain": jain_index(speeds), "gini": gini(speeds), "worst": float(worst.mean())}


def by(outcomes: Mapping[str, Outcome], column: str) -> pl.DataFrame:
    """`by_owner` of every outcome, with its label in the first column, policy."""
    frames = [
        by_owner(outcome, column).select(pl.lit(label).alias("policy"), pl.all())
        for label, outcome in outcomes.items()
    ]
    return pl.concat(frames)


def payers(outcomes: Mapping[str, Outcome], against: str, *columns: str) -> Iterator[str]:
    """Who pays: the owners and the sizes of jobs whose mean wait rose most against a label's, in words."""
    before = outcomes[against]
    for label, outcome in outcomes.items():
        if label != against:
            rose = _rose(before, outcome, columns)
            if rose:
                yield f"longer waits under {label} than under {against}: {'; '.join(rose)}"
            else:
                owners = " and no ".join(columns)
                yield f"no {owners} and no job size waits longer under {label} than under {against}"


def _rose(before: Outcome, after: Outcome, columns: Sequence[str]) -> list[str]:
    """Of owners and of sizes each those whose mean wait rose most, in words."""
    found: list[str] = []
    for column in columns:
        waits = [
            dict(zip(frame["owner"], frame["mean_wait"], strict=True))
            for frame in (by_owner(one, column) for one in (before, after))
        ]
        found += _most(*waits, prefix=f"{column} ")
    sizes = [
        {f"jobs of {_size(one['gpus'])}": one["mean_wait"] for one in outcome.summary["size_classes"]}
        for outcome in (before, after)
    ]
    return [*found, *_most(*sizes, prefix="")]


def _size(name: str) -> str:
    if name == "1":
        return "1 GPU"
    return f"{name.removesuffix('-')} or more GPUs" if name.endswith("-") else f"{name} GPUs"


def _most(before: dict[str, Any], after: dict[str, Any], *, prefix: str) -> list[str]:
    rose = {
        name: wait - before[name]
        for name, wait in after.items()
        if name in before and wait > before[name] and not same(wait, before[name])
    }
    first = sorted(rose, key=lambda name: -rose[name])[:_PAYERS]
    return [f"{prefix}{name} {duration(after[name])} (was {duration(before[name])})" for name in first]
