"""The reference model of cases in which a policy decides by verbs of its own."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from cases.own import Restless
from reference.deciding import Decide, ImpossibleError, State, deciding_world
from reference.mechanism import World
from reference.priorities import Claims
from reference.shares import Sharing
from reference.sized import Ranges, sized_world
from reference.types import Choices, Types
from ringbco.errors import DecisionError

if TYPE_CHECKING:
    from cases.twin import Twin

POLICIES = (Restless.__name__,)


class Seen:
    """A state that refuses as the package's does."""

    def __init__(self, state: State) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._state, name)
        return _refusing(name, value) if callable(value) else value


def _refusing(name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(verb)
    def asked(*given: Any, **more: Any) -> Any:
        try:
            return verb(*given, **more)
        except ImpossibleError:
            raise DecisionError(name, "the reference model refuses it", time=0.0) from None

    return asked


def types_of(twin: Twin) -> Types:
    """Of the case; one for all servers where they name none."""
    alike = Choices((0,), {0: 1.0}, 1.0)
    return twin.types or Types((0,) * len(twin.servers), (alike,) * len(twin.jobs), (1.0,), "listed")


def ranges_of(twin: Twin) -> Ranges:
    """Least and most GPUs and noise scales; where nothing is said of a scale, every sample counts in full."""
    jobs = twin.case.jobs
    scales = [job.get("noise_scale") for job in jobs]
    return Ranges(
        tuple(job.get("min_gpus") or job["num_gpus"] for job in jobs),
        tuple(job.get("max_gpus") or job["num_gpus"] for job in jobs),
        tuple(
            (math.inf if scale is None else scale, job.get("batch_size") or 1)
            for scale, job in zip(scales, jobs, strict=True)
        ),
    )


def base(twin: Twin, sharing: Sharing) -> type[World]:
    """The world at the bottom."""
    return sized_world(ranges_of(twin), types_of(twin), sharing if twin.shared() else None)


def world(twin: Twin, claims: Claims, under: type[World], sharing: Sharing) -> type[World]:
    """The model `under` by the decisions of the case's policy."""
    told = twin.told
    pause = told.get("preempt_cost", 30.0)
    costs = tuple(told.get(name, pause) for name in ("move_cost", "resize_cost"))
    return deciding_world(
        partial(own, twin.case.policy),
        ranges_of(twin),
        (costs[0], costs[1]),
        claims,
        types_of(twin),
        under,
        sharing if twin.shared() else None,
        twin.names,
    )


def own(policy: type[Any]) -> Decide:
    """A policy of one's own, in the state in which a run begins with it."""
    made = copy.deepcopy(policy())
    return lambda state: made.decide(Seen(state))  # type: ignore[no-any-return]
