"""Which files are ours: how each kind of output says that ringbco wrote it.

--force replaces what carries such a mark and nothing else. A page, a trace and a picture have it in their
first bytes, as TOML has it in a comment, Parquet in its footer. CSV and JSON can carry none: such a file is
ours if it has what the verb always writes. What is ours in a folder is said by its manifest (`manifest`).
"""

from __future__ import annotations

import csv
import json
import os
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, NamedTuple

from ringbco.errors import InputError

PAGE_MARK: Final = 'name="generator" content="ringbco report"'
"""In the page's head (page/document.html.jinja), before all that a user may have named."""
SHEET_MARK: Final = 'name="generator" content="ringbco inspect"'
"""The same of page/inspect.html.jinja."""
TRACE_START: Final = b'{"traceEvents":['
FIRST_EVENT: Final = b'\n{"ph":"M","name":"process_name","pid":1,"tid":0,"ts":0,"args":{"name":"cluster"}}'
"""The event that every trace of ours begins with."""
SIGNATURE: Final = "ringbco"
"""The footer key of a Parquet file that has no other key of ours (`signature`)."""

_LOOK: Final = 512  # bytes of a file that tell what it is
_LONGEST_HEADER: Final = 1 << 16
_PNG_HEADER: Final = 33  # the signature and the chunk IHDR, which must be first
_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
PARQUET: Final = b"PAR1"
_GZIP: Final = b"\x1f\x8b"


class Mark(NamedTuple):
    """A kind of output. name: what to call it in errors. knows: whether the file there is one of ours."""

    name: str
    knows: Callable[[Path], bool]

    def may_go(self, target: Path) -> bool:
        """Whether the file may be replaced. An empty one, such as mktemp makes, has nothing to lose."""
        return target.is_file() and (target.stat().st_size == 0 or self.knows(target))

    def check(self, target: Path, path: str | os.PathLike[str]) -> None:
        """Raises InputError, which calls it `path`, unless the file `target` may be replaced."""
        if not self.may_go(target):
            raise InputError(
                f"already exists and is no {self.name}, so --force does not replace it",
                file=path,
                hint="give another name",
            )


def signature(kind: str) -> dict[str, str]:
    """The footer metadata of a Parquet file of ours."""
    return {SIGNATURE: kind}


def table(kind: str, needed: Collection[str], known: Collection[str] | None = None) -> Mark:
    """A table: Parquet with our signature, or CSV whose header is one that we write.

    needed: the columns that it always has. known: all that it may have; None for any.
    """

    def knows(path: Path) -> bool:
        if (first_bytes(path) or b"").startswith(PARQUET):
            return is_signed(path)
        names = _header(path)
        return set(needed) <= set(names) and (known is None or set(names) <= set(known))

    return Mark(f"{kind} of ringbco's", knows)


def document(path: Path) -> dict[str, object]:
    """The object in a JSON file; an empty one where there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_signed(path: Path) -> bool:
    """Whether a Parquet file's footer says that ringbco wrote it.

    Its writer must be polars, as ours is: other libraries carry the metadata of what they read along.
    """
    told = footer(path)
    keys = (told and told.metadata) or {}
    ours = any(key == SIGNATURE.encode() or key.startswith(SIGNATURE.encode() + b".") for key in keys)
    return ours and is_polars(told)


def footer(path: Path) -> Any:
    """A Parquet file's footer as pyarrow has it; None where there is none that can be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ringbco.io.frames import arrow_source

    try:
        return pq.read_metadata(arrow_source(path))
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        return None


def is_polars(footer: Any) -> bool:
    """Whether polars wrote the file."""
    return str(footer.created_by).startswith("Polars")


def is_output(path: Path) -> bool:
    """Whether a file is a page, a trace or a picture that was drawn of a result, whatever its name."""
    start = first_bytes(path) or b""
    # Earlier versions drew pictures of timelines.
    return is_page(start) or is_trace(start) or is_picture(start, "timeline")


def first_bytes(path: Path) -> bytes | None:
    """As much of a file as tells what it is; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_LOOK)
    except OSError:
        return None


def is_page(start: bytes, mark: str = PAGE_MARK) -> bool:
    """Whether a file that starts so is a page of `ringbco report`, or another with that mark."""
    return start.startswith(b"<!DOCTYPE html>") and mark.encode() in start


def is_trace(start: bytes) -> bool:
    """Whether a file that starts so is a trace of `ringbco timeline`, packed or not."""
    if start.startswith(_GZIP):
        try:
            start = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(start, _LOOK)
        except zlib.error:
            return False
    return start.startswith(TRACE_START + FIRST_EVENT)


def is_picture(start: bytes, verb: str) -> bool:
    """Whether a file that starts so is a PNG that `signed` gave."""
    return start.startswith(_PNG_SIGNATURE) and start[_PNG_HEADER:].startswith(_software(verb))


def signed(picture: bytes, verb: str) -> bytes:
    """The PNG with a note of who made it."""
    return picture[:_PNG_HEADER] + _software(verb) + picture[_PNG_HEADER:]


def _software(verb: str) -> bytes:
    """A chunk with the keyword that the PNG specification has for this."""
    chunk = b"tEXt" + b"Software\0ringbco " + verb.encode()
    return (len(chunk) - 4).to_bytes(4) + chunk + zlib.crc32(chunk).to_bytes(4)


def _header(path: Path) -> list[str]:
    """The names in the first line of a CSV file as we write it; none where it is another file."""
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER)
        if not line.endswith(b"\n") or line.endswith(b"\r\n"):
            return []
        names = next(csv.reader([line.decode("utf-8")]), [])
    except (OSError, ValueError, csv.Error):
        return []
    return names if len(set(names)) == len(names) else []


PAGE: Final = Mark("page of `ringbco report`", lambda path: is_page(first_bytes(path) or b""))
TRACE: Final = Mark("trace of `ringbco timeline`", lambda path: is_trace(first_bytes(path) or b""))
SHEET: Final = Mark("page of `ringbco inspect`", lambda path: is_page(first_bytes(path) or b"", SHEET_MARK))


def picture(verb: str) -> Mark:
    """A picture that this verb draws."""
    return Mark(f"picture of `ringbco {verb}`", lambda path: is_picture(first_bytes(path) or b"", verb))


CERTIFICATE: Final = Mark("certificate of ringbco bound", lambda path: "certificate" in document(path))
"""What `ringbco bound --certificate` writes."""
