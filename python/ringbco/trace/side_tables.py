"""The side tables of a run, a row each: whoever reads, writes, checks or compares them goes over `KINDS`.

A new one is a class with its `Form`, and its place here; the option that names it stands in the table of
options of the engine.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

import polars as pl

from ringbco.trace.column import Column
from ringbco.trace.fair_shares import FairShares
from ringbco.trace.outages import Maintenance, Outages
from ringbco.trace.quotas import Quotas
from ringbco.trace.rate_table import RateTable
from ringbco.trace.services import Services
from ringbco.trace.side_table import INSTANT, Form, Known, SideTable

__all__ = ["KINDS", "Known", "SideTable", "read_side_tables", "the"]

_Kind = TypeVar("_Kind", bound=SideTable)


@dataclass(frozen=True, eq=False)
class Notes(SideTable):
    """Checked notes about servers, which a result keeps; nothing follows from them."""

    form: ClassVar[Form] = Form(
        "notes",
        "notes",
        {
            "server": Column(pl.UInt32, True, "the index of a server, an integer >= 0", "", 0.0),
            "time": INSTANT,
            "text": Column(pl.String, False, "text or nothing", "store text as text, or leave it out"),
        },
        ("server", "time"),
        instants=("time",),
    )

    @classmethod
    def form_for(cls, known: Known) -> Form:
        """What they have to be on a cluster."""
        if known.servers is None:
            return cls.form
        last = known.servers - 1
        columns = dict(cls.form.columns)
        columns["server"] = columns["server"]._replace(hint=f"the cluster's last server is {last}", high=last)
        return cls.form._replace(columns=columns)


KINDS: Final[dict[str, type[SideTable]]] = {
    kind.form.option: kind for kind in (RateTable, Outages, Maintenance, Quotas, Services, FairShares, Notes)
}
"""Every kind by its option, in the order of run.toml."""


def read_side_tables(
    options: Mapping[str, Any], known: Known, without: Container[str] = ()
) -> dict[str, SideTable]:
    """The side tables that the options of a run name, by option. Raises InputError as `SideTable.read` does.

    without: options of which nothing is read.
    """
    return {
        name: kind.read(options[name], known)
        for name, kind in KINDS.items()
        if name not in without and options.get(name) is not None
    }


def the(kind: type[_Kind], tables: Mapping[str, SideTable]) -> _Kind | None:
    """The table of that kind; None where there is none."""
    found = tables.get(kind.form.option)
    return found if isinstance(found, kind) else None
