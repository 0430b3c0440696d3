"""`ringbco.convert`: the files of a public trace into a job table, from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ringbco.errors import UsageError
from ringbco.io.forks import use_polars
from ringbco.sources import Conversion
from ringbco.sources import convert as run
from ringbco.sources.source import Options
from ringbco.trace.elastic import SHARE, parse


def convert(
    source: str,
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    mode: str | None = None,
    known_vcs: bool = False,
    snapshot: str | None = None,
    column_map: Mapping[str, str] | None = None,
    unit: str | None = None,
    columns: Sequence[str] | None = None,
    deadline_from: str | None = None,
    cluster: bool = False,
    outages: bool = False,
    throughputs: str | os.PathLike[str] | None = None,
    profiles: str | os.PathLike[str] | None = None,
    count: str | None = None,
    timezone: str | None = None,
    submitted: str | None = None,
    since: str | None = None,
    until: str | None = None,
    fields: Sequence[str] | None = None,
    slurm_cluster: str | None = None,
    tres: str | os.PathLike[str] | None = None,
    topology: str | os.PathLike[str] | None = None,
    open_jobs: str | None = None,
    mig: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    elastic: str | None = None,
    elastic_share: float = SHARE,
    seed: int = 0,
    strict: bool = False,
) -> Conversion:
    """Turns the files of a public trace into a job table, cleaned as the field cleans it; writes nothing.

    source: the format, such as "philly" or "csv", or the name of an installed source; docs/sources lists
    them. inputs: the trace's files.
    mode, known_vcs, snapshot, column_map: options of one source, as `ringbco convert --help` has them;
        column_map is {our name: the file's name}.
    unit, columns, deadline_from: of csv, the unit of numeric times and durations ("ms", "s", "min" or "h"),
        the names of the columns of a file without a header, and "submit" where deadlines count from there.
    cluster: whether to work out the servers that the trace ran on as well. outages: of slurm, whether to read
        its events, as `--outages-out` does.
    throughputs, profiles: of gavel and pollux, the file and the folder of their measured speeds.
    count, timezone, submitted, since (--from), until, fields, slurm_cluster, tres, topology, open_jobs
        (--open), mig: of slurm, as `ringbco convert --help` has them.
    parameters (-P): the options of an installed source by name.
    elastic: LOW:HIGH, such as "0.5:2", to let a share of the jobs, `elastic_share`, hold from half to twice
        of num_gpus, with noise scales of a catalogue (docs/noise-scales.md); seed: which jobs.
    strict: whether the first row that would be dropped or changed is an error.

    Returns the job table (times in seconds), the account of its rows, the cluster (None unless asked for),
    notes, the epoch and the measured speeds (None where the source has none);
    `ringbco.write_jobs(conversion.table, path)` writes the table with its account.

    Raises InputError for files that are missing, damaged or of another source, UsageError for an unknown
    source, for an option that it does not have, and for a cluster that was not published.
    """
    use_polars()
    paths = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    if not all(isinstance(path, str | os.PathLike) for path in paths):
        raise UsageError("option inputs: expected the paths of the trace's files")
    options = Options(
        strict=strict,
        known_vcs=known_vcs,
        mode=mode,
        snapshot=snapshot,
        column_map=dict(column_map or {}),
        unit=unit,
        columns=None if columns is None else tuple(columns),
        deadline_from=deadline_from,
        want_cluster=cluster,
        want_outages=outages,
        throughputs=None if throughputs is None else Path(throughputs),
        profiles=None if profiles is None else Path(profiles),
        count=count,
        timezone=timezone,
        submitted=submitted,
        since=since,
        until=until,
        fields=None if fields is None else tuple(fields),
        slurm_cluster=slurm_cluster,
        tres=None if tres is None else Path(tres),
        topology=None if topology is None else Path(topology),
        open_jobs=open_jobs,
        mig=mig,
        parameters=dict(parameters or {}),
        elastic=None if elastic is None else parse(elastic, share=elastic_share, seed=seed),
    )
    return run(source, [os.fspath(path) for path in paths], options)
