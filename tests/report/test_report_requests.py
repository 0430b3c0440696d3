"""The report's chapter on requests: latency beside replicas, distributions, GPUs lent to training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from answered import answered, requests
from ringbco.reports import data_requests
from ringbco.reports.data_requests import LINES, SERIES
from ringbco.reports.figures import Chapter, chapters
from ringbco.reports.series import DAY
from ringbco.result.outcome import Outcome

c = pl.col


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return Outcome.read(answered(tmp_path_factory.mktemp("report")))


def chapter(**results: Outcome) -> Chapter | None:
    return next((each for each in chapters(results) if each.title == "Requests"), None)


def test_the_chapter(outcome: Outcome) -> None:
    found = chapter(own=outcome)
    assert found is not None
    drawn = {figure.name: figure for figure in found.figures if figure.chart is not None}
    assert list(drawn) == [
        *(f"requests-latency-{number}" for number in (1, 2, 3)),
        *(f"requests-latencies-{number}" for number in (1, 2, 3)),
        *(f"requests-first-tokens-{number}" for number in (1, 2)),
    ]
    assert drawn["requests-latency-2"].title == "Latency of code"
    assert drawn["requests-first-tokens-2"].title == "Time to the first token of code"
    (sentence,) = [figure.instead for figure in found.figures if figure.chart is None]
    assert sentence == "Services lent no GPUs to training."


def test_latency_and_replicas_over_time(outcome: Outcome) -> None:
    """Of as many intervals as there are requests for, or of all samples, by hand."""
    parts = {part.title: part.data for part in data_requests.latency_over_time({"own": outcome})}
    assert list(parts) == ["Latency of chat", "Latency of code", "Latency of rank"]
    data = parts["Latency of code"]
    assert set(data["series"]) == set(SERIES)
    assert outcome.latency is not None
    rows = outcome.latency.filter(service="code")
    first, end = rows["time"][0], rows["time"][-1]
    step = (end - first) / 19  # 198 requests
    for number in (3, 8):
        of = rows.filter(c("time") >= first + number * step, c("time") < first + (number + 1) * step)
        for series, value in (("p50", of["p50_latency"].median()), ("p99", of["p99_latency"].max())):
            line = data.filter(series=f"{series} latency")
            assert line.height == 19
            assert line["value"][number] == pytest.approx(value)
            assert line["day"][number] * DAY == pytest.approx((number + 0.5) * step)
    wanted = data.filter(series="replicas wanted")
    assert (wanted["value"][0], wanted["value"][-1]) == (3.0, 1.0)
    assert wanted["day"][-1] * DAY == pytest.approx(end - first)
    serving = data.filter(series="replicas serving").filter((c("day") * DAY).is_between(33.0, 38.0))
    assert set(serving["value"]) == {2.0}


def test_an_interval_without_answers_is_a_gap(outcome: Outcome) -> None:
    gap = (c("time") > 10) & (c("time") < 30)
    assert outcome.latency is not None
    latency = outcome.latency.with_columns(
        pl.when(~gap).then(name) for name in ("p50_latency", "p99_latency")
    )
    told = Outcome(outcome.jobs, None, outcome.timeline, outcome.summary, outcome.run, latency=latency)
    part, *_ = data_requests.latency_over_time({"own": told})
    lines = part.data.filter(c("series").is_in(LINES), (c("day") * DAY).is_between(14, 26))
    assert lines.height > 4
    assert lines["value"].null_count() == lines.height
    none = latency.with_columns(p50_latency=pl.lit(None, pl.Float64))
    told = Outcome(outcome.jobs, None, outcome.timeline, outcome.summary, outcome.run, latency=none)
    part, *_ = data_requests.latency_over_time({"own": told})
    assert part.instead == "No request of chat was answered."


def test_distributions_are_those_of_the_rows(outcome: Outcome) -> None:
    assert outcome.requests is not None
    both = requests().with_row_index("row").join(outcome.requests, on="row", suffix="_of_rows")
    for parts, column in (
        (data_requests.latencies, "finish"),
        (data_requests.first_tokens, "first_token"),
    ):
        part, *_ = parts({"own": outcome})
        seconds = both.filter(service="chat").select(c(column) - c("arrival")).to_series().to_numpy()
        assert part.data.height > 150
        for value, share in part.data.select("seconds", "share").rows()[::20]:
            assert np.mean(seconds <= value * (1 + 1e-9)) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("server", [None, 2])
def test_gpus_lent(tmp_path: Path, server: int | None) -> None:
    """Of 16 GPUs 12 are services' at most; what jobs hold of those, with a server down too, is lent."""
    jobs = pl.DataFrame(
        {
            "job_id": list("abcdef"),
            "submit_time": 0.0,
            "num_gpus": 1,
            "duration": [20.0 + 6 * n for n in range(6)],
        }
    )
    down = None
    if server is not None:
        down = pl.DataFrame({"server": [server], "down_at": [10.0], "up_at": [30.0]})
    outcome = Outcome.read(answered(tmp_path, jobs=jobs, outages=down, sample=0.125))
    (part,) = data_requests.lent({"own": outcome})
    lent = outcome.summary["gpu_hours_lent_to_training"] * 3600
    samples = data_requests._lent(outcome)
    assert float(samples.sum()) * 0.125 == pytest.approx(lent, rel=0.02)
    assert lent > 0
    assert part.data["value"].max() <= samples.max()
    assert part.data["value"].n_unique() > 2


# What is not there


def test_without_rows_there_is_a_sentence(tmp_path: Path) -> None:
    found = chapter(own=Outcome.read(answered(tmp_path, rows=False)))
    assert found is not None
    told = [figure.instead for figure in found.figures if figure.chart is None]
    assert told.count("The distributions need a run with --request-rows.") == 2
    assert [figure.name for figure in found.figures if figure.chart is not None] == [
        f"requests-latency-{number}" for number in (1, 2, 3)
    ]


def test_without_the_requests_there_is_a_sentence(tmp_path: Path) -> None:
    folder = answered(tmp_path)
    (tmp_path / "requests.parquet").unlink()
    part, *others = data_requests.latencies({"own": Outcome.read(folder)})
    assert part.instead.startswith("The distributions need the table of requests: ")
    assert "are not there" in part.instead
    assert others == []


def test_without_requests_there_is_no_chapter(outcome: Outcome) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0], "num_gpus": [1], "duration": [9]})
    services = pl.DataFrame({"service": ["s"], "time": [0.0], "replicas": [1], "gpus_per_replica": [1]})
    other = ringbco.replay(jobs, "1x4", policy="fifo", services=services)
    assert chapter(own=other) is None
    both = chapter(own=outcome, other=other)
    assert both is not None
    assert {figure.of for figure in both.figures} == {None, "own"}


def test_two_results_share_distributions(outcome: Outcome, tmp_path: Path) -> None:
    other = Outcome.read(answered(tmp_path, policy="srtf", evict=True))
    part, *_ = data_requests.latencies({"one": outcome, "two": other})
    assert set(part.data["policy"]) == {"one", "two"}
    titles = [part.title for part in data_requests.latency_over_time({"one": outcome, "two": other})]
    assert titles[::3] == ["Latency of chat: one", "Latency of chat: two"]


def test_the_page(outcome: Outcome, tmp_path: Path) -> None:
    folder = answered(tmp_path)
    ringbco.report(str(folder), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in ("Latency of chat", "Time to the first token of code", 'id="requests"'):
        assert text in page
    chart: Any = next(
        figure
        for each in chapters({"own": outcome})
        for figure in each.figures
        if figure.name == "requests-latency-1"
    ).chart.to_dict()
    assert chart["resolve"] == {"scale": {"y": "independent"}}
