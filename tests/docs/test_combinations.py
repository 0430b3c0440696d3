"""docs/combinations.md: each policy runs with each feature unless the page says otherwise."""

from itertools import combinations
from pathlib import Path

import pytest

import page_features as made
import page_tables

PAGE = Path(__file__).parents[2] / "docs" / "combinations.md"
TABLES = page_tables.marked(PAGE.read_text(encoding="utf-8"))
TEXT = TABLES["combinations"]
ALONE = {(cells["policy"], cells["feature"]): cells["message"] for _, _, cells in page_tables.rows(TEXT)}
"""Why a row does not run with a feature."""


def known(row: str) -> list[str]:
    """The features with which a row runs."""
    return [name for name in made.FEATURES if (row, name) not in ALONE]


@pytest.mark.parametrize("row", made.ROWS)
def test_a_row_is_what_its_runs_say(row: str) -> None:
    if row in ("gavel", "allox", "sia"):
        pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")
    told = {name: ALONE.get((row, name)) for name in made.FEATURES}
    assert told == made.alone(row), "run: make pages ROW=combinations"


REFUSED = {
    (row, tuple(cells["features"].split(" and "))): cells["why"]
    for _, _, cells in page_tables.rows(TABLES["pairs"])
    for row in cells["refused by"].split(", ")
}
"""Why a row does not run with two features, each of which it knows."""


@pytest.mark.parametrize("row", made.ROWS)
def test_what_does_not_go_together_is_refused_so(row: str) -> None:
    own = {pair: why for (name, pair), why in REFUSED.items() if name == row}
    assert {pair: made.cell(row, *pair) for pair in own} == own, "run: make pages ROW=combinations"
    assert {name for pair in own for name in pair} <= set(known(row))


@pytest.mark.parametrize("number", range(4))
def test_others_go_together(number: int) -> None:
    """A few of them, others for each row."""
    for at, row in enumerate(("fifo", "srtf", "afs", "custom `Policy`")):
        pairs = [pair for pair in combinations(known(row), 2) if (row, pair) not in REFUSED]
        pair = pairs[(7 * at + 31 * number) % len(pairs)]
        assert made.cell(row, *pair) is None, (row, pair)


@pytest.mark.long
@pytest.mark.parametrize("row", made.ROWS)
def test_just_these_do_not_go_together(row: str) -> None:
    if row in ("gavel", "allox", "sia"):
        pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")
    alone = {name: ALONE.get((row, name)) for name in made.FEATURES}
    assert made.pairs(row, alone) == {pair: why for (name, pair), why in REFUSED.items() if name == row}


def test_the_page_counts_its_runs() -> None:
    runs = len(made.ROWS) * len(made.FEATURES)
    assert TEXT.startswith(f"{runs - len(ALONE)} of {runs} runs with one feature work.")
    assert {row for row, _ in ALONE} <= set(made.ROWS)
