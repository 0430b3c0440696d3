"""Files of outages of any kind: read, or refused in one line."""

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
from ringbco.trace.outages import Outages
from ringbco.trace.side_table import ReadContext

SERVERS: Final = 3
KNOWN: Final = ReadContext(servers=SERVERS)
OUTAGES: Final = pl.DataFrame(
    {
        "server": [0, 2, 2, 1, 0],
        "down_at": [10.0, 0.0, 5.5, 3.0, 40.0],
        "up_at": [20.0, 6.0, 9.25, None, 41.0],
        "cause": ["gpu", None, "net,work", "gpu", "gpu"],
    }
)
NAMED: Final = 'server,down_at,up_at\ng01,10,20\n"g[01-02],1",0,6\n1,30,31\n2,40,\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("outages")
    OUTAGES.write_csv(made / "sound.csv")
    assert Outages.read(made / "sound.csv", ReadContext(servers=SERVERS)).merged.height == 4
    return made


def use(path: Path, known: ReadContext = KNOWN) -> None:
    """What is read is what the engine relies on: servers of the cluster, in order, apart from each other."""
    table = explained(lambda: Outages.read(path, known))
    if table is None:
        return
    server, down, up, _ = table.columns()
    assert (server < SERVERS).all()
    assert (down >= 0).all()
    assert np.isfinite(down).all()
    assert (up > down).all()
    same = server[1:] == server[:-1]
    assert (server[1:] >= server[:-1]).all()
    assert (down[1:][same] > up[:-1][same]).all()
    again = path.with_name("again.parquet")
    table.write(again, force=True)
    assert (
        Outages.read(again, ReadContext(servers=SERVERS))
        .merged.drop("cause")
        .equals(table.merged.drop("cause"))
    )


@fuzzed
@given(data=damaged_text(OUTAGES.write_csv()))
def test_csv(folder: Path, data: bytes) -> None:
    use(written(folder / "outages.csv", data))


@fuzzed
@given(data=damaged_text(NAMED))
def test_names(folder: Path, data: bytes) -> None:
    use(
        written(folder / "names.csv", data),
        ReadContext(servers=SERVERS, numbers={"g01": 2, "g02": 1, "1": 0}),
    )


@fuzzed
@given(data=damaged_bytes(OUTAGES.write_csv().encode()))
def test_bytes(folder: Path, data: bytes) -> None:
    use(written(folder / "bytes.csv", data))


@fuzzed
@given(table=damaged_table(OUTAGES.to_arrow()))
def test_columns_of_parquet(folder: Path, table: pa.Table) -> None:
    use(written_parquet(folder / "outages.parquet", table))
