"""Tables of requests and serving files of any kind: read, or refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import explained, fuzzed
from fuzz.damage import (
    TEXTS,
    TOML_VALUES,
    damaged_bytes,
    damaged_document,
    damaged_table,
    damaged_text,
    written,
    written_parquet,
)
from ringbco.cluster.spec import Cluster
from ringbco.io.toml import toml_text
from ringbco.study.requests import inspect_requests
from ringbco.trace.requests import LATEST, Requests, names_requests
from ringbco.trace.serving import ServingFile

SERVING: Final[dict[str, Any]] = {
    "chat": {
        "kind": "tokens", "gpus": 2, "step": 0.01, "prefill": 1e-4, "decode": 1e-3, "context": 1e-8,
        "max_running": 8, "kv_tokens": 2000, "max_step_tokens": 256, "scale": "target", "min": 1, "max": 4,
        "target": 8.0, "slo": {"first_token": 1.0, "per_token": 0.05},
    },
    "search": {
        "kind": "batch", "gpus": 1, "seconds": [[1, 0.01], [8, 0.03]], "max_wait": 0.1, "scale": "file",
        "counts": "counts.csv", "startup": 5, "slo": {"latency": 0.2},
    },
}  # fmt: skip
REQUESTS: Final = pl.DataFrame(
    {
        "service": ["chat", "search", "chat", "chat"],
        "arrival": [60.25, 0.0, 59.5, 7200.0],
        "input_tokens": [374, None, 879, 91],
        "output_tokens": [44, None, 55, 16],
        "cached_tokens": [0, None, 800, 91],
    }
)
BURST: Final = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,chat,472,18,490,Conversation log
45,chat,1087,0,1087,Conversation log
118,search,417,276,693,API log
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("requests")
    (made / "counts.csv").write_text("service,time,replicas\nsearch,0,2\n")
    (made / "serving.toml").write_text(toml_text(SERVING))
    (made / "burst.csv").write_text(BURST)
    assert use(made, written(made / "sound.csv", REQUESTS.write_csv().encode()))
    assert use(made, made / "burst.csv")
    return made


def use(folder: Path, path: Path) -> bool:
    """What is read is what the engine relies on. Returns whether it was read."""
    names_requests(path)
    serving = ServingFile.read(folder / "serving.toml")
    table = explained(lambda: Requests.read(path, serving=serving))
    if table is None:
        return False
    service, arrival, taken, given, cached = table.columns(serving)
    assert service.size == arrival.size == table.rows.size > 0
    assert (np.isfinite(arrival) & (arrival >= 0) & (arrival <= LATEST)).all()
    chat = service == 0
    assert ((given >= 1) & (taken.astype(np.uint64) + given <= 2000))[chat].all()
    assert (cached <= taken)[chat].all()
    assert (np.diff(table.rows.astype(np.int64)) > 0).all()
    inspect_requests(table, serving)
    again = path.with_name("again.parquet")
    table.write(again, force=True)
    assert Requests.read(again, serving=serving).frame.equals(table.frame)
    return True


@fuzzed
@given(data=damaged_text(REQUESTS.write_csv()))
def test_csv(folder: Path, data: bytes) -> None:
    use(folder, written(folder / "requests.csv", data))


@fuzzed
@given(data=damaged_text(BURST))
def test_burstgpt(folder: Path, data: bytes) -> None:
    use(folder, written(folder / "bursts.csv", data))


@fuzzed
@given(data=damaged_bytes(REQUESTS.write_csv().encode()))
def test_bytes(folder: Path, data: bytes) -> None:
    use(folder, written(folder / "bytes.csv", data))


@fuzzed
@given(table=damaged_table(REQUESTS.to_arrow()))
def test_columns_of_parquet(folder: Path, table: pa.Table) -> None:
    use(folder, written_parquet(folder / "requests.parquet", table))


VALUES: Final = (*TOML_VALUES, *TEXTS, "tokens", "batch", "fixed", "file", "target", "counts.csv")
DAMAGED: Final = damaged_document(SERVING, VALUES).map(
    lambda made: toml_text(made if isinstance(made, dict) else {"chat": made}).encode()
)


@fuzzed
@given(data=st.one_of(DAMAGED, damaged_bytes(toml_text(SERVING).encode())))
def test_serving_files(folder: Path, data: bytes) -> None:
    path = written(folder / "damaged.toml", data)
    serving = explained(lambda: ServingFile.read(path))
    if serving is not None:
        assert serving.names
        explained(lambda: serving.check_on(Cluster.parse("2x2")))
