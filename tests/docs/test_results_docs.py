"""docs/results-reference.md names every key of a summary or a run's record, and none that no run has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from frames import busy_jobs
from ringbco import Outcome, Policy, plan, replay
from ringbco.cluster.gpu_types import GpuType
from ringbco.cluster.spec import Cluster, ServerGroup
from ringbco.cluster.tiers import Tier

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "results-reference.md").read_text(encoding="utf-8")
PAPER = (DOCS / "paper.md").read_text(encoding="utf-8")
# Added where the outcome is written.
WRITTEN = {"total_seconds", "jobs_per_second"}


class Elastic(Policy):
    """Starts everybody on one GPU, gives the first of each call all that it may have, and ends one job."""

    ended = False

    def decide(self, state: Any) -> None:
        state.start(state.waiting, gpus=1, strict=False)
        for row in state.running[:1]:
            if state.jobs.max_gpus[row] <= state.idle.max():
                state.resize(row, state.jobs.max_gpus[row])
        if not self.ended and state.completed.size and state.running.size:
            state.end(state.running[-1:])
            self.ended = True


def keys(table: str, of: str = "") -> list[str]:
    """The keys in the first table of a piece of the page; only those whose last cell names `of`."""
    rows = table[table.index("| ---") :].split("\n\n", maxsplit=1)[0].splitlines()[1:]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    return [key for row in cells if not of or of in row[-1].split(", ") for key in row[0].split(", ")]


def after(text: str) -> str:
    return PAGE.split(text)[1]


FIGURES, OTHERS = after("## summary.json\n"), keys(after("Other keys:"))
LISTS = ["size_classes", "gpu_types", "links", "vcs"]
SUMMARY = [*keys(FIGURES, "run"), *OTHERS]
CLASSES = ["gpus", *keys(FIGURES, "class")]
VCS = ["vc", "size_classes", *keys(FIGURES, "vc")]
TIERS = ["tier", "vc", "group", *keys(FIGURES, "tier")]
TYPES = ["gpu_type", *keys(FIGURES, "type")]
MIXED = Cluster.from_groups(
    [ServerGroup(2, 8, gpu_type="V100"), ServerGroup(2, 8, gpu_type="card")],
    gpu_types={"card": GpuType("card", 2.0)},
)
RACKS = Cluster.from_groups([ServerGroup(4, 4)], tiers=[Tier("rack", 1e9, 2)])
RACKS_OF_VCS = Cluster.from_groups(
    [ServerGroup(2, 8, vc="a"), ServerGroup(2, 8, vc="b")], tiers=[Tier("rack", 1e9, 1)]
)
ALIKE = Cluster.from_groups([ServerGroup(4, 4, gpu_type="V100")])
OUTAGES = pl.DataFrame({"server": [0], "down_at": [900.0], "up_at": [2000.0]})
CLOSED = pl.concat([OUTAGES, OUTAGES.with_columns(server=pl.Series([1]))]).with_columns(
    kind=pl.Series(["down", "drain"])
)
SERVICES = pl.DataFrame({"service": ["a"], "time": [900.0], "replicas": [1], "gpus_per_replica": [2]})
REQUESTS = pl.DataFrame({"arrival": [900.0]})
ANSWERING = {"a": {"kind": "batch", "gpus": 1, "seconds": [[1, 2.0]], "scale": "fixed", "replicas": 1}}
SHARES = pl.DataFrame({"user": ["u0"], "share": [2.0]})
QUOTAS = pl.DataFrame({"vc": ["a"], "gpus": [12], "borrow": [True]})


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Results that together have everything."""
    folder = tmp_path_factory.mktemp("logged") / "first"
    jobs = busy_jobs(40)
    even = pl.int_range(pl.len()) % 2 == 0
    due = jobs.with_columns(
        deadline=pl.col("submit_time") + pl.col("duration") * pl.when(even).then(5.0).otherwise(0.9),
        vc=pl.when(pl.int_range(pl.len()) < 30).then(pl.lit("a")).otherwise(pl.lit("b")),
    )
    split = Cluster.from_groups([ServerGroup(2, 8, vc="a"), ServerGroup(2, 8, vc="b")])
    ranked = due.with_columns(priority=pl.int_range(pl.len()) % 3)
    replay(jobs, "4x4", policy="fifo", decisions=True).write(folder)
    return {
        "plain": replay(jobs.drop("user"), "4x4", policy="rand"),
        "tiers": replay(jobs, RACKS, policy="fifo"),
        "tiers of vcs": replay(due, RACKS_OF_VCS, policy="fifo", placement="first-fit"),
        "users": replay(jobs, "4x4", policy="fifo"),
        "fair": replay(jobs, "4x4", policy="fifo", order="fairshare", fair_shares=SHARES),
        "preemptive": replay(jobs, "4x4", policy="srtf"),
        "all": replay(due, split, policy="edf", admission=True, sample=60.0),
        "outages": replay(jobs, "4x4", policy="fifo", outages=CLOSED),
        "maintenance": replay(jobs, "4x4", policy="fifo", maintenance=OUTAGES),
        "services": replay(jobs, "4x4", policy="fifo", services=SERVICES),
        "requests": replay(jobs, "4x4", policy="fifo", requests=REQUESTS, services=ANSWERING),
        "evicting": replay(
            ranked.with_columns(time_limit=900.0),
            split,
            policy="fifo",
            evict=True,
            quota=QUOTAS,
            enforce_limits=True,
        ),
        "aging": replay(jobs, "4x4", policy="sjf", aging=600.0),
        "predicted": replay(jobs, "4x4", policy="sjf", predict="column:duration"),
        "window": replay(jobs, "4x4", policy="fifo", measure_from=0.1, measure_to=0.9),
        "elastic": replay(
            due.with_columns(min_gpus=pl.lit(1), max_gpus=pl.col("num_gpus") + 2), split, policy=Elastic
        ),
        "searches": replay(
            jobs.with_columns(group=pl.lit("a")), "4x4", policy="fifo", search="asha:eta=2,rungs=2"
        ),
        "chains": replay(
            jobs.with_columns(after=pl.when(pl.col("job_id") == "j1").then(pl.lit("j0"))),
            "4x4",
            policy="fifo",
        ),
        "types": replay(jobs, MIXED, policy="fifo"),
        "recorded": replay(jobs.with_columns(recorded_start="submit_time"), "4x4", policy="recorded"),
        "logged": replay(jobs, "4x4", policy=f"log:{folder / 'decisions.parquet'}"),
        "asleep": replay(jobs, ALIKE, policy="fifo", sleep_after=60.0),
        "shares": replay(
            jobs.with_columns(gpu_share=pl.when(pl.col("num_gpus") == 1).then(0.5)), "4x4", policy="fifo"
        ),
        "plan": plan(jobs.with_columns(submit_time=pl.lit(0.0)), "4x4", slot=5.0),
    }


def listed_files(rows: list[dict[str, Any]]) -> set[str]:
    return {key for row in rows for key in row}


def test_every_key_of_a_summary_is_documented(outcomes: dict[str, Outcome]) -> None:
    summaries = {name: outcome.summary for name, outcome in outcomes.items()}
    planned = set(keys(PAPER.split("### The result\n")[1]))
    told = set(SUMMARY) | planned
    assert len(set(SUMMARY)) == len(SUMMARY), "told twice"
    assert listed_files(list(summaries.values())) | WRITTEN == told
    for name, summary in summaries.items():
        assert bool(planned & set(summary)) == (name == "plan")


def test_every_key_of_a_size_class_and_of_a_virtual_cluster_is_documented(
    outcomes: dict[str, Outcome],
) -> None:
    summaries = [outcome.summary for outcome in outcomes.values()]
    assert listed_files([row for summary in summaries for row in summary["size_classes"]]) == set(CLASSES)
    vcs = outcomes["all"].summary["vcs"]
    assert listed_files(
        vcs + outcomes["elastic"].summary["vcs"] + outcomes["evicting"].summary["vcs"]
    ) == set(VCS)
    assert sum(row["jobs_refused"] for row in vcs) == outcomes["all"].summary["jobs_refused"] > 0
    # What the page says of the conditions.
    plain = listed_files(outcomes["plain"].summary["size_classes"])
    assert "preemptions" in plain
    assert not plain & {"lost_gpu_seconds", "deadlines", "jain_index_users"}
    assert "jobs_refused" not in outcomes["users"].summary


def test_every_key_of_a_gpu_type_is_documented(outcomes: dict[str, Outcome]) -> None:
    recorded = listed_files(outcomes["types"].summary["gpu_types"])
    assert (
        recorded | {"asleep_gpu_hours"} == listed_files(outcomes["asleep"].summary["gpu_types"]) == set(TYPES)
    )
    assert "cost" not in outcomes["types"].summary["gpu_types"][1]


def test_every_key_of_a_tier_is_documented(outcomes: dict[str, Outcome]) -> None:
    entries = [*outcomes["tiers"].summary["links"], *outcomes["tiers of vcs"].summary["links"]]
    assert listed_files(entries) == set(TIERS)
    row = next(line for line in PAGE.splitlines() if line.startswith("| links |"))
    assert all(f"`{key}`" in row for key in TIERS)


def test_every_option_of_a_run_is_documented(outcomes: dict[str, Outcome]) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `[options]`"))
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in row).split())
    for outcome in outcomes.values():
        assert set(outcome.run["options"]) <= words


def test_every_table_of_a_run_is_documented(outcomes: dict[str, Outcome]) -> None:
    tables = {table for outcome in outcomes.values() for table in outcome.run}
    within = {f"cluster.{name}" for outcome in outcomes.values() for name in outcome.run["cluster"]}
    told = {row.split("`")[1].strip("[]") for row in PAGE.splitlines() if row.startswith("| `[")}
    assert tables | within - {"cluster.name"} == told
    own = next(line for line in PAGE.splitlines() if line.startswith("| `[own_policy]`"))
    assert all(f"{key} (" in own or f"{key}," in own for key in ("kind", "clairvoyant", "interval", "about"))


def test_every_column_that_occurs_is_documented(outcomes: dict[str, Outcome]) -> None:
    columns = {name for outcome in outcomes.values() for name in outcome.jobs.columns}
    assert columns == set(keys(after("## jobs.parquet\n")))
