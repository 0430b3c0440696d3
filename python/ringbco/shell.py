"""The way in from the shell: signals, standard streams and limits, before anything heavy is imported."""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from types import FrameType

received: Final[list[int]] = []
"""The signals that asked this process to stop, once it was told."""

_AGAIN: Final = 0.01  # s
_FEWEST_FILES: Final = 16
_LEAST_MEMORY: Final = 1_500_000_000  # bytes of addresses
_NARROWEST: Final = 20
_waiting: list[int] = []  # signals that came while a module was being imported


def main() -> NoReturn:
    """Runs the command line and exits."""
    status: object = None
    try:
        listen()
        prepare()
        from ringbco.cli import main as run

        run()
    except KeyboardInterrupt:
        status = tell_interrupt()
    except SystemExit as done:
        status = done.code
    _end(status)


def _end(status: object) -> NoReturn:
    """Ends the process at once, with all that was said on its way.

    Python would first give back every column bit by bit, a tenth of a second for a million jobs. The system
    takes them all back with the process.
    """
    if not (status is None or isinstance(status, int)):
        sys.exit(status)  # type: ignore[arg-type] # a text: Python says it
    code = status or 0
    atexit._run_exitfuncs()  # what other libraries asked for
    try:
        sys.stdout.flush()
    except OSError as error:
        tell(f"error: standard output: {error.strerror}")
        code = code or 1
    os._exit(code)


def listen() -> None:
    """Makes SIGTERM and, but where a shell has it ignored, SIGINT raise KeyboardInterrupt."""
    received.clear()
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # An exception, not a sudden death, so that half-written folders are cleaned up; and a note, because
    # compiled code may make another exception of it. Not in the middle of an import: compiled modules that
    # cannot be initialised panic. The signal then waits until the import is done.
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
    """A line on stderr."""
    print(line, file=sys.stderr, flush=True)


def prepare() -> None:
    """Standard streams that can be written to, a terminal's width that is one, enough open files."""
    _open_streams()
    width = os.environ.get("COLUMNS", "")
    if width and not (width.isdecimal() and int(width) >= _NARROWEST):
        del os.environ["COLUMNS"]
    _check_limits()


def _open_streams() -> None:
    """Opens what the shell closed (`2>&-`) on nothing, lest the first file to be opened take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as we run


def _check_limits() -> None:
    """Raises the limit of open files as far as it may be; ends the process where a limit is too low to work.

    The libraries that read tables panic or hang where they cannot open a file, or make a thread.
    """
    import resource

    memory = resource.getrlimit(resource.RLIMIT_AS)[0]
    if memory not in (resource.RLIM_INFINITY, -1) and memory < _LEAST_MEMORY:
        tell(
            f"error: the process may use {memory / 1e6:,.0f} MB of memory: expected at least"
            f" {_LEAST_MEMORY / 1e6:,.0f}; raise `ulimit -v`"
        )
        sys.exit(1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _FEWEST_FILES:
        return
    if hard == resource.RLIM_INFINITY or hard >= _FEWEST_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_FEWEST_FILES, hard))
        return
    tell(f"error: at most {hard} files may be open: expected at least {_FEWEST_FILES}; raise `ulimit -n`")
    sys.exit(1)


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
