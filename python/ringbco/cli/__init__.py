"""The command line: `ringbco COMMAND ...`, one module per command, imported when it is used."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from ringbco.cli.command import Command
from ringbco.io import process
from ringbco.io.memory import memory_limit, out_of_memory
from ringbco.io.terminal import say

if TYPE_CHECKING:
    from types import TracebackType

# A command is a module of this package with a function of the same name, which typer makes a command of.
COMMANDS: Final = {
    "convert": "Turn a public trace into a job table.",
    "generate": "Make a synthetic job table shaped like a real cluster's.",
    "outages": "Draw outages of servers at random: how often they fail, how long repairs take.",
    "services": "Turn a trace of requests into the replicas that a service wants.",
    "cluster": "Show what a cluster consists of: servers, GPUs, uplinks, oversubscription.",
    "inspect": "Say what is in a job table: counts, shapes, load, suspicious rows.",
    "profile": "Fill in what a job table does not say of its jobs: iterations, gradients, compute time.",
    "replay": "Replay a job table on a cluster under a scheduling policy.",
    "plan": "Plan a job table offline, as the paper does: SJF-BCO or a baseline.",
    "pack": "Say how full a placement packs the GPUs before jobs find no room.",
    "bound": "Say how low the mean completion time of a job table can be at best.",
    "compare": "Replay a job table under several policies, side by side.",
    "diff": "Say which jobs of two results became faster or slower, and why.",
    "why": "Say what happened to a job of a result, and why.",
    "sweep": "Do many runs over a grid of settings; one row per run.",
    "report": "Show results as one page of figures and charts.",
    "play": "Play one or two results on a page: GPUs, queue and events over time.",
    "timeline": "Show a result in Perfetto or chrome://tracing, a slice a job and server.",
    "policies": "List the scheduling policies: paper, preemption, what they must know, options.",
    "audit": "Check a result folder against the model's constraints.",
    "bench": "Measure scheduler throughput on this machine.",
    "demo": "Replay a bundled sample under four policies; a table and a picture.",
}
# Commands of the version before, and the script with the same options that took their place.
_REMOVED: Final = {"reproduce": "docs/examples/paper_figures.py"}


class _LazyGroup(TyperGroup):
    """A group whose commands are known by name and summary alone until one of them runs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name=name, help=summary) for name, summary in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command named by `args[0]`, its module imported."""
        if args[0] in _REMOVED and not ctx.resilient_parsing:
            _refuse_removed(*args)
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in COMMANDS else command, rest

    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        """The context of the whole command line; an interrupt is told here, too."""
        try:
            return super().make_context(*arguments, **extra)
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(process.tell_interrupt(str(interrupt))) from None

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; an interrupt is told here, before typer makes its own of it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(process.tell_interrupt(str(interrupt))) from None


def _refuse_removed(name: str, *options: str) -> NoReturn:
    """Raises UsageError with the command that does what a command of the version before did."""
    import shlex

    from ringbco.errors import UsageError

    command = shlex.join(("python", _REMOVED[name], *options))
    raise UsageError(f"verb {name}: is no more: in a copy of the repository, {command} does the same")


def load(name: str) -> Any:
    """The typer command of `ringbco.cli.<name>`."""
    run = getattr(import_module(f"ringbco.cli.{name}"), name)
    # One line a paragraph: typer would keep the source's line ends.
    paragraphs = (" ".join(paragraph.split()) for paragraph in (run.__doc__ or "").split("\n\n"))
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name=name, cls=Command, help="\n\n".join(paragraphs), context_settings=_CONTEXT)(run)
    return typer.main.get_command(alone)


_CONTEXT: Final = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_CONTEXT,
    epilog="Exit status: 0 done, 1 wrong input, 2 wrong usage, 3 a result failed its audit or its repeat.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from ringbco.cli.version import version_text

        say(*version_text().split("\n"))
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and the build."
    ),
) -> None:
    """Replays GPU-cluster job traces through contention-aware deep-learning schedulers."""


def main() -> NoReturn:
    """Runs the command line and exits; whatever goes wrong is one line on stderr, never a traceback."""
    process.listen()
    process.outlive_the_reader()
    try:
        app(prog_name="ringbco")
    except SystemExit:
        raise
    except BaseException as error:
        if process.received or isinstance(error, KeyboardInterrupt):
            sys.exit(process.tell_interrupt())
        if os.environ.get("RINGBCO_DEBUG"):
            raise
        message, status = _explain(error)
        process.stop_listening()  # one line is enough
        process.tell(f"error: {message}")
        sys.exit(status)
    sys.exit(0)


def _explain(error: BaseException) -> tuple[str, int]:
    """One line for `error` and the exit status it asks for."""
    import traceback

    from ringbco.errors import RingbcoError, one_line

    limit = memory_limit()
    if isinstance(error, ImportError) and _NO_ROOM in str(error):
        return out_of_memory(limit), 1
    if isinstance(error, RingbcoError):
        return str(error), error.exit_code
    if (
        isinstance(error, MemoryError)
        or getattr(error, "errno", None) == errno.ENOMEM
        # Libraries have many words for it, such as that a thread cannot be started.
        or (limit is not None and not isinstance(error, OSError) and not _is_policys(error))
    ):
        return out_of_memory(limit), 1
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        if error.errno == errno.ENOSPC:
            reason += "; free some space or write elsewhere"
        return one_line(f"{error.filename}: {reason}" if error.filename else reason), 1
    if _is_policys(error):
        # A custom policy is its author's code: where it went wrong is what the author needs.
        return "".join(traceback.format_exception(error.with_traceback(_within_policy(error)))).rstrip(), 1
    return one_line(f"unexpected {type(error).__name__}: {error}; set RINGBCO_DEBUG=1 to see where"), 1


def _is_policys(error: BaseException) -> bool:
    from ringbco.errors import POLICY_NOTE

    return any(note.startswith(POLICY_NOTE) for note in getattr(error, "__notes__", ()))


def _within_policy(error: BaseException) -> TracebackType | None:
    """The traceback from where the policy was asked on: the way there is no fault of the policy."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_name != "_ask":
        at = at.tb_next
    return at.tb_next if at is not None else error.__traceback__


# What the loader says of a library that does not fit into the memory the process may have.
_NO_ROOM: Final = "failed to map segment"
