"""The side tables of a run, one row each: what reads, writes, checks or compares them goes over `KINDS`.

A new one is a class with its `Form`, and its place here; the option that names it stands in the table of
options of the engine.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from typing import Any, Final, TypeVar

from ringbco.errors import UsageError
from ringbco.trace.answering import AnsweringServices
from ringbco.trace.fair_shares import FairShares
from ringbco.trace.outages import Maintenance, Outages
from ringbco.trace.quotas import Quotas
from ringbco.trace.rate_table import RateTable
from ringbco.trace.requests import Requests
from ringbco.trace.services import Services
from ringbco.trace.side_table import ReadContext, SideTable

__all__ = ["KINDS", "ReadContext", "SideTable", "kind_of", "read_side_tables", "the"]

_REQUESTS: Final = Requests.form.option
_Kind = TypeVar("_Kind", bound=SideTable)

KINDS: Final[dict[str, type[SideTable]]] = {
    kind.form.option: kind
    for kind in (RateTable, Outages, Maintenance, Quotas, Services, Requests, FairShares)
}
"""Every kind by its option, in the order of run.toml."""


def read_side_tables(
    options: Mapping[str, Any], known: ReadContext, without: Container[str] = ()
) -> dict[str, SideTable]:
    """The side tables that the options of a run name, by option.

    Raises InputError as `SideTable.read` does, UsageError for options that need another one.

    without: options of which nothing is read.
    """
    if options.get("request_rows") and options.get(_REQUESTS) is None:
        raise UsageError("option request-rows: on: expected it with --requests FILE, whose answers it writes")
    given = {name: options[name] for name in KINDS if name not in without and options.get(name) is not None}
    found = {
        name: kind_of(name, options).read(value, known) for name, value in given.items() if name != _REQUESTS
    }
    if _REQUESTS in given:
        services = the(AnsweringServices, found)
        if services is None:
            raise UsageError(
                f"option requests: {_shown(given[_REQUESTS])}: expected it with --services FILE.toml, which"
                " says how replicas answer (docs/serving.md)"
            )
        found[_REQUESTS] = Requests.read(given[_REQUESTS], known, serving=services.serving)
    return {name: found[name] for name in KINDS if name in found}


def kind_of(name: str, options: Mapping[str, Any]) -> type[SideTable]:
    """What reads the side table of an option: with requests, services are a serving file."""
    if name != Services.form.option:
        return KINDS[name]
    if options.get(_REQUESTS) is not None:
        return AnsweringServices
    given = options.get(name)
    if isinstance(given, Mapping) or str(given).lower().endswith(".toml"):
        raise UsageError(
            f"option services: {_shown(given)}: expected a Parquet or CSV file of replicas, or a serving file"
            " with --requests FILE (docs/serving.md)"
        )
    return Services


def _shown(given: object) -> str:
    return str(given) if isinstance(given, str | os.PathLike) else "a table"


def the(kind: type[_Kind], tables: Mapping[str, SideTable]) -> _Kind | None:
    """The table of that kind; None where there is none."""
    found = tables.get(kind.form.option)
    return found if isinstance(found, kind) else None
