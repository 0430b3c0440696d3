"""Other names for what ringbco knows by one: policies and their parts, and the columns of a job table.

They are never accepted, only suggested: two spellings of one thing would be two settings in a sweep, and two
labels in a comparison.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ringbco import errors

if TYPE_CHECKING:
    import polars as pl

_EASY: Final = "fifo with --queue easy"

# Option -> another name, in lower case with dashes -> the name, perhaps with the option that goes with it.
_OF_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "policy": {
        **dict.fromkeys(("fcfs", "first-come-first-served"), "fifo"),
        **dict.fromkeys(("shortest", "shortest-job-first", "shortest-first"), "sjf"),
        **dict.fromkeys(("smallest-first", "smallest-job-first"), "smallest"),
        **dict.fromkeys(("first-fit", "firstfit"), "ff"),
        **dict.fromkeys(("least-loaded", "list-scheduling"), "ls"),
        "random": "rand",
        **dict.fromkeys(("bco", "sjfbco", "ring-bco", "ringbco"), "sjf-bco"),
        **dict.fromkeys(("helios", "quasi-ssf", "quasi-shortest-service-first"), "qssf"),
        **dict.fromkeys(("srpt", "srt", "shortest-remaining-time-first"), "srtf"),
        **dict.fromkeys(("shortest-remaining-service-first", "2d-srtf"), "srsf"),
        **dict.fromkeys(("las", "2d-las", "2dlas", "least-attained-service", "dlas"), "tiresias"),
        **dict.fromkeys(("2d-gittins", "2dgittins", "gittins-index"), "gittins"),
        **dict.fromkeys(("themis", "drf", "fair", "finish-time-fairness"), "ftf"),
        **dict.fromkeys(("deadline", "earliest-deadline-first"), "edf"),
        **dict.fromkeys(("gandiva", "rr", "round-robin", "timeslice", "time-slicing"), "time-slice"),
        **dict.fromkeys(("backfill", "backfilling", "easy", "easy-backfill", "easy-backfilling"), _EASY),
        "skip": "fifo with --queue skip",
        **dict.fromkeys(("consolidate", "pack", "packing"), "fifo with --placement consolidate"),
    },
    "order": {
        **dict.fromkeys(("fcfs", "first-come-first-served", "arrival"), "fifo"),
        **dict.fromkeys(("shortest", "shortest-job-first", "shortest-first"), "sjf"),
        **dict.fromkeys(("smallest-first", "size", "gpus"), "smallest"),
        "helios": "qssf",
    },
    "placement": {
        **dict.fromkeys(("ff", "firstfit", "first"), "first-fit"),
        **dict.fromkeys(("pack", "packing", "packed", "consolidated"), "consolidate"),
        **dict.fromkeys(("bestfit", "bf", "tightest"), "best-fit"),
        **dict.fromkeys(("worstfit", "wf"), "worst-fit"),
        **dict.fromkeys(("emptiest-first", "most-idle"), "emptiest"),
        **dict.fromkeys(("fragmentation", "frag", "fragmentation-gradient-descent"), "fgd"),
        **dict.fromkeys(("ls", "spread"), "least-loaded"),
        "rand": "random",
        **dict.fromkeys(("faffp", "ffp"), "fa-ffp"),
        **dict.fromkeys(("bco", "sjfbco"), "sjf-bco"),
    },
    "queue": {
        **dict.fromkeys(("backfill", "backfilling", "easy-backfill", "easy-backfilling"), "easy"),
        **dict.fromkeys(("conservative-backfill", "conservative-backfilling", "slurm"), "conservative"),
        **dict.fromkeys(("fifo", "fcfs", "block", "blocking", "none"), "strict"),
        **dict.fromkeys(("greedy", "pass-over"), "skip"),
    },
    "model": {
        **dict.fromkeys(("ring", "ring-all-reduce", "ring-allreduce", "all-reduce", "contention"), "rar"),
        **dict.fromkeys(("recorded", "duration", "constant"), "fixed"),
    },
    "clock": {
        **dict.fromkeys(("slots", "slotted", "discrete"), "slot"),
        **dict.fromkeys(("event", "events", "event-driven"), "continuous"),
    },
    "oversize": {"refuse": "error", **dict.fromkeys(("skip", "ignore"), "drop")},
    "dispatch": {"reservation": "reserve"},
}

# What may stand for the duration: a run's begin and end.
_SPAN: Final = ("start_time", "end_time")
# Column of a job table -> what others call it, in lower case with underscores; the likeliest first.
_OF_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "job_id": ("id", "job", "jobid", "job_name", "jobname", "name", "job_number", "jobidraw", "uuid"),
    "submit_time": (
        *("submitted", "submit", "submission_time", "submission", "submitted_at", "submitted_time"),
        *("submittime", "arrival_time", "arrival", "arrived", "created", "created_at", "creation_time"),
        *("queued_at", "timestamp", "time"),
    ),
    "num_gpus": (
        *("gpus", "num_gpu", "gpu_num", "n_gpus", "ngpus", "n_gpu", "gpu_count", "gpu", "gpus_requested"),
        *("requested_gpus", "num_workers", "workers", "world_size"),
    ),
    "duration": (
        *("runtime", "run_time", "duration_s", "duration_seconds", "elapsed", "elapsed_time", "run_seconds"),
        *("length", "service_time", "execution_time", "exec_time", "walltime", "wall_time", "elapsedraw"),
    ),
    "start_time": ("start", "started", "started_at", "begin", "begin_time", "started_time", "starttime"),
    "end_time": (
        *("end", "ended", "ended_at", "finish", "finished", "finish_time", "finished_at", "endtime"),
        *("completed_at", "completion_time"),
    ),
}

CONVERTED: Final = frozenset(
    ("account", "array", "cluster", "cpu_milli", "gpu_request", "gpu_spec", "job_type", "memory_mib", "nodes")
    + ("num_attempts", "num_machines", "num_nodes", "partition", "plan_gpus", "priority_weight", "qos")
    + ("queue", "slo", "slurm_priority", "type", "worker_num")
)
"""Columns that converters add to those of the job table: no slips of other names."""

_SECONDS_BEHIND: Final = re.compile(r"[\s,_]*[(\[,_ ]\s*(s|secs?|seconds)[)\]]?$")
# What names a server where a row is one.
_OF_NODES: Final = frozenset(
    ("node", "nodes", "node_name", "nodename", "node_id", "nodelist", "sn", "host", "hostname", "host_name")
    + ("server", "server_name", "server_id", "machine", "machine_id", "machine_name")
)
NODES_ALONE: Final = "looks like a list of nodes, not of jobs: it has no job_id, submit_time and duration"
NODES_GO: Final = "give the table of jobs, and the nodes as --cluster SxG or in a cluster file"


def nearest(option: str, value: str, known: Sequence[str]) -> str | None:
    """What `value` probably means among `known`: another spelling, another name, a slip. None: no idea."""
    plain = value.strip().lower().replace("_", "-").replace(" ", "-")
    if plain in known:
        return plain
    meant = _OF_OPTIONS.get(option, {}).get(plain)
    if meant is not None:  # nothing else is meant, though a planner, say, may not have it
        return meant if meant.split()[0] in known else None
    return errors.nearest(plain, known)


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The name in `known` that `name` is a slip of, or another name for, as of a column; None: no idea."""
    known = list(known)
    near = errors.nearest(name, known)
    return near or next((ours for ours in known if columns_meant([ours], [name]).get(ours)), None)


def hint_at(name: str, known: Iterable[str]) -> str:
    """How a message on a name that is not in `known` ends: "; did you mean fifo?", or "" without an idea."""
    near = near_name(name, known)
    return f"; did you mean {near}?" if near else ""


def columns_meant(wanted: Iterable[str], found: Iterable[str]) -> dict[str, str]:
    """Of the `wanted` columns of a job table, those that go by another name among `found`: ours -> theirs.

    A wanted duration is also had from a start and an end.
    """
    plain = {_plain(name): name for name in reversed(list(found))}
    meant: dict[str, str] = {}
    for ours in wanted:
        for group in ((ours,), _SPAN) if ours == "duration" else ((ours,),):
            theirs = {name: their for name in group if (their := _first(name, plain)) is not None}
            if len(theirs) == len(group):
                meant |= theirs
                break
    return meant


def lists_nodes(names: Iterable[str]) -> bool:
    """Whether a table without any column of jobs has one that names servers."""
    return any(_plain(name) in _OF_NODES for name in names)


def _plain(name: str) -> str:
    """A name in lower case with underscores and without a unit: "Duration (s)" is duration."""
    plain = _SECONDS_BEHIND.sub("", name.strip().lower())
    return plain.replace(" ", "_").replace("-", "_")


def _first(ours: str, plain: Mapping[str, str]) -> str | None:
    return next((plain[name] for name in (ours, *_OF_COLUMNS.get(ours, ())) if name in plain), None)


def map_options(meant: Mapping[str, str], unknown: Iterable[str] = ()) -> str:
    """The options of `convert csv` that say what its columns are `meant` to be; THEIRS for the `unknown`.

    An id that nothing is like is often not there at all: # numbers the rows.
    """
    pairs = [*meant.items(), *((ours, "#" if ours == "job_id" else "THEIRS") for ours in unknown)]
    return " ".join(f"--map {shlex.quote(f'{ours}={theirs}')}" for ours, theirs in pairs if ours != theirs)


def convert_command(file: str, meant: Mapping[str, str], unknown: Iterable[str] = ()) -> str:
    """The command that makes a job table of a CSV file whose columns are `meant`."""
    words = ("ringbco convert csv", shlex.quote(file), map_options(meant, unknown), "-o jobs.parquet")
    return " ".join(filter(None, words))


def index_note(source: str, column: pl.Series) -> str:
    """What to say of a column that is left out as an index of pandas."""
    called = f"column {column.name}" if column.name.strip() else "first column, which has no name,"
    return (
        f"{source}: its {called} is taken for pandas' index and ignored: {column.len():,} whole numbers from"
        f" {column[0]} on; `df.to_csv(..., index=False)` writes none"
    )
