"""What only Linux has, and what stands in for it on macOS.

RINGBCO_SYSTEM=darwin makes Linux do as macOS does. It is for tests, which so hold every stand-in here
(docs/reliability.md#macos); `rust/files.rs` reads it too.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_KIB = 1024


def is_linux() -> bool:
    """Whether what only Linux has may be used."""
    return os.environ.get("RINGBCO_SYSTEM", sys.platform) == "linux"


def c_function(name: str) -> Any:
    """A function that only Linux' C libraries have, such as prctl; None where there is none of that name."""
    if not is_linux():
        return None
    import ctypes

    try:
        return getattr(ctypes.CDLL(None), name, None)
    except OSError:  # a static interpreter
        return None


def peak_memory() -> int:
    """Bytes of memory that this process has had at most. Linux tells KiB, macOS bytes (getrusage(2))."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (_KIB if is_linux() else 1)


def processor() -> str:
    """The model of the processor; its architecture where nothing tells the model."""
    import platform

    if is_linux():
        try:
            with open("/proc/cpuinfo", encoding="utf-8") as file:
                named = (line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
                if model := next(named, ""):
                    return model
        except OSError:
            pass
    return platform.processor() or platform.machine()


def place(path: str | os.PathLike[str]) -> str:
    """The absolute path, links followed, by which two names of one file are told to be one.

    macOS' file systems do not tell A from a, nor one form of an accented letter from another. Those that do
    are taken for the others: two names that differ in nothing else are refused where one file would be lost.
    """
    whole = os.path.realpath(path)
    return whole if is_linux() else fold(whole)


def fold(name: str) -> str:
    """The name as a file system has it that does not tell A from a."""
    import unicodedata

    return unicodedata.normalize("NFC", name).casefold()
