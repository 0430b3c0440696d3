"""`generate --preset llm`: gangs as in Acme's Kalos, and what their models exchange."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster
from ringbco.cluster.tiers import Tier

# Narayanan et al., SC '21, table 1: billions of parameters, tensor, pipeline, GPUs, batch, teraflop/s a GPU.
TABLE = {
    "GPT-1.7B": (1.7, 1, 1, 32, 512, 137),
    "GPT-3.6B": (3.6, 2, 1, 64, 512, 138),
    "GPT-7.5B": (7.5, 4, 1, 128, 512, 142),
    "GPT-18.4B": (18.4, 8, 1, 256, 1024, 135),
    "GPT-39.1B": (39.1, 8, 2, 512, 1536, 138),
    "GPT-76.1B": (76.1, 8, 4, 1024, 1792, 140),
    "GPT-145.6B": (145.6, 8, 8, 1536, 2304, 148),
}


@pytest.fixture(scope="module")
def many() -> pl.DataFrame:
    return ringbco.generate("llm", 40_000, 3).frame


def test_what_is_published_of_kalos(many: pl.DataFrame) -> None:
    time = many["num_gpus"] * many["duration"]
    pretraining = many["num_gpus"] >= 64
    assert pretraining.mean() == pytest.approx(0.032, abs=1e-3)
    assert (many["num_gpus"] == 8).mean() == pytest.approx(0.929, abs=1e-3)
    assert time.filter(pretraining).sum() / time.sum() == pytest.approx(0.94, abs=0.045)
    assert many["duration"].median() == pytest.approx(120, rel=0.05)
    assert (many.filter(pretraining)["duration"] > 86_400).mean() < 0.05
    assert (many["status"] == "FAILED").mean() == pytest.approx(0.4, abs=0.02)


def test_models_and_what_a_gpu_exchanges(many: pl.DataFrame) -> None:
    assert set(many["model"]) == {*TABLE}
    for model, (billions, tensor, pipeline, gpus, batch, rate) in TABLE.items():
        jobs = many.filter(model=model)
        shards = tensor * pipeline
        assert jobs["num_gpus"].min() >= shards
        assert jobs["gradient_bytes"].unique().to_list() == [pytest.approx(4 * billions * 1e9 / shards)]
        assert jobs["batch_size"].unique().to_list() == [batch * shards // gpus]
        compute = jobs["fp_time"] * jobs["batch_size"] + jobs["bp_time"]
        expected = 8 * billions * 1e9 * batch * 2048 / (gpus * rate * 1e12)
        assert compute.min() == pytest.approx(expected)
        assert compute.max() == pytest.approx(expected)
    small = many.filter(num_gpus=8)["model"].value_counts(normalize=True)
    assert set(small["model"]) == {"GPT-1.7B", "GPT-3.6B", "GPT-7.5B", "GPT-18.4B"}
    assert small["proportion"].to_list() == [pytest.approx(0.25, abs=0.02)] * 4


def test_the_page_has_the_models() -> None:
    page = Path("docs/job-table.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (GPT\S+) \| (\d) x (\d) \| (\S+) \| (\d+) \| (\S+) \|$", page, re.MULTILINE)
    assert [row[0] for row in rows] == [*TABLE]
    for model, tensor, pipeline, gradient, sequences, compute in rows:
        billions, *split, gpus, batch, rate = TABLE[model]
        assert [int(tensor), int(pipeline)] == split
        shards = split[0] * split[1]
        assert float(gradient) == pytest.approx(4e9 * billions / shards, rel=1e-3)
        assert int(sequences) == batch * shards // gpus
        assert float(compute) == pytest.approx(8 * billions * batch * 2.048 / (gpus * rate), rel=2e-3)


def test_gangs_stop_at_half_of_the_cluster(invoke: Invoke, tmp_path: Path) -> None:
    ran = invoke("generate", "--preset", "llm", "--jobs", "3000", "--gpus", "300", "-o", "j.parquet", "-q")
    assert ran.returncode == 0, ran.stderr
    sizes = pl.read_parquet(tmp_path / "j.parquet")["num_gpus"].unique().sort().to_list()
    assert sizes == [8, 16, 32, 64, 128]
    refused = invoke("generate", "--preset", "llm", "--jobs", "30", "--gpus", "15", "-o", "k.parquet")
    assert refused.returncode == 2
    assert refused.stderr == "error: option gpus: 15: expected an integer from 16\n"
    assert not (tmp_path / "k.parquet").exists()


def test_they_run_on_rails() -> None:
    table = ringbco.generate("llm", 300, 1, gpus=256)
    rails = Cluster(
        [8] * 32,
        network=Network(intra_bandwidth=450e9, inter_bandwidth=50e9),
        tiers=(Tier("unit", 400e9, 8),),
        nics="gpu",
    )
    outcome = ringbco.replay(table, rails, policy="fifo")
    assert outcome.jobs["max_crossing"].max() >= 8  # type: ignore[operator]
