"""`ringbco bench`: scheduler throughput on this machine, in units of sorting the events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ringbco.bench import Measurement


def bench(
    jobs_path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[JOBS]", help="A job table of your own to replay; otherwise jobs are generated."
        ),
    ] = None,
    *,
    cluster: Annotated[
        str, typer.Option("--cluster", help="The cluster for JOBS: SxG, a TOML file, or preset:NAME.")
    ] = "256x8",
    jobs: Annotated[int, typer.Option("--jobs", min=100, help="Jobs to generate.")] = 1_000_000,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            help="A policy to measure; repeat for several. Default: those of docs/performance.md.",
        ),
    ] = None,
    scaling: Annotated[
        bool,
        typer.Option(
            "--scaling/--no-scaling", help="Also grow jobs, servers, queue and bursts (generated jobs only)."
        ),
    ] = True,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, help="Runs of each case; medians are quoted.")
    ] = 3,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the generated jobs.")] = 1,
    picture: Annotated[
        Path | None, typer.Option("--png", metavar="FILE", help="Draw the scaling curves into FILE.")
    ] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write every figure into FILE as JSON.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILEs that exist.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Measure scheduler throughput: engine time as a multiple of sorting the events.

    The unit is a stable argsort by numpy of 2N random float64 for N jobs, measured next to each replay.
    Without JOBS the trace is `generate --preset philly --gpus 2048 --load 0.9` on 256x8.

    Example: ringbco bench --jobs 100000 --png scaling.png --json bench.json
    """
    from ringbco import bench as measure
    from ringbco.atomic import check_output, replacing
    from ringbco.cli.progress import progress_bar
    from ringbco.cluster import Cluster
    from ringbco.errors import UsageError
    from ringbco.jobs import read_jobs
    from ringbco.options import resolve_policy

    for name in policy or ():
        resolve_policy(name)
    for path in (picture, json_path):
        if path is not None:
            check_output(path, force=force)
    trace = None
    if jobs_path is not None:
        read_jobs(jobs_path)
        Cluster.parse(cluster)
        trace = (str(jobs_path), cluster)
    grown = scaling and trace is None and not policy
    if picture is not None and not grown:
        raise UsageError("option png: there are no scaling curves with JOBS, --policy or --no-scaling")
    cases = measure.policy_cases(policy or (), jobs) + (measure.scaling_cases(jobs) if grown else [])
    with progress_bar("cases", quiet=quiet) as progress:
        measured = list(measure.run(cases, repeat=repeat, seed=seed, trace=trace, progress=progress))
    more: dict[str, Any] = {}
    if trace is None:
        more["command"] = measure.whole_command(jobs, repeat=repeat, seed=seed)
        more["start_up"] = measure.start_up(repeat=max(repeat, 5))
    if json_path is not None:
        text = json.dumps(measure.as_json(measured, **more), indent=2) + "\n"
        with replacing(json_path, force=force) as file:
            file.write(text.encode())
    if picture is not None:
        from ringbco.report.charts import png
        from ringbco.report.scaling import scaling as curves

        with replacing(picture, force=force) as file:
            file.write(png(curves(measured)))
    if not quiet:
        _show(measured, measure.machine(), more)
        for path in (picture, json_path):
            if path is not None:
                print(f"written: {path}")


def _short(number: float) -> str:
    """Three figures or so: 870, 14.8k, 1.35M."""
    for least, unit, letter in ((1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if number >= least:
            return f"{number / unit:.3g}{letter}"
    return f"{number:,.0f}"


def _show(measured: list[Measurement], machine: dict[str, Any], more: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 110)
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB;"
        f" {machine['system']}; Python {machine['python']}, ringbco {machine['ringbco']}",
        markup=False,
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for title in ("jobs", "servers", "load", "queue", "engine", "x sort", "ns/job"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in ("jobs/s", "events/s", "decis./s", "MB"):
        table.add_column(title, justify="right", no_wrap=True)
    group = None
    for m in measured:
        if group not in (None, m.group):
            table.add_section()
        group = m.group
        table.add_row(
            m.label,
            _short(m.jobs),
            _short(m.servers),
            f"{m.load:g}",
            _short(m.longest_queue),
            f"{m.engine_seconds:.3f} s",
            f"{m.ratio:.2f}",
            f"{1e9 * m.engine_seconds / m.jobs:,.0f}",
            _short(m.jobs_per_second),
            _short(m.events_per_second),
            _short(m.decisions_per_second),
            f"{m.peak_bytes / 1e6:,.0f}",
        )
    console.print(table)
    if "command" in more:
        whole, floor = more["command"], more["command"]["floor_seconds"]
        rest = (whole["wall_seconds"] - whole["engine_seconds"]) / floor
        print(
            f"whole command (fifo, fixed; Parquet in, folder out): {whole['wall_seconds']:.2f} s"
            f" = engine {whole['engine_seconds']:.2f} s + {rest:.1f} x argsort ({floor:.2f} s)"
        )
        print(
            f"start-up beyond the interpreter: import ringbco {more['start_up']['import_seconds']:.2f} s,"
            f" ringbco --help {more['start_up']['help_seconds']:.2f} s"
        )
