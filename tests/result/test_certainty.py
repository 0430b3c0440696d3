"""What is told of figures and differences: counted, by hand and from docs/certainty.md."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import NO_TRACE, SHARED
from ringbco import replay
from ringbco.result.certainty import Carried, Held, Runs, depth, figured, held, interval, ratio, starred
from ringbco.result.days import Days, Split, carried, days_of, parts_of
from ringbco.result.figures import COMPARED
from ringbco.result.sentences import Pair, line, of_runs, sentence

INF = math.inf
CASE = SHARED / "cases" / "how-sure.json"


def test_the_depth_is_that_of_exact_binomials() -> None:
    for runs in range(1, 60):
        tails = np.cumsum([Fraction(math.comb(runs, below), 2**runs) for below in range(runs)])
        assert depth(runs) == sum(2 * chance <= Fraction(1, 20) for chance in tails)


def test_ratios() -> None:
    pairs = ((3.0, 2.0), (0.0, 0.0), (1.0 + 1e-10, 1.0), (0.0, 2.0), (2.0, 0.0))
    assert [ratio(*pair) for pair in pairs] == [1.5, 1.0, 1.0, 0.0, INF]


def test_intervals_of_moved_runs_hold_run_0() -> None:
    values = [0.0, *range(10, 21)]  # twelve runs: the third least and the third greatest
    assert interval(values, "fresh tables") == (11, 18)
    assert interval(values, "moved") == (0.0, 18)
    assert interval([1.0] * 5, "moved") is None


def test_figures_and_medians() -> None:
    assert figured([3.0, 1.0, 2.0], "moved") == (3.0, None, 3)
    assert figured([3.0, 1.0, 2.0, 9.0], "fresh tables") == (2.5, None, 4)
    assert figured([3.0, None], "moved") == (3.0, None, 2)
    assert figured([3.0, None], "fresh tables") == (None, None, 2)
    assert figured([1.0, INF, 2.0, INF], "fresh tables").value == INF
    assert held([1.0, None], [1.0, 1.0], "moved") is None
    assert held([1.0], [1.0, 1.0], "moved") is None


@pytest.mark.parametrize(
    ("ratios", "parts", "verdict"),
    [
        ([1.0] * 6, None, "the same"),
        ([1.0] * 6, (1.0, 1.0, 1.0, 1.0, 1.0, 0.9), "cannot be told apart"),
        ([1.0] * 3, None, "the same"),
        ([0.5] * 5, None, "too few runs"),
        ([0.5] * 6, None, "apart on these jobs"),
        ([0.5] * 6, (0.5,) * 6, "apart in all parts"),
        ([0.5] * 6, (0.5,) * 5 + (1.0,), "apart on these jobs"),
        ([0.5] * 6, (0.5,) * 5 + (None,), "apart on these jobs"),
        ([0.5] * 5 + [1.1], (0.5,) * 6, "cannot be told apart"),
        ([2.0] * 6, (2.0, 3.0, 1.1, 1.2, INF, 4.0), "apart in all parts"),
    ],
)
def test_verdicts(ratios: list[float], parts: Any, verdict: str) -> None:
    result = held(ratios, [1.0] * len(ratios), "moved", parts)
    assert result is not None
    assert result.verdict == verdict
    fresh = held(ratios, [1.0] * len(ratios), "fresh tables")
    assert fresh is not None
    if fresh.verdict not in ("the same", "too few runs"):
        assert fresh.verdict == ("apart" if fresh.side else "cannot be told apart")


def test_parts_that_are_empty_have_no_range_and_count_on_no_side() -> None:
    result = Held(0.5, (0.4, 0.6), 6, "apart on these jobs", (0.5, None, 0.7, 1.0, 1.2, 0.9))
    assert result.parts_range is None
    assert result.parts_agreeing == 3
    assert result._replace(parts=(0.5, 0.6, 0.7, 1.0, 1.2, 0.9)).parts_range == (0.5, 1.2)
    assert result._replace(ratio=1.0).parts_agreeing == 0


@pytest.mark.parametrize(
    ("runs", "best"),
    [
        ({"a": [1.0] * 6, "b": [2.0] * 6, "c": [3.0] * 6}, {"a"}),
        ({"a": [1.0] * 6, "b": [1.0] * 6, "c": [3.0] * 6}, {"a", "b"}),
        ({"a": [1.0] * 6, "b": [1.0] * 6}, set()),
        ({"a": [1.0] * 6, "b": [1.1] * 5 + [0.9], "c": [3.0] * 6}, set()),
        ({"a": [1.0] * 5, "b": [2.0] * 5}, set()),
        ({}, set()),
    ],
)
def test_stars(runs: dict[str, list[float]], best: set[str]) -> None:
    values = {label: own[0] for label, own in runs.items()}
    assert starred(values, lambda one, two: held(runs[one], runs[two], "moved"), most=False) == best
    least = {label: -value for label, value in values.items()}
    if best:
        assert starred(least, lambda one, two: held(runs[two], runs[one], "moved"), most=True) == best


def days(day: Any, values: Any, key: str = "mean_jct") -> Days:
    day, values = np.array(day), np.array(values, np.float64)
    known = np.unique(day)
    counts = np.array([(day == one).sum() for one in known])
    return Days(known, counts, {key: np.array([values[day == one].sum() for one in known])}, "")


@given(
    st.lists(st.tuples(st.integers(0, 120), st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=60)
)
def test_parts_are_means_over_days(jobs: list[tuple[int, float, float]]) -> None:
    """Job by job, in plain Python."""
    one = days([day for day, _, _ in jobs], [a for _, a, _ in jobs])
    two = days([day for day, _, _ in jobs], [b for _, _, b in jobs])
    split = Split.of(two)
    first, last = min(day for day, *_ in jobs), max(day for day, *_ in jobs)
    length = last - first + 1
    result = parts_of(one, two, "mean_jct", split)
    if length < 42:
        assert result is None
        return
    assert result is not None
    for part in range(6):
        own = [job for job in jobs if 6 * (job[0] - first) // length == part]
        if not own:
            assert result[part] is None
        else:
            a, b = (math.fsum(job[place] for job in own) / len(own) for place in (1, 2))
            assert result[part] == pytest.approx(ratio(a, b), rel=1e-9)


def test_few_days_that_carry_a_difference() -> None:
    base = days(range(8), [10.0] * 8)
    other = days(range(8), [10.0, 10.0, 70.0, 10.0, 10.0, 10.0, 10.0, 30.0])
    result = carried(other, base, "mean_jct")
    assert result is not None
    assert result == ((2,), 0.75, ratio(90.0, 70.0))
    assert carried(days(range(6), [70.0] + [10.0] * 5), days(range(6), [10.0] * 6), "mean_jct") is None
    assert carried(days(range(8), [20.0] * 8), base, "mean_jct") is None  # no one day has half
    assert carried(base, base, "mean_jct") is None
    assert carried(other, None, "mean_jct") is None  # 70 of 160 is less than half
    assert carried(days(range(8), [90.0] + [10.0] * 7), None, "mean_jct") == ((0,), 90 / 160, 10.0)


def test_a_job_beside_after_is_of_the_day_of_its_own_submission() -> None:
    """Not of its arrival, which is the end of the job before: here on the next day."""
    numbers = range(16)
    frame = pl.DataFrame(
        {
            "job_id": [f"j{number}" for number in numbers],
            "submit_time": [86_400.0 * (number // 2) + number % 2 for number in numbers],
            "num_gpus": [1] * 16,
            "duration": [90_000.0, 100.0] * 8,
            "after": [f"j{number - 1}" if number % 2 else None for number in numbers],
        }
    )
    outcome = days_of(replay(frame, "1x8", policy="fifo", model="fixed"))
    assert (outcome.days.tolist(), outcome.counts.tolist()) == (list(range(8)), [2] * 8)


JCT, P90 = (next(row for row in COMPARED if row.key == key) for key in ("mean_jct", "p90_wait"))
ENDS = (0.873, 0.945)
SIX = (0.691, 1.001, 1.0, 0.99, 1.0, 1.0)
ON_THESE: Any = "apart on these jobs"
APART = Held(0.873, ENDS, 6, ON_THESE, SIX)
NO_PARTS = APART._replace(parts=None)
TIRESIAS = Held(0.97, (0.97, 1.002), 6, "cannot be told apart")
WEEKS = "The trace is under six weeks: other weeks were not looked at."
BEGIN = "sjf's mean completion time is 12.7 % below fifo's on these jobs (5.5 to 12.7 % in 6 runs)."


def pair(kind: Any = "moved", measure: Any = JCT, epoch: str | None = None) -> Pair:
    return Pair("sjf", "fifo", measure, Runs(kind, (), epoch))


NOT_ALL = "Not in all parts of the trace: 30.9 % below to 0.1 % above, below in 2 of 6."
TOLD = f"""
{BEGIN} {NOT_ALL}
{BEGIN} {NOT_ALL} Day 59 alone carries 61 % of it; without it 5.5 % below.
{BEGIN} {NOT_ALL} 2 days (58, 59) carry 71 % of it.
{BEGIN} {WEEKS} Day 59 alone carries more than all of it; without it 1.0 % above.
{BEGIN} Below in all six parts of the trace: 2.3 to 21.4 %.
{BEGIN} One of the six parts has no jobs: below in 5 of 5.
sjf's mean completion time is 12.3 times fifo's on these jobs (890 % above to 12.3 times in 6 runs). {WEEKS}
sjf's mean completion time is under 0.1 % above fifo's on these jobs (under 0.1 % in 6 runs). {WEEKS}
sjf and fifo cannot be told apart by mean completion time: 3.0 % below to 0.2 % above.
sjf's mean completion time is the same as fifo's in all 6 runs.
"""
OF = (
    APART,
    APART._replace(carried=Carried((59,), 0.61, 0.945)),
    APART._replace(carried=Carried((58, 59), 0.71, None)),
    NO_PARTS._replace(carried=Carried((59,), 1.2, 1.01)),
    Held(0.873, ENDS, 6, "apart in all parts", (0.977, 0.9, 0.786, 0.9, 0.9, 0.9)),
    APART._replace(parts=(0.5,) * 5 + (None,)),
    NO_PARTS._replace(ratio=12.3, interval=(9.9, 12.3)),
    NO_PARTS._replace(ratio=1.0002, interval=(1.0001, 1.0004)),
    TIRESIAS,
    Held(1.0, (1.0, 1.0), 6, "the same"),
)


@pytest.mark.parametrize(("found", "told"), list(zip(OF, TOLD.strip().split("\n"), strict=True)))
def test_sentences_of_moved_runs(found: Held, told: str) -> None:
    assert sentence(pair(), found) == told
    assert sentence(pair(), found._replace(verdict=None)) is None
    few = Held(0.5, None, 5, "too few runs")
    assert sentence(pair(), few) == "too few runs: 5, at least 6 are needed for verdicts: add --seeds 6"


def test_sentences_of_fresh_tables() -> None:
    fresh = pair("fresh tables")
    assert sentence(fresh, Held(0.392, (0.288, 0.56), 10, "apart")) == (
        "sjf's mean completion time is 60.8 % below fifo's in the median of 10 tables of this kind"
        " (95 %: 44.0 to 71.2 % below)."
    )
    assert sentence(fresh, Held(0.9995, (0.999, 1.0), 10, "cannot be told apart")) == (
        "sjf and fifo cannot be told apart by mean completion time: 0.1 % below to 0 % over 10 tables."
    )


def test_sentences_of_another_measure_and_of_dates() -> None:
    of_p90 = BEGIN.replace("mean completion time", "p90 waiting time")
    assert sentence(pair(measure=P90), NO_PARTS) == of_p90  # nothing of weeks
    dated = sentence(pair(epoch="2020-09-01"), NO_PARTS._replace(carried=Carried((1, 2), 0.7, None)))
    assert (dated or "").endswith(" 2 days (2020-09-02, 2020-09-03) carry 70 % of it.")


def at_0(figure: float) -> float:
    """Its ratio to 0."""
    return ratio(figure, 0.0)


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((0.9997, 1.0004), "under 0.1 % either way"),
        ((1.0001, 1.0004), "under 0.1 % above"),
        ((0.9, 1.0004), "10.0 % below to under 0.1 % above"),
        ((1.0, 1.2), "0 % to 20.0 % above"),
        ((1.0, 1.0), "0 %"),
        ((9.9, 12.3), "890 % above to 12.3 times"),
        ((10.5, 123.4), "10.5 to 123 times"),
        ((1.5, at_0(31.0)), "50.0 % above to 31.0 s, where fifo's is 0"),
        ((at_0(29.0), at_0(31.0)), "29.0 s to 31.0 s, where fifo's is 0"),
        ((at_0(30.0), at_0(30.0)), "30.0 s, where fifo's is 0"),
    ],
)
def test_ranges_in_words(ends: Any, words: str) -> None:
    assert pair(measure=P90).range(ends, side=True) == words


@pytest.mark.parametrize(("kind", "centre"), [("moved", "31.0 s"), ("fresh tables", "30.5 s")])
def test_infinite_ratios_are_told_by_the_figures_of_their_runs(kind: Any, centre: str) -> None:
    result, words = held([31.0, 29.0, 30.0, 33.0, 32.0, 30.0], [0.0] * 6, kind), pair(measure=P90)
    assert result is not None
    assert words.range(result.interval or ENDS, side=True) == "29.0 s to 33.0 s, where fifo's is 0"
    assert words.off(result.ratio) == f"{centre}, where fifo's is 0"


def test_lines_of_the_table() -> None:
    parts = "parts: 30.9 % below to 0.1 % above, 2 of 6 below"
    assert line(pair(), APART) == ("12.7 % below", "5.5 to 12.7 %", parts)
    assert line(pair(), TIRESIAS) == ("cannot be told apart: 3.0 % below to 0.2 % above",)
    assert line(pair(), Held(0.5, None, 3, "too few runs")) == ()


def test_what_is_said_of_the_runs() -> None:
    runs = Runs("moved", ("submissions", "models"))
    six = "6 runs: submissions moved by under a minute, unknown models drawn anew"
    first = "figures are those of run 0, the jobs as they are, not means over runs"
    assert of_runs(6, runs) == [six]
    assert of_runs(6, runs, 20) == [six, first]
    assert of_runs(6, runs, 21) == ["one in twenty pairs that are alike may be called apart", six, first]
    assert of_runs(5, runs, 30)[:-2] == ["too few runs: 5, at least 6 are needed for verdicts: add --seeds 6"]
    median = "figures are medians over the tables, not means"
    assert of_runs(6, Runs("fresh tables"), 1)[-1] == median


@pytest.mark.skipif(not CASE.is_file(), reason=NO_TRACE)
def test_the_case_worked_by_hand() -> None:
    case = json.loads(CASE.read_text())
    given_ = case["given"]
    day = np.floor(given_["submit_days"]).astype(int)
    tables = {name: days(day, given_[f"jct_{name}"]) for name in "abc"}
    split = Split.of(tables["b"])
    for name, label in (("a/b mean", "a"), ("c/b mean", "c"), ("c2/b mean", "c"), ("a/b one run", "a")):
        want, runs = case[name], case[name]["runs"]
        parts = parts_of(tables[label], tables["b"], "mean_jct", split)
        result = held(runs, [1.0] * len(runs), "moved", parts)
        assert parts == pytest.approx(tuple(want["parts"]), rel=1e-9)
        assert result is not None
        assert (result.verdict, result.parts_agreeing) == (want["verdict"], want["on_side"])
        numbers = [result.ratio, *(result.parts_range or ()), *(result.interval or ())]
        names = ("ratio", "parts_low", "parts_high", "ratio_low", "ratio_high")
        assert numbers == pytest.approx([want[one] for one in names if want[one] is not None], rel=1e-9)
        if (heavy := want["influence"]) is not None:
            value = carried(tables[label], tables["b"], "mean_jct")
            assert value is not None
            assert value.days == tuple(heavy["days"])
            assert value[1:] == pytest.approx((heavy["share"], heavy["without"]), rel=1e-9)
    assert all(depth(int(runs)) == want for runs, want in case["depth"].items())
