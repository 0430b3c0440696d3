"""The run whose log a replay follows: its settings, and the tables that were given to it, from its folder.

Invariant: what a caller gives goes before what the folder says, but a caller cannot give other outages,
services or searches than the log was written with. For example, `log:DIR/decisions.parquet` with nothing
beside it replays under the model, the clock and the outages of the result in DIR.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError, show_path
from ringbco.io.digests import sha256_of
from ringbco.result.folder import copy_in, read_run
from ringbco.result.tables import RUN, TABLES
from ringbco.run.copies import copies_of
from ringbco.run.log import Log, path_of
from ringbco.run.options import resolve_policy
from ringbco.run.refusals import uses
from ringbco.run.registry import REPLAY
from ringbco.trace.outages import Maintenance, Outages, united
from ringbco.trace.side_tables import KINDS, ReadContext, kind_of

_DECIDED: Final = ("policy", "order", "queue")
"""What says who decides; a log decides itself."""
_OF_THE_RUN: Final = (
    *("placement", "evict", "victims", "evict_after", "evict_loses", "preempt_loses", "quota", "fair_shares"),
)
"""Options of the run that a log already tells the effect of: given again, they change nothing."""
_NOT_NONE: Final = (*KINDS, "search")
"""Options of which None says nothing."""


@dataclass(frozen=True)
class LoggedRun:
    """A log and what is known of the run that wrote it.

    run: its run.toml; None for a log that lies in no result folder. options: those of `replay` to follow it
    with.
    """

    log: Log
    run: Mapping[str, Any] | None
    options: Mapping[str, Any]

    @property
    def runs_through(self) -> bool:
        """Whether no stay could end before its job was done in the run that wrote the log."""
        return self.run is not None and not TABLES["stays_written"].is_there({}, self.run.get("record", {}))

    def told(self) -> dict[str, object]:
        """What run.toml says of it."""
        digest = sha256_of(self.log.path)
        rows = self.log.frame.height
        path = show_path(self.log.path)
        return {"path": path, "sha256": digest, "rows": rows, "runs_through": self.runs_through}


def folder_of(policy: str) -> Path | None:
    """The result folder in which a log lies that such a folder has; None for a log that lies elsewhere."""
    path = path_of(policy)
    is_its_own = path.name == TABLES["decisions"].file and (path.parent / RUN).is_file()
    return path.parent if is_its_own else None


def follow(policy: str, given: Mapping[str, Any], cluster: Cluster) -> LoggedRun:
    """The log that a policy names, with the options to follow it with.

    given: the caller's options. cluster: that of the replay. Raises InputError for a log that is missing or
    damaged, UsageError for outages, services or a search that are not those of the log's run.
    """
    log = Log.read(policy)
    folder = folder_of(policy)
    if folder is None:
        return LoggedRun(log, None, _from_rows(log, given))
    run = read_run(folder)
    told = run.get("options", {})
    given = {name: value for name, value in given.items() if name not in _NOT_NONE or value is not None}
    options = dict(given)
    chosen = resolve_policy(policy, placement=told.get("placement"))
    known = {option.name: name for name, option in REPLAY.items()}
    for written, value in told.items():
        name = known.get(written)
        if name is None or name in _DECIDED or (name in given and name not in _OF_THE_RUN):
            continue
        if name in _OF_THE_RUN or uses(chosen, name, told):
            options[name] = value
    copies = copies_of(run, lambda table: copy_in(folder, table, run))
    speeds = copies.pop("tables")
    if speeds is not None:
        options.setdefault("tables", speeds)
    for name, copy in copies.items():
        if name in given and name not in _OF_THE_RUN:
            _compare(name, given[name], copies, cluster)
        options[name] = copy
    if "search" in given and given["search"] != told.get("search"):
        raise _other("search", given["search"], str(told.get("search", "none")))
    return LoggedRun(log, run, options)


def _from_rows(log: Log, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options for a log that lies in no folder: its own rows tell when servers were down."""
    options = dict(given)
    if not log.has("evicted"):
        options.pop("evict_loses", None)
    if log.has("rung") and given.get("search") is None:
        raise InputError(
            "the search whose rungs the log tells of", file=log.path, column="verb", value="rung",
            hint="give --search as the run that wrote it had it, or follow the log in its result folder",
        )  # fmt: skip
    if log.has("down", "drain") and given.get("outages") is None:
        options["outages"] = log.outages()
    return options


def _compare(name: str, given: object, copies: Mapping[str, Any], cluster: Cluster) -> None:
    """Raises UsageError unless what was given is what the log's run was given."""
    copy, kind, known = copies[name], kind_of(name, copies), ReadContext.of(cluster)
    if copy is None:
        raise _other(name, given, "none")
    mine, theirs = kind.read(given, known), kind.read(copy, known)
    if isinstance(mine, Outages) and kind is Outages and copies["maintenance"] is not None:
        # What the run wrote down of outages has its maintenance, too.
        mine = united(mine, Maintenance.read(copies["maintenance"], known)) or mine
    if not mine.frame.equals(theirs.frame):
        raise _other(name, given, str(copy))


def _other(name: str, given: object, theirs: str) -> UsageError:
    shown = str(given) if isinstance(given, str | Path) else "another table"
    told = f"expected that of the run that wrote the log ({theirs}); leave it out"
    return UsageError(f"option {REPLAY[name].typed}: {shown}: {told}")
