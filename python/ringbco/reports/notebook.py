"""Outcomes and comparisons as notebooks show them: small HTML tables without a style of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringbco.reports.templates import render
from ringbco.result.figures import SPREADS, TIME_TO_START, lines, waits_again
from ringbco.result.metrics import STATISTICS
from ringbco.units import figure

if TYPE_CHECKING:
    from ringbco.result.comparison import Comparison
    from ringbco.result.outcome import Outcome


def outcome_html(outcome: Outcome) -> str:
    """Policy, cluster and trace, then the distribution of times, then the single figures."""
    summary, run = outcome.summary, outcome.run
    spreads = [
        {
            "title": title,
            "figures": [figure(kind, summary[f"{statistic}_{name}"]) for statistic in STATISTICS],
        }
        for name, title, _, kind in SPREADS
        if f"{STATISTICS[0]}_{name}" in summary and (name != TIME_TO_START or waits_again(summary))
    ]
    figures = [f"jobs {figure('count', summary['jobs'])}"]
    figures += [f"{what} {value}" for what, value in lines(summary)]
    title = f"{summary.get('policy', 'outcome')}"
    for what, where in (("cluster", "name"), ("trace", "path")):
        named = run.get(what, {}).get(where)
        title += f", {what} {named}" if named else ""
    return render("outcome", title=title, statistics=list(STATISTICS), spreads=spreads, figures=figures)


def comparison_html(comparison: Comparison) -> str:
    """One row a measure, one column an outcome; the best is bold, the ratio is to the baseline."""
    measures, labels = [], list(comparison.outcomes)
    for measure, entries in comparison.display_rows.items():
        shown = [measure.brief(entry.value) for entry in entries]
        ends = [comparison.interval_lines(label, measure) for label in labels]
        measures.append({"title": measure.title, "cells": list(zip(shown, entries, ends, strict=True))})
    text = render(
        "comparison",
        labels=labels,
        against=labels.index(comparison.baseline_label),
        measures=measures,
        told=[*comparison.sentences(), *comparison.notes()],
    )
    return text.replace("\n", "")  # notebooks keep a line of their file for each
