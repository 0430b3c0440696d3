"""Public names that changed: an old name works for one more version, with a warning.

The warning names the new name and the version without the old one. For example,
`told = renamed("told", "shown_in")` in the body of a class keeps the attribute `told`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

GONE_IN: Final = "0.3.0"
"""The version without the names that changed in 0.2.0."""

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_Class = TypeVar("_Class")


def warn(old: str, new: str, *, level: int = 3) -> None:
    """Warns of an old name. level: as `warnings.warn` takes it, seen from the caller."""
    text = f"{old} is called {new} now; the old name goes in ringbco {GONE_IN}"
    warnings.warn(text, DeprecationWarning, stacklevel=level)


class _Renamed:
    """An attribute under its old name. It is read only."""

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self  # tools that look at a class read all of its attributes
        warn(f"{owner.__name__}.{self._old}", self._new)
        found = getattr(instance, self._new.removesuffix("()"))
        return found() if self._new.endswith("()") else found


def renamed(old: str, new: str) -> Any:
    """The attribute or method `old` of a class, which is `new` now: "NAME()" for a method in its place."""
    return _Renamed(old, new)


def renamed_parameters(
    **names: str,
) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Lets a function take parameters by their old names, too. names: the new name of each."""

    def accept(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        @wraps(function)
        def call(*args: _Parameters.args, **given: _Parameters.kwargs) -> _Result:
            for old, new in names.items():
                if old in given:
                    if new in given:
                        raise TypeError(f"{old} and {new}: expected one of them, {new}")
                    warn(f"parameter {old}", new)
                    given[new] = given.pop(old)
            return function(*args, **given)

        return call

    return accept


def renamed_fields(**names: str) -> Callable[[type[_Class]], type[_Class]]:
    """Lets a dataclass take fields by their old names, too. names: the new name of each."""

    def accept(kind: type[_Class]) -> type[_Class]:
        kind.__init__ = renamed_parameters(**names)(kind.__init__)  # type: ignore[method-assign]
        return kind

    return accept
