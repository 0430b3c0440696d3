"""Many results as a map: a row a result, a column a class of jobs, the darker the larger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports.series import chosen, label_limit, order, short, time_values
from ringbco.result.outcome import Outcome

_COLOUR: Final = "#0072B2"
_ROW: Final = 20  # pixels
_AXIS: Final = 12


def height(results: Mapping[str, Outcome]) -> int:
    """Of a chart with a row a result, pixels: wide rows where there are few of them."""
    few = 6
    return (44 if len(results) <= few else _ROW) * len(results) + _AXIS


def class_map(
    results: Mapping[str, Outcome],
    data: pl.DataFrame,
    *,
    by: str,
    classes: Sequence[str],
    value: str,
    title: str,
    tips: Sequence[Any],
    angle: int = 0,
    log: bool = True,
    times: bool = False,
) -> Any:
    """The chart: `data` has `policy`, the class in column `by` (in the order of `classes`) and `value`.

    title: of the classes' axis. log: darkness by the logarithm. times: `value` is in seconds.
    """
    least, most = float(data.select(value).min().item()), float(data.select(value).max().item())
    legend: dict[str, Any] = {"orient": "top", "direction": "horizontal", "title": None}
    scale: dict[str, Any] = {"domain": [0.0, most if most > 0 else 1.0], "range": [0.06, 1]}
    if log:
        least = max(least, 1.0 if times else 1e-3)
        scale |= {"type": "log", "domain": [least, max(most, least * 10)]}
        data = data.with_columns(pl.col(value).clip(lower_bound=least))
    if times:
        values, texts = time_values(*scale["domain"])
        legend |= {"values": values, "labelExpr": texts}
    chart = (
        alt.Chart(short(data))
        .mark_rect(color=_COLOUR)
        .encode(
            x=alt.X(f"{by}:N", title=title, sort=list(classes)).axis(labelAngle=angle, labelLimit=120),
            y=alt.Y("policy:N", title=None, sort=order(results)).axis(labelLimit=label_limit()),
            opacity=alt.Opacity(f"{value}:Q").scale(**scale).legend(**legend),
            tooltip=list(tips),
        )
    )
    return chosen(chart, results)
