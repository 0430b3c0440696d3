"""Makes the table of docs/repack.md, of the public trace philly/6214e9: `make repack-table`.

Each policy runs once a seed, and seeds draw other models for the jobs. The table has means over the seeds,
with the least and the greatest value.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import page_tables
from ringbco.result.comparison import Comparison
from ringbco.result.seeds import OverSeeds, over_seeds
from ringbco.run.compare import compare
from ringbco.run.scheduling import foreknowledge
from ringbco.trace.jobs import TableLike

TRACE: Final = "philly/6214e9.csv"
CLUSTER: Final = "64x8"
SEEDS: Final = 5
EXACT: Final = "repack --predict exact"
MARK: Final = "repack"


def replays(jobs: TableLike, cluster: str, seeds: int) -> Comparison:
    """The policies of the table side by side."""
    runs = {EXACT: {"policy": "repack", "predict": "exact"}}
    policies = ["repack", "srtf", "gittins"]
    return compare(jobs, cluster, policies, runs=runs, seeds=seeds, allocations=False)


def table(comparison: Comparison) -> str:
    """The lines between the marks."""
    return "\n".join(_lines(comparison))


def _lines(comparison: Comparison) -> Iterator[str]:
    last = comparison.seeds - 1
    yield f"Each cell is a mean over {comparison.seeds} seeds (0 to {last}), then the least and the greatest."
    yield ""
    yield "| policy | knows run times | mean JCT, s | worst slowdown |"
    yield "| --- | --- | ---: | ---: |"
    for label in (EXACT, "repack", "srtf", "gittins"):
        knows = "yes" if foreknowledge(comparison.outcomes[label].run) else "no"
        cells = (comparison.figure(label, key) for key in ("mean_jct", "worst_finish_time_fairness"))
        yield f"| `{label}` | {knows} | {' | '.join(map(_told, cells))} |"
    bound = _told(over_seeds(comparison.bounds_by_seed[EXACT]))
    yield f"| any schedule at all, at least | | {bound} | |\n"


def _told(figure: OverSeeds | None) -> str:
    assert figure is not None
    mean, least, greatest = (f"{value:,.{0 if value >= 100 else 1}f}" for value in figure[:3])
    return f"{mean} ({least} to {greatest})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path, help="the folder with philly/")
    parser.add_argument("page", type=Path, help="the page with the table")
    arguments = parser.parse_args()
    made = table(replays(arguments.traces / TRACE, CLUSTER, SEEDS))
    page = arguments.page.read_text(encoding="utf-8")
    arguments.page.write_text(page_tables.filled(page, {MARK: made}), encoding="utf-8")


if __name__ == "__main__":
    main()
