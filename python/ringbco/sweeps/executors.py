"""Where a sweep's runs may go besides threads: processes of this machine, and Dask's workers."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing.context import SpawnContext, SpawnProcess
from threading import Lock
from typing import Any, Final, ParamSpec, TypeVar

from ringbco.errors import RingbcoError, UsageError
from ringbco.io.process import holding

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPTS: Final = 2
_PATIENCE: Final = "10s"  # until a scheduler answers


class WorkerDiedError(RuntimeError):
    """A worker process ended before it gave a result, more than once."""


class _Spawning(SpawnContext):
    """Starts processes anew, and knows them. Forked ones would have the locks that threads here hold."""

    def __init__(self) -> None:
        super().__init__()
        self.started: Final[list[SpawnProcess]] = []

    def Process(self, *arguments: Any, **named: Any) -> SpawnProcess:  # type: ignore[override] # noqa: N802
        """A process that is not started yet."""
        self.started.append(SpawnProcess(*arguments, **named))
        return self.started[-1]


class _Worker:
    """One process, with its own pipes and locks: if it dies, no other process waits for them."""

    def __init__(self) -> None:
        self._context: Final = _Spawning()
        # An interrupt from the terminal reaches every process of the group: this one decides what it means.
        # The new one begins with what is blocked here, so that it hears of none even while it starts.
        # Nor does this one, which another thread of it may tell: a process that is half started complains.
        self.pool: Final = ProcessPoolExecutor(1, self._context)
        with holding():
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                self.pool.submit(os.getpid)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def end(self) -> None:
        """Ends the process, whatever it does."""
        for process in self._context.started:
            process.kill()


@dataclass(eq=False)
class _Call:
    future: Future[Any]
    work: Callable[[], Any]
    attempts: int = 0


class ProcessExecutor(Executor):
    """Processes of this machine, each a `ProcessPoolExecutor` of its own.

    One that dies takes only its own call along, and that call gets another process before it is given up.
    One pool of several processes would lose all calls, or wait for ever for a lock that the dead one held.
    """

    def __init__(self, processes: int) -> None:
        self.workers: Final = processes
        self._lock = Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._waiting: deque[_Call] = deque()
        self._open: set[Future[Any]] = set()
        self._closing = False
        try:
            for _ in range(processes):
                self._idle.append(_Worker())
        except BaseException:
            self.shutdown(wait=False, cancel_futures=True)
            raise

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As `concurrent.futures.Executor.submit`; everything must be picklable."""
        future: Future[T] = Future()
        with self._lock:
            self._open.add(future)
            self._waiting.append(_Call(future, partial(fn, *args, **kwargs)))
        self._hand_out()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As `concurrent.futures.Executor.shutdown`, but `cancel_futures` ends calls that run, too."""
        if not cancel_futures and wait:
            with self._lock:
                unfinished = set(self._open)
            wait_for(unfinished)
        with self._lock:
            self._closing = cancel_futures
            given_up = [call.future for call in self._waiting] if cancel_futures else []
            self._waiting.clear()
            workers = [*self._idle, *self._busy]
        for future in given_up:
            self._give_up(future)
        for worker in workers:
            if cancel_futures:
                worker.end()
            worker.pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def _hand_out(self) -> None:
        """Gives waiting calls to idle processes."""
        while True:
            with self._lock:
                if not (self._idle and self._waiting):
                    return
                call, worker = self._waiting.popleft(), self._idle.pop()
                self._busy.add(worker)
            if call.future.cancelled():
                self._give_up(call.future)
                self._free(worker)
                continue
            try:
                inner = worker.pool.submit(call.work)
            except BrokenProcessPool:  # it died while it was idle: nothing was lost
                with self._lock:
                    self._waiting.appendleft(call)
                self._free(worker, dead=True)
                continue
            call.attempts += 1
            inner.add_done_callback(partial(self._done, worker, call))

    def _free(self, worker: _Worker, *, dead: bool = False) -> None:
        """Makes a process that has nothing to do idle, or puts another in the place of a dead one."""
        if dead:
            worker.pool.shutdown(wait=False)
        with self._lock:
            self._busy.discard(worker)
            if not self._closing:
                self._idle.append(_Worker() if dead else worker)

    def _give_up(self, future: Future[Any]) -> None:
        _give_up(future)
        with self._lock:
            self._open.discard(future)

    def _done(self, worker: _Worker, call: _Call, inner: Future[Any]) -> None:
        error = None if inner.cancelled() else inner.exception()
        dead = isinstance(error, BrokenProcessPool)
        if dead and call.attempts < _ATTEMPTS and not self._closing:
            with self._lock:
                self._waiting.appendleft(call)
        else:
            if dead:
                error = WorkerDiedError(f"the worker process died {call.attempts} times; it may lack memory")
            if inner.cancelled():
                self._give_up(call.future)
            else:
                if call.future.set_running_or_notify_cancel():
                    if error is None:
                        call.future.set_result(inner.result())
                    else:
                        call.future.set_exception(error)
                with self._lock:
                    self._open.discard(call.future)
        self._free(worker, dead=dead)
        self._hand_out()


def dask_setup(_worker: object) -> None:
    """What Dask calls in each worker of `local:N` when it starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as the processes of `_Worker`
    _silence()


def _silence() -> None:
    """Keeps Dask's own log off the terminal.

    Workers that come and go are no news: their runs are done again elsewhere. A scheduler that is gone is
    told by the sweep, in one line.
    """
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


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


class DaskExecutor(Executor):
    """Dask's workers; every call ends, also where the scheduler dies.

    The executor that Dask itself offers never ends a call whose result is on its way at that moment.
    """

    def __init__(self, client: Any) -> None:
        self.client: Final = client

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As `concurrent.futures.Executor.submit`; a call that Dask lost counts as cancelled."""
        future: Future[T] = Future()
        try:
            task = self.client.submit(fn, *args, pure=False, **kwargs)
            task.add_done_callback(partial(_follow, future))
        except Exception:  # a client that has closed: its kinds of error differ from version to version
            _give_up(future)
        return future


def _follow(future: Future[T], task: Any) -> None:
    """Hands on what became of one of Dask's tasks."""
    try:
        result = task.result()
    except BaseException as error:
        if task.status != "error":  # cancelled, or finished and its result not to be had
            _give_up(future)
        elif future.set_running_or_notify_cancel():
            future.set_exception(error)
    else:
        if future.set_running_or_notify_cancel():
            future.set_result(result)


def _give_up(future: Future[T]) -> None:
    future.cancel()
    future.set_running_or_notify_cancel()  # wakes those who wait for it


@contextmanager
def dask_executor(address: str, *, scatter: bool) -> Iterator[tuple[Executor, Callable[[Any], Any] | None]]:
    """An executor over Dask, and its function that puts data on all workers if `scatter` asks for it.

    address: of a scheduler (`tcp://...`, `tls://...`), the scheduler file that it wrote (`....json`), or
    `local:N` for N worker processes on this machine. Raises UsageError without the package `distributed` or
    for another address, RingbcoError where nothing answers.
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
    _silence()
    cluster = None
    try:
        if workers:
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",  # None is a fixed port, which another sweep may have
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
        travel = (lambda data: client.scatter(data, broadcast=True, hash=False)) if scatter else None
        yield DaskExecutor(client), travel
    finally:
        with suppress(Exception):
            client.close()
        if cluster is not None:
            with suppress(Exception):
                cluster.close()
