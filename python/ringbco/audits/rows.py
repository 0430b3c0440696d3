"""Rows and columns: the result is of this job table, has its jobs, and its columns agree with one another."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from ringbco.audits.facts import Bools, Facts, Ints
from ringbco.audits.findings import Check, Finding, blame, blame_stays
from ringbco.audits.options import policy_is
from ringbco.result.outcome import Outcome
from ringbco.result.schema import GPUS_SCHEMA
from ringbco.result.tables import TABLES
from ringbco.trace.jobs import JobTable
from ringbco.trace.side_tables import KINDS

_NOT_MADE: Final = {"decisions", *(kind.form.table for kind in KINDS.values())}
"""Tables that say what was asked for, or given: others look at them."""


def check_values(check: Check, outcome: Outcome) -> None:
    """No nulls, no infinite or NaN times. Where this fails nothing else can be looked at."""
    for table, known in TABLES.items():
        frame: pl.DataFrame | None = getattr(outcome, table)
        if frame is None or table in _NOT_MADE:
            continue
        schema = known.schema
        if table == "allocations" and "gpu" in frame.columns:
            schema = {**schema, **GPUS_SCHEMA}
        for column, dtype in schema.items():
            if column in known.nulls:
                continue
            wrong = frame[column].is_null()
            if dtype.is_float():
                wrong = wrong | ~frame[column].fill_null(0.0).is_finite()
            rows = check.broken(wrong.to_numpy())
            if rows.size:
                row = int(rows[0])
                value = "null" if frame[column][row] is None else frame[column][row]
                check.add(
                    [
                        Finding(
                            check.code,
                            f"{known.file}, row {row + 1}, column {column}: {value}; expected a number",
                        )
                    ],
                    rows.size,
                )


def check_trace(check: Check, trace: Mapping[str, Any], table: JobTable) -> None:
    """The job table is the one that run.toml's [trace] describes: SHA-256 and number of rows."""
    rows, digest = trace.get("rows"), trace.get("sha256")
    said = f"{table.source} has {table.num_jobs} rows; replayed: {rows}"
    check.expect(holds=rows == table.num_jobs, message=said)
    path = Path(table.source)
    if digest is None or not path.is_file():
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    said = f"{table.source} has SHA-256 {found[:16]}...; the replayed one had {str(digest)[:16]}..."
    check.expect(holds=found == digest, message=said)


def check_jobs(check: Check, facts: Facts, misfits: Mapping[str, Any]) -> None:
    """Every job of the table has one row, in the table's order; only oversize ones may be left out."""
    for name, said in (("unknown", "is not in the job table"), ("repeated", "has more than one row")):
        ids = misfits[name]["job_id"]
        check.add((Finding(check.code, said, str(job_id)) for job_id in ids), len(ids))
    if misfits["strays"] is not None:
        strays = misfits["strays"]["job_id"].unique(maintain_order=True)
        said = "has stays in allocations.parquet but no row in jobs.parquet"
        check.add((Finding(check.code, said, str(job_id)) for job_id in strays), len(strays))

    row = facts.row[: facts.done]
    late = check.broken(row[1:] < row[:-1]) + 1
    blame(check, facts, late, "is out of the job table's order")

    missing = check.broken(unseen_rows(facts))
    if facts.options["oversize"] == "drop":
        missing = np.setdiff1d(missing, dropped(facts))
    missing = np.setdiff1d(missing, refusable(facts))
    ended = np.flatnonzero(facts.table.frame["job_id"].is_in(_ended(facts).implode()).to_numpy())
    missing = np.setdiff1d(missing, ended)
    counted = missing[facts.inputs.counted[missing]]
    if facts.logged and len(counted) == unseen(facts):
        return  # a custom policy refused them, or ended them before they ever held GPUs
    names = facts.table.frame["job_id"].cast(pl.String)
    said = "has no row in jobs.parquet"
    check.add((Finding(check.code, said, names[int(row)]) for row in missing), missing.size)


def unseen(facts: Facts) -> int:
    """How many jobs a custom policy refused or ended, as the summary says, that never held GPUs.

    Of a window: of the jobs submitted in it; what became of others is not recorded.
    """
    said = [facts.outcome.summary.get(name, 0) for name in ("jobs_refused", "jobs_ended")]
    rows = np.flatnonzero(facts.table.frame["job_id"].is_in(_ended(facts).implode()).to_numpy())
    held = int(facts.inputs.counted[rows].sum())
    return sum(count for count in said if isinstance(count, int)) - held


def _ended(facts: Facts) -> pl.Series:
    """The jobs that were ended after they held GPUs, as the allocations or else stays.parquet have them."""
    told = facts.outcome.stays_written
    if facts.outcome.allocations is not None or told is None:
        return facts.ids[facts.done :]
    ids = told["job_id"].unique()
    return ids.filter(
        ~ids.is_in(facts.jobs["job_id"].implode()) & ids.is_in(facts.table.frame["job_id"].implode())
    )


def unseen_rows(facts: Facts) -> Bools:
    """Whether each row of the job table is without a result."""
    found = np.ones(facts.table.num_jobs, dtype=bool)
    found[facts.row] = False
    return found


def left_out(facts: Facts) -> Ints:
    """Rows of the job table without a result."""
    return np.flatnonzero(unseen_rows(facts))


def refusable(facts: Facts) -> Ints:
    """Rows without a result that admission may refuse.

    With `--admission`: late even if run alone from their arrival on. Under `elasticflow`: with a deadline.
    """
    rows = left_out(facts)
    frame = facts.table.frame
    by_shares = policy_is(facts.options, "refuses")
    if not (by_shares or facts.options.get("admission")) or "deadline" not in frame.columns:
        return rows[:0]
    if by_shares:
        return np.intersect1d(rows, np.flatnonzero(frame["deadline"].is_not_null().to_numpy()))
    seen = facts.first_instant(facts.inputs.jobs.submit[rows])
    due = frame["deadline"].fill_null(np.inf).to_numpy()[rows]
    alone = seen + facts.workload.ideal_run_time[rows]
    late = alone > due * (1 - 1e-12)
    if facts.inputs.jobs.reckoned is not None:
        late |= facts.inputs.jobs.reckoned[rows]  # they may have arrived later
    return rows[late]


def dropped(facts: Facts) -> Ints:
    """Rows without a result that could not have one: no placement even on the empty cluster, or its quota."""
    rows = left_out(facts)
    return rows[~facts.room.placeable[rows]] if rows.size else rows


def check_rows(check: Check, facts: Facts) -> None:
    """The rows of allocations.parquet are sorted by the job's row, then stay and server."""
    late = np.zeros(max(facts.a_job.size - 1, 0), bool)
    for key in (facts.a_server, facts.a_stay, facts.row[facts.a_job]):
        # The last key decides first; the ones before it only where it is the same.
        step = np.diff(key)
        late = (step < 0) | ((step == 0) & late)
    said = (
        "its row of allocations.parquet comes too late: expected the job table's order, then stay and server"
    )
    blame_stays(check, facts, check.broken(late) + 1, said)
