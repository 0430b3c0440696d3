"""Side tables and deadlines on another clock than the submissions, and dates in side tables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.errors import InputError, RingbcoWarning
from ringbco.trace.epoch import epoch_of
from ringbco.trace.jobs import JobTable, from_frame

FIRST, LONGEST = 1.6e9, 500.0
"""Seconds of the Unix clock, beside which 0 is in another age."""
OPTIONS = ("outages", "maintenance", "services")


def table(
    submit: tuple[float, ...] = (FIRST, FIRST + 100), epoch: str | None = None, **columns: Any
) -> JobTable:
    length = len(submit)
    frame = {
        "job_id": [f"j{row}" for row in range(length)],
        "submit_time": list(submit),
        "num_gpus": [1] * length,
        "duration": [LONGEST] + [20.0] * (length - 1),
        **columns,
    }
    return from_frame(pl.DataFrame(frame), "jobs", {} if epoch is None else {"ringbco.epoch": epoch})


def side_csv(name: str, *times: float | str) -> str:
    """The CSV of a table of that kind with rows at these times."""
    if name == "services":
        rows = [f"web,{time},{row % 2},1" for row, time in enumerate(times)]
        return "\n".join(["service,time,replicas,gpus_per_replica", *rows, ""])
    rows = [f"0,{time},{time + 10.0 if isinstance(time, float) else time}" for time in times]
    return "\n".join(["server,down_at,up_at", *rows, ""])


def lines(run: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(one.message) for one in caught if issubclass(one.category, RingbcoWarning)]


def every_verb(jobs: JobTable, options: Mapping[str, Any], folder: Path) -> list[list[str]]:
    spec = {
        "base": {"trace": jobs, "cluster": "2x8", **{name: str(path) for name, path in options.items()}},
        "grid": {"policy": ["fifo", "sjf"]},
    }
    return [
        lines(lambda: ringbco.replay(jobs, "2x8", policy="fifo", **options)),
        lines(lambda: ringbco.compare(jobs, "2x8", ["fifo", "sjf"], **options)),
        lines(lambda: ringbco.compare(jobs, "2x8", ["fifo", "sjf"], seeds=2, **options)),
        lines(lambda: ringbco.Simulation(jobs, "2x8", **options)),
        lines(lambda: ringbco.bound(jobs, "2x8", **options)),
        lines(lambda: ringbco.sweep(spec, folder / f"sweep{len(list(folder.iterdir()))}")),
    ]


@pytest.mark.parametrize("name", OPTIONS)
def test_a_table_on_another_clock_is_said_once_by_every_verb(name: str, tmp_path: Path) -> None:
    path = tmp_path / "beside.csv"
    path.write_text(side_csv(name, 0.0, 7200.0))
    said = every_verb(table(), {name: path}, tmp_path)
    for item in said:
        assert len(item) == 1, item
        assert "beside.csv: none of its 2 rows falls into the time of the jobs: 0 to 72" in item[0]
        assert "submissions and the longest run 1600000000 to 1600000600 s (10.0 min) in jobs;" in item[0]
        assert "if they count from the first submission, add 1600000000" in item[0]
    run = ringbco.replay(table(), "2x8", policy="fifo", **{name: path}).run  # type: ignore[arg-type]
    assert run["warnings"] == said[0]
    mended = tmp_path / "mended.csv"
    mended.write_text(side_csv(name, FIRST, FIRST + 7200))
    assert every_verb(table(), {name: mended}, tmp_path) == [[]] * 6


@pytest.mark.parametrize(
    ("time", "told"),
    [
        (FIRST - 11, True),
        (FIRST - 10, False),  # an outage lasts until the first submission
        (FIRST + 100 + LONGEST, False),
        (FIRST + 101 + LONGEST, True),
    ],
)
def test_the_bounds_of_the_time_of_the_jobs(time: float, told: bool, tmp_path: Path) -> None:
    path = tmp_path / "outages.csv"
    path.write_text(side_csv("outages", time))
    bound = lines(lambda: ringbco.bound(table(), "2x8", outages=path))
    assert bool(bound) == told
    if told:
        assert "its row does not fall into" in bound[0]


def test_what_means_the_same_on_any_clock_is_not_doubted(tmp_path: Path) -> None:
    path = tmp_path / "services.csv"
    path.write_text("service,time,replicas,gpus_per_replica\nweb,0,1,1\nchat,5,1,2\n")
    for options in (
        {"services": path},
        {"outages": "draw:mtbf=50d,mttr=2h"},
        {"outages": _no_rows(tmp_path)},
    ):
        assert lines(lambda options=options: ringbco.replay(table(), "2x8", **options)) == []
    path.write_text("service,time,replicas,gpus_per_replica\nweb,0,1,1\nchat,1700000000,1,2\n")
    assert len(lines(lambda: ringbco.replay(table(), "2x8", services=path))) == 1


def _no_rows(folder: Path) -> Path:
    (folder / "none.csv").write_text("server,down_at,up_at\n")
    return folder / "none.csv"


@pytest.mark.parametrize(("late", "told"), [(0, False), (1, False), (2, True), (100, True)])
def test_deadlines_before_their_submission(late: int, told: bool, tmp_path: Path, invoke: Invoke) -> None:
    submit = tuple(1000.0 + row for row in range(100))
    due = [900.0 if row < late else 5000.0 for row in range(100)]
    jobs = table(submit, deadline=due)
    outcome = lines(lambda: ringbco.replay(jobs, "20x8", policy="edf"))
    assert bool(outcome) == told
    if not told:
        return
    (line,) = outcome
    assert f"column deadline: {late} of 100 deadlines lie before the submission of the own job" in line
    assert "(the first in row 1: 900 < 1000)" in line
    assert "submissions 1000 to 1099 s (99.0 s)" in line
    assert "convert csv --deadline-from submit" in line
    assert lines(lambda: ringbco.compare(jobs, "20x8", ["edf", "fifo"])) == outcome
    assert lines(lambda: ringbco.inspect(jobs)) == outcome
    ringbco.write_jobs(jobs, tmp_path / "jobs.csv")
    done = invoke("replay", tmp_path / "jobs.csv", "--cluster", "20x8", "-o", tmp_path / "r")
    assert done.returncode == 0
    assert done.stderr.count("deadline-from submit") == 1


def _moment(seconds: float, hours: int | None) -> str:
    """So many seconds after ten o'clock, of no zone or, of UTC's ten, on the wall of one so far east."""
    if hours is None:
        return (datetime(2021, 3, 4, 10) + timedelta(seconds=seconds)).isoformat()
    moment = datetime(2021, 3, 4, 10, tzinfo=UTC) + timedelta(seconds=seconds)
    return moment.astimezone(timezone(timedelta(hours=hours))).isoformat()


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize(
    ("epoch", "hours"), [("2021-03-04T10:00:00", None), ("2021-03-04T10:00:00+00:00", 3)]
)
@pytest.mark.parametrize("form", ["csv", "text", "datetime"])
def test_dates_are_read_on_the_epoch_of_the_table(
    name: str, epoch: str, hours: int | None, form: str, tmp_path: Path
) -> None:
    jobs, path, dated = table((0.0, 40.0), epoch), tmp_path / "plain.csv", tmp_path / f"dated.{form}"
    path.write_text(side_csv(name, 10.0, 30.0))
    plain = pl.read_csv(path)
    columns = [column for column in ("down_at", "up_at", "time") if column in plain.columns]
    texts = plain.with_columns(
        pl.Series(column, [_moment(seconds, hours) for seconds in plain[column]]) for column in columns
    )
    if form == "csv":
        texts.write_csv(dated)
    else:
        dated = dated.with_suffix(".parquet")
        if form == "datetime":
            texts = texts.with_columns(
                pl.col(columns).str.to_datetime(time_zone=None if hours is None else "UTC")
            )
        texts.write_parquet(dated)
    known: dict[str, Any] = {"policy": "fifo"}
    numbers = ringbco.replay(jobs, "2x8", **{name: path}, **known)
    dates = ringbco.replay(jobs, "2x8", **{name: dated}, **known)
    assert dates.jobs.equals(numbers.jobs)
    assert every_verb(jobs, {name: dated}, tmp_path) == [[]] * 6
    trace = tmp_path / "jobs.parquet"
    ringbco.write_jobs(jobs, trace)
    base = {"trace": str(trace), "cluster": "2x8", "policy": "fifo"}
    swept = [
        ringbco.sweep({"base": {**base, name: str(file)}, "grid": {"seed": [0]}}, tmp_path / file.stem).frame
        for file in (path, dated)
    ]
    assert swept[0]["error"].to_list() == swept[1]["error"].to_list() == [None]
    assert swept[0]["mean_jct"].to_list() == swept[1]["mean_jct"].to_list()


@pytest.mark.parametrize(
    ("epoch", "cell", "said"),
    [
        (None, "2021-03-04T10:00:20", "expected seconds: the job table does not say on which date"),
        ("1970-01-01T00:00:00", "2021-03-04T10:00:20", "expected seconds: the job table does not say"),
        ("2021-03-04T10:00:00", "2021-03-04T10:00:20+01:00", "(without an offset, as the epoch 2021-03-04"),
        ("2021-03-04T10:00:00", "2021-13-04", "expected a date and time such as"),
        ("2021-03-04T10:00:00", "2021-03-03T10:00:20", "expected a finite number of seconds >= 0"),
    ],
)
def test_dates_that_cannot_be_read(epoch: str | None, cell: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "outages.csv"
    path.write_text(f"server,down_at,up_at\n0,5,6\n0,{cell},\n")
    for run in (ringbco.replay, ringbco.bound):
        with pytest.raises(InputError) as raised:
            run(table((0.0, 40.0), epoch), "2x8", outages=path)  # type: ignore[operator]
        assert f"{path}: row 2 (line 3), column down_at: " in str(raised.value)
        assert said in str(raised.value)


UNIX = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("submit", "epoch", "zero"),
    [
        ((0.0, 5.0), None, None),
        ((0.0, 5.0), "2026-03-02T00:00:00", datetime(2026, 3, 2)),
        ((1_772_409_600.0, 1_772_409_660.0), None, UNIX),
        ((1_772_409_600.0, 1_772_409_660.0), "1970-01-01T00:00:00Z", UNIX),  # no log says that it began then
        ((1_772_409_600.0, 1_772_409_660.0), "2026-03-02T00:00:00", datetime(2026, 3, 2)),
        ((0.0, 1_772_409_660.0), None, None),  # 0 is no Unix second of a log
        ((946_684_800.0, 4_102_444_799.0), None, UNIX),
        ((946_684_799.0, 1_772_409_600.0), None, None),  # of 1999
        ((1_772_409_600.0, 4_102_444_800.0), None, None),  # of 2100
        ((1.772e12, 1.773e12), None, None),  # milliseconds
    ],
)
def test_what_zero_is(submit: tuple[float, ...], epoch: str | None, zero: datetime | None) -> None:
    jobs = table(submit, epoch)
    assert epoch_of(jobs) == zero
    assert jobs.epoch == (None if zero is None else zero.isoformat())
    assert jobs.identity.get("epoch") == jobs.epoch


def test_dates_beside_unix_seconds_are_of_utc(tmp_path: Path) -> None:
    path = tmp_path / "outages.csv"
    path.write_text(
        "server,down_at,up_at\n1,2026-03-02T00:00:10,2026-03-02T01:00:20+01:00\n", encoding="utf-8"
    )
    jobs = table((1_772_409_600.0, 1_772_409_660.0))
    outages = ringbco.replay(jobs, "2x8", outages=path).outages
    assert outages is not None
    assert outages.select("down_at", "up_at").rows() == [(1_772_409_610.0, 1_772_409_620.0)]
