"""Several policies on the same jobs, replayed side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Unpack

from ringbco.cluster.spec import Cluster
from ringbco.errors import RingbcoError
from ringbco.result.bound import Bounds
from ringbco.result.comparison import Comparison
from ringbco.result.outcome import Outcome
from ringbco.run.compare_runs import (
    MOST_SEEDS,
    Watch,
    assembled,
    check_inputs,
    read_results,
    resolve_workloads,
    wanted_runs,
)
from ringbco.run.kept import Ended, Kept, key_of
from ringbco.run.options import MOST_THREADS, as_cluster, check_callback, checked, integer
from ringbco.run.options_generated import Options
from ringbco.run.replay import carry_out
from ringbco.run.setup import prepare
from ringbco.trace.jobs import TableLike, as_table
from ringbco.trace.plausibility import doubts, silently, warn


def compare(
    jobs: TableLike | None = None,
    cluster: Cluster | str | os.PathLike[str] | None = None,
    policies: Sequence[str] = (),
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
    runs: Mapping[str, Mapping[str, Any]] | None = None,
    results: Sequence[Outcome | str | os.PathLike[str]] = (),
    seeds: int = 1,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[Options],
) -> Comparison:
    """Replays `jobs` on `cluster` under each of `policies` and `runs`, several at a time.

    Without policies and runs the `results` alone are put side by side; then there is no `jobs`, no `cluster`.

    The table is read once, and its profile resolved once a seed.
    runs: settings beside the policies, by label, such as {"sjf-bco, kappa 4": {"policy": "sjf-bco",
        "kappa": 4}}: options of `replay` by its parameters' names, which go before `options`, `cluster`, and
        `parameters`, the fields of a policy of one's own.
    results: outcomes at hand, or the paths of result folders, which are not run again. A path is its label;
        an outcome has its policy's name for one.
    seeds: how often each replay is repeated, with seed, seed + 1 and so on. Figures are then means over the
        seeds; `outcomes` are those of the first seed.
    recorded_cluster: as for `replay`, of every run. threads: replays at a time, None for one a processor.
    progress: called now and then with (jobs finished, jobs in all) over all replays.
    options: those of `replay`, the same for every policy that uses them; the others do without.

    The policies come first, then the runs, then the results; the first is what the others are held against.

    Raises UsageError for a policy that is unknown or named twice, for a label given twice, and for a demand
    that none of them can meet; InputError for a folder that is no result, or a damaged one; otherwise as
    `replay`, for the first run in order that fails. Warns as `replay` does, once.
    """
    return compared(
        jobs,
        cluster,
        policies,
        recorded_cluster=recorded_cluster,
        runs={} if runs is None else runs,
        results=results,
        seeds=seeds,
        threads=threads,
        progress=progress,
        options=options,
        kept=None,
    )[0]


def compared(
    jobs: TableLike | None,
    cluster: Cluster | str | os.PathLike[str] | None,
    policies: Sequence[str],
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
    runs: Mapping[str, Mapping[str, Any]],
    results: Sequence[Outcome | str | os.PathLike[str]],
    seeds: int,
    threads: int | None,
    progress: Callable[[int, int], None] | None,
    options: Mapping[str, Any],
    kept: Kept | None,
) -> tuple[Comparison, dict[str, Path]]:
    """As `compare`, with each finished run in `kept`, and taken from there if it is in it already.

    Beside the comparison: by label, the folders in which outcomes are kept.
    """
    check_inputs(bool(policies or runs), results, jobs, cluster)
    if jobs is None or cluster is None:
        return Comparison(read_results(results, ())), {}
    wanted = wanted_runs(policies, runs, options)
    seeds = integer("seeds", seeds, 1, MOST_SEEDS)
    if threads is not None:
        threads = integer("threads", threads, 1, MOST_THREADS)
    check_callback(progress)
    labels = [run.label for run in wanted]
    finished = read_results(results, labels)
    checked(options)
    table = as_table(jobs)
    cluster = as_cluster(cluster, recorded_cluster)
    repeats = [run.repeat(number, cluster) for run in wanted for number in range(seeds)]
    workloads = resolve_workloads(table, repeats)
    clusters = dict.fromkeys(one.cluster for one in repeats)
    of_clusters = (doubt for here in clusters for doubt in doubts(None, here))
    warn(dict.fromkeys([*of_clusters, *doubts(table, None)]), within=1)
    watch = Watch(len(repeats) * table.num_jobs, progress)
    # Where runs are kept, more seeds may be asked for the next time.
    bounds = Bounds() if kept is not None or seeds > 1 else None

    def run(number: int) -> Ended:
        one, whole = repeats[number], number % seeds == 0
        tell = watch.part(number)
        with silently():
            setup = prepare(
                table,
                one.cluster,
                recorded_cluster=None,
                policy=one.policy,
                workload=workloads[one.workload],
                options=one.options,
                parameters=one.parameters,
            )
            key = None if kept is None else key_of(setup)
            ended = None if kept is None or key is None else kept.get(key, whole=whole)
            if ended is None:
                outcome = carry_out(setup, tell)
                # Of the other seeds only the figures are kept: the tables would fill the memory. They are
                # worked out here, beside other runs.
                bound = None if bounds is None else bounds.of(outcome)
                ended = Ended(outcome.summary, bound, outcome if whole else None)
                if kept is not None and key is not None:
                    ended = kept.add(key, ended)
        tell(table.num_jobs, table.num_jobs)
        return ended

    try:
        with ThreadPoolExecutor(min(threads or os.cpu_count() or 1, len(repeats))) as pool:
            futures = [pool.submit(run, number) for number in range(len(repeats))]
            try:
                ended = [future.result() for future in futures]
            except BaseException:
                # The pool waits for what runs; so that it need not wait long, the rest gives up.
                watch.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except RingbcoError:
        if kept is not None:
            kept.discard()
        raise
    written = {label: ended[number * seeds].folder for number, label in enumerate(labels)}
    comparison = assembled(labels, ended, finished, bounded=bounds is not None)
    return comparison, {label: at for label, at in written.items() if at is not None}
