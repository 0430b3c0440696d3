"""Services: how many replicas each wants and when; reading and checking them (docs/services.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.deprecation import renamed
from ringbco.errors import show_value
from ringbco.trace.column import Column
from ringbco.trace.schema import Fault
from ringbco.trace.side_table import INSTANT, Form, ReadContext, SideTable

_MOST: Final = 2**32 - 1
COLUMNS: Final[dict[str, Column]] = {
    "service": Column(pl.String, True, "the name of a service, a non-empty text", "name it in every row"),
    "time": INSTANT,
    "replicas": Column(
        pl.UInt32, True, "an integer >= 0", "0 where the service wants none from then on", 0.0, True, _MOST
    ),
    "gpus_per_replica": Column(pl.UInt32, True, "an integer >= 1", "", 1.0),
}
"""The schema. The most GPUs of a replica, and how to mend them, depend on the cluster."""


def _at_odds(frame: pl.DataFrame) -> Iterator[Fault]:
    """The faults of rows that say otherwise than an upper row of their service."""
    first = frame.select(
        gpus=pl.col("gpus_per_replica").first().over("service"),
        again=pl.struct("service", pl.col("time") + 0.0).is_first_distinct().not_()
        & pl.col("time").is_not_null()
        & pl.col("service").is_not_null(),
    )
    gpus, time = frame["gpus_per_replica"], frame["time"]
    bad = ((gpus != first["gpus"]) & frame["service"].is_not_null()).fill_null(value=False)
    if bad.any():
        at = int(bad.arg_max() or 0)
        rule = "the same in all rows of a service"
        told = f"{first['gpus'][at]}, as in the first row of service {show_value(frame['service'][at])}"
        hint = "give replicas of another size another name"
        yield Fault("gpus_per_replica", bad, gpus, rule, told, hint)
    if first["again"].any():
        name = show_value(frame["service"][int(first["again"].arg_max() or 0)])
        rule = "one row of a service at a time"
        told = f"one row of service {name} at a time, and an upper row has that time"
        yield Fault("time", first["again"], time, rule, told, "drop one of them")


@dataclass(frozen=True, eq=False)
class Services(SideTable):
    """Checked services of a cluster.

    frame: as given, with the columns of `COLUMNS`, rows in input order. source: where they come from. sha256:
    of the file's bytes; None for a frame.
    """

    form: ClassVar[Form] = Form(
        "services", "services", COLUMNS, tuple(COLUMNS), _at_odds, may_be_empty=True, instants=("time",)
    )

    @classmethod
    def form_for(cls, known: ReadContext) -> Form:
        """What they have to be on a cluster."""
        largest = known.largest
        most = "" if largest is None else f"; the largest has {largest} GPUs"
        gpus = COLUMNS["gpus_per_replica"]._replace(
            hint=f"a replica runs on one server{most}", high=_MOST if largest is None else largest
        )
        return cls.form._replace(columns={**COLUMNS, "gpus_per_replica": gpus})

    @classmethod
    def takes(cls, value: object) -> bool:
        """Whether `read` takes it, or, beside requests, that of `AnsweringServices`: a document of TOML."""
        return super().takes(value) or isinstance(value, Mapping)

    @classmethod
    def settled(cls, frame: pl.DataFrame) -> pl.DataFrame:
        """With 0.0 for -0.0, which is the same time."""
        return frame.with_columns(pl.col("time") + 0.0)

    @cached_property
    def names(self) -> list[str]:
        """The services, in the order of their first rows."""
        return self.frame["service"].unique(maintain_order=True).to_list()

    @cached_property
    def gpus_per_replica(self) -> NDArray[np.uint32]:
        """GPUs of a replica, one value per service."""
        first = self.frame.unique("service", keep="first", maintain_order=True)
        return first["gpus_per_replica"].to_numpy()

    @property
    def peak_gpus(self) -> int:
        """GPUs that all of them would hold, each with the most replicas that it ever wants."""
        most = self.frame.group_by("service").agg(
            pl.col("replicas").max().cast(pl.Int64) * pl.col("gpus_per_replica").first()
        )
        return int(most["replicas"].sum())

    gpus = renamed("gpus", "gpus_per_replica")
    largest = renamed("largest", "peak_gpus")

    def columns(
        self,
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float64], NDArray[np.uint32]]:
        """`gpus_per_replica`; then, by row, the service by its place in `names`, the time, s, replicas."""
        number = {name: place for place, name in enumerate(self.names)}
        service = np.array([number[name] for name in self.frame["service"]], dtype=np.uint32)
        frame = self.frame.rechunk()
        return self.gpus_per_replica, service, frame["time"].to_numpy(), frame["replicas"].to_numpy()

    @property
    def identity(self) -> dict[str, object]:
        """What run.toml says of them."""
        return super().identity | {"services": len(self.names)}

    def times(self, first: float) -> tuple[pl.Series, pl.Series] | None:
        """Of each row its time. One row a service, before all jobs, means the same on any clock."""
        time = self.frame["time"]
        return (time, time) if len(self.names) < time.len() or (time > first).any() else None
