"""Files and folders that appear whole or not at all.

An output is written beside its place under a hidden name. It takes its own name in one step when it is whole.
That step refuses a name that somebody took meanwhile, unless the output is to replace what is there.

The hidden name of `r` is `.r.TOKEN.partial`. TOKEN is 16 random hexadecimal digits, so no two runs share a
name, in whatever container they run. A run holds the lock of what it is writing. The lock ends with the
process, so a later run to the same place knows what a killed one left behind, and removes it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from ringbco.errors import InputError
from ringbco.io import disk, process
from ringbco.io.foreign_files import check_kept, keep
from ringbco.io.marks import Mark

_LONGEST_NAME: Final = 200
NOTHING_LEFT: Final = "nothing was left behind"


def check_output(path: str | os.PathLike[str], mark: Mark, *, force: bool = False) -> None:
    """Refuse, before any work is done, an output file that could not or should not be written.

    A link stands for the file that it leads to. Removes what a killed run left beside it. Raises InputError:
    the file exists and `force` is not set, or `mark` does not know it; it is no regular file; its folder is
    missing or not writable.
    """
    recover(whole_path(path))
    _check_file(path, mark, force=force)


def _check_file(path: str | os.PathLike[str], mark: Mark, *, force: bool) -> Path:
    """The file that `path` names, links followed, once it is sure that it may be written."""
    target = whole_path(path)
    if target.is_dir():
        raise InputError("is a folder, not a file", file=path, hint="give the name of a file inside it")
    if os.path.lexists(target) and not target.is_file():
        raise InputError("is not a regular file", file=path, hint="give the name of a file")
    if target.exists():
        if not force:
            raise _exists(path)
        mark.check(target, path)
    if not target.parent.is_dir():
        raise InputError(
            "cannot be written: its folder does not exist", file=path, hint=f"make {target.parent} first"
        )
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"cannot be written: no permission to write in {target.parent}", file=path)
    return target


def whole_path(path: str | os.PathLike[str]) -> Path:
    """The absolute path with links followed. Raises InputError where the working directory is gone."""
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError:
        raise InputError(
            "cannot be written: the working directory no longer exists",
            file=path,
            hint="change to another folder",
        ) from None


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike[str], mark: Mark, *, force: bool = False, left: str = NOTHING_LEFT
) -> Iterator[BinaryIO]:
    """A binary file to write to, which takes the name `path` only if the block ends without an error.

    With `force` a file that `mark` knows is replaced. Raises InputError as `check_output` does, where another
    program makes the file meanwhile (without `force`, or one that is not ours), and where the system refuses
    a write (a full disk, a quota); `left` says what that leaves. Whatever the error, a file that was there
    before keeps its bytes.
    """
    target = _check_file(path, mark, force=force)
    try:
        temporary, file = _new_file(target)
        process.unfinished(temporary)
        try:
            with file:
                yield file
                file.flush()
                process.finished(temporary)
                # Still locked: nobody takes it for a leftover.
                _place_file(temporary, target, path, mark if force else None)
        except BaseException as error:
            if not isinstance(error, _StrandedError):
                with contextlib.suppress(OSError):
                    disk.remove_file(temporary)
            process.finished(temporary)
            if isinstance(error, _TakenError):
                raise _exists(path) from None
            raise
    except OSError as error:
        raise cannot_write(path, error, left) from error


Replaceable = Callable[[Path], Sequence[Path]]
"""Raises InputError unless the folder may be replaced; what of it is to be kept, by its place in it."""


@contextlib.contextmanager
def whole_folder(
    path: str | os.PathLike[str], target: Path, replaceable: Replaceable | None
) -> Iterator[Path]:
    """A fresh folder beside `target` to write in; it takes `target`'s name when the block ends well.

    path: `target` as the user wrote it, for errors. replaceable: None where nothing may be replaced. It is
    asked again of what was really replaced, so a file that appears there meanwhile is not lost.

    On any failure, an interrupt included, the fresh folder is removed with all that is in it, and what was
    there before stays.
    """
    made = [parent for parent in target.parents if not parent.exists()]
    stranded = False
    partial: Path | None = None
    try:
        partial, descriptor = _new_folder(target)
        process.unfinished(partial, made)
        try:
            yield partial
            process.finished(partial)
            _place_folder(partial, target, path, replaceable)
        except _StrandedError:
            stranded = True
            raise
        finally:
            # The fresh folder, if it has not taken its place; else the one that it replaced.
            if not stranded:
                with contextlib.suppress(OSError):
                    disk.remove_tree(partial)
            process.finished(partial)
            os.close(descriptor)
    except BaseException as error:
        for parent in made:
            with contextlib.suppress(OSError):  # not empty, so somebody else's by now
                disk.remove_folder(parent)
        if isinstance(error, _TakenError):
            raise _exists(path) from None
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        if partial is not None and isinstance(error, InputError):
            raise _by_its_name(error, partial, path) from error
        raise


def _by_its_name(error: InputError, partial: Path, path: str | os.PathLike[str]) -> InputError:
    """The error with the name that the user knows in place of a hidden one."""
    inside = error.file is not None and Path(error.file).is_relative_to(partial)
    if not inside or isinstance(error, _StrandedError):
        return error
    return error.replace(file=Path(path, Path(str(error.file)).relative_to(partial)))


def recover(target: Path) -> None:
    """Removes what killed runs to `target` left beside it.

    Only names that ringbco gives, and only where no process holds the lock. An earlier result that a run had
    moved aside, before it was killed, gets its name back.
    """
    pattern = re.compile(rf"\.{re.escape(_stem(target))}\.[0-9a-f]{{16}}\.(partial|old)")
    try:
        names = sorted(name for name in os.listdir(target.parent) if pattern.fullmatch(name))
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):
            _recover(target.with_name(name), target)


def _recover(left: Path, target: Path) -> None:
    descriptor = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not disk.lock(descriptor):
            return
        if left.name.endswith(".old"):
            with contextlib.suppress(_TakenError):  # there is something new by now
                _rename_folder(left, target)
        elif left.is_dir():
            disk.remove_tree(left)
        else:
            disk.remove_file(left)
    finally:
        os.close(descriptor)


def sibling(target: Path, ending: str) -> Path:
    """The path beside `target` that is called after it, such as cmp.unfinished."""
    return target.with_name(f"{_stem(target)}.{ending}")


def _stem(target: Path) -> str:
    """The target's name or, where the hidden name would be too long for a file system, its hash."""
    encoded = os.fsencode(target.name)
    return target.name if len(encoded) <= _LONGEST_NAME else hashlib.sha256(encoded).hexdigest()[:32]


def _hidden(target: Path, ending: str) -> Path:
    return target.with_name(f".{_stem(target)}.{secrets.token_hex(8)}.{ending}")


def _new_file(target: Path) -> tuple[Path, BinaryIO]:
    """A locked file with an unused name."""
    while True:
        path = _hidden(target, "partial")
        file = disk.create_file(path)
        try:
            if _is_ours(path, file.fileno()):
                return path, file
        except BaseException:
            file.close()
            disk.remove_file(path)
            raise
        file.close()


def _new_folder(target: Path) -> tuple[Path, int]:
    """A folder with an unused name, and the descriptor that holds its lock."""
    while True:
        path = _hidden(target, "partial")
        disk.create_folder(path)
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                if _is_ours(path, descriptor):
                    return path, descriptor
            except BaseException:
                os.close(descriptor)
                disk.remove_folder(path)
                raise
            os.close(descriptor)


def _is_ours(path: Path, descriptor: int) -> bool:
    """Whether the lock could be taken before a run that cleans up took it for a leftover."""
    if disk.lock(descriptor) is False:
        return False
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


class _TakenError(Exception):
    """Another program took the output's name meanwhile."""


class _StrandedError(InputError):
    """What had the output's name lies under a hidden name, and cannot get its own back."""


def _rename_file(temporary: Path, target: Path) -> None:
    """Gives the file its name, or raises _TakenError."""
    try:
        try:
            disk.rename_new(temporary, target)
        except OSError as error:
            if error.errno != errno.ENOTSUP:
                raise
            disk.link(temporary, target)
            disk.remove_file(temporary)
    except FileExistsError:
        raise _TakenError from None


def _rename_folder(partial: Path, target: Path) -> None:
    """Gives the folder its name, or raises _TakenError."""
    try:
        disk.rename_new(partial, target)
        return
    except FileExistsError:
        raise _TakenError from None
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
    # In two steps. What appears between them is safe: a folder takes the place of an empty folder only.
    if os.path.lexists(target):
        raise _TakenError
    try:
        disk.replace(partial, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise _TakenError from None
        raise


def _place_file(temporary: Path, target: Path, path: str | os.PathLike[str], mark: Mark | None) -> None:
    """Gives the file its name; one that had it is replaced if `mark` knows it."""
    try:
        _rename_file(temporary, target)
        return
    except _TakenError:
        if mark is None:
            raise
    mark.check(target, path)
    try:
        disk.exchange(temporary, target)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        disk.replace(temporary, target)
        return
    try:
        mark.check(temporary, path)
    except BaseException:
        _give_back(temporary, target)
        raise
    with contextlib.suppress(OSError):  # the earlier file: a later run removes it
        disk.remove_file(temporary)


def _place_folder(
    partial: Path, target: Path, path: str | os.PathLike[str], replaceable: Replaceable | None
) -> None:
    """Gives the folder its name; one that had it is replaced if it may be, and what is to be kept is."""
    try:
        _rename_folder(partial, target)
        return
    except _TakenError:
        if replaceable is None:
            raise
    keep(replaceable(target), target, partial, path)
    try:
        disk.exchange(partial, target)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        _replace_in_two(partial, target, path, replaceable)
        return
    # The earlier folder has the hidden name now, where nobody else writes.
    try:
        check_kept(replaceable(partial), partial, target, path)
    except BaseException:
        _give_back(partial, target)
        replaceable(target)  # says so by the name that the user knows
        raise


def _give_back(partial: Path, target: Path) -> None:
    """Exchanges the two again."""
    try:
        disk.exchange(partial, target)
    except OSError as error:
        raise _StrandedError(
            f"is kept as {partial}: it may not be replaced, and its name cannot be given back"
            f" ({error.strerror})",
            file=target,
        ) from error


def _replace_in_two(
    partial: Path, target: Path, path: str | os.PathLike[str], replaceable: Replaceable
) -> None:
    """Replaces a folder where the file system cannot exchange two names.

    The earlier folder is moved aside under a name that `recover` knows, locked, so that it gets its name back
    if this process is killed between the two renames.
    """
    old = _hidden(target, "old")
    descriptor = os.open(target, os.O_RDONLY)
    try:
        disk.lock(descriptor)
        try:
            disk.replace(target, old)
            check_kept(replaceable(old), old, partial, path)
            _rename_folder(partial, target)
        except BaseException:
            with contextlib.suppress(OSError):  # it may not have come to that; `recover` tries again
                disk.replace(old, target)
            raise
        try:
            disk.replace(old, partial)  # where it is removed, now or by a later run
        except OSError:
            with contextlib.suppress(OSError):
                disk.remove_tree(old)
    finally:
        os.close(descriptor)


def _exists(path: str | os.PathLike[str]) -> InputError:
    return InputError("already exists", file=path, hint="pass --force to replace it, or give another name")


def cannot_write(path: str | os.PathLike[str], error: Exception, left: str = NOTHING_LEFT) -> InputError:
    """The one-line error for a write that the system refused; `left` says what there is of it."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return InputError(f"cannot be written: {reason}", file=path, hint=left)
