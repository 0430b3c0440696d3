"""The player and the timeline where jobs hold the same GPUs: both are shown, and their GPUs count once."""

from pathlib import Path

import pytest

from browser import Browser
from ringbco.reports.cluster_state import cluster_state
from ringbco.reports.player import play, player
from ringbco.reports.viewport import Viewport
from ringbco.result.outcome import Outcome
from test_player_browser import READY
from test_report_seats import run


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """a is on 4 GPUs from 0 to 108 s, b beside it from 10 to 50 s, c on one of its own from 0 to 20 s."""
    return run()


def test_busy_gpus_count_once(outcome: Outcome) -> None:
    steps = cluster_state(outcome, Viewport(0.0, 108.0, (0, 1)))["busy_gpus"]
    assert steps.rows() == [(0.0, 5.0), (20.0, 4.0), (108.0, 0.0)]


def test_a_page_has_seats_where_a_result_has(outcome: Outcome) -> None:
    told, _ = player({"own": outcome})
    names = [name for name, _ in told["results"][0]["stays"]["columns"]]
    assert {"seat", "taken"} <= set(names)
    told, _ = player({"own": run(jobs_per_gpu=1, tables=None)})
    names = [name for name, _ in told["results"][0]["stays"]["columns"]]
    assert not {"seat", "taken"} & set(names)


@pytest.mark.long
def test_both_jobs_are_on_the_gpus(browser: Browser, outcome: Outcome, tmp_path: Path) -> None:
    """The left half of each square is one's, the right half the other's; the pointer tells of both."""
    page = play({"own": outcome}, tmp_path / "play.html").path
    with browser.tab() as tab:
        tab.open(page)
        tab.evaluate(READY)
        cells = """(() => { const scene = ringbcoPlayer.scenes()[0], found = {};
            for (let row = 0; row < scene.held.rows; row++) {
                const job = scene.ids[scene.stays.job[scene.held.stay[row]]];
                found[job] = Array.from(scene.cells.slice(scene.from[row], scene.from[row + 1]));
            }
            return found; })()"""
        held = tab.evaluate(cells)
        assert sorted(held["a"]) == sorted(held["b"])
        assert not set(held["c"]) & set(held["a"])

        def at(seconds: float) -> None:
            tab.evaluate(f"ringbcoPlayer.move(ringbcoPlayer.last * {seconds / 108.0})")
            tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

        def tip(part: float) -> str:
            """What is said of the first GPU of server 1, at a part of its width."""
            box = tab.do(lambda page: page.locator(".side canvas").first.bounding_box())
            assert box is not None
            tab.do(lambda page: page.mouse.move(box["x"] + 148 + 36 * part, box["y"] + 13 + 18))
            said: str = tab.evaluate("document.querySelector('[data-at=tip]').innerText")
            return said

        at(30.0)
        assert tab.evaluate("document.querySelector('.state').textContent").startswith("4 of 8 GPUs busy")
        left, right = tip(0.25), tip(0.75)
        assert {left.splitlines()[0], right.splitlines()[0]} == {"a", "b"}
        assert "on the same GPUs: b" in (left if left.startswith("a") else right)
        at(60.0)
        assert tip(0.25).splitlines()[0] == tip(0.75).splitlines()[0] == "a"
        assert "on the same GPUs" not in tip(0.25)
        busy = tab.evaluate("ringbcoPlayer.series(0).busy")
        assert busy[300] == pytest.approx(4.0)
        assert max(busy) == pytest.approx(5.0)
        assert tab.complaints == []
