"""How a report's charts look: on its page, where CSS decides the colours, and as pictures on white."""

from __future__ import annotations

import textwrap
from typing import Any, Final

import altair as alt

from ringbco.reports.series import TONES, Figure

_FONT: Final = "Liberation Sans, Helvetica, Arial, sans-serif"
_WIDTH: Final = 860
_HALF: Final = 440


def on_page(figure: Figure, *, legends: bool = True) -> dict[str, Any]:
    """The chart as wide as its place, drawn in the page's own text colour, light or dark.

    legends: whether it names the results itself.
    """
    spec = _described(figure)
    if not legends:
        _without_legends(spec)
    spec |= {
        "width": "container",
        "height": figure.height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "background": None,
        "padding": 2,
        "config": _config("currentColor", "currentColor", 0.13),
    }
    toned: dict[str, Any] = _in_tones(spec)
    return toned


def _described(figure: Figure) -> dict[str, Any]:
    """The chart as Vega-Lite reads it. Charts here bound their own data: altair's limit is for notebooks."""
    with alt.data_transformers.enable("default", max_rows=None):
        spec: dict[str, Any] = figure.chart.to_dict()
    return spec


def _without_legends(value: Any) -> None:
    """Takes the legends of results, and of nothing else, out of a chart's description."""
    if isinstance(value, dict):
        if value.get("field") == "policy" and "scale" in value:
            value["legend"] = None
        for key, entry in value.items():
            if key != "datasets":
                _without_legends(entry)
    elif isinstance(value, list):
        for entry in value:
            _without_legends(entry)


def tone_name(colour: str) -> str:
    """The style sheet's variable for one of the results' colours."""
    return f"--tone-{colour[1:].lower()}"


def _in_tones(value: Any) -> Any:
    """A chart's description with the results' colours replaced by the page's variables."""
    if isinstance(value, dict):
        # Data are left alone: a result may be called #0072B2.
        return {key: entry if key == "datasets" else _in_tones(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_in_tones(entry) for entry in value]
    return f"var({tone_name(value)})" if isinstance(value, str) and value in TONES else value


def on_white(figure: Figure) -> dict[str, Any]:
    """The chart with its title and note, in fixed colours and size, for a picture."""
    spec = _described(figure)
    width = _HALF if figure.half else _WIDTH
    spec |= {
        "width": width,
        "height": figure.height,
        "background": "white",
        "padding": 18,
        "title": {
            "text": figure.title,
            "subtitle": _lines(figure.note, width // 6),
            "anchor": "start",
            "frame": "group",
            "fontSize": 16,
            "subtitleFontSize": 12,
            "subtitleColor": "#555",
            "offset": 12,
        },
        "config": _config("#222", "#000", 0.1),
    }
    return spec


def _config(ink: str, line: str, faint: float) -> dict[str, Any]:
    return {
        "font": _FONT,
        "view": {"stroke": None},
        "axis": {
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelColor": ink,
            "titleColor": ink,
            "gridColor": line,
            "gridOpacity": faint,
            "domainColor": line,
            "domainOpacity": 0.45,
            "tickColor": line,
            "tickOpacity": 0.45,
        },
        "text": {"color": ink},
        "legend": {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontWeight": "normal"},
    }


def _lines(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width)
