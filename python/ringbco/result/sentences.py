"""What a comparison says of chance, in words: the same on the terminal, in JSON and on pages."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ringbco.result.certainty import APART, FEWEST, PARTS
from ringbco.result.days import DAY, MEANS
from ringbco.units import time

if TYPE_CHECKING:
    from ringbco.result.certainty import Carried, Held, Interval, Kind, Runs
    from ringbco.result.figures import Figure

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
    """What is held against what: a figure under a label against that under another.

    zero: what stands for a ratio to 0: the label's figure, and the greatest of those in runs and in parts.
    epoch: of the job table's clock, None where it has none.
    """

    label: str
    against: str
    measure: Figure
    kind: Kind
    zero: tuple[float, float, float] = (0.0, 0.0, 0.0)
    epoch: datetime.datetime | None = None

    def off(self, ratio: float, zero: float) -> str:
        """A ratio in words: "12.7 % below", "12.3 times fifo's", "29.9 s, where fifo's is 0"."""
        if math.isinf(ratio):
            return f"{self.measure.brief(zero)}, where {whose(self.against)} is 0"
        if ratio >= _TIMES:
            return f"{_times(ratio)} times {whose(self.against)}"
        if ratio == 1.0:
            return "0 %"
        return f"{_percent(ratio)} % {_side(ratio)}"

    def range(self, ends: Interval, zero: float, *, side: bool) -> str:
        """A range of ratios; side: whether one that lies on one side of 1 says on which."""
        low, high = ends
        if low < 1.0 < high and max(1.0 - low, high - 1.0) < _LITTLE:
            return "under 0.1 % either way"
        if high >= _TIMES:
            first = f"{_times(low)}" if _TIMES <= low < math.inf else self.off(low, zero)
            last = self.off(high, zero) if math.isinf(high) else f"{_times(high)} times"
            return first if low == high else f"{first} to {last}"
        if (low - 1.0) * (high - 1.0) <= 0.0:
            return f"{self.off(low, zero)} to {self.off(high, zero)}"
        near, far = (high, low) if high < 1.0 else (low, high)
        if abs(far - 1.0) < _LITTLE:
            return "under 0.1 %" + (f" {_side(low)}" if side else "")
        return f"{_percent(near)} to {_percent(far)} %" + (f" {_side(low)}" if side else "")


def sentence(pair: Pair, held: Held) -> str | None:
    """One difference in words; None without a verdict, or of fewer runs than one takes."""
    title, label, against = pair.measure.title, pair.label, pair.against
    runs, zero = held.runs, pair.zero[1]
    if held.verdict == "the same":
        over = f"{runs} tables" if pair.kind == "fresh tables" else f"{runs} runs"
        return f"{whose(label)} {title} is the same as {whose(against)} in all {over}."
    if held.verdict is None or held.interval is None:
        return None
    if held.verdict not in APART:
        over = f" over {runs} tables" if pair.kind == "fresh tables" else ""
        ends = pair.range(held.interval, zero, side=True)
        return f"{label} and {against} cannot be told apart by {title}: {ends}{over}."
    said = f"{whose(label)} {title} is {_than(pair, held.ratio, pair.zero[0])}"
    if pair.kind == "fresh tables":
        ends = pair.range(held.interval, zero, side=True)
        return f"{said} in the median of {runs} tables of this kind (95 %: {ends})."
    ends = pair.range(held.interval, zero, side=False)
    parts = [f"{said} on these jobs ({ends} in {runs} runs).", _parts(pair, held), _carried(pair, held)]
    return " ".join(filter(None, parts))


def line(pair: Pair, held: Held) -> tuple[str, ...]:
    """The same as cells of a table: how far, in which range, and in the parts of the trace."""
    if held.verdict == "the same":
        return (f"the same in all {held.runs} {'tables' if pair.kind == 'fresh tables' else 'runs'}",)
    if held.verdict is None or held.interval is None:
        return ()
    zero = pair.zero[1]
    if held.verdict not in APART:
        return (f"cannot be told apart: {pair.range(held.interval, zero, side=True)}",)
    cells = (pair.off(held.ratio, pair.zero[0]), pair.range(held.interval, zero, side=False))
    if held.parts is None:
        return cells
    known = [part for part in held.parts if part is not None]
    ends = pair.range((min(known), max(known)), pair.zero[2], side=True)
    return (*cells, f"parts: {ends}, {held.agreeing} of {len(known)} {_side(held.ratio)}")


def of_mean_wait(found: Carried, over: Runs) -> str:
    """Which days carry the mean waiting time of one result, in words."""
    without = "" if found.without is None else f"; without {_them(found)} it is {time(found.without)}"
    return f"{_days(found, over.began)} {_share(found)} of the mean waiting time{without}"


def whose(label: str) -> str:
    """ "fifo's", "rings'"."""
    return f"{label}'" if label.endswith("s") else f"{label}'s"


def of_few(runs: int, verdicts: int) -> list[str]:
    """What is said of the number of runs and of verdicts."""
    if runs == 1:
        return ["one run: add --seeds 6 to tell differences from chance"]
    if runs < FEWEST:
        return [f"too few runs: {runs}, at least {FEWEST} are needed"]
    return ["one in twenty pairs that are alike may be called apart"] if verdicts > MANY else []


def of_runs(runs: int, kind: Kind, changed: Sequence[str]) -> str:
    """What differs from run to run."""
    if kind == "fresh tables":
        return f"{runs} tables of this kind, made anew by generate"
    what = ", ".join(text for name, text in CHANGES.items() if name in changed)
    return f"{runs} runs: {what}" if what else f"{runs} runs"


def _than(pair: Pair, ratio: float, zero: float) -> str:
    """How a figure lies beside the other, the other's owner named."""
    text = pair.off(ratio, zero)
    return text if math.isinf(ratio) or ratio >= _TIMES else f"{text} {whose(pair.against)}"


def _parts(pair: Pair, held: Held) -> str:
    if pair.measure.key not in MEANS:
        return ""
    if held.parts is None:
        return "The trace is under six weeks: other weeks were not looked at."
    side, agreeing = _side(held.ratio), held.agreeing
    known = [part for part in held.parts if part is not None]
    empty = PARTS - len(known)
    if empty:
        have = "has" if empty == 1 else "have"
        return (
            f"{_NUMBERS[empty].capitalize()} of the six parts {have} no jobs:"
            f" {side} in {agreeing} of {len(known)}."
        )
    ends = (min(known), max(known))
    if agreeing == PARTS:
        spread = pair.range(ends, pair.zero[2], side=False)
        return f"{side.capitalize()} in all six parts of the trace: {spread}."
    spread = pair.range(ends, pair.zero[2], side=True)
    return f"Not in all parts of the trace: {spread}, {side} in {agreeing} of {PARTS}."


def _carried(pair: Pair, held: Held) -> str:
    found = held.carried
    if found is None:
        return ""
    without = ""
    if found.without is not None:
        without = f"; without {_them(found)} {pair.off(found.without, 0.0)}"
    return f"{_days(found, pair.epoch)} {_share(found)} of it{without}."


def _days(found: Carried, epoch: datetime.datetime | None) -> str:
    names = [_date(day, epoch) if epoch is not None else f"{day}" for day in found.days]
    verb = "carries" if len(names) == 1 else "carry"
    if len(names) == 1:
        return f"{'Day ' if epoch is None else ''}{names[0]} alone {verb}"
    return f"{len(names)} days ({', '.join(names)}) {verb}"


def _date(day: int, epoch: datetime.datetime) -> str:
    try:
        return (epoch + datetime.timedelta(seconds=day * DAY)).date().isoformat()
    except OverflowError:
        return f"day {day}"


def _them(found: Carried) -> str:
    return "it" if len(found.days) == 1 else "them"


def _share(found: Carried) -> str:
    return "more than all" if found.share > 1.0 else f"{100.0 * found.share:.0f} %"


def _side(ratio: float) -> str:
    return "below" if ratio < 1.0 else "above"


def _percent(ratio: float) -> str:
    share = abs(ratio - 1.0)
    if share < _LITTLE:
        return "under 0.1"
    percent = 100.0 * share
    return f"{percent:.1f}" if percent < 99.95 else f"{percent:,.0f}"


def _times(ratio: float) -> str:
    return f"{ratio:,.1f}" if ratio < 99.95 else f"{ratio:,.0f}"
