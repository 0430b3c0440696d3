"""What the tables of all pages are made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from ringbco.reports.names import shortened
from ringbco.reports.tones import COLOURS, DASHES, looks, tone_name

_NAME: Final = 150
"""The room for a result's name in a table, pixels."""


class Swatch(NamedTuple):
    """How the charts draw a result: the style sheet's colour, and SVG's dashes or nothing."""

    tone: str
    dashes: str


class Cell(NamedTuple):
    """A cell of a table. beside: what stands behind the text, small. below: smaller lines below it.

    best: whether it is the best of its measure. words: whether it is text, not a figure. swatch: that of the
    result whose name it is. name: whether it is one, which stays on its line. whole: it in full, where the
    text is shorter.
    """

    text: str
    beside: str = ""
    below: tuple[str, ...] = ()
    best: bool = False
    words: bool = False
    swatch: Swatch | None = None
    whole: str = ""
    name: bool = False


class Table(NamedTuple):
    """A table of a page: what it is called, its columns' titles, a row each with as many cells.

    A row's first cell names it. On narrow screens each row is a card.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def words(*texts: str) -> list[Cell]:
    """Cells of text."""
    return [Cell(text, words=True) for text in texts]


def swatch(place: int) -> Swatch:
    """The line with which the charts draw the result of that place, by `looks`."""
    dashes = DASHES[place]
    return Swatch(tone_name(COLOURS[place]), "" if dashes == [1, 0] else " ".join(map(str, dashes)))


def named(labels: Collection[str]) -> dict[str, Cell]:
    """The cells with the results' names, one line each; a single result needs no colour."""
    places = looks(labels)
    return {
        label: cell._replace(swatch=swatch(places[label]) if len(labels) > 1 else None)
        for label, cell in names(labels, _NAME).items()
    }


def names(texts: Collection[str], room: float) -> dict[str, Cell]:
    """Cells with names, one line each. room: pixels; a name that is wider is shortened in the middle."""
    return {
        text: Cell(short, words=True, name=True, whole="" if short == text else text)
        for text, short in shortened(list(texts), room).items()
    }
