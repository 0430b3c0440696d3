"""The paper's figures 4 to 7 again, over several seeds, beside the values read off them (docs/paper.md).

python docs/examples/paper_figures.py -o figures [--seeds 20] [--force] [--json] [--quiet]

The folder gets index.html, the figures as PNG, and every plan's outcome in runs.parquet. The table says of
each of the paper's orderings whether it comes out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import escape
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import polars as pl
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

import ringbco

JOBS, SERVERS, SERVER_SIZES = 160, 20, (4, 8, 16, 32)
HORIZON = {4: 1200, 5: 1200, 6: 1500, 7: 1200}  # T of each figure, slots
NAMES = {"sjf-bco": "SJF-BCO", "ls": "LS", "ff": "FF", "rand": "RAND"}
READINGS = (*product(("idle", "reserve"), ("practical", "literal")), ("closest", "literal"))
"""(dispatch, variant); the baselines do not depend on the variant. closest: `CLOSEST`, by figure."""
READING_NAMES = {reading: ", ".join(reading) for reading in READINGS[:4]} | {READINGS[4]: "closest"}
LARGE = {"dispatch": "idle", "gradients": 3.0}
CLOSEST = {4: LARGE, 5: LARGE | {"dispatch": "reserve"}, 6: LARGE, 7: {"order": "fifo", "kappa": 0}}
"""The settings found that come closest to each figure; gradients: times the 1 to 30 MB of the others."""
BELOW = {1: 0, 2: 1, 4: 2, 8: 4, 10: 8, 16: 8, 32: 16}
"""--kappa of each kappa of the paper, where FA-FFP takes jobs below kappa, not up to it."""
CHANCE = 40
"""A verdict needs so many seeds that fair coins would give as many in at most one of this many tries."""

PAPER = pl.DataFrame(
    [
        (figure, measure, policy, x, value)
        for figure, measure, policy, points in (
            (4, "makespan", "sjf-bco", {None: 535}), (4, "makespan", "ls", {None: 595}),
            (4, "makespan", "ff", {None: 720}), (4, "makespan", "rand", {None: 1125}),
            (4, "mean_jct", "sjf-bco", {None: 180}), (4, "mean_jct", "ls", {None: 187}),
            (4, "mean_jct", "ff", {None: 450}), (4, "mean_jct", "rand", {None: 260}),
            (5, "makespan", "sjf-bco", {1: 627, 2: 563, 4: 541, 8: 535, 10: 700, 16: 750, 32: 737}),
            (6, "makespan", "sjf-bco", {10: 940, 15: 720, 20: 535}),
            (6, "makespan", "ls", {10: 1160, 15: 875, 20: 595}),
            (6, "makespan", "ff", {10: 1400, 15: 960, 20: 720}),
            (6, "makespan", "rand", {10: 1490, 15: 1260, 20: 1125}),
            (7, "makespan", "sjf-bco", {1: 1040, 2: 880, 4: 730, 8: 540}),
        )
        for x, value in points.items()
    ],
    schema={"figure": int, "measure": str, "policy": str, "x": int, "value": float},
    orient="row",
)  # fmt: skip
"""The values read off the paper's figures, slots. x: kappa (figure 5), servers (6), lambda (7)."""


def servers(seed: int, count: int = SERVERS) -> ringbco.Cluster:
    """The first `count` of the 20 servers of a seed, each of 4, 8, 16 or 32 GPUs with equal chance."""
    rng = np.random.Generator(np.random.PCG64([seed, SERVERS]))
    sizes = rng.choice(np.array(SERVER_SIZES, dtype=np.uint32), SERVERS)[:count]
    return ringbco.Cluster(sizes, name=f"seed {seed}")


@lru_cache(maxsize=2)
def jobs(seed: int, gradients: float = 1.0) -> pl.DataFrame:
    """The jobs of a seed, their gradients times a factor."""
    return ringbco.generate("paper", JOBS, seed).frame.with_columns(pl.col("gradient_bytes") * gradients)


def make(trial: dict[str, Any]) -> dict[str, Any]:
    """A plan: its trial's fields and what came out of it.

    makespan, mean_jct, w_max, work_lower_bound: slots of 1 s. horizon: the T under which it was found, the
    figure's, or a larger one where that had no schedule. Of the jobs on two or more servers, jobs_spread is
    their number, stretch the mean of run_time / ideal_run_time (1 without such jobs).
    """
    figure, x, seed = trial["figure"], trial["x"], trial["seed"]
    settings = {
        "policy": trial["policy"],
        "dispatch": trial["dispatch"],
        "variant": trial["variant"] or "practical",
        "kappa": {5: x, 7: 1}.get(figure),
        "lambda_": float(x) if figure == 7 else 1.0,
        "seed": seed,
        "allocations": False,
    }
    if trial["dispatch"] == "closest":
        settings |= {"dispatch": "idle", "kappa": BELOW[x] if figure == 5 else None} | CLOSEST[figure]
    table, cluster = jobs(seed, settings.pop("gradients", 1.0)), servers(seed, x if figure == 6 else SERVERS)
    try:
        outcome = ringbco.plan(table, cluster, horizon=HORIZON[figure], **settings)
    except ringbco.errors.InputError:
        # No schedule within T; the doubled horizon has one, as every job can run.
        outcome = ringbco.plan(table, cluster, **settings)
    given = ("makespan", "mean_jct", "w_max", "work_lower_bound", "theta", "kappa", "horizon", "jobs_spread")
    spread = outcome.jobs.filter(pl.col("num_servers") > 1)
    stretch = (spread["run_time"] / spread["ideal_run_time"]).to_numpy()
    return {
        **trial,
        **{name: outcome.summary[name] for name in given},
        "stretch": float(stretch.mean()) if stretch.size else 1.0,
    }


def make_all(seeds: int, *, quiet: bool = True) -> pl.DataFrame:
    """Every plan of the four figures, a row each; x as in `PAPER`, variant None for the baselines."""
    points = PAPER.select("figure", "policy", "x").unique(maintain_order=True).rows()
    fields = ("figure", "policy", "x", "dispatch", "variant", "seed")
    todo = [
        dict(zip(fields, (*point, dispatch, variant if bco else None, seed), strict=True))
        for seed in range(seeds)
        for point in points
        for dispatch, variant in READINGS
        if (bco := point[1] == "sjf-bco") or variant == "practical" or dispatch == "closest"
    ]
    made = map(make, track(todo, f"{len(todo):,} plans", console=Console(stderr=True), disable=quiet))
    schema = {"x": pl.Int64, "kappa": pl.Int64, "variant": pl.String}
    return pl.DataFrame(made, schema_overrides=schema, infer_schema_length=None)


class Statement(NamedTuple):
    """That the paper's values at some points increase strictly from each policy, or x, to the next."""

    figure: int
    text: str
    policies: Sequence[str]
    xs: Sequence[int | None] = (None,)
    measure: str = "makespan"

    def values(self, frame: pl.DataFrame, column: str) -> np.ndarray:
        """A column at the points: a row a point, a column a row of the frame there."""
        own = frame.filter(figure=self.figure)
        points = [(policy, x) for policy in self.policies for x in self.xs]
        found = [own.filter(pl.col("x").eq_missing(x), policy=policy)[column] for policy, x in points]
        return np.array(found, dtype=np.float64)


def statements() -> Iterator[Statement]:
    """What is checked, in the order of the figures."""
    for pair in pairwise(NAMES):
        yield Statement(4, f"makespan: {' < '.join(NAMES[policy] for policy in pair)}", pair)
    for pair in pairwise(("sjf-bco", "ls", "rand", "ff")):
        text = f"mean completion: {' < '.join(NAMES[policy] for policy in pair)}"
        yield Statement(4, text, pair, measure="mean_jct")
    bco = ("sjf-bco",)
    yield Statement(5, "makespan: kappa 8 < kappa 1", bco, (8, 1))
    yield Statement(5, "makespan: kappa 8 < 4 < 2 < 1", bco, (8, 4, 2, 1))
    yield Statement(5, "makespan: kappa 8 < kappa 10", bco, (8, 10))
    yield Statement(5, "makespan: kappa 8 < kappa 16", bco, (8, 16))
    yield Statement(5, "makespan: kappa 32 < kappa 16", bco, (32, 16))
    for policy, name in NAMES.items():
        yield Statement(6, f"makespan of {name}: 20 < 15 < 10 servers", (policy,), (20, 15, 10))
    for count in (10, 15, 20):
        yield Statement(6, f"{count} servers: SJF-BCO < LS < FF < RAND", tuple(NAMES), (count,))
    yield Statement(7, "makespan: lambda 8 < lambda 1", bco, (8, 1))
    yield Statement(7, "makespan: lambda 8 < 4 < 2 < 1", bco, (8, 4, 2, 1))


class Claim(NamedTuple):
    """A statement of the paper, and how it fares here under one reading."""

    figure: int
    text: str
    reading: str  # "dispatch, variant", or closest
    verdict: str
    seeds: int  # in how many the statement holds by itself
    means: list[float]  # over the seeds, slots, in the statement's order
    paper: list[float]


def claims(runs: pl.DataFrame) -> Iterator[Claim]:
    """Every statement, judged under every reading."""
    for statement in statements():
        paper = statement.values(PAPER.filter(measure=statement.measure), "value")[:, 0].tolist()
        for reading in READINGS:
            mine = runs.filter(pl.col("variant").fill_null(reading[1]) == reading[1], dispatch=reading[0])
            values = statement.values(mine.sort("seed"), statement.measure)
            means = values.mean(axis=1)
            holding = int(np.all(np.diff(values, axis=0) > 0, axis=0).sum())
            verdict = judge(holding, values.shape[1], means_agree=bool(np.all(np.diff(means) > 0)))
            yield Claim(*statement[:2], READING_NAMES[reading], verdict, holding, means.tolist(), paper)


def judge(holding: int, seeds: int, *, means_agree: bool) -> str:
    """The verdict on a statement that holds in `holding` of the seeds; `rule` says it in words."""
    enough = enough_seeds(seeds)
    agreeing = holding if means_agree else seeds - holding
    if enough is None or agreeing < enough:
        return "unclear"
    return "yes" if means_agree else "no"


def enough_seeds(seeds: int) -> int | None:
    """The least number of agreeing seeds that is clear (a sign test); None if even all are too few."""
    ways, tail = 1, 0
    for agreeing in range(seeds, -1, -1):
        tail += ways  # the outcomes of that many coins with at least `agreeing` heads
        if tail * CHANCE > 2**seeds:
            return agreeing + 1 if agreeing < seeds else None
        ways = ways * agreeing // (seeds - agreeing + 1)
    return None


def rule(seeds: int) -> str:
    """What the verdicts mean, in words."""
    enough = enough_seeds(seeds)
    if enough is None:
        return f"Every verdict is unclear: {seeds} of {seeds} seeds may be chance; at least 6 are needed."
    return (
        f"yes: the means, and {enough} or more of the {seeds} seeds, are in this order. no: they are not."
        f" unclear: anything else. Coins would agree so often in at most one of {CHANCE} tries (sign test)."
    )


def shown(values: Sequence[float]) -> str:
    """Values in a row, with as many decimals (at most two) as tell different ones apart."""
    for decimals in (0, 1, 2):
        texts = [f"{value:.{decimals}f}" for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return ", ".join(texts)


# The figures

# Okabe and Ito's colours: told apart by colour-blind readers and in grey print.
READING_LOOKS = {
    "paper": ("#000000", "diamond"),
    "idle, practical": ("#0072B2", "circle"),
    "idle, literal": ("#56B4E9", "circle"),
    "reserve, practical": ("#D55E00", "circle"),
    "reserve, literal": ("#E69F00", "circle"),
    "closest": ("#009E73", "square"),
}
# Figure 6's lines. With the dashes they can be told apart where they coincide.
LINE_LOOKS = {
    "SJF-BCO, in the paper": ("#000000", "circle"),
    "SJF-BCO, practical": ("#0072B2", "circle"),
    "SJF-BCO, literal": ("#56B4E9", "square"),
    "LS": ("#E69F00", "diamond"),
    "FF": ("#009E73", "triangle-up"),
    "RAND": ("#CC79A7", "triangle-down"),
}
DASHED = ["paper", "SJF-BCO, literal", "FF"]
MEASURES = {
    "makespan": "makespan",
    "mean_jct": "mean completion time",
    "w_max": "w_max: most work on one GPU",
}
TICKS = (100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000)
X_NAMES = {5: "kappa (GPUs)", 6: "servers", 7: "lambda"}
TITLES = {
    4: "Figure 4: makespan and mean completion time by policy",
    5: "Figure 5: makespan of SJF-BCO by kappa",
    6: "Figure 6: makespan by the number of servers",
    7: "Figure 7: makespan of SJF-BCO by lambda, kappa being 1 (closest: 0)",
}
LONGER = "or more where that had no schedule (FF and RAND under reserve)"
NOTES = {
    4: f"T = {HORIZON[4]} slots, {LONGER} · logarithmic axes · baselines have no variant",
    5: f"T = {HORIZON[5]} slots · no job has 9 to 15 GPUs: of kappa 8, 10 and 16 two place every job alike",
    6: f"T = {HORIZON[6]} slots, {LONGER} · logarithmic axes, that of reserve its own · lines side by side",
    7: f"T = {HORIZON[7]} slots",
}


def means(runs: pl.DataFrame, figure: int) -> pl.DataFrame:
    """Mean, standard deviation and its ends over the seeds, by measure, policy, x, reading; paper's too.

    The baselines, which have no variant, go with their dispatch's practical reading.
    """
    ours = (
        runs.filter(figure=figure)
        .unpivot(on=list(MEASURES), index=["policy", "x", "dispatch", "variant"], variable_name="measure")
        .with_columns(reading=pl.format("{}, {}", "dispatch", pl.col("variant").fill_null("practical")))
        .with_columns(pl.col("reading").str.replace("closest, .*", "closest"))
        .group_by("measure", "policy", "x", "reading", maintain_order=True)
        .agg(pl.col("value").mean(), spread=pl.col("value").std().fill_null(0.0))
    )
    theirs = PAPER.filter(figure=figure).select(
        "measure", "policy", "x", reading=pl.lit("paper"), value="value", spread=pl.lit(0.0)
    )
    value, spread = pl.col("value"), pl.col("spread")
    return pl.concat([theirs, ours], how="vertical_relaxed").with_columns(
        pl.col("policy").replace_strict(NAMES),
        low=pl.max_horizontal(value - spread, value * 0.05),
        high=value + spread,
    )


def panel(
    data: pl.DataFrame,
    fit: pl.DataFrame,
    x: alt.X,
    by: str,
    *,
    log: bool = True,
    lines: bool = True,
    **more: Any,
) -> Any:
    """Points with bars, told apart by the column `by`, with lines between them or with their numbers.

    fit: the rows that the y axis has room for. more: width, height and title.
    """
    looks = LINE_LOOKS if by == "line" else READING_LOOKS
    low, high = fit["low"].to_numpy().min(), fit["high"].to_numpy().max()
    margin = 0.06 * (high - low)
    domain = [low * 0.85, high * 1.25] if log else [low - margin, high + margin]
    scale = alt.Scale(type="log" if log else "linear", domain=domain, nice=False, zero=False)
    ticks = [tick for tick in TICKS if tick <= high * 1.2]
    axis = alt.Axis(values=ticks, format=",d") if log else alt.Axis()

    def y(column: str) -> alt.Y:
        return alt.Y(f"{column}:Q", title="slots", scale=scale, axis=axis)

    names = list(looks)
    colours, shapes = (alt.Scale(domain=names, range=[*own]) for own in zip(*looks.values(), strict=True))
    places = alt.Scale(domain=[name for name in names if name in data[by]], paddingOuter=int(lines))
    legend = alt.Legend(title=None, orient="bottom", symbolOpacity=1)
    colour = alt.Color(f"{by}:N", scale=colours, legend=legend)
    base = alt.Chart(data).encode(x=x, xOffset=alt.XOffset(f"{by}:N", scale=places), color=colour)
    if lines:
        # By a condition, as a scale's dashes would also go round the legend's symbols.
        broken = alt.condition(alt.FieldOneOfPredicate(by, DASHED), alt.value([6, 3]), alt.value([1, 0]))
        first = base.mark_line(strokeWidth=2).encode(y=y("value"), strokeDash=broken)
    else:
        number = alt.Text("value:Q", format=",.0f")
        first = base.mark_text(dy=-9, fontSize=11).encode(y=y("high"), text=number)
    bars = base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(y=y("low"), y2="high:Q")
    shape = alt.Shape(f"{by}:N", scale=shapes, legend=legend)
    points = base.mark_point(filled=True, size=75, opacity=1).encode(y=y("value"), shape=shape)
    return (first + bars + points).properties(**more)


def panels(runs: pl.DataFrame, number: int) -> list[list[Any]]:
    """The panels of a figure, those of one row beside each other."""
    data, level = means(runs, number), alt.Axis(labelAngle=0)
    x = alt.X("x:O", title=X_NAMES.get(number), axis=level)
    found = []
    if number != 6:
        look: dict[str, Any] = {"log": False, "width": 520, "height": 340}
        if number == 4:
            x = alt.X("policy:N", sort=list(NAMES.values()), title=None, axis=level)
            look = {"lines": False, "width": 560, "height": 320}
        for measure, title in MEASURES.items():
            own = data.filter(measure=measure)
            if number == 4 or measure != "mean_jct":
                found.append(panel(own, own, x, "reading", title=title, **look))
        return [found[:2], found[2:]]
    parts = pl.col("reading").replace({"closest": "closest, literal", "paper": "paper, in the paper"})
    dispatch, variant = (parts.str.split(", ").list.get(n) for n in (0, 1))
    bco = pl.format("SJF-BCO, {}", variant)
    line = pl.when(policy=NAMES["sjf-bco"]).then(bco).otherwise("policy")
    data = data.with_columns(dispatch=dispatch, line=line)
    data = data.filter(measure="makespan")
    alike = data.filter(pl.col("dispatch") != "reserve")
    for which, title, width in (
        ("closest", "closest settings", 430), ("paper", "in the paper", 250),
        ("idle", "dispatch idle", 430), ("reserve", "dispatch reserve", 430),
    ):  # fmt: skip
        own = data.filter(dispatch=which)
        fit = own if which == "reserve" else alike
        found.append(panel(own, fit, x, "line", title=f"makespan, {title}", width=width, height=300))
    return [found[:2], found[2:]]


def chart(runs: pl.DataFrame, number: int) -> Any:
    """One of the figures 4 to 7."""
    seeds = runs["seed"].n_unique()
    bars = "One seed" if seeds == 1 else f"Mean of {seeds} seeds, bars one standard deviation"
    notes = [bars if number == 6 else f"{bars}; paper: values read off it", NOTES[number]]
    grey = {"titleColor": "#333", "gridColor": "#e8e8e8", "domainColor": "#888", "tickColor": "#888"}
    rows = [
        # Each panel has places for the lines that it shows, not for those of all.
        alt.hconcat(*row, spacing=36).resolve_scale(xOffset="independent")
        for row in panels(runs, number)
        if row
    ]
    title = alt.TitleParams(
        TITLES[number], subtitle=notes, anchor="start", fontSize=18, subtitleFontSize=12.5,
        subtitleColor="#555", subtitleLineHeight=17, offset=14,
    )  # fmt: skip
    return (
        alt.vconcat(*rows, spacing=28)
        .resolve_scale(xOffset="independent")
        .properties(title=title, padding=18, background="white")
        .configure(font="Liberation Sans, Helvetica, Arial, sans-serif")
        .configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", **grey)
        .configure_view(stroke=None)
        .configure_title(fontSize=14, anchor="start", fontWeight="bold")
        .configure_legend(labelFontSize=13, symbolSize=120, symbolStrokeWidth=3)
    )


# What is written and printed

TITLE = "SJF-BCO: figures 4 to 7 again"
STYLE = """body { font: 15px sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; }
img { max-width: 100%; } td { padding: 2px 10px; vertical-align: top; white-space: pre-line; }
table { border-collapse: collapse; margin: 1em 0; } tr { border-top: 1px solid #ddd; }"""


def told(found: Sequence[Claim], seeds: int) -> pl.DataFrame:
    """A row a statement: what the paper shows, and what comes out under each reading."""
    columns = ["figure", "the paper shows", "reading", "cell"]
    cells = [
        (c.figure, f"{c.text}\n{shown(c.paper)}", c.reading,
         f"{c.verdict} {c.seeds}/{seeds}\n{shown(c.means)}") for c in found
    ]  # fmt: skip
    return pl.DataFrame(cells, columns, orient="row").pivot(columns[2], index=columns[:2], values="cell")


def values(runs: pl.DataFrame, figure: int) -> pl.DataFrame:
    """A row a measure and a point: the paper's value, and our mean and standard deviation by reading."""
    rounded = (pl.col(name).round(0).cast(pl.Int64) for name in ("value", "spread"))
    cell = pl.format("{} \N{PLUS-MINUS SIGN} {}", *rounded)
    own = means(runs, figure).with_columns(cell=cell).rename({"x": X_NAMES.get(figure, "x")})
    return own.pivot("reading", index=own.columns[:3], values="cell")


def as_html(frame: pl.DataFrame) -> str:
    """A table."""
    rows = [frame.columns, *frame.rows()]
    cells = (("" if cell is None else escape(str(cell)) for cell in row) for row in rows)
    return f"<table><tr><td>{'<tr><td>'.join('<td>'.join(row) for row in cells)}</table>"


def page(runs: pl.DataFrame, found: Sequence[Claim]) -> str:
    """The page, beside its figures."""
    seeds = runs["seed"].n_unique()
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{TITLE}</title><style>{STYLE}</style>",
        f"<h1>{TITLE}</h1><p>{runs.height:,} plans over {seeds} seeds, by ringbco {ringbco.__version__}."
        f" docs/paper.md tells the settings, and why plans differ from the paper's. {escape(rule(seeds))}",
        as_html(told(found, seeds)),
    ]
    for number, title in TITLES.items():
        late = runs.filter(pl.col("horizon") > HORIZON[number], figure=number)
        counted = late.group_by("policy", "dispatch", maintain_order=True).len("plans")
        parts.append(
            f"<h2>{title}</h2><img src=figure-{number}.png alt='{title}'>{as_html(values(runs, number))}"
        )
        parts += [f"<p>Plans made under a larger T: none ends before it.{as_html(counted)}"] * bool(len(late))
    by_reading = runs.filter(figure=4).group_by("policy", "dispatch", "variant", maintain_order=True)
    means = by_reading.agg(pl.col("jobs_spread", "stretch").mean().round(3))
    return "\n".join([*parts, f"<h2>Figure 4: run time / ideal of jobs that span</h2>{as_html(means)}\n"])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", "-o", type=Path, metavar="DIR", required=True, help="the folder to make")
    parser.add_argument("--seeds", type=int, default=20, help="seeds to make every figure with (20)")
    parser.add_argument("--force", action="store_true", help="replace what an earlier run left in DIR")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON and nothing else")
    parser.add_argument("--quiet", "-q", action="store_true", help="print nothing but errors")
    given = parser.parse_args()
    out, seeds = given.out, given.seeds
    if not 1 <= seeds <= 10_000:
        parser.error(f"option seeds: {seeds}: expected an integer from 1 to 10000")
    if out.exists() and not given.force:
        parser.exit(1, f"error: {out}: already exists; --force replaces it\n")
    out.mkdir(parents=True, exist_ok=True)
    runs = make_all(seeds, quiet=given.quiet or not sys.stderr.isatty())
    found = list(claims(runs))
    figures = {number: out / f"figure-{number}.png" for number in TITLES}
    for number, path in figures.items():
        chart(runs, number).save(path, scale_factor=1.6)
    runs.write_parquet(out / "runs.parquet", compression="zstd", statistics=False)
    (out / "index.html").write_text(page(runs, found), encoding="utf-8")
    page_at, runs_at = str(out / "index.html"), str(out / "runs.parquet")
    if given.json:
        paths = {"page": page_at, "figures": [str(path) for path in figures.values()], "runs": runs_at}
        verdicts = {"rule": rule(seeds), "claims": [claim._asdict() for claim in found]}
        print(json.dumps({"seeds": seeds, "plans": runs.height, **paths, **verdicts}, indent=2))
    elif not given.quiet:
        frame, screen = told(found, seeds), Console()
        table = Table(*frame.columns, box=box.SIMPLE_HEAD, title="what comes out; means in slots")
        for row in frame.rows():
            table.add_row(*map(str, row))
        screen.print(table, rule(seeds), f"\n{runs.height:,} plans; the page is {page_at}")


if __name__ == "__main__":
    main()
