"""What uplinks carry, by hand: links.parquet and the summary's links (docs/tiers.md#results)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from cases.case import Case
from cases.compare import agreed
from ringbco.result.outcome import Outcome
from test_tiers_by_hand import TEN, case_of, spanning

RACKS: list[dict[str, Any]] = [{"name": "rack", "bandwidth": TEN, "servers": 1}]


def carried(case: Case) -> Outcome:
    """The outcome, which the reference model and the audit agree with."""
    agreed(case)
    outcome = case.replay()
    assert ringbco.audit(outcome, case.frame()) == []
    assert outcome.links is not None
    return outcome


def rows(outcome: Outcome) -> list[tuple[Any, ...]]:
    assert outcome.links is not None
    return outcome.links.rows()


def shared() -> Case:
    """Racks are servers of 2 GPUs; j0 holds 2 and 1, j1 holds 1 and 2: both are on the second."""
    jobs = spanning(2, gpus=3)
    jobs[1]["iterations"] = 150
    return case_of(3, jobs, RACKS, gpus=2, sample=100.0)


def test_rows_stand_where_something_changed() -> None:
    outcome = carried(shared())
    # 10e9 bytes in 3 s; from 300 s on j1 is alone: 2 s. At 400 s nobody is left.
    each = TEN / 3
    assert rows(outcome) == [
        ("rack", "0", 0.0, 1, 1, pytest.approx(each)),
        ("rack", "1", 0.0, 2, 2, pytest.approx(2 * each)),
        ("rack", "2", 0.0, 1, 1, pytest.approx(each)),
        ("rack", "0", 300.0, 0, 0, 0.0),
        ("rack", "1", 300.0, 1, 1, TEN / 2),
        ("rack", "2", 300.0, 1, 1, TEN / 2),
        ("rack", "1", 400.0, 0, 0, 0.0),
        ("rack", "2", 400.0, 0, 0, 0.0),
    ]
    schema = {"tier": pl.String, "group": pl.String, "time": pl.Float64, "jobs": pl.UInt32}
    assert outcome.links is not None
    assert outcome.links.schema == schema | {"flows": pl.UInt64, "bytes_per_second": pl.Float64}


def test_the_busiest_uplink_of_a_tier() -> None:
    (tier,) = carried(shared()).summary["links"]
    # Rack 1: 2 / 3 for 300 s, 1 / 2 for 100 s. No uplink is slower than the servers' own links.
    assert tier == {
        "tier": "rack",
        "group": "1",
        "mean_share": pytest.approx((200 + 50) / 400),
        "largest_share": pytest.approx(2 / 3),
        "gpu_hours_lost": 0.0,
    }


def test_hours_are_lost_to_the_tier_of_the_lowest_bandwidth() -> None:
    tiers = [
        {"name": "rack", "bandwidth": TEN / 2, "servers": 1},
        {"name": "pod", "bandwidth": TEN / 2, "servers": 2},
    ]
    case = case_of(4, spanning(1, gpus=4), tiers)
    # 3 s an iteration, 2 s without uplinks: 4 GPUs x 100 s. Both tiers leave as little: the lower one counts.
    lost = {tier["tier"]: tier["gpu_hours_lost"] for tier in carried(case).summary["links"]}
    assert lost == {"rack": pytest.approx(400 / 3600), "pod": 0.0}
    tiers[1]["bandwidth"] = TEN / 4
    lost = {
        tier["tier"]: tier["gpu_hours_lost"]
        for tier in carried(case_of(4, spanning(1, gpus=4), tiers)).summary["links"]
    }
    assert lost == {"rack": 0.0, "pod": pytest.approx(4 * 300 / 3600)}


def test_of_equally_busy_uplinks_the_first_counts() -> None:
    (tier,) = carried(case_of(2, spanning(1), RACKS)).summary["links"]
    assert (tier["group"], tier["mean_share"]) == ("0", pytest.approx(0.5))


def test_a_job_that_pauses_crosses_and_sends_nothing() -> None:
    case = case_of(2, spanning(1), RACKS, policy="srtf", start_cost=50.0, sample=25.0)
    case.options.pop("placement")
    outcome = carried(case)
    assert rows(outcome)[::2] == [
        ("rack", "0", 0.0, 1, 1, 0.0),
        ("rack", "0", 50.0, 1, 1, TEN / 2),
        ("rack", "0", 250.0, 0, 0, 0.0),
    ]
    assert outcome.summary["links"][0]["mean_share"] == pytest.approx(0.5 * 200 / 250)


def test_checkpoints_that_take_time_send_nothing() -> None:
    case = case_of(2, spanning(1), RACKS, checkpoint_interval=100.0, checkpoint_cost=50.0, sample=25.0)
    outcome = carried(case)
    # 200 s of progress, of which the first 100 s are saved in between.
    assert [row[2:] for row in rows(outcome)[::2]] == [
        (0.0, 1, 1, TEN / 2),
        (100.0, 1, 1, 0.0),
        (150.0, 1, 1, TEN / 2),
        (250.0, 0, 0, 0.0),
    ]
    assert outcome.summary["links"][0]["mean_share"] == pytest.approx(0.5 * 200 / 250)


def test_flows_of_a_nic_for_each_gpu() -> None:
    case = case_of(2, spanning(1, gpus=4), RACKS, gpus=2, nics="gpu")
    assert [row[3:5] for row in rows(carried(case))] == [(1, 2), (1, 2), (0, 0), (0, 0)]


def test_models_without_bandwidth_count_who_crosses() -> None:
    outcome = carried(case_of(2, spanning(1), RACKS, model="fixed"))
    assert [row[3:] for row in rows(outcome)] == [(1, 1, 0.0), (1, 1, 0.0), (0, 0, 0.0), (0, 0, 0.0)]
    assert outcome.summary["links"][0]["largest_share"] == 0.0


def test_uplinks_that_nobody_crosses_have_no_rows() -> None:
    outcome = carried(case_of(2, spanning(1), [{"name": "rack", "bandwidth": 1.0, "servers": 2}]))
    assert rows(outcome) == []
    (tier,) = outcome.summary["links"]
    assert (tier["group"], tier["mean_share"], tier["gpu_hours_lost"]) == ("0", 0.0, 0.0)


def test_virtual_clusters_have_uplinks_of_their_own() -> None:
    case = case_of(4, spanning(2), [{"name": "rack", "bandwidth": TEN}])
    for number, server in enumerate(case.servers):
        server |= {"vc": "ab"[number // 2], "rack": "xy"[number % 2]}
    for job, vc in zip(case.jobs, "ab", strict=True):
        job["vc"] = vc
    outcome = carried(case)
    assert [row[:5] for row in rows(outcome)[:4]] == [
        (vc, "rack", group, 0.0, 1) for vc in "ab" for group in "xy"
    ]
    assert outcome.summary["links"][0] | {"mean_share": 0} == {
        **{"tier": "rack", "vc": "a", "group": "x", "mean_share": 0},
        **{"largest_share": 0.5, "gpu_hours_lost": 0.0},
    }


def test_a_run_without_tiers_has_none(tmp_path: Path) -> None:
    outcome = case_of(2, spanning(1), []).replay()
    assert outcome.links is None
    assert "links" not in outcome.summary
    outcome.write(tmp_path / "none")
    assert not (tmp_path / "none" / "links.parquet").exists()


def test_what_is_written_is_read_again_and_audited(tmp_path: Path) -> None:
    case = shared()
    outcome = case.replay()
    outcome.write(tmp_path / "own")
    again = Outcome.read(tmp_path / "own")
    assert again.links is not None
    assert again.links.equals(outcome.links)
    assert again.summary["links"] == outcome.summary["links"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda links: links.head(links.height - 1), "links.parquet has 7 rows; expected 8"),
        (lambda links: links.with_columns(jobs=pl.col("jobs") + 1), "jobs is 2; expected 1"),
        (lambda links: links.with_columns(bytes_per_second=pl.col("bytes_per_second") * 1.001), "expected"),
        (lambda links: links.with_columns(group=pl.lit("2")), "group is 2; expected 0"),
    ],
)
def test_the_audit_sees_a_wrong_row(change: Any, says: str) -> None:
    case = shared()
    outcome = case.replay()
    outcome.links = change(outcome.links)
    found = ringbco.audit(outcome, case.frame())
    assert {finding.code for finding in found} == {"links"}
    assert says in str(found[0])


@pytest.mark.parametrize("key", ["group", "mean_share", "largest_share", "gpu_hours_lost"])
def test_the_audit_sees_a_wrong_figure(key: str) -> None:
    case = shared()
    outcome = case.replay()
    (tier,) = outcome.summary["links"]
    tier[key] = "2" if key == "group" else tier[key] + 0.01
    (finding,) = ringbco.audit(outcome, case.frame())
    assert (finding.code, key in str(finding)) == ("summary", True)


def test_an_uplink_that_becomes_as_narrow_as_one_above_takes_the_loss() -> None:
    # Alone, each job has TEN / 4 of its zone. Beside the other, the rack leaves it as much, and is lower.
    jobs = spanning(2)
    jobs[1]["submit_time"] = 100.0
    tiers: list[dict[str, Any]] = [
        {"name": "rack", "bandwidth": TEN / 2, "xi1": 1.0},
        {"name": "zone", "bandwidth": TEN / 4, "xi1": 0.5},
    ]
    case = case_of(4, jobs, tiers)
    for server, group in zip(case.servers, "abab", strict=True):
        server |= {"rack": group, "zone": group}
    outcome = carried(case)
    rack, zone = (tier["gpu_hours_lost"] for tier in outcome.summary["links"])
    # Over the zone an iteration takes 5 s instead of 2: together they run 400 s.
    lost = 2 * 3 / 5 / 3600
    assert (rack, zone) == (pytest.approx(2 * 400 * lost), pytest.approx(2 * 100 * lost))
