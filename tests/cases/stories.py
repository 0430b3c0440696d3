"""What a job's story says, held against tables, allocations alone, and the judge."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

import ringbco
from cases import judged
from judge import clock, stays
from judge.deciding import Standing
from judge.floor import Floor
from judge.given import Given, Stay
from judge.idle import DOWN, REPLICA, Room, State
from judge.queue import Queue, fifo
from judge.speed import Speeds
from judge.work import Worker
from oracle_fair import Fair
from ringbco.result.why import Fact, Story
from ringbco.trace.jobs import from_frame
from ringbco.units import duration

NEAR = 1e-9
"""Of seconds and GPU-seconds: what adding up in another order changes."""


def told(story: Story, kind: str) -> list[Fact]:
    return [fact for fact in story.facts if fact.kind == kind]


# Holders, worked out again from allocations alone.


@cache
def rows_of(outcome: ringbco.Outcome) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Of allocations and of replicas."""
    assert outcome.allocations is not None
    replicas = [] if outcome.replicas is None else outcome.replicas.rows(named=True)
    return outcome.allocations.rows(named=True), replicas


def naive_holders(outcome: ringbco.Outcome, fact: Fact) -> dict[str, float]:
    """Who holds how many GPUs at the moment of a fact: a loop over rows."""
    time, before = fact.time, fact.told["when"] == "just before"
    found: dict[str, float] = defaultdict(float)
    rows, replicas = rows_of(outcome)
    for row in rows:
        begin, end = row["start_time"], row["end_time"]
        if (begin < time <= end) if before else (begin <= time < end):
            share = row.get("share")
            found[row["job_id"]] += row["num_gpus"] * (1.0 if share is None else share)
    for row in replicas:
        begin, end = row["start_time"], row["end_time"]
        if (begin < time <= end) if before else (begin <= time < end):
            found[f"service {row['service']}"] += row["num_gpus"]
    return {name: round(gpus, 6) for name, gpus in found.items()}


def naive_seconds(outcome: ringbco.Outcome, since: float, until: float) -> dict[str, float]:
    """GPU-seconds of each job between two instants."""
    found: dict[str, float] = defaultdict(float)
    for row in rows_of(outcome)[0]:
        seconds = min(row["end_time"], until) - max(row["start_time"], since)
        if seconds > 0:
            share = row.get("share")
            found[row["job_id"]] += seconds * row["num_gpus"] * (1.0 if share is None else share)
    return found


def check_holders(outcome: ringbco.Outcome, story: Story, there: set[str] | None = None) -> int:
    """That the holders named are those of allocations. there: jobs and services that count, else all."""
    checked = 0
    for fact in told(story, "held"):
        found = {n: g for n, g in naive_holders(outcome, fact).items() if there is None or n in there}
        named = {each["name"]: each["gpus"] for each in fact.told["holders"]}
        assert named == {name: found[name] for name in named}, (story.job, fact)
        assert sorted(named.values(), reverse=True) == sorted(found.values(), reverse=True)[:5], fact
        jobs = {name: gpus for name, gpus in found.items() if not name.startswith("service ")}
        assert fact.told["jobs"] == len(jobs)
        assert fact.told["held"] == pytest.approx(sum(jobs.values()))
        assert fact.told["held"] + fact.told["replicas"] + fact.told["down"] + fact.told["idle"] == (
            pytest.approx(fact.told["gpus"])
        )
        checked += len(named)
    for fact in told(story, "most held"):
        assert fact.time is not None
        seconds = naive_seconds(outcome, fact.told["since"], fact.time)
        seconds = {n: s for n, s in seconds.items() if there is None or n in there}
        named = {each["job"]: each["gpu_seconds"] for each in fact.told["holders"]}
        assert named == pytest.approx({name: seconds[name] for name in named}, rel=NEAR)
        assert sorted(named.values(), reverse=True) == pytest.approx(
            sorted(seconds.values(), reverse=True)[:5], rel=NEAR
        )
        assert fact.told["jobs"] == len(seconds)
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
        allowed = {*numbers(fact.told), *numbers([fact.time] if fact.time is not None else [])}
        if fact.submitted is not None:
            times = [
                fact.time,
                *(fact.told.get(key) for key in ("shadow", "own_end", "back", "until", "deadline")),
            ]
            allowed |= {*numbers([time - fact.submitted for time in times if time is not None])}
        if fact.kind == "most held":
            allowed |= {f"{each['gpu_seconds'] / fact.told['of']:.1%}"[:-1] for each in fact.told["holders"]}
            allowed |= {*numbers(fact.told["jobs"] - len(fact.told["holders"]))}
        if fact.kind == "queue":
            allowed |= {*numbers(fact.told["others"] + 1)}
        if fact.kind == "apart":
            allowed |= {*numbers(divmod(fact.told["gpus"], fact.told["largest"]))}
        text = fact.sentence
        for name in sorted(names_in(fact.told), key=len, reverse=True):
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


class Truth:
    """The judge's view of a run, which has nothing of what tells stories."""

    def __init__(self, outcome: ringbco.Outcome, jobs: pl.DataFrame) -> None:
        self.outcome = outcome
        self.given, self.book = judged.book(outcome, from_frame(jobs))
        stays.chain(self.given, self.book)
        self.down = clock.seen(self.given.outages or (), self.given.slot)
        self.row = {name: row for row, name in enumerate(self.given.jobs.id)}
        self.speeds = Speeds(self.given)

    def vc_of(self, job: str) -> set[str]:
        """The jobs of a virtual cluster, and all services."""
        of = self.given.jobs.in_vc
        own = of(self.row[job])
        return {name for name, row in self.row.items() if of(row) == own}

    def at(self, fact: Fact, begin: float, end: float) -> bool:
        time, before = fact.time, fact.told["when"] == "just before"
        return begin < time <= end if before else begin <= time < end

    def cause(self, fact: Fact, job: str) -> str:
        """fits, few or apart: of the judge's pools, filled with who is there at that moment."""
        given = self.given
        room = Room(given, self.speeds)
        state = State(given.cluster.gpus, given.jobs, self.speeds, room.of)
        demand = room._demand(self.row[job], state)
        room._bound()
        there = [
            stay for stay in self.book.stays if stay.end > stay.start and self.at(fact, stay.start, stay.end)
        ]
        there += [
            Stay(REPLICA, each.start, each.end, ((each.server, each.gpus),))
            for each in self.book.replicas
            if each.end > each.start and self.at(fact, each.start, each.end)
        ]
        there += [
            Stay(DOWN, each.down, each.up, ((each.server, 0),))
            for each in self.down
            if self.at(fact, each.down, each.up)
        ]
        state.apply([], there, counts=False)
        state.tell()
        return demand.now()

    def services(self) -> list[str]:
        return [] if self.outcome.replicas is None else self.outcome.replicas["service"].to_list()

    def shadow(self, fact: Fact) -> float:
        """When the head of a queue could start by the estimates, by who runs at that moment."""
        given, book = self.given, self.book
        floor = Floor(given, self.speeds, Room(given, self.speeds), 0, [stay.job for stay in book.stays])
        queue = Queue(given, floor, Worker(given, self.speeds), book.stays)
        queue.time = fact.time or 0.0
        for stay in book.stays:
            if self.at(fact, stay.start, stay.end):
                floor.take(stay.job, list(stay.held))
                queue.standing[stay.job] = Standing(stay.start, stay.start)
        return queue._shadow(self.row[fact.told["head"]])

    def order(self, time: float = math.nan, job: str = "") -> dict[str, int]:
        """The place of each job in a queue: at an instant, in a job's cluster, where it hangs on these."""
        given, name = self.given, str(self.given.options["order"])
        rows = fifo(given, range(len(given.jobs.id)))
        if name == "sjf":
            keys = [self.speeds.estimate(row) for row in rows]
        elif name == "smallest":
            keys = [float(given.jobs.gpus[row]) for row in rows]
        elif name == "qssf":
            keys = [given.jobs.duration[r] * given.jobs.gpus[r] * given.jobs.weight(r) for r in rows]
        elif name == "fairshare":
            keys = [self._used(row, time, job) for row in rows]
        elif given.jobs.column is not None:
            keys = [given.jobs.column[row] for row in rows]
        else:
            keys = [0.0] * len(rows)
        priority = given.jobs.priority or [0] * len(rows)
        ranked = sorted(zip(rows, keys, strict=True), key=lambda each: (-priority[each[0]], each[1]))
        return {given.jobs.id[row]: place for place, (row, _) in enumerate(ranked)}

    def _used(self, row: int, time: float, job: str) -> float:
        """What the owner of a row has used by an instant, in the cluster of a job."""
        given, jobs = self.given, self.given.jobs
        assert jobs.fair is not None
        fair = Fair(tuple(jobs.fair), tuple(given.shares.items()), given.options["half_life"])
        stays = [
            (stay.gpus * jobs.weight(stay.job), stay.start, min(stay.end, time))
            for stay in self.book.stays
            if stay.start < time
            and jobs.fair[stay.job] == jobs.fair[row]
            and jobs.id[stay.job] in self.vc_of(job)
        ]
        return fair.ratio(jobs.fair[row], stays, time)

    def ranking(self, time: float) -> dict[str, tuple[Any, ...]]:
        """What srtf, srsf, edf and tiresias go by at an instant, of jobs that wait: least first."""
        given, jobs = self.given, self.given.jobs
        place = {row: at for at, row in enumerate(fifo(given, range(len(jobs.id))))}
        found: dict[str, tuple[Any, ...]] = {}
        rows = list(self.outcome.stays.filter(pl.col("end_time") <= time).iter_rows(named=True))
        for row, name in enumerate(jobs.id):
            own = [each for each in rows if each["job_id"] == name]
            if given.options["policy"] == "edf":
                due = jobs.deadline[row] if jobs.deadline is not None else None
                key = float("inf") if due is None else due
            elif given.options["policy"] in ("srtf", "srsf"):
                done, whole = sum(each["work"] - each["lost"] for each in own), self.speeds.estimate(row)
                fixed = given.model == "fixed"
                key = max(0.0, whole - done) if fixed else whole * (1.0 - done / self.speeds.work(row))
                key *= jobs.gpus[row] if given.options["policy"] == "srsf" else 1
            else:
                attained = sum(each["num_gpus"] * (each["end_time"] - each["start_time"]) for each in own)
                key = float(sum(limit <= attained for limit in given.options["thresholds"]))
            priority = jobs.priority[row] if jobs.priority is not None else 0
            found[name] = (-priority, key, place[row])
        return found

    def waiting(self, time: float, *, before: bool, job: str) -> set[str]:
        """Who else of its virtual cluster waits."""
        given, found = self.given, set()
        for stay in self.book.stays:
            waits = stay.since < time <= stay.start if before else stay.since <= time < stay.start
            if waits and given.jobs.id[stay.job] != job:
                found.add(given.jobs.id[stay.job])
        return found & self.vc_of(job)


CAUSES = {"too few": "few", "apart": "apart", "turn": "fits", "behind": "fits", "reserved": "fits",
          "kept": "fits", "over quota": "fits", "ranked behind": "fits"}  # fmt: skip


def check_against_the_judge(truth: Truth, story: Story, seen: Counter[str]) -> None:
    given: Given = truth.given
    for fact in story.facts:
        seen[fact.kind] += 1
        if fact.kind in CAUSES:
            assert truth.cause(fact, story.job) == CAUSES[fact.kind], (story.job, fact)
            _check_reason(truth, story, fact)
        elif fact.kind == "queue":
            assert fact.time is not None
            waiting = truth.waiting(fact.time, before=False, job=story.job)
            assert fact.told["others"] == len(waiting), (story.job, fact)
            if "place" in fact.told:
                ranked = given.options["policy"] in ("srtf", "srsf", "edf", "tiresias")
                seen["ranking" if ranked else "place"] += 1
                places: Mapping[str, Any] = (
                    truth.ranking(fact.time) if ranked else truth.order(fact.time, story.job)
                )
                ahead = sorted((n for n in waiting if places[n] < places[story.job]), key=places.__getitem__)
                assert fact.told["place"] == 1 + len(ahead), (story.job, fact)
                assert fact.told["ahead"] == ahead[:3]
        elif fact.kind == "heads":
            assert fact.told["heads"] == _heads(truth, story, fact)[:3]
        elif fact.kind == "overtaken":
            firsts = truth.outcome.stays.filter(pl.col("stay") == 0)
            submit = dict(zip(given.jobs.id, given.jobs.submit, strict=True))
            late = {
                name
                for name, start in firsts.select("job_id", "start_time").iter_rows()
                if submit[name] > submit[story.job] and start < fact.time and name in truth.vc_of(story.job)
            }
            assert fact.told["jobs"] == len(late)
            assert set(fact.told["names"]) <= late
        elif fact.kind == "freed":
            _check_freed(truth, story, fact)
        elif fact.kind == "shared":
            own = [s for s in truth.book.stays if given.jobs.id[s.job] == story.job]
            stay = own[fact.stay or 0]
            together: dict[str, float] = defaultdict(float)
            for other in truth.book.stays:
                seconds = min(stay.end, other.end) - max(stay.start, other.start)
                if other.job == stay.job or seconds <= 0:
                    continue
                on = {server for server, _ in stay.held} & {server for server, _ in other.held}
                links = len(stay.held) > 1 and len(other.held) > 1 and on
                gpu = set(stay.places) & set(other.places) if given.jobs.share is not None else set()
                if links if fact.told["what"] == "links" else gpu:
                    together[given.jobs.id[other.job]] += seconds
            assert fact.told["jobs"] == len(together)
            for each in fact.told["with"]:
                assert each["seconds"] == pytest.approx(together[each["job"]], rel=NEAR)


def _check_reason(truth: Truth, story: Story, fact: Fact) -> None:
    """Who was first, and what the owner of a job held, at the moment of a fact."""
    given, time = truth.given, fact.time
    assert time is not None
    if fact.kind == "too few" and "least" not in fact.told:
        assert fact.told["usable"] < fact.told["gpus"]
    if "head" in fact.told:
        waiting = truth.waiting(time, before=fact.told["when"] == "just before", job=story.job)
        ranked = fact.kind == "ranked behind"
        places: Mapping[str, Any] = truth.ranking(time) if ranked else truth.order(time, story.job)
        ahead = sorted((n for n in waiting if places[n] < places[story.job]), key=places.__getitem__)
        assert fact.told["head"] == ahead[0]
        assert fact.told["head_gpus"] == given.jobs.gpus[truth.row[ahead[0]]]
        assert fact.told.get("ahead", len(ahead)) == len(ahead)
    if fact.kind == "over quota":
        owners, own = given.jobs.owner, truth.row[story.job]
        assert owners is not None
        holds = sum(
            stay.gpus * given.jobs.weight(stay.job)
            for stay in truth.book.stays
            if truth.at(fact, stay.start, stay.end)
            and owners[stay.job] == owners[own]
            and given.jobs.in_vc(stay.job) == given.jobs.in_vc(own)
        )
        assert fact.told["owner_holds"] == pytest.approx(holds)
        assert (fact.told["quota"], False) == (given.quotas or {})[str(owners[own])]
        assert holds + given.jobs.gpus[own] * given.jobs.weight(own) > fact.told["quota"]


def _heads(truth: Truth, story: Story, fact: Fact) -> list[dict[str, Any]]:
    """Who was at the head of the queue in a wait, and for how long: looked at between all instants."""
    given, places, vc = truth.given, truth.order(), truth.vc_of(story.job)
    own = [stay for stay in truth.book.stays if given.jobs.id[stay.job] == story.job][fact.stay or 0]
    waits = [stay for stay in truth.book.stays if given.jobs.id[stay.job] in vc]
    instants = {own.since, own.start, *(stay.since for stay in waits), *(stay.start for stay in waits)}
    inside = sorted(time for time in instants if own.since <= time <= own.start)
    seconds: dict[str, float] = defaultdict(float)
    for begin, end in pairwise(inside):
        names = {given.jobs.id[stay.job] for stay in waits if stay.since <= begin and end <= stay.start}
        first = min(names, key=places.__getitem__)
        if first != story.job:
            seconds[first] += end - begin
    ranked = sorted(seconds, key=lambda name: (-round(seconds[name], 9), truth.row[name]))
    assert fact.told["jobs"] == len(ranked)
    assert fact.told["seconds"] == pytest.approx(sum(seconds.values()), rel=NEAR)
    told_of = {each["job"]: each["seconds"] for each in fact.told["heads"]}
    assert told_of == pytest.approx({name: seconds[name] for name in told_of}, rel=1e-6)
    assert sorted(told_of.values(), reverse=True) == pytest.approx(
        [seconds[name] for name in ranked[:3]], rel=1e-6
    )
    return [dict(each, gpus=given.jobs.gpus[truth.row[each["job"]]]) for each in fact.told["heads"]]


def _check_freed(truth: Truth, story: Story, fact: Fact) -> None:
    """Who gave GPUs back on the servers of a start, at its instant."""
    given = truth.given
    own = [stay for stay in truth.book.stays if given.jobs.id[stay.job] == story.job][fact.stay or 0]
    servers = {server for server, _ in own.held}
    found: dict[str, float] = defaultdict(float)
    for stay in truth.book.stays:
        if stay.end == fact.time and stay.start < stay.end and stay.job != own.job:
            for server, gpus in stay.held:
                found[given.jobs.id[stay.job]] += gpus * given.jobs.weight(stay.job) * (server in servers)
    for each in truth.book.replicas:
        if each.end == fact.time and each.start < each.end and each.server in servers:
            found[f"service {each.service}"] += each.gpus
    found = {name: round(gpus, 6) for name, gpus in found.items() if gpus}
    named = {each["name"]: each["gpus"] for each in fact.told["by"]}
    assert named == {name: found[name] for name in named}
    assert len(named) + fact.told["others"] == len(found)
    back = {each.server for each in truth.down if each.up == fact.time} & servers
    assert fact.told["came_back"] == sorted(back)


def check_against_the_tables(outcome: ringbco.Outcome, story: Story) -> None:
    """Starts, ends, waits and what came on top are those of the tables."""
    own = outcome.stays.filter(pl.col("job_id") == story.job)
    started = told(story, "started")
    assert [fact.time for fact in started] == own["start_time"].to_list()
    held = outcome.allocations
    for fact, row in zip(started, own.iter_rows(named=True), strict=True):
        assert fact.told["servers"] == row["num_servers"]
        assert fact.told["began"] == row["began"]
        assert fact.told.get("pause", 0.0) == row["pause"]
        if held is not None:
            parts = held.filter((pl.col("job_id") == story.job) & (pl.col("stay") == row["stay"]))
            assert sorted(part["server"] for part in fact.told["on"]) == sorted(set(parts["server"]))
            assert sum(part["gpus"] for part in fact.told["on"]) == pytest.approx(fact.told["gpus"])
    ended = own.filter(pl.col("ended") != "done")
    for fact, row in zip(told(story, "stopped"), ended.iter_rows(named=True), strict=True):
        assert (fact.time, fact.told["ended"]) == (row["end_time"], row["ended"])
        for name in ("by_job", "by_service", "by_server"):
            assert fact.told.get(name) == row[name]
        assert fact.told.get("lost_time", 0.0) == row["lost_time"]
    waits = {fact.stay: fact for fact in told(story, "waited")}
    for row in own.iter_rows(named=True):
        seconds = {name: row[name] for name in ("wait_behind", "wait_gpus", "wait_fragmented")}
        if row["stay"] in waits and None not in seconds.values():
            fact = waits[row["stay"]]
            assert {name: fact.told[name] for name in seconds} == seconds
            assert sum(seconds.values()) == pytest.approx(fact.told["seconds"], rel=1e-5, abs=1e-6)
    done = outcome.jobs.filter(pl.col("job_id") == story.job)
    if done.height:
        (row,) = done.iter_rows(named=True)
        (fact,) = told(story, "finished")
        assert (fact.time, fact.told["jct"]) == (row["finish_time"], row["jct"])
        coarse = 1e-9 * abs(row["finish_time"])
        whole = fact.told["alone"] + sum(fact.told["on_top"].values())
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
