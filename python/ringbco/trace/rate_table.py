"""Tables of measured speeds: reading and checking them (docs/tables.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import polars as pl

from ringbco.cluster.gpu_types import GpuType
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.trace.column import Column
from ringbco.trace.schema import Fault
from ringbco.trace.side_table import Form, SideTable

_GIVE: Final = "give the number that was measured, or drop the row"
_PAIR: Final = "partner and partner_rate stand together: give both, or neither"
COLUMNS: Final[dict[str, Column]] = {
    "model": Column(pl.String, True, "a non-empty text", "name the model as the job table does"),
    "gpu_type": Column(pl.String, True, "a non-empty text", "name the GPU type as the cluster file does"),
    "gpus": Column(
        pl.UInt32, True, "an integer >= 1, or 0 in a row of fractions", _GIVE, 0.0, True, 2**32 - 1
    ),
    "servers": Column(pl.UInt32, True, "an integer from 1 to gpus", _GIVE, 0.0, True, 2**32 - 1),
    "rate": Column(pl.Float64, True, "a finite number of iterations/s >= 0", _GIVE, 0.0),
    "partner": Column(pl.String, False, "text or nothing", _PAIR),
    "partner_rate": Column(pl.Float64, False, "a finite number of iterations/s >= 0", _PAIR, 0.0),
}
"""The schema. A row with a partner has the rate beside it on the same GPUs, and the partner's own there.

With 0 GPUs on 0 servers both are fractions of the rates alone.
"""

_REQUIRED: Final = tuple(name for name, column in COLUMNS.items() if column.required)
_KEY: Final = ("model", "gpu_type", "gpus", "servers", "partner")


def _beyond_a_row(frame: pl.DataFrame) -> Iterator[Fault]:
    """What is wrong beyond one cell: more servers than GPUs, half a pair, a measurement told twice."""
    lonely = pl.col("partner").is_null() != pl.col("partner_rate").is_null()
    none, servers = pl.col("gpus") == 0, pl.col("servers")
    for name, bad, told in (
        ("gpus", none & pl.col("partner").is_null(), "an integer >= 1: only rows of pairs have fractions"),
        ("servers", none & (servers > 0), "0 beside 0 gpus: such a row has fractions of the rates alone"),
        ("servers", ~none & ((servers > pl.col("gpus")) | (servers == 0)), COLUMNS["servers"].rule),
        ("partner_rate", lonely, "a rate where there is a partner, else nothing"),
    ):
        at_fault = frame.select(bad.fill_null(value=False)).to_series()
        if at_fault.any():
            yield Fault(name, at_fault, frame[name], told, told, COLUMNS[name].hint)
    key = frame.select(*_KEY).with_columns(pl.col("gpu_type").map_elements(str.casefold, pl.String))
    doubled = ~key.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    if doubled.any():
        told = "each model, gpu_type, gpus, servers and partner once; a row above has them too"
        yield Fault("gpus", doubled, frame["gpus"], told, told, "drop one of the rows")


@dataclass(frozen=True, eq=False)
class RateTable(SideTable):
    """A checked table of measured speeds."""

    form: ClassVar[Form] = Form("speeds", "tables", COLUMNS, _REQUIRED, _beyond_a_row, name="speeds")

    @property
    def alone(self) -> pl.DataFrame:
        """The rows without a partner: a job that has its GPUs to itself."""
        return self.frame.filter(pl.col("partner").is_null())

    @property
    def pairs(self) -> pl.DataFrame:
        """The rows of two jobs on one GPU, which may be shares."""
        return self.frame.filter(pl.col("partner").is_not_null(), pl.col("gpus") == 1)

    @property
    def of_pairs(self) -> pl.DataFrame:
        """The rows of two jobs on the same GPUs, however many."""
        return self.frame.filter(pl.col("partner").is_not_null())

    @property
    def types(self) -> tuple[str, ...]:
        """The GPU types that it knows, in order of first appearance; names compare without case."""
        first: dict[str, str] = {}
        for name in self.frame["gpu_type"].unique(maintain_order=True):
            first.setdefault(name.casefold(), name)
        return tuple(first.values())

    def typed(self, cluster: Cluster) -> Cluster:
        """The cluster; where its servers name no GPU type, they are of the table's only one.

        Raises InputError where the table has several.
        """
        if cluster.server_types is not None:
            return cluster
        if len(self.types) > 1:
            raise InputError(
                f"a cluster whose servers name their GPU types: the table has {', '.join(self.types)}",
                file=self.source,
                column="gpu_type",
                hint='write gpu_type = "..." to each [[servers]] of the cluster file',
            )
        (name,) = self.types
        known = {} if cluster.find_type(name) else {name.casefold(): GpuType(name)}
        return replace(
            cluster,
            server_gpu_type=(name,) * cluster.num_servers,
            gpu_types={**cluster.gpu_types, **known},
        )

    @property
    def written(self) -> pl.DataFrame:
        """What a file of it holds: no columns of partners where there are none."""
        paired = self.frame["partner"].is_not_null().any()
        return self.frame if paired else self.frame.drop("partner", "partner_rate")
