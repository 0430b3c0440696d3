"""Tables of other libraries as polars frames, through the Arrow interface that they share."""

from __future__ import annotations

import re
from typing import Final, Protocol, runtime_checkable

import polars as pl

from ringbco.errors import InputError

_UNNAMED_INDEX: Final = re.compile(r"__index_level_\d+__")  # what pandas calls one in Arrow


@runtime_checkable
class ArrowTable(Protocol):
    """A table that speaks the Arrow PyCapsule interface: polars, pyarrow, pandas from 2.2, DuckDB, ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A PyCapsule with an Arrow stream of the table's rows."""
        ...


def as_polars(frame: object) -> pl.DataFrame:
    """`frame` as a polars DataFrame; its columns are shared where the library's memory is Arrow's.

    Of a pandas DataFrame the index is left out unless it has a name, and NaN is null. Raises InputError for
    anything that is no table, or that polars cannot hold.
    """
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if not isinstance(frame, ArrowTable):
        raise InputError(
            "jobs: expected a path, a JobTable, or a table of polars, pyarrow, pandas (2.2 or newer) or"
            f" another library with the Arrow PyCapsule interface, not {type(frame).__name__}"
        )
    import pyarrow as pa

    try:
        table = pa.table(frame)
        names = [name for name in table.column_names if not _UNNAMED_INDEX.fullmatch(name)]
        doubled = [name for name in names if names.count(name) > 1]
        if doubled:
            raise InputError(
                "each column once", file="<frame>", column=doubled[0], hint="rename or drop one of them"
            )
        # The schema's metadata is the other library's business, and polars warns of what it does not know.
        result = pl.from_arrow(table.select(names).replace_schema_metadata())
    except (pa.ArrowException, pl.exceptions.PolarsError, TypeError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"jobs: this {type(frame).__name__} is no readable table ({reason})") from error
    assert isinstance(result, pl.DataFrame)
    return result
