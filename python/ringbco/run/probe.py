"""A run repeated to the instants at which a job's story needs the engine, and no further (docs/why.md)."""

from __future__ import annotations

import copy
import math
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import ringbco
from ringbco import _core
from ringbco.errors import InputError, RingbcoError, UsageError
from ringbco.io.bridge import open_arrays
from ringbco.io.forks import use_polars
from ringbco.result.folder import cluster_of
from ringbco.result.tables import RUN
from ringbco.result.why_asked import Asked, Said, Wait, waits_of
from ringbco.result.why_record import Record, job_table
from ringbco.result.why_story import row_of, tell
from ringbco.run.again import is_ours, settings
from ringbco.run.copies import copies_of
from ringbco.run.custom_policy import Policy, RankPolicy, guarded
from ringbco.run.replay import raw_result
from ringbco.run.request_record import RequestRecord
from ringbco.run.setup import Setup, prepare
from ringbco.run.simulation import Simulation, keys_of, prepared_of

if TYPE_CHECKING:
    from ringbco.result.outcome import Outcome
    from ringbco.result.why import Story
    from ringbco.trace.jobs import TableLike

Progress = Callable[[int, int], None] | None
_UNREPEATED: Final = ("allocations", "decisions")
"""Options of what a run keeps, which are not needed here."""


def why(
    outcome: Outcome,
    job: str | None,
    jobs: TableLike | None = None,
    policy: str | None = None,
    request: int | None = None,
    *,
    name: str = "DIR",
    progress: Progress = None,
) -> Story:
    """The story of a job, or of the request of a row, from 0, of the table of requests.

    jobs: the job table that was replayed; by default the file that run.toml names, where that is unchanged.
    policy: of a result of a custom policy, its file and class; it is loaded if its SHA-256 is the
    recorded one. name: what a hint calls the result. progress: called now and then with (jobs finished in
    the repeat, jobs in all).

    Raises InputError for a job that the result does not know, for a job table that is not that of the
    result, and for another policy; UsageError for a job that is no text, and for a policy that is not needed.
    """
    use_polars()
    if (job is None) == (request is None):
        raise UsageError("job: expected the job_id of a job, or the row of a request: one of the two")
    record = Record(outcome, job_table(outcome, outcome.job_table if jobs is None else jobs))
    if request is not None:
        return _why_request(record, request, policy, name=name, progress=progress)
    row = row_of(record, str(job) if job is None else job)
    return tell(record, row, ask(record, row, policy, name=name, progress=progress))


def ask(
    record: Record, row: int, policy: str | None = None, *, name: str = "DIR", progress: Progress = None
) -> Asked:
    """What the engine says of the waits of a job. Raises as `why` does for a policy."""
    is_known = _is_known(record, policy)
    waits = waits_of(record, record.stays_of(row))
    why_not = _why_not(record, ("ringbco", "why", name, record.name(row)), is_known=is_known)
    if why_not is None and (waits or not record.stays_of(row).size):
        try:
            return _asked(_setup(record, policy), row, waits, progress)
        except RingbcoError as error:
            if policy is not None and isinstance(error, InputError | UsageError):
                raise
            why_not = f"the run does not come out again here ({error})"
    return Asked(why_not=why_not)


def _is_known(record: Record, policy: str | None) -> bool:
    """Whether the policy is given, or ours. Raises UsageError for one that is not needed."""
    ours = record.planned or is_ours(record.policy)
    if policy is not None and ours:
        raise UsageError(f"option policy: {policy}: expected none: the result is of {record.policy}")
    return policy is not None or ours


def _why_request(record: Record, request: int, policy: str | None, *, name: str, progress: Progress) -> Story:
    """The story of a request. Raises as `why` does."""
    is_known = _is_known(record, policy)
    found = RequestRecord.read(record.outcome, request, name)
    if not found.may_be_anew:
        return found.tell(())
    command = ("ringbco", "why", name, "--request", str(request))
    why_not = _why_not(record, command, is_known=is_known)
    if why_not is None:
        try:
            cut = raw_result(_setup(record, policy), progress).tables["cut_short"]
            return found.tell(found.attempts(cut))
        except RingbcoError as error:
            if policy is not None and isinstance(error, InputError | UsageError):
                raise
            why_not = f"the run does not come out again here ({error})"
    return found.tell((), why_not)


def _why_not(record: Record, words: tuple[str, ...], *, is_known: bool) -> str | None:
    """What keeps the run from being repeated. words: of the command that asked."""
    policy, made = record.policy, record.run.get("ringbco", {}).get("version")
    command = shlex.join(words)
    if "sha256" in record.run.get("own_policy", {}):
        given = f"--policy FILE.py:{policy.rpartition(':')[2]}"
        own = f"no code is run because a result names it; if you trust {policy}: {command} {given}"
    else:
        own = f"policy {policy} was made in memory"
    found = {
        "a plan has no queue": record.planned,
        "the decisions are those of a log": policy.startswith("log:"),
        own: not is_known,
        "the result does not keep the keys of order column": (
            record.options.get("order") == "column" and "own_policy" not in record.run
        ),
        f"the result was made with ringbco {made}, and this is {ringbco.__version__}": (
            made != ringbco.__version__
        ),
        f"it takes a repeat of the run ({command} --jobs JOBS), and {record.found.why_not}": not record.whole,
    }
    return next((why_not for why_not, holds in found.items() if holds), None)


def _setup(record: Record, policy: str | None) -> Setup:
    """The run, ready to be repeated. Raises as `settings` and `prepare` do."""
    outcome = record.outcome
    given, parameters = settings(outcome.run, Path(RUN), policy)
    copies = copies_of(outcome.run, lambda table: getattr(outcome, table) if outcome.has(table) else None)
    given |= {name: copy for name, copy in copies.items() if copy is not None}
    assert record.found.table is not None
    return prepare(
        record.found.table,
        cluster_of(outcome.run),
        recorded_cluster=None,
        policy=given.pop("policy"),
        workload=None,
        options={name: value for name, value in given.items() if name not in _UNREPEATED},
        parameters=parameters or None,
    )


def _asked(setup: Setup, row: int, waits: Mapping[int, Wait], progress: Progress) -> Asked:
    """What the engine says of some waits of a row, in their order."""
    if setup.custom is not None and waits:
        with guarded(setup.custom.name):
            return Asked(_Probe(setup, row, progress).said(row, waits), kept=True)
    open_arrays()
    options = {**setup.options, **dict.fromkeys(_UNREPEATED, False)}
    if setup.custom is not None:  # whether anything could hold it does not depend on the policy
        options["preemption"] = "none"
    setup.workload.begin()
    try:
        found = _core.probe(setup.jobs, setup.servers, options, row, list(waits.values()), progress)
    except _core.CoreError as error:
        raise setup.explain(error) from None
    if found is None:
        return Asked(kept=False)
    return Asked({at: Said(*told) for at, told in zip(waits, found, strict=True)}, kept=True)


class _Probe(Simulation):
    """The run under a custom policy, of the virtual cluster of a row."""

    def __init__(self, setup: Setup, row: int, progress: Progress) -> None:
        assert setup.custom is not None
        setup.workload.begin()
        vc = setup.workload.vc
        policy = copy.deepcopy(setup.custom.scheduler)
        self.decided = math.nan
        self._begin(setup, prepared_of(setup), 0 if vc is None else int(vc[row]), policy, progress)

    def _decide(self, policy: Any) -> None:
        self.decided = self._course.now
        super()._decide(policy)

    def said(self, row: int, waits: Mapping[int, Wait]) -> dict[int, Said]:
        """How the row stood as each wait began and just before it was over."""
        slot = float(self._setup.values["slot"]) if self._setup.values["clock"] == "slot" else None
        found = {}
        for at, wait in waits.items():
            # Boundaries are told in seconds: half a slot off, rounding says nothing.
            self.advance(wait.since if slot is None else wait.since + slot / 2)
            begun = self._answer(row)
            self.advance(float(np.nextafter(wait.start, -np.inf)) if slot is None else wait.start - slot / 2)
            found[at] = Said(begun, self._answer(row), [])
        return found

    def _answer(self, row: int) -> _core._Answer:
        keys, policy = None, self._policy
        if isinstance(policy, RankPolicy):
            rows = self._ranked(policy)
            # What it keeps from one call to the next stays as it is.
            told = self._ask(copy.deepcopy(policy).rank, rows)
            keys = rows, keys_of(told, rows, self.state, "rank"), policy.preemptive
        answer = self._course.ask(row, keys)
        assert answer is not None
        return {**answer, "decided": self.decided} if isinstance(policy, Policy) else answer
