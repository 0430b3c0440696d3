"""A process and its shell: the signals that it is sent, the streams that it speaks through."""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from ringbco.io.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

P = ParamSpec("P")
T = TypeVar("T")

received: Final[list[int]] = []
"""The signals that asked this process to stop, once it was told."""

_AGAIN: Final = 0.01  # s
_theirs: Final[set[CodeType]] = set()
_waiting: list[int] = []  # signals that came while a module was being imported


def listen() -> None:
    """Makes SIGTERM and, but where a shell has it ignored, SIGINT raise KeyboardInterrupt."""
    received.clear()
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def calls_others(function: Callable[P, T]) -> Callable[P, T]:
    """Says of a function that it calls code of others, which may keep an interrupt to itself.

    There a second one ends the process at once.
    """
    _theirs.add(function.__code__)
    return function


def stop_listening() -> None:
    """From here on a signal ends the process at once: there is nothing left to clean up."""
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # An exception, not a sudden death, so that half-written folders are cleaned up; and a note, because
    # compiled code may make another exception of it. Not in the middle of an import: compiled modules that
    # cannot be initialised panic. The signal then waits until the import is done.
    if _waiting or (received and _is_others(frame)):
        try:
            tell("interrupted: ended at once")
        finally:
            os._exit(128 + number)
    if _importing(frame):
        _waiting.append(number)
        signal.signal(signal.SIGALRM, _try_again)
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)  # past its end nothing is left to interrupt
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        return
    received.append(number)
    raise KeyboardInterrupt


def _try_again(_number: int, frame: FrameType | None) -> None:
    _interrupt(_waiting.pop(), frame)


def _is_others(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in _theirs:
            return True
        frame = frame.f_back
    return False


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def tell_interrupt(what_is_left: str = "") -> int:
    """Says the one line and returns the status: 128 + the signal's number."""
    tell(f"interrupted: {what_is_left or 'nothing was written'}")
    return 128 + (received[0] if received else signal.SIGINT)


def tell(line: str) -> None:
    """A line on stderr, or several."""
    say(*line.split("\n"), to=sys.stderr)


class _Stdout(io.FileIO):
    """Standard output that goes on into nothing once its reader has left, as in `ringbco ... | head -1`.

    A command has done its work whether or not all of its words are read: its files are written, and its
    status is that of the work. Any other failure, such as a full disk, is raised once, not again at exit.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.fileno())
            os.close(nothing)
            if not isinstance(error, BrokenPipeError):
                error.filename = "standard output"
                raise
            return len(data)


def outlive_the_reader() -> None:
    """Replaces standard output by one that no closed pipe can break; not where somebody else replaced it."""
    given = sys.stdout
    if given is not sys.__stdout__ or not isinstance(given, io.TextIOWrapper):
        return
    try:
        raw = _Stdout(given.fileno(), "w", closefd=False)
    except (OSError, ValueError):  # closed: Python tells so itself
        return
    given.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=given.encoding,
        # A name or a line that this encoding has no character for must not end a command whose work is done.
        errors="backslashreplace" if given.errors == "strict" else given.errors,
        line_buffering=given.line_buffering,
        write_through=given.write_through,
    )
