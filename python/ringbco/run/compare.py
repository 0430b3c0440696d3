"""Several policies on the same jobs, replayed side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from ringbco.cluster.spec import Cluster
from ringbco.errors import RingbcoError
from ringbco.result.bound import Bounds
from ringbco.result.certainty import Runs
from ringbco.result.comparison import Comparison
from ringbco.result.outcome import Outcome
from ringbco.run.compare_runs import (
    Repeat,
    Watch,
    check_baseline,
    check_inputs,
    read_results,
    resolve_workloads,
    wanted_runs,
)
from ringbco.run.options import MOST_THREADS, as_cluster, check_callback, checked, integer, is_followed
from ringbco.run.removed_options import refuse_removed
from ringbco.run.replay import carry_out
from ringbco.run.resume import FinishedRun, FinishedRuns, key_of
from ringbco.run.seeds import SeededTables, Seeds, changes
from ringbco.run.setup import prepare
from ringbco.trace.jobs import JobTable, TableLike, as_table
from ringbco.trace.plausibility import silently, warn, warnings_of
from ringbco.trace.workload import Workload

if TYPE_CHECKING:
    from ringbco.run.option_types import Options
else:
    Options = dict  # only a stub has its fields


def compare(
    jobs: TableLike | None = None,
    cluster: Cluster | str | os.PathLike[str] | None = None,
    policies: Sequence[str] = (),
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
    runs: Mapping[str, Mapping[str, Any] | str] | None = None,
    results: Sequence[Outcome | str | os.PathLike[str]] = (),
    seeds: int = 6,
    fresh: bool = False,
    baseline: str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[Options],
) -> Comparison:
    """Replays `jobs` on `cluster` under each of `policies` and `runs`, several at a time.

    Without policies and runs the `results` alone are put side by side; then there is no `jobs`, no `cluster`.

    The table is read once, and its profile resolved once a seed of models that no job names.

    runs: settings beside the policies, by name, such as {"fair": {"policy": "fifo", "order": "fairshare"}}:
        options of `replay` by its parameters' names, which go before `options`, `cluster`, and `parameters`,
        the fields of a custom policy. A policy alone may stand for its settings: {"plain": "fifo"}.
    results: outcomes, or the paths of result folders, which are not run again. A path is its label;
        an outcome has its policy's name for one.
    seeds: how many runs each replay has: what differs between policies is told from what differs between
        runs (docs/certainty.md). Run 0 is of the jobs as they are with `seed`; run k has seed + k, and each
        submission is moved by under a minute. `outcomes` are those of run 0. A log, and the policy
        recorded, have one run.
    fresh: runs are of tables that `generate` makes anew instead. Only of a table that it made.
    baseline: the label that the others are compared with; None for the first.
    recorded_cluster: as for `replay`, of every run. threads: replays at a time, None for one a processor.
    progress: called now and then with (jobs finished, jobs in all) over all replays.
    options: those of `replay`, the same for every policy that uses them; the others do without.

    The policies come first, then the runs, then the results; the first is what the others are compared with.

    Raises UsageError for a policy that is unknown or named twice, for a name that is empty or given twice,
    and for a demand that none of them can meet; InputError for a folder that is no result, or a damaged one;
    otherwise as `replay`, for the first run in order that fails. Warns as `replay` does, once.
    """
    refuse_removed(options)
    return compared(
        jobs,
        cluster,
        policies,
        recorded_cluster=recorded_cluster,
        runs={} if runs is None else runs,
        results=results,
        seeds=Seeds(seeds, fresh),
        baseline=baseline,
        threads=threads,
        progress=progress,
        options=options,
    )[0]


def compared(
    jobs: TableLike | None,
    cluster: Cluster | str | os.PathLike[str] | None,
    policies: Sequence[str],
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
    runs: Mapping[str, Mapping[str, Any] | str],
    results: Sequence[Outcome | str | os.PathLike[str]] = (),
    seeds: Seeds,
    baseline: str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    began: Callable[[int, int, str], None] | None = None,
    ended: Callable[[int, int], None] | None = None,
    options: Mapping[str, Any],
    kept: FinishedRuns | None = None,
) -> tuple[Comparison, dict[str, Path]]:
    """As `compare`, with each finished run in `kept`, and taken from there if it is in it already.

    Beside the comparison: by label, the folders in which outcomes are kept.
    began: called with (its number, how many there are, its name) when a replay begins. ended: with (how many
    have ended, how many there are) when one has ended.
    """
    check_inputs(bool(policies or runs), results, jobs, cluster)
    if jobs is None or cluster is None:
        found = read_results(results, ())
        check_baseline(baseline, found)
        return Comparison(found, baseline=baseline), {}
    wanted = wanted_runs(policies, runs, options)
    seeds = seeds.checked()
    if threads is not None:
        threads = integer("threads", threads, 1, MOST_THREADS)
    check_callback(progress)
    labels = [run.label for run in wanted]
    finished = read_results(results, labels)
    check_baseline(baseline, [*labels, *finished])
    checked(options)
    table = as_table(jobs)
    cluster = as_cluster(cluster, recorded_cluster)
    seeds.check(table)
    draws = SeededTables(table, seeds.kind, checked(options)["seed"])
    repeats = [one for run in wanted for one in run.repeats(cluster, seeds)]
    workloads = resolve_workloads(table, repeats)
    warn(_warnings(table, repeats, workloads.values()), within=1)
    watch = Watch([one.name for one in repeats], table.num_jobs, progress, began, ended)
    several = [run for run in wanted if not is_followed(run.policy)]
    given = [(table, {**checked(run.options), "policy": run.policy}) for run in several]
    over = Runs(seeds.kind, changes(seeds, given) if given else (), table.epoch)
    # Those of run 0 are worked out when somebody asks for them, but for runs that are kept.
    bounds = Bounds() if kept is not None or seeds.fresh else None

    making = _Making(workloads, draws, kept, bounds, seeds.fresh, {})

    def run(number: int) -> FinishedRun:
        tell = watch.part(number)
        made = making.make(repeats[number], tell)
        tell(table.num_jobs, table.num_jobs)
        watch.end()
        return made

    try:
        done = _all_done(run, [one.number for one in repeats], threads, watch)
    except RingbcoError:
        if kept is not None:
            kept.discard()
        raise
    warn(dict.fromkeys(line for one in repeats for line in making.warnings.get(id(one), ())), within=1)
    by_label: dict[str, list[FinishedRun]] = {label: [] for label in labels}
    for one, end in zip(repeats, done, strict=True):
        by_label[one.label].append(end)
    of = slice(None) if seeds.fresh else slice(1)
    comparison = Comparison(
        {label: one.outcome for label, part in by_label.items() for one in part if one.outcome} | finished,
        {label: [one.summary for one in part] for label, part in by_label.items() if len(part) > 1},
        {label: [one.bound for one in part[of]] for label, part in by_label.items()} if bounds else {},
        over,
        baseline,
    )
    return comparison, {
        label: part[0].folder for label, part in by_label.items() if part[0].folder is not None
    }


def _warnings(table: JobTable, repeats: Sequence[Repeat], workloads: Iterable[Workload]) -> dict[str, None]:
    """What is allowed and yet unlike any public trace or network, once for all runs."""
    clusters = dict.fromkeys(one.cluster for one in repeats)
    of_clusters = (line for here in clusters for line in warnings_of(None, here))
    of_work = (line for one in workloads for line in one.apart)
    return dict.fromkeys([*of_clusters, *warnings_of(table, None), *of_work])


class _Making(NamedTuple):
    """Makes runs, or takes them from those that are kept. bounds: None where none are asked for.

    warnings: what first runs warn of beside what all share, by the identity of the `Repeat`.
    """

    workloads: Mapping[tuple[Hashable, ...], Workload]
    draws: SeededTables
    kept: FinishedRuns | None
    bounds: Bounds | None
    fresh: bool
    warnings: dict[int, list[str]]

    def make(self, one: Repeat, tell: Callable[[int, int], None]) -> FinishedRun:
        """One run. tell: its progress."""
        kept, first = self.kept, not one.number
        with silently():
            workload = self.workloads[one.workload]
            if not first:
                workload = self.draws.workload(one.number, workload, one.cluster, checked(one.options))
            setup = prepare(
                workload.table,
                one.cluster,
                recorded_cluster=None,
                policy=one.policy,
                workload=workload,
                options=one.options,
                parameters=one.parameters,
            )
            if first:
                self.warnings[id(one)] = setup.run_warnings
            key = None if kept is None else key_of(setup)
            ended = None if kept is None or key is None else kept.get(key, whole=first)
            if ended is None:
                outcome = carry_out(setup, tell)
                # Of the other runs only the figures are kept: the tables would fill the memory. They are
                # worked out here, beside other runs.
                bound = self.bounds.of(outcome) if self.bounds is not None and (first or self.fresh) else None
                summary = outcome.summary if first else outcome.scalar_summary()
                ended = FinishedRun(summary, bound, outcome if first else None)
                if kept is not None and key is not None:
                    ended = kept.add(key, ended)
        return ended


def _all_done(
    run: Callable[[int], FinishedRun], numbers: Sequence[int], threads: int | None, watch: Watch
) -> list[FinishedRun]:
    """What `run` gives for each number, several at a time; raises what the first that fails raises.

    The first runs of all labels go first, then the second ones: few of the tables are held at a time.
    """
    order = sorted(range(len(numbers)), key=lambda place: numbers[place])
    with ThreadPoolExecutor(min(threads or os.cpu_count() or 1, len(numbers))) as pool:
        futures = {number: pool.submit(run, number) for number in order}
        try:
            return [futures[number].result() for number in range(len(numbers))]
        except BaseException:
            # The pool waits for what runs; so that it need not wait long, the rest gives up.
            watch.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
