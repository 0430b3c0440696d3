"""With whom a job sat on the same GPUs, and why no job was its partner (docs/lucid.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ringbco.result.why_things import figure, listed, some
from ringbco.units import duration

if TYPE_CHECKING:
    Told = Mapping[str, Any]


def _partners(told: Told, when: str, clock: Callable[[float], str]) -> str:
    """The fact in words."""
    if "largest" in told:
        return f"Jobs of more than {figure(told['largest'])} GPUs take no partner."
    if not told["alone"]:
        return "No job was alone on its GPUs: there was no partner for it."
    words = {
        "gpus": "held another number of GPUs",
        "memory": "needed too much memory beside it",
        "score": "had a score that sums to more than two with its own",
        "value": "had less than half of its estimated duration x num_gpus",
        "place": "held GPUs that its tier, segment or pod does not allow, or of a server that drains",
        "nothing": "suited it, but a quota held it back",
    }
    parts = [f"{figure(told[name])} {text}" for name, text in words.items() if name in told]
    alone = f"{some(told['alone'], 'job')} alone on {'its' if told['alone'] == 1 else 'their'} GPUs"
    return f"It found no partner among {alone}: {listed(parts)}."


def cost(told: Told) -> str:
    """What others on its GPUs cost a job, or gave it."""
    names = listed(told["beside"][:3], len(told["beside"]) - 3)
    what = f"Sharing its GPUs with {names}" + (", with the rounding to slots," if told["slots"] else "")
    gave = "cost" if told["seconds"] > 0 else "gave"
    said = f"{what} {gave} it {duration(abs(told['seconds']))}: it ran {told['factor']:,.2f} times as long"
    return f"{said} as alone on them."


SENTENCES: Final = {"partners": _partners}
"""The facts about partners in words."""
