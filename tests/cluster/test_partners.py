"""Model `table` where two shares hold one GPU: what was measured of the pair counts (docs/tables.md)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco import _core
from ringbco.errors import InputError

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
ALONE = "model,gpu_type,gpus,servers,rate,partner,partner_rate\nm,V100,1,1,10,,\nn,V100,1,1,5,,\n"
FIFO = {"policy": "fifo", "placement": "first-fit", "model": "table"}


def jobs(*rows: tuple[float, str, int, float]) -> pl.DataFrame:
    """Jobs a, b, ... of (submission, model, iterations, share)."""
    columns = ["submit_time", "model", "iterations", "gpu_share"]
    frame = pl.DataFrame(rows, columns, orient="row", strict=False)
    ids = pl.Series([chr(97 + row) for row in range(len(rows))])
    return frame.with_columns(job_id=ids, num_gpus=pl.lit(1), duration=pl.lit(100.0))


def speeds(text: str) -> pl.DataFrame:
    kinds = {"partner": pl.String, "rate": pl.Float64, "partner_rate": pl.Float64}
    return pl.read_csv(text.encode(), schema_overrides=kinds)


def replay(rows: str, *asked: tuple[float, str, int, float], **options: Any) -> ringbco.Outcome:
    """A run on one GPU with these pairs beside what was measured alone."""
    outcome = ringbco.replay(jobs(*asked), "1x1", **FIFO | {"tables": speeds(ALONE + rows)} | options)
    assert ringbco.audit(outcome, jobs(*asked)) == []
    return outcome


def ends(rows: str, *asked: tuple[float, str, int, float], **options: Any) -> list[float]:
    finish: list[float] = replay(rows, *asked, **options).jobs["finish_time"].to_list()
    return finish


def test_the_example_of_the_page(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text().partition("## Two jobs on one GPU")[2]
    speeds, table = re.findall(r"```\n(.*?)```", page, re.DOTALL)[:2]
    Path("speeds.csv").write_text(speeds)
    Path("jobs.csv").write_text(table)
    given = ("--placement", "first-fit", "--policy", "fifo", "--model", "table", "--tables", "speeds.csv")
    done = invoke("replay", "jobs.csv", "--cluster", "1x1", *given, "-o", "r")
    assert done.returncode == 0, done.stderr
    outcome = ringbco.Outcome.read("r").jobs
    assert outcome["finish_time"].to_list() == pytest.approx([130.0, 95.0])
    assert outcome["ideal_run_time"].to_list() == [100.0, 60.0]
    assert outcome["run_contention"].to_list() == pytest.approx([30.0, 15.0])
    assert outcome["run_spread"].to_list() == [0.0, 0.0]
    assert invoke("audit", "r").returncode == 0
    assert invoke("replay", "--again", "r").returncode == 0


TOGETHER = ((0, "m", 100, 0.5), (0, "n", 100, 0.5))


@pytest.mark.parametrize(
    ("rows", "finish"),
    [
        ("", [10.0, 20.0]),
        # n makes 40 of its 100 beside m for 20 s, then 5 a second.
        ("m,V100,1,1,5,n,2\n", [20.0, 32.0]),
        ("m,v100,1,1,5,n,2\n", [20.0, 32.0]),
        ("n,V100,1,1,2,m,5\n", [20.0, 32.0]),
        # The row of one's own comes before that of the partner: n has 80 of its 100 after 20 s.
        ("m,V100,1,1,5,n,2\nn,V100,1,1,4,m,9\n", [20.0, 24.0]),
        # Faster together than alone.
        ("m,V100,1,1,20,n,10\n", [5.0, 15.0]),
        # Another spelling is another model, more GPUs and other types are other rows.
        ("m,V100,1,1,5,N,2\nm,V100,2,1,5,n,2\nm,V100,2,2,5,n,2\n", [10.0, 20.0]),
        ("m,V100,1,1,5,m,2\nn,V100,1,1,1,n,2\n", [10.0, 20.0]),
        # While m is there n makes no progress.
        ("m,V100,1,1,5,n,0\n", [20.0, 40.0]),
    ],
)
def test_by_hand(rows: str, finish: list[float]) -> None:
    assert ends(rows, *TOGETHER) == pytest.approx(finish)
    # Of ten equal slots each second has one.
    assert ends(rows, *TOGETHER, clock="slot", slot=1.0) == finish


def test_other_types_are_other_rows(tmp_path: Path) -> None:
    tables = speeds(ALONE + ALONE.partition("\n")[2].replace("V100", "T4") + "m,T4,1,1,5,n,2\n")
    for name, finish in (("v100", [10.0, 20.0]), ("t4", [20.0, 32.0])):
        cluster = tmp_path / f"{name}.toml"
        cluster.write_text(f'[[servers]]\ngpus = 1\ngpu_type = "{name}"\n')
        outcome = ringbco.replay(jobs(*TOGETHER), cluster, **FIFO, tables=tables)
        assert outcome.jobs["finish_time"].to_list() == pytest.approx(finish)


def test_three_on_a_gpu_interfere_and_two_do_as_measured() -> None:
    # From 4 s on three are there, each at half of its rate. c is done at 14 s. Then a has 70, and b 33.
    asked = ((0, "m", 100, 0.4), (0, "n", 100, 0.4), (4, "n", 25, 0.2))
    rows = "m,V100,1,1,5,n,2\n"
    assert ends(rows, *asked, interference=0.5) == pytest.approx([20.0, 31.0, 14.0])
    # Two of n were not measured: 1 / (1 + 0.5) of 5 a second.
    assert ends(rows, (0, "n", 100, 0.5), (0, "n", 100, 0.5), interference=0.5) == pytest.approx([30.0, 30.0])


def test_a_job_in_a_pause_is_a_partner() -> None:
    # Nobody makes progress for 5 s. Then a does 5 a second until it is done.
    assert ends("m,V100,1,1,5,n,2\n", *TOGETHER, start_cost=5.0) == pytest.approx([25.0, 37.0])
    # a makes 10 in the second before b comes, and 5 a second from then on.
    late = ((0, "m", 100, 0.5), (6, "n", 100, 0.5))
    assert ends("m,V100,1,1,5,n,2\n", *late, start_cost=5.0)[0] == pytest.approx(5 + 1 + 18)


def test_the_rest_of_a_slot_after_a_pause() -> None:
    # b comes at 10 s, within a's pause of 25 s: the third slot has 5 s of a, at 3 a second and not at 10.
    rows, options = "m,V100,1,1,3,n,5\n", {"clock": "slot", "slot": 10.0, "start_cost": 25.0}
    assert ends(rows, (0, "m", 75, 0.5), (10, "n", 500, 0.5), **options)[0] == 50.0
    assert ends(rows, (0, "m", 76, 0.5), (10, "n", 500, 0.5), **options)[0] == 60.0
    # Without a rate for the pair likewise: 10 a second, halved.
    for iterations, finish in ((125, 50.0), (126, 60.0)):
        asked = (0, "m", iterations, 0.5), (10, "n", 500, 0.5)
        assert ends("", *asked, interference=1.0, **options)[0] == finish


@pytest.mark.parametrize("clock", [{}, {"clock": "slot", "slot": 7.0}], ids=["continuous", "slot"])
@pytest.mark.parametrize("policy", ["fifo", "srtf", "tiresias"])
def test_two_that_stop_each_other(clock: dict[str, Any], policy: str) -> None:
    message = (
        r"row 2: .* job 'b': makes no progress after \d+ s \(its rate beside the job of row 3 on its GPU is"
    )
    # The first job waits for them.
    asked = ((1, "n", 500, 1.0), *TOGETHER)
    with pytest.raises(InputError, match=message) as raised:
        replay("m,V100,1,1,0,n,0\n", *asked, **clock, policy=policy)
    assert "mend or drop that pair's rows in the table of speeds" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_third_sets_two_free() -> None:
    # Two of them stop each other. With c there are three, from 2 s on, and a is done at 3 s.
    asked = ((0, "m", 10, 0.4), (0, "n", 100, 0.4), (2, "n", 10, 0.2))
    assert ends("m,V100,1,1,0,n,0\n", *asked) == pytest.approx([3.0, 22.0, 4.0])


@pytest.mark.parametrize("policy", ["tiresias", "gittins"])
def test_two_that_stop_each_other_fall_behind_in_time(policy: str) -> None:
    # a and b have 100 GPU-seconds after 2,000 s. Then c has its turn beside a, and b waits for both.
    asked = ((0, "m", 100, 0.05), (0, "n", 100, 0.05), (1, "k", 200, 0.95))
    options = {"policy": policy, "thresholds": [100.0], "interval": 1.0}
    a, b, c = ends("k,V100,1,1,5,,\nm,V100,1,1,0,n,0\n", *asked, **options)
    assert (a, c) == pytest.approx((2010.0, 2040.0), abs=2.0)
    assert b > c


def test_pairs_that_nobody_meets_change_nothing() -> None:
    rows = "m,V100,1,1,1,k,1\nk,V100,1,1,1,n,1\n"
    asked = (*TOGETHER, (3, "n", 50, 0.3), (4, "m", 70, 0.6))
    for options in ({}, {"clock": "slot", "slot": 3.0}, {"interference": 0.5}):
        met, unmet = (replay(line, *asked, **options).jobs for line in ("", rows))
        columns = ["finish_time", "start_time", "run_time"]
        assert met[columns].equals(unmet[columns])


def test_whole_gpus_take_the_rates_alone() -> None:
    asked = tuple((submit, model, iterations, 1.0) for submit, model, iterations, _ in TOGETHER)
    assert ends("m,V100,1,1,5,n,2\n", *asked) == [10.0, 30.0]


def test_the_engine_wants_whole_columns_of_known_models() -> None:
    names, rates = np.zeros(1, np.uint32), np.ones(1)
    alone = (names, names, names + 1, names + 1)
    for column in range(5):
        entries = [names, names, names, rates, rates]
        entries[column] = entries[column][:0]
        with pytest.raises(_core.CoreError, match="partner"):
            _core.SpeedTable((1, 1), alone, rates, tuple(entries))
    with pytest.raises(_core.CoreError, match="two models and of a type"):
        _core.SpeedTable((1, 1), alone, rates, (names, names, names + 1, rates, rates))
