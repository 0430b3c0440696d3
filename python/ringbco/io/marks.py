"""Which files are ours: the first bytes of what `report` and `timeline` write.

A page, a trace and a picture each say in their first bytes that ringbco made them, so that --force never
takes a job table, a result or somebody's photograph for one.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Final

PAGE_MARK: Final = 'name="generator" content="ringbco report"'
"""In the page's head (page/document.html.jinja), before all that a user may have named."""
TRACE_START: Final = b'{"traceEvents":['
FIRST_EVENT: Final = b'\n{"ph":"M","name":"process_name","pid":1,"tid":0,"ts":0,"args":{"name":"cluster"}}'
"""The event that every trace of ours begins with."""

SWEPT: Final = "-mean-jct.png"
"""How the name of a sweep's picture ends, whatever it varied."""
_LOOK: Final = 512  # bytes of a file that tell what it is
_PNG_HEADER: Final = 33  # the signature and the chunk IHDR, which must be first
_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_GZIP: Final = b"\x1f\x8b"


def is_output(path: Path) -> bool:
    """Whether a file is a page, a trace or a picture of ours, whatever its name."""
    start = first_bytes(path) or b""
    return is_page(start) or is_trace(start) or is_picture(start)


def are_pictures(folder: Path) -> bool:
    """Whether `folder` holds the pictures of an earlier report and nothing else."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    drawn = any(name == "jct.png" or name.endswith(SWEPT) for name in names)
    return drawn and all(name.endswith(".png") for name in names)


def first_bytes(path: Path) -> bytes | None:
    """As much of a file as tells what it is; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_LOOK)
    except OSError:
        return None


def is_page(start: bytes) -> bool:
    """Whether a file that starts so is a page of `ringbco report`."""
    return start.startswith(b"<!DOCTYPE html>") and PAGE_MARK.encode() in start


def is_trace(start: bytes) -> bool:
    """Whether a file that starts so is a trace of `ringbco timeline`, packed or not."""
    if start.startswith(_GZIP):
        try:
            start = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(start, _LOOK)
        except zlib.error:
            return False
    return start.startswith(TRACE_START + FIRST_EVENT)


def is_picture(start: bytes) -> bool:
    """Whether a file that starts so is a PNG that `signed` gave."""
    return start.startswith(_PNG_SIGNATURE) and start[_PNG_HEADER:].startswith(_software())


def signed(picture: bytes) -> bytes:
    """The PNG with a note of who made it."""
    return picture[:_PNG_HEADER] + _software() + picture[_PNG_HEADER:]


def _software() -> bytes:
    """A chunk with the keyword that the PNG specification has for this."""
    chunk = b"tEXt" + b"Software\0ringbco timeline"
    return (len(chunk) - 4).to_bytes(4) + chunk + zlib.crc32(chunk).to_bytes(4)
