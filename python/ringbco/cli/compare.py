"""`ringbco compare`: several policies on the same jobs; one table."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ringbco.cli import inputs
from ringbco.cli.options import declare
from ringbco.cli.replay import replay

if TYPE_CHECKING:
    from ringbco.result.comparison import Comparison

_OUTPUT: Final = "Output"
_FEWEST: Final = 2
# What `replay` takes to repeat a result.
_ONLY_REPLAY: Final = ("ctx", "again", "parameters", "round_length")


def compare(**given: Any) -> None:
    """Replay JOBS under several policies on one cluster, and print them side by side.

    DIR gets one result folder a policy, comparison.parquet, comparison.json and report.html (that of
    `ringbco report`), all of it or nothing. The best of each measure is marked with a star, and what follows
    a figure is its ratio to the first policy's. All other options are those of `ringbco replay` and hold for
    every policy.

    Beside policies go settings (--run) and results at hand (--result). Policies come first, then settings,
    then results.

    Example: ringbco compare jobs.parquet --cluster 64x8 --policy fifo --policy sjf --policy sjf-bco -o cmp
    """
    from ringbco.cli.inputs import parse_cluster, read_table, tell_rigid, tell_unused
    from ringbco.cli.progress import progress_bar
    from ringbco.cli.runs import parse_runs
    from ringbco.errors import UsageError
    from ringbco.reports.figures import chapters
    from ringbco.reports.html import page
    from ringbco.reports.reading import default_title, drawable
    from ringbco.result.comparison import COMPARISON
    from ringbco.result.folder import check_target
    from ringbco.result.measures import MEASURES
    from ringbco.run.compare import compare as run
    from ringbco.run.options import check_name, resolve_policy
    from ringbco.units import check_units, shown_in

    jobs, cluster, out = (given.pop(name) for name in ("jobs", "cluster", "out"))
    policies, texts, folders = (list(given.pop(name) or ()) for name in ("policy", "run", "result"))
    threads, seeds, sort = (given.pop(name) for name in ("threads", "seeds", "sort"))
    force, as_json, quiet, units = (given.pop(name) for name in ("force", "as_json", "quiet", "units"))
    check_units(units)
    network = inputs.network_of(given)
    if len(policies) + len(texts) + len(folders) < _FEWEST or not (policies or texts):
        raise UsageError("option policy: expected at least two: --policy fifo --policy sjf-bco")
    for policy in policies:
        resolve_policy(policy)
    if sort is not None:
        check_name("sort", sort, [measure.key for measure in MEASURES])
    vc, recorded = given.pop("vc"), given.pop("recorded_cluster")
    runs = parse_runs(texts, cluster, network, vc, recorded)
    check_target(out, force=force, kind=COMPARISON)
    machine = parse_cluster(cluster, network, vc, recorded)
    table = read_table(jobs, quiet=quiet)
    count = len(policies) + len(runs)
    with progress_bar(f"{count} policies on {machine.name}", quiet=quiet) as progress:
        comparison = run(
            table,
            machine,
            policies,
            runs=runs,
            results=folders,
            seeds=seeds,
            threads=threads,
            progress=progress,
            **given,
        )
    drawn = drawable(comparison)
    report = page(drawn, chapters(drawn), title=default_title(drawn.outcomes))
    comparison.write(out, force=force, report=report)
    if not quiet:
        chosen = [*policies, *(own["policy"] for own in runs.values())]
        tell_unused(chosen, given)
        tell_rigid(chosen, table)
        _tell_unequal(comparison)
        _tell_strangers(comparison, [str(folder) for folder in folders])
    if as_json:
        print(json.dumps(comparison.to_dict(), indent=2))
    elif not quiet:
        from rich.console import Console

        from ringbco.cli.comparison import show

        title = f"{jobs.name} on {machine.name}, results in {out}"
        with shown_in(units):
            show(title, comparison, Console(highlight=False), sort)


def _options() -> list[inspect.Parameter]:
    """The verb's parameters: those of `replay`, but several policies, another DIR, and threads."""
    borrowed = inspect.signature(replay).parameters
    (policy,) = borrowed["policy"].annotation.__metadata__
    own = {
        "policy": Annotated[
            list[str] | None,
            typer.Option(
                metavar="NAME",
                autocompletion=policy.autocompletion,
                help="Repeatable, two or more with --run and --result; the first is what the others are held"
                f" against. {policy.help}",
                show_default=False,
            ),
        ],
        "run": Annotated[
            list[str] | None,
            typer.Option(
                metavar="TEXT",
                help='A policy with settings of its own, as one text: --run "sjf-bco --kappa 4". It takes the'
                " options of replay, which go before the common ones. Repeatable.",
                show_default=False,
            ),
        ],
        "result": Annotated[
            list[Path] | None,
            typer.Option(
                metavar="DIR",
                help="A result folder of replay or plan to put beside them; it is not run again. Repeatable.",
                show_default=False,
            ),
        ],
        "seeds": Annotated[
            int,
            typer.Option(
                metavar="N",
                help="Repeat every replay with N seeds, from --seed on. Figures are then means, with the"
                " least and the greatest; the folders and the report's charts are those of the first seed.",
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
        "sort": Annotated[
            str | None,
            typer.Option(
                metavar="MEASURE",
                help="Print a row a policy, sorted by this measure of comparison.parquet, such as p99_wait,"
                " best first. Default: by mean_jct where a column a policy is wider than the terminal.",
                show_default=False,
            ),
        ],
    }
    keyword = inspect.Parameter.KEYWORD_ONLY
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter("jobs", positional, annotation=inputs.Jobs),
        inspect.Parameter("cluster", keyword, annotation=inputs.ClusterName),
    ]
    for name, annotation in own.items():
        default = {"out": inspect.Parameter.empty, "seeds": 1}.get(name)
        parameters.append(inspect.Parameter(name, keyword, default=default, annotation=annotation))
    return parameters + [
        parameter
        for name, parameter in borrowed.items()
        if name not in ("jobs", "cluster", *_ONLY_REPLAY, *own)
    ]


# What `replay` learns, `compare` then knows too.
declare(compare, _options())


def _tell_unequal(comparison: Comparison) -> None:
    """A note where the policies did not run the same jobs (`--oversize drop`)."""
    counts = {label: outcome.summary["jobs"] for label, outcome in comparison.outcomes.items()}
    if len(set(counts.values())) > 1:
        ran = ", ".join(f"{label} {count:,}" for label, count in counts.items())
        print(f"note: the policies ran different jobs, having left some out: {ran}", file=sys.stderr)


def _tell_strangers(comparison: Comparison, results: list[str]) -> None:
    """A note for each result at hand that is of another job table or of other servers than what was run."""
    here = next(iter(comparison.outcomes.values())).run
    for label in results:
        there = comparison.outcomes[label].run
        others = [
            what
            for what, table, key in (("job table", "trace", "sha256"), ("servers", "cluster", "servers"))
            if there.get(table, {}).get(key) != here[table][key]
        ]
        if others:
            print(f"note: {label} is of another run: its {' and '.join(others)} differ", file=sys.stderr)
