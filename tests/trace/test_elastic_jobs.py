"""Jobs made elastic: which, in what range, with which noise scale, and what is written down of it."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import SHARED, Invoke, present
from ringbco.errors import UsageError
from ringbco.trace.elastic import GRADIENTS, parse
from ringbco.trace.jobs import from_frame, read_jobs
from ringbco.trace.profiles import CATALOGUE, choose

PAGE = Path(__file__).parents[2] / "docs" / "noise-scales.md"
JOBS = "job_id,submit_time,num_gpus,duration\n"


def table(num_gpus: list[int], **columns: list[object]) -> pl.DataFrame:
    jobs = len(num_gpus)
    frame = pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(jobs)],
            "submit_time": [0.0] * jobs,
            "num_gpus": num_gpus,
            "duration": [10.0] * jobs,
            **columns,
        }
    )
    return from_frame(frame).frame


def stretched(frame: pl.DataFrame, text: str = "0.5:2", share: float = 1.0, seed: int = 0) -> pl.DataFrame:
    made, count = parse(text, share=share, seed=seed).apply(frame)
    assert count == made["min_gpus"].is_not_null().sum()
    return from_frame(made).frame


def test_ranges_are_rounded_inwards() -> None:
    made = stretched(table([1, 2, 3, 5, 8]))
    assert made["min_gpus"].to_list() == [1, 1, 2, 3, 4]
    assert made["max_gpus"].to_list() == [2, 4, 6, 10, 16]
    # 0.1 x 30 is 3, which float64 does not say.
    assert stretched(table([30]), "0.1:1")["min_gpus"].to_list() == [3]
    assert stretched(table([7, 2**32 - 1]), "0.999999:1.3")["max_gpus"].to_list() == [9, 2**32 - 1]


@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_those_of_fractions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = f"0.{rng.integers(1, 10**6):06}", f"{rng.integers(1, 999)}.{rng.integers(10**6):06}"
    asked = [int(gpus) for gpus in rng.integers(1, 5000, 50)]
    made = stretched(table(asked), f"{low}:{high}")
    for gpus, least, most in zip(asked, made["min_gpus"], made["max_gpus"], strict=True):
        assert least is None or least == max(1, -(-gpus * Fraction(low) // 1))
        assert most is None or most == gpus * Fraction(high) // 1


def test_jobs_that_could_hold_just_num_gpus_stay_rigid() -> None:
    made = stretched(table([1, 2]), "0.5:1")
    assert made["min_gpus"].to_list() == [None, 1]
    assert made["noise_scale"].is_null().to_list() == [True, False]
    shared = stretched(table([1, 1], gpu_share=[0.5, None]))
    assert shared["max_gpus"].to_list() == [None, 2]


def test_noise_scales_and_batches_are_those_of_the_model() -> None:
    frame = table([4] * 5, model=["bert-large", "other", None, "NCF", None])
    made = stretched(frame, seed=5)
    chosen = [CATALOGUE[entry].name for entry in choose(frame["job_id"], 5)]
    models = ["BERT-large", chosen[1], chosen[2], "NCF", chosen[4]]
    assert made["model"].to_list() == ["bert-large", "other", chosen[2], "NCF", chosen[4]]
    assert made["noise_scale"].to_list() == [GRADIENTS[name].noise_scale for name in models]
    assert made["batch_size"].to_list() == [GRADIENTS[name].samples for name in models]


def test_what_the_table_says_of_computing_stays() -> None:
    made = stretched(
        table([4] * 3, batch_size=[7, None, None], fp_time=[None, 0.1, None], bp_time=[None, None, 0.2])
    )
    assert made["batch_size"].to_list() == [7, None, None]
    untouched = stretched(table([4] * 3))
    assert not {"fp_time", "bp_time"} & set(untouched.columns)
    # Work and run times are those of the rigid jobs: what fills the gaps is the same.
    rigid = table([4] * 3)
    one, other = (ringbco.replay(frame, "4x4", policy="fifo", model="rar") for frame in (rigid, untouched))
    assert one.jobs["finish_time"].equals(other.jobs["finish_time"])


def test_the_share_is_drawn_by_job_and_seed_alone() -> None:
    frame = table([4] * 4000)
    made = stretched(frame, share=0.3)
    elastic = made["min_gpus"].is_not_null()
    assert abs(elastic.mean() - 0.3) < 0.03
    part = stretched(frame[1000:2000].reverse(), share=0.3)
    assert part["min_gpus"].is_not_null().reverse().to_list() == elastic[1000:2000].to_list()
    more = stretched(frame, share=0.6)["min_gpus"].is_not_null()
    assert (more | ~elastic).all()  # a larger share takes those of a smaller one
    assert stretched(frame, share=0.3, seed=1)["min_gpus"].is_not_null().to_list() != elastic.to_list()
    rest = made.filter(~elastic)
    assert rest["model"].null_count() == rest["batch_size"].null_count() == rest.height


@pytest.mark.parametrize(
    "text", ["0.5", "2:0.5", "0:1", "a:b", "1:1", "", ":", "0.5:2:3", "-1:2", "0.5:1001", "inf:2", "1e-3:2"]
)
def test_ranges_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"option elastic: .*expected LOW:HIGH") as raised:
        parse(text)
    assert "\n" not in str(raised.value)


def test_refusals_write_nothing(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "a.csv").write_text(f"{JOBS}a,0,4,10\n")
    (tmp_path / "b.csv").write_text(JOBS.replace("\n", ",noise_scale\n") + "a,0,4,10,5\n")
    for given, said in (
        (("a.csv", "--elastic", "2:0.5"), "option elastic: '2:0.5': expected LOW:HIGH"),
        (("a.csv", "--elastic", "0.5:2", "--elastic-share", "0"), "option elastic-share: 0.0"),
        (("a.csv", "--elastic", "0.5:2", "--elastic-share", "nan"), "option elastic-share: nan"),
        (("a.csv", "--elastic", "0.5:2", "--seed", "-1"), "option seed: -1"),
        (("a.csv", "--seed", "1"), "option seed: it means nothing without --elastic"),
        (("b.csv", "--elastic", "0.5:2"), "the trace has a column noise_scale of its own"),
    ):
        name, *options = given
        done = invoke("convert", "csv", tmp_path / name, "-o", tmp_path / "jobs.parquet", *options)
        assert done.returncode == 2, given
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "jobs.parquet").exists()


def test_the_footer_says_how(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "a.csv").write_text(JOBS + "".join(f"j{row},0,4,10\n" for row in range(50)))
    out = tmp_path / "jobs.parquet"
    done = invoke(
        "convert", "csv", tmp_path / "a.csv", "-o", out, "--elastic", "0.5:2", "--elastic-share", "0.4",
        "--seed", "3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    read = read_jobs(out)
    elastic = read.frame["min_gpus"].is_not_null().sum()
    assert f"note: {elastic} of 50 jobs are elastic" in done.stderr
    options = json.loads(read.metadata["ringbco.options"])
    assert {name: options[name] for name in ("elastic", "elastic_share", "elastic_seed")} == {
        "elastic": "0.5:2", "elastic_share": 0.4, "elastic_seed": 3,
    }  # fmt: skip
    again = ringbco.convert("csv", tmp_path / "a.csv", elastic="0.5:2", elastic_share=0.4, seed=3)
    assert again.table.frame.equals(read.frame)


def test_generated_jobs() -> None:
    rigid, made = (
        ringbco.generate("philly", 400, 2, gpus=64, elastic=text, elastic_share=0.7) for text in (None, "1:3")
    )
    assert made.frame.select(rigid.frame.columns).equals(rigid.frame)
    elastic = made.frame.filter(pl.col("max_gpus").is_not_null())
    assert 0.6 < elastic.height / 400 < 0.8
    assert (elastic["max_gpus"] == 3 * elastic["num_gpus"]).all()
    assert json.loads(made.metadata["ringbco.options"])["elastic"] == "1:3"


def test_the_page_has_the_catalogue() -> None:
    rows = re.findall(r"\| ([\w-]+) \| (\w+) \| ([\d,]+) \| ([\d,]+) \| \[\d\] \|", PAGE.read_text())
    value = {
        name: (sample, int(a.replace(",", "")), float(b.replace(",", ""))) for name, sample, a, b in rows
    }
    assert value == {
        name: (result.sample, result.samples, result.noise_scale) for name, result in GRADIENTS.items()
    }
    assert list(GRADIENTS) == [profile.name for profile in CATALOGUE]


def test_the_page_has_what_the_command_writes(tmp_path: Path) -> None:
    text = PAGE.read_text()
    given, written = (
        re.search(rf"\$ cat {name}\n(.*?)\n(?:\$|```)", text, re.DOTALL) for name in ("trace.csv", "jobs.csv")
    )
    assert given is not None
    assert written is not None
    (tmp_path / "trace.csv").write_text(given[1] + "\n")
    made = ringbco.convert("csv", tmp_path / "trace.csv", elastic="0.5:2", elastic_share=1.0)
    assert made.table.frame.write_csv().strip() == written[1]


@pytest.mark.parametrize(
    ("application", "model"), [("imagenet", "ResNet-50"), ("bert", "BERT-base"), ("ncf", "NCF")]
)
def test_pollux_profiles_give_the_catalogue(application: str, model: str) -> None:
    folder = present(SHARED / "peers" / "pollux") / "profiles" / application
    epochs = {int(file.stem.split("-")[1]): pl.read_csv(file) for file in folder.glob("validation-*.csv")}
    medians = []
    for frame in epochs.values():
        weights = np.diff(frame["progress"].to_numpy(), prepend=0.0)
        scale = min(epochs) * (frame["grad_var"] / frame["grad_sqr"]).to_numpy()
        order = np.argsort(scale)
        half = np.searchsorted(np.cumsum(weights[order]) / weights.sum(), 0.5)
        medians.append(scale[order][half])
    result = float(np.median(medians))
    assert f"{result:,.0f}" in PAGE.read_text()
    assert GRADIENTS[model].noise_scale == pytest.approx(result, rel=0.02)
