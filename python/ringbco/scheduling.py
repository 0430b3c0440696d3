"""The options of the schedulers beside SJF-BCO: preemption, predictions, deadlines, aging, estimates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ringbco import _core
from ringbco.errors import InputError, UsageError
from ringbco.options import Policy, RunOptions, check_name, flag, number, policies, refusal, resolve_policy

if TYPE_CHECKING:
    from ringbco.jobs import JobTable

PREDICT: Final = ("history", "exact")
NOBODY: Final = 2**32 - 1
"""The number of the user of jobs that name none."""
LONGEST: Final = 1e9
"""Seconds, some thirty years: no trace is as long, and what is beyond it loses its seconds to rounding."""
MOST_PASSES: Final = 50_000_000
"""Decisions of one run, each of which may leave a stretch of every running job in memory."""
# Options that go with a part, whatever the policy is called; the others the registry gives to each policy.
_OF_PARTS: Final = {
    "kappa": ("placement", ("sjf-bco",)),
    "lambda_": ("placement", ("lbsgf", "sjf-bco")),
    "variant": ("placement", ("fa-ffp", "lbsgf", "sjf-bco")),
    "predict": ("order", ("qssf",)),
    "aging": ("order", ("sjf", "smallest", "qssf")),
    "estimate_factor": ("queue", ("easy",)),
}
_OF_RUNS: Final = ("kappa", "lambda_", "variant")
# A setting may be common to runs of many policies, and is ignored by some; these change who runs, or when.
_DEMANDS: Final = ("admission", "aging")
# What ranks, places or backfills by recorded run times, or by work that is booked when a job starts.
_CLAIRVOYANT: Final = {
    "policy": ("srtf", "ftf"),
    "order": ("sjf",),
    "placement": ("least-loaded", "fa-ffp", "lbsgf", "sjf-bco"),
    "queue": ("easy",),
}
_RANKING: Final = ("order", "queue")  # which a policy that preempts has no use for


@dataclass(frozen=True)
class Scheduling:
    """What the other schedulers are told. Times in seconds; docs/policies.md has their meaning.

    thresholds: GPU-seconds, as numbers or as text with commas.

    Raises UsageError for a value out of its range.
    """

    preempt_cost: float = 30.0
    thresholds: Sequence[float] | str = (18_000.0,)
    interval: float = 60.0
    quantum: float = 60.0
    predict: str = "history"
    admission: bool = False
    aging: float | None = None
    estimate_factor: float = 1.0

    def __post_init__(self) -> None:
        check_name("predict", self.predict, PREDICT)
        period = f"a number of seconds > 0 and <= {LONGEST:.0e}"
        given: dict[str, Any] = {
            "thresholds": _thresholds(self.thresholds),
            "preempt_cost": number(
                "preempt-cost",
                self.preempt_cost,
                f"a time >= 0 and <= {LONGEST:.0e} s",
                least=0.0,
                most=LONGEST,
            ),
            "admission": flag("admission", self.admission),
            "estimate_factor": number(
                "estimate-factor", self.estimate_factor, "a number > 0", least=0.0, above=True
            ),
        }
        for name in ("interval", "quantum"):
            given[name] = number(name, getattr(self, name), period, least=0.0, most=LONGEST, above=True)
        if self.aging is not None:
            given["aging"] = number("aging", self.aging, "a finite time >= 0 s", least=0.0)
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def check_policy(self, policy: Policy) -> None:
        """Raises UsageError where something was demanded that the policy cannot do."""
        values = {name: getattr(self, name) for name in _DEMANDS}
        for name in _ignored(policy, values):
            raise _unused(policy, name, values[name])

    def check_passes(self, policy: Policy, options: RunOptions, work: Iterable[tuple[float, float]]) -> None:
        """Raises UsageError where decisions would follow on each other so closely that no run would end.

        work: of each (virtual) cluster, the GPU-seconds that its jobs ask for and its GPUs. It is busy for
        their quotient at least, and a policy that decides at intervals does so as often as they fit in it.
        """
        name = next((name for name in ("interval", "quantum") if uses(policy, name)), None)
        if name is None:
            return
        busy = sum(seconds / gpus for seconds, gpus in work if gpus)
        # A quantum may pass in resuming but for what it is longer than that.
        lost = self.preempt_cost if name == "quantum" else 0.0
        slot = options.slot if options.clock == "slot" else 0.0
        period = getattr(self, name)
        if 0 < max(period - lost, slot) < busy / MOST_PASSES:
            least = lost + busy / MOST_PASSES
            raise UsageError(
                f"option {name}: {period}: expected {'an' if name[0] == 'i' else 'a'} {name} of at least"
                f" {least:.3g} s; the jobs keep the cluster busy for {busy:,.0f} s, and that would take more"
                f" than {MOST_PASSES:,} decisions"
            )

    def columns(self, table: JobTable, order: str, preemption: str) -> dict[str, Any]:
        """The columns that the policy reads beside the usual ones, as the engine takes them.

        Raises InputError where `edf` finds no deadlines.
        """
        columns: dict[str, Any] = {}
        if preemption == "edf":
            if "deadline" not in table.frame.columns:
                raise InputError(
                    "a column with absolute times, s; there is none",
                    file=table.source,
                    column="deadline",
                    hint="add deadlines to the job table, or use another --policy than edf",
                )
            columns["deadline"] = table.frame["deadline"].fill_null(math.nan).to_numpy()
        if order == "qssf" and "user" in table.frame.columns:
            users = table.frame["user"].rank("dense").cast(int)
            columns["user"] = users.fill_null(NOBODY).to_numpy().astype(np.uint32)
        return columns

    def as_options(self) -> dict[str, Any]:
        """As run.toml holds them."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"thresholds": list(map(float, self.thresholds))}


def uses(policy: Policy, option: str) -> bool:
    """Whether the option means anything under the policy. True of what no policy ignores, such as `seed`."""
    if option in _OF_PARTS:
        part, names = _OF_PARTS[option]
        return getattr(policy, part) in names
    return option not in _defaults() or policy.name in _users(option)


def fit(chosen: Sequence[str], options: Mapping[str, Any], *, strict: bool = True) -> list[dict[str, Any]]:
    """For each policy, those of `options` that it uses: one value may be meant for some of several policies.

    options: by the names of `replay`'s parameters. Raises UsageError for a policy that is unknown and, where
    `strict`, for a demand (admission, aging, an order, a queue) that none of the policies can meet.
    """
    fitted, ignored = [], []
    for name in chosen:
        policy = _resolved(name, options)
        own = {option: value for option, value in options.items() if uses(policy, option)}
        dropped = [option for option in _ignored(policy, options) if option in _DEMANDS]
        if policy.preemption != "none":
            dropped += [part for part in _RANKING if own.pop(part, None) not in (None, getattr(policy, part))]
        fitted.append(own)
        ignored.append((policy, dropped))
    for option in options:
        if strict and ignored and all(option in dropped for _, dropped in ignored):
            if option in _RANKING:  # which says so itself
                resolve_policy(chosen[0], **{option: options[option]})
            raise _unused(ignored[0][0], option, options[option])
    return fitted


def unused(chosen: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """The options, as typed, that are not at their default and that none of the policies uses."""
    ignored = [set(_ignored(_resolved(name, options), options)) for name in chosen]
    return [_typed(option) for option in options if ignored and all(option in names for names in ignored)]


def foreknowledge(options: Mapping[str, Any]) -> list[str]:
    """What in a run reads, before a job runs, how long it will: a clairvoyant scheduler's parts.

    options: those of a run.toml; empty for a scheduler that could do without the recording.
    """
    read = [f"{part} {options[part]}" for part, names in _CLAIRVOYANT.items() if options.get(part) in names]
    if options.get("order") == "qssf" and options.get("predict") == "exact":
        read.append("predict exact")
    if options.get("admission"):
        read.append("admission")
    if options.get("command") == "plan":
        read.append("the plan")
    return read


def _resolved(name: str, options: Mapping[str, Any]) -> Policy:
    """The policy with its parts replaced as far as it has them."""
    preset = resolve_policy(name)
    parts = ("placement",) if preset.preemption != "none" else ("placement", *_RANKING)
    return resolve_policy(name, **{part: options.get(part) for part in parts})


def _ignored(policy: Policy, values: Mapping[str, Any]) -> list[str]:
    """The options that are not at their default, and that the policy does not use."""
    return [name for name, value in values.items() if not uses(policy, name) and not _is_default(name, value)]


def _is_default(name: str, value: object) -> bool:
    if name == "thresholds":
        value = _thresholds(value)
    try:
        return bool(value == _defaults()[name])
    except ValueError:  # an array, which is nobody's default
        return False


@cache
def _defaults() -> dict[str, Any]:
    """The options that not every policy uses, by the names of `replay`'s parameters."""
    return {field.name: field.default for field in fields(Scheduling)} | {
        field.name: field.default for field in fields(RunOptions) if field.name in _OF_RUNS
    }


@cache
def _users(option: str) -> tuple[str, ...]:
    """The policies that use the option as they are, by the registry or by their parts."""
    if option in _OF_PARTS:
        part, names = _OF_PARTS[option]
        return tuple(policy.name for policy in policies() if getattr(policy, part) in names)
    typed = _typed(option)
    return tuple(name for name, _, _, options in _core.policies() if f"--{typed}" in options)


def _unused(policy: Policy, option: str, value: object) -> UsageError:
    """What to raise for an option that the policy would ignore."""
    users = _users(option)
    wanted = f"policy {_either(users)}" if users else ""
    if option in _OF_PARTS:
        part, names = _OF_PARTS[option]
        wanted += f"{', or ' if users else ''}{part} {_either(names)}"
    return refusal(_typed(option), value, f"{wanted}; {policy.name} ignores it")


def _typed(option: str) -> str:
    return option.strip("_").replace("_", "-")


def _either(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _thresholds(value: object) -> tuple[float, ...]:
    """GPU-seconds as floats; UsageError unless they are numbers > 0 in ascending order."""
    if isinstance(value, str):
        value = parse_thresholds(value)
    known = isinstance(value, (Sequence, np.ndarray))
    steps = list(value) if known else []  # type: ignore[call-overload]
    good = known and all(isinstance(step, Real) and not isinstance(step, bool) for step in steps)
    if not good or not all(a < b < math.inf for a, b in pairwise([0.0, *steps])):
        shown = ",".join(map(str, steps)) if good else value
        text = UsageError(f"option thresholds: {shown}: expected GPU-seconds > 0 in ascending order")
        raise text if good else refusal("thresholds", value, "a list of GPU-seconds > 0 in ascending order")
    return tuple(map(float, steps))


def parse_thresholds(text: str) -> tuple[float, ...]:
    """GPU-seconds separated by commas. Raises UsageError where they are no numbers."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise refusal("thresholds", text, "numbers separated by commas") from None
