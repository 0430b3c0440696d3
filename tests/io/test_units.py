"""Times and other figures as people read them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ringbco
from conftest import Invoke
from ringbco.errors import UsageError
from ringbco.result.outcome import Outcome
from ringbco.units import (
    Kind,
    check_units,
    duration,
    figure,
    gpu_time,
    instant,
    quantity,
    rounded_down,
    rounded_up,
    same,
    seconds_of,
    shared,
    shown_in,
    time,
)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0.0 s"),
        (0.0004, "0.000 s"),
        (0.9994, "0.999 s"),
        (1.0, "1.0 s"),
        (119.94, "119.9 s"),
        (120.0, "2.0 min"),
        # An hour is still told in minutes: there must be two of the larger unit.
        (3_600.0, "60.0 min"),
        (7_199.0, "120.0 min"),
        (7_200.0, "2.0 h"),
        (172_799.0, "48.0 h"),
        (172_800.0, "2.0 d"),
        (864_000_000.0, "10,000.0 d"),
    ],
)
def test_a_duration_is_in_the_largest_unit_that_leaves_two(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (12.349, "12.3 s"),
        (12.36, "12.3 s"),
        (119.99, "119.9 s"),
        (0.9999, "0.999 s"),
        (60.0 * 12.36, "12.3 min"),
        (3_600.0 * 47.99, "47.9 h"),
        (86_400.0 * 1_234.56, "1,234.5 d"),
        # Short of a digit by rounding alone.
        (0.1 + 0.2, "0.300 s"),
        (3.0 * 4.1, "12.3 s"),
        (12.3 * (1 - 1e-15), "12.3 s"),
        (0.0, "0.0 s"),
        (float("inf"), "inf d"),
    ],
)
def test_a_lower_bound_is_rounded_down(seconds: float, shown: str) -> None:
    assert duration(seconds, down=True) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.0, "1.00"), (1.001, "1.01"), (1.2349, "1.24"), (1.0 + 1e-15, "1.00"), (1_234.561, "1,234.57")],
)
def test_an_upper_bound_is_rounded_up(value: float, shown: str) -> None:
    assert figure("at most", value) == shown


@given(st.floats(-1e9, 1e9), st.integers(0, 4))
def test_bounds_hold_as_they_are_printed(value: float, digits: int) -> None:
    down, up = rounded_down(value, digits), rounded_up(value, digits)
    slack = 1e-12 * abs(value)
    assert down - slack <= value <= up + slack
    step = 10.0**-digits
    assert value - down < step + slack + 1e-9
    assert up - value < step + slack + 1e-9
    assert float(f"{down:.{digits}f}") == down
    assert float(f"{up:.{digits}f}") == up


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0.0 s"), (0.25, "0.250 s"), (3_600.0, "3600.0 s"), (172_800.06, "172800.1 s")],
)
def test_in_seconds_a_duration_stays_in_seconds(seconds: float, shown: str) -> None:
    with shown_in("seconds"):
        assert duration(seconds) == shown == figure("time", seconds)
        with shown_in("human"):
            assert duration(7_200.0) == "2.0 h"
        assert duration(seconds) == shown
    assert duration(7_200.0) == "2.0 h"


def test_an_error_inside_the_block_ends_it() -> None:
    with pytest.raises(ZeroDivisionError), shown_in("seconds"):
        raise ZeroDivisionError
    assert duration(7_200.0) == "2.0 h"


def test_gpu_time() -> None:
    assert (gpu_time(9_000_000.0), gpu_time(9_000.0, 1)) == ("2,500 GPU hours", "2.5 GPU hours")
    with shown_in("seconds"):
        assert (gpu_time(9_000_000.0), gpu_time(9_000.0, 1)) == ("9000000 GPU seconds", "9000.0 GPU seconds")


@pytest.mark.parametrize(
    ("kind", "shown"),
    [("time", "93.4 s"), ("number", "93.40"), ("index", "93.400"), ("share", "9,340.0 %"), ("count", "93")],
)
def test_a_figure_is_shown_by_its_kind(kind: Kind, shown: str) -> None:
    assert figure(kind, 93.4) == shown
    assert figure("number", 12_345.678) == "12,345.68"
    assert figure("count", 1_234_567) == "1,234,567"


def test_unknown_units() -> None:
    check_units("seconds")
    with pytest.raises(
        UsageError, match=r"option units: 'second': expected one of human, seconds; did you mean"
    ):
        check_units("second")


def test_rounding_alone_tells_no_figures_apart() -> None:
    assert same(1.0, 1.0 + 1e-10)
    assert not same(1.0, 1.0 + 1e-8)


OTHER_UNITS = r"\d (min|h|d|GPU hours)\b"
RUN = ("--cluster", "2x8")


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("replay", (*RUN, "--policy", "tiresias", "-o", "out")),
        ("plan", (*RUN, "-o", "out")),
        ("compare", (*RUN, "--policy", "fifo", "--policy", "srtf", "-o", "out")),
        ("inspect", RUN),
    ],
)
def test_every_time_that_a_verb_prints_is_in_the_units_asked_for(
    invoke: Invoke, small_jobs: Path, verb: str, arguments: tuple[str, ...]
) -> None:
    human = invoke(verb, small_jobs, *arguments).stdout
    assert re.search(OTHER_UNITS, human)
    again = () if verb == "inspect" else ("--force",)
    plain = invoke(verb, small_jobs, *arguments, *again, "--units", "seconds")
    assert (plain.returncode, plain.stderr.count("error")) == (0, 0)
    assert re.search(OTHER_UNITS, plain.stdout) is None
    if verb == "replay":
        makespan = Outcome.read("out").summary["makespan"]
        assert f"{makespan:.1f} s" in plain.stdout
        assert "GPU seconds" in plain.stdout
    wrong = invoke(verb, small_jobs, *arguments, *again, "--units", "hours")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "error: option units: 'hours': expected one of human, seconds\n"


def test_files_and_json_stay_in_seconds(invoke: Invoke, small_jobs: Path) -> None:
    done = invoke("replay", small_jobs, *RUN, "-o", "r", "--units", "seconds", "--json")
    output = json.loads(done.stdout)
    assert invoke("replay", small_jobs, *RUN, "-o", "s").returncode == 0
    assert output["makespan"] == Outcome.read("s").summary["makespan"]
    assert Path("r/jobs.parquet").read_bytes() == Path("s/jobs.parquet").read_bytes()
    assert Outcome.read("r").run == Outcome.read("s").run


def test_a_sweep_in_seconds(invoke: Invoke, spec: Path) -> None:
    done = invoke("sweep", spec, "-o", "sweep", "--units", "seconds")
    assert done.returncode == 0
    assert re.search(OTHER_UNITS, invoke("sweep", spec, "-o", "sweep").stdout)
    assert re.search(OTHER_UNITS, done.stdout) is None
    assert invoke("sweep", spec, "-o", "other", "--units", "x").returncode == 2


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("50d", 4_320_000.0), ("1.5h", 5_400.0), ("30m", 1_800.0), (" 90s ", 90.0), ("90", 90.0), ("1e3", 1e3)]
    + [(duration(length), length) for length in (0.0, 90.0, 1_800.0, 90_000.0, 864_000.0)],
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert seconds_of("mtbf", text) == seconds
    assert seconds_of("mtbf", seconds) == seconds


@pytest.mark.parametrize("text", ["", "d", "5 weeks", "5D", "5\n\n5s", "2h30m", "five"])
def test_texts_that_are_no_lengths_of_time(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"option mtbf: '.*': expected a length of time such as 50d, 2h, 30m"
    ):
        seconds_of("mtbf", text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100Gb/s", 12.5e9),
        ("100 GB/s", 1e11),
        ("12.5e9", 12.5e9),
        ("800Mb/s", 1e8),
        ("1TB/s", 1e12),
        ("8b/s", 1.0),
    ],
)
def test_rates(text: str, rate: float) -> None:
    assert quantity(text, "bytes/s") == rate


@pytest.mark.parametrize("text", ["", "Gb/s", "25Gbps", "25 gb/s", "5 \u20ac", "ten", "1,5GB/s"])
def test_texts_that_are_no_rates(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a rate such as 25Gb/s \(bits\), .*; the units are b/s, kb/s"):
        quantity(text, "bytes/s")


def test_units_wherever_a_number_is_given(invoke: Invoke, small_jobs: Path, tmp_path: Path) -> None:
    """On the command line, in a cluster file, in a sweep and in Python."""
    line = ("replay", small_jobs, "--cluster", "2x8", "--policy", "srtf", "--quiet")
    given = ("--preempt-cost", "2min", "--inter-bandwidth", "25Gb/s", "--xi2", "1s")
    assert invoke(*line, *given, "-o", "r").returncode == 0
    run = Outcome.read("r").run
    assert run["options"]["preempt_cost"] == 120.0
    assert (run["cluster"]["network"]["inter_bandwidth"], run["cluster"]["network"]["xi2"]) == (3.125e9, 1.0)
    (tmp_path / "c.toml").write_text(
        '[network]\ninter_bandwidth = "25Gb/s"\nxi2 = "1s"\n[[servers]]\ncount = 2\ngpus = 8\n'
    )
    outcome = ringbco.replay(small_jobs, "c.toml", policy="srtf", preempt_cost="2min")
    assert outcome.jobs.equals(Outcome.read("r").jobs)
    (tmp_path / "sweep.toml").write_text(
        f'[base]\ntrace = "{small_jobs.name}"\ncluster = "2x8"\npolicy = "srtf"\nxi2 = "1s"\n'
        '[grid]\npreempt_cost = ["2min", 30]\ninter_bandwidth = ["25Gb/s"]\n'
    )
    assert invoke("sweep", "sweep.toml", "-o", "s", "--quiet").returncode == 0
    runs = pl.read_parquet("s/runs.parquet").filter(preempt_cost=120.0)
    assert runs["mean_jct"].to_list() == [outcome.summary["mean_jct"]]


def test_a_unit_that_is_none_is_told_in_one_line(invoke: Invoke, small_jobs: Path, tmp_path: Path) -> None:
    line = ("replay", small_jobs, "--cluster")
    done = invoke(*line, "2x8", "--preempt-cost", "2 weeks", "-o", "r")
    assert done.returncode == 2
    assert "expected a length of time" in done.stderr
    (tmp_path / "c.toml").write_text('[network]\ninter_bandwidth = "25Gbps"\n[[servers]]\ngpus = 8\n')
    done = invoke(*line, "c.toml", "-o", "r")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert 'c.toml: network.inter_bandwidth: "25Gbps": expected a finite number of bytes' in done.stderr
    with pytest.raises(UsageError, match="option preempt-cost: '2 weeks': expected a length of time such as"):
        ringbco.replay(small_jobs, "2x8", preempt_cost="2 weeks")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("seconds", "zero", "told"),
    [
        (0.0, None, "day 0, 00:00:00"),
        (284_699.6, None, "day 3, 07:05:00"),
        (-1.0, None, "-day 0, 00:00:01"),
        (1e9, None, "day 11,574, 01:46:40"),
        (1_772_438_400.0, datetime(1970, 1, 1, tzinfo=UTC), "2026-03-02 08:00:00"),
        (3_600.4, datetime(2026, 3, 1, 23, tzinfo=timezone(timedelta(hours=8))), "2026-03-02 00:00:00"),
        (-0.6, datetime(2026, 3, 2), "2026-03-01 23:59:59"),
        (1e13, datetime(2026, 3, 2), "day 115,740,740, 17:46:40"),  # beyond the calendar
    ],
)
def test_an_instant_is_a_date_where_the_clock_has_one(
    seconds: float, zero: datetime | None, told: str
) -> None:
    assert instant(seconds, zero) == told
    with shown_in("seconds"):
        assert instant(seconds, zero) == duration(seconds)


def test_a_column_has_one_unit() -> None:
    unit, written = shared("time", [16.0, 80.0, 0.0, 213.0, 8_568.0, 116_640.0])
    assert (unit, [written(value) for value in (16.0, 0.0, 8_568.0)]) == ("min", ["0.267", "0", "143"])
    assert shared("time", [0.0])[0] == "s"
    assert (shared("share", [0.5])[0], shared("share", [0.5])[1](0.123)) == ("%", "12.3")
    assert (shared("GPU time", [7.2e5])[0], shared("GPU time", [7.2e5])[1](7.2e5)) == ("GPU-h", "200")
    assert (shared("count", [1e6])[0], shared("count", [1e6])[1](1e6)) == ("", "1,000,000")
    with shown_in("seconds"):
        assert (shared("time", [3_600.0])[0], shared("time", [3_600.0])[1](3_600.0)) == ("s", "3600.0")


@given(st.lists(st.floats(0.0, 1e8), min_size=1))
def test_the_unit_of_a_column_is_that_of_the_middle(values: list[float]) -> None:
    unit, written = shared("time", values)
    positive = sorted(value for value in values if value > 0)
    middle = positive[len(positive) // 2] if positive else 0.0
    assert time(middle).endswith(f" {unit}")
    assert f"{written(middle)} {unit}" == time(middle)
