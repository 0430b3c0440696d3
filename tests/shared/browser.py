"""Pages in headless Chromium, as a reader sees them; playwright drives it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page, sync_playwright

T = TypeVar("T")

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS: Final = (
    "--no-sandbox",  # it opens only the test's own page, often as root in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
)
# The players of a page have drawn what they show at first, and what was asked for is drawn.
_DRAWN: Final = """new Promise(done => {
    const drawn = () => requestAnimationFrame(() => requestAnimationFrame(done));
    const look = () => {
        const player = document.getElementById("player");
        player && player.dataset.ready === undefined ? setTimeout(look, 10) : drawn();
    };
    look(); })"""
_WIDER: Final = "document.documentElement.scrollWidth > innerWidth"
# What makes it so: the elements that end beyond the screen's right edge, but not inside a box that scrolls.
_BEYOND: Final = """[...document.body.querySelectorAll("*")].filter(one =>
    one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll > *"))
    .map(one => one.outerHTML.slice(0, 120)).slice(0, 5)"""


def find_chromium() -> str | None:
    """The browser's program: $RINGBCO_CHROMIUM, none where that is empty, or the first on the path."""
    named = os.environ.get("RINGBCO_CHROMIUM")
    return next(filter(None, map(shutil.which, NAMES)), None) if named is None else named or None


class Browser:
    """A running browser. Its pages know nothing of each other.

    playwright holds an event loop as long as it runs, so that no other could run in its thread, as tests of
    Dask need: it has one of its own.
    """

    def __init__(self, program: str) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._held = ExitStack()

        def start() -> Any:
            playwright = self._held.enter_context(sync_playwright())
            started = playwright.chromium.launch(executable_path=program, args=_FLAGS)
            self._held.callback(started.close)
            return started

        self._browser = self.call(start)

    def call(self, what: Callable[[], T]) -> T:
        """What a function gives that is called in the browser's thread."""
        return self._thread.submit(what).result()

    def close(self) -> None:
        """Ends it."""
        self.call(self._held.close)
        self._thread.shutdown()

    @contextmanager
    def tab(self) -> Iterator[Tab]:
        """An empty page in a context of its own."""
        context = self.call(self._browser.new_context)
        try:
            yield Tab(self, self.call(context.new_page))
        finally:
            self.call(context.close)


class Tab:
    """One open page, and all that it said and asked for.

    complaints: errors and warnings of the console, exceptions, and what the browser itself logged.
    requests: the addresses of everything that the page asked for.
    """

    def __init__(self, browser: Browser, page: Page) -> None:
        self._browser, self._page = browser, page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._file = Path()

        def listen() -> None:
            page.on("console", self._said)
            page.on("pageerror", lambda error: self.complaints.append(str(error)))
            page.on("request", lambda request: self.requests.append(request.url))

        browser.call(listen)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(message.text)

    def do(self, what: Callable[[Page], T]) -> T:
        """What a function gives of playwright's page."""
        return self._browser.call(lambda: what(self._page))

    def open(self, file: Path, *, dark: bool = False, width: int = 1200, height: int = 900) -> None:
        """Loads a file."""
        self._file = file
        self.do(lambda page: page.emulate_media(color_scheme="dark" if dark else "light"))
        self.resize(width, height)
        self.do(lambda page: page.goto(file.resolve().as_uri()))

    def resize(self, width: int, height: int = 900) -> None:
        """Gives the page a screen of this size, in pixels."""
        self.do(lambda page: page.set_viewport_size({"width": width, "height": height}))

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited where it is a promise."""
        return self.do(lambda page: page.evaluate(expression))

    def drag(self, selector: str, shift: float) -> None:
        """Takes an element at its middle and moves it to the right by so many pixels."""

        def move(page: Page) -> None:
            box = page.locator(selector).bounding_box()
            assert box is not None
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move(x + shift, y)
            page.mouse.up()

        self.do(move)

    def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        self.do(lambda page: page.screenshot(path=path, full_page=True))

    def print(self) -> bytes:
        """The page as a PDF."""
        return self.do(lambda page: page.pdf(print_background=False, prefer_css_page_size=True))

    def violations(self) -> list[str]:
        """What axe finds wrong for those who read by keyboard, screen reader or with weak eyes."""
        result = self.do(lambda page: Axe().run(page)).response["violations"]
        return [
            f"{one['id']} ({one['impact']}): {node['target']} {node['html'][:120]}"
            for one in result
            for node in one["nodes"][:3]
        ]

    def faults(self) -> list[str]:
        """All that is wrong: complaints, requests, what reaches beyond the screen, what axe finds."""
        self.evaluate(_DRAWN)
        own = self._file.resolve().as_uri()
        beyond = self.evaluate(_BEYOND) if self.evaluate(_WIDER) else []
        return [
            *self.complaints,
            *(f"asked for {url}" for url in self.requests if url != own),
            *(f"beyond the screen: {one}" for one in beyond),
            *self.violations(),
        ]
