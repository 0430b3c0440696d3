"""The options of the table as options of a verb."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, TypeVar

import typer

from ringbco.cli.completion import offer
from ringbco.cli.inputs import NETWORK, measured
from ringbco.run.option import Option

_Verb = TypeVar("_Verb", bound=Callable[..., None])
_TYPES: Final[Mapping[str, type]] = {"flag": bool, "integer": int, "number": float}
_OUTPUT: Final = "Output"
_FEW: Final = 2
_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY


def takes(table: Mapping[str, Option], before: str) -> Callable[[_Verb], _Verb]:
    """Gives a verb with `**options` the options of the table, before its parameter of that name.

    The network's constants, and the options that shape the output, go before `units`.
    """

    def give(verb: _Verb) -> _Verb:
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(verb, eval_str=True).parameters.values():
            if parameter.name == before:
                parameters += _declared(table, output=False)
            if parameter.name == "units":
                parameters += (
                    inspect.Parameter(name, _KEYWORD, default=None, annotation=annotation)
                    for name, annotation in NETWORK.items()
                )
                parameters += _declared(table, output=True)
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                parameters.append(parameter)
        declare(verb, parameters)
        return verb

    return give


def declare(verb: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    """Gives a verb these parameters: typer reads both the signature and the annotations."""
    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def _declared(table: Mapping[str, Option], *, output: bool) -> Iterator[inspect.Parameter]:
    """The table's options panel by panel: those of the output, or all others."""
    for panel in dict.fromkeys(option.panel for option in table.values()):
        for name, option in table.items():
            if option.panel == panel and (panel == _OUTPUT) is output:
                default = _default(option)
                annotation = _annotation(option, default)
                yield inspect.Parameter(name, _KEYWORD, default=default, annotation=annotation)


def _annotation(option: Option, default: Any) -> Any:
    """The type that typer reads a value as, and what it tells of the option."""
    kind: Any = str if isinstance(default, str) else _TYPES.get(option.kind, str)
    names = (option.word,) if isinstance(default, str) and option.word else option.names
    return Annotated[
        kind if default is not None else kind | None,
        typer.Option(
            f"--{option.typed}/--no-{option.typed}" if default is True else f"--{option.typed}",
            help=option.help + (f" Default: {option.absent}." if option.absent else ""),
            rich_help_panel=option.panel,
            autocompletion=offer(*names) if names else None,
            **({"metavar": _metavar(option)} | (measured(option.unit) if option.kind == "number" else {})),
        ),
    ]


def _default(option: Option) -> Any:
    if option.kind == "numbers":
        return ",".join(f"{number:g}" for number in option.default)
    # A word stands for None, unless the help says what None means.
    return option.word if option.word and not option.absent else option.default


def _metavar(option: Option) -> str | None:
    if option.form or option.kind != "name":
        return option.form or None
    return "|".join(option.names) if len(option.names) <= _FEW else "NAME"
