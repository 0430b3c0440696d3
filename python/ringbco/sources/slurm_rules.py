"""The rules by which rows of a Slurm log become jobs, in the order in which they apply."""

from __future__ import annotations

from typing import Final

import polars as pl

from ringbco.errors import UsageError
from ringbco.sources.account import ROW, Rule, change, drop, note
from ringbco.sources.rules import A_TIME, MAX_GPUS
from ringbco.sources.slurm_files import SURPLUS
from ringbco.sources.slurm_gpus import with_gpus
from ringbco.sources.slurm_times import NO_LIMIT, NO_TIME, elapsed, limits, suspended
from ringbco.sources.source import Options

WAITS: Final = (
    *("PENDING", "CONFIGURING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD"),
)  # fmt: skip
RUNS: Final = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT")
ENDED: Final = (
    *("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("BOOT_FAIL", "DEADLINE", "REQUEUED", "REVOKED", "LAUNCH_FAILED", "SPECIAL_EXIT", "RESIZING"),
)
_CLOCKS: Final = 3_600
_NOTHING: Final = (*NO_TIME, *NO_LIMIT, "")


def with_ids(frame: pl.DataFrame, clusters: str | None, shown: str) -> pl.DataFrame:
    """The frame with job_id, base (without the step), is_step, foreign, again and has_row.

    Raises UsageError if the rows are of several clusters and none is chosen.
    """
    named = frame["cluster"].drop_nulls().unique().sort().to_list()
    if clusters is None and len(named) > 1:
        raise UsageError(
            f"{shown}: jobs of several clusters ({', '.join(named)}): choose one with --slurm-cluster NAME"
        )
    if clusters is not None and clusters not in named:
        raise UsageError(f"--slurm-cluster {clusters}: the log has {', '.join(named) or 'no column Cluster'}")
    own = pl.lit(value=False) if clusters is None else (pl.col("cluster") != clusters).fill_null(False)
    frame = frame.with_columns(job_id=pl.coalesce("jobid", "jobidraw"), foreign=own)
    frame = frame.with_columns(
        is_step=pl.col("job_id").str.contains(".", literal=True).fill_null(False),
        base=pl.col("job_id").str.extract(r"^([^.]*)"),
    )
    rows = frame.filter(~pl.col("is_step"), ~pl.col("foreign"))["base"].unique()
    frame = frame.with_columns(
        has_row=pl.when("is_step").then(pl.col("base").is_in(rows.implode())).otherwise(False)
    )
    return frame.with_columns(again=_listed_twice(frame))


def _listed_twice(frame: pl.DataFrame) -> pl.Series:
    """Which rows are another record of a job and start; the first with an End is the record."""
    own = frame.filter(~pl.col("foreign"), ~pl.col(SURPLUS), pl.col("job_id").is_not_null()).select(
        ROW,
        "job_id",
        "end_s",
        started=pl.col("start_s").is_not_null(),
        moment=pl.coalesce("start_s", "submit_s"),
    )
    key = ("job_id", "started", "moment")
    several = own.filter(pl.struct(key).is_duplicated())
    record = several.sort(pl.col("end_s").is_null(), ROW).unique(key, keep="first", maintain_order=True)
    again = several.join(record, on=ROW, how="anti")[ROW]
    return frame[ROW].is_in(again.implode())


def first_rules(options: Options) -> tuple[Rule, ...]:
    """Rules 1 to 5: what is no row of a job."""
    return (
        drop("more cells than names", pl.col(SURPLUS), "(the row)", "as many cells as names"),
        drop(
            f"of another cluster than {options.slurm_cluster}",
            pl.col("foreign"),
            "cluster",
            f"{options.slurm_cluster}",
        ),
        drop("listed twice", pl.col("again"), "jobid", "one row per job and start"),
        drop(
            "a step of a job that has a row of its own",
            pl.col("is_step") & pl.col("has_row"),
            "jobid",
            "a job; sacct -X leaves steps out",
        ),
        drop("a step whose job has no row", pl.col("is_step") & ~pl.col("has_row"), "jobid", "a job"),
    )


def with_facts(frame: pl.DataFrame, options: Options, *, asked: bool, latest: float) -> pl.DataFrame:
    """The frame with status, GPUs, types, durations and limits.

    asked: whether the log has ReqTRES; latest: the latest time in the files.
    """
    frame = frame.with_columns(
        status=pl.col("state").str.to_uppercase().str.extract(r"^([A-Z_]+)"),
        elapsed_s=elapsed(frame),
        suspended_s=suspended(frame),
        time_limit=limits(frame),
    )
    frame = with_gpus(frame, count=options.count or "gpu", mig=options.mig or "drop", asked=asked)
    cancelled_early = pl.col("start_s").is_null() | (pl.col("nodelist") == "None assigned")
    status = pl.col("status")
    between = pl.col("end_s") - pl.col("start_s")
    waits = (
        pl.col("job_id").str.contains("[", literal=True)
        | status.is_in(WAITS)
        | (status.is_in(ENDED) & cancelled_early)
    )
    frame = frame.with_columns(
        waits=waits.fill_null(False),
        runs=status.is_in(RUNS).fill_null(False) | pl.col("end_s").is_null(),
        between=between,
    )
    ran = pl.coalesce("elapsed_s", pl.col("between") - pl.col("suspended_s").fill_null(0))
    frame = frame.with_columns(
        duration=pl.when("runs").then(pl.coalesce("elapsed_s", latest - pl.col("start_s"))).otherwise(ran),
        later=(pl.col("eligible_s") <= pl.col("start_s")) & (pl.col("eligible_s") > pl.col("submit_s")),
    )
    return frame.with_columns(off=(pl.col("duration") - pl.col("between")).fill_null(0))


def job_rules(options: Options, since: float | None, until: float | None) -> tuple[Rule, ...]:
    """Rules 6 to 14, and what is changed or noted of the rows that are kept."""
    keep_open, status = options.open_jobs == "keep", pl.col("status")
    open_row = pl.col("runs") & ~pl.col("waits")
    known = status.is_in(ENDED).fill_null(False) | (open_row & keep_open)
    gpus, submit = pl.col("num_gpus"), pl.col("submit_s")
    counted = {"cpu": "cpu", "node": "node"}.get(options.count or "gpu")
    none = (gpus.fill_null(0) < 1) | (gpus > MAX_GPUS)
    nothing: tuple[Rule, ...] = (
        drop(
            "a share of a GPU whose size is not told (gres/shard, gres/mps)",
            pl.col("shared") & none,
            "alloctres",
            "gres/gpu",
        ),
        drop(
            "holds MIG profiles alone (--mig gpu counts each as a GPU)",
            none & (pl.col("parts") > 0),
            "alloctres",
            "gres/gpu",
        ),
        drop("no GPUs (a CPU job)", none, "alloctres", "gres/gpu"),
    )
    if counted is not None:
        nothing = (drop(f"no {counted} in AllocTRES", none, "alloctres", f"{counted}=N"),)
    window = [
        drop(f"submitted {side} {option}", outside, "submit", f"no time {side} {option}")
        for side, option, limit, outside in (
            ("before", "--from", since, submit < (since or 0)),
            ("after", "--until", until, submit > (until or 0)),
        )
        if limit is not None
    ]
    return (
        drop("waits, or was cancelled before it started", pl.col("waits"), "state", "a job that has started"),
        *([] if keep_open else [drop("still runs", open_row, "state", "a job that has ended")]),
        drop("state is not one of a job that ended", ~known, "state", f"one of {', '.join(ENDED)}"),
        *nothing,
        drop("Submit unreadable", submit.is_null(), "submit", A_TIME),
        drop("ran for no time", (pl.col("duration") <= 0).fill_null(True), "elapsed", "a run time above 0"),
        drop("starts before it is submitted", pl.col("start_s") < submit, "start", "no earlier than Submit"),
        *window,
        *_changes(options),
        *_notes(),
    )


def _changes(options: Options) -> tuple[Rule, ...]:
    off = pl.col("off").abs()
    clocks = off == _CLOCKS
    held = pl.col("suspended_s").fill_null(0)
    by_suspended = ~clocks & (held > 0) & (-pl.col("off") == held)
    later = () if options.submitted == "submit" else (
        change(
            "submitted before it was eligible: counted from then",
            pl.col("later"),
            "eligible",
            "Submit and Eligible alike",
            submit_at=pl.col("eligible_s"),
        ),
    )  # fmt: skip
    still_runs = () if options.open_jobs != "keep" else (
        change(
            "still runs: kept with what it has run so far (--open keep)",
            pl.col("runs"),
            "state",
            "a job that has ended",
            status=pl.lit("RUNNING"),
            end_s=pl.lit(None, pl.Float64),
        ),
    )  # fmt: skip
    told = "recorded run time differs from End - Start"
    return (
        *later,
        change(f"{told} by 3,600 s: the clocks changed", clocks, "elapsed", "End - Start"),
        change(f"{told} by Suspended", by_suspended, "suspended", "End - Start"),
        change(f"{told}: used", (off > 0) & ~clocks & ~by_suspended, "elapsed", "End - Start"),
        *still_runs,
    )


def _notes() -> tuple[Rule, ...]:
    def unreadable(column: str, value: pl.Expr) -> Rule:
        written = pl.col(column).is_not_null() & ~pl.col(column).str.to_lowercase().is_in(_NOTHING)
        return note(f"{column.capitalize()} unreadable: left out", written & value.is_null(), column)

    limit = pl.col("timelimit").fill_null("").str.to_lowercase().is_in(_NOTHING)
    return (
        note("holds several GPU types: recorded_on left empty", pl.col("several_types"), "alloctres"),
        note("holds more GPUs than ReqTRES asks for", pl.col("num_gpus") > pl.col("req_gpus"), "reqtres"),
        note("holds MIG profiles", pl.col("parts") > 0, "alloctres"),
        unreadable("eligible", pl.col("eligible_s")),
        note(
            "run time unreadable: taken from End - Start",
            pl.any_horizontal(_odd("elapsedraw"), _odd("elapsed")) & pl.col("elapsed_s").is_null(),
            "elapsed",
        ),
        unreadable("suspended", pl.col("suspended_s")),
        note(
            "Timelimit unreadable: left out",
            pl.col("time_limit").is_null() & (~limit | _odd("timelimitraw")),
            "timelimit",
        ),
        *(
            note(f"{told} unreadable: left out", _odd(column) & _number(column).is_null(), column)
            for column, told in (("nnodes", "NNodes"), ("priority", "Priority"))
        ),
    )


def _odd(column: str) -> pl.Expr:
    """Whether a cell says something, which no number is meant to be missing by."""
    return pl.col(column).is_not_null() & ~pl.col(column).str.to_lowercase().is_in(_NOTHING)


def _number(column: str) -> pl.Expr:
    value = pl.col(column).cast(pl.Float64, strict=False)
    return pl.when((value >= 0) & value.is_finite()).then(value)


def numbers(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with num_nodes, slurm_priority and array."""
    return frame.with_columns(
        num_nodes=_number("nnodes").cast(pl.UInt32, strict=False),
        slurm_priority=_number("priority"),
        array=pl.col("job_id").str.extract(r"^(\d+)_"),
    )
