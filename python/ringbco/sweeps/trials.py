"""What a command says of a sweep's settings before anything runs: each is tried on one job of one second.

The code of a custom policy is loaded last, and never called: something of its kind stands in for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import numpy as np
import polars as pl

from ringbco.cluster.spec import Cluster
from ringbco.errors import RingbcoError, UsageError
from ringbco.result.window import EmptyWindowError
from ringbco.run.custom_policy import (
    KeyPolicy,
    Policy,
    RankPolicy,
    Scheduler,
    SerializedPolicy,
    check_fields,
    class_of,
    is_custom,
    serialized,
)
from ringbco.run.refusals import fit
from ringbco.run.registry import BUILT_IN
from ringbco.sweeps.settings import command, options_of
from ringbco.trace.jobs import JobTable, from_frame
from ringbco.trace.plausibility import silently

_METHODS: Final[Mapping[type[Scheduler], Mapping[str, Any]]] = {
    KeyPolicy: {"key": lambda _self, _state, rows: np.zeros(rows.size)},
    RankPolicy: {"rank": lambda _self, _state, rows: np.zeros(rows.size)},
    Policy: {"decide": lambda _self, state: state.start(state.waiting)},
}


class Trials:
    """Of one specification's command. custom: the custom policies that are loaded, by their names."""

    def __init__(self, name: str) -> None:
        self._command = name
        self._stand_ins: dict[str, type[Scheduler]] = {}
        self._foreign: dict[str, bool] = {}
        self.custom: dict[str, SerializedPolicy] = {}

    def is_foreign(self, policy: object) -> bool:
        """Whether a policy's name stands for code that is not ringbco's."""
        if not isinstance(policy, str) or self._command != "replay" or policy in BUILT_IN:
            return False
        if policy not in self._foreign:
            self._foreign[policy] = is_custom(policy)
        return self._foreign[policy]

    def load(self, policy: str) -> None:
        """Runs the file of a custom policy, to learn its kind. Raises as `custom_policy.named` does."""
        own = serialized(policy)
        kind = class_of(own)
        check_fields(kind, policy)
        self._stand_ins[policy] = _stand_in(policy, next(base for base in _METHODS if issubclass(kind, base)))
        self.custom[policy] = own

    def known(self, policy: Any) -> Any:
        """What stands for a policy wherever it is only asked about."""
        return self._stand_ins.get(policy, policy) if isinstance(policy, str) else policy

    def refusal(self, name: str, options: Mapping[str, Any]) -> UsageError | None:
        """What the command says of the option of that name.

        The other options are those that the policy has a use for. A policy that is not loaded yet may turn
        out to be of any kind: refused is what it could not have as one of any.
        """
        policy = options.get("policy")
        said = None
        for base in _METHODS if self.is_foreign(policy) and policy not in self._stand_ins else [None]:
            known = self.known(policy) if base is None else _stand_in(str(policy), base)
            said = self._said(name, options if policy is None else {**options, "policy": known})
            if said is None:
                break
        return said

    def _said(self, name: str, options: Mapping[str, Any]) -> UsageError | None:
        function, known = command(self._command), options_of(self._command)
        assert function is not None
        try:
            others = self.fitted({other: value for other, value in options.items() if other != name})
            given = {**others, name: options[name]}
            parameters = {known[option].parameter: value for option, value in given.items()}
            with silently():  # the tables beside are of another time than this job
                function(_one_job(), Cluster.parse("1x1"), **parameters)
        except EmptyWindowError:
            pass
        except UsageError as error:
            return error
        except RingbcoError:
            pass  # of this one job, which is nobody's
        return None

    def fitted(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that the run's policy, and its clock, have a use for."""
        if self._command != "replay":
            return dict(options)
        known = options_of(self._command)
        by_parameter = {known[name].parameter: value for name, value in options.items()}
        policy = self.known(options.get("policy", known["policy"].default))
        (kept,) = fit([policy], by_parameter, strict=False)
        if options.get("clock", known["clock"].default) == "continuous":
            kept.pop("slot", None)  # as with policies: a grid of both clocks may name a slot for one of them
        return {name: value for name, value in options.items() if known[name].parameter in kept}


def _stand_in(policy: str, base: type[Scheduler]) -> type[Scheduler]:
    """A policy of that kind, which goes by the name of the one that it stands for."""
    place, _, name = policy.rpartition(":")
    return type(name, (base,), {"__module__": place, **_METHODS[base]})


@cache
def _one_job() -> JobTable:
    columns = {"job_id": ["job"], "submit_time": [0.0], "num_gpus": [1], "duration": [1.0]}
    return from_frame(pl.DataFrame(columns))
