"""Many runs through any `concurrent.futures` executor; finished ones are kept (docs/sweeps.md)."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

import ringbco
from ringbco.cluster.spec import Cluster
from ringbco.deprecation import renamed, renamed_parameters
from ringbco.errors import InputError, PolicyError, RingbcoError, one_line
from ringbco.io.digests import sha256_of
from ringbco.result import metrics
from ringbco.result.days import days_of
from ringbco.result.figures import flat
from ringbco.run.compare_runs import check_baseline
from ringbco.run.custom_policy import SerializedPolicy, resolve
from ringbco.run.options import MOST_THREADS, check_callback, integer
from ringbco.run.refusals import rigid
from ringbco.run.seeds import SeededTable, Seeds
from ringbco.sweeps.document import NamedRuns
from ringbco.sweeps.mapped import Mapped
from ringbco.sweeps.objects import Trace, table_of_trace
from ringbco.sweeps.over import Over, called
from ringbco.sweeps.settings import command, options_of
from ringbco.sweeps.spec import ONCE, Run, Spec, read_spec
from ringbco.sweeps.store import TABLE, Store
from ringbco.trace.jobs import JobTable
from ringbco.trace.plausibility import silently, warn
from ringbco.trace.recorded import without
from ringbco.trace.side_table import SideTable
from ringbco.trace.workload import READS, Workload
from ringbco.trace.workload import resolve as resolve_workload

if TYPE_CHECKING:
    from ringbco.result.outcome import Outcome
    from ringbco.sweeps.store import Record
_TABLES_KEPT: Final = 4
_DAMAGE_SHOWN: Final = 5
_LOOK_EVERY: Final = 0.2  # s
_LOADING: Final = Lock()


@dataclass(frozen=True, eq=False)
class SweepResult:
    """What a sweep left.

    frame: one row per run, in the specification's order: its settings, its summary, its error or null.
    path: of runs.parquet, which holds the same.
    kept: rows whose runs an earlier sweep had finished. done: runs that this one did; rows that differ in
        nothing that their policy uses share one.
    lost: rows whose runs failed through no fault of their own, such as for want of the executor that should
        have done them; the same sweep does them again. reason: the error of the first of them, if any.
    by_point: with several runs a point, its figures over them, by the point's number.
    """

    frame: pl.DataFrame
    path: Path
    kept: int
    done: int
    lost: int = 0
    reason: str | None = None
    by_point: Over | None = None

    over = renamed("over", "by_point")

    @property
    def failed(self) -> int:
        """Rows with an error."""
        return self.frame["error"].len() - self.frame["error"].null_count()


@renamed_parameters(began="on_run_start")
def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any] | Spec,
    folder: str | os.PathLike[str],
    *,
    runs: NamedRuns = None,
    seeds: Seeds = ONCE,
    baseline: str | None = None,
    executor: Executor | None = None,
    threads: int | None = None,
    scatter: Callable[[Trace], Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
    on_run_start: Callable[[int, int, str], None] | None = None,
) -> SweepResult:
    """Does every run of `spec` that `folder` does not hold yet, and gathers all of them in runs.parquet.

    spec: the path of a TOML file, or what is in one as a mapping, where `trace` may be a job table or a frame
        too and `cluster` a `Cluster`. Their content decides what is kept: an equal table is not run again.
    runs: settings by name, such as {"fair": {"policy": "fifo", "order": "fairshare"}}: each is tried at every
        point of the grid, as those are that `spec` names.
    seeds: how many runs each point has, as `compare` has it: seeds.parquet then tells figures with their
        intervals, and verdicts against `baseline`, a policy or the name of a run, or the first.
    executor: where the runs go, any `concurrent.futures.Executor`; None for threads, of which there are
        `threads` or, if that is None, one a processor.
    scatter: given a trace with its table, returns what stands for it among the arguments of a task: what
        `dask.distributed.Client.scatter` does. None: every worker reads the trace from its path.
    progress: called with (runs finished, runs in all) after each.
    on_run_start: called with (its number, runs in all, its name) of the last run to begin.

    A run that fails is a row with its error. An interrupt (or whatever else ends this early) leaves the
    finished runs, gathered. Raises InputError for a bad specification, or a folder that is no sweep's.
    Warns of damaged records, which are made again, and at the end of what its runs warn of, each line once
    (RingbcoWarning).
    """
    spec = spec if isinstance(spec, Spec) else read_spec(spec, seeds, runs)
    if threads is not None:
        threads = integer("threads", threads, 1, MOST_THREADS)
    check_callback(progress)
    check_callback(on_run_start, "on_run_start", "(number, runs in all, name)")
    check_baseline(baseline, dict.fromkeys(str(run.settings.get(spec.compared)) for run in spec.runs))
    target = Path(folder)
    store = Store(target, spec)
    warn(_damage(store.damaged), within=1)
    different = {run.key: run for run in spec.runs}
    waiting = {run.key: run for run in _in_turn(different.values()) if run.key not in store.records}
    kept = sum(run.key in store.records for run in spec.runs)
    stop = Event()
    own = executor is None
    workers = min(threads or os.cpu_count() or 1, max(len(waiting), 1))
    pool = executor or ThreadPoolExecutor(workers)
    names = _names(spec, waiting)

    def tell() -> None:
        # Runs begin in the order in which they were handed out. An executor of which no number of workers is
        # known is told as if it had one.
        done = len(store.records) - len(different) + len(waiting)
        last = min(done + (workers if own else getattr(executor, "workers", 1)), len(waiting))
        if on_run_start is not None and done < last:
            on_run_start(len(different) - len(waiting) + last, len(different), names[last - 1])

    try:
        tell()
        with closing(_results(pool, waiting, scatter, stop if own else None)) as results:
            for key, record in results:
                store.add(key, record)
                if progress is not None:
                    progress(len(store.records), len(different))
                tell()
    finally:
        stop.set()
        if own:
            pool.shutdown(cancel_futures=True)
        frame = store.gather()
        over = None
        if spec.seeds.seeds > 1 and frame.height == len(spec.runs):
            days = [store.records[run.key].get("days") for run in spec.runs[:: spec.seeds.seeds]]
            over = Over(spec, frame, baseline, days)
            store.tell_seeds(over)
    records = [store.records[run.key] for run in spec.runs if run.key in store.records]
    # Of jobs that are drawn the figures in a line differ, not what it says.
    recorded = [store.records[run.key] for run in spec.runs if run.key in store.records and run.draw is None]
    warn(dict.fromkeys(chain.from_iterable(record.get("warnings", ()) for record in recorded)), within=1)
    lost = [record["error"] for record in records if not record.get("final", True)]
    return SweepResult(frame, target / TABLE, kept, len(waiting), len(lost), lost[0] if lost else None, over)


def _names(spec: Spec, waiting: Mapping[str, Run]) -> list[str]:
    """What people call the runs that are waiting: what the specification varies, and the seed."""
    numbers = {run.key: number % spec.seeds.seeds for number, run in reversed(list(enumerate(spec.runs)))}
    varied = spec.varied or ("policy",)
    told = []
    for key, run in waiting.items():
        settings = {name: run.settings.get(name, run.command) for name in varied}
        told.append(", ".join(filter(None, (called(settings), spec.seeds.name_of(numbers[key])))))
    return told


def _damage(files: Sequence[Path]) -> list[str]:
    """A line for each damaged file, of many for the first of them."""
    shown = [f"{path}: is damaged or was changed by hand; it is made again" for path in files[:_DAMAGE_SHOWN]]
    more = len(files) - len(shown)
    return shown + ([f"and {more:,} more of the sweep's files, which are made again, too"] if more else [])


def execute(run: Run, trace: Trace | Mapped, stop: Event | None = None) -> Record:
    """Does one run, wherever it is called; whatever goes wrong is in the record.

    trace: the run's, perhaps with its table. stop: once set, the run ends with InterruptedError.
    """
    if run.version != ringbco.__version__:
        return _failure(f"the worker has ringbco {ringbco.__version__}, the sweep {run.version}", final=False)
    function = command(run.command)
    assert function is not None
    given = _options(run)
    if run.custom is not None:
        try:
            found = resolve(run.custom).described.get("sha256")
        except Exception as error:  # what this machine lacks: the sender has made such a policy
            return _failure(f"the worker has no such policy: {error}", final=False)
        if found != run.custom.sha256:
            return _failure(f"the worker has another file of policy {run.custom.name}", final=False)
        given["policy"] = run.custom
    accepted = inspect.signature(function).parameters

    def tell(_done: int, _total: int) -> None:
        if stop is not None and stop.is_set():
            raise InterruptedError("the sweep was interrupted")

    try:
        with _LOADING:
            table, ready = _ready(run, trace, workload="workload" in accepted)
        given |= ready
        if "allocations" in accepted:
            given["allocations"] = False
        if "threads" in accepted:
            given["threads"] = 1  # it is the runs that go side by side
        if "progress" in accepted:
            given["progress"] = tell
        with silently():
            outcome = function(table, run.cluster, **given)
    except InterruptedError:
        raise
    except RingbcoError as error:
        return _failure(str(error), final=not isinstance(error, PolicyError))
    except Exception as error:
        return _failure(f"{type(error).__name__}: {error}", final=False)
    return _with_progress(outcome, run, given.get("policy"), table)


def _with_progress(outcome: Outcome, run: Run, policy: Any, table: JobTable) -> Record:
    """The record of a finished run: what one row has room for, and no other figure is worked out."""
    told = flat(outcome.scalar_summary())
    summary = {key: value for key, value in told.items() if not isinstance(value, list | dict)}
    found = list(outcome.run.get("warnings", ()))
    name = policy.name if isinstance(policy, SerializedPolicy) else str(policy)
    if policy is not None and (line := rigid({name: policy}, table)) is not None:
        found.append(line)
    record: Record = {"summary": summary}
    if found:
        record["warnings"] = found
    if run.by_day:
        record["days"] = {**days_of(outcome).to_dict(), "epoch": table.epoch}
    return record


def scaled(table: JobTable, load: float, num_gpus: int) -> JobTable:
    """The same jobs, submitted closer together or further apart, so that the offered load is `load`.

    The offered load is sum(num_gpus x duration) / (last - first submission) / GPUs of the cluster, over all
    jobs. The first submission stays where it is; a deadline keeps its distance from its job's submission.
    Recorded starts are left out.
    Raises InputError where all jobs are submitted at once.
    """
    frame = table.frame
    submit = metrics.column(frame, "submit_time")
    span = float(np.ptp(submit))
    if span == 0:
        raise InputError(
            "jobs submitted at more than one time, since the sweep asks for a load", file=table.source
        )
    work = metrics.column(frame, "num_gpus") * metrics.column(frame, "duration")
    first = submit.min()
    moved = pl.Series(
        "submit_time", first + (submit - first) * (float(work.sum()) / (load * num_gpus) / span)
    )
    columns = [moved]
    if "deadline" in frame.columns:
        columns.append(frame["deadline"] + (moved - frame["submit_time"]))
    return replace(table, frame=without(frame.with_columns(columns)))


def _in_turn(runs: Iterable[Run]) -> list[Run]:
    """Runs of one draw of the jobs side by side, and of many workloads those of one: the last few stay."""
    kinds: dict[Hashable, int] = {}
    places = [(run, kinds.setdefault(_workload_of(run), len(kinds))) for run in runs]
    many = len(kinds) > _TABLES_KEPT
    places.sort(key=lambda place: (place[0].draw.number if place[0].draw else 0, many and place[1]))
    return [run for run, _ in places]


def _results(
    pool: Executor, waiting: Mapping[str, Run], scatter: Callable[[Trace], Any] | None, stop: Event | None
) -> Generator[tuple[str, Record], None, None]:
    """Every waiting run's key and record, as they come."""
    sent: dict[Trace, Any] = {}
    extra = () if stop is None else (stop,)
    futures: dict[Future[Record], str] = {}
    finished: SimpleQueue[Future[Record]] = SimpleQueue()
    try:
        for key, run in waiting.items():
            if run.trace not in sent:
                sent[run.trace] = scatter(_filled(run.trace, waiting.values())) if scatter else run.trace
            future = pool.submit(execute, run, sent[run.trace], *extra)
            futures[future] = key
            future.add_done_callback(finished.put)
        while futures:
            # With a timeout, so that a signal that another thread received is noticed here.
            with suppress(Empty):
                future = finished.get(timeout=_LOOK_EVERY)
                key = futures.pop(future)
                yield key, _record(future, waiting[key])
    finally:
        for future in futures:
            future.cancel()


def _record(future: Future[Record], run: Run) -> Record:
    """What the run says of itself or, where it could not, what its executor says of it."""
    try:
        return future.result()
    except (KeyboardInterrupt, SystemExit):
        raise
    except CancelledError:
        return _failure("the executor gave the run up, as Dask does when its scheduler is gone", final=False)
    except BaseException as error:
        whose = "" if run.custom is None else f"policy {run.custom.name}: "
        return _failure(whose + f"{type(error).__name__}: {error}".removesuffix(": "), final=False)


def _failure(message: str, *, final: bool) -> Record:
    return {"error": one_line(message), "final": final}


@lru_cache(maxsize=_TABLES_KEPT)
def _checked(trace: Trace) -> JobTable:
    """The trace's table; an error where the file is not the one that the sweep was given."""
    if trace.table is not None:
        return trace.table
    if sha256_of(trace.path) != trace.sha256:
        raise OSError(f"{trace.path} is not the file that the sweep began with")
    return table_of_trace(trace)


def _filled(trace: Trace, runs: Iterable[Run]) -> Trace:
    """The trace with its table, and the few workloads that most of its runs share."""
    table = _checked(trace)
    shared: dict[tuple[Hashable, ...], list[Run]] = {}
    for run in runs:
        # What depends on other tables is known by the object that holds them, which is another one elsewhere.
        if run.trace == trace and not run.draw and not set(READS) & run.beside.keys():
            shared.setdefault(_workload_of(run), []).append(run)
    most = sorted((runs for runs in shared.values() if len(runs) > 1), key=len, reverse=True)
    ready = {}
    for run, *_ in most[:_TABLES_KEPT]:
        with suppress(RingbcoError):  # its runs say so
            told = _ready(run, replace(trace, table=table), workload=run.command == "replay")[1]
            if "workload" in told:
                ready[_workload_of(run)] = told["workload"]
    return replace(trace, table=table, ready=ready)


def _ready(run: Run, trace: Trace | Mapped, *, workload: bool) -> tuple[JobTable, dict[str, Any]]:
    """The run's jobs, and what its command is given beside the options. workload: whether it takes one."""
    if isinstance(trace, Mapped):
        trace = trace.trace()
    given: dict[str, Any] = {
        name: table if isinstance(table, SideTable) else table.source for name, table in run.beside.items()
    }
    known = None if run.draw else trace.ready.get(_workload_of(run))
    if known is not None:
        return known.table, {**given, "workload": known}
    jobs = _Jobs(trace, run.draw, run.load, run.cluster.num_gpus)
    if workload:
        given["workload"] = _workload(jobs, run.cluster, _read(_options(run) | given))
    return _table(jobs), given


def _options(run: Run) -> dict[str, Any]:
    """The run's options as its command takes them."""
    known = options_of(run.command)
    return {known[name].parameter: value for name, value in run.options.items()}


def _read(given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The options that a workload depends on."""
    return tuple((name, given.get(name)) for name in READS)


def _workload_of(run: Run) -> tuple[Hashable, ...]:
    """What runs with the same workload have in common, but for their trace and draw."""
    beside = tuple((name, found.sha256) for name, found in run.beside.items() if name in READS)
    return run.load, run.cluster, repr(_read(_options(run))), beside


class _Jobs(NamedTuple):
    """What the jobs of a run depend on."""

    trace: Trace
    draw: SeededTable | None
    load: float | None
    num_gpus: int


@lru_cache(maxsize=_TABLES_KEPT)
def _table(jobs: _Jobs) -> JobTable:
    """Tables made anew are scaled to the load; submissions move once that is done."""
    if jobs.draw is None:
        table = _checked(jobs.trace)
    elif jobs.draw.kind == "moved":
        return jobs.draw.of(_table(jobs._replace(draw=None)))
    else:
        table = jobs.draw.of(_checked(jobs.trace))
    return table if jobs.load is None else scaled(table, jobs.load, jobs.num_gpus)


@lru_cache(maxsize=_TABLES_KEPT)
def _workload(jobs: _Jobs, cluster: Cluster, options: tuple[tuple[str, Any], ...]) -> Workload:
    return resolve_workload(_table(jobs), cluster, dict(options))
