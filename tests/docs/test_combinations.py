"""docs/combinations.md: every cell is what the run of its policy with its feature says."""

from itertools import combinations
from pathlib import Path

import pytest

import page_features as made
import page_tables

PAGE = Path(__file__).parents[2] / "docs" / "combinations.md"
TEXT = page_tables.marked(PAGE.read_text(encoding="utf-8"))["combinations"]
ROWS = {row[""]: row for _, _, row in page_tables.rows(TEXT)}
REASONS = dict(line.split(". ", 1) for line in TEXT.splitlines() if ". " in line and line[0].isdigit())


@pytest.mark.parametrize("row", made.ROWS)
def test_a_row_is_what_its_runs_say(row: str) -> None:
    if row in ("gavel", "allox", "sia"):
        pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")
    told = {name: REASONS.get(value) for name, value in ROWS[row].items() if name}
    assert told == {name: made.cell(row, name) for name in made.FEATURES}, "run: make pages ROW=combinations"
    assert all((value == "yes") == (told[name] is None) for name, value in ROWS[row].items() if name)


REFUSED = {
    (row, tuple(cells["features"].split(" and "))): cells["why"]
    for _, _, cells in page_tables.rows(page_tables.marked(PAGE.read_text(encoding="utf-8"))["pairs"])
    for row in cells["refused by"].split(", ")
}
"""Why a row does not run with two features, each of which it knows."""


@pytest.mark.parametrize("row", made.ROWS)
def test_what_does_not_go_together_is_refused_so(row: str) -> None:
    own = {pair: why for (name, pair), why in REFUSED.items() if name == row}
    assert {pair: made.cell(row, *pair) for pair in own} == own, "run: make pages ROW=combinations"
    assert all(ROWS[row][name] == "yes" for pair in own for name in pair)


@pytest.mark.parametrize("number", range(4))
def test_others_go_together(number: int) -> None:
    """A few of them, others for each row."""
    for at, row in enumerate(("fifo", "srtf", "afs", "own `Policy`")):
        known = [name for name in made.FEATURES if ROWS[row][name] == "yes"]
        pairs = [pair for pair in combinations(known, 2) if (row, pair) not in REFUSED]
        pair = pairs[(7 * at + 31 * number) % len(pairs)]
        assert made.cell(row, *pair) is None, (row, pair)


@pytest.mark.long
@pytest.mark.parametrize("row", made.ROWS)
def test_just_these_do_not_go_together(row: str) -> None:
    if row in ("gavel", "allox", "sia"):
        pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")
    alone = {name: None if ROWS[row][name] == "yes" else "" for name in made.FEATURES}
    assert made.pairs(row, alone) == {pair: why for (name, pair), why in REFUSED.items() if name == row}


def test_the_page_counts_its_cells() -> None:
    runs = sum(value == "yes" for row in ROWS.values() for value in row.values())
    assert TEXT.startswith(f"{runs} of {len(made.ROWS) * len(made.FEATURES)} cells run.")
    assert list(ROWS) == list(made.ROWS)
