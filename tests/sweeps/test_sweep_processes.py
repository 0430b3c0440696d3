"""The processes of a sweep: what an interrupt leaves of them."""

from __future__ import annotations

import os
import signal
from multiprocessing.context import SpawnProcess

import pytest

from ringbco.io import process
from ringbco.sweeps.executors import ProcessExecutor


def test_calls_that_are_cancelled_end_once(caplog: pytest.LogCaptureFixture) -> None:
    """What an interrupted sweep does: it cancels all that is open, then ends the processes."""
    pool = ProcessExecutor(2)
    futures = [pool.submit(signal.pause) for _ in range(6)]
    for future in futures:
        future.cancel()
    pool.shutdown(cancel_futures=True)
    assert all(future.cancelled() for future in futures)
    assert caplog.records == []  # where concurrent.futures tells what a callback raised


def test_an_interrupt_waits_until_a_process_has_been_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is half started complains that its parent is gone."""
    start, said = SpawnProcess.start, []

    def interrupted(self: SpawnProcess) -> None:
        os.kill(os.getpid(), signal.SIGTERM)  # in this thread, at once
        start(self)
        said.append("started")

    def wait() -> None:
        pool = ProcessExecutor(1)  # which ends its process where it is interrupted itself
        try:
            pool.submit(signal.pause).result()
        finally:
            pool.shutdown(cancel_futures=True)

    monkeypatch.setattr(SpawnProcess, "start", interrupted)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)}
    try:
        process.listen()
        with pytest.raises(KeyboardInterrupt):
            wait()
        assert said == ["started"]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        process.received.clear()


def test_processes_hear_no_interrupt_from_their_first_moment_on() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    pool = ProcessExecutor(1)
    try:
        blocked = pool.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result()
    finally:
        pool.shutdown(cancel_futures=True)
    assert signal.SIGINT in blocked
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
