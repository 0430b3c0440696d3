"""`ringbco convert`: the files of a public trace; a job table, and the account of its cleaning."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ringbco.cli.options import takes
from ringbco.io.terminal import note, say, say_json
from ringbco.sources import names

if TYPE_CHECKING:
    from ringbco.io.marks import Mark
    from ringbco.sources import Conversion
    from ringbco.trace.elastic import Elastic

_ROWS: Final = f"""
source SOURCE: The format: {", ".join(names())}.
inputs INPUT...: The trace's files in any order, plain or compressed: gzip, zstd, bzip2, tar or zip.
[Output]
out --out -o JOBS.parquet: The job table to write: .parquet (with the account in its footer) or .csv.
cluster_out C.toml: Also write the servers the trace ran on, for `ringbco replay --cluster`.
outages_out O.parquet: slurm: also write when nodes were down or drained, by the events of `sacctmgr -P list
  events`, given as an INPUT, for `ringbco replay --outages`. .parquet or .csv.
tables_out T.parquet: gavel, pollux: also write the measured speeds, for `ringbco replay --tables`.
[Options of one source]
mode NAME: philly, slurm: how attempts become a job. span: from first start to last end, GPUs of the first;
  sum: run times added, GPUs of the widest; split: one job per attempt, each after
  the one before (column after); last: only the last. Default: span for philly, split for slurm.
known_vcs: philly, helios: drop jobs of virtual clusters without servers; a replay on --cluster-out rejects
  them. helios: also give cluster_gpu_number.csv.
pods: spot-gpu, pai, openb, helios, acme: also write gpus_per_pod, the GPUs of each worker, task instance, pod
  or node of a job. slurm always does. Default: a job's GPUs may lie anywhere.
snapshot YYYY-MM-DD: helios: the day from which --cluster-out takes the GPUs per virtual cluster. Default:
  2020-09-01.
column_map --map ours=theirs: csv: what the file calls a column of the job table. Repeatable. start_time and
  end_time replace a missing duration; job_id=# numbers the rows.
columns NAME[,NAME...]: csv: column names, in order, for a file without a header line.
unit ms|s|min|h: csv: the unit of numeric times and durations. Default: s.
deadline_from submit: csv: deadlines are seconds after submission. Default: times on the clock of submit_time.
throughputs FILE: gavel: the measured throughputs, simulation_throughputs.json, plain or gzip.
profiles DIR: pollux: the folder of profiles, with one folder per application.
[Options of slurm]
count {{gpu|cpu|node}}: What becomes num_gpus: GPUs held, or processors or nodes, for clusters without GPUs.
  Default: gpu.
timezone ZONE: Where times without an offset are from, such as Europe/Berlin; they become UTC. Default: times
  are wall clocks.
submitted {{eligible|submit}}: When a job enters the queue: once it is eligible, as Slurm counts waiting, or
  at its submission. Default: eligible.
since --from T: Drop jobs submitted before T, such as 2026-05-01 or 2026-05-01T08:00.
until T: Drop jobs submitted after T.
fields LIST: The columns of a file without a header (sacct -n): the list that sacct -o had.
slurm_cluster NAME: Take only jobs of this cluster. Required if the log has several.
tres FILE: For slurmdbd's job_table: the names of trackable resources, as lines id,name. Default: 1001 is
  gres/gpu.
topology FILE: topology.conf, for --cluster-out: switches above nodes become tiers switch1, switch2 and so on,
  blocks a tier block. Their bandwidths are to be filled in.
open_jobs --open {{drop|keep}}: Jobs that still run: drop them, or keep them with the run time so far.
  Default: drop.
mig {{drop|gpu}}: MIG profiles: leave these parts of a GPU out, or count each as one GPU. Default: drop.
[Options of installed sources]
parameters -P NAME=VALUE: A parameter of the source's function. Repeatable.
[Elastic jobs]
elastic LOW:HIGH: Let jobs hold from LOW to HIGH times num_gpus, such as 0.5:2, with noise scales from a
  catalogue. Default: jobs as in the trace.
elastic_share
seed S: Seed that picks the jobs of --elastic, and models for jobs that name none. Default: 0.
[Output]
csv_safe: In a .csv, put ' before texts that a spreadsheet reads as formulas: those that begin with = + - @.
  Default: texts unchanged.
[Options]
strict: Stop at the first row that would be dropped or changed.
cite: Only print where SOURCE is published, its licence and a BibTeX entry.
[Output]
force: Replace files that ringbco wrote.
as_json --json: Print the account as JSON and nothing else.
quiet
"""


@takes(_ROWS)
def convert(
    source: str,
    inputs: list[Path] | None = None,
    *,
    out: Path | None = None,
    cluster_out: Path | None = None,
    outages_out: Path | None = None,
    tables_out: Path | None = None,
    mode: str | None = None,
    known_vcs: bool = False,
    pods: bool = False,
    snapshot: str | None = None,
    column_map: list[str] | None = None,
    columns: str | None = None,
    unit: str | None = None,
    deadline_from: str | None = None,
    throughputs: Path | None = None,
    profiles: Path | None = None,
    count: str | None = None,
    timezone: str | None = None,
    submitted: str | None = None,
    since: str | None = None,
    until: str | None = None,
    fields: str | None = None,
    slurm_cluster: str | None = None,
    tres: Path | None = None,
    topology: Path | None = None,
    open_jobs: str | None = None,
    mig: str | None = None,
    parameters: list[str] | None = None,
    elastic: str | None = None,
    elastic_share: float | None = None,
    seed: int | None = None,
    csv_safe: bool = False,
    strict: bool = False,
    cite: bool = False,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Convert the log of a cluster or a public trace to a job table, with the usual cleaning.

    Prints how many rows were read, kept, dropped and changed, and why; the Parquet footer has the same
    account. Rows are in order of submission. docs/sources/ describes each source.

    Example: ringbco convert helios data/Venus/*.csv -o venus.parquet --cluster-out venus.toml
    """
    from ringbco.cli.inputs import named_values
    from ringbco.errors import UsageError
    from ringbco.sources import convert as run
    from ringbco.sources import get
    from ringbco.sources.source import Options

    chosen = get(source)
    if cite:
        _cite(source)
        return
    if not inputs:
        raise UsageError(f"convert {source}: give {chosen.shapes[0].what}")
    if out is None:
        raise UsageError(f"convert {source}: say where the job table goes: -o JOBS.parquet")
    if tables_out is not None and not chosen.options & {"throughputs", "profiles"}:
        raise UsageError(f"--tables-out: {source} has no measured speeds; gavel and pollux have")
    beside = {"--cluster-out": cluster_out, "--tables-out": tables_out, "--outages-out": outages_out}
    _check_targets(out, beside, [*inputs, *filter(None, (topology,))], force)
    options = Options(
        strict=strict,
        known_vcs=known_vcs,
        pods=pods,
        mode=mode,
        snapshot=snapshot,
        column_map=_column_map(column_map or []),
        columns=_listed(columns),
        unit=unit,
        deadline_from=deadline_from,
        want_cluster=cluster_out is not None,
        want_outages=outages_out is not None,
        throughputs=throughputs,
        profiles=profiles,
        elastic=_elastic(elastic, elastic_share, seed),
        count=count,
        timezone=timezone,
        submitted=submitted,
        since=since,
        until=until,
        fields=_listed(fields),
        slurm_cluster=slurm_cluster,
        tres=tres,
        topology=topology,
        open_jobs=open_jobs,
        mig=mig,
        parameters=named_values(parameters),
    )
    with _spinner(f"reading {', '.join(path.name for path in inputs)}", quiet=quiet):
        conversion = run(source, inputs, options)
        _write(conversion, out, beside, force=force, csv_safe=csv_safe)
    if as_json:
        _print_json(source, conversion, out, beside)
    elif not quiet:
        _show(conversion, out, beside)


def _listed(names: str | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(name.strip() for name in names.split(","))


def _elastic(text: str | None, share: float | None, seed: int | None) -> Elastic | None:
    from ringbco.errors import UsageError
    from ringbco.trace.elastic import SHARE, parse

    if text is None:
        for name, value in (("elastic-share", share), ("seed", seed)):
            if value is not None:
                raise UsageError(f"option {name}: it means nothing without --elastic LOW:HIGH")
        return None
    return parse(text, share=SHARE if share is None else share, seed=0 if seed is None else seed)


def _column_map(entries: list[str]) -> dict[str, str]:
    from ringbco.errors import UsageError

    pairs: dict[str, str] = {}
    for entry in entries:
        ours, equals, theirs = (part.strip() for part in entry.partition("="))
        several = [part for part in theirs.split(",") if "=" in part]
        if several and all("=" in part for part in entry.split(",")):
            once = " ".join(f"--map {shlex.quote(part.strip())}" for part in entry.split(","))
            raise UsageError(f"--map {entry}: expected one column, ours=theirs; repeat it: {once}")
        if not (ours and equals and theirs):
            raise UsageError(f"--map {entry}: expected ours=theirs, such as --map num_gpus=gpu_num")
        if ours in pairs:
            raise UsageError(f"--map {entry}: {ours} is mapped already, to {pairs[ours]}")
        pairs[ours] = theirs
    return pairs


def _check_targets(out: Path, beside: Mapping[str, Path | None], inputs: list[Path], force: bool) -> None:
    """Refuse before any work what could not be written, or would overwrite an input."""
    from ringbco.errors import UsageError
    from ringbco.io.atomic import check_output
    from ringbco.io.system import place
    from ringbco.trace.jobs import JOBS_MARK, check_output_name
    from ringbco.trace.outages import Outages
    from ringbco.trace.rate_table import RateTable

    check_output_name(out)
    for option in ("--tables-out", "--outages-out"):
        if (target := beside[option]) is not None:
            check_output_name(target)
    named = {"--out": out, **beside}
    targets: dict[str, str] = {}
    for option, target in named.items():
        if target is not None and (other := targets.setdefault(place(target), option)) != option:
            raise UsageError(f"{other} and {option} are both {target}")
    marks = {
        "--out": JOBS_MARK,
        "--cluster-out": _cluster_mark(),
        "--tables-out": RateTable.mark(),
        "--outages-out": Outages.mark(),
    }
    for option, target in named.items():
        if target is None:
            continue
        if any(place(target) == place(path) for path in inputs):
            raise UsageError(f"{target} is one of the inputs: write somewhere else")
        check_output(target, marks[option], force=force)


_ORIGIN: Final = b"# Made by `ringbco convert`."


def _cluster_mark() -> Mark:
    """How an earlier cluster file is known."""
    from ringbco.io.marks import Mark, first_bytes

    return Mark("cluster file of ringbco's", lambda path: (first_bytes(path) or b"").startswith(_ORIGIN))


def _write(
    conversion: Conversion,
    out: Path,
    beside: Mapping[str, Path | None],
    *,
    force: bool,
    csv_safe: bool,
) -> None:
    """All files or none: the others take their names only once the job table is in place."""
    from ringbco.io.atomic import replacing
    from ringbco.io.marks import signature
    from ringbco.trace.jobs import table_file, write_jobs
    from ringbco.trace.outages import Outages
    from ringbco.trace.rate_table import RateTable

    cluster_out, tables_out, outages_out = beside.values()
    with ExitStack() as others:
        if cluster_out is not None and conversion.cluster is not None:
            file = others.enter_context(replacing(cluster_out, _cluster_mark(), force=force))
            file.write(_ORIGIN + b"\n" + conversion.cluster.to_toml().encode())
            file.flush()
        if tables_out is not None and conversion.tables is not None:
            file = others.enter_context(table_file(tables_out, RateTable.mark(), force=force))
            conversion.tables.write_to(file, as_csv=tables_out.suffix.lower() == ".csv")
            file.flush()
        if outages_out is not None and conversion.outages is not None:
            file = others.enter_context(table_file(outages_out, Outages.mark(), force=force))
            if outages_out.suffix.lower() == ".csv":
                conversion.outages.write_csv(file)
            else:
                conversion.outages.write_parquet(file, metadata=signature(Outages.form.noun))
            file.flush()
        write_jobs(conversion.table, out, force=force, csv_safe=csv_safe)


@contextmanager
def _spinner(what: str, *, quiet: bool) -> Iterator[None]:
    """A sign of life on stderr where a person watches."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.text import Text

    from ringbco.io.console import Console

    with Console(stderr=True).status(Text(what)):
        yield


def _cite(source: str) -> None:
    from ringbco.sources import get

    chosen = get(source)
    lines = [f"% {chosen.title}", f"% licence: {chosen.licence}"]
    if chosen.url:
        lines.insert(1, f"% {chosen.url}")
    say(*lines)
    if chosen.citation:
        say(*chosen.citation.split("\n"))


def _print_json(source: str, conversion: Conversion, out: Path, beside: Mapping[str, Path | None]) -> None:
    cluster_out, tables_out, outages_out = beside.values()
    document: dict[str, Any] = {
        "source": source,
        "jobs": str(out),
        "cluster": None if cluster_out is None or conversion.cluster is None else str(cluster_out),
        **({} if tables_out is None else {"tables": str(tables_out)}),
        **({} if outages_out is None else {"outages": str(outages_out)}),
        "epoch": conversion.epoch,
        **conversion.account.to_dict(),
        "notes": list(conversion.notes),
    }
    say_json(document)


def _show(conversion: Conversion, out: Path, beside: Mapping[str, Path | None]) -> None:
    from ringbco.io.console import Console

    cluster_out, tables_out, outages_out = beside.values()
    console = Console()
    console.print(conversion.account.to_table())
    jobs = conversion.table.num_jobs
    console.print(f"{jobs:,} job{'s' if jobs != 1 else ''} in {out}")
    if cluster_out is not None and conversion.cluster is not None:
        cluster = conversion.cluster
        console.print(
            f"{cluster.num_servers:,} servers, {cluster.num_gpus:,} GPUs in {cluster_out}", markup=False
        )
    if tables_out is not None and conversion.tables is not None:
        models = conversion.tables.frame["model"].n_unique()
        told = f"{conversion.tables.frame.height:,} speeds of {models} models in {tables_out}"
        console.print(told)
    if outages_out is not None and conversion.outages is not None:
        rows = conversion.outages.height
        drains = int((conversion.outages["kind"] == "drain").sum())
        console.print(f"{rows - drains:,} outages and {drains:,} drains in {outages_out}", markup=False)
    for line in conversion.notes:
        note(line)
