"""Slurm: the log of your own cluster, from sacct or slurmdbd, with every row accounted for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import polars as pl

from ringbco.cluster.presets import ServerGroup
from ringbco.errors import InputError, UsageError
from ringbco.io.printed import SACCT
from ringbco.io.times import DAY
from ringbco.sources import pods
from ringbco.sources.account import ROW, Account, Entry, Locate, Rule, clean
from ringbco.sources.followers import counted, linked
from ringbco.sources.parsing import iso
from ringbco.sources.slurm_attempts import MODES, Joiner
from ringbco.sources.slurm_database import read_job_table, read_json, read_tres
from ringbco.sources.slurm_events import COMMAND, SacctmgrEvents, read_events
from ringbco.sources.slurm_files import (
    AT,
    DAMAGED,
    FILE,
    JOB_TABLE,
    NOT_READ,
    TEXTS,
    Records,
    SacctJson,
    SacctText,
    ScontrolNodes,
    read_text,
    spelled,
)
from ringbco.sources.slurm_nodes import (
    Node,
    Nodes,
    groups,
    guess,
    read_nodes,
    recorded_servers,
    refuse_endless,
    virtual_clusters,
)
from ringbco.sources.slurm_notes import Window, array_tasks, held_notes, mig_notes
from ringbco.sources.slurm_rules import first_rules, job_rules, numbers, with_facts, with_ids
from ringbco.sources.slurm_times import moment, with_times
from ringbco.sources.slurm_topology import Labels, read_topology
from ringbco.sources.source import Inputs, Options, Source, Trace, by_submission, first_submission, ran_from
from ringbco.trace.other_names import hint_at

_COLUMNS: Final = (
    *("job_id", "submit_time", "num_gpus", "duration", "user", "vc", "status", "gpu_type", "recorded_on"),
    *("time_limit", "partition", "account", "qos", "cluster", "slurm_priority", "nodes", "num_nodes"),
    *("gpus_per_pod", "array", "after", "recorded_start", "recorded_end", "recorded_servers"),
)
_OURS: Final = _COLUMNS[: _COLUMNS.index("partition")]
_CHOICES: Final = {
    "mode": tuple(MODES),
    "count": ("gpu", "cpu", "node"),
    "submitted": ("eligible", "submit"),
    "open_jobs": ("drop", "keep"),
    "mig": ("drop", "gpu"),
}


_ELSE: Final = {
    "jobid": ("jobid", "jobidraw"),
    "elapsed": ("elapsed", "elapsedraw", "end"),
    "alloctres": ("alloctres", "allocgres"),
}
"""The columns of which the first that is filled is shown."""


_EVENTS: Final = SacctmgrEvents()


class _Clean(Protocol):
    def __call__(
        self, frame: pl.DataFrame, rules: tuple[Rule, ...], *, strict: bool
    ) -> tuple[pl.DataFrame, Account]:
        """What rules leave of a frame."""


def read(inputs: Inputs, options: Options) -> Trace:
    """The job table of the log; submit_time 0 is the midnight before the first kept submission."""
    _refuse_unknown_choices(options)
    if options.topology is not None and not options.want_cluster:
        raise UsageError("--topology: it means nothing without --cluster-out C.toml")
    shown = inputs["log"].shown
    rows, places = _rows(inputs, options)
    asked = places.asked
    rows, utc = with_times(rows, options.timezone, shown)
    rows = with_ids(rows, options.slurm_cluster, shown)
    since, until = (
        None if text is None else moment(text, option, options.timezone, utc=utc)
        for option, text in (("--from", options.since), ("--until", options.until))
    )
    window = Window(rows, utc=utc)

    def cleaned(
        frame: pl.DataFrame, rules: tuple[Rule, ...], *, strict: bool
    ) -> tuple[pl.DataFrame, Account]:
        return clean(frame, rules, unit="rows", file=shown, locate=places, strict=strict, unique=ROW)

    jobs, steps_left_out = cleaned(rows, first_rules(options), strict=False)
    jobs = with_facts(jobs, options, asked=asked, latest=window.latest)
    jobs = jobs.with_columns(submit_at=pl.col("submit_s"))
    waiting = array_tasks(jobs.filter("waits"), places)
    rules = job_rules(options, since, until)
    if options.strict:
        places.stop_at_first(cleaned, (rows, first_rules(options)), (jobs, rules))
    facts = jobs
    jobs, account = cleaned(facts, rules, strict=False)
    account = Account(
        "rows",
        steps_left_out.rows_read,
        account.rows_kept,
        (*steps_left_out.entries, *account.entries, *waiting, *_damaged(rows, places)),
    )
    held = [*mig_notes(facts.filter(~pl.col("waits")), options.mig), *held_notes(jobs)]
    endless = refuse_endless(jobs)
    if endless is not None:
        raise places.bad_cell(endless, "nodelist", "a hostlist such as n[01-04],x7")
    joiner = Joiner(numbers(jobs), account, places)
    joiner.components()
    joiner.attempts(options.mode or "split")
    jobs = joiner.frame
    nodes = read_nodes(inputs["nodes"], options.count or "gpu") if "nodes" in inputs else None
    servers, vcs, notes = _servers(jobs, nodes, options)
    notes += [
        f"{inputs[shape.role].shown} is {shape.what} and is not read: {shape.so}"
        for shape in NOT_READ
        if shape.role in inputs
    ]
    jobs = jobs.with_columns(vc=pl.col("partition").replace(vcs) if vcs else pl.col("partition"))
    jobs, lost = linked(jobs, places, "jobid")
    epoch = first_submission(jobs.select(submit_time="submit_at")) // DAY * DAY
    outages, told = _outages(inputs, options, servers, epoch, utc=utc)
    notes += told
    table = by_submission(
        jobs,
        _COLUMNS,
        submit_time=pl.col("submit_at") - epoch,
        num_gpus=pl.col("num_gpus").cast(pl.UInt32),
        nodes=pl.col("nodelist"),
        **ran_from("start_s", "end_s", epoch),
        recorded_servers=pl.lit(None, pl.String) if nodes is None else recorded_servers(jobs, nodes.nodes),
        gpus_per_pod=pods.whole(pl.col("num_gpus") / pl.col("num_nodes")),
    )
    uneven = table.filter(pl.col("gpus_per_pod").is_null(), pl.col("num_nodes").is_not_null())
    if uneven.height:
        held.append(
            f"num_gpus / num_nodes is no whole number: {uneven.height:,} job{'s'[: uneven.height != 1]}"
            f" without gpus_per_pod, first {uneven['job_id'][0]}"
        )
    added = [name for name in table.columns if name not in _OURS]
    empty = [name for name in added if table[name].null_count() == table.height]
    if not asked and table["gpu_type"].null_count() < table.height:
        held.append("the log has no ReqTRES: gpu_type is the type that each job held")
    return Trace(
        table.drop(*empty),
        joiner.account.plus(lost),
        iso(epoch, utc=utc),
        "midnight before the first kept submission, " + ("UTC" if utc else "on the log's own wall clock"),
        servers,
        (*held, *joiner.notes, *counted(jobs), *window.notes(jobs), *notes),
        _chosen(options),
        outages=outages,
    )


def _outages(
    inputs: Inputs, options: Options, servers: Sequence[ServerGroup] | None, epoch: float, *, utc: bool
) -> tuple[pl.DataFrame | None, list[str]]:
    """The outages and drains of the nodes, and what there is to say of them."""
    if not options.want_outages:
        ask = "is not read: --outages-out FILE makes outages of it"
        return None, [f"{inputs['events'].shown} is {_EVENTS.what} and {ask}"] if "events" in inputs else []
    if "events" not in inputs:
        raise UsageError(f"--outages-out: give {_EVENTS.what} beside the log: `{COMMAND} > events.psv`")
    names = [name for group in servers or () for name in group.names or ()]
    named = len(names) == sum(group.count for group in servers or ())
    if servers is not None and not named:
        raise UsageError(
            "--outages-out: the nodes have names that no server can have: mend them in the files"
        )
    known = names if servers is not None else None
    return read_events(inputs["events"], epoch, options.timezone, known, named=named, utc=utc)


def _refuse_unknown_choices(options: Options) -> None:
    for name, choices in _CHOICES.items():
        value = getattr(options, name)
        if value is not None and value not in choices:
            option = "open" if name == "open_jobs" else name
            raise UsageError(
                f"--{option} {value}: choose one of {', '.join(choices)}{hint_at(value, choices)}"
            )


def _chosen(options: Options) -> dict[str, str]:
    """The options that shaped the table, for its footer."""
    names = ("mode", "count", "timezone", "submitted", "since", "until", "slurm_cluster", "open_jobs", "mig")
    given = {name: getattr(options, name) for name in names}
    return {"mode": "split"} | {name: value for name, value in given.items() if value is not None}


class _Places:
    """Where rows stand: their files, their numbers in them, their lines, their cells."""

    def __init__(self, rows: pl.DataFrame, records: Sequence[Records], names: Sequence[str]) -> None:
        self._rows, self._records, self._names = rows, records, names
        self._begins = [int((rows[FILE] < number).sum()) for number in range(len(records))]
        self._last = 0
        self.asked = any(each.asked for each in records)

    def __call__(self, row: int, column: str) -> tuple[int | None, int | None, object]:
        self._last = row
        file = int(self._rows[FILE][row])
        texts = [self._rows[name][row] for name in _ELSE.get(column, (column,)) if name in TEXTS]
        value = next((text for text in texts if text is not None), None)
        line = self._records[file].line(int(self._rows[AT][row]))
        return row - self._begins[file] + 1, line, value

    def bad_cell(self, row: int, column: str, expected: str) -> InputError:
        """The error for a cell that is not what was expected."""
        number, line, value = self(row, column)
        return InputError(
            expected, file=self._file(row), row=number, line=line, column=spelled(column), value=value
        )

    def _file(self, row: int) -> str:
        return self._names[int(self._rows[FILE][row])]

    def stop_at_first(self, cleaned: _Clean, *parts: tuple[pl.DataFrame, tuple[Rule, ...]]) -> None:
        """Raise InputError for the first row that any of the rules drops or changes (--strict)."""
        found = []
        for frame, rules in parts:
            try:
                cleaned(frame, rules, strict=True)
            except InputError as error:
                found.append((self._last, error))
        if found:
            row, first = min(found, key=lambda each: each[0])
            raise first.replace(file=self._file(row), column=spelled(first.column or ""))


def _rows(inputs: Inputs, options: Options) -> tuple[pl.DataFrame, _Places]:
    """The rows of all files, and where they stand."""
    records = []
    for opened, shape in inputs.all("log"):
        if isinstance(shape, SacctJson):
            records.append(read_json(opened))
        elif shape is JOB_TABLE:
            records.append(read_job_table(opened, read_tres(options.tres)))
        else:
            records.append(read_text(opened, options.fields or ()))
    rows = pl.concat(
        each.frame.with_columns(pl.lit(number, pl.UInt32).alias(FILE)) for number, each in enumerate(records)
    ).with_row_index(ROW)
    return rows, _Places(rows, records, [opened.shown for opened, _ in inputs.all("log")])


def _damaged(rows: pl.DataFrame, locate: Locate) -> Iterator[Entry]:
    met = rows.filter(DAMAGED)
    if met.height:
        _, line, _ = locate(int(met[ROW][0]), "jobid")
        reason = "has bytes that are no UTF-8: read as \ufffd"
        yield Entry("noted", reason, met.height, met.height, line, None)


def _servers(
    jobs: pl.DataFrame, nodes: Nodes | None, options: Options
) -> tuple[tuple[ServerGroup, ...] | None, dict[str, str], list[str]]:
    """The servers, the virtual cluster of each partition, and what there is to say of them."""
    if nodes is not None:
        vcs, notes = virtual_clusters(nodes.nodes), []
        if nodes.without:
            notes.append(f"nodes without GPUs, left out of the cluster: {len(nodes.without):,}")
        if nodes.down:
            notes.append(f"nodes drained or down, which count as servers: {nodes.down:,}")
        strange = sorted(set(jobs["partition"].drop_nulls().unique()) - set(vcs))
        if strange:
            notes.append(
                f"no node with GPUs is in partition {', '.join(strange)}: its jobs have no servers"
                " under --vc split"
            )
        return groups(nodes.nodes, vcs, _tiers(nodes.nodes, nodes.without, options, notes)), vcs, notes
    if not options.want_cluster:
        return None, {}, []
    made = guess(jobs)
    if not made:
        return None, {}, []
    vcs = virtual_clusters(made)
    told = (
        f"the cluster is a guess: {len(made):,} nodes of NodeList, each with the most GPUs that jobs held"
        " there at once, rounded up to 1, 2, 4, 8 or 16; `scontrol show node -o > nodes.txt` has the facts"
    )
    notes = [told]
    return groups(made, vcs, _tiers(made, None, options, notes)), vcs, notes


def _tiers(
    nodes: Sequence[Node], others: frozenset[str] | None, options: Options, notes: list[str]
) -> dict[str, Labels]:
    """The groups of each node by --topology, and a note on what is left to fill in.

    others: known nodes that are no servers, None where that is not known.
    """
    if options.topology is None:
        return {}
    found = read_topology(options.topology, [node.name for node in nodes], others)
    names = [name for name, _ in found[nodes[0].name]]
    notes.append(
        f"{options.topology} says how servers are joined, and not how fast: fill in the bandwidth of"
        f" {', '.join(names)} in the cluster file"
    )
    return found


SOURCE: Final = Source(
    name="slurm",
    title="Slurm: the log of your own cluster (sacct, slurmdbd)",
    url="https://slurm.schedmd.com/sacct.html",
    licence="by log: your own",
    citation="""\
@inproceedings{yoo2003slurm,
  author    = {Yoo, Andy B. and Jette, Morris A. and Grondona, Mark},
  title     = {{SLURM}: Simple {Linux} Utility for Resource Management},
  booktitle = {Job Scheduling Strategies for Parallel Processing (JSSPP 2003)},
  series    = {Lecture Notes in Computer Science},
  volume    = {2862},
  pages     = {44--60},
  year      = {2003},
  doi       = {10.1007/10968987_3}
}""",
    shapes=(SacctText(), SacctJson(), JOB_TABLE, ScontrolNodes(), _EVENTS, *NOT_READ),
    needs=("log",),
    read=read,
    options=frozenset(
        {"mode", "count", "timezone", "submitted", "from", "until", "fields", "slurm-cluster", "tres"}
        | {"open", "mig", "outages-out", "topology"}
    ),
    cluster_hint=f"give the output of `scontrol show node -o`, or a log with NodeList: `{SACCT}`",
    several=True,
)
