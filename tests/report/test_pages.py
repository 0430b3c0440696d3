"""Pages beside those of several results: on a phone, a laptop and a wide screen, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from browser import Browser
from frames import busy_jobs
from ringbco import generate, replay, sweep
from ringbco.cluster.spec import Cluster
from ringbco.reports import report
from ringbco.reports.sheet_page import inspect_page
from ringbco.run.seeds import Seeds
from ringbco.study.inspection import inspect_jobs
from ringbco.sweeps.targets import asked

PAGES = ("one", "sweep", "inspect")
# The page of several results, of the same style, is opened in both modes at every width (test_report_browser)
VIEWS = ((420, True), (1280, False), (2560, True))
Made = Callable[[str], Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The page of a kind, made once."""
    folder = tmp_path_factory.mktemp("pages")
    jobs = busy_jobs(40)

    def one(path: Path) -> None:
        report(replay(jobs, "4x4", policy="fifo"), path)

    def swept(path: Path) -> None:
        grid = {"policy": ["fifo", "sjf-bco"], "cluster": ["4x4", "6x4", "8x4"], "kappa": [1, 4]}
        search = asked({"base": {"trace": jobs}, "grid": grid}, Seeds(2), "p90_wait", "10min", None)
        search.run(lambda spec: sweep(spec, folder / "sweep"))
        report(folder / "sweep", path)

    def inspected(path: Path) -> None:
        table = generate("helios", 300, 1)
        seen = inspect_jobs(table, Cluster.parse("preset:helios-venus"), shape="helios-venus")
        path.write_text(inspect_page(table.frame, seen, title="a job table", said=["300 jobs"]), "utf-8")

    @cache
    def make(kind: str) -> Path:
        path = folder / f"{kind}.html"
        {"one": one, "sweep": swept, "inspect": inspected}[kind](path)
        return path

    return make


@pytest.mark.long
@pytest.mark.parametrize("kind", PAGES)
def test_a_page_has_no_fault(browser: Browser, made: Made, kind: str) -> None:
    for width, dark in VIEWS:
        with browser.tab() as tab:
            tab.open(made(kind), width=width, dark=dark)
            assert tab.evaluate("document.querySelectorAll('figure svg').length") > 3
            faults = tab.faults()
            assert not faults, "\n".join((f"{width} wide, {'dark' if dark else 'light'}:", *faults))
