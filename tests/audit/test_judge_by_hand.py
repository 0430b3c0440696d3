"""The judge on the examples of the pages, written down by hand."""

from typing import Any

import pytest

from judge.given import Book, Cluster, Given, Jobs, Judgement, Stay
from judge.placing import Servers
from physics import judge
from ringbco.checker.settings import GpuType, Network, Outage, Speed

NET = Network(150e9, 12.5e9, 500e9, 0.5, 0.0, 0.3)
Row = tuple[float, int, float]


def jobs(rows: list[Row], **more: Any) -> Jobs:
    """Rows of submit_time, num_gpus and duration, named a, b, c and so on."""
    submit, gpus, duration = (list(column) for column in zip(*rows, strict=True))
    none = [0.0] * len(rows)
    told = {"iterations": none, "gradient": none, "compute": none, "ideal": duration, **more}
    return Jobs([chr(97 + row) for row in range(len(rows))], submit, gpus, duration, **told)


def given(rows: Jobs, gpus: list[int], **more: Any) -> Given:
    """A run on servers of so many GPUs; options may be among the rest."""
    cluster = more.pop("cluster", Cluster(gpus, NET))
    known = {name: more.pop(name) for name in ("preempts", "outages", "speeds") if name in more}
    options = {"policy": "fifo", "placement": "consolidate", "model": "fixed", "clock": "continuous", **more}
    return Given(rows, cluster, options, **known)


def column(found: Judgement, table: str, name: str) -> list[Any]:
    return [pytest.approx(value) for value in found.tables[table][name]]


def test_a_server_that_fails() -> None:
    # docs/results.md: long is preempted by short, and its server fails.
    run = given(
        jobs([(0.0, 2, 100.0), (10.0, 2, 20.0)]),
        [2],
        preempts=True,
        outages=[Outage(0, 60.0, 70.0, "fan")],
        preempt_cost=5.0,
        checkpoint_interval=20.0,
    )
    stays = [
        Stay(0, 0.0, 10.0, ((0, 2),), "preempted", by_job=1),
        Stay(0, 30.0, 60.0, ((0, 2),), "failed", by_server=0),
        Stay(0, 70.0, 145.0, ((0, 2),)),
        Stay(1, 10.0, 30.0, ((0, 2),)),
    ]
    found = judge(run, Book(stays))
    assert found.off == {0: 0.0, 1: 0.0}
    assert column(found, "stays", "pause") == [0, 5, 5, 0]
    assert column(found, "stays", "work") == [10, 25, 70, 20]
    assert column(found, "stays", "lost") == [0, 5, 0, 0]
    assert found.tables["stays"]["began"] == ["first", "resumed", "restarted", "first"]
    assert column(found, "stays", "wait_gpus") == [0, 20, 10, 0]
    assert column(found, "jobs", "waited") == [30, 0]
    assert found.tables["servers"]["what"] == ["down", "up"]
    assert found.summary["lost_gpu_hours_by_cause"] == {"fan": pytest.approx(10 / 3600)}
    assert found.summary["goodput"] == pytest.approx(1 - (20 + 10) / (2 * 135))
    assert found.summary["makespan"] == 145


def test_jobs_that_share_a_gpu() -> None:
    # docs/shares.md: from 10 s on d shares the GPU of a, and both take half as long again.
    rows = [(0.0, 1, 100.0), (0.0, 1, 100.0), (0.0, 2, 50.0), (10.0, 1, 100.0), (10.0, 1, 40.0)]
    run = given(jobs(rows, share=[600, 500, 0, 400, 300]), [4], placement="best-fit", interference=0.5)
    held, ends = ((0, 1),), (145.0, 120.0, 50.0, 155.0, 70.0)
    places = [((0, 0),), ((0, 1),), ((0, 2), (0, 3)), ((0, 0),), ((0, 1),)]
    stays = [
        Stay(row, rows[row][0], end, ((0, 2),) if row == 2 else held, places=places[row])
        for row, end in enumerate(ends)
    ]
    found = judge(run, Book(stays))
    assert all(abs(off) < 1e-9 for off in found.off.values())
    assert column(found, "jobs", "run_contention") == [45, 20, 0, 45, 20]
    assert column(found, "jobs", "run_spread") == [0] * 5
    assert found.summary["utilisation"] == pytest.approx(
        (0.6 * 145 + 0.5 * 120 + 2 * 50 + 0.4 * 145 + 0.3 * 60) / (4 * 155)
    )


def test_a_pair_that_was_measured() -> None:
    # docs/tables.md: a has made 200 iterations when b comes at 20 s; beside it a makes 6 a second and b 4.
    speeds = [
        Speed("resnet", 0, 1, 1, 10.0, None, None),
        Speed("lm", 0, 1, 1, 5.0, None, None),
        Speed("resnet", 0, 1, 1, 6.0, "lm", 4.0),
    ]
    table = jobs(
        [(0.0, 1, 100.0), (20.0, 1, 60.0)],
        iterations=[1000.0, 300.0],
        ideal=[100.0, 60.0],
        share=[500, 500],
        model=["resnet", "lm"],
        recorded=[0, 0],
        types=[(0,), (0,)],
        speedup=[[1.0], [1.0]],
    )
    cluster = Cluster([1], NET, gpu_type=[0], types=[GpuType("V100", None, None, None)])
    run = given(table, [1], cluster=cluster, speeds=speeds, model="table")
    stays = [
        Stay(0, 0.0, 130.0, ((0, 1),), places=((0, 0),)),
        Stay(1, 20.0, 95.0, ((0, 1),), places=((0, 0),)),
    ]
    found = judge(run, Book(stays))
    assert all(abs(off) < 1e-9 for off in found.off.values())
    assert column(found, "jobs", "run_contention") == [30, 15]


def test_a_server_that_sleeps() -> None:
    # docs/energy.md: a server sleeps after 60 s and wakes in 30 s; the next job comes at 331 s.
    cluster = Cluster([1], NET, gpu_type=[0], types=[GpuType("T", 50.0, 250.0, 2.0)])
    table = jobs([(170.0, 1, 100.0), (331.0, 1, 100.0)])
    run = given(table, [1], cluster=cluster, sleep_after=60.0, wake_time=30.0)
    found = judge(run, Book([Stay(0, 170.0, 270.0, ((0, 1),)), Stay(1, 331.0, 461.0, ((0, 1),))]))
    assert found.off == {0: 0.0, 1: 0.0}
    assert column(found, "jobs", "lost_time") == [0, 30]
    assert found.tables["servers"] == {
        "server": [0, 0],
        "time": [330.0, 331.0],
        "what": ["slept", "woke"],
        "by": [None, "b"],
    }
    row = found.summary["gpu_types"][0]
    assert row["asleep_gpu_hours"] == pytest.approx(1 / 3600)
    assert row["energy_kwh"] == pytest.approx((230 * 250 + 60 * 50) / 3.6e6)
    assert found.summary["cost"] == pytest.approx(230 * 2 / 3600)


def test_rings_on_the_same_links() -> None:
    # docs/model.md: a third job on two servers makes p = 3, k = 1.5, and leaves each 61 % of the bandwidth.
    steps = 1 / (1 / (1.5 + 0.3 * 0.5))
    seconds = 2 * (12.5e9 * 0.75) / 12.5e9
    table = jobs(
        [(0.0, 4, 1.0)] * 3,
        iterations=[1.0] * 3,
        gradient=[12.5e9] * 3,
        compute=[1.0] * 3,
        ideal=[seconds + 1.0] * 3,
    )
    net = NET._replace(reduce_speed=float("inf"))
    run = given(table, [6, 6], cluster=Cluster([6, 6], net), model="rar")
    end = seconds * steps + 1.0
    found = judge(run, Book([Stay(row, 0.0, end, ((0, 2), (1, 2))) for row in range(3)]))
    assert all(abs(off) < 1e-12 for off in found.off.values())
    assert found.tables["jobs"]["max_contention"] == [3, 3, 3]
    assert found.summary["mean_contention"] == 3
    assert found.tables["timeline"]["mean_contention"][:2] == [3.0, 3.0]
    alone = 2 * (12.5e9 * 0.75) / 150e9
    assert column(found, "jobs", "run_spread") == [seconds - alone] * 3


def test_many_servers_cost_an_audit_little() -> None:
    """A number for each server with a bit for each would be 30 GB here."""
    sizes = {server: 1 + server % 3 for server in range(500_000)}
    there = Servers(sizes)
    assert [held.bit_count() for held in there.having[1:]] == [166_667, 166_667, 166_666]
    assert there.all.bit_count() == len(sizes)
    there.change([(7, 2)], -1)
    assert not there.having[2] >> 7 & 1
    assert there.having[0] == 1 << 7
