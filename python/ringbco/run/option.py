"""What is known of one option, and of one policy: rows of the tables in `ringbco.run.registry`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_EMPTY: Final[tuple[str, ...]] = ()


class Option(NamedTuple):
    """One option of `replay` or `plan`.

    name: in run.toml and in a sweep.
    least, above, most: the range of a number; `above` says that `least` itself is out of it. endless:
    whether infinity is in it.
    names: those that a value may have. expected: what a value must be, where there are no names.
    optional: whether None is a value. It means `absent`, and in a file `word` stands for it.
    users: who uses it: (part of the policy, its names) or the clock. policies: the policies among them.
    exclusive: whether everyone else ignores it. demand: whether they refuse it instead.
    form: how a value is written. panel: the group in which the command line lists it.
    """

    name: str
    kind: Literal["flag", "integer", "number", "numbers", "name", "ties", "search", "file", "files", "moment"]
    default: Any
    help: str
    panel: str
    expected: str = ""
    least: float = 0
    above: bool = False
    most: float = math.inf
    endless: bool = False
    names: tuple[str, ...] = _EMPTY
    optional: bool = False
    absent: str = ""
    word: str = ""
    unit: str = ""
    users: tuple[tuple[str, tuple[str, ...]], ...] = ()
    policies: tuple[str, ...] = _EMPTY
    exclusive: bool = True
    demand: bool = False
    form: str = ""

    @property
    def typed(self) -> str:
        """The name on the command line, without its dashes."""
        return self.name.replace("_", "-")

    @property
    def parameter(self) -> str:
        """The name of the Python function's parameter."""
        return "lambda_" if self.name == "lambda" else self.name


class Preset(NamedTuple):
    """A policy of the registry: its parts, and what it says of itself.

    about: by what it decides. refuses: what a run may have that it does not know. is_: what it is. options:
    those that not every policy uses.
    """

    name: str
    order: str
    placement: str
    queue: str
    preemption: str
    about: str
    paper: str
    refuses: tuple[str, ...] = _EMPTY
    is_: tuple[str, ...] = _EMPTY
    options: tuple[str, ...] = _EMPTY


def takes(table: Mapping[str, Option]) -> Callable[[_Function], _Function]:
    """Lets `inspect.signature` and `help` of a function with `**options` show each option of the table."""

    def tell(function: _Function) -> _Function:
        from inspect import Parameter, Signature, signature

        own = signature(function).parameters
        parameters = [parameter for parameter in own.values() if parameter.kind is not Parameter.VAR_KEYWORD]
        parameters += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=option.default)
            for name, option in table.items()
            if name not in own
        ]
        function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        lines = [f"        {name}: {option.help}" for name, option in table.items() if name not in own]
        function.__doc__ = "\n".join([f"{function.__doc__}\n    Options, each by its name:", *lines])
        return function

    return tell
