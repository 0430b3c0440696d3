"""Plans against the exact optimum of the fixed-duration relaxation, and Theorem 5's measured bound."""

import pytest

from page_examples import gaps, optimum

pytest.importorskip("ortools.sat.python.cp_model", reason="the exact solver is not installed")


def test_the_solver_on_cases_worked_by_hand() -> None:
    assert optimum([1, 1, 2], [2, 4, 3], 2) == 7
    assert optimum([1, 1, 1], [3, 3, 3], 2) == 6
    # 3 beside 1 for 4 slots, then 2 beside 2.
    assert optimum([3, 1, 2, 2], [4, 4, 5, 5], 4) == 9


@pytest.mark.long
@pytest.mark.parametrize("model", ["fixed", "rar"])
def test_no_plan_beats_the_optimum_or_exceeds_the_bound(model: str) -> None:
    rows = [row for seed in range(12) for row in gaps(seed, model)]
    assert all(row["gap"] >= 0 for row in rows)
    assert any(row["gap"] == 0 for row in rows)
    assert all(1 + row["gap"] <= row["bound"] for row in rows)
