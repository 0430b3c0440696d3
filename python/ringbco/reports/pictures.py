"""A report's charts as PNG files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ringbco.reports.series import Figure
from ringbco.reports.style import on_white


def captioned(figure: Figure, caption: str) -> Figure:
    """The figure, whose note ends with what it is of."""
    return replace(figure, note=f"{figure.note} {caption}".strip())


def write_pictures(figures: Sequence[Figure], folder: Path, caption: str = "", *, scale: float = 2.0) -> None:
    """Writes FIGURE.png for each figure, `scale` times its size in pixels. caption: what they are of."""
    import vl_convert

    for figure in figures:
        told = json.dumps(on_white(captioned(figure, caption)))
        picture = vl_convert.vegalite_to_png(told, scale=scale)
        (folder / f"{figure.name}.png").write_bytes(picture)
