"""Tables as LaTeX, Markdown and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import polars as pl

from ringbco.errors import UsageError

TABLES: Final = ("tex", "csv", "md")
MADE: Final = "made by ringbco"
_ESCAPED: Final = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
    }
)


class TextCell(NamedTuple):
    """A cell of a table, and whether it is the best of its row."""

    text: str
    best: bool = False


class Sheet(NamedTuple):
    """A table for people, what it is of, what is said below it, and the same as a frame."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[TextCell]]
    below: Sequence[str]
    frame: pl.DataFrame

    def text(self, kind: str) -> str:
        """The table as LaTeX, which needs no package, as Markdown, or its frame as CSV.

        Raises UsageError for another kind.
        """
        if kind not in TABLES:
            raise UsageError(f"option table: {kind!r}: expected one of {', '.join(TABLES)}")
        if kind == "csv":
            return self.frame.write_csv()
        return self._tex() if kind == "tex" else self._md()

    def _tex(self) -> str:
        lines = [" & ".join(map(_tex, self.columns))]
        lines += [
            " & ".join(rf"\textbf{{{_tex(cell.text)}}}" if cell.best else _tex(cell.text) for cell in row)
            for row in self.rows
        ]
        first, *others = (rf"{line} \\" for line in lines)
        return "\n".join(
            [
                f"% {MADE}",
                r"\begin{table}",
                rf"\caption{{{_tex(self.caption)}}}",
                r"\centering",
                rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
                r"\hline",
                first,
                r"\hline",
                *others,
                r"\hline",
                r"\end{tabular}",
                *(rf"\par {_tex(line)}" for line in self.below),
                r"\end{table}",
                "",
            ]
        )

    def _md(self) -> str:
        def row(cells: Sequence[str]) -> str:
            return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

        return "\n".join(
            [
                f"<!-- {MADE} -->",
                self.caption,
                "",
                row(list(self.columns)),
                row(["---", *["---:"] * (len(self.columns) - 1)]),
                *(
                    row([f"**{cell.text}**" if cell.best else cell.text for cell in cells])
                    for cells in self.rows
                ),
                *(f"\n{line}" for line in self.below),
                "",
            ]
        )


def _tex(text: str) -> str:
    return text.translate(_ESCAPED)
