"""Every step that changes names on disk, one function each.

All outputs of ringbco go through these few functions. So a test can make any step fail, or end the process at
it, and look at what is left. What they do and when is decided in `atomic`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path
from typing import BinaryIO

from ringbco import _core

_NO_LOCKS = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EBADF, errno.EINVAL)


def create_file(path: Path) -> BinaryIO:
    """A new file, open for writing; FileExistsError where the name is taken."""
    return open(path, "xb")


def create_folder(path: Path) -> None:
    """A new folder, and those that it lies in; FileExistsError where the name is taken."""
    path.mkdir(parents=True)


def rename_new(old: Path, new: Path) -> None:
    """Renames a file or a folder; FileExistsError for a taken name, ENOTSUP where it takes two steps."""
    _core.rename_new(old, new)


def exchange(one: Path, other: Path) -> None:
    """Exchanges two names in one step; ENOTSUP where that takes more."""
    _core.exchange(one, other)


def replace(old: Path, new: Path) -> None:
    """Renames a file, or a folder to the name of an empty one; what had the name is gone."""
    os.replace(old, new)


def link(old: Path, new: Path) -> None:
    """Gives a file another name; FileExistsError where that is taken."""
    os.link(old, new, follow_symlinks=False)


def remove_file(path: Path) -> None:
    """Removes a file."""
    path.unlink()


def remove_folder(path: Path) -> None:
    """Removes an empty folder."""
    path.rmdir()


def remove_tree(path: Path) -> None:
    """Removes a folder with all that is in it, folders that may not be written in, too."""
    try:
        shutil.rmtree(path)
    except PermissionError:
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)


def lock(descriptor: int) -> bool | None:
    """Takes the lock of an open file or folder, held until it is closed or the process ends.

    False where another process has it, None where the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True
