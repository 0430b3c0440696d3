"""Makes the tables of docs/certainty.md: `make certainty-table`.

The first one is of public traces, sjf held against fifo. The second one is of generated tables, of which the
truth is known: how often `apart in all parts` is wrong, and how often an interval of fresh tables holds the
median of their kind.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

import page_tables
import policy_table
from ringbco.cluster.spec import Cluster
from ringbco.result.certainty import Held, Interval
from ringbco.result.comparison import Comparison
from ringbco.result.sentences import Pair, in_parts, share
from ringbco.run.compare import compare
from ringbco.trace.jobs import JobTable, from_frame, read_jobs
from ringbco.trace.synthetic import generate

TRACES: Final = (
    *(f"philly/{vc}" for vc in ("6214e9", "103959", "0e4a51", "2869ce", "e13805")),
    "helios/venus_2vc_2020-09",
)
MEASURE: Final = "mean_jct"
REAL, GENERATED = "real traces", "generated tables"
TABLES: Final = 60
RUNS: Final = 6
ALIKE: Final[dict[str, dict[str, Any]]] = {
    name: {"policy": "fifo", "order": f"column:{name}"} for name in ("heads", "tails")
}
"""Two orders by random numbers: one is as good as the other, and yet they differ on any table."""
FIRST_FRESH: Final = 1000
"""The least seed of the fresh tables, above those of the others."""


class Kind(NamedTuple):
    """Generated tables of a preset. jobs: enough for six weeks, but for `paper`, whose jobs all come at 0."""

    preset: str
    jobs: int
    gpus: int
    load: float

    @property
    def cluster(self) -> str:
        return f"{self.gpus // 8}x8"


KINDS: Final = (
    Kind("philly", 12_000, 64, 0.8),
    Kind("helios", 12_000, 128, 0.8),
    Kind("paper", 160, 64, 0.8),
)


def compared(jobs: JobTable, cluster: Cluster | str, **more: Any) -> Comparison:
    """sjf beside fifo."""
    return compare(jobs, cluster, ["fifo", "sjf"], seeds=RUNS, oversize="drop", allocations=False, **more)


def held(found: Comparison, label: str = "sjf", against: str | None = None) -> Held:
    """A mean held against fifo's, or another one's."""
    one = found.held(label, MEASURE, against)
    assert one is not None
    return one


def real(folder: Path, name: str) -> str:
    """The line of a trace."""
    groups, path = policy_table.CLUSTERS[name], folder / f"{name}.csv"
    found = compared(read_jobs(path), Cluster.from_groups(groups, name=path.stem))
    servers = " + ".join(f"{group.count}" for group in groups)
    return f"| {path.stem} | {servers} | {' | '.join(cells(held(found), pair(found)))} |"


def pair(found: Comparison) -> Pair:
    """What words need to know of sjf against fifo."""
    return Pair("sjf", "fifo", next(row for row in found.rows if row.key == MEASURE), found.over)


def cells(held: Held, words: Pair) -> Iterator[str]:
    """On these jobs, when moved, in six parts, the verdict, and what carries it."""
    yield words.off(held.ratio)
    yield words.range(held.interval or (1.0, 1.0), side=True)
    parts = in_parts(words, held).partition(",")[0] if held.ratio == 1.0 else ""
    yield "-" if held.ends is None else parts or in_parts(words, held)
    yield held.verdict or "-"
    found = held.carried
    if found is None:
        yield "-"
    else:
        days = f"day{'s' * (len(found.days) > 1)} {', '.join(map(str, found.days))}: {share(found)}"
        yield days if found.without is None else f"{days}; without {words.off(found.without)}"


def reals(folder: Path) -> Iterator[str]:
    yield "| trace | servers | on these jobs | when moved | in six parts | verdict | what carries it |"
    yield "| --- | ---: | --- | --- | --- | --- | --- |"
    yield from (real(folder, name) for name in TRACES)


def alone(kind: Kind, seed: int) -> tuple[Held, Held]:
    """One table compared by itself: sjf against fifo, and of two alike orders one against the other."""
    frame, rng = generate(*kind[:2], seed, *kind[2:]).frame, np.random.default_rng(seed)
    frame = frame.with_columns(pl.Series(name, rng.random(kind.jobs)) for name in ALIKE)
    found = compared(from_frame(frame), kind.cluster, runs=ALIKE)
    return held(found), held(found, "tails", "heads")


def fresh(kind: Kind, number: int) -> tuple[list[Interval], list[list[float]]]:
    """Intervals over fresh tables, and what they are of: fifo's and sjf's mean, and the ratio of the two."""
    table = generate(*kind[:2], FIRST_FRESH + RUNS * number, *kind[2:])
    found = compared(table, kind.cluster, fresh=True)
    ends = [*(found.figure(label, MEASURE).interval for label in ("fifo", "sjf")), held(found).interval]
    values = [[float(one or 0.0) for one in found.values(label, MEASURE)] for label in ("fifo", "sjf")]
    values.append([one / other for other, one in zip(*values, strict=True)])
    known = [one for one in ends if one is not None]
    assert len(known) == len(values)
    assert min(map(min, known)) >= 0.0
    return known, values


def counted(kind: Kind, tables: int) -> str:
    """The line of a preset."""
    differ, alike = zip(*(alone(kind, seed) for seed in range(tables)), strict=True)
    truth = median(one.ratio for one in differ)
    (parts, these), (false, chance) = (
        [sum(one.verdict == f"apart {where}" for one in pairs) for where in ("in all parts", "on these jobs")]
        for pairs in (differ, alike)
    )
    wrong = sum(one.verdict == "apart in all parts" and (one.ratio < 1.0) != (truth < 1.0) for one in differ)
    ends, values = zip(*(fresh(kind, number) for number in range(tables)), strict=True)
    medians = [median(one for table in values for one in table[number]) for number in range(3)]
    there = sum(low <= medians[number] <= high for table in ends for number, (low, high) in enumerate(table))
    share = f"{there} of {3 * tables} ({100 * there / (3 * tables):.1f} %)"
    asked = "" if kind.preset == "paper" else f" --gpus {kind.gpus} --load {kind.load}"
    return (
        f"| {kind.preset} | `--jobs {kind.jobs}{asked}` | {kind.cluster} | {parts}, {these} |"
        f" {wrong} of {tables} | {chance} | {false} of {tables} | {share} |"
    )


def most(tables: int) -> float:
    """The greatest share of wrong or false verdicts that is no worse than 2.5 %: by two standard errors."""
    return 0.025 + 2.0 * math.sqrt(0.025 * 0.975 / tables)


def generated(kinds: Sequence[Kind] = KINDS, tables: int = TABLES) -> Iterator[str]:
    yield (
        "| preset | tables | cluster | sjf, fifo: apart in all parts, on these jobs alone | wrong |"
        " alike: apart on these jobs | false: in all parts | intervals of fresh tables that hold the median |"
    )
    yield "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for kind in kinds:
        yield counted(kind, tables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path, help="the folder with philly/ and helios/")
    parser.add_argument("page", type=Path, help="the page with the tables")
    arguments = parser.parse_args()
    made = {REAL: "\n".join(reals(arguments.traces)), GENERATED: "\n".join(generated())}
    page = arguments.page.read_text(encoding="utf-8")
    arguments.page.write_text(page_tables.filled(page, made), encoding="utf-8")


if __name__ == "__main__":
    main()
