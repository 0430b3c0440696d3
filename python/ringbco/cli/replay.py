"""`ringbco replay`: a job table, a cluster, a policy; a result folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from ringbco.cli.options import takes
from ringbco.io.terminal import say, say_json
from ringbco.run.registry import REPLAY

if TYPE_CHECKING:
    from ringbco.cluster.spec import Cluster
    from ringbco.result.outcome import Outcome

_ROWS: Final = """
jobs
cluster SxG|C.toml|preset:NAME: S servers of G GPUs such as 32x8, a cluster file, or the preset of a real
  cluster. Needed unless --again is given.
[Output]
out --out -o DIR: The result folder to make. Needed unless --again is given.
recorded_cluster
[Options]
again DIR: Repeat the result in DIR (of replay or plan) from its run.toml, and report whether the bytes of its
  Parquet files agree. Takes no other setting but --policy, for custom policies. JOBS gives the job table's
  new place; -o keeps the repeat.
*
vc
*Network
*Output
[Output]
units
force: Replace an earlier result in DIR.
[Policy (docs/policies.md)]
parameters -P NAME=VALUE: A field of a custom policy whose class is a dataclass. Repeatable.
round_length --round S: gavel, sia: seconds per round; short for -P round=S. Default: gavel 360, sia 60.
[Output]
as_json --json: Print the summary as JSON and nothing else.
quiet
"""


@takes(_ROWS, REPLAY)
def replay(
    ctx: typer.Context,
    jobs: Path | None = None,
    *,
    cluster: str | None = None,
    out: Path | None = None,
    recorded_cluster: str | None = None,
    again: Path | None = None,
    vc: str = "split",
    units: str = "human",
    force: bool = False,
    parameters: list[str] | None = None,
    round_length: str | None = None,
    as_json: bool = False,
    quiet: bool = False,
    **options: Any,
) -> None:
    """Replay JOBS on a cluster under a scheduling policy, and write what happened to a folder.

    The folder has jobs, allocations and timeline (Parquet), summary.json and run.toml. It is written whole or
    not at all. The same inputs give the same bytes in each Parquet file.

    --again DIR repeats an earlier result, and writes nothing unless -o is given. The exit status is 3 if the
    bytes differ.

    --policy log:DIR/decisions.parquet carries out the decisions of the result in DIR. JOBS, the cluster and
    options that are not given, outages and services too, are as they were there.

    A TIME is 2.5d, 6h, 30min, 90s, 1-12:00:00, or a number of seconds; a RATE is 25Gb/s (bits), 100GB/s
    (bytes), or a number of bytes/s.

    Example: ringbco replay jobs.parquet --cluster 32x8 --policy sjf-bco -o results
    """
    if again is not None:
        from ringbco.cli.again import repeat

        repeat(ctx, again, jobs, out, force=force, as_json=as_json, quiet=quiet)
        return

    import time

    from ringbco.io.prefetch import read_ahead

    if jobs is not None:
        # These are most of a large table. Meanwhile the libraries are loaded, which takes as long.
        read_ahead(jobs, ("job_id", "user", "vc", "submit_time", "num_gpus", "duration"))

    from ringbco.cli.inputs import (
        fields,
        given_options,
        leave_open,
        network_of,
        parse_cluster,
        read_table,
        tell_run,
        tell_unused,
    )
    from ringbco.cli.progress import progress_bar
    from ringbco.result.folder import check_target
    from ringbco.result.outcome import count_seconds
    from ringbco.run.clairvoyance import foreknowledge
    from ringbco.run.options import is_log, read_numbers
    from ringbco.run.replay import replay as run
    from ringbco.units import check_units, shown_in

    policy = options.pop("policy")
    network = network_of(options)
    if is_log(policy):
        options = given_options(ctx, options)
    leave_open(ctx, options)
    jobs, named, out = _needed(ctx, policy, jobs, cluster, out)
    check_units(units)
    check_target(out, force=force)
    machine = parse_cluster(named, network, vc, recorded_cluster)
    started = time.perf_counter()
    table = read_table(jobs, quiet=quiet)
    reading = time.perf_counter() - started
    if "thresholds" in options:
        options["thresholds"] = read_numbers(REPLAY["thresholds"], options["thresholds"])
    with progress_bar(f"{policy} on {machine.name}", quiet=quiet) as progress:
        outcome = run(
            table,
            machine,
            policy=policy,
            parameters=fields(policy, parameters, round_length),
            progress=progress,
            **options,
        )
    if not quiet:
        tell_unused({policy: policy}, options)
        tell_run(policy, outcome, table)
    count_seconds(outcome, reading)
    epoch = table.epoch
    del table, outcome.__dict__["_table"]  # writing takes its place in memory
    summary = outcome.write(out, force=force)
    if as_json:
        say_json(summary)
    elif not quiet:
        with shown_in(units):
            _show(f"{jobs.name} on {machine.name}, policy {policy}, results in {out}", summary)
            _say_what_carries(outcome, epoch)
        read = foreknowledge(outcome.run)
        if read:
            say(f"clairvoyant, reading recorded run times: {', '.join(read)}")


def _needed(
    ctx: typer.Context, policy: str, jobs: Path | None, cluster: str | None, out: Path | None
) -> tuple[Path, Cluster | str, Path]:
    """JOBS, the cluster and the folder to make; UsageError with the command for those that nothing gives."""
    from ringbco.cli.command import require
    from ringbco.cli.inputs import followed_inputs

    jobs, named = followed_inputs(policy, jobs, cluster)
    require(ctx, jobs=jobs, cluster=named, out=out)
    assert jobs is not None
    assert named is not None
    assert out is not None
    return jobs, named, out


def _show(title: str, summary: dict[str, object]) -> None:
    from ringbco.cli.tables import summary_tables
    from ringbco.io.console import Console

    console = Console()
    console.print(title)
    console.print(summary_tables(summary))


def _say_what_carries(outcome: Outcome, epoch: str | None) -> None:
    """Which few days carry the mean waiting time, where few do."""
    from ringbco.result.certainty import Runs
    from ringbco.result.days import carried_wait
    from ringbco.result.sentences import of_mean_wait

    found = carried_wait(outcome)
    if found is not None:
        say(of_mean_wait(found, Runs(epoch=epoch)))
