"""What gavel, allox and sia choose in a run: of many optima the one that they take."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from cases.case import Case
from reference.following import WrongError
from reference.levels import Choices
from ringbco.policies import allox, gavel, sia


@dataclass
class Decision:
    """At an instant, s. rows: who ran or waited. chosen: call by call, as the reference model is told.

    units: of a GPU, in which the package counts.
    """

    now: float
    rows: list[int]
    chosen: list[Any] = field(default_factory=list)
    units: int = 1


def watched(case: Case) -> list[Decision]:
    """The decisions of a run of the case."""
    seen: list[Decision] = []

    def decides(decide: Callable[..., None]) -> Callable[..., None]:
        def deciding(policy: Any, state: Any) -> None:
            rows = [*map(int, (*state.running, *state.waiting))]
            seen.append(Decision(float(state.now), rows, units=1 if state.shares is None else 1000))
            decide(policy, state)

        return deciding

    def tells(choose: Callable[..., Any], means: Callable[..., Any]) -> Callable[..., Any]:
        def choosing(*given: Any) -> Any:
            made = choose(*given)
            seen[-1].chosen.append(means(made, *given))
            return made

        return choosing

    def shares(made: Any, *_: Any) -> dict[int, list[float]]:
        return dict(zip(sorted(seen[-1].rows), made.tolist(), strict=True))

    def matching(made: Any, *_: Any) -> list[tuple[int, int]]:
        return [(slot, place) for slot, place in made.tolist()]

    def assignment(
        made: Any, gains: Any, now: Any, menu: Any, gpus: Any, *_: Any
    ) -> list[tuple[int, int] | None]:
        del gains, now
        # In thousandths where jobs may hold shares, which are on one GPU.
        sizes = [max(1, int(size) // seen[-1].units) for size in menu.sizes]
        return [None if at < 0 else (int(menu.kinds[at]), sizes[at]) for at in made.tolist()]

    with ExitStack() as stack:
        for policy in (gavel.Gavel, allox.Allox, sia.Sia):
            stack.enter_context(patch.object(policy, "decide", decides(policy.decide)))
        for module, name, means in (
            (gavel, "shares", shares),
            (gavel, "finish_time", shares),
            (allox, "matching", matching),
            (sia, "assignment", assignment),
        ):
            stack.enter_context(patch.object(module, name, tells(getattr(module, name), means)))
        case.replay()
    return seen


def choices(seen: Sequence[Decision], own: set[int], close: float) -> Choices:
    """What was chosen by the jobs `own`, decision by decision. close: s, that instants may differ by."""
    left = [each for each in seen if each.chosen and own & {*each.rows}]
    given: list[Any] = []
    then, whole = -math.inf, 0

    def at(now: float) -> list[Any] | None:
        nonlocal given, then, whole
        if given and len(given) == whole and now - then <= close:
            return given  # Of two instants that close the later one was meant.
        if given or (left and left[0].now < now - close):
            raise WrongError(f"chosen by {now} s, and there was nothing to choose: {given or left[0]}")
        if not left or abs(left[0].now - now) > close:
            return None
        then, given = left[0].now, left.pop(0).chosen
        whole = len(given)
        return given

    return at
