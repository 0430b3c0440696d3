"""`ringbco report`: results as one page that opens anywhere, offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ringbco.reports.facts import facts, headline, seeds
from ringbco.reports.series import MOST_IN_LEGEND, SHOWN, TONES, WINDOW
from ringbco.reports.style import on_page, tone_name
from ringbco.reports.tables import MOST_COLUMNS, by_priority, longest_waits, named, rankings, types
from ringbco.reports.templates import render
from ringbco.result.comparison import Comparison, as_comparison
from ringbco.result.outcome import Outcome
from ringbco.result.told import differences, notes
from ringbco.result.window import described, measured

if TYPE_CHECKING:
    from ringbco.reports.figures import Chapter


def page(results: Comparison | Mapping[str, Outcome], chapters: Sequence[Chapter], *, title: str) -> str:
    """The page of these results as text: style, data and the drawing library are all inside."""
    comparison = as_comparison(results)
    results = comparison.outcomes
    # The switches at the top are the legend of many results: above each chart it would be larger than that.
    legends = len(results) <= MOST_IN_LEGEND
    drawn = {
        figure.name: on_page(figure, legends=legends) for chapter in chapters for figure in chapter.figures
    }
    labels = list(results)
    groups = headline(comparison)
    side_by_side = len(labels) <= MOST_COLUMNS
    return document(
        "results",
        drawn,
        labels,
        title=title,
        subtitle=_subtitle(results),
        seeds=comparison.seeds,
        against=labels.index(comparison.against),
        notes=len(notes(comparison)),
        said=[*notes(comparison), *differences(comparison)] if comparison.repeated else [],
        results=named(labels),
        labels=labels,
        side_by_side=side_by_side,
        facts=[*facts(results), *seeds(comparison)],
        headline=groups,
        rankings=[] if side_by_side else rankings(groups, labels),
        unlike=comparison.unlike,
        chapters=chapters,
        longest_waits=longest_waits(results),
        gpu_types=types(results),
        priorities=by_priority(results),
        versions=sorted({outcome.run.get("ringbco", {}).get("version", "?") for outcome in results.values()}),
    )


def document(template: str, charts: Mapping[str, Any], shown: Sequence[str], /, **told: Any) -> str:
    """A page whose script draws `charts` by name, with the results of the labels `shown` switched on."""
    return render(
        template,
        tones=[(tone_name(light), light, dark) for light, dark in TONES.items()],
        data={"charts": charts, "labels": shown, "shown": SHOWN, "window": WINDOW},
        **told,
    )


def _subtitle(results: Mapping[str, Outcome]) -> str:
    counts = {measured(outcome).height for outcome in results.values()}
    jobs = f"{counts.pop():,} jobs" if len(counts) == 1 else "different numbers of jobs"
    windows = {described(outcome.summary) for outcome in results.values()}
    if windows != {""}:
        one = windows.pop() if len(windows) == 1 else "submitted in windows of their own"
        jobs += f" {one} (charts over time show the whole run)"
    which = "one result" if len(results) == 1 else f"{len(results)} results, overlaid"
    return f"{which}, {jobs}{_refusals(results)}"


def _refusals(results: Mapping[str, Outcome]) -> str:
    """How many jobs were refused or ended, where any were: whoever compares completion times must know."""
    told = [
        f"{count:,} more {fate}{f' under {label}' if len(results) > 1 else ''}"
        for label, outcome in results.items()
        for key, fate in (("jobs_refused", "refused"), ("jobs_ended", "ended before they were done"))
        if (count := outcome.summary.get(key, 0))
    ]
    return f"; {', '.join(told)}: not in any figure" if told else ""
