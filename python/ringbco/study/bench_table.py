"""What `ringbco bench` prints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.table import Table

from ringbco.io.console import Console
from ringbco.units import percent

if TYPE_CHECKING:
    from ringbco.study.bench import Measurement

_WIDE: Final = 160  # columns that a pipe gets
_SORTS: Final = 3  # times the floor that the target allows for reading, figures and writing
_ONE_JOB: Final = 1.6  # times the imports that the target allows for a replay of one job

_SPLIT: Final = (
    "Where the time of a custom policy goes, in a run of its own, which keeping the time slows down."
    " machine: events, placements, verbs; view: the arrays of state, and checks of what the policy gave;"
    " policy: its code; asked: calls of it. The engine's time above has all three."
)

Columns = Mapping[str, Callable[["Measurement"], str]]


def short(number: float) -> str:
    """Three figures or so: 870, 14.8k, 1.35M."""
    for least, unit, letter in ((1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if number >= least:
            return f"{number / unit:.3g}{letter}"
    return f"{number:,.0f}"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:,.0f}"


def _spread(values: Sequence[float], form: str) -> str:
    return f" ({min(values):{form}}-{max(values):{form}})" if len(values) > 1 else ""


_COLUMNS: Final[Columns] = {
    "jobs": lambda m: short(m.jobs),
    "servers": lambda m: short(m.servers),
    "load": lambda m: "-" if m.load is None else f"{m.load:.3g}",
    "queue": lambda m: short(m.longest_queue),
    "busy": lambda m: percent(m.busy, 0),
    "sort, ms": lambda m: _milliseconds(m.floor_seconds),
    "engine, ms": lambda m: _milliseconds(m.engine_seconds),
    "x sort": lambda m: f"{m.ratio:.2f}" + _spread(m.ratio_all, ".2f"),
    "ns/job": lambda m: f"{1e9 * m.engine_seconds / m.jobs:,.0f}",
    "jobs/s": lambda m: short(m.jobs_per_second),
    "events/s": lambda m: short(m.events_per_second),
    "decis./s": lambda m: short(m.decisions_per_second),
    "MB": lambda m: f"{m.peak_bytes / 1e6:,.0f}",
}


def show(
    measured: Sequence[Measurement], machine: Mapping[str, Any], more: Mapping[str, Any], heading: str
) -> None:
    """Prints the machine, the cases, what their columns mean, and the whole command's parts."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = max(console.width, _WIDE)
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB;"
        f" {machine['system']}; Python {machine['python']}, ringbco {machine['ringbco']}",
        markup=False,
    )
    console.print(heading)
    for columns in _fitting(measured, console):
        console.print(_table(measured, columns))
    median = ", median (least-most) of the pairs" if len(measured[0].ratio_all) > 1 else ""
    notes = [
        "queue: the most jobs that waited at once; busy: the largest share of the GPUs in use at once;"
        f" sort: the floor, an argsort of 2N random float64; x sort: engine / sort{median}."
    ]
    arrivals = {m.arrivals for m in measured}
    if "half at once" in arrivals:
        notes.append(
            "half: every second job comes in the first second, the others as generated; the load stays."
        )
    if "filled" in arrivals:
        notes.append(
            "filled: a trace too short to fill a large cluster at load 0.9 (see busy), sped up until its jobs"
            " ask for every GPU at once, or for as many as they can."
        )
    for note in notes:
        console.print(note)
    own = [m for m in measured if m.split is not None]
    if own:
        console.print(_split(own))
        console.print(_SPLIT)
    if "command" in more:
        _show_command(console, more)


def _fitting(measured: Sequence[Measurement], console: Console) -> Iterator[Columns]:
    """The columns in as many tables as it takes for none to be cut off."""
    ample = console.options.update(width=10 * _WIDE)
    taken: dict[str, Callable[[Measurement], str]] = {}
    for title, cell in _COLUMNS.items():
        wider = {**taken, title: cell}
        if taken and console.measure(_table(measured, wider), options=ample).maximum > console.width:
            yield taken
            wider = {title: cell}
        taken = wider
    yield taken


def _table(measured: Sequence[Measurement], columns: Columns) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for title in columns:
        table.add_column(title, justify="right", no_wrap=True)
    group = None
    for m in measured:
        if group not in (None, m.group):
            table.add_section()
        group = m.group
        label = f"{m.label}, half" if m.arrivals == "half at once" else m.label
        table.add_row(label, *(cell(m) for cell in columns.values()))
    return table


def _split(measured: Sequence[Measurement]) -> Table:
    """Where the time of custom policies goes."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for title in ("machine, s", "view, s", "policy, s", "asked", "asked/s"):
        table.add_column(title, justify="right", no_wrap=True)
    for m in measured:
        if m.split is not None:
            whole = m.split.seconds
            parts = (m.split.machine, m.split.view, m.split.policy)
            cells = [f"{part:.3g} ({percent(part / whole, 0)})" for part in parts]
            table.add_row(m.label, *cells, short(m.split.decisions), short(m.split.decisions / whole))
    return table


def _show_command(console: Console, more: Mapping[str, Any]) -> None:
    command, start = more["command"], more["start_up"]
    wall, engine, floor, start_up = (
        command[f"{name}_seconds"] for name in ("wall", "engine", "floor", "start_up")
    )
    small = more["small_costs"]
    imports, one_job = small["imports_cpu_seconds"], small["one_job_cpu_seconds"]
    rest = wall - engine - start_up
    lines = [
        f"whole command (fifo, fixed; Parquet in, folder out): {wall:.2f} s"
        f"{_spread(command['wall_seconds_all'], '.2f')}",
        f"  = start-up {start_up:.2f} s (interpreter and imports) + engine {engine:.2f} s"
        f" + {rest:.2f} s, {rest / floor:,.1f} x sort ({_milliseconds(floor)} ms)",
        f"  target: at most {_SORTS} x sort above start-up and engine: {_met(rest <= _SORTS * floor)}",
        f"a replay of one job: {one_job:.2f} s of CPU, {one_job / imports:.2f} x `import polars, pyarrow`"
        f" ({imports:.2f} s)",
        f"  target: at most {_ONE_JOB:g} x: {_met(one_job <= _ONE_JOB * imports)}",
        f"a report of {small['reported_jobs']:,} jobs: {small['report_cpu_seconds']:.2f} s of CPU,"
        f" {small['report_cpu_seconds'] / imports:.1f} x the imports",
        f"start-up beyond the bare interpreter ({start['interpreter_seconds']:.2f} s):"
        f" import ringbco {start['import_seconds']:.2f} s, ringbco --help {start['help_seconds']:.2f} s",
    ]
    for line in lines:
        console.print(line)


def _met(met: bool) -> str:
    return "met" if met else "missed"
