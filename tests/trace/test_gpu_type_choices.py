"""Kinds of jobs: allowed types, the type a job was recorded on, and where none of it matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ringbco.cluster.gpu_types import GpuType
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.trace.gpu_type_choices import resolve
from ringbco.trace.jobs import JobTable, from_frame, read_jobs

SPEEDS = {
    "a": GpuType("A", 2.0),
    "b": GpuType("B", 0.5, models={"BERT": 0.75}),
    "c": GpuType("C", 4.0),
}


def jobs(num: int = 1, **columns: Any) -> JobTable:
    base = {
        "job_id": [str(row) for row in range(num)],
        "submit_time": [0.0] * num,
        "num_gpus": [1] * num,
        "duration": [1.0] * num,
    }
    return from_frame(pl.DataFrame(base | columns))


def cluster(*types: str, recorded: str | None = None) -> Cluster:
    if not types:
        return Cluster.parse("1x8")
    made = Cluster(np.full(len(types), 8), server_gpu_type=types, gpu_types=SPEEDS)
    if recorded is None:
        return made
    return made.with_recorded(Cluster(np.array([8]), server_gpu_type=(recorded,), gpu_types=SPEEDS))


Told = tuple[float, tuple[tuple[int, float], ...]]
"""A kind: the recorded speed, and the types allowed with theirs."""


def kinds(table: JobTable, on: Cluster) -> list[Told]:
    result = resolve(table, on)
    assert result is not None
    assert result.of.dtype == np.uint32
    every = [(kind.recorded_speed, kind.allowed) for kind in result.kinds]
    return [every[number] for number in result.of]


def test_what_gpu_type_lists() -> None:
    cells = ["B|A", "b", None, "", " A | C|a ", "C", "nobody's"]
    assert kinds(jobs(len(cells), gpu_type=cells), cluster("A", "B", "A")) == [
        (0.5, ((1, 0.5), (0, 2.0))),
        (0.5, ((1, 0.5),)),
        (2.0, ((0, 2.0), (1, 0.5))),
        (2.0, ((0, 2.0), (1, 0.5))),
        (2.0, ((0, 2.0),)),
        (2.0, ()),
        (2.0, ()),
    ]


def test_recorded_on_by_column_then_file_then_first_allowed() -> None:
    table = jobs(3, gpu_type=["B", "C|B", None], recorded_on=["c", None, ""])
    assert [kind[0] for kind in kinds(table, cluster("A", "B"))] == [4.0, 0.5, 2.0]
    assert [kind[0] for kind in kinds(table, cluster("A", "B", recorded="C"))] == [4.0, 4.0, 4.0]


def test_a_model_may_have_its_own_speed() -> None:
    table = jobs(3, model=["BERT", "other", None])
    assert kinds(table, cluster("A", "B", recorded="B")) == [
        (0.75, ((0, 2.0), (1, 0.75))),
        *[(0.5, ((0, 2.0), (1, 0.5)))] * 2,
    ]


@pytest.mark.parametrize(
    ("table", "on"),
    [
        (jobs(gpu_type=["A"], recorded_on=["no such type"]), cluster()),
        (jobs(2, gpu_type=["A", None], recorded_on=["A", None]), cluster("A", "A")),
        (jobs(2, gpu_type=["a|b", ""]), cluster("A")),
        (jobs(model=["BERT"]), cluster("B")),
    ],
)
def test_types_that_change_nothing(table: JobTable, on: Cluster) -> None:
    assert resolve(table, on) is None


@pytest.mark.parametrize(
    ("columns", "recorded"), [({"gpu_type": ["B"]}, None), ({"recorded_on": ["B"]}, None), ({}, "B")]
)
def test_one_type_that_changes_something(columns: dict[str, Any], recorded: str | None) -> None:
    assert resolve(jobs(**columns), cluster("A", recorded=recorded)) is not None


def test_recorded_on_a_type_that_nobody_knows(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_time,num_gpus,duration,recorded_on\na,0,1,1,A\nb,0,1,1,V10\nc,0,1,1,V10\n")
    with pytest.raises(InputError) as caught:
        resolve(read_jobs(path), cluster("A"))
    assert str(caught.value).startswith(
        f"{path}: row 2 (line 3), column recorded_on: V10: expected a GPU type that the cluster file"
        " declares or the catalogue knows; did you mean V100?"
    )
