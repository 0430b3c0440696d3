"""A sweep's specification as it was written, and its runs with names (docs/sweeps.md#runs-with-names)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from ringbco.errors import InputError, UsageError
from ringbco.io.toml import read_toml
from ringbco.run.compare_runs import named_settings

FORM: Final = "see docs/sweeps.md"
RUN: Final = "run"
"""The setting that is a run's name."""
_NAMED: Final = "write [runs.NAME], then the run's settings"
NamedRuns = Mapping[str, Mapping[str, Any] | str] | None
"""The settings of runs by their names; a policy alone may stand for them."""


class Document(NamedTuple):
    """A specification as it was written, its file (None of a mapping), and where its paths start from."""

    told: Mapping[str, Any]
    file: str | None
    folder: Path


def read_document(spec: str | os.PathLike[str] | Mapping[str, Any], runs: NamedRuns = None) -> Document:
    """The specification of a TOML file or a mapping, not checked, with these runs beside its own.

    Raises UsageError for a run whose name the specification has, too.
    """
    if isinstance(spec, Mapping):
        return _with_runs(Document(spec, None, Path()), runs)
    path = Path(spec)
    if path.is_dir():
        raise InputError("is a folder, not a sweep's specification", file=path)
    return _with_runs(Document(read_toml(path, hint=FORM), os.fspath(spec), path.parent), runs)


def _with_runs(document: Document, runs: NamedRuns) -> Document:
    if not runs:
        return document
    named, own = named_settings(runs), document.told.get("runs", {})
    if not isinstance(own, Mapping):
        raise UsageError(
            "option run: the specification lists [[runs]] of its own; write them as [runs.NAME], or leave"
            " --run out"
        )
    for name in named:
        if name in own:
            raise UsageError(f"option run: {name!r}: expected each name once; the specification has it too")
    return document._replace(told={**document.told, "runs": {**own, **named}})


def check_named(document: Mapping[str, Any], file: str | None) -> None:
    """Raises InputError for an empty name, a table of no runs, and a setting of both a run and the grid.

    In a list, where each run may say its name, for runs or a grid without names beside it.
    """
    runs, grid = document.get("runs", []), document.get("grid") or {}
    if isinstance(runs, Mapping):
        if not runs:
            raise InputError("at least one run", file=file, key="runs", hint=_NAMED)
        for name, own in runs.items():
            if not isinstance(own, Mapping):
                hint = "write [[runs]], or [runs.NAME], then what is special to the run"
                raise InputError("a list of tables", file=file, key="runs", hint=hint)
            _check_name(name, f"runs.{name}", file)
            for key in own:
                if plain_name(str(key)) in plain_names(grid):
                    raise InputError(
                        "no setting that [grid] varies", file=file, key=f"runs.{name}.{key}",
                        hint="leave one of the two out",
                    )  # fmt: skip
        return
    tables = isinstance(runs, list) and all(isinstance(own, Mapping) for own in runs)
    if tables and any(RUN in own for own in runs):
        for number, own in enumerate(runs, start=1):
            _check_name(own.get(RUN), f"runs[{number}].{RUN}", file)
        if grid:
            hint = "write [runs.NAME]: each of them is tried at every point of [grid]"
            raise InputError("no [grid] beside [[runs]] with names", file=file, key="grid", hint=hint)


def _check_name(name: object, key: str, file: str | None) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InputError("a name in quotes, not empty", file=file, key=key, hint=_NAMED)


def plain_name(name: str) -> str:
    """A key as the settings spell it: the command line's dashes are underscores here."""
    return name.replace("-", "_")


def plain_names(names: Iterable[object]) -> set[str]:
    """The keys of a table likewise."""
    return {plain_name(str(name)) for name in names}


def varied(document: Mapping[str, Any]) -> set[str]:
    """The settings that a specification varies. What tells runs with names apart is their name.

    In a list, where a name may be there several times, a setting that differs under one name is varied too.
    """
    grid, runs = document.get("grid", {}), document.get("runs", [])
    if isinstance(runs, Mapping):
        return plain_names(grid) | {RUN}
    if not any(RUN in own for own in runs):
        return plain_names(grid).union(*map(plain_names, runs))
    of_names: dict[tuple[str, str], set[str]] = {}
    for own in runs:
        for name, value in own.items():
            of_names.setdefault((own[RUN], plain_name(str(name))), set()).add(repr(value))
    return {RUN} | {name for (_, name), values in of_names.items() if len(values) > 1}


def points(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The points of a specification, each as a table of [[runs]]."""
    grid, runs = document.get("grid", {}), document.get("runs", [])
    values = [dict(zip(grid, chosen, strict=True)) for chosen in product(*grid.values())] if grid else []
    if isinstance(runs, Mapping):
        for point in values or [{}]:
            yield from ({**point, **own, RUN: name} for name, own in runs.items())
        return
    yield from [*values, *runs] or [{}]
