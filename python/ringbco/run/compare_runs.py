"""What a comparison runs: policies, runs with their own settings, repeats by seed, existing results."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any, Final, NamedTuple

from ringbco.cluster.spec import Cluster
from ringbco.errors import UsageError
from ringbco.result.outcome import Outcome
from ringbco.result.validation import check_tables
from ringbco.run.loaded import read_result, without_ended
from ringbco.run.options import PARTS, as_cluster, checked, is_followed, refusal, resolve_policy
from ringbco.run.refusals import check_policy, fit
from ringbco.run.registry import PRESETS, REPLAY
from ringbco.run.seeds import Seeds, seeded_options
from ringbco.trace.jobs import JobTable
from ringbco.trace.other_names import hint_at
from ringbco.trace.workload import Workload, key_of, resolve

_EXAMPLE: Final = '{"small": {"policy": "sjf-bco", "kappa": 4}}'


_BESIDE: Final = ("policy", "cluster", "parameters")
"""What a run may say beside its options."""


class Repeat(NamedTuple):
    """One replay: where, what, the key of the first run's workload, its number among those of its label.

    name: what people call it.
    """

    label: str
    name: str
    cluster: Cluster
    policy: str
    options: Mapping[str, Any]
    parameters: Mapping[str, Any] | None
    workload: tuple[Hashable, ...]
    number: int


@dataclass(frozen=True)
class Run:
    """A policy with its settings, under a label.

    cluster: its own one, or None for everybody's. parameters: fields of a custom policy.
    """

    label: str
    policy: str
    options: Mapping[str, Any]
    cluster: Cluster | None = None
    parameters: Mapping[str, Any] | None = None

    def repeats(self, cluster: Cluster, seeds: Seeds) -> list[Repeat]:
        """All its runs: what follows a log has one."""
        # Where the trace was recorded is the same for all, unless the run's own cluster says otherwise.
        own = self.cluster
        here = cluster if own is None else own if own.recorded else own.with_recorded(cluster.recorded)
        common = checked(self.options)
        seeds = seeds._replace(seeds=1) if is_followed(self.policy) else seeds
        return [
            Repeat(
                self.label,
                ", ".join(filter(None, (self.label, seeds.name_of(number)))),
                here,
                self.policy,
                seeded_options(self.options, number, common["seed"]),
                self.parameters,
                key_of(here, common),
                number,
            )
            for number in range(seeds.seeds)
        ]


def wanted_runs(
    policies: Sequence[str], given: Mapping[str, Mapping[str, Any] | str], options: Mapping[str, Any]
) -> list[Run]:
    """The runs of `policies` with as much of `options` as each uses, and those given, with their own on top.

    Raises UsageError for what is no policy or no option, or named twice.
    """
    if isinstance(policies, str) or not isinstance(policies, Sequence):
        raise refusal("policies", policies, "a list of names")
    runs = named_settings(given)
    twice = [policy for policy in policies if list(policies).count(policy) > 1]
    if twice:
        raise UsageError(f"option policy: {twice[0]!r}: expected each policy once")
    for label, own in runs.items():
        if label in policies:
            raise UsageError(
                f"option run: {label!r}: expected each name once; it is one of the policies, so give the run"
                f' another name: --run NAME="..."'
            )
        _check_run(label, own)
    names = [*policies, *(own["policy"] for own in runs.values())]
    if not names:
        raise UsageError("option policy: expected at least one policy or run")
    if any(is_followed(name) and name in PRESETS for name in names):  # whose run times are those of the log
        options = {"model": "fixed", **options}
    fitted = fit(names, options, own=[*({} for _ in policies), *runs.values()])
    wanted = [Run(name, name, own) for name, own in zip(policies, fitted, strict=False)]
    for (label, own), common in zip(runs.items(), fitted[len(policies) :], strict=True):
        settings = {name: value for name, value in own.items() if name not in _BESIDE}
        run = Run(
            label,
            own["policy"],
            {**common, **settings},
            as_cluster(own["cluster"]) if "cluster" in own else None,
            own.get("parameters"),
        )
        _check_options(run)
        wanted.append(run)
    return wanted


def named_settings(runs: Mapping[str, Mapping[str, Any] | str]) -> dict[str, Mapping[str, Any]]:
    """Settings by the names of runs; a policy alone stands for itself.

    Raises UsageError for what is no such table, and for a name that is empty or there twice.
    """
    if not isinstance(runs, Mapping) or not all(isinstance(own, Mapping | str) for own in runs.values()):
        raise refusal("runs", runs, f"names and their options, such as {_EXAMPLE}")
    found: dict[str, Mapping[str, Any]] = {}
    for label, own in runs.items():
        name = str(label)
        if not name.strip():
            raise UsageError(f"option run: {name!r}: expected a name, such as {_EXAMPLE}")
        if name in found:
            raise UsageError(f"option run: {name!r}: expected each name once")
        found[name] = {"policy": own} if isinstance(own, str) else own
    return found


def check_inputs(something: bool, results: Sequence[object], jobs: object, cluster: object) -> None:
    """Raises UsageError unless there is something to run on a job table and a cluster, or results alone."""
    if something:
        if jobs is None or cluster is None:
            raise UsageError(
                "compare: expected a job table and a cluster for the policies and runs:"
                " ringbco compare jobs.parquet --cluster 32x8 --policy fifo --policy sjf -o DIR"
            )
    elif not results:
        raise UsageError("option policy: expected at least one policy or run")
    elif jobs is not None or cluster is not None:
        raise UsageError(
            "option policy: expected at least one policy or run on the job table and the cluster; results"
            " alone are compared without them: ringbco compare --result A --result B -o DIR"
        )


def check_baseline(baseline: str | None, labels: Collection[str]) -> None:
    """Raises UsageError unless the baseline is one of what is compared."""
    if baseline is not None and baseline not in labels:
        known = f"one of {', '.join(labels)}{hint_at(baseline, labels)}"
        raise UsageError(f"option baseline: {baseline!r}: expected {known}")


def read_results(
    results: Sequence[Outcome | str | os.PathLike[str]], labels: Sequence[str]
) -> dict[str, Outcome]:
    """The outcomes by label: a folder's path, or an outcome's policy, numbered where that is taken.

    labels: those taken already. Raises UsageError for a folder named twice, InputError for one that is no
    result, or a damaged one.
    """
    if isinstance(results, str | os.PathLike) or not isinstance(results, Sequence):
        raise refusal("results", results, "a list of outcomes or result folders")
    found: dict[str, Outcome] = {}
    for result in results:
        if isinstance(result, Outcome):
            check_tables(without_ended(result))
            name = str(result.summary.get("policy", "outcome"))
            taken = sum(name in (label, label.split(" [")[0]) for label in (*labels, *found))
            found[f"{name} [{taken + 1}]" if taken else name] = result
        elif isinstance(result, str | os.PathLike):
            path = os.fspath(result)
            if path in labels:
                raise UsageError(f"option result: {path}: expected another name than that of a policy or run")
            if path in found:
                raise UsageError(f"option result: {path}: expected each result once")
            found[path] = read_result(path)
        else:
            raise refusal("results", result, "an outcome or the path of a result folder")
    return found


def resolve_workloads(table: JobTable, repeats: Sequence[Repeat]) -> dict[tuple[Hashable, ...], Workload]:
    """The workload of every cluster, model, seed and whatever else one depends on, among first runs."""
    first = {repeat.workload: repeat for repeat in reversed(repeats) if not repeat.number}
    return {key: resolve(table, one.cluster, checked(one.options)) for key, one in first.items()}


def _check_options(run: Run) -> None:
    """Raises UsageError, with the label, for an option out of range or that the run's policy refuses."""
    parts = {name: run.options.get(name) for name in PARTS}
    try:
        check_policy(resolve_policy(run.policy, **parts), checked(run.options))
    except UsageError as error:
        raise UsageError(f"option run: {run.label!r}: {error}") from None


def _check_run(label: str, own: Mapping[str, Any]) -> None:
    if not isinstance(own.get("policy"), str):
        raise UsageError(f"option run: {label!r}: expected a policy, such as {_EXAMPLE}")
    known = ("cluster", "parameters", *REPLAY)
    for name in own:
        if name not in known:
            hint = hint_at(str(name), known)
            raise UsageError(f"option run: {label!r}: {name!r}: expected an option of replay{hint}")


class Watch:
    """One progress over several replays, and a way to stop them all."""

    def __init__(
        self,
        names: Sequence[str],
        jobs: int,
        progress: Callable[[int, int], None] | None,
        began: Callable[[int, int, str], None] | None,
        ended: Callable[[int, int], None] | None = None,
    ) -> None:
        """names: of the replays, of so many jobs each. progress: of jobs. began, ended: as for `compared`."""
        self._names = names
        self._total = len(names) * jobs
        self._progress = progress
        self._began = began
        self._ended = ended
        self._over = 0
        self._done: dict[int, int] = {}
        self._lock = Lock()
        self._stopped = Event()

    def stop(self) -> None:
        """Lets every replay end with an exception the next time it tells its progress."""
        self._stopped.set()

    def end(self) -> None:
        """One replay more has ended."""
        with self._lock:
            self._over += 1
            if self._ended is not None:
                self._ended(self._over, len(self._names))

    def part(self, number: int) -> Callable[[int, int], None]:
        """The progress callback of one replay, which begins."""
        with self._lock:
            self._done[number] = 0
            if self._began is not None:
                self._began(len(self._done), len(self._names), self._names[number])

        def tell(done: int, _total: int) -> None:
            if self._stopped.is_set():
                raise InterruptedError("another replay failed, or all were interrupted")
            with self._lock:
                self._done[number] = done
                if self._progress is not None:
                    self._progress(sum(self._done.values()), self._total)

        return tell
