"""Files of services and of requests of any kind: read, or refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

from fuzz import explained, fuzzed
from fuzz.damage import damaged_bytes, damaged_table, damaged_text, written, written_parquet
from ringbco.study.services import services
from ringbco.trace.services import Services
from ringbco.trace.side_table import ReadContext

LARGEST: Final = 8
SERVICES: Final = pl.DataFrame(
    {
        "service": ["chat", "embed", "chat", "chat, too", "embed"],
        "time": [10.0, 0.0, 5.5, 3.0, 40.0],
        "replicas": [2, 0, 9, 4, 1],
        "gpus_per_replica": [4, 1, 4, 8, 1],
    }
)
REQUESTS: Final = pl.DataFrame(
    {
        "arrival": [0.0, 59.5, 60.25, 7200.0],
        "input_tokens": [374, 396, 879, 91],
        "output_tokens": [44, 109, 55, 16],
    }
)
DATED: Final = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("services")
    SERVICES.write_csv(made / "sound.csv")
    assert Services.read(made / "sound.csv", ReadContext(largest=LARGEST)).names == [
        "chat",
        "embed",
        "chat, too",
    ]
    REQUESTS.write_csv(made / "requests.csv")
    assert services(made / "requests.csv", gpus_per_replica=1, tokens_per_gpu=10.0).frame.height == 4
    return made


def use(path: Path) -> None:
    """What is read is what the engine relies on."""
    table = explained(lambda: Services.read(path, ReadContext(largest=LARGEST)))
    if table is None:
        return
    gpus, service, time, replicas = table.columns()
    assert ((gpus >= 1) & (gpus <= LARGEST)).all()
    assert (service < len(table.names)).all()
    assert (np.isfinite(time) & (time >= 0)).all()
    assert replicas.size == time.size == service.size == table.frame.height
    assert len(set(zip(service.tolist(), time.tolist(), strict=True))) == time.size
    again = path.with_name("again.parquet")
    table.write(again, force=True)
    assert Services.read(again, ReadContext(largest=LARGEST)).frame.equals(table.frame)


def convert(path: Path) -> None:
    """Whatever a trace makes is a table of services, its rows in order and each another number."""
    table = explained(lambda: services(path, gpus_per_replica=2, tokens_per_gpu=10.0))
    if table is not None:
        time, replicas = table.frame["time"].to_numpy(), table.frame["replicas"].to_numpy()
        assert (np.diff(time) > 0).all()
        assert (np.diff(replicas.astype(np.int64), prepend=0) != 0).all()


@fuzzed
@given(data=damaged_text(SERVICES.write_csv()))
def test_csv(folder: Path, data: bytes) -> None:
    use(written(folder / "services.csv", data))


@fuzzed
@given(data=damaged_bytes(SERVICES.write_csv().encode()))
def test_bytes(folder: Path, data: bytes) -> None:
    use(written(folder / "bytes.csv", data))


@fuzzed
@given(table=damaged_table(SERVICES.to_arrow()))
def test_columns_of_parquet(folder: Path, table: pa.Table) -> None:
    use(written_parquet(folder / "services.parquet", table))


@fuzzed
@given(data=damaged_text(REQUESTS.write_csv()))
def test_requests(folder: Path, data: bytes) -> None:
    convert(written(folder / "requests-damaged.csv", data))


@fuzzed
@given(data=damaged_text(DATED))
def test_requests_with_dates(folder: Path, data: bytes) -> None:
    convert(written(folder / "requests-dated.csv", data))


@fuzzed
@given(table=damaged_table(REQUESTS.to_arrow()))
def test_requests_of_parquet(folder: Path, table: pa.Table) -> None:
    convert(written_parquet(folder / "requests.parquet", table))
