"""The result folder: what a replay leaves behind, written whole or not at all."""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ringbco import atomic
from ringbco.atomic import recover, whole_path
from ringbco.errors import InputError, RingbcoError
from ringbco.frames import arrow_source, refuse_unheld
from ringbco.metrics import with_seconds
from ringbco.threads import at_once
from ringbco.toml import read_toml, toml_text

if TYPE_CHECKING:
    from ringbco.compare import Comparison
    from ringbco.report.plots import Plots

JOBS_SCHEMA: Final = {
    "job_id": pl.String(),
    "submit_time": pl.Float64(),
    "start_time": pl.Float64(),
    "finish_time": pl.Float64(),
    "wait_time": pl.Float64(),
    "run_time": pl.Float64(),
    "jct": pl.Float64(),
    "slowdown": pl.Float64(),
    "ideal_run_time": pl.Float64(),
    "num_gpus": pl.UInt32(),
    "num_servers": pl.UInt32(),
    "max_contention": pl.UInt32(),
    "preemptions": pl.UInt32(),
}
PREEMPTION_SCHEMA: Final = {"held_time": pl.Float64(), "lost_time": pl.Float64()}  # policies that preempt
CARRIED_COLUMNS: Final = ("user", "vc", "deadline")  # after the others, where the job table has them
ALLOCATIONS_SCHEMA: Final = {
    "job_id": pl.String(),
    "server": pl.UInt32(),
    "num_gpus": pl.UInt32(),
    "start_time": pl.Float64(),
    "end_time": pl.Float64(),
}
TIMELINE_SCHEMA: Final = {
    "time": pl.Float64(),
    "running_jobs": pl.UInt32(),
    "queued_jobs": pl.UInt32(),
    "busy_gpus": pl.UInt64(),
    "queued_gpus": pl.UInt64(),
    "spanning_jobs": pl.UInt32(),
    "mean_contention": pl.Float64(),
}
_TABLES: Final[dict[str, tuple[str, Mapping[str, pl.DataType]]]] = {
    "jobs": ("jobs.parquet", JOBS_SCHEMA),
    "allocations": ("allocations.parquet", ALLOCATIONS_SCHEMA),
    "timeline": ("timeline.parquet", TIMELINE_SCHEMA),
}
_SHOWN_RESULTS: Final = 6
_SUMMARY: Final = "summary.json"
_RUN: Final = "run.toml"
RESULT_FILES: Final = frozenset({_SUMMARY, _RUN, *(file for file, _ in _TABLES.values())})


@dataclass(eq=False)
class Outcome:
    """What a replay gives. Times in seconds, columns as docs/results.md lists them.

    jobs: one row a job that ran, in the job table's row order.
    allocations: one row a stretch on a server; None when they were not recorded.
    timeline: the cluster's state at sampled instants.
    summary: plain values, as summary.json holds them.
    run: everything needed to repeat the run, as run.toml holds it.
    """

    jobs: pl.DataFrame
    allocations: pl.DataFrame | None
    timeline: pl.DataFrame
    summary: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: str | os.PathLike[str], *, force: bool = False) -> dict[str, Any]:
        """Writes the result folder, whole or not at all; with `force` a result already there is replaced.

        Returns the summary as written: this outcome's, with the time that writing took counted in.

        Raises InputError where `folder` exists (without `force`, or when it is no result of ringbco's) and
        where the system refuses to write.
        """
        started = time.perf_counter()
        with whole_folder(folder, force=force) as partial:
            # The figures beside the tables: one keeps one core busy, the other little more.
            tasks: list[Callable[[], float | None]] = [self._settle]
            for name, (file, _) in _TABLES.items():
                frame = getattr(self, name)
                if frame is not None:
                    tasks.append(functools.partial(write_table, frame, partial / file))
            counted = at_once(tasks)[0] or 0.0
            summary = with_seconds(self.summary, time.perf_counter() - started - counted)
            (partial / _SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
            # Who reads it must know whether allocations are missing or were never there.
            options = {**self.run.get("options", {}), "allocations": self.allocations is not None}
            record = toml_text({**self.run, "options": options})
            (partial / _RUN).write_text(record, encoding="utf-8")
        return summary

    def compare(self, *others: Outcome) -> Comparison:
        """This outcome and `others` side by side, with the others' figures as ratios to this one's."""
        from ringbco.compare import side_by_side

        return side_by_side((self, *others))

    @property
    def plot(self) -> Plots:
        """Charts of this outcome, such as `outcome.plot.jct()`."""
        from ringbco.report.plots import Plots

        return Plots({str(self.summary.get("policy", "outcome")): self})

    def __repr__(self) -> str:
        on = self.run.get("cluster", {}).get("name", "?")
        return f"<Outcome: {self.jobs.height:,} jobs on {on} under {self.summary.get('policy', '?')}>"

    def _repr_html_(self) -> str:
        from ringbco.report.notebook import outcome_html

        return outcome_html(self)

    def _settle(self) -> float:
        """Works the summary out where that is still to be done; the seconds counted in it for that."""
        if "summary" in self.__dict__:
            return 0.0
        began = time.perf_counter()
        figures = self.__dict__["_figures"]()
        seconds = time.perf_counter() - began
        self.summary = with_seconds(figures, seconds)
        self.__dict__.pop("_figures", None)
        return seconds

    if not TYPE_CHECKING:  # a checker would then let any name pass

        def __getattr__(self, name: str) -> Any:
            """The summary that `summarised_later` left to do."""
            if name != "summary" or "_figures" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self._settle()
            return self.summary

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return self.__dict__

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Outcome:
        """Reads a result folder back.

        Raises InputError naming the file that is missing, damaged or of another schema.
        """
        path = Path(folder)
        if not is_result(path):
            raise _no_result(path)
        run = read_toml(path / _RUN)
        options = run.get("options", {})
        if not isinstance(options, dict):
            raise InputError("a table [options]", file=path / _RUN, key="options", value=options)
        recorded = options.get("allocations", True)
        tables = {
            name: read_table(path / file, schema)
            for name, (file, schema) in _TABLES.items()
            if name != "allocations" or recorded
        }
        return cls(
            jobs=tables["jobs"],
            allocations=tables.get("allocations"),
            timeline=tables["timeline"],
            summary=_read_summary(path / _SUMMARY),
            run=run,
        )


def summarised_later(outcome: Outcome, figures: Callable[[], dict[str, Any]]) -> Outcome:
    """The outcome, whose summary is what `figures` gives when somebody first asks for it.

    `Outcome.write` asks while it writes the tables, which takes as long. The time that `figures` takes is
    counted in the summary.
    """
    outcome.__dict__.pop("summary", None)
    outcome.__dict__["_figures"] = figures
    return outcome


def count_seconds(outcome: Outcome, seconds: float) -> None:
    """Counts `seconds` more in the summary, without asking for it before its time."""
    if "summary" in outcome.__dict__:
        outcome.summary = with_seconds(outcome.summary, seconds)
    else:
        figures = outcome.__dict__["_figures"]
        summarised_later(outcome, lambda: with_seconds(figures(), seconds))


def _read_summary(path: Path) -> dict[str, Any]:
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"not readable as JSON ({error})", file=path) from None
    if not isinstance(summary, dict) or not {"policy", "jobs"} <= set(summary):
        raise InputError("expected the summary of a run: an object with policy, jobs and more", file=path)
    return summary


def _no_result(path: Path) -> InputError:
    """What to raise for a path that is no result folder: what it is, or the results that it holds."""
    expected = (
        "expected a result folder of `ringbco replay` or `ringbco plan`, with run.toml and summary.json"
    )
    if not path.exists():
        return InputError(f"{expected}; there is nothing of this name", file=path)
    if not path.is_dir():
        return InputError(f"{expected}; this is a file", file=path)
    if (path / _SUMMARY).is_file() and (path / _RUN).is_file():
        read_toml(path / _RUN)  # says so itself if it is no TOML
        return InputError("expected the record of a run, with a table [ringbco]", file=path / _RUN)
    inside = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and is_result(entry))
    if not inside:
        return InputError(expected, file=path)
    shown = ", ".join(inside[:_SHOWN_RESULTS]) + (", ..." if len(inside) > _SHOWN_RESULTS else "")
    return InputError(expected, file=path, hint=f"it holds the results {shown}: name one of them")


def is_result(path: Path) -> bool:
    """Whether `path` is a folder that `Outcome.write` made."""
    if not (path / _SUMMARY).is_file():
        return False
    try:
        return "ringbco" in read_toml(path / _RUN)
    except RingbcoError:
        return False


def read_run(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """run.toml of a result folder; InputError where the folder is none."""
    path = Path(folder)
    if not is_result(path):
        raise _no_result(path)
    return read_toml(path / _RUN)


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Writes Parquet: the same frame gives the same bytes. Raises OSError where the system refuses."""
    try:
        # Opened here: polars takes no name that is not UTF-8.
        with open(path, "wb") as file:
            frame.write_parquet(file, compression="zstd", compression_level=1, statistics=False)
    except pl.exceptions.PolarsError as error:
        # Polars wraps what the system said: "...: No space left on device (os error 28)".
        said = re.search(r"\(os error (\d+)\)", str(error))
        number = int(said.group(1)) if said else errno.EIO
        raise OSError(number, os.strerror(number)) from error


def read_table(path: Path, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Reads one Parquet table of a result folder; InputError if it is missing, damaged or lacks a column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise InputError("expected a file of the result folder; it is missing", file=path)
    try:
        # pyarrow, not polars: polars' reader panics on some damaged files.
        file = pq.ParquetFile(arrow_source(path))
        refuse_unheld(path, file.schema_arrow)
        table = file.read()
        table.validate(full=True)
        frame = pl.from_arrow(table)
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError, MemoryError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"is a truncated or damaged Parquet file ({reason})", file=path) from None
    assert isinstance(frame, pl.DataFrame)
    for name, dtype in schema.items():
        if name not in frame.columns:
            raise InputError(f"expected a column {name}; there is none", file=path)
        if frame.schema[name] != dtype:
            raise InputError(f"{dtype}", file=path, column=name, value=str(frame.schema[name]))
    return frame


def is_only_result(path: Path) -> bool:
    """Whether `Outcome.write` may replace `path`; InputError if it is a result that holds something else."""
    return is_result(path) and holds_only(path, RESULT_FILES)


def holds_only(path: Path, files: Collection[str], *, results: bool = False) -> bool:
    """True; InputError, with its name, if something in `path` is neither one of `files` nor made of them.

    That is what `report` and `timeline` draw of it and, where `results` says that `path` has such, a
    result folder that again holds nothing else.
    """
    from ringbco.report.outputs import are_pictures, is_output

    for entry in sorted(path.iterdir()):
        known = entry.name in files or (entry.is_file() and is_output(entry)) or are_pictures(entry)
        if not known and not (results and entry.is_dir() and is_only_result(entry)):
            raise InputError(
                f"holds {entry.name}, which is no part of a result, so --force does not replace it",
                file=path,
                hint="move that away, or give another name",
            )
    return True


def check_target(
    folder: str | os.PathLike[str], *, force: bool, ours: Callable[[Path], bool] = is_only_result
) -> Path:
    """The resolved path of an output folder, once it is sure that it may be made or replaced.

    Raises InputError where it exists and `force` is not given or `ours` does not know it, or where no folder
    can be made. `ours` may raise it too.
    """
    target = whole_path(folder)
    recover(target)
    if not os.path.lexists(target):
        ancestor = next(parent for parent in target.parents if os.path.lexists(parent))
        if not ancestor.is_dir():
            raise InputError(f"cannot be made: {ancestor} is not a folder", file=folder)
        if not os.access(ancestor, os.W_OK | os.X_OK):
            raise InputError(f"cannot be made: no permission to write in {ancestor}", file=folder)
    elif not force:
        raise InputError(
            "already exists", file=folder, hint="pass --force to replace it, or give another name"
        )
    else:
        _check_replaceable(folder, target, ours)
    if force and os.path.lexists(target) and not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"cannot be replaced: no permission to write in {target.parent}", file=folder)
    return target


def _check_replaceable(folder: str | os.PathLike[str], path: Path, ours: Callable[[Path], bool]) -> None:
    """Raises InputError unless `path`, which is or was `folder`, may be replaced with --force."""
    if not ours(path) and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(
            "already exists and is no result of ringbco's, so --force does not replace it",
            file=folder,
            hint="give another name",
        )


@contextmanager
def whole_folder(
    folder: str | os.PathLike[str], *, force: bool, ours: Callable[[Path], bool] = is_only_result
) -> Iterator[Path]:
    """A fresh folder beside `folder` to write in; it takes `folder`'s name when the block ends well.

    On any failure, an interrupt included, it is removed with all that is in it, and an earlier result stays.
    Raises InputError as `check_target` does, also where another program makes the folder meanwhile.
    """
    target = check_target(folder, force=force, ours=ours)

    def replaceable(path: Path) -> None:
        _check_replaceable(folder, path, ours)

    with atomic.whole_folder(folder, target, replaceable if force else None) as partial:
        yield partial
