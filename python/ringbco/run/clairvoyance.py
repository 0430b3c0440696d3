"""Which runs are clairvoyant: a decision in them may depend on how long a job will run, before it has run.

This is the one place that says so, from the record of a run. For example, EASY reads run times, unless its
estimates are time limits: a job without a limit is then taken to run for ever, whatever its run time is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ringbco.run.option import Preset
from ringbco.run.registry import CLAIRVOYANT, PRESETS, REPLAY

SECRET: Final = ("duration", "iterations", "status")
"""Columns of which no scheduler knows anything before the job has ended."""
_VALUES: Final = {"predict": "exact", "admission": True}
"""Values of options with which a policy reads how long a job will run, though it could do without."""
_KEYED: Final = "KeyPolicy"


def foreknowledge(run: Mapping[str, Any]) -> list[str]:
    """What in a run reads, before a job runs, how long it will: a clairvoyant scheduler's parts.

    run: a run.toml. Empty for a scheduler that could do without the recording, and for a log, which reads
    nothing: whether that was decided knowing run times says the run that wrote it.
    """
    from ringbco.run.options import is_log

    return [] if is_log(str(run.get("options", {}).get("policy"))) else _read(run)


def _read(run: Mapping[str, Any]) -> list[str]:
    options, own = run.get("options", {}), run.get("own_policy", {})
    by_limit = str(options.get("estimate")).startswith(("limit", "column:"))
    read = [
        f"{part} {options[part]}"
        for part, names in CLAIRVOYANT.items()
        if options.get(part) in names and not (part == "queue" and by_limit)
    ]
    if all_predicted(run) and "order sjf" in read:
        read.remove("order sjf")
    for name in ("predict", "estimate"):
        if str(options.get(name)).removeprefix("column:") in SECRET and _uses(options, name):
            read.append(f"{name} {options[name]}")
    if str(options.get("order")) in [f"column:{name}" for name in SECRET]:
        read.append(f"order {options['order']}")
    if _keeps_clear(run) and not by_limit:
        read.append("maintenance")
    for name, value in _VALUES.items():
        if options.get(name) == value and _uses(options, name):
            read.append(_said(name))
    if options.get("command") == "plan":
        read.append("the plan")
    if own.get("clairvoyant"):
        read.append(f"policy {own.get('name')}")
    return read


def all_predicted(run: Mapping[str, Any]) -> bool:
    """Whether a column has a prediction of every job, so that `sjf` estimates none."""
    return bool(run.get("predicted", {}).get("jobs_without") == 0)


def of_policy(policy: Preset) -> tuple[bool, list[str]]:
    """Whether a policy of the registry reads run times, and with which of its own options it does, too."""
    plain = {part: getattr(policy, part) for part in ("order", "placement", "queue")}
    plain["policy"] = policy.name
    known = _read({"options": plain})
    more = {name: _read({"options": plain | {name: value}}) for name, value in _VALUES.items()}
    return bool(known), [f"with --{_said(name)}" for name, read in more.items() if len(read) > len(known)]


def _said(option: str) -> str:
    value = _VALUES[option]
    return option if value is True else f"{option} {value}"


def _keeps_clear(run: Mapping[str, Any]) -> bool:
    """Whether jobs are kept off servers that are known to go down before they would end.

    All but orders meet maintenance unprepared; srtf and srsf, which do not, are clairvoyant anyway.
    """
    policy = PRESETS.get(str(run.get("options", {}).get("policy")))
    keyed = run.get("own_policy", {}).get("kind") == _KEYED
    queues = keyed if policy is None else policy.preemption == "none"
    return queues and bool(run.get("maintenance", {}).get("rows"))


def _uses(options: Mapping[str, Any], name: str) -> bool:
    users = ((part.replace("preemption", "policy"), names) for part, names in REPLAY[name].users)
    return any(options.get(part) in names for part, names in users)
