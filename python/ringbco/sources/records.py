"""The records of a CSV file as they stand in it: their lines, their cells, their quotation marks."""

from __future__ import annotations

import csv
import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ringbco.errors import InputError
from ringbco.io import csvtext
from ringbco.io.csvtext import LONGEST_ROW, SEPARATORS, long_row
from ringbco.sources.opening import Opened

_QUOTE: Final = b'"'
_LINE_END: Final = 0x0A
_CHUNK: Final = 1 << 24
_SHOWN: Final = 200


def separator(head: str) -> str:
    """The separator of the cells of a file that begins so."""
    return csvtext.separator(head[header_at(head) :].split("\n", 1)[0])


def header_at(head: str) -> int:
    """Where the first line of `head` begins that is not blank, nor the `sep=;` that Excel reads."""
    at = 0
    while (end := head.find("\n", at)) >= 0 and (is_blank(head[at:end]) or _is_hint(head[at:end])):
        at = end + 1
    return at


def first_record(head: str) -> list[str]:
    """The cells of the first line of `head` that is not blank, without blanks around them."""
    first = head[header_at(head) :].split("\n", 1)[0]
    return [cell.strip() for cell in cells(first, separator(head))]


def is_blank(text: str) -> bool:
    """Whether a line has nothing but blanks, separators and empty quotation marks."""
    return not text.strip(SEPARATORS + '" \r\n')


def _is_hint(text: str) -> bool:
    return text.strip().startswith("sep=") and len(text.rstrip("\r")) == len("sep=;")


def cells(text: str, mark: str) -> list[str]:
    """The cells of one record."""
    try:
        return next(csv.reader([text.rstrip("\r\n")], delimiter=mark), [])
    except csv.Error:
        return text.rstrip("\r\n").split(mark)


def record_ends(path: Path) -> NDArray[np.int64]:
    """Where the records of a file end, blank ones included: behind each line end outside quotation marks."""
    found, inside = [], False
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for begin in range(0, len(data), _CHUNK):
            text = np.frombuffer(data[begin : begin + _CHUNK], np.uint8)
            ends = text == _LINE_END
            quotes = text == _QUOTE[0]
            if inside or quotes.any():
                within = np.bitwise_xor.accumulate(quotes) ^ inside
                ends &= ~within
                inside = bool(within[-1])
            found.append(np.flatnonzero(ends) + begin + 1)
        if not found[-1].size or found[-1][-1] < len(data):
            found.append(np.array([len(data)]))  # the last has no line end
    return np.concatenate(found)


def record(path: Path, ends: NDArray[np.int64], number: int) -> tuple[int, str]:
    """The line on which a record begins and its text; number: of the record, from 0."""
    begin = int(ends[number - 1]) if number else 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        line = sum(data[i : min(i + _CHUNK, begin)].count(b"\n") for i in range(0, begin, _CHUNK)) + 1
        text = data[begin : int(ends[number])].decode("utf-8", errors="replace")
    return line, text.removeprefix("\ufeff").rstrip("\r\n")


def refuse_not_utf8(opened: Opened) -> None:
    """Raise InputError for the first line that is not UTF-8, if there is one."""
    with open(opened.path, "rb") as file:
        for line, raw in enumerate(file, start=1):
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError:
                raise InputError(
                    "UTF-8 text",
                    file=opened.shown,
                    line=line,
                    value=raw.decode("utf-8", errors="replace").rstrip("\r\n"),
                    hint="save the file as UTF-8",
                ) from None


def check_quotes(opened: Opened, mark: str, columns: Sequence[str]) -> None:
    """Raise InputError for the first quotation mark that opens or closes no whole cell."""
    with (
        open(opened.path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        if data.find(_QUOTE) < 0:
            return
        at, long = _misplaced(data, mark.encode())
        if long is not None:
            line = _line(data, long)
            raise long_row(opened.shown, line - 1 or 1, line)
        if at is None:
            return
        begins = data.rfind(b"\n", 0, at) + 1
        before = data[begins:at].decode("utf-8", errors="replace")
        cell = data[begins + len(before[: before.rfind(mark) + 1].encode()) : at + _SHOWN].split(b"\n", 1)[0]
        number = before.count(mark)
        line = _line(data, at)
    raise InputError(
        "quotation marks in pairs, around a whole cell",
        file=opened.shown,
        line=line,
        column=columns[number] if number < len(columns) else None,
        value=cell.decode("utf-8", errors="replace").rstrip("\r"),
        hint='close or remove it; inside a quoted cell a mark is written ""',
    )


def _line(data: mmap.mmap, at: int) -> int:
    return sum(data[i : min(i + _CHUNK, at)].count(b"\n") for i in range(0, at, _CHUNK)) + 1


def _misplaced(data: mmap.mmap, mark: bytes) -> tuple[int | None, int | None]:
    """Where the first cell begins whose quotation marks are wrong, and the first that is too long.

    Marks open and close by turns, a doubled mark inside a cell doing both. One that opens follows a separator
    or a line end, one that closes comes before one.
    """
    found = [
        np.flatnonzero(np.frombuffer(data[i : i + _CHUNK], np.uint8) == _QUOTE[0]) + i
        for i in range(0, len(data), _CHUNK)
    ]
    at: NDArray[np.int64] = np.concatenate(found)
    opening, closing = at[0::2], at[1::2]
    first = 3 if data[:3] == b"\xef\xbb\xbf" else 0

    def beside(places: NDArray[np.int64], marks: bytes) -> NDArray[np.bool_]:
        near = np.fromiter((data[place] for place in places.tolist()), np.uint8, places.size)
        return np.isin(near, np.frombuffer(marks, np.uint8))

    well = (opening == first) | beside(np.maximum(opening - 1, 0), mark + b'\n"')
    last = len(data) - 1
    well[: closing.size] &= (closing == last) | beside(np.minimum(closing + 1, last), mark + b'\r\n"')
    well[closing.size :] = False  # never closed
    if not well.all():
        return int(opening[np.argmin(well)]), None
    first_of_cell = np.append(True, opening[1:] != closing[:-1] + 1)  # a doubled mark begins no cell
    starts, ends = opening[first_of_cell], closing[np.append(first_of_cell[1:], True)]
    long = starts[ends - starts > LONGEST_ROW]
    return None, int(long[0]) if long.size else None
