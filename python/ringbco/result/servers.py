"""When servers went down, came back, slept and woke, and why (docs/results-reference.md#serversparquet)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ringbco.result.schema import SERVERS_SCHEMA
from ringbco.result.stays import named, who

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


def servers_frame(
    job_id: pl.Series,
    services: Sequence[str],
    outages: pl.DataFrame | None,
    asleep: Mapping[str, NDArray[Any]] | None,
    last: float,
) -> pl.DataFrame | None:
    """servers.parquet: one row per change, by (server, time); None where servers neither go down nor sleep.

    job_id: of the job table. services: their names. outages: as the clock sees them. asleep: the engine's
    table of that name. last: the end of the run, s; what comes after it is left out.
    """
    parts = []
    if outages is not None:
        parts += [
            outages.select("server", time=at, what=pl.lit(what), by="cause")
            for at, what in (("down_at", "down"), ("up_at", "up"))
        ]
    if asleep is not None:
        by = who(asleep)
        job = named(job_id, asleep["by"], by["job"])
        service = named(pl.Series(list(services), dtype=pl.String), asleep["by"], by["service"])
        woken = ~by["nobody"]
        sleeps = pl.DataFrame({name: asleep[name] for name in ("server", "from", "until")}).with_columns(
            by=job.zip_with(pl.Series(by["job"]), service)
        )
        parts += [
            sleeps.select("server", time="from", what=pl.lit("slept"), by=pl.lit(None, pl.String)),
            sleeps.filter(pl.Series(woken)).select("server", time="until", what=pl.lit("woke"), by="by"),
        ]
    if not parts:
        return None
    there = pl.concat([part.cast(pl.Schema(SERVERS_SCHEMA)) for part in parts])
    there = there.filter(pl.col("time").is_not_null() & (pl.col("time") <= last))
    return there.sort("server", "time", maintain_order=True)
