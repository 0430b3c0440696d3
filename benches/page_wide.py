"""The tables of docs/repack.md that hold repack against the wide set of rivals, and their picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

import page_published
import page_traces
from page_tables import TableInputs, head, line, number, rows
from page_traces import VENUS, WORST, peak
from ringbco.cluster.spec import Cluster
from ringbco.result.outcome import Outcome
from ringbco.run.replay import replay
from ringbco.trace.jobs import TableLike, as_table, from_frame
from ringbco.trace.synthetic import generate

ONE_QUEUE: Final = {"thresholds": [1e15]}
FOUR: Final = {"thresholds": [3600.0, 18_000.0, 72_000.0, 288_000.0]}
RIVALS: Final[dict[str, dict[str, Any]]] = {
    **{
        f"{policy}, {queue}": {"policy": policy, "queue": queue}
        for policy in ("fifo", "smallest", "qssf")
        for queue in ("strict", "skip")
    },
    "sjf-bco": {"policy": "sjf-bco"},
    **{
        f"tiresias{name}": {"policy": "tiresias", **of}
        for name, of in {
            "": {},
            ", 3600": {"thresholds": [3600.0]},
            ", 3250,7200": {"thresholds": [3250.0, 7200.0]},
            ", four thresholds": FOUR,
            ", list": {"within": "list"},
            ", interval 10": {"interval": 10.0},
        }.items()
    },
    **{
        f"gittins{name}": {"policy": "gittins", **of}
        for name, of in {
            "": {},
            ", interval 5": {"interval": 5.0},
            ", list": {"within": "list"},
            ", one queue": ONE_QUEUE,
            ", one queue, interval 5": {**ONE_QUEUE, "interval": 5.0},
        }.items()
    },
    "time-slice 600": {"policy": "time-slice", "quantum": 600.0},
}
"""Policies that are not told run times, each as its users would set it."""
BOUND: Final = 10.0
"""Seconds: a shorter run time counts as that in a bounded slowdown."""
NOISE: Final = 0.01
"""The standard deviation of the noise on run times, as a share of them."""


def rivals(cost: float) -> dict[str, dict[str, Any]]:
    """Those that a preempt cost leaves any progress."""
    return {name: of for name, of in RIVALS.items() if of.get("quantum", 1e9) > cost}


COSTS: Final = (30.0, 600.0, 1800.0)
DRAWS: Final = {"testbed": 16, "": 2}


class Case(NamedTuple):
    """Jobs on a cluster. options: what else their replay takes."""

    name: str
    jobs: TableLike
    cluster: Cluster | str
    options: dict[str, Any]

    def drawn(self, draw: int) -> TableLike:
        """The jobs with noise on their run times; draw 0 is without."""
        if draw == 0:
            return self.jobs
        frame = as_table(self.jobs).frame
        column = "iterations" if "tables" in self.options else "duration"
        factors = np.exp(np.random.default_rng(draw).normal(0.0, NOISE, frame.height))
        values = pl.col(column) * pl.Series(factors)
        return frame.with_columns(values.round().clip(1) if column == "iterations" else values)


class Run(NamedTuple):
    """What is told of a run. bounded: the worst bounded slowdown."""

    mean: float
    p99: float
    bounded: float
    worst: float
    preemptions: int
    demand: float


def testbeds(given: TableInputs) -> Iterator[Case]:
    """The clusters of Muri and of Shockwave, of which there are logs."""
    (muri,) = page_published.muri(given, "SRTF")
    yield Case("Muri's testbed, 8", from_frame(muri.jobs), Cluster.parse("8x8"), {})
    (shockwave,) = page_published.shockwave(given, "allox")
    options = dict(shockwave.options)
    cluster = options.pop("cluster")
    yield Case("Shockwave's testbed, 8 of 4", shockwave.jobs, cluster, {"model": "table", **options})


def public(given: TableInputs) -> Iterator[Case]:
    """Public traces."""
    for case in page_traces.cases(given):
        yield Case(f"{case.trace}, {case.servers}", case.jobs(given), case.cluster, {})


def similar(seed: int, jobs: int = 400) -> pl.DataFrame:
    """Jobs whose run times are within a factor of four of each other."""
    random = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(jobs)],
            "submit_time": np.floor(np.cumsum(random.exponential(520.0, jobs))),
            "num_gpus": random.choice([1, 2, 4, 8, 16], jobs, p=[0.5, 0.15, 0.15, 0.15, 0.05]),
            "duration": np.floor(np.exp(random.uniform(np.log(1800.0), np.log(7200.0), jobs))),
        }
    )


class Shape(NamedTuple):
    """A generated table. gpus: those of which a tenth is the largest job; a cluster has `servers` of 8."""

    preset: str
    servers: int
    load: float
    gpus: int

    def made(self, seed: int, jobs: int) -> Case:
        """The case."""
        load = self.load * 8 * self.servers / self.gpus
        frame = as_table(generate(self.preset, jobs, seed=seed, gpus=self.gpus, load=load)).frame.drop("vc")
        frame = frame.filter(pl.col("num_gpus") <= 8 * self.servers)
        largest = frame["num_gpus"].max()
        name = f"{self.preset}, {self.servers} servers, load {self.load:g}, jobs up to {largest} GPUs"
        return Case(name, from_frame(frame), Cluster.parse(f"{self.servers}x8"), {})


SHAPES: Final = (Shape("philly", 8, 0.9, 320), Shape("philly", 32, 0.7, 320), Shape("philly", 32, 1.1, 320),
                 Shape("helios", 4, 0.9, 160), Shape("helios", 8, 1.2, 160), Shape("helios", 16, 0.9, 640),
                 Shape("helios", 20, 1.1, 1280), Shape("helios", 32, 0.7, 1280))  # fmt: skip


def generated(seed: int = 1, jobs: int = 3000) -> Iterator[Case]:
    """Generated tables: those on which the policy's constants were chosen."""
    yield from (shape.made(seed, jobs) for shape in SHAPES)
    yield Case("400 jobs of similar length", from_frame(similar(seed)), Cluster.parse("4x8"), {})


def run(case: Case, jobs: TableLike, cost: float, of: dict[str, Any]) -> Run:
    """One replay; jobs that ask for more GPUs than there are are left out."""
    given = {"preempt_cost": cost} if of["policy"] not in _NEVER else {}
    told = replay(jobs, case.cluster, oversize="drop", allocations=False, **case.options, **given, **of)
    return Run(
        told.summary["mean_jct"], told.summary["p99_jct"], worst_bounded(told), told.summary[WORST],
        told.summary.get("preemptions", 0), peak(told, case.cluster),
    )  # fmt: skip


_NEVER: Final = ("fifo", "smallest", "qssf", "sjf-bco")
"""Policies that stop no job."""


def worst_bounded(told: Outcome) -> float:
    """The worst bounded slowdown: completion time over the run time, which counts as BOUND at least."""
    jobs = told.jobs.select(pl.col("jct") / pl.max_horizontal("ideal_run_time", pl.lit(BOUND)))
    return max(1.0, float(jobs.to_series().max()))  # type: ignore[arg-type] # there are some


class Compared(NamedTuple):
    """repack beside the best rival, by mean JCT, of a draw."""

    best: str
    rival: Run
    repack: Run

    @property
    def mean(self) -> float:
        return self.repack.mean / self.rival.mean

    @property
    def promised(self) -> float:
        """What the worst bounded slowdown is held against."""
        return max(25.0, 7.0 * self.repack.demand)


def best(case: Case, jobs: TableLike, cost: float) -> tuple[str, Run]:
    """The rival with the least mean JCT."""
    others = {name: run(case, jobs, cost, rival) for name, rival in rivals(cost).items()}
    return min(others.items(), key=lambda other: other[1].mean)


def compared(case: Case, draw: int, cost: float) -> Compared:
    """One draw."""
    jobs = case.drawn(draw)
    return Compared(*best(case, jobs, cost), run(case, jobs, cost, {"policy": "repack"}))


def ends(values: Sequence[float], form: str) -> str:
    """The least and the greatest value where they differ."""
    return " to ".join(dict.fromkeys(form.format(end(values)) for end in (min, max)))


def draws(given: TableInputs, case: Case) -> range:
    """Those of a case."""
    count = next(count for word, count in DRAWS.items() if word in case.name)
    return range(given.draws(count))


def wide(given: TableInputs) -> Iterator[str]:
    """Each case at the default cost: repack beside the best of the wide set."""
    yield "Least to greatest over the draws.\n"
    names = ("best of the wide set", "its mean JCT, s", "repack / best", "p99 JCT, repack / best")
    names += ("worst bounded slowdown", "promised", "preemptions", "the best's")
    yield from head("trace, servers", *names)
    ratios = []
    for case in given.some((*testbeds(given), *public(given)), slice(1, 2)):
        told = [compared(case, draw, COSTS[0]) for draw in draws(given, case)]
        ratios.append(max(each.mean for each in told))
        yield line(
            case.name,
            " or ".join(dict.fromkeys(each.best for each in told)),
            ends([each.rival.mean for each in told], "{:,.0f}"),
            ends([each.mean for each in told], "{:.3f}"),
            ends([each.repack.p99 / each.rival.p99 for each in told], "{:.2f}"),
            ends([each.repack.bounded for each in told], "{:.0f}"),
            ends([each.promised for each in told], "{:.0f}"),
            ends([each.repack.preemptions for each in told], "{:,}"),
            ends([each.rival.preemptions for each in told], "{:,}"),
        )
    yield line("geometric mean of the greatest", "", "", f"{geometric_mean(ratios):.3f}", *[""] * 5)


def costs(given: TableInputs) -> Iterator[str]:
    """The same at higher costs of a preemption, from one draw."""
    names = [
        f"{what}, {cost:,.0f} s"
        for cost in COSTS[1:]
        for what in ("best", "repack / best", "preemptions", "the best's")
    ]
    yield from head("trace, servers", *names)
    ratios: dict[float, list[float]] = {cost: [] for cost in COSTS[1:]}
    for case in given.some((*testbeds(given), *public(given)), slice(1, 2)):
        cells = []
        for cost in COSTS[1:]:
            told = compared(case, 0, cost)
            ratios[cost].append(told.mean)
            cells += [
                told.best,
                f"{told.mean:.3f}",
                f"{told.repack.preemptions:,}",
                f"{told.rival.preemptions:,}",
            ]
        yield line(case.name, *cells)
    if not given.least:  # of a part it is another
        means = (["", f"{geometric_mean(own):.3f}", "", ""] for own in ratios.values())
        yield line("geometric mean", *(cell for own in means for cell in own))


TAILS: Final = (1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.0)
GENERATED, KEPT = "generated tables", "testbeds and Venus"


def tails(given: TableInputs) -> Iterator[str]:
    """What `--tail` trades: means against worst bounded slowdowns."""
    venus = (case for case in public(given) if case.name.startswith(VENUS))
    groups = {GENERATED: list(generated()), KEPT: [*testbeds(given), *venus]}
    given.drawn_less |= given.least  # each row is a mean, of a part another one
    names = ("repack / best, geometric mean", "greatest", "worst bounded slowdown / promised")
    yield from head("--tail", *(f"{group}: {name}" for group in groups for name in names))
    rival = {
        case.name: best(case, case.jobs, COSTS[0]) for own in groups.values() for case in given.some(own)
    }
    for tail in given.some(TAILS):
        cells = list[str]()
        for own in groups.values():
            told = [
                Compared(
                    *rival[case.name], run(case, case.jobs, COSTS[0], {"policy": "repack", "tail": tail})
                )
                for case in given.some(own)
            ]
            ratios = [each.mean for each in told]
            kept = max(each.repack.bounded / each.promised for each in told)
            cells += [f"{geometric_mean(ratios):.3f}", f"{max(ratios):.3f}", f"{kept:.2f}"]
        yield line(f"{tail:g}", *cells)


def tails_picture(text: str) -> bytes:
    """The mean against the worst bounded slowdown, a point a tail, as SVG."""
    import altair as alt

    from ringbco.reports.charts import document
    from ringbco.reports.drawing import draw

    data = [
        {
            "tail": f"{number(cells['--tail']):g}", "group": group,
            "mean": number(cells[f"{group}: repack / best, geometric mean"]),
            "worst": number(cells[f"{group}: worst bounded slowdown / promised"]),
        }
        for *_, cells in rows(text) for group in (GENERATED, KEPT)
    ]  # fmt: skip
    base = alt.Chart(pl.DataFrame(data)).encode(
        x=alt.X("mean:Q", title="mean JCT over the best of the wide set, geometric mean").scale(zero=False),
        y=alt.Y("worst:Q", title="worst bounded slowdown over the promised one").scale(type="log"),
        color=alt.Color("group:N", title=None, legend=alt.Legend(orient="bottom")),
    )
    chart = base.mark_line(point=True).encode(order="tail:Q")
    chart += base.mark_text(align="left", dx=7, fontSize=11).encode(text="tail:N")
    font = "Liberation Sans, Helvetica, sans-serif"
    whole = chart.properties(width=560, height=320, title="What --tail trades")
    return draw("svg", document(whole.configure(background="white", padding=12, font=font)))
