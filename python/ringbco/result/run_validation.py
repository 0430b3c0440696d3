"""Can run.toml and summary.json be read? What is damaged is named by its key before anything fails.

What an option must be, the engine's own table of options says.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from ringbco import _core
from ringbco.cluster import hostlist
from ringbco.cluster.groups import MAX_GPUS
from ringbco.errors import ABSENT, InputError, UsageError
from ringbco.result.figures import COMPARED, MAY_BE_NULL, SPREADS, rows_of
from ringbco.result.metrics import STATISTICS
from ringbco.result.tables import RUN, SUMMARY, TABLES
from ringbco.result.window import of_summary
from ringbco.trace import ties
from ringbco.units import moment

_NUMBER: Final = "a finite number"
NEEDED: Final = ("order", "placement", "queue", "model", "clock", "variant", "oversize", "slot", "kappa")
"""The options without which nothing can be worked out again."""


class Refusing:
    """What refuses a file of a result. folder: where it lies; None where that is not given."""

    folder: Path | None

    def refusal(self, file: str, expected: str, *, value: object = ABSENT, **place: Any) -> InputError:
        """What to raise for a file that has something else."""
        if self.folder is None:
            return InputError(expected, file=file, value=value, **place)
        hint = f"run `ringbco audit {self.folder}` to see what else is wrong"
        return InputError(expected, file=self.folder / file, value=value, hint=hint, **place)

    def key(self, file: str, table: Mapping[str, Any], key: str, expected: str) -> InputError:
        """The same for a key of a table in it, if it is there."""
        if key not in table:
            return self.refusal(file, f"{expected}; there is none", key=key)
        return self.refusal(file, expected, key=key, value=table[key])


@cache
def _recorded_options() -> Mapping[str, Mapping[str, Any]]:
    """The options of run.toml by name, of `plan` too; words: what stands there for a number."""
    replayed, planned = ({row["name"]: row for row in _core.options()[name]} for name in ("replay", "plan"))
    return {
        name: {**planned.get(name, {}), **replayed.get(name, {}), "word": planned.get(name, {}).get("word")}
        for name in (*replayed, *planned)
    }


@dataclass(frozen=True)
class Record(Refusing):
    """run.toml."""

    run: Mapping[str, Any]
    folder: Path | None

    def check_options(self, needed: tuple[str, ...] = ()) -> Mapping[str, Any]:
        """The options, each as a run has it. needed: those that must be there."""
        options = self.run.get("options", None if needed else {})
        if not isinstance(options, Mapping):
            raise self.refusal(RUN, "a table [options]")
        for name in needed:
            if options.get(name) is None:
                raise self.refusal(
                    RUN, f"{_expected(_recorded_options()[name])}; there is none", key=f"options.{name}"
                )
        for name, row in _recorded_options().items():
            value = options.get(name)
            if value is not None and not _fits(value, row):
                raise self.refusal(RUN, _expected(row), key=f"options.{name}", value=value)
        return options

    def check_summary(self, summary: Any, jobs: int) -> None:
        """summary.json has the figures that every result has, and numbers wherever numbers are shown."""
        if not isinstance(summary, dict):
            raise self.refusal(SUMMARY, "expected an object with the figures of a run")
        if not isinstance(summary.get("policy"), str):
            raise self.key(SUMMARY, summary, "policy", "a policy's name")
        if not is_number(summary.get("jobs")) or summary["jobs"] != jobs:
            where = "" if of_summary(summary) is None else " in the window"
            raise self.key(SUMMARY, summary, "jobs", f"{jobs}, the rows of {TABLES['jobs'].file}{where}")
        wrong = wrong_figure(summary)
        if wrong is not None:
            raise self.key(SUMMARY, summary, *wrong)
        types = summary.get("gpu_types", [])
        if not isinstance(types, list) or not all(map(_is_type, types)):
            raise self.key(SUMMARY, summary, "gpu_types", "GPU types, each with its figures")

    def check_shown(self) -> None:
        """run.toml says which servers there were, and what else the page tells is of the right kind."""
        run = self.run
        for table in ("ringbco", "trace", "cluster", "options"):
            if not isinstance(run.get(table, {}), dict):
                raise self.key(RUN, run, table, "a table")
        for key, value in _leaves(run):
            endless = value == math.inf and _recorded_options().get(key.removeprefix("options."), {}).get(
                "endless"
            )
            if isinstance(value, float) and not (math.isfinite(value) or endless):
                raise self.key(RUN, {key: value}, key, _NUMBER)
        self._check_cluster(run.get("cluster", {}))
        trace = run.get("trace", {})
        if not is_number(trace.get("rows", 0)):
            raise self.key(RUN, {"trace.rows": trace["rows"]}, "trace.rows", "a number of rows")
        for table, key in (("trace", "sha256"), ("trace", "epoch"), ("ringbco", "version")):
            value = run.get(table, {}).get(key)
            if not isinstance(value, str | None):
                raise self.key(RUN, {f"{table}.{key}": value}, f"{table}.{key}", "a text")
        options = self.check_options()
        if options.get("clock") == "slot" and "slot" not in options:
            raise self.refusal(RUN, "a slot's seconds; there is none", key="options.slot")
        self._check_warnings(run)

    def _check_cluster(self, cluster: Mapping[str, Any]) -> None:
        """Groups of servers, and a network of numbers."""
        groups = cluster.get("servers")
        if not isinstance(groups, list) or not groups or not all(map(_is_group, groups)):
            where = {"cluster.servers": groups} if "servers" in cluster else {}
            raise self.key(RUN, where, "cluster.servers", "groups of servers, each with count and gpus")
        if sum(group["count"] * group["gpus"] for group in groups) > MAX_GPUS:
            raise self.key(RUN, {}, "cluster.servers", f"at most {MAX_GPUS} GPUs in all")
        network = cluster.get("network", {})
        if not isinstance(network, dict):
            raise self.key(RUN, {"cluster.network": network}, "cluster.network", "a table")
        for key, value in network.items():
            if key not in ("nics", "tiers") and not is_number(value):
                name = f"cluster.network.{key}"
                raise self.key(RUN, {name: value}, name, _NUMBER)

    def _check_warnings(self, run: Mapping[str, Any]) -> None:
        """The page shows them as they are."""
        lines = run.get("warnings", [])
        if not (isinstance(lines, list) and all(isinstance(line, str) for line in lines)):
            raise self.key(RUN, run, "warnings", "a list of texts")


def _fits(value: object, row: Mapping[str, Any]) -> bool:
    """Whether an option's value is of its kind, and a number not below its range."""
    if row["kind"] in ("number", "integer"):
        if row["word"] and value == row["word"]:
            return True
        least = row.get("least", 0)
        endless = value == math.inf and row.get("endless", False)
        return (is_number(value) and (value > least if row.get("above") else value >= least)) or endless
    return _KINDS.get(row["kind"], lambda value: isinstance(value, str))(value)


def _is(check: Any, error: type[Exception], value: object) -> bool:
    try:
        check(value)
    except error:
        return False
    return True


_KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "numbers": lambda value: isinstance(value, list) and all(map(is_number, value)),
    "moment": lambda value: _is(moment, ValueError, value),
    "ties": lambda value: isinstance(value, str) and _is(ties.check, UsageError, value),
    "flag": lambda value: isinstance(value, bool),
    "file": lambda value: True,  # that it was given, and sometimes which
    "files": lambda value: True,
}
"""What the options of a kind are that are neither numbers nor texts."""


def _expected(row: Mapping[str, Any]) -> str:
    """What an option must be."""
    return str(row.get("expected") or {"flag": "true or false"}.get(row["kind"], "a text"))


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """The single values of a document, each with its place such as cluster.network.alpha."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _leaves(below, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for below in value:
            yield from _leaves(below, path)
    else:
        yield path, value


def wrong_figure(summary: object) -> tuple[str, str] | None:
    """The first key of a summary that has no number where one is shown, and what it should have.

    Where it is no table at all, the key is "".
    """
    if not isinstance(summary, dict):
        return "", "a table"
    empty = {key for key in MAY_BE_NULL if summary.get(key, 0) is None}
    # Earlier versions knew no bounded slowdown.
    always = ["makespan", *(f"{statistic}_{name}" for name, *_ in SPREADS[:-1] for statistic in STATISTICS)]
    shown = (*(measure.key for measure in COMPARED), "jobs_dropped")
    for key in always:
        if not is_number(summary.get(key)):
            return key, _NUMBER
        if summary[key] < 0:
            return key, "0 or more"
    told = (key for key in shown if key in summary and key not in empty)
    return next(((key, _NUMBER) for key in told if not is_number(summary[key])), None)


def is_number(value: object) -> bool:
    """A finite one, and no truth value."""
    most = sys.float_info.max
    return isinstance(value, int | float) and not isinstance(value, bool) and -most <= value <= most


def _is_type(row: object) -> bool:
    """Whether it is a GPU type's row of summary.json."""
    counted = [told for told in rows_of("type") if told.unit]
    return (
        isinstance(row, dict)
        and isinstance(row.get("gpu_type"), str)
        and all(is_number(row.get(told.key)) for told in counted if told.key in row or not told.sometimes)
    )


def _is_group(group: object) -> bool:
    """Whether this is an entry of [[cluster.servers]]."""
    if not isinstance(group, dict):
        return False
    counts = all(type(group.get(key)) is int and group[key] >= 1 for key in ("count", "gpus"))
    texts = all(isinstance(group.get(key), str | None) for key in ("vc", "gpu_type", "name"))
    return counts and texts and ("name" not in group or _names_each(group["name"], group["count"]))


def _names_each(text: str, count: int) -> bool:
    """Whether a hostlist has a name for each server of a group."""
    try:
        return len(hostlist.expand(text)) == count
    except ValueError:
        return False
