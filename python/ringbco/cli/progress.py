"""How far long work is, on stderr: a bar where a person watches, else a line every half a minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Any, Final

from ringbco.io.terminal import say
from ringbco.units import duration, percent

EVERY: Final = 30.0
"""Seconds between two lines."""
_PERCENT: Final = "[progress.percentage]{task.percentage:>3.0f} %"
_RATES: Final = ((1.0, "s"), (60.0, "min"), (3_600.0, "h"))


class Progress:
    """Takes how far work is, and shows nothing."""

    def show(self, done: int, total: int) -> None:
        """So much is done, of all."""

    def began(self, number: int, total: int, name: str) -> None:
        """The run of that number begins; so many there are."""

    def ended(self, done: int, total: int, kept: int = 0) -> None:
        """So many runs have ended, of all. kept: those of them that were finished before this work began."""


class _Bar(Progress):
    def __init__(self, bar: Any, what: str) -> None:
        self._bar = bar
        self._task = bar.add_task(what, total=None)

    def show(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def began(self, number: int, total: int, name: str) -> None:
        self._bar.update(self._task, description=f"run {number} of {total}, {name}")


class Lines(Progress):
    """What a log gets instead of a bar: how much is done, the rate, the expected end.

    unit: None where runs are counted. clock: seconds from any instant. now: the time of day.
    """

    def __init__(
        self,
        what: str,
        unit: str | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._what = what
        self._unit = unit
        self._clock = clock
        self._now = now
        self._start = clock()
        self._parts = (0, 0)
        self._runs = (0, 0, 0)

    def show(self, done: int, total: int) -> None:
        """As that of `Progress`."""
        self._parts = done, total

    def began(self, number: int, total: int, name: str) -> None:
        """As that of `Progress`."""
        done, _, kept = self._runs
        self._runs = done, total, kept

    def ended(self, done: int, total: int, kept: int = 0) -> None:
        """As that of `Progress`."""
        self._runs = done, total, kept

    def line(self) -> str:
        """How far the work is now."""
        passed = self._clock() - self._start
        (done, total), (ended, runs, kept) = self._parts, self._runs
        share = done / total if total else 0.0
        before = kept / runs if runs else 0.0
        unit, count = ("runs", runs) if self._unit is None else (self._unit, total)
        if not count:
            return f"{self._what}: at work for {duration(passed)}"
        amount = percent(share, 0) if unit == "%" else f"{ended if runs else done:,} of {count:,} {unit}"
        much = f"{amount} done"
        if share <= before or passed <= 0:
            return f"{self._what}: {much} in {duration(passed)}"
        told = [much]
        if unit != "%":
            told.append(_rate((share - before) * count / passed, unit))
        left = passed * (1.0 - share) / (share - before)
        end = self._now() + timedelta(seconds=left)
        told.append(f"expected end {end:%Y-%m-%d %H:%M:%S} (in {duration(left)})")
        return f"{self._what}: {', '.join(told)}"


def _rate(a_second: float, unit: str) -> str:
    """So many a second, a minute or an hour, the shortest of them in which there is at least one."""
    seconds, name = next((row for row in _RATES if a_second * row[0] >= 1.0), _RATES[-1])
    rate = a_second * seconds
    return f"{rate:,.0f} {unit}/{name}" if rate >= 100.0 else f"{rate:.3g} {unit}/{name}"


@contextmanager
def progress_bar(
    what: str, *, quiet: bool = False, unit: str = "jobs"
) -> Iterator[Callable[[int, int], None] | None]:
    """A callback taking (done, in all); None when asked to be quiet."""
    with _shown(what, quiet=quiet, unit=unit) as progress:
        yield None if progress is None else progress.show


@contextmanager
def progress_of_runs(what: str, *, quiet: bool = False) -> Iterator[Progress]:
    """What takes how far several runs are."""
    with _shown(what, quiet=quiet, unit=None) as progress:
        yield progress or Progress()


@contextmanager
def _shown(what: str, *, quiet: bool, unit: str | None) -> Iterator[Progress | None]:
    """A bar or lines that count so many of a unit; without one a bar counts percent, and lines runs."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar(what, unit) as bar:
            yield bar
    else:
        lines = Lines(what, unit)
        with _spoken(lines.line, EVERY):
            yield lines


@contextmanager
def _bar(what: str, unit: str | None) -> Iterator[Progress]:
    from rich import progress as of_rich

    from ringbco.io.console import Console

    counted = [of_rich.MofNCompleteColumn(), of_rich.TextColumn(unit or "")]
    columns = (
        of_rich.TextColumn("{task.description}", markup=False),
        of_rich.BarColumn(),
        *([of_rich.TaskProgressColumn(_PERCENT)] if unit is None else counted),
        of_rich.TimeRemainingColumn(),
    )
    with of_rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar, what)


@contextmanager
def _spoken(line: Callable[[], str], every: float) -> Iterator[None]:
    """Says the line on stderr every so many seconds, also while the work tells nothing."""
    over = Event()

    def speak() -> None:
        # Whoever read stderr may be gone: the work itself goes on.
        with suppress(OSError, ValueError):
            while not over.wait(every):
                say(line(), to=sys.stderr)

    speaker = Thread(target=speak, name="progress", daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()
