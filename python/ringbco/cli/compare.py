"""`ringbco compare`: several policies on the same jobs; one table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from ringbco.cli import inputs
from ringbco.cli.options import takes
from ringbco.io.terminal import note, say_json
from ringbco.run.registry import REPLAY

if TYPE_CHECKING:
    from ringbco.reports.series import Figure
    from ringbco.result.comparison import Comparison
    from ringbco.run.resume import FinishedRuns

_FEWEST: Final = 2

_ROWS: Final = f"""
jobs JOBS: The job table, Parquet or CSV. Needed for --policy and --run.
cluster SxG|C.toml|preset:NAME: S servers of G GPUs such as 32x8, a cluster file, or the preset of a real
  cluster. Needed for --policy and --run.
policy NAME: Repeatable; at least two of --policy, --run and --result. {REPLAY["policy"].help}
run NAME="TEXT": A policy with its own settings, shown as NAME: --run fair="fifo --order fairshare --queue
  easy". Takes the options of replay; they override the common ones. Without NAME=, the text is the name.
  Repeatable.
result DIR: A result folder of replay or plan to compare with. It is not run again. Repeatable.
baseline NAME: What the others are compared with: a policy, the name of a --run or the path of a --result.
  Default: the first.
out
threads N: Replays at a time. Default: one per processor.
[Repeated runs (docs/certainty.md)]
seeds N: Runs of each replay, which measure how much chance matters; six take six times as long. Run 0 replays
  JOBS unchanged. The others move each submission by under a minute and draw models anew for jobs that name
  none. Folders and charts show run 0.
fresh: Draw a new table for each run instead of moving submissions. Only for tables of `ringbco generate`.
[What to show]
by {{user|vc}}: Also print the figures of each user or virtual cluster, how unequal users fare, and whose wait
  rose most against the baseline.
sort MEASURE: The measure of comparison.parquet to show first and sort by, such as p99_wait. Default:
  mean_jct.
every --all: Print all measures, not only the five main ones.
figures KIND,...: Also write each chart beside DIR, as DIR-CHART.KIND: svg, pdf, png.
table KIND,...: Also write the figures beside DIR, as DIR-table.KIND: tex, csv, md.
recorded_cluster
*
vc
*Network
*Output
[Output]
units
force: Replace an earlier result in DIR.
as_json --json: Print the summary as JSON and nothing else.
quiet
"""


@takes(_ROWS, REPLAY)
def compare(
    ctx: typer.Context,
    jobs: Path | None = None,
    *,
    cluster: str | None = None,
    policy: list[str] | None = None,
    run: list[str] | None = None,
    result: list[Path] | None = None,
    seeds: int = 6,
    fresh: bool = False,
    baseline: str | None = None,
    out: Path,
    threads: int | None = None,
    figures: str | None = None,
    table: str | None = None,
    by: str | None = None,
    sort: str | None = None,
    every: bool = False,
    recorded_cluster: str | None = None,
    vc: str = "split",
    units: str = "human",
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    **options: Any,
) -> None:
    """Replay JOBS under several policies on one cluster, and print them side by side.

    DIR gets one result folder per policy, comparison.parquet, comparison.json and report.html (that of
    `ringbco report`), all or nothing. Five measures are printed; --all prints the others. A star marks the
    best value where it is apart from all others. The figure after a value is its ratio to the baseline's. All
    other options are those of `ringbco replay` and apply to each policy. If JOBS has recorded starts, two
    measures set the waits of run 0 beside the log's: the share within 10 % or 60 s, the greater, and
    Spearman's rank correlation.

    Policies come first, then runs with their own settings (--run), then existing results (--result). Existing
    results alone need neither JOBS nor --cluster.

    An interrupted comparison keeps its finished runs in DIR.unfinished. The same command continues it.

    Example: ringbco compare jobs.parquet --cluster 64x8 --policy fifo --policy sjf --policy sjf-bco -o cmp
    """
    from ringbco.cli.inputs import tell_undrawn
    from ringbco.io import process
    from ringbco.reports.paper import paper_files, sheet_of
    from ringbco.result.comparison import COMPARISON
    from ringbco.result.fairness import OWNERS
    from ringbco.result.figures import COMPARED
    from ringbco.result.folder import check_target
    from ringbco.run.options import check_name
    from ringbco.run.resume import FinishedRuns
    from ringbco.units import check_units

    asked = _Asked(policy or [], run or [], result or [], baseline)
    shown = _Shown(as_json, quiet, units, sort, by, every)
    check_units(units)
    asked.check(ctx, jobs, cluster)
    inputs.leave_open(ctx, options)
    if sort is not None:
        check_name("sort", sort, [measure.key for measure in COMPARED])
    if by is not None:
        check_name("by", by, list(OWNERS))
    check_target(out, force=force, kind=COMPARISON)
    others = paper_files(out, figures, table, force=force)
    options |= {
        "seeds": seeds,
        "fresh": fresh,
        "threads": threads,
        "recorded_cluster": recorded_cluster,
        "vc": vc,
    }
    with FinishedRuns(out) as kept, process.leaving(kept.told):
        try:
            if jobs is None or cluster is None:
                made = _at_hand(asked, options)
            else:
                made = _replayed(jobs, cluster, asked, options, kept, shown=shown)
            page, charts = _page(made.comparison)
            made.comparison.write(out, force=force, report=page, written=made.written)
            if others.wanted:
                others.write(sheet_of(made.comparison), charts)
        except BaseException as error:
            if process.received or isinstance(error, KeyboardInterrupt):
                raise
            raise _with_kept_runs(error, kept) from None
        kept.clear()
    tell_undrawn()
    if not quiet:
        _tell_kept(kept)
        made.tell()
        _tell_unequal(made.comparison)
        _tell_strangers(made.comparison, [str(folder) for folder in asked.results])
    _show(f"{made.title}, results in {out}", made.comparison, shown)


def _with_kept_runs(error: BaseException, kept: FinishedRuns) -> BaseException:
    """A failure that says what there is of the finished runs."""
    from ringbco.errors import InputError
    from ringbco.io import process
    from ringbco.io.atomic import NOTHING_LEFT

    if not len(kept):
        kept.discard()
    elif isinstance(error, InputError) and error.hint == NOTHING_LEFT:
        return error.replace(hint=kept.told())
    else:
        process.tell(f"note: {kept.told()}")
    return error


class _Asked(NamedTuple):
    """What is to be compared: names of policies, texts of --run, result folders; against which of them."""

    policies: list[str]
    texts: list[str]
    results: list[Path]
    baseline: str | None

    def check(self, ctx: typer.Context, jobs: Path | None, cluster: str | None) -> None:
        """Raises UsageError for a policy that is none, for fewer than two, and for what they lack."""
        from ringbco.cli.command import require
        from ringbco.errors import UsageError
        from ringbco.run.compare_runs import check_inputs
        from ringbco.run.options import resolve_policy

        for name in self.policies:
            resolve_policy(name)
        if sum(len(part) for part in self[:3]) < _FEWEST:
            raise UsageError("option policy: expected at least two: --policy fifo --policy sjf-bco")
        something = bool(self.policies or self.texts)
        if something:
            require(ctx, jobs=jobs, cluster=cluster)
        check_inputs(something, self.results, jobs, cluster)


class _Shown(NamedTuple):
    """How a comparison is printed."""

    as_json: bool
    quiet: bool
    units: str
    sort: str | None
    by: str | None
    every: bool


class _Compared(NamedTuple):
    """A comparison, its title, which of its outcomes are written already, the notes on its options."""

    title: str
    comparison: Comparison
    written: Mapping[str, Path]
    tell: Callable[[], None]


def _at_hand(asked: _Asked, given: Mapping[str, Any]) -> _Compared:
    """Results alone. Nothing is run, so options have no use, and more runs cannot be had."""
    from ringbco.errors import UsageError
    from ringbco.reports.reading import default_title
    from ringbco.run.compare import compare as run

    taken = inspect.signature(compare).parameters
    unused = [name for name in taken if name in given and given[name] != taken[name].default]
    for name in ("seeds", "fresh"):
        if name in unused:
            raise UsageError(f"option {name}: existing results have one run; leave it out, or add --policy")
    comparison = run(results=asked.results, baseline=asked.baseline)

    def tell() -> None:
        for name in unused:
            note(f"option {name.rstrip('_').replace('_', '-')}: not used by existing results")

    return _Compared(default_title(comparison.outcomes), comparison, {}, tell)


def _replayed(
    jobs: Path, cluster: str, asked: _Asked, given: dict[str, Any], kept: FinishedRuns, *, shown: _Shown
) -> _Compared:
    """The policies and settings that are asked for, and results; finished runs are kept."""
    from ringbco.cli.inputs import (
        parse_cluster,
        read_table,
        tell_late,
        tell_pauses,
        tell_rigid,
        tell_stopped,
        tell_unused,
    )
    from ringbco.cli.progress import progress_of_runs
    from ringbco.cli.runs import parse_runs
    from ringbco.errors import UsageError
    from ringbco.run.compare import compared
    from ringbco.run.seeds import Seeds

    threads, quiet, by = given.pop("threads"), shown.quiet, shown.by
    seeds = Seeds(*(given.pop(name) for name in Seeds._fields))
    network, vc, recorded = inputs.network_of(given), given.pop("vc"), given.pop("recorded_cluster")
    runs = parse_runs(asked.texts, cluster, network, vc, recorded)
    machine = parse_cluster(cluster, network, vc, recorded)
    table = read_table(jobs, quiet=quiet)
    if by is not None and by not in table.frame.columns:
        raise UsageError(f"option by: {by}: the job table has no column of that name")
    with progress_of_runs(f"{jobs.name} on {machine.name}", quiet=quiet) as progress:
        comparison, written = compared(
            table,
            machine,
            asked.policies,
            runs=runs,
            results=asked.results,
            seeds=seeds,
            baseline=asked.baseline,
            threads=threads,
            progress=progress.show,
            began=progress.began,
            ended=lambda done, total: progress.ended(done, total, len(kept.found)),
            options=given,
            kept=kept,
        )

    def tell() -> None:
        chosen = {name: name for name in asked.policies} | {name: own["policy"] for name, own in runs.items()}
        tell_unused(chosen, given)
        tell_rigid(chosen, table)
        for label, outcome in comparison.outcomes.items():
            tell_pauses(label, outcome)
            tell_late(label, outcome)
            if label not in comparison.not_comparable:
                tell_stopped(label, outcome, table)

    return _Compared(f"{jobs.name} on {machine.name}", comparison, written, tell)


def _page(comparison: Comparison) -> tuple[str, list[Figure]]:
    """The report's text, and its charts."""
    from ringbco.reports.figures import chapters, charts_of
    from ringbco.reports.html import page
    from ringbco.reports.player import embedded
    from ringbco.reports.reading import default_title, drawable

    drawn = drawable(comparison)
    made = chapters(drawn)
    told = embedded(drawn.best_first)
    text = page(drawn, made, title=default_title(drawn.outcomes), told=told)
    return text, charts_of(made)


def _show(title: str, comparison: Comparison, shown: _Shown) -> None:
    if shown.as_json:
        say_json(comparison.to_dict() | _owners(comparison, shown.by))
    elif not shown.quiet:
        from ringbco.cli.comparison import show, show_by
        from ringbco.io.console import Console
        from ringbco.units import shown_in

        with shown_in(shown.units):
            console = Console()
            show(title, comparison, console, shown.sort, every=shown.every)
            if shown.by is not None:
                show_by(comparison, shown.by, console)


def _owners(comparison: Comparison, by: str | None) -> dict[str, Any]:
    """What --json tells by owner."""
    from ringbco.result.fairness import inequality, payers

    if by is None:
        return {}
    return {
        f"by_{by}": comparison.by(by).to_dicts(),
        "inequality": {label: inequality(outcome) for label, outcome in comparison.outcomes.items()},
        "who_pays": list(payers(comparison.outcomes, comparison.baseline_label, by)),
    }


def _tell_kept(kept: FinishedRuns) -> None:
    """Notes on the runs that an interrupted comparison had kept."""
    for path in kept.damaged:
        note(f"{path} was damaged; its run was made again")
    if kept.found:
        count = len(kept.found)
        runs = "run is" if count == 1 else "runs are"
        note(f"{count} {runs} of an interrupted comparison, from {kept.folder}")


def _tell_unequal(comparison: Comparison) -> None:
    """A note where figures are not of the same jobs: of `--oversize drop`, or of other windows."""
    from ringbco.result.window import of_summary

    counts = {label: outcome.summary["jobs"] for label, outcome in comparison.outcomes.items()}
    windows = {of_summary(outcome.summary) for outcome in comparison.outcomes.values()}
    if len(set(counts.values())) > 1:
        ran = ", ".join(f"{label} {count:,}" for label, count in counts.items())
        why = (
            "ran different jobs, having left some out"
            if len(windows) == 1
            else "are measured in other windows"
        )
        note(f"the policies {why}: {ran}")


def _tell_strangers(comparison: Comparison, results: list[str]) -> None:
    """A note for each existing result that is of another job table or of other servers than what was run."""
    from ringbco.result.window import of_summary

    first = next(iter(comparison.outcomes.values()))
    here = first.run
    for label in results:
        there = comparison.outcomes[label].run
        others = [
            what
            for what, table, key in (("job table", "trace", "sha256"), ("servers", "cluster", "servers"))
            if there.get(table, {}).get(key) != here.get(table, {}).get(key)
        ]
        if of_summary(comparison.outcomes[label].summary) != of_summary(first.summary):
            others.append("window")
        if others:
            note(f"{label} is of another run: its {' and '.join(others)} differ")
