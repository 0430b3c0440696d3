"""benches/example_tables.py still prints what the pages say."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from conftest import SHARED, present

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_tables", ROOT / "benches" / "example_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
@pytest.mark.parametrize("page", ["priorities", "services", "outages", "energy"])
def test_the_rows_are_those_of_the_page(bench: ModuleType, page: str) -> None:
    traces = SHARED / "traces"
    for trace in (bench.LARGEST, bench.SMALL, bench.HELIOS):
        present(traces / trace)
    rows = [line for line in bench.PAGES[page](traces) if line.startswith("|")]
    assert len(rows) > 4
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").replace(" ", "")
    missing = [line for line in "\n".join(rows).split("\n") if line.replace(" ", "") not in text]
    assert not missing
