"""The side tables of a run, one row each: what reads, writes, checks or compares them goes over `KINDS`.

A new one is a class with its `Form`, and its place here; the option that names it stands in the table of
options of the engine.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final, TypeVar

from ringbco.trace.fair_shares import FairShares
from ringbco.trace.outages import Maintenance, Outages
from ringbco.trace.quotas import Quotas
from ringbco.trace.rate_table import RateTable
from ringbco.trace.services import Services
from ringbco.trace.side_table import ReadContext, SideTable

__all__ = ["KINDS", "ReadContext", "SideTable", "read_side_tables", "the"]

_Kind = TypeVar("_Kind", bound=SideTable)

KINDS: Final[dict[str, type[SideTable]]] = {
    kind.form.option: kind for kind in (RateTable, Outages, Maintenance, Quotas, Services, FairShares)
}
"""Every kind by its option, in the order of run.toml."""


def read_side_tables(
    options: Mapping[str, Any], known: ReadContext, without: Container[str] = ()
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
