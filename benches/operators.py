"""A Slurm-like configuration on a real trace beside fifo and repack, `make operators-table`.

It is a table of docs/operators.md. The trace is a virtual cluster of Helios (Venus, September 2020), which
names its users. It has no time limits, no priorities and no maintenance: these are made up by the rules of
`prepared` and `windows`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

import page_tables
import ringbco
from ringbco.trace.jobs import read_jobs

MARK: Final = "operators"
VC: Final = "vcvGl"
SERVERS: Final = 20
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
LIMITS: Final = [15 * MINUTE, HOUR, 4 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY, 14 * DAY, 28 * DAY]
SHORT: Final = HOUR
"""Jobs with a limit of at most so long go before others."""
SLURM: Final[Mapping[str, Any]] = {
    "policy": "fifo",
    "order": "fairshare",
    "half_life": 7 * DAY,
    "queue": "easy",
    "estimate": "limit",
    "evict": True,
    "preempt_after": 10 * MINUTE,
}
RUNS: Final[Mapping[str, Mapping[str, Any]]] = {
    "fifo": {"policy": "fifo"},
    "fifo, easy": {"policy": "fifo", "queue": "easy", "estimate": "limit"},
    "Slurm-like": SLURM,
    "Slurm-like, conservative": {**SLURM, "queue": "conservative"},
    "repack": {"policy": "repack"},
}


def prepared(trace: Path) -> pl.DataFrame:
    """The virtual cluster's jobs, each with the least of the limits that is enough; short ones go first."""
    jobs = read_jobs(trace).frame.filter(vc=VC).drop("vc")
    enough = pl.min_horizontal(pl.when(pl.col("duration") <= limit).then(pl.lit(limit)) for limit in LIMITS)
    return jobs.with_columns(time_limit=enough).with_columns(
        priority=(pl.col("time_limit") <= SHORT).cast(pl.Int32)
    )


def windows() -> pl.DataFrame:
    """From the fourth day on a server a day is down from 2 to 6 o'clock, one after the other."""
    down = [(3 + server) * DAY + 2 * HOUR for server in range(SERVERS)]
    return pl.DataFrame(
        {"server": range(SERVERS), "down_at": down, "up_at": [time + 4 * HOUR for time in down]}
    )


def lines(trace: Path) -> Iterator[str]:
    """The table's lines."""
    jobs, maintenance = prepared(trace), windows()
    yield (
        "| | mean wait, min | jct, h | of jobs up to 1 h: wait, min | median user's wait, min |"
        " worst tenth of users, min | stopped |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, options in RUNS.items():
        outcome = ringbco.replay(jobs, f"{SERVERS}x8", model="fixed", maintenance=maintenance, **options)
        if ringbco.audit(outcome, jobs):
            raise SystemExit(f"{name}: the audit found fault")
        told = outcome.jobs.join(jobs.select("job_id", "priority", "user"), on="job_id", suffix="_asked")
        users = told.group_by("user").agg(pl.mean("waited"))["waited"].sort()
        worst = users.tail(max(1, users.len() // 10)).mean()
        short = told.filter(priority=1)["waited"].mean()
        summary = outcome.summary
        stopped = sum(summary.get(key, 0) for key in ("preemptions", "evictions"))
        yield (
            f"| {name} | {told['waited'].mean() / MINUTE:,.0f} | {summary['mean_jct'] / HOUR:,.2f}"  # type: ignore[operator]
            f" | {short / MINUTE:,.1f} | {users.median() / MINUTE:,.1f} | {worst / MINUTE:,.0f}"  # type: ignore[operator]
            f" | {stopped:,} |"
        )


def main() -> None:
    """Writes the table between its marks, or prints it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, help="helios/venus_2vc_2020-09.csv")
    parser.add_argument("page", type=Path, nargs="?")
    given = parser.parse_args()
    told = "\n".join(lines(given.trace))
    print(told)
    if given.page:
        text = page_tables.filled(given.page.read_text(encoding="utf-8"), {MARK: told})
        given.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
