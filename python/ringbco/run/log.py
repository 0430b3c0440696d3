"""Decision logs as policies: `log:FILE` carries out the decisions of a decisions.parquet.

Invariant: a log's rows are in the order in which they took effect. For example, the log that `--decisions`
wrote of a run gives the same start and finish times when it is replayed on the same jobs and cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from ringbco import _core
from ringbco.errors import InputError
from ringbco.io.tables import read_table
from ringbco.result.schema import DECISIONS_SCHEMA

if TYPE_CHECKING:
    from ringbco.trace.jobs import JobTable

_NO_SERVER: Final = 2**32 - 1


def refusal(policy: str, table: JobTable, error: _core.CoreError) -> InputError | None:
    """The engine's refusal as one of the log that `policy` names; None where it is the job table's fault."""
    if error.row is None:
        return None
    job, path = table.frame["job_id"][error.row], Path(policy.removeprefix("log:"))
    if error.kind == "decision" and error.log_row is not None:
        told = f"a decision that can be carried out, but job {job!r} {error.message}"
        return InputError(told, file=path, row=error.log_row + 1, column="verb")
    if error.kind == "stuck":
        told = f"does not bring every job to its end: job {job!r} {error.message}"
        hint = "add what it lacks, or give --oversize drop if the run that wrote it had it"
        return InputError(told, file=path, hint=hint)
    return None


def columns(policy: str, table: JobTable, servers: int) -> _core._Log:
    """The columns of the log that `policy` names, as the engine takes them.

    servers: of the cluster. Raises InputError for a file that is missing or damaged, and for a row with a
    verb, a job or a server that is not there; rows count from 1.
    """
    path = Path(policy.removeprefix("log:"))
    if not path.exists():
        hint = "log:FILE takes the path of a decisions.parquet, which --decisions writes"
        raise InputError("no such file", file=path, hint=hint)
    log = read_table(path, DECISIONS_SCHEMA)
    verbs = _core.verbs()
    rows = pl.DataFrame({"job_id": table.frame["job_id"]}).with_row_index("job")
    found = (
        log.select(*DECISIONS_SCHEMA)
        .join(rows, on="job_id", how="left", maintain_order="left")
        .join(
            pl.DataFrame({"verb": verbs, "number": range(len(verbs))}, schema_overrides={"number": pl.UInt8}),
            on="verb", how="left", maintain_order="left",
        )
    )  # fmt: skip
    placed = pl.col("verb").is_in(["start", "move"])
    for column, bad, expected in (
        ("time", ~(pl.col("time").is_finite() & (pl.col("time") >= 0)), "a finite time >= 0 s"),
        ("verb", pl.col("number").is_null(), f"one of {', '.join(verbs)}"),
        ("job_id", pl.col("job").is_null(), "a job of the job table"),
        ("server", placed & ~(pl.col("server") < servers), f"a server of the cluster, 0 to {servers - 1}"),
        ("num_gpus", placed & ~(pl.col("num_gpus") >= 1), "one GPU or more"),
        (
            "time",
            pl.col("time") < pl.col("time").shift(fill_value=0.0),
            "a time not before that of the row above",
        ),
    ):
        wrong = found.select(bad.fill_null(value=True).arg_true())
        if wrong.height:
            row = int(wrong.item(0, 0))
            raise InputError(expected, file=path, row=row + 1, column=column, value=found[column][row])
    return {
        "time": found["time"].to_numpy(),
        "verb": found["number"].to_numpy(),
        "job": found["job"].to_numpy(),
        "server": found["server"].fill_null(_NO_SERVER).to_numpy(),
        "num_gpus": found["num_gpus"].fill_null(0).to_numpy(),
    }
