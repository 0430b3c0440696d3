"""The sums of docs/results.md: columns, figures and samples are what the stays add up to."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

import ringbco
from cases import window
from cases.case import Case
from cases.holding import boundary

PAGE = Path(__file__).parents[2] / "docs" / "results.md"
ROUNDED = ("wait_behind", "wait_gpus", "wait_fragmented", "waited")
"""Parts of a wait of less than one in a million of it are none."""


@cache
def _block(name: str) -> str:
    """The code behind a mark of the page."""
    found = re.search(rf"<!-- sums: {name} -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert found is not None, name
    return found[1]


def expressions(**known: Any) -> dict[str, Any]:
    """What the page's code defines. known: what it takes for granted."""
    told = {"pl": pl, **known}
    for name in ("columns", "figures", *(["samples"] if "time" in known else [])):
        exec(_block(name), told)
    return told


def _known(case: Case, stays: pl.DataFrame) -> pl.DataFrame:
    """The stays with what the page takes for granted of them: weight, asks, since."""
    jobs = {job["job_id"]: job for job in case.jobs}
    slot = case.options.get("slot") if case.options.get("clock") == "slot" else None
    names = stays["job_id"].to_list()
    weight = [jobs[name].get("gpu_share") or 1.0 for name in names]
    seen = [boundary(jobs[name]["submit_time"], slot) for name in names]
    left = pl.col("end_time").shift(1).over("job_id") + pl.col("paused_at_rung")
    saving = stays.get_column("saving", default=pl.repeat(0.0, stays.height, eager=True))
    return stays.with_columns(
        saving=saving,
        weight=pl.Series(weight, dtype=pl.Float64),
        asks=pl.Series([jobs[name]["num_gpus"] * own for name, own in zip(names, weight, strict=True)]),
        since=pl.coalesce(left, pl.Series(seen)),
    )


def check(case: Case, outcome: ringbco.Outcome) -> Iterator[tuple[str, str]]:
    """What a result says otherwise: (column or figure, how)."""
    jobs = outcome.jobs
    every = _known(case, outcome.stays)
    stays = every.join(jobs.select("job_id"), on="job_id", how="semi", maintain_order="left")
    last = float(every["end_time"].max())  # type: ignore[arg-type]
    coarse = 64.0 * abs(last) * 2.0**-52 * (1 + every.height) * case.room
    page = expressions()
    found = stays.group_by("job_id", maintain_order=True).agg(**page["COLUMNS"])
    if found["job_id"].to_list() != jobs["job_id"].to_list():
        yield "stays", f"of {found['job_id'].to_list()}; jobs.parquet has {jobs['job_id'].to_list()}"
        return
    for name in page["COLUMNS"].keys() & set(jobs.columns):
        right = found[name].cast(pl.Float64)
        near = 1e-9 * right.abs() + coarse
        if jobs[name].dtype == pl.Float32 or name in ROUNDED:
            near = near + 4e-6 * jobs["jct"]
        far = (jobs[name].cast(pl.Float64) - right).abs() > near
        for row in far.arg_true()[:1]:
            yield name, f"{jobs['job_id'][row]}: {jobs[name][row]!r}; expected {found[name][row]!r}"
    submit = {job["job_id"]: job["submit_time"] for job in case.jobs}
    counted = [window.counts(case, submit[name]) for name in stays["job_id"]]
    sums = stays.filter(counted).select(**page["FIGURES"]).row(0, named=True)
    for name, right in sums.items():
        told = outcome.summary.get(name)
        if told is not None and abs(told - right) > 1e-9 * abs(right) + coarse:
            yield f"summary {name}", f"{told!r}; expected {right!r}"
    for sample in outcome.timeline.gather_every(61).iter_rows(named=True):
        right = every.select(**expressions(time=sample["time"])["SAMPLES"]).row(0, named=True)
        for name, value in right.items():
            whole = 0.5 if "gpu_share" in jobs.columns else 0.0
            if abs(sample[name] - value) > whole + 1e-6:
                yield f"timeline {name}", f"at {sample['time']!r}: {sample[name]!r}; expected {value!r}"
                return
