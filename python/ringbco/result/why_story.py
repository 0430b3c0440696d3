"""A job's story put together from the record of a run (docs/why.md)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from ringbco.errors import InputError, UsageError, nearest
from ringbco.result.causes import WAITS
from ringbco.result.diff import PARTS
from ringbco.result.why import Story
from ringbco.result.why_asked import Asked, skipped
from ringbco.result.why_record import QUEUES, Record
from ringbco.result.why_waits import Waits

_LEAST: Final = 1e-6
"""Of a completion time: parts below are rounding."""
_SEARCHED: Final = 2_000


def row_of(record: Record, job: str) -> int:
    """The number of a job. Raises InputError for one that is not there, UsageError for what is no text."""
    if not isinstance(job, str):
        raise UsageError(f"job: {job!r}: expected the job_id of a job, which is text")
    row = record.row_of(job)
    if row is None:
        raise _unknown(record, job)
    return row


def tell(record: Record, row: int, asked: Asked) -> Story:
    """The story of the job of a number. asked: what the engine said of its waits."""
    return Teller(record, row, asked).story()


def _unknown(record: Record, job: str) -> InputError:
    """What to raise for a job that is not there: which was perhaps meant, and where all are."""
    names, hints = record.names, []
    near = next(iter(names.filter(names.str.to_lowercase() == job.lower())), None) or nearest(
        job, _alike(names, job)
    )
    if near:
        hints.append(f"did you mean {near}?")
    elif not record.whole and any(
        record.outcome.summary.get(key) for key in ("jobs_dropped", "jobs_refused")
    ):
        hints.append(f"jobs that were left out or refused have no row, and {record.found.why_not}: give it;")
    hints.append("all that ran are in jobs.parquet")
    return InputError("the job_id of a job of this result", column="job_id", value=job, hint=" ".join(hints))


def _alike(names: pl.Series, job: str) -> list[str]:
    """Names that share the longest beginning or end with one; not all names, of which there may be many."""
    for length in range(len(job) - 1, 0, -1):
        likely = names.str.starts_with(job[:length]) | names.str.ends_with(job[-length:])
        if likely.any():
            return names.filter(likely).head(_SEARCHED).to_list()
    return []


class Teller(Waits):
    """The whole of it."""

    def story(self) -> Story:
        """All of it."""
        record = self.record
        submitted = float(record.submit[self.row])
        known = None if np.isnan(submitted) else submitted
        self._submitted(known)
        if self.stay_rows.size:
            self._missing()
        else:
            self._left_out()
        left_out = skipped(self.stay_rows.size)
        for number in range(self.stay_rows.size):
            if number in left_out:
                if number == left_out[0]:
                    self._skipped(left_out)
                continue
            self.stay = number
            self._waited(number)
            self._started(number)
            self._ended(number)
        self.stay = None
        if self.done:
            self._finished()
        elif self.stay_rows.size:
            self.say("never done", float(record.end[self.stay_rows[-1]]))
        lane = tuple(self._lane())
        finished = float(self.done["finish_time"]) if self.done else None
        name = str(record.run.get("cluster", {}).get("name", "?"))
        queue = str(record.options.get("queue")) if record.policy in QUEUES and not record.planned else None
        epoch = None if record.zero is None else record.zero.isoformat()
        facts = tuple(self.facts)
        return Story(self.name, record.policy, queue, name, known, finished, facts, lane, epoch)

    def _submitted(self, time: float | None) -> None:
        record, row = self.record, self.row
        told: dict[str, Any] = {"gpus": self.want.asks}
        told |= {} if time is None else {"at": time}
        for name in ("user", "vc", "priority", "deadline", "group"):
            value = record.said(name, row)
            if value is not None and not (name == "priority" and value == 0):
                told[name] = value
        least, most = (record.said(name, row) or told["gpus"] for name in ("min_gpus", "max_gpus"))
        if least != most:
            told |= {"min_gpus": least, "max_gpus": most}
        if self.want.pod > 1:
            told["gpus_per_pod"] = self.want.pod
        if self.want.segment is not None:
            told |= {"segment": self.want.segment[0], "segment_tier": self.want.segment[1]}
        if self.want.tier is not None:
            told["within_tier"] = self.want.tier[0]
        self.say("submitted", time, **told)

    def _missing(self) -> None:
        """What the result cannot tell at all."""
        record = self.record
        if record.allocations is None:
            self.say("no allocations", None)
        if record.outcome.stays_written is None and "wait_gpus" not in record.outcome.jobs.columns:
            self.say("no causes", None)

    def _left_out(self) -> None:
        """Why a job never had GPUs, as far as anybody knows."""
        record, summary = self.record, self.record.outcome.summary
        decisions = record.outcome.decisions
        if decisions is not None:
            own = decisions.filter((pl.col("job_id") == self.name) & pl.col("verb").is_in(["refuse", "end"]))
            if own.height:
                verb, time = own["verb"][0], float(own["time"][0])
                self.say(
                    "never started", time, fates=["refused" if verb == "refuse" else "ended in the queue"]
                )
                return
        fates = {"jobs_dropped": "dropped", "jobs_refused": "refused", "jobs_ended": "ended in the queue"}
        open_ = [fate for key, fate in fates.items() if summary.get(key)]
        if self.asked.kept is not None and "dropped" in open_:
            open_ = [fate for fate in open_ if (fate == "dropped") != self.asked.kept]
        self.say("never started", None, fates=open_)

    def _finished(self) -> None:
        done, record = self.done, self.record
        jct, finish = float(done["jct"]), float(done["finish_time"])
        parts = {name: float(done[name] or 0.0) for name in PARTS if name in done}
        if record.outcome.stays_written is not None:
            parts |= {name: float(record.stays[name].gather(self.stay_rows).sum()) for name in WAITS}
        alone = float(done["ideal_run_time"])
        on_top = {name: seconds for name, seconds in parts.items() if name != "ideal_run_time"}
        on_top = {name: seconds for name, seconds in on_top.items() if abs(seconds) > _LEAST * jct}
        slots = record.options.get("clock") == "slot"
        told = {"jct": jct, "alone": alone, "slowdown": float(done["slowdown"]), "on_top": on_top}
        self.say("finished", finish, **told, slots=slots, cut=bool(done.get("reached_limit")))
        contention = on_top.get("run_contention", 0.0)
        runs = alone + sum(on_top.get(name, 0.0) for name in PARTS if name.startswith("run_"))
        if (contention > 0 or (contention < 0 and self.company)) and runs > contention:
            p = int(done["max_contention"])
            factor = runs / (runs - contention)
            uplinks = float(done.get("run_contention_uplinks") or 0.0)
            told = {"seconds": contention, "factor": factor, "most": p, "slots": slots}
            told |= {"beside": list(self.company)} if self.company else {}
            self.say("slowed", finish, **told, **({"uplinks": uplinks} if uplinks > 0 else {}))
        if done.get("deadline") is not None:
            self.say("deadline", finish, late=finish - float(done["deadline"]))
