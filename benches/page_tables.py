"""Tables of pages: their cells, the marks between which they stand, and what makes them is given.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringbco.trace.jobs import JobTable

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
_MARK: Final = re.compile(r"(<!-- table: ([a-z ]+) -->)\n(.*?)\n?(<!-- end -->)", re.DOTALL)
_HEAD: Final = re.compile(r"\*\*(.+)\*\*|### ([^:]+)(?::.*)?")
_LABEL: Final = re.compile(r"(\d+ Gb/s):")
_UNITS: Final = {"%": 0.01, "min": MINUTE, "h": HOUR, "d": DAY}


@dataclass
class TableInputs:
    """What a table is made of. traces and peers: folders. least: a part of it, as fast as may be."""

    traces: Path = Path("../shared/traces")
    peers: Path = Path("../shared/peers")
    least: bool = False
    drawn_less: bool = False
    """Whether what was made has fewer draws than the page's, so that the figures are others."""

    def jobs(self, trace: str) -> JobTable:
        """A job table of the traces, the whole of it whatever it is of."""
        from ringbco.sources import convert
        from ringbco.trace.jobs import read_jobs

        path = self.traces / f"{trace}.csv"
        return convert("elasticflow", [path]).table if trace.startswith("elasticflow") else read_jobs(path)

    def some(self, cases: Iterable[Any], few: slice = slice(-2, None)) -> list[Any]:
        """All the cases, or a few."""
        return list(cases)[few if self.least else slice(None)]

    def draws(self, count: int) -> int:
        """How many times to draw."""
        self.drawn_less |= self.least
        return 2 if self.least else count

    def map(self, function: Callable[..., Any], *cases: Iterable[Any]) -> list[Any]:
        """Of each case, in processes that are not forked: polars has worked here by now."""
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            return list(pool.map(function, *cases))


class Note(str):
    """A figure of the page's sentences, which is printed and stands in no table."""

    __slots__ = ()


class Number(float):
    """Forms `{x:h .1f}` and the like: in hours, per cent, days, minutes; `{x:duration}`: with its unit."""

    def __format__(self, form: str) -> str:
        from ringbco.units import duration, time

        value = float(self)
        if form == "time":
            return time(value)
        if form == "duration":
            return duration(value)
        if form == "hours":  # below 200 of them, which are told apart better than days
            return "0" if value == 0 else f"{self:h .1f} h" if 2 <= value / HOUR < 200 else duration(value)
        unit, _, rest = form.rpartition(" ")
        return f"{value / _UNITS.get(unit, 1.0):{rest}}{' %' * (unit == '%')}"


class Figures(dict[str, Any]):
    """Numbers by name for the forms of cells; a cell is empty where its number is missing."""

    def __init__(self, *of: Mapping[str, Any], **more: Any) -> None:
        super().__init__()
        for one in (*of, more):
            self.update(
                (key, Number(value) if isinstance(value, float) else value) for key, value in one.items()
            )

    def __missing__(self, key: str) -> Any:
        return _Nothing()


class _Nothing:
    def __format__(self, form: str) -> str:
        return ""


def line(*cells: object) -> str:
    """A row."""
    return "|" + "".join(f" {cell} |" if str(cell) else " |" for cell in cells)


def head(*names: str, words: int = 1) -> Iterator[str]:
    """The head of a table whose first columns hold words."""
    yield line(*names)
    yield line(*["---"] * words, *["---:"] * (len(names) - words))


def table(
    names: Sequence[str],
    columns: Mapping[str, str],
    rows: Iterable[tuple[Sequence[object], Mapping[str, Any]]],
) -> Iterator[str]:
    """Lines: what a row is called, and its figures in the form of each column."""
    yield from head(*names, *columns, words=len(names))
    for called, figures in rows:
        yield line(*called, *(form.format_map(figures) for form in columns.values()))


def marked(page: str) -> dict[str, str]:
    """What stands between each pair of marks."""
    return {item[2]: item[3] for item in _MARK.finditer(page)}


def filled(page: str, made: Mapping[str, str]) -> str:
    """The page with what is made in its place."""
    return _MARK.sub(lambda at: f"{at[1]}\n{made.get(at[2], at[3])}\n{at[4]}", page)


def rows(text: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Every row of every table: the heading and the label above it, and its cells by column."""
    heading = label = ""
    columns: list[str] = []
    for line in text.splitlines():
        if result := _HEAD.fullmatch(line):
            heading = result[1] or result[2]
        elif result := _LABEL.fullmatch(line):
            label = result[1]
        elif not line.startswith("|"):
            columns = []
        elif not columns:
            columns = _cells(line)
        elif not line.startswith("| ---"):
            yield heading, label, dict(zip(columns, _cells(line), strict=True))


def number(cell: str) -> float:
    """The number in a cell, such as 1,234.5 or 40.2 %."""
    return float(cell.removesuffix(" %").replace(",", ""))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]
