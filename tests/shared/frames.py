"""Small tables as tests write them, and what is said of bad ones."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.result.outcome import Outcome


def table(**columns: list[Any]) -> pl.DataFrame:
    """A job table; unless said otherwise, jobs of 1 GPU and 100 s that are all there at 0."""
    count = len(next(iter(columns.values())))
    usual: dict[str, list[Any]] = {
        "job_id": [f"j{i}" for i in range(count)],
        "submit_time": [0.0] * count,
        "num_gpus": [1] * count,
        "duration": [100.0] * count,
    }
    return pl.DataFrame(usual | columns, schema_overrides={"num_gpus": pl.UInt32}, strict=False)


def rows_table(names: str, rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """`table` of rows whose columns have these names."""
    return table(**{name: list(column) for name, *column in zip(names.split(), *rows, strict=True)})


def busy_jobs(rows: int = 60, seed: int = 5) -> pl.DataFrame:
    """Jobs of 1 to 6 GPUs that queue on a small cluster, of three users."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(rows)],
            "submit_time": np.sort(rng.integers(0, 4_000, rows)).astype(float),
            "num_gpus": rng.integers(1, 7, rows),
            "duration": rng.integers(30, 900, rows).astype(float),
            "user": [f"u{row % 3}" for row in range(rows)],
        }
    )


def outages(*rows: tuple[int, float, float | None]) -> pl.DataFrame:
    """Of (server, down_at, up_at)."""
    schema = {"server": pl.UInt32, "down_at": pl.Float64, "up_at": pl.Float64}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def services(*rows: tuple[str, float, int, int]) -> pl.DataFrame:
    """Of (service, time, replicas, GPUs of each)."""
    names = ["service", "time", "replicas", "gpus_per_replica"]
    return pl.DataFrame(list(rows), schema=names, orient="row")


def typed_servers(*groups: tuple[int, int, str]) -> str:
    """What a cluster file says of servers: of (servers, GPUs of each, GPU type)."""
    group = '[[servers]]\ncount = {}\ngpus = {}\ngpu_type = "{}"\n'
    return "".join(group.format(*each) for each in groups)


def cluster_of(toml: str) -> Cluster:
    """Of a cluster file of that text."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cluster.toml")
        file.write_text(toml, encoding="utf-8")
        return Cluster.parse(file)


def stays(result: Outcome) -> list[tuple[Any, ...]]:
    """(job, server, GPUs, start, end)."""
    assert result.allocations is not None
    return result.allocations.select("job_id", "server", "num_gpus", "start_time", "end_time").rows()


def refusal(path: Path, text: str, read: Callable[[Path], object]) -> str:
    """What `read` says is wrong with a file of that text."""
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(path)
    return str(caught.value)
