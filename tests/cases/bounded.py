"""No run of a case is below the bound of its jobs with the same options (docs/bound.md)."""

from collections.abc import Iterator

import polars as pl

import ringbco
from cases.case import Case
from frames import cluster_of
from ringbco.result.window import OPTIONS as WINDOW
from ringbco.result.window import measured
from ringbco.run.bound_options import OPTIONS


def check(case: Case, outcome: ringbco.Outcome) -> Iterator[tuple[str, str]]:
    """By how much a mean is below. Where jobs were ended or refused the bound is that of the others."""
    if {"search", "enforce_limits", "admission"} & {*case.options} or "after" in case.jobs[0]:
        return
    jobs, cluster, done = case.frame(), cluster_of(case.toml()), measured(outcome)
    given = {name: value for name, value in case.given().items() if name in OPTIONS}
    bound = ringbco.bound(jobs, cluster, **given)
    if bound.jobs != done.height:
        some = jobs.filter(pl.col("job_id").is_in(done["job_id"].to_list()))
        for name in (*WINDOW, "quota", "fair_shares"):  # of which nobody may be left
            given.pop(name, None)
        bound = ringbco.bound(some, cluster, **given)
    coarse = 64.0 * 2.0**-52 * float(outcome.jobs["finish_time"].abs().max())  # type: ignore[arg-type]
    mean = float(done["jct"].mean())  # type: ignore[arg-type]
    if mean < bound.mean_jct * (1.0 - 1e-9) - coarse:
        yield "mean_jct", f"{mean!r}; the bound is {bound.mean_jct!r}"
