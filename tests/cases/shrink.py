"""Makes a case that shows a fault smaller, step by step, as long as it still shows one of that kind."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from cases.case import Case
from cases.draw import build

Shows = Callable[[Case], bool]
OF_A_MODEL = (
    "job_id",
    "submit_time",
    "num_gpus",
    "duration",
    "iterations",
    "gradient_bytes",
    "fp_time",
    "model",
)
"""Columns without which a job would be another one."""
MOST = 600
"""Cases that are tried."""


def shrink(seed: object, features: tuple[str, ...], shows: Shows) -> tuple[tuple[str, ...], Case]:
    """The features that the fault needs, and the smallest case found with them."""
    features = _fewer(features, lambda kept: shows(build(seed, kept)))
    case, left, smaller = build(seed, features), MOST, True
    while smaller:
        smaller = False
        for candidate in _smaller(case):
            left -= 1
            if left < 0:
                return features, case
            if _stands(candidate) and shows(candidate):
                case, smaller = candidate, True
                break
    return features, case


def _fewer(features: tuple[str, ...], shows: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    for name in features:
        kept = tuple(other for other in features if other != name)
        if shows(kept):
            return _fewer(kept, shows)
    return features


def _stands(case: Case) -> bool:
    return bool(case.jobs and case.servers)


def _smaller(case: Case) -> Iterator[Case]:
    """Without a part of it, the largest parts first; then with simpler numbers."""
    for size in (len(case.jobs) // 2, 1):
        for at in range(0, len(case.jobs) if size else 0, max(size, 1)):
            yield _with(case, lambda new, at=at, size=size: _drop_jobs(new, at, size))
    for name, rows in case.files.items():
        for at in range(len(rows)):
            yield _with(case, lambda new, name=name, at=at: new.files[name].pop(at))
    if len(case.servers) > 1:
        yield _with(case, _drop_server)
    for name in case.options:
        if name not in ("model", "oversize", "policy"):
            yield _with(case, lambda new, name=name: new.options.pop(name))
    for name in list(case.jobs[0]):
        if name in OF_A_MODEL:
            continue
        yield _with(case, lambda new, name=name: [job.pop(name) for job in new.jobs])
    yield from _simpler(case)


def _with(case: Case, change: Callable[[Case], Any]) -> Case:
    new = copy.deepcopy(case)
    change(new)
    new.files = {name: rows for name, rows in new.files.items() if rows}
    return new


def _drop_jobs(case: Case, at: int, size: int) -> None:
    del case.jobs[at : at + size]
    if isinstance(case.options.get("order"), list):
        del case.options["order"][at : at + size]


def _drop_server(case: Case) -> None:
    case.servers.pop()
    last = len(case.servers)
    for name in {"outages", "maintenance"} & {*case.files}:
        case.files[name] = [row for row in case.files[name] if row["server"] < last]


def _simpler(case: Case) -> Iterator[Case]:
    """Numbers that are whole, or nearer to 0: those of jobs, of the tables beside, and of options."""
    places = [(job, name) for job in case.jobs for name in job]
    places += [(row, name) for rows in case.files.values() for row in rows for name in row]
    places += [(case.options, name) for name in case.options]
    for number, (row, name) in enumerate(places):
        value = row[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or name in ("server", "fp_time"):
            continue
        for simpler in _of(value):
            new = copy.deepcopy(case)
            again = [(job, key) for job in new.jobs for key in job]
            again += [(each, key) for rows in new.files.values() for each in rows for key in each]
            again += [(new.options, key) for key in new.options]
            target, key = again[number]
            target[key] = simpler
            yield new


def _of(value: float) -> Iterator[float]:
    if value != value or value in (float("inf"), 0, 1):
        return
    if isinstance(value, int):
        yield from {1, value // 2} - {value, 0}
    elif value != round(value) and abs(value) > 1.0:
        yield float(round(value))
