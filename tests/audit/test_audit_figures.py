"""The audit works out fairness, deadlines and size classes again, where a summary tells them."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from ringbco.audits import check_outcome
from ringbco.result.outcome import Outcome
from ringbco.run.replay import replay
from ringbco.trace.jobs import JobTable, from_frame


@pytest.fixture(scope="module")
def table() -> JobTable:
    rows = 60
    return from_frame(
        pl.DataFrame(
            {
                "job_id": [f"j{row}" for row in range(rows)],
                "user": [None if row % 7 == 0 else f"u{row % 3}" for row in range(rows)],
                "submit_time": [10.0 * row for row in range(rows)],
                "num_gpus": [(1, 2, 4, 8)[row % 4] for row in range(rows)],
                "duration": [5.0 + 40.0 * (row % 5) for row in range(rows)],
                "deadline": [None if row % 3 == 0 else 10.0 * row + 60.0 for row in range(rows)],
            }
        )
    )


@pytest.fixture
def outcome(table: JobTable) -> Outcome:
    return replay(table, "2x8", policy="edf")


def findings(outcome: Outcome, table: JobTable) -> list[str]:
    return [finding.message for finding in check_outcome(outcome, table).findings]


def test_what_the_engine_says_is_right(outcome: Outcome, table: JobTable) -> None:
    assert outcome.summary["preemptions"] > 0
    assert outcome.summary["deadlines_missed"] > 0
    assert len(outcome.summary["size_classes"]) == 3
    assert findings(outcome, table) == []


KEYS = (
    *("mean_bounded_slowdown", "p99_bounded_slowdown", "mean_finish_time_fairness"),
    *("worst_finish_time_fairness", "deadlines", "deadlines_missed", "deadlines_met", "jain_index_users"),
)
CLASS_KEYS = (
    *("jobs", "mean_jct", "mean_wait", "mean_slowdown", "mean_bounded_slowdown", "preemptions"),
    *("lost_gpu_seconds", "worst_finish_time_fairness", "deadlines_missed", "jain_index_users"),
)


@pytest.mark.parametrize("key", KEYS)
def test_a_wrong_figure(outcome: Outcome, table: JobTable, key: str) -> None:
    outcome.summary[key] += 1e-3
    (said,) = findings(outcome, table)
    assert said.startswith(f"{key} is ")


@pytest.mark.parametrize("key", CLASS_KEYS)
def test_a_wrong_figure_of_a_size_class(outcome: Outcome, table: JobTable, key: str) -> None:
    outcome.summary["size_classes"][1][key] += 1e-3
    (said,) = findings(outcome, table)
    assert said.startswith(f"size class 2-4: {key} is ")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda row: row.update(gpus="many"),
        lambda row: row.pop("gpus"),
        lambda row: row.update(gpus=None),
    ],
)
def test_a_size_class_of_no_size(
    outcome: Outcome, table: JobTable, spoil: Callable[[dict[str, Any]], object]
) -> None:
    spoil(outcome.summary["size_classes"][0])
    (said,) = findings(outcome, table)
    assert said.startswith("size_classes has a row ")
