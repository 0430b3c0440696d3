"""The page of `ringbco reproduce`: one HTML file that needs no network, and its figures as PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

import ringbco
from ringbco.cluster.network import Network
from ringbco.io.manifest import Kind
from ringbco.io.marks import first_bytes
from ringbco.reports import reproduce_charts
from ringbco.reports.cells import Cell, Table, words
from ringbco.reports.charts import document as drawable_text
from ringbco.reports.drawing import draw
from ringbco.reports.html import document
from ringbco.reports.panels import figure_of
from ringbco.reports.reproduce_reasons import reasons
from ringbco.reports.style import Shown, shown
from ringbco.study import reproduce
from ringbco.study.reproduce import NAMES, PAPER, READINGS
from ringbco.study.reproduce_claims import Claim, rule
from ringbco.study.reproduce_claims import shown as shown_values

FIGURES: Final = (4, 5, 6, 7)
_PAGE, _RUNS = "index.html", "runs.parquet"
_PICTURES: Final = tuple(f"figure-{number}.png" for number in FIGURES)
_TITLE: Final = b"SJF-BCO: figures 4 to 7 again"
_MEASURES: Final = {"makespan": "makespan", "mean_jct": "mean completion time", "w_max": "w_max"}
_READINGS: Final = [f"{dispatch}, {variant}" for dispatch, variant in READINGS]


def write(folder: Path, runs: pl.DataFrame, claims: Sequence[Claim]) -> None:
    """Writes index.html, figure-4.png to figure-7.png and runs.parquet into an existing folder."""
    for number, name in zip(FIGURES, _PICTURES, strict=True):
        chart = drawable_text(reproduce_charts.figure(runs, number))
        (folder / name).write_bytes(draw("png", chart, scale=1.6))
    drawn = {
        number: [
            shown(figure_of(chart, f"figure-{number}-"))
            for row in reproduce_charts.panels(runs, number)
            for chart in row
        ]
        for number in FIGURES
    }
    with open(folder / _RUNS, "wb") as file:  # polars takes no name that is not UTF-8
        runs.write_parquet(file, compression="zstd", statistics=False)
    (folder / _PAGE).write_text(_page(runs, claims, drawn), encoding="utf-8")


def _is_made(folder: Path) -> bool:
    """Whether `ringbco reproduce` made the folder."""
    whole = all((folder / name).is_file() for name in (_RUNS, *_PICTURES))
    return whole and _TITLE in (first_bytes(folder / _PAGE) or b"")


FOLDER: Final = Kind("reproduce", frozenset({_PAGE, _RUNS, *_PICTURES}), _is_made)


def _page(runs: pl.DataFrame, claims: Sequence[Claim], drawn: Mapping[int, Sequence[Shown]]) -> str:
    seeds = runs["seed"].n_unique()
    return document(
        "reproduce",
        title=_TITLE.decode(),
        answer=_answer(claims),
        seeds=seeds,
        plans=f"{runs.height:,}",
        rule=rule(seeds),
        claims=_claims(claims, seeds),
        reasons=reasons(runs),
        figures=[
            {
                "name": f"figure-{number}",
                "title": reproduce_charts.title(number),
                "notes": reproduce_charts.notes(runs, number),
                "drawn": drawn[number],
                "tables": _values(runs, number),
                "over": _over(runs, number),
            }
            for number in FIGURES
        ],
        contention=_contention(runs),
        limit=f"{reproduce.LIMIT:.0%}",
        settings=Table("Settings", ["setting", "value"], [words(*row) for row in _settings(seeds).items()]),
        version=ringbco.__version__,
    )


def _answer(claims: Sequence[Claim]) -> str:
    """How much of the paper comes out."""
    verdicts: dict[tuple[int, str], list[str]] = {}
    for claim in claims:
        verdicts.setdefault((claim.figure, claim.text), []).append(claim.verdict)
    every, none, unclear = (
        sum(set(own) == {verdict} for own in verdicts.values()) for verdict in ("yes", "no", "unclear")
    )
    if unclear == len(verdicts):
        return f"Whether the paper's {len(verdicts)} statements come out is unclear: the seeds are too few."
    return (
        f"Of the paper's {len(verdicts)} statements {every} come out under every reading and {none} under"
        f" none; the other {len(verdicts) - every - none} hang on the reading, or are unclear."
    )


def _claims(claims: Sequence[Claim], seeds: int) -> Table:
    """A row a statement, a column a reading."""
    own: dict[tuple[int, str], dict[tuple[str, str], Claim]] = {}
    for claim in claims:
        own.setdefault((claim.figure, claim.text), {})[claim.dispatch, claim.variant] = claim
    rows = [
        [
            Cell(text, below=(f"paper: {shown_values(next(iter(told.values())).paper)}",), words=True),
            Cell(str(figure)),
            *(
                Cell(
                    f"{claim.verdict}, {claim.seeds}/{seeds}",
                    below=(shown_values(claim.means),),
                    best=claim.verdict == "yes",
                )
                for claim in (told[reading] for reading in READINGS)
            ),
        ]
        for (figure, text), told in own.items()
    ]
    return Table("The paper's statements", ["the paper shows", "figure", *_READINGS], rows)


def _values(runs: pl.DataFrame, figure: int) -> list[Table]:
    """The paper's values beside ours, mean and standard deviation, for every reading; a table a measure."""
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
    paper = PAPER.filter(pl.col("figure") == figure)
    theirs = {(measure, policy, x): value for _, measure, policy, x, value in paper.rows()}
    points = paper.select("policy", "x").unique(maintain_order=True).rows()
    made = []
    for measure, word in _MEASURES.items():
        rows = []
        for policy, x in points:
            name = NAMES[policy] + ("" if x is None else f", {_x_name(figure)} {x}")
            value = theirs.get((measure, policy, x))
            cells = [Cell("" if value is None else f"{value:,.0f}")]
            for dispatch, variant in READINGS:
                places = ((measure, policy, x, f"{dispatch}, {one}") for one in (variant, "any"))
                mean, spread = next((ours[place] for place in places if place in ours), (None, 0.0))
                beside = f"\N{PLUS-MINUS SIGN} {spread:,.0f}"
                cells.append(Cell("") if mean is None else Cell(f"{mean:,.0f}", beside=beside))
            rows.append([Cell(name, words=True), *cells])
        made.append(Table(f"{word[0].upper()}{word[1:]}, slots", ["", "paper", *_READINGS], rows))
    return made


def _over(runs: pl.DataFrame, figure: int) -> list[str]:
    """Whose plans have no schedule that ends before T, and how many."""
    over = runs.filter((pl.col("figure") == figure) & (pl.col("horizon") > reproduce.HORIZON[figure]))
    who = over.group_by("policy", "dispatch", maintain_order=True).len().rows()
    return [f"{NAMES[policy]} under {dispatch}: {count}" for policy, dispatch, count in who]


def _contention(runs: pl.DataFrame) -> Table:
    """How much longer than ideal the jobs on several servers took, by policy and reading."""
    cells = runs.filter(pl.col("figure") == FIGURES[0]).group_by(
        "policy", "dispatch", "variant", maintain_order=True
    )
    means = cells.agg(pl.col("jobs_spread", "stretch", "over_limit").mean())
    rows = [
        [
            *words(f"{NAMES[policy]}, {dispatch}" + (f", {variant}" if variant else "")),
            *(Cell(text) for text in (f"{spread:.1f}", f"{stretch:.2f}", f"{over:.0%}")),
        ]
        for policy, dispatch, variant, spread, stretch, over in means.rows()
    ]
    more = f"of them more than {reproduce.LIMIT:.0%} over"
    titles = ["policy and reading", "jobs on several servers", "their run time / ideal", more]
    return Table("Contention and overhead, figure 4", titles, rows)


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
