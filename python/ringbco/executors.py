"""Where a sweep's runs may go besides threads: processes of this machine, and Dask's workers."""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Final, ParamSpec, TypeVar

from ringbco.errors import RingbcoError, UsageError

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPTS: Final = 2
_PATIENCE: Final = "10s"  # until a scheduler answers


class WorkerDiedError(RuntimeError):
    """A worker process ended before it gave a result, more than once."""


class ProcessExecutor(Executor):
    """Processes of this machine, each behind a thread of its own.

    One that dies takes only its own call along, and that call gets another process before it is given up;
    `concurrent.futures.ProcessPoolExecutor` would lose all calls at once and not say whose fault it was.
    """

    def __init__(self, processes: int) -> None:
        self._threads = ThreadPoolExecutor(processes)
        self._mine = threading.local()
        self._workers: set[_Worker] = set()
        self._lock = threading.Lock()
        self._closing = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As `concurrent.futures.Executor.submit`; everything must be picklable."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As `concurrent.futures.Executor.shutdown`, but `cancel_futures` ends calls that run, too."""
        with self._lock:
            self._closing = cancel_futures
            if cancel_futures:
                for worker in self._workers:
                    worker.process.terminate()
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            for worker in self._workers:
                worker.close()

    def pids(self) -> list[int]:
        """The processes' ids."""
        with self._lock:
            return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def _call(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        status: int | None = None
        for _ in range(_ATTEMPTS):
            worker = self._worker()
            try:
                worker.pipe.send((fn, args, kwargs))
                good, value = worker.pipe.recv()
            except (EOFError, OSError):
                status = self._bury(worker)
                continue
            if good:
                return value  # type: ignore[no-any-return]
            raise value
        raise WorkerDiedError(
            f"the worker process died {_ATTEMPTS} times (status {status}); it may lack memory"
        )

    def _worker(self) -> _Worker:
        """This thread's process, made when it has none."""
        with self._lock:
            if self._closing:
                raise InterruptedError("the executor was shut down")
            worker: _Worker | None = getattr(self._mine, "worker", None)
            if worker is None:
                worker = self._mine.worker = _Worker()
                self._workers.add(worker)
        return worker

    def _bury(self, worker: _Worker) -> int | None:
        with self._lock:
            self._workers.discard(worker)
        self._mine.worker = None
        return worker.close()


class _Worker:
    """One process and this side of the pipe to it."""

    def __init__(self) -> None:
        # Not forked: a fork would copy the locks of this process's threads as they happen to be held.
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def close(self) -> int | None:
        """Lets the process end and returns its status."""
        self.pipe.close()
        self.process.join()
        return self.process.exitcode


def _serve(pipe: Connection) -> None:
    """A worker process: answers calls until the other side is closed."""
    # An interrupt from the terminal reaches every process of the group: the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            fn, args, kwargs = pipe.recv()
        except (EOFError, OSError):
            return
        answer: tuple[bool, Any]
        try:
            answer = True, fn(*args, **kwargs)
        except BaseException as error:
            answer = False, RuntimeError(f"{type(error).__name__}: {error}")
        pipe.send(answer)


def dask_setup(_worker: object) -> None:
    """What Dask calls in each worker of `local:N` when it starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in _serve
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


def _scheduler_in(path: str) -> str:
    """The address in the file that `dask scheduler --scheduler-file` writes."""
    try:
        with open(path, encoding="utf-8") as file:
            return str(json.load(file)["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = (
            f"cannot be read ({error.strerror})" if isinstance(error, OSError) else "is no scheduler file"
        )
        raise UsageError(f"option dask: {path}: {reason}; give the one that the scheduler wrote") from None


@contextmanager
def dask_executor(address: str, *, scatter: bool) -> Iterator[tuple[Executor, Callable[[Any], Any] | None]]:
    """Dask's own executor, and its function that puts data on all workers if `scatter` asks for it.

    address: of a scheduler (`tcp://...`, `tls://...`), the scheduler file that it wrote (`....json`), or
    `local:N` for N worker processes on this machine. Raises UsageError without the package `distributed` or
    for another address, RingbcoError where nobody answers.
    """
    try:
        distributed: Any = import_module("distributed")  # untyped
    except ImportError:
        raise UsageError(
            "option dask: the package distributed is not installed: pip install 'ringbco[dask]'"
        ) from None
    kind, _, count = address.partition(":")
    workers = int(count) if kind == "local" and count.isdecimal() else 0
    if kind == "local" and workers < 1:
        raise UsageError(f"option dask: {address!r}: expected local:N with N >= 1")
    if kind not in ("local", "tcp", "tls", "ucx", "ws", "wss") and not address.endswith(".json"):
        raise UsageError(
            f"option dask: {address!r}: expected tcp://HOST:PORT, tls://HOST:PORT, a scheduler file"
            " (.json) or local:N"
        )
    scheduler = _scheduler_in(address) if address.endswith(".json") else address
    # Workers that come and go are no news here: their runs are done again elsewhere.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    cluster = None
    try:
        if workers:
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
                preload=[__name__],
            )
            client = distributed.Client(cluster)
        else:
            client = distributed.Client(scheduler, timeout=_PATIENCE)
    except Exception as error:  # of many kinds: addresses, sockets, TLS, versions
        if cluster is not None:
            cluster.close()
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RingbcoError(f"option dask: {address}: no scheduler answers ({reason})") from None
    try:
        executor = client.get_executor(pure=False)
        yield executor, (lambda data: client.scatter(data, broadcast=True, hash=False)) if scatter else None
        executor.shutdown()
    finally:
        with suppress(Exception):
            client.close()
        if cluster is not None:
            with suppress(Exception):
                cluster.close()
