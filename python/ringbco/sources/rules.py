"""Cleaning rules that several sources share; each takes names that columns have in the file and the frame."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import polars as pl

from ringbco.sources.account import Rule, change, drop
from ringbco.sources.tables import EXTRA
from ringbco.trace.jobs import COLUMNS
from ringbco.trace.recorded import PLACE

A_TIME: Final = "a time such as 2020-09-01 12:00:00"
MAX_GPUS: Final = 2**32 - 1
SECONDS: Final = "a number of seconds"


def no_more_cells(columns: int) -> Rule:
    """Rows with more cells than the header names are dropped: which cell is which cannot be told."""
    return drop("more cells than columns", pl.col(EXTRA).is_not_null(), "(the row)", f"{columns} cells")


def has_id(column: str) -> Rule:
    """Rows without an id are dropped."""
    return drop(f"no {column}", pl.col("job_id").is_null(), column, "an id")


def asks_gpus(column: str) -> Rule:
    """CPU jobs (0 GPUs) are dropped."""
    return drop(
        f"no GPUs asked for ({column} = 0: a CPU job)", pl.col(column) == 0, column, "at least one GPU"
    )


def whole_gpus(column: str) -> Rule:
    """Rows whose number of GPUs is missing, negative or fractional are dropped."""
    gpus = pl.col(column)
    bad = gpus.is_null() | (gpus < 0) | (gpus != gpus.floor()) | (gpus > MAX_GPUS)
    return drop(
        f"{column} missing or not a whole number of GPUs", bad, column, "a whole number of GPUs, 1 or more"
    )


def not_too_many_gpus(column: str, product: pl.Expr) -> Rule:
    """Rows whose GPUs are worked out and come to more than a job table can hold are dropped."""
    return drop(f"more than {MAX_GPUS:,} GPUs", product > MAX_GPUS, column, f"at most {MAX_GPUS} GPUs in all")


def terminal(column: str, states: tuple[str, ...]) -> Rule:
    """Rows whose `status` is none of `states` are dropped."""
    known = pl.col("status").is_in(states).fill_null(False)
    return drop(f"{column} is not one of a job that ended", ~known, column, f"one of {', '.join(states)}")


def timed(*columns: str, expected: str = A_TIME) -> tuple[Rule, ...]:
    """Rows in which one of the times is missing or cannot be read are dropped."""
    return tuple(
        drop(f"{column} missing or unreadable", pl.col(column).is_null(), column, expected)
        for column in columns
    )


def in_order(submit: str, start: str, end: str) -> tuple[Rule, ...]:
    """Rows that start before they are submitted, end before they start, or run for no time are dropped."""
    return (
        drop(
            f"starts before it is submitted ({start} < {submit})",
            pl.col(start) < pl.col(submit),
            start,
            f"no earlier than {submit}",
        ),
        drop(
            f"ends before it starts ({end} < {start})",
            pl.col(end) < pl.col(start),
            end,
            f"later than {start}",
        ),
        drop(f"ran for no time ({end} = {start})", pl.col(end) == pl.col(start), end, f"later than {start}"),
    )


def lasting(column: str, *, expected: str = SECONDS) -> tuple[Rule, ...]:
    """Rows whose recorded run time is missing, negative or zero are dropped."""
    seconds = pl.col(column)
    return (
        drop(f"{column} missing or unreadable", seconds.is_null(), column, expected),
        drop(f"{column} is negative", seconds < 0, column, "more than 0 s"),
        drop(f"ran for no time ({column} = 0)", seconds == 0, column, "more than 0 s"),
    )


def known_vc(names: Collection[str]) -> Rule:
    """Jobs whose virtual cluster has no servers are dropped: `--known-vcs`."""
    unknown = ~pl.col("vc").is_in(sorted(names)).fill_null(False)
    return drop("vc is not one of the cluster's (--known-vcs)", unknown, "vc", f"one of {', '.join(names)}")


def not_negative(column: str) -> Rule:
    """Rows with a time before 0 are dropped."""
    return drop(f"{column} is negative", pl.col(column) < 0, column, "0 s or later")


def left_out(reason: str, when: pl.Expr, column: str, expected: str) -> Rule:
    """Cells of an optional column lose their value."""
    return change(f"{reason}: left out", when, column, expected, **{column: pl.lit(None)})


def beside_others(columns: Collection[str]) -> list[Rule]:
    """Cells that cannot be beside others of the row lose their value: the table's rules on two columns.

    columns: those of the frame; rules on others are left out.
    """
    value, gpus, submit = pl.col, pl.col("num_gpus"), pl.col("submit_time")
    several = pl.any_horizontal(value(c) > 1 for c in ("num_gpus", "max_gpus") if c in columns)
    begin = pl.max_horizontal(submit, "recorded_start") if "recorded_start" in columns else submit
    is_place = value("recorded_servers").str.contains(PLACE)
    wrong = {
        "min_gpus": ("is above num_gpus", value("min_gpus") > gpus),
        "max_gpus": ("is below num_gpus", value("max_gpus") < gpus),
        "gpu_share": ("of a job of several GPUs", several & value("gpu_share").is_not_null()),
        "recorded_start": ("is before submit_time", value("recorded_start") < submit),
        "recorded_end": ("is before submit_time or recorded_start", value("recorded_end") < begin),
        "recorded_servers": ("is no list of servers and their GPUs", ~is_place),
    }
    expected = {name: COLUMNS[name].rule for name in wrong} | {
        "recorded_start": "no earlier than submit_time",
        "recorded_end": "no earlier than submit_time and recorded_start",
        "recorded_servers": "servers and their GPUs, such as 0:4 3:4",
    }
    return [
        left_out(f"{name} {reason}", bad, name, expected[name])
        for name, (reason, bad) in wrong.items()
        if name in columns
    ]
