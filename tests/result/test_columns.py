"""A table column by column, beside the frame that is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

from ringbco.result.columns import Column, Columns
from ringbco.result.metrics import column
from ringbco.result.rows import JobArrays, Rows

GIVEN: dict[str, Column] = {
    "job_id": pl.Series(["a", "b", "c", "d"]),
    "num_gpus": pl.Series([1, 8, 2, 16], dtype=pl.UInt32),
    "jct": np.array([10.0, 20.0, 30.0, 40.0]),
    "reached_limit": np.array([False, True, False, True]),
}


def framed(columns: Mapping[str, Column]) -> pl.DataFrame:
    return pl.DataFrame({name: pl.Series(values) for name, values in columns.items()})


@pytest.mark.parametrize("kept", [[True] * 4, [True, False, True, True], [False] * 4])
@pytest.mark.parametrize("made", [False, True])
def test_columns_are_those_of_the_frame(kept: list[bool], *, made: bool) -> None:
    table = Columns(GIVEN, np.array(kept), framed)
    right = framed(GIVEN).filter(pl.Series(kept))
    if made:
        assert table.frame.equals(right)
    assert table.columns == right.columns
    assert table.height == right.height
    for name in right.columns:
        assert table[name].equals(right[name])
        if name != "job_id":
            assert table.array(name).tolist() == column(right, name).tolist()


def test_figures_need_no_frame() -> None:
    def nobody(_: Mapping[str, Any]) -> pl.DataFrame:
        raise AssertionError("the frame is made")

    rows = Rows("jobs", JobArrays(Columns(GIVEN, np.array([True, True, True, False]), nobody)))
    assert rows.count == 3
    assert rows.statistic("median", "jct") == 20.0
    assert rows["num_gpus"].tolist() == [1, 8, 2]
