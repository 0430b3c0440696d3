"""Damaged inputs for every parser: it works, or says in one line what is wrong.

Each target takes sound inputs, damages them by strategies of hypothesis (`damage`), so that a failure
shrinks, and hands them to a parser. `RINGBCO_FUZZ` sets the cases of each target; `make fuzz N=...` does
many. What once failed stays as a test of its own in tests/io/test_odd_inputs.py. rust/tests/any_columns.rs
does the same to the engine.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, Final

from hypothesis import HealthCheck, settings

from ringbco.errors import RingbcoError

CASES: Final = int(os.environ.get("RINGBCO_FUZZ") or 10)
LONGEST: Final = 30
"""Seconds of processor time after which a case hangs: a busy machine makes none hang."""

fuzzed = settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


class HangError(Exception):
    """A case that does not end."""


def explained(parse: Callable[[], Any]) -> Any:
    """What `parse` gives, or None where it refuses in one line; whatever else happens fails the test."""

    def hang(_number: int, _frame: object) -> None:
        raise HangError(f"no end after {LONGEST} s of processor time")

    before = signal.signal(signal.SIGPROF, hang)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        return parse()
    except RingbcoError as error:
        text = str(error)
        assert text, "an error without a word"
        assert text.isprintable(), text
        return None
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as panic:  # of Rust, which hypothesis would not shrink
        raise AssertionError(f"panic: {panic}") from panic
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
