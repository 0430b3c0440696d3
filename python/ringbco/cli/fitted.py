"""Tables of figures that fit any terminal: no figure is ever broken over two lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Final

from rich import box
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

_NARROWEST: Final = 8


class Fitted:
    """A table of names and figures, as narrow as the console asks for.

    Where the table is too wide, first its titles take several lines, then its names do, word by word; where
    that is not enough, the columns that do not fit follow in further tables, each led by the names.
    """

    def __init__(self, lead: str, *titles: str) -> None:
        self._titles = (lead, *titles)
        self._rows: list[list[Text]] = []

    def add_row(self, *cells: str | Text) -> None:
        """A name, then a figure for each further title."""
        self._rows.append([cell if isinstance(cell, Text) else Text(cell) for cell in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """As few tables as fit."""
        every = range(1, len(self._titles))

        def fits(table: Table) -> bool:
            return Measurement.get(console, options.update(width=1 << 16), table).minimum <= options.max_width

        for broken, narrow in ((False, False), (True, False), (True, True)):
            table = self._table(every, options.max_width, broken=broken, narrow=narrow)
            if fits(table):
                yield table
                return
        start = 1
        while start < len(self._titles):
            for end, narrow in product(range(len(self._titles), start, -1), (False, True)):
                table = self._table(range(start, end), options.max_width, broken=True, narrow=narrow)
                if fits(table):
                    break
            yield table  # with one column it may still not fit, and is as narrow as can be
            start = end

    def _table(self, shown: Sequence[int], width: int, *, broken: bool, narrow: bool) -> Table:
        """The columns `shown`; `broken`: titles on several lines; `narrow`: names on several lines."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        names = [Text(self._titles[0]), *(row[0] for row in self._rows)]
        least = max(name.cell_len for name in names)
        if narrow:
            word = max((len(word) for name in names for word in name.plain.split()), default=0)
            # A name longer than a third of the line is no word of any language: it may be broken anywhere.
            least = min(word, max(_NARROWEST, width // 3))
        table.add_column(names[0], no_wrap=not narrow, overflow="fold", min_width=least)
        for number in shown:
            widest = max((row[number].cell_len for row in self._rows), default=0)
            title = self._titles[number]
            if broken:
                longest = max(map(len, title.split()), default=0)
                lines = textwrap.wrap(title, max(widest, longest, 1))
                title = "\n".join(lines)
            widest = max(widest, *map(len, title.split("\n")))
            table.add_column(title, justify="right", no_wrap=True, min_width=widest)
        for row in self._rows:
            table.add_row(row[0], *(row[number] for number in shown))
        return table
