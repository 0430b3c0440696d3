"""The side tables of a sweep's runs: read from where the specification stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ringbco.run.outage_draws import Draw, as_draw, is_draw
from ringbco.trace.clock import EPOCH, parse_epoch
from ringbco.trace.epoch import epoch_of
from ringbco.trace.jobs import read_jobs, read_metadata
from ringbco.trace.quotas import Quotas
from ringbco.trace.side_tables import KINDS, ReadContext, SideTable, kind_of

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from ringbco.cluster.spec import Cluster
    from ringbco.trace.jobs import JobTable

SideTables = Mapping[str, SideTable | Draw]
"""Those of one run, by option."""


def read_side_inputs(options: Mapping[str, Any], folder: Path, cluster: Cluster) -> SideTables:
    """The tables that the options name, by option; those that are not read yet are read.

    folder: where their names start from. Dates in them are read on the clock of the trace. Raises InputError
    for a bad file.
    """
    named = {name: options[name] for name in KINDS if options.get(name) is not None}
    timed = any(KINDS[name].form.instants for name in named)
    trace = options["trace"][1] if timed else None
    known = ReadContext.of(cluster, epoch=None if trace is None else _epoch(trace.path, trace.table))
    found: dict[str, SideTable | Draw] = {}
    for name, given in named.items():
        if isinstance(given, SideTable):
            found[name] = given
        elif is_draw(given):
            found[name] = as_draw(given)
        else:
            kind = kind_of(name, options)
            paths = given if isinstance(given, tuple) else (given,)
            tables = [replace(kind.read(folder / path, known), source=path) for path in paths]
            found[name] = kind.read(tables, known) if tables[1:] else tables[0]
    return found


def digest_of(found: SideTable | Draw) -> str | None:
    """What tells a table, or several files of quotas, from others."""
    books = found.books if isinstance(found, Quotas) else [found]
    return ",".join(str(book.sha256) for book in books) if books[1:] else found.sha256


def name_of(found: SideTable | Draw) -> str:
    """What a table, or several files of quotas, are called."""
    return ", ".join(book.source for book in found.books) if isinstance(found, Quotas) else found.source


def missing_files(name: str, given: Any, folder: Path) -> list[str]:
    """The paths that an option of a side table names and that lead to no file."""
    paths = given if isinstance(given, tuple) else (given,)
    named = [path for path in paths if name in KINDS and path is not None and not is_draw(path)]
    return [path for path in named if not (folder / path).is_file()]


def _epoch(path: str, table: JobTable | None) -> datetime | None:
    """What 0 is on the clock of a trace, of a file or given as a table; None where it does not say."""
    said = None if table is not None else parse_epoch(read_metadata(path).get(EPOCH))
    return said or epoch_of(read_jobs(path) if table is None else table)
