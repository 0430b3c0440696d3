"""A result repeated from its run.toml, and whether the repeat gives the same."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError, show_value
from ringbco.io.digests import sha256_of
from ringbco.io.tables import read_table
from ringbco.result.folder import WALL_TIME, cluster_of, copy_in, read_run, read_summary
from ringbco.result.outcome import Outcome
from ringbco.result.tables import SUMMARY, TABLES
from ringbco.run import custom_policy, custom_policy_file
from ringbco.run.copies import CannotRepeatError, copies_of
from ringbco.run.plan import plan
from ringbco.run.registry import BUILT_IN, PLAN, PRESETS, REPLAY
from ringbco.run.replay import replay
from ringbco.trace.jobs import UNREAD, JobTable, read_jobs
from ringbco.trace.quotas import BOOKS

_COMMANDS: Final[Mapping[str, Callable[..., Outcome]]] = {"replay": replay, "plan": plan}
_OPTIONS: Final = {"replay": REPLAY, "plan": PLAN}
_WITHOUT_MEANING: Final = ("command",)
_LONGEST_REASON: Final = 80
_NONE: Final = "not there"


@dataclass(frozen=True)
class Repeat:
    """What run.toml asks for, ready to run.

    folder: the result's. command: "replay" or "plan". trace: where the job table is. sha256: what its bytes
    must have, None where run.toml names none. options: by the names of the command's parameters.
    """

    folder: Path
    command: str
    trace: Path
    sha256: str | None
    cluster: Cluster
    options: Mapping[str, Any]
    versions: Mapping[str, Any]
    parameters: Mapping[str, Any]

    def table(self) -> JobTable:
        """The job table. Raises InputError where it is not the one that the result was made of."""
        _check_trace(self.trace, self.sha256, self.folder)
        return read_jobs(self.trace, without=UNREAD)

    @property
    def is_custom(self) -> bool:
        """Whether a policy of somebody's own decided."""
        return isinstance(self.options.get("policy"), custom_policy.SerializedPolicy)

    def other_versions(self, here: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
        """The programs whose versions were others then: name -> (then, now). here: those of a repeat."""
        return {
            name: (str(self.versions[name]), str(version))
            for name, version in here.items()
            if name in self.versions and self.versions[name] != version
        }

    def run(self, progress: Callable[[int, int], None] | None = None) -> Outcome:
        """Runs it once more. Raises what the command raises; InputError for an option out of range."""
        try:
            more = {"parameters": self.parameters} if self.parameters else {}
            return _COMMANDS[self.command](
                self.table(), self.cluster, progress=progress, **more, **self.options
            )
        except UsageError as error:
            raise InputError(str(error), file=self.folder / "run.toml") from None


def read_repeat(
    folder: str | os.PathLike[str],
    jobs: str | os.PathLike[str] | None = None,
    policy: str | None = None,
) -> Repeat:
    """What the run.toml of a result folder asks for; the job table is `jobs` or the one that it names.

    policy: the caller's word for a custom policy. A folder may come from anywhere, so that no code is
    loaded because run.toml names it; the caller's is loaded if it is, byte for byte, what the result was made
    of. Raises InputError where the folder is no result, run.toml is incomplete or of a later version, or the
    job table or the policy is not there; UsageError for a policy beside a result that needs none.
    """
    path = Path(folder)
    record = path / "run.toml"
    run = read_run(path)
    options = _table(run, "options", record)
    command = _command(options, record)
    place, sha256 = _trace(run, path, jobs, f"ringbco replay JOBS --again {path}")
    try:
        cluster = cluster_of(run)
    except InputError as error:
        raise InputError(str(error), file=path) from None
    if policy is not None and (command == "plan" or is_ours(options.get("policy"))):
        raise UsageError("option policy: --again takes every setting from run.toml: leave it out")
    given, parameters = settings(run, record, policy)
    # The files themselves may have changed.
    copies = copies_of(run, lambda table: copy_in(path, table, run))
    given |= {name: copy for name, copy in copies.items() if copy is not None}
    return Repeat(
        folder=path,
        command=command,
        trace=place,
        sha256=sha256,
        cluster=cluster,
        options=given,
        versions=_table(run, "ringbco", record),
        parameters=parameters,
    )


def settings(
    run: Mapping[str, Any], record: Path, policy: str | None
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The options of a run, by the names of its command's parameters, and the fields of its policy.

    record: what errors call run.toml. policy: as `read_repeat` takes it. Raises as that does.
    """
    options = _table(run, "options", record)
    command = _command(options, record)
    given = _options(command, options, record)
    told = _as_mapping(run.get("own_policy"))
    if command == "replay" and not is_ours(given.get("policy")):
        given["policy"] = _custom_policy(given["policy"], told, policy, record)
    elif given.get("policy") not in BUILT_IN:
        told = {}
    if given.get("order") == "column" and not isinstance(given["policy"], custom_policy.SerializedPolicy):
        raise CannotRepeatError(
            "an order of which the keys are in a file; these were given as an array",
            file=record,
            key="options.order",
            hint="make them a column of the job table: order='column:NAME'",
        )
    return given, _as_mapping(told.get("parameters"))


def trace_of(folder: str | os.PathLike[str]) -> Path:
    """The job table that a result was made of, unchanged. Raises InputError where it is not there."""
    path = Path(folder)
    place, sha256 = _trace(read_run(path), path, None, "ringbco replay JOBS ..., all else as it is")
    _check_trace(place, sha256, path)
    return place


def _trace(
    run: Mapping[str, Any], folder: Path, jobs: str | os.PathLike[str] | None, mend: str
) -> tuple[Path, str | None]:
    """Where the job table of a result is, or the caller's, and the SHA-256 that it must have."""
    record = folder / "run.toml"
    trace = _table(run, "trace", record)
    named, sha256 = trace.get("path"), trace.get("sha256")
    if jobs is None and (not isinstance(named, str) or sha256 is None):
        raise CannotRepeatError(
            "names no file as its job table, which was made in memory",
            file=record,
            hint=f"write the table to a file, and give it: {mend}",
        )
    place = Path(str(named) if jobs is None else jobs)
    if not place.is_file():
        raise CannotRepeatError(
            f"the job table that {record} names is not there" if jobs is None else "no such file",
            file=place,
            hint=f"say where it is: {mend}" if jobs is None else "check the path",
        )
    return place, None if sha256 is None else str(sha256)


def _check_trace(trace: Path, sha256: str | None, folder: Path) -> None:
    found = _sha256(trace)
    if sha256 is not None and found != sha256:
        raise InputError(
            f"is not the job table of {folder}: its SHA-256 begins with {found[:12]}, and run.toml"
            f" names {sha256[:12]}",
            file=trace,
            hint="it has changed since; give an unchanged copy as JOBS",
        )


def is_ours(policy: object) -> bool:
    """Whether it is a policy of ringbco, or a file of decisions: none is the code of somebody else.

    True of what is no text either, which `replay` refuses.
    """
    return not isinstance(policy, str) or (
        policy in PRESETS or policy in BUILT_IN or policy.startswith("log:")
    )


def _custom_policy(
    named: str, told: Mapping[str, Any], given: str | None, record: Path
) -> custom_policy.SerializedPolicy:
    """The policy that was given for the one that run.toml names, read and compared, not loaded yet."""
    if given is None:
        raise CannotRepeatError(
            "a policy of ringbco: code is not run because a folder names it",
            file=record,
            key="options.policy",
            value=named,
            hint="if you know and trust it, give it again as --policy FILE.py:CLASS or MODULE:CLASS;"
            " it is loaded if its SHA-256 is the recorded one",
        )
    sha256 = told.get("sha256")
    if not isinstance(sha256, str):
        raise CannotRepeatError(
            "a policy that stands in a file; this one was made in memory",
            file=record,
            key="own_policy",
            value=named,
        )
    name, code = custom_policy_file.code(given)
    found = hashlib.sha256(code).hexdigest()
    if found != sha256:
        raise InputError(
            f"the policy's file as it was, SHA-256 {sha256[:12]}; {given} is {found[:12]} now, and was not"
            " loaded",
            file=record,
            key="own_policy",
            value=named,
            hint="name the file, or the module, in which the class itself stands",
        )
    return custom_policy.SerializedPolicy(name, code, sha256)


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def compare_results(first: Path, second: Path, *, named: bool = False) -> dict[str, str | None]:
    """For each file of a result, None where a repeat has the same, else the first place where it has not.

    Of tables their values count, of summary.json all figures but those of wall time. named: whether the
    policy may have another name, as one of a caller's own has where its file was moved.
    """
    names = sorted(table.file for table in TABLES.values())
    found = {
        name: _difference(first / name, second / name)
        for name in names
        if (first / name).exists() or (second / name).exists()
    }
    without = (*WALL_TIME, "policy") if named else WALL_TIME
    one, other = (
        {key: value for key, value in read_summary(folder / SUMMARY).items() if key not in without}
        for folder in (first, second)
    )
    return found | {SUMMARY: _other_figure(one, other)}


def _command(options: Mapping[str, Any], record: Path) -> str:
    """The command of a run."""
    command = options.get("command", "replay")
    if command not in tuple(_OPTIONS):  # it may be a list
        expected = f"one of {', '.join(_OPTIONS)}"
        raise CannotRepeatError(expected, file=record, key="options.command", value=command)
    return str(command)


def _options(command: str, options: Mapping[str, Any], record: Path) -> dict[str, Any]:
    """The options as the command takes them; InputError for one that it does not know."""
    known = {option.name: name for name, option in _OPTIONS[command].items()}
    given = {}
    ignored = {*_WITHOUT_MEANING, *(TABLES[name].key for name in BOOKS)}
    if command == "plan":
        ignored |= set(REPLAY) - set(known.values())  # which a plan fixes
    for name, value in options.items():
        if name in known:
            given[known[name]] = value
        elif name not in ignored:
            raise CannotRepeatError(
                f"an option of {command} that this version of ringbco knows",
                file=record,
                key=f"options.{name}",
                hint="use the version that [ringbco] names",
            )
    return given


def _table(run: Mapping[str, Any], name: str, record: Path) -> Mapping[str, Any]:
    table = run.get(name)
    if not isinstance(table, Mapping):
        raise InputError("a table", file=record, key=name)
    return table


def _sha256(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None


def _difference(first: Path, second: Path) -> str | None:
    if not first.is_file():
        return "is not in the result"
    if not second.is_file():
        return "does not come out again"
    if _sha256(first) == _sha256(second):
        return None
    frames = []
    for path in (first, second):
        try:
            frames.append(read_table(path, {}))
        except InputError as error:
            return error.expected[:_LONGEST_REASON]
    return _first_difference(*frames)


def _first_difference(one: pl.DataFrame, other: pl.DataFrame) -> str | None:
    """The first row in which two frames differ; None where they hold the same."""
    if one.columns != other.columns:
        strange = [name for name in (*one.columns, *other.columns)
                   if (name in one.columns) != (name in other.columns)]  # fmt: skip
        return f"has other columns ({', '.join(strange) or 'the same in another order'})"
    for name in one.columns:
        if one[name].dtype != other[name].dtype:
            return f"column {name} was {one[name].dtype}, and is {other[name].dtype}"
    rows = min(one.height, other.height)
    firsts, differ = {}, np.zeros(rows, bool)
    for name in one.columns:
        unlike = one[name].head(rows).ne_missing(other[name].head(rows)).to_numpy()
        if unlike.any():
            firsts[name] = int(unlike.argmax())
            differ |= unlike
    told = "" if one.height == other.height else f"had {one.height:,} rows, and has {other.height:,}"
    if not firsts:
        return told or None
    name = min(firsts, key=lambda name: firsts[name])
    row = firsts[name]
    of = f"{differ.sum():,} of {rows:,} rows differ; " if not told else f"{told}; "
    return f"{of}row {row + 1}, column {name}: was {one[name][row]}, is {other[name][row]}"


def _other_figure(one: object, other: object, name: str = "") -> str | None:
    """The first figure in which two summaries differ; None where they have the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = dict.fromkeys((*one, *other))
        pairs = ((one.get(key, _NONE), other.get(key, _NONE), f"{name}.{key}".lstrip(".")) for key in keys)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = ((a, b, f"{name}[{at}]") for at, (a, b) in enumerate(zip(one, other, strict=True)))
    else:
        return None if one == other else f"{name} was {show_value(one)}, is {show_value(other)}"
    return next((told for pair in pairs if (told := _other_figure(*pair)) is not None), None)
