"""`ringbco plan`: a job table, all of it there at time 0; the schedule of Algorithm 1 or of a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ringbco.cli import inputs
from ringbco.cli.options import takes
from ringbco.io.terminal import note, say_json
from ringbco.run.registry import PLAN

_ROWS: Final = """
jobs
cluster
[Output]
out --out -o DIR: The result folder to make.
[Options]
clock slot: A plan has no clock but slot: jobs start at slots.
recorded_cluster
*
*Network
*Output
[Output]
units
force: Replace an earlier result in DIR.
as_json --json: Print the summary as JSON and nothing else.
quiet
"""


@takes(_ROWS, PLAN)
def plan(
    jobs: Path,
    *,
    cluster: str,
    out: Path,
    clock: str = "slot",
    recorded_cluster: str | None = None,
    units: str = "human",
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    **options: Any,
) -> None:
    """Plan JOBS on a cluster, as if all were submitted at time 0, and write the schedule to a folder.

    The plan ignores submit_time. It searches for theta, kappa and, unless given, the horizon (docs/paper.md),
    separately in each virtual cluster. The folder is like that of a replay; summary.json also has theta,
    kappa and the bounds.

    Example: ringbco plan jobs.parquet --cluster 20x16 --policy sjf-bco --dispatch reserve -o plan
    """
    import time

    from ringbco.cli.progress import progress_bar
    from ringbco.result.folder import check_target
    from ringbco.result.metrics import column
    from ringbco.result.outcome import with_seconds
    from ringbco.run.plan import plan as run
    from ringbco.trace.jobs import read_jobs
    from ringbco.units import check_units, shown_in

    check_units(units)
    check_target(out, force=force)
    machine = inputs.parse_cluster(cluster, inputs.network_of(options), recorded=recorded_cluster)
    policy, options["kappa"] = options.pop("policy"), _kappa(options["kappa"])
    started = time.perf_counter()
    table = read_jobs(jobs)
    inputs.tell_left_out(table, quiet=quiet)
    reading = time.perf_counter() - started
    latest = float(column(table.frame, "submit_time").max(initial=0.0))
    if latest and not quiet:
        note(f"{jobs}: submit_time goes up to {latest:g} s; a plan submits every job at time 0")
    with progress_bar(f"{policy} on {machine.name}", quiet=quiet, unit="%") as progress:
        outcome = run(table, machine, policy=policy, clock=clock, progress=progress, **options)
    if not quiet:
        ignored = (
            option.typed
            for name, option in PLAN.items()
            if policy not in dict(option.users).get("policy", (policy,)) and options[name] != option.default
        )
        inputs.note_unused(ignored, [policy])
        inputs.tell_rigid({policy: policy}, table)
    outcome.summary = with_seconds(outcome.summary, reading)
    summary = outcome.write(out, force=force)
    if as_json:
        say_json(summary)
    elif not quiet:
        with shown_in(units):
            _show(
                f"{jobs.name} on {machine.name}, planned by {policy}, results in {out}",
                summary,
                options["slot"],
            )


def _kappa(text: str) -> int | None:
    from ringbco.errors import UsageError

    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"option kappa: {text!r}: expected auto or an integer of GPUs") from None


def _show(title: str, summary: dict[str, Any], slot: float) -> None:
    from rich.table import Table

    from ringbco.cli.tables import summary_tables
    from ringbco.io.console import Console
    from ringbco.units import duration, figure, rounded_up

    table = Table(box=None, show_header=False, pad_edge=False)
    for own in summary.get("vcs") or [summary]:
        if "theta" not in own:
            continue  # a virtual cluster without jobs
        of = f" of {own['vc']}" if "vc" in own else ""
        kappa = "" if own["kappa"] is None else f", kappa {own['kappa']}"
        ratio = figure("at most", own["makespan"] / own["work_lower_bound"])
        table.add_row(f"plan{of}", f"theta {own['theta']:,} of {own['horizon']:,} slots of {slot:g} s{kappa}")
        table.add_row("most work on a GPU", duration(own["w_max"]))
        table.add_row(
            "work bound", f"{duration(own['work_lower_bound'], down=True)}; makespan / bound {ratio}"
        )
        table.add_row(
            "Theorem 5", f"at most {rounded_up(own['approximation_bound'], 1):,.1f} times the optimum"
        )
    console = Console()
    console.print(title)
    console.print(summary_tables(summary))
    console.print(table)
