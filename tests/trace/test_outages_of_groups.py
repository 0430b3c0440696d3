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
from ringbco.errors import InputError
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
            "row 1 (line 2), column pod: east: expected a server or a pod, one of them; leave one of the two",
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
