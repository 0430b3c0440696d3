"""Outages and maintenance of a group of servers: rows with a column called as a tier of the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ringbco
from conftest import Invoke
from ringbco.cluster.spec import Cluster
from ringbco.cluster.tiers import Tier
from ringbco.errors import InputError, UsageError
from ringbco.trace.outages import Maintenance, Outages
from ringbco.trace.side_table import ReadContext

RACKS = Cluster(
    [2] * 5,
    server_names=("g0", "g1", "g2", "g3", "4"),
    tiers=(Tier("rack", 1e9, 2), Tier("pod", 1e9, groups=("east", "east", "1", "1", "west"))),
)
FILE = """
[[network.tiers]]
name = "rack"
servers = 2
bandwidth = "100Gb/s"

[[network.tiers]]
name = "pod"
bandwidth = "100Gb/s"

[[servers]]
count = 4
gpus = 2
pod = "east"

[[servers]]
gpus = 2
pod = "west"
"""


def read(table: Any, kind: type[Outages] = Outages) -> list[tuple[Any, ...]]:
    found = kind.read(table, ReadContext.of(RACKS)).frame
    return found.select("server", "down_at", "up_at").rows()


def test_all_servers_of_a_group_go_down_at_one_instant(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    path.write_text("rack,down_at,up_at\n1,10,20\n2,30,\n")
    rows = [(2, 10.0, 20.0), (3, 10.0, 20.0), (4, 30.0, None)]
    assert read(path) == rows
    assert read(path, Maintenance) == rows
    assert read(pl.read_csv(path)) == rows
    path.write_text("pod,server,down_at,up_at\neast,,1,2\n,g3,3,4\n,4,5,6\nwest,,7,8\n")
    assert read(path) == [(0, 1, 2), (1, 1, 2), (3, 3, 4), (4, 5, 6), (4, 7, 8)]


def test_a_name_that_looks_like_an_index_is_a_name() -> None:
    # Pod 1 by its name is pod 1 by its index, too: the second. Pod 2 is west by its index.
    frame = pl.DataFrame({"pod": ["1", "2", "0"], "down_at": [1.0, 2.0, 3.0], "up_at": [9.0, 9.0, 9.0]})
    assert [row[0] for row in read(frame)] == [2, 3, 4, 0, 1]
    swapped = Cluster([1, 1], tiers=(Tier("rack", 1e9, groups=("1", "0")),))
    frame = pl.DataFrame({"rack": ["1"], "down_at": [1.0], "up_at": [2.0]})
    assert Outages.read(frame, ReadContext.of(swapped)).frame["server"].to_list() == [0]


def test_numbers_of_a_frame() -> None:
    for racks in ([2, None], [2.0, None], [2.0, float("nan")]):
        frame = pl.DataFrame(
            {"rack": racks, "server": [None, 0], "down_at": [1.0, 2.0], "up_at": [9.0, 9.0]}, strict=False
        )
        assert read(frame) == [(4, 1.0, 9.0), (0, 2.0, 9.0)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "rack,server,down_at,up_at\n0,,1,2\n1,3,1,2\n",
            "row 2 (line 3), column rack: 1: expected a server or a rack, one of them; leave one",
        ),
        (
            "rack,pod,down_at,up_at\n0,east,1,2\n",
            "row 1 (line 2), column pod: east: expected a server, a rack or a pod, one of them; leave",
        ),
        (
            "pod,down_at,up_at\neast,1,2\nwset,1,2\n",
            "row 2 (line 3), column pod: wset: expected the name or the index, from 0, of a"
            " pod of the cluster;"
            " did you mean west?",
        ),
        (
            "rack,down_at,up_at\n3,1,2\n",
            "row 1 (line 2), column rack: 3: expected the name or the index, from 0, of a"
            " rack of the cluster;"
            " the cluster has 0, 1, 2",
        ),
        (
            "rack,down_at,up_at\n-1,1,2\n",
            "column rack: -1: expected the name or the index",
        ),
        (
            "rack,down_at,up_at\n1.5,1,2\n",
            "column rack: 1.5: expected the name or the index",
        ),
        ("rack,down_at,up_at\n0,1,2\n,1,2\n", "row 2 (line 3), column server"),
        (
            "rack,down_at,up_at\n0,1,2\n1,5,2\n",
            "row 2 (line 3), column up_at: 2: expected",
        ),
        ("rack,down_at,up_at\n0,1,\n9,1,2\n1,x,2\n", "row 2 (line 3), column rack: 9"),
        ("rack,down_at,up_at\n0,x,\n9,1,2\n", "row 1 (line 2), column down_at: x"),
        ("down_at,up_at\n1,2\n", "has no column server; outages have the columns server, down_at, up_at"),
    ],
)
def test_bad_rows(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "o.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(path)
    assert told in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert "\0" not in str(caught.value)


def test_a_cluster_without_such_a_tier(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    path.write_text("rack,down_at,up_at\n0,1,2\n")
    with pytest.raises(InputError, match="has no column server"):
        Outages.read(path, ReadContext.of(Cluster([1])))
    # Where it has none, the column is one of those that are ignored.
    path.write_text("rack,server,down_at,up_at\n0,0,1,2\n")
    assert Outages.read(path, ReadContext.of(Cluster([1]))).frame.height == 1


@given(
    servers=st.integers(1, 9),
    size=st.integers(1, 4),
    rows=st.lists(st.tuples(st.booleans(), st.integers(0, 8), st.integers(0, 50)), min_size=1, max_size=6),
)
def test_a_row_of_a_group_is_a_row_of_each_server(
    servers: int, size: int, rows: list[tuple[bool, int, int]]
) -> None:
    cluster = Cluster([1] * servers, tiers=(Tier("rack", 1e9, size),))
    racks = -(-servers // size)
    mixed, plain = [], []
    for by_rack, number, down in rows:
        times = {"down_at": float(down), "up_at": down + 5.0}
        if not by_rack:
            mixed.append({"rack": None, "server": number % servers, **times})
            plain.append({"server": number % servers, **times})
            continue
        rack = number % racks
        mixed.append({"rack": rack, "server": None, **times})
        plain += [{"server": each, **times} for each in range(rack * size, min(servers, rack * size + size))]
    known = ReadContext.of(cluster)
    found = Outages.read(pl.DataFrame(mixed, infer_schema_length=None), known).frame
    assert found.equals(Outages.read(pl.DataFrame(plain), known).frame)


def test_a_run(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "c.toml").write_text(FILE)
    (tmp_path / "j.csv").write_text("job_id,submit_time,num_gpus,duration\na,0,2,100\nb,0,2,100\nc,0,2,100\n")
    (tmp_path / "o.csv").write_text("rack,pod,down_at,up_at\n0,,50,60\n,west,200,300\n")
    (tmp_path / "m.csv").write_text("rack,down_at,up_at\n1,400,500\n")
    ran = invoke(
        *("replay", "j.csv", "--cluster", "c.toml", "--policy", "fifo", "--outages", "o.csv"),
        *("--maintenance", "m.csv", "-o", "r", "-q"),
    )
    assert ran.returncode == 0, ran.stderr
    down = pl.read_parquet(tmp_path / "r" / "outages.parquet").sort("down_at", "server")
    assert down.select("server", "down_at").rows() == [(0, 50), (1, 50), (4, 200), (2, 400), (3, 400)]
    stays = pl.read_parquet(tmp_path / "r" / "stays.parquet").filter(pl.col("ended") == "failed")
    assert stays["end_time"].to_list() == [50.0, 50.0]
    assert invoke("audit", "r").returncode == 0
    again = invoke("replay", "--again", "r", "-o", "s", "-q")
    assert again.returncode == 0, again.stderr
    jobs = [(tmp_path / name / "jobs.parquet").read_bytes() for name in ("r", "s")]
    assert jobs[0] == jobs[1]
    outcome = ringbco.replay("j.csv", "c.toml", policy="fifo", outages="o.csv")
    assert outcome.outages is not None
    assert outcome.outages["server"].to_list() == [0, 1, 4]


# Drawn at random


RACKED = Cluster([2] * 7, tiers=(Tier("rack", 1e9, 3), Tier("pod", 1e9, groups=tuple("aaabbbb"))))
USUAL: dict[str, Any] = {"mtbf": "2d", "mttr": "3h", "days": 200, "seed": 4}


def test_servers_of_a_group_fail_together() -> None:
    found = ringbco.outages(RACKED, tier="rack", **USUAL).frame
    times = [found.filter(server=server).select("down_at", "up_at") for server in range(7)]
    assert all(each.height > 50 for each in times)
    assert [server for server in range(7) if times[server].equals(times[0])] == [0, 1, 2]
    assert [server for server in range(7) if times[server].equals(times[3])] == [3, 4, 5]
    assert not set(times[0]["down_at"]) & set(times[3]["down_at"])
    assert found["server"].is_sorted()
    # Up for two days on average, and down for three hours: about 94 outages of each group.
    groups = found.filter(pl.col("server").is_in([0, 3, 6]))
    assert groups.height == pytest.approx(3 * 200 / 2.125, rel=0.2)


def test_groups_of_another_tier_have_times_of_their_own() -> None:
    racks, pods = (ringbco.outages(RACKED, tier=tier, **USUAL).frame for tier in ("rack", "pod"))
    single = ringbco.outages(RACKED, **USUAL).frame
    assert not set(racks["down_at"]) & (set(pods["down_at"]) | set(single["down_at"]))
    assert ringbco.outages(RACKED, tier="server", **USUAL).frame.equals(single)
    fewer = Cluster([2] * 6, tiers=(Tier("rack", 1e9, 3),))
    assert ringbco.outages(fewer, tier="rack", **USUAL).frame.equals(racks.filter(pl.col("server") < 6))


@pytest.mark.parametrize(
    ("tier", "cluster", "told"),
    [
        ("rock", RACKED, "'rock': expected server, or a tier of the cluster (rack, pod); did you mean rack?"),
        ("rack", Cluster([1]), "'rack': expected server, or a tier of the cluster (it has none)"),
    ],
)
def test_a_tier_that_is_none(tier: str, cluster: Cluster, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        ringbco.outages(cluster, tier=tier, **USUAL)
    assert str(caught.value) == f"option tier: {told}"
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [3.0]})
    with pytest.raises(UsageError) as caught:
        ringbco.replay(jobs, cluster, policy="fifo", outages=f"draw:mtbf=1d,mttr=1h,tier={tier}")
    assert str(caught.value) == f"option tier: {told}"


def test_a_draw_of_a_run_is_that_of_the_command(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "c.toml").write_text(FILE)
    (tmp_path / "j.csv").write_text("job_id,submit_time,num_gpus,duration\na,0,2,90000\nb,0,4,90000\n")
    words = ("--cluster", "c.toml", "--mtbf", "1d", "--mttr", "1h", "--days", "30", "--tier", "rack")
    assert invoke("outages", *words, "--seed", "3", "-o", "o.parquet", "-q").returncode == 0
    draw = ("--outages", "draw:mtbf=1d,mttr=1h,seed=3,tier=rack")
    ran = invoke("replay", "j.csv", "--cluster", "c.toml", "--policy", "fifo", *draw, "-o", "r", "-q")
    assert ran.returncode == 0, ran.stderr
    drawn, run = (pl.read_parquet(path) for path in (tmp_path / "o.parquet", tmp_path / "r/outages.parquet"))
    last = float(run["down_at"].max())  # type: ignore[arg-type]
    assert run.height > 4
    columns = ["server", "down_at", "up_at"]
    assert run.select(columns).equals(drawn.filter(pl.col("down_at") <= last).select(columns))
    assert invoke("audit", "r").returncode == 0
    said = invoke("outages", *words, "--tier", "rock", "-o", "x.parquet")
    assert (said.returncode, said.stdout) == (2, "")


def test_a_job_that_no_rack_lets_end_is_refused() -> None:
    """On two racks of three servers a job of all GPUs fails with each rack: as one of two servers would."""
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [12], "duration": [36_000.0]})
    options: dict[str, Any] = {"policy": "fifo", "model": "fixed", "checkpoint_interval": float("inf")}
    racks = Cluster([2] * 6, tiers=(Tier("rack", 1e9, 3),))
    with pytest.raises(UsageError, match="at most 10,000,000 are drawn") as of_racks:
        ringbco.replay(jobs, racks, outages="draw:mtbf=3000,mttr=60,tier=rack", **options)
    with pytest.raises(UsageError) as of_servers:
        ringbco.replay(jobs, "2x6", outages="draw:mtbf=3000,mttr=60", **options)
    counts = [
        float(str(error.value).split("after ")[1].split(" outages")[0]) for error in (of_racks, of_servers)
    ]
    assert counts[0] == pytest.approx(3 * counts[1], rel=0.1)  # a row for each server of a rack
