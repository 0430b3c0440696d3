"""Replays a job table on a cluster under a scheduling policy: arrays in, an Outcome out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.io.bridge import open_arrays
from ringbco.result.outcome import Outcome
from ringbco.run.custom_policy import Scheduler
from ringbco.run.option import takes
from ringbco.run.options import check_callback
from ringbco.run.registry import REPLAY
from ringbco.run.results import conclude
from ringbco.run.setup import Setup, prepare
from ringbco.trace.jobs import TableLike
from ringbco.trace.plausibility import warn
from ringbco.trace.workload import Workload

if TYPE_CHECKING:
    from ringbco.run.option_types import Options
else:
    Options = dict  # only a stub has its fields


@takes(REPLAY)
def replay(
    jobs: TableLike,
    cluster: Cluster | str | os.PathLike[str],
    policy: str | Scheduler | type[Scheduler] = "sjf-bco",
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    workload: Workload | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[Options],
) -> Outcome:
    """Replays `jobs` on `cluster` and returns what happened.

    jobs: a job table, a frame with its columns (polars, pyarrow, pandas or any other library with the Arrow
        PyCapsule interface), or the path of a Parquet or CSV file.
    cluster: a `Cluster`, or what `Cluster.parse` takes, such as "32x8".
    recorded_cluster: the cluster on which the trace was recorded, given as `cluster` is; None for what
        `cluster` says itself, else servers of 8 GPUs and the default network. The jobs' iterations follow
        from it where the table has none.
    policy: a preset; `order`, `placement` and `queue` override its parts. `ringbco policies` lists them all.
        "log:FILE" carries out the decisions of another run's decisions.parquet. A custom policy is a
        class or an object, or "module:Class" or "file.py:Class" (docs/custom-policies.md).
    parameters: values for the fields of a custom policy, if its class is a dataclass.
    workload: what `trace.workload.resolve` gave for this table, cluster and options, which runs share; None
        to resolve it here.
    progress: called now and then with (jobs finished, jobs in all).

    Raises InputError for a job that the cluster cannot run, UsageError for a bad option, DecisionError where
    a custom policy asks for what cannot be. Warns (RingbcoWarning) of values unlike any public trace
    or network, such as times in milliseconds.
    """
    check_callback(progress)
    setup = prepare(
        jobs,
        cluster,
        recorded_cluster=recorded_cluster,
        policy=policy,
        workload=workload,
        options=options,
        parameters=parameters,
    )
    warn(setup.warnings)
    return carry_out(setup, progress)


def carry_out(setup: Setup, progress: Callable[[int, int], None] | None) -> Outcome:
    """What happens in a run that is prepared. Raises as `replay` does."""
    result = raw_result(setup, progress)
    # Outages that are drawn last as long as the run, which is known once it is over.
    return conclude(setup, result) if setup.is_covered(result) else carry_out(setup.longer(), progress)


def raw_result(setup: Setup, progress: Callable[[int, int], None] | None) -> _core.RunResult:
    """What the engine tells of a run. Raises as `replay` does."""
    setup.workload.begin()
    try:
        if setup.custom is None:
            open_arrays()
            return _core.replay(setup.jobs, setup.servers, setup.options, progress)
        from ringbco.run.simulation import drive

        return drive(setup, progress)
    except _core.CoreError as error:
        raise setup.explain(error) from None
