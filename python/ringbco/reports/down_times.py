"""Outages as a timeline draws them: when the servers in the viewport are down or drain, and why."""

from __future__ import annotations

import polars as pl

from ringbco.reports.server_load import server_gpus
from ringbco.reports.viewport import Viewport
from ringbco.result.outcome import Outcome
from ringbco.result.reliability import UNKNOWN
from ringbco.trace.outages import IS_DRAIN, Outages
from ringbco.trace.side_table import ReadContext


def down_times(outcome: Outcome, viewport: Viewport) -> pl.DataFrame:
    """Columns server, start, end (s), cause and drains: the outages in the viewport, clipped at its ends."""
    if outcome.outages is None:
        return pl.DataFrame(
            schema={
                "server": pl.UInt32,
                "start": pl.Float64,
                "end": pl.Float64,
                "cause": pl.String,
                "drains": pl.Boolean,
            }
        )
    outages = Outages.read(outcome.outages, ReadContext(servers=len(server_gpus(outcome))))
    down = outages.on_clock(outcome.run.get("options", {}))
    return viewport.clip(
        down.filter(pl.col("server").is_in(list(viewport.servers))).select(
            "server", start="down_at", end="up_at", cause=pl.col("cause").fill_null(UNKNOWN), drains=IS_DRAIN
        )
    )
