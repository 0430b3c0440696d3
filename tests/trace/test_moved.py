"""Submissions moved by under a minute: which, by how much, and what stays."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringbco.trace.jobs import from_frame
from ringbco.trace.moved import instants, moved, moves

_GOLDEN = 0x9E3779B97F4A7C15


def mix(state: int) -> int:
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
    return state ^ state >> 31


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=30),
    st.integers(0, 2**64 - 1),
)
def test_moves_are_as_docs_certainty_says(times: list[int], seed: int) -> None:
    """In plain integers, from the page alone."""
    submit = np.array(times, np.float64)
    distinct = sorted(set(times))
    base = mix(seed * _GOLDEN % 2**64)
    expected = [
        60 * ((mix((base + (distinct.index(time) + 1) * _GOLDEN) % 2**64) >> 11) * 2.0**-53) for time in times
    ]
    found = moves(instants(submit), seed)
    assert found.tolist() == expected
    assert ((found >= 0) & (found < 60)).all()


def test_rows_keep_their_order_and_deadlines_move_along() -> None:
    frame = pl.DataFrame(
        {
            "job_id": ["b", "a", "c"],
            "submit_time": [100.0, 0.0, 100.0],
            "num_gpus": [1, 2, 3],
            "duration": [5.0, 6.0, 7.0],
            "deadline": [200.0, None, 300.0],
        }
    )
    table = from_frame(frame)
    other = moved(table, instants(frame["submit_time"].to_numpy()), 7)
    later = (other.frame["submit_time"] - table.frame["submit_time"]).to_list()
    assert later[0] == later[2] != later[1]  # jobs of one instant stay together
    assert other.frame["deadline"].to_list() == [200.0 + later[0], None, 300.0 + later[2]]
    assert other.frame.drop("submit_time", "deadline").equals(table.frame.drop("submit_time", "deadline"))
    assert other.told["moved"] == 7
    assert "moved" not in table.told
    with pytest.raises(AttributeError):
        table.moved = None  # type: ignore[misc]
