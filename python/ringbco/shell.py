"""The way in from the shell: signals, standard streams and limits, before anything heavy is imported."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import warnings
from typing import Final, NoReturn

from ringbco.io.memory import memory_limit, out_of_memory
from ringbco.io.process import listen, stop_listening, tell, tell_interrupt, watch
from ringbco.io.system import c_function

_FEWEST_FILES: Final = 16
_LEAST_MEMORY: Final = 1_500_000_000  # bytes of addresses
_NARROWEST: Final = 20
_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of prctl(2)
_CRASHES: Final = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGTRAP)
# M_TRIM_THRESHOLD and M_TOP_PAD of mallopt(3), bytes, and M_MMAP_MAX: nothing is mapped on its own.
_MALLOC: Final = {-1: 1 << 30, -2: 64 << 20, -4: 0}
# numpy asks for huge pages, which are cleared whole; pyarrow's own allocator keeps what it has to itself.
_WITH_MALLOC: Final = {"NUMPY_MADVISE_HUGEPAGE": "0", "ARROW_DEFAULT_MEMORY_POOL": "system"}


def main() -> NoReturn:
    """Runs the command line and exits."""
    status: object = None
    try:
        try:
            listen()
            prepare()
            watch()
            from ringbco.cli import main as run

            run()
        except SystemExit as done:
            status = done.code
        stop_listening()
    except KeyboardInterrupt:
        stop_listening()
        status = tell_interrupt()
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


def prepare() -> None:
    """Standard streams that can be written to, a terminal's width that is one, open files, a quick start."""
    # Imports make tens of thousands of objects that stay. Looking for garbage among them every 700 takes a
    # tenth of what a small replay does. Columns are no such objects, so a run holds no more memory for it.
    gc.set_threshold(100_000)
    _open_streams()
    # numpy's BLAS sets up threads that wait in a loop: a tenth of a start. Nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _keep_memory()
    # Figures are checked for what they are. A library's words about the arithmetic tell no user anything.
    warnings.filterwarnings("ignore", "", RuntimeWarning, r"(ringbco|numpy|scipy|polars)\b")
    width = os.environ.get("COLUMNS", "")
    if width and not (width.isdecimal() and int(width) >= _NARROWEST):
        del os.environ["COLUMNS"]
    _check_limits()


def _open_streams() -> None:
    """Opens what the shell closed (`2>&-`) on nothing, lest the first file to be opened take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as we run


def _keep_memory() -> None:
    """Makes glibc keep the memory of columns that are freed: the next one takes it, and no page is cleared.

    Clearing pages was a third of what a replay of ten million jobs takes. Other C libraries have no such
    function. What the user's environment says stands.
    """
    if mallopt := c_function("mallopt"):
        for parameter, value in _MALLOC.items():
            mallopt(parameter, value)
        for name, setting in _WITH_MALLOC.items():
            os.environ.setdefault(name, setting)


def _work_in_a_child(memory: int) -> None:
    """Goes on in a child; this process waits for it, and tells of a death by lack of memory.

    Where a limit is met, libraries of other languages end the process, each with words of its own.
    """
    parent = os.getpid()
    child = os.fork()
    if not child:
        if prctl := c_function("prctl"):
            prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        # What Python says is still heard; what the libraries say as they end is not.
        sys.stderr = open(os.dup(2), "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors, buffering=1)  # noqa: SIM115
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: os.kill(child, number))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0 and -status in _CRASHES:
        tell(f"error: {out_of_memory(memory)}")
        status = 1
    elif status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(parent, -status)
    os._exit(status)


def _check_limits() -> None:
    """Raises the limit of open files as far as it may be; ends the process where a limit is too low to work.

    The libraries that read tables panic or hang where they cannot open a file, or make a thread.
    """
    import resource

    memory = memory_limit()
    if memory is not None and memory < _LEAST_MEMORY:
        tell(
            f"error: the process may use {memory / 1e6:,.0f} MB of memory: expected at least"
            f" {_LEAST_MEMORY / 1e6:,.0f}; raise `ulimit -v`"
        )
        sys.exit(1)
    if memory is not None:
        _work_in_a_child(memory)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _FEWEST_FILES:
        return
    if hard == resource.RLIM_INFINITY or hard >= _FEWEST_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_FEWEST_FILES, hard))
        return
    tell(f"error: at most {hard} files may be open: expected at least {_FEWEST_FILES}; raise `ulimit -n`")
    sys.exit(1)
