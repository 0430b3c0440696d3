"""The facts of a job's story in words: the only place where its sentences are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from ringbco.result import why_request_words, why_seats, why_uplinks
from ringbco.result.diff import PARTS
from ringbco.result.why_things import MOST_SERVERS, figure, gpus, holding, listed, place, some
from ringbco.units import duration, instant, percent

Told = Mapping[str, Any]
Clock = Callable[[float], str]


def sentence(
    kind: str,
    time: float | None,
    told: Told,
    submitted: float | None,
    zero: datetime | None,
    *,
    called: Sequence[str] = (),
) -> str:
    """A fact in words.

    time: when, s. told: its figures. submitted: from when on times are counted. zero: what 0 of
    the clock is. Either is None where unknown. called: what each server is called, by index; empty where none
    has a name.
    """
    told = _with_names(told, called) if called else told

    def clock(time: float) -> str:
        if submitted is None:
            return _at(time, zero)
        return "at submission" if time == submitted else f"{duration(time - submitted)} after submission"

    if kind == "request":
        return why_request_words.arrived(told, "" if time is None else _at(time, zero))
    if kind == "submitted":
        return _submitted(told, "" if time is None else _at(time, zero), clock)
    return SENTENCES[kind](told, "" if time is None else clock(time), clock)


def _with_names(told: Told, called: Sequence[str]) -> Told:
    """The figures with the names of servers."""
    named = dict(told)
    if "by_server" in told:
        named["by_server"] = called[told["by_server"]]
    if "came_back" in told:
        named["came_back"] = [called[server] for server in told["came_back"]]
    if "on" in told:
        named["on"] = [{**part, "server": called[part["server"]]} for part in told["on"]]
    if "with" in told:
        named["with"] = [
            {**each, "servers": [called[server] for server in each["servers"]]} for each in told["with"]
        ]
    return named


def _at(time: float, zero: datetime | None) -> str:
    """When, on the job table's clock: "at 2026-03-02 07:05:00", "on day 3, 07:05:00", "at 284700.0 s"."""
    told = instant(time, zero)
    return f"on {told}" if told.startswith("day") else f"at {told}"


# What it is, and who waits with it.


def _submitted(told: Told, when: str, clock: Clock) -> str:
    asks = gpus(told["gpus"])
    if "min_gpus" in told:
        asks += f", and may run on {told['min_gpus']} to {told['max_gpus']}"
    if "gpus_per_pod" in told:
        asks += f" in pods of {told['gpus_per_pod']}"
    if "segment" in told:
        asks += f" in segments of {told['segment']}, each in one {told['segment_tier']}"
    if "within_tier" in told:
        asks += f", all in one {told['within_tier']}"
    about = [f"{name} {told[name]}" for name in ("user", "vc", "priority") if name in told]
    about += [f"trial of search {told['group']}"] if "group" in told else []
    about += [f"deadline {clock(told['deadline'])}"] if "deadline" in told else []
    at = f"Submitted {when}" if "at" in told else "Submitted at an unknown time"
    return f"{at}. It requests {asks}" + (f" ({', '.join(about)})." if about else ".")


def _queue(told: Told, when: str, clock: Clock) -> str:
    others = told["others"]
    if not others:
        return "No other job was queued."
    said = f"{some(others, 'other job')} {'was' if others == 1 else 'were'} queued."
    if told.get("why_not"):
        return f"{said} Its place is unknown: {told['why_not']}."
    if "place" not in told:
        return said
    if told["place"] == 1:
        return f"{said} In {told['order']} it was first."
    ahead = listed(told["ahead"], told["place"] - 1 - len(told["ahead"]))
    return f"{said} In {told['order']} it was number {told['place']:,} of {others + 1:,}, behind {ahead}."


def _decision(told: Told, when: str, clock: Clock) -> str:
    if told["at"] is None:
        return f"{told['policy']} had not decided yet."
    gave = f"The last decision of {told['policy']}, {clock(told['at'])}, gave it no GPUs"
    if not told["got"]:
        return f"{gave}, nor any to other jobs."
    return f"{gave}; it gave GPUs to {holding(told['got'], more=told['others'])}."


def _given(told: Told, when: str, clock: Clock) -> str:
    said = f"That is {figure(told['gpus'])} of the {gpus(told['of'])} that it requests"
    if not told["got"]:
        return f"{said}; no other job got GPUs then."
    return f"{said}; the same decision gave GPUs to {holding(told['got'], more=told['others'])}."


# Who held the GPUs, and what was idle.


def _state(told: Told, when: str, clock: Clock) -> str:
    parts = []
    if told["jobs"]:
        every = "all " if told["held"] == told["gpus"] else ""
        parts.append(f"{some(told['jobs'], 'job')} held {every}{gpus(told['held'])}")
    if told["replicas"]:
        parts.append(f"replicas of services held {gpus(told['replicas'])}")
    for key, where in (("down", "down"), ("drained", "on draining servers")):
        if told[key]:
            parts.append(f"{gpus(told[key])} {'was' if told[key] == 1 else 'were'} {where}")
    if told["idle"] or not parts:
        parts.append(f"{gpus(told['idle'])} {'was' if told['idle'] == 1 else 'were'} idle")
    then = "At submission" if when == "at submission" else "Then"
    said = f"{then if told['when'] == 'then' else 'Just before it started'} {listed(parts)}"
    said += "." if told["held"] == told["gpus"] else f", of {figure(told['gpus'])}."
    if told["as_before"] or not told["holders"]:
        return said
    users = told.get("users")
    by_user = f"; by user {holding(users, 'user')}" if users else ""
    return f"{said} Largest holders: {holding(told['holders'])}{by_user}."


def _too_few(told: Told, when: str, clock: Clock) -> str:
    of = f" of the GPU types that it may use ({', '.join(told['typed'])})" if told["typed"] else ""
    if not told["usable"]:
        return f"None{of} was idle, and it requests {gpus(told['gpus'])}."
    were = "was" if told["usable"] == 1 else "were"
    if told["several"]:
        of = " of one GPU type" + (f" that it may use ({', '.join(told['typed'])})" if told["typed"] else "")
    if told["usable"] >= told.get("least", told["gpus"]):
        idle = f"Of the {gpus(told['gpus'])} that it requests, {figure(told['usable'])}{of} {were} idle"
        return f"{idle}: it may run on {told['least']}, but the policy gave it none."
    most = "at most " if told["several"] else ""
    return f"Too few: it requests {gpus(told['gpus'])}, and {most}{figure(told['usable'])}{of} {were} idle."


def _apart(told: Told, when: str, clock: Clock) -> str:
    idle = f"Enough were idle for the {gpus(told['gpus'])} that it requests, but they were fragmented"
    if told["gpus"] < 1:
        return f"{idle}: of no GPU was more left than {figure(told['most_of_one_gpu'])}."
    pod = told.get("pod", 1)
    if pod > 1 and told["pods"] < told["gpus"] // pod:
        pods = f"{some(told['gpus'] // pod, 'pod')} of {gpus(pod)}"
        return f"{idle}: the servers held {told['pods']} of its {pods}."
    if told.get("most_in_tier", told["gpus"]) < told["gpus"]:
        return f"{idle}: at most {told['most_in_tier']} in one {told['within_tier']}, which must hold all."
    if "segment" in told:
        count, each = told["gpus"] // told["segment"], gpus(told["segment"])
        where = f" of one {told['within_tier']}" if "within_tier" in told else ""
        wanted = f"{some(count, 'segment')} of {each}"
        return f"{idle}: the {told['segment_tier']}s{where} held {told['segments']} of its {wanted}."
    where = f"{some(told['usable_on'], 'server')} had idle GPUs, at most {told['most_on_one']} each"
    if told["gpus"] <= told["largest"]:
        return f"{idle}: {where}, and {told['placement']} takes all from one server."
    most = told["largest"] - told["largest"] % pod
    rest = told["gpus"] % most
    whole = f"{some(told['gpus'] // most, 'idle server')} of {gpus(most)}"
    if most < told["largest"]:
        whole = f"{some(told['gpus'] // most, 'server')} with {gpus(most)} idle"
    more = f" and {rest} on one more" if rest else ""
    return f"{idle}: {where}, and {told['placement']} wants {whole}{more}."


def _room(told: Told) -> str:
    return f"There was room for its {gpus(told['gpus'])}"


def _over_quota(told: Told, when: str, clock: Clock) -> str:
    return (
        f"{_room(told)}, but jobs of {told['owner']} held {figure(told['owner_holds'])} of a quota of"
        f" {gpus(told['quota'])}, which none may exceed: it was passed over."
    )


def _maintenance(told: Told, when: str, clock: Clock) -> str:
    return (
        f"{_room(told)}, but only on servers whose maintenance, the next {clock(told['down'])}, begins"
        " before its estimated end."
    )


def _turn(told: Told, when: str, clock: Clock) -> str:
    return f"{_room(told)}: it waited for its turn, or for the next decision of {told['policy']}."


def _recorded(told: Told, when: str, clock: Clock) -> str:
    return f"{_room(told)}: it waited for its recorded start."


def _head(told: Told) -> str:
    return f"{_room(told)}, but {told['head']}, which requests {gpus(told['head_gpus'])}, was"


def _behind(told: Told, when: str, clock: Clock) -> str:
    return f"{_head(told)} at the head of the queue, and no job may overtake it."


def _ranked_behind(told: Told, when: str, clock: Clock) -> str:
    many = told["ahead"] > 1
    ranks = f"the first of {told['ahead']:,} waiting jobs that rank" if many else "ranked"
    return f"{_head(told)} {ranks} before it: GPUs set aside for a job that cannot be placed go to no other."


def _reserved(told: Told, when: str, clock: Clock) -> str:
    said = f"{_head(told)} at the head of the queue, and under EASY no job may delay it"
    if "shadow" not in told:
        return f"{said}."
    end = told["own_end"]
    last = f"last until {clock(end)}" if end < math.inf else "run for ever: it has no limit"
    return f"{said}: by the estimates it can start {clock(told['shadow'])}, and this job would {last}."


def _kept(told: Told, when: str, clock: Clock) -> str:
    return (
        f"{_room(told)}, but a pass starts only jobs whose reservation begins at once, and GPUs are"
        " reserved for jobs ahead of it."
    )


def _reservation(told: Told, when: str, clock: Clock) -> str:
    on = place([each["server"] for each in told["on"]])
    return f"By the estimates at that time, its reservation began {clock(told['begins'])}, on {on}."


def _beyond(told: Told, when: str, clock: Clock) -> str:
    return f"It was not among the first {told['most']:,} jobs of the queue; only these get reservations."


def _evicts_from(told: Told, when: str, clock: Clock) -> str:
    return f"It could evict others only from {clock(told['at'])} on (--evict-after)."


def _most_held(told: Told, when: str, clock: Clock) -> str:
    shares = [f"{each['job']} ({percent(each['gpu_seconds'] / told['of'], 1)})" for each in told["holders"]]
    others = told["jobs"] - len(shares)
    rest = f"; {some(others, 'other job')} held some" if others else ""
    return f"Until it started, most GPU time went to {listed(shares)}{rest}."


def _overtaken(told: Told, when: str, clock: Clock) -> str:
    names = listed(told["names"], told["jobs"] - len(told["names"]))
    return f"{some(told['jobs'], 'job')} submitted later started before it: {names}."


def _heads(told: Told, when: str, clock: Clock) -> str:
    heads = [
        f"{each['job']} ({gpus(each['gpus'])}, for {duration(each['seconds'])})" for each in told["heads"]
    ]
    turns = " in turn" if told["jobs"] > 1 else ""
    return f"Meanwhile the head of the queue was {listed(heads, told['jobs'] - len(heads))}{turns}."


_CAUSES: Final = {
    "wait_gpus": "while fewer GPUs were idle than it asks for",
    "wait_fragmented": "while enough were idle but not where its placement can use them",
    "wait_behind": "while it could have been placed but had no turn",
}


def _waited(told: Told, when: str, clock: Clock) -> str:
    said = f"It waited {duration(told['seconds'])}"
    if not any(name in told for name in _CAUSES):
        return f"{said}; the result does not say why."
    causes = {name: text for name, text in _CAUSES.items() if told[name] > 0}
    if len(causes) == 1:
        return f"{said}, {next(iter(causes.values()))}."
    parts = [f"{duration(told[name])} {text}" for name, text in causes.items()]
    return f"{said}: {listed(parts)}." if parts else f"{said}."


# Stays.

_BEGAN: Final = {
    "first": "Started",
    "resumed": "Resumed",
    "restarted": "Started again",
    "moved": "Went on",
    "resized": "Went on",
}


def _started(told: Told, when: str, clock: Clock) -> str:
    kind = f" of type {told['gpu_type']}" if "gpu_type" in told else ""
    before = f" instead of {told['before']}" if "before" in told else ""
    on = told["on"]
    if len(on) == 1:
        where = f" of server {on[0]['server']}"
    elif on:
        spread = [f"{figure(part['gpus'])} of server {part['server']}" for part in on[:MOST_SERVERS]]
        where = f": {listed(spread, len(on) - MOST_SERVERS)}. Its ring spans these servers"
    else:
        where = f" of {some(told['servers'], 'server')}"
    beside = f" It shares them with {listed(told['beside'])}." if "beside" in told else ""
    pause = f" {duration(told['pause'])} passed without progress first." if "pause" in told else ""
    return f"{_BEGAN[told['began']]} {when} on {gpus(told['gpus'])}{kind}{before}{where}.{beside}{pause}"


def _freed(told: Told, when: str, clock: Clock) -> str:
    """What made room: no more than that it happened on these servers at this instant."""
    found = []
    if told["by"]:
        found.append(f"GPUs became free on its servers, of {holding(told['by'], more=told['others'])}")
    if told["came_back"]:
        found.append(f"{place(told['came_back'])} came back")
    return f"At that instant {listed(found)}."


def _shared(told: Told, when: str, clock: Clock) -> str:
    links = told["what"] == "links"
    words = {"links": "links between servers", "gpu": "its GPU", "gpus": "its GPUs"}
    met = [
        f"{each['job']} (for {duration(each['seconds'])}{', ' + place(each['servers']) if links else ''})"
        for each in told["with"]
    ]
    who = listed(met, told["jobs"] - len(met))
    said = f"In these {duration(told['ran'])} it shared {words[told['what']]} with {who}."
    return f"{said} That did not slow it down." if told["slowed"] is False else said


def _why_stopped(told: Told) -> str:
    """What made a stay end."""
    by = told.get("by_job") or f"service {told.get('by_service')}"
    cause = f" ({told['cause']})" if told.get("cause") else ""
    loss = f" {told['rung']} with a loss of {told['loss']:.4g}" if "rung" in told else ""
    return {
        "preempted": "Preempted",
        "evicted": f"Evicted to make room for {by}",
        "failed": f"Failed with server {told.get('by_server')}{cause}",
        "limit": "Reached its time limit",
        "rung": f"Reached rung{loss}" if loss else "Reached a rung",
        "dropped": "Ended by the policy, before it finished,",
        "moved": "Moved to other GPUs",
        "resized": "Resized",
    }[told["ended"]]


def _stopped(told: Told, when: str, clock: Clock) -> str:
    stay = " in this stay" if told["ended"] == "limit" else ""
    said = f"{_why_stopped(told)} {when}, after {duration(told['ran'])} on its GPUs{stay}."
    if told.get("came"):
        said += f" At that instant {holding(told['came'], more=told['others'])} started on its servers."
    if "back" in told:
        said += f" The server came back {clock(told['back'])}."
    if "goes_on" in told:
        said += " It paused at this rung." if told["goes_on"] else " It was stopped there."
    if told.get("lost_time"):
        said += f" It lost {duration(told['lost_time'])} of work since its last checkpoint."
    return said


def _skipped(told: Told, when: str, clock: Clock) -> str:
    ended = listed([f"{count:,} {word}" for word, count in told["ended"].items()])
    return (
        f"Up to {clock(told['until'])} it had {some(told['stays'], 'more stay')}, which ended {ended}:"
        " see stays.parquet."
    )


# The end.


def _finished(told: Told, when: str, clock: Clock) -> str:
    over = "It ended there, before it finished." if told["cut"] else f"Finished {when}."
    said = f"{over} Alone on the fewest servers, it would have taken {duration(told['alone'])}"
    words = _PARTS | ({"run_spread": "on more servers, or of rounding to slots"} if told["slots"] else {})
    more = [f"{duration(seconds)} {words[name]}" for name, seconds in told["on_top"].items() if seconds > 0]
    less = [f"{duration(-seconds)} {words[name]}" for name, seconds in told["on_top"].items() if seconds < 0]
    if not more and not less:
        return f"{said}, as it did."
    said += f", plus {listed(more)}" if more else ""
    said += f", minus {listed(less)}" if less else ""
    return f"{said}. In total it took {told['slowdown']:,.2f} times as long."


_PARTS: Final = PARTS | {
    "run_spread": "on more servers",
    "run_contention": "of contention",
    "run_resized": "on another number of GPUs",
    "run_on_type": "on another GPU type",
    "run_cut": "of work that it did not do",
    "lost_time": "pausing or saving",
    "lost_work": "of lost work",
}


def _slowed(told: Told, when: str, clock: Clock) -> str:
    if told.get("beside") and told["most"] <= 1:
        return why_seats.cost(told)
    rings = f", with up to {told['most']} rings on one of its servers" if told["most"] > 1 else ""
    what = "Contention, with the rounding to slots," if told["slots"] else "Contention"
    said = f"{what} cost it {duration(told['seconds'])}{rings}: it ran {told['factor']:,.2f} times as long"
    return f"{said} as on the same GPUs without.{why_uplinks.cost(told)}"


def _deadline(told: Told, when: str, clock: Clock) -> str:
    late = told["late"]
    kept = f"missed by {duration(late)}" if late > 0 else f"met with {duration(-late)} left"
    return f"Its deadline was {kept}."


_FATES: Final = {
    "dropped": "left out because nothing that it may use can hold it (--oversize drop)",
    "refused": "refused by the policy",
    "ended in the queue": "ended by the policy before it started",
}


def _never(told: Told, when: str, clock: Clock) -> str:
    """Of a job that never had GPUs: what the record leaves open."""
    fates = [_FATES[fate] for fate in told["fates"]]
    if not fates:
        return "It never had GPUs; the result does not say why."
    at = f" {when}" if when else ""
    which = ": the result does not say which" if len(fates) > 1 else ""
    return f"It never had GPUs: it was {' or '.join(fates)}{at}{which}."


SENTENCES: Final[Mapping[str, Callable[[Told, str, Clock], str]]] = {
    "submitted": _submitted,
    "no allocations": lambda told, when, clock: (
        "The run recorded no allocations, so it is unknown which jobs held which GPUs, and where."
    ),
    "no causes": lambda told, when, clock: "The result does not record the causes of waits.",
    "at once": lambda told, when, clock: (
        f"It started at the next slot boundary, {duration(told['seconds'])} later."
        if told["seconds"] > 0
        else "It started at once."
    ),
    "rested": lambda told, when, clock: (
        f"It paused at its rung for {duration(told['seconds'])}, and continued {when}."
    ),
    "queue": _queue,
    "decision": _decision,
    "given": _given,
    "held": _state,
    "too few": _too_few,
    "apart": _apart,
    "over quota": _over_quota,
    "maintenance": _maintenance,
    "turn": _turn,
    "recorded": _recorded,
    "behind": _behind,
    "ranked behind": _ranked_behind,
    "reserved": _reserved,
    "kept": _kept,
    "reservation": _reservation,
    "beyond": _beyond,
    "evicts from": _evicts_from,
    "most held": _most_held,
    "overtaken": _overtaken,
    "heads": _heads,
    "waited": _waited,
    "started": _started,
    "freed": _freed,
    "shared": _shared,
    "stopped": _stopped,
    "skipped": _skipped,
    "finished": _finished,
    "slowed": _slowed,
    "deadline": _deadline,
    "never done": lambda told, when, clock: f"It never finished: its last stay ended {when}.",
    "never started": _never,
} | {**why_seats.SENTENCES, **why_uplinks.SENTENCES, **why_request_words.SENTENCES}
