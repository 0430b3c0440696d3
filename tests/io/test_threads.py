"""Tasks side by side: order, errors, interrupts."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from ringbco.io.threads import at_once


def test_results_come_in_the_tasks_order() -> None:
    def wait(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    assert at_once(partial(wait, seconds) for seconds in (0.05, 0.0, 0.02)) == [0.05, 0.0, 0.02]
    assert at_once([]) == []


def test_two_run_at_a_time_and_no_more() -> None:
    meeting = threading.Barrier(2)
    running: list[int] = []
    most: list[int] = []

    def task() -> None:
        running.append(1)
        most.append(len(running))
        meeting.wait(timeout=10)  # would break if one ran after the other
        time.sleep(0.01)
        running.pop()

    at_once([task] * 4)
    assert max(most) == 2


def test_the_first_task_that_fails_decides_and_the_others_have_ended() -> None:
    ended: list[str] = []
    begun, failed = threading.Event(), threading.Event()

    def first() -> None:
        assert begun.wait(timeout=10)
        ended.append("first")
        failed.set()
        raise ValueError("first")

    def second() -> None:
        ended.append("second")
        raise ValueError("second")

    def last() -> None:
        begun.set()
        assert failed.wait(timeout=10)
        time.sleep(0.1)  # the error is there, and waits for this
        ended.append("last")

    with pytest.raises(ValueError, match="first"):
        at_once([first, second, last])
    assert ended == ["second", "first", "last"]


def test_an_interrupt_waits_for_what_runs_and_begins_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    submitted, begun, cancelled = threading.Event(), threading.Event(), threading.Event()

    class Told(ThreadPoolExecutor):
        """Says when it has all tasks, and when it has given up those that have not begun."""

        def submit(self, task: Any, /, *args: Any, **more: Any) -> Any:
            future = super().submit(task, *args, **more)
            if task is last:
                submitted.set()
            return future

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            if cancel_futures:
                cancelled.set()
            super().shutdown(wait=wait)

    def slow() -> None:
        begun.set()
        assert cancelled.wait(timeout=10)
        ended.append("slow")

    def interrupt() -> None:
        assert submitted.wait(timeout=10)
        assert begun.wait(timeout=10)
        # To the thread that waits: another one would not wake it. Again, for one that comes just before a
        # thread begins to wait does not wake it either.
        for _ in range(100):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            if cancelled.wait(timeout=0.1):
                break
        ended.append("interrupt")

    def never() -> None:
        ended.append("never")

    def last() -> None:
        ended.append("last")

    def once(*_: object) -> None:
        signal.signal(signal.SIGINT, lambda *_: None)
        raise KeyboardInterrupt

    monkeypatch.setattr("ringbco.io.threads.ThreadPoolExecutor", Told)
    before = signal.signal(signal.SIGINT, once)
    try:
        with pytest.raises(KeyboardInterrupt):
            at_once([slow, interrupt, never, last])
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(ended) == ["interrupt", "slow"]
