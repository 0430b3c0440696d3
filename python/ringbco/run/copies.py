"""The side tables of a result, to repeat its run with: copies, and files that run.toml names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ringbco.errors import InputError
from ringbco.io.digests import sha256_of
from ringbco.trace.requests import Requests
from ringbco.trace.services import Services
from ringbco.trace.side_tables import KINDS

_REQUESTS = Requests.form.option
_MEND = "write the requests to a file, put it there, and give the result again"


class CannotRepeatError(InputError):
    """What run.toml asks for cannot be run here; nothing is said of whether it would come out again."""


def copies_of(run: Mapping[str, Any], find: Callable[[str], Any]) -> dict[str, Any]:
    """What stands for each side table, by option; None where the run had none.

    run: its run.toml. find: gives the copy of that name, None where there is none. Requests are read where
    they were. Raises CannotRepeatError where they are not there, or have changed.
    """
    found: dict[str, Any] = {name: kind.copies(find) for name, kind in KINDS.items()}
    told = run.get(_REQUESTS)
    if not isinstance(told, Mapping):
        return found
    services = run.get(Services.form.option)
    tables = services.get("tables") if isinstance(services, Mapping) else None
    if not isinstance(tables, Mapping):
        raise CannotRepeatError("a table of services", file="run.toml", key="services.tables", value=tables)
    place, sha256 = told.get("path"), told.get("sha256")
    if not isinstance(place, str) or sha256 is None:
        raise CannotRepeatError(
            "a file of requests; these were a table in memory", file="run.toml", key="requests", hint=_MEND
        )
    if not Path(place).is_file():
        raise CannotRepeatError("the requests that run.toml names are not there", file=place, hint=_MEND)
    if sha256_of(place) != sha256:
        raise CannotRepeatError("is not the table of requests of the run: it has changed", file=place)
    return found | {Services.form.option: dict(tables), _REQUESTS: place}
