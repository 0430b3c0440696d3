"""A verb as typer runs it: options at most once, warnings as lines, help that completion can show."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Final

from typer.core import TyperCommand, TyperOption

from ringbco.io.terminal import say

_LONGEST: Final = 60


class Command(TyperCommand):
    """A verb. What all verbs share stands here, so that none can forget it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The options, of which one that takes a single value may be given once: which was meant?"""
        if not ctx.resilient_parsing:
            self._refuse_repeated(ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs the verb. A RingbcoWarning becomes a line on stderr, each once; none with --quiet."""
        from ringbco.errors import RingbcoWarning

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore" if ctx.params.get("quiet") else "always", "", RingbcoWarning)
            shown = warnings.showwarning
            told: set[str] = set()

            def tell(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
                if not issubclass(category, RingbcoWarning):
                    shown(message, category, *where, **more)
                elif str(message) not in told:
                    told.add(str(message))
                    say(f"warning: {message}", to=sys.stderr)

            warnings.showwarning = tell
            return super().invoke(ctx)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The options that begin so, each with as much of its help as fits on one line.

        Fish and zsh take every line of an item's help for an item.
        """
        items = super().shell_complete(ctx, incomplete)
        for item in items:
            words = " ".join((item.help or "").split())
            item.help = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3].rstrip()}..."
        return items

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
