"""Plans against the exact optimum of the fixed-duration relaxation, and Theorem 5's measured bound."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("ortools.sat.python.cp_model", reason="the exact solver is not installed")


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """benches/optimum.py, which makes the table of docs/paper.md."""
    path = Path(__file__).parents[2] / "benches" / "optimum.py"
    spec = importlib.util.spec_from_file_location("optimum_bench", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_solver_on_cases_worked_by_hand(bench: ModuleType) -> None:
    assert bench.optimum([1, 1, 2], [2, 4, 3], 2) == 7
    assert bench.optimum([1, 1, 1], [3, 3, 3], 2) == 6
    # 3 beside 1 for 4 slots, then 2 beside 2.
    assert bench.optimum([3, 1, 2, 2], [4, 4, 5, 5], 4) == 9


@pytest.mark.long
@pytest.mark.parametrize("model", ["fixed", "rar"])
def test_no_plan_beats_the_optimum_or_exceeds_the_bound(bench: ModuleType, model: str) -> None:
    rows = [row for seed in range(12) for row in bench.gaps(seed, model)]
    assert all(row["gap"] >= 0 for row in rows)
    assert any(row["gap"] == 0 for row in rows)
    assert all(1 + row["gap"] <= row["bound"] for row in rows)
