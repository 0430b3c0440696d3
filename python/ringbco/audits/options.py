"""The options of run.toml, and what they say of the policy of a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from ringbco.errors import InputError, UsageError, show_value
from ringbco.run.own import BARE
from ringbco.run.registry import BUILT_IN, PLAN, PRESETS, REPLAY
from ringbco.trace import ties
from ringbco.units import moment

PREEMPTIVE: Final = frozenset(REPLAY["preempt_cost"].policies)
_KEYS: Final = {
    "order": str, "placement": str, "queue": str, "model": str, "clock": str, "variant": str, "oversize": str,
    "slot": float, "kappa": int,
}  # fmt: skip
_LARGEST: Final = sys.float_info.max
_OPTIONS: Final = (*REPLAY.values(), *PLAN.values())
_NUMBERS: Final = tuple(
    dict.fromkeys(option.name for option in _OPTIONS if option.kind in ("integer", "number"))
)
_MOMENTS: Final = tuple(option.name for option in _OPTIONS if option.kind == "moment")
_ENDLESS: Final = frozenset(option.name for option in _OPTIONS if option.endless)
_WORDS: Final = {option.name: (option.word,) for option in PLAN.values() if option.word}


RUNS_THROUGH: Final = "runs_through"
"""Whether a run follows a log of a run in which no stay could end early: of [log] in run.toml."""


def preempts(options: Mapping[str, Any]) -> bool:
    """Whether the policy of a run's options may preempt."""
    policy = options.get("policy")
    return policy in PREEMPTIVE or (decides_itself(options) and not options.get(RUNS_THROUGH))


def decides_itself(options: Mapping[str, Any]) -> bool:
    """Whether a log or a policy in Python says who runs where; one that only orders the queue does not."""
    policy = str(options.get("policy"))
    return policy in (BARE, *BUILT_IN) or (":" in policy and options.get("order") != "column")


def resizes(options: Mapping[str, Any]) -> bool:
    """Whether the policy of a run's options may give elastic jobs other GPUs than num_gpus."""
    return (decides_itself(options) and not options.get(RUNS_THROUGH)) or policy_is(options, "resizes")


def policy_is(options: Mapping[str, Any], what: str) -> bool:
    """Whether that is what the built-in policy of a run's options says of itself."""
    preset = PRESETS.get(str(options.get("policy")))
    return preset is not None and what in preset.is_


def options_of(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of run.toml. Raises InputError where one that the audit needs is missing or odd."""
    options = run.get("options")
    if not isinstance(options, Mapping):
        raise InputError("run.toml: expected a table [options]")
    for name, kind in _KEYS.items():
        if name == "kappa" and options.get("command") == "plan":
            continue  # may be "auto"; the one found is in summary.json
        if not isinstance(options.get(name), (int, float) if kind is float else kind):
            raise InputError(f"run.toml: expected options.{name}, a {kind.__name__}")
    if preempts(options) and not isinstance(options.get("preempt_cost"), int | float):
        raise InputError("run.toml: expected options.preempt_cost, a float")
    _check_optional(options)
    if not options["slot"] > 0:
        raise InputError(f"run.toml: options.slot: {options['slot']}: expected a number of seconds > 0")
    log = run.get("log")
    return {**options, RUNS_THROUGH: isinstance(log, Mapping) and log.get(RUNS_THROUGH) is True}


def _check_optional(options: Mapping[str, Any]) -> None:
    """Refuses odd values of options that older results may lack, and numbers beyond all measure."""
    for name in _NUMBERS:
        value = options.get(name)
        endless = value == float("inf") and name in _ENDLESS
        if value is not None and not isinstance(value, str) and not (_is_finite(value) or endless):
            raise InputError(f"run.toml: options.{name}: {show_value(value)}: expected a finite number >= 0")
        if isinstance(value, str) and value not in _WORDS.get(name, ()):
            raise InputError(f"run.toml: options.{name}: {show_value(value)}: expected a number")
    for name in _MOMENTS:
        if options.get(name) is not None:
            try:
                moment(options[name])
            except ValueError as error:
                shown = show_value(options[name])
                raise InputError(f"run.toml: options.{name}: {shown}: expected {error}") from None
    try:
        ties.check(str(options.get("ties", "rows")))
    except UsageError as error:
        raise InputError(f"run.toml: {error}") from None


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= _LARGEST
