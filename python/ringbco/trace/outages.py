"""Outages and drains of servers: reading, checking and merging them (docs/outages.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.errors import show_value
from ringbco.trace.clock import first_instant
from ringbco.trace.column import Column
from ringbco.trace.group_rows import groups_of
from ringbco.trace.schema import MOST_SECONDS, Fault
from ringbco.trace.side_table import INSTANT, Form, ReadContext, SideTable

_UP: Final = Column(
    pl.Float64,
    False,
    "a finite number of seconds",
    "leave it empty where the server never comes back",
    high=MOST_SECONDS,
)
COLUMNS: Final[dict[str, Column]] = {
    "server": Column(pl.UInt32, True, "the index of a server, an integer >= 0", "", 0.0),
    "down_at": INSTANT,
    "up_at": _UP,
    "cause": Column(pl.String, False, "text or nothing", "store cause as text, or leave it out"),
    "kind": Column(
        pl.String,
        False,
        "down or drain",
        "write drain if jobs there run on, or leave the column out",
    ),
}
"""The schema. The largest index of a server, and how to mend one, depend on the cluster."""

_NEEDED: Final = ("server", "down_at", "up_at")
DRAIN: Final = "drain"
"""The kind of a row that keeps others off its server; of all others the server is down."""
IS_DRAIN: Final = (pl.col("kind") == DRAIN).fill_null(value=False)


def _beyond_a_cell(frame: pl.DataFrame) -> Iterator[Fault]:
    """The faults of other kinds, and of servers that come back before they are down, or as they go down."""
    kind = COLUMNS["kind"]
    other = ~frame["kind"].is_in(["down", DRAIN]).fill_null(value=True)
    if other.any():
        yield Fault("kind", other, frame["kind"], kind.rule, kind.rule, kind.hint)
    down, up = frame["down_at"], frame["up_at"]
    bad = (up <= down).fill_null(value=False)
    if bad.any():
        rule = "a number of seconds > down_at"
        told = f"{rule}, which is {show_value(down[int(bad.arg_max() or 0)])}"
        yield Fault("up_at", bad, up, rule, told, _UP.hint)


@dataclass(frozen=True, eq=False)
class Outages(SideTable):
    """Checked outages of a cluster's servers.

    frame: as given, with the columns of `COLUMNS`, rows in input order; up_at is null for a server that never
    comes back. source: where they come from. sha256: of the file's bytes; None for a frame.
    """

    form: ClassVar[Form] = Form(
        "outages",
        "outages",
        COLUMNS,
        _NEEDED,
        _beyond_a_cell,
        may_be_empty=True,
        instants=("down_at", "up_at"),
        ranged="server",
        seldom=("kind",),
    )

    @classmethod
    def form_for(cls, known: ReadContext) -> Form:
        """What they have to be on a cluster."""
        if known.servers is None:
            return cls.form
        last = known.servers - 1
        server = COLUMNS["server"]._replace(hint=f"the cluster's last server is {last}", high=last)
        groups = {} if known.cluster is None else groups_of(known.cluster)
        columns = {**COLUMNS, "server": server}
        return cls.form._replace(columns=columns, numbers=known.numbers, groups=groups)

    @cached_property
    def merged(self) -> pl.DataFrame:
        """The outages by server and down_at, then the drains; those of one server that touch are one.

        It has the cause of the one that began first, of the lower row where several did.
        """
        return _merged(self.frame)

    def on_clock(self, options: Mapping[str, Any]) -> pl.DataFrame:
        """The same at the instants at which the clock sees them; of some outages up_at is down_at then.

        All figures and pictures read outages here. options: the run's.
        """
        if options.get("clock") != "slot":
            return self.merged
        _, down, up, _ = self.columns()
        seen = {"down_at": first_instant(down, options), "up_at": first_instant(up, options)}
        merged = _merged(self.merged.with_columns(**{name: pl.Series(times) for name, times in seen.items()}))
        # A drain inside a slot is none.
        return merged.filter(~IS_DRAIN | (pl.col("down_at") < pl.col("up_at").fill_null(np.inf)))

    @property
    def num_overlapping(self) -> int:
        """How many rows are part of an outage that began with another row."""
        return self.frame.height - self.merged.height

    def columns(
        self,
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        """Of `merged`: server, down_at, up_at, inf where it never comes back, and whether it drains."""
        merged = self.merged
        up, drains = merged["up_at"].fill_null(np.inf), merged.select(IS_DRAIN).to_series()
        return (merged["server"].to_numpy(), merged["down_at"].to_numpy(), up.to_numpy(), drains.to_numpy())

    @cached_property
    def drains(self) -> bool:
        """Whether any row is a drain."""
        return bool(self.frame.select(IS_DRAIN.any()).item())

    @property
    def written(self) -> pl.DataFrame:
        """What a file of them holds: no column cause where no row has one, nor kind."""
        return self.copied if self.frame["cause"].is_not_null().any() else self.copied.drop("cause")

    @property
    def identity(self) -> dict[str, object]:
        """What run.toml says of them."""
        return super().identity | {"overlapping": self.num_overlapping}

    def times(self, first: float) -> tuple[pl.Series, pl.Series]:
        """From down_at to up_at."""
        return self.frame["down_at"], self.frame["up_at"]


def _no_drain(frame: pl.DataFrame) -> Iterator[Fault]:
    """The faults of outages, and that of a drain, which is never known ahead."""
    yield from _beyond_a_cell(frame)
    drains = frame.select(IS_DRAIN).to_series()
    if drains.any():
        rule = "down, or no column kind: a drain is not known ahead"
        yield Fault("kind", drains, frame["kind"], rule, rule, "give drains to --outages")


class Maintenance(Outages):
    """Outages that are known ahead. A row without a cause has "maintenance" as its."""

    form: ClassVar[Form] = Outages.form._replace(noun="maintenance", option="maintenance", beyond=_no_drain)

    @classmethod
    def settled(cls, frame: pl.DataFrame) -> pl.DataFrame:
        """With that cause."""
        return frame.with_columns(pl.col("cause").fill_null("maintenance"))


def _merged(frame: pl.DataFrame) -> pl.DataFrame:
    ordered = frame.with_columns(pl.col("up_at").fill_null(np.inf), drains=IS_DRAIN).sort(
        "drains", "server", "down_at", maintain_order=True
    )
    up_before = pl.col("up_at").cum_max().shift(1).over("drains", "server")
    apart = (pl.col("down_at") > up_before).fill_null(value=True)
    return (
        ordered.with_columns(outage=apart.cum_sum())
        .group_by("outage", maintain_order=True)
        .agg(pl.first("server", "down_at"), pl.max("up_at"), pl.first("cause", "drains"))
        .select(
            "server",
            "down_at",
            pl.when(pl.col("up_at").is_finite()).then("up_at"),
            "cause",
            kind=pl.when("drains").then(pl.lit(DRAIN)),
        )
        .rechunk()
    )


def united(outages: Outages | None, maintenance: Maintenance | None) -> Outages | None:
    """When servers are down: the outages, and then the maintenance that is not among them."""
    if outages is None or maintenance is None:
        return outages or maintenance
    new = maintenance.frame.join(outages.frame, on=[*COLUMNS], how="anti", nulls_equal=True)
    return replace(outages, frame=pl.concat([outages.frame, new]))
