"""The figures by which results are compared: one list, in the order of a comparison's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from ringbco.result.metrics import STATISTICS
from ringbco.units import Kind, figure, figures, same


class Measure(NamedTuple):
    """A row of a comparison: the summary's key, what it is called, how it reads, and which end is good."""

    key: str
    title: str
    kind: Kind
    best: Literal["least", "most", "neither"] = "least"

    @property
    def group(self) -> str:
        """What it is a statistic of, such as "jct" or "bounded_slowdown"; "" for a single figure."""
        statistic, _, name = self.key.partition("_")
        return name if statistic in STATISTICS and name in _SPREAD else ""

    def show(self, value: float | None) -> str:
        """The value as people read it; "-" where there is none."""
        return "-" if value is None else figure(self.kind, value)

    def show_ends(self, ends: tuple[float, float] | None) -> str:
        """The least and the greatest value over seeds as people read them; "" where there is one seed."""
        if ends is None:
            return ""
        least, greatest = map(self.show, ends)
        return "always" if least == greatest else f"{least} to {greatest}"

    def show_all(self, values: Sequence[float | None]) -> list[str]:
        """As `show`, side by side: values that differ do not print alike."""
        told = iter(figures(self.kind, [value for value in values if value is not None]))
        return ["-" if value is None else next(told) for value in values]


TIME_TO_START: Final = "time_to_start"
SPREADS: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("jct", "completion time", "time"),
    ("wait", "waiting time", "time"),
    (TIME_TO_START, "time to start", "time"),
    ("slowdown", "slowdown", "number"),
    ("bounded_slowdown", "bounded slowdown", "number"),
)
SINGLES: Final = (
    Measure("makespan", "makespan", "time"),
    # GPUs held: contention and resuming hold them longer, so more of it may be waste. After the last
    # submission only the longest jobs run out, which says little of a policy: so this one leads.
    Measure("utilisation_to_last_submission", "utilisation to last submission", "share", best="neither"),
    Measure("utilisation", "utilisation, whole run", "share", best="neither"),
    Measure("mean_contention", "mean contention", "number"),
    Measure("jobs_spread", "jobs over several servers", "count"),
    # At the finish Themis' finish-time fairness is the slowdown: its mean is that of the slowdown, above.
    Measure("worst_finish_time_fairness", "worst slowdown", "number"),
    Measure("jain_index_users", "Jain's index over users", "index", best="most"),
    Measure("preemptions", "preemptions", "count"),
    Measure("lost_gpu_seconds", "GPU time lost to them", "time"),
    Measure("resizes", "resizes, among the preemptions", "count", best="neither"),
    Measure("resize_lost_gpu_seconds", "GPU time lost to resizes", "time"),
    Measure("evictions", "evictions", "count"),
    Measure("mean_search_gpu_hours", "GPU-hours a search", "number"),
    Measure("mean_time_to_best", "time to the best trial", "time"),
    Measure("energy_kwh", "energy, kWh", "number"),
    Measure("cost", "cost", "number"),
    Measure("deadlines_met", "deadlines met", "share", best="most"),
    # Replays that run side by side slow each other down: no merit of a policy.
    Measure("engine_seconds", "time in the engine", "time", best="neither"),
)
_SPREAD: Final = {name for name, _, _ in SPREADS}
OVER_BOUND: Final = Measure("mean_jct_over_bound", "mean completion time / lower bound", "number")
"""No key of a summary: a comparison works it out (docs/bound.md)."""
MEASURES: Final = (
    *(
        Measure(f"{statistic}_{name}", f"{statistic} {title}", kind)
        for name, title, kind in SPREADS
        for statistic in STATISTICS
    ),
    OVER_BOUND,
    *SINGLES,
)
MAY_BE_NULL: Final = ("utilisation_to_last_submission",)
"""Measures that a summary has as null where there is nothing to share: every server was down."""
MEASURED_HERE: Final = ("engine_seconds",)
"""Measures of this machine, not of the policy: no two runs agree on them, so no Parquet file holds them."""


def waits_again(summary: Mapping[str, Any]) -> bool:
    """Whether jobs waited after their first start: else the time to start is the waiting time."""
    start, wait = (summary.get(f"mean_{name}") for name in (TIME_TO_START, "wait"))
    return start is not None and wait is not None and not same(start, wait)
