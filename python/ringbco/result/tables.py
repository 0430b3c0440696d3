"""The tables of a result, one row each: what writes, reads, checks or compares them goes over `TABLES`.

A new one is its row here, and in `ringbco.run.results` who makes it. An `Outcome` has each by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

import polars as pl

from ringbco.result import schema
from ringbco.trace.owners import USUAL
from ringbco.trace.quotas import BOOKS
from ringbco.trace.side_tables import KINDS

SUMMARY: Final = "summary.json"
RUN: Final = "run.toml"


class ResultTable(NamedTuple):
    """One table of a result.

    name: its attribute of an outcome. schema: the columns that it always has. about: what its rows are. when:
    which runs have it; "" for all. nulls: the columns in which there may be nothing. said: the table of
    run.toml that says whether a result has it. unsaid: whether one has it whose run.toml says nothing.
    follows: whether a run with these options has it, whatever is said. stem: of its file, and its key in
    `said`; by default its name. more: the columns that some runs have.
    """

    name: str
    schema: Mapping[str, pl.DataType]
    about: str
    when: str = ""
    nulls: tuple[str, ...] = ()
    said: Literal["", "options", "record"] = ""
    unsaid: bool = False
    follows: Callable[[Mapping[str, object]], bool] | None = None
    stem: str = ""
    more: Mapping[str, pl.DataType] = {}

    @property
    def key(self) -> str:
        """What run.toml calls it."""
        return self.stem or self.name

    @property
    def file(self) -> str:
        """Its file in a result folder."""
        return f"{self.key}.parquet"

    def is_implied(self, options: Mapping[str, object]) -> bool:
        """Whether [options] of run.toml says that a result has it."""
        return self.follows is not None and self.follows(options)

    def is_there(self, options: Mapping[str, object], record: Mapping[str, object]) -> bool:
        """Whether a result has it. options, record: the tables of its run.toml."""
        if self.is_implied(options):
            return True
        told = options if self.said == "options" else record
        return bool(told.get(self.key, self.unsaid)) if self.said else self.follows is None


def _searches(options: Mapping[str, object]) -> bool:
    return options.get("search") is not None


_FOLLOWS: Final[Mapping[str, Callable[[Mapping[str, object]], bool]]] = {
    "tables": lambda options: options.get("model") == "table",
    "outages": lambda options: bool(options.get("maintenance")),  # which is among them
}
"""Side tables of which a run may have a copy where [options] does not say so."""


def _owners(option: str) -> tuple[str, ...]:
    """The usual columns of owners of a side table, of which one may be null; it may have others instead."""
    return USUAL if option in ("quota", "fair_shares") else ()


_ROWS: Final = (
    ResultTable(
        *("jobs", schema.JOBS_SCHEMA, "finished job"),
        nulls=("group", "gpu_share", "after", *schema.CARRIED_SCHEMA),
        more=schema.JOBS_MORE,
    ),
    ResultTable(
        *("allocations", schema.ALLOCATIONS_SCHEMA, "stay and server"),
        *("without `--no-allocations`", ("share", "seat"), "options"),
        unsaid=True,
        more=schema.GPUS_SCHEMA | schema.SEATS_SCHEMA,
    ),
    ResultTable(
        *("timeline", schema.TIMELINE_SCHEMA, "sample of the cluster's state"), more=schema.POWER_SCHEMA
    ),
    ResultTable(
        *("decisions", schema.DECISIONS_SCHEMA, "decision, or server of a start", "`--decisions`"),
        (*(name for name in schema.DECISIONS_SCHEMA if name not in ("time", "verb")), *schema.BESIDE_SCHEMA),
        "options",
        more=schema.BESIDE_SCHEMA,
    ),
    *(
        ResultTable(
            name,
            {column: kind for column, kind in form.schema.items() if column not in form.seldom},
            f"row of the {form.noun} given",
            f"`--{form.option.replace('_', '-')}`" + (", given again" if at else ""),
            (*(name for name, column in form.columns.items() if not column.required), *_owners(form.option)),
            "record" if form.option == "tables" else "options",
            follows=_FOLLOWS.get(form.option),
            stem=name.replace("_", "-") if at else "",
            more={column: form.schema[column] for column in form.seldom}
            | dict.fromkeys(_owners(form.option), pl.String()),
        )
        for form in (kind.form for kind in KINDS.values() if kind.is_copied)
        for at, name in enumerate(BOOKS if form.option == "quota" else (form.table,))
    ),
    ResultTable(
        *("replicas", schema.REPLICAS_SCHEMA, "replica of a service", "`--services`"),
        nulls=("serves_from", "drains_from"),
        follows=lambda options: bool(options.get("services")),
    ),
    ResultTable(
        *("latency", schema.LATENCY_SCHEMA, "service and sample", "`--requests`"),
        *(("p50_latency", "p99_latency"), "record"),
    ),
    ResultTable(
        *("requests", schema.REQUESTS_SCHEMA, "request", "`--request-rows`", ("first_token",)),
        follows=lambda options: bool(options.get("request_rows")),
    ),
    ResultTable(
        *("rungs", schema.RUNGS_SCHEMA, "rung that a trial reached", "`--search`", ("went_on",)),
        follows=_searches,
    ),
    ResultTable(
        *("searches", schema.SEARCHES_SCHEMA, "search", "`--search`"),
        ("finish_time", "best_job_id", "best_loss", "time_to_best"),
        follows=_searches,
    ),
    ResultTable(
        *("stays_written", schema.STAYS_SCHEMA, "stay", "runs in which one may end before its job does"),
        *(("gpu_type", "by_job", "by_service", "by_server"), "record"),
        stem="stays",
        more=schema.STAY_TYPE_SCHEMA | schema.STAY_SAVING_SCHEMA,
    ),
    ResultTable(
        *("servers", schema.SERVERS_SCHEMA, "change of a server", "runs in which one may go down or sleep"),
        *(("by",), "record"),
    ),
    ResultTable(
        *("links", schema.LINKS_SCHEMA, "uplink and sample at which what it carries is new"),
        *("clusters with tiers", (), "record"),
        more=schema.LINK_VC_SCHEMA,
    ),
)
TABLES: Final = {row.name: row for row in _ROWS}
"""Every table by its name, in the order in which run.toml tells of them."""
RESULT_FILES: Final = frozenset({SUMMARY, RUN, *(row.file for row in _ROWS)})
