"""Figures 4 to 7 drawn beside the paper's values, by altair."""

from __future__ import annotations

from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.study.reproduce import HORIZON, NAMES, PAPER, POLICIES

_FONT: Final = "Liberation Sans, Helvetica, Arial, sans-serif"
_PAPER_LABEL: Final = "paper"
# Okabe and Ito's colours: told apart by colour-blind readers and in grey print.
_READING_COLOURS: Final = {
    "paper": "#000000",
    "idle, practical": "#0072B2",
    "idle, literal": "#56B4E9",
    "reserve, practical": "#D55E00",
    "reserve, literal": "#E69F00",
}
# Figure 6's lines: colour and shape of the points. With the dashes they tell lines apart that coincide.
_LINES: Final = {
    "SJF-BCO in the paper": ("#000000", "circle"),
    "SJF-BCO, practical": ("#0072B2", "circle"),
    "SJF-BCO, literal": ("#56B4E9", "square"),
    "LS": ("#E69F00", "diamond"),
    "FF": ("#009E73", "triangle-up"),
    "RAND": ("#CC79A7", "triangle-down"),
}
_DASHED: Final = ("SJF-BCO, literal", "FF")
_MEASURES: Final = {
    "makespan": "makespan",
    "mean_jct": "mean completion time",
    "w_max": "w_max: most work on one GPU",
}
_X: Final = {5: "kappa", 6: "servers", 7: "lambda"}


def means(runs: pl.DataFrame, figure: int, measures: tuple[str, ...]) -> pl.DataFrame:
    """Mean and standard deviation over the seeds, a row each measure, policy, x and reading; paper's too.

    Columns: measure, policy, x, reading, value, low, high. The baselines, which have no variant, go with
    their dispatch's practical reading.
    """
    reading = pl.format("{}, {}", "dispatch", pl.col("variant").fill_null("practical"))
    ours = (
        runs.filter(pl.col("figure") == figure)
        .unpivot(on=measures, index=["policy", "x", "dispatch", "variant"], variable_name="measure")
        .with_columns(reading=reading)
        .group_by("measure", "policy", "x", "reading", maintain_order=True)
        .agg(value=pl.col("value").mean(), spread=pl.col("value").std().fill_null(0.0))
        .with_columns(
            low=pl.max_horizontal(pl.col("value") - pl.col("spread"), pl.col("value") * 0.05),
            high=pl.col("value") + pl.col("spread"),
        )
        .drop("spread")
    )
    theirs = PAPER.filter(pl.col("figure") == figure).select(
        "measure", "policy", "x", reading=pl.lit(_PAPER_LABEL), value="value", low="value", high="value"
    )
    both = pl.concat([theirs.filter(pl.col("measure").is_in(measures)), ours], how="vertical_relaxed")
    return both.with_columns(policy=pl.col("policy").replace_strict(NAMES))


def figure(runs: pl.DataFrame, number: int) -> Any:
    """The chart of one of the figures 4 to 7."""
    rows = [alt.hconcat(*row, spacing=36) for row in panels(runs, number, numbers=True)]
    if number == 6:
        # Not one place in the row for every line of any panel, but for those that the panel has.
        rows = [row.resolve_scale(xOffset="independent") for row in rows]
    chart = alt.vconcat(*rows, spacing=28)
    chart = chart.resolve_scale(xOffset="independent") if number == 6 else chart
    return _finished(chart, title(number), notes(runs, number))


def title(number: int) -> str:
    """What a figure shows."""
    return {
        4: "Figure 4: makespan and mean completion time by policy",
        5: "Figure 5: makespan of SJF-BCO by kappa",
        6: "Figure 6: makespan by the number of servers",
        7: "Figure 7: makespan of SJF-BCO by lambda, kappa being 1",
    }[number]


def notes(runs: pl.DataFrame, number: int) -> list[str]:
    """How to read a figure, and under which T its plans were made."""
    seeds = runs["seed"].n_unique()
    means = "One seed" if seeds == 1 else f"Mean of {seeds} seeds, bars one standard deviation"
    longer = f"T = {HORIZON[number]} slots, or more where that had no schedule (FF and RAND under reserve)"
    said = {
        4: f"{longer} · logarithmic axes · baselines have no variant",
        5: f"T = {HORIZON[5]} slots · no job has 9 or 10 GPUs, so kappa 10 places every job as kappa 8 does",
        6: f"{longer} · logarithmic axes, those of reserve and w_max each its own · lines set side by side",
        7: f"T = {HORIZON[7]} slots",
    }[number]
    return [means if number == 6 else f"{means}; paper: values read off it", said]


def panels(runs: pl.DataFrame, number: int, *, numbers: bool = False) -> list[list[Any]]:
    """The panels of a figure, those of one row beside each other. numbers: whether figure 4 writes them."""
    if number == 4:
        first, second, third = (_by_policy(runs, measure, numbers=numbers) for measure in _MEASURES)
        return [[first, second], [third]]
    return _by_servers(runs) if number == 6 else [[_by_x(runs, number, m) for m in ("makespan", "w_max")]]


def _by_policy(runs: pl.DataFrame, measure: str, *, numbers: bool) -> Any:
    data = means(runs, 4, (measure,))
    base = alt.Chart(data).encode(
        x=alt.X("policy:N", sort=[NAMES[p] for p in POLICIES], title=None, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("reading:N", sort=list(_READING_COLOURS)),
        color=_colours("reading", _READING_COLOURS),
    )
    scale = _log_scale(data)
    y = alt.Y("value:Q", title="slots", scale=scale).axis(values=_log_ticks(data), format=",d")
    bars = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", scale=scale, title="slots"), y2="high:Q")
    points = base.mark_point(filled=True, size=70, opacity=1).encode(y=y, shape=_shapes())
    layers = [bars, points]
    if numbers:
        text = base.mark_text(dy=-9, fontSize=11, clip=False)
        layers.append(text.encode(y=alt.Y("high:Q", scale=scale), text=alt.Text("value:Q", format=",.0f")))
    return alt.layer(*layers).properties(width=560, height=320, title=_MEASURES[measure])


def _by_x(runs: pl.DataFrame, number: int, measure: str) -> Any:
    data = means(runs, number, (measure,))
    title = _X[number] + (" (GPUs)" if number == 5 else "")
    low, high = _span(data)
    margin = 0.06 * (high - low)
    scale = alt.Scale(domain=[low - margin, high + margin], nice=False, zero=False)
    base = alt.Chart(data).encode(
        x=alt.X("x:O", title=title, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("reading:N", sort=list(_READING_COLOURS), scale=alt.Scale(paddingOuter=1)),
        color=_colours("reading", _READING_COLOURS),
    )
    y = alt.Y("value:Q", title="slots", scale=scale)
    dashed = alt.condition(f"datum.reading === '{_PAPER_LABEL}'", alt.value([6, 4]), alt.value([1, 0]))
    line = base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dashed)
    bars = base.mark_rule(strokeWidth=1.5, opacity=0.55).encode(
        y=alt.Y("low:Q", title="slots", scale=scale), y2="high:Q"
    )
    points = base.mark_point(filled=True, size=70, opacity=1).encode(y=y, shape=_shapes())
    return (bars + line + points).properties(width=520, height=340, title=_MEASURES[measure])


def _by_servers(runs: pl.DataFrame) -> list[list[Any]]:
    own = pl.format("SJF-BCO, {}", pl.col("reading").str.split(", ").list.last())
    bco = pl.when(pl.col("reading") == _PAPER_LABEL).then(pl.lit("SJF-BCO in the paper")).otherwise(own)
    line = pl.when(pl.col("policy") == NAMES["sjf-bco"]).then(bco).otherwise("policy")
    data = means(runs, 6, ("makespan", "w_max")).with_columns(line=line)

    def of(measure: str, *dispatches: str) -> pl.DataFrame:
        """The rows of some dispatches, or of the paper."""
        whose = pl.col("reading").str.split(", ").list.first()
        return data.filter(whose.is_in(dispatches), pl.col("measure") == measure)

    makespans = [
        # The paper's values share the axis of idle, whose size they are of.
        _lines(of("makespan", "idle"), of("makespan", "idle", _PAPER_LABEL), "makespan, dispatch idle"),
        _lines(
            of("makespan", _PAPER_LABEL), of("makespan", "idle", _PAPER_LABEL), "makespan in the paper", 250
        ),
        _lines(of("makespan", "reserve"), of("makespan", "reserve"), "makespan, dispatch reserve"),
    ]
    works = [_lines(of("w_max", d), of("w_max", d), f"w_max, dispatch {d}") for d in ("idle", "reserve")]
    return [makespans, works]


def _lines(data: pl.DataFrame, frame: pl.DataFrame, title: str, width: int = 430) -> Any:
    """A panel of figure 6: its lines beside one another at a number of servers; axis fit for `frame`."""
    names = list(_LINES)
    legend = alt.Legend(title=None, orient="bottom", symbolOpacity=1)
    present = [name for name in names if name in data["line"].unique().to_list()]
    scale = _log_scale(frame)
    base = alt.Chart(data).encode(
        x=alt.X("x:O", title="servers", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("line:N", scale=alt.Scale(domain=present, paddingOuter=1)),
        color=alt.Color(
            "line:N", scale=alt.Scale(domain=names, range=[_LINES[name][0] for name in names]), legend=legend
        ),
    )
    y = alt.Y("value:Q", title="slots", scale=scale).axis(values=_log_ticks(frame), format=",d")
    # By a condition, as a scale's dashes would also go round the legend's symbols.
    broken = alt.condition(
        alt.FieldOneOfPredicate("line", list(_DASHED)), alt.value([6, 3]), alt.value([1, 0])
    )
    lines = base.mark_line(strokeWidth=2).encode(y=y, strokeDash=broken)
    bars = base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(
        y=alt.Y("low:Q", scale=scale, title="slots"), y2="high:Q"
    )
    shapes = alt.Scale(domain=names, range=[_LINES[name][1] for name in names])
    points = base.mark_point(filled=True, size=80, opacity=1).encode(
        y=y, shape=alt.Shape("line:N", scale=shapes, legend=legend)
    )
    return (bars + lines + points).properties(width=width, height=300, title=title)


def _span(data: pl.DataFrame) -> tuple[float, float]:
    return float(data["low"].to_numpy().min()), float(data["high"].to_numpy().max())


def _log_scale(data: pl.DataFrame) -> alt.Scale:
    low, high = _span(data)
    return alt.Scale(type="log", domain=[low * 0.85, high * 1.25], nice=False)


def _log_ticks(data: pl.DataFrame) -> list[int]:
    _, high = _span(data)
    steps = (100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000)
    return [tick for tick in steps if tick <= high * 1.2]


def _colours(field: str, colours: dict[str, str]) -> alt.Color:
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    legend = alt.Legend(title=None, orient="bottom", symbolOpacity=1)
    return alt.Color(f"{field}:N", scale=scale, legend=legend)


def _shapes() -> alt.Shape:
    shapes = ["diamond"] + ["circle"] * (len(_READING_COLOURS) - 1)
    return alt.Shape("reading:N", scale=alt.Scale(domain=list(_READING_COLOURS), range=shapes), legend=None)


def _finished(chart: Any, title: str, said: list[str]) -> Any:
    return (
        chart.properties(
            title=alt.TitleParams(
                title, subtitle=said, anchor="start", fontSize=18, subtitleFontSize=12.5,
                subtitleColor="#555", subtitleLineHeight=17, offset=14,
            ),
            padding=18,
            background="white",
        )
        .configure(font=_FONT)
        .configure_axis(
            labelFontSize=12, titleFontSize=12, titleFontWeight="normal", titleColor="#333",
            gridColor="#e8e8e8", domainColor="#888", tickColor="#888",
        )
        .configure_view(stroke=None)
        .configure_title(fontSize=14, anchor="start", fontWeight="bold")
        .configure_legend(labelFontSize=13, symbolSize=120, symbolStrokeWidth=3)
    )  # fmt: skip
