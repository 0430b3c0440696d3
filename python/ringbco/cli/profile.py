"""`ringbco profile`: a job table with what a replay would derive written into its columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ringbco.cli import one_file
from ringbco.cli.options import takes
from ringbco.io.terminal import say_json

if TYPE_CHECKING:
    from ringbco.cli.fitted import Fitted

_ROWS: Final = r"""
jobs
out --out -o OUT.parquet: The job table to write: .parquet (how it was made is in its footer) or .csv.
cluster C.toml: A cluster file whose table \[recorded] describes where JOBS was recorded. Default: none.
recorded_cluster
seed: Seed of the models drawn for jobs that name none.
force
as_json --json: Print the counts as JSON and nothing else.
[Output]
quiet
"""


@takes(_ROWS)
def profile(
    jobs: Path,
    *,
    out: Path,
    cluster: str | None = None,
    recorded_cluster: str | None = None,
    seed: int = 0,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Write JOBS again with iterations, gradient bytes and compute times filled in for every job.

    A trace says how long a job ran, not what it trained. A replay fills that in for itself; here the same
    values are written down, to be looked at, changed or pinned. A replay of OUT gives what a replay of JOBS
    gives.

    Example: ringbco profile jobs.parquet -o pinned.parquet
    """
    from ringbco.cli.inputs import parse_cluster, tell_left_out
    from ringbco.errors import InputError
    from ringbco.io.marks import table as table_mark
    from ringbco.study.profile import FILLED, KEY
    from ringbco.study.profile import profile as fill
    from ringbco.trace.jobs import REQUIRED, read_jobs, write_jobs

    one_file.check_table_name(out, table_mark("job table", (*REQUIRED, *FILLED)), force=force)
    if out.exists() and jobs.exists() and out.samefile(jobs):
        raise InputError("is the job table itself", file=out, hint="give the filled table another name")
    machine = parse_cluster(cluster or "1x8", {}, recorded=recorded_cluster)
    table = read_jobs(jobs)
    tell_left_out(table, quiet=quiet)
    filled = fill(table, machine, seed=seed)
    write_jobs(filled, out, force=force)
    told = json.loads(filled.metadata[KEY])
    if as_json:
        say_json({"jobs": filled.num_jobs, **told, "table": str(out)})
    elif not quiet:
        title = f"{filled.num_jobs:,} jobs recorded on {machine.recorded_on.description}, in {out}"
        one_file.tell(title, _table(filled.num_jobs, told["filled"]))


def _table(jobs: int, filled: dict[str, Any]) -> Fitted:
    from ringbco.cli.fitted import Fitted

    table = Fitted("column", "given", "filled in")
    for name, count in filled.items():
        table.add_row(name, f"{jobs - count:,}", f"{count:,}")
    return table
