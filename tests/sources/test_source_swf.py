"""SWF: processors as GPUs, -1 as unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Invoke
from raw import swf
from raw.agreement import converted
from ringbco.errors import InputError, UsageError
from ringbco.sources import convert
from ringbco.sources.source import Options

LINE = "1 10 5 100 8 -1 -1 8 3600 -1 1 7 1 -1 2 -1 -1 -1"


@pytest.mark.parametrize("seed", range(4))
def test_every_planted_defect_is_accounted_for(seed: int, tmp_path: Path) -> None:
    result = converted("swf", swf.generate(seed), tmp_path, want_cluster=True)
    assert result.epoch == "2001-09-09T01:46:40Z"
    assert result.cluster is not None
    assert result.cluster.server_gpus.tolist() == [8] * 16


def test_strict_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(f"; Version: 2.2\n\n{LINE}\n; between\n{LINE.replace('1 10 5 100', '2 11 5 -1')}\n")
    with pytest.raises(InputError) as caught:
        convert("swf", [path], Options(strict=True))
    assert str(caught.value) == (
        f"{path}: row 2 (line 5), column run_time: -1: expected a number of seconds; "
        "without --strict: dropped, run_time missing or unreadable"
    )
    path.write_text(f"{LINE}\n{LINE} 4\n")
    with pytest.raises(InputError) as caught:
        convert("swf", [path], Options(strict=True))
    assert str(caught.value).startswith(
        f"{path}: row 2 (line 2), column line: '{LINE} 4': expected 18 numbers"
    )


def test_a_log_without_a_known_cluster(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    for header in ("", "; MaxNodes: 0\n; MaxProcs: 8\n", "; MaxProcs: 8\n"):
        path.write_text(f"{header}{LINE}\n")
        assert convert("swf", [path]).table.metadata["ringbco.epoch"] == "1970-01-01T00:00:00"
        with pytest.raises(UsageError, match="its header would have to give MaxNodes and MaxProcs"):
            convert("swf", [path], Options(want_cluster=True))


def test_a_first_line_of_another_length_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text("; Version: 2.2\n1 2 3\n")
    with pytest.raises(InputError) as caught:
        convert("swf", [path])
    assert str(caught.value) == f"{path}: line 2: '1 2 3': expected 18 numbers separated by blanks"


UNEVEN = """\
; Version: 2.2
; UnixStartTime: 1400749079
; MaxNodes: 151
; MaxProcs: 2004
1 0 10 3600 12 -1 -1 12 7200 -1 1 1 1 1 1 -1 -1 -1
2 60 0 600 12 -1 -1 12 7200 -1 1 -1 1 1 1 -1 -1 -1
3 90 5 0 8 -1 -1 8 7200 -1 2 1 1 1 1 -1 -1 -1
"""
DOES_NOT_DIVIDE = (
    "the header's 2,004 processors do not divide over its 151 nodes, write --cluster SxG when replaying"
)


def test_a_header_that_does_not_divide_is_said_and_the_jobs_are_kept(invoke: Invoke, tmp_path: Path) -> None:
    """And a line of status 2 whose job has no other line is judged by itself: it ran for no time."""
    path = tmp_path / "uneven.swf"
    path.write_text(UNEVEN)
    result = convert("swf", [path], Options(want_cluster=True))
    assert result.cluster is None
    assert result.account.dropped == {"ran for no time (run_time = 0)": 1}
    assert result.table.frame["job_id"].to_list() == ["1", "2"]
    assert result.notes == (
        f"no cluster file: {DOES_NOT_DIVIDE}",
        "row 3 (line 7) has status 2, but no line of its job as a whole: it is judged like any other line",
    )
    assert convert("swf", [path]).notes[0] == DOES_NOT_DIVIDE
    done = invoke("convert", "swf", path, "-o", "j.parquet", "--cluster-out", "c.toml", "--json")
    assert (done.returncode, json.loads(done.stdout)["cluster"]) == (0, None)
    assert sorted(item.name for item in Path.cwd().glob("[cj].*")) == ["j.parquet"]


def line(job: int, run: int, status: int, before: int = -1, user: int = 7) -> str:
    """A line whose job took `run` seconds."""
    return f"{job} 10 5 {run} 8 -1 -1 8 -1 -1 {status} {user} 1 -1 2 -1 {before} -1\n"


@pytest.mark.parametrize("status", [2, 3, 4])
def test_stretches_are_left_out_where_their_job_occurs_again(status: int, tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(line(1, 300, 1) + line(1, 100, 2) + line(1, 200, status) + line(2, 50, status))
    result = convert("swf", [path])
    assert result.account.dropped == {"one stretch of a checkpointed job (status 2, 3 or 4)": 2}
    assert result.table.frame.select("job_id", "duration", "status").rows() == [
        ("1", 300.0, "COMPLETED"),
        ("2", 50.0, None),
    ]
    assert result.notes == (
        f"row 4 (line 4) has status {status}, but no line of its job as a whole: it is judged like any other"
        " line",
    )


def test_a_job_of_nothing_but_stretches_is_left_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(line(1, 300, 1) + line(2, 100, 2) + line(2, 200, 3))
    result = convert("swf", [path])
    assert result.table.frame["job_id"].to_list() == ["1"]
    assert result.notes == (
        "2 lines have status 2, 3 or 4, but no line of their job as a whole: they are left out, as stretches"
        " of other jobs are; first: row 2 (line 2) has status 2",
    )


def test_jobs_that_follow_another_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(
        "; a log\n"
        + line(1, 300, 1)
        + line(2, 100, 1, before=1)
        + line(3, 100, 1, before=2)
        + line(4, 100, 1, before=9)
        + line(5, 100, 1, before=6)
        + line(6, 100, 1, before=5)
    )
    result = convert("swf", [path])
    assert result.notes == ("2 jobs arrive after others (column after); first: 2 after 1",)
    assert result.table.frame["after"].to_list() == [None, "1", "2", None, None, None]
    noted = result.account.to_dict()
    assert noted["noted"] == {
        "the job before it was left out: after is empty": 1,
        "the jobs before it lead back to it: after is empty": 2,
    }
    assert noted["first"]["the job before it was left out: after is empty"] == {"line": 5, "value": "9"}


@pytest.mark.parametrize(
    ("users", "known"), [((-1, -1), False), ((0, 0), False), ((0, -1), False), ((0, 4), True)]
)
def test_a_log_without_users_names_none(
    invoke: Invoke, users: tuple[int, int], known: bool, tmp_path: Path
) -> None:
    path = tmp_path / "log.swf"
    path.write_text("".join(line(job, 300, 1, user=user) for job, user in enumerate(users, start=1)))
    result = convert("swf", [path])
    assert result.table.frame["user"].to_list() == (["0", "4"] if known else [None, None])
    said = "no line has a user number above 0: who submitted the jobs is taken to be unknown"
    assert (said in result.notes) == (0 in users and not known)
    assert invoke("convert", "swf", path, "-o", "j.parquet").returncode == 0
    inspected = invoke("inspect", "j.parquet").stdout
    assert ("user" in inspected) == known
