"""Which options and columns a policy uses, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.errors import InputError, UsageError
from ringbco.result.folder import cluster_of
from ringbco.run.custom_policy import CustomPolicy, SerializedPolicy, class_of, is_custom
from ringbco.run.options import PARTS, Policy, check, is_log, own_parts, refusal, resolve_policy
from ringbco.run.registry import DECIDERS, PRESETS, REPLAY
from ringbco.trace.forms import bounds, tier_columns
from ringbco.trace.jobs import gpus_of
from ringbco.trace.priorities import preemptible
from ringbco.trace.strays import strays
from ringbco.units import plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.result.outcome import Outcome
    from ringbco.trace.jobs import JobTable

NONE: Final = "none"
"""What the command line has for an option that is left out, such as --search none."""
NOBODY: Final = 2**32 - 1
"""The number of the user of jobs that name none."""
# What ends stays under every policy.
_ENDING: Final = ("outages", "maintenance", "services", "evict", "quota", "search")
_ESTIMATES: Final = ("estimate", "estimate_factor")
_GIVEN: Final = "given"
"""The part of an option's users that names other options of the run."""
_STOPPED: Final = ("preempted", "evicted")  # stays that were ended for others


def rigid(chosen: Mapping[str, str | SerializedPolicy], table: JobTable) -> str | None:
    """A line that says under which of the policies, by name, elastic jobs run on num_gpus all the same."""
    elastic = int(np.count_nonzero(gpus_of(table.frame, "min_gpus") < gpus_of(table.frame, "max_gpus")))
    under = [name for name, policy in chosen.items() if not _resizes(policy)] if elastic else []
    if not under:
        return None
    return (
        f"{elastic:,} elastic job{'s'[: elastic != 1]} of {table.source}: num_gpus GPUs each under"
        f" {' and '.join(under)}, which resize{'s'[: len(under) == 1]} no job"
    )


def _resizes(policy: str | SerializedPolicy) -> bool:
    return class_of(policy).resizes if is_custom(policy) else resolve_policy(policy).is_("resizes")


def stopped(policy: str, outcome: Outcome, table: JobTable) -> str | None:
    """A line that says of how many jobs with `preemptible = false` stays were ended for others.

    Or that no job has it, though the run was to keep such jobs.
    """
    may = preemptible(table.frame)
    if may is None or bool(may.all()):
        keeps = outcome.run["options"].get("keep_unpreemptible")
        return f"{policy}: no job has preemptible = false for --keep-unpreemptible to keep" if keeps else None
    names = table.frame["job_id"].filter(~pl.Series(may))
    ended = outcome.stays.filter(pl.col("ended").is_in(_STOPPED) & pl.col("job_id").is_in(names.implode()))
    if ended.is_empty():
        return None
    jobs, stops = ended["job_id"].n_unique(), ended.height
    over_quota = ended["ended"].eq("evicted").sum()
    by_policy = stops > over_quota
    causes = [f"by the policy {stops - over_quota:,}"] * by_policy
    causes += [f"over quota, for an owner within its own {over_quota:,}"] * (over_quota > 0)
    return (
        f"{policy}: {jobs:,} job{'s'[: jobs != 1]} with preemptible = false stopped {stops:,}"
        f" time{'s'[: stops != 1]} ({', '.join(causes)}): the column shields from --evict and services alone"
        f"{'; --keep-unpreemptible shields from policies, too' * by_policy} (docs/priorities.md)"
    )


def outside(policy: str, outcome: Outcome, table: JobTable) -> str | None:
    """A line that says how many jobs a record put outside their tier, or apart from their segments."""
    held = outcome.allocations
    if held is None or outcome.run["options"]["placement"] == "compact" or not tier_columns(table.frame):
        return None
    cluster = cluster_of(outcome.run)
    found = bounds(table, cluster.tiers)
    rows = held.join(table.frame.select("job_id").with_row_index("_row"), on="job_id", maintain_order="left")
    row, stay = rows["_row"].to_numpy().astype(np.int64), rows["stay"].to_numpy().astype(np.int64)
    server, gpus = (rows[name].to_numpy().astype(np.int64) for name in ("server", "num_gpus"))
    assert found is not None
    away = strays(cluster, found[row], row * (stay.max(initial=0) + 1) + stay, server, gpus)
    count = np.unique(row[away.beyond | away.uneven]).size
    if not count:
        return None
    return f"{policy}: {count:,} job{'s'[: count != 1]} outside their within_tier or segments, as recorded"


def as_typed(policy: Policy, values: Mapping[str, Any], mine: CustomPolicy | None) -> str:
    """A policy with the options that are its own, as on the command line. mine: it, if it is a custom one."""
    preset = PRESETS.get(policy.name) if mine is None else DECIDERS["outside"]
    named = ((name, values[name.replace("-", "_")]) for name in (preset.options if preset else ()))
    told = [
        f"--{name}" if value is True else f"--{name} {plain(value)}"
        for name, value in named
        if value is not None and value is not False
    ]
    told += ["--evict-loses"] * bool(values["evict_loses"])
    if values["preempt_loses"] or values["evict_loses"]:
        told.append(f"--checkpoint-interval {plain(values['checkpoint_interval'])}")
    fields = {} if mine is None else mine.described.get("parameters", {})
    told += [f"-P {name}={value}" for name, value in fields.items()]
    return " ".join((policy.name, *told, *(("--evict",) if values["evict"] else ())))


def check_policy(policy: Policy, options: Mapping[str, Any]) -> None:
    """Raises UsageError where the options demand something that the policy cannot do."""
    for name in _ignored(policy, options):
        # A log keeps the tables of its run, and says who was evicted.
        kept = is_log(policy.name) and (
            REPLAY[name].kind in ("file", "files") or _GIVEN in dict(REPLAY[name].users)
        )
        if REPLAY[name].demand and not kept:
            raise _unused(policy, name, options[name])


def waking(options: Mapping[str, Any]) -> float:
    """Seconds by which a pause may be longer for servers that sleep."""
    return float(options["wake_time"]) if options["sleep_after"] < math.inf else 0.0


def deadline(table: JobTable, policy: Policy) -> NDArray[np.float64] | None:
    """The jobs' deadlines, NaN for none, if the policy reads them. Raises InputError where there are none."""
    if not policy.is_("by deadlines"):
        return None
    if "deadline" not in table.frame.columns:
        raise InputError(
            "a column with absolute times, s; there is none",
            file=table.source,
            column="deadline",
            hint=f"add deadlines to the job table, or use another --policy than {policy.name}",
        )
    return table.frame["deadline"].fill_null(math.nan).to_numpy()


def check_limits(table: JobTable, policy: Policy, options: Mapping[str, Any]) -> None:
    """Raises InputError where an option reads time limits and the table has no such column."""
    estimates = options["estimate"] == "limit" and uses(policy, "estimate", options)
    if (options["enforce_limits"] or estimates) and "time_limit" not in table.frame.columns:
        option = "--enforce-limits" if options["enforce_limits"] else "--estimate limit"
        raise InputError(
            "a column with the longest times that jobs may hold GPUs, s; there is none",
            file=table.source,
            column="time_limit",
            hint=f"add time limits to the job table, or leave {option} out",
        )


def user(table: JobTable, policy: Policy) -> NDArray[np.uint32] | None:
    """The jobs' users as numbers, if the policy reads them and the table has them."""
    if not (uses(policy, "predict") or policy.is_("pairs")) or "user" not in table.frame.columns:
        return None
    users = table.frame["user"].rank("dense").cast(int)
    return users.fill_null(NOBODY).to_numpy().astype(np.uint32)


def uses(policy: Policy, option: str, options: Mapping[str, Any] | None = None) -> bool:
    """Whether the option means anything under the policy. True of what no policy ignores, such as `seed`.

    options: those beside it. Where stays end through no will of the policy, preempt_cost always counts; where
    maintenance is known ahead, every order reads estimates.
    """
    given = options or {}
    if option == "preempt_cost" and any(_is_given(given, name) for name in _ENDING):
        return True
    if option in _ESTIMATES and _is_given(given, "maintenance") and policy.preemption == "none":
        return True
    known = REPLAY.get(option)
    parts = [] if known is None or not known.exclusive else known.users
    users = [names for part, names in parts if part == _GIVEN or hasattr(policy, part)]
    return not users or any(
        any(_is_given(given, name) for name in names)
        if part == _GIVEN
        else getattr(policy, part, None) in names
        for part, names in parts
    )


def _is_given(options: Mapping[str, Any], name: str) -> bool:
    # A frame has no truth, and is like no text.
    value = options.get(name)
    return value is not None and value is not False and not (isinstance(value, str) and value == NONE)


def fit(
    chosen: Sequence[object],
    options: Mapping[str, Any],
    *,
    own: Sequence[Mapping[str, Any]] = (),
    strict: bool = True,
) -> list[dict[str, Any]]:
    """For each policy, those of `options` that it uses: one value may be meant for some of several policies.

    options: by the names of `replay`'s parameters. own: what each run has beside them, if anything. Raises
    UsageError for a policy that is unknown and, where `strict`, for a demand (admission, aging, an order, a
    queue) that none of the policies can meet.
    """
    fitted, ignored = [], []
    for number, name in enumerate(chosen):
        policy = _resolved(name, options)
        beside = {**options, **own[number]} if own else options
        used = {option: value for option, value in options.items() if uses(policy, option, beside)}
        if is_log(name):  # what is at its default is as in the run that wrote the log
            used = {option: value for option, value in used.items() if not _is_default(option, value)}
        dropped = [option for option in _ignored(policy, options) if REPLAY[option].demand]
        for part in own_parts(policy):
            if used.pop(part, None) not in (None, getattr(policy, part)):
                dropped.append(part)
        fitted.append(used)
        ignored.append((policy, dropped))
    for option in options:
        if strict and ignored and all(option in dropped for _, dropped in ignored):
            if option in PARTS:  # which says so itself
                resolve_policy(chosen[0], **{option: options[option]})
            raise _unused(ignored[0][0], option, options[option])
    return fitted


def unused(chosen: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """The options, as typed, that are not at their default and that none of the policies uses."""
    ignored = [set(_ignored(_resolved(name, options), options)) for name in chosen]
    return [
        REPLAY[option].typed for option in options if ignored and all(option in names for names in ignored)
    ]


def _resolved(name: object, options: Mapping[str, Any]) -> Policy:
    """The policy with its parts replaced as far as it has them."""
    preset = resolve_policy(name)
    mine = own_parts(preset)
    return resolve_policy(name, **{part: options.get(part) for part in PARTS if part not in mine})


def _ignored(policy: Policy, values: Mapping[str, Any]) -> list[str]:
    """The options that are not at their default, and that the policy does not use."""
    return [
        name
        for name, value in values.items()
        if not _is_default(name, value) and not uses(policy, name, values)
    ]


def _is_default(name: str, value: object) -> bool:
    option = REPLAY[name]
    if option.kind == "numbers":
        value = check(option, value)
    if option.default is None:  # a frame is like nothing else
        return value is None or (isinstance(value, str) and value == NONE)
    try:
        return bool(value == option.default)
    except ValueError:  # an array, which is nobody's default
        return False


def _unused(policy: Policy, name: str, value: object) -> UsageError:
    """What to raise for an option that the policy would ignore."""
    option = REPLAY[name]
    wanted = [f"policy {_either(option.policies)}"] if option.policies else []
    wanted += [_named(part, names) for part, names in option.users if part != "preemption"]
    return refusal(option.typed, value, f"{', or '.join(wanted)}; {policy.name} ignores it")


def _named(part: str, names: Sequence[str]) -> str:
    return _either([f"--{name}" for name in names]) if part == _GIVEN else f"{part} {_either(names)}"


def _either(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
