"""The result folder: what a replay leaves behind, written whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import time
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ringbco.atomic import cannot_write
from ringbco.errors import InputError, RingbcoError
from ringbco.metrics import with_seconds

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
            for name, (file, _) in _TABLES.items():
                frame = getattr(self, name)
                if frame is not None:
                    write_table(frame, partial / file)
            summary = with_seconds(self.summary, time.perf_counter() - started)
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

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Outcome:
        """Reads a result folder back.

        Raises InputError naming the file that is missing, damaged or of another schema.
        """
        path = Path(folder)
        if not is_result(path):
            raise _no_result(path)
        run = _read_toml(path / _RUN)
        recorded = run.get("options", {}).get("allocations", True)
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
        _read_toml(path / _RUN)  # says so itself if it is no TOML
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
        return "ringbco" in _read_toml(path / _RUN)
    except RingbcoError:
        return False


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Writes Parquet: the same frame gives the same bytes. Raises OSError where the system refuses."""
    try:
        frame.write_parquet(path, compression="zstd", compression_level=1, statistics=False)
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
        table = pq.ParquetFile(path).read()
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
    from ringbco.report.outputs import is_output
    from ringbco.report.pictures import are_pictures

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
    target = Path(folder).resolve()
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
    elif not ours(target) and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(
            "already exists and is no result of ringbco's, so --force does not replace it",
            file=folder,
            hint="give another name",
        )
    elif not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"cannot be replaced: no permission to write in {target.parent}", file=folder)
    return target


@contextmanager
def whole_folder(
    folder: str | os.PathLike[str], *, force: bool, ours: Callable[[Path], bool] = is_only_result
) -> Iterator[Path]:
    """A fresh folder beside `folder` to write in; it takes `folder`'s name when the block ends well.

    On any failure, an interrupt included, it is removed with all that is in it, and an earlier result stays.
    """
    target = check_target(folder, force=force, ours=ours)
    made = [parent for parent in target.parents if not parent.exists()]
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.mkdir(parents=True)
        yield partial
        _put_in_place(partial, target)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in made:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()
        if isinstance(error, OSError):
            raise cannot_write(folder, error) from error
        raise


def _put_in_place(partial: Path, target: Path) -> None:
    if not target.exists():
        partial.rename(target)
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
    target.rename(old)
    try:
        partial.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def toml_text(document: Mapping[str, Any]) -> str:
    """TOML of nested dicts; leaves are scalars, lists of them or of dicts, or None, which is skipped."""
    lines: list[str] = []
    _append_table(lines, document, ())
    return "\n".join(lines).strip() + "\n"


def _append_table(lines: list[str], table: Mapping[str, Any], path: tuple[str, ...]) -> None:
    for key, value in table.items():
        if isinstance(value, list) and not any(isinstance(entry, Mapping) for entry in value):
            lines.append(f"{key} = [{', '.join(map(_toml_value, value))}]")
        elif value is not None and not isinstance(value, Mapping | list):
            lines.append(f"{key} = {_toml_value(value)}")
    for key, value in table.items():
        below = (*path, key)
        if isinstance(value, Mapping):
            lines.extend(("", f"[{'.'.join(below)}]"))
            _append_table(lines, value, below)
        elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
            for entry in value:
                lines.extend(("", f"[[{'.'.join(below)}]]"))
                _append_table(lines, entry, below)


def _toml_value(value: str | bool | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL; a path's undecodable bytes have no spelling in either.
        text = value.encode("utf-8", "replace").decode("utf-8")
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
    return repr(value)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"not readable as TOML ({error})", file=path) from None
