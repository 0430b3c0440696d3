"""benches/example_tables.py still prints what the pages say."""

from pathlib import Path

import pytest

import example_tables as bench
from conftest import SHARED, present

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.parametrize("page", ["priorities", "services", "outages", "energy", "operators"])
def test_the_rows_are_those_of_the_page(page: str) -> None:
    traces = SHARED / "traces"
    for trace in (bench.LARGEST, bench.SMALL, bench.HELIOS):
        present(traces / trace)
    rows = [line for line in bench.PAGES[page](traces) if line.startswith("|")]
    assert len(rows) > 4
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").replace(" ", "")
    missing = [line for line in "\n".join(rows).split("\n") if line.replace(" ", "") not in text]
    assert not missing
