"""Placement compact, within_tier and segments by hand: where jobs lie, how long they wait, who refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.cluster.spec import Cluster
from ringbco.cluster.tiers import Tier
from ringbco.errors import DecisionError, InputError, UsageError

TYPES = {"segment": pl.UInt32, "gpus_per_pod": pl.UInt32, "within_tier": pl.String, "segment_tier": pl.String}


def racks(*gpus: int, rack: int = 2, pod: int | None = None) -> Cluster:
    """Servers in racks of so many, and racks in pods."""
    tiers = [Tier("rack", 1e10, servers=rack)]
    if pod is not None:
        tiers.append(Tier("pod", 1e10, servers=pod))
    return Cluster(np.array(gpus, np.uint32), tiers=tuple(tiers))


def table(*jobs: tuple[float, int, float], **columns: list[Any]) -> pl.DataFrame:
    """Of (submit_time, num_gpus, duration): jobs a, b, c."""
    return pl.DataFrame(
        {
            "job_id": list("abcdefgh"[: len(jobs)]),
            "submit_time": [float(job[0]) for job in jobs],
            "num_gpus": [job[1] for job in jobs],
            "duration": [float(job[2]) for job in jobs],
            **columns,
        },
        schema_overrides=TYPES,
    )


def run(frame: pl.DataFrame, cluster: Cluster, **options: Any) -> ringbco.Outcome:
    given = {"policy": "fifo", "placement": "compact", "model": "fixed"} | options
    outcome = ringbco.replay(frame, cluster, **given)
    assert ringbco.audit(outcome, frame) == []
    return outcome


def parts(outcome: ringbco.Outcome, job: str) -> dict[int, int]:
    assert outcome.allocations is not None
    held = outcome.allocations.filter(pl.col("job_id") == job)
    return dict(held.select("server", "num_gpus").rows())


def test_without_tiers_servers_are_the_children_of_the_cluster() -> None:
    # Idle 1 4 4 4 before b, 0 4 4 4 before c: no server holds 9, the third then what is missing.
    frame = table((0, 3, 9), (1, 1, 9), (2, 9, 9))
    outcome = run(frame, Cluster(np.array([4, 4, 4, 4], np.uint32)))
    assert parts(outcome, "b") == {0: 1}
    assert parts(outcome, "c") == {1: 4, 2: 4, 3: 1}


def test_the_tightest_rack_and_what_it_lacks() -> None:
    """docs/tiers.md#placement: idle before d: 1 0 | 2 4, before e: 1 0 | 1 0."""
    outcome = run(table((0, 3, 9), (0, 4, 9), (0, 2, 9), (1, 5, 5), (2, 2, 3)), racks(4, 4, 4, 4))
    assert [[*parts(outcome, job)] for job in "abc"] == [[0], [1], [2]]
    assert parts(outcome, "d") == {2: 1, 3: 4}
    assert parts(outcome, "e") == {0: 1, 2: 1}


def test_a_tier_is_waited_for() -> None:
    """docs/tiers.md#placement: b waits for a rack, c passes it."""
    frame = table((0, 3, 100), (0, 4, 200), (0, 3, 300), (0, 4, 400), (1, 2, 50), (2, 2, 50))
    frame = frame.with_columns(within_tier=pl.Series([None] * 4 + ["rack", "rack?"]))
    outcome = run(frame, racks(4, 4, 4, 4), queue="skip")
    assert outcome.jobs["start_time"].to_list()[4:] == [100.0, 2.0]
    assert outcome.jobs["wait_fragmented"].to_list()[4] == 49.0  # f takes what is idle for 50 s
    assert outcome.jobs["wait_gpus"].to_list()[4] == 50.0
    assert parts(outcome, "f") == {0: 1, 2: 1}


def test_segments_are_whole() -> None:
    """36 trays in segments of 12 on three racks of 17: 12 + 12 + 12, and not 17 + 17 + 2."""
    cluster = racks(*[1] * 51, rack=17)
    frame = table((0, 36, 9), segment=[12], segment_tier=["rack"])
    held = parts(run(frame, cluster), "a")
    assert np.bincount(np.array([*held]) // 17).tolist() == [12, 12, 12]
    plain = parts(run(frame.drop("segment", "segment_tier"), cluster), "a")
    assert np.bincount(np.array([*plain]) // 17).tolist() == [17, 17, 2]


def test_a_wish_is_the_first_region_that_is_tried() -> None:
    # Pods of 2 racks of 2 servers of 2 GPUs. a fills pod 0 but for 2 GPUs; b finds 3 segments in pod 1 alone.
    cluster = racks(*[2] * 8, rack=2, pod=4)
    frame = table((0, 6, 9), (1, 6, 9), (2, 4, 9))
    frame = frame.with_columns(
        segment=pl.Series([None, 2, 2], dtype=pl.UInt32),
        segment_tier=pl.Series([None, "rack", "rack"]),
        within_tier=pl.Series([None, "pod?", "pod?"]),
    )
    outcome = run(frame, cluster)
    assert {server // 4 for server in parts(outcome, "b")} == {1}
    # No pod holds c; the cluster does.
    assert {server // 4 for server in parts(outcome, "c")} == {0, 1}
    assert outcome.jobs["start_time"].to_list() == [0.0, 1.0, 2.0]


def test_whole_pods_are_taken() -> None:
    # Room for pods of 3: 3 3 | 3 3. Two racks of 6: the first; and 3 each.
    frame = table((0, 6, 9), gpus_per_pod=[3])
    assert parts(run(frame, racks(5, 5, 5, 5)), "a") == {0: 3, 1: 3}


def test_others_make_room_in_the_tier() -> None:
    # One server of 4 cannot be freed for 3 (each has a job of priority 2), but rack 1 can: its jobs of 1.
    jobs = [(0, 2, 99)] * 8 + [(5, 4, 9)]
    frame = table(*jobs[:7], (5, 3, 9)).with_columns(
        priority=pl.Series([2, 1, 2, 1, 2, 1, 1, 2], dtype=pl.Int32),
        within_tier=pl.Series([None] * 7 + ["rack"]),
    )
    outcome = run(frame, racks(4, 4, 4, 4), evict=True)
    assert outcome.jobs["start_time"].to_list()[7] == 5.0
    assert len({server // 2 for server in parts(outcome, "h")}) == 1


def test_what_no_rack_could_hold_is_too_large() -> None:
    frame = table((0, 9, 9), (0, 8, 9)).with_columns(within_tier=pl.lit("rack"))
    with pytest.raises(
        InputError, match=r"'a': asks for 9 GPUs in one group of its tier \(within_tier\), but no"
    ):
        run(frame, racks(4, 4, 4, 4))
    kept = run(frame, racks(4, 4, 4, 4), oversize="drop")
    assert kept.jobs["job_id"].to_list() == ["b"]
    frame = table((0, 12, 9), segment=[6], segment_tier=["server"])
    with pytest.raises(
        InputError, match=r"asks for 2 segments of 6 GPUs, which no region of its cluster could"
    ):
        run(frame, racks(4, 4, 4, 4))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"within_tier": "pod"},
            r"column within_tier: pod: expected a tier of the cluster: server, rack; name",
        ),
        (
            {"segment": 3},
            r"column segment: 3: expected nothing where segment_tier is empty; fill in segment_tier",
        ),
        (
            {"segment_tier": "rack"},
            r"column segment_tier: rack: expected nothing where segment is empty; fill",
        ),
        (
            {"segment": 4, "segment_tier": "rack"},
            r"column segment: 4: expected a divisor of num_gpus; this row",
        ),
        (
            {"segment": 3, "segment_tier": "rack", "max_gpus": 7},
            r"column segment: 3: expected nothing for a job whose max_gpus is not num_gpus; this row has",
        ),
        (
            {"segment": 3, "segment_tier": "rack", "gpus_per_pod": 2},
            r"column segment: 3: expected a multiple of gpus_per_pod; this row has gpus_per_pod 2",
        ),
        (
            {"segment": 6, "segment_tier": "rack?"},
            r"column segment_tier: rack\?: expected a tier of the cluster",
        ),
    ],
)
def test_bad_columns_are_refused(columns: dict[str, Any], said: str) -> None:
    frame = table((0, 6, 9), **{name: [value] for name, value in columns.items()})
    with pytest.raises(InputError, match=said) as caught:
        run(frame, racks(4, 4, 4, 4))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("column", ["within_tier", "segment"])
def test_other_placements_refuse_the_columns(column: str) -> None:
    columns: dict[str, list[Any]] = {"within_tier": ["rack?"]}
    if column == "segment":
        columns = {"segment": [2], "segment_tier": ["rack"]}
    with pytest.raises(
        UsageError, match=rf"placement: consolidate: expected compact .* has {column}; or a table"
    ):
        run(table((0, 4, 9), **columns), racks(4, 4), placement="consolidate")


def test_plans_and_packing_refuse_the_columns() -> None:
    frame = table((0, 2, 9), within_tier=["server"])
    for refuses in (ringbco.plan, ringbco.pack):
        with pytest.raises(
            InputError, match=r"column within_tier: server: expected nothing, as .* knows no tiers"
        ):
            refuses(frame, "2x4")


@pytest.mark.parametrize(
    ("wish", "bad", "good", "said"),
    [
        (
            {"within_tier": ["rack"]},
            [(1, 2), (2, 2)],
            [(0, 2), (1, 2)],
            "servers 1 and 2 lie in two groups of its",
        ),
        (
            {"segment": [2], "segment_tier": ["rack"]},
            [(0, 3), (2, 1)],
            [(0, 1), (1, 1), (2, 2)],
            "segments of 2 GPUs: 3 in the group of server 0",
        ),
    ],
)
def test_given_servers_lie_in_the_tier(
    wish: dict[str, list[Any]], bad: list[tuple[int, int]], good: list[tuple[int, int]], said: str
) -> None:
    run = ringbco.Simulation(table((0, 4, 9), **wish), racks(4, 4, 4, 4), model="fixed", placement="compact")
    run.advance()
    with pytest.raises(DecisionError, match=said):
        run.start(0, bad)
    with pytest.raises(DecisionError, match=r"within_tier, segment\), which binpack does not keep"):
        run.start(0, placement="binpack")
    run.start(0, good)
    with pytest.raises(DecisionError, match=said):
        run.move({0: bad})


def test_the_audit_finds_stays_outside_their_tier() -> None:
    frame = table((0, 4, 9), (0, 4, 9))
    cluster = racks(2, 2, 2, 2, rack=1, pod=2)
    outcome = run(frame, cluster)
    held = frame.with_columns(within_tier=pl.lit("rack"))
    assert "gangs" in {finding.code for finding in ringbco.audit(outcome, held)}
    held = frame.with_columns(segment=pl.lit(4, pl.UInt32), segment_tier=pl.lit("rack"))
    assert "gangs" in {finding.code for finding in ringbco.audit(outcome, held)}


def test_a_record_may_lie_anywhere(tmp_path: Path, invoke: Invoke) -> None:
    frame = table((0, 4, 9), within_tier=["rack"]).with_columns(
        recorded_start=pl.lit(0.0), recorded_servers=pl.lit("1:2 2:2")
    )
    frame.write_parquet(tmp_path / "jobs.parquet")
    text = (
        '[[network.tiers]]\nname = "rack"\nservers = 2\nbandwidth = 1e10\n[[servers]]\ncount = 4\ngpus = 4\n'
    )
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    given = ["replay", tmp_path / "jobs.parquet", "--cluster", tmp_path / "c.toml", "--policy", "recorded"]
    told = " ".join(invoke(*map(str, given), "-o", str(tmp_path / "r")).stderr.split())
    assert "1 job outside their within_tier or segments, as recorded" in told


def test_why_names_the_tier(tmp_path: Path, invoke: Invoke) -> None:
    frame = table((0, 3, 100), (0, 3, 200), (1, 2, 50)).with_columns(
        within_tier=pl.Series([None, None, "server"])
    )
    frame.write_csv(tmp_path / "jobs.csv")
    words = ["--policy", "fifo", "--placement", "compact", "--model", "fixed", "-o", str(tmp_path / "r")]
    invoke("replay", str(tmp_path / "jobs.csv"), "--cluster", "2x4", *words)
    told = " ".join(invoke("why", str(tmp_path / "r"), "c").stdout.split())
    assert "It requests 2 GPUs, all in one server." in told
    assert "fragmented: at most 1 in one server, which must hold all." in told
