"""What a report's charts over time show: means over even intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.reports import charts
from ringbco.reports.series import DAY, Part, first_few
from ringbco.reports.server_load import mean_spanning, server_gpus
from ringbco.result.outcome import Outcome
from ringbco.result.reliability import DownTime
from ringbco.result.stays import stays_of_done
from ringbco.trace.outages import Outages
from ringbco.trace.shares import MILLI_GPU
from ringbco.trace.side_table import ReadContext

Results = Mapping[str, Outcome]
Floats = NDArray[np.float64]

FULLNESS: Final = {
    "full": "#2B7BBA",
    "partly held: held": "#8FC3EA",
    "partly held: free": "#F0A94B",
    "idle": "#DADDE2",
}
"""What GPUs are, each with its colour; of those held in part what is held, and what is free."""
_INTERVALS: Final = 96
_CELLS: Final = 6_000  # of all heat maps of a page together
_MOST_ROWS: Final = 32
_FEWEST_ROWS: Final = 4
_MOST_SERVICES: Final = 6


def over_time(
    results: Results, column: str, of: Callable[[Outcome], pl.Expr] | None = None
) -> Iterator[Part]:
    """A timeline column, or what `of` makes of one, of the results that have it."""
    there = {label: outcome for label, outcome in results.items() if column in outcome.timeline.columns}
    if not there:
        return
    if of is not None:
        there = {
            label: replace(outcome, timeline=outcome.timeline.with_columns(of(outcome).alias(column)))
            for label, outcome in there.items()
        }
    yield Part(charts.over_time(there, column, "").data.select("policy", "day", "value"))


def queue(results: Results) -> Iterator[Part]:
    """GPUs that waiting jobs ask for."""
    for part in over_time(results, "queued_gpus"):
        yield part if (part.data["value"] > 0).any() else Part.none("No job waited in the queue.")


def contention(results: Results) -> Iterator[Part]:
    """Spanning jobs on the busiest server of one: 1 where each is alone; nothing where none ever spans."""
    spans = (found.timeline.get_column("mean_contention", default=None) for found in results.values())
    if not any(column is not None and (column > 0).any() for column in spans):
        return
    alone = pl.col("mean_contention").clip(lower_bound=1.0)
    for part in over_time(results, "mean_contention", lambda _: alone):
        met = (part.data["value"] > 1).any()
        yield (part if met else Part.none("No contention: no two jobs that span servers shared one."))


def busy(results: Results) -> Iterator[Part]:
    """The share of all GPUs that jobs hold."""
    each = charts.intervals_each(len(results))
    said = f" Averaged over {each} equal intervals." if each < charts.intervals_each(1) else ""
    parts = over_time(results, "busy_gpus", lambda of: pl.col("busy_gpus") / max(sum(server_gpus(of)), 1))
    return (replace(part, note=said) for part in parts)


def spans(results: Results) -> dict[str, tuple[float, float]]:
    """First and last instant of each result's heat map: as many seconds as the charts over time show."""
    seconds = max(charts.last_demand(outcome) - outcome.timeline["time"][0] for outcome in results.values())
    return {
        label: (outcome.timeline["time"][0], outcome.timeline["time"][0] + seconds)
        for label, outcome in results.items()
    }


def edges_of(results: Results) -> dict[str, Floats]:
    """The ends of the intervals of each result, s."""
    return {label: np.linspace(*span, _INTERVALS + 1) for label, span in spans(results).items()}


def steps(edges: Floats, means: Mapping[str, Floats], **facts: Any) -> pl.DataFrame:
    """Values of the intervals between edges; the last once more: a step ends where the next one begins."""
    steps = {name: np.append(mean, mean[-1]).astype(np.float64) for name, mean in means.items()}
    return pl.DataFrame({"day": (edges - edges[0]) / DAY, **steps}).with_columns(
        **{name: pl.lit(value) for name, value in facts.items()}
    )


def evictions(results: Results) -> Iterator[Part]:
    """Stays a day that ended so that others could start."""
    told = {label: found for label, found in results.items() if "evictions" in found.jobs.columns}
    frames = []
    for label, edges in edges_of(told).items() if told else ():
        stays = stays_of_done(told[label].stays, told[label].jobs).filter(pl.col("ended") == "evicted")
        counts, _ = np.histogram(stays["end_time"].to_numpy(), edges)
        a_day = counts / np.diff(edges) * DAY
        frames.append(steps(edges, {"evictions": a_day, "stays": counts}, policy=label))
    if frames:
        yield Part(pl.concat(frames))


def down(results: Results) -> Iterator[Part]:
    """GPUs of the servers that were down; of results with the same outages only of the first."""
    failing = {label: found for label, found in results.items() if found.outages is not None}
    frames: list[pl.DataFrame] = []
    seen: list[pl.DataFrame] = []
    for label, edges in edges_of(failing).items() if failing else ():
        outcome = failing[label]
        assert outcome.outages is not None
        if any(outcome.outages.equals(other) for other in seen):
            continue
        seen.append(outcome.outages)
        gpus = np.array(server_gpus(outcome), np.uint32)
        down = Outages.read(outcome.outages, ReadContext(servers=gpus.size))
        by_clock = down.on_clock(outcome.run.get("options", {}))
        lost = DownTime.of(by_clock, gpus)
        mean = np.array([lost.gpu_seconds(a, b) / (b - a) for a, b in pairwise(edges.tolist())])
        frames.append(steps(edges, {"gpus": mean}, policy=label))
    if frames:
        yield Part(pl.concat(frames))


def replicas(results: Results) -> Iterator[Part]:
    """Replicas of each service, those that run and, once, those wanted."""
    serving = {label: found for label, found in results.items() if found.replicas is not None}
    names: dict[str, None] = {}
    for outcome in serving.values():
        names |= dict.fromkeys(outcome.services["service"].to_list() if outcome.services is not None else ())
    drawn = list(names)[:_MOST_SERVICES]
    frames: dict[str, list[pl.DataFrame]] = {name: [] for name in drawn}
    wishes: list[pl.DataFrame] = []
    for label, edges in edges_of(serving).items() if drawn else ():
        outcome = serving[label]
        assert outcome.services is not None
        assert outcome.replicas is not None
        # Results side by side mostly have the same services: what these want is drawn once.
        known = any(outcome.services.equals(other) for other in wishes)
        wishes.append(outcome.services)
        for name in drawn:
            mine = outcome.replicas.filter(pl.col("service") == name)
            begun, over = (
                _mean(mine[time].to_numpy(), np.ones(mine.height), edges)
                for time in ("start_time", "end_time")
            )
            frames[name].append(steps(edges, {"replicas": begun - over}, policy=label, wanted=False))
            if not known:
                rows = outcome.services.filter(pl.col("service") == name).sort("time")
                change = np.diff(rows["replicas"].to_numpy().astype(np.float64), prepend=0.0)
                wanted = _mean(rows["time"].to_numpy(), change, edges)
                frames[name].append(steps(edges, {"replicas": wanted}, policy=label, wanted=True))
    note = "Running replicas; grey: requested replicas. Averaged over equal intervals."
    if len(names) > len(drawn):
        note += f" Only the first {len(drawn)} of {len(names)} services are shown."
    for name in drawn:
        yield Part(pl.concat(frames[name]), title=f"Replicas of {name}", note=note)
        note = ""


def _mean(times: Floats, changes: Floats, edges: Floats) -> Floats:
    """Means, over each interval between two edges, of a sum that changes at these times."""
    after = np.maximum(edges[1:, None] - np.maximum(times[None, :], edges[:-1, None]), 0.0)
    found: Floats = (after * changes[None, :]).sum(axis=1) / np.diff(edges)
    return found


def fullness(results: Results) -> Iterator[Part]:
    """GPUs by what jobs hold of them, a chart a result that has shares and says who held what."""
    drawn, others = first_few(
        {
            label: found
            for label, found in results.items()
            if "gpu_share" in found.jobs.columns and found.allocations is not None
        }
    )
    for label, edges in edges_of(drawn).items() if drawn else ():
        parts = zip(FULLNESS, fill(drawn[label], edges), strict=True)
        frames = [
            steps(edges, {"gpus": row}, state=state, place=place) for place, (state, row) in enumerate(parts)
        ]
        yield Part(pl.concat(frames), of=label, note=others)


def fill(outcome: Outcome, edges: Floats) -> Floats:
    """GPUs in each state of FULLNESS, a row each: means between each two neighbouring `edges`, s."""
    assert outcome.allocations is not None
    gpu = ("server", "gpu")
    need = (pl.col("share").fill_null(1.0) * MILLI_GPU).round().cast(pl.Int64)
    changes = (
        pl.concat(
            outcome.allocations.select(*gpu, time=time, change=sign * need)
            for time, sign in (("start_time", 1), ("end_time", -1))
        )
        .group_by(*gpu, "time")
        .agg(pl.col("change").sum())
        .sort(*gpu, "time")
        .with_columns(after=pl.col("change").cum_sum().over(gpu))
        .sort("time")
    )
    time, after = changes["time"].to_numpy(), changes["after"].to_numpy()
    before = after - changes["change"].to_numpy()

    def mean(thousandths: Any) -> Floats:
        """Of a quantity that each GPU has by what is held of it."""
        return means_of(time, (thousandths(after) - thousandths(before)) / MILLI_GPU, edges)

    full = mean(lambda held: np.where(held >= MILLI_GPU, MILLI_GPU, 0))
    used = mean(lambda held: np.where(held < MILLI_GPU, held, 0))
    free = mean(lambda held: np.where((held > 0) & (held < MILLI_GPU), MILLI_GPU - held, 0))
    return np.stack((full, used, free, sum(server_gpus(outcome)) - full - used - free))


def means_of(times: Floats, changes: Floats, edges: Floats) -> Floats:
    """Means between edges of a sum that changes at these times, in their order; to a millionth."""
    since, upto = np.maximum(times - edges[0], 0.0), edges - edges[0]
    place = np.searchsorted(since, upto)
    risen, weighed = (np.concatenate(([0.0], np.cumsum(of))) for of in (changes, changes * since))
    seconds = risen[place] * upto - weighed[place]
    # Rounding leaves a little where nothing is held.
    found: Floats = (np.diff(seconds) / np.diff(upto)).round(6)
    return found


def by_server(results: Results) -> Iterator[Part]:
    """Spanning jobs on each server: a heat map each of the results that recorded allocations."""
    drawn, others = first_few(
        {label: found for label, found in results.items() if found.allocations is not None}
    )
    if not drawn:
        return
    ends = edges_of(drawn)
    rows = int(np.clip(_CELLS / _INTERVALS / len(drawn), _FEWEST_ROWS, _MOST_ROWS))
    grids = {}
    for label, outcome in drawn.items():
        assert outcome.allocations is not None
        edges = server_rows(len(server_gpus(outcome)), rows)
        grids[label] = (edges, mean_spanning(outcome.allocations, edges, ends[label]))
    top = max(float(grid.max()) for _, grid in grids.values())
    for label, (edges, grid) in grids.items():
        if not grid.any():
            yield Part.none("No job held GPUs on several servers.", of=label)
            continue
        days = float(ends[label][-1] - ends[label][0]) / DAY
        sizes = sorted({int(size) for size in np.diff(edges)})
        among = f" One row is {' or '.join(f'{size:,}' for size in sizes)} neighbouring servers."
        yield Part(
            _cells(grid, edges, days / _INTERVALS, top),
            of=label,
            also={"servers": int(edges[-1]), "days": days, "top": top},
            note=(among if sizes != [1] else "") + others,
        )


def server_rows(servers: int, most: int) -> NDArray[np.int64]:
    """The first server of each of at most `most` rows of neighbouring servers, and the end of the last.

    Rows of the same number of servers where that takes at most half more than needed, else of two numbers
    that differ by one: a row of far fewer servers than the others is averaged less, and would stand out.
    """
    needed = max(1, -(-servers // most))
    even = (each for each in range(needed, needed + needed // 2 + 1) if servers % each == 0)
    each = next(even, needed)
    rows = max(1, servers // each)
    return np.arange(rows + 1, dtype=np.int64) * servers // rows


def _cells(grid: Floats, edges: NDArray[np.int64], step: float, top: float) -> pl.DataFrame:
    """The cells of a grid that are not empty: a row each of intervals of `step` days by rows of servers.

    Neighbours in time that are drawn alike are one.
    """
    level = np.where(grid > 0, 1 + np.round(7 * np.clip(grid - 1, 0, None) / max(top - 1, 1e-9)), 0)
    rows = []
    for row, levels in enumerate(level):
        turns = np.flatnonzero(np.diff(levels)) + 1
        for first, last in pairwise([0, *turns.tolist(), levels.size]):
            if levels[first]:
                jobs = float(grid[row, first:last].mean())
                rows.append((int(edges[row]), int(edges[row + 1]), first * step, last * step, jobs))
    names = {
        "row": pl.Int64,
        "end_row": pl.Int64,
        "day": pl.Float64,
        "end_day": pl.Float64,
        "jobs": pl.Float64,
    }
    return pl.DataFrame(rows, schema=names, orient="row")
