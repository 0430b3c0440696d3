"""Charts over time have dates where the job table knows them, and count from the start where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from frames import busy_jobs
from ringbco import generate, replay
from ringbco.reports.figures import chapters, charts_of
from ringbco.result.dates import zero_of
from ringbco.trace.jobs import from_frame


def axes(results: Any) -> dict[str, tuple[str, str]]:
    """By chart over time: the title and the labels of its axis."""
    found = {}
    for figure in charts_of(chapters(results)):
        chart = figure.chart.to_dict()
        for layer in chart.get("layer", [chart]):
            x = layer["encoding"].get("x", {})
            if x.get("field") == "day":
                found[figure.name] = x["title"], x["axis"].get("labelExpr", "")
    return found


@pytest.mark.parametrize(
    ("epoch", "label"), [("2026-03-02T00:00:00", "03-02 01:00"), ("2026-03-02T11:00:00+01:00", "03-02 12:00")]
)
def test_dates_are_those_of_the_epoch(epoch: str, label: str) -> None:
    dated = from_frame(busy_jobs(100), metadata={"ringbco.epoch": epoch})
    made = axes({"fifo": replay(dated, "4x4", policy="fifo")})
    assert {"utilisation", "queue"} <= set(made)
    for title, labels in made.values():
        assert title == "date"
        assert label in labels


def test_without_an_epoch_time_is_elapsed_and_says_why() -> None:
    unknown = axes({"fifo": replay(busy_jobs(100), "4x4", policy="fifo")})
    (title,) = {title for title, _ in unknown.values()}
    assert title.endswith(" since the first submission (origin unknown)")
    outcome = replay(generate("philly", 200, seed=1, gpus=64), "8x8", policy="fifo")
    assert outcome.run["trace"]["synthetic"] is True
    assert "epoch" not in outcome.run["trace"]
    assert zero_of(outcome) is None
    (title,) = {title for title, _ in axes({"fifo": outcome}).values()}
    assert title.endswith(" since the first submission (synthetic jobs)")
    # Results that do not agree have no one date.
    two = {
        name: replay(from_frame(busy_jobs(100), metadata={"ringbco.epoch": epoch}), "4x4", policy="fifo")
        for name, epoch in (("a", "2026-03-02T00:00:00"), ("b", "2026-03-03T00:00:00"))
    }
    (title,) = {title for title, _ in axes(two).values()}
    assert title.endswith(" since the first submission")
