"""Generated requests: their number, rate, gaps and lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from ringbco.cli import app
from ringbco.errors import UsageError
from ringbco.trace.requests import Requests
from ringbco.trace.synthetic_requests import LENGTHS, generate_requests

AZURE = Path(__file__).parents[3] / "shared" / "traces" / "azure-llm"
FILES = {"azure-conv": "AzureLLMInferenceTrace_conv.csv", "azure-code": "AzureLLMInferenceTrace_code.csv"}


def gaps(requests: Requests) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.diff(requests.frame["arrival"].to_numpy())


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("arrivals", ["poisson", "bursts", "cv=3"])
def test_number_rate_and_gaps(lengths: str, arrivals: str) -> None:
    made = generate_requests(20_000, 3, lengths=lengths, arrivals=arrivals)
    trace = LENGTHS[lengths]
    assert made.frame.height == 20_000
    assert made.frame["arrival"].is_sorted()
    assert 0.97 < made.frame["arrival"].max() / (20_000 / trace.rate) <= 1
    variation = {"poisson": 1.0, "bursts": trace.variation, "cv=3": 3.0}[arrivals]
    # A sample's variation is spread by about sqrt(variation^2 (1 + ...) / n); under 13 it is rough.
    assert gaps(made).std() / gaps(made).mean() == pytest.approx(variation, rel=0.1)


def test_counts_of_a_poisson_process() -> None:
    """Variance and mean of the requests in a second are alike, for a gap says nothing of the next one."""
    made = generate_requests(200_000, 1, rate=10.0)
    counts = np.bincount(made.frame["arrival"].to_numpy().astype(int))[:-1]
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.05)
    between = gaps(made)
    assert abs(np.corrcoef(between[1:], between[:-1])[0, 1]) < 0.01


def test_by_day_the_nights_are_quiet() -> None:
    week = generate_requests(100_000, 2, rate=100_000 / (7 * 86_400), by_day=True)
    hour = (week.frame["arrival"].to_numpy() // 3600).astype(int)
    assert week.frame["arrival"].is_sorted()
    per_hour = np.bincount(hour, minlength=168).reshape(7, 24)
    assert per_hour[:5, 14:16].mean() > 3 * per_hour[:5, 2:5].mean()
    assert per_hour[:5].mean() > 1.5 * per_hour[5:].mean()


@pytest.mark.parametrize("lengths", LENGTHS)
def test_lengths_are_those_of_the_trace(lengths: str) -> None:
    file = AZURE / FILES[lengths]
    if not file.exists():
        pytest.skip("Azure's trace is not here")
    real, made = Requests.read(file).frame, generate_requests(100_000, 4, lengths=lengths).frame
    arrival, trace = np.sort(real["arrival"].to_numpy()), LENGTHS[lengths]
    assert real.height / (arrival[-1] - arrival[0]) == pytest.approx(trace.rate, abs=0.005)
    assert np.diff(arrival).std() / np.diff(arrival).mean() == pytest.approx(trace.variation, abs=0.005)
    for name in ("input_tokens", "output_tokens"):
        assert made[name].mean() == pytest.approx(real[name].mean(), rel=0.04)
        for share in (0.1, 0.5, 0.9, 0.99):
            assert made[name].quantile(share) == pytest.approx(real[name].quantile(share), rel=0.05)
        assert real[name].min() <= made[name].min() <= made[name].max() <= real[name].max()
    assert abs(float(real.select(pl.corr("input_tokens", "output_tokens", method="spearman")).item())) < 0.08


def test_lengths_do_not_depend_on_arrivals_and_seeds_differ() -> None:
    plain = generate_requests(500, 7)
    assert generate_requests(500, 7).frame.equals(plain.frame)
    other = generate_requests(500, 7, arrivals="bursts", by_day=True, rate=0.01, service="chat").frame
    names = ["input_tokens", "output_tokens"]
    assert other.select(names).equals(plain.frame.select(names))
    assert other["service"].unique().to_list() == ["chat"]
    assert not generate_requests(500, 8).frame["output_tokens"].equals(plain.frame["output_tokens"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"num_requests": 0}, "option requests: 0: expected an integer from 1 to"),
        ({"seed": -1}, "option seed: -1: expected an integer from 0 to"),
        ({"lengths": "azure-core"}, "option lengths: 'azure-core': expected one of azure-conv, azure-code"),
        ({"rate": 0.0}, "option rate: 0.0: expected a number of requests a second > 0"),
        ({"rate": float("nan")}, "option rate: nan: expected"),
        ({"rate": 1e-12}, "option rate: 1e-12: expected at least 2.3e-09"),
        ({"arrivals": "burst"}, "option arrivals: 'burst': expected poisson, bursts, or cv=X"),
        ({"arrivals": "cv=0"}, "option arrivals: 'cv=0': expected poisson"),
        ({"arrivals": "cv=x"}, "option arrivals: 'cv=x': expected poisson"),
        ({"service": ""}, "option service: '': expected a name"),
    ],
)  # fmt: skip
def test_bad_options(options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        generate_requests(**{"num_requests": 10, "seed": 1} | options)
    assert str(caught.value).startswith(told)


def test_the_verb(tmp_path: Path) -> None:
    def run(*more: str) -> tuple[int, str]:
        given = ["generate", *more, "-o", str(tmp_path / "r.parquet")]
        ran = CliRunner().invoke(app, given)
        return ran.exit_code, ran.stdout or str(ran.exception)

    code, said = run("--preset", "requests", "--requests", "300", "--seed", "5", "--service", "chat")
    assert (code, said.splitlines()[0]) == (
        0, f"300 requests of preset requests, seed 5, in {tmp_path / 'r.parquet'}"
    )  # fmt: skip
    made = generate_requests(300, 5, service="chat")
    assert Requests.read(tmp_path / "r.parquet").frame.equals(made.frame)
    assert "already exists" in run("--preset", "requests", "--requests", "3")[1]
    for more, told in (
        (("--preset", "requests"), "generate: --requests is missing: `ringbco generate"),
        (("--preset", "requests", "--jobs", "3"), "option jobs: it means nothing with --preset requests"),
        (
            ("--preset", "philly", "--jobs", "3", "--rate", "2"),
            "option rate: it means nothing without --preset",
        ),
        (("--preset", "philly"), "generate: --jobs is missing: `ringbco generate"),
        (("--preset", "request", "--jobs", "3"), "did you mean requests?"),
    ):
        code, said = run(*more)
        assert code != 0
        assert told in said
