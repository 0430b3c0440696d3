"""What each feature costs the engine beside plain fifo: a table of docs/performance.md, `make feature-speed`.

CPU time of the engine's call alone, the least of some rounds in which all features take turns, few jobs and
many. Growth is told at two loads: at the greater one the queue itself grows with the number of jobs where
work is lost.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

import page_tables
import ringbco
from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.run.options import checked
from ringbco.shell import prepare
from ringbco.trace.workload import Workload, resolve

MARK: Final = "feature speed"
PLAIN: Final = "fifo"
TOGETHER: Final = "quota, evict and outages"
AFS: Final = "elastic: another policy, afs"
FEW, MANY, SERVERS = 100_000, 1_000_000, 256
LOAD, LOWER = 0.9, 0.7
ALONE, ALL, GROWTH = 4.0, 8.0, 1.5
"""What is asked: a feature against fifo, the three together, a job among many against one among few."""


class Feature(NamedTuple):
    """What a run has: options, changes to its jobs, the cluster file's [[servers]] if not 256 alike."""

    options: Callable[[pl.DataFrame], Mapping[str, Any]] = lambda _: {}
    jobs: Callable[[pl.DataFrame], pl.DataFrame] = lambda jobs: jobs
    servers: str = ""


def _drawn(jobs: pl.DataFrame) -> np.random.Generator:
    return np.random.default_rng(jobs.height)


def _priorities(jobs: pl.DataFrame) -> pl.DataFrame:
    """One job in ten goes before the others, and one in ten behind them."""
    levels = _drawn(jobs).choice([-1, *[0] * 8, 1], jobs.height)
    return jobs.with_columns(priority=pl.Series(levels, dtype=pl.Int32))


def _quota(jobs: pl.DataFrame) -> dict[str, Any]:
    """For each user half of the GPUs that its share of the work would keep busy, at least a job's."""
    work = pl.col("num_gpus") * pl.col("duration")
    of = jobs.group_by("user").agg(work.sum().alias("work"), pl.col("num_gpus").max().alias("largest"))
    own = (pl.col("work") / pl.col("work").sum() * 4 * SERVERS).ceil().cast(pl.Int64)
    table = of.sort("user").select("user", pl.max_horizontal(own, "largest").alias("gpus"), borrow=True)
    return {"quota": table}


def _shares(jobs: pl.DataFrame) -> pl.DataFrame:
    """Every second job of one GPU takes half of it."""
    half = (pl.col("num_gpus") == 1) & (pl.int_range(pl.len()) % 2 == 0)
    return jobs.with_columns(gpu_share=pl.when(half).then(0.5))


def _outages(jobs: pl.DataFrame) -> dict[str, Any]:
    """Every server fails every six weeks."""
    days = float(jobs["submit_time"].max()) / 86_400 + 30  # type: ignore[arg-type]
    drawn = ringbco.outages(f"{SERVERS}x8", mtbf="42d", mttr="2h", days=days)
    return {"outages": drawn.frame}


def _services(jobs: pl.DataFrame) -> dict[str, Any]:
    """A service that wants 10 to 40 replicas of 4 GPUs, another number every hour, as long as jobs come."""
    hours = np.arange(0.0, float(jobs["submit_time"].max()), 3600.0)  # type: ignore[arg-type]
    wanted = (25 + 15 * np.sin(hours / 86_400 * 2 * np.pi)).astype(np.uint32)
    wanted[-1] = 0
    told = {"service": ["chat"] * hours.size, "time": hours, "replicas": wanted}
    return {"services": pl.DataFrame(told).with_columns(gpus_per_replica=pl.lit(4, pl.UInt32))}


def _elastic(jobs: pl.DataFrame) -> pl.DataFrame:
    """Half to twice as many GPUs."""
    asked = pl.col("num_gpus")
    return jobs.with_columns(min_gpus=(asked + 1) // 2, max_gpus=2 * asked)


def _trials(jobs: pl.DataFrame) -> pl.DataFrame:
    """Every second job is a trial, 27 to a search."""
    row = pl.int_range(pl.len())
    return jobs.with_columns(group=pl.when(row % 2 == 0).then(pl.format("s{}", row // 54)))


def _speeds(jobs: pl.DataFrame) -> dict[str, Any]:
    """As fast as so many GPUs, whatever the model."""
    sizes = sorted({1, *jobs["num_gpus"].to_list()})
    one = {"model": ["m"] * len(sizes), "gpu_type": ["a"] * len(sizes), "gpus": sizes}
    told = pl.DataFrame({**one, "servers": [1] * len(sizes), "rate": [1.0] * len(sizes)})
    return {"model": "table", "tables": told}


def _types(names: str) -> str:
    speeds = "".join(f"[gpu_types.{name}]\nspeed = {1 + number}.0\n" for number, name in enumerate(names))
    count = SERVERS // len(names)
    servers = (f'[[servers]]\ncount = {count}\ngpus = 8\ngpu_type = "{name}"\n' for name in names)
    return speeds + "".join(servers)


FEATURES: Final[Mapping[str, Feature]] = {
    PLAIN: Feature(),
    "types: four, every job may use all": Feature(servers=_types("abcd")),
    "table: measured speeds": Feature(
        _speeds, lambda jobs: jobs.with_columns(model=pl.lit("m")), _types("a")
    ),
    "shares: every second small job half a GPU": Feature(jobs=_shares),
    "outages: a server every six weeks": Feature(_outages),
    "evict: three priorities": Feature(lambda _: {"evict": True}, _priorities),
    "quota: by user, with borrowing": Feature(_quota),
    "fair share: of users": Feature(lambda _: {"order": "fairshare"}),
    "services: hourly, 40 to 160 GPUs": Feature(_services),
    "elastic: under fifo, on num_gpus": Feature(jobs=_elastic),
    AFS: Feature(lambda _: {"policy": "afs"}, _elastic),
    "search: every second job a trial": Feature(lambda _: {"search": "asha:eta=3,rungs=3"}, _trials),
    "sleep: after 10 min": Feature(lambda _: {"sleep_after": 600.0, "wake_time": 60.0}),
    "slot clock: a minute": Feature(lambda _: {"clock": "slot", "slot": 60.0}),
    "virtual clusters: two": Feature(
        jobs=lambda jobs: jobs.with_columns(
            vc=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("x")).otherwise(pl.lit("y"))
        ),
        servers="".join(f'[[servers]]\ncount = {SERVERS // 2}\ngpus = 8\nvc = "{name}"\n' for name in "xy"),
    ),
    "decisions": Feature(lambda _: {"decisions": True}),
    "checkpoints: 10 s every half hour": Feature(lambda _: {"checkpoint_cost": 10.0}),
    TOGETHER: Feature(lambda jobs: {**_quota(jobs), **_outages(jobs), "evict": True}, _priorities),
}


def measured(numbers: tuple[int, ...], load: float, rounds: int, names: list[str]) -> list[dict[str, float]]:
    """For each number of jobs the engine's CPU time a job by feature, s: the least of the rounds."""
    runs = [(number, *prepared) for number in numbers for prepared in _prepared(number, load, names)]
    # In each round all numbers, one after the other for each feature: a machine is not always as fast.
    runs.sort(key=lambda run: names.index(run[1]))
    least: dict[int, dict[str, float]] = {number: {} for number in numbers}
    for _ in range(rounds):
        for number, name, (workload, cluster, options) in runs:
            spent = _engine(workload, cluster, options) / number
            least[number][name] = min(least[number].get(name, spent), spent)
    return list(least.values())


def _prepared(number: int, load: float, names: list[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    made = ringbco.generate("philly", number, 1, gpus=8 * SERVERS, load=load).frame
    made = made.drop("vc")
    for name in names:
        feature = FEATURES[name]
        cluster = _written(feature.servers) if feature.servers else Cluster.parse(f"{SERVERS}x8")
        jobs = ringbco.trace.jobs.from_frame(feature.jobs(made))
        options = {"policy": "fifo", **feature.options(made)}
        workload = resolve(jobs, cluster, checked(options))
        if workload.users is not None:
            _ = workload.users.numbers  # else they are worked out while the engine runs
        yield name, (workload, cluster, options)


def _written(text: str) -> Cluster:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cluster.toml")
        path.write_text(text, encoding="utf-8")
        return Cluster.parse(str(path))


def _engine(workload: Workload, cluster: Cluster, options: Mapping[str, Any]) -> float:
    """CPU time of the engine's call: virtual clusters have a thread each."""
    replay, spent = _core.replay, 0.0

    def timed(*given: Any, **named: Any) -> Any:
        nonlocal spent
        began = time.process_time()
        result = replay(*given, **named)
        spent = time.process_time() - began
        return result

    _core.replay = timed
    try:
        ringbco.replay(workload.table, cluster, workload=workload, allocations=False, **options)
    finally:
        _core.replay = replay
    return spent


def table(few: Mapping[str, float], many: Mapping[str, float], lower: Mapping[str, float]) -> str:
    """The lines between the marks. lower: growth at the lower load."""
    return "\n".join(_lines(few, many, lower))


def _lines(few: Mapping[str, float], many: Mapping[str, float], lower: Mapping[str, float]) -> Iterator[str]:
    yield f"| feature | ns a job | x fifo | asked | growth | at load {LOWER:g} | asked |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, cost in few.items():
        ratio, limit = cost / few[PLAIN], ALL if name == TOGETHER else ALONE
        told = "" if name == PLAIN else f"{ratio:.2f}"
        grown = f"{many[name] / cost:.2f} | {lower[name]:.2f}"
        # Who resizes jobs is another policy, and no feature of fifo.
        asked, growth = f"{limit:g}", f"{GROWTH:g}"
        if name in (PLAIN, AFS):
            asked, growth = "", growth if name == PLAIN else ""
        yield f"| {name} | {cost * 1e9:,.0f} | {told} | {asked} | {grown} | {growth} |"


def main() -> None:
    """Writes the table between its marks, or prints it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, nargs="?")
    parser.add_argument("--few", type=int, default=FEW)
    parser.add_argument("--many", type=int, default=MANY)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=FEATURES, help="with fifo")
    given = parser.parse_args()
    names = [PLAIN, *given.only] if given.only else list(FEATURES)
    numbers = (given.few, given.many)
    # As `ringbco replay` does: else memory is given back after each run, and that of many jobs alone is
    # cleared in every round.
    prepare()
    few, many = measured(numbers, LOAD, given.rounds, names)
    calm, busy = measured(numbers, LOWER, given.rounds, names)
    told = table(few, many, {name: busy[name] / calm[name] for name in names})
    print(told)
    if given.page:
        text = page_tables.filled(given.page.read_text(encoding="utf-8"), {MARK: told})
        given.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
