"""The options of run.toml, and what they say of the policy of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ringbco.result.run_validation import NEEDED, Record
from ringbco.run.custom_policy import BARE
from ringbco.run.registry import BUILT_IN, PRESETS, REPLAY

PREEMPTIVE: Final = frozenset(REPLAY["preempt_cost"].policies)
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


def jobs_per_gpu(options: Mapping[str, Any]) -> int:
    """How many jobs may hold the same whole GPUs."""
    return int(options.get("jobs_per_gpu") or 1)


def policy_is(options: Mapping[str, Any], what: str) -> bool:
    """Whether that is what the built-in policy of a run's options says of itself."""
    preset = PRESETS.get(str(options.get("policy")))
    return preset is not None and what in preset.is_


def options_of(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of run.toml. Raises InputError where one that the audit needs is missing or odd."""
    options = Record(run, None).check_options(NEEDED)
    if preempts(options):
        Record(run, None).check_options(("preempt_cost",))
    log = run.get("log")
    return {**options, RUNS_THROUGH: isinstance(log, Mapping) and log.get(RUNS_THROUGH) is True}
