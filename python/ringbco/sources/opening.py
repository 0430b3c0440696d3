"""From the files a user gives to plain files on disk: gzip, zstd, bzip2, tar and zip are undone on the way.

What is no data at all (a Git LFS pointer, a web page, an empty or cut-off file) is named as such.
"""

from __future__ import annotations

import errno
import lzma
import re
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from ringbco.errors import InputError
from ringbco.io.csvtext import refuse_long_lines, refuse_nul
from ringbco.io.foreign import refuse_packed, refuse_workbook

HEAD_BYTES: Final = 1 << 16
_CHUNK: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"
_SHORT: Final = 500
# What a failed download leaves instead of the file: `404: Not Found`, `{"message": "Not Found", ...}`.
_SERVER_SAYS: Final = re.compile(
    rb"""([45]\d\d:? +[A-Z][\w ]*|not found|access denied|rate limit exceeded)\.?\s*$"""
    rb"""|\{\s*"(message|error|detail)"\s*:\s*"[^"]*\"""",
    re.IGNORECASE,
)
# What Python's readers make of damaged archives and compressed files.
_BROKEN: Final = (
    *(EOFError, OSError, zlib.error, lzma.LZMAError, struct.error, OverflowError, UnicodeDecodeError),
    *(tarfile.TarError, zipfile.BadZipFile, NotImplementedError),
)
_MAGIC: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}


@dataclass(frozen=True)
class Opened:
    """A plain file on disk. `shown` is its name as the user knows it; `head` its first 64 KiB as text."""

    path: Path
    shown: str
    head: str


def open_inputs(paths: Sequence[Path], scratch: Path, wanted: Callable[[str], bool]) -> list[Opened]:
    """Every input as a plain file, in the order given; what had to be unpacked goes to the folder `scratch`.

    Of an archive only the members whose head is `wanted` are taken. Raises InputError for what is missing,
    empty, damaged or no trace at all.
    """
    return [opened for path in paths for opened in _open(path, scratch, wanted)]


def heads(path: Path) -> Iterator[str]:
    """The first 64 KiB of a file, or of each file in an archive, as text; nothing is written.

    Raises InputError for what is missing, empty, damaged or no text.
    """
    shown = str(path)
    magic, codec = _begin(path)
    with _damage(shown, codec or "tar"):
        members = _members(path, magic, codec)
        if members is not None:
            for _, content in members:
                yield content.read(HEAD_BYTES).removeprefix(_BOM).decode("utf-8", errors="replace")
        elif codec is None:
            yield _text(shown, magic)
        else:
            with _decompressed(path, codec) as stream:
                yield _text(shown, stream.read(HEAD_BYTES))


def _open(path: Path, scratch: Path, wanted: Callable[[str], bool]) -> Iterator[Opened]:
    shown = str(path)
    magic, codec = _begin(path)
    with _damage(shown, codec or "tar"):
        members = _members(path, magic, codec)
        if members is not None:
            yield from _archive(shown, members, scratch, wanted)
        elif codec is None:
            yield _plain_file(_readable(path, scratch), shown, _text(shown, magic))
        else:
            with _decompressed(path, codec) as stream:
                head = _text(shown, stream.read(HEAD_BYTES))
            with _decompressed(path, codec) as stream:
                yield _plain_file(_keep(stream, shown, scratch), shown, head)


def _begin(path: Path) -> tuple[bytes, str | None]:
    """The file's first bytes, and what it is compressed with."""
    shown = str(path)
    if path.is_dir():
        raise InputError("is a folder, not a file", file=shown, hint="name the files in it")
    try:
        with open(path, "rb") as file:
            magic = file.read(HEAD_BYTES)
    except FileNotFoundError:
        raise InputError("no such file", file=shown, hint="check the path") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=shown) from error
    return magic, next((name for start, name in _MAGIC.items() if magic.startswith(start)), None)


def _members(path: Path, magic: bytes, codec: str | None) -> Iterator[tuple[str, IO[bytes]]] | None:
    """Names and contents of the files in an archive; None for a file that is none."""
    refuse_workbook(path, magic)
    if magic.startswith(b"PK") and zipfile.is_zipfile(path):
        return _zip_members(path, str(path))
    if codec is not None:
        with _decompressed(path, codec) as stream:
            magic = stream.read(512)
    return _tar_members(path, codec) if _is_tar(magic) else None


@contextmanager
def _damage(shown: str, kind: str) -> Iterator[None]:
    """Failures while unpacking `shown` as one-line errors."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        import pyarrow as pa

        if not isinstance(error, (*_BROKEN, pa.ArrowException)):
            raise
        # A place that no file has (EINVAL) was read from a damaged archive; the rest is the system's matter.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        cut = isinstance(error, EOFError) or "runcated" in str(error) or "unexpected end" in str(error)
        raise InputError(
            f"is a {kind} file that {'ends too early' if cut else 'is damaged'}",
            file=shown,
            hint="fetch it again: the download was cut off or altered",
        ) from error


def _decompressed(path: Path, codec: str) -> IO[bytes]:
    import pyarrow as pa

    return cast("IO[bytes]", pa.CompressedInputStream(pa.OSFile(str(path)), codec))


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def is_tar_in_gzip(path: Path, start: bytes) -> bool:
    """Whether a file that begins with `start` is a tar archive that gzip compressed."""
    if not start.startswith(b"\x1f\x8b"):
        return False
    with _decompressed(path, "gzip") as stream:
        return _is_tar(stream.read(512))


def _tar_members(path: Path, codec: str | None) -> Iterator[tuple[str, IO[bytes]]]:
    stream: Any = path.open("rb") if codec is None else _decompressed(path, codec)
    with stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.isfile() and (content := archive.extractfile(member)) is not None:
                yield member.name, content


def _zip_members(path: Path, shown: str) -> Iterator[tuple[str, IO[bytes]]]:
    with _damage(shown, "zip"), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.flag_bits & 1:
                raise InputError("is a zip archive with a password", file=shown, hint="unpack it first")
            if not member.is_dir():
                with archive.open(member) as content:
                    yield member.filename, content


def _archive(
    shown: str,
    members: Iterator[tuple[str, IO[bytes]]],
    scratch: Path,
    wanted: Callable[[str], bool],
) -> Iterator[Opened]:
    """The wanted members; where there are none, the first ones, so that the caller can say what they are."""
    found, others = False, []
    for name, content in members:
        base = name.rsplit("/", 1)[-1]
        if base.startswith(".") or "__MACOSX" in name:
            continue
        full = f"{shown}/{name.removeprefix('./')}"
        start = content.read(HEAD_BYTES)
        if not start:
            others.append((name, ""))
            continue
        head = start.removeprefix(_BOM).decode("utf-8", errors="replace")
        if wanted(head):
            found = True
            _refuse_foreign(full, start)
            yield _plain_file(_keep(content, full, scratch, start), full, head)
        else:
            others.append((name, head))
    if not found:
        names = ", ".join(name for name, _ in others[:5]) or "nothing"
        foreign = next((Opened(Path(shown), f"{shown}/{name}", head) for name, head in others if head), None)
        if foreign is None:
            raise InputError(f"is an archive that holds {names}, no trace", file=shown)
        _refuse_foreign(foreign.shown, foreign.head.encode())
        yield foreign


def _plain_file(path: Path, shown: str, head: str) -> Opened:
    """A file whose lines no reader will choke on. An array in JSON may be one line; its reader maps it."""
    if not head.lstrip().startswith(("[", "{")):
        refuse_long_lines(path, shown)
    return Opened(path, shown, head)


def _readable(path: Path, scratch: Path) -> Path:
    """The file under a name that polars takes: one that is not UTF-8 gets a link in `scratch`."""
    if _plain(str(path)) == str(path):
        return path
    link = _fresh(path.name, scratch)
    link.symlink_to(path.absolute())
    return link


def _fresh(name: str, scratch: Path) -> Path:
    return scratch / f"{len(list(scratch.iterdir()))}-{_plain(name)}"


def _plain(name: str) -> str:
    return name.encode("utf-8", "replace").decode("utf-8")


def _keep(content: IO[bytes], shown: str, scratch: Path, start: bytes = b"") -> Path:
    target = _fresh(Path(shown).name, scratch)
    try:
        with open(target, "wb") as file:
            file.write(start)
            shutil.copyfileobj(content, file, _CHUNK)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise InputError(
            f"does not fit into the temporary folder {scratch.parent} when unpacked",
            file=shown,
            hint="free some space there, or name another folder in TMPDIR",
        ) from error
    return target


def _text(shown: str, start: bytes) -> str:
    """The head of a plain file as text; InputError where it cannot be a trace."""
    _refuse_foreign(shown, start)
    return start.removeprefix(_BOM).decode("utf-8", errors="replace")


def _refuse_foreign(shown: str, start: bytes) -> None:
    head = start.removeprefix(_BOM).lstrip()
    lower = head[:200].lower()
    if not head:
        raise InputError("is an empty file", file=shown, hint="the download or copy may have failed")
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        raise InputError(
            "is a Git LFS pointer, not the data",
            file=shown,
            hint="fetch it with `git lfs pull`, or take a copy from another mirror if its quota ran out",
        )
    if lower.startswith((b"<!doctype html", b"<html")):
        raise InputError(
            "is an HTML page, not a trace", file=shown, hint="download the file itself, not its web page"
        )
    if lower.startswith((b"<?xml", b"<error")):
        raise InputError(
            "is an XML page (often a server's error message), not a trace", file=shown, hint="fetch it again"
        )
    answer = _SERVER_SAYS.match(head) if len(head) <= _SHORT else None
    if answer:
        said = answer[0].decode("utf-8", errors="replace").strip()
        raise InputError(
            f"is a server's answer ({said}), not a trace",
            file=shown,
            hint="check its address, then fetch it again",
        )
    if b"\r" in head and b"\n" not in start and head[:1] not in b"[{":
        raise InputError("has old Macintosh line ends (CR)", file=shown, hint="save it with LF line ends")
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("is UTF-16 text", file=shown, hint="save it as UTF-8")
    if b"\0" in head[:4096]:
        refuse_nul(shown, start)
    refuse_packed(shown, start)
    if head.startswith(b"PAR1") or b"\0" in head[:4096]:
        raise InputError(
            "is binary data, not a trace as it was published",
            file=shown,
            hint="give the published file: CSV, JSON, SWF, plain or in gzip, zstd, bzip2, tar or zip",
        )
