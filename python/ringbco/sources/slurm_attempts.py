"""Rows of one job: components of heterogeneous jobs, stretches of resized ones, attempts of requeued ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

from ringbco.sources.account import ROW, Account, Entry, Locate
from ringbco.sources.parsing import iso

NEAR: Final = 600.0
"""Seconds between the end of an attempt and the next submission of its job."""
_HOUR: Final = 3_600
_SPAN: Final = ("start_s", "end_s", "duration")


class Joiner:
    """The kept rows, and what becomes of them: `frame`, `account` and `notes` after each step."""

    def __init__(self, frame: pl.DataFrame, account: Account, locate: Locate) -> None:
        self.frame, self.account, self.notes = frame, account, list[str]()
        self.frame = self.frame.with_columns(after=pl.lit(None, pl.String))
        self._locate = locate

    def _leave_out(self, rows: pl.DataFrame, kind: str, reason: str) -> None:
        """Account for rows that are no longer rows of their own, or that are noted."""
        if rows.is_empty():
            return
        first = int(rows[ROW].min())  # type: ignore[arg-type]
        _, line, value = self._locate(first, "jobid")
        dropped = kind == "dropped"
        entry = Entry("dropped" if dropped else "noted", reason, rows.height, rows.height, line, str(value))
        self.account = _with(self.account, entry, rows.height if dropped else 0)

    def components(self) -> None:
        """Join the components of a heterogeneous job that hold GPUs."""
        parts = pl.col("job_id").str.extract_groups(r"^(\d+)\+(\d+)$")
        frame = self.frame.with_columns(parts.struct.rename_fields(["lead", "offset"]).alias("parts"))
        frame = frame.unnest("parts")
        het = frame.filter(pl.col("lead").is_not_null())
        if het.is_empty():
            return
        het = het.with_columns(stop=pl.coalesce("end_s", pl.col("start_s") + pl.col("duration")))
        key = ("lead", "submit_s")
        ranked = het.sort(-pl.col("num_gpus"), pl.col("offset").cast(pl.Int64), ROW)
        several = pl.len() > 1
        joined = ranked.group_by(key, maintain_order=True).agg(
            pl.exclude(*key, "num_gpus", "num_nodes", "nodelist", *_SPAN, "submit_at", "stop").first(),
            num_gpus=pl.col("num_gpus").sum(),
            num_nodes=pl.when(pl.col("num_nodes").count() > 0).then(pl.col("num_nodes").sum()),
            nodelist=pl.when(pl.col("nodelist").count() > 0).then(
                pl.col("nodelist").drop_nulls().str.join(",")
            ),
            submit_at=pl.col("submit_at").min(),
            start_s=pl.col("start_s").min(),
            end_s=pl.when(pl.col("end_s").null_count() == 0).then(pl.col("end_s").max()),
            duration=pl.when(several & pl.col("start_s").is_not_null().all())
            .then(pl.col("stop").max() - pl.col("start_s").min())
            .otherwise(pl.col("duration").max()),
        )
        self._leave_out(
            het.join(joined, on=ROW, how="anti"), "dropped", "a component of a heterogeneous job, joined"
        )
        joined = joined.with_columns(job_id=pl.col("lead"))
        rest = frame.filter(pl.col("lead").is_null())
        self.frame = pl.concat([rest, joined.select(rest.columns)]).drop("lead", "offset").sort(ROW)

    def attempts(self, mode: str) -> None:
        """Join the stretches of resized jobs, and make of the attempts of a job what `mode` says."""
        repeated = pl.col("job_id").is_duplicated()
        several = self.frame.filter(repeated).sort("job_id", "submit_s", "start_s", ROW)
        if several.is_empty():
            return
        alone = self.frame.filter(~repeated)
        several = _numbered(self._resized(several))
        attempts = several.filter(pl.len().over("group") > 1)
        made = several.filter(pl.len().over("group") == 1)
        if attempts.height:
            made = pl.concat([made, self._merged(attempts, mode)])
        columns = alone.columns
        self.frame = pl.concat([alone, made.select(columns)]).sort(ROW)

    def _merged(self, attempts: pl.DataFrame, mode: str) -> pl.DataFrame:
        jobs = attempts["group"].n_unique()
        merged = MODES[mode](attempts)
        requeued = "a requeued job" if jobs == 1 else f"{jobs:,} requeued jobs"
        told = f"{attempts.height:,} attempts belong to {requeued}"
        if mode == "split":
            told += " and become one job each (ID#1, ID#2, ...)"
        else:
            left = attempts.join(merged, on=ROW, how="anti")
            reason = "an earlier attempt of a job, left out" if mode == "last" else "an attempt, joined"
            self._leave_out(left, "dropped", reason)
            if mode == "last":
                hours = float((left["num_gpus"] * left["duration"]).sum()) / _HOUR
                told += f"; {left.height:,} of {hours:,.1f} GPU-hours are left out (--mode last)"
            else:
                told += f", joined (--mode {mode})"
        self.notes.append(f"{told}; first: {attempts.sort(ROW)['job_id'][0]}")
        return merged

    def _resized(self, rows: pl.DataFrame) -> pl.DataFrame:
        """One row for the stretches of a resized job: GPUs of the longest."""
        follows = (
            (pl.col("job_id").shift() == pl.col("job_id"))
            & (pl.col("status").shift() == "RESIZING")
            & (pl.col("end_s").shift() == pl.col("start_s"))
        ).fill_null(False)
        rows = rows.with_columns(stay=(~follows).cum_sum())
        if rows["stay"].n_unique() == rows.height:
            return rows.drop("stay")
        longest = pl.col("duration").arg_max()
        held = ("num_gpus", "gpu_type", "recorded_on", "nodelist", "num_nodes")
        last = rows.group_by("stay", maintain_order=True).agg(
            pl.exclude("stay", *held, *_SPAN, "submit_s", "submit_at").last(),
            *(pl.col(name).get(longest) for name in held),
            pl.col("submit_s", "submit_at", "start_s").first(),
            pl.col("end_s").last(),
            pl.col("duration").sum(),
        )
        self._leave_out(
            rows.join(last, on=ROW, how="anti"),
            "dropped",
            "a stretch of a resized job, joined (GPUs of the longest)",
        )
        return last.select(rows.columns).drop("stay")


def _with(account: Account, entry: Entry, dropped: int) -> Account:
    """The account with one more entry, dropped ones before the others."""
    entries = sorted((*account.entries, entry), key=lambda each: each.kind != "dropped")
    return Account(account.unit, account.rows_read, account.rows_kept - dropped, tuple(entries))


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of repeated ids with the job they belong to (`group`); an id used again becomes ID@SUBMIT."""
    groups, ids = list[int](), list[str]()
    last: str | None = None
    first_submit, end, name = 0.0, 0.0, ""
    for job_id, submit, stop, start, duration in rows.select(
        "job_id", "submit_s", "end_s", "start_s", "duration"
    ).iter_rows():
        same = job_id == last
        if not same or not (abs(submit - end) <= NEAR or submit == first_submit):
            name = f"{job_id}@{iso(submit)}" if same else job_id
            groups.append(groups[-1] + 1 if groups else 0)
            first_submit = submit
        else:
            groups.append(groups[-1])
        ids.append(name)
        last = job_id
        end = stop if stop is not None else (start or submit) + duration
    return rows.with_columns(group=pl.Series(groups, dtype=pl.UInt32), job_id=pl.Series(ids))


def _split(attempts: pl.DataFrame) -> pl.DataFrame:
    """A job per attempt; one after the first arrives after the one before it."""
    number = pl.int_range(1, pl.len() + 1).over("group")
    before = pl.concat_str("job_id", pl.lit("#"), number - 1)
    return attempts.with_columns(
        job_id=pl.concat_str("job_id", pl.lit("#"), number), after=pl.when(number > 1).then(before)
    )


def _last(attempts: pl.DataFrame) -> pl.DataFrame:
    return _one(attempts)


def _span(attempts: pl.DataFrame) -> pl.DataFrame:
    stop = pl.coalesce("end_s", pl.col("start_s") + pl.col("duration"))
    return _one(
        attempts,
        num_gpus=pl.col("num_gpus").first(),
        start_s=pl.col("start_s").first(),
        duration=stop.last() - pl.col("start_s").first(),
    )


def _sum(attempts: pl.DataFrame) -> pl.DataFrame:
    return _one(
        attempts,
        num_gpus=pl.col("num_gpus").max(),
        start_s=pl.col("start_s").first(),
        duration=pl.col("duration").sum(),
    )


def _one(attempts: pl.DataFrame, **values: pl.Expr) -> pl.DataFrame:
    """One row per job: the last attempt's, submitted when the first was, with some values of all."""
    values = {"submit_at": pl.col("submit_at").first(), **values}
    made = attempts.group_by("group", maintain_order=True).agg(pl.exclude("group", *values).last(), **values)
    return made.select(attempts.columns)


MODES: Final[Mapping[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    "split": _split,
    "last": _last,
    "sum": _sum,
    "span": _span,
}
