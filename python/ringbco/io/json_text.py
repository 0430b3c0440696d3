"""JSON as text, which any reader of JSON can read: the format has neither NaN nor infinity."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any


def json_text(
    value: object,
    *,
    indent: int | None = 2,
    sort_keys: bool = False,
    default: Callable[[Any], Any] | None = None,
) -> str:
    """The value as JSON. A number that JSON does not have is its text in TOML: "inf", "-inf" or "nan".

    indent, sort_keys, default: as for `json.dumps`.
    """
    options: dict[str, Any] = {"indent": indent, "sort_keys": sort_keys, "default": default}
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, **options)


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(below) for below in value]
    return value
