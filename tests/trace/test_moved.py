"""Submissions moved by under a minute: which, by how much, and what stays."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from ringbco.trace.jobs import from_frame
from ringbco.trace.moved import instants, moved, moves

_GOLDEN = 0x9E3779B97F4A7C15


def mix(state: int) -> int:
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
    return state ^ state >> 31


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30), st.integers(0, 2**64 - 1))
def test_moves_are_as_docs_certainty_says(times: list[int], seed: int) -> None:
    """In plain integers, from the page alone."""
    distinct, base = sorted(set(times)), mix(seed * _GOLDEN % 2**64)
    drawn = (mix((base + (distinct.index(time) + 1) * _GOLDEN) % 2**64) for time in times)
    result = moves(instants(np.array(times, np.float64)), seed)
    assert result.tolist() == [60 * ((one >> 11) * 2.0**-53) for one in drawn]
    assert ((result >= 0) & (result < 60)).all()


def test_rows_keep_their_order_and_deadlines_move_along() -> None:
    times, gpus = [100.0, 0.0, 100.0], [1, 2, 3]
    frame = pl.DataFrame({"job_id": ["b", "a", "c"], "submit_time": times, "num_gpus": gpus})
    frame = frame.with_columns(duration=pl.lit(5.0), deadline=pl.Series([200.0, None, 300.0]))
    table = from_frame(frame)
    other = moved(table, instants(frame["submit_time"].to_numpy()), 7)
    later = (other.frame["submit_time"] - table.frame["submit_time"]).to_list()
    assert later[0] == later[2] != later[1]  # jobs of one instant stay together
    assert other.frame["deadline"].to_list() == [200.0 + later[0], None, 300.0 + later[2]]
    assert other.frame.drop("submit_time", "deadline").equals(table.frame.drop("submit_time", "deadline"))
    assert (table.identity.get("moved"), other.identity["moved"]) == (None, 7)
