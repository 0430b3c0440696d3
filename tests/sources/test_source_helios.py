"""Helios: the field's cleaning, VC sizes of one day."""

from __future__ import annotations

from pathlib import Path

import pytest

from raw import helios
from raw.agreement import agrees, converted
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.sources import convert
from ringbco.sources.account import Account
from ringbco.sources.source import Options

HEADER = ",".join(helios.COLUMNS)
GOOD = "7,u1,vcvGl,8,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:02,2020-06-10 04:55:09,36847,1"


@pytest.mark.parametrize("seed", range(5))
def test_every_planted_defect_is_accounted_for(seed: int, tmp_path: Path) -> None:
    converted("helios", helios.generate(seed), tmp_path)


def test_a_job_worked_out_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_text(f"{HEADER}\n{GOOD}\n")
    result = convert("helios", [path])
    # 9 June 2020, 18:41:01 on the log's own clock; the epoch is that day's midnight.
    assert result.epoch == "2020-06-09T00:00:00"
    job = ("7", 67_261.0, 8, 36_847.0, "u1", "vcvGl", "COMPLETED", 67_262.0, 104_109.0)
    assert result.table.frame.row(0) == job
    metadata = result.table.metadata
    assert metadata["ringbco.source"] == "helios"
    assert metadata["ringbco.epoch"] == "2020-06-09T00:00:00"
    assert metadata["ringbco.rows_read"] == "1"
    assert metadata["ringbco.rows_dropped"] == "{}"
    assert metadata["ringbco.licence"] == "CC-BY-4.0"


@pytest.mark.parametrize(
    ("old", "new", "column", "said"),
    [
        (",8,4,1,", ",0,4,1,", "gpu_num", "0: expected at least one GPU; without --strict: dropped, no GPUs"),
        (",8,4,1,", ",,4,1,", "gpu_num", "null: expected a whole number of GPUs, 1 or more"),
        ("7,u1", ",u1", "job_id", "null: expected an id"),
        ("COMPLETED", "RUNNING", "state", "RUNNING: expected one of COMPLETED, CANCELLED, FAILED, TIMEOUT"),
        ("2020-06-09 18:41:01", "2020-03-31 23:59:59", "submit_time", "expected 2020-04-01 or later"),
        ("2020-06-09 18:41:02", "None", "start_time", "None: expected a time such as 2020-09-01 12:00:00"),
        ("2020-06-10", "2020-06-08", "end_time", "'2020-06-08 04:55:09': expected later than start_time"),
        ("2020-06-09 18:41:02", "2020-06-09 18:41:00", "start_time", "expected no earlier than submit_time"),
        ("36847", "36848", "duration", "36848: expected end_time - start_time; without --strict: changed,"),
        ("2020-06-10", "2020-07-10", "duration", "expected end_time - start_time"),
    ],
)
def test_strict_stops_at_the_row(old: str, new: str, column: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_text(f"{HEADER}\n{GOOD.replace('7,u1', '6,u1')}\n\n{GOOD.replace(old, new)}\n")
    with pytest.raises(InputError) as caught:
        convert("helios", [path], Options(strict=True))
    message = str(caught.value)
    assert message.startswith(f"{path}: row 2 (line 4), column {column}: ")
    assert said in message
    account = convert("helios", [path]).account
    assert sum(account.dropped.values()) + sum(account.changed.values()) >= 1


def test_strict_lets_a_sound_file_through(tmp_path: Path) -> None:
    agrees(converted("helios", helios.generate(each=0), tmp_path, strict=True), helios.generate(each=0))


def test_the_servers_are_those_of_one_day(tmp_path: Path) -> None:
    raw = helios.generate()
    result = converted("helios", raw, tmp_path, want_cluster=True)
    assert result.cluster is not None
    # 160 GPUs are 20 servers; 20 GPUs are two servers of 8 and one of 4; a VC without GPUs has none.
    assert result.cluster.server_gpus.tolist() == [8] * 22 + [4]
    assert result.cluster.server_vc == ("vcvGl",) * 20 + ("vcKeu",) * 3
    old = sum(job["vc"] == "vcOld" for job in raw.jobs)
    assert result.notes[0].startswith(f"{old} jobs belong to virtual clusters without servers on 2020-09-01")

    result = converted("helios", raw, tmp_path, want_cluster=True, snapshot="2020-09-02")
    assert result.cluster is not None
    assert result.cluster.vc_names == ("vcvGl", "vcOld")
    assert result.cluster.num_gpus == 88
    assert '"snapshot": "2020-09-02"' in result.table.metadata["ringbco.options"]
    assert Cluster.parse(write(tmp_path / "c.toml", result.cluster.to_toml())) == result.cluster


def test_jobs_of_vcs_without_servers_can_be_left_out(tmp_path: Path) -> None:
    raw = helios.generate()
    log, gpus = raw.write(tmp_path)
    result = convert("helios", [log, gpus], Options(known_vcs=True))
    kept = [job["job_id"] for job in raw.jobs if job["vc"] != "vcOld"]
    assert result.table.frame["job_id"].to_list() == kept
    # A repeated job of such a virtual cluster goes for that reason first.
    assert sum(result.account.dropped.values()) == sum(raw.dropped.values()) + len(raw.jobs) - len(kept)
    unknown = result.account.dropped["vc is not one of the cluster's (--known-vcs)"]
    assert unknown == len(raw.jobs) - len(kept) + raw.dropped[helios.TWICE] - twice(result.account)
    assert (result.notes, result.cluster) == ((), None)
    with pytest.raises(UsageError, match=r"--known-vcs: give cluster_gpu_number\.csv as well as the log"):
        convert("helios", [log], Options(known_vcs=True))


def twice(account: Account) -> int:
    return account.dropped.get(helios.TWICE, 0)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_bad_snapshots_are_refused(tmp_path: Path) -> None:
    log, gpus = helios.generate().write(tmp_path)
    with pytest.raises(
        InputError, match="has no row for 2021-01-01; --snapshot takes a day from 2020-09-01 to"
    ):
        convert("helios", [log, gpus], Options(want_cluster=True, snapshot="2021-01-01"))
    with pytest.raises(UsageError, match=r"--snapshot: give cluster_gpu_number.csv as well"):
        convert("helios", [log], Options(snapshot="2020-09-01"))
    with pytest.raises(UsageError, match=r"helios does not say which servers .* preset:helios"):
        convert("helios", [log], Options(want_cluster=True))
    gpus.write_text("date,vcvGl,total\n2020-09-01,many,8\n")
    with pytest.raises(InputError) as caught:
        convert("helios", [log, gpus], Options(want_cluster=True))
    assert str(caught.value) == (
        f"{gpus}: row 1 (line 2), column vcvGl: many: expected a whole number of GPUs"
    )


@pytest.mark.parametrize(
    ("name", "servers"), [("venus", 133), ("earth", 143), ("saturn", 262), ("uranus", 264)]
)
def test_presets_have_the_papers_servers(name: str, servers: int) -> None:
    cluster = Cluster.parse(f"preset:helios-{name}")
    assert (cluster.num_servers, cluster.num_gpus) == (servers, 8 * servers)
    assert Cluster.parse("preset:helios-venus").vc_servers("vcvGl").size == 20
