"""A run and its stays as plain lists and objects, as the rules of policies are handed them."""

from __future__ import annotations

from dataclasses import fields
from math import inf, isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from judge import clock, contention, stays
from judge.given import Book, Cluster, Given, Jobs, Replica, Rung, Stay
from judge.speed import Speeds
from judge.work import Worker
from ringbco.audits import given as columns
from ringbco.audits.types import read_types
from ringbco.checker import given as checked
from ringbco.result.folder import cluster_of
from ringbco.trace import ties
from ringbco.trace.fair_shares import FairShares, owners

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.result.outcome import Outcome
    from ringbco.trace.jobs import JobTable


def plain(outcome: Outcome, table: JobTable, given: checked.Given, book: checked.Book) -> tuple[Given, Book]:
    """What the checker was given, and what only rules ask for."""
    fair = (
        None
        if outcome.fair_shares is None
        else FairShares.read(outcome.fair_shares, source=FairShares.form.file)
    )
    cluster, windows = given.cluster, columns.outages_of(outcome.maintenance)
    run = Given(
        _jobs(outcome, table, given, fair),
        Cluster(
            cluster.gpus.tolist(),
            cluster.network,
            _listed(cluster.vc),
            cluster.vcs,
            _listed(cluster.gpu_type),
            cluster.types,
        ),
        given.options,
        preempts=given.preempts,
        resizes=given.resizes,
        decides=given.decides,
        outages=given.outages,
        windows=windows,
        services=given.services,
        quotas=given.quotas,
        shares={} if fair is None else fair.shares(),
        speeds=given.speeds,
        fields=outcome.run.get("own_policy", {}).get("parameters", {}),
    )
    return run, _book(given, book)


def integrate(given: Given, book: Book) -> None:
    """Writes into the stays what rules ask of them."""
    speeds, down = Speeds(given), clock.seen(given.outages or (), given.slot)
    stays.chain(given, book)
    stays.pause(given, book.stays, stays.spells(given, book, down))
    contention.contend(book.stays)
    if speeds.meets and given.jobs.share is not None:
        contention.crowd(book.stays, given.jobs.share)
    Worker(given, speeds).integrate(book.stays)


def _jobs(outcome: Outcome, table: JobTable, given: checked.Given, fair: FairShares | None) -> Jobs:
    frame, options, jobs = table.frame, given.options, given.jobs
    types = None
    if jobs.types is not None:
        told = read_types(frame, cluster_of(outcome.run), always=given.model == "table")
        assert told is not None
        order, count = np.argsort(told.listed, axis=1, kind="stable").tolist(), jobs.types.sum(axis=1)
        types = [tuple(own[:n]) for own, n in zip(order, count.tolist(), strict=True)]
    order_by = str(options["order"])
    key = columns.said(frame, order_by.removeprefix("column:")) if order_by.startswith("column:") else None
    rule = str(options.get("ties", "rows"))
    names = {field.name for field in fields(jobs)} - {"types", "plain"}
    every = jobs.plain.get("checkpoint_interval")
    if every is not None:
        every = np.where(np.isnan(every), float(options.get("checkpoint_interval", 1800.0)), every)
    return Jobs(
        **{name: _listed(getattr(jobs, name)) for name in names},
        priority=_listed(jobs.plain.get("priority")),
        checkpoint=_listed(every),
        limit=jobs.plain.get("time_limit", np.full(len(jobs), inf)).tolist(),
        preemptible=_listed(jobs.plain.get("preemptible")),
        types=types,
        tied=None if rule == "rows" else ties.key(np.arange(len(jobs), dtype=np.int64), rule).tolist(),
        column=None if key is None else [float(value) for value in key.to_list()],
        fair=owners(frame, fair) if order_by == "fairshare" else None,
    )


def _listed(column: NDArray[Any] | pl.Series | None) -> Any:
    return None if column is None else column.to_list() if isinstance(column, pl.Series) else column.tolist()


def _book(given: checked.Given, book: checked.Book) -> Book:
    own, size = book.stays, len(book.stays)
    first = own.first.tolist()
    held = list(zip(own.server.tolist(), own.held.tolist(), strict=True))
    places: list[tuple[tuple[int, int], ...]] = [()] * size
    if given.jobs.share is not None and own.spot is not None and own.on is not None and own.gpu is not None:
        spot, gpus = own.spot.tolist(), list(zip(own.on.tolist(), own.gpu.tolist(), strict=True))
        places = [tuple(gpus[spot[row] : spot[row + 1]]) for row in range(size)]
    service = [None] * size if own.by_service is None else own.by_service.to_list()
    rows = zip(own.job.tolist(), own.start.tolist(), own.end.tolist(), own.ended.tolist(), strict=True)
    by = zip(own.by_job.tolist(), own.by_server.tolist(), strict=True)
    found = [
        Stay(
            job,
            start,
            end,
            tuple(held[first[row] : first[row + 1]]),
            checked.ENDED[ended],
            None if by_job == checked.NONE else by_job,
            service[row],
            None if by_server == checked.NONE else by_server,
            places[row],
        )
        for row, ((job, start, end, ended), (by_job, by_server)) in enumerate(zip(rows, by, strict=True))
    ]
    replicas, rungs = book.replicas, book.rungs
    return Book(
        found,
        [
            Replica(*row)
            for row in zip(
                replicas.service.to_list(),
                *(
                    column.tolist()
                    for column in (replicas.server, replicas.gpus, replicas.start, replicas.end)
                ),
                replicas.ended.to_list(),
                strict=True,
            )
        ],
        [
            Rung(job, rung, time, None if isnan(on) else on)
            for job, rung, time, on in zip(*(column.tolist() for column in vars(rungs).values()), strict=True)
        ],
    )
