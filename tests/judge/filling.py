"""Which share each job needs to meet its deadline: the filling of elasticflow (docs/elastic-policies.md)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from judge.doubts import Doubts

CLOSE: Final = 1e-12
"""Times that are worked out of others may be off by so much, relative."""


class Line(NamedTuple):
    """A job with a deadline.

    tried: types in order. unit: thousandths of each of its GPUs. left: work, and how far that may be off.
    """

    job: int
    least: int
    most: int
    deadline: float
    tried: Sequence[int]
    unit: int
    left: float
    slack: float


class Piece(NamedTuple):
    """Thousandths of GPUs of a type that a job takes for a while."""

    own: int
    start: float
    end: float
    units: int


class Profile:
    """Thousandths of GPUs of each type that nobody has taken, by time. looks: at pieces of it, so far."""

    def __init__(
        self, now: float, free: Mapping[int, int], rate: Callable[[int, int, int], float], doubts: Doubts
    ) -> None:
        self.now, self.rate, self.doubts = now, rate, doubts
        self.steps = {own: [(now, units)] for own, units in free.items()}
        self.looks = 0

    def take(self, piece: Piece) -> None:
        """What is done as soon as it begins takes GPUs for a moment."""
        end = max(piece.end, math.nextafter(piece.start, math.inf))
        steps = self.steps[piece.own]
        first, last = self._cut(piece.own, piece.start), self._cut(piece.own, end)
        for at in range(first, last):
            steps[at] = steps[at][0], steps[at][1] - piece.units

    def _cut(self, own: int, time: float) -> int:
        """Where the step begins that begins at a time; makes one there."""
        steps = self.steps[own]
        at = bisect_left(steps, (time, -1))
        if time < math.inf and (at == len(steps) or steps[at][0] != time):
            steps.insert(at, (time, steps[at - 1][1]))
        return at

    def fill(
        self, lines: Iterable[Line], kept: Mapping[int, Piece] | None = None
    ) -> dict[int, list[Piece] | None]:
        """What each job takes, one after the other; None of those that are late.

        kept: what has been taken for those that are protected, who may take that and more.
        """
        kept = kept or {}
        found: dict[int, list[Piece] | None] = {}
        for line in lines:
            own = kept.get(line.job)
            if own is not None:
                self.take(own._replace(units=-own.units))
            found[line.job] = pieces = self._share(line)
            for piece in pieces or ((own,) if own is not None and pieces is None else ()):
                self.take(piece)
        return found

    def _share(self, line: Line) -> list[Piece] | None:
        """What it takes with the least share with which it is in time."""
        for own in line.tried:
            most = min(line.most, max(units for _, units in self.steps[own]) // line.unit)
            for share in range(line.least, most + 1):
                pieces = self._with(line, share, own)
                if pieces is not None:
                    return pieces
        return None

    def _with(self, line: Line, share: int, own: int) -> list[Piece] | None:
        left, steps = line.left, self.steps[own]
        pieces: list[Piece] = []
        for at, (start, free) in enumerate(steps):
            self.looks += 2
            if start > line.deadline:
                return None
            gpus = min(share, free // line.unit)
            if gpus < line.least:
                continue
            rate = self.rate(line.job, own, gpus)
            until = steps[at + 1][0] if at + 1 < len(steps) else math.inf
            takes = left / rate if rate > 0.0 else math.inf
            end = start + takes
            slack = (
                line.slack / rate + CLOSE * (end - self.now) + 4.0 * math.ulp(end)
                if takes < math.inf
                else 0.0
            )
            if self.doubts.up_to(end, until, slack):
                if not self.doubts.up_to(end, line.deadline, slack):
                    return None
                return [*pieces, Piece(own, start, end, gpus * line.unit)]
            pieces.append(Piece(own, start, until, gpus * line.unit))
            left = max(0.0, left - (until - start) * rate)
        return None
