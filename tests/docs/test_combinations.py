"""docs/combinations.md: every cell is what the run of its policy with its feature says."""

from pathlib import Path

import pytest

import combinations as made
import page_tables

PAGE = Path(__file__).parents[2] / "docs" / "combinations.md"
TEXT = page_tables.marked(PAGE.read_text(encoding="utf-8"))[made.MARK]
ROWS = {row[""]: row for _, _, row in page_tables.rows(TEXT)}
REASONS = dict(line.split(". ", 1) for line in TEXT.splitlines() if ". " in line and line[0].isdigit())


@pytest.mark.parametrize("row", made.ROWS)
def test_a_row_is_what_its_runs_say(row: str) -> None:
    if row in ("gavel", "allox", "sia"):
        pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")
    told = {name: REASONS.get(value) for name, value in ROWS[row].items() if name}
    assert told == {name: made.cell(row, name) for name in made.FEATURES}, "run: make combinations"
    assert all((value == "yes") == (told[name] is None) for name, value in ROWS[row].items() if name)


def test_the_page_counts_its_cells() -> None:
    runs = sum(value == "yes" for row in ROWS.values() for value in row.values())
    assert TEXT.startswith(f"{runs} of {len(made.ROWS) * len(made.FEATURES)} cells run.")
    assert list(ROWS) == list(made.ROWS)
