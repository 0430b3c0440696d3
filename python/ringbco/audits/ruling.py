"""A run and its stays as plain lists and objects, as the rules of policies are handed them."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from ringbco.audits import given as columns
from ringbco.audits.types import read_types
from ringbco.checker import given as checked
from ringbco.judge import clock, contention, stays
from ringbco.judge.given import (
    Book,
    Cluster,
    Given,
    GpuType,
    Jobs,
    Load,
    Network,
    Outage,
    Replica,
    Rung,
    Speed,
    Stay,
)
from ringbco.judge.speed import Speeds
from ringbco.judge.work import Worker
from ringbco.result.folder import cluster_of
from ringbco.trace import ties
from ringbco.trace.fair_shares import FairShares, owners

if TYPE_CHECKING:
    import polars as pl
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
            Network(*cluster.network),
            _listed(cluster.vc),
            cluster.vcs,
            _listed(cluster.gpu_type),
            [GpuType(*fact) for fact in cluster.types],
        ),
        given.options,
        preempts=given.preempts,
        resizes=given.resizes,
        decides=given.decides,
        outages=None if given.outages is None else [Outage(*row) for row in given.outages],
        windows=None if windows is None else [Outage(*row) for row in windows],
        services=None if given.services is None else [Load(*row) for row in given.services],
        quotas=given.quotas,
        shares={} if fair is None else fair.shares(),
        speeds=[Speed(*row) for row in given.speeds],
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
    return Jobs(
        id=jobs.id.to_list(),
        submit=jobs.submit.tolist(),
        gpus=jobs.gpus.tolist(),
        duration=jobs.duration.tolist(),
        iterations=jobs.iterations.tolist(),
        gradient=jobs.gradient.tolist(),
        compute=jobs.compute.tolist(),
        ideal=jobs.ideal.tolist(),
        least=jobs.least.tolist(),
        most=jobs.most.tolist(),
        noise=_listed(jobs.noise),
        batch=_listed(jobs.batch),
        share=_listed(jobs.share),
        priority=_listed(jobs.priority),
        checkpoint=_listed(jobs.checkpoint),
        limit=_listed(jobs.limit),
        vc=_listed(jobs.vc),
        owner=_values(jobs.owner),
        types=types,
        speedup=_listed(jobs.speedup),
        model=_values(jobs.model),
        recorded=_listed(jobs.recorded),
        group=_values(jobs.group),
        user=_values(jobs.user),
        deadline=_values(jobs.deadline),
        vc_said=_values(jobs.vc_said),
        preemptible=_listed(jobs.preemptible),
        tied=None if rule == "rows" else ties.key(np.arange(len(jobs), dtype=np.int64), rule).tolist(),
        column=None if key is None else [float(value) for value in key.to_list()],
        fair=owners(frame, fair) if order_by == "fairshare" else None,
    )


def _listed(values: NDArray[Any] | None) -> list[Any] | None:
    return None if values is None else values.tolist()


def _values(column: pl.Series | None) -> list[Any] | None:
    return None if column is None else column.to_list()


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


def of(outcome: Outcome, table: JobTable) -> tuple[Given, Book]:
    """Both of a result."""
    given = columns.given_of(outcome, table)
    return plain(outcome, table, given, columns.book_of(outcome, given))
