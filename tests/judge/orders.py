"""In which order jobs may have started at an instant, where only their places tell it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from judge.deciding import UnclearError
from judge.floor import Floor
from judge.given import Stay
from judge.placing import Parts

SEVERAL: Final = 6
"""Jobs that start at one instant up to which every order is tried."""


def orders(
    floor: Floor,
    come: Sequence[Stay],
    parts: Callable[[Stay], Parts],
    find: Callable[[Stay], Parts | None],
    redraw: Callable[[int, Parts], None],
) -> list[list[Stay]]:
    """Orders of starts in which the placement puts each where the book has it; no more than two.

    parts: what a stay holds; find: where its job would be put now. Raises UnclearError where they are many.
    """
    if len(come) > SEVERAL:
        raise UnclearError
    if not come:
        return [[]]
    found = list[list[Stay]]()
    for stay in come:
        floor.looks += 1
        right = parts(stay)
        if len(found) > 1 or find(stay) != right:
            continue
        kept = floor.rng, dict(floor.load)
        redraw(stay.job, right)
        floor.take(stay.job, right)
        rest = orders(floor, [other for other in come if other is not stay], parts, find, redraw)
        floor.give(stay.job)
        floor.rng, floor.load = kept
        found += [[stay, *each] for each in rest]
    return found[:2]
