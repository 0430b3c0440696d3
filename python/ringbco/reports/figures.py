"""The charts of a report, in the order in which the page shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ringbco.reports import (
    figures_elastic,
    figures_evictions,
    figures_jobs,
    figures_outages,
    figures_searches,
    figures_services,
    figures_shares,
    figures_time,
    figures_types,
    figures_waits,
)
from ringbco.reports.series import Figure
from ringbco.result.comparison import Comparison, as_comparison
from ringbco.result.outcome import Outcome


@dataclass
class Chapter:
    """Charts that answer one question."""

    title: str
    figures: list[Figure] = field(default_factory=list)


def chapters(results: Comparison | Mapping[str, Outcome]) -> list[Chapter]:
    """The charts of all results, overlaid where that can be read; chapters without a chart are left out.

    Whatever the number of jobs, they hold at most some thousand points: jobs are counted and averaged here.
    Of a run that was repeated they show the first seed, and say so.
    """
    comparison = as_comparison(results)
    results = comparison.outcomes
    groups = figures_jobs.groups(results)
    made = [
        Chapter(
            "Jobs",
            [
                figures_jobs.time_split(results),
                figures_jobs.completion(results),
                figures_jobs.waiting(results),
                figures_jobs.sizes(results, half=groups is not None),
                *([groups] if groups is not None else []),
            ],
        ),
        Chapter("Who waited", list(figures_waits.waits(results))),
        Chapter("The cluster over time", figures_time.over_time(results)),
        Chapter("GPU types", figures_types.by_type(results)),
        Chapter("Shares of a GPU", figures_shares.by_share(results)),
        Chapter("Elastic jobs", figures_elastic.elastic(results)),
        Chapter("Outages", figures_outages.outages(results)),
        Chapter("Evictions", figures_evictions.evictions(results)),
        Chapter("Searches", figures_searches.searches(results)),
        Chapter("Services", figures_services.services(results)),
        Chapter("Contention on servers", list(figures_time.by_server(results))),
    ]
    for chapter in made:
        chapter.figures = [_of_first_seed(figure, comparison) for figure in chapter.figures]
    return [chapter for chapter in made if chapter.figures]


def _of_first_seed(figure: Figure, comparison: Comparison) -> Figure:
    shown = comparison.outcomes if figure.of is None else [figure.of]
    seeds = max(len(comparison.repeated.get(label, ())) for label in shown)
    return replace(figure, note=f"{figure.note} The first of {seeds} seeds.") if seeds > 1 else figure
