"""Traces into job tables: one format a module, or a function of another package; `convert` runs one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ringbco.errors import InputError, UsageError
from ringbco.io.extensions import SOURCES as GROUP
from ringbco.io.extensions import offers
from ringbco.io.process import scratch_folder

if TYPE_CHECKING:
    import polars as pl

    from ringbco.cluster.spec import Cluster
    from ringbco.sources.account import Account
    from ringbco.sources.opening import Opened
    from ringbco.sources.source import Inputs, Options, Shape, Source
    from ringbco.trace.jobs import JobTable
    from ringbco.trace.rate_table import RateTable

__all__ = ["SOURCES", "Conversion", "convert", "get", "names", "recognise"]

# Name on the command line -> module. The order is that of the documentation.
SOURCES: Final[Mapping[str, str]] = {
    "slurm": "slurm",
    "philly": "philly",
    "helios": "helios",
    "acme": "acme",
    "pai": "pai",
    "openb": "openb",
    "spot-gpu": "spot_gpu",
    "elasticflow": "elasticflow",
    "gavel": "gavel",
    "pollux": "pollux",
    "swf": "swf",
    "csv": "csv_table",
}


@dataclass(frozen=True)
class Conversion:
    """A finished conversion: the job table, its account, the cluster (None unless asked for), remarks.

    tables: the measured speeds, None where the source has none. outages: when its servers were down or
    drained, as `--outages` takes them; None unless asked for.
    """

    table: JobTable
    account: Account
    cluster: Cluster | None
    notes: tuple[str, ...]
    epoch: str
    tables: RateTable | None = None
    outages: pl.DataFrame | None = None


def names() -> list[str]:
    """The names of all sources: this package's, then those of other installed packages."""
    return [*SOURCES, *sorted(offers(GROUP).keys() - SOURCES.keys())]


def get(name: str) -> Source:
    """The source of that name.

    Raises UsageError naming those there are, or the package that offers a source by a name of this package's;
    SourceError for a source of another package that cannot be loaded.
    """
    if name not in SOURCES:
        from ringbco.sources.installed import installed

        found = installed(name)
        if found is None:
            raise _unknown(name)
        return found
    point = offers(GROUP).get(name)
    if point is not None:
        from ringbco.sources.installed import of_package

        raise UsageError(
            f"source {name}: {of_package(point)} offers a source by this name too, which is one of ringbco's:"
            " rename its entry point, or uninstall it"
        )
    return _built_in(name)


def _built_in(name: str) -> Source:
    source: Source = import_module(f"ringbco.sources.{SOURCES[name]}").SOURCE
    return source


def _unknown(name: str) -> UsageError:
    from ringbco.cluster.presets import presets_like
    from ringbco.trace.other_names import hint_at

    hint = hint_at(name, known := names())
    if not hint:  # venus, say, is a cluster of helios
        meant = {cluster.split("-")[0] for cluster in presets_like(name)} & SOURCES.keys()
        hint = f"; did you mean {min(meant)}?" if len(meant) == 1 else ""
    return UsageError(f"no source {name}: choose one of {', '.join(known)}{hint}")


def convert(name: str, inputs: Sequence[str | Path], options: Options | None = None) -> Conversion:
    """Convert the files of one trace of the source `name` into a job table.

    Raises InputError for files that are missing, damaged, of another source or without a usable row (and,
    under `options.strict`, for the first row that would be dropped or changed); UsageError for options that
    the source does not have, or for a cluster it cannot know.
    """
    from ringbco.cluster.gpu_types import unknown_types
    from ringbco.cluster.spec import Cluster
    from ringbco.cluster.tiers import unmeasured
    from ringbco.sources.source import Options as Choices
    from ringbco.sources.source import refuse_empty
    from ringbco.trace.jobs import from_frame, provenance
    from ringbco.trace.rate_table import RateTable

    options = options or Choices()
    source = get(name)
    _refuse_foreign_options(source, options)
    with _opened(source, [Path(path) for path in inputs]) as files:
        trace = source.read(files, options)
        main = files[source.needs[0]].shown + ("" if source.opens else f" (read by {source.name})")
    refuse_empty(trace.account, main)
    if options.want_cluster and trace.servers is None and not trace.no_servers:
        raise source.no_cluster()
    metadata = provenance(
        source.name,
        converter="convert",
        rows_read=trace.account.rows_read,
        dropped=trace.account.dropped,
        changed=trace.account.changed,
        epoch=trace.epoch,
        options={
            **trace.choices,
            **{key: str(value) for key, value in options.parameters.items()},
            **({"pods": "yes"} if options.pods else {}),
            "inputs": ", ".join(Path(path).name for path in inputs),
            **({} if options.elastic is None else options.elastic.described()),
        },
    )
    metadata |= trace.account.to_metadata()
    metadata |= {"ringbco.licence": source.licence, "ringbco.url": source.url}
    metadata |= trace.facts
    if trace.epoch_note:
        metadata["ringbco.epoch_note"] = trace.epoch_note
    table = from_frame(trace.frame, main, metadata)
    if not source.opens:  # it is sorted once its rows have been checked, whose errors name the source's rows
        table = from_frame(table.frame.sort("submit_time", maintain_order=True), main, metadata)
    cluster, notes = None, list(trace.notes)
    if trace.no_servers:
        notes.insert(0, ("no cluster file: " if options.want_cluster else "") + trace.no_servers)
    if options.elastic is not None:
        frame, made = options.elastic.apply(table.frame)
        table = from_frame(frame, main, metadata)
        notes.append(f"{made:,} of {table.num_jobs:,} jobs are elastic")
    if options.want_cluster and trace.servers is not None:
        declared = unknown_types(group.gpu_type for group in trace.servers)
        try:
            cluster = Cluster.from_groups(
                trace.servers, name=source.name, gpu_types=declared, tiers=unmeasured(trace.servers)
            )
        except InputError as error:
            raise error.replace(file=main) from None
        if declared:
            notes.append(
                f"nothing is known of the GPU types {', '.join(fact.name for fact in declared.values())}: the"
                " cluster file gives each"
                " speed 1 under [gpu_types], to be mended there"
            )
    tables = None if trace.tables is None else RateTable.read(trace.tables)
    return Conversion(table, trace.account, cluster, tuple(notes), trace.epoch, tables, trace.outages)


def recognise(path: Path) -> tuple[str, str] | None:
    """The source whose file this is and what the file is to it; None for a file of no source."""
    from ringbco.sources.opening import heads

    try:
        found = shape_of(heads(path))
    except InputError:
        return None
    return None if found is None else (found[0].name, found[1].what)


def not_jobs_yet(file: str, heads: Iterable[str]) -> InputError | None:
    """What to raise for a file that begins so, or an archive of such, if it is a public trace."""
    found = shape_of(heads)
    return None if found is None else found[0].not_jobs_yet(file, found[1])


def shape_of(heads: Iterable[str]) -> tuple[Source, Shape] | None:
    """The first source one of whose files begins with one of `heads`, and the shape of that file."""
    return next(filter(None, map(_shape_of, heads)), None)


def _shape_of(head: str, but: str = "csv") -> tuple[Source, Shape] | None:
    """The source whose file begins with `head`, and its shape; csv, which takes anything, is left out."""
    for source in (_built_in(name) for name in SOURCES if name not in (but, "csv")):
        shape = source.role(head)
        if shape is not None:
            return source, shape
    return None


def _refuse_foreign_options(source: Source, options: Options) -> None:
    given = {
        "mode": options.mode,
        "snapshot": options.snapshot,
        "map": options.column_map,
        "known-vcs": options.known_vcs,
        "pods": options.pods,
        "throughputs": options.throughputs,
        "profiles": options.profiles,
        "unit": options.unit,
        "columns": options.columns,
        "deadline-from": options.deadline_from,
        "count": options.count,
        "timezone": options.timezone,
        "submitted": options.submitted,
        "from": options.since,
        "until": options.until,
        "fields": options.fields,
        "slurm-cluster": options.slurm_cluster,
        "tres": options.tres,
        "topology": options.topology,
        "open": options.open_jobs,
        "mig": options.mig,
        "outages-out": options.want_outages,
        "P": options.parameters,
    }
    for option, value in given.items():
        if value and option not in source.options:
            raise UsageError(f"{'-' if option == 'P' else '--'}{option} is not an option of {source.name}")


@contextmanager
def _opened(source: Source, paths: Sequence[Path]) -> Iterator[Inputs]:
    """The files by role, unpacked for as long as they are read."""
    from ringbco.sources.opening import open_inputs
    from ringbco.sources.source import Inputs as Files

    if not paths:
        raise UsageError(f"convert {source.name}: give {source.shapes[0].what}")
    if not source.opens:
        yield _as_they_are(source, paths)
        return
    with scratch_folder("ringbco-") as scratch:
        by_role: dict[str, Opened] = {}
        shapes: dict[str, Shape] = {}
        names: dict[str, tuple[str, ...]] = {}
        further: list[tuple[Opened, Shape]] = []
        for opened in open_inputs(paths, scratch, lambda head: source.role(head) is not None):
            shape = source.role(opened.head) or _refuse_stranger(source, opened)
            columns = source.lone_header(opened)
            if columns is not None:
                names[shape.role] = columns
                continue
            if shape.role in by_role and source.several and shape.role in source.needs:
                further.append((opened, shape))
                continue
            if shape.role in by_role:
                raise UsageError(
                    f"convert {source.name}: {by_role[shape.role].shown} and {opened.shown} are both "
                    f"{shape.what}; convert them one by one"
                )
            by_role[shape.role], shapes[shape.role] = opened, shape
        for shape in source.shapes:
            if shape.role in source.needs and shape.role not in by_role:
                alone = [
                    f": {by_role[role].shown} is {other.what}, which holds no jobs"
                    for role, other in shapes.items()
                    if source.holds_no_jobs(other)
                ]
                raise UsageError(f"convert {source.name}: give {shape.what} as well{''.join(alone[:1])}")
        yield Files(by_role, shapes, names, further)


def _as_they_are(source: Source, paths: Sequence[Path]) -> Inputs:
    from ringbco.sources.opening import Opened
    from ringbco.sources.source import Inputs as Files

    for path in paths:
        if not path.exists():
            raise InputError("no such file", file=path, hint="check the path")
    [shape] = source.shapes
    first, *others = ((Opened(path, str(path), ""), shape) for path in paths)
    return Files({shape.role: first[0]}, {shape.role: shape}, further=others)


def _refuse_odd_cell(source: Source, opened: Opened) -> None:
    """Raise InputError for a file without column names whose first row is of one table but for a cell."""
    from ringbco.sources.tables import CsvTable

    tables = [shape for shape in source.shapes if isinstance(shape, CsvTable)]
    odd = [(table, cell) for table in tables if (cell := table.odd_cell(opened.head)) is not None]
    if len(odd) == 1:
        table, (column, value) = odd[0]
        expected = f"a row of {table.what}, or its column names"
        raise InputError(
            expected, file=opened.shown, row=1, line=1, column=column, value=value, hint="mend that cell"
        )


def _refuse_stranger(source: Source, opened: Opened) -> Shape:
    """Raise InputError for a file that is none of this source's, saying whose it is or what it lacks."""
    from ringbco.io.printed import not_a_table

    found = _shape_of(opened.head, source.name)
    if found is not None:
        raise InputError(
            f"looks like {found[1].what}, not a file of {source.name}",
            file=opened.shown,
            hint=f"use `ringbco convert {found[0].name} ...`",
        )
    if _is_job_table(opened.head):
        raise InputError(
            "is a job table already",
            file=opened.shown,
            hint="give it to `ringbco replay` as it is, or clean it with `ringbco convert csv`",
        )
    printed = not_a_table(opened.shown, opened.head)
    if printed is not None:
        raise printed
    nearest = max(source.shapes, key=lambda shape: shape.likeness(opened.head))
    if nearest.likeness(opened.head) >= 0.5:
        nearest.refuse_missing(opened)
    _refuse_odd_cell(source, opened)
    raise InputError(
        f"is not a file of {source.name}: expected {' or '.join(shape.what for shape in source.shapes)}",
        file=opened.shown,
        hint="for a table of your own use `ringbco convert csv --map ours=theirs ...`"
        if source.name != "csv"
        else None,
    )


def _is_job_table(head: str) -> bool:
    from ringbco.sources.records import first_record
    from ringbco.trace.jobs import REQUIRED

    return set(REQUIRED) <= set(first_record(head))
