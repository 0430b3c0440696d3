"""`ringbco replay`: a job table, a cluster, a policy; a result folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ringbco import _core
from ringbco.cli import inputs
from ringbco.cli.completion import offer

_POLICY = "Policy"
_OTHERS = "Other schedulers (docs/policies.md)"
_MODEL = "Execution"

_PRESETS = "; ".join(
    f"{name}: "
    + (f"{order} + {placement} + {queue}" if preemption == "none" else f"preemptive + {placement}")
    for name, order, placement, queue, preemption in _core.presets()
)


def replay(
    ctx: typer.Context,
    jobs: inputs.JobsUnlessAgain = None,
    *,
    cluster: inputs.ClusterUnlessAgain = None,
    out: inputs.ResultFolderUnlessAgain = None,
    recorded_cluster: inputs.RecordedCluster = None,
    again: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Repeat the result in DIR (of replay or plan) from its run.toml, and say whether the bytes"
            " of its Parquet files agree. Takes no other setting; JOBS says where the job table is now, -o"
            " keeps the repeat.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            help=f"A preset of order + placement + queue. {_PRESETS}.",
            rich_help_panel=_POLICY,
            metavar="NAME",
            autocompletion=offer(*(preset[0] for preset in _core.presets())),
        ),
    ] = "sjf-bco",
    order: Annotated[
        str | None,
        typer.Option(
            help=f"Which queued job comes first: {', '.join(_core.orders())}. Default: the policy's.",
            rich_help_panel=_POLICY,
            metavar="NAME",
            autocompletion=offer(*_core.orders()),
        ),
    ] = None,
    placement: Annotated[
        str | None,
        typer.Option(
            help=f"Which idle GPUs a job gets: {', '.join(_core.placements())}. Default: the policy's.",
            rich_help_panel=_POLICY,
            metavar="NAME",
            autocompletion=offer(*_core.placements()),
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            help=f"What happens behind a job that cannot start: {', '.join(_core.queues())}."
            " Default: the policy's.",
            rich_help_panel=_POLICY,
            metavar="NAME",
            autocompletion=offer(*_core.queues()),
        ),
    ] = None,
    kappa: Annotated[
        int, typer.Option(help="SJF-BCO: largest gang placed by FA-FFP, GPUs.", rich_help_panel=_POLICY)
    ] = 8,
    lambda_: inputs.Lambda = 1.0,
    variant: inputs.Variant = "practical",
    preempt_cost: Annotated[
        float,
        typer.Option(
            help="Policies that preempt: seconds that a resumed job holds its GPUs without progress.",
            rich_help_panel=_OTHERS,
        ),
    ] = 30.0,
    thresholds: Annotated[
        str,
        typer.Option(
            help="tiresias, gittins: service, GPU-seconds, at which a job falls to the next queue; several"
            " separated by commas.",
            rich_help_panel=_OTHERS,
            metavar="S[,S...]",
        ),
    ] = "18000",
    interval: Annotated[
        float,
        typer.Option(help="tiresias, gittins, ftf: seconds between decisions.", rich_help_panel=_OTHERS),
    ] = 60.0,
    quantum: Annotated[
        float, typer.Option(help="time-slice: seconds between decisions.", rich_help_panel=_OTHERS)
    ] = 60.0,
    predict: Annotated[
        str,
        typer.Option(
            help="qssf: predict from the history of completed jobs, or exact: the recorded duration.",
            rich_help_panel=_OTHERS,
            metavar="history|exact",
            autocompletion=offer("history", "exact"),
        ),
    ] = "history",
    admission: Annotated[
        bool,
        typer.Option(
            "--admission",
            help="edf: refuse a job that on arrival would miss its deadline even alone. Default: take all.",
            rich_help_panel=_OTHERS,
        ),
    ] = False,
    aging: Annotated[
        float | None,
        typer.Option(
            help="Orders sjf, smallest, qssf: seconds of waiting after which a job goes by fifo ahead of the"
            " others. Default: never.",
            rich_help_panel=_OTHERS,
        ),
    ] = None,
    estimate_factor: Annotated[
        float,
        typer.Option(
            help="Queue easy: estimates are run times multiplied by this, > 0.", rich_help_panel=_OTHERS
        ),
    ] = 1.0,
    model: inputs.Model = "rar",
    clock: Annotated[
        str,
        typer.Option(
            help="continuous, or slot: decisions at multiples of --slot and whole iterations per slot.",
            rich_help_panel=_MODEL,
            metavar="continuous|slot",
            autocompletion=offer("continuous", "slot"),
        ),
    ] = "continuous",
    slot: Annotated[
        float,
        typer.Option(
            help="Length of a slot, seconds. With --clock slot only: refused without it.",
            rich_help_panel=_MODEL,
        ),
    ] = 1.0,
    seed: Annotated[
        int,
        typer.Option(
            help="Of the random placement, and of the models drawn for jobs that name none.",
            rich_help_panel=_MODEL,
        ),
    ] = 0,
    ties: Annotated[
        str,
        typer.Option(
            help="Who goes first of one submission time: rows (the lower row), reverse, or shuffle:SEED.",
            rich_help_panel=_MODEL,
            metavar="rows|reverse|shuffle:SEED",
            autocompletion=offer("rows", "reverse"),
        ),
    ] = "rows",
    vc: Annotated[
        str,
        typer.Option(
            help="Virtual clusters the cluster names: each on its own (split), or their servers in one pool.",
            rich_help_panel=_MODEL,
            metavar="split|pool",
            autocompletion=offer("split", "pool"),
        ),
    ] = "split",
    oversize: inputs.Oversize = "error",
    intra_bandwidth: inputs.IntraBandwidth = None,
    inter_bandwidth: inputs.InterBandwidth = None,
    reduce_speed: inputs.ReduceSpeed = None,
    xi1: inputs.Xi1 = None,
    xi2: inputs.Xi2 = None,
    alpha: inputs.Alpha = None,
    sample: inputs.Sample = None,
    allocations: inputs.Allocations = True,
    units: inputs.Units = "human",
    force: inputs.Force = False,
    as_json: inputs.Json = False,
    quiet: inputs.Quiet = False,
) -> None:
    """Replay JOBS on a cluster under a scheduling policy, and write what happened to a folder.

    The folder holds jobs, allocations and timeline (Parquet), summary.json and run.toml. It appears whole
    or not at all; the same inputs give the same bytes in every Parquet file.

    With --again DIR an earlier result is repeated instead, and nothing is written unless -o says where. Exit
    status 3 if other bytes come out.

    Example: ringbco replay jobs.parquet --cluster 32x8 --policy sjf-bco -o results
    """
    if again is not None:
        from ringbco.cli.again import repeat

        repeat(ctx, again, jobs, out, force=force, as_json=as_json, quiet=quiet)
        return

    import time

    from ringbco.cli.inputs import parse_cluster, read_table, tell_unused
    from ringbco.cli.progress import progress_bar
    from ringbco.errors import UsageError
    from ringbco.outcome import check_target, count_seconds
    from ringbco.replay import replay as run
    from ringbco.scheduling import foreknowledge, parse_thresholds
    from ringbco.units import check_units, shown_in

    if jobs is None or cluster is None or out is None:
        raise UsageError(
            "replay: expected JOBS, --cluster and -o DIR:"
            " ringbco replay jobs.parquet --cluster 32x8 -o results"
        )
    check_units(units)
    check_target(out, force=force)
    network = {
        "intra_bandwidth": intra_bandwidth,
        "inter_bandwidth": inter_bandwidth,
        "reduce_speed": reduce_speed,
        "xi1": xi1,
        "xi2": xi2,
        "alpha": alpha,
    }
    machine = parse_cluster(cluster, network, vc, recorded_cluster)
    started = time.perf_counter()
    table = read_table(jobs, quiet=quiet)
    reading = time.perf_counter() - started
    options: dict[str, Any] = {
        "order": order,
        "placement": placement,
        "queue": queue,
        "model": model,
        "clock": clock,
        "slot": slot,
        "kappa": kappa,
        "lambda_": lambda_,
        "variant": variant,
        "seed": seed,
        "ties": ties,
        "oversize": oversize,
        "sample": sample,
        "allocations": allocations,
        "preempt_cost": preempt_cost,
        "thresholds": parse_thresholds(thresholds),
        "interval": interval,
        "quantum": quantum,
        "predict": predict,
        "admission": admission,
        "aging": aging,
        "estimate_factor": estimate_factor,
    }
    with progress_bar(f"{policy} on {machine.name}", quiet=quiet) as progress:
        outcome = run(table, machine, policy=policy, progress=progress, **options)
    if not quiet:
        tell_unused([policy], options)
    count_seconds(outcome, reading)
    summary = outcome.write(out, force=force)
    if as_json:
        print(json.dumps(summary, indent=2))
    elif not quiet:
        with shown_in(units):
            _show(f"{jobs.name} on {machine.name}, policy {policy}, results in {out}", summary)
        read = foreknowledge(outcome.run["options"])
        if read:
            print(f"clairvoyant, reading recorded run times: {', '.join(read)}")


def _show(title: str, summary: dict[str, object]) -> None:
    from rich.console import Console

    from ringbco.cli.tables import summary_tables

    console = Console(highlight=False)
    console.print(title, markup=False)
    console.print(summary_tables(summary))
