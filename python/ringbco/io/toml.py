"""TOML: reading files that may be anything, and writing what ringbco records."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from typing import Any

from ringbco.errors import InputError


def read_toml(path: str | os.PathLike[str], *, hint: str | None = None) -> dict[str, Any]:
    """The document in a TOML file. Raises InputError, with `hint`, where it cannot be read or is no TOML."""
    try:
        with open(path, "rb") as file:
            return tomllib.loads(file.read().decode("utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from error
    except RecursionError:
        raise InputError("is not readable as TOML (nested too deep)", file=path, hint=hint) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not valid TOML ({error})", file=path, hint=hint) from None
    except ValueError:  # what Python says of an integer beyond its limit
        raise InputError("is not valid TOML (an integer of too many digits)", file=path, hint=hint) from None


def toml_text(document: Mapping[str, Any]) -> str:
    """TOML of nested dicts; leaves are scalars, lists of them or of dicts, or None, which is skipped."""
    import tomli_w

    return tomli_w.dumps(_plain(document))


def copied(document: Any) -> Any:
    """The document with dicts and lists of its own; faster than `copy.deepcopy`, which takes anything."""
    if isinstance(document, dict):
        return {key: copied(entry) for key, entry in document.items()}
    return [copied(entry) for entry in document] if isinstance(document, list) else document


def _plain(value: Any) -> Any:
    """The value without what TOML has no spelling for: None, and the undecodable bytes of a path."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return value
