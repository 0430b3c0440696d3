"""The drawing library that goes into each page: bundled once, then kept in the user's cache.

Bundling takes a second and a half, most of what a page of some thousand jobs costs, and always gives the same
text for the same versions. The cache is only ever a copy: where it cannot be read or written, or is damaged,
the text is bundled anew, so a page never depends on it.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import secrets
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import Final

_ENTRY: Final = "window.vegaEmbed = vegaEmbed;"


def library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, of the version that altair speaks."""
    import altair as alt

    speaks = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    kept = _place(speaks)
    text = None if kept is None else _read(kept)
    if text is None:
        import vl_convert

        text = vl_convert.javascript_bundle(_ENTRY, speaks)
        if kept is not None:
            _keep(text, kept)
    return text


def _place(speaks: str) -> Path | None:
    """The file of these versions in the cache of who runs this; None for who has no home."""
    try:
        # A relative XDG_CACHE_HOME is to be ignored, says its specification.
        given = Path(os.environ.get("XDG_CACHE_HOME", ""))
        cache = given if given.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    return cache / "ringbco" / f"vega-lite-{speaks}-vl-convert-{version('vl-convert-python')}.js.gz"


def _read(kept: Path) -> str | None:
    """The text kept there; None if there is none, or if its bytes do not have gzip's checksum."""
    try:
        return gzip.decompress(kept.read_bytes()).decode("utf-8") or None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        return None


def _keep(text: str, kept: Path) -> None:
    """Writes the file whole or not at all; that it cannot be written is nobody's concern."""
    part = kept.with_name(f".{kept.name}.{secrets.token_hex(4)}.part")
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))
            part.replace(kept)
        finally:
            part.unlink(missing_ok=True)
