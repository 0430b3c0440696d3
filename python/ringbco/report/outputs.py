"""The files that `report` and `timeline` write: their endings, and which earlier files --force replaces.

A page, a trace and a picture each say in their first bytes that ringbco made them, so that --force never
takes a job table, a result or somebody's photograph for one.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from ringbco.atomic import check_output
from ringbco.errors import InputError, UsageError
from ringbco.outcome import RESULT_FILES

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


class _Kind(NamedTuple):
    option: str
    endings: tuple[str, ...]
    ours: Callable[[bytes], bool]
    name: str


def check_page(path: Path, *, force: bool) -> None:
    """Refuses, before any work is done, a page that should not be written there.

    Raises UsageError for a name that ends otherwise, InputError as `check_output` does and, with `force`,
    where the file there is no earlier page.
    """
    _check(path, force, _Kind("out", (".html", ".htm"), is_page, "page of `ringbco report`"))


def check_trace(path: Path, *, force: bool) -> None:
    """The same of a trace."""
    _check(path, force, _Kind("out", (".json.gz", ".json"), is_trace, "trace of `ringbco timeline`"))


def check_picture(path: Path, *, force: bool) -> None:
    """The same of a picture of the lanes."""
    _check(path, force, _Kind("png", (".png",), is_picture, "picture of `ringbco timeline`"))


def _check(path: Path, force: bool, kind: _Kind) -> None:
    if not path.name.lower().endswith(kind.endings):
        wanted = " or ".join(kind.endings)
        raise UsageError(f"option {kind.option}: {path}: expected a name that ends in {wanted}")
    # Through links too: the bytes would go where they lead.
    target = Path(os.path.realpath(path))
    if target.name in RESULT_FILES and (target.parent / "run.toml").is_file():
        raise InputError("is a file of a result and is never replaced", file=path, hint="give another name")
    check_output(path, force=force)
    if not target.exists():
        return
    start = _first_bytes(target)
    # An empty file, such as mktemp makes, has nothing to lose.
    if start is None or (start and not kind.ours(start)):
        raise InputError(
            f"already exists and is no {kind.name}, so --force does not replace it",
            file=path,
            hint="give another name",
        )


def is_output(path: Path) -> bool:
    """Whether a file is a page, a trace or a picture of ours, whatever its name."""
    start = _first_bytes(path) or b""
    return is_page(start) or is_trace(start) or is_picture(start)


def are_pictures(folder: Path) -> bool:
    """Whether `folder` holds the pictures of an earlier report and nothing else."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    drawn = any(name == "jct.png" or name.endswith(SWEPT) for name in names)
    return drawn and all(name.endswith(".png") for name in names)


def _first_bytes(path: Path) -> bytes | None:
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
