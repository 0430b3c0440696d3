"""`ringbco demo`: a bundled sample under four policies; a table, what it tells, a picture and a report."""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ringbco.cli.options import takes
from ringbco.io.json_text import json_text
from ringbco.io.terminal import say, say_json
from ringbco.units import percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringbco.io.manifest import OutputKind
    from ringbco.result.outcome import Outcome

SAMPLE: Final = "philly-5000.parquet"
POLICIES: Final = ("fifo", "sjf-bco", "gittins", "repack")
SAMPLE_STEP: Final = 600.0  # s; fine enough for the bursts of a day
CLUSTER: Final = "32x8"
PICTURE: Final = "comparison.png"
SUMMARIES: Final = "comparison.json"
REPORT: Final = "report.html"

_ROWS: Final = """
out
force: Replace an earlier demo in DIR.
as_json --json: Print the summaries as JSON and nothing else.
quiet
"""


@takes(_ROWS)
def demo(
    *, out: Path = Path("ringbco-demo"), force: bool = False, as_json: bool = False, quiet: bool = False
) -> None:
    """Replay a bundled sample (5,000 synthetic jobs shaped like Philly's) on 32 servers of 8 GPUs.

    Policies: fifo, SJF-BCO of the paper, and gittins and repack, which do not know run times in advance.
    Writes one result folder per policy, a picture, a report and the summaries, prints them side by side and
    explains them. Takes a few seconds.

    Example: ringbco demo -o demo
    """
    from ringbco.cli.inputs import tell_undrawn
    from ringbco.cli.progress import progress_bar
    from ringbco.cluster.spec import Cluster
    from ringbco.reports.charts import comparison, save_png
    from ringbco.reports.drawing import UndrawableError
    from ringbco.reports.figures import chapters
    from ringbco.reports.html import page
    from ringbco.reports.player import embedded
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
            outcomes[policy] = replay(table, cluster, policy=policy, sample=SAMPLE_STEP, progress=progress)
    summaries = [outcome.summary for outcome in outcomes.values()]
    picture = comparison(
        outcomes,
        title="The same jobs under four schedulers, with ring-all-reduce contention",
        num_gpus=cluster.num_gpus,
    )
    report = page(
        outcomes,
        chapters(outcomes),
        title=f"{table.num_jobs:,} synthetic jobs on {CLUSTER}",
        told=embedded(outcomes),
        opens=True,
    )
    with whole_folder(out, force=force, kind=kind) as folder:
        for policy, outcome in outcomes.items():
            outcome.write(folder / policy)
        with suppress(UndrawableError):  # the note of the page says why
            save_png(picture, folder / PICTURE)
        (folder / REPORT).write_text(report, encoding="utf-8")
        (folder / SUMMARIES).write_text(json_text(summaries) + "\n", encoding="utf-8")
    tell_undrawn()
    if as_json:
        say_json(summaries)
    elif not quiet:
        _show(outcomes, out.resolve(), f"{table.num_jobs:,} jobs ({SAMPLE}) on {CLUSTER}")


def folder_kind() -> OutputKind:
    """What `demo` makes."""
    from ringbco.io.manifest import OutputKind
    from ringbco.io.marks import PAGE
    from ringbco.result.folder import RESULT

    def known(path: Path) -> bool:
        return (path / SUMMARIES).is_file() and PAGE.knows(path / REPORT)

    return OutputKind("demo", frozenset({SUMMARIES, PICTURE, REPORT}), known, RESULT)


def _show(outcomes: dict[str, Outcome], folder: Path, title: str) -> None:
    from ringbco.cli.comparison import tables
    from ringbco.io.console import Console
    from ringbco.result.comparison import Comparison

    console = Console()
    console.print(f"{title}; the report has all measures")
    made, with_ratios = tables(Comparison(outcomes), console)
    for table in made:
        console.print(table)
    console.print("ratios are to fifo\n" if with_ratios else "")
    console.print(what_it_tells(outcomes), highlight=False)
    console.print()
    # Printed as they are, so that a long path is not broken over two lines.
    say(f"report:  {folder / REPORT}")
    if (folder / PICTURE).is_file():
        say(f"picture: {folder / PICTURE}")
    say(f"results: {folder}{{{','.join(POLICIES)}}}".replace("{", "/{", 1))


def what_it_tells(outcomes: Mapping[str, Outcome]) -> str:
    """What the four replays of the sample say of their policies, and where SJF-BCO wins and where not."""
    mean = {policy: outcome.summary["mean_jct"] for policy, outcome in outcomes.items()}
    spans = {policy: outcome.summary["jobs_spread"] for policy, outcome in outcomes.items()}

    def below(policy: str) -> str:
        return percent(1 - mean[policy] / mean["fifo"], 0)

    return (
        "gittins and repack do not know run times in advance. They preempt jobs; their mean completion time"
        f" is {below('gittins')} and {below('repack')} below fifo's.\n\n"
        f"sjf-bco preempts no job: {below('sjf-bco')} below. {spans['sjf-bco']} of its jobs span servers,"
        f" against {spans['fifo']} under fifo. It wins where gangs must span servers and contend for links,"
        " against ff, ls and rand, which take any GPUs. Here nearly every gang fits one server; sjf, which"
        " waits for one, beats sjf-bco."
    )
