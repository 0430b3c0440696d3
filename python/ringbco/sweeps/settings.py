"""What a sweep's specification may set: the commands that it runs, and their options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import ringbco
from ringbco.run.registry import PLAN, REPLAY
from ringbco.units import QUANTITIES, moment, quantity

COMMANDS: Final = ("replay", "plan")
# They shape tables that a sweep does not keep.
_NOT_OPTIONS: Final = ("sample", "allocations", "decisions")
_TABLES: Final = {"replay": REPLAY, "plan": PLAN}
_KINDS: Final[Mapping[str, type]] = {"flag": bool, "integer": int, "number": float, "numbers": float}


class Setting(NamedTuple):
    """An option of a command: its parameter's name, its values' type, its default and other words for it.

    moment: whether it takes shares and times. several: whether it takes a value or a list of values.
    """

    parameter: str
    kind: type
    many: bool
    default: Any
    words: tuple[str, ...] = ()
    unit: str = ""
    moment: bool = False
    several: bool = False

    def read(self, value: object) -> Any:
        """The value as the command wants it; ValueError with what was expected instead."""
        if isinstance(value, str) and value in self.words:
            return self.default
        if self.moment:
            return moment(value)
        if isinstance(value, str) and self.unit in QUANTITIES:
            return quantity(value, self.unit)
        if self.several and isinstance(value, list) and value:
            return tuple(_scalar(self.kind, entry) for entry in value) if value[1:] else self.read(value[0])
        if self.many:
            if not isinstance(value, list):
                raise ValueError(f"a list, each entry {EXPECTED[self.kind]}")
            return tuple(_scalar(self.kind, entry) for entry in value)
        return _scalar(self.kind, value)


EXPECTED: Final[dict[type, str]] = {
    str: "a text in quotes",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}


def _scalar(kind: type, value: object) -> Any:
    accepted = (int, float) if kind is float else (kind,)
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(EXPECTED[kind])
    try:
        return kind(value)
    except OverflowError:  # an integer beyond every float
        raise ValueError(EXPECTED[kind]) from None


def command(name: str) -> Callable[..., Any] | None:
    """The function behind a command of a sweep, None where this version of ringbco has none."""
    function = getattr(ringbco, name, None) if name in COMMANDS else None
    return function if inspect.isfunction(function) else None


@cache
def options_of(name: str) -> dict[str, Setting]:
    """The options of a command that a sweep may set, by their names in a specification."""
    return {
        option.name: Setting(
            option.parameter,
            _KINDS.get(option.kind, str),
            option.kind == "numbers",
            option.default,
            (option.word,) if option.word else (),
            option.unit if option.kind == "number" else "",
            option.kind == "moment",
            option.kind == "files",
        )
        for option in _TABLES[name].values()
        if option.name not in _NOT_OPTIONS
    }
