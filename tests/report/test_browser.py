"""The browser that opens pages in tests: quiet about a good page, and it sees what is wrong with others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from browser import Browser

pytestmark = pytest.mark.long

GOOD = """<!doctype html><html lang="en"><head><title>t</title><link rel="icon" href="data:,">
<style>body { color: CanvasText; background: Canvas; color-scheme: light dark }</style></head>
<body><main><h1>Jobs</h1><p>Nobody waited.</p></main></body></html>"""


def faults(browser: Browser, folder: Path, text: str, **how: object) -> list[str]:
    path = folder / "page.html"
    path.write_text(text)
    with browser.tab() as tab:
        tab.open(path, **how)  # type: ignore[arg-type]
        return tab.faults()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_good_page_has_no_fault(browser: Browser, tmp_path: Path, dark: bool) -> None:
    assert faults(browser, tmp_path, GOOD, dark=dark, width=420) == []


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ('<img alt="" src="http://127.0.0.1:9/x.png">', "asked for http://127.0.0.1:9/x.png"),
        ("<script>console.error('alas')</script>", "alas"),
        ("<script>nobody()</script>", "nobody is not defined"),
        ('<p style="width:500px" class="far">wide</p>', 'beyond the screen: <p style="width:500px"'),
        ('<p style="color:#bbb;background:#fff">pale</p>', "color-contrast"),
        ("<h3>deep</h3>", "heading-order"),
        ('<img src="data:,">', "image-alt"),
    ],
)
def test_a_fault_is_seen(browser: Browser, tmp_path: Path, planted: str, said: str) -> None:
    result = faults(browser, tmp_path, GOOD.replace("</main>", f"{planted}</main>"), width=420)
    assert any(said in one for one in result), result


def test_what_scrolls_in_a_box_of_its_own_is_no_fault(browser: Browser, tmp_path: Path) -> None:
    box = '<div class="scroll" tabindex="0" style="overflow-x:auto"><p style="width:500px">wide</p></div>'
    assert faults(browser, tmp_path, GOOD.replace("</main>", f"{box}</main>"), width=420) == []


def test_other_event_loops_run_beside_it(browser: Browser, tmp_path: Path) -> None:
    """Whatever runs in a test's thread: the browser has a thread of its own."""
    assert faults(browser, tmp_path, GOOD) == []
    assert asyncio.run(asyncio.sleep(0, "run")) == "run"
