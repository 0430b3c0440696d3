"""A sweep's runs as charts: for each setting that it varied, lines over its numbers or a map of its names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports.charts import COLOURS as _SOLID
from ringbco.reports.charts import dashes
from ringbco.reports.series import COLOURS, HOUR, Figure, label_limit, legend
from ringbco.result.figures import HEADLINES
from ringbco.run.options_generated import REPLAY
from ringbco.run.plan_options_generated import PLAN

REPEATED: Final = "seed"
"""The setting over whose values the others' charts average: its runs are the same but for chance."""
_LOAD: Final = "load"
_FIGURES: Final = {
    row.key: row.title for row in HEADLINES if row.key in ("mean_jct", "mean_wait", "makespan")
}
_DRAWN: Final = 2
_MOST_LINES: Final = 16
_MOST_VALUES: Final = 60
_FEWEST: Final = 2
_WIDE_RANGE: Final = 30.0
_LINE: Final = "line"  # what the charts call the settings that are not on the axis


@dataclass(frozen=True)
class Axis:
    """A setting with two values or more in a sweep. number: whether all of its values are finite numbers."""

    name: str
    values: tuple[Any, ...]
    number: bool

    @property
    def title(self) -> str:
        """As the command line writes it."""
        return self.name.replace("_", "-")


def axes(frame: pl.DataFrame, varied: Sequence[str]) -> list[Axis]:
    """The settings among `varied` that differ in the runs, in order; numbers ascend, names as they came."""
    found = []
    for name in varied:
        if name not in frame.columns or frame.schema[name].is_nested():
            continue
        values = frame[name].unique(maintain_order=True)
        if values.len() < _FEWEST:
            continue
        ordered = values.dtype.is_numeric() and values.null_count() == 0
        # An endless value, such as checkpoint-interval inf, has no place on an axis of numbers.
        number = ordered and bool(values.is_finite().all())
        found.append(Axis(name, tuple(values.sort() if ordered else values), number))
    return found


def figures(frame: pl.DataFrame, swept: Sequence[Axis]) -> list[tuple[Axis, list[Figure]]]:
    """The charts of each axis but the seed's, from the runs that did not fail."""
    runs = frame.filter(pl.col("error").is_null())
    measures = [name for name in _FIGURES if name in runs.columns and runs[name].null_count() < runs.height]
    drawn = [axis for axis in swept if axis.name != REPEATED]
    return [
        (axis, [_figure(runs, axis, drawn, name) for name in measures[:_DRAWN]]) for axis in drawn if measures
    ]


def told(name: str, value: Any) -> str:
    """The value of a setting as text; of one that a run does not have, what that means."""
    if value is not None:
        return f"{value:g}" if isinstance(value, float) else str(value)
    if name == _LOAD:
        return "as recorded"
    option = REPLAY.get(name) or PLAN.get(name)
    return (option and (option.absent or option.word)) or "none"


def _figure(runs: pl.DataFrame, axis: Axis, swept: Sequence[Axis], measure: str) -> Figure:
    others = [other for other in swept if other is not axis]
    shown = _told_apart(runs, others)
    means = _means(runs, axis, shown, measure)
    if axis.number:
        chart, height = _lines(means, axis, _FIGURES[measure]), 240
    else:
        chart = _map(means, axis, shown, _FIGURES[measure])
        height = 26 * min(len(axis.values), _MOST_VALUES) + 12
    return Figure(
        f"{axis.name}-{measure}".replace("_", "-"),
        f"{_FIGURES[measure].capitalize()} by {axis.title}",
        _note(means, axis, shown, others),
        chart,
        height=height,
    )


def _told_apart(runs: pl.DataFrame, others: Sequence[Axis]) -> list[Axis]:
    """Which of the other axes a chart tells apart: as many, first ones first, as leave it readable."""
    shown: list[Axis] = []
    for other in sorted(others, key=lambda other: other.number):  # names before numbers
        names = [*(chosen.name for chosen in shown), other.name]
        if runs.select(names).unique().height <= _MOST_LINES:
            shown.append(other)
    return [other for other in others if other in shown]


def _means(runs: pl.DataFrame, axis: Axis, shown: Sequence[Axis], measure: str) -> pl.DataFrame:
    """By the axis's value and the line: least, mean and most of the measure in hours, and the runs in it."""
    # The note names the settings; their values alone are short enough for a legend or an axis.
    parts = [_as_text(other) for other in shown]
    hours = pl.col(measure).cast(pl.Float64) / HOUR
    kept = axis.values if axis.number else axis.values[:_MOST_VALUES]
    among = pl.lit(True) if axis.number else pl.col(axis.name).is_in(kept, nulls_equal=True)
    value = pl.col(axis.name) if axis.number else _as_text(axis)
    return (
        runs.filter(among & pl.col(measure).is_not_null())
        .select(
            value.alias("value"),
            (pl.concat_str(parts, separator=", ") if parts else pl.lit("")).alias(_LINE),
            hours.alias("h"),
        )
        .group_by("value", _LINE, maintain_order=True)
        .agg(hours=pl.col("h").mean(), least=pl.col("h").min(), most=pl.col("h").max(), runs=pl.len())
        # What a chart can show; the axis's own values stay what was asked for.
        .with_columns(pl.col("hours", "least", "most").round_sig_figs(5))
    )


def _as_text(axis: Axis) -> pl.Expr:
    text = partial(told, axis.name)
    return pl.col(axis.name).map_elements(text, return_dtype=pl.String, skip_nulls=False)


def _note(means: pl.DataFrame, axis: Axis, shown: Sequence[Axis], others: Sequence[Axis]) -> str:
    apart = f"by {' and '.join(other.title for other in shown)}" if shown else ""
    note = {
        (True, True): f"Hours; a line each {apart}.",
        (True, False): "Hours.",
        (False, True): f"Hours, {apart}; the darker, the longer.",
        (False, False): "Hours.",
    }[axis.number, bool(shown)]
    most = int(means["runs"].to_numpy().max(initial=1))
    if most > 1:
        over = [other.title for other in others if other not in shown] or [REPEATED]
        note += f" Means of up to {most:,} runs, over {' and '.join(over)}; the ends are in the tooltip."
    if not axis.number and len(axis.values) > _MOST_VALUES:
        note += f" The first {_MOST_VALUES} of {len(axis.values):,} values."
    return note


def _tips(axis: Axis, figure: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("value", title=axis.title),
        alt.Tooltip(_LINE, title="of"),
        alt.Tooltip("hours", format=",.3f", title=f"{figure}, h"),
        alt.Tooltip("least", format=",.3f", title="least, h"),
        alt.Tooltip("most", format=",.3f", title="most, h"),
        alt.Tooltip("runs", format=","),
    ]


def _lines(means: pl.DataFrame, axis: Axis, figure: str) -> Any:
    lines = means[_LINE].unique(maintain_order=True).to_list()
    wide = min(axis.values) > 0 and max(axis.values) / min(axis.values) >= _WIDE_RANGE
    kind: dict[str, Any] = {"type": "log"} if wide else {"zero": False}
    scale = alt.Scale(nice=False, padding=8, **kind)
    colours = [COLOURS[number % len(COLOURS)] for number in range(len(lines))]
    above = legend(lines, 4)
    above["symbolType"] = "stroke"
    shared: dict[str, Any] = {"sort": lines, "legend": above if len(lines) > 1 else None}
    colour = alt.Color(f"{_LINE}:N", scale=alt.Scale(domain=lines, range=colours), **shared)
    encoding: dict[str, Any] = {"color": colour}
    if len(lines) > len(_SOLID):
        scale_of_dashes = alt.Scale(domain=lines, range=dashes(len(lines)))
        encoding["strokeDash"] = alt.StrokeDash(f"{_LINE}:N", scale=scale_of_dashes, **shared)
    base = alt.Chart(means).encode(
        x=alt.X("value:Q", title=axis.title, scale=scale).axis(format="~s", tickCount=8),
        y=alt.Y("hours:Q", title=f"{figure}, hours").scale(zero=True),
    )
    line = base.mark_line(strokeWidth=2).encode(**encoding)
    return alt.layer(
        line,
        base.mark_point(filled=True, size=40, opacity=1).encode(color=colour, tooltip=_tips(axis, figure)),
    )


def _map(means: pl.DataFrame, axis: Axis, shown: Sequence[Axis], figure: str) -> Any:
    names = [told(axis.name, value) for value in axis.values[:_MOST_VALUES]]
    y = alt.Y("value:N", title=None, sort=names).axis(labelLimit=label_limit())
    if not shown:
        return (
            alt.Chart(means)
            .mark_bar(color=COLOURS[0])
            .encode(y=y, x=alt.X("hours:Q", title=f"{figure}, hours"), tooltip=_tips(axis, figure))
        )
    lines = means[_LINE].unique(maintain_order=True).to_list()
    return (
        alt.Chart(means)
        .mark_rect(color=COLOURS[0])
        .encode(
            y=y,
            x=alt.X(f"{_LINE}:N", title=None, sort=lines).axis(labelAngle=-40, labelLimit=0),
            opacity=alt.Opacity("hours:Q", title="hours")
            .scale(zero=True, range=[0.06, 1])
            .legend(orient="top", direction="horizontal", title=None, tickCount=4),
            tooltip=_tips(axis, figure),
        )
    )
