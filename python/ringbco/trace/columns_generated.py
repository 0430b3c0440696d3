"""The columns of the job table, for Python.

Made by `python -m ringbco.dev.generate` of rust/trace/columns.rs: change that.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ringbco.trace.column import Column

COLUMNS: Final[dict[str, Column]] = {
    "job_id": Column(pl.String, True, "a non-empty text, unique in the table", "give every job its own id"),
    "submit_time": Column(
        pl.Float64,
        True,
        "a finite number of seconds >= 0",
        "count seconds (not milliseconds or less) from the trace's epoch, or drop the job",
        low=0.0,
        high=10000000000000000,
    ),
    "num_gpus": Column(
        pl.UInt32,
        True,
        "an integer >= 1",
        "give the number of GPUs the job asked for",
        low=1.0,
        high=4294967295,
    ),
    "duration": Column(
        pl.Float64,
        True,
        "a finite number of seconds > 0",
        "give the recorded run time in seconds, or drop the job",
        low=0.0,
        low_included=False,
        high=10000000000000000,
    ),
    "user": Column(pl.String, False, "text or nothing", "store user as text, or leave it out"),
    "vc": Column(pl.String, False, "text or nothing", "store vc as text, or leave it out"),
    "status": Column(pl.String, False, "text or nothing", "store status as text, or leave it out"),
    "model": Column(pl.String, False, "text or nothing", "store model as text, or leave it out"),
    "gpu_type": Column(pl.String, False, "text or nothing", "store gpu_type as text, or leave it out"),
    "recorded_on": Column(pl.String, False, "text or nothing", "store recorded_on as text, or leave it out"),
    "iterations": Column(
        pl.UInt64,
        False,
        "an integer >= 1",
        "mend it, or {empty} to have it filled from the model profile",
        low=1.0,
        high=9007199254740992,
    ),
    "gradient_bytes": Column(
        pl.Float64,
        False,
        "a finite number of bytes >= 0",
        "mend it, or {empty} to have it filled from the model profile",
        low=0.0,
    ),
    "batch_size": Column(
        pl.UInt32,
        False,
        "an integer >= 1",
        "mend it, or {empty} to have it filled from the model profile",
        low=1.0,
        high=4294967295,
    ),
    "fp_time": Column(
        pl.Float64,
        False,
        "a finite number of seconds >= 0",
        "mend it, or {empty} to have it filled from the model profile",
        low=0.0,
    ),
    "bp_time": Column(
        pl.Float64,
        False,
        "a finite number of seconds >= 0",
        "mend it, or {empty} to have it filled from the model profile",
        low=0.0,
    ),
    "deadline": Column(
        pl.Float64,
        False,
        "a finite number of seconds",
        "count from the same epoch as submit_time, or {empty}",
    ),
    "min_gpus": Column(
        pl.UInt32,
        False,
        "an integer from 1 to num_gpus",
        "{empty} for a job that runs on num_gpus GPUs only",
        low=1.0,
        high=4294967295,
    ),
    "max_gpus": Column(
        pl.UInt32,
        False,
        "an integer >= num_gpus",
        "{empty} for a job that runs on num_gpus GPUs only",
        low=1.0,
        high=4294967295,
    ),
    "noise_scale": Column(
        pl.Float64,
        False,
        "a number of samples >= 0, or inf",
        "{empty} for a job of which every sample counts in full",
        low=0.0,
        endless=True,
    ),
    "gpu_share": Column(
        pl.Float64,
        False,
        "a share of one GPU > 0",
        "give the part of a GPU that the job asks for, or {empty} for whole GPUs",
        low=0.0,
        low_included=False,
        high=1,
    ),
    "checkpoint_interval": Column(
        pl.Float64,
        False,
        "a number of seconds >= 0, or inf",
        "{empty} for that of --checkpoint-interval",
        low=0.0,
        endless=True,
        absent=float("nan"),
    ),
    "time_limit": Column(
        pl.Float64,
        False,
        "a number of seconds > 0, or inf",
        "give the longest time that the job may hold its GPUs, or {empty} for none",
        low=0.0,
        low_included=False,
        endless=True,
        absent=float("inf"),
    ),
    "priority": Column(
        pl.Int32,
        False,
        "an integer from -2147483648 to 2147483647",
        "{empty} for priority 0",
        low=-2147483648.0,
        high=2147483647,
        absent=0.0,
    ),
    "preemptible": Column(pl.Boolean, False, "true or false", "{empty} for true", absent=1.0),
    "group": Column(pl.String, False, "text or nothing", "store group as text, or leave it out"),
}
"""The schema, in canonical order."""
PLAIN: Final[dict[str, str]] = {
    "priority": "priority",
    "preemptible": "preemptible",
    "time_limit": "time_limit",
    "checkpoint_interval": "checkpoint_interval",
}
"""Columns of which the engine reads `Column.absent` where the table says nothing, by its own names."""
