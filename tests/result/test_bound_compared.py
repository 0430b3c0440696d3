"""The lower bound in comparisons, that of the worst slowdown, and the table of docs/bound.md."""

from __future__ import annotations

import itertools
import re
from io import StringIO
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

import ringbco
from conftest import Invoke
from custom_policies import Stretchy
from page_sure import worst_slowdown_bound
from ringbco.cli.comparison import by_measure
from ringbco.cluster.spec import Cluster, ServerGroup
from ringbco.reports.notebook import comparison_html
from ringbco.result.comparison import Comparison
from ringbco.result.figures import OVER_BOUND

ROOT = Path(__file__).parents[2]
HALVES = Cluster.from_groups([ServerGroup(2, 4, "a"), ServerGroup(2, 4, "b")], name="halves")


def test_a_comparison_holds_the_mean_against_it(small_jobs: Path) -> None:
    comparison = ringbco.compare(small_jobs, "2x8", ["fifo", "srtf"], seed=3)
    mean = ringbco.bound(small_jobs, "2x8", seed=3).mean_jct
    assert comparison.bounds == pytest.approx({"fifo": mean, "srtf": mean})
    assert comparison.to_dict()["mean_jct_bounds"] == comparison.bounds
    rows = comparison.frame.filter(pl.col("measure") == "mean_jct_over_bound")
    expected = [outcome.summary["mean_jct"] / mean for outcome in comparison.outcomes.values()]
    assert rows["value"].to_list() == pytest.approx(expected)
    assert min(expected) >= 1


def test_each_result_is_held_against_the_bound_of_its_own_jobs(small_jobs: Path) -> None:
    jobs = ringbco.read_jobs(small_jobs).frame
    outcomes = [
        ringbco.replay(jobs, "2x8", policy="fifo"),
        ringbco.replay(jobs.head(3), "2x8", policy="fifo"),
        ringbco.replay(jobs, "1x8", policy="fifo", model="fixed"),
        ringbco.plan(jobs.with_columns(submit_time=0.0), "2x8", policy="ff"),
        ringbco.replay(jobs.with_columns(vc=pl.lit("a")), HALVES, policy="fifo"),
    ]
    comparison = outcomes[0].compare(*outcomes[1:])
    expected = [
        ringbco.bound(jobs, "2x8"),
        ringbco.bound(jobs.head(3), "2x8"),
        ringbco.bound(jobs, "1x8", model="fixed"),
        ringbco.bound(jobs.with_columns(submit_time=0.0), "2x8"),
        ringbco.bound(jobs.with_columns(vc=pl.lit("a")), HALVES),
    ]
    assert list(comparison.bounds.values()) == pytest.approx([bound.mean_jct for bound in expected])


def test_ratios_to_the_bound_are_rounded_up_wherever_they_are_printed(small_jobs: Path) -> None:
    fifo = ringbco.replay(small_jobs, "2x8", policy="fifo")
    mean = fifo.summary["mean_jct"]
    known = {"one": [mean / 1.2301], "other": [mean / 1.5]}
    comparison = Comparison({"one": fifo, "other": fifo}, known_bounds=known)
    terminal, page = StringIO(), comparison_html(comparison)
    Console(file=terminal, width=200).print(by_measure(comparison))
    for printed in (terminal.getvalue(), page, *map(comparison.table, ("md", "tex"))):
        ratio, *_ = re.findall(r"\d\.\d\d", printed.split("mean completion time / lower bound")[1])
        assert ratio == "1.24"
    entries = [OVER_BOUND.brief(value) for value in (1.2301, 1.5, 1.001, 99.91, 123.4, None)]
    assert entries == ["1.24", "1.50", "1.01", "100", "124", "-"]
    # What programs read is exact.
    written = comparison.to_dict()["measures"]["mean_jct_over_bound"]
    values = {label: row["value"] for label, row in written.items()}
    assert values == pytest.approx({"one": 1.2301, "other": 1.5}, rel=1e-12)
    assert re.search(r"mean_jct_over_bound,one,1\.23(01|00999)", comparison.table("csv"))


def test_no_bound_where_a_result_does_not_say_it(small_jobs: Path) -> None:
    jobs = ringbco.read_jobs(small_jobs).frame
    stretched = jobs.with_columns(min_gpus=pl.lit(1), max_gpus=pl.col("num_gpus") + 1)
    elastic = ringbco.replay(stretched, "2x8", policy=Stretchy)
    fast = Cluster.parse("2x8").with_network(inter_bandwidth=1e12)
    spread = ringbco.replay(jobs, fast, policy="fifo")
    damaged = ringbco.replay(jobs, "2x8", policy="fifo")
    damaged.jobs = damaged.jobs.with_columns(ideal_run_time=pl.lit(float("nan")))
    comparison = elastic.compare(spread, damaged)
    assert list(comparison.bounds.values()) == [None, None, None]
    assert "mean_jct_over_bound" not in comparison.frame["measure"].to_list()
    # The durations of model fixed do not depend on the network.
    fixed = ringbco.replay(jobs, fast, policy="fifo", model="fixed")
    assert list(fixed.compare(spread).bounds.values()) == [
        pytest.approx(ringbco.bound(jobs, fast, model="fixed").mean_jct),
        None,
    ]
    repeated = ringbco.compare(jobs, fast, ["fifo"], seeds=2)
    assert repeated.bounds == {"fifo": None}


@pytest.mark.long
def test_a_policy_that_may_resize_costs_no_other_result_its_bound(invoke: Invoke, tmp_path: Path) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b"], "submit_time": [0.0, 60.0], "num_gpus": [4, 2], "duration": [300.0, 50.0],
            "max_gpus": [8, 2],
        }
    )  # fmt: skip
    bound = ringbco.bound(jobs.drop("max_gpus"), "1x8", model="fixed").mean_jct
    made = {
        policy: ringbco.replay(jobs, "1x8", policy=policy, model="fixed", decisions=True)
        for policy in ("fifo", "srtf", "elastic-srtf", Stretchy)
    }
    assert made[Stretchy].summary["mean_jct"] < bound
    made[Stretchy].write(tmp_path / "stretchy")
    log = f"log:{tmp_path / 'stretchy' / 'decisions.parquet'}"
    made["log"] = ringbco.replay(jobs, "1x8", policy=log, model="fixed")
    for order in itertools.permutations(made, 3):
        first, *others = (made[policy] for policy in order)
        comparison = list(first.compare(*others).bounds.values())
        assert comparison == [
            pytest.approx(bound) if policy in ("fifo", "srtf") else None for policy in order
        ]
    jobs.write_parquet(tmp_path / "jobs.parquet")
    options = ("--cluster", "1x8", "--model", "fixed", "--policy", "fifo", "-o", "compared", "--all")
    done = invoke("compare", "jobs.parquet", *options, "--result", "stretchy")
    assert "without a lower bound (docs/bound.md): stretchy\n" in done.stdout


def test_the_worst_slowdown_of_gangs_that_run_one_at_a_time() -> None:
    """b and c cannot run beside a, nor beside each other. d can run beside a. With b, a is done at 110 s at
    best. With c, too, the later of b and c is done 20 s after it came. The bound is rounded down."""
    times = {"a": (0.0, 6, 100.0), "b": (5.0, 5, 10.0), "c": (5.0, 8, 10.0), "d": (5.0, 4, 1.0)}
    jobs = pl.DataFrame(
        [(job, *row) for job, row in times.items()],
        schema=["job_id", "submit_time", "num_gpus", "duration"],
        orient="row",
    )
    for kept, bound in (("ad", 1.0), ("abd", 1.09), ("abcd", 1.99)):
        some = jobs.filter(pl.col("job_id").is_in(list(kept)))
        worst = []
        for policy in ("srtf", "ftf", "repack"):
            ran = ringbco.replay(some, "1x8", policy=policy, model="fixed", predict="exact", preempt_cost=0.0)
            assert worst_slowdown_bound(ran.jobs, Cluster.parse("1x8")) == bound
            worst.append(ran.summary["worst_finish_time_fairness"])
        assert min(worst) >= bound
