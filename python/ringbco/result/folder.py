"""Result folders: written whole or not at all, told from other folders, replaced with care."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, RingbcoError
from ringbco.io import atomic, disk
from ringbco.io.atomic import recover, whole_path
from ringbco.io.json_text import json_text
from ringbco.io.manifest import OutputKind, foreign, is_kind, write_manifest
from ringbco.io.toml import read_toml
from ringbco.result.tables import RESULT_FILES, RUN, SUMMARY, TABLES

WALL_TIME: Final = ("engine_seconds", "total_seconds", "jobs_per_second")
"""The figures of a summary that two runs do not share."""
_SHOWN_RESULTS: Final = 6
_LOOKS: Final = 100


def read_summary(path: Path) -> dict[str, Any]:
    """The figures of a run; InputError where the file holds none."""
    try:
        summary = json.loads(path.read_text(encoding="utf-8"), parse_constant=_finite, parse_float=_finite)
    except (OSError, ValueError) as error:
        raise InputError(f"not readable as JSON ({error})", file=path) from None
    if not isinstance(summary, dict) or not {"policy", "jobs"} <= set(summary):
        raise InputError("expected the summary of a run: an object with policy, jobs and more", file=path)
    return summary


def _finite(text: str) -> float:
    """A number of JSON, which has neither NaN nor infinities."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text}: expected a finite number")
    return number


def _no_result(path: Path) -> InputError:
    """What to raise for a path that is no result folder: what it is, or the results that it holds."""
    expected = (
        "expected a result folder of `ringbco replay` or `ringbco plan`, with run.toml and summary.json"
    )
    if not path.exists():
        return InputError(f"{expected}; there is nothing of this name", file=path)
    if not path.is_dir():
        return InputError(f"{expected}; this is a file", file=path)
    if (path / SUMMARY).is_file() and (path / RUN).is_file():
        read_toml(path / RUN)  # says so itself if it is no TOML
        return InputError("expected the record of a run, with a table [ringbco]", file=path / RUN)
    inside = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and is_result(entry))
    if not inside:
        return InputError(expected, file=path)
    shown = ", ".join(inside[:_SHOWN_RESULTS]) + (", ..." if len(inside) > _SHOWN_RESULTS else "")
    return InputError(expected, file=path, hint=f"it holds the results {shown}: name one of them")


def is_result(path: Path) -> bool:
    """Whether `path` is a folder that `Outcome.write` made."""
    if not (path / SUMMARY).is_file():
        return False
    try:
        return "ringbco" in read_toml(path / RUN)
    except RingbcoError:
        return False


def read_run(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """run.toml of a result folder; InputError where the folder is none."""
    path = Path(folder)
    if not is_result(path):
        raise _no_result(path)
    return read_toml(path / RUN)


def copy_in(folder: Path, table: str, run: Mapping[str, Any]) -> Path | None:
    """The copy of a side table in a result folder; None where it has none. run: its run.toml."""
    told = TABLES[table]
    there = told.is_there(run.get("options", {}), run.get("record", {}))
    return folder / told.file if there else None


def figures_digest(folder: Path) -> str:
    """SHA-256 of the figures of a result's summary.json, but for those of wall time."""
    figures = {name: value for name, value in read_summary(folder / SUMMARY).items() if name not in WALL_TIME}
    return hashlib.sha256(json_text(figures).encode()).hexdigest()


def _sealed(folder: Path) -> dict[str, str]:
    """The figures' digest, where the summary is a run's and not a file that somebody else keeps there."""
    try:
        return {SUMMARY: figures_digest(folder)}
    except InputError:
        return {}


RESULT: Final = OutputKind("result", RESULT_FILES, is_result, sealed=_sealed)


def check_target(folder: str | os.PathLike[str], *, force: bool, kind: OutputKind = RESULT) -> Path:
    """The resolved path of an output folder, once it is sure that it may be made or replaced.

    A link stands for what it leads to. Raises InputError where it exists and `force` is not given, or it is
    no folder of that kind, or somebody else's file there has a name of ours; and where no folder can be made.
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
        _foreign_files(folder, target, kind)
    if force and os.path.lexists(target) and not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"cannot be replaced: no permission to write in {target.parent}", file=folder)
    return target


def _foreign_files(folder: str | os.PathLike[str], path: Path, kind: OutputKind) -> Sequence[Path]:
    """What others put into `path`, which is or was `folder`; InputError unless --force may replace it.

    Where another run replaces the folder meanwhile, what was seen was of both: it is looked at again.
    """
    for _ in range(_LOOKS):
        before = _which(path)
        try:
            return _seen(folder, path, kind)
        except InputError:
            if _which(path) == before:
                raise
    return _seen(folder, path, kind)


def _which(path: Path) -> tuple[int, int] | None:
    """Which folder has the name now."""
    try:
        there = path.stat()
    except OSError:
        return None
    return there.st_ino, there.st_mtime_ns


def _seen(folder: str | os.PathLike[str], path: Path, kind: OutputKind) -> Sequence[Path]:
    try:
        if is_kind(path, kind):
            return foreign(path, kind, Path(folder))
        empty = path.is_dir() and not any(path.iterdir())
    except OSError as error:
        raise InputError(f"cannot be looked into: {error.strerror}", file=folder) from error
    if not empty:
        raise InputError(
            "already exists and is no result of ringbco's, so --force does not replace it",
            file=folder,
            hint="give another name",
        )
    return ()


@contextmanager
def whole_folder(folder: str | os.PathLike[str], *, force: bool, kind: OutputKind = RESULT) -> Iterator[Path]:
    """A fresh folder beside `folder` to write in; it takes `folder`'s name when the block ends well.

    It gets a manifest. With `force` an earlier one is replaced, and what others put into that is kept in the
    new one. On any failure, an interrupt included, the fresh folder is removed with all that is in it, and
    the earlier one stays. Raises InputError as `check_target` does, also where another program makes the
    folder meanwhile.
    """
    target = check_target(folder, force=force, kind=kind)

    def replaceable(path: Path) -> Sequence[Path]:
        return _foreign_files(folder, path, kind)

    with atomic.whole_folder(folder, target, replaceable if force else None) as partial:
        yield partial
        write_manifest(partial, kind)


def place_again(result: Path, folder: Path) -> dict[str, Any]:
    """Puts the files of a result folder into a fresh one, as second names where the system has such.

    Returns the summary.
    """
    with whole_folder(folder, force=False) as partial:
        for name in sorted(RESULT_FILES):
            if (result / name).is_file():
                try:
                    disk.link(result / name, partial / name)
                except OSError:
                    shutil.copyfile(result / name, partial / name)
    return read_summary(folder / SUMMARY)


def cluster_of(run: Mapping[str, Any]) -> Cluster:
    """The cluster that run.toml describes. Raises InputError if it describes none."""
    described = run.get("cluster")
    if not isinstance(described, Mapping):
        raise InputError("run.toml: expected a table [cluster]")
    document = {key: value for key, value in described.items() if key != "name"}
    cluster = Cluster.from_document(document, "run.toml: cluster", name=str(described.get("name", "")))
    # Earlier versions did not know a recorded cluster: the work came from the run's own.
    return cluster if "recorded" in document else cluster.with_recorded(cluster)
