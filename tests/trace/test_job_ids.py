"""No job_id stands twice in a job table, in whatever order they come."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringbco.errors import InputError
from ringbco.trace.jobs import from_frame


@given(st.lists(st.sampled_from(["a", "b", "aa", "ab", "é", "zz", "9", "10", "11"]), min_size=1, max_size=7))
def test_a_job_id_is_repeated_where_it_comes_twice(ids: list[str]) -> None:
    frame = pl.DataFrame({"job_id": ids}).with_columns(submit_time=0.0, num_gpus=1, duration=1.0)
    if len(set(ids)) == len(ids):
        assert from_frame(frame).num_jobs == len(ids)
        return
    row = next(row for row, name in enumerate(ids) if name in ids[:row])
    with pytest.raises(InputError, match=f"row {row + 1}, .*row {ids.index(ids[row]) + 1} has it too"):
        from_frame(frame)
