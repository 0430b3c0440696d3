"""The pictures of README and docs/play.md: fifo and srtf on a Philly virtual cluster, the queue longest.

`make play-picture` draws play.png and play-dark.png anew from the public traces in TRACES (default
../shared/traces).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import ringbco
from browser import find_chromium
from ringbco.reports.player import play

AT = 59.5 * 86_400.0  # s, while the queue of fifo is longest


def main(traces: Path, out: Path) -> None:
    """Draws both pictures into the folder `out`."""
    jobs = ringbco.read_jobs(traces / "philly" / "6214e9.csv")
    failing = "draw:mtbf=42d,mttr=2h"
    results = {name: ringbco.replay(jobs, "64x8", policy=name, outages=failing) for name in ("fifo", "srtf")}
    program = find_chromium()
    if program is None:
        sys.exit("no chromium: set RINGBCO_CHROMIUM")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = play(results, Path(folder) / "play.html", start=40 * 86_400.0, end=75 * 86_400.0).path
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for scheme, name in (("light", "play.png"), ("dark", "play-dark.png")):
            page = browser.new_page(viewport={"width": 1240, "height": 1000}, color_scheme=scheme)
            page.goto(page_file.as_uri())
            page.wait_for_selector("#player[data-ready]")
            page.select_option("[data-at=colour]", "size")
            share = (AT - 40 * 86_400.0) / (35 * 86_400.0)
            page.evaluate(f"ringbcoPlayer.move(ringbcoPlayer.last * {share})")
            page.wait_for_timeout(500)
            page.screenshot(path=out / name)
            print(f"{out / name}: {(out / name).stat().st_size / 1e3:.0f} KB")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
