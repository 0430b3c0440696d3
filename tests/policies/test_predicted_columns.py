"""Run times predicted in a column of the job table: `--predict column:NAME` and `--estimate column:NAME`."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from cases.case import Case, by_hand
from cases.compare import agreed
from conftest import Invoke
from reference.predictions import Predictions
from ringbco.errors import InputError, UsageError
from ringbco.run.clairvoyance import foreknowledge
from ringbco.trace.predictions import predicted, sigma_of

COLUMNS = "submit_time num_gpus duration guess"


def starts(case: Case) -> list[float]:
    """When each job starts; as the reference model says."""
    agreed(case)
    outcome = case.replay()
    assert list(ringbco.audit(outcome, case.frame())) == []
    return outcome.jobs["start_time"].to_list()  # type: ignore[no-any-return]


ROWS = [
    (0.0, 1, 10.0, 10.0),
    (1.0, 1, 5.0, 50.0),
    (1.0, 1, 40.0, 3.0),
    (1.0, 1, 20.0, None),
    (1.0, 1, 9.0, 0.0),
]
"""j1 is predicted to be long, j2 short; j3 and j4 have no prediction."""


def test_sjf_takes_the_column_where_it_has_a_time() -> None:
    case = by_hand([1], COLUMNS, ROWS, policy="sjf", predict="column:guess")
    # j2 with 3 s, j4 with its 9 s, j3 with its 20 s, j1 with 50 s.
    assert starts(case) == [0.0, 79.0, 10.0, 59.0, 50.0]


def test_qssf_takes_the_column_where_it_has_a_time() -> None:
    rows = [*ROWS[:3], (1.0, 2, 20.0, 20.0)]
    case = by_hand([2], COLUMNS, rows, policy="qssf", predict="column:guess", queue="strict")
    # At 1 s j2 starts beside j0. j3 takes 2 x 20 GPU-seconds, j1 50.
    assert starts(case) == [0.0, 61.0, 1.0, 41.0]


def test_easy_takes_the_column_where_it_has_a_time() -> None:
    # j1 waits for j0, expected to end at 10 s. j2 is expected to be over by then, j3 to run for ever.
    rows = [(0.0, 1, 20.0, 10.0), (1.0, 2, 5.0, None), (1.0, 1, 30.0, 9.0), (1.0, 1, 5.0, None)]
    options: dict[str, Any] = {"policy": "fifo", "queue": "easy", "estimate": "column:guess"}
    assert starts(by_hand([2], COLUMNS, rows, **options)) == [0.0, 31.0, 1.0, 36.0]
    assert starts(by_hand([2], COLUMNS, rows, **options | {"estimate": "run-time"})) == [0.0, 20.0, 25.0, 1.0]


@pytest.mark.parametrize("option", ["predict", "estimate"])
def test_a_column_that_is_none_is_told(option: str) -> None:
    policy = {"policy": "sjf"} if option == "predict" else {"policy": "fifo", "queue": "easy"}
    case = by_hand([1], COLUMNS, [(0.0, 1, 10.0, 1.0), (0.0, 1, 10.0, float("inf"))], **policy)
    with pytest.raises(UsageError, match=f"option {option}: 'column': expected column:NAME"):
        case.replay(**{option: "column"})
    with pytest.raises(InputError, match=r"a column with numbers; the table has job_id, .*guess"):
        case.replay(**{option: "column:gues"})
    with pytest.raises(InputError, match="a column with numbers"):
        case.replay(**{option: "column:job_id"})
    with pytest.raises(InputError, match="finite number of seconds") as caught:
        case.replay(**{option: "column:guess"})
    assert (caught.value.row, caught.value.column) == (2, "guess")


def test_who_is_clairvoyant() -> None:
    def read(rows: list[Any], **options: Any) -> list[str]:
        return foreknowledge(by_hand([1], COLUMNS, rows, **options).replay().run)

    assert read(ROWS, policy="sjf", predict="column:guess") == ["order sjf"]
    assert read(ROWS[:3], policy="sjf", predict="column:guess") == []
    assert read(ROWS, policy="sjf", predict="column:duration") == ["predict column:duration"]
    assert read(ROWS, policy="repack", predict="column:guess") == []
    assert read(ROWS, policy="fifo", queue="easy", estimate="column:guess") == []
    assert read(ROWS, policy="fifo", queue="easy") == ["queue easy"]


def table(jobs: int, **more: Any) -> pl.DataFrame:
    return ringbco.generate("philly", jobs, 5, gpus=64, load=1.3, **more).frame


def mean_jct(frame: pl.DataFrame, predict: str) -> float:
    outcome = ringbco.replay(frame, "8x8", policy="repack", model="fixed", predict=predict, allocations=False)
    return float(outcome.jobs["jct"].mean())  # type: ignore[arg-type]


def test_repack_gains_by_good_predictions_and_leaves_useless_ones_aside() -> None:
    frame = table(3000, predictions="sigma=1")
    history, column = mean_jct(frame, "history"), mean_jct(frame, "column:predicted")
    assert column < 0.95 * history
    shuffled = frame.with_columns(pl.col("predicted").shuffle(seed=1))
    assert mean_jct(shuffled, "column:predicted") < 1.02 * history
    none = frame.with_columns(predicted=pl.lit(None, pl.Float64))
    assert mean_jct(none, "column:predicted") == history


@pytest.mark.parametrize("seed", range(3))
def test_repack_by_ratios_is_that_of_the_reference_model(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough jobs that the column is used; with and without users, losses and slots."""
    rng, submit, rows = random.Random(seed), 0.0, []
    for _ in range(60):
        submit += float(rng.randint(0, 40))
        duration = float(max(1, round(rng.lognormvariate(4.5, 1.6))))
        guess = rng.choice((None, 0.0, *6 * (duration * rng.lognormvariate(0.0, 0.8),)))
        rows.append((submit, rng.choice((1, 1, 1, 2, 4)), duration, guess, rng.choice(("u0", "u1", None))))
    options: dict[str, Any] = {"policy": "repack", "predict": "column:guess", "preempt_cost": 5.0}
    options |= {"clock": "slot", "slot": 10.0} if seed == 1 else {}
    options |= {"preempt_loses": True, "checkpoint_interval": 20.0} if seed == 2 else {}
    used = []
    left = Predictions.left

    def noted(self: Predictions, row: int) -> float:
        used.append(self.by_ratio is not None and self.is_used)
        return left(self, row)

    monkeypatch.setattr(Predictions, "left", noted)
    starts(by_hand([4, 4], f"{COLUMNS} user", rows, **options))
    assert 0.1 < sum(used) / len(used) < 1.0


def test_generate_makes_predictions_of_a_known_error(invoke: Invoke, tmp_path: Path) -> None:
    frame, plain = table(2000, predictions="sigma=1"), table(2000)
    assert frame.drop("predicted").equals(plain)
    assert frame.equals(table(2000, predictions="sigma=1"))
    errors = np.log((frame["predicted"] / frame["duration"]).filter(frame["duration"] > 60.0).to_numpy())
    assert abs(errors.mean()) < 0.1
    assert 0.9 < errors.std() < 1.1
    assert table(2000, predictions="sigma=0")["predicted"].equals(plain["duration"].cast(pl.Float64))
    given = (
        "--preset",
        "philly",
        "--jobs",
        "50",
        "--gpus",
        "64",
        "--predictions",
        "sigma=1",
        "-o",
        "j.parquet",
    )
    done = invoke("generate", *given, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)
    made = ringbco.read_jobs(tmp_path / "j.parquet")
    assert made.frame["predicted"].min() >= 1.0  # type: ignore[operator]
    again = ringbco.trace.synthetic.again(made, 0).frame
    assert again["predicted"].equals(made.frame["predicted"])


@pytest.mark.parametrize("text", ["1", "sigma", "sigma=-1", "sigma=x", "sigma=nan", "sigma=inf", "mean=1"])
def test_what_is_no_error_is_told(text: str) -> None:
    with pytest.raises(UsageError, match=r"option predictions: .*expected sigma=S"):
        sigma_of(text)


def test_the_error_is_lognormal() -> None:
    found = predicted(np.full(20_000, 1e6), 2.0, 7)
    below = np.mean(found < 1e6 * np.exp(-2.0))
    assert 0.15 < below < 0.17
