"""Outages drawn at random: their statistics, what they follow from, and the command."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import ringbco
from conftest import Invoke
from outage_forms import expected_run_time
from ringbco.cluster.spec import Cluster
from ringbco.errors import UsageError
from ringbco.run.outage_draws import figures
from ringbco.trace.outages import Outages
from ringbco.trace.side_table import ReadContext

DAY, HOUR = 86_400.0, 3_600.0
USUAL: dict[str, Any] = {"mtbf": "5d", "mttr": "6h", "days": 400}


def drawn(cluster: str = "200x8", **options: Any) -> Outages:
    return ringbco.outages(cluster, **USUAL | options)


@pytest.fixture(scope="module")
def many() -> Outages:
    return drawn("400x8", seed=3)


def lengths(found: Outages) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The times up that ended in an outage, and the repairs; the first time up of a server begins at 0."""
    with_gaps = found.frame.with_columns(
        up=pl.col("down_at") - pl.col("up_at").shift(1).over("server").fill_null(0.0)
    )
    repair = with_gaps["up_at"] - with_gaps["down_at"]
    return with_gaps["up"].to_numpy(), repair.to_numpy()


# What they follow from


def test_the_same_seed_gives_the_same(many: Outages) -> None:
    assert drawn("400x8", seed=3).frame.equals(many.frame)
    other = drawn("400x8", seed=4).frame
    assert not set(other["down_at"]) & set(many.frame["down_at"])


def test_more_servers_leave_the_others(many: Outages) -> None:
    few = drawn("7x1", seed=3).frame
    assert few.height > 100
    assert many.frame.filter(pl.col("server") < 7).equals(few)


def test_more_days_leave_what_was_there() -> None:
    short, long = (drawn("20x8", days=days).frame for days in (50, 5_000))
    assert long.filter(pl.col("down_at") < 50 * DAY).equals(short)
    assert short["down_at"].max() < 50 * DAY  # type: ignore[operator]


def test_other_repairs_leave_the_times_up() -> None:
    """Only as many as fit into the days differ."""
    up, _ = lengths(drawn("1x8"))
    for options in ({"mttr": 60}, {"repair": "lognormal"}, {"repair": "lognormal", "sigma": 0.0}):
        other, _ = lengths(drawn("1x8", **options))
        count = min(up.size, other.size)
        assert count > 50
        assert other[:count] == pytest.approx(up[:count], rel=1e-6)


def test_servers_have_nothing_in_common(many: Outages) -> None:
    assert many.frame["down_at"].n_unique() == many.frame.height
    first = many.frame.group_by("server", maintain_order=True).first()["down_at"].to_numpy()
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 3 / math.sqrt(first.size)


def test_from_moves_them_all() -> None:
    at_zero, later = drawn().frame, drawn(start=1e6).frame
    for column in ("down_at", "up_at"):
        assert later[column].to_numpy() == pytest.approx(at_zero[column].to_numpy() + 1e6, abs=1e-6)


def test_units_of_time() -> None:
    expected = drawn().frame
    for mtbf, mttr in ((5 * DAY, 6 * HOUR), ("432000", "21600s"), ("120h", "360m"), (" 5.0d", "0.25d")):
        assert drawn(mtbf=mtbf, mttr=mttr).frame.equals(expected), (mtbf, mttr)


# Statistics


def test_times_up_and_repairs_are_exponential(many: Outages) -> None:
    """Median and tail; the mean as the command tells it, which counts times up that the end cuts off."""
    up, repair = lengths(many)
    count = up.size
    assert count > 30_000
    for times, mean in ((up, 5 * DAY), (repair, 6 * HOUR)):
        assert np.median(times) == pytest.approx(mean * math.log(2), rel=0.03)
        assert np.mean(times > 2 * mean) == pytest.approx(math.exp(-2), rel=0.08)
    value = figures(many, Cluster.parse("400x8"), 0.0, 400)
    assert value["mean_time_between_failures"] == pytest.approx(5 * DAY, rel=3 / math.sqrt(count))
    assert value["mean_time_to_repair"] == pytest.approx(6 * HOUR, rel=3 / math.sqrt(count))
    assert value["outages"] == count


@pytest.mark.parametrize("options", [{}, {"repair": "lognormal"}, {"repair": "lognormal", "sigma": 0.5}])
def test_the_share_of_time_down(options: dict[str, Any]) -> None:
    """It is mttr / (mtbf + mttr), less a little as all servers are up at first, within three sigma."""
    result = drawn("600x8", mtbf="20h", mttr="5h", days=200, **options)
    server, down, up, _ = result.columns()
    span = 200 * DAY
    lost = np.bincount(server, np.minimum(up, span) - down, minlength=600) / span
    sigma = lost.std() / math.sqrt(600)
    assert sigma < 0.001
    assert lost.mean() == pytest.approx(5 / 25, abs=3 * sigma + 5 / 25 * 4 * HOUR / span)
    value = figures(result, Cluster.parse("600x8"), 0.0, 200)
    assert value["down_share"] == pytest.approx(lost.mean())
    assert value["mean_gpus_down"] == pytest.approx(lost.mean() * 4800)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 1.5])
def test_repairs_are_lognormal(sigma: float) -> None:
    result = drawn("400x8", repair="lognormal", sigma=sigma)
    _, repair = lengths(result)
    spread = math.sqrt(math.expm1(sigma**2) / repair.size)
    assert repair.mean() == pytest.approx(6 * HOUR, rel=4 * spread)
    logs = np.log(repair)
    assert logs.std() == pytest.approx(sigma, rel=4 / math.sqrt(2 * repair.size))
    assert np.median(logs) == pytest.approx(math.log(6 * HOUR) - sigma**2 / 2, abs=0.03 * sigma)
    assert result.frame.equals(drawn("400x8", repair="lognormal", sigma=sigma).frame)


def test_sigma() -> None:
    assert drawn(repair="lognormal").frame.equals(drawn(repair="lognormal", sigma=1).frame)
    _, constant = lengths(drawn(repair="lognormal", sigma=0))
    assert constant == pytest.approx(np.full(constant.size, 6 * HOUR))


def test_jobs_that_fail_take_as_long_as_the_closed_form_says() -> None:
    """Each server has one job of 40 h from 0 on, with checkpoints every hour and pauses of 10 min."""
    length, interval, pause = 40 * HOUR, HOUR, 600.0
    result = drawn("4000x1", mtbf="20h", mttr="2h", days=30)
    times = []
    for (_,), outages in result.frame.group_by("server", maintain_order=True):
        time, done, held = 0.0, 0.0, 0.0
        for down, up in outages.select("down_at", "up_at").rows():
            if down >= time + held + length - done:
                break
            done += max(0.0, down - time - held) // interval * interval
            time, held = up, pause
        times.append(time + held + length - done)
    assert max(times) < 30 * DAY, "a job may have run out of outages"
    expected = expected_run_time(length, 1 / (20 * HOUR), interval, pause, 2 * HOUR)
    assert len(times) == 4000
    assert np.mean(times) == pytest.approx(expected, abs=3 * np.std(times) / math.sqrt(4000))


# Edges


def test_repairs_of_no_time_and_of_all_times() -> None:
    """However short or long a repair, up_at is after down_at, and the file is a valid one."""
    short = drawn("1x1", mttr=1e-12, start=1e12)
    assert (short.frame["up_at"] > short.frame["down_at"]).all()
    long = drawn("2000x1", mttr=1e12, repair="lognormal", sigma=5)
    assert long.frame["up_at"].max() <= 1e16  # type: ignore[operator]
    assert long.frame["server"].n_unique() > 1990
    assert Outages.read(long.frame, ReadContext(servers=2000)).num_overlapping == 0


def test_servers_that_never_fail() -> None:
    result = drawn("3x8", mtbf=1e12, cause="gpu")
    assert result.frame.height == 0
    assert figures(result, Cluster.parse("3x8"), 0.0, 400) == {
        "servers": 3,
        "outages": 0,
        "mean_time_between_failures": None,
        "mean_time_to_repair": None,
        "down_share": 0.0,
        "mean_gpus_down": 0.0,
    }


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mtbf": 0}, "option mtbf: 0: expected a length of time > 0 and <= 1e12 s"),
        ({"mtbf": "-5d"}, "option mtbf: -432000.0: expected a length of time > 0 and <= 1e12 s"),
        (
            {"mtbf": "5 weeks"},
            "option mtbf: '5 weeks': expected a length of time such as 50d, 2h, 30min, 90s",
        ),
        ({"mtbf": ""}, "option mtbf: '': expected a length of time such as"),
        ({"mttr": "h"}, "option mttr: 'h': expected a length of time such as"),
        ({"mttr": math.nan}, "option mttr: nan: expected a length of time"),
        ({"mttr": None}, "option mttr: None: expected a length of time"),
        ({"mtbf": 1e-9}, "option mtbf: 1e-09: expected at most 10,000,000 outages, not "),
        ({"days": 0}, "option days: 0: expected a number of days > 0 and <= 1e7"),
        ({"days": "90"}, "option days: '90': expected a number of days"),
        ({"seed": -1}, "option seed: -1: expected an integer from 0 to"),
        ({"start": -1}, "option from: -1: expected a number of seconds >= 0 and <= 1e12"),
        (
            {"repair": "lognorm"},
            "option repair: 'lognorm': expected a name that is known; did you mean lognormal?",
        ),
        ({"sigma": 1.0}, "option sigma: 1.0: expected it together with repair lognormal"),
        ({"sigma": 6, "repair": "lognormal"}, "option sigma: 6: expected a number >= 0 and <= 5"),
        ({"cause": 3}, "option cause: 3: expected a text of one line"),
        ({"cause": "a\nb"}, r"option cause: 'a\nb': expected a text of one line"),
        ({"cause": "a\udcff"}, r"option cause: 'a\udcff': expected a text of one line"),
        ({"cluster": 3}, "option cluster: 3: expected a Cluster, or SxG"),
    ],
)
def test_bad_options(options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        drawn(**options)
    assert str(caught.value).startswith(told)


# The command

LINE = ("outages", "--cluster", "20x8", "--mtbf", "5d", "--mttr", "6h", "--days", "400")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_command_writes_what_the_function_gives(invoke: Invoke, ending: str) -> None:
    run = invoke(*LINE, "--seed", "7", "--cause", "gpu", "--from", "50", "-o", f"o.{ending}")
    assert (run.returncode, run.stderr) == (0, "")
    result = drawn("20x8", seed=7, cause="gpu", start=50)
    assert Outages.read(f"o.{ending}", ReadContext(servers=20)).frame.equals(result.frame)
    assert set(result.frame["cause"]) == {"gpu"}
    lines = run.stdout.splitlines()
    assert lines[0] == f"{result.frame.height:,} outages within 400 days, seed 7, in o.{ending}"
    for name in ("servers", "mean time between failures", "share of time down", "GPUs down on average"):
        assert name in run.stdout
    before = Path(f"o.{ending}").read_bytes()
    assert (
        invoke(*LINE, "-q", "--seed", "7", "--cause", "gpu", "--from", "50", "-o", "again.csv").stdout == ""
    )
    assert pl.read_csv("again.csv").height == result.frame.height
    run = invoke(*LINE, "-o", f"o.{ending}")
    assert (run.returncode, run.stderr.count("\n")) == (1, 1)
    assert "already exists; pass --force" in run.stderr
    assert Path(f"o.{ending}").read_bytes() == before
    assert invoke(*LINE, "-o", f"o.{ending}", "--force").returncode == 0
    assert Path(f"o.{ending}").read_bytes() != before


def test_json(invoke: Invoke) -> None:
    output = json.loads(
        invoke(*LINE, "--repair", "lognormal", "--sigma", "0", "--json", "-o", "o.csv").stdout
    )
    result = drawn("20x8", repair="lognormal", sigma=0)
    assert output == figures(result, Cluster.parse("20x8"), 0.0, 400) | {"file": "o.csv"}
    assert output["mean_time_to_repair"] == pytest.approx(6 * HOUR)


@pytest.mark.parametrize(
    ("given", "status", "told"),
    [
        (("-o", "o.txt"), 2, "o.txt: expected a name ending in .parquet or .csv"),
        (("-o", "no/o.csv"), 1, "its folder does not exist"),
        (("-o", "o.csv", "--sigma", "2"), 2, "option sigma: 2.0: expected it together with repair lognormal"),
        (("-o", "o.csv", "--repair", "weibull"), 2, "option repair: 'weibull': expected one of"),
        (("-o", "o.csv", "--from", "-1"), 2, "option from: -1.0: expected"),
        (("-o", "o.csv", "--seed", "x"), 2, "Invalid value for '--seed'"),
    ],
)
def test_nothing_is_written_where_something_is_wrong(
    invoke: Invoke, tmp_path: Path, given: tuple[str, ...], status: int, told: str
) -> None:
    run = invoke(*LINE, *given)
    assert (run.returncode, run.stdout) == (status, "")
    assert told in run.stderr
    assert not list(tmp_path.iterdir())


def test_a_cluster_that_is_none(invoke: Invoke, tmp_path: Path) -> None:
    run = invoke("outages", "--cluster", "c.toml", *LINE[3:], "-o", "o.csv")
    assert run.returncode == 1
    assert run.stderr.startswith("error: cluster: c.toml: expected SxG such as 32x8")
    assert not list(tmp_path.iterdir())


# Nine days of work for one GPU, in jobs of a day that are all there at once: far more than twice the longest.
QUEUED = pl.DataFrame(
    {
        "job_id": [f"j{number}" for number in range(9)],
        "submit_time": [1000.0] * 9,
        "num_gpus": [8] * 9,
        "duration": [DAY] * 9,
    }
)


def failing(given: object, **options: Any) -> ringbco.Outcome:
    return ringbco.replay(QUEUED, "1x8", policy="fifo", model="fixed", outages=given, **options)


@pytest.mark.parametrize(("text", "seed"), [("", 0), (",seed=run", 5), (",seed=5", 1)])
def test_a_draw_lasts_until_the_last_job_is_done(text: str, seed: int) -> None:
    got = failing(f"draw:mtbf=20h,mttr=1h{text}", seed=seed)
    end = float(got.jobs["finish_time"].max())  # type: ignore[arg-type]
    assert end > 1000.0 + 8 * DAY
    number = 5 if "seed=5" in text else seed
    table = ringbco.outages("1x8", mtbf="20h", mttr="1h", days=60, seed=number, start=1000.0)
    asked = failing(table, seed=seed)
    assert got.jobs.equals(asked.jobs)
    assert got.outages is not None
    assert got.outages.filter(pl.col("down_at") <= end).equals(table.copied.filter(pl.col("down_at") <= end))
    assert got.run["outages"]["path"] == f"draw:mtbf=20h,mttr=1h{text}"
    assert ringbco.audit(got, QUEUED) == []


def test_seeds_have_failures_of_their_own() -> None:
    ends = {failing("draw:mtbf=20h,mttr=1h", seed=seed).jobs["finish_time"].max() for seed in range(3)}
    assert len(ends) == 3
    fixed = {
        failing("draw:mtbf=20h,mttr=1h,seed=2", seed=seed).jobs["finish_time"].max() for seed in range(3)
    }
    assert len(fixed) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("draw:mtbf=20h", "expected mttr too, such as draw:mtbf=20h,mttr=2h"),
        ("draw:mtbf=20h,mttr=1h,mttr=2h", "each at most once"),
        ("draw:mtbf=20h,mttr=1h,sead=2", "did you mean seed=2?"),
        ("draw:mtbf=20h,mttr=soon", "option outages: mttr: 'soon': expected a length of time such as"),
        ("draw:mtbf=0,mttr=1h", "option outages: mtbf: 0.0: expected a length of time > 0"),
        ("draw:mtbf=20h,mttr=1h,seed=-1", "expected seed=run, or an integer from 0"),
        ("draw:mtbf=20h,mttr=1h,sigma=1", "option sigma: 1.0: expected it together with repair lognormal"),
    ],
)
def test_a_draw_that_is_none(given: str, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        failing(given)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_who_knows_no_end_takes_no_draw() -> None:
    with pytest.raises(UsageError, match="option outages: 'draw:mtbf=20h,mttr=1h': expected a table, such"):
        ringbco.Simulation(QUEUED, "1x8", outages="draw:mtbf=20h,mttr=1h")


def test_a_draw_in_a_comparison_and_a_sweep(tmp_path: Path) -> None:
    compared = ringbco.compare(
        QUEUED, "1x8", ["fifo", "srtf"], outages="draw:mtbf=20h,mttr=1h", model="fixed"
    )
    assert all(outcome.summary["failures"] > 0 for outcome in compared.outcomes.values())
    QUEUED.write_parquet(tmp_path / "jobs.parquet")
    (tmp_path / "sweep.toml").write_text(
        '[base]\ntrace = "jobs.parquet"\ncluster = "1x8"\npolicy = "fifo"\nmodel = "fixed"\n'
        '[grid]\noutages = ["draw:mtbf=20h,mttr=1h", "draw:mtbf=90d,mttr=1h,seed=3"]\n'
    )
    ringbco.sweep(tmp_path / "sweep.toml", tmp_path / "swept")
    runs = pl.read_parquet(tmp_path / "swept" / "runs.parquet")
    few, many = sorted(runs["failures"])
    assert few < many
