"""The folder of a sweep: one small file a finished run, gathered into one table."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import polars as pl

import ringbco
from ringbco.errors import InputError
from ringbco.io import marks
from ringbco.io.atomic import replacing
from ringbco.io.digests import json_digest
from ringbco.io.json_text import json_text
from ringbco.io.marks import Mark, signature
from ringbco.result.folder import WALL_TIME, check_target
from ringbco.sweeps.over import Over
from ringbco.sweeps.spec import Run, Spec

TABLE: Final = "runs.parquet"
SEEDS: Final = "seeds.parquet"
RUNS: Final = "runs"
SPEC: Final = "sweep.json"
_DIGEST: Final = "sha256"
_MOVE: Final = "move it away, or give another name"

Record = dict[str, Any]
"""How a run ended: {"summary": ...} or {"error": ..., "final": whether it would end so again}.

Beside the summary, "warnings" where the run gave any. Its file has a digest too.
"""


class Store:
    """A sweep's folder: one small file a finished run, gathered into one table.

    damaged: the files that are not as the sweep wrote them; the runs of such records count as not done.
    """

    def __init__(self, folder: Path, spec: Spec) -> None:
        """Makes or takes up the folder. Raises InputError for what it would replace and did not write."""
        self._folder = folder
        self._spec = spec
        self.records: dict[str, Record] = {}
        self.damaged: list[Path] = []
        check_folder(folder)
        for key in sorted({run.key for run in spec.runs}):
            record = self._read(key)
            if record is not None:
                self.records[key] = record
        if _is_damaged(folder / TABLE):
            self.damaged.append(folder / TABLE)
        folder.mkdir(parents=True, exist_ok=True)
        document: dict[str, Any] = {"ringbco": ringbco.__version__, "spec": spec.document}
        if spec.seeds.seeds > 1:
            document["seeds"] = spec.seeds.seeds
            document |= {"kind": spec.seeds.kind, "changed": list(spec.changed)}
        if spec.aim is not None:
            document["aim"] = spec.aim
        _put(folder / SPEC, (json_text(document, default=str) + "\n").encode(), _SPEC_MARK)
        (folder / RUNS).mkdir(exist_ok=True)

    def add(self, key: str, record: Record) -> None:
        """Takes a run's record in, and keeps it if the run would end so again."""
        self.records[key] = record
        if record.get("final", True):
            text = json_text({**record, _DIGEST: json_digest([key, record])})
            _put(self._file(key), f"{text}\n".encode(), _RECORD_MARK)

    def gather(self) -> pl.DataFrame:
        """Writes runs.parquet, unless it is as it should be, and returns its rows."""
        rows = [(run, self.records[run.key]) for run in self._spec.runs if run.key in self.records]
        frame = _frame(rows)
        _put(self._folder / TABLE, _parquet(frame), _TABLE_MARK)
        return frame

    def tell_seeds(self, over: Over) -> None:
        """Writes seeds.parquet."""
        _put(self._folder / SEEDS, _parquet(over.frame), _TABLE_MARK)

    def _file(self, key: str) -> Path:
        return self._folder / RUNS / f"{key}.json"

    def _read(self, key: str) -> Record | None:
        """The record of a finished run; None where there is none, or a damaged one."""
        path = self._file(key)
        if not os.path.lexists(path):
            return None
        _refuse_strange(path, _RECORD_MARK)
        record = marks.document(path)
        if record.pop(_DIGEST, None) == json_digest([key, record]):
            return record
        self.damaged.append(path)
        return None


def _parquet(frame: pl.DataFrame) -> bytes:
    data = io.BytesIO()
    frame.write_parquet(
        data, compression="zstd", compression_level=1, statistics=False, metadata=signature("sweep")
    )
    return data.getvalue()


def check_folder(folder: Path) -> None:
    """Raises InputError unless a sweep may be made or taken up there, and no foreign file is replaced."""
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        if not (os.path.lexists(folder / SPEC)):
            raise InputError("already exists and is no sweep's folder", file=folder, hint="give another name")
        _refuse_strange(folder / SPEC, _SPEC_MARK)
        for table in (TABLE, SEEDS):
            if os.path.lexists(folder / table):
                _refuse_strange(folder / table, _TABLE_MARK)
        runs = folder / RUNS
        if os.path.lexists(runs) and (runs.is_symlink() or not runs.is_dir()):
            raise InputError("is no folder of a sweep's runs", file=runs, hint=_MOVE)
    else:
        check_target(folder, force=True)


def _refuse_strange(path: Path, mark: Mark) -> None:
    """Raises InputError unless the file is as a sweep writes it; a link never is."""
    if path.is_symlink() or not mark.may_go(path):
        raise InputError(f"is no {mark.name}, so it is not replaced", file=path, hint=_MOVE)


def _put(path: Path, data: bytes, mark: Mark) -> None:
    """Writes a file whole or not at all, unless it holds just this."""
    if os.path.lexists(path):
        _refuse_strange(path, mark)
        if path.read_bytes() == data:
            return
    with replacing(path, mark, force=True, left="the finished runs are kept") as file:
        file.write(data)


def _is_table(path: Path) -> bool:
    """Whether a file is a sweep's table: signed; of an earlier version, which signed none; or damaged."""
    if marks.is_signed(path) or _is_damaged(path):
        return True
    footer = marks.footer(path)
    return footer is not None and marks.is_polars(footer) and footer.schema.names[-1:] == ["error"]


def _is_damaged(table: Path) -> bool:
    """Whether a file was Parquet and cannot be read as that."""
    return (marks.first_bytes(table) or b"").startswith(marks.PARQUET) and marks.footer(table) is None


def _is_spec(path: Path) -> bool:
    told = marks.document(path)
    return "spec" in told and isinstance(told.get("ringbco"), str)


_SPEC_MARK: Final = Mark("record of a sweep of ringbco's", _is_spec)
_TABLE_MARK: Final = Mark("table of a sweep of ringbco's", _is_table)
# Whatever has the name of a run is its record, damaged perhaps.
_RECORD_MARK: Final = Mark("record of a run", lambda _: True)


def _frame(rows: Sequence[tuple[Run, Record]]) -> pl.DataFrame:
    """One row a run: its settings, its summary, last of it what was measured on a machine, its error."""
    summaries: list[Mapping[str, Any]] = [record.get("summary", {}) for _, record in rows]
    columns = {}
    for name in dict.fromkeys(chain.from_iterable(run.settings for run, _ in rows)):
        columns[name] = _column([run.settings[name] for run, _ in rows])
    for name in sorted(dict.fromkeys(chain.from_iterable(summaries)), key=WALL_TIME.__contains__):
        values = [summary.get(name) for summary in summaries]
        if name not in columns:
            columns[name] = _column(values)
        elif name == "policy":
            continue  # as the specification has it; a summary has the file's place on that machine
        elif any(record.get("summary", run.settings).get(name) != run.settings[name] for run, record in rows):
            columns[f"chosen_{name}"] = _column(values)  # such as the planner's kappa
    columns["error"] = pl.Series([record.get("error") for _, record in rows], dtype=pl.String())
    return pl.DataFrame(columns)


def _column(values: Sequence[Any]) -> pl.Series:
    """A column of the narrowest type that holds every value; missing numbers are null floats."""
    kinds = {type(value) for value in values if value is not None}
    dtype: pl.DataType | None = None
    if kinds <= {int, float}:
        dtype = pl.Float64()
        if kinds == {int}:
            dtype = pl.UInt64() if max(filter(None, values), default=0) >= 2**63 else pl.Int64()
    if str in kinds:  # such as a share in one run and a time in another
        values = [None if value is None else str(value) for value in values]
    return pl.Series(values, dtype=dtype)
