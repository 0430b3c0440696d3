"""Tables of docs pages, of features: which run together, and what each costs the engine."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import polars as pl

import ringbco
from page_tables import TableInputs, line
from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.errors import RingbcoError
from ringbco.run.options import checked
from ringbco.shell import prepare
from ringbco.trace.workload import Workload, resolve

# docs/combinations.md: the refused runs of every policy with every feature, and with every two that it
# supports one by one. A run has eight jobs; the audit of a run with one feature finds nothing.

PLAIN: Final[tuple[Mapping[str, str], ...]] = ({}, {})


class Feature(NamedTuple):
    """What a run may have: columns of its jobs, options, and what the servers say, by server."""

    columns: Mapping[str, list[Any]] = {}
    options: Mapping[str, Any] = {}
    servers: tuple[Mapping[str, str], ...] = PLAIN

    def and_(self, other: Feature) -> Feature | None:
        """Both at once; None where one contradicts the other."""
        servers = self.servers if other.servers == PLAIN else other.servers
        if PLAIN not in (self.servers, other.servers):
            servers = tuple({**one, **two} for one in self.servers for two in other.servers)
        said = {key for one in self.servers for key in one} & {key for two in other.servers for key in two}
        if said or self.columns.keys() & other.columns.keys() or self.options.keys() & other.options.keys():
            return None
        return Feature({**self.columns, **other.columns}, {**self.options, **other.options}, servers)

    def toml(self) -> str:
        """The cluster file."""
        types = sorted({one["gpu_type"] for one in self.servers if "gpu_type" in one})
        lines = [f"[gpu_types.{name}]\nspeed = {speed}\n" for speed, name in enumerate(types, 1)]
        if any("rack" in one for one in self.servers):
            lines.append('[[network.tiers]]\nname = "rack"\nbandwidth = "10Gb/s"\n')
        for one in self.servers:
            lines.append("[[servers]]\ngpus = 4\n" + "".join(f'{key} = "{one[key]}"\n' for key in one))
        return "".join(lines)


class Keyed(ringbco.KeyPolicy):
    """The widest first."""

    def key(self, state: ringbco.State, rows: Any) -> Any:
        """Less its GPUs."""
        return -state.jobs.num_gpus[rows].astype(float)


class Ranked(ringbco.RankPolicy):
    """The widest first, who runs gives way."""

    preemptive: ClassVar[bool] = True

    def rank(self, state: ringbco.State, rows: Any) -> Any:
        """Less its GPUs."""
        return -state.jobs.num_gpus[rows].astype(float)


class Deciding(ringbco.Policy):
    """Whoever fits starts, if need be beside another."""

    resizes: ClassVar[bool] = False

    def decide(self, state: ringbco.State) -> None:
        """Tries all that wait."""
        state.start(state.waiting, strict=False)
        for row in state.waiting:
            for other in state.started:
                with suppress(ringbco.DecisionError):  # not there, or nowhere without --jobs-per-gpu
                    state.start(row, beside=other)
                    break


def _frame(**columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame(columns)


_BATCHES: Final = {"kind": "batch", "gpus": 2, "seconds": [[1, 5.0]], "scale": "target"}
FEATURES: Final[Mapping[str, Feature]] = {
    "types": Feature(servers=({"gpu_type": "a"}, {"gpu_type": "b"})),
    "table": Feature(
        {"iterations": [30] * 8},
        {
            "model": "table",
            "tables": _frame(
                model=["m"] * 2, gpu_type=["a"] * 2, gpus=[1, 4], servers=[1] * 2, rate=[1.0, 3.0]
            ),
        },
        ({"gpu_type": "a"}, {"gpu_type": "a"}),
    ),
    "shares": Feature({"gpu_share": [0.5, None] * 4}),
    "seats": Feature(
        {"estimated_duration": [30.0] * 8, "colocation_score": [0, 1] * 4},
        {"jobs_per_gpu": 2, "interference": 0.5},
    ),
    "pods": Feature({"gpus_per_pod": [1, 2] * 3 + [1, 1]}),
    "outages": Feature({}, {"outages": _frame(server=[0], down_at=[15.0], up_at=[60.0])}),
    "drains": Feature({}, {"outages": _frame(server=[0], down_at=[15.0], up_at=[60.0], kind=["drain"])}),
    "after": Feature(
        {
            "after": [None] * 4 + ["j0", "j1", "j4", "j5"],
            "think_time": [None] * 4 + [4.0, None, None, 0.0],
        }
    ),
    "evict": Feature({"priority": [0, 1] * 4}, {"evict": True}),
    "evict options": Feature(
        {"priority": [0, 1] * 4, "preemptible": [True] * 5 + [False] * 3},
        {
            "evict": True,
            "victims": "youngest",
            "evict_after": 7.0,
            "evict_loses": True,
            "keep_unpreemptible": True,
        },
    ),
    "quota": Feature({}, {"quota": _frame(user=["u"], gpus=[4], borrow=[True])}),
    "services": Feature(
        {},
        {"services": _frame(service=["s", "s"], time=[0.0, 50.0], replicas=[1, 0], gpus_per_replica=[2, 2])},
    ),
    "requests": Feature(
        {},
        {
            "services": {"s": {**_BATCHES, "min": 0, "max": 2, "target": 2, "every": 7, "down_after": 14}},
            "requests": _frame(arrival=[1.0, 1.0, 3.0, 20.0, 40.0]),
            "request_rows": True,
        },
    ),
    "elastic": Feature({"min_gpus": [1] * 8, "max_gpus": [4] * 8}),
    "search": Feature({"group": ["g"] * 4 + [None] * 4}, {"search": "asha:eta=2,rungs=2"}),
    "virtual clusters": Feature({"vc": ["x", "y"] * 4}, servers=({"vc": "x"}, {"vc": "y"})),
    "tiers": Feature(servers=({"rack": "x"}, {"rack": "y"})),
    "slot clock": Feature({}, {"clock": "slot", "slot": 5.0}),
    "sleep": Feature({}, {"sleep_after": 5.0, "wake_time": 2.0}),
    "fixed": Feature({}, {"model": "fixed"}),
    "another placement": Feature({}, {"placement": "first-fit"}),
    "decisions": Feature({}, {"decisions": True}),
    "easy": Feature({}, {"queue": "easy"}),
    "maintenance": Feature({}, {"maintenance": _frame(server=[1], down_at=[40.0], up_at=[70.0])}),
}
"""The columns of the page. Each is drawn by itself."""


def jobs_of(feature: Feature) -> pl.DataFrame:
    """Eight jobs that may have all that the feature says."""
    gpus = [1, 2, 1, 4, 1, 2, 1, 3]
    if "group" in feature.columns:
        gpus[:4] = [1] * 4
    columns = dict(feature.columns)
    if {"gpu_share", "max_gpus"} <= columns.keys():
        columns["max_gpus"] = [4 if share is None else 1 for share in columns["gpu_share"]]
    if "gpus_per_pod" in columns:
        pods = columns["gpus_per_pod"]
        columns["gpus_per_pod"] = [
            pod if asked % pod == 0 else 1 for pod, asked in zip(pods, gpus, strict=True)
        ]
        if "max_gpus" in columns:
            for name in ("min_gpus", "max_gpus"):
                own = zip(columns[name], columns["gpus_per_pod"], gpus, strict=True)
                columns[name] = [limit if pod == 1 else asked for limit, pod, asked in own]
    if {"group", "vc"} <= columns.keys():  # a search is of one virtual cluster
        named = zip(columns["group"], columns["vc"], strict=True)
        columns["group"] = [None if group is None else group + vc for group, vc in named]
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(8)],
            "submit_time": [5.0 * row for row in range(8)],
            "num_gpus": gpus,
            "duration": [30.0] * 8,
            "user": ["u", "v"] * 4,
            "model": ["m"] * 8,
            **columns,
        }
    )


Run = Callable[[Feature, Path, bool], None]
"""Runs something with a feature, in a folder; told whether its result is audited."""


def replayed(policy: Any) -> Run:
    """What runs a policy."""

    def run(feature: Feature, work: Path, audited: bool) -> None:
        jobs = jobs_of(feature)
        outcome = ringbco.replay(jobs, work / "cluster.toml", policy=policy, **feature.options)
        assert not audited or ringbco.audit(outcome, jobs) == []

    return run


def followed(feature: Feature, work: Path, audited: bool) -> None:
    """Follows the decisions of fifo, or of lucid where jobs may sit together."""
    jobs = jobs_of(feature)
    options = {**feature.options, "decisions": True}
    policy = "lucid" if "jobs_per_gpu" in options else "fifo"
    ringbco.replay(jobs, work / "cluster.toml", policy=policy, **options).write(work / "log")
    log = f"log:{work / 'log' / 'decisions.parquet'}"
    outcome = ringbco.replay(jobs, work / "cluster.toml", policy=log, **feature.options)
    assert not audited or ringbco.audit(outcome, jobs) == []


def called(function: Callable[..., Any]) -> Run:
    """What calls `plan` or `bound`."""

    def run(feature: Feature, work: Path, audited: bool) -> None:
        function(jobs_of(feature), work / "cluster.toml", **feature.options)

    return run


ROWS: Final[Mapping[str, Run]] = {
    **{name: replayed(name) for name in ("fifo", "srtf", "afs", "sia", "gavel", "allox", "repack", "lucid")},
    "custom `KeyPolicy`": replayed(Keyed),
    "custom `RankPolicy`": replayed(Ranked),
    "custom `Policy`": replayed(Deciding),
    "log": followed,
    "plan": called(ringbco.plan),
    "bound": called(ringbco.bound),
}


def cell(row: str, *features: str) -> str | None:
    """Why a row does not run with a feature, or with two; None where it does, or where no run has both."""
    first, *others = (FEATURES[name] for name in features)
    feature = first if not others else first.and_(others[0])
    if feature is None:
        return None
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (Path(folder) / "cluster.toml").write_text(feature.toml())
        if "requests" in feature.options:  # a run is repeated with a file
            feature.options["requests"].write_parquet(file := Path(folder) / "requests.parquet")
            feature = feature._replace(options={**feature.options, "requests": file})
        try:
            ROWS[row](feature, Path(folder), not others)
        except RingbcoError as error:
            message = str(error).replace(f"{__name__}:", "")
            return message.partition("expected ")[2] or message.partition(": ")[2]
    return None


def pairs(row: str, alone: Mapping[str, str | None]) -> dict[tuple[str, str], str]:
    """Why a row does not run with two features that it knows one by one. alone: why it does not know each."""
    known = [name for name in FEATURES if alone[name] is None]
    result = {pair: cell(row, *pair) for pair in combinations(known, 2)}
    return {pair: reason for pair, reason in result.items() if reason is not None}


def reasons(row: str) -> dict[tuple[str, str], str]:
    """By two features, each of which a row knows, why it does not run with both."""
    return pairs(row, alone(row))


def alone(row: str) -> dict[str, str | None]:
    """By feature why a row does not run with it."""
    return {name: cell(row, name) for name in FEATURES}


def every(given: TableInputs) -> Iterator[str]:
    """The runs with one feature each: how many there are, and those that are refused."""
    result = dict(zip(ROWS, given.map(alone, ROWS), strict=True))
    refused = [(row, *cell) for row, cells in result.items() for cell in cells.items() if cell[1] is not None]
    runs = len(ROWS) * len(FEATURES)
    yield f"{runs - len(refused)} of {runs} runs with one feature work. These are refused:\n"
    yield from (line("policy", "feature", "message"), line(*["---"] * 3))
    yield from (line(*cells) for cells in refused)


def both(given: TableInputs) -> Iterator[str]:
    """Who refuses which two features."""
    rows = given.some(ROWS)
    refused: dict[tuple[tuple[str, str], str], list[str]] = {}
    for row, result in zip(rows, given.map(reasons, rows), strict=True):
        for entry in result.items():
            refused.setdefault(entry, []).append(row)
    given.drawn_less |= given.least
    yield line("features", "refused by", "why")
    yield line(*["---"] * 3)
    for (pair, reason), by in refused.items():
        yield line(" and ".join(pair), ", ".join(by), reason)


# docs/performance.md: what each feature costs beside plain fifo, as CPU time of the engine's call alone, the
# least of some rounds in which all features take turns, few jobs and many. Growth is told at two loads: at
# the greater one the queue itself grows with the number of jobs where work is lost.

FIFO: Final = "fifo"
TOGETHER: Final = "quota, evict and outages"
AFS: Final = "elastic: another policy, afs"
SERVERS: Final = 256
LOAD, LOWER = 0.9, 0.7
ALONE, ALL, GROWTH = 4.0, 8.0, 1.5
"""What is asked: a feature against fifo, the three together, a job among many against one among few."""


class Busy(NamedTuple):
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
    table = pl.DataFrame({**one, "servers": [1] * len(sizes), "rate": [1.0] * len(sizes)})
    return {"model": "table", "tables": table}


def _types(names: str) -> str:
    speeds = "".join(f"[gpu_types.{name}]\nspeed = {1 + number}.0\n" for number, name in enumerate(names))
    count = SERVERS // len(names)
    servers = (f'[[servers]]\ncount = {count}\ngpus = 8\ngpu_type = "{name}"\n' for name in names)
    return speeds + "".join(servers)


SLOWER: Final[Mapping[str, Busy]] = {
    FIFO: Busy(),
    "types: four, every job may use all": Busy(servers=_types("abcd")),
    "table: measured speeds": Busy(_speeds, lambda jobs: jobs.with_columns(model=pl.lit("m")), _types("a")),
    "shares: every second small job half a GPU": Busy(jobs=_shares),
    "outages: a server every six weeks": Busy(_outages),
    "evict: three priorities": Busy(lambda _: {"evict": True}, _priorities),
    "quota: by user, with borrowing": Busy(_quota),
    "fair share: of users": Busy(lambda _: {"order": "fairshare"}),
    "services: hourly, 40 to 160 GPUs": Busy(_services),
    "elastic: under fifo, on num_gpus": Busy(jobs=_elastic),
    AFS: Busy(lambda _: {"policy": "afs"}, _elastic),
    "search: every second job a trial": Busy(lambda _: {"search": "asha:eta=3,rungs=3"}, _trials),
    "sleep: after 10 min": Busy(lambda _: {"sleep_after": 600.0, "wake_time": 60.0}),
    "slot clock: a minute": Busy(lambda _: {"clock": "slot", "slot": 60.0}),
    "virtual clusters: two": Busy(
        jobs=lambda jobs: jobs.with_columns(
            vc=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("x")).otherwise(pl.lit("y"))
        ),
        servers="".join(f'[[servers]]\ncount = {SERVERS // 2}\ngpus = 8\nvc = "{name}"\n' for name in "xy"),
    ),
    "decisions": Busy(lambda _: {"decisions": True}),
    "checkpoints: 10 s every half hour": Busy(lambda _: {"checkpoint_cost": 10.0}),
    TOGETHER: Busy(lambda jobs: {**_quota(jobs), **_outages(jobs), "evict": True}, _priorities),
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
        feature = SLOWER[name]
        cluster = _written(feature.servers) if feature.servers else Cluster.parse(f"{SERVERS}x8")
        jobs = ringbco.trace.jobs.from_frame(feature.jobs(made))
        options = {"policy": "fifo", **feature.options(made)}
        workload = resolve(jobs, cluster, checked(options))
        if workload.users is not None:
            _ = workload.users.numbers  # else they are worked out while the engine runs
        yield name, (workload, cluster, options)


def _written(text: str) -> Cluster:
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


def speed(given: TableInputs) -> Iterator[str]:
    """Nanoseconds a job by feature, its growth at both loads, and what is asked of them."""
    os.environ["RAYON_NUM_THREADS"] = "1"
    # As `ringbco replay` does: else memory is given back after each run, and that of many jobs alone is
    # cleared in every round.
    prepare()
    numbers = (1_000, 10_000) if given.least else (100_000, 1_000_000)
    rounds = given.draws(5)
    few, many = measured(numbers, LOAD, rounds, list(SLOWER))
    calm, busy = measured(numbers, LOWER, rounds, list(SLOWER))
    yield line("feature", "ns a job", "x fifo", "asked", "growth", f"at load {LOWER:g}", "asked")
    yield "| --- |" + " ---: |" * 6
    for name, cost in few.items():
        text, asked, growth = (
            f"{cost / few[FIFO]:.2f}",
            f"{ALL if name == TOGETHER else ALONE:g}",
            f"{GROWTH:g}",
        )
        # Who resizes jobs is another policy, and no feature of fifo.
        if name == AFS:
            asked, growth = "", ""
        elif name == FIFO:
            text, asked = "", ""
        grown = (f"{more[name] / less[name]:.2f}" for less, more in ((few, many), (calm, busy)))
        yield line(name, f"{cost * 1e9:,.0f}", text, asked, *grown, growth)
