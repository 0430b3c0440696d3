"""One look for each value on a sweep's page: a hue is a policy everywhere, a shade of blue anything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ringbco.reports.series import SYMBOLS, Look, Styled
from ringbco.reports.sweep_points import named
from ringbco.reports.tones import COLOURS, DASHES, GREY, SHADES

if TYPE_CHECKING:
    from ringbco.reports.sweep_points import Axis, Point, SweepRuns

_HUES: Final = (*COLOURS[:5], "#F0A94B", "#D9541E")
_FIRST: Final = ("run", "policy")


def main_axis(runs: SweepRuns) -> Axis | None:
    """The axis whose values have a hue each: the policies, else other names, else the last numbers."""
    axes = sorted(runs.axes, key=lambda axis: (axis.name not in _FIRST, axis.places is not None))
    names = [axis for axis in axes if axis.name in _FIRST or axis.places is None]
    return names[0] if names else next(iter(reversed(axes)), None)


def styled(runs: SweepRuns, shown: Sequence[Axis], lines: Sequence[str]) -> Styled:
    """The lines of a chart that tells these axes apart, in their order, with their looks."""
    main = main_axis(runs)
    own = main if main in shown else None
    others = [axis for axis in shown if axis is not own]
    points = {_line(point, shown): point for point in runs.points}
    second = sorted({_place(point, others) for point in runs.points})
    looks = {}
    for line in lines:
        point = points[line]
        at = second.index(_place(point, others))
        if own is None:
            last = max(len(second) - 1, 1)
            looks[line] = Look(SHADES[round(at * (len(SHADES) - 1) / last)], DASHES[0], SYMBOLS[0])
            continue
        hue = own.values.index(point.settings[own.name])
        alone = hue if not others else at
        colour = _HUES[hue] if hue < len(_HUES) else GREY
        symbol = SYMBOLS[0] if not others else SYMBOLS[at % len(SYMBOLS)]
        looks[line] = Look(colour, DASHES[alone % len(DASHES)], symbol)
    return Styled(looks)


def _line(point: Point, shown: Sequence[Axis]) -> str:
    return named({axis.name: point.settings[axis.name] for axis in shown})


def _place(point: Point, axes: Sequence[Axis]) -> tuple[int, ...]:
    """Where a point stands along some axes."""
    return tuple(axis.values.index(point.settings[axis.name]) for axis in axes)
