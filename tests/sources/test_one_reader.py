"""Every reader of times and of durations reads the same forms: a table of readers by forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from ringbco.errors import RingbcoError
from ringbco.reports.viewport import viewport
from ringbco.run.options import REPLAY, check, on_clock
from ringbco.run.replay import replay
from ringbco.sources import convert
from ringbco.sources.source import Options
from ringbco.trace.clock import parse_epoch
from ringbco.trace.jobs import JobTable, from_frame
from ringbco.trace.outages import Maintenance, Outages
from ringbco.trace.requests import read_requests
from ringbco.trace.services import Services
from ringbco.trace.side_table import ReadContext, SideTable
from ringbco.units import quantity

DAY = "2024-03-02"
HOUR, NOON = 3_600.0, 43_200.0
TIMES = {
    f"{DAY}T12:00:00": NOON,
    f"{DAY} 12:00:00": NOON,
    f"{DAY}T12:00": NOON,
    f"{DAY} 12:00": NOON,
    f"{DAY} 12:00:00.25": NOON + 0.25,
    f"{DAY} 12:00:00,25": NOON + 0.25,
    f"{DAY}T12:00:00.123456": NOON + 0.123456,
    "2024/03/02 12:00:30": NOON + 30,
    "2024-3-2 12:00": NOON,
    DAY: 0.0,
}
"""Times on the clock of a table, and seconds from the midnight of `DAY`."""
OFFSETS = {"Z": 0.0, " UTC": 0.0, "+0100": -HOUR, "+01:00": -HOUR, "-05": 5 * HOUR, "+05:30": -5.5 * HOUR}
ZONED = {f"{DAY} 12:00:00{offset}": NOON + shift for offset, shift in OFFSETS.items()}
NO_TIMES = (f"{DAY} 25:00", f"{DAY}T12:00 PM", "2024-13-01", f"{DAY} 12:60")
DURATIONS = {
    "1-00:00:00": 86_400.0,
    "1-06:30:00": 109_800.0,
    "1-06": 108_000.0,
    "1-06:30": 109_800.0,
    "01:30:00": 5_400.0,
    "100:00:00": 360_000.0,
    "10:30": 630.0,
    "00:00:01.5": 1.5,
    "1 day, 2:03:04": 93_784.0,
    "0 days 01:02:03": 3_723.0,
}
NO_DURATIONS = ("1-25:00:00", "1:2:3:4", "00:00:99", "soon")
EPOCHS = {False: f"{DAY}T00:00:00", True: f"{DAY}T00:00:00Z"}


def written(folder: Path, header: str, *rows: str, mark: str = "|") -> Path:
    """A table of texts with bars between cells, since a form may hold a comma."""
    path = folder / "table.csv"
    path.write_text("\n".join((header, *rows)).replace(";", mark) + "\n")
    return path


def by_csv(column: str) -> Callable[[Path, str, bool], float]:
    """The column of `convert csv`. A job before it is submitted at midnight, so that time 0 is known."""

    def read(folder: Path, text: str, zoned: bool) -> float:
        first = EPOCHS[zoned]
        cells = {"job_id": "a", "submit_time": first, "num_gpus": "1", "duration": "5", column: text}
        before = cells | {"job_id": "b", column: first}
        lines = (";".join(cells), ";".join(before.values()), ";".join(cells.values()))
        table = convert("csv", [written(folder, *lines)], Options(strict=True)).table
        assert table.metadata["ringbco.epoch"] == first
        return float(table.frame.filter(pl.col("job_id") == "a")[column][0])

    return read


def by_end(folder: Path, text: str, zoned: bool) -> float:
    first = EPOCHS[zoned].replace("02T", "01T")  # a day before, so that every run takes time
    path = written(folder, "job_id;submit_time;num_gpus;start_time;end_time", f"a;{first};1;{first};{text}")
    return float(convert("csv", [path], Options(strict=True)).table.frame["duration"][0]) - 86_400


def by_side_table(kind: type[SideTable], row: str, column: str) -> Callable[[Path, str, bool], float]:
    def read(folder: Path, text: str, zoned: bool) -> float:
        known = ReadContext(epoch=parse_epoch(EPOCHS[zoned]))
        path = written(folder, ";".join(kind.form.needed), row.format(text))
        return float(kind.read(path, known).frame[column][0])

    return read


def by_requests(folder: Path, text: str, zoned: bool) -> float:
    rows = (f"{EPOCHS[zoned]};1;1", f"{text};1;1")
    return float(read_requests(written(folder, "arrival;input_tokens;output_tokens", *rows))[0]["arrival"][1])


def jobs(zoned: bool) -> JobTable:
    frame = pl.DataFrame(
        {"job_id": ["a", "b"], "submit_time": [0.0, 2e5], "num_gpus": [1, 1], "duration": [9.0, 9.0]}
    )
    return from_frame(frame, metadata={"ringbco.epoch": EPOCHS[zoned]})


def by_window(folder: Path, text: str, zoned: bool) -> float:
    return float(str(on_clock({"measure_from": text}, jobs(zoned))["measure_from"]).removesuffix("s"))


def by_view(folder: Path, text: str, zoned: bool) -> float:
    outcome = replay(jobs(zoned), "1x1", policy="fifo")
    return viewport(outcome, text, None, None).start


def slurm(folder: Path, header: str, *rows: str, strict: bool = False) -> JobTable:
    needed = "JobID;State;Partition;Submit;Start;End;AllocTRES"
    return convert("slurm", [written(folder, needed + header, *rows)], Options(strict=strict)).table


def by_sacct(folder: Path, text: str, zoned: bool) -> float:
    first, late = EPOCHS[zoned], "2024-03-09T00:00:00" + "Z" * zoned
    rows = (f"{i};COMPLETED;p;{at};{late};2024-03-09T01:00:00{'Z' * zoned};gres/gpu=1"
            for i, at in enumerate((first, text)))  # fmt: skip
    table = slurm(folder, "", *rows, strict=True)
    assert table.metadata["ringbco.epoch"] == first
    return float(table.frame.filter(pl.col("job_id") == "1")["submit_time"][0])


TIME_READERS = {
    **{f"csv {column}": by_csv(column) for column in ("submit_time", "deadline", "recorded_start")},
    "csv end_time": by_end,
    "outages down_at": by_side_table(Outages, "0;{};9e9", "down_at"),
    "outages up_at": by_side_table(Outages, "0;0;{}", "up_at"),
    "maintenance down_at": by_side_table(Maintenance, "0;{};9e9", "down_at"),
    "services time": by_side_table(Services, "s;{};1;1", "time"),
    "requests arrival": by_requests,
    "--measure-from": by_window,
    "--from": by_view,
    "slurm Submit": by_sacct,
}


@pytest.mark.parametrize("reader", TIME_READERS)
def test_times(reader: str, tmp_path: Path) -> None:
    read = TIME_READERS[reader]
    for forms, zoned in ((TIMES, False), (ZONED, True)):
        made = {}
        for text, at in forms.items():
            if at > 0 or reader != "outages up_at":  # up_at is after down_at
                made[text] = (read(tmp_path, text, zoned), pytest.approx(at, abs=1e-6))
        assert {text: got for text, (got, _) in made.items()} == {t: want for t, (_, want) in made.items()}
    for text in NO_TIMES:
        with pytest.raises(RingbcoError) as caught:
            read(tmp_path, text, False)
        assert "\n" not in str(caught.value)


def by_csv_length(column: str) -> Callable[[Path, str], float]:
    def read(folder: Path, text: str) -> float:
        cells = {"job_id": "a", "submit_time": "0", "num_gpus": "1", "duration": "5", column: text}
        path = written(folder, ";".join(cells), ";".join(cells.values()))
        return float(convert("csv", [path], Options(strict=True)).table.frame[column][0])

    return read


def by_deadline(folder: Path, text: str) -> float:
    cells = f"a;{EPOCHS[False]};1;5;{text}"
    path = written(folder, "job_id;submit_time;num_gpus;duration;deadline", cells)
    made = convert("csv", [path], Options(strict=True, deadline_from="submit"))
    return float(made.table.frame["deadline"][0])


def by_slurm_length(header: str, column: str) -> Callable[[Path, str], float]:
    def read(folder: Path, text: str) -> float:
        row = f"1;COMPLETED;p;{DAY}T00:00;{DAY}T00:00;2024-06-02T00:00;gres/gpu=1;{text}"
        value = slurm(folder, f";{header}", row).frame[column][0]
        if value is None or value == 92 * 86_400:  # left out: End - Start
            raise RingbcoError(text)
        return float(value)

    return read


def by_option(folder: Path, text: str) -> float:
    return float(check(REPLAY["preempt_cost"], text))


def by_quantity(folder: Path, text: str) -> float:
    try:
        return quantity(text, "s")
    except ValueError as error:
        raise RingbcoError(str(error)) from None


LENGTH_READERS = {
    **{
        f"csv {column}": by_csv_length(column) for column in ("duration", "time_limit", "checkpoint_interval")
    },
    "csv deadline": by_deadline,
    "slurm Timelimit": by_slurm_length("Timelimit", "time_limit"),
    "slurm Elapsed": by_slurm_length("Elapsed", "duration"),
    "--preempt-cost": by_option,
    "a length": by_quantity,
}


@pytest.mark.parametrize("reader", LENGTH_READERS)
def test_durations(reader: str, tmp_path: Path) -> None:
    read = LENGTH_READERS[reader]
    assert {text: read(tmp_path, text) for text in DURATIONS} == DURATIONS
    for text in NO_DURATIONS:
        with pytest.raises(RingbcoError):
            read(tmp_path, text)


@pytest.mark.parametrize("mark", ",;\t|")
def test_separators(mark: str, tmp_path: Path) -> None:
    """Every table of texts, with a separator that the others would not read."""
    job = written(tmp_path, "job_id;submit_time;num_gpus;duration", "a;1;2;3", mark=mark)
    assert convert("csv", [job]).table.frame.rows() == [("a", 1.0, 2, 3.0)]
    folders = [tmp_path / name for name in ("o", "m", "s", "r")]
    for folder in folders:
        folder.mkdir()
    outages = written(folders[0], "server;down_at;up_at;cause", "1;5;9;fan", mark=mark)
    outcome = replay(job, "2x2", policy="fifo", outages=outages)
    assert outcome.jobs["start_time"].to_list() == [1.0]
    assert outcome.outages is not None
    assert outcome.outages.rows() == [(1, 5.0, 9.0, "fan")]
    maintenance = written(folders[1], "server;down_at;up_at", "0;5;9", mark=mark)
    assert Maintenance.read(maintenance).frame.rows() == [(0, 5.0, 9.0, "maintenance", None)]
    services = written(folders[2], "service;time;replicas;gpus_per_replica", "x;5;1;1", mark=mark)
    assert Services.read(services).frame.rows() == [("x", 5.0, 1, 1)]
    requests = written(folders[3], "arrival;input_tokens;output_tokens", "5;1;2", mark=mark)
    assert read_requests(requests)[0].rows() == [(5.0, 1, 2)]
