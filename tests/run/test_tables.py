"""Model `table`: measured speeds, read and checked, and what they mean to jobs (docs/tables.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.errors import InputError, UsageError

JOBS = """job_id,submit_time,num_gpus,duration,model,gpu_type,iterations
a,0,2,100,m,,1000
b,0,1,100,m,P100,
c,5,4,100,n,V100,500
"""
TABLES = """model,gpu_type,gpus,servers,rate
m,V100,1,1,10
m,v100,4,1,30
m,P100,1,1,5
m,P100,4,1,15
n,V100,4,1,7
n,V100,4,2,3
n,P100,4,1,7
"""
CLUSTER = """[[servers]]
count = 2
gpus = 4
gpu_type = "V100"
[[servers]]
count = 1
gpus = 4
gpu_type = "P100"
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job table, a table of speeds and a cluster in the present folder."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("jobs.csv", JOBS), ("speeds.csv", TABLES), ("c.toml", CLUSTER)):
        Path(name).write_text(text)


def speeds() -> pl.DataFrame:
    return pl.read_csv("speeds.csv")


def replay(**options: Any) -> ringbco.Outcome:
    return ringbco.replay("jobs.csv", "c.toml", **{"model": "table", "tables": "speeds.csv"} | options)


def test_by_hand() -> None:
    """a: 1,000 iterations at 10 + 20 / 3 a second. b: 100 s on a P100 are 500 iterations. c: 500 at 7."""
    jobs = replay(policy="fifo").jobs
    assert jobs["ideal_run_time"].to_list() == pytest.approx([60.0, 100.0, 500 / 7])
    assert jobs["finish_time"].to_list() == pytest.approx([60.0, 100.0, 5 + 500 / 7])
    assert jobs["run_on_type"].to_list() == [0.0, 0.0, 0.0]


def test_on_another_type() -> None:
    """Without b's preference, and V100s first: what waits for none takes the P100s at half the speed."""
    jobs = pl.read_csv("jobs.csv").with_columns(
        gpu_type=None, model=pl.lit("m"), iterations=pl.lit(1500), num_gpus=pl.lit(4)
    )
    done = ringbco.replay(jobs, "c.toml", model="table", tables=speeds(), policy="fifo").jobs
    assert done["run_time"].to_list() == pytest.approx([50.0, 50.0, 100.0])
    assert done["run_on_type"].to_list() == pytest.approx([0.0, 0.0, 50.0])
    assert done["ideal_run_time"].to_list() == pytest.approx([50.0] * 3)


def test_the_slot_clock_counts_whole_iterations() -> None:
    """a makes floor(10 x 16.67) = 166 a slot: 1,000 take 7 slots of 10 s."""
    jobs = replay(policy="fifo", clock="slot", slot=10.0).jobs
    assert jobs["finish_time"].to_list() == [70.0, 100.0, 90.0]


def test_spanning_takes_the_rate_of_so_many_servers() -> None:
    jobs = pl.DataFrame(
        {"job_id": ["a"], "submit_time": [0.0], "num_gpus": [4], "duration": [1.0], "model": ["n"]}
        | {"iterations": [21]}
    )
    table = speeds().filter(pl.col("gpu_type") == "V100")
    one, two = (
        ringbco.replay(jobs, cluster, model="table", tables=table, policy="fifo").jobs
        for cluster in ("1x4", "2x2")
    )
    assert (one["run_time"][0], two["run_time"][0]) == (3.0, 7.0)


@pytest.mark.parametrize("source", ["file", "frame", "parquet"])
def test_the_folder_keeps_a_copy(invoke: Invoke, source: str) -> None:
    speeds().write_parquet("speeds.parquet")
    tables = {"file": "speeds.csv", "frame": speeds(), "parquet": Path("speeds.parquet")}[source]
    replay(tables=tables).write("r")
    kept = pl.read_parquet("r/speeds.parquet")
    assert kept.columns == [*speeds().columns, "partner", "partner_rate"]
    assert kept["rate"].to_list() == [10.0, 30.0, 5.0, 15.0, 7.0, 3.0, 7.0]
    outcome = ringbco.Outcome.read("r")
    assert outcome.speeds is not None
    assert outcome.speeds.equals(kept)
    recorded = outcome.run["tables"]
    assert (recorded["rows"], recorded.get("sha256") is not None) == (7, source != "frame")
    Path("speeds.csv").unlink()
    assert invoke("replay", "--again", "r").returncode == 0


def test_every_way_in_gives_the_same(invoke: Invoke) -> None:
    expected = replay(policy="fifo").jobs["finish_time"].to_list()
    given = (
        "--cluster",
        "c.toml",
        "--policy",
        "fifo",
        "--model",
        "table",
        "--tables",
        "speeds.csv",
        "-o",
        "r",
    )
    assert invoke("replay", "jobs.csv", *given).returncode == 0
    assert ringbco.Outcome.read("r").jobs["finish_time"].to_list() == expected
    simulation = ringbco.Simulation("jobs.csv", "c.toml", model="table", tables=speeds())
    while simulation.advance():
        simulation.start(simulation.state.waiting)
    assert simulation.outcome().jobs["finish_time"].to_list() == expected
    both = ringbco.compare("jobs.csv", "c.toml", ["fifo", "srtf"], model="table", tables="speeds.csv")
    assert both.outcomes["fifo"].jobs["finish_time"].to_list() == expected
    Path("s.toml").write_text(
        '[base]\ntrace = "jobs.csv"\ncluster = "c.toml"\nmodel = "table"\ntables = "speeds.csv"\n'
        '[grid]\npolicy = ["fifo", "srtf"]\n'
    )
    frame = ringbco.sweep("s.toml", "sweep").frame
    assert frame["mean_jct"][0] == pytest.approx(both.outcomes["fifo"].summary["mean_jct"])
    assert frame["tables"].to_list() == ["speeds.csv"] * 2
    Path("speeds.csv").write_text(TABLES.replace(",30", ",40"))
    assert ringbco.sweep("s.toml", "sweep").done == 2, "other speeds are another run"


def test_a_cluster_without_types_is_of_the_tables_only_one() -> None:
    jobs = pl.read_csv("jobs.csv").drop("gpu_type")
    table = speeds().filter(pl.col("gpu_type").str.to_lowercase() == "v100")
    outcome = ringbco.replay(jobs, "2x4", model="table", tables=table.with_columns(gpu_type=pl.lit("B200x")))
    assert outcome.run["cluster"]["servers"] == [{"count": 2, "gpus": 4, "gpu_type": "B200x"}]
    assert outcome.summary["gpu_types"][0]["gpu_type"] == "B200x"
    with pytest.raises(
        InputError, match=r"speeds.csv: column gpu_type: expected a cluster whose servers name"
    ):
        ringbco.replay(jobs, "2x4", model="table", tables="speeds.csv")


def test_known_run_times_follow_the_table() -> None:
    """srtf: n's job is the shorter one by its rate, though its recorded duration is the longer."""
    jobs = pl.DataFrame(
        {"job_id": ["a", "b", "c"], "submit_time": [0.0, 1.0, 2.0], "num_gpus": [4] * 3, "model": list("mmn")}
        | {"duration": [10.0, 10.0, 1000.0], "iterations": [3000, 3000, 70]}
    )
    done = ringbco.replay(
        jobs, "1x4", model="table", tables=speeds()[[0, 1, 4]], policy="fifo", order="sjf"
    ).jobs
    assert done["start_time"].to_list() == pytest.approx([0.0, 110.0, 100.0])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tables": None}, "option model: table: expected it together with tables"),
        ({"model": "fixed"}, "option tables: expected it together with model table"),
        ({"tables": 3}, "option tables: 3: expected a Parquet or CSV file, or a frame"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        replay(**options)


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("gpu_type,", "type,", "speeds.csv: has no column gpu_type; speeds have"),
        (TABLES[TABLES.index("m,V100,1") :], "", "speeds.csv: holds no speeds"),
        ("m,V100,1,", ",V100,1,", "row 1 .line 2., column model: null: expected a non-empty text"),
        ("m,V100,1,", "m,,1,", "row 1 .line 2., column gpu_type: null: expected a non-empty text"),
        ("n,V100,4,1,", "n,V100,4.5,1,", "row 5 .line 6., column gpus: 4.5: expected an integer >= 1"),
        ("n,V100,4,2", "n,V100,4,5", "row 6 .line 7., column servers: 5: expected an integer from 1 to gpus"),
        (",7\n", ",fast\n", "column rate: fast: expected a finite number of iterations/s >= 0"),
        (",15", ",-15", "row 4 .line 5., column rate: -15: expected a finite number"),
        (",15", ",inf", "row 4 .line 5., column rate: inf: expected a finite number"),
        (",15", ",", "row 4 .line 5., column rate: null: expected a finite number"),
        ("n,V100,4,2", "n,V100,4,1", "row 6 .line 7., column gpus: 4: expected each model, gpu_type"),
        ("m,v100,4,1", "m,v100,1,1", "row 2 .line 3., column gpus: 1: expected each model"),
    ],
)  # fmt: skip
def test_bad_speeds(was: str, now: str, told: str) -> None:
    Path("speeds.csv").write_text(TABLES.replace(was, now, 1))
    with pytest.raises(InputError, match=told) as raised:
        replay()
    assert "\n" not in str(raised.value)


def test_half_a_pair() -> None:
    for partner, rate in (("m", None), (None, 1.0)):
        table = speeds().with_columns(partner=pl.lit(partner, pl.String), partner_rate=pl.lit(rate))
        with pytest.raises(InputError, match=r"row 1, column partner_rate: .*partner and partner_rate stand"):
            replay(tables=table)


def test_pairs_are_kept_and_do_not_count_alone() -> None:
    pairs = speeds().with_columns(partner=pl.lit("n"), partner_rate=1.0, rate=pl.col("rate") / 2)
    alone = speeds().with_columns(partner=None, partner_rate=None).cast({"partner": pl.String})
    both = pl.concat([pairs, alone], how="vertical_relaxed")
    outcome = replay(tables=both)
    assert outcome.jobs.equals(replay().jobs)
    assert outcome.speeds is not None
    assert outcome.speeds.height == 14


@pytest.mark.parametrize(
    ("jobs", "tables", "told"),
    [
        (JOBS, TABLES.replace("n,P100", "k,P100"), None),
        (
            JOBS.replace("n,V100", "n,"),
            TABLES.replace("n,P100", "k,P100"),
            "jobs.csv: row 3 .line 4., column model: n: expected a model whose rate on 4 GPUs of P100 is in"
            " speeds.csv; job 'c' may run there",
        ),
        (JOBS.replace("100,m,,", "100,x,,"), TABLES, "model: x: expected a model whose rate on 2 GPUs"),
        (JOBS.replace("100,m,,", "100,,,"), TABLES, "row 1 .line 2., column model: null: "),
        (JOBS.replace("c,5,4", "c,5,2"), TABLES, "on 2 GPUs of V100 is in speeds.csv; job 'c'"),
        (
            JOBS.replace("P100", "P100|V100"),
            TABLES.replace(",5\n", ",0\n"),
            "row 2 .line 3., column model: m: expected iterations, or a rate above 0 on P100",
        ),
        (
            JOBS.replace("n,V100", "n,"),
            TABLES.replace("4,1,7", "4,1,0").replace("4,2,3", "4,2,0"),
            "a rate above 0 on one of the GPU types that it may use; all are 0; job 'c'",
        ),
        (JOBS.replace("b,0,1,100", "b,0,1,1e16"), TABLES, "a duration of at most 9007199254740992"),
    ],
)  # fmt: skip
def test_jobs_without_an_entry(jobs: str, tables: str, told: str | None) -> None:
    Path("jobs.csv").write_text(jobs)
    Path("speeds.csv").write_text(tables)
    if told is None:  # nobody may run where the table has no entry
        assert replay().jobs.height == 3
        return
    with pytest.raises(InputError, match=told) as raised:
        replay()
    assert "\n" not in str(raised.value)


def test_a_rate_of_0_keeps_a_job_off_a_type() -> None:
    """Recorded on V100s, on which its rate is 0: the fastest other type stands in for the ideal run time."""
    Path("speeds.csv").write_text(TABLES.replace("n,V100,4,1,7", "n,V100,4,1,0"))
    Path("jobs.csv").write_text(JOBS.replace("n,V100", "n,"))
    jobs = replay(policy="fifo", queue="skip").jobs
    assert jobs["ideal_run_time"][2] == pytest.approx(500 / 7)
    # b holds one of the four P100s until 100 s.
    assert jobs["start_time"][2] == pytest.approx(100.0)
    assert jobs["run_on_type"][2] == 0.0


def test_too_large_jobs_may_be_dropped_whatever_the_table_says() -> None:
    Path("jobs.csv").write_text(JOBS + "d,6,64,100,n,,\n")
    with pytest.raises(InputError, match="job 'd'"):
        replay()
    assert replay(oversize="drop").summary["jobs_dropped"] == 1


def test_elastic_jobs_need_every_size() -> None:
    jobs = pl.read_csv("jobs.csv").with_columns(min_gpus=pl.lit(1), max_gpus=pl.Series([6, 1, 4]))
    with pytest.raises(InputError, match=r"on 5 GPUs of V100 is in speeds.csv; job 'a'"):
        ringbco.replay(jobs, "c.toml", model="table", tables="speeds.csv")
