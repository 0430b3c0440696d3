"""Tables of docs pages, of public traces: every policy, repack, elastic jobs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, median
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from page_tables import Figures, TableInputs, head, line, number, rows
from ringbco.audits import audit
from ringbco.cluster.presets import ServerGroup
from ringbco.cluster.spec import Cluster
from ringbco.result.bound import of_results
from ringbco.result.outcome import Outcome
from ringbco.run.clairvoyance import foreknowledge
from ringbco.run.options import policies as presets
from ringbco.run.replay import replay
from ringbco.sweeps.run import scaled
from ringbco.trace.elastic import parse
from ringbco.trace.jobs import JobTable, TableLike, as_table, from_frame

VENUS: Final = "helios/venus_2vc_2020-09"
# Philly's servers as the Helios authors replayed them (51b7ef is not among theirs: one server is nearly
# full); Helios' two virtual clusters with their own.
CLUSTERS: Final = {
    **{
        f"philly/{vc}": (ServerGroup(servers, 8),)
        for vc, servers in {
            "6214e9": 64, "6c71a0": 32, "0e4a51": 32, "2869ce": 16, "e13805": 16, "103959": 8, "ed69ec": 8,
            "51b7ef": 1,
        }.items()
    },
    VENUS: (ServerGroup(20, 8, "vcvGl"), ServerGroup(2, 8, "vcvlY")),
}  # fmt: skip
SPEEDS: Final = {"100 Gb/s": 12.5e9, "10 Gb/s": 1.25e9}
WORST: Final = "worst_finish_time_fairness"
ORACLE: Final = {"policy": "repack", "predict": "exact"}
EXACT: Final = "repack, exact"


def at_speeds(trace: str) -> Iterator[tuple[str, Cluster]]:
    """The cluster of a trace with the links of each speed."""
    cluster = Cluster.from_groups(CLUSTERS[trace], name=trace.rpartition("/")[2])
    yield from ((speed, cluster.with_network(inter_bandwidth=each)) for speed, each in SPEEDS.items())


def parts(cluster: Cluster, jobs: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, int]]:
    """The jobs of each virtual cluster, or all of them, and their GPUs."""
    for vc in cluster.vc_names or [None]:
        gpus = cluster.server_gpus if vc is None else cluster.server_gpus[cluster.vc_servers(vc)]
        yield jobs if vc is None else jobs.filter(vc=vc), int(gpus.sum())


# docs/results-policies.md

FIGURES: Final = {
    "mean JCT, s": "{mean_jct:,.0f}",
    "slowdown": "{mean_bounded_slowdown:,.2f}",
    "spread": "{jobs_spread:,}",
    "preemptions": "{preemptions:,}",
}
CELLS: Final = {
    f"{speed}: {name}": (speed, form)
    for speed in SPEEDS
    for name, form in FIGURES.items()
    if (speed, name) != ("10 Gb/s", "preemptions")
}


def runs() -> dict[str, dict[str, Any]]:
    """By what a row is called: the options. Who resizes gives rigid jobs nothing that srtf does not."""
    without = ("resizes", "by deadlines", "as recorded", "pairs")
    of = [policy for policy in presets() if not any(map(policy.is_, without))]
    return {policy.name: {"policy": policy.name} for policy in of} | {EXACT: ORACLE}


def policies(given: TableInputs) -> Iterator[str]:
    """A heading and a table per trace: model `rar`, continuous clock, every option at its default."""
    for trace in given.some(CLUSTERS):
        sizes = " and ".join(f"{group.count}" for group in CLUSTERS[trace])
        yield f"\n### {trace}: {sizes} server{'s' * (sizes != '1')} of 8 GPUs\n"
        jobs = given.jobs(trace)
        yield from head("policy", *CELLS)
        for name, of in runs().items():
            told = {
                speed: Figures({"preemptions": 0}, replay(jobs, cluster, oversize="drop", **of).summary)
                for speed, cluster in at_speeds(trace)
            }
            yield line(name, *(form.format_map(told[speed]) for speed, form in CELLS.values()))


class Row(NamedTuple):
    """One policy in one case, which is a trace and the speed of its links."""

    case: tuple[str, str]
    policy: str
    mean_jct: float
    spread: float
    preemptions: float | None
    """None where the page leaves them out: with slow links."""


def told_policies(text: str) -> list[Row]:
    """Every cell of every table of what `policies` makes, by trace, speed and policy."""
    told = [(trace, of) for trace, _, of in rows(text)]
    result = [
        Row(
            (trace, speed),
            of["policy"],
            number(of[f"{speed}: mean JCT, s"]),
            int(number(of[f"{speed}: spread"])),
            int(number(of[cell])) if (cell := f"{speed}: preemptions") in of else None,
        )
        for speed in SPEEDS
        for trace, of in told
    ]
    traces = list(dict.fromkeys(trace for trace, _ in told))
    return sorted(result, key=lambda row: traces.index(row.case[0]))


def to_best(told: Sequence[Row]) -> list[float]:
    """Each row's mean JCT over the least of its case."""
    best: dict[tuple[str, str], float] = {}
    for row in told:
        best[row.case] = min(row.mean_jct, best.get(row.case, row.mean_jct))
    return [row.mean_jct / best[row.case] for row in told]


def typical(told: Sequence[Row]) -> dict[str, float]:
    """Each policy's median over the cases of its mean JCT over the best of the case; the least first."""
    ratios: dict[str, list[float]] = {}
    for row, ratio in zip(told, to_best(told), strict=True):
        ratios.setdefault(row.policy, []).append(ratio)
    order = sorted(ratios, key=lambda name: (median(ratios[name]), sum(ratios[name]), name))
    return {name: median(ratios[name]) for name in order}


def policies_picture(text: str) -> bytes:
    """How far each policy's mean JCT is from the best of its case, as PNG."""
    import altair as alt

    told = told_policies(text)
    data = [
        {
            "policy": row.policy, "trace": row.case[0].split("/")[1].split("_")[0], "speed": row.case[1],
            "ratio": ratio, "shown": f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:,.0f}",
        }
        for row, ratio in zip(told, to_best(told), strict=True)
    ]  # fmt: skip
    base = alt.Chart(pl.DataFrame(data)).encode(
        x=alt.X("trace:N", sort=None, title=None, axis=alt.Axis(labelAngle=-35)),
        y=alt.Y("policy:N", sort=list(typical(told)), title=None),
    )
    legend = alt.Legend(orient="bottom", format=",.3~g")
    colour = alt.Color("ratio:Q", title="times the best", legend=legend)
    colour = colour.scale(type="log", scheme="oranges", domain=[1, 100], clamp=True)
    dark = alt.condition("datum.ratio > 20", alt.value("white"), alt.value("#222"))
    cells = base.mark_rect().encode(color=colour)
    cells += base.mark_text(fontSize=11).encode(text="shown:N", color=dark)
    speed = alt.Column("speed:N", sort=list(SPEEDS), title=None, header=alt.Header(labelFontSize=14))
    chart = cells.properties(width=430, height=330).facet(column=speed)
    return drawn(chart.properties(title="Mean JCT over the best mean JCT of the case, by trace"))


def drawn(chart: Any) -> bytes:
    """A chart of a page as PNG."""
    from ringbco.reports.charts import png

    font = "Liberation Sans, Helvetica, sans-serif"
    return png(chart.configure(background="white", padding=12, font=font), scale=1.6)


# docs/repack.md

SEEDS: Final = 5
LOADS: Final = {f"elasticflow/cluster{number}": (0.5, 0.9) for number in ("01", "02", "05", "06", "10")}
"""Offered loads of the traces whose clusters have no published sizes; without 03, which takes long."""
VENUS_SERVERS: Final = ("18", "22", "26", "20 + 2")


class Case(NamedTuple):
    """A trace on servers of 8 GPUs. servers: several numbers are of as many virtual clusters."""

    trace: str
    servers: str

    def jobs(self, given: TableInputs) -> JobTable:
        """The job table; on one cluster, without the names of virtual ones."""
        jobs = given.jobs(self.trace)
        return jobs if "+" in self.servers else from_frame(jobs.frame.drop("vc", strict=False))

    @property
    def cluster(self) -> Cluster:
        own = "+" in self.servers
        return Cluster.from_groups(CLUSTERS[self.trace]) if own else Cluster.parse(f"{self.servers}x8")


def cases(given: TableInputs) -> Iterator[Case]:
    """Philly's clusters with three quarters of their servers, where jobs wait, Venus on one cluster of
    several sizes and on its two, and elasticflow at two offered loads."""
    for trace, groups in CLUSTERS.items():
        servers = groups[0].count
        if trace == VENUS:
            yield from (Case(trace, each) for each in VENUS_SERVERS)
        else:
            yield Case(trace, f"{servers * 3 // 4 or 1}")
    for trace, loads in LOADS.items():
        frame = given.jobs(trace).frame
        span = frame["submit_time"].max() - frame["submit_time"].min()  # type: ignore[operator]
        work = (frame["num_gpus"] * frame["duration"]).sum()
        yield from (Case(trace, f"{math.ceil(work / span / load / 8)}") for load in loads)


def run(case: Case, jobs: JobTable, seed: int, **options: Any) -> Outcome:
    """One replay; jobs that ask for more GPUs than there are are left out."""
    return replay(jobs, case.cluster, seed=seed, allocations=False, oversize="drop", **options)


def peak(outcome: Outcome, cluster: Cluster) -> float:
    """The greatest demand at any instant: GPUs that the jobs ask for that wait or run, over all GPUs of their
    (virtual) cluster."""
    result = 0.0
    for own, gpus in parts(cluster, outcome.jobs):
        times = np.concatenate([own["submit_time"].to_numpy(), own["finish_time"].to_numpy()])
        asked = own["num_gpus"].to_numpy().astype(np.float64)
        changes = np.concatenate([asked, -asked])
        order = np.lexsort((changes, times))
        result = max(result, float(np.cumsum(changes[order]).max() / gpus))
    return result


def repack(given: TableInputs) -> Iterator[str]:
    """Philly's largest virtual cluster: means over the seeds, with the least and the greatest value."""
    yield from repack_of(given.jobs("philly/6214e9"), "64x8", given.draws(SEEDS))


def repack_of(jobs: TableLike, cluster: str, seeds: int) -> Iterator[str]:
    """The lines of that table."""
    yield f"Each cell is a mean over {seeds} seeds (0 to {seeds - 1}), then the least and the greatest.\n"
    yield from head("policy", "knows run times", "mean JCT, s", "worst slowdown", words=2)
    exact: list[Outcome] = []
    for label, of in {
        "repack --predict exact": ORACLE, **{name: {"policy": name} for name in ("repack", "srtf", "gittins")}
    }.items():  # fmt: skip
        outcomes = [replay(jobs, cluster, seed=seed, allocations=False, **of) for seed in range(seeds)]
        exact = exact or outcomes
        knows = "yes" if foreknowledge(outcomes[0].run) else "no"
        means = (_ends([outcome.summary[key] for outcome in outcomes]) for key in ("mean_jct", WORST))
        yield line(f"`{label}`", knows, *means)
    least = of_results({str(seed): outcome for seed, outcome in enumerate(exact)})
    yield line("any schedule at all, at least", "", _ends([one for one in least.values() if one]), "")


def _ends(values: Sequence[float]) -> str:
    mean, least, greatest = (
        f"{value:,.{0 if value >= 100 else 1}f}" for value in (fmean(values), min(values), max(values))
    )
    return f"{mean} ({least} to {greatest})"


# docs/elastic.md

WHOLE, CALM, WINDOW, DEADLINES = "whole traces", "without noise scales", "windows", "deadlines"
AT: Final = (0.5, 0.9, 1.2)
"""Offered loads."""
JCT, TAIL = "mean JCT, s", "p99 JCT, s"
METRICS: Final = {
    JCT: "{mean_jct:,.0f}",
    TAIL: "{p99_jct:,.0f}",
    "lost GPU-hours": "{lost_gpu_seconds:h ,.0f}",
}
DUE_METRICS: Final = {"deadlines met": "{met:% .1f}", "refused": "{refused:,}", "late": "{late:,}"}
ALL: Final = ("srtf", "repack", EXACT, "optimus", "elastic-srtf", "afs")
ELASTIC: Final = {
    EXACT: ORACLE,
    "sia": {"policy": "sia", "parameters": {"round": 300.0}},
    "edf, --admission": {"policy": "edf", "admission": True},
}
"""Options, where they are more than the name of the policy."""


class Trace(NamedTuple):
    """servers: of 8 GPUs. window: jobs before it, and jobs in it. source: whence the number of servers is."""

    file: str
    servers: int
    window: tuple[int, int]
    source: str = ""


REPLAYED: Final = "as in the Helios authors' replay"
TRACES: Final = {
    "philly/103959": Trace("philly/103959", 8, (600, 400), REPLAYED),
    "philly/2869ce": Trace("philly/2869ce", 16, (400, 400), REPLAYED),
    "elasticflow/cluster06": Trace("elasticflow/cluster06", 16, (800, 400), "our choice: not published"),
}
FEW: Final = {
    "elasticflow/cluster06, 195 jobs": Trace("elasticflow/cluster06", 16, (800, 195)),
    "elasticflow/cluster03, 195 jobs": Trace("elasticflow/cluster03", 16, (2100, 195)),
}
"""As many jobs with deadlines as the paper of elasticflow has, in a window each."""
DUE: Final = ("elasticflow/cluster06", *FEW)
"""Where jobs get deadlines."""
ELASTIC_TABLES: Final[dict[str, tuple[Sequence[str], Iterable[str], dict[str, str]]]] = {
    WHOLE: (ALL, TRACES, METRICS),
    CALM: (("afs",), TRACES, {JCT: METRICS[JCT]}),
    WINDOW: ((*ALL, "sia"), TRACES, {name: METRICS[name] for name in (JCT, TAIL)}),
    DEADLINES: (("edf", "edf, --admission", "elasticflow"), DUE, DUE_METRICS),
}
"""By mark: policies, traces and columns."""


def recorded(given: TableInputs, trace: Trace) -> pl.DataFrame:
    """The jobs of a trace in order of submission."""
    names = {"submission_time": "submit_time", "num_gpu": "num_gpus"}
    frame = pl.read_csv(given.traces / f"{trace.file}.csv").rename(names, strict=False)
    return frame.sort("submit_time", maintain_order=True)


def described(given: TableInputs) -> Iterator[str]:
    """The table of the traces."""
    yield "| trace | jobs | GPUs of a job, median and most | work, GPU-hours | cluster | window |"
    yield "| --- | ---: | ---: | ---: | --- | --- |"
    for name, trace in TRACES.items():
        frame = recorded(given, trace)
        gpus, (before, jobs) = frame["num_gpus"], trace.window
        part = frame.slice(before, jobs)
        span = (part["num_gpus"] * part["duration"]).sum() / (8 * trace.servers)
        yield line(
            name, f"{frame.height:,}", f"{gpus.median():.0f}, {gpus.max()}",
            f"{(gpus * frame['duration']).sum() / 3600:,.0f}",
            f"{trace.servers} servers of 8 GPUs, {trace.source}",
            f"{jobs} jobs after the first {before}; longest job {part['duration'].max() / span:.2f}",
        )  # fmt: skip


def elastic_run(given: TableInputs, name: str, part: str, policy: str, load: float) -> list[str]:
    """The cells of a replay of jobs of which each may hold from half to twice its GPUs. Raises RuntimeError
    where the audit objects."""
    known = TRACES.get(name) or FEW[name]
    frame = recorded(given, known)
    if part == WINDOW or name in FEW:
        frame = frame.slice(*known.window)
    if part == DEADLINES:
        times = pl.Series(np.random.default_rng(0).uniform(0.5, 1.5, frame.height))
        frame = frame.with_columns(deadline=pl.col("submit_time") + times * pl.col("duration"))
    frame, _ = parse("0.5:2", share=1.0).apply(frame)
    if part == CALM:
        frame = frame.drop("noise_scale")
    jobs = scaled(as_table(frame), load, known.servers * 8)
    outcome = replay(jobs, f"{known.servers}x8", **ELASTIC.get(policy, {"policy": policy}))
    if report := audit(outcome, jobs):
        raise RuntimeError(f"{name}, {part}, {policy}, {load}: {report[0]}")
    record = Figures({"lost_gpu_seconds": 0.0}, outcome.summary)
    if part == DEADLINES:
        due, late = record["deadlines"], record["deadlines_missed"]
        record = Figures(met=(due - late) / frame.height, refused=frame.height - due, late=late)
    return [form.format_map(record) for form in ELASTIC_TABLES[part][2].values()]


def elastic(given: TableInputs, part: str) -> Iterator[str]:
    """Figures of each policy on each trace at each load."""
    policies, traces, metrics = ELASTIC_TABLES[part]
    traces = given.some(traces, slice(1))
    todo = list(itertools.product(traces, [part], policies, AT))
    # The slowest first.
    todo.sort(key=lambda each: (each[2] == "sia", each[3]), reverse=True)
    result = dict(
        zip(todo, given.map(elastic_run, [given] * len(todo), *zip(*todo, strict=True)), strict=True)
    )
    columns = (f"{name}, {load:.0%}".replace("%", " %") for name in metrics for load in AT)
    yield from head("trace", "policy", *columns, words=2)
    for trace, policy in itertools.product(traces, policies):
        by_load = [result[trace, part, policy, load] for load in AT]
        yield line(trace, policy, *itertools.chain(*zip(*by_load, strict=True)))


def told_elastic(text: str) -> dict[tuple[str, str, str, int], float]:
    """Every figure of what `elastic` makes of a part: by trace, policy, metric and load in per cent."""
    return {
        (cells["trace"], cells["policy"], of[1], int(of[2])): number(cell)
        for *_, cells in rows(text)
        for name, cell in cells.items()
        if (of := re.fullmatch(r"(.+), (\d+) %", name))
    }


def elastic_picture(text: str) -> bytes:
    """Mean JCT over srtf's by load, a panel a trace, as PNG."""
    import altair as alt

    result = {of: value for of, value in told_elastic(text).items() if of[2] == JCT}
    data = [
        {"policy": policy, "trace": trace, "load": load, "ratio": value / result[trace, "srtf", metric, load]}
        for (trace, policy, metric, load), value in result.items()
    ]
    legend, order = (
        alt.Legend(title=None, orient="bottom"),
        list(dict.fromkeys(row["policy"] for row in data)),
    )
    lines = (
        alt.Chart(pl.DataFrame(data))
        .mark_line(point=True)
        .encode(
            x=alt.X("load:Q", title="offered load, %").scale(domain=[45, 125]).axis(values=[50, 90, 120]),
            y=alt.Y("ratio:Q", title="mean JCT / srtf's").scale(type="log", nice=False),
            color=alt.Color("policy:N", sort=order, legend=legend),
        )
        .properties(width=230, height=240)
    )
    return drawn(lines.facet(column=alt.Column("trace:N", sort=list(TRACES), title=None)))
