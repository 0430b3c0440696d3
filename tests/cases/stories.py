"""What a job's story says, compared with the tables, allocations, and orders worked out the slow way."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

import ringbco
from cases.waiting import NEAR, RANKED, WaitingModel
from ringbco.result.why import Fact, Story
from ringbco.units import duration, instant


def facts_of(story: Story, kind: str) -> list[Fact]:
    return [fact for fact in story.facts if fact.kind == kind]


# Holders, worked out again from allocations alone.


@cache
def rows_of(outcome: ringbco.Outcome) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Of allocations and of replicas."""
    assert outcome.allocations is not None
    replicas = [] if outcome.replicas is None else outcome.replicas.rows(named=True)
    return outcome.allocations.rows(named=True), replicas


def naive_holders(outcome: ringbco.Outcome, fact: Fact, *, once: bool = False) -> dict[str, float]:
    """Who holds how many GPUs at the moment of a fact: a loop over rows. once: those of a seat, one job."""
    time, before = fact.time, fact.figures["when"] == "just before"
    result: dict[str, float] = defaultdict(float)
    rows, replicas = rows_of(outcome)
    seats = set[tuple[Any, ...]]()
    for row in rows:
        begin, end = row["start_time"], row["end_time"]
        if (begin < time <= end) if before else (begin <= time < end):
            place = row.get("seat"), row["server"], row.get("gpu")
            if once and place[0] is not None and place in seats:
                continue
            seats.add(place)
            share = row.get("share")
            result[row["job_id"]] += row["num_gpus"] * (1.0 if share is None else share)
    for row in replicas:
        begin, end = row["start_time"], row["end_time"]
        if (begin < time <= end) if before else (begin <= time < end):
            result[f"service {row['service']}"] += row["num_gpus"]
    return {name: round(gpus, 6) for name, gpus in result.items()}


def naive_seconds(outcome: ringbco.Outcome, since: float, until: float) -> dict[str, float]:
    """GPU-seconds of each job between two instants."""
    result: dict[str, float] = defaultdict(float)
    for row in rows_of(outcome)[0]:
        seconds = min(row["end_time"], until) - max(row["start_time"], since)
        if seconds > 0:
            share = row.get("share")
            result[row["job_id"]] += seconds * row["num_gpus"] * (1.0 if share is None else share)
    return result


def check_holders(outcome: ringbco.Outcome, story: Story, there: set[str] | None = None) -> int:
    """That the holders named are those of allocations. there: jobs and services that count, else all."""
    checked = 0
    for fact in facts_of(story, "held"):
        result = {n: g for n, g in naive_holders(outcome, fact).items() if there is None or n in there}
        named = {each["name"]: each["gpus"] for each in fact.figures["holders"]}
        assert named == {name: result[name] for name in named}, (story.job, fact)
        assert sorted(named.values(), reverse=True) == sorted(result.values(), reverse=True)[:5], fact
        jobs = {name: gpus for name, gpus in result.items() if not name.startswith("service ")}
        assert fact.figures["jobs"] == len(jobs)
        used = naive_holders(outcome, fact, once=True)
        held = sum(gpus for name, gpus in used.items() if name in jobs)
        assert fact.figures["held"] == pytest.approx(held)
        parts = sum(fact.figures[part] for part in ("held", "replicas", "down", "drained", "idle"))
        assert parts == pytest.approx(fact.figures["gpus"])
        checked += len(named)
    for fact in facts_of(story, "most held"):
        assert fact.time is not None
        seconds = naive_seconds(outcome, fact.figures["since"], fact.time)
        seconds = {n: s for n, s in seconds.items() if there is None or n in there}
        named = {each["job"]: each["gpu_seconds"] for each in fact.figures["holders"]}
        assert named == pytest.approx({name: seconds[name] for name in named}, rel=NEAR)
        assert sorted(named.values(), reverse=True) == pytest.approx(
            sorted(seconds.values(), reverse=True)[:5], rel=NEAR
        )
        assert fact.figures["jobs"] == len(seconds)
        checked += len(named)
    return checked


# Every number, on random cases in which everything meets.


def numbers(value: object) -> Iterator[str]:
    """Every way in which a sentence may write the numbers of a fact."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner)
            if key in ("holders", "heads", "with", "names", "ahead", "on", "servers") and isinstance(
                inner, list
            ):
                yield from numbers(len(inner))
                total = value.get("jobs", value.get("place", 0) - 1)
                if isinstance(total, int):
                    yield from numbers(total - len(inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from numbers(inner)
    elif isinstance(value, str):
        yield from re.findall(r"\d[\d,.]*", value)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield from (f"{abs(value):,.2f}", f"{value:.4g}", f"{value}", f"{value:,}")
        yield f"{abs(value):,.3f}".rstrip("0").rstrip(".")
        yield duration(abs(value)).split()[0]


def check_numbers(story: Story) -> None:
    """That a sentence has no number which is not one of its fact."""
    for fact in story.facts:
        allowed = {*numbers(fact.figures), *numbers([fact.time] if fact.time is not None else [])}
        if fact.submitted is not None:
            times = [
                fact.time,
                *(
                    fact.figures.get(key)
                    for key in ("shadow", "own_end", "back", "until", "deadline", "down", "begins", "at")
                ),
            ]
            allowed |= {*numbers([time - fact.submitted for time in times if time is not None])}
        if fact.kind == "most held":
            allowed |= {
                f"{each['gpu_seconds'] / fact.figures['of']:.1%}"[:-1] for each in fact.figures["holders"]
            }
            allowed |= {*numbers(fact.figures["jobs"] - len(fact.figures["holders"]))}
        if fact.kind == "queue":
            allowed |= {*numbers(fact.figures["others"] + 1)}
        if fact.kind == "apart":
            parts = (fact.figures["largest"], fact.figures.get("segment"))
            allowed |= {*numbers([divmod(fact.figures["gpus"], part) for part in parts if part])}
        text = fact.sentence
        if fact.time is not None and (fact.kind == "submitted" or fact.submitted is None):
            text = text.replace(instant(fact.time, fact.zero), "")
        allowed |= {name for name in fact.called if name.isdecimal()}
        named = names_in(fact.figures) | {name for name in fact.called if not name.isdecimal()}
        for name in sorted(named, key=len, reverse=True):
            text = text.replace(name, "")
        for number in re.findall(r"\d[\d,.]*\d|\d", text):
            assert number in allowed, (number, fact, text)
        assert "  " not in fact.sentence
        assert fact.sentence[0].isupper() or fact.sentence[0].isdigit(), fact
        assert fact.sentence.endswith("."), fact


def names_in(value: object) -> set[str]:
    if isinstance(value, dict):
        return set().union(*map(names_in, value.values()))
    if isinstance(value, list):
        return set().union(*map(names_in, value))
    return {value} if isinstance(value, str) else set()


ROOM = ("gpus", "borrow")
CAUSES = {"too few": "wait_gpus", "apart": "wait_fragmented"} | dict.fromkeys(
    ("turn", "behind", "reserved", "kept", "over quota", "ranked behind", "maintenance", "recorded"),
    "wait_behind",
)
"""By kind of fact, the column of stays.parquet that counts time of its cause."""


def check_against_the_model(expected: WaitingModel, story: Story, seen: Counter[str]) -> None:
    """That places, heads, overtakers, GPUs that came free and neighbours are those that a slow look finds."""
    for fact in story.facts:
        seen[fact.kind] += 1
        if fact.kind in CAUSES:
            own = expected.outcome.stays.filter(job_id=story.job, stay=fact.stay)
            noted = own[CAUSES[fact.kind]][0]
            assert noted is None or noted > 0, (story.job, fact)
            _check_reason(expected, story, fact)
        elif fact.kind == "queue":
            _check_queue(expected, story, fact, seen)
        elif fact.kind == "heads" and expected.knows and expected.whole:
            seen["heads checked"] += 1
            _check_heads(expected, story, fact)
        elif fact.kind == "overtaken":
            firsts = expected.outcome.stays.filter(pl.col("stay") == 0)
            late = {
                name
                for name, start in firsts.select("job_id", "start_time").iter_rows()
                if expected.jobs[name]["submit_time"] > expected.jobs[story.job]["submit_time"]
                and start < fact.time
                and name in expected.vc_of(story.job)
            }
            assert fact.figures["jobs"] == len(late)
            assert set(fact.figures["names"]) <= late
        elif fact.kind in ("decision", "given"):
            at = fact.figures.get("at", fact.time)
            got = {
                name: gpus * (expected.jobs[name].get("gpu_share") or 1)
                for name, gpus, start, end in expected.stays
                if start == at < end and name in expected.vc_of(story.job) and name != story.job
            }
            named = {each["name"]: each["gpus"] for each in fact.figures["got"]}
            assert named == pytest.approx({name: got[name] for name in named})
            assert len(named) + fact.figures["others"] == len(got)
        elif fact.kind == "freed":
            _check_freed(expected, story, fact)
        elif fact.kind == "shared":
            _check_shared(expected, story, fact)


def _check_queue(expected: WaitingModel, story: Story, fact: Fact, seen: Counter[str]) -> None:
    assert fact.time is not None
    waiting = expected.waiting(fact.time, before=False, job=story.job)
    if expected.whole:
        assert fact.figures["others"] == len(waiting), (story.job, fact)
    if "place" not in fact.figures:
        return
    seen["ranking" if expected.policy in RANKED else "place"] += 1
    assert 1 <= fact.figures["place"] <= fact.figures["others"] + 1
    assert len(fact.figures["ahead"]) == min(3, fact.figures["place"] - 1)
    ahead = expected.ahead(fact, story.job) if expected.knows and expected.whole else None
    if ahead is not None:
        seen["order checked"] += 1
        assert fact.figures["place"] == 1 + len(ahead), (story.job, fact)
        assert fact.figures["ahead"] == ahead[:3]


def _check_reason(expected: WaitingModel, story: Story, fact: Fact) -> None:
    """Who was first, and what the owner of a job held, at the moment of a fact."""
    told = fact.figures
    if fact.kind == "too few" and "least" not in told:
        assert told["usable"] < told["gpus"]
    if fact.kind == "maintenance":
        assert fact.time is not None
        windows = expected.outcome.maintenance
        assert windows is not None
        assert any(abs(down - told["down"]) <= NEAR * down for down in windows["down_at"])
        assert told["down"] > fact.time - float(expected.options["slot"])
    if "head" in told:
        assert told["head_gpus"] == expected.jobs[told["head"]]["num_gpus"]
        ahead = expected.ahead(fact, story.job) if expected.knows and expected.whole else None
        if ahead is not None and expected.outcome.quota is None:
            assert told["head"] == ahead[0]
            assert told.get("ahead", len(ahead)) == len(ahead)
    if fact.kind == "over quota":
        assert (told["owner_holds"], told["quota"]) == next(_held_back(expected, story, fact))


def _held_back(expected: WaitingModel, story: Story, fact: Fact) -> Iterator[tuple[int, int]]:
    """What its owner held, and might, in each book that held a job back at the moment of a fact."""
    time, before = fact.time, fact.figures["when"] == "just before"
    there = [
        (expected.jobs[name], gpus)
        for name, gpus, start, end in expected.stays
        if (start < time <= end if before else start <= time < end) and name in expected.vc_of(story.job)
    ]
    job = expected.jobs[story.job]
    for book in (expected.outcome.quota, expected.outcome.quota_2):
        for row in () if book is None else book.filter(~pl.col("borrow")).rows(named=True):
            (column,) = (name for name, value in row.items() if value is not None and name not in ROOM)
            holds = sum(gpus for other, gpus in there if str(other[column]) == row[column])
            if str(job[column]) == row[column] and holds + job["num_gpus"] > row["gpus"]:
                yield holds, row["gpus"]


def _check_heads(expected: WaitingModel, story: Story, fact: Fact) -> None:
    """Who was at the head of the queue in a wait, and for how long: looked at between all instants."""
    record, places, vc = expected.record, expected.places(math.nan, story.job), expected.vc_of(story.job)
    if len({place[1] for place in places.values()}) > 1 and expected.options["order"] == "sjf":
        return  # rounding may decide who is first
    row = expected.row[story.job]
    at = next(at for at in record.stays_of(row).tolist() if record.number[at] == fact.stay)
    since, start = float(record.since[at]), float(record.start[at])
    waits = [
        (record.name(int(who)), begin, end)
        for who, begin, end in zip(record.row, record.since, record.start, strict=True)
        if record.name(int(who)) in vc
    ]
    instants = {since, start, *(each[1] for each in waits), *(each[2] for each in waits)}
    seconds: dict[str, float] = defaultdict(float)
    for begin, end in pairwise(sorted(time for time in instants if since <= time <= start)):
        first = min(
            (n for n, since, start in waits if since <= begin and end <= start), key=places.__getitem__
        )
        if first != story.job:
            seconds[first] += end - begin
    assert fact.figures["jobs"] == len(seconds), (story.job, fact, seconds)
    assert fact.figures["seconds"] == pytest.approx(sum(seconds.values()), rel=1e-6)
    told_of = {each["job"]: each["seconds"] for each in fact.figures["heads"]}
    assert told_of == pytest.approx({name: seconds[name] for name in told_of}, rel=1e-6)
    assert sorted(told_of.values()) == pytest.approx(sorted(seconds.values())[-3:], rel=1e-6)


def _own_rows(expected: WaitingModel, job: str, stay: int) -> list[dict[str, Any]]:
    return [row for row in rows_of(expected.outcome)[0] if (row["job_id"], row["stay"]) == (job, stay)]


def _check_freed(expected: WaitingModel, story: Story, fact: Fact) -> None:
    """Who gave GPUs back on the servers of a start, at its instant."""
    servers = {row["server"] for row in _own_rows(expected, story.job, fact.stay or 0)}
    result: dict[str, float] = defaultdict(float)
    rows, replicas = rows_of(expected.outcome)
    gave = [(row, row["job_id"]) for row in rows] + [(row, f"service {row['service']}") for row in replicas]
    for row, name in gave:
        if (
            row["start_time"] < row["end_time"] == fact.time
            and row["server"] in servers
            and name != story.job
        ):
            result[name] += row["num_gpus"] * (row.get("share") or 1)
    result = {name: round(gpus, 6) for name, gpus in result.items()}
    named = {each["name"]: each["gpus"] for each in fact.figures["by"]}
    assert named == {name: result[name] for name in named}
    assert len(named) + fact.figures["others"] == len(result)
    outages = expected.outcome.outages
    assert set(fact.figures["came_back"]) <= servers & set([] if outages is None else outages["server"])


def _check_shared(expected: WaitingModel, story: Story, fact: Fact) -> None:
    """For how long others were on the same links, the same GPU, or the same seat."""
    own = _own_rows(expected, story.job, fact.stay or 0)
    links, seats = (fact.figures["what"] == what for what in ("links", "gpus"))

    def places(rows: list[dict[str, Any]]) -> set[tuple[int, int | None]]:
        if seats:
            return {(row["seat"], None) for row in rows}
        return {(row["server"], None if links else row["gpu"]) for row in rows}

    on: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(expected.outcome)[0]:
        on[row["job_id"], row["stay"]].append(row)
    together: dict[str, float] = defaultdict(float)
    for (name, _), rows in on.items():
        seconds = min(own[0]["end_time"], rows[0]["end_time"]) - max(
            own[0]["start_time"], rows[0]["start_time"]
        )
        spans = len({row["server"] for row in rows}) > 1
        if name != story.job and seconds > 0 and places(own) & places(rows) and (spans or not links):
            together[name] += seconds
    assert fact.figures["jobs"] == len(together)
    for each in fact.figures["with"]:
        assert each["seconds"] == pytest.approx(together[each["job"]], rel=NEAR)


def check_against_the_tables(outcome: ringbco.Outcome, story: Story) -> None:
    """Starts, ends, waits and what came on top are those of the tables."""
    own = outcome.stays.filter(pl.col("job_id") == story.job)
    started = facts_of(story, "started")
    assert [fact.time for fact in started] == own["start_time"].to_list()
    held = outcome.allocations
    for fact, row in zip(started, own.iter_rows(named=True), strict=True):
        assert fact.figures["servers"] == row["num_servers"]
        assert fact.figures["began"] == row["began"]
        assert fact.figures.get("pause", 0.0) == row["pause"]
        if held is not None:
            parts = held.filter((pl.col("job_id") == story.job) & (pl.col("stay") == row["stay"]))
            assert sorted(part["server"] for part in fact.figures["on"]) == sorted(set(parts["server"]))
            assert sum(part["gpus"] for part in fact.figures["on"]) == pytest.approx(fact.figures["gpus"])
    ended = own.filter(pl.col("ended") != "done")
    for fact, row in zip(facts_of(story, "stopped"), ended.iter_rows(named=True), strict=True):
        assert (fact.time, fact.figures["ended"]) == (row["end_time"], row["ended"])
        for name in ("by_job", "by_service", "by_server"):
            assert fact.figures.get(name) == row[name]
        assert fact.figures.get("lost_time", 0.0) == row["lost_time"]
    waits = {fact.stay: fact for fact in facts_of(story, "waited")}
    for row in own.iter_rows(named=True):
        seconds = {name: row[name] for name in ("wait_behind", "wait_gpus", "wait_fragmented")}
        if row["stay"] in waits and None not in seconds.values():
            fact = waits[row["stay"]]
            assert {name: fact.figures[name] for name in seconds} == seconds
            assert sum(seconds.values()) == pytest.approx(fact.figures["seconds"], rel=1e-5, abs=1e-6)
    done = outcome.jobs.filter(pl.col("job_id") == story.job)
    if done.height:
        (row,) = done.iter_rows(named=True)
        (fact,) = facts_of(story, "finished")
        assert (fact.time, fact.figures["jct"]) == (row["finish_time"], row["jct"])
        coarse = 1e-9 * abs(row["finish_time"])
        whole = fact.figures["alone"] + sum(fact.figures["on_top"].values())
        assert whole == pytest.approx(row["jct"], rel=2e-5 * (1 + own.height), abs=coarse)
        assert story.lane[0].start == row["submit_time"]
        assert story.lane[-1].end == row["finish_time"]
    for one, other in zip(story.lane, story.lane[1:], strict=False):
        assert one.end == other.start
    assert sum(part.end - part.start for part in story.lane if part.gpus) == pytest.approx(
        float((own["end_time"] - own["start_time"]).sum()),
        rel=1e-9,
        abs=1e-9 * max(1.0, abs(story.lane[-1].end) if story.lane else 0),
    )
