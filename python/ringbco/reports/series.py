"""What all charts of a report share: the colours of its results, its scales, numbers cut to what shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import altair as alt
import polars as pl
import polars.selectors as cs

from ringbco.reports.charts import TICKS, dashes
from ringbco.result.outcome import Outcome
from ringbco.result.window import measured

# Okabe and Ito's, without the yellow that white paper swallows and the black that a dark screen does;
# each with its lighter twin for dark screens.
TONES: Final = {
    "#0072B2": "#3f9fe0",
    "#E69F00": "#f5b52e",
    "#009E73": "#2cc295",
    "#CC79A7": "#e39cc4",
    "#56B4E9": "#a9dcff",
    "#D55E00": "#f4803a",
    "#8C7A3D": "#bda962",
    "#8A8A8A": "#a8a8a8",
}
COLOURS: Final = tuple(TONES)
MOST_BESIDE: Final = 8
"""Results whose bars or dots can stand side by side; of more there is a map, a row each."""
MOST_IN_LEGEND: Final = 16
"""Results that each chart of a page names itself."""
SHOWN: Final = "shown"
"""The parameter of every chart that holds the labels of the results it shows."""
WINDOW: Final = "window"
"""The zoom of every chart over time."""
HOUR: Final = 3_600.0
DAY: Final = 86_400.0

# The width of a chart's place on the page, pixels; `width` changes with it. A picture has no place of its
# own: NaN, which is smaller than nothing.
_WIDE: Final = "(width > 0 ? containerSize()[0] : 0)"
_LONGEST: Final = 300  # of a legend's texts, pixels

_TICKS: Final[dict[float, str]] = {0.001: "1 ms", 0.1: "0.1 s", **TICKS}
# For scales on which there are few of these.
_BETWEEN: Final = {
    2: "2 s",
    5: "5 s",
    20: "20 s",
    120: "2 min",
    300: "5 min",
    1_200: "20 min",
    2_400: "40 min",
    7_200: "2 h",
    43_200: "12 h",
    172_800: "2 d",
    864_000: "10 d",
}


@dataclass(frozen=True)
class Figure:
    """One chart of a report.

    name: its file and its anchor. title: what it shows. note: how to read it. handling: what a reader of the
    page, not of a picture, can do with it.
    chart: without title, size and colours of the page. of: the result it is about, None where all overlay.
    height: of the plot, pixels. half: whether half of the page's width is enough.
    """

    name: str
    title: str
    note: str
    chart: Any
    of: str | None = None
    height: int = 260
    half: bool = False
    handling: str = ""


@dataclass(frozen=True)
class Part:
    """What one chart of a row of figures shows.

    of: the result that it is about; None where all overlay. also: encodings that hang on the data. title: in
    place of the row's. note: what its note says besides. half: as of `Figure`; None: as the row says.
    """

    data: pl.DataFrame
    of: str | None = None
    also: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    note: str = ""
    half: bool | None = None


def first_few(results: Mapping[str, Outcome]) -> tuple[dict[str, Outcome], str]:
    """The results of which each has a chart of its own, and what the notes say where those are not all."""
    drawn = dict(islice(results.items(), MOST_BESIDE))
    few = len(drawn) < len(results)
    return drawn, f" The first {len(drawn)} results of {len(results)} only." if few else ""


def colour(results: Mapping[str, Outcome]) -> alt.Color:
    """One colour a result, the same in every chart."""
    labels = list(results)
    return alt.Color(
        "policy:N",
        sort=labels,
        scale=alt.Scale(domain=labels, range=[COLOURS[n % len(COLOURS)] for n in range(len(labels))]),
        legend=_legend(labels),
    )


def _legend(labels: list[str]) -> alt.Legend | None:
    """A single result needs none."""
    return None if len(labels) == 1 else legend(labels, 4)


def legend(texts: Sequence[str], most: int) -> alt.Legend:
    """A legend above the chart in as many columns as its place on the page is wide for, at most `most`."""
    # Letters of 12 pixels are 6 wide on the average, 7 in the wider of the usual fonts; the symbol and the
    # gaps beside them are 34.
    each = min(7 * max(map(len, texts)), _LONGEST) + 34
    columns = f"{_WIDE} < {each * most} ? max(1, floor({_WIDE} / {each})) : {most}"
    # The axis beside the legend takes some of the place.
    limit = f"{_WIDE} * 0.7 < {_LONGEST} ? {_WIDE} * 0.7 : {_LONGEST}"
    return alt.Legend(
        title=None,
        orient="top",
        columns=alt.ExprRef(columns),
        labelLimit=alt.ExprRef(limit),
        symbolLimit=0,  # without it the 31st and all others are left out
    )


def label_limit(most: int = 180) -> alt.ExprRef:
    """The room for an axis's labels of any length, pixels: a quarter of the chart's place, at most `most`."""
    return alt.ExprRef(f"{_WIDE} < {4 * most} ? {_WIDE} / 4 : {most}")


def strokes(results: Mapping[str, Outcome]) -> dict[str, Any]:
    """The encoding of lines: colours and, for more results than there are colours, dashes for the rest."""
    labels = list(results)
    if len(labels) <= len(COLOURS):
        return {"color": colour(results)}
    scale = alt.Scale(domain=labels, range=dashes(len(labels)))
    return {
        "color": colour(results),
        "strokeDash": alt.StrokeDash("policy:N", sort=labels, scale=scale, legend=_legend(labels)),
    }


def order(results: Mapping[str, Outcome]) -> list[str]:
    """The labels in the order given, for axes that would sort them by name."""
    return list(results)


def chosen(chart: Any, results: Mapping[str, Outcome]) -> Any:
    """The chart with only the results that the page's reader has left switched on."""
    return chart.add_params(alt.param(name=SHOWN, value=list(results))).transform_filter(
        f"indexof({SHOWN}, datum.policy) >= 0"
    )


def short(frame: pl.DataFrame) -> pl.DataFrame:
    """Five significant digits: what a chart can show, at half the size."""
    return frame.with_columns(cs.float().round_sig_figs(5))


def time_axis(smallest: float, largest: float, **options: Any) -> alt.Axis:
    """Ticks at seconds, minutes, hours and days for a logarithmic axis of seconds."""
    values, labels = time_values(smallest, largest)
    return alt.Axis(values=values, labelExpr=labels, labelFlush=False, **options)


def time_values(smallest: float, largest: float) -> tuple[list[float], str]:
    """Round times between two of them, s, and the expression that gives each its text, such as "10 min"."""
    values: list[float] = [value for value in _TICKS if smallest <= value <= largest]
    if len(values) < 4:
        values += [value for value in _BETWEEN if smallest <= value <= largest]
    texts = _TICKS | _BETWEEN
    labels = "".join(f"datum.value === {value} ? '{texts[value]}' : " for value in values) + "''"
    return values, labels


def size_class(num_gpus: str = "num_gpus") -> pl.Expr:
    """The job size's class by powers of two: 1, 2, 3-4, 5-8, 9-16, ... as its exponent 0, 1, 2, 3, 4."""
    return pl.col(num_gpus).cast(pl.Float64).log(2).ceil().cast(pl.Int64).alias("size")


def size_name(exponent: int, exact: bool) -> str:
    """What a class is called: its range, or the power of two alone where no other size is in it."""
    top = 2**exponent
    return f"{top}" if exact or top <= 2 else f"{top // 2 + 1}\N{EN DASH}{top}"


def size_names(results: Mapping[str, Outcome]) -> dict[int, str]:
    """The names of the classes that have jobs in any result, smallest first."""
    sizes = pl.concat(measured(outcome).select("num_gpus").unique() for outcome in results.values()).unique()
    classes = (
        sizes.with_columns(size_class())
        .group_by("size")
        .agg(exact=(pl.col("num_gpus").cast(pl.Int64) == 2 ** pl.col("size")).all())
        .sort("size")
    )
    return {size: size_name(size, exact) for size, exact in classes.iter_rows()}
