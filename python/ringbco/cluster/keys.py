"""The keys of a TOML document: which there may be, and what they may hold. Every error names the key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ringbco.errors import ABSENT, InputError, nearest, show_toml


def table_of(value: object, file: str, key: str) -> dict[str, Any]:
    """The value of a key, which must be a table."""
    if not isinstance(value, dict):
        raise InputError("a table", file=file, key=key, value=value, hint="see docs/cluster.md")
    return value


def only_keys(table: dict[str, Any], known: Iterable[str], file: str, where: str) -> None:
    """Refuses a key that the table does not have, with the one that was probably meant."""
    for name in table:
        if name not in tuple(known):
            raise unknown_key(name, known, file, where)


def unknown_key(name: str, known: Iterable[str], file: str | None, where: str) -> InputError:
    """The error for such a key."""
    known = tuple(known)
    return InputError(
        f"only the keys {', '.join(known)}",
        file=file,
        key=f"{where}.{name}" if where else name,
        hint=did_you_mean(name, known),
    )


def whole(
    entry: dict[str, Any],
    name: str,
    file: str,
    where: str,
    *,
    default: int | None = None,
    least: int = 1,
    most: int | None = None,
) -> int:
    """A whole number in its range; `default` where the key is left out."""
    value = entry.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least or value > (most or value):
        raise InputError(
            f"an integer >= {least}" + (" and <= 2^53" if most is not None else ""),
            file=file,
            key=f"{where}.{name}",
            value=ABSENT if name not in entry else show_toml(value),
            hint="see docs/cluster.md",
        )
    return value


def label_of(entry: dict[str, Any], name: str, file: str, where: str) -> str | None:
    """A text that is not empty; None where the key is left out."""
    value = entry.get(name)
    if value is not None and (not isinstance(value, str) or value == ""):
        raise InputError(
            "a non-empty text",
            file=file,
            key=f"{where}.{name}",
            value=value,
            hint=f'write it in quotes: {name} = "..."',
        )
    return value


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint at the nearest known name."""
    near = nearest(name, known)
    return f"did you mean {near}?" if near else None


def toml_text(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, once DEL is escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def toml_key(name: str) -> str:
    """A TOML key, in quotes where it is no bare one."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_text(name)
