"""A report's charts as pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ringbco.reports.drawing import draw
from ringbco.reports.text_tables import MADE

if TYPE_CHECKING:
    from ringbco.reports.series import Figure

BEFORE_SVG: Final = f"<!-- {MADE} -->"
AFTER_PDF: Final = f"\n% {MADE}\n".encode()
"""After its end, where readers allow it: inside, every byte has its place."""


def captioned(figure: Figure, caption: str) -> Figure:
    """The figure, whose note ends with what it is of."""
    return replace(figure, note=f"{figure.note} {caption}".strip())


def picture(figure: Figure, kind: str, caption: str, *, scale: float = 2.0) -> bytes:
    """A chart as an "svg" or "pdf", with a mark that it is ours, or a "png" of `scale` times its size."""
    from ringbco.reports.style import on_white  # who draws nothing has no need of it

    told = json.dumps(on_white(captioned(figure, caption)))
    if kind == "svg":
        return f"{BEFORE_SVG}\n".encode() + draw("svg", told)
    if kind == "pdf":
        return draw("pdf", told) + AFTER_PDF
    return draw("png", told, scale=scale)


def sheet(figures: Sequence[Figure], title: str, subtitle: Sequence[str]) -> bytes:
    """Charts of a page as one PNG."""
    from ringbco.reports.style import together

    return draw("png", json.dumps(together(figures, title, subtitle)), scale=2.0)


def write_pictures(figures: Sequence[Figure], folder: Path, caption: str = "") -> None:
    """Writes FIGURE.png for each figure. caption: what they are of."""
    for figure in figures:
        (folder / f"{figure.name}.png").write_bytes(picture(figure, "png", caption))
