"""`ringbco report`: results as one page that opens anywhere, offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ringbco.reports.answer import answer
from ringbco.reports.audited import audit_line
from ringbco.reports.facts import cluster_text, facts, headline, runs
from ringbco.reports.series import GLANCE
from ringbco.reports.style import Shown, render_chart
from ringbco.reports.tables import by_priority, headlines, longest_waits, settings, types
from ringbco.reports.templates import render
from ringbco.reports.tones import TONES, ranked, tone_name
from ringbco.result.comparison import Comparison, as_comparison
from ringbco.result.dates import zero_of
from ringbco.result.outcome import Outcome
from ringbco.result.window import described, measured

if TYPE_CHECKING:
    from ringbco.reports.figures import Chapter


UNPLAYED: Final = "`ringbco play` shows one or two results GPU by GPU; `ringbco why` explains one job."


def page(
    results: Comparison | Mapping[str, Outcome],
    chapters: Sequence[Chapter],
    *,
    title: str,
    told: Mapping[str, Any] | None = None,
    opens: bool = False,
) -> str:
    """The page of these results as text: style, charts and their data are all inside.

    told: what the player tells of them, as reports/player.py makes it; None for a page without. opens:
    whether the page opens with it.
    """
    comparison = as_comparison(results).best_first
    results = ranked(comparison)
    glance = [chapter for chapter in chapters if chapter.title == GLANCE]
    figures = headline(comparison)
    cells = [cell for group in figures for line in group for cell in line.cells]
    return document(
        "results",
        title=title,
        told=told,
        opens=opens,
        unplayed=UNPLAYED,
        subtitle=_subtitle(comparison),
        answers=answer(comparison),
        notes=comparison.notes(),
        said=comparison.sentences(),
        labels=list(results),
        against=comparison.baseline_label,
        unlike=comparison.not_comparable,
        glance=[figure for chapter in glance for figure in _drawn(chapter)],
        chapters=[
            (chapter.title, chapter.name, _drawn(chapter)) for chapter in chapters if chapter not in glance
        ],
        headlines=headlines(figures, results),
        ranged=any(cell.below for cell in cells),
        has_best=any(cell.best for cell in cells),
        settings=settings([*facts(results), *runs(comparison)], results),
        tables=[table for table in (types(results), by_priority(results)) if table is not None],
        longest_waits=longest_waits(results),
        versions=sorted({outcome.run.get("ringbco", {}).get("version", "?") for outcome in results.values()}),
    )


def _drawn(chapter: Chapter) -> list[Shown]:
    return [render_chart(figure) for figure in chapter.figures]


def document(template: str, /, **told: Any) -> str:
    """A page of that template; what it tells of figures is made by `render_chart`."""
    tones = [(tone_name(light), light, dark) for light, dark in TONES.items()]
    return render(template, tones=tones, **told)


def _subtitle(comparison: Comparison) -> str:
    """Jobs, cluster, the policy of a single result, runs, audit."""
    results = comparison.outcomes
    counts = {measured(outcome).height for outcome in results.values()}
    jobs = f"{counts.pop():,} jobs" if len(counts) == 1 else "different numbers of jobs"
    windows = {described(outcome.summary, zero_of(outcome)) for outcome in results.values()}
    if windows != {""}:
        one = windows.pop() if len(windows) == 1 else "submitted in different windows"
        jobs += f" {one} (charts over time show the whole run)"
    clusters = {cluster_text(outcome.run.get("cluster", {})) for outcome in results.values()}
    fresh = "fresh tables" if comparison.variation.kind == "fresh tables" else "runs"
    runs = f"{comparison.runs} {fresh}" if comparison.runs > 1 else "one run"
    runs += " per policy" if len(results) > 1 else ""
    policies = [outcome.run.get("options", {}).get("policy") for outcome in results.values()]
    told = [
        jobs + _refusals(results),
        clusters.pop() if len(clusters) == 1 else f"{len(clusters)} clusters",
        *(f"under {policy}" for policy in policies if policy and len(policies) == 1),
        runs,
        audit_line(results),
    ]
    return " \N{MIDDLE DOT} ".join(told)


def _refusals(results: Mapping[str, Outcome]) -> str:
    """How many jobs were refused or ended, where any were: completion times do not count them."""
    told = [
        f"{count:,} more {fate}{f' under {label}' if len(results) > 1 else ''}"
        for label, outcome in results.items()
        for key, fate in (("jobs_refused", "refused"), ("jobs_ended", "ended before completion"))
        if (count := outcome.summary.get(key, 0))
    ]
    return f"; {', '.join(told)}: excluded from all figures" if told else ""
