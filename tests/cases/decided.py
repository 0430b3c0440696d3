"""The reference model of cases in which a policy decides by verbs of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import polars as pl

import ringbco
from cases.case import Case
from cases.custom_policies import Paired, Restless
from cases.watched import choices, watched
from reference.allox import Allox
from reference.claims import Claims
from reference.deciding import Decide, Decides, ImpossibleError, State, deciding_world
from reference.following import VERBS, Entry, following_world
from reference.gavel import Gavel
from reference.mechanism import World
from reference.seats import seats_world
from reference.shares import Sharing
from reference.sia import Sia
from reference.sized import Ranges, sized_world
from reference.types import Choices, Types
from ringbco.errors import DecisionError

if TYPE_CHECKING:
    from cases.modelled import Model

TOLD = {"gavel": Gavel, "allox": Allox, "sia": Sia}
"""Those whose optima are told."""
POLICIES = (Restless.__name__, Paired.__name__, *TOLD)


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


def types_of(model: Model) -> Types:
    """Of the case; one for all servers where they name none."""
    alike = Choices((0,), {0: 1.0}, 1.0)
    return model.types or Types((0,) * len(model.servers), (alike,) * len(model.jobs), (1.0,), "listed")


def ranges_of(model: Model) -> Ranges:
    """Least and most GPUs and noise scales; where nothing is said of a scale, every sample counts in full."""
    jobs = model.case.jobs
    scales = [job.get("noise_scale") for job in jobs]
    return Ranges(
        tuple(job.get("min_gpus") or job["num_gpus"] for job in jobs),
        tuple(job.get("max_gpus") or job["num_gpus"] for job in jobs),
        tuple(
            (math.inf if scale is None else scale, job.get("batch_size") or 1)
            for scale, job in zip(scales, jobs, strict=True)
        ),
    )


def base(model: Model, sharing: Sharing) -> type[World]:
    """The world at the bottom."""
    under = sized_world(ranges_of(model), types_of(model), sharing if model.shared() else None)
    return under if model.seating is None else seats_world(model.seating, under)


def world(model: Model, claims: Claims, under: type[World], sharing: Sharing) -> type[World]:
    """The model `under` by the decisions of the case's policy, or of a log."""
    told = model.told
    costs = tuple(told.get(name) for name in ("move_cost", "resize_cost"))
    assert model.decides is not None
    result = deciding_world(
        model.decides,
        ranges_of(model),
        (costs[0], costs[1]),
        claims,
        types_of(model),
        under,
        sharing if model.shared() else None,
        model.names,
    )
    return result if model.log is None else following_world(model.log, result)


def policy_of(case: Case) -> Decides | None:
    """What decides in a case; None where its policy is no such one."""
    policy = case.policy
    if policy in (Restless, Paired):
        return lambda _: partial(_by_itself, policy())
    if policy not in TOLD:
        return None
    seen = watched(case)
    submits = [job["submit_time"] for job in case.jobs]
    close = 1e-9 * (max(submits) - min(submits) + max(job["duration"] for job in case.jobs))

    def decides(own: Collection[int]) -> Decide:
        told = choices(seen, {*own}, close)
        return TOLD[policy](told, **case.options.get("parameters", {}))  # type: ignore[abstract, no-any-return]

    return decides


def _by_itself(policy: ringbco.Policy, state: State) -> None:
    policy.decide(Seen(state))  # type: ignore[arg-type]


def entries(decisions: pl.DataFrame, ids: list[str]) -> list[Entry]:
    """What a log says that a policy decided, and who made room for whom."""
    result: list[Entry] = []
    before: tuple[Any, ...] = ()
    rows = decisions.filter(pl.col("verb").is_in(VERBS) & pl.col("service").is_null())
    for each in rows.iter_rows(named=True):
        cause = each["cause"] or ""
        named = re.search(r"pass (\d+)", cause)
        part: Any = (each["server"], each["num_gpus"] if each["gpu"] is None else [each["gpu"]])
        here = each["time"], each["verb"], each["job_id"], cause
        if here == before and each["num_gpus"] is not None and each["verb"] != "evicted":
            last = result[-1]
            parts = [*last.parts, part]
            if last.parts[-1][0] == part[0]:
                parts = [*last.parts[:-1], (part[0], [*last.parts[-1][1], *part[1]])]
            result[-1] = last._replace(parts=parts)
            continue
        before = here
        result.append(
            Entry(
                each["time"],
                each["verb"],
                ids.index(each["job_id"]),
                [part] if each["num_gpus"] is not None else (),
                None if each["by"] is None else ids.index(each["by"]),
                None if each.get("beside") is None else ids.index(each["beside"]),
                0 if cause == "on arrival" else int(named[1]) if named else 1,
                "after the one above" in cause,
            )
        )
    return result


def follows(case: Case) -> bool:
    """Whether the reference model can follow a log of the case: there are no parts of slots."""
    options = case.options
    if options.get("clock") != "slot":
        return True
    in_parts = options["model"] == "table" or options.get("checkpoint_cost") or options.get("interference")
    return not (in_parts or case.epoch)
