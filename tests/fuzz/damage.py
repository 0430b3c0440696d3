"""Strategies that damage sound inputs: bytes, cells of text, columns of Arrow tables, documents."""

from __future__ import annotations

import copy
import datetime
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import reject
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

TEXTS: Final = (
    *("", " ", "0", "-1", "1", "NaN", "nan", "inf", "-inf", "1e308", "1e999", "-1e308", "1e-320", "0.5"),
    *(
        "18446744073709551616",
        "4294967296",
        "9007199254740993",
        "1" * 400,
        "1_000",
        "0x10",
        "\uff11\uff12",
        "+5",
        ".",
        "-",
    ),
    *(
        "null",
        "None",
        "true",
        "=cmd|' /C calc'!A0",
        "@SUM(1)",
        '"',
        '""',
        '"open',
        "'",
        ",",
        ";",
        "\t",
        "a\nb",
    ),
    *("\r", "\x00", "\x1b[31m", "\u202e", "\ufeff", "\ud7ff\U0010ffff", "é", "x" * 5_000, "../../etc/passwd"),
    *("2020-02-30 25:61:61", "9999-12-31 23:59:59", "0000-00-00 00:00:00", "262143-01-01 00:00:00"),
    *("1e16", "99999999999999999999", "[]", "{}", "<b>", "%s", "{0}", "\\"),
)
BYTES: Final = (
    *(
        b"\0",
        b"\xff",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\n",
        b"\r",
        b"\r\n",
        b'"',
        b",",
        b"\xef\xbb\xbf",
        b"PAR1",
    ),
    *(b"\x1f\x8b\x08\x00", b"PK\x03\x04", b"BZh9", b"\x28\xb5\x2f\xfd", b"\xff" * 8, b"{", b"[", b"]", b"}"),
    *(b"<html>", b"=", b"nan", b"inf", b"-", b"e999", b"9" * 40, b"'''", b"#", b"\\", b"\x80"),
)
VALUES: Final = (
    *(None, True, False, 0, 1, -1, 2, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64, 10**400),
    *(0.0, -0.0, 0.5, -1.0, 1e-320, 1e16, 1e150, 1e308, math.nan, math.inf, -math.inf),
    *("", "0", "a", "x" * 5_000, "\x00", "\x1b", "a\nb", "é", "4x4", "\ud800", "/", "."),
    *([], [[]], [0], ["a"], [None], {}, {"a": 1}, {"": {}}, [{}], [[1, 2], [3]], [{"count": 1}]),
)
TOML_VALUES: Final = tuple(value for value in VALUES if value is not None and value != [None])


@st.composite
def damaged_bytes(draw: Draw, data: bytes, *, most: int = 3) -> bytes:
    """Bytes flipped, cut off or out, repeated and inserted, up to `most` times."""
    for _ in range(draw(st.integers(1, most))):
        if not data:
            return draw(st.sampled_from(BYTES))
        at = draw(st.integers(0, len(data) - 1))
        end = min(len(data), at + draw(st.sampled_from((1, 2, 8, 100, len(data)))))
        match draw(st.sampled_from(("flip", "set", "insert", "cut out", "cut off", "repeat"))):
            case "flip":
                data = data[:at] + bytes([data[at] ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :]
            case "set":
                data = data[:at] + draw(st.sampled_from(BYTES)) + data[at + 1 :]
            case "insert":
                data = data[:at] + draw(st.sampled_from(BYTES)) + data[at:]
            case "cut out":
                data = data[:at] + data[end:]
            case "cut off":
                data = data[:at]
            case "repeat":
                data = data[:end] + data[at:end] * draw(st.sampled_from((1, 2, 50))) + data[end:]
    return data


@st.composite
def damaged_text(draw: Draw, text: str, mark: str = ",", *, first: int = 0, most: int = 3) -> bytes:
    """A text of lines of cells; cells replaced, columns and lines dropped, doubled, moved and renamed.

    first: the line from which on cells are replaced. Now and then its bytes are damaged as well.
    """
    lines = [line.split(mark) for line in text.split("\n")]
    for _ in range(draw(st.integers(0, most))):
        row = draw(st.integers(min(first, len(lines) - 1), len(lines) - 1))
        column = draw(st.integers(0, max(1, *map(len, lines)) - 1))
        here = lines[row]
        match draw(
            st.sampled_from(("cell", "cell", "cell", "column", "drop", "double", "name", "line", "lines"))
        ):
            case "cell" if column < len(here):
                here[column] = draw(st.sampled_from(TEXTS))
            case "column":
                value = draw(st.sampled_from(TEXTS))
                lines[1:] = [[value if i == column else c for i, c in enumerate(one)] for one in lines[1:]]
            case "drop":
                lines = [one[:column] + one[column + 1 :] for one in lines]
            case "double":
                lines = [one[: column + 1] + one[column:] for one in lines]
            case "name" if column < len(lines[0]):
                lines[0][column] = draw(st.sampled_from((*TEXTS, *lines[0], lines[0][column].upper())))
            case "line":
                del lines[row]
                lines = lines or [[""]]
            case "lines":
                lines.insert(row, list(here))
    data = "\n".join(map(mark.join, lines)).encode("utf-8", "surrogatepass")
    return draw(damaged_bytes(data)) if draw(st.integers(0, 3)) == 0 else data


def _retyped(values: list[Any]) -> dict[str, Callable[[], Any]]:
    """The values of a column as other types."""
    numbers = [v if isinstance(v, int | float) and not isinstance(v, bool) else 1 for v in values]
    whole = [int(v) if math.isfinite(v) and 0 <= v < 100 else 1 for v in numbers]
    texts = [None if v is None else str(v) for v in values]
    moment = datetime.datetime(2020, 1, 1)
    return {
        "decimal256": lambda: pa.array([Decimal(v) for v in whole], pa.decimal256(60, 3)),
        "decimal128": lambda: pa.array([Decimal(v) for v in whole], pa.decimal128(38, 3)),
        "list": lambda: pa.array([[v] for v in values]),
        "large list": lambda: pa.array([[v] for v in whole], pa.large_list(pa.int8())),
        "fixed list": lambda: pa.array([[v, v] for v in whole], pa.list_(pa.int64(), 2)),
        "struct": lambda: pa.array([{"a": v} for v in values]),
        "nested": lambda: pa.array([[{"a": [v]}] for v in values]),
        "deep decimal256": lambda: pa.array([[Decimal(v)] for v in whole], pa.list_(pa.decimal256(60, 3))),
        "map": lambda: pa.array([[("k", v)] for v in whole], pa.map_(pa.string(), pa.int64())),
        "dictionary": lambda: pa.array(texts).dictionary_encode(),
        "dictionary of numbers": lambda: pa.array(whole).dictionary_encode(),
        "null": lambda: pa.nulls(len(values)),
        "bool": lambda: pa.array([bool(v) for v in values]),
        "text": lambda: pa.array(texts, pa.string()),
        "large text": lambda: pa.array(texts, pa.large_string()),
        "text view": lambda: pa.array(texts, pa.string_view()),
        "bytes": lambda: pa.array([b"\xff\xfe"] * len(values), pa.binary()),
        "fixed bytes": lambda: pa.array([b"abcd"] * len(values), pa.binary(4)),
        "bad text": lambda: pa.Array.from_buffers(
            pa.string(), len(values), pa.array([b"\xff\xfe"] * len(values), pa.binary()).buffers()
        ),
        "int8": lambda: pa.array(whole, pa.int8()),
        "uint64": lambda: pa.array([2**64 - 1] * len(values), pa.uint64()),
        "float16": lambda: pa.array([float(v) for v in whole], pa.float32()).cast(pa.float16()),
        "float32": lambda: pa.array([float(v) for v in numbers], pa.float32()),
        "float64": lambda: pa.array([float(v) for v in numbers], pa.float64()),
        "date": lambda: pa.array([moment.date()] * len(values)),
        "timestamp": lambda: pa.array([moment] * len(values), pa.timestamp("ns", tz="Asia/Shanghai")),
        "no zone": lambda: pa.array([moment] * len(values), pa.timestamp("us", tz="No/Where")),
        "duration": lambda: pa.array([datetime.timedelta(seconds=v) for v in whole]),
        "time": lambda: pa.array([moment.time()] * len(values), pa.time32("s")),
    }  # fmt: skip


KINDS: Final = tuple(_retyped([]))


@st.composite
def damaged_table(draw: Draw, table: pa.Table, *, most: int = 3) -> pa.Table:
    """An Arrow table with cells replaced, columns dropped, doubled, renamed, retyped, rows gone, chunks."""
    names, columns = list(table.column_names), [column.combine_chunks() for column in table.columns]
    for _ in range(draw(st.integers(1, most))):
        if not columns:
            break
        at = draw(st.integers(0, len(columns) - 1))
        rows = len(columns[at])
        match draw(st.sampled_from(("cell", "cell", "type", "drop", "double", "name", "add", "rows"))):
            case "cell" if rows:
                row, value = draw(st.integers(0, rows - 1)), draw(st.sampled_from((*VALUES, *TEXTS)))
                columns[at] = _with_cell(columns[at], row, value)
            case "type":
                columns[at] = retyped(columns[at], draw(st.sampled_from(KINDS)))
            case "add":
                names.append(
                    draw(st.sampled_from(("status", "extra", "vc", "deadline", "user", "wait_gpus")))
                )
                columns.append(retyped(columns[at], draw(st.sampled_from(KINDS))))
            case "drop":
                del names[at], columns[at]
            case "double":
                names.append(names[at])
                columns.append(columns[at])
            case "name":
                names[at] = draw(st.sampled_from((*names, names[at].upper(), *TEXTS)))
            case "rows":
                keep = draw(st.sampled_from((0, 1, rows // 2)))
                columns = [column[:keep] for column in columns]
    names = [name.encode("utf-8", "replace").decode() for name in names]
    made = pa.table(columns, names=names)
    cut = draw(st.integers(0, 1)) * (made.num_rows // 2)
    return pa.concat_tables([made[:cut], made[cut:]]) if cut else made


def parquet_bytes(table: pa.Table, compression: str = "zstd") -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=compression, row_group_size=4)
    return sink.getvalue().to_pybytes()


def written(path: Path, data: bytes) -> Path:
    """The file, with these bytes in it."""
    path.write_bytes(data)
    return path


def storable(table: pa.Table) -> bytes:
    """The table as Parquet; gives the case up where that cannot hold it."""
    try:
        return parquet_bytes(table)
    except pa.ArrowNotImplementedError:
        reject()


def written_parquet(path: Path, table: pa.Table) -> Path:
    """The Parquet file, with the table in it."""
    return written(path, storable(table))


def retyped(column: pa.Array, kind: str) -> pa.Array:
    """The column as another type, or as it is where that cannot hold it."""
    try:
        return _retyped(column.to_pylist())[kind]()
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        return column


def _with_cell(column: pa.Array, row: int, value: Any) -> pa.Array:
    """The column with another value, of its own type where that can hold it."""
    try:
        values = column.to_pylist()
    except (ValueError, pa.ArrowException):  # texts that are none
        return column
    values[row] = value
    for kind in (column.type, None):
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, ValueError, OverflowError, TypeError):
            continue
    return pa.array([None if v is None else str(v).encode("utf-8", "replace").decode() for v in values])


def _places(document: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(document, dict | list):
        return [at]
    inside = document.items() if isinstance(document, dict) else enumerate(document)
    return [*([at] if at else []), *(place for key, value in inside for place in _places(value, (*at, key)))]


@st.composite
def damaged_document(draw: Draw, document: Any, values: Sequence[Any] = VALUES, *, most: int = 3) -> Any:
    """A document of dicts and lists with values of other types, keys dropped and renamed."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, most))):
        places = _places(document) if isinstance(document, dict | list) else []
        if not places or draw(st.integers(0, 60)) == 0:
            return copy.deepcopy(draw(st.sampled_from(values)))
        *above, key = draw(st.sampled_from(places))
        inside = document
        for step in above:
            inside = inside[step]
        match draw(st.sampled_from(("value", "value", "value", "drop", "double", "name"))):
            case "value":
                inside[key] = copy.deepcopy(draw(st.sampled_from(values)))
            case "drop":
                del inside[key]
            case "double" if isinstance(inside, list):
                inside.append(copy.deepcopy(inside[key]))
            case "name" if isinstance(inside, dict):
                inside[draw(st.sampled_from(("", "x", "\n", str(key).upper(), f"{key}s", "é")))] = inside.pop(
                    key
                )
    return document
