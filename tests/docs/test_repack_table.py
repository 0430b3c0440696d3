"""The table of docs/repack.md: means over seeds with their ends, made of the public trace."""

from pathlib import Path

import pytest

import page_tables
import repack_table as made
from conftest import SMALL_JOBS
from ringbco import replay

PAGE = (Path(__file__).parents[2] / "docs" / "repack.md").read_text(encoding="utf-8")


def test_the_table_tells_mean_ends_and_seeds(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(SMALL_JOBS)
    text = made.table(made.replays(path, "2x8", 3))
    assert "a mean over 3 seeds (0 to 2), then the least and the greatest" in text
    times = [replay(path, "2x8", policy="srtf", seed=seed).summary["mean_jct"] for seed in range(3)]
    told = f"{sum(times) / 3:,.0f} ({min(times):,.0f} to {max(times):,.0f})"
    assert f"| `srtf` | yes | {told} |" in text


def test_the_page_has_five_seeds() -> None:
    part = page_tables.marked(PAGE)[made.MARK]
    assert f"a mean over {made.SEEDS} seeds" in part
    assert made.SEEDS == 5
    assert part.count(" to ") == 10  # two cells of four policies, the bound, the seeds


@pytest.mark.long
def test_the_page_is_what_the_trace_makes(shared_traces: Path) -> None:
    text = made.table(made.replays(shared_traces / made.TRACE, made.CLUSTER, made.SEEDS))
    assert page_tables.marked(PAGE)[made.MARK] == text, "run: make repack-table"
