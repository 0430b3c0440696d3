"""Files of quotas: what is read and refused, and how they come back in results, sweeps and comparisons."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import Invoke
from frames import refusal, stays, table
from ringbco.errors import InputError
from ringbco.trace.quotas import COLUMNS, Quotas
from ringbco.trace.side_table import ReadContext

HEAD = "user,gpus,borrow"
ROWS = [("ann", 4, True), ("bob", 2, False)]
# ann holds 8 GPUs with a job of 4 over quota, which is evicted when bob asks for what he has a right to.
JOBS = pl.DataFrame(
    {
        "job_id": ["a1", "a2", "b1", "c1"],
        "submit_time": [0.0, 0.0, 10.0, 20.0],
        "num_gpus": [4, 4, 2, 1],
        "duration": [100.0, 100.0, 50.0, 10.0],
        "user": ["ann", "ann", "bob", None],
        "vc": ["left", "left", "right", "right"],
    }
)


def frame(rows: list[tuple[str | None, int, bool]], column: str = "user") -> pl.DataFrame:
    return pl.DataFrame(rows, schema=[column, "gpus", "borrow"], orient="row")


def test_a_file_and_a_frame_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("borrow,more,user,gpus\ntrue,x,ann,4\nfalse,,bob,2\n")
    result = Quotas.read(path, ReadContext(JOBS))
    rules = {name: column.dtype for name, column in COLUMNS.items()}
    assert result.frame.schema == {"vc": pl.String, "user": pl.String, **rules}
    assert result.frame.select("user", "gpus", "borrow").rows() == ROWS
    assert result.frame["vc"].null_count() == 2
    assert (result.source, result.sha256) == (str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    given = frame(list(ROWS))
    for each in (given, given.lazy(), given.to_arrow(), given.to_arrow().to_pandas(), result):
        assert Quotas.read(each, ReadContext(JOBS)).frame.equals(result.frame), type(each)
    given.write_parquet(tmp_path / "q.parquet")
    assert Quotas.read(tmp_path / "q.parquet", ReadContext(JOBS)).frame.equals(result.frame)
    assert Quotas.read(given, ReadContext(JOBS)).sha256 is None
    assert Quotas.read(given, ReadContext(JOBS)).identity == {"path": "<quota>", "sha256": None, "rows": 2}


def test_columns_for_the_engine() -> None:
    result = Quotas.read(frame([("bob", 2, False), ("ann", 0, True)]), ReadContext(JOBS))
    ((owner, gpus, borrow),) = result.engine_columns(JOBS)
    assert (owner.tolist(), gpus, borrow) == ([1, 1, 0, 2**32 - 1], [2, 0], [False, True])
    assert owner.dtype == np.uint32
    by_vc = Quotas.read(frame([("right", 3, True)], "vc"), ReadContext(JOBS))
    assert by_vc.column == "vc"
    ((owner, *_),) = by_vc.engine_columns(JOBS)
    assert owner.tolist() == [2**32 - 1, 2**32 - 1, 0, 0]


OWNER = "; name a value of that column of the job table, or drop the row"
GPUS = "; give the GPUs that the owner's jobs may hold together"
BORROW = "; say whether its jobs may start beyond the quota"
ONCE = "every owner once; drop one of the two rows"
NO_JOB = f"an owner of jobs: no job of the table has this user{OWNER}"
LARGEST = f"an integer >= 0 and <= {2**53}{GPUS}"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (",4,true", f"column user: null: expected the name of an owner{OWNER}"),
        ("eve,4,true", f"column user: eve: expected {NO_JOB}"),
        ("Bob,4,true", f"column user: Bob: expected {NO_JOB}"),
        ("ann,4,true", f"column user: ann: expected {ONCE}"),
        ("bob,-1,true", f"column gpus: -1: expected an integer >= 0{GPUS}"),
        ("bob,1.5,true", f"column gpus: 1.5: expected an integer >= 0{GPUS}"),
        ("bob,all,true", f"column gpus: all: expected an integer >= 0{GPUS}"),
        ("bob,,true", f"column gpus: null: expected an integer >= 0{GPUS}"),
        ("bob,9007199254740993,true", f"column gpus: 9007199254740993: expected {LARGEST}"),
        ("bob,4,", f"column borrow: null: expected true or false{BORROW}"),
        ("bob,4,maybe", f"column borrow: maybe: expected true or false{BORROW}"),
        ("bob,4,2", f"column borrow: 2: expected true or false{BORROW}"),
    ],
)
def test_bad_values(tmp_path: Path, row: str, told: str) -> None:
    """The line names the lowest row at fault: the one after it has a fault too."""
    path = tmp_path / "q.csv"
    said = refusal(
        path, f"{HEAD}\nann,4,true\n{row}\n,-1,\n", lambda path: Quotas.read(path, ReadContext(JOBS))
    )
    assert said == f"{path}: row 2 (line 3), {told}"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (3, "quota: expected a path, or a table of polars, pyarrow, pandas"),
        (
            pl.DataFrame({"user": ["ann"], "gpus": [4]}),
            "<quota>: has no column borrow; quotas have the columns gpus, borrow, and one of owners, such as"
            " user",
        ),
        (frame([]), "<quota>: holds no quotas, only column names"),
        (
            pl.DataFrame({"gpus": [4], "borrow": [True]}),
            "<quota>: has no column of owners; beside gpus, borrow give a column of the job table, such as"
            " user",
        ),
        (
            pl.DataFrame(
                {"vc": ["left", None], "user": [None, "ann"], "gpus": [4, 4], "borrow": [True, True]}
            ),
            "<quota>: row 2, column user: ann: expected nothing: the owners of this file are those of vc",
        ),
        (
            pl.DataFrame({"vc": ["left"], "user": ["ann"], "gpus": [4], "borrow": [True]}),
            "<quota>: row 1, column user: ann: expected nothing: the owners of this file are those of vc;"
            " give them a file of their own",
        ),
        (
            pl.DataFrame({"user": [1.5], "gpus": [4], "borrow": [True]}),
            "<quota>: column user: expected text, not Float64",
        ),
        (
            pl.DataFrame({"user": ["ann"], "gpus": [4], "borrow": ["yes"]}),
            "<quota>: row 1, column borrow: yes: expected true or false",
        ),
    ],
)
def test_what_is_no_table_of_quotas(given: Any, told: str) -> None:
    with pytest.raises(InputError) as caught:
        Quotas.read(given, ReadContext(JOBS))
    assert str(caught.value).startswith(told)


def test_owners_are_checked_against_each_table() -> None:
    result = Quotas.read(frame(list(ROWS)))
    assert Quotas.read(result, ReadContext(JOBS)) is result
    with pytest.raises(InputError, match="no job of the table has this user"):
        Quotas.read(result, ReadContext(JOBS.filter(pl.col("user") == "ann")))
    with pytest.raises(InputError, match="the job table has no column user; name the column as"):
        Quotas.read(result, ReadContext(JOBS.drop("user")))


# In a run


def replayed(jobs: pl.DataFrame = JOBS, cluster: str = "1x8", **options: Any) -> ringbco.Outcome:
    given = {"policy": "fifo", "model": "fixed", "preempt_cost": 0.0, "quota": frame(list(ROWS))}
    return ringbco.replay(jobs, cluster, **given | options)


def test_who_was_ahead_of_its_evictor_has_its_turn_at_the_next_boundary() -> None:
    """c takes server 0 at 5 s. a waits ahead of it, so that its turn comes at 6 s, and the audit knows it."""
    jobs = table(
        job_id=["a", "d", "e", "c"],
        submit_time=[0.0, 0.0, 0.0, 5.0],
        num_gpus=[1, 1, 1, 2],
        duration=[20.0, 5.0, 20.0, 20.0],
        user=["ann", "bob", "bob", "bob"],
    )
    result = replayed(
        jobs, "2x2", placement="consolidate", clock="slot", slot=1.0, quota=frame([("ann", 0, True)])
    )
    assert stays(result)[:2] == [("a", 0, 1, 0.0, 5.0), ("a", 1, 1, 6.0, 21.0)]
    assert ringbco.audit(result, jobs) == []


def test_who_borrows_gives_back_and_the_folder_tells_it(invoke: Invoke) -> None:
    """a2 borrows from 0 s on and makes room at 10 s; it starts again when b1 is done, at 60 s."""
    JOBS.write_csv("jobs.csv")
    Path("quota.csv").write_text(f"{HEAD}\nann,4,true\nbob,2,false\n")
    ran = invoke(
        *("replay", "jobs.csv", "--cluster", "1x8", "--policy", "fifo", "--model", "fixed", "--preempt-cost"),
        *("0", "--queue", "skip", "--quota", "quota.csv", "-o", "r"),
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(r"^evictions +1 *$", ran.stdout, re.MULTILINE)
    outcome = ringbco.Outcome.read("r")
    assert outcome.jobs["evictions"].to_list() == [0, 1, 0, 0]
    assert outcome.jobs["finish_time"].to_list() == [100.0, 150.0, 60.0, 30.0]
    assert outcome.quota is not None
    assert outcome.quota.select("user", "gpus", "borrow").rows() == ROWS
    digest = hashlib.sha256(Path("quota.csv").read_bytes()).hexdigest()
    assert outcome.run["quotas"] == {"path": "quota.csv", "sha256": digest, "rows": 2}
    assert invoke("audit", "r").returncode == 0
    Path("quota.csv").unlink()  # the folder has a copy
    again = invoke("replay", "--again", "r")
    assert (again.returncode, again.stderr) == (0, "")
    assert "quota.parquet        the same" in again.stdout


def test_a_file_that_is_refused_leaves_nothing(invoke: Invoke) -> None:
    JOBS.write_csv("jobs.csv")
    Path("quota.csv").write_text(f"{HEAD}\nann,4,true\nbob,2,perhaps\n")
    given = ("replay", "jobs.csv", "--cluster", "1x8", "--policy", "fifo", "--quota", "quota.csv", "-o", "r")
    ran = invoke(*given)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert (
        ran.stderr
        == f"error: quota.csv: row 2 (line 3), column borrow: perhaps: expected true or false{BORROW}\n"
    )
    assert not Path("r").exists()


def test_a_job_that_no_quota_lets_start(invoke: Invoke) -> None:
    JOBS.write_csv("jobs.csv")
    Path("quota.csv").write_text(f"{HEAD}\nann,4,true\nbob,1,false\n")
    given = ("replay", "jobs.csv", "--cluster", "1x8", "--policy", "fifo", "--quota", "quota.csv", "-o", "r")
    ran = invoke(*given)
    assert ran.returncode == 1
    assert ran.stderr == (
        "error: jobs.csv: row 3 (line 4), column num_gpus: 2: expected a job that its owner's quota lets"
        " start, but job 'b1': asks for 2 GPUs, but its owner's quota is 1 and borrows none; raise the quota"
        " or set borrow to true, or use --oversize drop to leave it out\n"
    )
    assert invoke(*given, "--oversize", "drop").returncode == 0
    assert ringbco.Outcome.read("r").jobs["job_id"].to_list() == ["a1", "a2", "c1"]
    assert invoke("audit", "r").returncode == 0


def test_a_sweep_reads_quotas_once(tmp_path: Path) -> None:
    JOBS.write_csv(tmp_path / "jobs.csv")
    frame(list(ROWS)).write_csv(tmp_path / "q.csv")
    (tmp_path / "sweep.toml").write_text(
        '[base]\ntrace = "jobs.csv"\ncluster = "1x8"\nmodel = "fixed"\nqueue = "skip"\npreempt-cost = 7.0\n'
        'quota = "q.csv"\n[grid]\npolicy = ["fifo", "sjf"]\nevict = [false, true]\n'
    )
    result = ringbco.sweep(tmp_path / "sweep.toml", tmp_path / "out").frame
    assert result["error"].null_count() == result.height == 4
    one = replayed(queue="skip", preempt_cost=7.0).summary
    assert result.filter(pl.col("policy") == "fifo")["mean_jct"].to_list() == [one["mean_jct"]] * 2
    assert one["evictions"] == 1


def test_a_sweep_names_the_bad_row(tmp_path: Path) -> None:
    JOBS.write_csv(tmp_path / "jobs.csv")
    (tmp_path / "q.csv").write_text(f"{HEAD}\nann,-4,true\n")
    (tmp_path / "sweep.toml").write_text(
        '[base]\ntrace = "jobs.csv"\ncluster = "1x8"\nquota = "q.csv"\n[grid]\npolicy = ["fifo"]\n'
    )
    with pytest.raises(InputError, match=r"q\.csv: row 1 \(line 2\), column gpus: -4"):
        ringbco.sweep(tmp_path / "sweep.toml", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_comparison_with_and_without(tmp_path: Path) -> None:
    compared = ringbco.compare(
        JOBS,
        "1x8",
        runs={
            "free": {"policy": "fifo", "queue": "skip"},
            "bound": {"policy": "fifo", "queue": "skip", "quota": frame(list(ROWS))},
        },
        model="fixed",
        preempt_cost=7.0,
    )
    assert "evictions" not in compared.outcomes["free"].summary
    assert compared.outcomes["bound"].summary["evictions"] == 1
    # Its stays end through no will of its policy: what that costs is not left out.
    assert compared.outcomes["bound"].jobs["finish_time"].to_list() == [100.0, 157.0, 60.0, 30.0]
    told = {measure.key: [entry.value for entry in entries] for measure, entries in compared.rows.items()}
    assert told["evictions"] == [None, 1.0]
    compared.write(tmp_path / "c")
    assert ringbco.Outcome.read(tmp_path / "c" / "bound").quota is not None
    assert ringbco.Outcome.read(tmp_path / "c" / "free").quota is None


@pytest.mark.parametrize("borrow", [True, False])
@pytest.mark.parametrize("queue", ["strict", "skip", "easy"])
def test_a_pass_does_not_try_each_owner(queue: str, borrow: bool) -> None:
    """Two hundred owners wait: what cannot be placed for one of them is not tried for the next."""
    count, owners = 2_000, 200
    users = [f"u{row % owners}" for row in range(count)]
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(count)],
            "submit_time": np.arange(count, dtype=np.float64),
            "num_gpus": [1 + row % 3 for row in range(count)],
            "duration": np.full(count, 40.0),
            "user": users,
        }
    )
    quotas = pl.DataFrame({"user": users[:owners], "gpus": [3] * owners, "borrow": [borrow] * owners})
    outcome = ringbco.replay(jobs, "1x8", policy="fifo", queue=queue, quota=quotas)
    assert outcome.summary["decisions"] <= 10 * count
