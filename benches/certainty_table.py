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
from ringbco.result.certainty import Carried, Held, Interval
from ringbco.result.comparison import Comparison
from ringbco.result.sentences import Pair
from ringbco.run.compare import compare
from ringbco.trace.jobs import from_frame, read_jobs
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


def real(folder: Path, name: str) -> str:
    """The line of a trace."""
    groups = policy_table.CLUSTERS[name]
    path = folder / f"{name}.csv"
    cluster = Cluster.from_groups(groups, name=path.stem)
    found = compare(read_jobs(path), cluster, ["fifo", "sjf"], oversize="drop", allocations=False)
    held = found.held("sjf", MEASURE)
    assert held is not None
    servers = " + ".join(f"{group.count}" for group in groups)
    return f"| {name.rpartition('/')[2]} | {servers} | {' | '.join(cells(held, pair(found)))} |"


def pair(found: Comparison) -> Pair:
    """What words need to know of sjf against fifo."""
    measure = next(measure for measure in found.rows if measure.key == MEASURE)
    return Pair("sjf", "fifo", measure, found.over.kind)


def cells(held: Held, words: Pair) -> Iterator[str]:
    """On these jobs, when moved, in six parts, the verdict, and what carries it."""
    yield words.off(held.ratio, 0.0)
    yield _range(words, held.interval)
    on_side = (
        "" if held.ratio == 1.0 else f", {held.agreeing} of 6 {words.off(held.ratio, 0.0).rpartition(' ')[2]}"
    )
    yield "-" if held.ends is None else f"{_range(words, held.ends)}{on_side}"
    yield held.verdict or "-"
    yield "-" if held.carried is None else _carried(words, held.carried)


def _range(words: Pair, ends: Interval | None) -> str:
    if ends is None:
        return "-"
    return "0 %" if ends == (1.0, 1.0) else words.range(ends, 0.0, side=True)


def _carried(words: Pair, found: Carried) -> str:
    days = ", ".join(map(str, found.days))
    share = "more than all" if found.share > 1.0 else f"{100.0 * found.share:.0f} %"
    rest = "" if found.without is None else f"; without {words.off(found.without, 0.0)}"
    return f"day{'s' * (len(found.days) > 1)} {days}: {share}{rest}"


def reals(folder: Path) -> Iterator[str]:
    yield "| trace | servers | on these jobs | when moved | in six parts | verdict | what carries it |"
    yield "| --- | ---: | --- | --- | --- | --- | --- |"
    for name in TRACES:
        yield real(folder, name)


def alone(kind: Kind, seed: int) -> tuple[Held, Held]:
    """One table compared by itself: sjf against fifo, and of two alike orders one against the other."""
    table = generate(kind.preset, kind.jobs, seed, kind.gpus, kind.load)
    rng = np.random.default_rng(seed)
    columns = {name: rng.random(kind.jobs) for name in ALIKE}
    jobs = from_frame(table.frame.with_columns(**{key: pl.Series(one) for key, one in columns.items()}))
    found = compare(
        jobs, kind.cluster, ["fifo", "sjf"], runs=ALIKE, seeds=RUNS, oversize="drop", allocations=False
    )
    held = found.held("sjf", MEASURE), found.held("tails", MEASURE, "heads")
    assert held[0] is not None
    assert held[1] is not None
    return held[0], held[1]


def fresh(kind: Kind, number: int) -> tuple[list[Interval], list[list[float]]]:
    """Intervals over fresh tables, and what they are of: fifo's and sjf's mean, and the ratio of the two."""
    table = generate(kind.preset, kind.jobs, FIRST_FRESH + RUNS * number, kind.gpus, kind.load)
    found = compare(
        table, kind.cluster, ["fifo", "sjf"], seeds=RUNS, fresh=True, oversize="drop", allocations=False
    )
    held = found.held("sjf", MEASURE)
    assert held is not None
    ends = [found.figure(label, MEASURE).interval for label in ("fifo", "sjf")] + [held.interval]
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
    all_parts = [one for one in differ if one.verdict == "apart in all parts"]
    wrong = sum((one.ratio < 1.0) != (truth < 1.0) for one in all_parts)
    false = sum(one.verdict == "apart in all parts" for one in alike)
    on_these = [sum(one.verdict == "apart on these jobs" for one in pairs) for pairs in (differ, alike)]
    ends, values = zip(*(fresh(kind, number) for number in range(tables)), strict=True)
    medians = [median(one for table in values for one in table[number]) for number in range(3)]
    held = sum(low <= medians[number] <= high for table in ends for number, (low, high) in enumerate(table))
    told = (
        f"{len(all_parts)}, {on_these[0]}", f"{wrong} of {tables}", f"{on_these[1]}", f"{false} of {tables}",
        f"{held} of {3 * tables} ({held / (3 * tables):.1%})".replace("%)", " %)"),
    )  # fmt: skip
    asked = f"`--jobs {kind.jobs}" + (
        f" --gpus {kind.gpus} --load {kind.load}`" if kind.preset != "paper" else "`"
    )
    return f"| {kind.preset} | {asked} | {kind.cluster} | {' | '.join(told)} |"


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
