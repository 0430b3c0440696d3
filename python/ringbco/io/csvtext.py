"""Reading a table as text: the file's nature, its header, its shape, every cell exactly as written."""

from __future__ import annotations

import csv
import gzip
import io
import mmap
import os
import re
import shlex
import tomllib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from ringbco.errors import InputError, show_value
from ringbco.io.foreign import refuse_packed, refuse_workbook
from ringbco.io.printed import not_a_table

_LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_CONVERT: Final = "a public trace becomes a job table with `ringbco convert`"
# The first line of a TOML file whose first table is [ringbco] or [[servers]]; no JSON begins so.
_TOML: Final = re.compile(rb"\[\[?\s*[A-Za-z_][\w.-]*\s*\]\]?[ \t]*(#.*)?(\r?\n|$)")
_LONGEST_HEADER: Final = 1 << 20
_PART: Final = 1 << 20
LONGEST_ROW: Final = 1 << 24
"""Bytes of a row of a text file. A few megabytes of gzip may hold one of a gigabyte, which readers copy."""
_SHORT_ROWS: Final = f"a row of at most {LONGEST_ROW >> 20} MiB"
_CONTROL: Final = re.compile(rb"[\x01-\x08\x0e-\x1f]")
INDEX: Final = re.compile(r"\s*|Unnamed: 0(\.\d+)?|__index_level_\d+__")
"""What pandas calls an index that has no name: in CSV, read and written again, in Parquet."""
_MARK: Final = b"\xef\xbb\xbf"
_NEWLINE, _QUOTE = 0x0A, 0x22
SEPARATORS: Final = ",;\t|"


@dataclass(frozen=True)
class TextTable:
    """A CSV file as columns of text: an empty cell is null, everything else stays as it was written."""

    frame: pl.DataFrame
    record_starts: np.ndarray | None  # byte offsets of the records, kept only where a cell holds a line end
    data: bytes

    def line(self, row: int) -> int:
        """The file's line on which data row `row` (from 1) begins, the header being line 1."""
        if self.record_starts is None:
            return row + 1
        return self.data.count(b"\n", 0, int(self.record_starts[row])) + 1


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The file's bytes; InputError where it is missing, unreadable, empty or no regular file."""
    file = Path(path)
    if file.is_dir():
        raise InputError("is a folder, not a file", file=path, hint="give a Parquet or CSV file inside it")
    if file.exists() and not file.is_file():
        raise InputError("is not a regular file", file=path, hint="save it to a file first")
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise InputError("no such file", file=path, hint="check the path") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from error
    if not data:
        raise InputError("is an empty file", file=path, hint="the download or copy may have failed")
    return data


def refuse_foreign(path: str | os.PathLike[str], data: bytes) -> None:
    """Raise InputError for bytes that are plainly not a table, saying what they are."""
    head = data[:4096].removeprefix(_MARK).lstrip()
    if head.startswith(_LFS_POINTER):
        raise InputError(
            "is a Git LFS pointer, not the data", file=path, hint="fetch it with `git lfs pull`, then use it"
        )
    if head[:1] == b"<" or head[:9].lower() == b"<!doctype":
        raise InputError(
            "is an HTML or XML page, not a trace",
            file=path,
            hint="download the file itself, not its web page",
        )
    if _TOML.match(head) or os.fspath(path).lower().endswith(".toml"):
        raise _toml(path, data)
    if data.startswith(b"PAR1"):  # whoever asks has looked for one that is not compressed
        unpack = f"`gunzip -k {shlex.quote(os.fspath(path))}`"
        raise InputError("is a Parquet file that gzip compressed", file=path, hint=f"unpack it, {unpack}")
    if head[:1] in (b"{", b"["):
        raise InputError("is JSON, not a job table (Parquet or CSV)", file=path, hint=_CONVERT)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("is UTF-16 text", file=path, hint="save it as UTF-8")
    refuse_workbook(path, data)
    refuse_packed(path, data)
    if head.startswith(b"PK\x03\x04"):
        raise InputError(
            "is a ZIP archive", file=path, hint="unpack it and give the CSV or Parquet file inside"
        )
    printed = not_a_table(os.fspath(path), head.decode("utf-8", errors="replace"))
    if printed is not None:
        raise printed
    if data.find(b"\0") >= 0:
        refuse_nul(path, data)
        raise InputError("is binary data, not a trace (Parquet or CSV)", file=path, hint=_CONVERT)


def refuse_nul(path: str | os.PathLike[str], data: bytes) -> None:
    """Raise InputError for a text with a NUL in a cell below its first line; binary data are none."""
    before = data[: data.find(b"\0")]
    if _CONTROL.search(before):
        return
    try:
        header, *lines = before.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return
    if not (lines and header.strip()):
        return
    mark = separator(header)
    start, place = before.rfind(b"\n") + 1, lines[-1].count(mark)
    cells = data[start:].split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r").split(mark)
    names = header.removeprefix("\ufeff").rstrip("\r").split(mark)
    raise InputError(
        "text without the character NUL",
        file=path,
        row=len(lines),
        line=len(lines) + 1,
        column=names[place] if place < len(names) else None,
        value=cells[place],
        hint="mend that cell",
    )


def _toml(path: str | os.PathLike[str], data: bytes) -> InputError:
    """What to raise for a TOML file: whether it is the record of a run, and of which job table."""
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        document = {}
    trace = document.get("trace")
    if isinstance(trace, dict) and "options" in document:
        return InputError(
            "is the record of a run (TOML), not a job table",
            file=path,
            hint=f"give the job table that was replayed: {show_value(str(trace.get('path')))}",
        )
    return InputError("is a TOML file, not a job table", file=path, hint="give a Parquet or CSV file")


def separator(header: str) -> str:
    """The separator that a header line holds most often (a comma on ties)."""
    return max(SEPARATORS, key=lambda mark: (header.count(mark), mark == ","))


def read_text_table(path: str | os.PathLike[str], data: bytes | None = None) -> TextTable:
    """Read a UTF-8 file (optionally gzipped) with a header line; every column is text.

    Cells are separated by commas, semicolons, tabs or bars. Line ends may be LF or CRLF; empty lines at the
    end of the file do not count. Raises InputError: not text, no UTF-8, doubled or unnamed columns, a record
    with more or fewer cells than the header, a quotation mark left open.
    """
    if data is None:
        data = read_bytes(path)
    if data[:2] == b"\x1f\x8b":
        try:
            data = _unpacked(path, data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"is a damaged gzip file ({error})", file=path, hint="fetch it again") from error
    refuse_foreign(path, data)
    data = data.removeprefix(_MARK).rstrip(b"\r\n")
    if data.startswith(_MARK):  # readers differ in what they take a second one for
        raise InputError(
            "begins with two byte-order marks", file=path, hint="save it as UTF-8 with one, or with none"
        )
    if not data.strip():
        raise InputError("is an empty file", file=path, hint="the download or copy may have failed")
    _require_utf8(path, data)
    if b"\n" not in data and b"\r" in data:
        raise InputError("has old Macintosh line ends (CR)", file=path, hint="save it with LF line ends")
    mark = separator(data.split(b"\n", 1)[0][:_LONGEST_HEADER].decode("utf-8", errors="ignore"))
    header = _header(path, data, mark)
    starts, quoted_line_ends = _check_shape(path, data, len(header), mark)
    frame = _parse(path, data, mark)
    for what, there, found in (
        ("columns", len(header), frame.width),
        ("records", starts.size - 1, frame.height),
    ):
        if there != found:
            raise InputError(
                f"cannot be read as CSV: {there} {what}, {found} understood",
                file=path,
                hint='check its quotation marks (a quote inside a cell is written "")',
            )
    frame.columns = header
    if not header[0].strip() and not is_index(frame.to_series(0)):
        raise _unnamed(path, 1, header[0])
    return TextTable(frame, starts if quoted_line_ends else None, data)


def _unpacked(path: str | os.PathLike[str], data: bytes) -> bytes:
    """What is in the gzip file; it is not held whole where a row of it is too long."""
    parts = []
    length, quoted, lines = 0, False, 0  # of the row that has begun; lines before this part
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        while part := file.read(_PART):
            last = _row_end(part, quoted=quoted)
            length = length + len(part) if last is None else len(part) - last - 1
            if length > LONGEST_ROW:
                raise long_row(path, lines, lines + 1)
            quoted ^= part.count(b'"') % 2 == 1
            lines += part.count(b"\n") if last is not None else 0
            parts.append(part)
    return b"".join(parts)


def _row_end(part: bytes, *, quoted: bool) -> int | None:
    """Where the last row ends that ends in these bytes. quoted: whether they begin in a quoted cell."""
    if b'"' not in part:
        return None if quoted or (last := part.rfind(b"\n")) < 0 else last
    text = np.frombuffer(part, np.uint8)
    ends = np.flatnonzero((text == _NEWLINE) & (np.bitwise_xor.accumulate(text == _QUOTE) == quoted))
    return int(ends[-1]) if ends.size else None


def long_row(path: str | os.PathLike[str], row: int, line: int | None = None) -> InputError:
    """The error for a row that is longer than `LONGEST_ROW`. line: where it begins."""
    hint = "mend it: a quotation mark or a line end may be missing"
    return InputError(_SHORT_ROWS, file=path, row=row or None, line=line, hint=hint)


def refuse_long_lines(path: Path, shown: str) -> None:
    """Raises InputError for the first line longer than `LONGEST_ROW`; few bytes of the file are read."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= LONGEST_ROW:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = 0
            while len(data) - at > LONGEST_ROW:
                end = data.rfind(b"\n", at, at + LONGEST_ROW + 1)
                if end < 0:
                    line = sum(data[i : min(i + _PART, at)].count(b"\n") for i in range(0, at, _PART)) + 1
                    raise long_row(shown, line - 1 or 1, line)
                at = end + 1


def _require_utf8(path: str | os.PathLike[str], data: bytes) -> None:
    if data.isascii():
        return
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            "UTF-8 text",
            file=path,
            line=line,
            value=f"byte 0x{data[error.start]:02x}",
            hint="save it as UTF-8",
        ) from None


def _header(path: str | os.PathLike[str], data: bytes, mark: str) -> list[str]:
    head = data[:_LONGEST_HEADER].decode("utf-8", errors="ignore")
    try:
        header = next(csv.reader(io.StringIO(head, newline=""), strict=True, delimiter=mark))
    except (csv.Error, StopIteration) as error:
        reason = str(error).replace("unexpected end of data", "a quotation mark is left open")
        raise InputError(f"its first line cannot be read as CSV ({reason})", file=path) from None
    for position, name in enumerate(header, start=1):
        if not name.strip() and (position > 1 or not header[1:]):
            raise _unnamed(path, position, name)
    refuse_doubled(path, header)
    return header


def _unnamed(path: str | os.PathLike[str], position: int, name: str) -> InputError:
    column = str(position)
    return InputError("a name for every column", file=path, line=1, column=column, value=name, hint="name it")


def index_columns(frame: pl.DataFrame) -> list[str]:
    """The columns that pandas makes of an index without a name: it writes nothing or its own word for one."""
    named = [name for name in frame.columns if INDEX.fullmatch(name)]
    return [name for name in named if (name.strip() or name == frame.columns[0]) and is_index(frame[name])]


def is_index(column: pl.Series) -> bool:
    """Whether a column of numbers, or of text, has rows, each a whole number."""
    return (
        column.len() > 0
        and bool(column.dtype.is_integer() or column.dtype == pl.String)
        and (
            column.str.strip_chars().cast(pl.Int64, strict=False) if column.dtype == pl.String else column
        ).null_count()
        == 0
    )


def refuse_doubled(path: str | os.PathLike[str], names: Sequence[str]) -> None:
    """Raise InputError if two columns have the same name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"has two columns named {name}", file=path, hint="rename or drop one of them")
        seen.add(name)


def _check_shape(path: str | os.PathLike[str], data: bytes, width: int, mark: str) -> tuple[np.ndarray, bool]:
    """Byte offsets at which records begin (the header's first), and whether a cell holds a line end.

    Separators and line ends are counted outside quotation marks; a doubled mark inside a quoted cell flips
    the parity twice, so it changes nothing. mark: the separator.
    """
    text = np.frombuffer(data, dtype=np.uint8)
    line_end, between = text == _NEWLINE, text == ord(mark)
    quoted_line_ends = False
    if b'"' in data:
        inside = np.bitwise_xor.accumulate(text == _QUOTE)
        if inside[-1]:
            raise InputError(
                "every quotation mark to be closed",
                file=path,
                line=_last_quote_line(data),
                hint="close or remove it",
            )
        quoted_line_ends = bool((line_end & inside).any())
        line_end &= ~inside
        between &= ~inside
    ends = np.flatnonzero(line_end)
    starts = np.concatenate([[0], ends + 1])
    long = np.flatnonzero(np.diff(starts, append=text.size) > LONGEST_ROW)
    if long.size:
        row = int(long[0])
        raise long_row(path, row, data.count(b"\n", 0, int(starts[row])) + 1)
    marks = np.flatnonzero(between)
    cells = np.diff(np.searchsorted(marks, np.concatenate([ends, [text.size]])), prepend=0) + 1
    wrong = np.flatnonzero(cells != width)
    if wrong.size:
        row = int(wrong[0])
        line = data.count(b"\n", 0, int(starts[row])) + 1
        end = int(ends[row]) if row < ends.size else text.size
        blank = not data[int(starts[row]) : end].strip()
        found = "a blank line" if blank else f"{int(cells[row])} cell{'s' if cells[row] != 1 else ''}"
        raise InputError(
            f"{width} cells as in the header, found {found}",
            file=path,
            row=row,
            line=line,
            hint="mend that line",
        )
    return starts, quoted_line_ends


def _last_quote_line(data: bytes) -> int:
    """The line of the last quotation mark: the one that opens the cell that never ends."""
    return data.count(b"\n", 0, data.rfind(b'"')) + 1


def _parse(path: str | os.PathLike[str], data: bytes, mark: str) -> pl.DataFrame:
    try:
        return pl.read_csv(data, separator=mark, infer_schema=False, raise_if_empty=False)
    except pl.exceptions.PolarsError as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"cannot be read as CSV ({reason})", file=path, hint="check its quotation marks"
        ) from error
