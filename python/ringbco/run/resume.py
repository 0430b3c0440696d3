"""The finished runs of a comparison that has not come to its end, in a folder beside its own.

`cmp.unfinished` holds one folder per run, named by what decides the run's result. The same comparison takes
them from there when it is repeated. They are removed when `cmp` is written; other files there are kept.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Final, NamedTuple

from ringbco.errors import InputError, RingbcoError
from ringbco.io import disk, marks
from ringbco.io.atomic import recover, sibling, whole_path
from ringbco.io.digests import json_digest, sha256_of
from ringbco.io.json_text import json_text
from ringbco.result.folder import whole_folder
from ringbco.result.outcome import Outcome
from ringbco.result.tables import RESULT_FILES
from ringbco.run.options import is_log
from ringbco.run.outage_draws import is_draw
from ringbco.run.registry import BUILT_IN
from ringbco.run.setup import Setup
from ringbco.trace.side_tables import KINDS

ENDING: Final = "unfinished"
_MARK: Final = "ringbco.json"
_MARKED: Final = {"ringbco": "unfinished comparison"}
_RECORD: Final = "record.json"
_RESULT: Final = "result"
# A run's folder, or what a killed writer left of one.
_NAME: Final = re.compile(r"\.?([0-9a-f]{64})(\.[0-9a-f]{16}\.(partial|old))?")


class FinishedRun(NamedTuple):
    """A replay that is over: its figures, the lower bound of its jobs, its tables.

    bound: None where it was not asked for. outcome: None for all runs of a label but the first. folder: where
    that outcome is kept; None where it is not.
    """

    summary: dict[str, Any]
    bound: float | None
    outcome: Outcome | None
    folder: Path | None = None


class FinishedRuns:
    """The folder of the finished runs; there is none until a run is kept. To be used in a `with`.

    folder: its path. found: the keys of the runs that were taken from it. damaged: the records that were not
    as they had been written, whose runs are made again.
    """

    def __init__(self, out: str | os.PathLike[str]) -> None:
        """out: the comparison's folder. Raises InputError for a folder of that name that is not ours."""
        self.folder = sibling(whole_path(out), ENDING)
        self.found: list[str] = []
        self.damaged: list[Path] = []
        self._added: list[str] = []
        self._parents: list[Path] = []
        self._descriptor: int | None = None
        self._theirs = False  # another comparison of this name keeps its runs there
        self._full = False
        self._claimed: set[str] = set()
        self._lock = Lock()

    def __enter__(self) -> FinishedRuns:
        if os.path.lexists(self.folder):
            mark = self.folder / _MARK
            empty = self.folder.is_dir() and not any(self.folder.iterdir())
            if self.folder.is_symlink() or not (empty or marks.document(mark) == _MARKED):
                raise InputError(
                    "expected the runs of an interrupted comparison; this is somebody else's",
                    file=self.folder,
                    hint="move it away, or give -o another name",
                )
            self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def __len__(self) -> int:
        return len(self.found) + len(self._added)

    def get(self, key: str, *, whole: bool) -> FinishedRun | None:
        """The run of that key as it was kept; None where it was not. whole: with its tables."""
        place = self.folder / key
        if self._theirs or key in self._claimed or not os.path.lexists(place):
            return None
        record: dict[str, Any] = marks.document(place / _RECORD)
        summary, files = record.get("summary"), record.get("files")
        if record.pop("sha256", None) != json_digest([key, record]) or files != _files(place / _RESULT):
            self.damaged.append(place / _RECORD)
            return None
        if whole and not files:
            return None
        outcome = Outcome.read(place / _RESULT) if whole else None
        self.found.append(key)
        return FinishedRun(summary or {}, record.get("bound"), outcome, place / _RESULT if whole else None)

    def add(self, key: str, ended: FinishedRun) -> FinishedRun:
        """Keeps a run. Where the system refuses that the comparison goes on without."""
        place = self.folder / key
        try:
            if not self._claim(key):
                return ended
            _remove(place)
            with whole_folder(place, force=False) as partial:
                if ended.outcome is not None:
                    ended.outcome.write(partial / _RESULT)
                record = {
                    "summary": ended.summary,
                    "bound": ended.bound,
                    "files": _files(partial / _RESULT),
                }
                text = json_text({**record, "sha256": json_digest([key, record])})
                (partial / _RECORD).write_text(text + "\n", encoding="utf-8")
        except (OSError, RingbcoError):
            self._full = True
            return ended
        self._added.append(key)
        return ended._replace(folder=None if ended.outcome is None else place / _RESULT)

    def discard(self) -> None:
        """Removes what was added: the comparison fails, and would fail again."""
        self._remove(self._added)
        self._added.clear()

    def clear(self) -> None:
        """Removes all runs: the comparison is written."""
        if os.path.lexists(self.folder):
            found = (_NAME.fullmatch(entry.name) for entry in self.folder.iterdir())
            self._remove(sorted({name[1] for name in found if name}))

    def told(self) -> str:
        """What is kept, for the user who interrupted the comparison; "" where nothing is kept."""
        runs = len(self)
        what = f"{runs} finished {'run is' if runs == 1 else 'runs are'}"
        return f"{what} kept in {self.folder}; the same command goes on from there" if runs else ""

    def _take(self) -> None:
        self._descriptor = os.open(self.folder, os.O_RDONLY)
        self._theirs = disk.lock(self._descriptor) is False

    def _claim(self, key: str) -> bool:
        """Whether this run is to be kept: not where two labels have the same run. Makes the folder, once."""
        with self._lock:
            if self._theirs or self._full or key in self._claimed:
                return False
            if self._descriptor is None:
                self._parents = [parent for parent in self.folder.parents if not parent.exists()]
                disk.create_folder(self.folder)
                self._take()
            if self._theirs:
                return False
            mark = self.folder / _MARK
            if not mark.exists():
                mark.write_text(json_text(_MARKED) + "\n", encoding="utf-8")
            self._claimed.add(key)
            return True

    def _remove(self, keys: list[str]) -> None:
        """Removes the runs, and the folder if nothing else is in it."""
        if self._descriptor is None or self._theirs:
            return
        with contextlib.suppress(OSError):
            for key in keys:
                recover(self.folder / key)
                _remove(self.folder / key)
            if {entry.name for entry in self.folder.iterdir()} <= {_MARK}:
                (self.folder / _MARK).unlink(missing_ok=True)
                disk.remove_folder(self.folder)
                for parent in self._parents:
                    disk.remove_folder(parent)


def key_of(setup: Setup) -> str | None:
    """What decides the result of a run, as a name; None where something has no content to go by.

    That is all that run.toml says of it: options, cluster, versions, and the digest of each file that it
    reads.
    """
    record = setup.record
    own = record.get("own_policy")
    beside = (kind.form.entry or name for name, kind in KINDS.items())
    told = [record["trace"]]
    for each in (record[name] for name in beside if name in record):
        told += each if isinstance(each, list) else [each]
    if own is not None and own["name"] not in BUILT_IN:
        told.append(own)
    name = str(record["options"]["policy"])
    if is_log(name):
        told.append({"sha256": _sha256(Path(name.partition(":")[2]))})
    if any(one.get("sha256") is None and not is_draw(one.get("path")) for one in told):
        return None
    return json_digest([record, told], default=str)


def _remove(place: Path) -> None:
    """Removes a run's folder with all that we write in it; it stays where something else is in it."""
    for folder, names in ((place / _RESULT, RESULT_FILES), (place, {_RECORD})):
        if os.path.lexists(folder):
            for name in (*names, _MARK):
                (folder / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                disk.remove_folder(folder)


def _files(result: Path) -> dict[str, str | None]:
    """The digest of each file of a result folder."""
    return {name: _sha256(result / name) for name in sorted(RESULT_FILES) if (result / name).is_file()}


def _sha256(path: Path) -> str | None:
    """The digest of a file; None where it cannot be read."""
    try:
        return sha256_of(path)
    except OSError:
        return None
