"""Parquet tables of a result: the same frame gives the same bytes, and damage is named."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from ringbco.errors import InputError
from ringbco.io.forks import use_polars
from ringbco.io.frames import arrow_source, refuse_unheld
from ringbco.io.memory import raise_lack


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Writes Parquet: the same frame gives the same bytes. Raises OSError where the system refuses."""
    use_polars()
    try:
        # Opened here: polars takes no name that is not UTF-8.
        with open(path, "wb") as file:
            frame.write_parquet(file, compression="zstd", compression_level=1, statistics=False)
    except pl.exceptions.PolarsError as error:
        # Polars wraps what the system said: "...: No space left on device (os error 28)".
        said = re.search(r"\(os error (\d+)\)", str(error))
        number = int(said.group(1)) if said else errno.EIO
        raise OSError(number, os.strerror(number)) from error


def read_table(path: Path, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Reads one Parquet table of a result folder; InputError if it is missing, damaged or lacks a column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    use_polars()
    if not path.is_file():
        raise InputError("expected a file of the result folder; it is missing", file=path)
    try:
        # pyarrow, not polars: polars' reader panics on some damaged files.
        file = pq.ParquetFile(arrow_source(path))
        refuse_unheld(path, file.schema_arrow)
        table = file.read()
        table.validate(full=True)
        frame = pl.from_arrow(table)
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError, MemoryError) as error:
        raise_lack(error)
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"is a truncated or damaged Parquet file ({reason})", file=path) from None
    assert isinstance(frame, pl.DataFrame)
    for name, dtype in schema.items():
        if name not in frame.columns:
            raise InputError(f"expected a column {name}; there is none", file=path)
        if frame.schema[name] != dtype:
            raise InputError(f"{dtype}", file=path, column=name, value=str(frame.schema[name]))
    return frame
