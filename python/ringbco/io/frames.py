"""Tables of other libraries as polars frames, through the Arrow interface that they share."""

from __future__ import annotations

import os
import re
from typing import Any, Final, Protocol, runtime_checkable

import polars as pl

from ringbco.errors import InputError
from ringbco.io.forks import use_polars

_UNNAMED_INDEX: Final = re.compile(r"__index_level_\d+__")  # what pandas calls one in Arrow


@runtime_checkable
class ArrowTable(Protocol):
    """A table that speaks the Arrow PyCapsule interface: polars, pyarrow, pandas from 2.2, DuckDB, ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A PyCapsule with an Arrow stream of the table's rows."""
        ...


class ArrowColumn:
    """A pyarrow column for `pl.Series`, through the interface that both speak.

    Given the column itself, polars imports pyarrow.compute: a fifth of what a small replay takes.
    """

    def __init__(self, column: ArrowTable) -> None:
        self._column = column

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._column.__arrow_c_stream__(requested_schema)


def as_polars(frame: object, option: str = "jobs") -> pl.DataFrame:
    """`frame` as a polars DataFrame; its columns are shared where the library's memory is Arrow's.

    Of a pandas DataFrame the index is left out unless it has a name, and NaN is null. Raises InputError for
    anything that is no table, or that polars cannot hold; option: what it calls an unreadable one.
    """
    use_polars()
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
        refuse_unheld("<frame>", table.schema)
        # The schema's metadata is the other library's business, and polars warns of what it does not know.
        result = pl.from_arrow(table.select(names).replace_schema_metadata())
    except (pa.ArrowException, pl.exceptions.PolarsError, TypeError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{option}: this {type(frame).__name__} is no readable table ({reason})") from error
    assert isinstance(result, pl.DataFrame)
    return result


def arrow_source(path: str | os.PathLike[str]) -> Any:
    """What pyarrow reads the file from: its name or, where that is not UTF-8, which it refuses, its bytes."""
    try:
        os.fspath(path).encode("utf-8")
    except UnicodeEncodeError:
        import pyarrow as pa

        with open(path, "rb") as file:
            return pa.BufferReader(file.read())
    return path


def refuse_unheld(file: str | os.PathLike[str], fields: Any) -> None:
    """Raise InputError for the first of a pyarrow schema's fields whose values polars cannot hold.

    Asked before polars is: it panics on them, whether anybody reads the column or not.
    """
    for field in fields:
        if _is_unheld(field.type):
            raise InputError(
                f"a type that can be read, not {field.type}",
                file=file,
                column=field.name,
                hint="store it as float64 or as text, or leave the column out",
            )


def _is_unheld(kind: Any) -> bool:
    """Whether it is, or is made of, decimals of 256 bits, lists of no length, times of no known zone."""
    import pyarrow as pa

    if pa.types.is_decimal256(kind) or (pa.types.is_fixed_size_list(kind) and kind.list_size == 0):
        return True
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:
            pl.Series([], dtype=pl.Datetime("us", kind.tz))
        except pl.exceptions.PolarsError:
            return True
    if pa.types.is_dictionary(kind):
        return _is_unheld(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _is_unheld(kind.storage_type)
    return any(_is_unheld(kind.field(i).type) for i in range(kind.num_fields))
