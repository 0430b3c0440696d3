"""Owners of the jobs of a case as the reference model has them: fair shares, quotas, priorities."""

from typing import Any

from cases.case import BOOKS, Case
from reference.claims import Book, Claims, Load, Quota
from reference.fair import Fair


def claims_of(case: Case, told: dict[str, Any], column: tuple[float, ...]) -> Claims:
    """Who may evict whom, quotas and services. column: the order, where a column gives it."""
    jobs, files = case.jobs, case.files
    books = []
    for rows in (files[name] for name in BOOKS if name in files):
        kind = next(iter(rows[0]))
        quotas = tuple((str(row[kind]), Quota(row["gpus"], row["borrow"])) for row in rows)
        books.append(Book(tuple(_owner(job.get(kind)) for job in jobs), quotas))
    return Claims(
        tuple(job.get("priority", 0) for job in jobs),
        tuple(job.get("preemptible", True) for job in jobs),
        told.get("evict", False),
        tuple(books),
        tuple(Load(**row) for row in files.get("services", ())),
        column,
        told.get("victims", "least"),
        told.get("evict_after", 0.0),
        told.get("evict_loses", False),
        told.get("preempt_loses", False),
    )


def fair_of(case: Case, half_life: float) -> Fair:
    """Whose jobs the usage of `fairshare` counts for, and their shares."""
    jobs, given = case.jobs, case.files.get("fair_shares", ())
    kinds = [name for name in given[0] if name != "share"] if given else []
    kinds = kinds or ["user" if "user" in jobs[0] else "vc"]
    shares = []
    for row in given:
        owner = tuple(_owner(row[kind]) for kind in kinds)
        if len(kinds) > 1 and row[kinds[1]] is None:
            owner = owner[:1]
        shares.append((owner, 1.0 if row["share"] is None else row["share"]))
    owners = tuple(tuple(_owner(job.get(kind)) for kind in kinds) for job in jobs)
    return Fair(owners, tuple(shares), half_life)


def _owner(value: object) -> str | None:
    """What owners are called, whatever the type of their column."""
    return None if value is None else str(value)
