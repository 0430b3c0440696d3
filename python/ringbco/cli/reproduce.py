"""`ringbco reproduce`: the paper's figures 4 to 7 again, beside its values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ringbco.io.terminal import say, say_json

if TYPE_CHECKING:
    from ringbco.study.reproduce_claims import Claim

_COLOURS: Final = {"yes": "green", "unclear": "yellow", "no": "red"}


def reproduce(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to make.")],
    seeds: Annotated[int, typer.Option(help="Seeds to make every figure with.")] = 20,
    force: Annotated[bool, typer.Option("--force", help="Replace what an earlier run left in DIR.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the verdicts and what was written as JSON and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Make the paper's figures 4 to 7 again, and set them beside the values read off the paper.

    DIR gets index.html, which needs no network, the figures as PNG, and every plan's outcome in
    runs.parquet. It appears whole or not at all. The table says of each of the paper's orderings whether it
    comes out: yes or no where the means and clearly most of the seeds say so alike, else unclear.

    Example: ringbco reproduce --seeds 20 -o figures
    """
    from ringbco.cli.progress import progress_bar
    from ringbco.reports import reproduce_page
    from ringbco.result.folder import check_target, whole_folder
    from ringbco.study import reproduce as experiment
    from ringbco.study.reproduce_claims import claims, rule

    check_target(out, force=force, kind=reproduce_page.FOLDER)
    with progress_bar(f"figures 4 to 7, {seeds} seeds", quiet=quiet, unit="plans") as progress:
        runs = experiment.run(seeds, progress)
    found = claims(runs)
    with whole_folder(out, force=force, kind=reproduce_page.FOLDER) as folder:
        reproduce_page.write(folder, runs, found)
    if as_json:
        told = {
            "seeds": seeds,
            "plans": runs.height,
            "page": str(out / "index.html"),
            "figures": [str(out / f"figure-{number}.png") for number in reproduce_page.FIGURES],
            "runs": str(out / "runs.parquet"),
            "rule": rule(seeds),
            "claims": [vars(claim) for claim in found],
        }
        say_json(told)
    elif not quiet:
        show(found, seeds)
        say(f"{runs.height:,} plans; the page is {out / 'index.html'}")


def show(claims: list[Claim], seeds: int) -> None:
    """Prints the verdicts as a table, then the rule that they follow."""
    from rich import box
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from ringbco.io.console import Console
    from ringbco.study.reproduce import READINGS
    from ringbco.study.reproduce_claims import rule, shown

    console = Console()
    narrow = console.width < 80
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title=f"what comes out, in how many of {seeds} seeds; means in slots",
    )
    table.add_column("", no_wrap=True)
    table.add_column("the paper shows", overflow="fold")
    # A narrow terminal gets a line a reading instead of a column.
    for dispatch, variant in () if narrow else READINGS:
        table.add_column(
            f"{dispatch}\n{variant}", overflow="fold", max_width=10 if console.width < 100 else None
        )
    rows: dict[tuple[int, str], list[Claim]] = {}
    for claim in claims:
        rows.setdefault((claim.figure, claim.text), []).append(claim)
    for (figure, text), own in rows.items():
        paper = f"{text}\n[dim]{shown(own[0].paper)}[/]"
        verdicts = [
            f"[{_COLOURS[claim.verdict]}]{claim.verdict}[/] {claim.seeds}"
            + (": " if narrow else "\n")
            + f"[dim]{shown(claim.means)}[/]"
            for claim in own
        ]
        if narrow:
            lines = (f"{c.dispatch}, {c.variant}: {v}" for c, v in zip(own, verdicts, strict=True))
            cells = ["\n".join((paper, *lines))]
        else:
            cells = [paper, *verdicts]
        table.add_row(str(figure), *map(Text.from_markup, cells))
    console.print(table)
    console.print(Padding(rule(seeds), (0, 0, 1, 0)))
