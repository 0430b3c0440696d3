"""Names where room is short: wrapped or shortened in their middle, never cut, never alike."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import altair as alt
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ringbco
from ringbco.reports.drawing import draw
from ringbco.reports.names import label_expression, on_lines, shortened, width
from ringbco.reports.plots import Plots
from ringbco.reports.series import legend
from ringbco.reports.shapes import names_axis

LONG = "fifo --order fairshare --queue easy --placement best-fit --preempt-cost 30"
NAMES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1), unique=True
)


@given(NAMES, st.floats(30.0, 300.0))
def test_names_keep_both_ends_and_stay_different(names: list[str], room: float) -> None:
    texts = shortened(names, room)
    assert list(texts) == names
    assert len(set(texts.values())) == len(names)
    in_full = all(name == text for name, text in texts.items())
    for name, text in texts.items():
        if width(name) <= room:
            assert text == name
        elif not in_full and text != name:
            begin, _, end = text.partition("\N{HORIZONTAL ELLIPSIS}")
            assert name.startswith(begin)
            assert name.endswith(end)
            assert begin
            assert end


@pytest.mark.parametrize("place", [0, 20, 40, 72])
def test_what_differs_is_never_what_is_left_out(place: int) -> None:
    other = f"{LONG[:place]}X{LONG[place + 1 :]}"
    texts = shortened([LONG, other], 150.0)
    assert texts[LONG] != texts[other]
    if place in (0, 72):
        assert max(map(width, texts.values())) <= 150.0


def test_a_name_is_put_on_two_lines_where_there_is_room() -> None:
    assert on_lines(["sjf-bco over measured links"], 150.0, wrap=True) == {
        "sjf-bco over measured links": "sjf-bco over\nmeasured links"
    }
    ((_, alone),) = on_lines(["sjf-bco over measured links"], 150.0, wrap=False).items()
    assert "\n" not in alone
    assert width(alone) <= 150.0
    both = on_lines([LONG], 150.0, wrap=True)[LONG].split("\n")
    assert len(both) == 2
    assert all(width(line) <= 150.0 for line in both)


@pytest.mark.parametrize("name", [LONG, "it's \"<&", "W" * 40])
def test_charts_write_them_whole(name: str) -> None:
    """What is drawn is the text that was worked out: the drawing library cuts nothing."""
    names = [name, "fifo"]
    data = pl.DataFrame({"at": names, "value": [1.0, 2.0]})
    chart = alt.Chart(data).mark_point().encode(
        x="value:Q",
        y=names_axis(names, "at"),
        color=alt.Color("at:N", scale=alt.Scale(domain=names), legend=legend(names, 4)),
    )  # fmt: skip
    texts = set(ElementTree.fromstring(draw("svg", json.dumps(chart.to_dict()))).itertext())
    assert {*on_lines(names, 150.0, wrap=True)[name].split("\n"), shortened(names, 280.0)[name]} <= texts


def test_notebooks_and_pictures_of_comparisons_write_them_whole() -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [60.0]})
    outcome = ringbco.replay(jobs, "1x2", policy="fifo")
    for name in (LONG, "W" * 25):
        drawn = draw("svg", json.dumps(Plots({name: outcome, "fifo": outcome}).jct().to_dict()))
        assert shortened([name, "fifo"], 280.0)[name] in set(ElementTree.fromstring(drawn).itertext())


def test_names_that_fit_need_no_expression() -> None:
    assert label_expression(shortened(["fifo", "sjf"], 150.0)) is None
