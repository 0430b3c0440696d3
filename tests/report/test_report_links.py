"""What the report and `why` say of uplinks (docs/tiers.md#results)."""

from __future__ import annotations

import pytest

from engine.test_tiers_by_hand import TEN, case_of, spanning
from ringbco.reports.answer import answer
from ringbco.reports.data_links import busiest, loads
from ringbco.reports.figures import chapters
from ringbco.result.comparison import as_comparison
from ringbco.result.outcome import Outcome

RACKS = [{"name": "rack", "bandwidth": TEN / 2, "servers": 1}]


def outcome_of() -> Outcome:
    """j0 on servers 0 and 1, j1 on 1 and 2; alone 3 s an iteration over uplinks, 5 s where they meet."""
    jobs = spanning(2, gpus=3)
    jobs[1]["iterations"] = 150
    return case_of(3, jobs, RACKS, gpus=2, sample=1.0).replay()


def test_the_load_of_uplinks_over_time() -> None:
    outcome = outcome_of()
    grid, names = loads(outcome, 0.0, 500.0)
    # 10e9 bytes in 5 s of 5e9 bytes/s each: 0.4, 0.8 where both are; from 500 s on j1 alone.
    assert names == ["rack 1", "rack 0", "rack 2"]
    assert grid[0] == pytest.approx([0.8] * 96)
    assert grid[1] == pytest.approx([0.4] * 96)
    grid, names = loads(outcome, 500.0, 650.0)
    assert names[:2] == ["rack 1", "rack 2"]
    assert grid[0] == pytest.approx([2 / 3] * 96)
    assert grid[2] == pytest.approx([0.0] * 96)


def test_a_row_for_each_of_the_busiest() -> None:
    outcome = outcome_of()
    (part,) = busiest({"own": outcome})
    assert part.also["names"][0] == "rack 1"
    assert part.also["top"] == pytest.approx(0.8)
    assert set(part.data["link"]) == {"rack 0", "rack 1", "rack 2"}
    assert any(
        figure.name == "links-1" for chapter in chapters({"own": outcome}) for figure in chapter.figures
    )


def test_without_tiers_there_is_no_chart() -> None:
    outcome = case_of(3, spanning(2, gpus=3), [], gpus=2).replay()
    assert list(busiest({"own": outcome})) == []
    idle = case_of(3, spanning(1), RACKS, gpus=2).replay()
    (part,) = busiest({"own": idle})
    assert part.instead == "No job sent anything over an uplink."


def test_the_first_sentence_says_what_uplinks_cost() -> None:
    # 500 s x 2 x 3 GPUs x 2 / 5, then 150 s x 3 GPUs x 1 / 3.
    first, *_ = answer(as_comparison({"own": outcome_of()}))
    assert first == (
        "Uplinks cost 0.375 GPU-hours, 39 % of those held;"
        " the busiest is that of rack 1, with a mean load of 77 %."
    )
    idle = case_of(3, spanning(1), RACKS, gpus=2).replay()
    assert answer(as_comparison({"own": idle}))[0] == "Uplinks cost nothing: no job sent anything over one."


def test_why_names_the_uplink_and_the_jobs_on_it() -> None:
    outcome = outcome_of()
    told = " ".join(outcome.why("j0").sentences)
    busiest_one = "The busiest uplink that it crossed was that of rack 1, loaded 80 % on average"
    assert f"{busiest_one}, with j1 (for 8.3 min)." in told
    assert "Its uplinks cost 3.3 min." in told
    facts = {fact.kind: fact.figures for fact in outcome.why("j1").facts}
    assert facts["crossed"]["beside"] == [{"job": "j0", "seconds": 500.0}]
    assert facts["crossed"]["load"] == pytest.approx((500 * 0.8 + 150 * 2 / 3) / 650)
    # Who waits for no uplink hears nothing of one.
    fast = case_of(3, spanning(2, gpus=3), [{**RACKS[0], "bandwidth": 1e15}], gpus=2).replay()
    assert "uplink" not in " ".join(fast.why("j0").sentences)
