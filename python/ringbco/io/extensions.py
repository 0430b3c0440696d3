"""What other installed packages add to ringbco: their entry points, and the values that they take by -P."""

from __future__ import annotations

import ast
import os
import sys
from importlib.metadata import EntryPoint, distributions
from typing import Any, Final

from ringbco.errors import UsageError

POLICIES: Final = "ringbco.policies"
"""The entry points under which an installed package offers its policies by name."""
SOURCES: Final = "ringbco.sources"
"""Those of functions that read a trace's files."""


def offers(group: str) -> dict[str, EntryPoint]:
    """What installed packages offer, by name. What lies in the working directory is not installed."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it has been removed
        here = ""
    found: dict[str, EntryPoint] = {}
    for package in distributions(path=[place for place in sys.path if os.path.realpath(place) != here]):
        for point in package.entry_points.select(group=group):
            found.setdefault(point.name, point)
    return found


def as_type(key: str, value: Any, kind: object) -> Any:
    """The value of -P key: a text as what Python would read, if it is to be no text. Raises UsageError.

    kind: the type, or its name.
    """
    if not isinstance(value, str) or kind in (str, "str"):
        return value
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        read = value
    kinds = {"int": (int, "an integer"), "float": (float, "a number"), "bool": (bool, "True or False")}
    wanted, expected = kinds.get(str(getattr(kind, "__name__", kind)), (None, ""))
    if wanted is float and isinstance(read, int) and not isinstance(read, bool):
        read = float(read)
    if wanted is not None and type(read) is not wanted:
        raise UsageError(f"option P: {key}: {value}: expected {expected}")
    return read
