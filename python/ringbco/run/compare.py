"""Several policies on the same jobs, replayed side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Unpack

from ringbco.cluster.spec import Cluster
from ringbco.result.bound import Bounds
from ringbco.result.comparison import Comparison
from ringbco.result.outcome import Outcome
from ringbco.run.compare_runs import (
    MOST_SEEDS,
    Ended,
    Watch,
    assembled,
    read_results,
    resolve_workloads,
    wanted_runs,
)
from ringbco.run.options import MOST_THREADS, as_cluster, check_callback, checked, integer
from ringbco.run.options_generated import Options
from ringbco.run.replay import replay
from ringbco.trace.jobs import TableLike, as_table
from ringbco.trace.plausibility import doubts, silently, warn


def compare(
    jobs: TableLike,
    cluster: Cluster | str | os.PathLike[str],
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
    that none of them can meet; InputError for a folder that is no result; otherwise as `replay`, for the
    first run in order that fails. Warns as `replay` does, once.
    """
    wanted = wanted_runs(policies, {} if runs is None else runs, options)
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
    warn(dict.fromkeys([*of_clusters, *doubts(table, None)]))
    watch = Watch(len(repeats) * table.num_jobs, progress)

    bounds = Bounds()

    def run(number: int) -> Ended:
        tell = watch.part(number)
        one = repeats[number]
        with silently():
            outcome = replay(
                table,
                one.cluster,
                policy=one.policy,
                workload=workloads.get(one.workload),
                progress=tell,
                parameters=one.parameters,
                **one.options,
            )
        tell(table.num_jobs, table.num_jobs)
        # Of the other seeds only the figures are kept: the tables would fill the memory. They are worked out
        # here, beside other runs.
        bound = bounds.of(outcome) if seeds > 1 else None
        return Ended(outcome.summary, bound, outcome if number % seeds == 0 else None)

    with ThreadPoolExecutor(min(threads or os.cpu_count() or 1, len(repeats))) as pool:
        futures = [pool.submit(run, number) for number in range(len(repeats))]
        try:
            ended = [future.result() for future in futures]
        except BaseException:
            # The pool waits for what runs; so that it need not wait long, the rest gives up.
            watch.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return assembled(labels, ended, finished)
