"""`ringbco plan`: a job table, all of it there at time 0; the schedule of Algorithm 1 or of a baseline."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from ringbco import _core
from ringbco.cli import inputs
from ringbco.cli.completion import offer

_POLICY = "Policy"
_MODEL = "Execution"


def plan(
    jobs: inputs.Jobs,
    *,
    cluster: inputs.ClusterName,
    out: inputs.ResultFolder,
    recorded_cluster: inputs.RecordedCluster = None,
    policy: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(_core.planners())}: Algorithm 1, first-fit, least-loaded, random.",
            rich_help_panel=_POLICY,
            metavar="NAME",
            autocompletion=offer(*_core.planners()),
        ),
    ] = "sjf-bco",
    order: Annotated[
        str,
        typer.Option(
            help="Which job gets GPUs first: the smallest gang, or (fifo) the first row.",
            rich_help_panel=_POLICY,
            metavar="smallest|fifo",
            autocompletion=offer("smallest", "fifo"),
        ),
    ] = "smallest",
    dispatch: Annotated[
        str,
        typer.Option(
            help="idle: a job gets idle GPUs, or waits for the next completion. reserve: any GPUs, and it"
            " starts when it heads the queue of each of them.",
            rich_help_panel=_POLICY,
            metavar="idle|reserve",
            autocompletion=offer("idle", "reserve"),
        ),
    ] = "idle",
    variant: inputs.Variant = "practical",
    kappa: Annotated[
        str,
        typer.Option(
            help="SJF-BCO: largest gang placed by FA-FFP, GPUs; auto tries 1 and every size.",
            rich_help_panel=_POLICY,
            metavar="auto|K",
            autocompletion=offer("auto"),
        ),
    ] = "auto",
    lambda_: inputs.Lambda = 1.0,
    u: Annotated[
        float,
        typer.Option(
            "--u",
            help="What a job's estimate is divided by when it is booked; >= 1.",
            rich_help_panel=_POLICY,
        ),
    ] = 1.0,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="T, slots: every job must end before it. Default: doubled from twice the work bound until"
            " a schedule exists.",
            rich_help_panel=_POLICY,
        ),
    ] = None,
    model: inputs.Model = "rar",
    slot: Annotated[float, typer.Option(help="Length of a slot, seconds.", rich_help_panel=_MODEL)] = 1.0,
    seed: Annotated[
        int,
        typer.Option(
            help="Of the planner rand, and of the models drawn for jobs that name none.",
            rich_help_panel=_MODEL,
        ),
    ] = 0,
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
    """Plan JOBS on a cluster, all of them there at time 0, and write the schedule to a folder.

    Whatever their submit_time, every job is there when the schedule begins. theta, kappa and, unless it is
    given, the horizon are searched for as docs/paper.md says. The folder is that of a replay; summary.json
    says theta, kappa and the bounds too.

    Example: ringbco plan jobs.parquet --cluster 20x16 --policy sjf-bco --dispatch reserve -o plan
    """
    import time

    from ringbco.cli.progress import progress_bar
    from ringbco.jobs import read_jobs
    from ringbco.metrics import column, with_seconds
    from ringbco.outcome import check_target
    from ringbco.plan import plan as run
    from ringbco.units import check_units, shown_in

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
    machine = inputs.parse_cluster(cluster, network, recorded=recorded_cluster)
    largest = _kappa(kappa)
    started = time.perf_counter()
    table = read_jobs(jobs)
    reading = time.perf_counter() - started
    latest = float(column(table.frame, "submit_time").max(initial=0.0))
    if latest and not quiet:
        print(
            f"note: {jobs}: submit_time goes up to {latest:g} s; a plan has every job there at time 0",
            file=sys.stderr,
        )
    with progress_bar(f"{policy} on {machine.name}", quiet=quiet, unit="%") as progress:
        outcome = run(
            table,
            machine,
            policy=policy,
            order=order,
            dispatch=dispatch,
            variant=variant,
            model=model,
            kappa=largest,
            lambda_=lambda_,
            u=u,
            horizon=horizon,
            slot=slot,
            seed=seed,
            oversize=oversize,
            sample=sample,
            allocations=allocations,
            progress=progress,
        )
    if policy != "sjf-bco" and not quiet:
        given = {"variant": variant != "practical", "kappa": largest is not None, "lambda": lambda_ != 1.0}
        inputs.note_unused((name for name, was in given.items() if was), [policy])
    outcome.summary = with_seconds(outcome.summary, reading)
    summary = outcome.write(out, force=force)
    if as_json:
        print(json.dumps(summary, indent=2))
    elif not quiet:
        with shown_in(units):
            _show(f"{jobs.name} on {machine.name}, planned by {policy}, results in {out}", summary, slot)


def _kappa(text: str) -> int | None:
    from ringbco.errors import UsageError

    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"option kappa: {text!r}: expected auto or an integer of GPUs") from None


def _show(title: str, summary: dict[str, Any], slot: float) -> None:
    from rich.console import Console
    from rich.table import Table

    from ringbco.cli.tables import summary_tables
    from ringbco.units import duration

    kappa = "" if summary["kappa"] is None else f", kappa {summary['kappa']}"
    ratio = summary["makespan"] / summary["work_lower_bound"]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("plan", f"theta {summary['theta']:,} of {summary['horizon']:,} slots of {slot:g} s{kappa}")
    table.add_row("most work on a GPU", duration(summary["w_max"]))
    table.add_row("work bound", f"{duration(summary['work_lower_bound'])}; makespan / bound {ratio:.2f}")
    table.add_row("Theorem 5", f"at most {summary['approximation_bound']:,.1f} times the optimum")
    console = Console(highlight=False)
    console.print(title, markup=False)
    console.print(summary_tables(summary))
    console.print(table)
