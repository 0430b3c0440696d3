"""Figures 4 to 7 drawn beside the paper's values, by altair."""

from __future__ import annotations

from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reproduce import HORIZON, NAMES, PAPER, POLICIES, READINGS

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
_POLICY_COLOURS: Final = {"SJF-BCO": "#0072B2", "LS": "#E69F00", "FF": "#009E73", "RAND": "#CC79A7"}
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
    seeds = runs["seed"].n_unique()
    means = "one seed" if seeds == 1 else f"mean of {seeds} seeds, bars one standard deviation"
    spread = f"{means}; black: values read off the paper"
    chart: Any
    if number == 4:
        makespan, completion, work = (_by_policy(runs, measure) for measure in _MEASURES)
        chart = alt.vconcat(alt.hconcat(makespan, completion, spacing=36), work, spacing=28)
        title, said = (
            "Figure 4: makespan and mean completion time by policy",
            f"T = {HORIZON[4]} slots, or more where that had no schedule (FF and RAND under reserve)"
            " · logarithmic axes · baselines have no variant",
        )
    elif number == 6:
        chart = _by_servers(runs)
        title, said = (
            "Figure 6: makespan by the number of servers",
            f"T = {HORIZON[6]} slots, or more where that had no schedule (FF and RAND under reserve)"
            " · logarithmic axes · dashed: literal",
        )
    else:
        chart = alt.hconcat(*(_by_x(runs, number, m) for m in ("makespan", "w_max")), spacing=36)
        what = "kappa" if number == 5 else "lambda, kappa being 1"
        title, said = f"Figure {number}: makespan of SJF-BCO by {what}", f"T = {HORIZON[number]} slots"
    return _finished(chart, title, [spread, said])


def _by_policy(runs: pl.DataFrame, measure: str) -> Any:
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
    numbers = base.mark_text(dy=-9, fontSize=11, clip=False).encode(
        y=alt.Y("high:Q", scale=scale), text=alt.Text("value:Q", format=",.0f")
    )
    return (bars + points + numbers).properties(width=560, height=320, title=_MEASURES[measure])


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


def _by_servers(runs: pl.DataFrame) -> Any:
    data = means(runs, 6, ("makespan", "w_max"))
    scale = _log_scale(data)

    def panel(readings: list[str], measure: str, title: str) -> Any:
        mine = data.filter(pl.col("reading").is_in(readings), pl.col("measure") == measure)
        x = alt.X("x:O", title="servers", axis=alt.Axis(labelAngle=0))
        y = alt.Y("value:Q", title="slots", scale=scale).axis(values=_log_ticks(data), format=",d")
        base = alt.Chart(mine).encode(color=_colours("policy", _POLICY_COLOURS))
        dashed = alt.condition("indexof(datum.reading, 'literal') > 0", alt.value([5, 4]), alt.value([1, 0]))
        line = base.mark_line(strokeWidth=2).encode(x=x, y=y, detail="reading:N", strokeDash=dashed)
        bars = base.mark_rule(strokeWidth=1.5, opacity=0.7).encode(
            x=x, y=alt.Y("low:Q", scale=scale, title="slots"), y2="high:Q"
        )
        points = base.mark_point(filled=True, size=55, opacity=1).encode(x=x, y=y)
        return (line + bars + points).properties(width=340, height=270, title=title)

    def of(dispatch: str) -> list[str]:
        return [f"{own}, {variant}" for own, variant in READINGS if own == dispatch]

    makespans = [panel(of(d), "makespan", f"makespan, dispatch {d}") for d in ("idle", "reserve")]
    makespans.append(panel([_PAPER_LABEL], "makespan", "makespan in the paper"))
    works = [panel(of(d), "w_max", f"w_max, dispatch {d}") for d in ("idle", "reserve")]
    return alt.vconcat(
        alt.hconcat(*makespans, spacing=28), alt.hconcat(*works, spacing=28), spacing=28
    ).resolve_scale(color="shared")


def _span(data: pl.DataFrame) -> tuple[float, float]:
    return float(data["low"].to_numpy().min()), float(data["high"].to_numpy().max())


def _log_scale(data: pl.DataFrame) -> alt.Scale:
    low, high = _span(data)
    return alt.Scale(type="log", domain=[low * 0.85, high * 1.25], nice=False)


def _log_ticks(data: pl.DataFrame) -> list[int]:
    _, high = _span(data)
    steps = (100, 150, 200, 300, 500, 700, 1000, 2000, 3000, 5000, 10_000, 20_000)
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
