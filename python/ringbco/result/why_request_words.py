"""The facts of a request's story in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ringbco.result.why_things import listed, place, some
from ringbco.units import duration

Told = Mapping[str, Any]


def arrived(told: Told, when: str) -> str:
    """The first sentence. when: on the clock of the job table."""
    said = f"Arrived {when}."
    if "input_tokens" in told:
        cached = f" ({told['cached_tokens']:,} of them cached)" if told["cached_tokens"] else ""
        said += f" It has {some(told['input_tokens'], 'input token')}{cached} and asks for"
        said += f" {some(told['output_tokens'], 'output token')}."
    others, running = told["unanswered"], told["running"]
    if not others:
        return f"{said} No other request of {told['service']} was unanswered."
    were = "was" if others == 1 else "were"
    return (
        f"{said} {some(others, 'other request')} of {told['service']} {were} unanswered: {running:,}"
        f" running, {others - running:,} waiting."
    )


def _replicas(numbers: list[int]) -> str:
    noun = "replica" if len(numbers) == 1 else "one of the replicas"
    return f"{noun} {listed([str(number) for number in numbers])}"


def _none_served(told: Told, when: str, clock: object) -> str:
    said = f"For {duration(told['seconds'])} no replica of {told['service']} served."
    if "number" not in told:
        return said
    startup = f"takes {duration(told['startup'])} to start" if told["startup"] else "starts at once"
    if told["without"] > 0 and not told["wanted"]:
        said += f" The service wanted none at first. Replica {told['number']} got its GPUs"
    elif told["without"] > 0:
        said += f" It wanted {told['wanted']:,}. Replica {told['number']} got its GPUs"
    else:
        return f"{said} Replica {told['number']}, which {startup}, was the first to."
    return f"{said} {duration(told['without'])} later, and {startup}."


def _moved(told: Told, when: str, clock: object) -> str:
    gave = f" as {_replicas(told['replicas'])} ended" if told["replicas"] else " as its replica ended"
    return (
        f"It waited {duration(told['seconds'])} on another replica, and was dealt out again, to replica"
        f" {told['number']},{gave}."
    )


def _queued(told: Told, when: str, clock: object) -> str:
    if "number" not in told:
        return f"It waited {duration(told['seconds'])} for its turn."
    parts = []
    for name, seconds in told["parts"].items():
        if seconds <= 0:
            continue
        if name == "max_running":
            what = f"while {told['max_running']:,} requests ran there (max_running)"
        elif name == "kv_tokens":
            what = f"for tokens: those of the next request did not fit into {told['kv_tokens']:,} (kv_tokens)"
        else:
            most = told["max_step_tokens"]
            what = "for a step to end" + (f", which takes {most:,} tokens at most" if most else "")
        parts.append((what, seconds))
    said = f"It waited {_behind(told)}on replica {told['number']}{_parts(parts)}."
    if told["others"]:
        said += f" Perhaps {_replicas(told['others'])}, which ended meanwhile, had it first."
    return said


def _behind(told: Told) -> str:
    ahead = f"behind {some(told['ahead'], 'other request')} " if told["ahead"] else ""
    return f"{duration(told['seconds'])} {ahead}"


def _parts(parts: list[tuple[str, float]]) -> str:
    """What it waited for; how long, if for several things."""
    if len(parts) == 1:
        return f", {parts[0][0]}"
    return f": {listed([f'{duration(seconds)} {what}' for what, seconds in parts])}"


def _in_line(told: Told, when: str, clock: object) -> str:
    parts = []
    if told["turn"] > 0:
        parts.append(("for its turn, while all replicas ran batches", told["turn"]))
    if told["batch"] > 0:
        parts.append(("for the batch to fill or to be due", told["batch"]))
    return f"It waited {_behind(told).rstrip()}{_parts(parts)}."


def _batch(told: Told, when: str, clock: object) -> str:
    size, most = told["size"], told["max_wait"]
    if size == told["largest"]:
        why = "it was full"
    elif most and told["oldest"] <= most * (1 + 1e-9) + 1e-9:
        why = f"its oldest request had waited {duration(most)} (max_wait)"
    else:
        due = f", {duration(most)} of which it may wait for others (max_wait)" if most else ""
        why = f"the replica was idle; its oldest request had waited {duration(told['oldest'])}{due}"
    return f"Replica {told['number']} took it in a batch of {size} of at most {told['largest']}, as {why}."


def _anew(told: Told, when: str, clock: object) -> str:
    on, after = _replicas(told["replicas"]), f"{duration(told['after'])} after its arrival"
    how = f"it failed with {place(told['servers'])}, {after}"
    if not told["failed"]:
        how = f"it ended {after}, having drained for {duration(told['drain'])}, the longest it may"
    return (
        f"{on[0].upper()}{on[1:]} had taken it for {duration(told['seconds'])} when {how}: the request began"
        " anew."
    )


def _tokens(told: Told, when: str, clock: object) -> str:
    said = f"Its prompt took {duration(told['prompt'])} on replica {told['number']}: it had its first token"
    said += f" {duration(told['after'])} after its arrival."
    if not told["tokens"]:
        return said
    beside = some(round(told["beside"], 1), "other request")
    return (
        f"{said} The other {some(told['tokens'], 'token')} took {duration(told['seconds'])},"
        f" {duration(told['per_token'])} each, beside {beside} on average."
    )


_FOR: Final = {
    "replica": "until a replica served",
    "turn": "for its turn",
    "batch": "for the batch",
    "max_running": "for its turn (max_running)",
    "kv_tokens": "for tokens (kv_tokens)",
    "step": "for a step to end",
}
_MEASURES: Final = {"latency": "latency", "first_token": "first token", "per_token": "time per token"}


def _answered(told: Told, when: str, clock: object) -> str:
    waits = [f"{duration(seconds)} {_FOR[name]}" for name, seconds in told["waits"].items()]
    waited = f"It waited {listed(waits)}" if waits else "It did not wait"
    said = f"Answered {duration(told['latency'])} after its arrival. {waited}, and ran"
    said += f" {duration(told['ran'])}."
    for name, (value, most) in told["kept"].items():
        kept = "met" if value <= most else "missed"
        said += f" Objective {_MEASURES[name]}: {duration(value)} of {duration(most)}, {kept}."
    return said


SENTENCES: Final[Mapping[str, Callable[[Told, str, Any], str]]] = {
    "request none served": _none_served,
    "request moved": _moved,
    "request queued": _queued,
    "request in line": _in_line,
    "request batch": _batch,
    "request anew": _anew,
    "request unknown": lambda told, when, clock: (
        f"Whether a replica that ended began it anew is unknown: {told['why_not']}."
    ),
    "request tokens": _tokens,
    "request answered": _answered,
}
