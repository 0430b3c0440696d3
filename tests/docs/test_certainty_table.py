"""The tables of docs/certainty.md, of public traces and of generated tables, and what the page claims."""

import math
import re
from pathlib import Path

import pytest

import page_sure as made
import page_tables
from ringbco import compare, generate
from ringbco.result.certainty import Carried, Held, depth

PAGE = (Path(__file__).parents[2] / "docs" / "certainty.md").read_text(encoding="utf-8")
REAL = [row for _, _, row in page_tables.rows(page_tables.marked(PAGE)["real traces"])]
MOST = 0.025 + 2.0 * math.sqrt(0.025 * 0.975 / made.TABLES)
"""The greatest share of wrong or false verdicts that is no worse than 2.5 %: by two standard errors."""
GENERATED = [row for _, _, row in page_tables.rows(page_tables.marked(PAGE)["generated tables"])]


def test_the_page_is_short_and_has_every_trace_and_preset() -> None:
    assert len(PAGE.splitlines()) <= 150
    assert [row["trace"] for row in REAL] == [name.rpartition("/")[2] for name in made.COMPARED]
    assert [row["preset"] for row in GENERATED] == [kind.preset for kind in made.KINDS]
    assert all(
        f"--jobs {kind.jobs}" in row["tables"] for kind, row in zip(made.KINDS, GENERATED, strict=True)
    )


def test_the_page_has_the_depths() -> None:
    heads, row = re.findall(r"^\| (?:runs|depth) \| (.+) \|$", PAGE, re.M)
    for head, cell in zip(heads.split(" | "), row.split(" | "), strict=True):
        numbers = [int(number) for number in re.findall(r"\d+", head)]
        numbers = [1, 5] if head.startswith("below") else numbers
        assert {depth(runs) for runs in range(numbers[0], numbers[-1] + 1)} == {
            int(cell.replace("none", "0"))
        }


def test_what_is_said_of_all_parts_and_of_fresh_tables_is_seldom_wrong() -> None:
    for row in GENERATED:
        wrong, false, held = (
            [int(number) for number in re.findall(r"^\d+|(?<=of )\d+", row[column])]
            for column in ("wrong", "false: in all parts", "intervals of fresh tables that hold the median")
        )
        assert (wrong[1], false[1], held[1]) == (made.TABLES, made.TABLES, 3 * made.TABLES)
        assert max(wrong[0], false[0]) / made.TABLES <= MOST, row["preset"]
        assert held[0] / held[1] >= 0.93


def test_an_interval_of_fresh_tables_is_of_tables_of_its_own() -> None:
    kind = made.Kind("paper", 20, 16, 0.8)
    ends, values = made.fresh(kind, 1)
    first = made.FIRST_FRESH + made.RUNS
    for number in range(made.RUNS):
        jobs = generate("paper", 20, first + number, 16)
        alone = compare(jobs, "2x8", ["fifo", "sjf"], seeds=1, oversize="drop")
        means = [outcome.summary["mean_jct"] for outcome in alone.outcomes.values()]
        assert [one[number] for one in values] == pytest.approx([*means, means[1] / means[0]])
    assert ends == [pytest.approx((min(one), max(one))) for one in values]
    ((_, _, row),) = page_tables.rows("\n".join(made.generated(page_tables.TableInputs(least=True), [kind])))
    assert set(row) == set(GENERATED[0])
    assert row["wrong"] == row["false: in all parts"] == "0 of 2"


def test_a_row_tells_parts_verdict_and_days() -> None:
    parts = (0.9, 0.8, 0.7, 1.1, 0.95, 0.9)
    held = Held(0.85, (0.8, 0.9), 6, "apart on these jobs", parts, Carried((3, 5), 0.6, 0.97))
    words = made.pair(compare(generate("paper", 20, 1), "8x8", ["fifo", "sjf"]))
    assert list(made.cells(held, words)) == [
        "15.0 % below",
        "10.0 to 20.0 % below",
        "30.0 % below to 10.0 % above, 5 of 6 below",
        "apart on these jobs",
        "days 3, 5: 60 %; without 3.0 % below",
    ]
