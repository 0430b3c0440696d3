"""What others put into a folder of ours goes along into the folder that replaces it.

Before the new folder takes the name it gets a second name (a hard link) of each such file. So from then on
both folders have them all, and whichever the name stands for at whatever moment is whole.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from ringbco.errors import InputError
from ringbco.io import disk


def keep(kept: Sequence[Path], old: Path, new: Path, path: str | os.PathLike[str]) -> None:
    """Gives `new` what `kept` names in `old`; links stay links. path: what errors call `old`.

    Raises InputError for what has a name that `new` uses, and for what cannot be linked.
    """
    for name in kept:
        if os.path.lexists(new / name):
            raise _cannot(path, name, "the new one has that name too")
        try:
            for parent in reversed(name.parents[:-1]):
                if not (new / parent).exists():
                    disk.create_folder(new / parent)
            _take(old / name, new / name)
        except OSError as error:
            raise _cannot(path, name, str(error.strerror)) from error


def check_kept(kept: Sequence[Path], old: Path, new: Path, path: str | os.PathLike[str]) -> None:
    """Raises InputError unless `new` has just those things of others that `old` has."""
    there = {(name, *found) for name in kept for found in _within(old / name)}
    taken = {(name, *found) for name in kept for found in _within(new / name)}
    for name, *_ in sorted(there ^ taken):
        raise _cannot(path, name, "it changed meanwhile")


def _take(source: Path, place: Path) -> None:
    if not _is_folder(source):
        disk.link(source, place)
        return
    disk.create_folder(place)
    for entry in sorted(source.iterdir()):
        _take(entry, place / entry.name)
    shutil.copystat(source, place)


def _within(place: Path) -> Iterator[tuple[str, int]]:
    """Each thing in a folder, or the one file: where it is, and for all but folders which one it is."""
    if not os.path.lexists(place):
        return
    yield "", 0 if _is_folder(place) else place.lstat().st_ino
    if _is_folder(place):
        for entry in place.iterdir():
            yield from ((os.path.join(entry.name, inner), number) for inner, number in _within(entry))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _cannot(path: str | os.PathLike[str], name: Path, why: str) -> InputError:
    return InputError(
        f"holds {name}, which ringbco did not write and which cannot be kept: {why}",
        file=path,
        hint="move that away, or give another name",
    )
