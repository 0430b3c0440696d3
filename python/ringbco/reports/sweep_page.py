"""`ringbco report` of a sweep's folder: what was varied, a chart of each setting, the best runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

import ringbco
from ringbco.errors import InputError
from ringbco.io.tables import read_table
from ringbco.reports.cells import Table, words
from ringbco.reports.html import document
from ringbco.reports.reading import is_drawn
from ringbco.reports.series import Figure
from ringbco.reports.style import shown as drawing
from ringbco.reports.sweep_figures import REPEATED, Axis, axes, figures, told
from ringbco.reports.text_tables import Cell, Sheet
from ringbco.result.figures import COMPARED
from ringbco.result.figures import Figure as FigureRow
from ringbco.result.seeds import Drawn
from ringbco.result.told import notes_of

_DOCUMENT: Final = "sweep.json"
_TABLE: Final = "runs.parquet"
_SEEDS: Final = "seeds.parquet"
_BEST: Final = 30
_VALUES: Final = 12
_ERRORS: Final = 5
_MOST_TOLD: Final = 60
_COLUMNS: Final = [row for row in COMPARED if row.told == "headline" or row.spread == "jct"]


class _Over(NamedTuple):
    """A sweep's seeds.parquet, how many seeds there are, and what they are."""

    frame: pl.DataFrame
    seeds: int
    drawn: tuple[Drawn, ...]


class SweepRuns(NamedTuple):
    """A sweep's runs.parquet, the settings that its specification varies, and what its seeds tell."""

    frame: pl.DataFrame
    varied: tuple[str, ...]
    over: _Over | None = None


class _Best(NamedTuple):
    """The table of the best runs."""

    note: str
    columns: list[str]
    rows: list[list[str]]


def is_sweep_folder(folder: Path) -> bool:
    """Whether `folder` is what `ringbco sweep` leaves."""
    return (folder / _DOCUMENT).is_file()


def read_sweep(folder: Path) -> SweepRuns:
    """The runs of a sweep's folder; InputError where a file is missing or damaged, or no run did well."""
    path = folder / _DOCUMENT
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        spec = told["spec"]
        tables = [spec.get("grid", {}), *spec.get("runs", [])]
        names = dict.fromkeys(str(name).replace("-", "_") for table in tables for name in table)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"expected the specification of a sweep ({error})", file=path) from None
    frame = read_table(folder / _TABLE, {"command": pl.String(), "error": pl.String()})
    if frame["error"].null_count() == 0:
        raise InputError("expected a run that did not fail; there is none", file=folder / _TABLE)
    over = _read_over(folder, told["seeds"]) if "seeds" in told and (folder / _SEEDS).is_file() else None
    return SweepRuns(frame, tuple(names), over)


def _read_over(folder: Path, told: object) -> _Over:
    """What several seeds tell; InputError where it is damaged."""
    seeds = told.get("seeds") if isinstance(told, dict) else None
    kinds = told.get("drawn") if isinstance(told, dict) else None
    if not (
        isinstance(seeds, int)
        and isinstance(kinds, list)
        and all(isinstance(one, dict) and is_drawn(one) for one in kinds)
    ):
        raise InputError("what differs from seed to seed", file=folder / _DOCUMENT, key="seeds")
    columns = {"measure": pl.String(), **dict.fromkeys(("value", "low", "high"), pl.Float64())}
    frame = read_table(folder / _SEEDS, {**columns, "told": pl.String()})
    return _Over(frame, seeds, tuple(Drawn(**one) for one in kinds))


def sweep_title(runs: SweepRuns) -> str:
    """The traces and the clusters of the runs."""
    names = (
        ", ".join(
            dict.fromkeys(str(value).replace("\\", "/").rsplit("/", 1)[-1] for value in runs.frame[name])
        )
        for name in ("trace", "cluster")
    )
    return " on ".join(names)


def sweep_page(runs: SweepRuns, *, title: str) -> tuple[str, list[Figure]]:
    """The page as text, and the charts on it."""
    swept = axes(runs.frame, runs.varied)
    over = runs.over
    recorded = over is not None and any(one.kind == "resampled" for one in over.drawn)
    # The recorded jobs are the figure; draws of their days tell how sure it is.
    own = runs.frame.filter(pl.col("draw").is_null()) if recorded else runs.frame
    drawn = figures(own, swept)
    frame = runs.frame
    failed = frame.height - frame["error"].null_count()
    best = _best(frame, swept) if over is None else _best_over(over, swept)
    text = document(
        "sweep",
        title=title,
        count=f"{frame.height:,} runs of a sweep" + (f", {failed:,} failed" if failed else ""),
        varied=Table(
            "What was varied", ["setting", "values"], [words(axis.title, _values(axis)) for axis in swept]
        ),
        errors=frame["error"].drop_nulls().unique(maintain_order=True).head(_ERRORS).to_list(),
        charts=[(axis.title, [drawing(figure) for figure in group]) for axis, group in drawn],
        best=Table("Best runs", best.columns, [words(*row) for row in best.rows]),
        note=best.note,
        notes=_notes(over),
        told=_told(over),
    )
    return text, [figure for _, group in drawn for figure in group]


def sweep_caption(runs: SweepRuns) -> str:
    """Runs, jobs, cluster, seeds and version of a sweep."""
    done = runs.frame.filter(pl.col("error").is_null())
    jobs = ", ".join(f"{count:,}" for count in sorted(set(done["jobs"].drop_nulls())))
    of = "one seed" if runs.over is None else f"{runs.over.seeds} seeds ({runs.over.drawn[0].kind})"
    return f"{jobs} jobs of {sweep_title(runs)}; {of}; ringbco {ringbco.__version__}."


def sweep_sheet(runs: SweepRuns) -> Sheet:
    """The best points of a sweep as a table, and all of them as its frame."""
    swept, over = axes(runs.frame, runs.varied), runs.over
    best = _best(runs.frame, swept) if over is None else _best_over(over, swept)
    below = [best.note, *_notes(over), *_told(over)]
    frame = runs.frame if over is None else over.frame
    flat = frame.drop(name for name, dtype in frame.schema.items() if dtype.is_nested())
    return Sheet(sweep_caption(runs), best.columns, [[*map(Cell, row)] for row in best.rows], below, flat)


def _notes(over: _Over | None) -> list[str]:
    return [] if over is None else [text for one in over.drawn for text in notes_of(one, over.seeds)]


def _best_over(over: _Over, swept: Sequence[Axis]) -> _Best:
    """The points of least mean completion time: their settings, and their figures with intervals."""
    names = [axis.name for axis in swept if axis.name in over.frame.columns]
    points: dict[tuple[Any, ...], dict[str, tuple[float | None, float | None, float | None]]] = {}
    for row in over.frame.iter_rows(named=True):
        own = points.setdefault(tuple(row[name] for name in names), {})
        own[row["measure"]] = row["value"], row["low"], row["high"]
    shown = [column for column in _COLUMNS if any(column.key in own for own in points.values())]

    def place(own: Mapping[str, tuple[float | None, ...]]) -> float:
        value = own.get("mean_jct", (None,))[0]
        return math.inf if value is None else value

    rows = []
    for settings, own in sorted(points.items(), key=lambda item: place(item[1]))[:_BEST]:
        cells = [told(name, value) for name, value in zip(names, settings, strict=True)]
        rows.append(cells + [_with_interval(column, own.get(column.key)) for column in shown])
    of = f"The {_BEST} of {len(points):,} points with" if len(points) > _BEST else "All points, by"
    note = (
        f"{of} the least mean completion time, over {over.seeds} seeds, with intervals of 95 %; all are in"
        " seeds.parquet."
    )
    return _Best(note, [name.replace("_", "-") for name in names] + [one.title for one in shown], rows)


def _with_interval(column: FigureRow, told: tuple[float | None, float | None, float | None] | None) -> str:
    value, low, high = told or (None, None, None)
    if value is None or low is None or high is None or low == high:
        return column.show(value)
    ends = column.show_all([low, high])
    return f"{column.show(value)} [{ends[0]}, {ends[1]}]"


def _told(over: _Over | None) -> list[str]:
    """The differences of the main figures, in words."""
    if over is None:
        return []
    main = [row.key for row in COMPARED if row.told == "headline" and row.spread]
    lines = [over.frame.filter(pl.col("measure") == key)["told"].drop_nulls() for key in main]
    return [line for some in lines for line in some][:_MOST_TOLD]


def _values(axis: Axis) -> str:
    values = ", ".join(told(axis.name, value) for value in axis.values[:_VALUES])
    more = f", ... ({len(axis.values):,} in all)" if len(axis.values) > _VALUES else ""
    return values + more + ("; charts average over it" if axis.name == REPEATED else "")


def _best(frame: pl.DataFrame, swept: Sequence[Axis]) -> _Best:
    """The runs of least mean completion time: their settings that differ, and their figures."""
    shown = [column for column in _COLUMNS if column.key in frame.columns]
    runs = frame.filter(pl.col("error").is_null())
    if "mean_jct" in frame.columns:
        runs = runs.sort("mean_jct", maintain_order=True)
    rows = []
    for row in runs.head(_BEST).iter_rows(named=True):
        cells = [told(axis.name, row[axis.name]) for axis in swept]
        cells += [column.show(row[column.key]) for column in shown]
        rows.append(cells)
    of = f"The {_BEST} of {runs.height:,} runs with" if runs.height > _BEST else "All runs, by"
    note = f"{of} the least mean completion time; all are in runs.parquet."
    return _Best(note, [axis.title for axis in swept] + [column.title for column in shown], rows)
