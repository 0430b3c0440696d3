"""Two results of the same jobs: how much sooner or later each job finished, and by what (docs/diff.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.deprecation import renamed
from ringbco.errors import InputError, show_value
from ringbco.io.forks import use_polars
from ringbco.result.causes import WAITS
from ringbco.result.metrics import column, statistics
from ringbco.result.owners import called, with_owners
from ringbco.result.rows import SIZE_CLASSES
from ringbco.result.window import measured
from ringbco.units import duration, percent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    import ringbco

MOST: Final = 20
"""Jobs that are named on either side."""
PARTS: Final = {
    **WAITS,
    "paused_time": "paused at rungs",
    "ideal_run_time": "running, as if alone",
    "run_spread": "spread",
    "run_contention": "contention",
    "run_resized": "resized",
    "run_on_type": "other GPU type",
    "run_cut": "work cut by a limit",
    "lost_time": "pausing, saving",
    "lost_work": "lost work",
}
"""Columns of jobs.parquet that add up to jct, and what people call them."""
WHOLE: Final = "completion time"
_RUNS: Final = ("run_spread", "run_contention", "run_resized", "run_on_type", "run_cut")
_NEEDED: Final = (*WAITS, "run_spread", "run_contention")
_CHANGES: Final = ("faster", "slower", "same")
_ROUNDING: Final = 1e-9
"""Of a time: less is rounding."""


def parts_of(outcome: ringbco.Outcome) -> dict[str, NDArray[np.float64]]:
    """Of each measured job the seconds of every one of `PARTS`, which add up to its jct.

    Columns that a result lacks are 0. Waits are those of the job's stays, where the result has stays. The
    columns of causes are single precision: what rounding leaves of a wait, or of a run beyond
    ideal_run_time, goes to the largest of its parts.

    Raises InputError for a result without the causes, and for one whose parts are no numbers.
    """
    jobs = measured(outcome)
    missing = [name for name in _NEEDED if name not in jobs.columns]
    if missing:
        raise InputError(
            f"jobs without {', '.join(missing)} do not say where their time went",
            hint="make the result again with this version",
        )
    known = {name for name in PARTS if name in jobs.columns}
    zeros = np.zeros(jobs.height)
    parts = {name: jobs[name].cast(pl.Float64).to_numpy() if name in known else zeros for name in PARTS}
    if outcome.stays_written is not None:
        sums = outcome.stays_written.group_by("job_id").agg(pl.col(*WAITS).sum())
        own = jobs.select("job_id").join(sums, on="job_id", how="left", maintain_order="left")
        parts |= {name: own[name].fill_null(0.0).to_numpy() for name in WAITS}
    jct = column(jobs, "jct")
    held = column(jobs, "held_time" if "held_time" in jobs.columns else "run_time")
    _close(parts, tuple(WAITS), jct - held - parts["paused_time"], jct)
    apart = ("ideal_run_time", "lost_time", "lost_work")
    _close(parts, _RUNS, held - sum(parts[name] for name in apart), jct)
    for name, seconds in parts.items():
        if not np.isfinite(seconds).all():
            row = int(np.flatnonzero(~np.isfinite(seconds))[0])
            job = show_value(jobs["job_id"][row])
            raise InputError(f"seconds of job {job}", column=name, value=float(seconds[row]))
    return parts


def _close(
    parts: dict[str, NDArray[np.float64]],
    names: tuple[str, ...],
    whole: NDArray[np.float64],
    jct: NDArray[np.float64],
) -> None:
    """Lets parts add up to `whole`: the largest takes what rounding left."""
    rows = np.array([parts[name] for name in names])
    rest = whole - rows.sum(axis=0)
    rest[np.abs(rest) <= _ROUNDING * jct] = 0.0
    rows[np.abs(rows).argmax(axis=0), np.arange(rest.size)] += rest
    parts |= dict(zip(names, rows, strict=True))


@dataclass(frozen=True, eq=False)
class Diff:
    """What two results, a and b, make of the same jobs. Times in seconds; differences are b's less a's.

    jobs: one row per job that both have, in a's row order: job_id, user where a has users, submit_time (of
        the job table), num_gpus, jct_a, jct_b, difference, change ("faster", "slower" or "same": within
        rounding), and for each part its difference under its own name, NAME_a and NAME_b.
    parts: the names of the parts, those that are 0 in both results left out.
    by: the columns of owners that `jobs` has beside user.
    a, b: policy, cluster, how many jobs each result has, and how many of them the other lacks.
    """

    jobs: pl.DataFrame
    parts: tuple[str, ...]
    a: Mapping[str, Any]
    b: Mapping[str, Any]
    by: tuple[str, ...] = ()

    @property
    def table(self) -> pl.DataFrame:
        """One row per job: its completion times, their difference and that of each part."""
        beside = [f"{name}_{side}" for name in self.parts for side in "ab"]
        return self.jobs.drop("change", *beside, *map(called, self.by))

    @property
    def same(self) -> bool:
        """Whether no job's completion time differs."""
        return bool((self.jobs["change"] == "same").all())

    def headings(self, names: tuple[str, str]) -> list[str]:
        """What A and B are. names: what to call them."""
        return [
            f"{side}: {name}, {told['policy']} on {told['cluster']}, {told['jobs']:,} jobs"
            + (f", {told['only_here']:,} of them only in {side}" if told["only_here"] else "")
            for side, name, told in zip("AB", names, (self.a, self.b), strict=True)
        ]

    def sentences(self) -> list[str]:
        """The answer in words."""
        found = self.figures(self.jobs)
        if self.same:
            return [f"the same: no completion time of {found['jobs']:,} jobs differs"]
        mean = found["mean_jct"]
        a, b, difference = duration(mean["a"]), duration(mean["b"]), mean["difference"]
        share = abs(difference) / mean["a"] if mean["a"] else 0.0
        side = "below" if difference < 0 else "above"
        faster, slower, same = (percent(found[f"{change}_share"], 1) for change in _CHANGES)
        return [
            f"mean {WHOLE} in B is {b}, {percent(share, 1)} {side} A's {a}",
            f"of {found['jobs']:,} jobs in both {faster} are faster in B, {slower} slower, {same} the same",
        ]

    def figures(self, jobs: pl.DataFrame) -> dict[str, Any]:
        """Of some rows of `jobs`: their number, mean and median, who is faster, and the means by part."""
        columns = {"a": "jct_a", "b": "jct_b", "difference": "difference"}
        told = {side: statistics(column(jobs, name)) for side, name in columns.items()}
        counts = {change: int((jobs["change"] == change).sum()) for change in _CHANGES}
        return {
            "jobs": jobs.height,
            **{
                f"{name}_jct": {side: found[name] for side, found in told.items()}
                for name in ("mean", "median")
            },
            **counts,
            **{f"{change}_share": count / jobs.height for change, count in counts.items()},
            "parts": {
                name: {side: float(column(jobs, of).mean()) for side, of in _sides(name).items()}
                for name in self.parts
            },
        }

    def size_classes(self) -> list[dict[str, Any]]:
        """The figures by size class, as summary.json has them; none of a class without jobs."""
        found, least = [], 1
        for name, most in SIZE_CLASSES:
            jobs = self.jobs.filter(pl.col("num_gpus").is_between(least, most))
            if jobs.height:
                found.append({"gpus": name, **self.figures(jobs)})
            least = most + 1
        return found

    def users(self) -> list[dict[str, Any]]:
        """The figures by user, those first whose jobs gained or lost most time; none without users."""
        return self._groups("user", "user")

    def owners(self, column: str) -> list[dict[str, Any]]:
        """The same by the owners of one of the columns `by`; jobs that name none are one owner."""
        return self._groups(called(column), "owner")

    def by_owner(self) -> list[tuple[str, str, list[dict[str, Any]]]]:
        """Column, key of the owner and figures by owner: of the columns `by`, else of users."""
        if self.by:
            return [(column, "owner", self.owners(column)) for column in self.by]
        return [("user", "user", self.users())]

    def _groups(self, column: str, name: str) -> list[dict[str, Any]]:
        if column not in self.jobs.columns:
            return []
        named = self.jobs.drop_nulls(column).partition_by(column, maintain_order=True)
        found = [{name: jobs[column][0], **self.figures(jobs)} for jobs in named]
        return sorted(found, key=lambda group: -abs(group["mean_jct"]["difference"]) * group["jobs"])

    def most_changed(self, change: str) -> list[dict[str, Any]]:
        """The jobs that became faster, or slower, by most: at most 20, each with its parts."""
        own = self.jobs.filter(change=change)
        own = own.sort("difference", descending=change == "slower", maintain_order=True).head(MOST)
        about = [name for name in ("job_id", "user", "submit_time", "num_gpus") if name in own.columns]
        return [
            {
                **{name: row[name] for name in about},
                "jct": {"a": row["jct_a"], "b": row["jct_b"], "difference": row["difference"]},
                "parts": {name: {side: row[of] for side, of in _sides(name).items()} for name in self.parts},
            }
            for row in own.iter_rows(named=True)
        ]

    most = renamed("most", "most_changed")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values: what `ringbco diff --json` prints."""
        return {
            "a": dict(self.a),
            "b": dict(self.b),
            "all_the_same": self.same,
            **self.figures(self.jobs),
            "size_classes": self.size_classes(),
            "users": self.users(),
            **{f"by_{column}": self.owners(column) for column in self.by},
            "gained": self.most_changed("faster"),
            "lost": self.most_changed("slower"),
        }


def _sides(part: str) -> dict[str, str]:
    """The columns of `Diff.jobs` that are about a part."""
    return {"a": f"{part}_a", "b": f"{part}_b", "difference": part}


def diff(a: ringbco.Outcome, b: ringbco.Outcome, by: Sequence[str] = ()) -> Diff:
    """How the jobs that two results share fare in each. Jobs are the same if their job_id is.

    by: columns of a's job table that name owners. Of a result with a window only the jobs submitted in it
    count. Raises InputError where no job is in both, where a job was submitted at another time or asks for
    another number of GPUs, and as `parts_of` does; UsageError as `owners_of` does.
    """
    use_polars()
    by = tuple(dict.fromkeys(by))
    a = with_owners(a, by) if by else a
    columns = tuple(map(called, by))
    own, others = _rows(a, columns), _rows(b)
    both = own.join(others, on="job_id", how="inner", suffix="_b", maintain_order="left")
    if both.is_empty():
        raise InputError(
            "no job of A is in B, by job_id", hint="diff takes two results of the same job table"
        )
    for name in ("submit_time", "num_gpus"):
        unlike = both.filter(pl.col(name) != pl.col(f"{name}_b"))
        if unlike.height:
            row = unlike.row(0, named=True)
            raise InputError(
                f"job {show_value(row['job_id'])} has {name} {row[name]} in A and {row[f'{name}_b']} in B, as"
                f" have {unlike.height:,} of {both.height:,} jobs",
                hint="diff takes two results of the same job table",
            )
    parts = tuple(name for name in PARTS if (own[name] != 0).any() or (others[name] != 0).any())
    differences = {name: pl.col(f"{name}_b") - pl.col(name) for name in ("jct", *parts)}
    late = pl.max_horizontal("finish_time", "finish_time_b").abs()
    # Instants late in a long trace are coarser than the times between them.
    noise = pl.max_horizontal(
        _ROUNDING * pl.max_horizontal("jct", "jct_b"), 4.0 * float(np.finfo(float).eps) * late
    )
    jobs = both.select(
        *[name for name in ("job_id", "user", *columns, "submit_time", "num_gpus") if name in own.columns],
        jct_a="jct",
        jct_b="jct_b",
        difference=differences["jct"],
        change=pl.when(differences["jct"].abs() <= noise)
        .then(pl.lit("same"))
        .when(differences["jct"] < 0)
        .then(pl.lit("faster"))
        .otherwise(pl.lit("slower")),
        **{
            of: expression
            for name in parts
            for of, expression in (
                (name, differences[name]),
                (f"{name}_a", pl.col(name)),
                (f"{name}_b", pl.col(f"{name}_b")),
            )
        },
    )
    return Diff(jobs, parts, _per_job(a, own, both), _per_job(b, others, both), by)


def _rows(outcome: ringbco.Outcome, more: Sequence[str] = ()) -> pl.DataFrame:
    """The measured jobs with what is compared of them, and more columns.

    Raises InputError where a job is there twice.
    """
    jobs = measured(outcome)
    if jobs["job_id"].n_unique() < jobs.height:
        twice = jobs["job_id"].filter(jobs["job_id"].is_duplicated())[0]
        raise InputError("each job once", file="jobs.parquet", column="job_id", value=twice)
    if "submitted" in jobs.columns:
        # Who comes after another arrives at other times in other results.
        jobs = jobs.with_columns(submit_time="submitted")
    names = ("job_id", "user", *more, "submit_time", "num_gpus", "jct", "finish_time")
    return jobs.select(name for name in names if name in jobs.columns).with_columns(
        pl.Series(name, seconds) for name, seconds in parts_of(outcome).items()
    )


def _per_job(outcome: ringbco.Outcome, own: pl.DataFrame, both: pl.DataFrame) -> dict[str, Any]:
    return {
        "policy": str(outcome.summary.get("policy", "?")),
        "cluster": str(outcome.run.get("cluster", {}).get("name", "?")),
        "jobs": own.height,
        "only_here": own.height - both.height,
    }
