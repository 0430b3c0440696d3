"""Which features of a case meet: those without which it would be another run."""

from typing import Any

from cases.case import Case
from cases.draw import build
from ringbco.errors import UsageError
from ringbco.run.options import resolve_policy
from ringbco.run.refusals import uses

RANGES = ("min_gpus", "max_gpus", "noise_scale")
SAVES = ("checkpoint_interval",)
MAY_LEAVE = ("preemptible",)


def effective_features(seed: object, features: tuple[str, ...]) -> tuple[str, ...]:
    """The features that have an effect, or may have one."""
    whole = _read(build(seed, features))
    return tuple(
        name for name in features if _read(build(seed, tuple(f for f in features if f != name))) != whole
    )


def _read(case: Case) -> tuple[Any, ...] | None:
    """What a run of the case reads of it; None where there is no such run."""
    settings, files = case.options, case.files
    parts = {name: settings.get(name) for name in ("order", "placement", "queue")}
    own = not isinstance(case.policy, str)
    if own:
        parts["order"] = None
    try:
        policy = resolve_policy(case.policy, **parts)
    except UsageError:
        return None
    resizes = policy.is_("resizes") or case.policy == "sia" or (own and case.policy.resizes)
    leaves = settings.get("evict") or {"services", "requests", "quota"} & {*files}
    read = leaves or settings.get("keep_unpreemptible")
    unread = {*(() if resizes else RANGES), *(() if read else MAY_LEAVE)}
    saves = leaves or {"outages", "maintenance"} & {*files} or settings.get("checkpoint_cost")
    unread |= {*(() if saves else SAVES)}
    jobs = [{name: value for name, value in job.items() if name not in unread} for job in case.jobs]
    given = {**settings, **files}
    options = {name: value for name, value in settings.items() if uses(policy, name, given)}
    for name in unread:
        options.pop(name, None)
    return jobs, case.servers, case.network, case.gpu_types, options, files
