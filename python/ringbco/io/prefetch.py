"""Columns of a Parquet file, read while the libraries that work on them are still being loaded."""

from __future__ import annotations

import os
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

PARQUET_MAGIC: Final = b"PAR1"
_LEAST: Final = 1 << 20
_MOST: Final = 1 << 28
"""Bytes of a file. A smaller one is read in no time, of a larger one too much would be held at once."""
_begun: Final[dict[tuple[Any, ...], Future[Any]]] = {}


def read_ahead(path: str | os.PathLike[str], names: Collection[str]) -> None:
    """Begins to read those of the columns that there are; what is wrong is reported when they are read."""
    with suppress(Exception):
        if not _LEAST <= os.stat(path).st_size <= _MOST:
            return
        with open(path, "rb") as file:
            if file.read(len(PARQUET_MAGIC)) != PARQUET_MAGIC:
                return
        import pyarrow.parquet as pq

        metadata = pq.read_metadata(path)
        pool = ThreadPoolExecutor(2)
        for name in metadata.schema.to_arrow_schema().names:
            if name in names:
                _begun[_key(path, name)] = pool.submit(_read, path, name, metadata)
        pool.shutdown(wait=False)


def column_of(path: str | os.PathLike[str], name: str, source: Any, metadata: Any) -> Any:
    """A column of the file as a pyarrow table that is sound. source: what pyarrow reads the file from.

    Raises what pyarrow does.
    """
    begun = _begun.pop(_key(path, name), None)
    return _read(source, name, metadata) if begun is None else begun.result()


def _read(source: Any, name: str, metadata: Any) -> Any:
    import pyarrow.parquet as pq

    # A file of its own: one cannot be read by two threads.
    table = pq.ParquetFile(source, metadata=metadata).read([name])
    table.validate(full=True)
    return table


def _key(path: str | os.PathLike[str], name: str) -> tuple[Any, ...]:
    """A column of the file as it is now."""
    about = os.stat(path)
    return os.fspath(path), name, about.st_ino, about.st_size, about.st_mtime_ns
