"""SHA-256 of files, and of what is held as JSON."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

from ringbco.io.json_text import json_text


def sha256_of(path: str | os.PathLike[str]) -> str:
    """That of a file's bytes; OSError where it cannot be read."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_digest(value: object, *, default: Callable[[Any], Any] | None = None) -> str:
    """That of a value as JSON, whatever the order of its keys. default: makes JSON of what is none."""
    text = json_text(value, indent=None, sort_keys=True, default=default)
    return hashlib.sha256(text.encode()).hexdigest()
