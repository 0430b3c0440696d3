"""Headless Chromium, spoken to by its own protocol over a pair of pipes."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it opens only the test's own page, often as root in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
TIMEOUT = 120.0  # s, for any one answer


def find_chromium() -> str | None:
    """The browser's program: $RINGBCO_CHROMIUM, or the first on the path."""
    return os.environ.get("RINGBCO_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


class Browser:
    """A running browser. Its pages know nothing of each other."""

    def __init__(self, program: str, profile: Path) -> None:
        commands, answers = os.pipe(), os.pipe()
        # The browser reads from its descriptor 3 and writes to its 4; high numbers cannot be hit on the way.
        reads, writes = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 100) for end in (commands[0], answers[1]))
        self._pid = os.posix_spawn(
            program,
            [program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, reads, 3),
                (os.POSIX_SPAWN_DUP2, writes, 4),
            ],
        )
        for end in (reads, writes, commands[0], answers[1]):
            os.close(end)
        self._to, self._from = commands[1], answers[0]
        self._waiting = b""
        self._number = 0
        self._events: dict[str, list[dict[str, Any]]] = {}

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(AssertionError, OSError):
            self.call("Browser.close")
        os.close(self._to)
        os.close(self._from)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
        os.waitpid(self._pid, 0)

    @contextlib.contextmanager
    def page(self) -> Iterator[Page]:
        """An empty page in a context of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        yield Page(self, session, self._events.setdefault(session, []))
        self.call("Target.disposeBrowserContext", browserContextId=context)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The answer to a command to a page's session, or to the browser; events meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._events.setdefault(answer.get("sessionId", ""), []).append(answer)

    def _receive(self) -> dict[str, Any]:
        until = time.monotonic() + TIMEOUT
        while b"\0" not in self._waiting:
            ready, _, _ = select.select([self._from], [], [], max(until - time.monotonic(), 0))
            read = os.read(self._from, 1 << 20) if ready else b""
            assert read, "the browser said nothing"
            self._waiting += read
        message, self._waiting = self._waiting.split(b"\0", 1)
        told: dict[str, Any] = json.loads(message)
        return told


class Page:
    """One open page, and all that it said and asked for."""

    def __init__(self, browser: Browser, session: str, events: list[dict[str, Any]]) -> None:
        self._browser, self._session, self.events = browser, session, events
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The browser's answer to a command to this page."""
        return self._browser.call(method, self._session, **parameters)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited where it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def open(self, file: Path, *, dark: bool = False, width: int = 1200, height: int = 900) -> None:
        """Loads a file and waits until its load event."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.resize(width, height)
        answer = self.call("Page.navigate", url=file.resolve().as_uri())
        assert "errorText" not in answer, answer
        self.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done(true)"
            " : window.addEventListener('load', () => done(true)))"
        )

    def resize(self, width: int, height: int = 900) -> None:
        """Gives the page a screen of this size, in pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and what the browser itself logged."""
        found = []
        for event in self.events:
            told = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(told["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and told["type"] in (
                "error",
                "warning",
                "assert",
            ):
                found.append(str([argument.get("value") for argument in told["args"]]))
            elif event["method"] == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                found.append(told["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """The addresses of everything that the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))

    def print(self) -> bytes:
        """The page as a PDF."""
        answer = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        return base64.b64decode(answer["data"])
