"""The player as its user has it: played, scrubbed and followed, by pointer, keyboard and screen reader."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from browser import Browser, Tab
from frames import busy_jobs, rows_table
from ringbco.reports.player import play
from ringbco.result.outcome import Outcome

pytestmark = pytest.mark.long

READY = """new Promise(done => {
    const look = () => player.dataset.ready === undefined ? setTimeout(look, 10) : done(1);
    look(); })"""
AT = "document.querySelector('[data-at={}]')"


@pytest.fixture(scope="module")
def results() -> dict[str, Outcome]:
    outages = pl.DataFrame({"server": [1], "down_at": [10.0], "up_at": [400.0], "cause": ["power"]})
    return {
        policy: ringbco.replay(busy_jobs(), "4x4", policy=policy, outages=outages)
        for policy in ("fifo", "srtf")
    }


@pytest.fixture(scope="module")
def page(results: dict[str, Outcome], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play(results, tmp_path_factory.mktemp("play") / "play.html").path


@pytest.fixture
def tab(browser: Browser, page: Path) -> Iterator[Tab]:
    with browser.tab() as opened:
        opened.open(page)
        opened.evaluate(READY)
        yield opened


def text(tab: Tab, name: str) -> str:
    told: str = tab.evaluate(f"{AT.format(name)}.textContent")
    return told


def settle(tab: Tab) -> None:
    """Waits until what was asked for is drawn."""
    tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def press(tab: Tab, *keys: str) -> None:
    for key in keys:
        tab.do(lambda page, key=key: page.keyboard.press(key))
    settle(tab)


def place(tab: Tab) -> float:
    message: float = tab.evaluate(f"Number({AT.format('place')}.value)")
    return message


def view(tab: Tab) -> tuple[float, float]:
    """The part of the clock that the track shows, in millionths of it."""
    slider = AT.format("place")
    told = tab.evaluate(f"[Number({slider}.min), Number({slider}.max)]")
    return told[0], told[1]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [420, 1280, 2560])
def test_the_page_is_sound(browser: Browser, page: Path, width: int, dark: bool) -> None:
    with browser.tab() as opened:
        opened.open(page, width=width, dark=dark)
        opened.evaluate(READY)
        assert opened.faults() == []
        opened.evaluate(f"{AT.format('as-table')}.click()")
        settle(opened)
        assert opened.faults() == []


def test_all_of_it_by_keyboard(tab: Tab, results: dict[str, Outcome]) -> None:
    assert place(tab) > 0
    assert text(tab, "why") == "Opened at the longest queue of fifo."
    press(tab, "t", "t")  # without a click or a tab before
    assert tab.evaluate(f"{AT.format('table')}.hidden")
    press(tab, "t")
    assert tab.evaluate(f"{AT.format('table')}.scrollHeight <= {AT.format('table')}.clientHeight")  # uncut
    press(tab, "t")
    shown = view(tab)[1]  # up to the last submission
    assert 0.2e6 < shown < 0.9e6
    press(tab, "Home", "ArrowRight")
    step = place(tab)
    assert shown / 620 < step < shown / 580
    press(tab, "Shift+ArrowRight")
    assert place(tab) == pytest.approx(step + shown / 50, abs=2)
    press(tab, "ArrowLeft", "Home")
    assert place(tab) == 0
    press(tab, "End")
    assert place(tab) == 1e6
    press(tab, "p")
    last = place(tab)
    press(tab, "p")
    assert 0 < place(tab) < last
    press(tab, "n")
    assert place(tab) == last
    press(tab, "Home", " ")
    assert text(tab, "play") == "Pause"
    tab.do(lambda page: page.wait_for_timeout(400))
    press(tab, " ")
    assert text(tab, "play") == "Play"
    assert place(tab) > 0
    job = results["fifo"].jobs["job_id"][0]
    press(tab, "f")
    tab.do(lambda page: page.keyboard.type(job))
    press(tab, "Enter")
    assert f"Following {job}" in text(tab, "story")
    assert text(tab, "why") == ""
    box = f"{AT.format('story')}.getBoundingClientRect()"
    assert tab.evaluate(f"{box}.top >= 0 && {box}.bottom <= innerHeight")  # in view
    tab.evaluate("scrollTo(0, 0)")
    press(tab, "Enter")  # the same job again
    assert tab.evaluate(f"{box}.top >= 0 && {box}.bottom <= innerHeight")
    assert "waiting" in tab.evaluate(f"{AT.format('story')}.querySelector('.keys').textContent")
    assert tab.evaluate(f"{AT.format('story')}.querySelector('.axis').textContent").startswith("day 0")
    press(tab, "Escape")
    assert tab.evaluate(f"{AT.format('story')}.hidden")
    tab.evaluate(f"{AT.format('place')}.focus()")
    press(tab, "t")
    assert tab.evaluate("document.querySelectorAll('[data-at=table] tbody tr').length") == 2 * 4


def states(tab: Tab) -> list[str]:
    recorded: list[str] = tab.evaluate("[...document.querySelectorAll('.state')].map(one => one.textContent)")
    return recorded


def test_what_is_said_is_what_the_result_has(tab: Tab, results: dict[str, Outcome]) -> None:
    first, last = (
        op(op(one.allocations[name]) for one in results.values())  # type: ignore[index]
        for op, name in ((min, "start_time"), (max, "end_time"))
    )
    first = min(first, *(one.timeline["time"][0] for one in results.values()))
    for share in (0.11, 0.37, 0.61):
        time = first + share * (last - first)
        tab.evaluate(f"ringbcoPlayer.move(ringbcoPlayer.last * {share})")
        settle(tab)
        for told, outcome in zip(states(tab), results.values(), strict=True):
            held = outcome.allocations
            assert held is not None
            now = held.filter(pl.col("start_time") <= time, pl.col("end_time") > time)
            assert told.startswith(f"{now['num_gpus'].sum()} of 16 GPUs busy"), (share, told)


def test_a_click_follows_the_job_and_draws_its_ring(tab: Tab) -> None:
    tab.evaluate("ringbcoPlayer.move(ringbcoPlayer.last * 0.2)")
    settle(tab)
    box: dict[str, Any] = tab.evaluate(
        "(box => ({x: box.x, y: box.y}))(document.querySelector('.side canvas').getBoundingClientRect())"
    )
    before = tab.evaluate("document.querySelector('.side canvas').toDataURL()")
    tab.do(lambda page: page.mouse.move(box["x"] + 6, box["y"] + 20))
    assert "submitted day 0" in text(tab, "tip")
    assert text(tab, "tip").endswith("server 0")
    tab.do(lambda page: page.mouse.click(box["x"] + 6, box["y"] + 20))
    settle(tab)
    assert "Following" in text(tab, "story")
    assert "held" in text(tab, "story")
    assert tab.evaluate("document.querySelector('.side canvas').toDataURL()") != before


def drag(tab: Tab, begin: float, end: float) -> None:
    """Over the track, from one share of its width to another."""
    box: dict[str, float] = tab.evaluate(
        f"(box => ({{x: box.x, y: box.y, width: box.width}}))({AT.format('track')}.getBoundingClientRect())"
    )

    def move(page: Any) -> None:
        page.mouse.move(box["x"] + begin * box["width"], box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + end * box["width"], box["y"] + 40)
        page.mouse.up()

    tab.do(move)
    settle(tab)


def test_a_drag_over_the_track_zooms_and_a_double_click_shows_all(tab: Tab) -> None:
    _, last = view(tab)
    assert "Up to the last submission" in text(tab, "part")
    drag(tab, 0.5, 0.75)
    assert view(tab) == pytest.approx((last * 0.5, last * 0.75), rel=0.01)
    assert last * 0.49 <= place(tab) <= last * 0.76  # what is shown is in it
    begin, end = view(tab)
    drag(tab, 0.8, 0.2)  # backwards, into what is shown
    assert view(tab) == pytest.approx((begin + 0.2 * (end - begin), begin + 0.8 * (end - begin)), rel=0.01)
    begin, end = view(tab)
    drag(tab, 0.5, 0.5)  # a click goes there
    assert view(tab) == (begin, end)
    assert place(tab) == pytest.approx((begin + end) / 2, rel=0.01)
    tab.evaluate(f"{AT.format('track')}.dispatchEvent(new MouseEvent('dblclick'))")
    settle(tab)
    assert view(tab) == (0, 1e6)
    assert tab.evaluate(f"{AT.format('all')}.disabled")
    assert text(tab, "part") == ""


def test_the_track_turns_to_what_happens_beyond_it(tab: Tab) -> None:
    _, last = view(tab)
    tab.evaluate(f"{AT.format('place')}.focus()")
    press(tab, "End")
    begin, end = view(tab)
    assert end == 1e6
    assert end - begin == pytest.approx(last)
    press(tab, "+", "+")
    begin, end = view(tab)
    assert end - begin == pytest.approx(last / 16)
    assert begin <= place(tab) <= end
    press(tab, "-")
    assert view(tab)[1] - view(tab)[0] == pytest.approx(last / 4)
    press(tab, "a")
    assert view(tab) == (0, 1e6)


def test_the_track_draws_means_over_even_steps(browser: Browser, tmp_path: Path) -> None:
    jobs = rows_table("submit_time num_gpus duration", [(0.0, 2, 600.0), (0.0, 2, 600.0), (1100.0, 1, 200.0)])
    outcome = ringbco.replay(jobs, "1x2", policy="fifo", model="fixed")
    with browser.tab() as opened:
        opened.open(play({"fifo": outcome}, tmp_path / "play.html").path)
        opened.evaluate(READY)
        assert opened.evaluate("ringbcoPlayer.track.marks(600)[0][2]").startswith("day 0")
        whole = opened.evaluate("ringbcoPlayer.series(0)")
        # 1,400 s: two after each other, then the last; 600 steps.
        ends = [round(1200 / 1400 * 600), round(600 / 1400 * 600), round(1100 / 1400 * 600)]
        assert whole["busy"][: ends[0] - 1] == [2.0] * (ends[0] - 1)
        assert whole["busy"][ends[0] + 1 :] == [1.0] * (599 - ends[0])
        assert whole["queued"][: ends[1] - 1] == [1.0] * (ends[1] - 1)
        assert whole["queued"][ends[1] + 1 : ends[2] - 1] == [0.0] * (ends[2] - ends[1] - 2)
        assert sum(whole["busy"]) / 600 == pytest.approx((2 * 1200 + 200) / 1400, rel=1e-3)
        half = opened.evaluate("ringbcoPlayer.series(0, ringbcoPlayer.last / 2, ringbcoPlayer.last)")
        assert sum(half["busy"]) / 600 == pytest.approx((2 * 500 + 200) / 700, rel=1e-3)
        assert sum(half["queued"]) / 600 == pytest.approx(100 / 700, rel=1e-3)


@pytest.mark.parametrize("width", [390, 1000, 1400])
def test_colours_are_explained_above_what_they_colour(browser: Browser, page: Path, width: int) -> None:
    with browser.tab() as opened:
        opened.open(page, width=width)
        opened.evaluate(READY)
        opened.evaluate(f"{AT.format('colour')}.value = 'size'")
        opened.evaluate(f"{AT.format('colour')}.dispatchEvent(new Event('change'))")
        settle(opened)
        bottom = opened.evaluate(f"{AT.format('key')}.getBoundingClientRect().bottom")
        assert bottom <= opened.evaluate("document.querySelector('.sides').getBoundingClientRect().top")
        assert bottom < 900
        assert opened.faults() == []


def test_unix_seconds_are_dates_the_same_as_those_of_why(browser: Browser, tmp_path: Path) -> None:
    jobs = busy_jobs().with_columns(pl.col("submit_time") + 1_772_409_600.0)
    outcome = ringbco.replay(jobs, "4x4", policy="fifo")
    with browser.tab() as opened:
        opened.open(play({"fifo": outcome}, tmp_path / "play.html").path)
        opened.evaluate(READY)
        assert re.fullmatch(r"2026-03-02 0\d:\d\d:\d\d", text(opened, "clock"))
        assert "20514" not in opened.evaluate("document.body.textContent").replace(",", "")
        job = outcome.jobs.sort("waited")["job_id"][-1]
        find = AT.format("find")
        opened.evaluate(f"{find}.value = {job!r}; {find}.dispatchEvent(new Event('change'))")
        settle(opened)
        (date,) = re.findall(r"submitted (2026-03-02 \d\d:\d\d:\d\d)", text(opened, "story"))
        assert outcome.why(job).sentences[0].startswith(f"Submitted at {date}.")


def test_a_job_that_is_not_there_is_said(tab: Tab) -> None:
    tab.evaluate(
        f"{AT.format('find')}.value = 'nobody'; {AT.format('find')}.dispatchEvent(new Event('change'))"
    )
    settle(tab)
    assert text(tab, "missing") == "no job named nobody"
    assert tab.evaluate(f"{AT.format('find')}.value") == "nobody"
    press(tab, "f", "Escape")
    assert text(tab, "missing") == tab.evaluate(f"{AT.format('find')}.value") == ""


def test_less_motion_where_the_reader_asks_for_less(browser: Browser, page: Path) -> None:
    with browser.tab() as opened:
        opened.do(lambda page: page.emulate_media(reduced_motion="reduce"))
        opened.open(page)
        opened.evaluate(READY)
        opened.evaluate("ringbcoPlayer.move(0)")
        settle(opened)
        opened.evaluate(f"{AT.format('play')}.click()")
        opened.do(lambda page: page.wait_for_timeout(600))
        assert place(opened) == 0  # a step a second
        opened.do(lambda page: page.wait_for_timeout(900))
        assert place(opened) > 0


@pytest.mark.parametrize("policy", ["fifo", "srtf"])
def test_a_followed_job_has_the_holders_and_the_place_of_why(
    tab: Tab, results: dict[str, Outcome], policy: str
) -> None:
    outcome, side = results[policy], list(results).index(policy)
    compared = 0
    for job in outcome.jobs.sort("waited", descending=True)["job_id"][:12]:
        facts = {fact.kind: fact.figures for fact in outcome.why(job).facts}
        if "most held" not in facts or "queue" not in facts:
            continue
        tab.evaluate(
            f"{AT.format('find')}.value = {job!r}; {AT.format('find')}.dispatchEvent(new Event('change'))"
        )
        settle(tab)
        told = text(tab, "story").split("fifo: ")[1].split("srtf: ")[side]
        names = [held["job"] for held in facts["most held"]["holders"]]
        said = re.search(r"most GPUs were held by (.*? on average\).*?)\.(?!\d)", told)
        assert said is not None
        assert [part.split(" (")[0] for part in said[1].split(", ")] == names, job
        queue = facts["queue"]
        assert re.search(rf"{queue['others']} jobs? (was|were) already queued", told), job
        # A page of a table that was made in memory knows no run times, by which srtf goes.
        if policy == "fifo":
            before = queue["place"] - 1
            assert f"{'all' if before == queue['others'] else before or 'none'} ahead of it" in told, job
        compared += 1
    assert compared >= 5


def test_the_page_of_a_report_has_the_player(
    browser: Browser, results: dict[str, Outcome], tmp_path: Path
) -> None:
    path = ringbco.report(results, tmp_path / "report.html").path
    for width in (420, 1280):
        with browser.tab() as opened:
            opened.open(path, width=width)
            opened.evaluate(READY)
            assert opened.faults() == []
            assert opened.evaluate("document.querySelector('#player').getBoundingClientRect().top") > 300


PAINTED = """(() => {
    const shared = [], scenes = ringbcoPlayer.scenes();
    scenes.forEach(({ stays, held, hue }) => {
        for (let a = 0; a < held.rows; a++) for (let b = 0; b < a; b++) {
            const [one, other] = [held.stay[a], held.stay[b]];
            const [job, beside] = [stays.job[one], stays.job[other]];
            const together = stays.start[one] < stays.end[other] && stays.start[other] < stays.end[one];
            if (job !== beside && together && hue[job] === hue[beside])
                shared.push(Math.abs(held.server[a] - held.server[b]));
        }
    });
    return [shared, scenes.map(({ ids, hue }) => Object.fromEntries(ids.map((id, job) => [id, hue[job]])))];
})()"""


def test_jobs_at_the_same_time_differ_in_colour(tab: Tab) -> None:
    shared, hues = tab.evaluate(PAINTED)
    assert shared == []
    assert hues[0] == hues[1]
    assert text(tab, "key").startswith("Colour: one per job; jobs that run at the same time differ.")


def test_more_jobs_than_colours_differ_beside_each_other(browser: Browser, tmp_path: Path) -> None:
    jobs = rows_table(
        "submit_time num_gpus duration", [(float(n % 7), 1 + n % 2, 50.0 + n) for n in range(160)]
    )
    outcome = ringbco.replay(jobs, "16x8", policy="fifo", model="fixed")
    with browser.tab() as opened:
        opened.open(play({"fifo": outcome}, tmp_path / "play.html").path)
        opened.evaluate(READY)
        shared, _ = opened.evaluate(PAINTED)
        assert shared
        assert min(shared) > 1
        assert "adjacent servers differ" in text(opened, "key")


def test_servers_as_rows_are_below_each_other(tab: Tab) -> None:
    layout = AT.format("layout")
    tab.evaluate(f"{layout}.value = 'rows'; {layout}.dispatchEvent(new Event('change'))")
    settle(tab)
    box = tab.evaluate(
        "(box => ({x: box.x, y: box.y, high: box.height}))"
        "(document.querySelector('.side canvas').getBoundingClientRect())"
    )
    for server in range(4):
        tab.do(lambda page, y=box["y"] + (server + 0.4) * box["high"] / 4: page.mouse.move(box["x"] + 40, y))
        assert f"server {server}" in text(tab, "tip")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("mode", ["size", "waited", "contention"])
def test_neighbours_in_a_scale_of_colours_differ(browser: Browser, page: Path, mode: str, dark: bool) -> None:
    with browser.tab() as opened:
        opened.open(page, dark=dark)
        opened.evaluate(READY)
        colour = AT.format("colour")
        opened.evaluate(f"{colour}.value = '{mode}'; {colour}.dispatchEvent(new Event('change'))")
        swatches = opened.evaluate(
            f"[...{AT.format('key')}.querySelectorAll('i')].map(one => getComputedStyle(one).backgroundColor)"
        )
        *shades, idle = (luminance(*map(int, re.findall(r"\d+", swatch)[:3])) for swatch in swatches)
        assert len(shades) > 4
        for one, other in itertools.pairwise([idle, *shades]):
            assert (max(one, other) + 0.05) / (min(one, other) + 0.05) >= 1.6


def luminance(*rgb: int) -> float:
    """As WCAG has it."""
    parts = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in rgb)
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_a_phone_is_told_of_no_keys(tab: Tab, page: Path) -> None:
    help_ = "getComputedStyle(document.querySelector('.keyboard')).display"
    assert tab.evaluate(help_) != "none"

    def phone(page_: Any) -> str:
        context = page_.context.browser.new_context(has_touch=True, is_mobile=True)
        opened = context.new_page()
        opened.goto(page.as_uri())
        shown: str = opened.evaluate(help_)
        context.close()
        return shown

    assert tab.do(phone) == "none"
