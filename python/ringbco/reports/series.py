"""What all charts of a report share: its scales, legends, numbers cut to what shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

import altair as alt
import polars as pl
import polars.selectors as cs

from ringbco.reports.charts import TICKS
from ringbco.reports.names import label_expression, shortened
from ringbco.reports.tones import COLOURS, DASHES, FIRST, GREY, looks
from ringbco.result.outcome import Outcome
from ringbco.result.rows import SIZE_CLASSES
from ringbco.result.window import measured
from ringbco.units import unit_of

MOST_BESIDE: Final = 8
"""Results of which each may have a chart of its own."""
HOUR: Final = 3_600.0
DAY: Final = 86_400.0
WIDTH: Final = 480
"""Of a chart, pixels. Pages lay it out in columns about as wide, pictures show it as it is."""
LETTER: Final = 6.6
"""Mean width of a letter of a chart, pixels."""
AT_ONCE: Final = "at once"
GLANCE: Final = "At a glance"
"""The chapter of a page's first screen."""

SYMBOLS: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_LONGEST: Final = 280  # of a legend's texts, pixels: it begins where the plot does, beside the names
_SPAN: Final = 8.0
"""Values that span more than this factor stand on a logarithmic axis."""
_NEAR: Final = 0.6
_FEWEST_TICKS: Final = 4
_MOST_TICKS: Final = 8
_TICKS: Final[dict[float, str]] = {0.001: "1 ms", 0.1: "0.1 s", **TICKS}
# For scales on which there are few of these.
_BETWEEN: Final = {
    0.01: "10 ms",
    2: "2 s",
    5: "5 s",
    20: "20 s",
    120: "2 min",
    300: "5 min",
    1_200: "20 min",
    2_400: "40 min",
    7_200: "2 h",
    10_800: "3 h",
    43_200: "12 h",
    172_800: "2 d",
    864_000: "10 d",
}


@dataclass(frozen=True)
class Figure:
    """One chart of a report.

    name: its file and its anchor. title: what it shows. note: how to read it. chart: without title, size and
    colours of the page; None where there is nothing to draw, and `instead` says so. of: the result it is
    about, None where all overlay. height: of the plot, pixels. data: what it draws, for readers to keep.
    """

    name: str
    title: str
    note: str
    chart: Any
    of: str | None = None
    height: int = 200
    data: pl.DataFrame | None = None
    instead: str = ""


@dataclass(frozen=True)
class Part:
    """What one chart of a row of figures shows.

    of: the result that it is about; None where all overlay. also: encodings that depend on data. title: in
    place of the row's. note: what its note says besides. instead: a sentence, where there is nothing to draw.
    """

    data: pl.DataFrame
    of: str | None = None
    also: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    note: str = ""
    instead: str = ""

    @classmethod
    def none(cls, instead: str, **more: Any) -> Part:
        """A sentence in place of a chart."""
        return cls(pl.DataFrame(), instead=instead, **more)


class Scaled(NamedTuple):
    """A scale and its axis. least: where values of 0 are drawn. low: where smaller ones are."""

    scale: alt.Scale
    axis: alt.Axis
    least: float = 0.0
    low: float = 0.0

    def titled(self, title: str | None) -> str | None:
        """An axis title, with the kind of scale where it is logarithmic."""
        if self.scale.to_dict().get("type") != "log":
            return title
        return "log scale" if title is None else f"{title} (log scale)"

    def place(self, column: str) -> pl.Expr:
        """A column's values as the axis shows them."""
        value = pl.col(column)
        return pl.when(value > 0).then(value.clip(lower_bound=self.low)).otherwise(self.least).alias(column)


def first_few(results: Mapping[str, Outcome]) -> tuple[dict[str, Outcome], str]:
    """The results of which each has a chart of its own, and what the notes say where those are not all."""
    drawn = dict(islice(results.items(), MOST_BESIDE))
    few = len(drawn) < len(results)
    return drawn, f" Only the first {len(drawn)} of {len(results)} results are shown." if few else ""


class Look(NamedTuple):
    """How a line or a dot is drawn."""

    colour: str
    dashes: Sequence[int]
    symbol: str = SYMBOLS[0]


class Styled(dict[str, Look]):
    """Labels with looks of their own, where those of `looks` would not do."""


def _shades(results: Mapping[str, object]) -> tuple[dict[str, str], dict[str, Look]]:
    """What a legend calls each result, by its label or as one of the others; then the look of each name."""
    if isinstance(results, Styled):
        return {label: label for label in results}, results
    places = looks(results)
    grey = [label for label, place in places.items() if place == FIRST]
    others = f"{len(grey)} others"
    called = {label: others if label in grey and len(grey) > 1 else label for label in places}
    order = sorted(places, key=lambda label: called[label] == others)
    found = {called[label]: Look(COLOURS[places[label]], DASHES[places[label]]) for label in order}
    return called, found


def shaded(data: pl.DataFrame, results: Mapping[str, object]) -> pl.DataFrame:
    """With a column `shade`, by which a result has its colour, and rows of grey ones first, to lie below."""
    called, found = _shades(results)
    above = sorted(called, key=lambda label: found[called[label]].colour == GREY)
    place = {label: number for number, label in enumerate(above)}
    return (
        data.with_columns(
            shade=pl.col("policy").replace_strict(called, return_dtype=pl.String),
            place_=-pl.col("policy").replace_strict(place, return_dtype=pl.Int64),
        )
        .sort("place_", maintain_order=True)
        .drop("place_")
    )


def colour(results: Mapping[str, object]) -> alt.Color:
    """One colour a result of data that are `shaded`, the same in every chart."""
    _, found = _shades(results)
    return alt.Color(
        "shade:N",
        scale=alt.Scale(domain=list(found), range=[look.colour for look in found.values()]),
        legend=None if len(found) == 1 else legend(list(found), 6),
    )


def dots(results: Mapping[str, object]) -> dict[str, Any]:
    """The encodings of dots: colours, and symbols where several share one."""
    _, found = _shades(results)
    told: dict[str, Any] = {"color": colour(results)}
    if len({look.symbol for look in found.values()}) > 1:
        symbols = alt.Scale(domain=list(found), range=[look.symbol for look in found.values()])
        told["shape"] = alt.Shape("shade:N", scale=symbols, legend=legend(list(found), 6))
    return told


def strokes(results: Mapping[str, object]) -> dict[str, Any]:
    """The encodings of lines: colours, and dashes for readers who do not tell those apart."""
    _, found = _shades(results)
    dashes = alt.Scale(domain=list(found), range=[list(look.dashes) for look in found.values()])
    known = None if len(found) == 1 else legend(list(found), 6)
    return {
        "color": colour(results),
        "strokeDash": alt.StrokeDash("shade:N", scale=dashes, legend=known),
        "detail": "policy:N",
    }


def legend(texts: Sequence[str], most: int) -> alt.Legend:
    """A legend above the chart in as many columns as its width allows, at most `most`."""
    shown = shortened(texts, _LONGEST)
    # The symbol and the gaps beside the text are 30 wide.
    each = LETTER * max(map(len, shown.values()), default=0) + 30
    columns = max(1, min(most, int((WIDTH - 40) // each), len(texts)))
    return alt.Legend(
        title=None,
        orient="top",
        columns=columns,
        labelLimit=0,
        symbolLimit=0,  # without it the 31st and all others are left out
        labelExpr=label_expression(shown) or "datum.label",
    )


def short(frame: pl.DataFrame) -> pl.DataFrame:
    """Five significant digits: what a chart can show, at half the size."""
    return frame.with_columns(cs.float().round_sig_figs(5))


def scaled(
    data: pl.DataFrame,
    *columns: str,
    times: bool,
    zero: str = AT_ONCE,
    even: bool = False,
    near: bool = False,
    finest: float = 1.0,
    **axis: Any,
) -> Scaled:
    """A scale for these columns: logarithmic where they span more than a factor of 8, else from 0.

    times: they are in seconds. zero: what the axis says of values of 0, which a logarithm does not know and
    which have a place of their own below all others. even: from 0 in any case. near:
    not from 0 where all are nearly as large. finest: of times, s: there is nothing to tell apart below it.
    """
    found = pl.concat([data[name].cast(pl.Float64).rename("value") for name in columns]).drop_nulls()
    positive = found.filter(found > 0).to_list()
    high = max(positive, default=1.0)
    low = min(positive, default=high)
    zeros = len(positive) < found.len()
    if near and not zeros and _NEAR * high < low < high * (1 - 1e-6):
        margin = (high - low) / 12
        values, texts = _even(low - margin, high + margin, times)
        scale = alt.Scale(domain=[low - margin, high + margin], nice=False, zero=False)
        return Scaled(scale, ticked(values, texts, **axis))
    # Below a thousandth of a number, too, there is nothing to tell apart.
    low = min(max(low, finest if times else 1e-3), high)
    if even or high / low <= _SPAN:
        return from_zero(0.0, high, times=times, **axis)
    floor, ceiling = low / 1.2, high * 1.1
    if times:
        values, texts = _times(floor, ceiling)
    else:
        values = _decades(floor, ceiling)
        texts = {value: f"{value:,g}" for value in values}
    least = floor
    if zeros:  # they have room of their own
        # Few digits, which the drawing library reads as they were written: the label is found by them.
        least = float(f"{floor / (ceiling / floor) ** 0.12:.4g}")
        values, texts = [least, *values], {least: zero, **texts}
        floor = least / (ceiling / least) ** 0.02
    scale = alt.Scale(type="log", domain=[floor, ceiling], nice=False)
    return Scaled(scale, ticked(values, texts, **axis), least, low)


def from_zero(low: float, high: float, *, times: bool, **axis: Any) -> Scaled:
    """A scale of even steps that reaches from at most 0, of amounts below it from `low`, to `high`."""
    if low == high == 0.0:
        high = 1.0
    values, texts = _even(low, high, times)
    scale = alt.Scale(domain=[low * 1.02, high * 1.02], nice=False)
    return Scaled(scale, ticked(values, texts, **axis))


def ticked(values: Sequence[float], texts: Mapping[float, str], **more: Any) -> alt.Axis:
    """An axis with these ticks and their texts."""
    labels = "".join(f"datum.value === {value!r} ? '{texts[value]}' : " for value in values) + "''"
    return alt.Axis(values=list(values), labelExpr=labels, labelFlush=False, labelOverlap=True, **more)


def _even(low: float, high: float, times: bool) -> tuple[list[float], dict[float, str]]:
    """Some five round values between two, and their texts."""
    unit, name = unit_of(max(high, -low)) if times else (1.0, "")
    low, high = low / unit, high / unit
    least = (high - low) / 5
    power = math.floor(math.log10(least))
    step = next(part * 10.0**power for part in (1, 2, 5, 10) if part * 10.0**power >= least * 0.999)
    places = max(0, -math.floor(math.log10(step * 1.001)))
    counts = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    texts = {count * step * unit: f"{count * step:,.{places}f} {name}".strip() for count in counts}
    return list(texts), texts


def _decades(floor: float, ceiling: float) -> list[float]:
    """Ticks for a logarithmic axis: 1, 2, 5, 10, ...; powers of ten alone where those would be many."""
    steps = (1, 2, 5) if ceiling / floor < 1e3 else (1,)
    # A power of ten that is written in full has no rounding of its own.
    values = (float(f"{step}e{power}") for power in range(-3, 12) for step in steps)
    return [value for value in values if floor <= value <= ceiling]


def _times(smallest: float, largest: float) -> tuple[list[float], dict[float, str]]:
    values: list[float] = [value for value in _TICKS if smallest <= value <= largest]
    if len(values) < _FEWEST_TICKS:
        values = sorted({*values, *(value for value in _BETWEEN if smallest <= value <= largest)})
    apart = (largest / smallest) ** (1 / _MOST_TICKS)
    kept: list[float] = []
    for value in values:
        if not kept or value >= kept[-1] * apart:
            kept.append(value)
    return kept, _TICKS | _BETWEEN


def time_axis(smallest: float, largest: float, **options: Any) -> alt.Axis:
    """Ticks at seconds, minutes, hours and days for a logarithmic axis of seconds."""
    return ticked(*_times(smallest, largest), **options)


def size_class() -> pl.Expr:
    """The place of a job's size in `SIZE_CLASSES`, as a number."""
    ends = [most for _, most in SIZE_CLASSES[:-1]]
    return pl.sum_horizontal((pl.col("num_gpus") > most).cast(pl.Int64) for most in ends).alias("size")


def size_names(results: Mapping[str, Outcome]) -> dict[int, str]:
    """What the classes that have jobs in any result are called: GPUs, and how many jobs."""
    counts = pl.concat(
        measured(outcome).group_by(size_class()).agg(jobs=pl.len()) for outcome in results.values()
    )
    ends = counts.group_by("size").agg(least=pl.col("jobs").min(), most=pl.col("jobs").max()).sort("size")
    return {size: f"{gpus_of_class(size)} ({_jobs(least, most)})" for size, least, most in ends.iter_rows()}


def _jobs(least: int, most: int) -> str:
    count = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return f"{count} job{'s' * (most > 1)}"


def gpus_of_class(size: int) -> str:
    """What the class of that place in `SIZE_CLASSES` is called."""
    name = SIZE_CLASSES[size][0]
    if size == 0:
        return "1 GPU"
    return f"{name.rstrip('-')}+ GPUs" if name.endswith("-") else f"{name.replace('-', chr(0x2013))} GPUs"
