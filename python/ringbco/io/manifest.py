"""Which parts of a folder are ours: its manifest, and what we know of folders that have none.

Every folder that ringbco makes gets a manifest as its last file. It names the files that were written, with a
digest of each, so a file of somebody else's that took such a name is told from ours, and a changed one too.
Folders of earlier versions have none: there the names that ringbco gives are ours.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from ringbco.errors import InputError
from ringbco.io.digests import sha256_of
from ringbco.io.json_text import json_text
from ringbco.io.marks import document, is_output
from ringbco.io.threads import at_once

MANIFEST: Final = "ringbco.json"


class OutputKind(NamedTuple):
    """What kind of folder ringbco makes.

    name: as the manifest has it. files: the names that we may write in it. known: whether a folder is one, of
    whatever version. within: the kind of the folders in it; None where there are none of ours. sealed:
    further digests of a folder's content, by name.
    """

    name: str
    files: frozenset[str]
    known: Callable[[Path], bool]
    within: OutputKind | None = None
    sealed: Callable[[Path], dict[str, str]] = lambda folder: {}


class Manifest(NamedTuple):
    """kind: the name of the folder's kind. files, sealed: name -> sha256. folders: names."""

    kind: str
    files: dict[str, str]
    folders: tuple[str, ...]
    sealed: dict[str, str]


def write_manifest(folder: Path, kind: OutputKind) -> None:
    """Writes the manifest of what is in the folder."""
    entries = sorted(folder.iterdir())
    files = [entry for entry in entries if not entry.is_dir()]
    digests = at_once(partial(digest, path) for path in files)
    told = {
        "ringbco": kind.name,
        "files": {path.name: digest for path, digest in zip(files, digests, strict=True)},
        "folders": [entry.name for entry in entries if entry.is_dir()],
    }
    sealed = kind.sealed(folder)
    if sealed:
        told["sealed"] = sealed
    (folder / MANIFEST).write_text(json_text(told) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest | None:
    """The folder's manifest; None where it has none of ours."""
    path = folder / MANIFEST
    if not _is_file(path):
        return None
    told = document(path)
    kind, files, folders = (told.get(key) for key in ("ringbco", "files", "folders"))
    sealed = told.get("sealed", {})
    if not (isinstance(kind, str) and isinstance(files, dict) and isinstance(folders, list)):
        return None
    return Manifest(kind, files, tuple(folders), sealed if isinstance(sealed, dict) else {})


def is_kind(folder: Path, kind: OutputKind) -> bool:
    """Whether ringbco made the folder, as one of that kind."""
    if not _is_folder(folder):
        return False
    manifest = read_manifest(folder)
    return (manifest is None or manifest.kind == kind.name) and kind.known(folder)


def foreign(folder: Path, kind: OutputKind, shown: Path) -> list[Path]:
    """What ringbco did not write in a folder of that kind, by its place in it, in order.

    A link is never ours. What `report` and `timeline` drew of a result is, wherever it lies in it. Raises
    InputError, which calls the folder `shown`, for what has a name that we may write: it can neither be
    replaced nor kept.
    """
    found: list[Path] = []
    manifest = read_manifest(folder)
    for entry in sorted(folder.iterdir()):
        inner = _kind_of(entry, kind, manifest)
        if inner is not None:
            found += [entry.name / part for part in foreign(entry, inner, shown / entry.name)]
        elif not _is_ours(entry, kind, manifest):
            if entry.name in (*kind.files, MANIFEST):
                raise InputError(
                    f"holds {entry.name}, which ringbco did not write, so --force does not replace it",
                    file=shown,
                    hint="move that away, or give another name",
                )
            found.append(Path(entry.name))
    return found


def _kind_of(entry: Path, kind: OutputKind, manifest: Manifest | None) -> OutputKind | None:
    """The kind of a folder of ours within one of ours; None for anything else."""
    if is_kind(entry, PICTURES):
        return PICTURES
    named = manifest is None or entry.name in manifest.folders
    return kind.within if named and kind.within is not None and is_kind(entry, kind.within) else None


def _is_ours(entry: Path, kind: OutputKind, manifest: Manifest | None) -> bool:
    if not _is_file(entry):
        return False
    if is_output(entry) or (entry.name == MANIFEST and manifest is not None):
        return True
    if manifest is None:
        return entry.name in kind.files
    try:
        return entry.name in manifest.files and manifest.files[entry.name] == digest(entry)
    except OSError:
        return False


def digest(path: Path) -> str:
    """The SHA-256 of a file; of one that is as it was the last time, what that gave."""
    about = path.stat()
    return _digest(path, about.st_ino, about.st_size, about.st_mtime_ns)


@lru_cache
def _digest(path: Path, *_version: int) -> str:
    return sha256_of(path)


def _is_file(path: Path) -> bool:
    """Whether it is a regular file and no link."""
    return os.path.lexists(path) and stat.S_ISREG(path.lstat().st_mode)


def _is_folder(path: Path) -> bool:
    """Whether it is a folder and no link."""
    return os.path.lexists(path) and stat.S_ISDIR(path.lstat().st_mode)


def _has_pictures(folder: Path) -> bool:
    manifest = read_manifest(folder)
    return manifest is not None and manifest.kind == "pictures"


PICTURES: Final = OutputKind("pictures", frozenset(), _has_pictures)
"""The folder of `report --png`; those of earlier versions had nothing that told them from anybody's."""
