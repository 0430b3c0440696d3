"""Panels of a sheet, drawn for pictures, as figures of a page."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import polars as pl

from ringbco.reports.series import Figure, legend

_COLUMNS: Final = 3  # of a legend above a chart


class _Drawn(NamedTuple):
    """A chart that is a description already."""

    spec: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return self.spec


def figure_of(chart: Any, before: str = "") -> Figure:
    """A panel of a sheet as a figure of a page, whose title and size are the page's. before: its name."""
    spec: dict[str, Any] = chart.to_dict()
    inner = spec["layer"][0] if "title" not in spec and "layer" in spec else spec
    title = inner.pop("title", None) or next(one.pop("title") for one in spec["layer"] if "title" in one)
    if "_" not in title.partition(" ")[0]:  # such as w_max
        title = title[0].upper() + title[1:]
    height = spec.pop("height", 220)
    for name in ("width", "config", "$schema"):
        spec.pop(name, None)
    _legends_above(spec)
    name = re.sub(r"[^a-z0-9]+", "-", title.partition(":")[0].partition(" (")[0].lower())
    data: list[Any] = max(spec.get("datasets", {}).values(), key=len, default=[])
    return Figure(
        before + name[:40].strip("-"),
        title,
        "",
        _Drawn(spec),
        height=height,
        data=pl.DataFrame(data, infer_schema_length=None) if data else None,
    )


def _legends_above(spec: Any) -> None:
    """Puts every legend above its chart, where a narrow page has room for it."""
    for value in spec.values() if isinstance(spec, dict) else spec:
        if isinstance(value, dict | list):
            _legends_above(value)
    if isinstance(spec, dict) and spec.get("legend"):
        spec["legend"] = legend(spec["scale"]["domain"], _COLUMNS).to_dict()
