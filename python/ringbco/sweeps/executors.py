"""Where a sweep's runs may go besides threads: processes of this machine, and Dask's workers."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from typing import Any, Final, ParamSpec, TypeVar

from pebble import ProcessExpired, ProcessPool

from ringbco.errors import RingbcoError, UsageError

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPTS: Final = 2
_PATIENCE: Final = "10s"  # until a scheduler answers


class WorkerDiedError(RuntimeError):
    """A worker process ended before it gave a result, more than once."""


class ProcessExecutor(Executor):
    """Processes of this machine, as pebble keeps them.

    One that dies takes only its own call along, and that call gets another process before it is given up;
    `concurrent.futures.ProcessPoolExecutor` would lose all calls at once and not say whose fault it was.
    """

    def __init__(self, processes: int) -> None:
        # Not forked: a fork would copy the locks of this process's threads as they happen to be held.
        self._pool: Any = ProcessPool(processes, initializer=_ignore_interrupts, context=get_context("spawn"))
        self._closing = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As `concurrent.futures.Executor.submit`; everything must be picklable."""
        future: Future[T] = Future()
        self._schedule(future, partial(fn, *args, **kwargs), _ATTEMPTS)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As `concurrent.futures.Executor.shutdown`, but `cancel_futures` ends calls that run, too."""
        self._closing = cancel_futures
        if cancel_futures:
            self._pool.stop()
        else:
            self._pool.close()
        if wait:
            self._pool.join()

    def _schedule(self, future: Future[T], call: Callable[[], T], attempts: int) -> None:
        """Has the call done, and does it again if its process dies, `attempts` times in all."""

        def done(inner: Future[T]) -> None:
            if inner.cancelled():
                future.cancel()
                return
            error = inner.exception()
            if isinstance(error, ProcessExpired):
                if attempts > 1 and not self._closing:
                    self._schedule(future, call, attempts - 1)
                    return
                error = WorkerDiedError(
                    f"the worker process died {_ATTEMPTS} times (status {error.exitcode}); it may lack memory"
                )
            if future.set_running_or_notify_cancel():
                if error is None:
                    future.set_result(inner.result())
                else:
                    future.set_exception(error)

        self._pool.schedule(call).add_done_callback(done)


def _ignore_interrupts() -> None:
    # An interrupt from the terminal reaches every process of the group: the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def dask_setup(_worker: object) -> None:
    """What Dask calls in each worker of `local:N` when it starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in _ignore_interrupts
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
