"""What results at hand are called beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringbco.result.outcome import Outcome


def labels_of(outcomes: Sequence[Outcome]) -> list[str]:
    """Each outcome's policy and, where that is not enough, the settings by which it differs."""
    policies = [str(outcome.summary.get("policy", "?")) for outcome in outcomes]
    settings = [_settings(outcome) for outcome in outcomes]
    labels: list[str] = []
    for number, policy in enumerate(policies):
        same = [other for other, name in zip(settings, policies, strict=True) if name == policy]
        own = settings[number]
        differing = [name for name in own if any(other.get(name) != own[name] for other in same)]
        label = policy
        if differing:
            label += f" ({', '.join(f'{name} {_short(own[name])}' for name in differing)})"
        times = labels.count(label)
        labels.append(label if not times else f"{label} [{times + 1}]")
    return labels


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _settings(outcome: Outcome) -> dict[str, Any]:
    """What may tell two runs of one policy apart, by the names that users know."""
    run: Mapping[str, Any] = outcome.run
    cluster = run.get("cluster", {})
    return {
        **{name: value for name, value in run.get("options", {}).items() if name != "policy"},
        **cluster.get("network", {}),
        "cluster": cluster.get("name"),
        "trace": run.get("trace", {}).get("path"),
    }
