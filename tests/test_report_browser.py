"""The report as a reader sees it: opened in headless Chromium, light, dark and printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Page, find_chromium
from ringbco import Outcome, replay
from ringbco.report.figures import chapters
from ringbco.report.html import page
from test_report import busy_jobs

POLICIES = ("fifo", "rand", "sjf-bco")
DRAWN = (
    "new Promise(done => { const look = () => document.body.dataset.drawn"
    " ? done(document.body.dataset.drawn) : requestAnimationFrame(look); look(); })"
)
# Per chart: the marks that hold something to see.
MARKS = """Object.fromEntries([...document.querySelectorAll(".chart")].map(chart => [
    chart.id, chart.querySelectorAll(".role-mark path, .role-mark text, .role-mark line").length]))"""


@pytest.fixture(scope="module")
def chromium() -> str:
    program = find_chromium()
    if program is None:
        pytest.skip("no chromium on the path; apt-get install chromium, or set RINGBCO_CHROMIUM")
    return program


@pytest.fixture(scope="module")
def results() -> dict[str, Outcome]:
    return {policy: replay(busy_jobs(), "4x4", policy=policy) for policy in (*POLICIES, "time-slice")}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, results: dict[str, Outcome]) -> Path:
    results = {policy: results[policy] for policy in POLICIES}
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(results, chapters(results), title="three policies"), encoding="utf-8")
    return path


@pytest.fixture
def browser(chromium: str, tmp_path: Path) -> Iterator[Page]:
    with Page(chromium, tmp_path / "profile") as opened:
        yield opened


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_chart_is_drawn_without_a_complaint_or_a_request(
    browser: Page, report: Path, dark: bool
) -> None:
    browser.open(report, dark=dark)
    drawn = re.fullmatch(r"(\d+) of (\d+)", browser.evaluate(DRAWN))
    assert drawn is not None
    marks = browser.evaluate(MARKS)
    assert drawn[1] == drawn[2] == str(len(marks))
    assert min(marks.values()) > 0, marks
    assert browser.complaints() == []
    assert browser.requests() == [report.resolve().as_uri()]
    ink, paper = (
        sum(map(int, re.findall(r"\d+", browser.evaluate(f"getComputedStyle(document.body).{name}"))))
        for name in ("color", "backgroundColor")
    )
    assert (ink > paper) == dark
    label = browser.evaluate(
        "getComputedStyle(document.querySelector('#chart-jct .role-axis-label text')).fill"
    )
    assert sum(map(int, re.findall(r"\d+", label))) == ink


def test_a_result_can_be_switched_off(browser: Page, report: Path) -> None:
    browser.open(report)
    browser.evaluate(DRAWN)
    before = browser.evaluate(MARKS)
    browser.evaluate("document.querySelector('nav input').click()")
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
    assert browser.complaints() == []


def test_the_charts_over_time_move_together(browser: Page, report: Path) -> None:
    """Dragging one chart moves the axis of the others."""
    browser.open(report)
    browser.evaluate(DRAWN)
    browser.evaluate("document.getElementById('utilisation').scrollIntoView()")
    labels = (
        "[...document.querySelectorAll('#chart-{} .role-axis-label text')].map(t => t.textContent).join()"
    )
    before = browser.evaluate(labels.format("queue"))
    place = browser.evaluate(
        "(r => [r.x + r.width / 2, r.y + r.height / 2])"
        "(document.querySelector('#chart-utilisation svg').getBoundingClientRect())"
    )
    for kind, shift in (("mousePressed", 0), ("mouseMoved", 120), ("mouseReleased", 120)):
        browser.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=place[0] + shift,
            y=place[1],
            button="left",
            buttons=1,
            clickCount=1,
        )
    changed = (
        "new Promise(done => { let left = 200; const look = () => (%s) !== %r || !left--"
        " ? done(%s) : requestAnimationFrame(look); look(); })"
    )
    now = labels.format("queue")
    assert browser.evaluate(changed % (now, before, now)) != before
    assert browser.complaints() == []


def test_it_prints(browser: Page, report: Path) -> None:
    browser.open(report, dark=True)
    browser.evaluate(DRAWN)
    pdf = browser.print()
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


@pytest.mark.parametrize("width", [320, 420, 600, 800, 1400])
def test_no_legend_is_cut_and_nothing_is_wider_than_the_screen(
    browser: Page, results: dict[str, Outcome], tmp_path: Path, width: int
) -> None:
    named = {
        "sjf-bco": results["sjf-bco"],
        "a result with a rather long name": results["time-slice"],
        **{f"policy number {number}": results["rand"] for number in range(3)},
    }
    path = tmp_path / "named.html"
    path.write_text(page(named, chapters(named), title="many names"), encoding="utf-8")
    browser.open(path, width=width)
    browser.evaluate(DRAWN)
    legends = browser.evaluate("document.querySelectorAll('.chart .role-legend text').length")
    assert legends > 20
    assert browser.evaluate(CUT) == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_a_cut_legend_is_noticed(browser: Page, report: Path) -> None:
    browser.open(report, width=420)
    browser.evaluate(DRAWN)
    entry = "document.querySelector('#chart-time .role-legend-entry')"
    browser.evaluate(f"{entry}.setAttribute('transform', 'translate(900, 0)')")
    assert any("chart-time" in text for text in browser.evaluate(CUT))


def test_the_longest_waits_are_unfolded_on_paper(browser: Page, report: Path) -> None:
    browser.open(report)
    browser.evaluate(DRAWN)
    browser.evaluate(
        "window.seen = null; window.matchMedia('print').addEventListener('change', told => {"
        " if (told.matches) window.seen = [...document.querySelectorAll('details')].map(d => d.open); })"
    )
    folded = "[...document.querySelectorAll('details')].map(d => d.open)"
    assert browser.evaluate(folded) == [False] * len(POLICIES)
    browser.print()
    assert browser.evaluate("window.seen") == [True] * len(POLICIES)
    assert browser.evaluate(folded) == [False] * len(POLICIES)


def test_a_chart_that_fails_is_noticed(browser: Page, report: Path, tmp_path: Path) -> None:
    """The tests above would see a chart that cannot be drawn: its error is told and its place says so."""
    broken = tmp_path / "broken.html"
    text = report.read_text(encoding="utf-8")
    assert '"mark":{"type":"bar"}' in text
    broken.write_text(
        text.replace('"mark":{"type":"bar"}', '"mark":{"type":"nonsense"}', 1), encoding="utf-8"
    )
    browser.open(broken)
    drawn = browser.evaluate(DRAWN).split(" of ")
    assert int(drawn[0]) == int(drawn[1]) - 1
    assert any("chart-time" in complaint for complaint in browser.complaints())


def test_nothing_can_leave_the_page(browser: Page, report: Path, tmp_path: Path) -> None:
    """Even a page that were made to ask for something would get nothing, and the tests above would see it."""
    nosy = tmp_path / "nosy.html"
    text = report.read_text(encoding="utf-8")
    asks = '<img src="http://127.0.0.1:9/x.png"><script>fetch("http://127.0.0.1:9/y").catch(() => 0)</script>'
    nosy.write_text(text.replace("<noscript>", asks + "<noscript>", 1), encoding="utf-8")
    browser.open(nosy)
    browser.evaluate(DRAWN)
    assert any("Content Security Policy" in complaint for complaint in browser.complaints())


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
SCROLLED = """
(by) => new Promise((done) => {
  const all = [...document.querySelectorAll(".scroll")];
  const wide = all.filter((one) => one.scrollWidth > one.clientWidth + 1);
  for (const one of wide) one.scrollLeft = by;
  setTimeout(() => done(wide.length), 700);
})
"""
FIRST_CELLS = """
[...document.querySelectorAll(".ranked table")].map((table) =>
  [...table.tBodies[0].rows].map((row) => row.cells[0].textContent))
"""


@pytest.mark.parametrize("width", [420, 1280])
@pytest.mark.parametrize("many", [2, 7, 13])
def test_tables_end_at_a_column_and_say_what_follows(
    browser: Page, results: dict[str, Outcome], tmp_path: Path, width: int, many: int
) -> None:
    names = list(results)
    named = {f"{names[n % len(names)]}-{n}": results[names[n % len(names)]] for n in range(many)}
    path = tmp_path / "many.html"
    path.write_text(page(named, chapters(named), title="many"), encoding="utf-8")
    browser.open(path, width=width)
    browser.evaluate(DRAWN)
    assert browser.evaluate(STRADDLING) == []
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    for by in (70, 10_000):
        wide = browser.evaluate(f"({SCROLLED})({by})")
        if width == 420 and many > 2:
            assert wide > 0
        assert browser.evaluate(STRADDLING) == []


def test_a_click_sorts_every_table_and_a_second_one_turns_it_round(
    browser: Page, results: dict[str, Outcome], tmp_path: Path
) -> None:
    names = list(results)
    named = {f"{names[n % len(names)]} {n}": results[names[n % len(names)]] for n in range(9)}
    path = tmp_path / "sorted.html"
    path.write_text(page(named, chapters(named), title="sorted"), encoding="utf-8")
    browser.open(path)
    browser.evaluate(DRAWN)
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
