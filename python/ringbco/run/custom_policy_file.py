"""Where a custom policy stands: found and read, and nothing of it run."""

from __future__ import annotations

import sys
from pathlib import Path

from ringbco.errors import InputError, UsageError
from ringbco.io.extensions import POLICIES, offers


def code(name: str) -> tuple[str, bytes]:
    """`module:Class` or `file.py:Class` for a policy's name, and the bytes of that file.

    Raises UsageError for a module that is not there or is no Python file, InputError for a file that cannot
    be read.
    """
    if ":" not in name and (point := offers(POLICIES).get(name)) is not None:
        name = f"{point.module}:{point.attr}"
    place, colon, _ = name.rpartition(":")
    if not colon:
        raise UsageError(
            f"option policy: {name!r}: expected module:Class, file.py:Class or an installed name"
        )
    if place.endswith(".py"):
        return name, text(Path(place))
    file = _file(place)
    if file is None or file.suffix != ".py":
        raise UsageError(
            f"option policy: {name!r}: expected a Python file; there is no module {place} of one"
        )
    return name, text(file)


def text(path: Path) -> bytes:
    """The bytes of a policy's file. Raises InputError."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = "no such file"
        if not isinstance(error, FileNotFoundError):
            reason = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        hint = "file.py:Class takes the path of a Python file and the name of a policy's class in it"
        raise InputError(reason, file=path, hint=hint) from None


def _file(module: str) -> Path | None:
    """The file of a module. `importlib.util.find_spec` would import, and so run, what the module is in."""
    if module in sys.modules:
        return _path(getattr(sys.modules[module], "__file__", None))
    whole, places, found = "", None, None
    for part in module.split("."):
        whole = f"{whole}.{part}" if whole else part
        try:
            found = next(filter(None, (finder.find_spec(whole, places) for finder in sys.meta_path)), None)
        except KeyError:  # a folder in a folder of no package: Python knows its place once it is imported
            return None
        if found is None:
            return None
        places = found.submodule_search_locations or []
    return _path(found.origin) if found is not None and found.has_location else None


def _path(file: str | None) -> Path | None:
    return None if file is None else Path(file)
