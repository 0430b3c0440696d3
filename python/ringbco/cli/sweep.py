"""`ringbco sweep`: many runs, one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ringbco.cli.options import takes
from ringbco.io.terminal import say, say_json
from ringbco.units import plain

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console
    from rich.table import Table

    from ringbco.reports.paper import PaperFiles
    from ringbco.result.certainty import Figured
    from ringbco.result.figures import Figure
    from ringbco.sweeps.over import Over
    from ringbco.sweeps.run import SweepResult
    from ringbco.sweeps.spec import Spec

_SHOWN_ROWS: Final = 40
_SHARED_WIDTH: Final = 40

_ROWS: Final = r"""
spec SPEC.toml: What to run: see docs/sweeps.md.
run NAME="TEXT": A policy with its own settings, run at each point of the grid and shown as NAME: --run
  fair="fifo --order fairshare --queue easy". Takes the options of replay. Without NAME=, the text is the
  name. Repeatable.
out --out -o DIR: The sweep's folder. An unfinished sweep in it is continued.
[Where the runs go]
threads N>=1: Threads. Default: one per processor.
processes N>=1: Processes on this machine instead.
dask ADDRESS: Dask workers instead: a scheduler's tcp://HOST:PORT, its scheduler file (.json), or local:N.
  Needs ringbco\[dask].
scatter: With --dask: send each trace to the workers once. Otherwise they read its path.
[Seeds]
seeds N: Runs of each point, with consecutive seeds from its own. Adds intervals, and verdicts against the
  baseline, also in DIR/seeds.parquet (docs/certainty.md).
fresh: With --seeds: draw a new table for each run instead of moving submissions by under a minute. Only for
  tables of `ringbco generate`.
baseline NAME: With --seeds: what the others are compared with: a policy or the name of a --run. Default: the
  first.
[Targets]
measure MEASURE: The measure of comparison.parquet to show first and to use for --target, such as p90_wait.
  Default: mean_jct.
target VALUE: Find the smallest cluster, or the highest load, that keeps the measure within VALUE, such as
  10min.
bisect SETTING=LOW..HIGH: Search between two values of a setting, such as cluster=16x8..512x8, instead of
  running a grid.
[For papers]
figures KIND,...: Also write each chart beside DIR, as NAME-CHART.KIND: svg, pdf, png.
table KIND,...: Also write the figures beside DIR, as NAME-table.KIND: tex, csv, md.
units
[Options]
as_json --json: Print what was done as JSON and nothing else.
quiet
"""


@takes(_ROWS)
def sweep(
    spec: Path,
    *,
    run: list[str] | None = None,
    out: Path,
    threads: int | None = None,
    processes: int | None = None,
    dask: str | None = None,
    scatter: bool = False,
    seeds: int = 1,
    fresh: bool = False,
    baseline: str | None = None,
    measure: str | None = None,
    target: str | None = None,
    bisect: str | None = None,
    figures: str | None = None,
    table: str | None = None,
    units: str = "human",
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Run all of SPEC.toml that DIR does not hold yet; DIR/runs.parquet has one row per run.

    Finished runs are kept in DIR/runs. An interrupted sweep continues; a finished one has nothing to do. A
    run that fails is a row with its error, and the exit status is still 0. It is 1 if runs were lost with a
    worker or a scheduler: the same command repeats those.

    Example: ringbco sweep sweep.toml -o sweep --dask local:8
    """
    from ringbco.cli.progress import progress_of_runs
    from ringbco.cli.runs import settings_of
    from ringbco.errors import RingbcoError, UsageError
    from ringbco.io.process import leaving
    from ringbco.reports.paper import paper_files
    from ringbco.run.seeds import Seeds
    from ringbco.sweeps import targets
    from ringbco.sweeps.document import read_document
    from ringbco.sweeps.run import sweep as sweep_of
    from ringbco.units import check_units, shown_in

    check_units(units)
    if sum(choice is not None for choice in (threads, processes, dask)) > 1:
        raise UsageError("options threads, processes, dask: expected one of them at most")
    if scatter and dask is None:
        raise UsageError("option scatter: expected together with --dask")
    if baseline is not None and seeds == 1:
        raise UsageError("option baseline: expected together with --seeds N, N of 2 or more")
    # A sweep's own files are made anew each time.
    files = paper_files(out, figures, table, force=True)
    runs = settings_of(run or [], spec.parent)
    asked = targets.asked(read_document(spec, runs), Seeds(seeds, fresh), measure, target, bisect)
    done, before = 0, None

    def kept() -> str:
        return f"{done} runs are kept in {out}; the same command goes on from there"

    with (
        leaving(kept),
        progress_of_runs(spec.name, quiet=quiet) as progress,
        _executor(processes, dask, scatter) as (executor, travel),
    ):

        def tell(finished: int, total: int) -> None:
            nonlocal done, before
            done = finished
            # It is told after each run, so the first time all others are from before.
            before = finished - 1 if before is None else before
            progress.show(finished, total)
            progress.ended(finished, total, before)

        def swept(wanted: Spec) -> SweepResult:
            return sweep_of(
                wanted,
                out,
                baseline=baseline,
                executor=executor,
                threads=threads,
                scatter=travel,
                progress=tell,
                on_run_start=progress.began,
            )

        wanted, result, found = asked.run(swept)
    if as_json:
        say_json(_document(result) | ({"targets": [one.to_dict() for one in found]} if asked.target else {}))
    written = _write(files, result) if files.wanted else []
    if not (as_json or quiet):
        with shown_in(units):
            _show(wanted, result, asked.measure, targeted=asked.target is not None)
            for one in found:
                for line in one.lines():
                    say(line)
            for path in written:
                say(str(path))
    if result.lost:
        raise RingbcoError(
            f"{result.lost} of {result.frame.height} runs were lost ({result.reason}); the others are kept in"
            f" {out}, and the same command does the lost ones again"
        )


def _document(result: SweepResult) -> dict[str, Any]:
    """What was done, as --json tells it."""
    over = result.by_point
    return {
        "runs": result.frame.height,
        "kept": result.kept,
        "failed": result.failed,
        "table": str(result.path),
        **({} if over is None else {"notes": over.notes(), "sentences": list(over.sentences())}),
    }


def _write(files: PaperFiles, result: SweepResult) -> list[Path]:
    """The files for papers, if a run did well."""
    from ringbco.reports.sweep_page import sweep_page, sweep_sheet, sweep_title
    from ringbco.reports.sweep_points import read_sweep

    if result.failed == result.frame.height:
        return []
    runs = read_sweep(result.path.parent)
    _, figures = sweep_page(runs, title=sweep_title(runs))
    return files.write(sweep_sheet(runs), figures)


@contextmanager
def _executor(
    processes: int | None, dask: str | None, scatter: bool
) -> Iterator[tuple[Executor | None, Callable[[Any], Any] | None]]:
    """The executor asked for (None: the sweep's own threads), and how traces travel to it."""
    from ringbco.sweeps.executors import ProcessExecutor, dask_executor
    from ringbco.sweeps.mapped import Maps

    if dask is not None:
        with dask_executor(dask, scatter=scatter) as made:
            yield made
    elif processes is not None:
        pool = ProcessExecutor(processes)
        with Maps() as maps:
            try:
                yield pool, maps
            finally:
                pool.shutdown(cancel_futures=True)
    else:
        yield None, None


def _show(spec: Spec, result: SweepResult, measure: Figure | None, *, targeted: bool) -> None:
    from ringbco.io.console import Console
    from ringbco.result.certainty import depth
    from ringbco.result.figures import HEADLINES
    from ringbco.sweeps.store import SEEDS

    console = Console()
    frame = result.frame
    over = result.by_point
    height = frame.height if over is None else len(over.points)
    wanted = dict.fromkeys((*([measure] if measure else ()), *HEADLINES))
    figures = [measure for measure in wanted if measure.key in frame.columns]
    console.print(_table(frame.head(_SHOWN_ROWS), spec.varied, figures, console, over))
    if height > _SHOWN_ROWS:
        console.print(f"... and {height - _SHOWN_ROWS:,} more")
    if over is not None:
        below = f"below a figure its interval over {over.runs} runs; " if depth(over.runs) else ""
        console.print(f"{below}all measures are in {result.path.with_name(SEEDS)}", markup=False)
        told = list(islice(over.sentences(figures[0].key), 0 if targeted else _SHOWN_ROWS))
        for line in (*told, *over.notes(len(told))):
            console.print(line, markup=False)
    for error in frame["error"].drop_nulls().unique(maintain_order=True).head(5):
        say(f"failed: {error}")
    alike = frame.height - result.kept - result.done
    same = f" ({alike:,} like another of them)" if alike else ""
    console.print(
        f"{frame.height:,} runs{same}: {result.done:,} done now, {result.kept:,} kept from before,"
        f" {result.failed:,} failed"
    )
    say(str(result.path))


def _table(
    frame: pl.DataFrame, varied: tuple[str, ...], figures: list[Figure], console: Console, over: Over | None
) -> Table:
    """The settings that differ, one column each, and as many of the figures as fit beside them.

    Where not even one fits, the settings share a column and are folded. Over seeds a row is a point.
    """
    from ringbco.cli.comparison import fits

    for apart in (True, False):
        for count in range(len(figures), 0, -1):
            table = _layout(_rows(frame, varied, figures[:count], over), figures[:count], apart=apart)
            if fits(table, console):
                return table
    return _layout(_rows(frame, varied, figures[:1], over), figures[:1], apart=False)


def _rows(
    frame: pl.DataFrame, varied: tuple[str, ...], figures: list[Figure], over: Over | None
) -> list[tuple[dict[str, str], list[str] | None]]:
    """The settings of each row, and its figures as text; None where it failed."""
    if over is None:
        return [
            (
                {name: plain(row[name], "-") for name in varied},
                None if row["error"] is not None else [one.show(row[one.key]) for one in figures],
            )
            for row in frame.iter_rows(named=True)
        ]
    rows: list[tuple[dict[str, str], list[str] | None]] = []
    for number, point in enumerate(over.points[:_SHOWN_ROWS]):
        settings = {name: plain(value, "-") for name, value in point.settings.items()}
        cells = [_over_runs(one, over.figure(number, one.key)) for one in figures]
        rows.append((settings, None if set(cells) == {"-"} else cells))
    return rows


def _over_runs(measure: Figure, figure: Figured) -> str:
    text = measure.brief(figure.value)
    ends = measure.show_ends(figure.interval)
    return f"{text}\n{ends}" if ends else text


def _layout(
    rows: list[tuple[dict[str, str], list[str] | None]], figures: list[Figure], *, apart: bool
) -> Table:
    """The table with the settings in columns of their own (`apart`), or all in one."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    if apart:
        for name in rows[0][0] if rows else ():
            table.add_column(name.replace("_", "\n"), justify="right", no_wrap=True)
    else:
        table.add_column("settings", overflow="fold", max_width=_SHARED_WIDTH)
    for figure in figures:
        table.add_column(figure.key.replace("_", "\n"), justify="right", no_wrap=True)
    for named, cells in rows:
        settings = list(named.values())
        if not apart:
            settings = [" ".join(f"{name}={text}" for name, text in named.items())]
        told = [Text("failed", style="bold red")] if cells is None else list(map(Text, cells))
        table.add_row(*map(Text, settings), *told)
    return table
