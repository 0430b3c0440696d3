"""`outcome.plot` and `comparison.plot`: one chart a method, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.deprecation import renamed
from ringbco.reports import charts
from ringbco.result.outcome import Outcome
from ringbco.result.validation import check_tables
from ringbco.result.window import measured
from ringbco.run.loaded import without_ended

_WIDTH: Final = 460
_HEIGHT: Final = 300
_MOST_SIZES: Final = 2_000  # points of one chart
_UP_TO: Final = ", up to the next power of two"


class Plots:
    """Charts of one outcome, or of several overlaid; each method gives an altair chart.

    Charts hold at most some hundred points an outcome, however many jobs there are.

    Raises InputError where an outcome's jobs or timeline cannot be drawn.
    """

    def __init__(self, outcomes: Mapping[str, Outcome]) -> None:
        self._outcomes = {label: without_ended(outcome) for label, outcome in outcomes.items()}
        for outcome in self._outcomes.values():
            check_tables(outcome)

    def __repr__(self) -> str:
        names = [name for name, own in vars(type(self)).items() if callable(own) and name[0] != "_"]
        return f"charts of {', '.join(self._outcomes)}: {', '.join(f'.{name}()' for name in names)}"

    def jct(self) -> Any:
        """Share of jobs completed within a time of their submission (log scale)."""
        return _sized(charts.completion_times(self._outcomes))

    def wait(self) -> Any:
        """Share of jobs by waiting time, all time off the GPUs (log scale)."""
        title = "Jobs by waiting time"
        return _sized(charts.distribution(self._outcomes, "waited", title, "waiting time"))

    def slowdown(self) -> Any:
        """Share of jobs by slowdown: completion time over ideal run time (log scale)."""
        title = "Jobs by slowdown"
        return _sized(charts.distribution(self._outcomes, "slowdown", title, "slowdown", times=False))

    def busy(self) -> Any:
        """GPUs that jobs hold, over time."""
        return _sized(charts.over_time(self._outcomes, "busy_gpus", "GPUs busy"))

    def queue(self) -> Any:
        """GPUs that waiting jobs ask for, over time."""
        return _sized(charts.over_time(self._outcomes, "queued_gpus", "GPUs asked for by queued jobs"))

    def contention(self) -> Any:
        """Spanning jobs on the busiest server of a spanning job (p_j), mean over such jobs, over time."""
        title = "Contention met by jobs over several servers"
        return _sized(charts.over_time(self._outcomes, "mean_contention", title, unit="mean contention"))

    def jct_by_size(self) -> Any:
        """Mean completion time by the number of GPUs a job asks for (both log scales).

        Of many sizes and outcomes those up to a power of two count as it.
        """
        exact = sum(measured(outcome)["num_gpus"].n_unique() for outcome in self._outcomes.values())
        of = pl.col("num_gpus")
        if exact > _MOST_SIZES:
            power = of.cast(pl.Float64).log(2).ceil().cast(pl.Int64)
            of = pl.lit(2, pl.Int64).pow(power).alias("num_gpus")
        data = pl.concat(
            measured(outcome)
            .group_by(of)
            .agg(pl.col("jct").mean() / 3_600, jobs=pl.len())
            .sort("num_gpus")
            .select(pl.lit(label).alias("policy"), "num_gpus", "jct", "jobs")
            for label, outcome in self._outcomes.items()
        )
        chart = (
            alt.Chart(data, title=f"Mean completion time by job size{_UP_TO if exact > _MOST_SIZES else ''}")
            .mark_line(point=True, strokeWidth=1.5)
            .encode(
                x=alt.X("num_gpus:Q", title="GPUs of the job (log scale)").scale(type="log", base=2),
                y=alt.Y("jct:Q", title="mean completion time, hours (log scale)").scale(type="log"),
                **charts.strokes(self._outcomes),
                tooltip=["policy", "num_gpus", "jobs", alt.Tooltip("jct", format=",.2f", title="hours")],
            )
        )
        return _sized(chart)

    sizes = renamed("sizes", "jct_by_size")


def _sized(chart: Any) -> Any:
    return chart.properties(width=_WIDTH, height=_HEIGHT)
