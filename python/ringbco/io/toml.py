"""TOML: reading files that may be anything, and writing what ringbco records."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from ringbco.errors import InputError

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


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


def toml_key(text: str) -> str:
    """A key of TOML: bare where it may be, else quoted."""
    return text if _BARE_KEY.fullmatch(text) else toml_string(text)


def toml_string(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, once DEL is escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def toml_text(document: Mapping[str, Any]) -> str:
    """TOML of nested dicts; leaves are scalars, lists of them or of dicts, or None, which is skipped."""
    import tomli_w

    return tomli_w.dumps(_plain(document))


def _plain(value: Any) -> Any:
    """The value without what TOML has no spelling for: None, and the undecodable bytes of a path."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return value
