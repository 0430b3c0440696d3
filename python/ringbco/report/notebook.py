"""Outcomes and comparisons as notebooks show them: small HTML tables without a style of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from ringbco.compare import SINGLES, SPREADS
from ringbco.metrics import STATISTICS
from ringbco.units import figure

if TYPE_CHECKING:
    from ringbco.compare import Comparison
    from ringbco.outcome import Outcome


_NUMBER: Final = '<td style="text-align: right">'


def outcome_html(outcome: Outcome) -> str:
    """Policy, cluster and trace, then the distribution of times, then the single figures."""
    summary, run = outcome.summary, outcome.run
    rows: list[Sequence[str]] = [
        (title, *(figure(kind, summary[f"{statistic}_{name}"]) for statistic in STATISTICS))
        for name, title, kind in SPREADS
        if f"{STATISTICS[0]}_{name}" in summary
    ]
    figures = [f"jobs {figure('count', summary['jobs'])}"]
    figures += [
        f"{single.title} {single.show(summary[single.key])}" for single in SINGLES if single.key in summary
    ]
    title = f"{summary.get('policy', 'outcome')}"
    for what, where in (("cluster", "name"), ("trace", "path")):
        named = run.get(what, {}).get(where)
        title += f", {what} {named}" if named else ""
    return (
        f"<div><strong>{escape(title)}</strong>{_table(('', *STATISTICS), map(_cells, rows))}"
        f"<p>{escape(' · '.join(figures))}</p></div>"
    )


def comparison_html(comparison: Comparison) -> str:
    """One row a measure, one column an outcome; the best is bold, the ratio is to the first outcome."""
    rows = []
    for measure, entries in comparison.rows.items():
        cells = [f"<td>{escape(measure.title)}</td>"]
        for number, entry in enumerate(entries):
            text = escape(measure.show(entry.value))
            ratio = f" <small>&times;{entry.ratio:.2f}</small>" if number and entry.ratio is not None else ""
            cells.append(f"{_NUMBER}{f'<strong>{text}</strong>' if entry.best else text}{ratio}</td>")
        rows.append("".join(cells))
    return f"<div>{_table(('', *comparison.outcomes), rows)}</div>"


def _cells(texts: Sequence[str]) -> str:
    title, *figures = map(escape, texts)
    return f"<td>{title}</td>" + "".join(f"{_NUMBER}{text}</td>" for text in figures)


def _table(head: Iterable[str], rows: Iterable[str]) -> str:
    titles = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
