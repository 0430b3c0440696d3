"""What a trace format is to the rest: its name, its files, where it comes from, and how it is read."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import polars as pl

from ringbco.cluster.groups import MAX_GPUS as MOST_OF_CLUSTER
from ringbco.cluster.presets import ServerGroup
from ringbco.errors import InputError, UsageError, show_value
from ringbco.sources.account import ROW, Account, Entry, Rule, clean
from ringbco.sources.opening import Opened
from ringbco.sources.parsing import number, optional_text, whole_number
from ringbco.sources.records import first_record
from ringbco.sources.rules import MAX_GPUS, no_more_cells
from ringbco.sources.tables import EXTRA, CsvFile, CsvTable, header_names
from ringbco.trace.elastic import Elastic
from ringbco.trace.recorded import RAN


class Shape(Protocol):
    """One kind of file that a trace consists of."""

    @property
    def role(self) -> str:
        """What the file is to its source."""

    @property
    def what(self) -> str:
        """What the file is to a user."""

    def recognises(self, head: str) -> bool:
        """Whether a file that starts with `head` is of this kind."""

    def likeness(self, head: str) -> float:
        """How near it comes, 0 to 1, for saying what is missing."""

    def refuse_missing(self, opened: Opened) -> None:
        """Raise InputError for what `opened` lacks, if that can be said."""


_NAMES_SHOWN: Final = 8
UNKNOWN_TYPE: Final = "unknown"
"""The GPU type of nodes whose model is left blank, where others have one."""


@dataclass(frozen=True)
class Options:
    """What a user may choose in a conversion.

    known_vcs: leave out jobs of virtual clusters without servers. pods: also write the GPUs of each pod.
    want_cluster, want_outages: the servers, and their outages, too are wanted. throughputs, profiles: where
    measured speeds stand, for sources that have them apart. elastic: how jobs are made elastic, None for as
    they are. unit: of numeric times and durations, None for seconds. columns: the names of a file without a
    header. deadline_from: what deadlines count from, None for the epoch.

    Of slurm, as the command line has them: count, timezone, submitted, since (--from), until, fields,
    slurm_cluster, tres, topology, open_jobs (--open), mig. parameters (-P): of a source of an installed
    package, as values or as text.
    """

    strict: bool = False
    known_vcs: bool = False
    pods: bool = False
    mode: str | None = None
    snapshot: str | None = None
    column_map: Mapping[str, str] = field(default_factory=dict)
    want_cluster: bool = False
    want_outages: bool = False
    throughputs: Path | None = None
    profiles: Path | None = None
    elastic: Elastic | None = None
    unit: str | None = None
    columns: tuple[str, ...] | None = None
    deadline_from: str | None = None
    count: str | None = None
    timezone: str | None = None
    submitted: str | None = None
    since: str | None = None
    until: str | None = None
    fields: tuple[str, ...] | None = None
    slurm_cluster: str | None = None
    tres: Path | None = None
    topology: Path | None = None
    open_jobs: str | None = None
    mig: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Inputs:
    """The opened files of one trace by their role; `further` are those of a source that takes several."""

    by_role: Mapping[str, Opened]
    shapes: Mapping[str, Shape]
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # columns, for files without a header
    further: Sequence[tuple[Opened, Shape]] = ()

    def __getitem__(self, role: str) -> Opened:
        return self.by_role[role]

    def __contains__(self, role: str) -> bool:
        return role in self.by_role

    def all(self, role: str) -> tuple[tuple[Opened, Shape], ...]:
        """Every file of that role, with its shape."""
        more = (pair for pair in self.further if pair[1].role == role)
        return ((self.by_role[role], self.shapes[role]), *more)

    def csv(self, role: str) -> CsvFile:
        """The CSV table of that role."""
        table = self.shapes[role]
        assert isinstance(table, CsvTable)
        return CsvFile(self.by_role[role], table, names=self.names.get(role, ()))


@dataclass(frozen=True)
class Trace:
    """What a source makes of its files.

    `frame` has the job table's columns (and others, kept), in the file's order. `epoch` is the moment of
    submit_time 0 in ISO 8601; `epoch_note` says what to know about it. `servers` is None where the source
    cannot know its cluster; `no_servers` says why, where its files name servers all the same. `notes` are
    sentences for the user.
    """

    frame: pl.DataFrame
    account: Account
    epoch: str
    epoch_note: str = ""
    servers: tuple[ServerGroup, ...] | None = None
    notes: Sequence[str] = ()
    choices: Mapping[str, str] = field(default_factory=dict)  # options that shaped it, for the footer
    facts: Mapping[str, str] = field(default_factory=dict)  # further keys of the footer
    tables: pl.DataFrame | None = None  # measured speeds, where the source has them
    no_servers: str = ""
    outages: pl.DataFrame | None = None  # when its servers were down, or drained, where that is wanted


@dataclass(frozen=True)
class Source:
    """A public trace format. `needs` are the roles without which there is nothing to convert."""

    name: str
    title: str
    url: str
    licence: str
    citation: str
    shapes: tuple[Shape, ...]
    needs: tuple[str, ...]
    read: Callable[[Inputs, Options], Trace]
    options: frozenset[str] = frozenset()
    headers_apart: bool = False  # header lines are published as files of their own
    cluster_hint: str = ""  # how --cluster-out could be had, where it cannot
    asks: str = ""  # the option without which it cannot be read, as a command has it
    several: bool = False  # takes several files of jobs at once
    opens: bool = True  # its files are text, unpacked for it; else it is given the files as they are

    def role(self, head: str) -> Shape | None:
        """The shape of a file of this source that starts with `head`, or None."""
        return next((shape for shape in self.shapes if shape.recognises(head)), None)

    def holds_no_jobs(self, shape: Shape) -> bool:
        """Whether files of that shape only go beside those of the jobs: lists of nodes, say."""
        return shape.role not in self.needs

    def command(self, file: str, shape: Shape) -> str:
        """The command that converts a file of that shape; in capitals what has to be given besides."""
        rest = [role.upper() for role in self.needs if role != shape.role]
        words = ["ringbco convert", self.name, *rest, shlex.quote(file), self.asks, "-o jobs.parquet"]
        if self.holds_no_jobs(shape):
            words.append("--cluster-out cluster.toml")
        return " ".join(filter(None, words))

    def not_jobs_yet(self, file: str, shape: Shape) -> InputError:
        """The error for a file of that shape where a job table was expected: what it is, and its command."""
        if not self.holds_no_jobs(shape):
            hint = f"convert it first: `{self.command(file, shape)}`"
            return InputError(f"is {shape.what}, not a job table yet", file=file, hint=hint)
        missing = [next(other.what for other in self.shapes if other.role == role) for role in self.needs]
        hint = f"give it beside {' and '.join(missing)}: `{self.command(file, shape)}`"
        return InputError(f"is {shape.what}, which holds no jobs", file=file, hint=hint)

    def lone_header(self, opened: Opened) -> tuple[str, ...] | None:
        """The columns in a file that holds nothing but a header line (published beside the data), or None."""
        first, _, rest = opened.head.partition("\n")
        shape = self.role(opened.head)
        if rest.strip() or not self.headers_apart or not isinstance(shape, CsvTable):
            return None
        return header_names(opened, shape) if not shape.is_headerless(first_record(first)) else None

    def no_cluster(self) -> UsageError:
        """The error for --cluster-out where the servers are not known."""
        return UsageError(
            f"--cluster-out: {self.name} does not say which servers it ran on"
            + (f"; {self.cluster_hint}" if self.cluster_hint else "")
        )


def clean_csv(
    file: CsvFile,
    query: Sequence[pl.Expr],
    rules: Sequence[Rule],
    *,
    unit: str,
    options: Options,
    id_column: str,
) -> tuple[pl.DataFrame, Account]:
    """Read `query` from a CSV file and clean it; `id_column` is the file's name of what became job_id."""
    return clean(
        file.read([*query, pl.col(EXTRA)]),
        [no_more_cells(len(file.columns)), *rules],
        unit=unit,
        file=file.opened.shown,
        locate=file.locate(),
        strict=options.strict,
        unique_column=id_column,
    )


def refuse_empty(account: Account, file: str) -> None:
    """Raise InputError if no row was kept, with the commonest reasons."""
    if account.rows_kept:
        return
    if not account.rows_read:
        raise InputError(f"has a header but no {account.unit}", file=file, hint="the download may be cut off")
    dropped = sorted((e for e in account.entries if e.kind == "dropped" and e.rows), key=lambda e: -e.rows)
    raise InputError(
        f"none of its {account.rows_read:,} {account.unit} can be kept",
        file=file,
        hint="dropped: "
        + ", ".join(f"{e.rows:,} {e.reason}" + (f" ({e.first})" if e.first else "") for e in dropped[:3]),
    )


def first_submission(frame: pl.DataFrame) -> float:
    """The earliest submit_time of the kept rows (0 if there are none)."""
    first = frame["submit_time"].min()
    return first if isinstance(first, float) else 0.0


def by_submission(frame: pl.DataFrame, columns: Sequence[str], **extra: Any) -> pl.DataFrame:
    """`columns` in that order, rows by submit_time; those of one second stay as they were in the file.

    Without after and think_time where no row has them.
    """
    table = frame.with_columns(**extra).sort("submit_time", maintain_order=True).select(columns)
    chains = (name for name in ("after", "think_time") if name in columns)
    empty = [name for name in chains if table[name].null_count() == table.height]
    return table.drop(ROW, *empty, strict=False)


def ran_from(start: str, end: str, epoch: float = 0.0) -> dict[str, pl.Expr]:
    """When each job ran in the log, s on the clock of submit_time: the columns of `RAN`."""
    return {name: pl.col(time) - epoch for name, time in zip(RAN, (start, end), strict=True)}


def without_servers(frame: pl.DataFrame, servers: Sequence[ServerGroup], why: str) -> tuple[str, ...]:
    """The note on jobs whose virtual cluster none of `servers` is of, or nothing if there are none."""
    sized = sorted({group.vc for group in servers if group.vc})
    left = frame.filter(~pl.col("vc").is_in(sized).fill_null(False))
    if left.is_empty():
        return ()
    names = sorted(left["vc"].drop_nulls().unique())
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    return (
        f"{left.height:,} job{'s belong' if left.height != 1 else ' belongs'} to virtual clusters {why} "
        f"({shown or 'none named'}): leave them out with --known-vcs, or replay with --vc pool",
    )


def read_nodes(
    file: CsvFile,
    options: Options,
    *,
    name: str,
    gpus: str,
    model: str | None = None,
    beside: tuple[str, str] | None = None,
) -> tuple[tuple[ServerGroup, ...], tuple[Entry, ...]]:
    """The servers that a table of nodes lists, in its order; equal neighbours make one group.

    model: the column of GPU types, None where there is none. beside: columns of CPU and memory; the servers
    have them if every node says both.

    Nodes of no GPUs are left out: the second part of the answer notes how many. Where some nodes have a
    model, the others are of `UNKNOWN_TYPE`, since servers name types all or none. Raises InputError for a
    number of GPUs that is none (under `options.strict` a blank one too), a node listed twice, or if no GPU
    is left.
    """
    columns = [optional_text(name), optional_text(gpus).alias("written"), number(gpus)]
    columns.append(pl.lit(None, pl.String).alias("model") if model is None else optional_text(model))
    model = model or "model"
    rows = file.read([*columns, *(whole_number(column) for column in beside or ())])
    count, blank = pl.col(gpus), pl.col("written").is_null()
    bad = rows.filter(
        (count.is_null() & ~blank) | (count < 0) | (count != count.floor()) | (count > MAX_GPUS)
    )
    beyond = rows.filter(count.fill_null(0).cum_sum() > MOST_OF_CLUSTER)
    if options.strict:
        bad = rows.filter(blank).vstack(bad).sort(ROW)
    if bad.height:
        raise file.bad_cell(int(bad[ROW][0]), gpus, "a whole number of GPUs")
    if beyond.height:
        raise file.bad_cell(int(beyond[ROW][0]), gpus, f"at most {MOST_OF_CLUSTER} GPUs in all")
    twice = rows.filter(pl.col(name).is_not_null() & ~pl.col(name).is_first_distinct())
    if twice.height:
        raise file.bad_cell(int(twice[ROW][0]), name, "a node of its own; an earlier row has it, so drop one")
    unnamed = pl.col(model).is_null()
    if rows.filter(count > 0, ~unnamed).is_empty():
        unnamed = pl.lit(value=False)  # no node has a model: no server names a type
    noted = (
        (f"node left out of the cluster: no GPUs ({gpus} = 0)", gpus, rows.filter(count == 0)),
        (f"node left out of the cluster: {gpus} is blank", gpus, rows.filter(blank)),
        (f"node without {model}: its GPU type is {UNKNOWN_TYPE}", model, rows.filter(count > 0, unnamed)),
    )
    known = list(beside or ())
    if (
        rows.filter(count > 0)
        .select(pl.any_horizontal(pl.lit(value=False), pl.col(known).is_null()).any())
        .item()
    ):
        known = []
    kinds = rows.filter(count > 0).select(
        count.cast(pl.UInt32),
        pl.when(unnamed).then(pl.lit(UNKNOWN_TYPE)).otherwise(model).alias(model),
        *known,
    )
    if kinds.is_empty():
        raise InputError("lists no node with a GPU", file=file.opened.shown)
    groups = kinds.group_by(pl.struct(pl.all()).rle_id().alias("run"), maintain_order=True).agg(
        pl.len(), pl.all().first()
    )
    return (
        tuple(
            ServerGroup(count, size, None, kind, (has[0], has[1]) if has else None)
            for _, count, size, kind, *has in groups.iter_rows()
        ),
        tuple(_noted(file, *entry) for entry in noted if entry[2].height),
    )


def server_numbers(file: CsvFile, *, name: str, gpus: str) -> dict[str, int]:
    """The number, from 0, of each server that `read_nodes` makes of a table of nodes, by the node's name."""
    nodes = file.read([optional_text(name), number(gpus)]).filter(pl.col(gpus) > 0)[name]
    return {node: at for at, node in enumerate(nodes) if node is not None}


def _noted(file: CsvFile, reason: str, column: str, met: pl.DataFrame) -> Entry:
    """What the account says of the rows of a table of nodes that a reason is about."""
    _, line, value = file.locate()(int(met[ROW][0]), column)
    return Entry("noted", reason, met.height, met.height, line, show_value(value))
