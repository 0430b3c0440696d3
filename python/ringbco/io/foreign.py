"""Files that are no text and no Parquet: workbooks and archives, and what to do with each."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from ringbco.errors import InputError

_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # Excel's files until 2003
_ZIP: Final = b"PK\x03\x04"
# How a compressed file begins; what it is, and the command that unpacks it.
_PACKED: Final = {
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unzstd"),
    b"BZh": ("compressed with bzip2", "bunzip2 -k"),
    b"\xfd7zXZ": ("compressed with xz", "unxz -k"),
    b"\x04\x22\x4d\x18": ("compressed with lz4", "unlz4"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "7z x"),
    b"Rar!": ("a RAR archive", "unrar x"),
}


def refuse_workbook(path: str | os.PathLike[str], start: bytes) -> None:
    """Raise InputError for the workbook of a spreadsheet, which begins with `start`."""
    what = next(_workbooks(path, start), None)
    if what is not None:
        raise InputError(f"is {what}: save the sheet as CSV", file=path)


def _workbooks(path: str | os.PathLike[str], start: bytes) -> Iterator[str]:
    if start.startswith(_OLE):
        yield "an Excel workbook"
    elif start.startswith(_ZIP):
        import zipfile  # few files are archives

        with suppress(OSError, zipfile.BadZipFile, NotImplementedError, ValueError):
            names = zipfile.ZipFile(path).namelist()
            if any(name.startswith("xl/") for name in names):
                yield "an Excel workbook"
            if any(name.endswith(".iwa") for name in names):
                yield "a Numbers workbook"
        if b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet" in start[:256]:
            yield "an OpenDocument workbook"


def packed(start: bytes) -> tuple[str, str] | None:
    """What a compressed file that begins with `start` is, and the command that unpacks it, or None."""
    tar = ("a tar archive", "tar xf") if start[257:262] == b"ustar" else None
    return next((told for magic, told in _PACKED.items() if start.startswith(magic)), tar)


def refuse_packed(path: str | os.PathLike[str], start: bytes) -> None:
    """Raise InputError for a compressed file, which begins with `start`."""
    found = packed(start)
    if found is not None:
        what, command = found
        unpack = f"unpack it, `{command} {shlex.quote(os.fspath(path))}`, and give the file inside"
        raise InputError(f"is {what}", file=path, hint=unpack)
