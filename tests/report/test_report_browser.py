"""Pages as a reader sees them: opened in headless Chromium, at four widths, light, dark and printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ringbco
from browser import Browser, Tab
from frames import busy_jobs
from ringbco import Outcome, replay
from ringbco.reports.diff_page import diff_page
from ringbco.reports.figures import chapters
from ringbco.reports.html import page

pytestmark = pytest.mark.long

POLICIES = ("fifo", "rand", "sjf-bco")
# Per chart: the marks that hold something to see.
MARKS = """Object.fromEntries([...document.querySelectorAll("figure")].map(figure => [
    figure.id, figure.querySelectorAll(".chart path, .chart line, .instead").length]))"""


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    """A page of the test's own."""
    with browser.tab() as opened:
        yield opened


@pytest.fixture(scope="module")
def results() -> dict[str, Outcome]:
    return {policy: replay(busy_jobs(), "4x4", policy=policy) for policy in (*POLICIES, "time-slice")}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, results: dict[str, Outcome]) -> Path:
    named = {policy: results[policy] for policy in POLICIES}
    named["a result with a rather long name"] = results["time-slice"]
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(named, chapters(named), title="four policies"), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [320, 420, 1280, 2560])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_of_results(tab: Tab, report: Path, dark: bool, width: int) -> None:
    tab.open(report, dark=dark, width=width)
    marks = tab.evaluate(MARKS)
    assert len(marks) > 15
    assert min(marks.values()) > 0, marks
    assert tab.faults() == []
    ink, paper = (
        sum(map(int, re.findall(r"\d+", tab.evaluate(f"getComputedStyle(document.body).{name}"))))
        for name in ("color", "backgroundColor")
    )
    assert (ink > paper) == dark
    label = tab.evaluate("getComputedStyle(document.querySelector('#jct text')).fill")
    assert sum(map(int, re.findall(r"\d+", label))) == ink
    # Side by side where there is room for it.
    places = tab.evaluate(
        "['mean', 'time', 'who-sizes', 'who-owners'].map(name => document.getElementById(name))"
        ".map(one => one.getBoundingClientRect()).map(box => [box.x, box.y])"
    )
    assert len({x for x, _ in places}) == {320: 1, 420: 1, 1280: 2, 2560: 4}[width]
    if width <= 420:
        assert [y for _, y in places] == sorted(y for _, y in places)
    # A table that is too wide for the screen scrolls in its box, never the page.
    boxes = tab.evaluate(
        "[...document.querySelectorAll('.scroll')].map(one => getComputedStyle(one).overflowX)"
    )
    assert set(boxes) == {"auto" if width <= 420 else "visible"}
    wide = "[...document.querySelectorAll('.scroll')].some(one => one.scrollWidth > one.clientWidth + 1)"
    assert tab.evaluate(wide) or width > 420
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_words_of_a_picture_are_within_it(tab: Tab, results: dict[str, Outcome], tmp_path: Path) -> None:
    """Also in a font that is wider than that of which it is made."""
    written = ringbco.report(results, tmp_path / "report.html", figures="svg")
    assert len(written.files) > 15
    for picture in written.files:
        tab.open(picture)
        beyond = tab.evaluate(
            "[...document.querySelectorAll('text')].filter(text => text.getBoundingClientRect().right >"
            " document.documentElement.getBoundingClientRect().right).map(text => text.textContent)"
        )
        assert beyond == [], picture.name


@pytest.mark.parametrize(("width", "dark"), [(420, False), (1280, True), (2560, False)])
def test_the_page_of_a_diff(
    tab: Tab, results: dict[str, Outcome], tmp_path: Path, width: int, dark: bool
) -> None:
    difference = results["fifo"].diff(results["time-slice"])
    path = tmp_path / "diff.html"
    path.write_text(diff_page(difference, ("</script>one", "<b>two")), encoding="utf-8")
    tab.open(path, dark=dark, width=width)
    marks = tab.evaluate(MARKS)
    assert marks["scatter"] > 30  # of 60 jobs, and the line; some lie on each other
    parts = {
        name
        for group in difference.size_classes()
        for name, told in group["parts"].items()
        if told["difference"]
    }
    assert marks["parts"] >= len(parts)
    assert tab.faults() == []
    titles = tab.evaluate("[...document.querySelectorAll('h1, h2')].map(title => title.textContent)")
    assert titles[0] == "</script>one and <b>two"
    assert titles[-2:] == ["Largest gains", "Largest losses"]
    first = tab.evaluate("[...document.querySelectorAll('section:last-of-type tbody th')][0].textContent")
    assert first == difference.most_changed("slower")[0]["job_id"]


def test_it_prints(tab: Tab, report: Path) -> None:
    tab.open(report, dark=True)
    pdf = tab.print()
    assert pdf.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 2 <= pages <= 12


def test_nothing_can_leave_the_page_or_run_on_it(tab: Tab, report: Path, tmp_path: Path) -> None:
    """Even a page that were made to ask for something would get nothing, and the tests above would see it."""
    nosy = tmp_path / "nosy.html"
    text = report.read_text(encoding="utf-8")
    asks = '<img src="http://127.0.0.1:9/x.png"><script>document.title = "run"</script>'
    nosy.write_text(text.replace("<footer>", asks + "<footer>", 1), encoding="utf-8")
    tab.open(nosy)
    assert sum("Content Security Policy" in complaint for complaint in tab.complaints) >= 2
    assert tab.evaluate("document.title") == "four policies"
