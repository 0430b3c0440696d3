"""The timeline: a trace that holds to Chrome's trace event format and says what the result says."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import math
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from conftest import Invoke
from frames import busy_jobs
from ringbco import replay
from ringbco.errors import InputError, UsageError
from ringbco.reports import lanes, perfetto
from ringbco.reports.viewport import parse_servers, viewport
from ringbco.result.outcome import Outcome

NAMES = {"process_name": "name", "process_sort_index": "sort_index", "thread_name": "name"}
# The format's reserved colour names that the trace may use.
RESERVED = {"good", "bad", "terrible", "black", "grey", "white", "yellow", "olive", "rail_response"}


def check_format(trace: dict[str, Any]) -> None:
    """Chrome's trace event format, for the kinds of events used: complete, async, counter and metadata."""
    assert isinstance(trace["traceEvents"], list)
    assert trace["displayTimeUnit"] in ("ms", "ns")
    named: dict[str, set[tuple[int, int]]] = defaultdict(set)
    spans_of: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    asyncs: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert event["name"]
        assert all(type(event[key]) is int and event[key] >= 0 for key in ("pid", "tid"))
        assert type(event["ts"]) is int
        arguments = event["args"]
        place = (event["pid"], event["tid"])
        if event["ph"] == "M":
            (key,) = arguments
            assert key == NAMES[event["name"]]
            assert isinstance(arguments[key], str if key == "name" else int)
            assert place not in named[event["name"]], "named twice"
            named[event["name"]].add(place)
        elif event["ph"] == "X":
            assert type(event["dur"]) is int
            assert event["dur"] >= 0
            assert event["cname"] in RESERVED
            assert isinstance(event["cat"], str)
            spans_of[place].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] in "be":
            assert isinstance(event["cat"], str)
            asyncs[event["pid"], event["id2"]["local"]].append(event)
        else:
            assert event["ph"] == "C"
            assert arguments
            assert all(isinstance(value, int | float) for value in arguments.values())
    for place, spans in spans_of.items():
        assert place in named["thread_name"]
        # Slices of one thread must nest or keep apart; there is a thread for each job at once, so apart.
        for (_, end), (start, _) in pairwise(sorted(spans)):
            assert start >= end, (place, start, end)
    for pair in asyncs.values():
        assert [event["ph"] for event in pair] == ["b", "e"]
        begins, ends = pair
        assert begins["ts"] < ends["ts"]
        assert begins["cat"] == ends["cat"]
    # Perfetto makes a track of async events of a process that have one name.
    assert {(event["pid"], event["name"]) for pair in asyncs.values() for event in pair} <= {(1, "waiting")}
    processes = {pid for pid, _ in named["process_name"]}
    assert {event["pid"] for event in trace["traceEvents"]} == processes


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """Jobs that wait, span and contend on four servers."""
    return replay(busy_jobs(), "4x4", policy="rand", seed=3)


def events_of(outcome: Outcome, **cut: Any) -> list[dict[str, Any]]:
    shown = viewport(outcome, cut.get("start"), cut.get("end"), cut.get("servers"))
    return list(perfetto.trace_events(outcome, shown))


def slices(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == "X"]


@pytest.mark.parametrize("policy", ["fifo", "rand", "sjf-bco"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_a_trace_holds_to_the_format(policy: str, clock: str) -> None:
    made = replay(busy_jobs(seed=8), "4x4", policy=policy, clock=clock)
    check_format({"traceEvents": events_of(made), "displayTimeUnit": "ms"})


@pytest.mark.parametrize(
    "fault",
    [
        {"ph": "X", "name": "late", "pid": 2, "tid": 1, "ts": 0, "dur": 10**12, "cat": "c", "cname": "good"},
        {"ph": "X", "name": "NaN", "pid": 2, "tid": 1, "ts": math.nan, "dur": 1, "cat": "c", "cname": "good"},
        {"ph": "b", "name": "waiting", "pid": 1, "tid": 0, "ts": 0, "cat": "c", "id2": {"local": "once"}},
        {"ph": "M", "name": "thread_name", "pid": 2, "tid": 1, "ts": 0, "args": {"name": "again"}},
        {"ph": "C", "name": "queue", "pid": 99, "tid": 0, "ts": 0, "args": {"jobs": 1}},
        {"ph": "C", "name": "queue", "pid": 1, "tid": 0, "ts": 0, "args": {"jobs": "1"}},
    ],
    ids=["overlap", "not a number", "never ends", "named twice", "unnamed process", "text as a count"],
)
def test_the_check_of_the_format_finds_faults(outcome: Outcome, fault: dict[str, Any]) -> None:
    events = [*events_of(outcome), {"args": {}, **fault}]
    with pytest.raises(AssertionError):
        check_format({"traceEvents": events, "displayTimeUnit": "ms"})


def test_slices_hold_what_the_allocations_hold(outcome: Outcome) -> None:
    """One slice a job and server with its GPUs, on as many threads as the server ever has jobs at once."""
    assert outcome.allocations is not None
    events = events_of(outcome)
    held = {
        (event["args"]["job"], event["pid"] - perfetto.FIRST_SERVER): (
            event["args"]["GPUs here"],
            event["ts"],
            event["ts"] + event["dur"],
        )
        for event in slices(events)
    }
    rows = outcome.allocations.rows()
    wanted = {
        (job, server): (gpus, round(start * 1e6), round(end * 1e6))
        for job, server, gpus, start, end, _ in rows
    }
    assert held == wanted
    assert len(slices(events)) == len(rows)
    assert all(
        event["name"].endswith(
            f": {event['args']['job']} \N{MULTIPLICATION SIGN}{event['args']['GPUs here']}"
        )
        for event in slices(events)
    )
    for server in range(4):
        mine = [(start, end) for _, on, _, start, end, _ in rows if on == server]
        most = max(sum(start <= at < end for start, end in mine) for at, _ in mine)
        threads = [e["tid"] for e in events if e["pid"] == server + 2 and e["name"] == "thread_name"]
        assert threads == list(range(1, most + 1))


def test_slices_are_coloured_by_contention(outcome: Outcome) -> None:
    contention = dict(outcome.jobs.select("job_id", "max_contention").iter_rows())
    levels = {0: 0, 1: 1, 2: 2, 3: 3, 4: 3}
    seen = set()
    for event in slices(events_of(outcome)):
        level = levels.get(contention[event["args"]["job"]], 4)
        assert event["cname"] == perfetto.COLOURS[level]
        assert event["cat"] == event["args"]["user"]
        assert event["name"].startswith(lanes.LEVELS[level])
        seen.add(level)
    assert len(seen) >= 3
    nobody = dataclasses.replace(outcome, jobs=outcome.jobs.drop("user"))
    drawn = events_of(nobody)
    assert {event["cat"] for event in slices(drawn)} == {lanes.LEVELS[level] for level in seen}
    assert {event["cat"] for event in drawn if event["ph"] == "b"} == {"waiting"}


def waits_of(events: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int, int]]:
    """Of each wait what it tells, when it begins and when it ends, in microseconds."""
    ends = {event["id2"]["local"]: event["ts"] for event in events if event["ph"] == "e"}
    return [(e["args"], e["ts"], ends[e["id2"]["local"]]) for e in events if e["ph"] == "b"]


def test_a_wait_is_from_the_submission_to_the_start(outcome: Outcome) -> None:
    told = {wait["job"]: (wait, *span) for wait, *span in waits_of(events_of(outcome))}
    late = outcome.jobs.filter(pl.col("start_time") > pl.col("submit_time"))
    assert len(told) == late.height > 20
    for row in late.iter_rows(named=True):
        causes = {name: row[name] for name in ("wait_gpus", "wait_fragmented", "wait_behind") if row[name]}
        wanted = {"job": row["job_id"], "GPUs": row["num_gpus"]} | causes
        span = (round(row["submit_time"] * 1e6), round(row["start_time"] * 1e6))
        assert told[row["job_id"]] == (wanted, *span)


def test_a_window_cuts_waits_and_servers_do_not(outcome: Outcome) -> None:
    whole = waits_of(events_of(outcome))
    cut = waits_of(events_of(outcome, start=1_000.0, end=1_500.0, servers="1"))
    wanted = [
        (wait, max(begin, 1_000_000_000), min(end, 1_500_000_000))
        for wait, begin, end in whole
        if begin < 1_500_000_000 and end > 1_000_000_000
    ]
    assert cut == wanted
    assert wanted


def test_counters(outcome: Outcome) -> None:
    events = events_of(outcome)
    # Spanning jobs on a server, at an instant between two changes, against a count of allocations.
    assert outcome.allocations is not None
    spanning = set(outcome.jobs.filter(pl.col("num_servers") > 1)["job_id"])
    changes = [event for event in events if event["name"] == "spanning jobs"]
    for server in range(4):
        mine = [event for event in changes if event["pid"] == perfetto.FIRST_SERVER + server]
        assert mine[-1]["args"]["jobs"] == 0
        for event, following in pairwise(mine):
            middle = (event["ts"] + following["ts"]) / 2e6
            there = outcome.allocations.filter(
                (pl.col("server") == server)
                & (pl.col("start_time") <= middle)
                & (pl.col("end_time") > middle)
            )
            assert event["args"]["jobs"] == sum(job in spanning for job in there["job_id"])


def test_a_window_cuts_and_moves_no_slice(outcome: Outcome) -> None:
    whole = {(e["args"]["job"], e["pid"], e["tid"]): e for e in slices(events_of(outcome))}
    part = events_of(outcome, start=1_000.0, end=1_500.0, servers="1,3")
    check_format({"traceEvents": part, "displayTimeUnit": "ms"})
    kept = slices(part)
    wanted = {
        key
        for key, e in whole.items()
        if key[1] in (3, 5) and e["ts"] < 1_500e6 and e["ts"] + e["dur"] > 1_000e6
    }
    assert {(e["args"]["job"], e["pid"], e["tid"]) for e in kept} == wanted
    assert wanted
    assert min(e["ts"] for e in kept) >= 1_000e6
    assert max(e["ts"] + e["dur"] for e in kept) <= 1_500e6
    assert all(1_000e6 <= e["ts"] <= 1_500e6 for e in part if e["ph"] == "C")


def state_at(events: list[dict[str, Any]], time: float) -> dict[tuple[int, str], float]:
    """What each counter shows at a time: its last event up to then. A counter not yet set shows nothing."""
    shown = {}
    for event in sorted(
        (e for e in events if e["ph"] == "C" and e["ts"] <= round(time * 1e6)), key=lambda e: e["ts"]
    ):
        (shown[event["pid"], event["name"]],) = event["args"].values()
    return {key: value for key, value in shown.items() if value}


@pytest.mark.parametrize("policy", ["rand", "time-slice"])
def test_counters_of_a_window_are_those_of_the_whole(policy: str) -> None:
    """At its start, between two samples and at its end, though nothing happens at its ends."""
    made = replay(busy_jobs(), "4x4", policy=policy, seed=3, sample=100.0)
    whole = events_of(made)
    rng = np.random.default_rng(2)
    first, last = made.timeline["time"][0], made.timeline["time"][-1]
    for _ in range(12):
        start = float(rng.uniform(first, last - 150))
        end = start + float(rng.choice([7.0, 30.0, 150.0]))
        part = events_of(made, start=start, end=end)
        for at in (start, (start + end) / 2, end):
            assert state_at(part, at) == state_at(whole, at), (start, end, at)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(None, [0, 1, 2, 3]), ("2", [2]), ("0-1,3", [0, 1, 3]), ("3,0-1,1", [0, 1, 3]), (" 1 - 2 ", [1, 2])],
)
def test_server_ranges(text: str | None, wanted: list[int]) -> None:
    assert list(parse_servers(text, [None] * 4)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("g[01-02]", [0, 1]), ("g02,3", [1, 3]), ("3,2", [2, 3]), ("1", [2]), ("0-1", [0, 1])],
)
def test_servers_by_name(text: str, wanted: list[int]) -> None:
    assert list(parse_servers(text, ["g01", "g02", "1", None])) == wanted


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError, match=r"option servers: g04: expected a name .*; did you mean g01\?"):
        parse_servers("g[01,04]", ["g01", "g02", "1", None])


@pytest.mark.parametrize("text", ["4", "0-4", "3-1", "x", "", "1,,2", "-1", "1-", "\u0663"])
def test_what_is_no_server_range(text: str) -> None:
    with pytest.raises(UsageError, match="option servers"):
        parse_servers(text, [None] * 4)


@pytest.mark.parametrize(
    ("start", "end"), [(5.0, 5.0), (9.0, 5.0), (math.nan, None), (1e12, None), (None, -5.0)]
)
def test_what_is_no_window(outcome: Outcome, start: float | None, end: float | None) -> None:
    with pytest.raises(UsageError, match="option"):
        viewport(outcome, start, end, None)


def test_too_many_slices_are_refused(outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto, "MOST_SLICES", 10)
    with pytest.raises(UsageError, match="at most 10; cut it by --from, --to or --servers"):
        events_of(outcome)


def test_a_trace_of_1867_jobs_is_small(shared_traces: Path) -> None:
    """A slice a GPU made 27 MB of it."""
    made = replay(shared_traces / "helios" / "venus_2vc_2020-09.csv", "22x8", policy="fifo")
    file = io.BytesIO()
    perfetto.write_trace(made, viewport(made, None, None, None), file, compress=False)
    assert made.jobs.height == 1_867
    assert len(file.getvalue()) < 5_000_000


def test_without_allocations_there_is_nothing_to_show(outcome: Outcome) -> None:
    with pytest.raises(InputError, match="--no-allocations"):
        viewport(dataclasses.replace(outcome, allocations=None), None, None, None)


def test_the_command(outcome: Outcome, tmp_path: Path, invoke: Invoke) -> None:
    outcome.write(tmp_path / "r")
    run = invoke("timeline", "r", "-o", "t.json.gz")
    assert (run.returncode, run.stderr) == (0, "")
    packed = Path("t.json.gz").read_bytes()
    trace = json.loads(gzip.decompress(packed))
    check_format(trace)
    assert f"{len(trace['traceEvents']):,} events" in run.stdout
    assert trace["otherData"]["run"]["options"]["policy"] == "rand"
    output = json.loads(invoke("timeline", "r", "-o", "t.json", "--servers", "0-1", "--json").stdout)
    plain = json.loads(Path("t.json").read_text(encoding="utf-8"))
    assert output["events"] == len(plain["traceEvents"])
    assert output["servers"] == 2
    cut = invoke("timeline", "r", "-o", "cut.json", "--from", "20min", "--to", "0.5h", "--json")
    assert (json.loads(cut.stdout)["from"], json.loads(cut.stdout)["to"]) == (1_200.0, 1_800.0)
    assert invoke("timeline", "r", "-o", "t.json.gz", "--force", "--quiet").stdout == ""
    assert Path("t.json.gz").read_bytes() == packed


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        (["r", "-o", "t.gz"], 2, "ends in .json.gz or .json"),
        (["r", "-o", "t.json", "--png", "t.png"], 2, "shows it: ringbco play r -o t.html\n"),
        (["r", "-o", "t.json", "--png", ""], 2, "shows it: ringbco play r -o play.html\n"),
        (
            ["r", "-o", "t.json", "--png", "a b.png", "--from", "12d", "--to", "1e6", "--servers", "0,2-3"],
            2,
            "ringbco play r --from 12d --to 1e6 --servers 0,2-3 -o 'a b.html'\n",
        ),
        (["r", "-o", "there.json"], 1, "already exists"),
        (["r", "-o", "t.json", "--servers", "0-9"], 2, "the cluster's servers are 0 to 3"),
        (["r", "-o", "t.json", "--from", "10", "--to", "5"], 2, "from < to"),
        (
            ["r", "-o", "t.json", "--from", "soon"],
            2,
            "option from: 'soon': expected a length of time such as",
        ),
        (["nothing", "-o", "t.json"], 1, "a result folder"),
    ],
)
def test_refusals_leave_nothing(
    outcome: Outcome, tmp_path: Path, invoke: Invoke, options: list[str], status: int, says: str
) -> None:
    outcome.write(tmp_path / "r")
    (tmp_path / "there.json").write_text("mine")
    run = invoke("timeline", *options)
    assert run.returncode == status
    assert says in run.stderr
    assert run.stderr.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"r", "there.json"}
    assert (tmp_path / "there.json").read_text() == "mine"


def test_servers_on_which_nothing_ran_are_left_out() -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "submit_time": [0.0, 0.0, 100.0],
            "num_gpus": [8, 12, 8],
            "duration": [10.0, 50.0, 10.0],
        }
    )
    large = replay(jobs, "100000x8", policy="fifo", model="fixed")
    assert large.allocations is not None
    used = sorted(set(large.allocations["server"]))
    started = time.process_time()
    shown = viewport(large, None, None, None)
    events = list(perfetto.trace_events(large, shown))
    assert time.process_time() - started < 2
    assert list(shown.servers) == used
    check_format({"traceEvents": events, "displayTimeUnit": "ms"})
    named = [event for event in events if event["name"] == "process_name"]
    assert len(named) == len(used) + 1
    # Not those used before and after the window, nor those asked for that did nothing.
    (last,) = set(large.allocations.filter(pl.col("job_id") == "c")["server"])
    assert viewport(large, 60.0, None, None).servers == (last,)
    assert viewport(large, 60.0, 100.0, None).servers == ()
    assert viewport(large, None, None, f"{last},500-90000").servers == (last,)


def test_a_window_in_which_nothing_ran() -> None:
    jobs = pl.DataFrame(
        {"job_id": ["a", "b"], "submit_time": [0.0, 90.0], "num_gpus": [2, 2], "duration": [10.0, 10.0]}
    )
    made = replay(jobs, "4x4", policy="fifo", model="fixed")
    shown = viewport(made, 20.0, 30.0, None)
    events = list(perfetto.trace_events(made, shown))
    check_format({"traceEvents": events, "displayTimeUnit": "ms"})
    assert {event["pid"] for event in events} == {perfetto.CLUSTER}


@pytest.mark.parametrize("options", [{}, {"allocations": False}])
def test_an_older_result_without_allocations_says_why(
    outcome: Outcome, tmp_path: Path, invoke: Invoke, options: dict[str, bool]
) -> None:
    known = {name: value for name, value in outcome.run["options"].items() if name != "allocations"}
    run = outcome.run | {"options": known | options}
    dataclasses.replace(outcome, allocations=None, run=run).write(tmp_path / "r")
    said = invoke("timeline", "r", "-o", "t.json")
    assert said.returncode == 1
    assert said.stderr == (
        "error: the result has no allocations.parquet, as one made with --no-allocations;"
        " replay without that option\n"
    )
    assert invoke("report", "r", "-o", "r.html").returncode == 0
