"""The pictures of docs/gallery.md, by the commands that stand below them.

    PYTHONPATH=tests/shared python benches/gallery.py [NAME...]

The commands run in order in one empty folder. A picture is the file of its name that its command makes or,
where there is none, a screenshot of the page of its name. NAME: write these pictures only. No command needs a
trace.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np
from playwright.sync_api import Page

from browser import Browser, Tab, find_chromium

PAGE: Final = Path(__file__).parents[1] / "docs" / "gallery.md"
IMAGES: Final = PAGE.parent / "images" / "gallery"
_BLOCK: Final = re.compile(
    r"(?:^!\[[^\]]+\]\(images/gallery/([\w.-]+)\)\n+)?^```\n(.*?)\n```$", re.MULTILINE | re.DOTALL
)
_WIDTH: Final = 900
"""Pixels of a picture that ringbco draws at twice that width."""
_PIXELS: Final = """(async () => {
    const picture = await createImageBitmap(await (await fetch("data:image/png;base64,%s")).blob());
    const canvas = new OffscreenCanvas(picture.width, picture.height), pen = canvas.getContext("2d");
    pen.drawImage(picture, 0, 0);
    const bytes = pen.getImageData(0, 0, canvas.width, canvas.height).data;
    let text = "";
    for (let at = 0; at < bytes.length; at += 8192)
        text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    return [canvas.width, canvas.height, btoa(text)]; })()"""


class Scene(NamedTuple):
    """A screen of this size, in pixels, and what its reader does first."""

    width: int
    height: int
    act: Callable[[Page], object] = lambda page: None


def _opened(page: Page) -> None:
    page.wait_for_selector("#player[data-ready]")


def _followed(page: Page) -> None:
    """Follows a job, on day 13.3 of 27.4."""
    _opened(page)
    page.fill("[data-at=find]", "helios-3302")
    page.press("[data-at=find]", "Enter")
    page.evaluate("document.activeElement.blur(); ringbcoPlayer.move(ringbcoPlayer.last * 13.3 / 27.4)")


SCENES: Final[Mapping[str, Scene]] = {
    "report.png": Scene(1180, 770),
    "play.png": Scene(1240, 980, _opened),
    "followed.png": Scene(1000, 1200, _followed),
    "diff.png": Scene(960, 700),
}


def blocks(text: str) -> list[tuple[str, str]]:
    """Each command of the page, as a shell takes it, and the name of the picture above it or nothing."""
    return [(item[2], item[1] or "") for item in _BLOCK.finditer(text)]


def shoot(tab: Tab, folder: Path, name: str) -> bytes:
    """A screenshot as PNG: of a page, or of a picture that is too fine."""
    page, drawn = (folder / name).with_suffix(".html"), folder / name
    if drawn.exists():
        page.write_text(f'<body style="margin: 0"><img src="{name}" width="{_WIDTH}" style="display: block">')
    scene = SCENES.get(name, Scene(_WIDTH, 100))
    tab.open(page, width=scene.width, height=scene.height)
    tab.do(scene.act)
    tab.do(lambda page: page.wait_for_timeout(500))
    return reduced(tab, tab.do(lambda page: page.screenshot(full_page=drawn.exists())))


def reduced(tab: Tab, png: bytes) -> bytes:
    """The picture in at most 256 colours, which is less than half as large. The browser unpacks it."""
    tab.do(lambda page: page.goto("about:blank"))
    width, height, packed = tab.evaluate(_PIXELS % b64encode(png).decode())
    pixels = np.frombuffer(b64decode(packed), np.uint8).reshape(-1, 4)[:, :3]
    colours, index, counts = np.unique(pixels, axis=0, return_inverse=True, return_counts=True)
    kept = colours[np.argsort(-counts, kind="stable")[:256]].astype(np.int32)  # the others become the nearest
    nearest = np.array([np.abs(kept - colour).sum(axis=1).argmin() for colour in colours])
    rows = np.zeros((height, 1 + width), np.uint8)  # each begins with its filter, which is none
    rows[:, 1:] = nearest[index.ravel()].reshape(height, width)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            chunk(b"PLTE", kept.astype(np.uint8).tobytes()),
            chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            chunk(b"IEND", b""),
        )
    )


def main(wanted: list[str]) -> None:
    """Makes the pictures."""
    browser_file = find_chromium()
    if browser_file is None:
        sys.exit("no chromium: set RINGBCO_CHROMIUM")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    IMAGES.mkdir(exist_ok=True)
    browser = Browser(browser_file)
    with TemporaryDirectory() as folder, browser.tab() as tab:
        for command, name in blocks(PAGE.read_text(encoding="utf-8")):
            subprocess.run(["sh", "-c", command], cwd=folder, env=environment, check=True)
            if not name or (wanted and name not in wanted):
                continue
            drawn = name.endswith(".svg")
            picture = (Path(folder) / name).read_bytes() if drawn else shoot(tab, Path(folder), name)
            (IMAGES / name).write_bytes(picture)
            print(f"{IMAGES / name}: {(IMAGES / name).stat().st_size / 1e3:.0f} KB")
    browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
