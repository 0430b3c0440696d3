"""What `compare` prints: five measures or all of them, on narrow terminals and wide ones."""

from __future__ import annotations

import io
import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from comparisons import made_up, printed
from frames import busy_jobs
from ringbco import compare
from ringbco.cli.comparison import few, ranked, show_by, tables
from ringbco.result.comparison import Comparison
from ringbco.units import duration

POLICIES = ["fifo", "sjf", "ff"]
SIX = ["fifo", "sjf", "sjf-bco", "srtf", "tiresias", "time-slice"]


@pytest.fixture
def comparison(small_jobs: Path) -> Comparison:
    return compare(small_jobs, "2x8", POLICIES)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_all_measures_fit_their_console(comparison: Comparison, width: int) -> None:
    text = printed(comparison, width, every=True)
    lines = [line.split() for line in text.splitlines()]
    for policy in POLICIES:
        assert any(policy in line for line in lines)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    # A column a policy, or a row each in every table, all of which are announced.
    rows = len(re.findall(r"^ *sjf +[\d.-]", text, re.MULTILINE))
    made, _ = tables(comparison, Console(width=width), every=True)
    assert rows == (0 if width == 200 else len(made))
    assert (len(made) == 1) == (width == 200)
    content = f"{len(made)} tables, one below the other; best first by mean completion time"
    assert (content in " ".join(text.split())) == (width != 200)
    if width == 200:
        order = [POLICIES[number] for number in ranked(comparison, "mean_jct")]
        assert order != POLICIES
        assert order in lines


@pytest.mark.parametrize("seeds", [1, 6])
def test_eighty_columns_hold_six_policies(seeds: int) -> None:
    """One table of five measures, none of their figures cut."""
    made = compare(busy_jobs(), "4x4", SIX, seeds=seeds)
    text = printed(made, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "tables" not in text
    told = few(made)
    assert [measure.key for measure in told] == [
        "mean_jct",
        "p90_wait",
        "worst_finish_time_fairness",
        "utilisation_to_last_submission",
        "makespan",
    ]
    shown = re.split("─ *\n", text)[1].split("ratios are to")[0]
    best_first = [SIX[number] for number in ranked(made, "mean_jct")]
    assert re.findall(r"^ ([a-z][a-z-]+) ", shown, re.MULTILINE) == best_first
    for measure in told:
        figures = [made.figure(label, measure.key) for label in SIX]
        for value in (measure.brief(one.value) for one in figures):
            assert re.search(rf" {re.escape(value)}[* ]", shown), (measure.key, value)
    assert f"5 of {len(made.display_rows)} measures, --all prints the others" in " ".join(text.split())


def test_what_was_asked_for_is_among_the_five() -> None:
    made = Comparison({"a": made_up(), "b": made_up(mean_jct=1.0)})
    assert [measure.key for measure in few(made, "p99_slowdown")][:2] == ["p99_slowdown", "mean_jct"]
    assert len(few(made, "p99_slowdown")) == 5
    # `made_up` has what only some runs have, which their options asked for.
    assert {"deadlines_met", "goodput"} <= {measure.key for measure in few(made)}
    for outcome in made.outcomes.values():
        outcome.summary = {"policy": "p", "makespan": 3.0, "kappa": 1.0}
    assert [measure.key for measure in few(Comparison(made.outcomes))] == ["makespan", "kappa"]


def test_policies_as_rows_are_sorted_by_any_measure() -> None:
    labels = [f"policy-{number}" for number in range(13)]
    made = Comparison(
        {
            label: made_up(mean_jct=100.0 * (7 * number % 13) + 200, jain_index_users=0.01 * number)
            for number, label in enumerate(labels)
        }
    )
    by_time = sorted(range(13), key=lambda number: 7 * number % 13)
    assert ranked(made, "mean_jct") == by_time
    # More of Jain's index is better; what nobody has leaves the order as it is.
    assert ranked(made, "jain_index_users") == list(reversed(range(13)))
    assert ranked(made, "no_such") == list(range(13))
    del made.outcomes["policy-3"].summary["jain_index_users"]
    fresh = Comparison(made.outcomes)
    assert ranked(fresh, "jain_index_users")[-1] == 3
    for sort, order in ((None, by_time), ("jain_index_users", ranked(fresh, "jain_index_users"))):
        text = printed(fresh, 100, sort)
        shown = re.findall(r"^ *(policy-\d+) ", text, re.MULTILINE)
        assert shown[:13] == [labels[number] for number in order]
        assert len(shown) % 13 == 0
    # Asked for, rows are there on a wide terminal too.
    assert re.search(r"^ *policy-1 ", printed(fresh, 2_000, "p99_wait", every=True), re.MULTILINE)


def test_figures_have_three_digits_even_where_two_print_alike() -> None:
    made = Comparison(
        {label: made_up(mean_jct=value) for label, value in (("a", 36_000.0), ("b", 36_050.0), ("c", 7.0))}
    )
    told = printed(made, 200, every=True)
    assert re.search(r"mean completion time +7\.00 s +0\.00 +10\.0 h +10\.0 h +1\.00", told)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("count", [1, 2, 6, 13])
def test_figures_by_owner_are_never_cut(width: int, count: int) -> None:
    """Names wrap, then columns go on in further tables: every figure of the frame is there, in its column."""
    jobs = busy_jobs().with_columns(user=pl.col("user") + "-of-a-group-with-a-name-longer-than-others")
    names = ["fifo --order smallest --queue easy", "a-name-of-one-word-that-is-long", "sjf", *"abcdefghij"]
    outcome = compare(jobs, "4x4", ["fifo"], seeds=1)["fifo"]
    slow = compare(jobs, "4x4", ["ff"], seeds=1)["ff"]
    made = Comparison({name: (outcome, slow)[place % 2] for place, name in enumerate(names[:count])})
    console = Console(width=width, file=io.StringIO(), record=True)
    show_by(made, ["user"], console)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    tables = [number for number, line in enumerate(lines) if line.strip().startswith("user ")]
    assert (f"by user: {len(tables)} tables, one below the other" in lines) == (len(tables) > 1)
    assert width < 200 or count > 6 or len(tables) == 1
    whole, frame = " ".join(lines), made.by("user")
    waits = Counter(map(duration, frame["mean_wait"]))
    slowdowns = Counter(f"{slowdown:,.2f}" for slowdown in frame["mean_slowdown"])
    for figure, often in (*waits.items(), *slowdowns.items()):
        assert whole.count(figure) >= often, figure


def test_names_by_owner_wrap_before_a_table_is_broken() -> None:
    """The names of three runs are wider than what is below them: one table holds them all the same."""
    one = compare(busy_jobs(), "4x4", ["fifo"], seeds=1)["fifo"]
    names = [f"{name} with a name that is long" for name in ("a", "b", "c")]
    console = Console(width=80, file=io.StringIO(), record=True)
    show_by(Comparison(dict.fromkeys(names, one)), ["user"], console)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "tables" not in text
    assert len(re.findall(r"^ *user ", text, re.MULTILINE)) == 1
