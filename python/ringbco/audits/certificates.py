"""Does a certificate prove its bound? Works it out again from the prices and the job table (docs/bound.md).

Any prices of at least 0 prove some bound, so nothing is taken from the ascent that found them: each job buys
its cheapest seconds here by halving, in numpy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ringbco.audits.findings import Check, Report
from ringbco.errors import InputError, UsageError
from ringbco.result.bound import PRICED
from ringbco.result.folder import cluster_of
from ringbco.run.bound import Part, bounded_jobs
from ringbco.trace.jobs import UNREAD, JobTable, read_jobs

Floats = NDArray[np.float64]

RULES: Final = {
    "trace": "the job table is the one that was bounded",
    "jobs": "the bound is of the jobs and GPUs of each cluster",
    "prices": "intervals follow each other, and no price is below 0",
    "proof": "the prices prove the bound",
    "mean": "the mean is the sum of the parts over the jobs",
}
_HALVINGS: Final = 60
_CHUNK: Final = 256


def check_certificate(path: str | os.PathLike[str], jobs: str | os.PathLike[str] | None = None) -> Report:
    """Audits a certificate of `ringbco bound --tight`; the job table is `jobs` or the one that it names.

    Raises InputError where the file is no certificate, or the job table cannot be found or read.
    """
    told = _read(path)
    named = told["trace"].get("path")
    if jobs is None and not (isinstance(named, str) and Path(named).is_file()):
        raise InputError(
            f"the job table of this bound, {named}, is not there; give it with --jobs", file=path
        )
    table = read_jobs(str(named) if jobs is None else jobs, without=UNREAD)
    checks = {code: Check(code, rule) for code, rule in RULES.items()}
    sha256 = told["trace"].get("sha256")
    same = checks["trace"].expect(
        holds=table.identity["sha256"] == sha256, message=f"its SHA-256 is not {str(sha256)[:12]}..."
    )
    if same:
        _check_parts(checks, told, _parts(path, told, table))
    else:
        for code in ("jobs", "prices", "proof", "mean"):
            checks[code].not_run = "trace failed"
    for check in checks.values():
        check.close()
    return Report(tuple(checks.values()))


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The certificate. Raises InputError where it is none."""
    hint = "write one with ringbco bound --tight --certificate FILE.json"
    told: Any
    try:
        told = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    except (ValueError, RecursionError):
        raise InputError("expected a certificate, which is JSON", file=path, hint=hint) from None
    forms: Mapping[str, type] = {"trace": dict, "cluster": dict, "options": dict, "parts": list}
    for key, form in forms.items():
        if not isinstance(told, dict) or not isinstance(told.get(key), form):
            expected = f"{'a list' if form is list else 'an object'}, as in a certificate"
            raise InputError(expected, file=path, key=key, hint=hint)
    found: dict[str, Any] = told
    return found


def _parts(path: str | os.PathLike[str], told: Mapping[str, Any], table: JobTable) -> Mapping[str, Part]:
    """The jobs that the certificate is of. Raises InputError where its cluster or its options are none."""
    try:
        cluster = cluster_of({"cluster": told["cluster"]})
        return bounded_jobs(table, cluster, told["options"]).parts
    except (UsageError, TypeError) as error:
        raise InputError(f"key options: {error}", file=path) from None
    except InputError as error:
        raise InputError(str(error), file=path) from None


def _check_parts(checks: Mapping[str, Check], told: Mapping[str, Any], parts: Mapping[str, Part]) -> None:
    named = {str(each.get("vc")): each for each in told["parts"] if isinstance(each, dict)}
    proven = 0.0
    for vc in {**parts, **named}:
        where = f"virtual cluster {vc!r}: " if vc else ""
        part, each = parts.get(vc), named.get(vc)
        sizes = None if each is None else (each.get("jobs"), each.get("gpus"))
        actual = None if part is None else (part.submit.size, part.gpus)
        if not checks["jobs"].expect(
            holds=sizes == actual, message=f"{where}{sizes} jobs and GPUs; the job table has {actual}"
        ):
            continue
        assert part is not None
        assert each is not None
        total = _number(each.get("total"))
        ends, prices = _prices(checks["prices"], each, where)
        if ends is None or prices is None:
            continue
        found = prove(part, ends, prices)
        checks["proof"].looked_at += part.submit.size * (ends.size - 1)
        if not total <= found:
            checks["proof"].fail(f"{where}the sum is at least {found!r} s; told are {total!r} s")
        proven += total
    mean, count = _number(told.get("mean_jct")), sum(part.submit.size for part in parts.values())
    checks["mean"].expect(
        holds=bool(mean <= proven / count * (1 + 1e-12)) if count else False,
        message=f"the parts give {proven / max(count, 1)!r} s; told are {mean!r} s",
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else float("nan")


def _prices(check: Check, each: Mapping[str, Any], where: str) -> tuple[Floats | None, Floats | None]:
    """When intervals begin and the last one ends, s; the price of each row in each. None where unsound."""
    try:
        ends = np.array(each["ends"], dtype=np.float64)
        prices = np.array([each["prices"][row] for row in PRICED], dtype=np.float64)
    except (KeyError, TypeError, ValueError):
        check.expect(holds=False, message=f"{where}expected numbers in ends and in each row of prices")
        return None, None
    sound = ends.ndim == 1 and ends.size > 1 and prices.shape == (len(PRICED), ends.size - 1)
    sound = sound and bool(np.isfinite(ends).all() and (np.diff(ends) > 0).all())
    check.expect(
        holds=sound, message=f"{where}ends do not ascend, or are not one more than the prices of a row"
    )
    if not sound:
        return None, None
    bad = check.broken(~(np.isfinite(prices) & (prices >= 0)))
    for number in bad[:1]:
        row, interval = divmod(int(number), ends.size - 1)
        value = float(prices[row, interval])
        check.add([], bad.size - 1)
        check.fail(f"{where}the price of {PRICED[row]} in interval {interval} is {value!r}")
    return (None, None) if bad.size else (ends, prices)


def prove(part: Part, ends: Floats, prices: Floats) -> float:
    """The sum of completion times less submissions, s, that the prices prove.

    part: the jobs. ends: of the intervals, s, shape (intervals + 1,). prices: of a second of each of
    `PRICED`, s, shape (3, intervals).
    """
    lengths = np.diff(ends)
    total = -float((lengths * (part.gpus * prices[0] + prices[1] + 2.0 * prices[2])).sum())
    order = np.argsort(part.submit, kind="stable")
    for begin in range(0, order.size, _CHUNK):
        total += float(_bought(part, order[begin : begin + _CHUNK], ends, prices).sum())
    return total


def _bought(part: Part, rows: NDArray[np.intp], ends: Floats, prices: Floats) -> Floats:
    """What each job pays at least: the mean time of its cheapest seconds, their price, half its run time."""
    submit, run = part.submit[rows, None], part.shortest[rows, None]
    least = part.least[rows, None]
    held_gpus = part.work[rows, None] / run
    # Before the first interval and after the last one all is free.
    top = np.maximum(ends[-1] - submit, 0.0) + run
    near = ends[1:] > submit.min()
    prices = np.pad(prices[:, near], ((0, 0), (1, 1)))
    inner = np.maximum(np.append(ends[:-1][near], ends[-1]) - submit, 0.0)
    begins = np.append(np.zeros_like(run), inner, axis=1)
    stops = np.append(begins[:, 1:], np.full_like(run, np.inf), axis=1)
    lengths = np.maximum(stops - begins, 0.0)
    price = held_gpus * prices[0] + (2 * least > part.gpus) * prices[1] + (3 * least > part.gpus) * prices[2]
    costs = begins + run * price
    # Whoever runs at once pays no more than this.
    low, high = np.zeros_like(run), np.minimum(top, run * (1.0 + price.max(axis=1, keepdims=True)))
    for _ in range(_HALVINGS):
        level = 0.5 * (low + high)
        enough = np.clip(level - costs, 0.0, lengths).sum(axis=1, keepdims=True) >= run
        low, high = np.where(enough, low, level), np.where(enough, level, high)
    # Any level gives a bound, the one at which the job buys its run time the best.
    held = np.clip(high - costs, 0.0, lengths)
    saved = np.where(held > 0.0, held * (high - costs - held / 2.0), 0.0).sum(axis=1, keepdims=True)
    paid: Floats = (high - saved / run + run / 2.0)[:, 0]
    return paid
