"""The folder of a sweep: one small file a finished run, gathered into one table."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import polars as pl

import ringbco
from ringbco.io.atomic import replacing
from ringbco.sweeps.spec import Run, Spec

TABLE: Final = "runs.parquet"
RUNS: Final = "runs"
SPEC: Final = "sweep.json"
_MEASURED_HERE: Final = ("engine_seconds", "total_seconds", "jobs_per_second")

Record = dict[str, Any]
"""How a run ended: {"summary": ...} or {"error": ..., "final": whether it would end so again}.

Beside the summary, "warnings" where the run gave any.
"""


class Store:
    """A sweep's folder: one small file a finished run, gathered into one table."""

    def __init__(self, folder: Path, spec: Spec) -> None:
        self._folder = folder
        self._spec = spec
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        document = {"ringbco": ringbco.__version__, "spec": spec.document}
        self._put(folder / SPEC, (json.dumps(document, indent=2, default=str) + "\n").encode())
        self.records: dict[str, Record] = {}
        for key in {run.key for run in spec.runs}:
            record = self._read(key)
            if record is not None:
                self.records[key] = record

    def add(self, key: str, record: Record) -> None:
        """Takes a run's record in, and keeps it if the run would end so again."""
        self.records[key] = record
        if record.get("final", True):
            self._put(self._file(key), (json.dumps(record, indent=2) + "\n").encode())

    def gather(self) -> pl.DataFrame:
        """Writes runs.parquet, unless it is as it should be, and returns its rows."""
        rows = [(run, self.records[run.key]) for run in self._spec.runs if run.key in self.records]
        frame = _frame(rows)
        data = io.BytesIO()
        frame.write_parquet(data, compression="zstd", compression_level=1, statistics=False)
        self._put(self._folder / TABLE, data.getvalue())
        return frame

    def _file(self, key: str) -> Path:
        return self._folder / RUNS / f"{key}.json"

    def _read(self, key: str) -> Record | None:
        """The record of a finished run; None where there is none, or a damaged one."""
        try:
            record = json.loads(self._file(key).read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        whole = isinstance(record, dict) and ("summary" in record or "error" in record)
        return record if whole else None

    @staticmethod
    def _put(path: Path, data: bytes) -> None:
        """Writes a file whole or not at all, unless it holds just this."""
        if not path.is_file() or path.read_bytes() != data:
            with replacing(path, force=True, left="the finished runs are kept") as file:
                file.write(data)


def _frame(rows: Sequence[tuple[Run, Record]]) -> pl.DataFrame:
    """One row a run: its settings, its summary, last of it what was measured on a machine, its error."""
    summaries: list[Mapping[str, Any]] = [record.get("summary", {}) for _, record in rows]
    columns = {}
    for name in dict.fromkeys(chain.from_iterable(run.settings for run, _ in rows)):
        columns[name] = _column([run.settings[name] for run, _ in rows])
    for name in sorted(dict.fromkeys(chain.from_iterable(summaries)), key=_MEASURED_HERE.__contains__):
        values = [summary.get(name) for summary in summaries]
        if name not in columns:
            columns[name] = _column(values)
        elif name == "policy":
            continue  # as the specification has it; a summary has the file's place on that machine
        elif any(record.get("summary", run.settings)[name] != run.settings[name] for run, record in rows):
            columns[f"chosen_{name}"] = _column(values)  # such as the planner's kappa
    columns["error"] = pl.Series([record.get("error") for _, record in rows], dtype=pl.String())
    return pl.DataFrame(columns)


def _column(values: Sequence[Any]) -> pl.Series:
    """A column of the narrowest type that holds every value; numbers that nobody gave are null floats."""
    kinds = {type(value) for value in values if value is not None}
    dtype: pl.DataType | None = None
    if kinds <= {int, float}:
        dtype = pl.Float64()
        if kinds == {int}:
            dtype = pl.UInt64() if max(filter(None, values), default=0) >= 2**63 else pl.Int64()
    return pl.Series(values, dtype=dtype)
