"""The page of `ringbco reproduce`: one HTML file that needs no network, and its figures as PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from ringbco.cluster.network import Network
from ringbco.io.manifest import Kind
from ringbco.io.marks import first_bytes
from ringbco.reports import reproduce_charts
from ringbco.reports.charts import document
from ringbco.reports.reproduce_reasons import reasons
from ringbco.reports.templates import picture, render
from ringbco.study import reproduce
from ringbco.study.reproduce import NAMES, PAPER, READINGS
from ringbco.study.reproduce_claims import Claim, rule, shown

FIGURES: Final = (4, 5, 6, 7)
_PAGE, _RUNS = "index.html", "runs.parquet"
_PICTURES: Final = tuple(f"figure-{number}.png" for number in FIGURES)
_TITLE: Final = b"SJF-BCO: figures 4 to 7 again"
_MEASURES: Final = {"makespan": "makespan", "mean_jct": "mean completion time", "w_max": "w_max"}


def write(folder: Path, runs: pl.DataFrame, claims: Sequence[Claim]) -> None:
    """Writes index.html, figure-4.png to figure-7.png and runs.parquet into an existing folder."""
    import vl_convert

    pictures = {}
    for number, name in zip(FIGURES, _PICTURES, strict=True):
        chart = document(reproduce_charts.figure(runs, number))
        (folder / name).write_bytes(vl_convert.vegalite_to_png(chart, scale=1.6))
        pictures[number] = picture(vl_convert.vegalite_to_svg(chart))
    with open(folder / _RUNS, "wb") as file:  # polars takes no name that is not UTF-8
        runs.write_parquet(file, compression="zstd", statistics=False)
    (folder / _PAGE).write_text(_page(runs, claims, pictures), encoding="utf-8")


def _is_made(folder: Path) -> bool:
    """Whether `ringbco reproduce` made the folder."""
    whole = all((folder / name).is_file() for name in (_RUNS, *_PICTURES))
    return whole and _TITLE in (first_bytes(folder / _PAGE) or b"")


FOLDER: Final = Kind("reproduce", frozenset({_PAGE, _RUNS, *_PICTURES}), _is_made)


def _page(runs: pl.DataFrame, claims: Sequence[Claim], pictures: Mapping[int, str]) -> str:
    seeds = runs["seed"].n_unique()
    return render(
        "reproduce",
        seeds=seeds,
        plans=f"{runs.height:,}",
        rule=rule(seeds),
        readings=[f"{dispatch}, {variant}" for dispatch, variant in READINGS],
        claims=_claims(claims),
        reasons=reasons(runs),
        figures=[
            {
                "number": number,
                "picture": pictures[number],
                "rows": _values(runs, number),
                "over": _over(runs, number),
            }
            for number in FIGURES
        ],
        contention=_contention(runs),
        limit=f"{reproduce.LIMIT:.0%}",
        settings=_settings(seeds),
    )


def _claims(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """A row a statement, a cell a reading."""
    cells: dict[tuple[int, str], dict[tuple[str, str], Claim]] = {}
    for claim in claims:
        cells.setdefault((claim.figure, claim.text), {})[claim.dispatch, claim.variant] = claim
    return [
        {
            "figure": figure,
            "text": text,
            "paper": shown(next(iter(own.values())).paper),
            "cells": [
                {"verdict": claim.verdict, "seeds": claim.seeds, "means": shown(claim.means)}
                for claim in (own[reading] for reading in READINGS)
            ],
        }
        for (figure, text), own in cells.items()
    ]


def _values(runs: pl.DataFrame, figure: int) -> list[dict[str, Any]]:
    """The paper's values beside ours, mean and standard deviation, for every reading."""
    ours = {
        tuple(row[:4]): row[4:]
        for row in runs.filter(pl.col("figure") == figure)
        .unpivot(on=list(_MEASURES), index=["policy", "x", "dispatch", "variant"])
        .group_by(
            "variable", "policy", "x", pl.format("{}, {}", "dispatch", pl.col("variant").fill_null("any"))
        )
        .agg(pl.col("value").mean(), spread=pl.col("value").std().fill_null(0.0))
        .rows()
    }
    theirs = {
        (measure, policy, x): value
        for _, measure, policy, x, value in PAPER.filter(pl.col("figure") == figure).rows()
    }
    points = PAPER.filter(pl.col("figure") == figure).select("policy", "x").unique(maintain_order=True).rows()
    rows = []
    for measure, word in _MEASURES.items():
        for policy, x in points:
            paper = theirs.get((measure, policy, x))
            cells = []
            for dispatch, variant in READINGS:
                value = ours.get((measure, policy, x, f"{dispatch}, {variant}")) or ours.get(
                    (measure, policy, x, f"{dispatch}, any")
                )
                cells.append(value and {"mean": f"{value[0]:,.0f}", "spread": f"{value[1]:,.0f}"})
            rows.append(
                {
                    "measure": word,
                    "label": NAMES[policy] + ("" if x is None else f", {_x_name(figure)} {x}"),
                    "paper": "" if paper is None else f"{paper:,.0f}",
                    "cells": cells,
                }
            )
    return rows


def _over(runs: pl.DataFrame, figure: int) -> list[str]:
    """Whose plans have no schedule that ends before T, and how many."""
    over = runs.filter((pl.col("figure") == figure) & (pl.col("horizon") > reproduce.HORIZON[figure]))
    who = over.group_by("policy", "dispatch", maintain_order=True).len().rows()
    return [f"{NAMES[policy]} under {dispatch}: {count}" for policy, dispatch, count in who]


def _contention(runs: pl.DataFrame) -> list[dict[str, Any]]:
    """How much longer than ideal the jobs on several servers took, by policy and reading."""
    cells = runs.filter(pl.col("figure") == FIGURES[0]).group_by(
        "policy", "dispatch", "variant", maintain_order=True
    )
    return [
        {
            "policy": NAMES[policy],
            "reading": f"{dispatch}, {variant}" if variant else dispatch,
            "figures": [f"{spread:.1f}", f"{stretch:.2f}", f"{over:.0%}"],
        }
        for policy, dispatch, variant, spread, stretch, over in cells.agg(
            pl.col("jobs_spread", "stretch", "over_limit").mean()
        ).rows()
    ]


def _x_name(figure: int) -> str:
    return {5: "kappa", 6: "servers", 7: "lambda"}[figure]


def _settings(seeds: int) -> dict[str, str]:
    network = Network()
    return {
        "seeds": f"0 to {seeds - 1}; a seed draws the jobs, the servers and RAND's choices",
        "jobs": "80, 14, 26, 30, 8 and 2 of 1, 2, 4, 8, 16 and 32 GPUs, in random row order, all at time 0",
        "F, tau": "F in [1000, 6000], tau on one server in [0.01, 0.05] slots, F tau in [50, 300] slots",
        "gradients": "uniform in 1 to 30 MB (ours; the paper gives none)",
        "contention and overhead": "as the network makes them, not kept within the paper's 15 %: see above",
        "servers": "20, each of 4, 8, 16 or 32 GPUs with equal chance; figure 6: the first 10, 15, 20",
        "slot": "1 s",
        "T": "1200 slots; figure 6: 1500; where that has no schedule, doubled from twice the work bound",
        "order": "smallest first, for every policy",
        "lambda, u": "1, but figure 7: lambda 1, 2, 4, 8; u = 1",
        "kappa": "searched; figure 5: as shown; figure 7: 1",
        "b_i": f"{network.intra_bandwidth:g} bytes/s inside a server",
        "b_e": f"{network.inter_bandwidth:g} bytes/s between servers",
        "C": f"{network.reduce_speed:g} bytes/s of gradients summed",
        "xi1, xi2, alpha": f"{network.xi1:g}, {network.xi2:g} s per server, {network.alpha:g}",
        "repeat with": f"ringbco reproduce --seeds {seeds} -o DIR; every plan is a row of runs.parquet",
    }
