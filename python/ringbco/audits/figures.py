"""summary.json: every figure beside the one that follows from the stays; and what only it has."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.audits.difference import RELATIVE
from ringbco.audits.findings import number
from ringbco.audits.inputs import rows_of
from ringbco.checker.requests import UNTOLD
from ringbco.errors import show_value
from ringbco.result.folder import WALL_TIME

if TYPE_CHECKING:
    from ringbco.audits.difference import Differences
    from ringbco.audits.findings import Check

Fail = Callable[[str, str], None]

CLOSE: Final = 1e-12
"""How far what is no sum may be off, relative: order statistics and differences."""
NO_SUMS: Final = ("median_", "p90_", "p99_", "worst_", "makespan", "deadlines")
UNJUDGED: Final = (
    *(*WALL_TIME, "decisions"),
    *("late_jobs", "mean_lateness", "worst_lateness", "latest_job", "displaced_jobs"),
)
"""Figures of wall time, of what a policy tried, and of how it kept to a log: a repeat compares the latter."""
FATES: Final = ("jobs_refused", "jobs_ended")
"""What a custom policy alone knows."""
PLAN: Final = frozenset(
    {
        *("theta", "kappa", "horizon", "w_max", "work_lower_bound", "approximation_bound"),
        *("bound_n_g", "bound_phi", "bound_u", "bound_l", "thetas_tried", "schedules_tried"),
    }
)
"""Figures of a plan, which `check_plan` looks at."""
NAMES: Final = {
    "vcs": "vc",
    "size_classes": "gpus",
    "gpu_types": "gpu_type",
    "links": "tier",
    "services": "service",
}
"""Tables of the summary, and the key that names their rows."""
OLDER: Final = (
    *("size_classes", "gpu_types", "energy_kwh", "cost", "events", "jobs_refused", "preemptions"),
    *("resizes", "jobs_resized", "resize_lost_gpu_seconds", "utilisation_to_last_submission"),
)
"""Figures without which a summary can be read; and those of fairness, deadlines and bounded slowdowns."""
OLDER_PARTS: Final = ("bounded_slowdown", "finish_time_fairness", "deadlines", "jain_index")
PLACED: Final = ("jobs_spread", "mean_contention", "links", "gpu_types", "energy_kwh", "cost")
"""Figures that say nothing unless the run recorded allocations."""
PAUSED: Final = ("lost_gpu_seconds", "goodput", "lost_work_gpu_seconds", "lost_gpu_hours_by_cause")
"""The same where servers sleep, and where work is lost."""


class Figures:
    """The figures of a result beside those of its stays. fail: takes a figure's name, and what is wrong."""

    def __init__(self, differences: Differences, fail: Fail) -> None:
        self.inputs, self.fail, self.looked_at = differences.inputs, fail, 0
        stays = differences.found.tables["stays"]
        start, end, gpus = (np.asarray(stays[name]) for name in ("start_time", "end_time", "num_gpus"))
        rounding = 2.0 * differences.ulp * float(gpus.sum())
        counted = self.inputs.counted
        mine = (
            slice(None)
            if counted.all()
            else counted[rows_of(pl.Series(stays["job_id"]), self.inputs.jobs.id)]
        )
        held = float(np.sum(((end - start) * gpus)[mine]))
        self.share: float
        self.seconds, self.share = rounding, rounding / held if held > 0 else 0.0
        self.ulp: float = 16.0 * differences.ulp
        cluster = self.inputs.cluster
        span = float(end.max() - start.min())
        watts = max((fact.busy_watts or 0.0 for fact in cluster.types), default=0.0)
        self.energy = (rounding + RELATIVE * int(cluster.gpus.sum()) * span) / 3.6e6 * watts
        self.left_out: tuple[str, ...] = ()
        if not differences.recorded:
            sleeps = self.inputs.sleep_after < math.inf or self.inputs.outages is not None
            self.left_out = (*PLACED, *(PAUSED if sleeps else ()))

    def compare(self, where: str, told: Mapping[str, Any], right: Mapping[str, Any]) -> None:
        """Each figure, and those of each row of each table."""
        planned = self.inputs.options.get("command") == "plan"
        for key in dict.fromkeys((*right, *told)):
            if key in UNJUDGED or key in self.left_out or (self.inputs.decides and key in FATES):
                continue
            if right.get(key) is UNTOLD and key in told:
                continue
            if key not in right:
                if not (planned and key in PLAN):
                    self.looked_at += 1
                    self.fail(f"{where}{key}", f"is {show_value(told[key])}; expected no such figure")
                continue
            may_lack = key in OLDER or any(part in key for part in OLDER_PARTS)
            if key not in told and may_lack:
                continue
            self._one(where, key, told.get(key), right[key])

    def _one(self, where: str, key: str, value: Any, right: Any) -> None:
        if isinstance(right, list):
            self._rows(where, key, value, right)
        elif isinstance(right, dict):
            self.looked_at += 1
            if not isinstance(value, Mapping) or set(value) != set(right):
                self.fail(f"{where}{key}", f"is {show_value(value)}; expected {sorted(right)}")
            for cause in right if isinstance(value, Mapping) and set(value) == set(right) else ():
                if not self._near("hours", value[cause], right[cause]):
                    said = f"is {_shown(value[cause])}; expected {_shown(right[cause])}"
                    self.fail(f"{where}{key}: {cause}", said)
        elif not self._near(key, value, right):
            self.fail(f"{where}{key}", f"is {_shown(value)}; expected {_shown(right)}")

    def _rows(self, where: str, key: str, value: Any, right: list[Any]) -> None:
        """The rows of a table, by their names."""
        named, rows = NAMES[key], value if isinstance(value, list) else [value]
        self.looked_at += 1
        for row in rows:
            if not isinstance(row, Mapping) or not isinstance(row.get(named), str):
                shown = row.get(named) if isinstance(row, Mapping) else row
                told = repr(shown) if shown is None else show_value(repr(shown))
                self.fail(f"{where}{key}", f"has a row {told}; expected each with its {named}")
                return
        if [row[named] for row in rows] != [row[named] for row in right]:
            names = ", ".join(show_value(row[named]) for row in rows)
            wanted = ", ".join(row[named] for row in right)
            self.fail(f"{where}{key}", f"has a row each for {names}; expected {wanted}")
            return
        for row, own in zip(rows, right, strict=True):
            name = f"size class {own[named]}" if key == "size_classes" else own[named]
            self.compare(f"{where}{name}: ", row, own)

    def _near(self, key: str, value: Any, right: Any) -> bool:
        self.looked_at += 1
        if not isinstance(value, int | float) or not isinstance(right, int | float):
            return bool(value == right)
        if isinstance(value, bool) or abs(value) > sys.float_info.max:
            return False
        if isinstance(right, int) or key.startswith("measure_"):
            return bool(value == right)
        if math.isnan(value) or math.isnan(right):
            return math.isnan(value) and math.isnan(right)
        slack = CLOSE if key.startswith(NO_SUMS) else RELATIVE
        return bool(abs(value - right) <= slack * max(abs(value), abs(right)) + slack + self._coarse(key))

    def _coarse(self, key: str) -> float:
        """How far a sum over time may be off, as times far from zero are only so fine."""
        if key.endswith("gpu_seconds"):
            return self.seconds
        if "hours" in key or key == "cost":
            return self.seconds / 3600.0
        if key.startswith(("goodput", "utilisa")):
            return self.share
        if key == "energy_kwh":
            return float(self.energy)
        timed = "_jct", "_wait", "_start", "makespan", "_to_best", "_scale_up", "_wanted", "_served"
        return self.ulp if key.endswith(timed) else 0.0


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    measured = isinstance(value, int | float) and abs(value) <= sys.float_info.max
    return number(value) if measured else show_value(value)


def check_summary(check: Check, differences: Differences, starts: int) -> None:
    """Every figure of summary.json. starts: how many stays began."""
    told, right = differences.outcome.summary, differences.found.summary
    figures = Figures(differences, lambda name, says: check.fail(f"{name} {says}"))
    figures.compare("", told, right)
    check.looked_at += figures.looked_at
    for name, least in (("decisions", starts), ("engine_seconds", 0), ("total_seconds", 0)):
        said = told.get(name, least)
        enough = isinstance(said, int | float) and least <= said < math.inf
        if name in told:
            check.expect(holds=enough, message=f"{name} is {_shown(said)}; expected at least {least}")
    total, rate = told.get("total_seconds"), told.get("jobs_per_second")
    if isinstance(total, int | float) and total > 0 and "jobs_per_second" in told:
        wanted = right["jobs"] / total
        near = isinstance(rate, int | float) and math.isclose(rate, wanted, rel_tol=CLOSE, abs_tol=CLOSE)
        check.expect(holds=near, message=f"jobs_per_second is {_shown(rate)}; expected {number(wanted)}")
    if differences.inputs.decides:
        _check_fates(check, differences)


def _check_fates(check: Check, differences: Differences) -> None:
    """Whom a custom policy refused or ended, as many as are left out and as are told of elsewhere."""
    told, tables = differences.outcome.summary, differences.found.tables
    inputs = differences.inputs
    jobs = int(inputs.counted.sum()) - differences.found.summary["jobs_dropped"]
    ran = rows_of(pl.Series(tables["stays"]["job_id"]), inputs.jobs.id)
    stayed = int(np.unique(ran[inputs.counted[ran]]).size)
    fates = {name: told.get(name, 0) for name in FATES}
    if not all(isinstance(count, int) for count in fates.values()):
        check.fail(f"{' and '.join(FATES)} are {show_value(list(fates.values()))}; expected numbers of jobs")
        return
    done, ended = differences.found.summary["jobs"], fates["jobs_ended"]
    said = (
        f"jobs_refused and jobs_ended are {fates['jobs_refused']} and {ended}; expected {jobs - done}"
        f" together, and {stayed - done} ended at least"
    )
    check.expect(holds=sum(fates.values()) == jobs - done and ended >= stayed - done, message=said)
    for name, count in fates.items():
        rows = told.get("vcs")
        own = [row.get(name, 0) for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
        if own:
            said = f"{name} of the virtual clusters are {show_value(own)}; expected {count} together"
            check.expect(holds=all(isinstance(each, int) for each in own) and sum(own) == count, message=said)
