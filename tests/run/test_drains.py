"""Replays with servers that drain, by hand: docs/outages.md#drains."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.audits import check_outcome
from ringbco.errors import DecisionError, InputError, UsageError
from ringbco.result.outcome import Outcome
from ringbco.run.state import State
from ringbco.trace.jobs import as_table

EXAMPLE = "job_id,submit_time,num_gpus,duration\na,0,4,100\nb,0,4,60\nc,55,4,30\nd,95,8,10\ne,101,4,20\n"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def jobs(*rows: tuple[str, float, int, float], **columns: list[Any]) -> pl.DataFrame:
    names = ("job_id", "submit_time", "num_gpus", "duration")
    return pl.DataFrame(list(rows), schema=names, orient="row").with_columns(
        **{name: pl.Series(values) for name, values in columns.items()}
    )


def closed(*rows: tuple[int, float, float | None, str | None]) -> pl.DataFrame:
    """Rows of the file of outages: server, from, to, kind."""
    kinds = {"server": pl.UInt32, "down_at": pl.Float64, "up_at": pl.Float64, "kind": pl.String}
    return pl.DataFrame(list(rows), schema=kinds, orient="row")


def replay(table: pl.DataFrame, cluster: str, outages: pl.DataFrame, **options: Any) -> Outcome:
    """A run that its own audit passes."""
    given = {"policy": "fifo", "model": "fixed", "preempt_cost": 0.0} | options
    outcome = ringbco.replay(table, cluster, outages=outages, **given)
    assert check_outcome(outcome, as_table(table)).findings == []
    return outcome


def times(outcome: Outcome) -> dict[str, tuple[float, float]]:
    rows = outcome.jobs.select("job_id", "start_time", "finish_time").iter_rows()
    return {job: (start, finish) for job, start, finish in rows}


def test_the_documented_example(invoke: Invoke) -> None:
    Path("jobs.csv").write_text(EXAMPLE)
    Path("drains.csv").write_text("server,down_at,up_at,kind\n0,50,300,drain\n")
    command = "replay jobs.csv --cluster 2x4 --policy fifo --queue skip --model fixed --outages drains.csv"
    assert invoke(*command.split(), "-o", "drained", "--decisions").returncode == 0
    outcome = Outcome.read("drained")
    assert times(outcome) == {"a": (0, 100), "b": (0, 60), "c": (60, 90), "d": (300, 310), "e": (101, 121)}
    assert outcome.outages is not None
    assert outcome.outages["kind"].to_list() == ["drain"]
    assert outcome.servers is not None
    assert outcome.servers.rows() == [(0, 50.0, "drain", None), (0, 300.0, "up", None)]
    summary = outcome.summary
    assert summary["drained_gpu_hours"] == pytest.approx(4 * 200 / 3600)
    held = 4 * 100 + 4 * 60 + 4 * 30 + 8 * 10 + 4 * 20
    assert summary["utilisation"] == pytest.approx(held / (8 * 310 - 4 * 200))
    assert summary["failures"] == 0
    assert invoke("audit", "drained").returncode == 0
    assert "the same" in invoke("replay", "--again", "drained").stdout
    followed = ("replay", "jobs.csv", "--cluster", "2x4", "--model", "fixed", "-o", "followed")
    Path("log.parquet").write_bytes(Path("drained/decisions.parquet").read_bytes())
    assert invoke(*followed, "--policy", "log:log.parquet").returncode == 0
    again = Outcome.read("followed")
    assert again.jobs.equals(outcome.jobs)
    assert again.summary["drained_gpu_hours"] == summary["drained_gpu_hours"]


def test_a_column_kind_without_drains_changes_no_figure() -> None:
    table = jobs(("a", 0, 4, 100), ("b", 0, 4, 60))
    plain = replay(table, "2x4", closed((0, 50, 60, None)).drop("kind"))
    plain.write("plain")
    assert Outcome.read("plain").outages is not None
    said = replay(table, "2x4", closed((0, 50, 60, "down")))
    assert plain.outages is not None
    assert "kind" not in plain.outages.columns
    assert said.jobs.equals(plain.jobs)
    assert "drained_gpu_hours" not in said.summary


def test_an_outage_in_a_drain() -> None:
    table = jobs(("a", 0, 4, 400), ("b", 10, 4, 30))
    rows = closed((0, 50, 300, "drain"), (0, 100, 150, None), (0, 40, 45, "drain"))
    outcome = replay(table, "1x4", rows)
    # a fails at 100 and waits until the drain is over, not only the outage.
    assert outcome.jobs["failures"].to_list() == [1, 0]
    assert times(outcome)["a"] == (0.0, 300.0 + 400.0)
    assert outcome.servers is not None
    changes = [(0, 40.0, "drain"), (0, 45.0, "up"), (0, 50.0, "drain"), (0, 100.0, "down"),
               (0, 150.0, "drain"), (0, 300.0, "up")]  # fmt: skip
    assert outcome.servers.select("server", "time", "what").rows() == changes
    assert outcome.summary["drained_gpu_hours"] == pytest.approx(4 * 150 / 3600)


def test_what_touches_at_one_instant() -> None:
    # The drain ends, then the server goes down: who runs there fails, and nobody starts in between.
    table = jobs(("a", 0, 4, 100), ("b", 10, 4, 30))
    outcome = replay(table, "1x4", closed((0, 20, 60, "drain"), (0, 60, 80, "down")), checkpoint_interval=0.0)
    assert times(outcome) == {"a": (0.0, 120.0), "b": (120.0, 150.0)}
    # A job that ends as a drain begins gives its GPUs to nobody.
    outcome = replay(jobs(("a", 0, 4, 20), ("b", 10, 4, 30)), "1x4", closed((0, 20, 60, "drain")))
    assert times(outcome)["b"] == (60.0, 90.0)


def test_slots() -> None:
    table = jobs(("a", 0, 4, 20), ("b", 10, 4, 30))
    rows = closed((0, 15, 18, "drain"), (0, 21, 55, "drain"))
    outcome = replay(table, "1x4", rows, clock="slot", slot=10.0)
    # [15, 18) lies in a slot; [21, 55) counts from 30 to 60, when b runs.
    assert times(outcome) == {"a": (0.0, 20.0), "b": (20.0, 50.0)}
    assert outcome.servers is not None
    assert outcome.servers["time"].to_list() == [30.0]


@pytest.mark.parametrize("policy", ["srtf", "tiresias", "afs", "repack", "elastic-srtf"])
def test_policies_that_stop_jobs_leave_a_draining_server_alone(policy: str) -> None:
    table = jobs(("long", 0, 4, 10_000), ("short", 20, 4, 10), ("next", 30, 4, 10))
    outcome = replay(table, "1x4", closed((0, 10, 9_000, "drain")), policy=policy)
    # Nobody takes the GPUs of the long job, and it ends or waits after the drain.
    stays = outcome.stays.filter(pl.col("job_id") == "long")
    assert stays["end_time"][0] >= 9_000
    assert outcome.jobs["preemptions"].sum() <= 1
    assert min(start for job, (start, _) in times(outcome).items() if job != "long") >= 9_000


def test_owners_priorities_and_services_take_nothing_there() -> None:
    table = jobs(("a", 0, 4, 100), ("b", 20, 4, 10), priority=[0, 1])
    drain = closed((0, 10, 60, "drain"))
    assert times(replay(table, "1x4", drain, evict=True))["b"] == (60.0, 70.0)
    owners = jobs(("a", 0, 4, 100), ("b", 20, 4, 10), user=["u", "v"])
    quota = pl.DataFrame({"user": ["u", "v"], "gpus": [0, 4], "borrow": [True, True]})
    assert times(replay(owners, "1x4", drain, quota=quota))["b"] == (60.0, 70.0)
    services = pl.DataFrame(
        {"service": ["chat", "chat"], "time": [20.0, 80.0], "replicas": [1, 0], "gpus_per_replica": [4, 4]}
    )
    outcome = replay(jobs(("a", 0, 4, 100)), "1x4", drain, services=services)
    assert outcome.replicas is not None
    assert outcome.replicas["start_time"].to_list() == [60.0]


def test_a_replica_on_a_draining_server_serves_on() -> None:
    services = pl.DataFrame(
        {"service": ["chat", "chat"], "time": [0.0, 80.0], "replicas": [1, 0], "gpus_per_replica": [2, 2]}
    )
    table = jobs(("a", 0, 2, 30), ("b", 20, 2, 10))
    outcome = replay(table, "1x4", closed((0, 10, 60, "drain")), services=services)
    assert outcome.replicas is not None
    assert outcome.replicas.select("start_time", "end_time").rows() == [(0.0, 70.0)]
    assert outcome.summary["service_attainment"] == 1.0
    assert times(outcome)["b"] == (60.0, 70.0)
    assert outcome.summary["drained_gpu_hours"] == pytest.approx(2 * 30 / 3600)


@pytest.mark.parametrize("queue", ["easy", "conservative"])
def test_nobody_reserves_what_a_draining_server_gives_back(queue: str) -> None:
    # Were server 0's GPUs free at 100, head would have them then, and filler, which takes 500 s, no turn.
    table = jobs(("a", 0, 4, 100), ("b", 0, 2, 300), ("head", 20, 6, 10), ("filler", 30, 2, 500))
    outcome = replay(table, "2x4", closed((0, 10, 1_000, "drain")), queue=queue)
    assert times(outcome)["filler"] == (30.0, 530.0)
    assert times(outcome)["head"] == (1_000.0, 1_010.0)


class Emptying(ringbco.Policy):
    """Stops what runs on draining servers; starts what fits."""

    seen: ClassVar[list[tuple[float, list[int], list[bool]]]] = []

    def decide(self, state: State) -> None:
        self.seen.append((state.now, state.draining.tolist(), state.up.tolist()))
        draining = {*state.draining.tolist()}
        assert not state.protected.size
        for row in state.running.tolist():
            if any(server in draining for server, _ in state.allocation(row)):
                with pytest.raises(DecisionError, match="server 0 has 0 idle GPUs"):
                    state.move({row: [(0, 2)]})
                with pytest.raises(DecisionError, match="places no 3 GPUs"):
                    state.resize(row, 3)
                state.stop([row])
        state.start(state.waiting, strict=False)


def test_a_custom_policy_may_empty_a_server() -> None:
    Emptying.seen.clear()
    table = jobs(("a", 0, 4, 100), min_gpus=[2], max_gpus=[4])
    outcome = ringbco.replay(
        table,
        "2x4",
        Emptying(),
        model="fixed",
        preempt_cost=0.0,
        outages=closed((0, 40, 200, "drain"), (1, 0, 50, "down")),
    )
    assert Emptying.seen[1] == (40.0, [0], [False, False])
    assert outcome.stays.select("start_time", "end_time").rows() == [(0.0, 40.0), (50.0, 110.0)]
    assert outcome.allocations is not None
    assert outcome.allocations["server"].to_list() == [0, 1]


def test_a_failed_resize_on_a_draining_server_changes_nothing() -> None:
    class Growing(ringbco.Policy):
        def decide(self, state: State) -> None:
            state.start(state.waiting, gpus=2)
            if state.now == 40.0:
                with pytest.raises(DecisionError, match="places no 4 GPUs"):
                    state.resize(0, 4)

    table = jobs(("a", 0, 4, 100), min_gpus=[2], max_gpus=[4])
    outcome = ringbco.replay(table, "1x4", Growing(), model="fixed", outages=closed((0, 40, 90, "drain")))
    assert outcome.stays.height == 1


def test_idle_gpus_of_a_draining_server_draw_power() -> None:
    cluster = Path("power.toml")
    cluster.write_text(
        "[gpu_types.A]\nspeed = 1.0\nidle_watts = 100\nbusy_watts = 300\n"
        '[[servers]]\ncount = 1\ngpus = 4\ngpu_type = "A"\n'
    )
    table = jobs(("a", 0, 4, 100), ("b", 500, 4, 100))
    rows = closed((0, 50, 400, "drain"))
    outcome = replay(table, str(cluster), rows, sleep_after=50.0)
    # On until 400, asleep from 450 to 500.
    idle = 4 * (450 - 100) * 100
    assert outcome.summary["energy_kwh"] == pytest.approx((idle + 4 * 200 * 300) / 3.6e6)
    assert outcome.servers is not None
    assert outcome.servers.select("time", "what").rows() == [
        (50.0, "drain"), (400.0, "up"), (450.0, "slept"), (500.0, "woke"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("0,5,9,drained", "row 2 (line 3), column kind: drained: expected down or drain"),
        ("0,9,5,drain", "row 2 (line 3), column up_at"),
    ],
)
def test_bad_rows(row: str, told: str) -> None:
    Path("o.csv").write_text(f"server,down_at,up_at,kind\n0,1,2,\n{row}\n")
    with pytest.raises(InputError) as caught:
        ringbco.replay(jobs(("a", 0, 1, 1)), "1x1", outages="o.csv")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_maintenance_knows_no_drains() -> None:
    with pytest.raises(InputError, match="column kind: drain: expected down"):
        ringbco.replay(jobs(("a", 0, 1, 1)), "1x1", maintenance=closed((0, 1, 2, "drain")))


def test_plans_refuse_drains_and_the_bound_holds() -> None:
    table, rows = jobs(("a", 0, 4, 100), ("b", 0, 4, 60)), closed((0, 50, 300, "drain"))
    with pytest.raises(UsageError, match="outages"):
        ringbco.plan(table, "1x4", model="fixed", outages=rows)  # type: ignore[call-arg]
    least = ringbco.bound(table, "1x4", model="fixed")
    assert replay(table, "1x4", rows).summary["mean_jct"] >= least.mean_jct


def test_shares_of_gpus() -> None:
    table = jobs(("a", 0, 1, 100), ("b", 0, 1, 40), ("c", 20, 1, 10), gpu_share=[0.5, 0.5, 0.25])
    outcome = replay(table, "1x1", closed((0, 10, 60, "drain")), placement="first-fit")
    # What b gives back at 40, half of a GPU, is nobody's until 60.
    assert times(outcome)["c"] == (60.0, 70.0)
    assert outcome.summary["drained_gpu_hours"] == 0.0  # a holds some of the GPU


def test_the_audit_finds_a_start_on_a_draining_server() -> None:
    table = jobs(("a", 0, 4, 100), ("b", 60, 4, 20))
    outcome = replay(table, "1x4", closed((0, 110, 130, "drain")))
    outcome.outages = closed((0, 90, 130, "drain")).with_columns(cause=pl.lit(None, pl.String))
    found = check_outcome(outcome, as_table(table)).findings
    assert any("takes GPUs of server 0, which drains from 90 to 130 s" in str(each) for each in found)


@pytest.mark.parametrize("down", [0.0, 50.0, 80.0])
@pytest.mark.parametrize("drain", [0.0, 50.0, 80.0])
def test_a_server_comes_back_once_where_both_end_at_once(down: float, drain: float) -> None:
    outages = closed((0, down, 100.0, "down"), (0, drain, 100.0, "drain"))
    outcome = replay(jobs(("a", 0.0, 4, 200.0)), "2x4", outages)
    assert outcome.servers is not None
    seen = [
        (time, what) for time, what in ((drain, "drain"), (down, "down")) if what == "down" or drain < down
    ]
    assert outcome.servers.select("time", "what").rows() == [*seen, (100.0, "up")]
