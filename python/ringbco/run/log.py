"""Decision logs: what happened in a run as a table, and as a policy, `log:FILE`, that makes it happen again.

Invariant: a log's rows are in the order in which they took effect. For example, the log that `--decisions`
wrote of a run gives the same start and finish times when it is followed on the same jobs and cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco import _core
from ringbco.errors import InputError
from ringbco.io.tables import read_table
from ringbco.result.schema import BESIDE_SCHEMA, DECISIONS_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ringbco.trace.jobs import JobTable

_NONE: Final = 2**32 - 1
_PREFIX: Final = "log:"
_REQUIRED: Final = ("time", "verb", "job_id", "server", "num_gpus")
"""Columns that a log must have; of the others, those of the machine's own rows, it may lack any."""
_SCHEMA: Final = DECISIONS_SCHEMA | BESIDE_SCHEMA
_WITH_GPUS: Final = ("start", "move", "resize")
_OF_SERVERS: Final = ("replica", "up", "down", "drain")
_PASS: Final = r"^pass (\d+)(?:, )?"
"""At an instant with several passes a cause begins with the one in which the decision was taken: "pass 2"."""


@dataclass(frozen=True)
class Log:
    """A decision log.

    path: of its file. frame: its rows, with every column of DECISIONS_SCHEMA, and `beside`.
    """

    path: Path
    frame: pl.DataFrame

    @classmethod
    def read(cls, policy: str) -> Log:
        """The log that a policy names. Raises InputError for a file that is missing or damaged."""
        path = path_of(policy)
        if not path.exists():
            hint = "log:FILE takes the path of a decisions.parquet, which --decisions writes"
            raise InputError("no such file", file=path, hint=hint)
        frame = read_table(path, {name: DECISIONS_SCHEMA[name] for name in _REQUIRED})
        for name, kind in _SCHEMA.items():
            if name not in frame.columns:
                frame = frame.with_columns(pl.lit(None, kind).alias(name))
            elif frame.schema[name] != kind:
                raise InputError(f"{kind}", file=path, column=name, value=str(frame.schema[name]))
        return cls(path, frame.select(*_SCHEMA))

    def has(self, *verbs: str) -> bool:
        """Whether it has a row with one of the verbs."""
        return bool(self.frame["verb"].is_in(verbs).any())

    def outages(self) -> pl.DataFrame:
        """The outages that its servers had, in the form of an outage table."""
        mine = pl.col("verb").is_in(["down", "up", "drain"])
        changes = self.frame.filter(mine).sort("server", maintain_order=True)
        until = pl.col("time").shift(-1).over("server")
        told = changes.with_columns(up_at=until).filter(pl.col("verb") != "up")
        # Down and up at one boundary of the slot clock: it was down for a part of the slot before.
        at_once = (told["up_at"] == told["time"]).fill_null(value=False)
        down = told["time"].zip_with(~at_once, pl.Series(np.nextafter(told["time"], -np.inf)))
        kind = pl.when(verb="drain").then(pl.lit("drain"))
        told = told.select("server", down.alias("down_at"), "up_at", "cause", kind=kind)
        return told.filter(pl.col("down_at") >= 0)

    def services(self, known: Sequence[str]) -> list[str]:
        """The services of a run that follows it, by number: those that it knows, then others of its rows."""
        named = self.frame["service"].drop_nulls().unique(maintain_order=True)
        return [*known, *(name for name in named if name not in known)]

    def columns(
        self, table: JobTable, servers: int, services: Sequence[str], *, runs_through: bool
    ) -> _core._Log:
        """The columns as the engine takes them.

        servers: of the cluster. services: the run's, by number. runs_through: whether no stay could end early
        in the run that wrote it. Raises InputError for a row with a verb, a job or a server that is not
        there; rows count from 1.
        """
        verbs, causes = _core.verbs()
        found = self.frame.with_columns(cause=pl.col("cause").str.replace(_PASS, ""))
        for name, names in (("verb", verbs), ("service", services), ("cause", causes)):
            found = _numbered(found, name, pl.Series(names, dtype=pl.String))
        jobs = table.frame["job_id"]
        found = _numbered(_numbered(_numbered(found, "job_id", jobs), "by", jobs), "beside", jobs)
        self._check(found, servers, verbs)

        def column(name: str, absent: int = _NONE) -> NDArray[Any]:
            return found[name].fill_null(absent).to_numpy()

        later = self.frame["cause"].str.extract(_PASS).cast(pl.UInt32, strict=False)
        return {
            "time": found["time"].to_numpy(),
            "verb": found["verb_number"].cast(pl.UInt8).to_numpy(),
            "job": column("job_id_number"),
            "server": column("server"),
            "num_gpus": column("num_gpus", 0),
            "gpu": column("gpu"),
            "by": column("by_number"),
            "beside": column("beside_number"),
            "service": column("service_number"),
            "replica": column("replica"),
            "cause": found["cause_number"].fill_null(0).cast(pl.UInt8).to_numpy(),
            "of_pass": (later.fill_null(1).clip(1) - 1).to_numpy(),
            "runs_through": runs_through,
        }

    def _check(self, found: pl.DataFrame, servers: int, verbs: Sequence[str]) -> None:
        """Raises InputError for the first rule that a row breaks, naming its row."""
        placed, of_server = pl.col("verb").is_in(_WITH_GPUS), pl.col("verb").is_in(_OF_SERVERS)
        for name, bad, expected in (
            ("time", ~(pl.col("time").is_finite() & (pl.col("time") >= 0)), "a finite time >= 0 s"),
            ("verb", pl.col("verb_number").is_null(), f"one of {', '.join(verbs)}"),
            ("job_id", ~of_server & pl.col("job_id_number").is_null(), "a job of the job table"),
            (
                "server",
                (placed | of_server) & ~(pl.col("server") < servers).fill_null(value=False),
                f"a server of the cluster, 0 to {servers - 1}",
            ),
            ("num_gpus", placed & ~(pl.col("num_gpus") >= 1).fill_null(value=False), "one GPU or more"),
            ("service", (pl.col("verb") == "replica") & pl.col("service").is_null(), "the name of a service"),
            ("replica", (pl.col("verb") == "replica") & pl.col("replica").is_null(), "which replica it is"),
            (
                "by",
                (pl.col("verb") == "evicted") & pl.col("by_number").is_null() & pl.col("service").is_null(),
                "a job of the job table, or a service: who gets the GPUs",
            ),
            (
                "beside",
                pl.col("beside").is_not_null() & pl.col("beside_number").is_null(),
                "a job of the job table: on whose GPUs the job starts",
            ),
            (
                "time",
                pl.col("time") < pl.col("time").shift(fill_value=0.0),
                "a time not before that of the row above",
            ),
        ):
            wrong = found.select(bad.fill_null(value=True).arg_true())
            if wrong.height:
                row = int(wrong.item(0, 0))
                raise InputError(expected, file=self.path, row=row + 1, column=name, value=found[name][row])


def path_of(policy: str) -> Path:
    """The file of a policy log:FILE."""
    return Path(policy.removeprefix(_PREFIX))


def _numbered(frame: pl.DataFrame, column: str, names: pl.Series) -> pl.DataFrame:
    """The frame with a column more: the place of each value among the names; null where it is none."""
    places = pl.DataFrame({column: names}).with_row_index(f"{column}_number")
    return frame.join(places, on=column, how="left", maintain_order="left")


def refusal(policy: str, table: JobTable, error: _core.CoreError) -> InputError | None:
    """The engine's refusal as one of the log that `policy` names; None where it is the job table's fault."""
    if error.row is None:
        return None
    path = path_of(policy)
    named = error.row < table.num_jobs
    about = f"job {table.frame['job_id'][error.row]!r} " if named else ""
    if error.kind == "decision" and error.log_row is not None:
        told = f"a decision that can be carried out, but {about}{error.message}"
        return InputError(told, file=path, row=error.log_row + 1, column="verb")
    if error.kind == "stuck":
        told = f"does not bring every job to its end: {about}{error.message}"
        hint = "add what it lacks, or give --oversize drop if the run that wrote it had it"
        return InputError(told, file=path, hint=hint)
    return None


def decisions_frame(
    job_id: pl.Series,
    shares: NDArray[np.float64] | None,
    outages: pl.DataFrame | None,
    services: Sequence[str],
    table: Mapping[str, NDArray[Any]],
    *,
    seats: bool,
) -> pl.DataFrame:
    """decisions.parquet: a row per decision, or a part of one, and a row for everything that the machine did.

    job_id: of the job table. shares: of each of its jobs, the part of a GPU, 0 for whole ones; None where
    none has one. outages, services: those that the engine was given, by number. table: the engine's. seats:
    whether several jobs may hold the same GPUs.
    """
    log = {name: pl.Series(values) for name, values in table.items()}
    verbs, causes = (pl.Series(names, dtype=pl.String) for names in _core.verbs())
    verb = verbs.gather(log["verb"])
    decided = ~verb.is_in(["failed", "rung", "replica", "up", "down", "drain"])
    told = causes.gather(log["cause"])
    told = told.set(told == "", None)
    later = pl.when(decided & (log["of_pass"] > 0)).then(pl.format("pass {}", log["of_pass"] + 1))
    told = pl.select(pl.concat_str(later, told, separator=", ", ignore_nulls=True)).to_series()
    told = told.set(told == "", None)
    # Where an outage in a drain is over, the log says drain, of no row.
    told_by = verb.is_in(["failed", "down", "drain"]) & (log["by"] != _NONE)
    of_outage = None if outages is None else _named(outages["cause"], log["by"], told_by)
    job = _named(job_id, log["job"], log["job"] != _NONE)
    by = _named(job_id, log["by"], (verb == "evicted") & (log["by"] != _NONE))
    gpu = log["gpu"].set(log["gpu"] == _NONE, None)
    share = None
    if shares is not None:
        share = _named(pl.Series(shares), log["job"], gpu.is_not_null())
        share = share.set(share == 0.0, None)
    beside = _named(job_id, log["beside"], log["beside"] != _NONE) if seats else None
    return pl.DataFrame(
        {
            "time": log["time"],
            "verb": verb,
            "job_id": job,
            "server": log["server"].set(log["server"] == _NONE, None),
            "num_gpus": log["gpus"].set(log["gpus"] == 0, None),
            "gpu": gpu,
            "share": share,
            "service": _named(pl.Series(services, dtype=pl.String), log["service"], log["service"] != _NONE),
            "replica": log["replica"].set(log["replica"] == _NONE, None),
            "by": by,
            "cause": told if of_outage is None else pl.select(pl.coalesce(told, of_outage)).to_series(),
            **({} if beside is None else dict(zip(BESIDE_SCHEMA, [beside], strict=True))),
        },
        schema_overrides=_SCHEMA,
    )


def _named(names: pl.Series, numbers: pl.Series, those: pl.Series) -> pl.Series:
    """The names of those numbers; null for the others."""
    return names.gather(numbers.set(~those, None))
