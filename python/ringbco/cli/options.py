"""A command's options as rows of text, and those of the tables of `replay` and `plan`, as typer takes them.

    name --flag -f METAVAR: help    an option, or the argument where the command takes it by position
    name                            the row of that name in `_SHARED`, which may know its panel
    [Panel]                         the group of the rows below it; [Options] is the one that needs no name
    *Panel                          the table's options of the panel that begins so; * alone is all others

A row may go on in lines that are indented. Its type and its default are those of the command's parameter.
Without a --flag it is --name. METAVAR may be left out; N>=1 is an N of at least 1; what stands in {braces},
such as {split|pool}, is what the shell's completion offers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import typer

from ringbco.cli.completion import offer
from ringbco.run.option import Option

_Command = TypeVar("_Command", bound=Callable[..., None])
_TYPES: Final[Mapping[str, type]] = {"flag": bool, "integer": int, "number": float}
_FEW: Final = 2
_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
_READ: Final = ("jobs", "inputs", "spec")
"""Files whose reader says what is wrong, in the form and with the status of bad input."""

_SHARED: Final = r"""
jobs JOBS: The job table, Parquet or CSV.
cluster SxG|C.toml|preset:NAME: S servers of G GPUs such as 32x8, a cluster file, or the preset of a real
  cluster.
folder DIR: A result folder of `ringbco replay`.
out --out -o DIR: The folder to make.
end --to TIME: Up to this time, written as for --from. Default: the end of the run.
servers A-B,C: Only these servers, by index from 0 or by name: 0-3,7 or gpu[01-04]. Default: all.
title TEXT: The page's title. Default: the trace and the cluster.
elastic_share SHARE: Share of the jobs that --elastic takes. Default: 0.5.
force: Replace the file if ringbco wrote it.
as_json --json: Print the figures as JSON, times in seconds, and nothing else.
quiet --quiet -q: Print nothing but errors.
[Execution]
recorded_cluster SxG|C.toml|preset:NAME: The cluster on which JOBS was recorded. A job's iterations follow
  from its recorded run time there; --cluster and the network options do not change them. Default:
  \[recorded] of --cluster's file, else servers of 8 GPUs and the default network.
vc {split|pool}: Virtual clusters of the cluster: schedule each on its own (split), or pool their servers.
[Output]
units {human|seconds}: Units of printed times: human (87.3 s, 12.4 min, 31.0 h, 5.2 d) or seconds. Files and
  --json always use seconds.
"""
_NETWORK: Final = """
[Network (each overrides the cluster file)]
intra_bandwidth bytes/s: b_i, between GPUs of one server: 1200Gb/s, 150GB/s, bytes/s, or x2 for twice the
  cluster file's. Default 150e9: NVLink 2.0 of a V100, one way.
inter_bandwidth bytes/s: b_e, between servers: 100Gb/s, 12.5GB/s, bytes/s, or x2 for twice the cluster file's.
  Default 12.5e9: one 100 Gb/s port per server.
reduce_speed bytes/s: C, bytes/s of gradients summed. Default 500e9: about half of a V100's memory bandwidth
  of 900 GB/s.
xi1: Share of the spanning jobs on a server that contend at once, in (0, 1]. Default 0.5: jobs compute half of
  the time, so two on a server do not contend.
xi2 s: Overhead of an iteration, seconds per server used. Default 5e-4: half a millisecond to set up and
  synchronise a server's connections.
alpha: Loss beyond fair sharing, >= 0: each of k contenders gets 1 / (k + alpha (k - 1)) of b_e. Default 0.3:
  a second contender costs 30 % more than its fair share.
"""


class _Row(NamedTuple):
    name: str
    flags: tuple[str, ...]
    metavar: str
    help: str
    panel: str | None


def _rows(text: str) -> Iterator[_Row]:
    panel = None
    for line in text.strip().replace("\n  ", " ").split("\n"):
        if line.startswith("["):
            panel = None if line == "[Options]" else line[1:-1]
            continue
        told, colon, words = line.partition(": ")
        name, _, value = told.partition(" ")
        flags: tuple[str, ...] = ()
        while value.startswith("-"):
            flag, _, value = value.partition(" ")
            flags += (flag,)
        if colon or name.startswith("*"):
            yield _Row(name, flags, value, words, panel)
        else:
            shared = _COMMON[name]
            yield shared._replace(panel=shared.panel or panel)


_COMMON: Final = {row.name: row for row in _rows(_SHARED)}
NETWORK: Final = {
    row.name: Option(row.name, "number", None, row.help, row.panel or "", unit=row.metavar)
    for row in _rows(_NETWORK)
}
"""The network's constants, which the cluster file has too."""


def takes(text: str, table: Mapping[str, Option] | None = None) -> Callable[[_Command], _Command]:
    """Gives a command the options of the rows, in their order.

    table: what `*` is of. The command gets those, and the network's constants, as `**options`.
    """

    def give(command: _Command) -> _Command:
        rows = list(_rows(text))
        parameters = list(_declared(command, {row.name: row for row in rows}, {**(table or {}), **NETWORK}))
        # typer reads both.
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return give


def shared(name: str) -> Any:
    """What typer tells of a shared row, for a command that has it as an annotation."""
    return _typer_option(_COMMON[name], typer.Argument if name == "jobs" else typer.Option)


def _declared(
    command: Callable[..., None], rows: Mapping[str, _Row], table: Mapping[str, Option]
) -> Iterator[inspect.Parameter]:
    """The command's parameters, each with what typer tells of it."""
    own = inspect.signature(command, eval_str=True).parameters
    yield from (parameter for parameter in own.values() if parameter.annotation is typer.Context)
    panels: dict[str, list[Option]] = {}
    for option in table.values():
        panels.setdefault(option.panel, []).append(option)
    apart = tuple(name[1:] for name in rows if name.startswith("*") and name != "*")
    for name, row in rows.items():
        if not name.startswith("*"):
            kind = typer.Option if own[name].kind is _KEYWORD else typer.Argument
            told = _typer_option(row, kind, table[name].names if name in table else ())
            yield own[name].replace(annotation=Annotated[own[name].annotation, told])
            continue
        for panel, options in panels.items():
            if panel.startswith(name[1:]) if name != "*" else not panel.startswith(apart):
                yield from (_parameter(option) for option in options if option.parameter not in rows)


def _typer_option(row: _Row, kind: Callable[..., Any], offered: tuple[str, ...] = ()) -> Any:
    """What typer tells of a row."""
    shown, _, least = row.metavar.partition(">=")
    if "{" in shown:
        offered = tuple(shown.partition("{")[2].partition("}")[0].split("|"))
    flags = row.flags or (f"--{row.name.replace('_', '-')}",)
    return kind(
        *(flags if kind is typer.Option else ()),
        metavar=shown.replace("{", "").replace("}", "") or None,
        help=row.help,
        rich_help_panel=row.panel,
        autocompletion=offer(*offered) if offered else None,
        min=int(least) if least else None,
        readable=row.name not in _READ,
    )


def _parameter(option: Option) -> inspect.Parameter:
    """An option of the table: the type that typer reads a value as, and what it tells of it."""
    default = _default(option)
    kind: Any = str if isinstance(default, str) else _TYPES.get(option.kind, str)
    names = (option.word,) if isinstance(default, str) and option.word else option.names
    told = typer.Option(
        f"--{option.typed}/--no-{option.typed}" if default is True else f"--{option.typed}",
        help=option.help + (f" Default: {option.absent}." if option.absent else ""),
        rich_help_panel=option.panel,
        autocompletion=offer(*names) if names else None,
        **({"metavar": _metavar(option)} | (_measured(option) if option.kind == "number" else {})),
    )
    kind = kind if default is not None else kind | None
    return inspect.Parameter(option.parameter, _KEYWORD, default=default, annotation=Annotated[kind, told])


def _default(option: Option) -> Any:
    if option.kind == "numbers":
        return ",".join(f"{number:g}" for number in option.default)
    # A word stands for None, unless the help says what None means.
    return option.word if option.word and not option.absent else option.default


def _metavar(option: Option) -> str | None:
    if option.form or option.kind != "name":
        return option.form or None
    return "|".join(option.names) if len(option.names) <= _FEW else "NAME"


def _measured(option: Option) -> dict[str, Any]:
    """What makes an option that counts a unit take numbers with other units too, such as 25Gb/s or 30min.

    A constant of the network may also be a factor of the cluster's, x2.
    """
    from ringbco.errors import UsageError
    from ringbco.units import QUANTITIES, factor_meant, is_factor, quantity

    if option.unit not in QUANTITIES:
        return {}
    scales = option.name in NETWORK

    def read(text: str | float) -> float | str:
        if scales and is_factor(text):
            return str(text).strip()
        try:
            return quantity(str(text), option.unit)
        except ValueError as error:
            meant = factor_meant(str(text)) if scales else None
            if meant is not None:
                told = (
                    f"option {option.typed}: {text!r}: expected {meant}, {meant[1:]} times the cluster's own"
                )
                raise UsageError(told) from None
            raise typer.BadParameter(f"{text!r}: expected {error}") from None

    read.__name__ = option.unit  # what --help shows for a value
    return {"parser": read, "metavar": "TIME" if option.unit == "s" else "RATE"}
