"""`ringbco pack`: how full a placement packs the GPUs before jobs find no room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ringbco.cli import inputs
from ringbco.io.terminal import note, say, say_json
from ringbco.units import percent

if TYPE_CHECKING:
    from ringbco.cli.fitted import Fitted
    from ringbco.run.pack import Packing

_PLACEMENTS: Final = ("first-fit", "consolidate", "best-fit", "worst-fit", "binpack", "fgd", "random")


def pack(
    jobs: inputs.Jobs,
    *,
    cluster: inputs.ClusterName,
    placement: Annotated[
        str,
        typer.Option(metavar="L", help=f"Which GPUs a job gets: {', '.join(_PLACEMENTS)}."),
    ] = "fgd",
    until: Annotated[
        str,
        typer.Option(metavar="PERCENT", help="Total requests, as a percentage of all GPUs, such as 130%."),
    ] = "130%",
    seed: Annotated[int, typer.Option(metavar="N", help="Of the order in which jobs ask.")] = 0,
    runs: Annotated[
        int,
        typer.Option(metavar="N", help="How many orders: those of the seed, the seed + 1 and so on."),
    ] = 1,
    gpus_only: Annotated[
        bool, typer.Option("--gpus-only", help="Leave out CPU and memory where they are known.")
    ] = False,
    vc: inputs.VirtualClusters = "split",
    as_json: inputs.Json = False,
) -> None:
    """Measure how full a placement packs the GPUs of a cluster before jobs find no room.

    Jobs request their GPUs, or a share of one, in random order, and never leave. A job that finds no room is
    rejected. The result is the share of all GPUs allocated at each level of total requests
    (docs/shares.md#how-full-a-placement-packs). CPU and memory count if JOBS and the cluster have both.

    Example: ringbco pack openb.parquet --cluster openb.toml --placement fgd --until 130% --runs 10
    """
    from ringbco.run.pack import pack as run

    machine = inputs.parse_cluster(cluster, {}, vc)
    table = inputs.read_table(jobs, quiet=True)
    inputs.tell_left_out(table, quiet=as_json)
    found = run(
        table,
        machine,
        placement=placement,
        until=_share(until),
        seed=seed,
        runs=runs,
        gpus_only=gpus_only,
    )
    if found.too_large:
        count = f"{len(found.too_large):,} of the {found.jobs:,} jobs"
        note(f"no server has what {count} ask for (first: job {found.too_large[0]!r}); they find no room")
    if as_json:
        say_json(found.to_dict())
        return
    from ringbco.cli.fitted import Fitted
    from ringbco.io.console import Console

    console = Console()
    orders = f"seed {seed}" if runs == 1 else f"mean of seeds {seed} to {seed + runs - 1}"
    beside = f" and {found.without_gpus:,} without GPUs" if found.without_gpus else ""
    counts = f"{found.jobs:,} jobs{beside}, {found.gpus:,} GPUs"
    what = "with CPU and memory" if found.with_cpu else "GPUs only"
    title = f"{jobs.name} on {machine.name}: {counts}, {placement}, {orders}, {what}"
    say(title)
    console.print(_table(found, Fitted("asked for", "allocated", "least", "most")))


def _table(found: Packing, table: Fitted) -> Fitted:
    for number, asked in enumerate(found.asked):
        of_runs = [curve[number] for curve in found.allocated]
        shown = (asked, found.mean[number], min(of_runs), max(of_runs))
        table.add_row(percent(asked, 0), *(percent(value, 2) for value in shown[1:]))
    return table


def _share(percent: str) -> float:
    """130% and 130 are 1.3."""
    from ringbco.errors import UsageError

    try:
        return float(percent.strip().removesuffix("%")) / 100.0
    except ValueError:
        raise UsageError(f"option until: {percent!r}: expected a percentage, such as 130%") from None
