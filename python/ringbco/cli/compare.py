"""`ringbco compare`: several policies on the same jobs; one table."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ringbco.cli.replay import replay

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ringbco.compare import Comparison, Entry, Measure

_OUTPUT: Final = "Output"
_FEWEST: Final = 2
_NARROWEST: Final = 10


def compare(**given: Any) -> None:
    """Replay JOBS under several policies on one cluster, and print them side by side.

    DIR gets one result folder a policy, comparison.parquet, comparison.json and report.html (that of
    `ringbco report`), all of it or nothing. In the table the best of each row is marked with a star, and what
    follows a figure is its ratio to the first policy's. All other options are those of `ringbco replay` and
    hold for every policy.

    Example: ringbco compare jobs.parquet --cluster 64x8 --policy fifo --policy sjf --policy sjf-bco -o cmp
    """
    from ringbco.cli.inputs import parse_cluster, read_table, tell_unused
    from ringbco.cli.progress import progress_bar
    from ringbco.cluster import NETWORK_RULES
    from ringbco.compare import compare as run
    from ringbco.compare import is_comparison
    from ringbco.errors import UsageError
    from ringbco.options import resolve_policy
    from ringbco.outcome import check_target
    from ringbco.report.figures import chapters
    from ringbco.report.html import page
    from ringbco.report.reading import default_title

    jobs, cluster, out = (given.pop(name) for name in ("jobs", "cluster", "out"))
    policies, threads = given.pop("policy"), given.pop("threads")
    force, as_json, quiet = (given.pop(name) for name in ("force", "as_json", "quiet"))
    network = {name: given.pop(name) for name in NETWORK_RULES}
    if len(policies) < _FEWEST:
        raise UsageError("option policy: expected at least two: --policy fifo --policy sjf-bco")
    for policy in policies:
        resolve_policy(policy)
    check_target(out, force=force, ours=is_comparison)
    machine = parse_cluster(cluster, network, given.pop("vc"))
    table = read_table(jobs, quiet=quiet)
    with progress_bar(f"{len(policies)} policies on {machine.name}", quiet=quiet) as progress:
        comparison = run(table, machine, policies, threads=threads, progress=progress, **given)
    outcomes = comparison.outcomes
    report = page(outcomes, chapters(outcomes), title=default_title(outcomes))
    comparison.write(out, force=force, report=report)
    if not quiet:
        tell_unused(policies, given)
        _tell_unequal(comparison)
    if as_json:
        print(json.dumps(comparison.to_dict(), indent=2))
    elif not quiet:
        _show(f"{jobs.name} on {machine.name}, results in {out}", comparison)


def _options() -> list[inspect.Parameter]:
    """The verb's parameters: those of `replay`, but several policies, another DIR, and threads."""
    borrowed = inspect.signature(replay, eval_str=True).parameters
    (policy,) = borrowed["policy"].annotation.__metadata__
    own = {
        "policy": Annotated[
            list[str],
            typer.Option(
                metavar="NAME",
                autocompletion=policy.autocompletion,
                help=f"Twice or more; the first is what the others are held against. {policy.help}",
                show_default=False,
            ),
        ],
        "out": Annotated[
            Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to make.", show_default=False)
        ],
        "threads": Annotated[
            int | None,
            typer.Option(
                metavar="N", help="Replays at a time. Default: one a processor.", show_default=False
            ),
        ],
    }
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [borrowed["jobs"], borrowed["cluster"]]
    for name, annotation in own.items():
        default = None if name == "threads" else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, keyword, default=default, annotation=annotation))
    return parameters + [
        parameter for name, parameter in borrowed.items() if name not in ("jobs", "cluster", *own)
    ]


# Typer reads both. What `replay` learns, `compare` then knows too.
compare.__signature__ = inspect.Signature(_options())  # type: ignore[attr-defined]
compare.__annotations__ = {parameter.name: parameter.annotation for parameter in _options()}


def _tell_unequal(comparison: Comparison) -> None:
    """A note where the policies did not run the same jobs (`--oversize drop`)."""
    counts = {label: outcome.summary["jobs"] for label, outcome in comparison.outcomes.items()}
    if len(set(counts.values())) > 1:
        ran = ", ".join(f"{label} {count:,}" for label, count in counts.items())
        print(f"note: the policies ran different jobs, having left some out: {ran}", file=sys.stderr)


def _show(title: str, comparison: Comparison) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(title, markup=False)
    for table in tables(comparison, console):
        console.print(table)
    first = next(iter(comparison.outcomes))
    console.print(f"* best of its row; ratios are to {first}", markup=False)
    told = [f"{label} ({', '.join(read)})" for label, read in _clairvoyant(comparison).items() if read]
    if told:
        console.print(f"clairvoyant, reading recorded run times: {'; '.join(told)}", markup=False)


def _clairvoyant(comparison: Comparison) -> dict[str, list[str]]:
    from ringbco.scheduling import foreknowledge

    return {
        label: foreknowledge(outcome.run.get("options", {})) for label, outcome in comparison.outcomes.items()
    }


def tables(comparison: Comparison, console: Console) -> list[Table]:
    """The comparison as one table or, where it is wider than the console, as several of some columns each.

    The first policy leads each of them.
    """
    from rich.measure import Measurement

    unbounded = console.options.update(width=1 << 16)
    first, *others = range(len(comparison.outcomes))
    for columns in range(len(others), 1, -1):
        parts = [others[start : start + columns] for start in range(0, len(others), columns)]
        made = [_table(comparison, [first, *part], fold=False) for part in parts]
        if all(Measurement.get(console, unbounded, table).maximum <= console.width for table in made):
            return made
    return [_table(comparison, [first, other], fold=True) for other in others]


def _table(comparison: Comparison, shown: list[int], *, fold: bool) -> Table:
    """The policies `shown`, side by side; with `fold` the measures' names take the lines that they need."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=not fold, min_width=_NARROWEST)
    labels = list(comparison.outcomes)
    for number in shown:
        table.add_column(Text(labels[number]), justify="right", no_wrap=True)
    rows = list(comparison.rows.items())
    for (measure, entries), following in zip(rows, [*rows[1:], None], strict=True):
        texts = (_cell(measure, entries[number], compared=number > 0) for number in shown)
        # A line between one kind of statistics and the next.
        last = following is not None and measure.group != following[0].group
        table.add_row(measure.title, *texts, end_section=last)
    return table


def _cell(measure: Measure, entry: Entry, *, compared: bool) -> Any:
    from rich.text import Text

    text = Text(measure.show(entry.value) + ("*" if entry.best else " "), style="bold" if entry.best else "")
    if compared:
        text.append(f" {'-' if entry.ratio is None else f'{entry.ratio:.2f}':>5}", style="not bold dim")
    return text
