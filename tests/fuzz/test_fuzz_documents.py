"""Cluster files and sweep files of any kind: read, or refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import SMALL_JOBS
from fuzz import explained, fuzzed
from fuzz.damage import TEXTS, TOML_VALUES, damaged_bytes, damaged_document, written
from ringbco.cluster.spec import Cluster
from ringbco.io.toml import toml_text
from ringbco.sweeps.spec import read_spec

CLUSTER: Final = {
    "network": {
        "intra_bandwidth": 150e9,
        "inter_bandwidth": 12.5e9,
        "reduce_speed": 500e9,
        "xi1": 0.5,
        "xi2": 5e-4,
        "alpha": 0.3,
    },
    "recorded": {"network": {"inter_bandwidth": 25e9}, "servers": [{"count": 2, "gpus": 8}]},
    "servers": [
        {"name": "g[01-02]", "count": 2, "gpus": 4, "vc": "a", "gpu_type": "V100"},
        {"name": "x7", "count": 1, "gpus": 8, "vc": "b"},
    ],
}
SWEEP: Final = {
    "command": "replay",
    "base": {"trace": "small.csv", "cluster": "2x8", "recorded_cluster": "4x8", "load": 0.5, "alpha": 0.1},
    "grid": {
        "policy": ["fifo", "sjf-bco", "tiresias"],
        "seed": [0, 1],
        "kappa": [2],
        "inter_bandwidth": [1e9, 2e9],
    },
    "runs": [
        {"policy": "ls", "lambda": 2.0, "model": "fixed", "clock": "slot", "slot": 5.0},
        {"policy": "tiresias", "thresholds": [100.0, 1e4], "interval": 60, "vc": "pool", "oversize": "drop"},
    ],
}
NAMED: Final = {
    "base": {"trace": "small.csv", "cluster": "2x8"},
    "grid": {"load": [0.5, 0.9]},
    "runs": {"fair": {"policy": "fifo", "order": "smallest", "queue": "easy"}, "a/b": {"policy": "srtf"}},
}
LISTED: Final = {"base": NAMED["base"], "runs": [{"run": "a", "kappa": 2}, {"run": "b", "policy": "ls"}]}
PLAN: Final = {
    "command": "plan",
    "base": {"trace": "small.csv", "cluster": "2x8", "horizon": 5000, "dispatch": "reserve"},
    "grid": {"policy": ["sjf-bco", "ff"], "kappa": ["auto", 4]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("documents")
    (made / "small.csv").write_text(SMALL_JOBS)
    (made / "c.toml").write_text(toml_text(CLUSTER))
    return made


def files(*documents: Any) -> st.SearchStrategy[bytes]:
    """TOML of a damaged document, or damaged TOML."""
    sound = st.sampled_from(documents)
    values = (*TOML_VALUES, *TEXTS, "small.csv", "c.toml", "2x8", "preset:philly", "fifo", "auto")

    def text(document: Any) -> bytes:
        return toml_text(document if isinstance(document, dict) else {"base": document}).encode()

    damaged = sound.flatmap(lambda document: damaged_document(document, values)).map(text)
    return st.one_of(damaged, damaged, sound.map(text).flatmap(damaged_bytes))


@fuzzed
@given(data=files(CLUSTER))
def test_cluster_files(folder: Path, data: bytes) -> None:
    path = written(folder / "cluster.toml", data)
    cluster = explained(lambda: Cluster.parse(path))
    if cluster is not None:
        again = folder / "again.toml"
        again.write_text(cluster.to_toml(), encoding="utf-8")
        assert Cluster.parse(again).to_toml() == cluster.to_toml()


@fuzzed
@given(name=st.text("ab019[],-. \n\u00b2", max_size=14), count=st.sampled_from(("", "count = 2\n")))
def test_hostlists_of_cluster_files(folder: Path, name: str, count: str) -> None:
    path = folder / "named.toml"
    path.write_text(f"[[servers]]\ngpus = 1\n{count}name = {json.dumps(name)}\n", encoding="utf-8")
    cluster = explained(lambda: Cluster.parse(path))
    if cluster is not None:
        assert cluster.server_names is not None
        assert len({*cluster.server_names}) == cluster.num_servers
        path.write_text(cluster.to_toml(), encoding="utf-8")
        assert Cluster.parse(path).server_names == cluster.server_names


@fuzzed
@given(text=st.one_of(st.sampled_from(TEXTS), st.from_regex(r"\A(preset:)?\d{0,30}[xX]?\d{0,30}.?\Z")))
def test_cluster_names(text: str) -> None:
    explained(lambda: Cluster.parse(text))


@fuzzed
@given(data=files(SWEEP, NAMED, LISTED, PLAN))
def test_sweep_files(folder: Path, data: bytes) -> None:
    path = written(folder / "sweep.toml", data)
    explained(lambda: read_spec(path))
