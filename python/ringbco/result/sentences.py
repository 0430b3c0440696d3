"""What a comparison says of chance, in words: the same on the terminal, in JSON and on pages."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ringbco.result.certainty import APART, FEWEST, PARTS, Ratio
from ringbco.result.days import DAY, MEANS
from ringbco.units import time

if TYPE_CHECKING:
    from ringbco.result.certainty import Carried, Held, Interval, Runs
    from ringbco.result.figures import Figure

ONE_RUN: Final = "one run: add --seeds 6 to tell differences from chance"
OF_RUN_0: Final = "figures are those of run 0, the jobs as they are, not means over runs"
OF_TABLES: Final = "figures are medians over the tables, not means"
MANY: Final = 20
"""Printed verdicts above which it is said that one in twenty is chance."""
_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six")
_LITTLE: Final = 0.0005
_TIMES: Final = 10.0
CHANGES: Final = {
    "submissions": "submissions moved by under a minute",
    "models": "unknown models drawn anew",
    "placement": "random placement drawn anew",
    "outages": "outages drawn anew",
    "ties": "ties shuffled anew",
}
"""What may change from run to run, by the name that comparison.json gives it."""


class Pair(NamedTuple):
    """What is compared: a figure under a label with that under another, over which runs."""

    label: str
    against: str
    measure: Figure
    over: Runs

    @property
    def fresh(self) -> bool:
        """Whether the runs are of tables made anew."""
        return self.over.kind == "fresh tables"

    def off(self, ratio: float) -> str:
        """A ratio in words: "12.7 % below", "12.3 times fifo's", "29.9 s, where fifo's is 0"."""
        if math.isinf(ratio):
            return f"{self._figure(ratio)}, where {whose(self.against)} is 0"
        if ratio >= _TIMES:
            return f"{_times(ratio)} times {whose(self.against)}"
        return "0 %" if ratio == 1.0 else f"{_percent(ratio)} % {_side(ratio)}"

    def _figure(self, ratio: float) -> str:
        """What stands for an infinite ratio."""
        return self.measure.brief(ratio.figure if isinstance(ratio, Ratio) else ratio)

    def range(self, ends: Interval, *, side: bool) -> str:
        """A range of ratios; side: whether one that lies on one side of 1 says on which."""
        low, high = ends
        if low < 1.0 < high and max(1.0 - low, high - 1.0) < _LITTLE:
            return "under 0.1 % either way"
        if low == high == 1.0 or (math.isinf(low) and self._figure(low) == self._figure(high)):
            return self.off(high)
        if high >= _TIMES:
            first = _times(low) if low >= _TIMES else self.off(low)
            last = self.off(high) if math.isinf(high) else f"{_times(high)} times"
            return f"{self._figure(low) if math.isinf(low) else first} to {last}"
        if (low - 1.0) * (high - 1.0) <= 0.0:
            return f"{self.off(low)} to {self.off(high)}"
        near, far = (high, low) if high < 1.0 else (low, high)
        little = abs(far - 1.0) < _LITTLE
        text = "under 0.1 %" if little else f"{_percent(near)} to {_percent(far)} %"
        return f"{text} {_side(low)}" if side else text


def sentence(pair: Pair, held: Held) -> str | None:
    """One difference in words; None without a verdict."""
    title, label, against, over = pair.measure.title, pair.label, pair.against, pair.over
    runs = f"{held.runs} {'tables' if pair.fresh else 'runs'}"
    if held.verdict == "the same":
        return f"{whose(label)} {title} is the same as {whose(against)} in all {runs}."
    if held.verdict is None or held.interval is None:
        return None if held.verdict is None else _too_few(held.runs)
    apart = held.verdict in APART
    ends = pair.range(held.interval, side=pair.fresh or not apart)
    if not apart:
        of = f" over {runs}" if pair.fresh else ""
        return f"{label} and {against} cannot be told apart by {title}: {ends}{of}."
    whom = "" if held.ratio >= _TIMES else f" {whose(against)}"
    said = f"{whose(label)} {title} is {pair.off(held.ratio)}{whom}"
    if pair.fresh:
        return f"{said} in the median of {runs} of this kind (95 %: {ends})."
    parts = [f"{said} on these jobs ({ends} in {runs}).", _parts(pair, held)]
    if (found := held.carried) is not None:
        rest = "" if found.without is None else f"; without {_them(found)} {pair.off(found.without)}"
        parts.append(f"{_days(found, over)} {share(found)} of it{rest}.")
    return " ".join(filter(None, parts))


def line(pair: Pair, held: Held) -> tuple[str, ...]:
    """The same as cells of a table: how far, in which range, and in the parts; none of too few runs."""
    if held.verdict == "the same":
        return (f"the same in all {held.runs} {'tables' if pair.fresh else 'runs'}",)
    if held.verdict is None or held.interval is None:
        return ()
    if held.verdict not in APART:
        return (f"cannot be told apart: {pair.range(held.interval, side=True)}",)
    cells = (pair.off(held.ratio), pair.range(held.interval, side=False))
    return cells if held.parts is None else (*cells, f"parts: {in_parts(pair, held)}")


def in_parts(pair: Pair, held: Held) -> str:
    """The ratios in the parts of the trace, and in how many of them the side is that of all jobs."""
    ends = pair.range((held.part_ratios[0], held.part_ratios[-1]), side=True)
    return f"{ends}, {held.parts_agreeing} of {len(held.part_ratios)} {_side(held.ratio)}"


def of_mean_wait(found: Carried, over: Runs) -> str:
    """Which days carry the mean waiting time of one result, in words."""
    without = "" if found.without is None else f"; without {_them(found)} it is {time(found.without)}"
    return f"{_days(found, over)} {share(found)} of the mean waiting time{without}"


def whose(label: str) -> str:
    """ "fifo's", "rings'"."""
    return f"{label}'" if label.endswith("s") else f"{label}'s"


def of_one_run(labels: Sequence[str]) -> str:
    """What is said of results that were run once."""
    return f"one run, and so without a verdict: {', '.join(labels)}"


def of_runs(runs: int, over: Runs, verdicts: int | None = None) -> list[str]:
    """What differs from run to run. Where verdicts are shown, before it what is said of their number.

    After it follows then which value over the runs a figure is: none of them is a mean over runs.
    """
    told, figures = f"{runs} runs", OF_RUN_0
    if over.kind == "fresh tables":
        figures = OF_TABLES
        told = f"{runs} tables of this kind, made anew by generate"
    elif over.changed:
        told += f": {', '.join(text for name, text in CHANGES.items() if name in over.changed)}"
    if verdicts is None:
        return [told]
    few = [_too_few(runs)] if runs < FEWEST else []
    many = ["one in twenty pairs that are alike may be called apart"] if verdicts > MANY and not few else []
    return [*few, *many, told, figures]


def of_recorded_waits(jobs: Sequence[int]) -> list[str]:
    """What is said of waits beside those of the log. jobs: those with a recorded start, by result."""
    if not jobs:
        return []
    least, most = min(jobs), max(jobs)
    count = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return [
        "waits as recorded: of run 0, within 10 % or 60 s of the log's, over"
        f" {count} job{'s'[: most > 1]} with a recorded start"
    ]


def _too_few(runs: int) -> str:
    return f"too few runs: {runs}, at least {FEWEST} are needed for verdicts: add --seeds {FEWEST}"


def _parts(pair: Pair, held: Held) -> str:
    if pair.measure.key not in MEANS:
        return ""
    if held.parts is None:
        return "The trace is under six weeks: other weeks were not looked at."
    side, there = _side(held.ratio), len(held.part_ratios)
    if held.parts_range is None:
        empty = _NUMBERS[PARTS - there].capitalize()
        have = "has" if PARTS - there == 1 else "have"
        return f"{empty} of the six parts {have} no jobs: {side} in {held.parts_agreeing} of {there}."
    if held.parts_agreeing == PARTS:
        return (
            f"{side.capitalize()} in all six parts of the trace: {pair.range(held.parts_range, side=False)}."
        )
    spread = pair.range(held.parts_range, side=True)
    return f"Not in all parts of the trace: {spread}, {side} in {held.parts_agreeing} of {PARTS}."


def _days(found: Carried, over: Runs) -> str:
    epoch = over.began
    names = [f"{day}" if epoch is None else _date(day, epoch) for day in found.days]
    if len(names) == 1:
        return f"{'Day ' if epoch is None else ''}{names[0]} alone carries"
    return f"{len(names)} days ({', '.join(names)}) carry"


def _date(day: int, epoch: datetime.datetime) -> str:
    try:
        return (epoch + datetime.timedelta(seconds=day * DAY)).date().isoformat()
    except OverflowError:
        return f"day {day}"


def _them(found: Carried) -> str:
    return "it" if len(found.days) == 1 else "them"


def share(found: Carried) -> str:
    """Which share of the whole the days carry."""
    return "more than all" if found.share > 1.0 else f"{100.0 * found.share:.0f} %"


def _side(ratio: float) -> str:
    return "below" if ratio < 1.0 else "above"


def _percent(ratio: float) -> str:
    share = abs(ratio - 1.0)
    return "under 0.1" if share < _LITTLE else _times(100.0 * share)


def _times(ratio: float) -> str:
    return f"{ratio:,.1f}" if ratio < 99.95 else f"{ratio:,.0f}"
