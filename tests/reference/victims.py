"""The reference model of who makes room first, straight from docs/priorities-reference.md#eviction.

Nothing here imports ringbco.
"""

from collections.abc import Callable, Sequence

from reference.running import RunningJob

Lost = Callable[[RunningJob], float]
"""GPU-seconds of work that an eviction loses."""


def in_order(
    rule: str, victims: Sequence[RunningJob], priority: Sequence[int], lost: Lost
) -> list[RunningJob]:
    """Victims as they are taken. rule: least or youngest."""

    def rank(run: RunningJob) -> tuple[float, ...]:
        if rule == "youngest":
            return priority[run.row], -run.start, len(run.gpus), run.row
        return priority[run.row], lost(run), len(run.gpus), -run.start, run.row

    return sorted(victims, key=rank)


def price(rule: str, victims: Sequence[RunningJob], priority: Sequence[int], lost: Lost) -> tuple[float, ...]:
    """By which the server of the least is chosen, of victims in their order."""
    highest = max(priority[run.row] for run in victims)
    gpus = len({gpu for run in victims for gpu in run.gpus})
    if rule == "youngest":
        return highest, -min(run.start for run in victims), gpus, len(victims)
    total = 0.0
    for run in victims:
        total += lost(run)
    return highest, total, gpus, len(victims)
