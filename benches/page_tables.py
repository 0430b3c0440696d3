"""Tables that stand in pages: read, and put between `<!-- table: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

_MARK: Final = re.compile(r"(<!-- table: ([a-z ]+) -->)\n(.*?)\n?(<!-- end -->)", re.DOTALL)
_HEAD: Final = re.compile(r"\*\*(.+)\*\*|### ([^:]+)(?::.*)?")
_LABEL: Final = re.compile(r"(\d+ Gb/s):")


def marked(page: str) -> dict[str, str]:
    """What stands between each pair of marks."""
    return {found[2]: found[3] for found in _MARK.finditer(page)}


def filled(page: str, made: Mapping[str, str]) -> str:
    """The page with the text of each mark in its place. Raises KeyError where nothing is made for one."""
    return _MARK.sub(lambda at: f"{at[1]}\n{made[at[2]]}\n{at[4]}", page)


def rows(text: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Every row of every table: the heading and the label above it, and its cells by column."""
    heading = label = ""
    columns: list[str] = []
    for line in text.splitlines():
        if found := _HEAD.fullmatch(line):
            heading = found[1] or found[2]
        elif found := _LABEL.fullmatch(line):
            label = found[1]
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
