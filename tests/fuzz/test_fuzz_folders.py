"""Folders of results and sweeps, and footers of Parquet: taken up again, or refused in one line."""

from __future__ import annotations

import io
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import SMALL_JOBS
from fuzz import CASES, explained, fuzzed
from fuzz.damage import TEXTS, VALUES, damaged_bytes, damaged_document, damaged_table, storable, written
from fuzz.test_fuzz_jobs import TABLE
from fuzz.test_fuzz_results import cases, jobs_of, sound
from ringbco import compare
from ringbco.run.again import read_repeat
from ringbco.study.inspection import inspect_jobs
from ringbco.sweeps.run import sweep
from ringbco.trace.jobs import read_jobs

assert sound  # the fixture of result folders

SWEEP: Final = {
    "base": {"trace": "small.csv", "cluster": "2x8"},
    "grid": {"policy": ["fifo", "srtf"], "seed": [0, 1]},
}
KEYS: Final = tuple(
    "ringbco." + name
    for name in ("source", "epoch", "options", "rows_read", "rows_dropped", "rows_changed", "version", "x")
)


def test_compare_results(sound: Path) -> None:
    def use(folder: Path) -> None:
        comparison = explained(lambda: compare(results=[sound / "fifo", folder]))
        if comparison is not None:
            told = comparison.to_dict()
            for entry in (each for of in told["measures"].values() for each in of.values()):
                if entry["ratio"] is not None and math.isinf(entry["ratio"]):  # the baseline's alone is 0
                    entry["ratio"] = None
            json.dumps(told, allow_nan=False)

    cases(sound, use, CASES // 2)


def test_again(sound: Path) -> None:
    def use(folder: Path) -> None:
        again = explained(lambda: read_repeat(folder, jobs_of(folder)))
        if again is not None:
            explained(again.run)

    cases(sound, use, CASES // 2)


@fuzzed
@given(
    footer=st.dictionaries(
        st.one_of(st.sampled_from(KEYS), st.sampled_from(TEXTS)),
        st.one_of(st.sampled_from(TEXTS), damaged_document({"x": 3, "y": ["z"]}, VALUES).map(json.dumps)),
        max_size=6,
    )
)
def test_footers_of_parquet(tmp_path_factory: pytest.TempPathFactory, footer: dict[str, str]) -> None:
    def encoded(text: str) -> bytes:
        return text.encode("utf-8", "surrogatepass")

    table = TABLE.replace_schema_metadata({encoded(key): encoded(value) for key, value in footer.items()})
    data = io.BytesIO()
    pq.write_table(table, data)
    path = written(tmp_path_factory.getbasetemp() / "footer.parquet", data.getvalue())
    read = explained(lambda: read_jobs(path))
    if read is not None:
        explained(lambda: inspect_jobs(read))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep's folder, and its specification beside it."""
    folder = tmp_path_factory.mktemp("sweeps")
    (folder / "small.csv").write_text(SMALL_JOBS)
    base = {**SWEEP["base"], "trace": str(folder / "small.csv")}
    (folder / "spec.json").write_text(json.dumps({**SWEEP, "base": base}))
    sweep(json.loads((folder / "spec.json").read_text()), folder / "sound")
    return folder


def damage(draw: Callable[[Any], Any], path: Path) -> bytes:
    """A sound file of a sweep, damaged."""
    if path.suffix == ".parquet" and draw(st.booleans()):
        return storable(draw(damaged_table(pq.read_table(path))))
    if path.suffix == ".json" and draw(st.booleans()):
        document = draw(damaged_document(json.loads(path.read_bytes()), (*VALUES, *TEXTS)))
        return json.dumps(document).encode("utf-8", "surrogatepass")
    data: bytes = draw(damaged_bytes(path.read_bytes()))
    return data


@fuzzed
@given(data=st.data())
def test_sweep_folders(swept: Path, data: st.DataObject) -> None:
    folder = swept / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(swept / "sound", folder)
    for _ in range(data.draw(st.integers(1, 2))):
        sound = data.draw(
            st.sampled_from(sorted(path for path in (swept / "sound").rglob("*") if path.is_file()))
        )
        (folder / sound.relative_to(swept / "sound")).write_bytes(damage(data.draw, sound))
    result = explained(lambda: sweep(json.loads((swept / "spec.json").read_text()), folder, threads=1))
    if result is not None:  # what a record says is believed if it is as the sweep wrote it, else made again
        timed = ("engine_seconds", "total_seconds", "jobs_per_second")
        expected = pl.read_parquet(swept / "sound" / "runs.parquet").drop(timed)
        assert result.frame.drop(timed).equals(expected)
