"""Slurm: the forms of its logs, its options, its nodes, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Invoke
from ringbco.errors import InputError, RingbcoError, UsageError
from ringbco.sources import Conversion, convert
from ringbco.sources.source import Options

NAMES = "JobID|State|Partition|Submit|Start|End|AllocTRES"
TRACES = Path(__file__).parents[2] / "traces"


def row(
    job: str = "1",
    submit: str = "08:00:00",
    start: str = "08:00:00",
    end: str = "09:00:00",
    *,
    state: str = "COMPLETED",
    tres: str = "gres/gpu=1",
    day: str = "2026-05-04",
) -> str:
    times = (f"{day}T{time}" if time[:1].isdigit() else time for time in (submit, start, end))
    return "|".join((job, state, "gpu", *times, tres))


def made(folder: Path, *rows: str, names: str = NAMES, **options: Any) -> Conversion:
    log = folder / "log.psv"
    log.write_text("\n".join((names, *rows)) + "\n")
    return convert("slurm", [log], Options(**options))


def refused(folder: Path, *rows: str, names: str = NAMES, **options: Any) -> str:
    with pytest.raises(RingbcoError) as caught:
        made(folder, *rows, names=names, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{folder}/")


def column(result: Conversion, *names: str) -> list[tuple[Any, ...]]:
    return result.table.frame.select(names).rows()


@pytest.mark.parametrize("mark", [",,", ";", "\t", "^", " | "])
def test_any_separator(mark: str, tmp_path: Path) -> None:
    names, *rows = (text.replace("|", mark) for text in (NAMES.lower(), row(), row("1.0", tres="cpu=1")))
    result = made(tmp_path, *rows, names=names)
    assert column(result, "job_id", "num_gpus", "vc") == [("1", 1, "gpu")]


def test_a_file_joined_from_two_and_several_files(tmp_path: Path) -> None:
    assert made(tmp_path, row(), NAMES, row("2")).account.rows_read == 2
    first, second = tmp_path / "a.psv", tmp_path / "b.psv"
    first.write_text(f"{NAMES}\n{row()}\n")
    second.write_text(f"{NAMES}|ReqTRES\n{row('2')}|gres/gpu:kx=1\n{row('1.0')}|\n")
    result = convert("slurm", [first, second])
    assert column(result, "job_id", "gpu_type") == [("1", None), ("2", "kx")]
    with pytest.raises(InputError, match=r"b\.psv: row 2 \(line 3\), column JobID: '?1\.0"):
        convert("slurm", [first, second], Options(strict=True))


def test_a_line_that_begins_with_no_id_belongs_to_the_record_above(tmp_path: Path) -> None:
    names = NAMES.replace("State", "JobName|State")
    text = row().replace("1|", "1|two\n  lines|with a bar|", 1)
    result = made(tmp_path, text, row("2").replace("2|", "2|b|", 1), names=names)
    assert column(result, "job_id", "status") == [("1", "COMPLETED"), ("2", "COMPLETED")]
    assert result.account.rows_read == 2
    two_free = made(tmp_path, row().replace("1|", "1|a|b|c|", 1), row("2").replace("2|", "2|a|b|", 1),
                    names=names.replace("JobName", "JobName|Comment"))  # fmt: skip
    assert two_free.account.dropped == {"more cells than names": 1}
    assert "an id of Slurm such as 12" in refused(tmp_path, "what|" + row())


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    log = tmp_path / "log.psv"
    log.write_bytes(f"{NAMES}|User\n{row()}|J\xfcrgen\n".encode("latin-1"))
    result = convert("slurm", [log])
    assert column(result, "user") == [("J\ufffdrgen",)]
    assert result.account.noted == {"has bytes that are no UTF-8: read as \ufffd": 1}


def test_json(tmp_path: Path) -> None:
    def number(value: int) -> dict[str, Any]:
        return {"set": True, "infinite": False, "number": value}

    job: dict[str, Any] = {
        "job_id": 7,
        "array": {"job_id": 0, "task_id": {"set": False, "infinite": False, "number": 0}, "task": ""},
        "het": {"job_id": 0, "job_offset": number(0)},
        "association": {"cluster": "c", "user": "ada", "account": "a"},
        "partition": "gpu",
        "qos": "normal",
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "time": {
            "submission": 1_620_000_000,
            "eligible": 1_620_000_000,
            "start": 1_620_000_010,
            "end": 1_620_003_610,
            "elapsed": 3_600,
            "suspended": 0,
            "limit": number(60),
        },
        "tres": {
            "allocated": [
                {"type": "cpu", "name": "", "id": 1, "count": 8},
                {"type": "gres", "name": "gpu:kx", "id": 1002, "count": 2},
            ],
            "requested": [{"type": "gres", "name": "gpu", "id": 1001, "count": 2}],
        },
        "nodes": "n1",
        "allocation_nodes": 1,
        "priority": number(11),
        "steps": [{"step": {"id": "7.batch"}}],
    }
    others = [
        job | {"job_id": 9, "array": {"job_id": 8, "task_id": number(3), "task": ""}},
        job | {"job_id": 10, "state": {"current": "PENDING"}, "array": {"job_id": 10, "task": "4-9"}},
        job | {"job_id": 11, "tres": {"allocated": [], "requested": []}},
    ]
    log = tmp_path / "log.json"
    log.write_text(json.dumps({"meta": {"slurm": {}}, "jobs": [job, *others]}, indent=1))
    result = convert("slurm", [log])
    assert column(result, "job_id", "num_gpus", "duration", "time_limit", "gpu_type", "recorded_on") == [
        ("7", 2, 3_600.0, 3_600.0, None, "kx"),
        ("8_3", 2, 3_600.0, 3_600.0, None, "kx"),
    ]
    assert result.epoch == "2021-05-03T00:00:00Z"
    assert result.account.dropped == {
        "waits, or was cancelled before it started": 1,
        "no GPUs (a CPU job)": 1,
    }
    assert result.account.noted == {"array tasks that ids with [..] stand for": 6}
    [line] = (e.line for e in result.account.entries if e.reason == "no GPUs (a CPU job)")
    lines = log.read_text().split("\n")
    assert line is not None
    assert '"job_id": 11' in "".join(lines[line - 1 : line + 2])


def test_time_zones(tmp_path: Path) -> None:
    """An hour occurs twice: the reading that fits Elapsed; the submission is the latest before the start."""
    autumn = [
        row("1", "02:10:00", "02:30:00", "02:40:00", day="2026-10-25") + "|600",
        row("2", "02:10:00", "02:30:00", "02:40:00", day="2026-10-25") + "|4200",
        row("3", "02:10:00", "04:00:00", "05:00:00", day="2026-10-25") + "|3600",
    ]
    result = made(tmp_path, *autumn, names=NAMES + "|ElapsedRaw", timezone="Europe/Berlin")
    assert result.epoch == "2026-10-25T00:00:00Z"
    assert column(result, "job_id", "submit_time", "recorded_start", "recorded_end") == [
        ("1", 600.0, 1_800.0, 2_400.0),
        ("2", 600.0, 1_800.0, 6_000.0),
        ("3", 4_200.0, 10_800.0, 14_400.0),
    ]
    spring = row("1", "01:30:00", "02:30:00", "04:00:00", day="2026-03-29")
    result = made(tmp_path, spring, timezone="Europe/Berlin")
    assert column(result, "submit_time", "recorded_start", "duration") == [(1_800.0, 5_400.0, 1_800.0)]
    assert "no such zone" in refused(tmp_path, row(), timezone="Europe/Berlinn")
    mixed = row("2").replace("T09:00:00", "T11:00:00+0100")
    assert "--timezone ZONE" in refused(tmp_path, row(), mixed)
    assert column(made(tmp_path, mixed, timezone="UTC"), "duration") == [(7_200.0,)]


def test_attempts(tmp_path: Path) -> None:
    rows = [
        row("1", "08:00:00", "08:00:00", "09:00:00", state="REQUEUED", tres="gres/gpu=4"),
        row("1", "09:00:01", "10:00:00", "10:30:00", tres="gres/gpu=2"),
        row("1", "12:00:00", "12:00:00", "12:30:00"),
    ]
    again = "1@2026-05-04T12:00:00"
    names = ("job_id", "num_gpus", "duration", "recorded_start")
    day = 8 * 3_600.0
    assert column(made(tmp_path, *rows), *names) == [
        ("1#1", 4, 3_600.0, day),
        ("1#2", 2, 1_800.0, day + 7_200),
        (again, 1, 1_800.0, day + 14_400),
    ]
    for mode, first in (
        ("last", ("1", 2, 1_800.0, day + 7_200)),
        ("sum", ("1", 4, 5_400.0, day)),
        ("span", ("1", 4, 9_000.0, day)),
    ):
        result = made(tmp_path, *rows, mode=mode)
        assert column(result, *names) == [first, (again, 1, 1_800.0, day + 14_400)]
        assert sum(result.account.dropped.values()) == 1
    same = made(tmp_path, rows[0], row("1", "08:00:00", "10:00:00", "11:00:00"))
    assert column(same, "job_id", "submit_time") == [("1#1", day), ("1#2", day + 3_600)]


def test_a_resized_job_is_one_attempt(tmp_path: Path) -> None:
    result = made(
        tmp_path,
        row(state="RESIZING", tres="gres/gpu=4"),
        row(start="09:00:00", end="09:10:00", tres="gres/gpu=2"),
    )
    assert column(result, "job_id", "num_gpus", "duration", "status") == [("1", 4, 4_200.0, "COMPLETED")]
    assert result.account.dropped == {"a stretch of a resized job, joined (GPUs of the longest)": 1}


def test_jobs_that_still_run(tmp_path: Path) -> None:
    rows = (row(), row("2", end="Unknown", state="RUNNING"), row("3", end="12:00:00", state="SUSPENDED"))
    assert made(tmp_path, *rows).account.dropped == {"still runs": 2}
    kept = made(tmp_path, *rows, open_jobs="keep")
    assert column(kept, "job_id", "status", "duration", "recorded_end") == [
        ("1", "COMPLETED", 3_600.0, 32_400.0),
        ("2", "RUNNING", 14_400.0, None),
        ("3", "RUNNING", 14_400.0, None),
    ]


def test_mig_profiles_and_counts(tmp_path: Path) -> None:
    rows = (
        row("1", tres="cpu=4,gres/gpu:a100_3g.20gb=2,gres/gpu:a100=1,gres/gpu=3,node=1"),
        row("2", tres="cpu=6,gres/gpu:1g.10gb=2,node=2"),
    )
    dropped = made(tmp_path, *rows)
    assert column(dropped, "job_id", "num_gpus", "recorded_on") == [("1", 1, "a100")]
    assert dropped.account.dropped == {"holds MIG profiles alone (--mig gpu counts each as a GPU)": 1}
    assert dropped.notes[0].startswith("2 jobs hold MIG profiles for 4.0 GPU-hours: left out")
    assert column(made(tmp_path, *rows, mig="gpu"), "num_gpus") == [(3,), (2,)]
    assert column(made(tmp_path, *rows, count="cpu"), "num_gpus", "recorded_on") == [(4, None), (6, None)]
    assert column(made(tmp_path, *rows, count="node"), "num_gpus") == [(1,), (2,)]


def test_several_clusters(tmp_path: Path) -> None:
    names, rows = NAMES + "|Cluster", (row() + "|east", row("2") + "|west")
    said = refused(tmp_path, *rows, names=names)
    assert "jobs of several clusters (east, west): choose one with --slurm-cluster NAME" in said
    result = made(tmp_path, *rows, names=names, slurm_cluster="west")
    assert column(result, "job_id", "cluster") == [("2", "west")]
    assert result.account.dropped == {"of another cluster than west": 1}


def test_what_cannot_be_read_is_said_with_its_place(tmp_path: Path) -> None:
    said = refused(tmp_path, row(), row("2") + "|n[01-0", names=NAMES + "|NodeList")
    assert said == (
        "log.psv: row 2 (line 3), column NodeList: n[01-0: expected a hostlist such as n[01-04],x7"
    )
    said = refused(tmp_path, "1|COMPLETED", names="JobID|State")
    assert said.startswith("log.psv: ")
    assert "no column Submit, Start, End, AllocTRES or AllocGRES; export the log with `sacct -a -X -D" in said
    said = refused(tmp_path, "-----|-----", row())
    assert "cut to their width (line 2 is dashes); use sacct -P: `sacct -a" in said
    assert "did you mean split" in refused(tmp_path, row(), mode="splt")
    with pytest.raises(UsageError, match="--mode is not an option of swf"):
        convert("swf", [tmp_path / "log.psv"], Options(mode="last"))
    with pytest.raises(UsageError, match="--from is not an option of philly"):
        convert("philly", [tmp_path / "log.psv"], Options(since="2026-05-04"))


def test_nodes(tmp_path: Path, invoke: Invoke) -> None:
    log, nodes = TRACES / "slurm.psv", tmp_path / "nodes.txt"
    result = convert("slurm", [log, TRACES / "slurm-nodes.txt"], Options(want_cluster=True))
    assert result.cluster is not None
    assert result.cluster.server_gpus.tolist() == [8] * 4
    assert set(result.cluster.server_vc or ()) == {"gpu+dev"} == set(result.table.frame["vc"])
    places = dict(result.table.frame.select("job_id", "recorded_servers").iter_rows())
    assert (places["1203"], places["1207"]) == ("1:8 2:8", None)
    assert result.cluster.server_names == ("g01", "g02", "g03", "g04")
    assert 'name = "g[01-04]"' in result.cluster.to_toml()
    counted = convert("slurm", [log, TRACES / "slurm-nodes.txt"], Options(want_cluster=True, count="cpu"))
    assert counted.cluster is not None
    assert counted.cluster.server_gpus.tolist() == [64] * 5
    guessed = convert("slurm", [log], Options(want_cluster=True))
    assert guessed.cluster is not None
    assert guessed.cluster.server_gpus.tolist() == [8] * 4
    assert guessed.cluster.server_names == ("g01", "g02", "g03", "g04")
    assert any("the cluster is a guess" in note for note in guessed.notes)
    nodes.write_text(
        "NodeName=a\n   Gres=gpu:kx:4(S:0-1)\n   State=IDLE\n   Partitions=p,q \n\n"
        "NodeName=b\n   Gres=gpu:2,shard:8\n   Partitions=r\n"
    )
    result = convert("slurm", [log, nodes], Options(want_cluster=True))
    assert result.cluster is not None
    assert result.cluster.server_gpus.tolist() == [4, 2]
    assert result.cluster.server_vc == ("p+q", "r")
    assert result.cluster.server_names == ("a", "b")
    nodes.write_text("NodeName=a Gres=gpu:4\n\nNodeName=b Gres=gpu:4\nNodeName=a Gres=gpu:4\n")
    with pytest.raises(InputError, match=r"nodes\.txt: line 4, column NodeName: a: expected each node once"):
        convert("slurm", [log, nodes])
    nodes.write_text("NodeName=a Gres=gpu:kx:4,gpu:ky:2 Partitions=p\n")
    with pytest.raises(InputError, match=r"nodes\.txt: line 1, column Gres: .*GPUs of one type on node a"):
        convert("slurm", [log, nodes])
    done = invoke(
        "convert", "slurm", log, "-o", "j.parquet", "--cluster-out", "c.toml", "--from", "2026-05-04"
    )
    assert done.returncode == 0
    alone = invoke("replay", nodes, "--cluster", "2x8", "-o", "r")
    assert "is a list of Slurm's nodes (scontrol show node), which holds no jobs" in alone.stderr


def test_quoted_cells_and_a_log_without_rows(tmp_path: Path) -> None:
    """As pandas writes the table: commas, marks around the resources, an index of its own."""
    names, *rows = (text.replace("|", ",") for text in (NAMES, row(tres='"cpu=1,gres/gpu=2"'), row("1.0")))
    result = made(tmp_path, *rows, names=names)
    assert column(result, "job_id", "num_gpus") == [("1", 2)]
    assert [entry.line for entry in result.account.entries] == [3]
    quoted = made(tmp_path, *rows, names=",".join(f'"{name}"' for name in names.split(",")))
    assert column(quoted, "job_id", "num_gpus") == [("1", 2)]
    assert "has a header but no rows" in refused(tmp_path)
    (tmp_path / "log.json").write_text('{"meta": {"slurm": {}}, "jobs": []}')
    with pytest.raises(InputError, match="no rows"):
        convert("slurm", [tmp_path / "log.json"])
    (tmp_path / "log.json").write_text('{"meta": {"slurm": {}}, "jobs": [{"job_id": 1, "state"')
    with pytest.raises(InputError, match="is no output of sacct --json"):
        convert("slurm", [tmp_path / "log.json"])
