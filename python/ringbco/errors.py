"""The exceptions a user can meet: each one is a single line and knows its exit status."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from ringbco.deprecation import renamed

_LONGEST_VALUE: Final = 60
_LINE_BASED_SUFFIXES: Final = (".csv", ".tsv", ".txt")
_SLIPS: Final = 2


class _Absent:
    """Marks a value that was not given (`None` is a value: a null cell)."""

    def __repr__(self) -> str:
        return "<absent>"

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
POLICY_NOTE: Final = "raised by policy "
"""How the note begins that an exception of a custom policy gets."""


class RingbcoError(Exception):
    """Any failure ringbco explains itself; `str(error)` is one line, `exit_code` the process's status."""

    exit_code: int = 1

    def __init__(self, message: str) -> None:
        # gymnasium makes the error of a worker anew, with the error itself for its message.
        super().__init__(one_line(str(message)))


class RingbcoWarning(UserWarning):
    """What was given is allowed, and so unlike any public trace or network that its unit may be wrong."""


class UsageError(RingbcoError):
    """Options that contradict each other or name nothing: exit status 2."""

    exit_code = 2


class AuditFailure(RingbcoError):  # noqa: N818 - a finding, not a malfunction
    """A result that broke a constraint: exit status 3."""

    exit_code = 3


class DecisionError(RingbcoError):
    """A custom policy asked for what cannot be: exit status 1. Nothing was changed by it.

    verb: what it asked for. time: when, s. row, job: of whom, where one job is at fault.
    """

    def __init__(
        self, verb: str, reason: str, *, time: float, row: int | None = None, job: object = None
    ) -> None:
        self.verb, self.reason, self.time, self.row, self.job = verb, reason, time, row, job
        who = "" if row is None else f"job {show_value(job)} (row {row}): "
        super().__init__(f"{verb} at {time:g} s: {who}{reason}")


class ForkedError(RingbcoError):
    """This process was forked, and lacks threads that the work needs: exit status 1."""


class LibraryError(RingbcoError, ImportError):
    """The engine's compiled library is missing from the package, or does not load: exit status 1."""


class ForeignError(RingbcoError):
    """What code of another package raised, with its place there: exit status 1."""

    what: ClassVar[str]

    def __init__(self, name: str, error: BaseException, file: str | None = None) -> None:
        """file: of that code; the place is the last one in it, else that at which it was raised."""
        import traceback

        said = traceback.format_exception_only(error)[-1].strip()  # holds where str(error) raises
        places = traceback.extract_tb(error.__traceback__)
        place = [frame for frame in places if frame.filename == file] or places
        super().__init__(f"{self.what} {name}: raised {said} ({place[-1].filename}, line {place[-1].lineno})")


class PolicyError(ForeignError):
    """A custom policy that cannot be loaded, or that would end the process."""

    what = "policy"


class SourceError(ForeignError):
    """A source of an installed package that cannot be loaded, or cannot read its files."""

    what = "source"


class OtherwiseError(RingbcoError):
    """A repeated run that came out otherwise than the first one: exit status 3."""

    exit_code = 3


class InputError(RingbcoError):
    """A file, a table or a value is not what was expected: exit status 1.

    `expected` says what should have been there, `hint` how to mend it. `row` is the data row, counted from 1
    without the header; for text files the line of the file is shown too (`line`, or row + 1 when not given).
    `key` names the place in a file that has no rows, such as `network.xi1` in a cluster's TOML.
    """

    def __init__(
        self,
        expected: str,
        *,
        file: str | os.PathLike[str] | None = None,
        row: int | None = None,
        column: str | None = None,
        value: object = ABSENT,
        hint: str | None = None,
        line: int | None = None,
        key: str | None = None,
    ) -> None:
        self.expected = expected
        self.file = None if file is None else os.fspath(file)
        self.row = row
        self.column = column
        self.value = value
        self.hint = hint
        self.key = key
        if line is None and row is not None and (self.file or "").lower().endswith(_LINE_BASED_SUFFIXES):
            line = row + 1
        self.line = line
        super().__init__(self._message())

    def replace(self, **others: Any) -> InputError:
        """The same error with other arguments in place of its own, such as `file` or `hint`."""
        names = ("file", "row", "column", "value", "hint", "line", "key")
        told = {name: getattr(self, name) for name in names} | others
        return InputError(told.pop("expected", self.expected), **told)

    but = renamed("but", "replace")

    def _message(self) -> str:
        parts = []
        if self.file is not None:
            parts.append(self.file)
        place = []
        if self.row is not None:
            place.append(f"row {self.row}" + (f" (line {self.line})" if self.line is not None else ""))
        elif self.line is not None:
            place.append(f"line {self.line}")
        if self.column is not None:
            place.append(f"column {self.column}")
        if self.key is not None:
            place.append(self.key)
        if place:
            parts.append(", ".join(place))
        if self.value is not ABSENT:
            parts.append(show_value(self.value))
        # Without any place or value the sentence is the caller's own, whole.
        parts.append(f"expected {self.expected}" if place or self.value is not ABSENT else self.expected)
        return ": ".join(parts) + (f"; {self.hint}" if self.hint else "")


def show_value(value: object) -> str:
    """A value as a message shows it: short, on one line, quoted where the eye could miss its ends."""
    if value is None:
        return "null"
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else repr(value)
    text = str(value)
    if len(text) > _LONGEST_VALUE:
        text = text[: _LONGEST_VALUE - 3] + "..."
    plain = text != "" and text.isprintable() and " " not in text
    return text if plain or not isinstance(value, str) else repr(text)


def show_toml(value: object) -> object:
    """A value of a TOML file as it was written there: a text in quotes, which may be all that is wrong."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) and show_value(value) == value else value


def show_path(path: str | os.PathLike[str]) -> str:
    """A path as text that any file can hold: bytes of its name that are not UTF-8 stand as `\\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def one_line(text: str) -> str:
    """`text` with line ends and other control characters made visible or turned to single spaces."""
    text = " ".join(text.split("\n")) if "\n" in text else text
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else (" " if c.isspace() else repr(c)[1:-1]) for c in text)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The first in `known` of the least edit distance from `name`; None where that is above 2.

    A letter inserted, deleted or replaced counts one, as do two neighbours that changed places; case counts
    nothing. A name that differs in every letter is another name, as `id` is beside `vc`.
    """
    plain = name.strip().lower()
    found = {candidate: _distance(plain, candidate.strip().lower()) for candidate in known}
    near = {
        candidate: slips
        for candidate, slips in found.items()
        if slips <= _SLIPS and slips < max(len(plain), len(candidate))
    }
    return min(near, key=lambda candidate: near[candidate], default=None)


def _distance(one: str, other: str) -> int:
    """The edit distance (optimal string alignment), or some number above 2 where it is above 2."""
    if abs(len(one) - len(other)) > _SLIPS:
        return _SLIPS + 1
    row = before = list(range(len(other) + 1))
    for number, letter in enumerate(one):
        row, before, second = [number + 1], row, before
        for at, its in enumerate(other):
            row.append(min(row[at] + 1, before[at + 1] + 1, before[at] + (letter != its)))
            if number and at and letter == other[at - 1] and one[number - 1] == its:
                row[-1] = min(row[-1], second[at - 1] + 1)
    return row[-1]
