"""Keeps what libraries of other languages print off the standard output, which may be somebody's JSON."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

_STDOUT: Final = 1
_C: Final = ctypes.CDLL(None)


class _Redirection:
    """The descriptor of the standard output: elsewhere for as long as anybody asks for it, in any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._kept: int | None = None

    def begin(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            try:
                self._kept = os.dup(_STDOUT)
            except OSError:  # it is closed: nothing can be printed
                return
            _C.fflush(None)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, _STDOUT)
            os.close(nowhere)

    def end(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside or self._kept is None:
                return
            _C.fflush(None)  # C holds back what it prints, until here or until long after
            os.dup2(self._kept, _STDOUT)
            os.close(self._kept)
            self._kept = None


_REDIRECTION: Final = _Redirection()


@contextmanager
def unprinted() -> Iterator[None]:
    """What is printed meanwhile, not through Python's own streams, goes nowhere."""
    _REDIRECTION.begin()
    try:
        yield
    finally:
        _REDIRECTION.end()
