"""Tasks side by side: order, errors, interrupts."""

from __future__ import annotations

import _thread
import threading
import time
from functools import partial

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

    def fail(after: float, message: str) -> None:
        time.sleep(after)
        ended.append(message)
        raise ValueError(message)

    def last() -> None:
        time.sleep(0.1)
        ended.append("last")

    with pytest.raises(ValueError, match="first"):
        at_once([partial(fail, 0.05, "first"), partial(fail, 0.0, "second"), last])
    # The third may have begun; then it was waited for.
    before = list(ended)
    time.sleep(0.15)
    assert ended == before == ["second", "first", "last"]


def test_an_interrupt_waits_for_what_runs_and_begins_nothing_more() -> None:
    ended: list[str] = []

    def slow() -> None:
        time.sleep(0.2)
        ended.append("slow")

    def interrupt() -> None:
        time.sleep(0.02)
        _thread.interrupt_main()
        time.sleep(0.2)

    def never() -> None:
        ended.append("never")

    with pytest.raises(KeyboardInterrupt):
        at_once([slow, interrupt, slow, never, never])
    assert "slow" in ended
    assert "never" not in ended
