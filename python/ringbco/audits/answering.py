"""The requests of a result and who answered them, as the checker reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ringbco.checker.inputs import Answering, Answers, Batches, Requests, Service, Steps
from ringbco.errors import InputError
from ringbco.io.digests import sha256_of
from ringbco.trace import requests
from ringbco.trace.answering import most_replicas
from ringbco.trace.epoch import epoch_of
from ringbco.trace.serving import BatchKind, ServiceKeys, ServingFile
from ringbco.trace.side_table import ReadContext

if TYPE_CHECKING:
    import polars as pl

    from ringbco.cluster.spec import Cluster
    from ringbco.result.outcome import Outcome
    from ringbco.trace.jobs import JobTable

NO_ROWS: Final = "not looked at: the run wrote no rows of requests (--request-rows)"


def answering_of(outcome: Outcome, table: JobTable, cluster: Cluster) -> Answering | None:
    """The services that answer requests; None for a run without any.

    Raises InputError where run.toml or the requests cannot be read.
    """
    told = outcome.run.get("requests")
    if told is None:
        return None
    serving = _serving(outcome.run)
    speeds = np.array([fact.speed for fact in cluster.type_facts], np.float64)
    quickness = np.ones(cluster.num_servers)
    if cluster.server_types is not None:
        quickness = (speeds / speeds[0])[cluster.server_types]
    answering = Answering([_service(keys) for keys in serving.services], quickness)
    place = _place(told)
    if place is None:
        return answering
    known = ReadContext.of(cluster, table.frame, epoch_of(table))
    found = requests.Requests.read(place, known, serving=serving)
    service, arrival, *tokens = found.columns(serving)
    taken, given, cached = (each.astype(np.int64) for each in tokens)
    rows = found.rows.astype(np.int64)
    answering.requests = Requests(rows, service.astype(np.int64), arrival, taken, given, cached)
    if outcome.requests is not None and misfit(outcome.requests, answering) is None:
        answering.answers = _answers(outcome.requests)
    return answering


def why_not(outcome: Outcome) -> str | None:
    """Why requests cannot be looked at; None where they can be."""
    told = outcome.run.get("requests")
    if told is None:
        return "the run knows no requests"
    if outcome.requests is None:
        return NO_ROWS
    if _place(told) is None:
        named = told.get("path") if isinstance(told, Mapping) else None
        return f"the requests of run.toml, {named}, are not there, or have changed"
    return None


def misfit(rows: pl.DataFrame, answering: Answering) -> str | None:
    """How requests.parquet differs from the requests in what no run changes; None where it does not."""
    asked = answering.requests
    assert asked is not None
    if rows.height != asked.row.size:
        return f"requests.parquet has {rows.height} rows; expected {asked.row.size}, one for each request"
    names = np.array([service.name for service in answering.services], object)[asked.service]
    for column, expected in (("row", asked.row), ("service", names)):
        odd = np.flatnonzero(rows[column].to_numpy() != expected)
        if odd.size:
            at = int(odd[0])
            said = f"requests.parquet, row {at + 1}: {column} is {rows[column][at]}; expected {expected[at]}"
            return said + (f", and {odd.size - 1} more" if odd.size > 1 else "")
    return None


def _answers(rows: pl.DataFrame) -> Answers:
    start, first, finish = (
        rows[name].fill_null(math.nan).to_numpy() for name in ("start", "first_token", "finish")
    )
    return Answers(rows["replica"].to_numpy().astype(np.int64), start, first, finish)


def _serving(run: Mapping[str, Any]) -> ServingFile:
    services = run.get("services")
    tables = services.get("tables") if isinstance(services, Mapping) else None
    if not isinstance(tables, Mapping):
        raise InputError("a table for each service", file="run.toml", key="services.tables", value=tables)
    return ServingFile.read(tables)


def _place(told: object) -> str | None:
    """The file of the requests, where it is there and unchanged."""
    if not isinstance(told, Mapping) or not isinstance(told.get("path"), str):
        return None
    place = str(told["path"])
    there = told.get("sha256") is not None and Path(place).is_file()
    return place if there and sha256_of(place) == told["sha256"] else None


def _service(keys: ServiceKeys) -> Service:
    kind = keys.kind
    slo = {} if keys.slo is None else keys.slo.given()
    made: Batches | Steps
    if isinstance(kind, BatchKind):
        made = Batches(kind.seconds, kind.max_wait)
    else:
        most = math.inf if kind.max_step_tokens is None else kind.max_step_tokens
        made = Steps(
            *(kind.step, kind.prefill, kind.decode, kind.context, kind.max_running, kind.kv_tokens, most)
        )
    return Service(keys.name, keys.gpus, keys.startup, keys.drain, most_replicas(keys), slo, made)
