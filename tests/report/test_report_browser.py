"""The report as a reader sees it: opened in headless Chromium, light, dark and printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from browser import Browser, Tab
from frames import busy_jobs
from ringbco import Outcome, replay
from ringbco.reports.diff_page import diff_page
from ringbco.reports.figures import chapters
from ringbco.reports.html import page

pytestmark = pytest.mark.long

POLICIES = ("fifo", "rand", "sjf-bco")
# Per chart: the marks that hold something to see.
MARKS = """Object.fromEntries([...document.querySelectorAll(".chart")].map(chart => [
    chart.id, chart.querySelectorAll(".role-mark path, .role-mark text, .role-mark line").length]))"""


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
    results = {policy: results[policy] for policy in POLICIES}
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(results, chapters(results), title="three policies"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def drawn(browser: Browser, report: Path) -> Iterator[Callable[[bool], Tab]]:
    """The report, dark or light, with its charts drawn. Tests share it and leave it as they found it."""
    with ExitStack() as pages:

        @cache
        def look(dark: bool) -> Tab:
            opened = pages.enter_context(browser.tab())
            opened.open(report, dark=dark)
            return opened

        yield look


@pytest.fixture(scope="module")
def named(
    browser: Browser, results: dict[str, Outcome], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tab]:
    """A report of long names, drawn on the narrowest screen."""
    named = {
        "sjf-bco": results["sjf-bco"],
        "a result with a rather long name": results["time-slice"],
        **{f"policy number {number}": results["rand"] for number in range(3)},
    }
    path = tmp_path_factory.mktemp("named") / "named.html"
    path.write_text(page(named, chapters(named), title="many names"), encoding="utf-8")
    with browser.tab() as opened:
        opened.open(path, width=320)
        yield opened


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_chart_is_drawn_without_a_complaint_or_a_request(
    drawn: Callable[[bool], Tab], report: Path, dark: bool
) -> None:
    browser = drawn(dark)
    count = re.fullmatch(r"(\d+) of (\d+)", browser.evaluate("document.body.dataset.drawn"))
    assert count is not None
    marks = browser.evaluate(MARKS)
    assert count[1] == count[2] == str(len(marks))
    assert min(marks.values()) > 0, marks
    assert browser.complaints == []
    assert browser.requests == [report.resolve().as_uri()]
    ink, paper = (
        sum(map(int, re.findall(r"\d+", browser.evaluate(f"getComputedStyle(document.body).{name}"))))
        for name in ("color", "backgroundColor")
    )
    assert (ink > paper) == dark
    label = browser.evaluate(
        "getComputedStyle(document.querySelector('#chart-jct .role-axis-label text')).fill"
    )
    assert sum(map(int, re.findall(r"\d+", label))) == ink


@pytest.mark.parametrize(("width", "dark"), [(420, False), (1280, True), (2560, False)])
def test_the_page_of_a_diff(
    tab: Tab, results: dict[str, Outcome], tmp_path: Path, width: int, dark: bool
) -> None:
    found = results["fifo"].diff(results["time-slice"])
    path = tmp_path / "diff.html"
    path.write_text(diff_page(found, ("</script>one", "<b>two")), encoding="utf-8")
    assert tab.open(path, dark=dark, width=width) == "2 of 2"
    marks = tab.evaluate(MARKS)
    assert marks["chart-scatter"] > 30  # of 60 jobs, and the line; some lie on each other
    parts = {
        name for group in found.size_classes() for name, told in group["parts"].items() if told["difference"]
    }
    assert marks["chart-parts"] >= len(parts)
    assert tab.complaints == []
    assert tab.requests == [path.resolve().as_uri()]
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    titles = tab.evaluate("[...document.querySelectorAll('h1, h2')].map(title => title.textContent)")
    assert titles[0] == "</script>one and <b>two"
    assert titles[-2:] == ["Gained most", "Lost most"]
    first = tab.evaluate("[...document.querySelectorAll('section:last-of-type tbody tr td')][0].textContent")
    assert first == found.most("slower")[0]["job_id"]


def test_a_result_can_be_switched_off_and_on(drawn: Callable[[bool], Tab]) -> None:
    browser = drawn(False)
    before = browser.evaluate(MARKS)
    switch = "document.querySelector('nav input').click()"
    browser.evaluate(switch)
    frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
    browser.evaluate(frames)
    after = browser.evaluate(MARKS)
    assert 0 < after["chart-jct"] < before["chart-jct"]
    assert after["chart-servers-2"] == before["chart-servers-2"]
    shown = "[...document.querySelectorAll('figure[data-of]')].map(f => [f.dataset.of, f.hidden])"
    assert {(of, hidden) for of, hidden in browser.evaluate(shown)} == {
        ("0", True),
        ("1", False),
        ("2", False),
    }
    browser.evaluate(switch)
    browser.evaluate(frames)
    assert browser.evaluate(MARKS) == before
    assert not any(hidden for _, hidden in browser.evaluate(shown))
    assert browser.complaints == []


def test_the_charts_over_time_move_together(tab: Tab, report: Path) -> None:
    """Dragging one chart moves the axis of the others."""
    tab.open(report)
    tab.evaluate("document.getElementById('utilisation').scrollIntoView()")
    labels = (
        "[...document.querySelectorAll('#chart-{} .role-axis-label text')].map(t => t.textContent).join()"
    )
    before = tab.evaluate(labels.format("queue"))
    tab.drag("#chart-utilisation svg", 120)
    changed = (
        "new Promise(done => { let left = 200; const look = () => (%s) !== %r || !left--"
        " ? done(%s) : requestAnimationFrame(look); look(); })"
    )
    now = labels.format("queue")
    assert tab.evaluate(changed % (now, before, now)) != before
    assert tab.complaints == []


def test_it_prints(drawn: Callable[[bool], Tab]) -> None:
    pdf = drawn(True).print()
    assert pdf.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 2 <= pages <= 12


# The texts of a chart's legend, and the chart's own place: no text may reach beyond its edges.
CUT = """[...document.querySelectorAll(".chart svg")].flatMap(svg => {
    const place = svg.getBoundingClientRect();
    return [...svg.querySelectorAll(".role-legend text")].filter(text => {
        const box = text.getBoundingClientRect();
        return box.width > 0 && (box.right > place.right + 1 || box.left < place.left - 1);
    }).map(text => svg.closest(".chart").id + ": " + text.textContent); })"""


WIDTHS = "[...document.querySelectorAll('.chart svg')].map(svg => svg.getBoundingClientRect().width)"
# Resolved when ten frames in a row have not changed a value.
STEADY = """new Promise(done => { let last, left = 10; const look = () => {
    const now = JSON.stringify(%s);
    left = now === last ? left - 1 : 10;
    last = now;
    left ? requestAnimationFrame(look) : done(now); }; look(); })"""


def test_no_legend_is_cut_and_nothing_is_wider_than_the_screen(named: Tab) -> None:
    legends = named.evaluate("document.querySelectorAll('.chart .role-legend text').length")
    assert legends > 20
    seen = set()
    for width in (320, 420, 600, 800, 1400):
        named.resize(width)
        seen.add(named.evaluate(STEADY % WIDTHS))
        assert named.evaluate(CUT) == [], width
        assert named.evaluate("document.documentElement.scrollWidth") <= width
        assert named.evaluate("document.querySelectorAll('.chart .role-legend text').length") == legends
    assert len(seen) > 3, "the charts follow the screen, up to the page's own width"


def test_a_cut_legend_is_noticed(named: Tab) -> None:
    entry = "document.querySelector('#chart-time .role-legend-entry')"
    place = named.evaluate(f"{entry}.getAttribute('transform') ?? ''")
    named.evaluate(f"{entry}.setAttribute('transform', 'translate(2900, 0)')")
    assert any("chart-time" in text for text in named.evaluate(CUT))
    named.evaluate(f"{entry}.setAttribute('transform', '{place}')")


def test_the_longest_waits_are_unfolded_on_paper(drawn: Callable[[bool], Tab]) -> None:
    browser = drawn(False)
    browser.evaluate(
        "window.seen = null; window.matchMedia('print').addEventListener('change', told => {"
        " if (told.matches) window.seen = [...document.querySelectorAll('details')].map(d => d.open); })"
    )
    folded = "[...document.querySelectorAll('details')].map(d => d.open)"
    assert browser.evaluate(folded) == [False] * len(POLICIES)
    browser.print()
    assert browser.evaluate("window.seen") == [True] * len(POLICIES)
    assert browser.evaluate(folded) == [False] * len(POLICIES)


def test_a_chart_that_fails_is_noticed(tab: Tab, report: Path, tmp_path: Path) -> None:
    """The tests above would see a chart that cannot be drawn: its error is told and its place says so."""
    broken = tmp_path / "broken.html"
    text = report.read_text(encoding="utf-8")
    assert '"mark":{"type":"bar"}' in text
    broken.write_text(
        text.replace('"mark":{"type":"bar"}', '"mark":{"type":"nonsense"}', 1), encoding="utf-8"
    )
    drawn = tab.open(broken).split(" of ")
    assert int(drawn[0]) == int(drawn[1]) - 1
    assert any("chart-time" in complaint for complaint in tab.complaints)


def test_nothing_can_leave_the_page(tab: Tab, report: Path, tmp_path: Path) -> None:
    """Even a page that were made to ask for something would get nothing, and the tests above would see it."""
    nosy = tmp_path / "nosy.html"
    text = report.read_text(encoding="utf-8")
    asks = '<img src="http://127.0.0.1:9/x.png"><script>fetch("http://127.0.0.1:9/y").catch(() => 0)</script>'
    nosy.write_text(text.replace("<noscript>", asks + "<noscript>", 1), encoding="utf-8")
    tab.open(nosy)
    assert any("Content Security Policy" in complaint for complaint in tab.complaints)


# Cells that the edge of their scrolling table cuts, the first column apart, which stays where it is.
STRADDLING = """
(() => {
  const cut = [];
  for (const holder of document.querySelectorAll(".scroll")) {
    if (!holder.offsetParent) continue;
    const { left, right } = holder.getBoundingClientRect();
    for (const row of holder.querySelectorAll("tr")) {
      const own = row.cells[0].getBoundingClientRect();
      if (Math.abs(own.left - left) > 1) cut.push("moved: " + row.cells[0].textContent);
      for (const cell of [...row.cells].slice(1)) {
        const at = cell.getBoundingClientRect();
        const cutAt = (edge) => at.left < edge - 1.5 && at.right > edge + 1.5;
        if (cell.colSpan === 1 && (cutAt(right) || cutAt(own.right))) cut.push(cell.textContent);
      }
    }
    const hidden = holder.scrollWidth > holder.clientWidth + 1;
    const cue = holder.parentElement.querySelector(".cue");
    if (hidden !== (cue.offsetParent !== null)) cut.push("cue: " + cue.textContent);
  }
  return cut;
})()
"""
# Scrolls every table that can be, and waits until the page has fitted them and scrolls no more.
SCROLLED = """
(by) => new Promise((done) => {
  const all = [...document.querySelectorAll(".scroll")];
  const wide = all.filter((one) => one.scrollWidth > one.clientWidth + 1);
  let left = 6;
  const moved = () => { left = 6; };
  for (const told of ["scroll", "scrollend"]) document.addEventListener(told, moved, true);
  for (const one of wide) one.scrollLeft = by;
  const look = () => {
    if (left--) return requestAnimationFrame(look);
    for (const told of ["scroll", "scrollend"]) document.removeEventListener(told, moved, true);
    done(wide.length);
  };
  look();
})
"""
FIRST_CELLS = """
[...document.querySelectorAll(".ranked table")].map((table) =>
  [...table.tBodies[0].rows].map((row) => row.cells[0].textContent))
"""


Crowd = Callable[[int], tuple[dict[str, Outcome], Tab]]


@pytest.fixture(scope="module")
def crowd(
    browser: Browser, results: dict[str, Outcome], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Crowd]:
    """A report of so many results, drawn, with those results by name. Many of them are alike."""
    with ExitStack() as pages:

        @cache
        def look(many: int) -> tuple[dict[str, Outcome], Tab]:
            names = list(results)
            named = {f"{names[n % len(names)]}-{n}": results[names[n % len(names)]] for n in range(many)}
            path = tmp_path_factory.mktemp("crowd") / "many.html"
            charts = chapters(named) if many == 13 else []  # the reports above have charts of fewer
            path.write_text(page(named, charts, title="many"), encoding="utf-8")
            opened = pages.enter_context(browser.tab())
            opened.open(path, width=FIRST[many])
            return named, opened

        yield look


# How wide the screen is when a page of so many results is opened.
FIRST = {2: 420, 7: 1280, 13: 420}


@pytest.mark.parametrize("many", FIRST)
def test_tables_end_at_a_column_and_say_what_follows(crowd: Crowd, many: int) -> None:
    _, browser = crowd(many)
    for width in sorted((420, 1280), key=lambda width: width != FIRST[many]):
        browser.evaluate(f"({SCROLLED})(0)")
        browser.resize(width)
        browser.evaluate(STEADY % WIDTHS)
        assert browser.evaluate(STRADDLING) == []
        assert browser.evaluate("document.documentElement.scrollWidth") == width
        for by in (70, 10_000):
            wide = browser.evaluate(f"({SCROLLED})({by})")
            if width == 420 and many > 2:
                assert wide > 0
            assert browser.evaluate(STRADDLING) == []


def test_a_click_sorts_every_table_and_a_second_one_turns_it_round(crowd: Crowd) -> None:
    named, browser = crowd(13)
    for key, title, reverse in (
        ("mean_jct", None, False),
        ("p99_wait", "p99", False),
        ("p99_wait", "p99", True),
    ):
        if title is not None:
            browser.evaluate(
                "[...document.querySelectorAll('.ranked table')[1].querySelectorAll('button')]"
                f".find((one) => one.textContent === '{title}').click()"
            )
        sign = -1 if reverse else 1
        numbers = {label: number for number, label in enumerate(named)}
        order = sorted(named, key=lambda label: (sign * named[label].summary[key], numbers[label]))
        tables = browser.evaluate(FIRST_CELLS)
        assert len(tables) >= 5
        assert all(table == order for table in tables)
        shown = browser.evaluate("document.querySelectorAll('.ranked th[aria-sort]').length")
        assert shown == 1
