"""Traces of a sweep, and the tables and clusters that its specification holds as objects: names, content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import polars as pl

from ringbco.cluster.spec import Cluster
from ringbco.io.frames import ArrowTable
from ringbco.trace.jobs import COLUMNS, JobTable, from_frame, read_jobs
from ringbco.trace.workload import Workload

NUMBERS: Final = (pl.Float64, pl.UInt64, pl.UInt32, pl.Float32, pl.Boolean)


@dataclass(frozen=True)
class Trace:
    """A job table's file and the SHA-256 of its bytes.

    name: the path as the user wrote it. table: filled where the trace travels by value, as one that was given
    as a table does: it has no path, and the SHA-256 is that of its content. ready: what travels with it of
    workloads that several runs share, by load, cluster and options.
    """

    path: str
    sha256: str
    name: str = field(compare=False)
    table: JobTable | None = field(default=None, compare=False, repr=False)
    ready: Mapping[tuple[Hashable, ...], Workload] = field(default_factory=dict, compare=False, repr=False)


def table_of_trace(trace: Trace) -> JobTable:
    """The table of a trace that did not come with it."""
    return trace.table or replace(read_jobs(trace.path), source=trace.name)


class Objects:
    """The tables and clusters of one specification, each known by the object that the caller gave.

    Two objects of one name and unlike content are told apart by a number: "<frame>" and "<frame> [2]".
    """

    def __init__(self) -> None:
        # The object is kept as well: an id belongs to it only for as long as it lives.
        self._tables: dict[int, tuple[object, JobTable, str]] = {}
        self._clusters: dict[int, tuple[object, Cluster]] = {}
        self._named: dict[tuple[str, str], Any] = {}

    def table(self, value: object) -> tuple[JobTable, str] | None:
        """The table that `value` is, under its name, and the SHA-256 of its content; None for no table.

        Raises InputError for a frame that is no job table.
        """
        if isinstance(value, str | os.PathLike) or not isinstance(
            value, JobTable | ArrowTable | pl.LazyFrame
        ):
            return None
        if id(value) not in self._tables:
            table = value if isinstance(value, JobTable) else from_frame(value)
            sha256 = content(table)
            named = replace(table, source=self._name("table", table.source, sha256))
            self._tables[id(value)] = (value, named, sha256)
        _, table, sha256 = self._tables[id(value)]
        return table, sha256

    def cluster(self, value: Cluster) -> Cluster:
        """The cluster under its name."""
        if id(value) not in self._clusters:
            name = value.name or f"{value.num_servers} servers"
            named = replace(value, name=self._name("cluster", name, value))
            self._clusters[id(value)] = (value, named)
        return self._clusters[id(value)][1]

    def document(self, value: Any) -> Any:
        """A specification, or a part of it, as sweep.json holds it: with names in place of the objects."""
        if isinstance(value, Mapping):
            return {name: self.document(entry) for name, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self.document(entry) for entry in value]
        if isinstance(value, Cluster):
            return self.cluster(value).name
        found = self.table(value)
        return value if found is None else found[0].source

    def _name(self, kind: str, name: str, content: object) -> str:
        number = 1
        while (
            self._named.setdefault((kind, name if number == 1 else f"{name} [{number}]"), content) != content
        ):
            number += 1
        return name if number == 1 else f"{name} [{number}]"


def content(table: JobTable) -> str:
    """The SHA-256 of the columns of a job table that ringbco knows; the same on every machine.

    Neither the table's name nor its metadata count, nor how its memory is laid out.
    """
    digest = hashlib.sha256()
    for name in COLUMNS:
        if name not in table.frame.columns:
            continue
        column = table.frame[name]
        digest.update(f"{name} {column.dtype} {column.len()}\n".encode())
        digest.update(column.is_null().to_numpy().tobytes())
        if column.dtype in NUMBERS:
            digest.update(column.fill_null(0).to_numpy().tobytes())
        else:
            text = column.cast(pl.String).fill_null("")
            digest.update(text.str.len_bytes().to_numpy().tobytes())
            digest.update("".join(text).encode())
    return digest.hexdigest()
