"""Every kind of side table, by the registry: what a run does with each, whichever it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from frames import busy_jobs
from ringbco.result.tables import TABLES
from ringbco.run.again import read_repeat
from ringbco.run.results import MAKERS
from ringbco.run.resume import key_of
from ringbco.run.setup import prepare
from ringbco.trace.quotas import BOOKS
from ringbco.trace.side_tables import KINDS

JOBS = busy_jobs(30).with_columns(model=pl.lit("m"), user=pl.lit("ann"))
CLUSTER = "2x8"
DOWN = pl.DataFrame({"server": [0], "down_at": [900.0], "up_at": [2000.0]})
SPEEDS = [
    ("m", "V100", gpus, servers, 1.0) for gpus in (1, 2, 4, 8, 16) for servers in (1, 2) if servers <= gpus
]
FRAMES: dict[str, pl.DataFrame] = {
    "tables": pl.DataFrame(SPEEDS, ["model", "gpu_type", "gpus", "servers", "rate"], orient="row"),
    "outages": DOWN,
    "maintenance": DOWN.with_columns(down_at=pl.lit(3000.0), up_at=pl.lit(3500.0)),
    "quota": pl.DataFrame({"user": ["ann"], "gpus": [9], "borrow": [True]}),
    "services": pl.DataFrame({"service": ["a"], "time": [5.0], "replicas": [1], "gpus_per_replica": [2]}),
    "fair_shares": pl.DataFrame({"user": ["ann"], "share": [2.0]}),
}
COPIED = [name for name, kind in KINDS.items() if kind.is_copied]
"""Of the others run.toml says where they are: `test_requests_replayed`."""
MORE: dict[str, dict[str, Any]] = {"tables": {"model": "table"}, "fair_shares": {"order": "fairshare"}}


def test_every_kind_is_tried() -> None:
    assert list(FRAMES) == COPIED


def test_every_table_of_a_result_has_one_maker() -> None:
    copies = {kind.form.table for kind in KINDS.values() if kind.is_copied} | {*BOOKS}
    assert sorted([*MAKERS, *copies]) == sorted(TABLES)


@pytest.fixture(params=COPIED)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(kind: str, given: object, jobs: Any = JOBS, **options: Any) -> ringbco.Outcome:
    return ringbco.replay(jobs, CLUSTER, **{"policy": "fifo", **MORE.get(kind, {}), kind: given, **options})


def same(one: ringbco.Outcome, other: ringbco.Outcome) -> None:
    for name in TABLES:
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None), name
        assert mine is None or mine.equals(theirs), name


def test_a_file_a_frame_and_a_table_are_the_same(kind: str, tmp_path: Path) -> None:
    path, frame = tmp_path / "t.csv", FRAMES[kind]
    frame.write_csv(path)
    plain, read = run(kind, frame), KINDS[kind].read(path)
    for given in (path, str(path), read, frame.lazy()):
        same(run(kind, given), plain)
    assert run(kind, path).run[read.form.entry or kind]["sha256"] == read.sha256
    assert KINDS[kind].read(read) is read


def test_a_folder_has_its_copy_and_repeats(kind: str, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.parquet"
    JOBS.write_parquet(jobs)
    made = run(kind, FRAMES[kind], jobs, decisions=True)
    made.write(tmp_path / "r")
    form = KINDS[kind].form
    assert (tmp_path / "r" / form.file).is_file()
    owners = ["vc", "user"] if kind in ("quota", "fair_shares") else []
    always = [name for name in form.schema if name not in form.seldom]
    assert getattr(made, form.table).columns == [*owners, *always]
    same(ringbco.Outcome.read(tmp_path / "r"), made)
    same(read_repeat(tmp_path / "r").run(), made)
    followed = ringbco.replay(jobs, CLUSTER, policy=f"log:{tmp_path / 'r' / 'decisions.parquet'}")
    assert followed.jobs["finish_time"].equals(made.jobs["finish_time"])


def test_an_audit_refuses_a_damaged_copy_whatever_follows_from_it(kind: str) -> None:
    made, form, column = run(kind, FRAMES[kind]), KINDS[kind].form, FRAMES[kind].columns[0]
    assert not ringbco.audit(made, JOBS)
    copy = getattr(made, form.table)
    damaged = copy.with_columns(pl.lit(None, copy.schema[column]).alias(column))
    with pytest.raises(ringbco.errors.InputError, match=f"^{form.file}: row 1, column "):
        ringbco.audit(replace(made, **{form.table: damaged}), JOBS)


def test_a_comparison_keeps_no_run_that_a_frame_decides(kind: str, tmp_path: Path) -> None:
    """A frame has no content to go by: another one of as many rows would be taken for it."""
    path, jobs = tmp_path / "t.parquet", tmp_path / "jobs.parquet"
    FRAMES[kind].write_parquet(path)
    JOBS.write_parquet(jobs)

    def key(given: object) -> str | None:
        options = {**MORE.get(kind, {}), kind: given}
        setup = prepare(jobs, CLUSTER, recorded_cluster=None, policy="fifo", workload=None, options=options)
        return key_of(setup)

    assert key(FRAMES[kind]) is None
    assert key(path) is not None


def test_a_bound_and_a_sweep_take_it(kind: str, tmp_path: Path) -> None:
    JOBS.write_parquet(tmp_path / "jobs.parquet")
    FRAMES[kind].write_parquet(tmp_path / "t.parquet")
    options = {**MORE.get(kind, {}), kind: "t.parquet"}
    base = {"trace": "jobs.parquet", "cluster": CLUSTER, "policy": "fifo", **options}
    lines = (f'{name} = "{value}"' for name, value in base.items())
    (tmp_path / "s.toml").write_text("\n".join(["[base]", *lines, "[grid]", "kappa = [1, 2]", ""]))
    swept = ringbco.sweep(tmp_path / "s.toml", tmp_path / "out").frame
    assert swept[kind].to_list() == ["t.parquet"] * 2
    assert swept["mean_jct"].to_list() == [run(kind, FRAMES[kind]).summary["mean_jct"]] * 2
    least = ringbco.bound(JOBS, CLUSTER, **MORE.get(kind, {}), **{kind: FRAMES[kind]}).mean_jct
    assert 0 < least <= swept["mean_jct"][0]


def test_what_is_none_is_refused(kind: str) -> None:
    with pytest.raises(
        ringbco.errors.UsageError, match=f"option {KINDS[kind].form.option.replace('_', '-')}: 7"
    ):
        run(kind, 7)
    with pytest.raises(ringbco.errors.InputError, match=f"^<{kind}>: has no column|^<{kind}>"):
        run(kind, pl.DataFrame({"x": [1]}))
