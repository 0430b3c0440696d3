"""Lines for a terminal. All that ringbco prints goes through here, or through `ringbco.io.console`.

Names, values and reasons come from files of anybody: each is text, and no order to the terminal.
"""

from __future__ import annotations

import sys
from typing import Any, TextIO

from ringbco.errors import one_line
from ringbco.io.json_text import json_text


def say(*lines: str, to: TextIO | None = None) -> None:
    """Prints lines on standard output, or `to`; of what is no character to be seen, the name stands there."""
    stream = sys.stdout if to is None else to
    for line in lines:
        print(one_line(line), file=stream)
    stream.flush()


def say_json(document: Any) -> None:
    """Prints figures as JSON."""
    say(*json_text(document).split("\n"))


def note(line: str) -> None:
    """Prints a note on standard error."""
    say(f"note: {line}", to=sys.stderr)
