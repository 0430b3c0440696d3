"""When and where jobs ran in their logs: from each source to `--policy recorded` and its audit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import Invoke, present
from raw import philly
from ringbco import from_frame, generate, profile, read_jobs, replay, write_jobs
from ringbco.errors import InputError, UsageError
from ringbco.run.seeds import Seeds
from ringbco.sources import convert
from ringbco.sources.source import Options
from ringbco.study.inspection import inspect_jobs
from ringbco.sweeps.run import scaled
from ringbco.sweeps.targets import asked
from ringbco.trace.moved import instants, moved
from ringbco.trace.recorded import RAN
from test_sources import MADE, measured

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
MODES = ("span", "sum", "split", "last")
LIST = "machineId, number of GPUs, single GPU mem\nm3,8, 24GB\nm9,0, 24GB\nm1,2, 12GB\nm7,8, 24GB\n"


def attempt(start: str | None, end: str | None, **held: int) -> dict[str, Any]:
    detail = [{"ip": ip, "gpus": [f"gpu{at}" for at in range(gpus)]} for ip, gpus in held.items()]
    day = "2017-10-07 "
    return {"start_time": start and day + start, "end_time": end and day + end, "detail": detail}


def log(folder: Path, *attempts: dict[str, Any], submitted: str = "01:00:00") -> list[Path]:
    """A log of one job, and the list of machines."""
    job = {"status": "Pass", "vc": "ee9e8c", "jobid": "a", "user": "u", "attempts": list(attempts)}
    job["submitted_time"] = f"2017-10-07 {submitted}"
    (folder / "cluster_job_log").write_text(json.dumps([job]))
    (folder / "cluster_machine_list").write_text(LIST)
    return [folder / "cluster_job_log", folder / "cluster_machine_list"]


def starts(result: Any) -> list[tuple[Any, ...]]:
    return result.table.frame.select(*RAN, "recorded_servers").rows()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        ("span", [(60.0, 3600.0, "0:2 1:1")]),
        ("sum", [(60.0, 3600.0, "0:4 2:4")]),
        ("last", [(1800.0, 3600.0, "0:4 2:4")]),
        ("split", [(60.0, 600.0, "0:2 1:1"), (1800.0, 3600.0, "0:4 2:4")]),
    ],
)
def test_philly_by_hand(mode: str, rows: list[tuple[object, ...]], tmp_path: Path) -> None:
    paths = log(
        tmp_path, attempt("01:01:00", "01:10:00", m1=1, m3=2), attempt("01:30:00", "02:00:00", m7=4, m3=4)
    )
    result = convert("philly", paths, Options(mode=mode, want_cluster=True, strict=True))
    assert starts(result) == rows
    assert result.cluster is not None
    assert result.cluster.server_gpus.tolist() == [8, 2, 8]  # m9 has no GPUs
    assert result.cluster.server_vc is None
    assert "recorded_servers" not in convert("philly", paths[:1], Options(mode=mode)).table.frame.columns
    headerless = tmp_path / "machines"
    headerless.write_text(LIST.split("\n", 1)[1])
    assert starts(convert("philly", [paths[0], headerless], Options(mode=mode))) == rows


def test_philly_machines_that_the_list_lacks(tmp_path: Path) -> None:
    paths = log(tmp_path, attempt("01:01:00", "01:10:00", m3=2, m8=1))
    result = convert("philly", paths)
    assert starts(result) == [(60.0, 600.0, None)]
    assert result.account.changed == {philly.STRANGER: 1}
    assert result.account.to_dict()["first"][philly.STRANGER]["value"] == "m8"
    with pytest.raises(InputError, match=r"row 1 \(line 1\), column ip: m8: expected a machine of the list"):
        convert("philly", paths, Options(strict=True))


def test_philly_sum_starts_with_the_first_attempt_that_counts(tmp_path: Path) -> None:
    early = attempt("00:30:00", "00:50:00", m3=1)
    paths = log(tmp_path, attempt("01:01:00", None, m3=1), early, attempt("01:30:00", "02:00:00", m3=1))
    result = convert("philly", paths, Options(mode="sum"))
    assert starts(result) == [(None, 3600.0, "0:1")]
    reason = "its first attempt with both times starts before it is submitted: recorded_start left out"
    assert result.account.changed[reason] == 1
    paths = log(tmp_path, attempt(None, "01:10:00", m3=1), attempt("01:30:00", "02:00:00", m3=1))
    assert starts(convert("philly", paths, Options(mode="sum"))) == [(1800.0, 3600.0, "0:1")]


def test_philly_known_vcs_leave_the_machines_out(tmp_path: Path) -> None:
    paths = log(tmp_path, attempt("01:01:00", "01:10:00", m3=1))
    result = convert("philly", paths, Options(known_vcs=True, want_cluster=True))
    assert result.cluster is not None
    assert result.cluster.num_servers == 352
    assert "recorded_servers" not in result.table.frame.columns
    [note] = result.notes
    assert note.startswith(f"{paths[1]} has no effect with --known-vcs")


def test_swf_waits(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    rest = "100 8 -1 -1 8 3600 -1 1 7 1 -1 2 -1 -1 -1"
    path.write_text(f"1 10 5 {rest}\n2 10 0 {rest}\n3 10 -1 {rest}\n4 10 -3 {rest}\n")
    result = convert("swf", [path])
    ran = [(15.0, 115.0), (10.0, 110.0), (None, None), (None, None)]
    assert result.table.frame.select(RAN).rows() == ran
    reason = "wait_time is negative: start left out"
    assert result.account.changed == {reason: 1}
    assert result.account.to_dict()["first"][reason] == {"line": 4, "value": "-3"}
    path.write_text(f"1 10 -1 {rest}\n")
    assert not {*RAN} & {*convert("swf", [path]).table.frame.columns}


def csv(folder: Path, text: str, **options: Any) -> Any:
    path = folder / "mine.csv"
    path.write_text(text)
    return convert("csv", [path], Options(**options))


def test_csv_starts_are_read_as_submissions_are(tmp_path: Path) -> None:
    column_map = {"recorded_start": "began", "recorded_servers": "where"}
    head = "job_id,submit_time,num_gpus,duration,began,where\n"
    dated = csv(
        tmp_path,
        f"{head}a,1969-03-01 08:00,2,60,1969-03-01T08:00:01.5,0:1 3:1\nb,1969-03-01 09:00,2,60,,\n",
        column_map=column_map,
        strict=True,
    )
    columns = ("submit_time", "recorded_start", "recorded_servers")
    assert dated.table.frame.select(columns).rows() == [
        (28_800.0, 28_801.5, "0:1 3:1"),
        (32_400.0, None, None),
    ]
    milli = csv(tmp_path, f"{head}a,1000,2,60,1500,0:2\n", column_map=column_map, unit="ms", strict=True)
    assert milli.table.frame.select(columns).rows() == [(1.0, 1.5, "0:2")]


def test_csv_bad_starts_lose_their_value_and_no_job(tmp_path: Path) -> None:
    result = csv(
        tmp_path,
        "job_id,submit_time,num_gpus,duration,recorded_start,recorded_end,recorded_servers\n"
        "a,5,2,60,soon,70,0:2\nb,5,2,60,4,3,0\nc,5,2,60,2020-01-01,70,1:2 0:0\nd,5,2,60,6,5.5,0:1  1:1\n",
    )
    assert starts(result) == [
        (None, 70.0, "0:2"),
        (None, None, None),
        (None, 70.0, None),
        (6.0, None, "0:1  1:1"),
    ]
    assert result.account.rows_kept == 4
    assert result.account.changed == {
        "recorded_start is not a time: left out": 2,
        "recorded_start is before submit_time: left out": 1,
        "recorded_end is before submit_time or recorded_start: left out": 2,
        "recorded_servers is no list of servers and their GPUs: left out": 2,
    }
    first = result.account.to_dict()["first"]
    assert first["recorded_start is not a time: left out"] == {"line": 2, "value": "soon"}
    assert first["recorded_start is before submit_time: left out"] == {"line": 3, "value": "4"}
    with pytest.raises(InputError, match=r"column recorded_start: 4: expected no earlier than submit_time"):
        csv(
            tmp_path,
            "job_id,submit_time,num_gpus,duration,recorded_start\na,5,2,60,4\n",
            strict=True,
        )


def test_csv_starts_of_a_span(tmp_path: Path) -> None:
    span = "job_id,submit_time,num_gpus,start_time,end_time"
    assert csv(tmp_path, f"{span}\na,1,2,3,9\n").table.frame.select(RAN).rows() == [(3.0, 9.0)]
    other = csv(tmp_path, f"{span},recorded_start\na,1,2,3,9,4\n").table.frame
    assert other.select(RAN).rows() == [(4.0, 9.0)]
    beside = csv(tmp_path, f"{span},duration\na,1,2,3,9,6\n").table.frame
    assert beside.columns == ["job_id", "submit_time", "num_gpus", "duration", "start_time", "end_time"]


@pytest.mark.parametrize("source", [name for name in MADE if name not in ("slurm", "pollux")])
def test_what_a_source_records_survives_a_csv_file(source: str, tmp_path: Path) -> None:
    table = convert(source, MADE[source].write(tmp_path), Options(**measured(source, tmp_path))).table  # type: ignore[arg-type]
    recorded = [name for name in (*RAN, "recorded_servers") if name in table.frame.columns]
    assert bool(recorded) == (source in ("philly", "helios", "acme", "pai", "openb", "swf"))
    for name in ("jobs.csv", "jobs.parquet"):
        write_jobs(table, tmp_path / name)
        again = read_jobs(tmp_path / name).frame
        assert again.select(recorded).equals(table.frame.select(recorded))
    if recorded:
        start = table.frame["recorded_start"].drop_nulls()
        assert start.len() > 20
        assert (table.frame["recorded_start"] >= table.frame["submit_time"]).all()
    assert set(inspect_jobs(table)["columns"]["extra"].values()) <= {None}


def test_slurm_columns_are_no_slips(tmp_path: Path) -> None:
    extra = inspect_jobs(convert("slurm", MADE["slurm"].write(tmp_path)).table)["columns"]["extra"]
    assert extra["nodes"] is None
    assert set(extra.values()) == {None}


def test_other_submissions_have_no_recorded_times() -> None:
    table = generate("philly", 200, 3, gpus=64)
    submit, duration = table.frame["submit_time"], table.frame["duration"]
    frame = table.frame.with_columns(recorded_start=submit, recorded_end=submit + duration)
    table = from_frame(frame.with_columns(recorded_servers=pl.lit(None, pl.String)))
    for other in (scaled(table, 0.7, 64), moved(table, instants(submit.to_numpy()), 5)):
        assert other.frame.columns == [name for name in frame.columns if name not in RAN]
    assert profile(table).frame.select(RAN).equals(frame.select(RAN))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("machines", [False, True])
def test_made_philly_logs_pass_their_audit(invoke: Invoke, tmp_path: Path, mode: str, machines: bool) -> None:
    files = philly.generate(mode, 3, 300, machines=machines).write(tmp_path)
    made = invoke("convert", "philly", *files, "--mode", mode, "-o", "j.parquet", "--cluster-out", "c.toml")
    assert made.returncode == 0, made.stderr
    servers = "c.toml" if machines else "2x8"  # so few that jobs start late
    run = invoke("replay", "j.parquet", "--cluster", servers, "--policy", "recorded", "-o", "r")
    assert run.returncode == 0, run.stderr
    summary = json.loads(Path("r", "summary.json").read_text())
    jobs = pl.read_parquet("r/jobs.parquet").join(pl.read_parquet("j.parquet"), on="job_id")
    late = jobs.filter(pl.col("start_time") > pl.col("recorded_start"))
    assert summary["late_jobs"] == late.height
    assert machines or late.height > 20
    assert (summary["displaced_jobs"] > 0) == machines
    assert invoke("audit", "r", "--jobs", "j.parquet").returncode == 0


def test_published_openb_passes_its_audit_and_repeats_itself(invoke: Invoke, shared_traces: Path) -> None:
    folder = present(shared_traces / "openb")
    files = (folder / "openb_pod_list_default.csv", folder / "openb_node_list_gpu_node.csv")
    assert invoke("convert", "openb", *files, "-o", "j.parquet", "--cluster-out", "c.toml").returncode == 0
    late = {}
    for cluster in ("c.toml", "8x8"):
        run = invoke(
            *("replay", "j.parquet", "--cluster", cluster, "--policy", "recorded", "-o", "r", "--force"),
            "--decisions",
        )
        assert run.returncode == 0, run.stderr
        late[cluster] = json.loads(Path("r", "summary.json").read_text())["late_jobs"]
        assert invoke("audit", "r", "--jobs", "j.parquet").returncode == 0
    assert late == {"c.toml": 0, "8x8": 2}
    assert invoke("replay", "--again", "r", "-o", "again").returncode == 0
    log = ("--policy", "log:r/decisions.parquet", "--model", "fixed")
    assert invoke("replay", "j.parquet", "--cluster", "8x8", *log, "-o", "followed").returncode == 0
    for table in ("jobs.parquet", "allocations.parquet", "timeline.parquet"):
        assert Path("again", table).read_bytes() == Path("r", table).read_bytes()
        assert pl.read_parquet(Path("followed", table)).equals(pl.read_parquet(Path("r", table)))
    assert Path("again", "decisions.parquet").read_bytes() == Path("r", "decisions.parquet").read_bytes()


def test_a_search_for_a_target_refuses_recorded_starts(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [9.0], "recorded_start": [1.0]}
    )
    said = r"^option policy: recorded: a log's starts are one run; leave it out of a sweep$"
    document = {"base": {"trace": frame, "policy": "recorded"}}
    search = asked(document, Seeds(), "mean_wait", "1min", "cluster=1x8..9x8")
    with pytest.raises(UsageError, match=said):
        search.run(lambda wanted: ringbco.sweep(wanted, tmp_path / "s"))
    grid = {"base": {"trace": frame}, "grid": {"cluster": ["1x8", "2x8"], "policy": ["fifo", "recorded"]}}
    with pytest.raises(UsageError, match=said):
        asked(grid, Seeds(), "mean_wait", "1min", None)
    assert replay(frame, "1x8", policy="recorded").summary["late_jobs"] == 0
