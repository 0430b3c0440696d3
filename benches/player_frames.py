"""How large the page of `ringbco play` is, how soon it is there, and how smoothly it scrubs, in Chromium.

`make player-frames` prints the figures of one result and of two: of 100,000 jobs on 256x8.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import count
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import ringbco
from browser import find_chromium
from ringbco.reports.player import play

POLICIES = ("fifo", "srtf")
READY = "#player[data-ready]"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
# Moves through all of the run at once, as a hand does that scrubs: a move a frame, for two seconds.
SCRUB = """new Promise(done => {
    const began = performance.now(), work = []; let frames = 0;
    const step = () => {
        const since = performance.now() - began;
        work.sort((a, b) => a - b);
        if (since > 2000) return done([frames * 1000 / since, work[Math.floor(work.length * 0.95)]]);
        const at = performance.now();
        ringbcoPlayer.move((Math.sin(since / 300) * 0.5 + 0.5) * ringbcoPlayer.last);
        ringbcoPlayer.frame();
        work.push(performance.now() - at);
        frames++;
        requestAnimationFrame(step);
    };
    step(); })"""


def look(page: Page, path: Path) -> str:
    """The figures of one page."""
    page.goto(path.as_uri())
    page.wait_for_selector(READY, timeout=60_000)
    paint, ready = page.evaluate(PAINT), page.evaluate("performance.now()")
    frames, slow = page.evaluate(SCRUB)
    return (
        f"{path.stat().st_size / 1e6:.1f} MB (aim < 12), first paint {paint / 1e3:.2f} s (aim < 2),"
        f" playable {ready / 1e3:.2f} s, scrubbing {frames:.0f} frames a second (aim >= 30),"
        f" drawing {slow:.1f} ms (95 %)"
    )


def main(jobs: int, cluster: str) -> None:
    """Prints the figures of a drawn table on a cluster."""
    table = ringbco.generate("philly", jobs, 1, gpus=ringbco.Cluster.parse(cluster).num_gpus, load=0.9)
    outcomes = {policy: ringbco.replay(table, cluster, policy=policy) for policy in POLICIES}
    program = find_chromium()
    if program is None:
        sys.exit("no chromium: set RINGBCO_CHROMIUM")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        names = count()
        for labels in (POLICIES[:1], POLICIES):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            path = Path(folder) / f"{next(names)}.html"
            written = play({label: outcomes[label] for label in labels}, path)
            print(f"{jobs:,} jobs on {cluster}, {' and '.join(labels)}: {look(page, path)}")
            if written.note:
                print(written.note)
            page.close()
        browser.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 100_000, sys.argv[2] if sys.argv[2:] else "256x8")
