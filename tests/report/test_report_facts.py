"""What a report says was run: what differs beside each result, what is shared once, and who did not run."""

from __future__ import annotations

import dataclasses
import re
from html import unescape

import polars as pl

from frames import busy_jobs
from ringbco import Outcome, plan, replay
from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster, ServerGroup
from ringbco.reports.facts import facts
from ringbco.reports.figures import Chapter
from ringbco.reports.html import page


def facts_shown(results: dict[str, Outcome]) -> dict[str, tuple[str, ...]]:
    rows = [(fact.title, fact.values) for fact in facts(results)]
    assert len(dict(rows)) == len(rows), "told twice"
    return dict(rows)


def names(text: str) -> set[str]:
    """The settings that a list of them names."""
    return {part.split()[0] for part in re.sub(r"\[.*?\]", "", text).split(", ")}


def words(results: dict[str, Outcome]) -> str:
    """A page's text above its charts, which are not drawn for it."""
    body = page(results, [Chapter("Jobs", [])], title="a title").split("<body>")[1]
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body)))


def test_an_option_that_differs_has_a_row_and_the_rest_are_told_once() -> None:
    jobs = busy_jobs(20)
    results = {f"k{kappa}": replay(jobs, "4x4", kappa=kappa, seed=3) for kappa in (2, 4, 8)}
    table = facts_shown(results)
    assert table["kappa"] == ("2", "4", "8")
    (rest,) = set(table["other options"])
    assert "kappa" not in names(rest)
    assert {"slot", "lambda", "variant", "seed", "ties", "oversize"} <= names(rest)
    assert "seed 3" in rest
    text = words(results)
    assert text.count("seed 3") == 1
    assert text.count("practical") == 1


def test_an_option_that_one_result_lacks_differs() -> None:
    jobs = busy_jobs(20)
    table = facts_shown({"a": replay(jobs, "4x4", sample=30.0), "b": replay(jobs, "4x4")})
    assert table["sample"] == ("30", "-")


def test_of_the_network_too_only_what_differs_is_told_beside_each() -> None:
    jobs = busy_jobs(20)
    results = {
        f"{speed:g}": replay(
            jobs, Cluster.from_groups([ServerGroup(4, 4)], Network(inter_bandwidth=speed * 1e9))
        )
        for speed in (12.5, 25.0)
    }
    table = facts_shown(results)
    assert table["network: between servers"] == ("100 Gb/s", "200 Gb/s")
    (rest,) = set(table["network: the rest"])
    assert "inside servers 150 GB/s" in rest
    assert "between" not in rest
    assert "network" not in table
    assert "the rest" not in words({"one": next(iter(results.values()))})


def test_a_single_result_tells_all_its_options_in_one_row() -> None:
    table = facts_shown({"one": replay(busy_jobs(20), "4x4")})
    assert {"kappa", "lambda", "seed", "ties"} <= names(*table["other options"])
    assert "kappa" not in table


def test_refused_jobs_are_told() -> None:
    # Half of the deadlines cannot be met even alone.
    slack = pl.when(pl.int_range(pl.len()) % 2 == 0).then(3_000).otherwise(0)
    jobs = busy_jobs(40).with_columns(deadline=pl.col("submit_time") + 0.9 * pl.col("duration") + slack)
    strict = replay(jobs, "4x4", policy="edf", admission=True)
    refused = strict.summary["jobs_refused"]
    assert refused >= 20
    assert strict.jobs.height == 40 - refused
    results = {"strict": strict, "open": replay(jobs, "4x4", policy="edf")}
    assert facts_shown(results)["jobs"] == (f"{40 - refused} ran, {refused} refused", "40 ran")
    text = words(results)
    assert f"different numbers of jobs; {refused} more refused under strict" in text
    assert "refused" not in words({"open": results["open"]})
    assert f"{40 - refused} jobs; {refused} more refused: excluded from all figures" in words(
        {"strict": strict}
    )


def test_dropped_jobs_are_told() -> None:
    jobs = busy_jobs(40).with_columns(
        num_gpus=pl.when(pl.int_range(pl.len()) < 3).then(99).otherwise("num_gpus")
    )
    results = {"one": replay(jobs, "4x4", oversize="drop")}
    assert facts_shown(results)["jobs"] == ("37 ran, 3 dropped as too large",)
    assert "37 ran, 3 dropped as too large" in words(results)


def test_who_knew_the_run_times_beforehand_is_told() -> None:
    jobs = busy_jobs(20)
    results = {
        "fifo": replay(jobs, "4x4", policy="fifo"),
        "sjf": replay(jobs, "4x4", policy="sjf"),
        "both": replay(jobs, "4x4", policy="fifo", order="sjf", queue="easy"),
        "srtf": replay(jobs, "4x4", policy="srtf"),
        "guessed": replay(jobs, "4x4", policy="fifo", order="qssf"),
        "exact": replay(jobs, "4x4", policy="fifo", order="qssf", predict="exact"),
        "plan": plan(busy_jobs(20).with_columns(submit_time=pl.lit(0.0)), "4x4", policy="ff", slot=5.0),
    }
    wanted = {
        "fifo": "no",
        "sjf": "yes: order sjf",
        "both": "yes: order sjf, queue easy",
        "srtf": "yes: policy srtf",
        "guessed": "no",
        "exact": "yes: predict exact",
        "plan": "yes: the plan",
    }
    assert dict(zip(results, facts_shown(results)["clairvoyant"], strict=True)) == wanted
    assert "clairvoyant no" in words({"one": results["fifo"]})
    assert "clairvoyant yes: order sjf" in words({"one": results["sjf"]})


def test_a_run_without_options_does_not_say_what_it_knew() -> None:
    made = replay(busy_jobs(20), "4x4", policy="fifo")
    bare = dataclasses.replace(made, run={key: made.run[key] for key in made.run if key != "options"})
    assert "clairvoyant" not in facts_shown({"one": bare})
