"""The numbers behind every chart of a report, each against a plain count of the result's tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from frames import busy_jobs
from ringbco import replay
from ringbco.reports import data_time
from ringbco.reports.data_jobs import means
from ringbco.reports.figures import chapters
from ringbco.reports.series import Figure
from ringbco.result.certainty import Runs
from ringbco.result.comparison import Comparison
from ringbco.result.outcome import Outcome
from test_report import rows_of

DASH = "\N{EN DASH}"
# What the charts call things, spelt out here: a label beside the wrong column must not pass.
PARTS = {
    "waiting its turn": "wait_behind",
    "waiting for GPUs": "wait_gpus",
    "waiting, fragmented": "wait_fragmented",
    "running alone": "ideal_run_time",
    "spread": "run_spread",
    "contention": "run_contention",
}
CAUSES = {text: column for text, column in PARTS.items() if column.startswith("wait_")}
SIZES = {"1 GPU": (1, 1), f"2{DASH}4 GPUs": (2, 4), f"5{DASH}8 GPUs": (5, 8)}
DRAWN = {
    # figure: fields along the axes
    "mean": ("bound", "policy"),
    "time": ("seconds", "policy"),
    "who-sizes": ("lost", "size"),
    "who-owners": ("lost", "group"),
    "jct": ("seconds", "share"),
    "wait": ("seconds", "share"),
    "sizes": ("low", "size"),
    "groups": ("low", "group"),
    "waits": ("waited", "size"),
    "causes": ("wait", "size"),
    "utilisation": ("day", "value"),
    "queue": ("day", "value"),
    "contention": ("day", "value"),
    "servers": ("day", "row"),
}


def of_vcs(rows: int) -> pl.DataFrame:
    return busy_jobs(rows).with_columns(
        vc=pl.Series([("a", "b", "b")[row % 3] for row in range(rows)]),
        num_gpus=pl.col("num_gpus").clip(upper_bound=8),
    )


@pytest.fixture(scope="module")
def results() -> dict[str, Outcome]:
    """Jobs that wait for each of the causes, span, contend and are preempted, of three users."""
    jobs = busy_jobs(150)
    return {policy: replay(jobs, "4x4", policy=policy) for policy in ("fifo", "rand", "srtf")}


@pytest.fixture(scope="module")
def figures(results: dict[str, Outcome]) -> dict[str, Figure]:
    return by_name(results)


def named(size: str, outcome: Outcome) -> str:
    """What the charts call a class of sizes, with its jobs."""
    count = outcome.jobs.filter(pl.col("num_gpus").is_between(*SIZES[size])).height
    return f"{size} ({count} jobs)"


def by_name(results: dict[str, Outcome]) -> dict[str, Figure]:
    return {figure.name: figure for chapter in chapters(results) for figure in chapter.figures}


def close(value: float) -> Any:
    """As near as five digits are."""
    return pytest.approx(value, rel=1e-4, abs=1e-9)


def encoding_of(figure: Figure) -> dict[str, Any]:
    document = figure.chart.to_dict()
    encoding: dict[str, Any] = document.get("layer", [document])[0]["encoding"]
    return encoding


@pytest.mark.long
def test_every_chart_draws_the_fields_that_are_looked_at_here(figures: dict[str, Figure]) -> None:
    for name, figure in figures.items():
        encoding = encoding_of(figure)
        assert (encoding["x"]["field"], encoding["y"]["field"]) == DRAWN[name.rstrip("-0123456789")], name
    assert {name.rstrip("-0123456789") for name in figures} == set(DRAWN)


def test_where_the_time_goes(results: dict[str, Outcome], figures: dict[str, Figure]) -> None:
    data = rows_of(figures["time"])
    for label, outcome in results.items():
        jobs = outcome.jobs
        wanted = {part: jobs[column].cast(pl.Float64).mean() for part, column in PARTS.items()}
        if label == "srtf":
            wanted["pausing, saving"] = jobs["lost_time"].mean()
        shown = dict(data.filter(policy=label).select("part", "seconds").iter_rows())
        assert shown == {part: close(seconds) for part, seconds in wanted.items() if seconds > 1e-6}
    assert data.filter(pl.col("seconds") > 3)["part"].n_unique() >= 7
    # What is no waste is first, in grey.
    first = data.sort("place")["part"][0]
    assert first == "running alone"


def test_the_means_and_what_no_schedule_is_below(
    results: dict[str, Outcome], figures: dict[str, Figure]
) -> None:
    data = rows_of(figures["mean"])
    order = sorted(results, key=lambda label: results[label].summary["mean_jct"])
    assert data["policy"].to_list() == order
    bounds = Comparison(results).bounds
    for label, mean, bound in data.select("policy", "mean_jct", "bound").iter_rows():
        assert mean == results[label].summary["mean_jct"]
        assert bound == bounds[label]
        assert bound is None or bound <= mean


def test_a_figure_over_runs_is_called_what_it_is(results: dict[str, Outcome]) -> None:
    """Of moved runs that of run 0, of fresh tables the median: no mean over the runs."""
    summaries = {
        label: [{**one.summary, "mean_jct": one.summary["mean_jct"] + add} for add in (0, 1, 2, 3, 4, 60)]
        for label, one in results.items()
    }
    said = {
        "moved": (0.0, "Dot: run 0, the jobs as they are. Line: range over 6 runs."),
        "fresh tables": (2.5, "Dot: median of 6 tables. Line: its 95 % interval."),
    }
    for kind, (beyond, note) in said.items():
        comparison = Comparison(results, summaries, variation=Runs(kind))  # type: ignore[arg-type]
        (part,) = means(comparison)
        assert part.data is not None
        assert "mean" not in part.data.columns
        assert part.note.strip().startswith(note)
        assert dict(part.data.select("policy", "mean_jct").iter_rows()) == pytest.approx(
            {label: one.summary["mean_jct"] + beyond for label, one in results.items()}
        )


def lost(jobs: pl.DataFrame) -> float:
    return float(np.maximum(jobs["jct"] - jobs["ideal_run_time"], 0.0).mean())


def test_who_pays(results: dict[str, Outcome], figures: dict[str, Figure]) -> None:
    sizes, owners = rows_of(figures["who-sizes"]), rows_of(figures["who-owners"])
    for label, outcome in results.items():
        shown = dict(sizes.filter(policy=label).select("size", "lost").iter_rows())
        assert shown == {
            named(size, outcome): close(
                lost(outcome.jobs.filter(pl.col("num_gpus").is_between(*SIZES[size])))
            )
            for size in SIZES
        }
        for group, seconds in owners.filter(policy=label).select("group", "lost").iter_rows():
            user, count = group.removesuffix(" jobs)").split(" (")
            own = outcome.jobs.filter(pl.col("user") == user)
            assert own.height == int(count)
            assert seconds == close(lost(own))
    jobs = pl.concat(outcome.jobs.select("user", "jct", "ideal_run_time") for outcome in results.values())
    users = {user: jobs.filter(pl.col("user") == user) for user in jobs["user"].unique()}
    all_lost = {user: lost(own) * own.height for user, own in users.items()}
    entries = [group.split(" (")[0] for group in owners["group"].unique(maintain_order=True)]
    assert entries == sorted(all_lost, key=lambda user: -all_lost[user])


@pytest.mark.parametrize(("name", "column"), [("jct", "jct"), ("wait", "waited")])
def test_shares_of_jobs_within_a_time(
    results: dict[str, Outcome], figures: dict[str, Figure], name: str, column: str
) -> None:
    data = rows_of(figures[name])
    axis = encoding_of(figures[name])["x"]["axis"]
    for label, outcome in results.items():
        exact = outcome.jobs[column].to_numpy()
        values = np.maximum(exact, 1.0)
        shown = data.filter(policy=label)
        zeros = float((exact <= 0).mean())
        for number, (value, share) in enumerate(shown.select("seconds", "share").iter_rows()):
            if zeros and number == 0:  # those that never waited have a place of their own
                assert share == close(zeros)
                assert value == axis["values"][0] < 1
                assert f"{axis['values'][0]!r} ? 'at once'" in axis["labelExpr"]
                continue
            assert (
                (values < value * 0.9999).mean() - 1e-4 <= share <= (values <= value * 1.0001).mean() + 1e-4
            )
        assert shown["share"].max() == 1.0
        assert shown["seconds"].max() == close(values.max())
        assert shown["seconds"].n_unique() >= min(len(set(values.round(-1))), 20)
    assert ("at once" in axis["labelExpr"]) == (name == "wait")


def check_ranges(data: pl.DataFrame, label: str, group: str, values: np.ndarray) -> None:
    (row,) = data.filter(policy=label).filter(pl.nth(data.columns.index("policy") + 1) == group).to_dicts()
    assert row["jobs"] == values.size
    wanted = [close(value) for value in np.percentile(values, (10, 50, 90))]
    assert [row["low"], row["median"], row["high"]] == wanted


def test_completion_by_size(results: dict[str, Outcome], figures: dict[str, Figure]) -> None:
    data = rows_of(figures["sizes"])
    assert set(data["size"]) == {named(size, results["fifo"]) for size in SIZES}
    assert data.height == len(SIZES) * len(results)
    for label, outcome in results.items():
        for size, (least, most) in SIZES.items():
            values = outcome.jobs.filter(pl.col("num_gpus").is_between(least, most))["jct"].to_numpy()
            check_ranges(data, label, named(size, outcome), values)


@pytest.mark.parametrize("by", ["user", "vc"])
def test_slowdown_by_group(results: dict[str, Outcome], figures: dict[str, Figure], by: str) -> None:
    if by == "vc":
        results = {policy: replay(of_vcs(90), "4x4", policy=policy) for policy in ("fifo", "sjf")}
        figures = by_name(results)
    data = rows_of(figures["groups"])
    what = {"user": "user", "vc": "virtual cluster"}[by]
    assert figures["groups"].title == f"Slowdown by {what}"
    for label, outcome in results.items():
        groups = outcome.jobs[by].unique()
        assert set(data["group"]) == set(groups)
        for group in groups:
            values = outcome.jobs.filter(pl.col(by) == group)["slowdown"].to_numpy()
            check_ranges(data, label, group, values)


def test_waits_by_cause(results: dict[str, Outcome], figures: dict[str, Figure]) -> None:
    for number, (label, outcome) in enumerate(Comparison(results).best_first.outcomes.items(), start=1):
        figure = figures[f"causes-{number}"]
        assert figure.of == label
        assert set(encoding_of(figure)["color"]["scale"]["domain"]) == set(CAUSES)
        data = rows_of(figure)
        shown = {(row["size"], row["cause"]): row for row in data.to_dicts()}
        assert set(shown) == {(named(size, outcome), cause) for size in SIZES for cause in CAUSES}
        for size, ends in SIZES.items():
            jobs = outcome.jobs.filter(pl.col("num_gpus").is_between(*ends))
            for cause, column in CAUSES.items():
                row = shown[named(size, outcome), cause]
                assert row["wait"] == close(jobs[column].cast(pl.Float64).mean())
                assert row["jobs"] == jobs.height
    for column in CAUSES.values():
        assert max(outcome.jobs[column].max() for outcome in results.values()) > 100, "nothing to confuse"


def test_waits_by_size(results: dict[str, Outcome], figures: dict[str, Figure]) -> None:
    data = rows_of(figures["waits"])
    assert data.height == len(SIZES) * len(results)
    for label, outcome in results.items():
        shown = dict(data.filter(policy=label).select("size", "waited").iter_rows())
        for size, ends in SIZES.items():
            jobs = outcome.jobs.filter(pl.col("num_gpus").is_between(*ends))
            assert shown[named(size, outcome)] == close(jobs["waited"].mean())


def last_demand(results: dict[str, Outcome]) -> float:
    """When, under every result, all jobs are submitted and none waits: seconds of the job table."""
    queued = [
        time
        for outcome in results.values()
        for time, waiting in outcome.timeline.select("time", "queued_jobs").iter_rows()
        if waiting
    ]
    return max(*queued, *(outcome.jobs["submit_time"].max() for outcome in results.values()))


@pytest.mark.parametrize(
    ("name", "column", "scale", "title"),
    [
        ("utilisation", "busy_gpus", 16, "GPUs held"),
        ("queue", "queued_gpus", 1, "GPUs requested"),
        ("contention", "mean_contention", 1, "mean contention"),
    ],
)
def test_the_cluster_over_time(
    results: dict[str, Outcome], figures: dict[str, Figure], name: str, column: str, scale: int, title: str
) -> None:
    data = rows_of(figures[name])
    assert encoding_of(figures[name])["y"]["title"] == title
    assert data["value"].max() > 0.5
    end = last_demand(results)
    for label, outcome in results.items():
        start = outcome.timeline["time"][0]
        step = (end - start) / 160
        inside: dict[int, list[float]] = {}
        for time, value in outcome.timeline.select("time", column).iter_rows():
            if time < end:  # polars divides by multiplying with the inverse
                # Of contention 1 is a job alone, and what there is where no job spans.
                counted = max(value, 1.0) if name == "contention" else value
                place = int((time - start) * (1 / (end - start)) * 160)
                inside.setdefault(place, []).append(counted / scale)
        shown = data.filter(policy=label).sort("day")
        assert shown["day"].to_list() == [close((n + 0.5) * step / 86_400) for n in sorted(inside)]
        assert shown["value"].to_list() == [close(np.mean(inside[n])) for n in sorted(inside)]


def spanning_on(outcome: Outcome, start: float, end: float, columns: int) -> np.ndarray:
    """Mean number of spanning jobs on each server in each of even intervals, one overlap at a time."""
    assert outcome.allocations is not None
    together: dict[tuple[str, float], int] = {}
    for job, begin in outcome.allocations.select("job_id", "start_time").iter_rows():
        together[job, begin] = together.get((job, begin), 0) + 1
    servers = sum(group["count"] for group in outcome.run["cluster"]["servers"])
    edges = np.linspace(start, end, columns + 1)
    mean = np.zeros((servers, columns))
    for job, server, _, begin, until, _ in outcome.allocations.iter_rows():
        if together[job, begin] > 1:
            overlap = np.minimum(until, edges[1:]) - np.maximum(begin, edges[:-1])
            mean[server] += np.maximum(overlap, 0.0) / np.diff(edges)
    return mean


def check_servers(figure: Figure, outcome: Outcome, end: float) -> set[int]:
    """Each cell against the count; returns how many servers its rows are of."""
    start = outcome.timeline["time"][0]
    wanted = spanning_on(outcome, start, end, 96)
    step = (end - start) / 96 / 86_400
    shown = np.zeros_like(wanted)
    sizes = set()
    for row in rows_of(figure).to_dicts():
        first, last = round(row["day"] / step), round(row["end_day"] / step)
        of = slice(row["row"], row["end_row"])
        assert row["jobs"] == pytest.approx(wanted[of, first:last].mean(), rel=1e-4, abs=1e-5)
        # What is one cell differs by less than two steps of darkness.
        cells = np.maximum(wanted[of, first:last].mean(axis=0), 1.0)
        assert np.ptp(cells) <= 2 * (max(wanted.max(), 1.0) - 1) / 7 + 1e-9
        shown[of, first:last] = row["jobs"]
        sizes.add(row["end_row"] - row["row"])
    # Cells left out are those of servers without a spanning job.
    assert wanted[shown == 0].max(initial=0.0) < 1e-5
    return sizes


def test_contention_on_each_server(results: dict[str, Outcome], figures: dict[str, Figure]) -> None:
    for number, (label, outcome) in enumerate(Comparison(results).best_first.outcomes.items(), start=1):
        figure = figures[f"servers-{number}"]
        assert figure.of == label
        assert "neighbouring" not in figure.note
        assert check_servers(figure, outcome, last_demand(results)) == {1}
        assert rows_of(figure)["jobs"].max() > 1


def test_a_job_alone_on_its_servers_is_pale(results: dict[str, Outcome]) -> None:
    jobs = pl.DataFrame(
        {"job_id": ["a"], "submit_time": [0.0], "num_gpus": [8], "duration": [100.0], "model": ["resnet50"]}
    )
    alone = by_name({"a": replay(jobs, "2x4", policy="fifo")})["servers-1"]
    among = [figure for name, figure in by_name(results).items() if name.startswith("servers")]
    for figures, most in (([alone], 0.4), (among, 1.0)):
        cells = [row for figure in figures for row in next(iter(figure.chart.to_dict()["datasets"].values()))]
        assert {row["dark"] for row in cells if row["jobs"] <= 1} == {0.4}
        assert max(row["dark"] for row in cells) == most


@pytest.mark.long
@pytest.mark.parametrize(
    ("servers", "among", "rows"),
    # At most ten rows each: of six results 6,000 cells of 96 columns.
    [
        (8, "", {1}),
        (64, " One row is 8 neighbouring servers.", {8}),
        (29, " One row is 3 or 4 neighbouring servers.", {3, 4}),
    ],
)
def test_neighbouring_servers_are_put_together_evenly(servers: int, among: str, rows: set[int]) -> None:
    jobs = busy_jobs(250).with_columns(num_gpus=pl.col("num_gpus") * 3, submit_time=pl.col("submit_time") / 9)
    outcome = replay(jobs, f"{servers}x4", policy="rand")
    results = {f"r{number}": outcome for number in range(6)}
    figure = by_name(results)["servers-2"]
    assert figure.note.endswith(f"The strongest colour is most; blank is none.{among}")
    assert check_servers(figure, outcome, last_demand(results)) == rows


@pytest.mark.parametrize("most", [4, 7, 10, 32])
def test_rows_of_servers_are_few_and_alike(most: int) -> None:
    for servers in (*range(1, 400), 5_000, 99_991, 100_000):
        edges = data_time.server_rows(servers, most)
        assert (edges[0], edges[-1]) == (0, servers)
        sizes = set(np.diff(edges).tolist())
        assert edges.size - 1 <= most
        needed = -(-servers // most)
        assert needed <= min(sizes) <= needed + needed // 2
        assert max(sizes) <= min(sizes) + 1
