"""The checker beside the judge, its slow truth: every table, column and figure, and how far work is off."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import ringbco
from cases import judged
from physics import Given, Judgement, judge
from ringbco.audits.given import book_of, given_of
from ringbco.checker import check
from ringbco.errors import InputError
from ringbco.trace.jobs import JobTable

RELATIVE = 1e-9
WAITS = ("wait_behind", "wait_gpus", "wait_fragmented")
RUNS = ("run_spread", "run_contention", "run_resized", "run_on_type", "run_cut")


def differences(outcome: ringbco.Outcome, table: JobTable) -> Iterator[tuple[str, Any, Any]]:
    """(what, the checker's, the judge's) where they differ. Both refuse a window in which no job was done."""
    plain, book = judged.book(outcome, table)
    given = given_of(outcome, table)
    try:
        right = judge(plain, book)
    except InputError as error:
        try:
            check(given, book_of(outcome, given))
        except InputError as own:
            if str(own) == str(error):
                return
        yield "refusal", None, error
        return
    found = check(given, book_of(outcome, given))
    if found.tables.keys() != right.tables.keys():
        yield "tables", found.tables.keys(), right.tables.keys()
    for name, columns in right.tables.items():
        own = found.tables[name]
        if not columns.keys() <= own.keys():  # new ones the judge need not learn
            yield f"columns of {name}", own.keys(), columns.keys()
            continue
        for column, values in columns.items():
            mine = [_plain(value) for value in own[column]]
            if len(mine) != len(values):
                yield f"rows of {name}", len(mine), len(values)
                continue
            slack = _slack(plain, right, name, column)
            for one, other in zip(mine, values, strict=True):
                if not _same(one, other, slack):
                    yield f"{name} {column}", one, other
                    break
    yield from _figures("", found.summary, right.summary, 16.0 * _ulp(plain, right))
    off = dict(zip(found.ended.tolist(), found.off.tolist(), strict=True))
    if off.keys() != right.off.keys():
        yield "jobs that ended", off.keys(), right.off.keys()
        return
    whole = plain.jobs.duration if plain.model == "fixed" else plain.jobs.iterations
    for job, value in right.off.items():
        near = whole[job] * (RELATIVE + 16.0 * _ulp(plain, right) / plain.jobs.ideal[job])
        if abs(off[job] - value) > near:
            yield f"work of {plain.jobs.id[job]}", off[job], value


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _ulp(plain: Given, right: Judgement) -> float:
    """How fine the times of a run are."""
    times = [*right.tables["stays"]["end_time"], *plain.jobs.submit, 1.0]
    return float(np.spacing(max(map(abs, times))))


def _slack(plain: Given, right: Judgement, table: str, column: str) -> float:
    """What a sum of times may be off beside a billionth of it, as the times are only so fine."""
    near, values = 64.0 * _ulp(plain, right), right.tables[table][column]
    if column in WAITS:
        return 16.0 * near
    if column in RUNS:  # what is left of a run
        return 8.0 * near + RELATIVE * max(map(abs, right.tables["jobs"]["jct"]))
    if column in ("work", "lost"):
        return RELATIVE * max(*plain.jobs.iterations, *plain.jobs.duration, 1.0)
    if column.endswith("gpu_time") or column == "gpu_hours":
        return near * sum(plain.cluster.gpus)
    if column == "watts":
        return RELATIVE * max(map(abs, values), default=0.0)
    return near


def _same(one: Any, other: Any, slack: float) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other) or math.isinf(other):
            return one == other or (math.isnan(one) and math.isnan(other))
        return abs(one - other) <= RELATIVE * max(abs(one), abs(other)) + slack
    return type(one) is type(other) and bool(one == other)


def _figures(where: str, found: Any, right: Any, slack: float) -> Iterator[tuple[str, Any, Any]]:
    """A summary, its rows and their figures."""
    if isinstance(right, Mapping):
        if not isinstance(found, Mapping) or not right.keys() <= found.keys():
            yield f"figures{where}", found, right
            return
        for name, value in right.items():
            yield from _figures(f"{where} {name}", found[name], value, slack)
    elif isinstance(right, Sequence) and not isinstance(right, str):
        if len(found) != len(right):
            yield f"figures{where}", found, right
            return
        for number, (one, other) in enumerate(zip(found, right, strict=True)):
            yield from _figures(f"{where} {number}", one, other, slack)
    elif not _same(found, right, slack + RELATIVE):
        yield f"figure{where}", found, right


__all__ = ["differences"]
