"""A process and its shell: the signals that it is sent, the streams that it speaks through."""

from __future__ import annotations

import _thread
import atexit
import io
import os
import shutil
import signal
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from ringbco.io.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import FrameType

received: Final[list[int]] = []
"""The signal that asked this process to stop, once it was told."""

_AGAIN: Final = 0.01  # s
_PATIENCE: Final = 1.0  # s; a signal ends a command within two
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_waiting: list[int] = []  # a signal that came too early
_holding: list[int] = []
_telling: Final = _thread.allocate_lock()  # whoever has it says the one line
_leaving: Final[list[Callable[[], str]]] = []
_unfinished: Final[dict[Path, Sequence[Path]]] = {}
children: Final[set[int]] = set()
"""Processes that are to end with this one."""


def listen() -> None:
    """Makes SIGTERM and, but where a shell has it ignored, SIGINT raise KeyboardInterrupt."""
    received.clear()
    if _telling.locked():  # by an earlier command of this process
        _telling.release()
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def stop_listening() -> None:
    """From here on a signal ends the process at once: there is nothing left to clean up."""
    for number in _SIGNALS:
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_DFL)


def watch() -> None:
    """Ends the process soon after a signal, also where the main thread does not come to hear of it.

    Python calls a handler between two steps of its own. A solver may work for minutes without one, and a
    policy may keep the exception to itself. The system's handler writes the signal's number into a pipe,
    which another thread reads.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _thread.start_new_thread(_watch, (reader,))


def _watch(reader: int) -> None:
    while (number := os.read(reader, 1)[0]) not in _SIGNALS:
        pass
    time.sleep(_PATIENCE)
    _end_at_once(number)


def _end_at_once(number: int) -> None:
    """What the main thread would have done: removes what is unfinished, says the line, ends the process."""
    try:
        if "multiprocessing" in sys.modules:
            for process in sys.modules["multiprocessing"].active_children():
                process.kill()
        for child in list(children):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for path, parents in list(_unfinished.items()):
            with suppress(OSError):
                path.unlink() if path.is_file() else shutil.rmtree(path)
            for parent in parents:
                with suppress(OSError):  # not empty, so somebody else's by now
                    parent.rmdir()
        if _telling.acquire(blocking=False):
            tell(_interrupted(_leaving[-1]() if _leaving else ""))
    finally:
        os._exit(128 + number)


@contextmanager
def leaving(told: Callable[[], str]) -> Iterator[None]:
    """Says of the block what an interrupt of it leaves; "" for nothing."""
    _leaving.append(told)
    try:
        yield
    except BaseException as error:
        if received or isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(told()) from None
        raise
    finally:
        _leaving.remove(told)


@contextmanager
def holding() -> Iterator[None]:
    """Says of the block that an interrupt waits until it is done: what it breaks could not be put right."""
    _holding.append(1)
    try:
        yield
    finally:
        _holding.pop()


def unfinished(path: Path, parents: Sequence[Path] = ()) -> None:
    """Says that a file or folder is to be removed, with the folders made for it, if the process is ended."""
    _unfinished[path] = parents


def finished(path: Path) -> None:
    """Takes back what `unfinished` said, if it did."""
    _unfinished.pop(path, None)


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A folder for private files, which ends with the block or the process."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix=prefix) as name:
        folder = Path(name)
        unfinished(folder)
        try:
            yield folder
        finally:
            finished(folder)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # An exception, not a sudden death, so that half-written folders are cleaned up; and a note, because
    # compiled code may make another exception of it. Not in the middle of an import: compiled modules that
    # cannot be initialised panic. The signal then waits until the import is done, as it does where `holding`
    # says so. A second one changes
    # nothing: it would end the cleaning, and the first one ends the process soon.
    if _waiting or received:
        return
    if _holding or _importing(frame):
        _waiting.append(number)
        signal.signal(signal.SIGALRM, _try_again)
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)  # past its end nothing is left to interrupt
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        return
    received.append(number)
    raise KeyboardInterrupt


def _try_again(_number: int, frame: FrameType | None) -> None:
    _interrupt(_waiting.pop(), frame)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def tell_interrupt(what_is_left: str = "") -> int:
    """Says the one line and returns the status: 128 + the signal's number."""
    if _telling.acquire(blocking=False):
        tell(_interrupted(what_is_left))
    return 128 + (received[0] if received else signal.SIGINT)


def _interrupted(what_is_left: str) -> str:
    return f"interrupted: {what_is_left or 'nothing was written'}"


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
