"""`ringbco diff`: two results of the same jobs, job by job."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ringbco.cli.options import takes
from ringbco.io.terminal import say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from ringbco.cli.fitted import Fitted
    from ringbco.result.diff import Diff

_SIDES: Final = ("a", "b", "difference")
_TITLES: Final = ("A", "B", "B - A")
_MOST_USERS: Final = 20
_MOST_PARTS: Final = 3
_TOLD: Final = 0.05
"""Of all that a job's parts differ by: what a part must differ by to be printed beside the job."""

_ROWS: Final = """
a A: A result folder of `ringbco replay`.
b B: Another result of the same job table.
out --out -o PAGE.html: Also write a page.
csv FILE.csv: Also write a table with one row per job.
by COLUMN: Show the owners in this column of A's job table, such as vc or account, in place of users.
  Repeatable.
units
force: Replace an earlier page and table.
as_json --json: Print everything as JSON, times in seconds, and nothing else.
quiet
"""


@takes(_ROWS)
def diff(
    a: Path,
    b: Path,
    *,
    out: Path | None = None,
    csv: Path | None = None,
    by: list[str] | None = None,
    units: str = "human",
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Say which jobs of two results became faster or slower in B than in A, and why.

    Jobs are the same if their job_id is. A difference is B's time less A's, cut into its causes: waits,
    pauses, contention, lost work.

    Example: ringbco diff fifo sjf-bco -o diff.html
    """
    from ringbco.run.loaded import read_result
    from ringbco.units import check_units, shown_in

    check_units(units)
    _check_outputs(out, csv, force=force)
    found = read_result(a).diff(read_result(b), by or ())
    with shown_in(units):
        _write(found, (str(a), str(b)), out, csv, force=force)
        if as_json:
            told = found.to_dict()
            told |= {side: {"folder": str(folder), **told[side]} for side, folder in (("a", a), ("b", b))}
            files = {"page": out, "csv": csv}
            say_json(told | {name: str(path) for name, path in files.items() if path is not None})
        elif not quiet:
            _show(found, (str(a), str(b)))
            for path in filter(None, (out, csv)):
                say(f"written: {path}")


def _check_outputs(out: Path | None, csv: Path | None, *, force: bool) -> None:
    from ringbco.errors import UsageError
    from ringbco.io.atomic import check_output

    if out is not None:
        from ringbco.reports.outputs import check_page

        check_page(out, force=force)
    if csv is not None:
        if csv.suffix.lower() != ".csv":
            raise UsageError(f"option csv: {csv}: expected a name that ends in .csv")
        check_output(csv, _table_mark(), force=force)


def _table_mark() -> Any:
    from ringbco.io.marks import table

    always = "job_id", "submit_time", "num_gpus", "jct_a", "jct_b", "difference", "ideal_run_time"
    return table("table of differences", always)


def _write(found: Diff, names: tuple[str, str], out: Path | None, csv: Path | None, *, force: bool) -> None:
    """Both files or neither."""
    from ringbco.io.atomic import replacing

    with ExitStack() as files:
        if out is not None:
            from ringbco.io.marks import PAGE
            from ringbco.reports.diff_page import diff_page

            text = diff_page(found, names).encode()
            files.enter_context(replacing(out, PAGE, force=force)).write(text)
        if csv is not None:
            found.table.write_csv(files.enter_context(replacing(csv, _table_mark(), force=force)))


def _show(found: Diff, names: tuple[str, str]) -> None:
    from ringbco.io.console import Console

    console = Console()
    for line in (*found.headings(names), *found.sentences()):
        say(line)
    if found.same:
        return
    console.print(_means(found))
    console.print(_groups("GPUs", "gpus", found.size_classes()))
    for title, key, owners in found.by_owner():
        if owners:
            console.print(_groups(title, key, owners[:_MOST_USERS]))
        more = len(owners) - _MOST_USERS
        if more > 0:
            what = "users" if title == "user" else f"owners by {title}"
            console.print(f"... and {more:,} more {what}, whose jobs gained or lost less")
    for change, title in (("faster", "gained"), ("slower", "lost")):
        rows = found.most_changed(change)
        if rows:
            most = "the job that" if len(rows) == 1 else f"the {len(rows)} jobs that"
            console.print(f"{most} {title} most in B, and why")
            console.print(_jobs(rows))


def _cells(told: Mapping[str, float]) -> list[str]:
    from ringbco.units import duration

    return [duration(told[side]) for side in _SIDES]


def _means(found: Diff) -> Fitted:
    """The completion time, and the means of its parts."""
    from ringbco.cli.fitted import Fitted
    from ringbco.result.diff import PARTS, WHOLE

    figures = found.figures(found.jobs)
    table = Fitted("", *_TITLES)
    a, b, difference = _cells(figures["median_jct"])
    table.add_row(f"median {WHOLE}", a, b, "")
    table.add_row("median difference", "", "", difference)
    table.add_row(f"mean {WHOLE}", *_cells(figures["mean_jct"]))
    for name, told in figures["parts"].items():
        table.add_row(f"  {PARTS[name]}", *_cells(told))
    return table


def _groups(title: str, key: str, groups: Sequence[Mapping[str, Any]]) -> Fitted:
    from ringbco.cli.fitted import Fitted
    from ringbco.units import percent

    table = Fitted(title, "jobs", *(f"mean {side}" for side in "AB"), _TITLES[-1], "faster", "slower")
    for group in groups:
        shares = (percent(group[f"{change}_share"], 1) for change in ("faster", "slower"))
        table.add_row(group[key], f"{group['jobs']:,}", *_cells(group["mean_jct"]), *shares)
    return table


def _jobs(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Jobs, each with those of its parts that differ most below it."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ringbco.result.diff import PARTS, WHOLE

    table: Table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("job", overflow="fold")
    table.add_column("GPUs", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for title in _TITLES:
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(Text(row["job_id"]), str(row["num_gpus"]), WHOLE, *_cells(row["jct"]))
        for name, told in _largest(row["parts"]):
            table.add_row("", "", f"  {PARTS[name]}", *_cells(told), style="dim")
    return table


def _largest(parts: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[str, Mapping[str, float]]]:
    """The parts that explain most of a difference, largest first."""
    whole = sum(abs(told["difference"]) for told in parts.values())
    ranked = sorted(parts.items(), key=lambda item: -abs(item[1]["difference"]))
    return ((name, told) for name, told in ranked[:_MOST_PARTS] if abs(told["difference"]) > _TOLD * whole)
