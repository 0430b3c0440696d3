"""`ringbco sweep`: many runs, one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ringbco.cli.inputs import Units
from ringbco.io.terminal import say, say_json

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console
    from rich.table import Table

    from ringbco.result.figures import Figure
    from ringbco.sweeps.run import SweepResult
    from ringbco.sweeps.spec import Spec

_WHERE: Final = "Where the runs go"
_SHOWN_ROWS: Final = 40
_SHARED_WIDTH: Final = 40


def sweep(
    spec: Annotated[
        Path, typer.Argument(metavar="SPEC.toml", help="What to run: see docs/sweeps.md.", readable=False)
    ],
    *,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="The sweep's folder, made or taken up again.",
            show_default=False,
        ),
    ],
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Threads. Default: one a processor.",
            rich_help_panel=_WHERE,
            show_default=False,
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Processes of this machine instead.",
            rich_help_panel=_WHERE,
            show_default=False,
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Dask workers instead: a scheduler's tcp://HOST:PORT, its scheduler file (.json), or"
            " local:N. Needs ringbco\\[dask].",
            rich_help_panel=_WHERE,
            show_default=False,
        ),
    ] = None,
    scatter: Annotated[
        bool,
        typer.Option(
            "--scatter",
            help="With --dask: send each trace to the workers once, instead of having them read its path.",
            rich_help_panel=_WHERE,
        ),
    ] = False,
    units: Units = "human",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was done as JSON and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Do every run that SPEC.toml asks for and that DIR does not hold yet; one row a run in DIR/runs.parquet.

    Finished runs are kept in DIR/runs, so a sweep that was interrupted goes on where it was, and one that is
    repeated does nothing. A run that fails is a row with its error; the exit status is 0 all the same. It is
    1 where runs were lost through no fault of their own, such as with a worker or a scheduler: the same
    command does those again.

    Example: ringbco sweep sweep.toml -o sweep --dask local:8
    """
    from ringbco.cli.progress import progress_bar
    from ringbco.errors import RingbcoError, UsageError
    from ringbco.sweeps.run import sweep as run
    from ringbco.sweeps.spec import read_spec
    from ringbco.units import check_units, shown_in

    check_units(units)
    if sum(choice is not None for choice in (threads, processes, dask)) > 1:
        raise UsageError("options threads, processes, dask: expected one of them at most")
    if scatter and dask is None:
        raise UsageError("option scatter: expected together with --dask")
    wanted = read_spec(spec)
    done = 0

    try:
        with (
            progress_bar(spec.name, quiet=quiet, unit="runs") as bar,
            _executor(processes, dask, scatter) as (
                executor,
                travel,
            ),
        ):

            def tell(finished: int, total: int) -> None:
                nonlocal done
                done = finished
                if bar is not None:
                    bar(finished, total)

            result = run(wanted, out, executor=executor, threads=threads, scatter=travel, progress=tell)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"{done} runs are kept in {out}; the same command goes on from there"
        ) from None
    counts = {
        "runs": result.frame.height,
        "kept": result.kept,
        "failed": result.failed,
        "table": str(result.path),
    }
    if as_json:
        say_json(counts)
    elif not quiet:
        with shown_in(units):
            _show(wanted, result)
    if result.lost:
        raise RingbcoError(
            f"{result.lost} of {result.frame.height} runs were lost ({result.reason}); the others are kept in"
            f" {out}, and the same command does the lost ones again"
        )


@contextmanager
def _executor(
    processes: int | None, dask: str | None, scatter: bool
) -> Iterator[tuple[Executor | None, Callable[[Any], Any] | None]]:
    """The executor asked for (None: the sweep's own threads), and how traces travel to it."""
    from ringbco.sweeps.executors import ProcessExecutor, dask_executor

    if dask is not None:
        with dask_executor(dask, scatter=scatter) as made:
            yield made
    elif processes is not None:
        pool = ProcessExecutor(processes)
        try:
            yield pool, None
        finally:
            pool.shutdown(cancel_futures=True)
    else:
        yield None, None


def _show(spec: Spec, result: SweepResult) -> None:
    from ringbco.io.console import Console

    console = Console()
    console.print(_table(result.frame.head(_SHOWN_ROWS), spec.varied, console))
    frame = result.frame
    if frame.height > _SHOWN_ROWS:
        console.print(f"... and {frame.height - _SHOWN_ROWS:,} more")
    for error in frame["error"].drop_nulls().unique(maintain_order=True).head(5):
        say(f"failed: {error}")
    alike = frame.height - result.kept - result.done
    same = f" ({alike:,} like another of them)" if alike else ""
    console.print(
        f"{frame.height:,} runs{same}: {result.done:,} done now, {result.kept:,} kept from before,"
        f" {result.failed:,} failed"
    )
    say(str(result.path))


def _table(frame: pl.DataFrame, varied: tuple[str, ...], console: Console) -> Table:
    """The settings that differ, one column each, and as many figures as fit beside them.

    Where not even one fits, the settings share a column and are folded.
    """
    from rich.measure import Measurement

    from ringbco.result.figures import HEADLINES

    figures = [row for row in HEADLINES if row.key in frame.columns]
    unbounded = console.options.update(width=1 << 16)
    for apart in (True, False):
        for count in range(len(figures), 0, -1):
            table = _layout(frame, varied, figures[:count], apart=apart)
            if Measurement.get(console, unbounded, table).maximum <= console.width:
                return table
    return _layout(frame, varied, figures[:1], apart=False)


def _layout(frame: pl.DataFrame, varied: tuple[str, ...], figures: list[Figure], *, apart: bool) -> Table:
    """The table with the settings in columns of their own (`apart`), or all in one."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    if apart:
        for name in varied:
            table.add_column(name.replace("_", "\n"), justify="right", no_wrap=True)
    else:
        table.add_column("settings", overflow="fold", max_width=_SHARED_WIDTH)
    for figure in figures:
        table.add_column(figure.key.replace("_", "\n"), justify="right", no_wrap=True)
    for row in frame.iter_rows(named=True):
        settings = [_setting(row[name]) for name in varied]
        if not apart:
            settings = [" ".join(f"{name}={text}" for name, text in zip(varied, settings, strict=True))]
        told = [Text("failed", style="bold red")]
        if row["error"] is None:
            told = [Text(figure.show(row[figure.key])) for figure in figures]
        table.add_row(*map(Text, settings), *told)
    return table


def _setting(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else f"{value}"
