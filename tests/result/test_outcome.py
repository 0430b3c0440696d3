"""The result folder: whole or not at all, the same bytes, read back as written."""

from __future__ import annotations

import copy
import errno
import math
import os
import pickle
import threading
import time
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import RunCli
from ringbco.errors import InputError
from ringbco.io import disk, tables
from ringbco.io.manifest import MANIFEST, PICTURES
from ringbco.io.marks import PAGE_MARK
from ringbco.io.toml import toml_text
from ringbco.result import outcome as module
from ringbco.result.folder import whole_folder
from ringbco.result.outcome import Outcome, count_seconds, summarised_later
from ringbco.result.schema import (
    ALLOCATIONS_SCHEMA,
    CARRIED_SCHEMA,
    CAUSES_SCHEMA,
    CHAINS_SCHEMA,
    ELASTIC_SCHEMA,
    EVICTION_SCHEMA,
    FAILURE_SCHEMA,
    GPUS_SCHEMA,
    JOBS_SCHEMA,
    LIMIT_SCHEMA,
    PAUSES_SCHEMA,
    POWER_SCHEMA,
    PREEMPTION_SCHEMA,
    PRIORITY_SCHEMA,
    SEATS_SCHEMA,
    SHARES_SCHEMA,
    TIERS_SCHEMA,
    TIMELINE_SCHEMA,
    TYPES_SCHEMA,
)

RESULT_FILES = {
    "jobs.parquet",
    "allocations.parquet",
    "timeline.parquet",
    "summary.json",
    "run.toml",
    MANIFEST,
}


def make(rows: int = 3, **summary: Any) -> Outcome:
    """A result of the right shape with made-up figures."""

    def frame(schema: dict[str, pl.DataType]) -> pl.DataFrame:
        numbers = pl.Series(range(rows))
        return pl.DataFrame({name: numbers.cast(dtype) for name, dtype in schema.items()})

    return Outcome(
        jobs=frame(JOBS_SCHEMA),
        allocations=frame(ALLOCATIONS_SCHEMA),
        timeline=frame(TIMELINE_SCHEMA),
        summary={"policy": "fifo", "jobs": rows, "total_seconds": 0.5, **summary},
        run={
            "ringbco": {"version": "0"},
            "trace": {"path": "jobs.csv", "rows": rows},
            "options": {"allocations": True},
        },
    )


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    written = make()
    summary = written.write(tmp_path / "r")
    read = Outcome.read(tmp_path / "r")
    assert names(tmp_path / "r") == RESULT_FILES
    assert read.jobs.equals(written.jobs)
    assert read.jobs.schema == written.jobs.schema
    assert read.allocations is not None
    assert read.allocations.equals(written.allocations)
    assert read.timeline.equals(written.timeline)
    assert read.run == written.run
    assert read.summary == summary
    assert summary["total_seconds"] > 0.5
    assert summary["jobs_per_second"] == pytest.approx(3 / summary["total_seconds"])
    assert written.summary["total_seconds"] == 0.5


def test_allocations_may_be_left_out(tmp_path: Path) -> None:
    outcome = make()
    outcome.allocations = None
    outcome.write(tmp_path / "r")
    assert names(tmp_path / "r") == RESULT_FILES - {"allocations.parquet"}
    assert Outcome.read(tmp_path / "r").allocations is None


def test_allocations_that_were_lost_are_missed(tmp_path: Path) -> None:
    make().write(tmp_path / "r")
    (tmp_path / "r" / "allocations.parquet").unlink()
    with pytest.raises(InputError, match=r"allocations\.parquet: expected a file of the result folder"):
        Outcome.read(tmp_path / "r")


@pytest.mark.parametrize("text", ["{}", "[]", "3", '{"policy": "fifo"'])
def test_a_summary_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    make().write(tmp_path / "r")
    (tmp_path / "r" / "summary.json").write_text(text)
    with pytest.raises(InputError, match=r"summary\.json: "):
        Outcome.read(tmp_path / "r")


def test_the_same_outcome_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make(rows=1000).write(tmp_path / name)
    for table in ("jobs", "allocations", "timeline"):
        file = f"{table}.parquet"
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_missing_parents_are_made_and_nothing_else(tmp_path: Path) -> None:
    make().write(tmp_path / "a" / "b" / "r")
    assert names(tmp_path) == {"a"}
    assert names(tmp_path / "a" / "b") == {"r"}


def test_an_existing_folder_needs_force(tmp_path: Path) -> None:
    make().write(tmp_path / "r")
    with pytest.raises(InputError, match="already exists; pass --force"):
        make(rows=5).write(tmp_path / "r")
    assert Outcome.read(tmp_path / "r").jobs.height == 3
    make(rows=5).write(tmp_path / "r", force=True)
    assert Outcome.read(tmp_path / "r").jobs.height == 5
    assert names(tmp_path) == {"r"}


def test_force_does_not_replace_what_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("1")
    (tmp_path / "file").write_text("2")
    for name in ("thesis", "file"):
        with pytest.raises(InputError, match="is no result"):
            make().write(tmp_path / name, force=True)
    assert names(tmp_path) == {"thesis", "file"}
    assert (tmp_path / "thesis" / "chapter").read_text() == "1"


def test_force_does_not_delete_what_was_put_beside_a_result(tmp_path: Path) -> None:
    make().write(tmp_path / "r")
    (tmp_path / "r" / "notes.txt").write_text("mine")
    make(rows=5).write(tmp_path / "r", force=True)
    assert (tmp_path / "r" / "notes.txt").read_text() == "mine"
    assert Outcome.read(tmp_path / "r").jobs.height == 5
    assert names(tmp_path) == {"r"}


def test_force_replaces_what_was_drawn_of_a_result_with_it(tmp_path: Path) -> None:
    make().write(tmp_path / "r")
    (tmp_path / "r" / "page.html").write_text(f"<!DOCTYPE html><html><head><meta {PAGE_MARK}></head></html>")
    with whole_folder(tmp_path / "r" / "pictures", force=False, kind=PICTURES) as pictures:
        (pictures / "jct.png").touch()
    make(rows=5).write(tmp_path / "r", force=True)
    assert names(tmp_path / "r") == RESULT_FILES
    (tmp_path / "r" / "page.html").write_text("<!DOCTYPE html><html><head></head></html>")
    make().write(tmp_path / "r", force=True)
    assert names(tmp_path / "r") == RESULT_FILES | {"page.html"}


def test_force_takes_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    make().write(tmp_path / "r", force=True)
    assert names(tmp_path / "r") == RESULT_FILES


def test_a_file_where_a_parent_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file is not a folder"):
        make().write(tmp_path / "file" / "r")


def test_a_folder_without_permission_is_named(run_cli_within_rights: RunCli, small_jobs: Path) -> None:
    locked = small_jobs.with_name("locked")
    locked.mkdir(mode=0o500)
    done = run_cli_within_rights("replay", small_jobs, "--cluster", "2x8", "-o", locked / "r")
    assert done.returncode == 1
    assert done.stderr == f"error: {locked / 'r'}: cannot be made: no permission to write in {locked}\n"
    assert list(locked.iterdir()) == []


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")])
@pytest.mark.parametrize("file", ["jobs.parquet", "timeline.parquet"])
def test_a_failure_half_way_leaves_nothing_and_keeps_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, file: str
) -> None:
    make(rows=2).write(tmp_path / "old")
    write_table = tables.write_table

    def failing(frame: pl.DataFrame, path: Path) -> None:
        write_table(frame, path)
        if path.name == file:
            raise failure

    monkeypatch.setattr(module, "write_table", failing)
    expected = InputError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        make().write(tmp_path / "new" / "deeper")
    with pytest.raises(expected):
        make().write(tmp_path / "old", force=True)
    assert names(tmp_path) == {"old"}
    assert Outcome.read(tmp_path / "old").jobs.height == 2


def test_the_summary_may_be_worked_out_while_the_tables_are_written(tmp_path: Path) -> None:
    figures = {"policy": "fifo", "jobs": 3, "total_seconds": 0.5}
    calls = []

    def later() -> dict[str, Any]:
        calls.append(threading.current_thread())
        time.sleep(0.05)
        return dict(figures)

    outcome = summarised_later(make(), later)
    count_seconds(outcome, 1.0)
    assert not calls
    written = outcome.write(tmp_path / "r")
    assert len(calls) == 1
    assert calls[0] is not threading.main_thread()
    assert Outcome.read(tmp_path / "r").summary == written
    # The time for the figures is counted, once, in the outcome's own summary and in the written one.
    assert 1.55 <= outcome.summary["total_seconds"] <= written["total_seconds"] < 1.5 + 2 * 0.05 + 1
    assert len(calls) == 1


def test_a_summary_to_come_is_a_dict_to_whoever_asks() -> None:
    def waiting() -> Outcome:
        return summarised_later(make(), lambda: {"policy": "fifo", "jobs": 3})

    assert waiting().summary["jobs"] == 3
    assert "under fifo" in repr(waiting())
    assert pickle.loads(pickle.dumps(waiting())).summary["policy"] == "fifo"
    assert copy.copy(waiting()).summary["policy"] == "fifo"
    replaced = waiting()
    replaced.summary = {"policy": "mine", "jobs": 1}
    count_seconds(replaced, 2.0)
    assert (replaced.summary["policy"], replaced.summary["total_seconds"]) == ("mine", 2.0)
    with pytest.raises(AttributeError, match="no attribute 'summry'"):
        _ = replaced.summry  # type: ignore[attr-defined]


def test_figures_that_fail_leave_nothing_and_can_be_asked_for_again(tmp_path: Path) -> None:
    answers: list[Any] = [MemoryError(), {"policy": "fifo", "jobs": 3}]

    def figures() -> dict[str, Any]:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return dict(answer)

    outcome = summarised_later(make(), figures)
    with pytest.raises(MemoryError):
        outcome.write(tmp_path / "r")
    assert names(tmp_path) == set()
    outcome.write(tmp_path / "r")
    assert names(tmp_path / "r") == RESULT_FILES


def test_the_files_are_those_of_one_table_after_the_other(tmp_path: Path) -> None:
    outcome = make(rows=100_000)
    outcome.write(tmp_path / "r")
    for name in ("jobs", "allocations", "timeline"):
        tables.write_table(getattr(outcome, name), tmp_path / "alone.parquet")
        assert (tmp_path / "r" / f"{name}.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()


def test_a_disk_that_fills_half_way_leaves_nothing(small_disk: Path) -> None:
    small, large = make(), make(rows=400_000)
    small.write(small_disk / "old")
    with pytest.raises(InputError, match="No space left on device") as caught:
        large.write(small_disk / "new")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="No space left on device"):
        large.write(small_disk / "old", force=True)
    assert names(small_disk) == {"old"}
    assert Outcome.read(small_disk / "old").jobs.height == 3


def test_the_old_result_comes_back_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(rows=2).write(tmp_path / "r")

    def failing(*_: Path) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(disk, "exchange", failing)
    with pytest.raises(InputError, match="busy"):
        make().write(tmp_path / "r", force=True)
    assert names(tmp_path) == {"r"}
    assert Outcome.read(tmp_path / "r").jobs.height == 2


def test_a_folder_that_is_no_result_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a result folder"):
        Outcome.read(tmp_path)


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("jobs.parquet", lambda data: data[: len(data) // 2], "truncated or damaged Parquet"),
        ("timeline.parquet", lambda _: b"", "truncated or damaged Parquet"),
        ("summary.json", lambda _: b"{", "not readable as JSON"),
        (
            "summary.json",
            lambda data: data.replace(b'"jobs": ', b'"jobs": NaN, "x": '),
            "NaN: expected a finite",
        ),
        (
            "summary.json",
            lambda data: data.replace(b'"jobs": ', b'"jobs": 1e999, "x": '),
            "1e999: expected a",
        ),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, file: str, damage: Any, message: str) -> None:
    make().write(tmp_path / "r")
    path = tmp_path / "r" / file
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=message) as caught:
        Outcome.read(tmp_path / "r")
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_or_foreign_column_is_named(tmp_path: Path) -> None:
    for rows, change in enumerate(("drop", "cast"), start=1):
        outcome = make(rows)
        outcome.jobs = outcome.jobs.drop("jct") if change == "drop" else outcome.jobs.cast({"jct": pl.String})
        outcome.write(tmp_path / change)
        with pytest.raises(InputError, match="jct"):
            Outcome.read(tmp_path / change)


def test_the_block_of_a_whole_folder_sees_it_only_under_another_name(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "r", force=False) as partial:
        assert not (tmp_path / "r").exists()
        (partial / "x").write_text("x")
    assert names(tmp_path / "r") == {"x", MANIFEST}


PLAIN = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
)
TABLES = st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), PLAIN, max_size=4)


@pytest.mark.long
@given(TABLES, TABLES, st.lists(TABLES, min_size=1, max_size=3))
def test_toml_text_is_read_back(top: dict[str, Any], below: dict[str, Any], rows: list[Any]) -> None:
    document = {**top, "A": {**below, "B": rows, "C": below}}
    assert tomllib.loads(toml_text(document)) == document


def test_toml_leaves_out_none_and_survives_undecodable_paths() -> None:
    text = toml_text({"a": None, "b": os.fsdecode(b"x\xff"), "c": math.inf})
    assert tomllib.loads(text) == {"b": "x?", "c": math.inf}


def test_every_file_and_column_is_documented() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "results-reference.md").read_text(encoding="utf-8")
    copies = page.split("## Copies of inputs\n")[1].split("\n## ")[0]
    for file in RESULT_FILES - {MANIFEST}:
        assert f"## {file}\n" in page or file in copies
        assert file in (docs / "results.md").read_text(encoding="utf-8")
    columns = {"jobs": JOBS_SCHEMA, "allocations": ALLOCATIONS_SCHEMA, "timeline": TIMELINE_SCHEMA}
    for table, schema in columns.items():
        section = page.split(f"## {table}.parquet\n")[1].split("\n## ")[0]
        rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")]
        documented = [row[0].removeprefix("| ") for row in rows if len(row) > 2][2:]
        more = {
            "jobs": CAUSES_SCHEMA
            | PREEMPTION_SCHEMA
            | EVICTION_SCHEMA
            | PRIORITY_SCHEMA
            | LIMIT_SCHEMA
            | PAUSES_SCHEMA
            | FAILURE_SCHEMA
            | ELASTIC_SCHEMA
            | TIERS_SCHEMA
            | TYPES_SCHEMA
            | SHARES_SCHEMA,
            "allocations": GPUS_SCHEMA | SEATS_SCHEMA,
            "timeline": POWER_SCHEMA,
        }.get(table, {})
        extra = [*more, ", ".join(CARRIED_SCHEMA), *CHAINS_SCHEMA] if table == "jobs" else list(more)
        assert documented == list(schema) + extra
        types = {row[0].removeprefix("| "): row[1].split(",")[0] for row in rows if len(row) > 2}
        typed = schema | more
        for name, dtype in typed.items():
            assert types[name] == str(dtype).lower()
