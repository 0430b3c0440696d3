"""Files that appear whole or not at all: written beside their place under another name, then renamed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ringbco.errors import InputError


def check_output(path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Refuse, before any work is done, an output file that could not or should not be written.

    Raises InputError: the file exists and `force` is not set; it is no regular file; its folder is missing
    or not writable.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError("is a folder, not a file", file=path, hint="give the name of a file inside it")
    if target.exists() and not target.is_file():
        raise InputError("is not a regular file", file=path, hint="give the name of a file")
    if target.exists() and not force:
        raise InputError("already exists", file=path, hint="pass --force to replace it, or give another name")
    folder = Path(os.path.realpath(target)).parent
    if not folder.is_dir():
        raise InputError(
            "cannot be written: its folder does not exist", file=path, hint=f"make {folder} first"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot be written: no permission to write in {folder}", file=path)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[BinaryIO]:
    """A binary file to write to, which takes the name `path` only if the block ends without an error.

    Raises InputError as `check_output` does, and where the system refuses a write (a full disk, a quota).
    Whatever the error, nothing is left behind and a file that was there before keeps its bytes.
    """
    check_output(path, force=force)
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(temporary, "xb") as file:
            yield file
        os.replace(temporary, target)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def cannot_write(path: str | os.PathLike[str], error: Exception) -> InputError:
    """The one-line error for a write that the system refused."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return InputError(f"cannot be written: {reason}", file=path, hint="nothing was left behind")
