"""`ringbco demo`: a bundled sample under FIFO, SJF and SJF-BCO; a table, a picture and a report."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ringbco.io.json_text import json_text
from ringbco.io.terminal import say, say_json

if TYPE_CHECKING:
    from ringbco.io.manifest import Kind
    from ringbco.result.outcome import Outcome

SAMPLE: Final = "philly-5000.parquet"
POLICIES: Final = ("fifo", "sjf", "sjf-bco")
SAMPLE_STEP: Final = 600.0  # s; fine enough for the bursts of a day
CLUSTER: Final = "32x8"
PICTURE: Final = "comparison.png"
SUMMARIES: Final = "comparison.json"
REPORT: Final = "report.html"


def demo(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to make.")] = Path(
        "ringbco-demo"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace what an earlier demo left in DIR.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summaries as JSON and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Replay a bundled sample (5,000 synthetic jobs shaped like Philly's) on 32 servers of 8 GPUs.

    Under FIFO, SJF and SJF-BCO with the contention model. Leaves one result folder a policy, a picture, a
    report and the summaries, and prints them side by side. Takes a few seconds.

    Example: ringbco demo -o demo
    """
    from ringbco.cli.progress import progress_bar
    from ringbco.cluster.spec import Cluster
    from ringbco.reports.charts import comparison, save_png
    from ringbco.reports.figures import chapters
    from ringbco.reports.html import page
    from ringbco.result.folder import check_target, whole_folder
    from ringbco.run.replay import replay
    from ringbco.trace.jobs import read_jobs

    kind = folder_kind()
    check_target(out, force=force, kind=kind)
    with as_file(files("ringbco") / "data" / SAMPLE) as sample:
        table = read_jobs(sample)
    cluster = Cluster.parse(CLUSTER)
    outcomes = {}
    for policy in POLICIES:
        with progress_bar(f"{policy} on {CLUSTER}", quiet=quiet) as progress:
            outcomes[policy.upper()] = replay(
                table, cluster, policy=policy, sample=SAMPLE_STEP, progress=progress
            )
    summaries = [outcome.summary for outcome in outcomes.values()]
    picture = comparison(
        outcomes,
        title="The same jobs under three schedulers, with ring-all-reduce contention",
        num_gpus=cluster.num_gpus,
    )
    report = page(outcomes, chapters(outcomes), title=f"{table.num_jobs:,} synthetic jobs on {CLUSTER}")
    with whole_folder(out, force=force, kind=kind) as folder:
        for policy, outcome in zip(POLICIES, outcomes.values(), strict=True):
            outcome.write(folder / policy)
        save_png(picture, folder / PICTURE)
        (folder / REPORT).write_text(report, encoding="utf-8")
        (folder / SUMMARIES).write_text(json_text(summaries) + "\n", encoding="utf-8")
    if as_json:
        say_json(summaries)
    elif not quiet:
        _show(outcomes, out.resolve(), f"{table.num_jobs:,} jobs ({SAMPLE}) on {CLUSTER}")


def folder_kind() -> Kind:
    """What `demo` makes."""
    from ringbco.io.manifest import Kind
    from ringbco.io.marks import PAGE
    from ringbco.result.folder import RESULT

    def known(path: Path) -> bool:
        return (path / SUMMARIES).is_file() and (path / PICTURE).is_file() and PAGE.knows(path / REPORT)

    return Kind("demo", frozenset({SUMMARIES, PICTURE, REPORT}), known, RESULT)


def _show(outcomes: dict[str, Outcome], folder: Path, title: str) -> None:
    from ringbco.cli.comparison import by_measure
    from ringbco.io.console import Console
    from ringbco.result.comparison import Comparison

    console = Console()
    console.print(title)
    console.print(by_measure(Comparison(outcomes), ratios=False))
    # Printed as they are, so that a long path is not broken over two lines.
    say(f"report:  {folder / REPORT}")
    say(f"picture: {folder / PICTURE}")
    say(f"results: {folder}{{{','.join(POLICIES)}}}".replace("{", "/{", 1))
