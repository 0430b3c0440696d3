"""How a report's charts look: on its page, where CSS decides the colours, and as pictures on white."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import altair as alt
import polars as pl

from ringbco.reports.charts import drawable
from ringbco.reports.drawing import UndrawableError, undrawn
from ringbco.reports.series import LETTER, WIDTH, Figure, short
from ringbco.reports.svg import FONT_SIZE, drawings
from ringbco.reports.templates import picture
from ringbco.reports.text_tables import Sheet, TextCell
from ringbco.reports.tones import TONES, tone_name

_FONT: Final = "Liberation Sans, Helvetica, Arial, sans-serif"
_SIZE: Final = 12.5
_INK: Final = "#222222"
_LINE: Final = "#000000"
_FILE: Final = {
    "xmlns": "http://www.w3.org/2000/svg",
    "font-family": _FONT,
    "font-size": f"{_SIZE:g}",
    "width": str(WIDTH),
    "style": "background:#fff",
}
_PLOT: Final = 400
"""Width of each chart of several in one picture, without its axis, pixels."""
_MOST_ROWS: Final = 60
"""Of a table for LaTeX: more is for no reader."""
_SAFE: Final = ",:;/=()[]|+*!~$?@"


class Shown(NamedTuple):
    """A figure as a page's template puts it: its drawing, and links with what is in it.

    of: the number of the one result that it shows. links: what each is called, the file's name, its address.
    """

    name: str
    title: str
    note: str
    svg: str
    instead: str
    links: tuple[tuple[str, str, str], ...]


def render_chart(figure: Figure) -> Shown:
    """The chart as a drawing in the page's own colours, light or dark, and its data to take along."""
    if figure.chart is None:
        return Shown(figure.name, figure.title, figure.note, "", figure.instead, ())
    links, svg, instead = [], picture(""), ""
    try:
        on_page, file = drawings(_sized(figure), (_PAGE, {}), ({}, _FILE))
        svg = picture(on_page)
        links.append(("SVG", "svg", f"image/svg+xml,{quote(file, safe=_SAFE)}"))
    except UndrawableError as error:
        undrawn.append(str(error))
        instead = f"Not drawn: {error}."
    if figure.data is not None:
        table = _table(figure, figure.data)
        links.append(("CSV", "csv", f"text/csv,{quote(table.text('csv'), safe=_SAFE)}"))
        if len(table.rows) <= _MOST_ROWS:
            links.append(("TeX", "tex", f"text/x-tex,{quote(table.text('tex'), safe=_SAFE)}"))
    named = tuple((kind, f"{figure.name}.{ending}", f"data:{told}") for kind, ending, told in links)
    return Shown(figure.name, figure.title, figure.note, svg, instead, named)


def _table(figure: Figure, data: pl.DataFrame) -> Sheet:
    """What the chart draws, as a table."""
    plain = short(data.drop(name for name, dtype in data.schema.items() if dtype.is_nested()))
    plain = plain.with_columns(pl.col(pl.String).str.replace_all("\n", ", ", literal=True))
    cells = [["" if value is None else str(value) for value in row] for row in plain.iter_rows()]
    return Sheet(figure.title, plain.columns, [[*map(TextCell, row)] for row in cells], (), plain)


_PAGE: Final[Mapping[str, str]] = {
    **{colour: f"var({tone_name(colour)})" for colour in TONES},
    _INK: "currentColor",
    _LINE: "currentColor",
    "white": "var(--paper)",
}


def _described(figure: Figure) -> dict[str, Any]:
    """The chart as Vega-Lite reads it. Charts here bound their own data: altair's limit is for notebooks."""
    with alt.data_transformers.enable("default", max_rows=None):
        spec: dict[str, Any] = drawable(figure.chart.to_dict())
    return spec


def _sized(figure: Figure) -> dict[str, Any]:
    """The chart as wide as a column of a page."""
    return _described(figure) | {
        "width": WIDTH,
        "height": figure.height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "background": None,
        "padding": {"left": 8, "right": 4, "top": 2, "bottom": 2},
        "config": _config(float(FONT_SIZE.removesuffix("px"))),
    }


def on_white(figure: Figure) -> dict[str, Any]:
    """The chart with its title and note, in fixed colours and size, for a picture."""
    return _sized(figure) | {
        "config": _config(_SIZE),
        "background": "white",
        "padding": 14,
        "title": _titled(figure.title, figure.note, WIDTH, 15),
    }


def together(figures: Sequence[Figure], title: str, subtitle: Sequence[str]) -> dict[str, Any]:
    """Charts with their titles and notes in two columns, as one picture."""
    charts = [
        _described(figure)
        | {"width": _PLOT, "height": figure.height, "title": _titled(figure.title, figure.note, _PLOT, 14)}
        for figure in figures
    ]
    for chart in charts:
        chart.pop("config", None)
    return {
        "$schema": charts[0].pop("$schema"),
        "datasets": {name: rows for chart in charts for name, rows in chart.pop("datasets").items()},
        "concat": charts,
        "columns": 2,
        "spacing": 40,
        "align": "each",
        "resolve": {"scale": dict.fromkeys(("color", "opacity", "strokeDash"), "independent")},
        "config": _config(_SIZE),
        "background": "white",
        "padding": 20,
        "title": _titled(title, "", 2 * WIDTH, 18) | {"subtitle": list(subtitle), "subtitleFontSize": 13},
    }


def _titled(title: str, note: str, width: int, size: float) -> dict[str, Any]:
    return {
        "text": textwrap.wrap(title, int(width / LETTER * 0.8)),
        "subtitle": textwrap.wrap(note, int(width / LETTER * 1.05)),
        "anchor": "start",
        "frame": "bounds",  # from the left edge: a reader's font may be wider
        "fontSize": size,
        "subtitleFontSize": 11.5,
        "subtitleColor": "#555",
        "offset": 12,
    }


def _config(size: float) -> dict[str, Any]:
    return {
        "font": _FONT,
        "view": {"stroke": None},
        "axis": {
            "labelFontSize": size,
            "titleFontSize": size,
            "titleFontWeight": "normal",
            "labelColor": _INK,
            "titleColor": _INK,
            "gridColor": _LINE,
            "gridOpacity": 0.12,
            "domainColor": _LINE,
            "domainOpacity": 0.45,
            "tickColor": _LINE,
            "tickOpacity": 0.45,
        },
        "text": {"color": _INK},
        "legend": {
            "labelColor": _INK,
            "titleColor": _INK,
            "labelFontSize": size,
            "titleFontWeight": "normal",
            "symbolOpacity": 1,
            "columnPadding": 16,
            "offset": 6,
        },
    }
