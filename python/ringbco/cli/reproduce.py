"""`ringbco reproduce`: the paper's figures 4 to 7 again, beside its values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ringbco.reproduce import Claim


def reproduce(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to make.")],
    seeds: Annotated[int, typer.Option(help="Seeds to make every figure with.")] = 20,
    force: Annotated[bool, typer.Option("--force", help="Replace what an earlier run left in DIR.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Make the paper's figures 4 to 7 again, and set them beside the values read off the paper.

    DIR gets index.html, which needs no network, the figures as PNG, and every plan's outcome in
    runs.parquet. It appears whole or not at all.

    Example: ringbco reproduce --seeds 20 -o figures
    """
    from ringbco import reproduce as experiment
    from ringbco.cli.progress import progress_bar
    from ringbco.outcome import check_target, whole_folder
    from ringbco.report import reproduce_page

    check_target(out, force=force, ours=_is_ours)
    with progress_bar(f"figures 4 to 7, {seeds} seeds", quiet=quiet, unit="plans") as progress:
        runs = experiment.run(seeds, progress)
    claims = experiment.claims(runs)
    with whole_folder(out, force=force, ours=_is_ours) as folder:
        reproduce_page.write(folder, runs, claims)
    if not quiet:
        _show(claims, seeds)
        print(f"{runs.height:,} plans; the page is {out / 'index.html'}")


def _is_ours(folder: Path) -> bool:
    """Whether an earlier `reproduce` made the folder."""
    from ringbco.outcome import holds_only

    files = ("index.html", "runs.parquet", *(f"figure-{number}.png" for number in range(4, 8)))
    return all((folder / name).is_file() for name in files) and holds_only(folder, files)


def _show(claims: list[Claim], seeds: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from ringbco.reproduce import READINGS

    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, title=f"holds on the mean, and in how many of {seeds} seeds"
    )
    table.add_column("")
    table.add_column("the paper shows")
    for dispatch, variant in READINGS:
        table.add_column(f"{dispatch}\n{variant}")
    rows: dict[tuple[int, str], list[str]] = {}
    for claim in claims:
        word = f"[green]yes[/] {claim.seeds}" if claim.holds else f"[red]no[/] {claim.seeds}"
        rows.setdefault((claim.figure, claim.text), []).append(word)
    for (figure, text), words in rows.items():
        table.add_row(str(figure), text, *words)
    Console(highlight=False).print(table)
