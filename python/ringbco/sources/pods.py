"""Pods of the jobs of a trace, for `convert --pods`: the column gpus_per_pod."""

from __future__ import annotations

from typing import Final

import polars as pl

from ringbco.sources.account import Rule, note
from ringbco.sources.rules import MAX_GPUS

COLUMN: Final = "gpus_per_pod"


def whole(size: pl.Expr) -> pl.Expr:
    """gpus_per_pod: the GPUs of each pod; null where they are no whole number."""
    is_whole = size.is_between(1, MAX_GPUS) & (size == size.floor())
    return pl.when(is_whole).then(size).cast(pl.UInt32).alias(COLUMN)


def unknown(reason: str, size: pl.Expr, column: str) -> Rule:
    """The rule that counts the jobs that keep their GPUs and have no gpus_per_pod."""
    return note(f"{reason}: no gpus_per_pod", whole(size).is_null(), column)


def per_node(gpus: str, nodes: str) -> tuple[pl.Expr, Rule]:
    """GPUs of each node of a job, and the rule that counts those for whom they are no whole number."""
    size = pl.col(gpus) / pl.col(nodes)
    return size, unknown(f"{gpus} / {nodes} missing or not a whole number", size, nodes)
