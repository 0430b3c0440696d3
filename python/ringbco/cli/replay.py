"""`ringbco replay`: a job table, a cluster, a policy; a result folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ringbco import _core
from ringbco.cli import cluster_options

_POLICY = "Policy"
_MODEL = "Execution"
_OUTPUT = "Output"

_PRESETS = "; ".join(
    f"{name}: {order} + {placement} + {queue}" for name, order, placement, queue in _core.presets()
)


def replay(
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="The job table, Parquet or CSV.")],
    *,
    cluster: cluster_options.Cluster,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", help="The result folder to make.", rich_help_panel=_OUTPUT
        ),
    ],
    policy: Annotated[
        str,
        typer.Option(
            help=f"A preset of order + placement + queue. {_PRESETS}.",
            rich_help_panel=_POLICY,
            metavar="NAME",
        ),
    ] = "sjf-bco",
    order: Annotated[
        str | None,
        typer.Option(
            help=f"Which queued job comes first: {', '.join(_core.orders())}. Default: the policy's.",
            rich_help_panel=_POLICY,
            metavar="NAME",
        ),
    ] = None,
    placement: Annotated[
        str | None,
        typer.Option(
            help=f"Which idle GPUs a job gets: {', '.join(_core.placements())}. Default: the policy's.",
            rich_help_panel=_POLICY,
            metavar="NAME",
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            help=f"What happens behind a job that cannot start: {', '.join(_core.queues())}."
            " Default: the policy's.",
            rich_help_panel=_POLICY,
            metavar="NAME",
        ),
    ] = None,
    kappa: Annotated[
        int, typer.Option(help="SJF-BCO: largest gang placed by FA-FFP, GPUs.", rich_help_panel=_POLICY)
    ] = 8,
    lambda_: Annotated[
        float,
        typer.Option(
            "--lambda",
            help="LBSGF looks at the least busy servers with this many times the gang's GPUs; >= 1.",
            rich_help_panel=_POLICY,
        ),
    ] = 1.0,
    variant: Annotated[
        str,
        typer.Option(
            help="Reading of FA-FFP and LBSGF: practical (the paper's prose) or literal (its listings).",
            rich_help_panel=_POLICY,
            metavar="NAME",
        ),
    ] = "practical",
    model: Annotated[
        str,
        typer.Option(
            help="rar: ring-all-reduce with contention; fixed: every job runs its recorded duration.",
            rich_help_panel=_MODEL,
            metavar="NAME",
        ),
    ] = "rar",
    clock: Annotated[
        str,
        typer.Option(
            help="continuous, or slot: decisions at multiples of --slot and whole iterations per slot.",
            rich_help_panel=_MODEL,
            metavar="NAME",
        ),
    ] = "continuous",
    slot: Annotated[
        float, typer.Option(help="Length of a slot, seconds (--clock slot).", rich_help_panel=_MODEL)
    ] = 1.0,
    seed: Annotated[
        int,
        typer.Option(
            help="Of the random placement, and of the models drawn for jobs that name none.",
            rich_help_panel=_MODEL,
        ),
    ] = 0,
    oversize: Annotated[
        str,
        typer.Option(
            help="A job larger than its cluster is an error, or (drop) left out and counted.",
            rich_help_panel=_MODEL,
            metavar="error|drop",
        ),
    ] = "error",
    intra_bandwidth: cluster_options.IntraBandwidth = None,
    inter_bandwidth: cluster_options.InterBandwidth = None,
    reduce_speed: cluster_options.ReduceSpeed = None,
    xi1: cluster_options.Xi1 = None,
    xi2: cluster_options.Xi2 = None,
    alpha: cluster_options.Alpha = None,
    sample: Annotated[
        float | None,
        typer.Option(
            help="Seconds between the timeline's points. Default: 2,000 points over the run.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    allocations: Annotated[
        bool,
        typer.Option(
            "--allocations/--no-allocations",
            help="Record which servers each job held (audit needs it).",
            rich_help_panel=_OUTPUT,
        ),
    ] = True,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an earlier result in DIR.", rich_help_panel=_OUTPUT)
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as JSON and nothing else.", rich_help_panel=_OUTPUT),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=_OUTPUT)
    ] = False,
) -> None:
    """Replay JOBS on a cluster under a scheduling policy, and write what happened to a folder.

    The folder holds jobs, allocations and timeline (Parquet), summary.json and run.toml. It appears whole
    or not at all; the same inputs give the same bytes in every Parquet file.
    """
    import time

    from ringbco.cli.progress import progress_bar
    from ringbco.jobs import read_jobs
    from ringbco.metrics import with_seconds
    from ringbco.outcome import check_target
    from ringbco.replay import replay as run

    check_target(out, force=force)
    machine = cluster_options.parse(
        cluster,
        intra_bandwidth=intra_bandwidth,
        inter_bandwidth=inter_bandwidth,
        reduce_speed=reduce_speed,
        xi1=xi1,
        xi2=xi2,
        alpha=alpha,
    )
    started = time.perf_counter()
    table = read_jobs(jobs)
    reading = time.perf_counter() - started
    if not table.is_sorted and not quiet:
        print(
            f"note: {jobs}: rows are not in order of submit_time; jobs were submitted in that order"
            " (equal times in row order), results keep the file's order",
            file=sys.stderr,
        )
    with progress_bar(f"{policy} on {machine.name}", quiet=quiet) as progress:
        outcome = run(
            table,
            machine,
            policy=policy,
            order=order,
            placement=placement,
            queue=queue,
            model=model,
            clock=clock,
            slot=slot,
            kappa=kappa,
            lambda_=lambda_,
            variant=variant,
            seed=seed,
            oversize=oversize,
            sample=sample,
            allocations=allocations,
            progress=progress,
        )
    outcome.summary = with_seconds(outcome.summary, reading)
    summary = outcome.write(out, force=force)
    if as_json:
        print(json.dumps(summary, indent=2))
    elif not quiet:
        _show(f"{jobs.name} on {machine.name}, policy {policy}, results in {out}", summary)


def _show(title: str, summary: dict[str, object]) -> None:
    from rich.console import Console

    from ringbco.cli.tables import summary_tables

    console = Console(highlight=False)
    console.print(title, markup=False)
    console.print(summary_tables(summary))
