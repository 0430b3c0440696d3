"""How often to save: the run time of long jobs by the interval between checkpoints that take time.

Jobs of five days run on gangs of one, two and four servers. Each server fails every two days and is repaired
in an hour; so a gang of k servers fails every M = 2 days / k. A checkpoint takes C = 5 minutes. Young's
interval is sqrt(2 C M), and Daly's formula is closer (docs/outages.md).

python checkpoint_interval.py [JOBS [SEEDS]]
"""

import math
import sys
from statistics import fmean, median

import polars as pl

import ringbco
from ringbco.result.certainty import interval as interval_of

HOUR = 3600.0
DAY = 24 * HOUR
BETWEEN, COST, WORK = 2 * DAY, 300.0, 5 * DAY
INTERVALS = (1800.0, 3600.0, 7200.0, 10_182.0, 14_400.0, 21_600.0, 43_200.0)
GRID = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0)  # of Young's interval


def mean_run_time(interval: float, jobs: int, gang: int = 1, seed: int = 1) -> float:
    """The mean of so many jobs on gangs of so many servers, s."""
    table = pl.DataFrame({"job_id": [f"job{row}" for row in range(jobs)]}).with_columns(
        submit_time=0.0, num_gpus=gang, duration=WORK
    )
    outcome = ringbco.replay(
        table,
        f"{gang * jobs}x1",
        policy="fifo",
        placement="first-fit",
        model="fixed",
        outages="draw:mtbf=2d,mttr=1h",
        checkpoint_interval=interval,
        checkpoint_cost=COST,
        preempt_cost=0.0,
        seed=seed,
    )
    return float(outcome.jobs["run_time"].mean() or math.nan)


def young(between: float) -> float:
    """Young's interval, s. between: mean time between failures, s."""
    return math.sqrt(2.0 * COST * between)


def daly(between: float) -> float:
    """Daly's, of higher order."""
    part = COST / (2.0 * between)
    return young(between) * (1.0 + math.sqrt(part) / 3.0 + part / 9.0) - COST


def spread(values: list[float], form: str) -> str:
    """The interval of their median, by order statistics (docs/certainty.md); nothing of too few."""
    ends = interval_of(values, "fresh tables")
    return "" if ends is None else f" [{format(ends[0], form)}, {format(ends[1], form)}]"


def told(values: list[float]) -> str:
    """A median over seeds with its 95 % interval, in days."""
    days = [value / DAY for value in values]
    return f"{median(days):.4f}{spread(days, '.4f')}"


def dearer(values: list[float], best: list[float]) -> str:
    """By how much run times are above those of the best interval, by seed: the median, and its interval."""
    above = [value / least - 1.0 for value, least in zip(values, best, strict=True)]
    return f"{median(above):+.2%}{spread(above, '+.2%')}".replace("%", " %")


def compare(gang: int, jobs: int, seeds: int) -> str:
    """A row of the page's second table."""
    between = BETWEEN / gang
    both = {"Young": young(between), "Daly": daly(between)}
    tried = {
        interval: [mean_run_time(interval, jobs, gang, seed) for seed in range(1, seeds + 1)]
        for interval in (*(part * both["Young"] for part in GRID), both["Daly"])
    }
    best = min(tried, key=lambda interval: fmean(tried[interval]))
    cells = [f"{gang}", f"{between / DAY:.1f} d", f"{best / HOUR:.2f} h", told(tried[best])]
    for interval in both.values():
        cells += [f"{interval / HOUR:.2f} h", dearer(tried[interval], tried[best])]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    for seconds in INTERVALS:
        print(f"{seconds / HOUR:5.2f} h  {mean_run_time(seconds, count) / DAY:.3f} days")
    for servers in (1, 2, 4):
        print(compare(servers, count // servers, times), flush=True)
