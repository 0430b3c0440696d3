"""A file's figures beside the published ones, and what they say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import present
from ringbco.errors import UsageError
from ringbco.sources import SOURCES, convert
from ringbco.sources.account import Account, Entry
from ringbco.sources.source import Options
from ringbco.study import published
from ringbco.study.inspection import inspect_jobs
from ringbco.trace.jobs import JobTable, from_frame, provenance
from ringbco.trace.synthetic import generate


def table(
    durations: list[float], statuses: list[str | None] | None = None, vc: str = "v", source: str | None = None
) -> JobTable:
    count = len(durations)
    columns: dict[str, Any] = {
        "job_id": [str(at) for at in range(count)],
        "submit_time": [100.0 * at for at in range(count)],
        "num_gpus": [1] * (count - 1) + [2],
        "duration": durations,
        "vc": [vc] * count,
    }
    if statuses is not None:
        columns["status"] = statuses
    metadata = None if source is None else provenance(source, converter="convert", rows_read=count + 5)
    return from_frame(pl.DataFrame(columns), metadata=metadata)


def figures(seen: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["figure"]: row for row in seen["published"]["figures"]}


def test_figures_by_hand() -> None:
    statuses = ["Pass", "COMPLETED", "killed", "TIMEOUT"]
    seen = inspect_jobs(table([874, 874, 874, 36_012], statuses, source="philly"))
    rows = figures(seen)
    assert (rows["jobs"]["file"], rows["jobs"]["published"]) == (4, 112_956)
    assert (rows["jobs"]["ratio"], rows["jobs"]["near"]) == (4 / 112_956, False)
    assert (rows["rows of the raw file"]["file"], rows["rows of the raw file"]["published"]) == (9, 117_325)
    assert (rows["median run"]["ratio"], rows["median run"]["near"]) == (1.0, True)
    assert rows["mean run"]["file"] == 9_658.5
    assert rows["passed"]["difference"] == pytest.approx(-0.10)
    assert rows["failed"]["file"] == 0.25
    assert rows["jobs of 2 GPUs"]["ratio"] == pytest.approx(0.25 / 0.023)
    assert rows["jobs of 32 GPUs"]["file"] == 0.0
    assert not rows["jobs of 32 GPUs"]["near"]
    assert seen["published"]["verdict"].startswith("the file holds 0.0 % of the jobs published: not")


def test_what_a_table_lacks_is_not_compared() -> None:
    rows = figures(inspect_jobs(table([1.0, 2.0]), shape="philly"))
    for name in ("passed", "killed", "failed", "rows of the raw file"):
        assert rows[name]["file"] is rows[name]["near"] is rows[name]["ratio"] is None
    nameless = figures(inspect_jobs(table([1.0, 2.0], [None, None]), shape="philly"))
    assert nameless["passed"]["file"] is None


def whole(jobs: int) -> dict[str, Any]:
    """What `inspect_jobs` would say of a file with Venus' own figures and `jobs` jobs."""
    return {
        "jobs": jobs,
        "duration": {"mean": 13_041.0, "median": 204.0},
        "same_second": {"share": 0.35},
        "sizes": [],
        "statuses": None,
        "metadata": {},
    }


@pytest.mark.parametrize(
    ("jobs", "verdict"),
    [
        (125_303, "as many jobs as published: 4 of 4 figures are near the published ones"),
        (100_000, "the file holds 79.8 % of the jobs published: not the whole trace; 3 of 4 figures"),
        (250_606, "the file holds 2.00 times the jobs published: not cleaned in the usual way; 3 of 4"),
    ],
)
def test_the_verdict_says_whether_the_file_is_whole(jobs: int, verdict: str) -> None:
    seen = published.compare_figures(whole(jobs), "helios-venus")
    assert seen["verdict"].startswith(verdict)
    assert [row["figure"] for row in seen["figures"] if not row["near"]] == ["jobs"] * (jobs != 125_303)


@pytest.mark.parametrize(
    ("figure", "near", "off"),
    [
        # Counts within 2 %, times within 5 %, the share known as "about a third" within 0.08.
        ("jobs", [1.0, 1.019, 0.981], [1.021, 0.979, 1.19]),
        ("mean run", [1.049, 0.951], [1.051, 0.949]),
        ("median run", [1.049, 0.951], [1.051, 0.949]),
        ("same-second jobs", [1.23, 0.77], [1.25, 0.75]),
    ],
)
def test_how_far_a_figure_may_be_from_the_published_one(
    figure: str, near: list[float], off: list[float]
) -> None:
    for factors, expected in ((near, True), (off, False)):
        for factor in factors:
            seen = whole(125_303)
            seen["same_second"]["share"] = 1 / 3
            if figure == "jobs":
                seen["jobs"] = round(factor * 125_303)
            elif figure == "same-second jobs":
                seen["same_second"]["share"] *= factor
            else:
                seen["duration"][figure.removesuffix(" run")] *= factor
            rows = {
                row["figure"]: row["near"]
                for row in published.compare_figures(seen, "helios-venus")["figures"]
            }
            assert rows.pop(figure) is expected, factor
            assert all(rows.values()), "only that figure was moved"


@pytest.mark.parametrize(
    ("size", "share", "near"),
    [
        (1, 0.889, True),
        (1, 0.891, False),
        # Of a small share half of itself, for 0.02 would be more than all of it: 0.007 of 16 GPUs.
        (16, 0.0104, True),
        (16, 0.0106, False),
        (16, 0.0034, False),
    ],
)
def test_how_far_a_share_may_be_from_the_published_one(size: int, share: float, near: bool) -> None:
    seen = whole(10) | {"sizes": [{"num_gpus": size, "share": share}]}
    rows = {row["figure"]: row["near"] for row in published.compare_figures(seen, "philly")["figures"]}
    assert rows[f"jobs of {size} GPU{'s'[: size > 1]}"] is near


@pytest.mark.parametrize(
    ("source", "vc", "expected"),
    [
        ("philly", "any", "philly"),
        ("helios", "vcvGl", "helios-venus"),
        ("helios", "vc4om", "helios-earth"),
        ("helios", "vcUnknown", None),
        ("openb", "vcvGl", "openb"),
        ("acme", "vcvGl", None),
        (None, "vcvGl", None),
    ],
)
def test_the_shape_is_chosen_by_the_footer(source: str | None, vc: str, expected: str | None) -> None:
    seen = inspect_jobs(table([1.0, 2.0], vc=vc, source=source))["published"]
    assert seen["shape"] == expected
    assert ("--shape helios-venus|" in seen["because"]) == (vc == "vcUnknown")


def test_a_users_choice_goes_first() -> None:
    seen = inspect_jobs(table([1.0, 2.0], source="philly"), shape="helios-earth")["published"]
    assert (seen["shape"], seen["because"]) == ("helios-earth", "--shape")


def test_an_unknown_shape_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="no published shape venus: choose one of philly, helios-venus"):
        inspect_jobs(table([1.0]), shape="venus")


@pytest.mark.parametrize(("preset", "shape"), [("philly", "philly"), ("helios", "helios-venus")])
def test_synthetic_tables_have_the_published_run_times(preset: str, shape: str) -> None:
    seen = inspect_jobs(generate(preset, 50_000, 3))["published"]
    rows = {row["figure"]: row for row in seen["figures"]}
    assert seen["shape"] == shape
    assert "jobs" not in rows
    assert seen["verdict"].startswith("a synthetic table")
    assert rows["median run"]["near"]
    assert rows["mean run"]["near"]


def test_the_account_is_among_the_figures() -> None:
    account = Account("jobs", 5, 2, (Entry("dropped", "never ran", 3, 4),))
    metadata = provenance("philly", converter="convert", rows_read=5) | account.to_metadata()
    seen = inspect_jobs(from_frame(table([1.0, 2.0]).frame, metadata=metadata))
    assert seen["account"]["dropped"] == {"never ran": 3}
    assert (seen["account"]["rows_read"], seen["account"]["rows_kept"]) == (5, 2)
    assert inspect_jobs(table([1.0]))["account"] is None


KEYS = ["shape", "title", "origin", "because", "figures", "verdict", "note"]
ROW = ["figure", "kind", "file", "published", "ratio", "difference", "near"]


@pytest.mark.parametrize(
    "source", [*SOURCES, "synthetic philly", "synthetic helios", "synthetic paper", None]
)
def test_the_keys_are_the_same_whatever_the_source(source: str | None) -> None:
    seen = inspect_jobs(table([1.0, 2.0], source=source))["published"]
    assert list(seen) == KEYS
    assert all(list(row) == ROW for row in seen["figures"])
    assert (seen["verdict"] is None) == (seen["figures"] == []) == (seen["shape"] is None)


def test_the_real_pods_are_as_published(shared_traces: Path) -> None:
    pods = present(shared_traces / "openb" / "openb_pod_list_default.csv")
    nodes = present(pods.with_name("openb_node_list_gpu_node.csv"))
    made = convert("openb", [pods, nodes], Options(want_cluster=True))
    seen = inspect_jobs(made.table, made.cluster)["published"]
    rows = {row["figure"]: row for row in seen["figures"]}
    counts = {name: row["file"] for name, row in rows.items() if row["kind"] == "count"}
    assert counts == {
        "rows of the raw file": 8152,
        "jobs": 6203,
        "pods never scheduled": 897,
        "pods that outlived the log": 34,
        "servers": 1213,
    }
    assert all(row["near"] for row in rows.values())
    assert (
        seen["verdict"]
        == f"as many jobs as published: {len(rows)} of {len(rows)} figures are near the published ones"
    )
    bare = inspect_jobs(from_frame(made.table.frame), shape="openb")["published"]
    missing = [row["figure"] for row in bare["figures"] if row["file"] is None]
    assert missing == [
        "rows of the raw file",
        "pods never scheduled",
        "pods that outlived the log",
        "servers",
    ]
