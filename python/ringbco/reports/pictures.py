"""A report's charts as PNG files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ringbco.reports.series import Figure
from ringbco.reports.style import on_white


def write_pictures(figures: Sequence[Figure], folder: Path, *, scale: float = 2.0) -> None:
    """Writes FIGURE.png for each figure, `scale` times its size in pixels."""
    import vl_convert

    for figure in figures:
        picture = vl_convert.vegalite_to_png(json.dumps(on_white(figure)), scale=scale)
        (folder / f"{figure.name}.png").write_bytes(picture)
