"""`ringbco report` of a sweep's folder: what was varied, a chart of each setting, the best runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from ringbco.errors import InputError
from ringbco.io.tables import read_table
from ringbco.reports.html import document
from ringbco.reports.series import Figure
from ringbco.reports.style import on_page
from ringbco.reports.sweep_figures import REPEATED, Axis, axes, figures, told
from ringbco.result.figures import COMPARED

_DOCUMENT: Final = "sweep.json"
_TABLE: Final = "runs.parquet"
_BEST: Final = 30
_VALUES: Final = 12
_ERRORS: Final = 5
_COLUMNS: Final = [row for row in COMPARED if row.told == "headline" or row.spread == "jct"]


class SweepRuns(NamedTuple):
    """A sweep's runs.parquet, and the settings that its specification varies."""

    frame: pl.DataFrame
    varied: tuple[str, ...]


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
        spec = json.loads(path.read_text(encoding="utf-8"))["spec"]
        tables = [spec.get("grid", {}), *spec.get("runs", [])]
        names = dict.fromkeys(str(name).replace("-", "_") for table in tables for name in table)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"expected the specification of a sweep ({error})", file=path) from None
    frame = read_table(folder / _TABLE, {"command": pl.String(), "error": pl.String()})
    if frame["error"].null_count() == 0:
        raise InputError("expected a run that did not fail; there is none", file=folder / _TABLE)
    return SweepRuns(frame, tuple(names))


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
    drawn = figures(runs.frame, swept)
    specs: dict[str, Any] = {figure.name: on_page(figure) for _, group in drawn for figure in group}
    frame = runs.frame
    failed = frame.height - frame["error"].null_count()
    text = document(
        "sweep",
        specs,
        (),
        title=title,
        count=f"{frame.height:,} runs of a sweep" + (f", {failed:,} failed" if failed else ""),
        varied=[(axis.title, _values(axis)) for axis in swept],
        errors=frame["error"].drop_nulls().unique(maintain_order=True).head(_ERRORS).to_list(),
        charts=drawn,
        best=_best(frame, swept),
    )
    return text, [figure for _, group in drawn for figure in group]


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
