"""A command as typer runs it: options at most once, warnings as lines, help that completion can show."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand, TyperOption

from ringbco.cli import brief
from ringbco.io.terminal import say

if TYPE_CHECKING:
    from ringbco.errors import UsageError

_MAX_HELP_CHARS: Final = 60
_COMMANDS_WITH_REMOVED_OPTIONS: Final = ("compare", "sweep")
_HELP_ALL_KEY: Final = "ringbco.help_all"
_GIVEN: Final = "ringbco.given"
_FORMATS: Final = re.compile(r"(?<=^The format: ).*(?=\.$)")


def _print_all(ctx: Any, _option: Any, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[_HELP_ALL_KEY] = True
        say(*ctx.get_help().splitlines())
        ctx.exit()


_HELP_ALL: Final = TyperOption(
    param_decls=["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_all,
    help="Show all options and exit.",
)


def _choices(param: Any) -> str:
    """What a parameter may be, where its metavar or its help lists it."""
    listed = re.fullmatch(r"[a-z-]+(\|[a-z-]+)+", param.metavar or "")
    names = param.metavar.split("|") if listed else _FORMATS.findall(param.help or "")
    return f" ({', '.join(names)})" if names else ""


class Command(TyperCommand):
    """Behaviour shared by all commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The command's parameters and --help, with --help-all where --help does not show all options."""
        params = super().get_params(ctx)
        return [*params, _HELP_ALL] if self.name in brief.BRIEF else params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the help, brief where the command has many options and not all are asked for."""
        if self.name in brief.BRIEF and not ctx.meta.get(_HELP_ALL_KEY):
            brief.write(self, ctx, formatter)
        else:
            super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments. Refuses removed options, and single-value options given twice."""
        if not ctx.resilient_parsing:
            self._refuse_removed(args)
            self._refuse_repeated(ctx, args)
        given = list(args)
        ctx.meta[_GIVEN] = given
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if type(error).__name__ != "MissingParameter":  # typer has no name for it
                raise
            options = self.make_parser(ctx).parse_args(args=list(given))[0]
            needed = (param.name for param in self.get_params(ctx) if param.required)
            raise self.missing(
                ctx, {name for name in needed if options.get(name) in (None, (), [])}
            ) from None

    def missing(self, ctx: Any, names: Collection[str]) -> UsageError:
        """What to raise where the parameters of these names are not given: the command with them."""
        from ringbco.errors import UsageError

        params = [param for param in self.get_params(ctx) if param.name in names]
        given = ctx.meta[_GIVEN]
        named = [
            (param.opts[-1] if isinstance(param, TyperOption) else param.make_metavar(ctx).strip("{}"))
            + _choices(param)
            for param in params
        ]
        told = (
            f"{' and '.join(filter(None, (', '.join(named[:-1]), named[-1])))} {'are' if named[1:] else 'is'}"
        )
        # A value that this verb's help has in its example; in an empty command, the example itself.
        example = shlex.split((self.help or "").rpartition("Example: ")[2])[2:]
        values = self.make_parser(ctx).parse_args(args=list(example))[0]
        words = list(given)
        for param in params if given else ():
            found = values.get(param.name)
            found = found if isinstance(found, list | tuple) else [found or param.make_metavar(ctx)]
            words += ([param.opts[-1]] if isinstance(param, TyperOption) else []) + [*map(str, found)]
        command = shlex.join(["ringbco", str(self.name), *(words or example)])
        return UsageError(f"{self.name}: {told} missing: `{command}`")

    def invoke(self, ctx: Any) -> Any:
        """Runs the command. Prints each RingbcoWarning once, as a line on stderr; none with --quiet."""
        from ringbco.errors import RingbcoWarning

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore" if ctx.params.get("quiet") else "always", "", RingbcoWarning)
            default_show = warnings.showwarning
            already_shown: set[str] = set()

            def show_once(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
                if not issubclass(category, RingbcoWarning):
                    default_show(message, category, *where, **more)
                elif str(message) not in already_shown:
                    already_shown.add(str(message))
                    say(f"warning: {message}", to=sys.stderr)

            warnings.showwarning = show_once
            return super().invoke(ctx)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The options that begin so, each with as much of its help as fits on one line.

        Fish and zsh take every line of an item's help for an item.
        """
        items = super().shell_complete(ctx, incomplete)
        for item in items:
            words = " ".join((item.help or "").split())
            item.help = (
                words if len(words) <= _MAX_HELP_CHARS else f"{words[: _MAX_HELP_CHARS - 3].rstrip()}..."
            )
        return items

    def _refuse_removed(self, args: list[str]) -> None:
        if self.name in _COMMANDS_WITH_REMOVED_OPTIONS and any(arg.startswith("--") for arg in args):
            from ringbco.run.removed_options import refuse_removed

            refuse_removed(
                arg[2:].partition("=")[0].replace("-", "_") for arg in args if arg.startswith("--")
            )

    def _refuse_repeated(self, ctx: Any, args: list[str]) -> None:
        from ringbco.errors import UsageError

        given = self.make_parser(ctx).parse_args(args=list(args))[2]
        single = [
            option
            for option in given
            if isinstance(option, TyperOption) and not (option.multiple or option.is_flag or option.count)
        ]
        for number, option in enumerate(single):
            if option in single[:number]:
                name = max(option.opts, key=len)
                hint = "; `ringbco compare` takes several" if name == "--policy" else ""
                raise UsageError(f"option {name.lstrip('-')}: given twice: expected it once{hint}")


def require(ctx: Any, **values: object) -> None:
    """Raises UsageError where parameters that need not always be given are needed: those that are None."""
    lacking = {name for name, value in values.items() if value is None}
    if lacking:
        command: Command = ctx.command
        raise command.missing(ctx, lacking)
