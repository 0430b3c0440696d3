"""Synthetic requests with the lengths of Azure's language models (docs/serving.md#generated-requests)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.errors import UsageError
from ringbco.io.forks import use_polars
from ringbco.trace.other_names import hint_at
from ringbco.trace.requests import LATEST, Requests
from ringbco.trace.weeks import within_weeks

PRESET: Final = "requests"
MOST_REQUESTS: Final = 100_000_000
_FASTEST: Final = 1e6
_DIGITS: Final = 6
"""Arrivals are whole microseconds."""
_PERCENTS: Final = (
    *(0, 1, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50),
    *(55, 60, 65, 70, 75, 80, 85, 90, 95, 98, 99, 99.5, 99.9, 100),
)


@dataclass(frozen=True)
class Lengths:
    """What was measured of a trace: percentiles of tokens at `_PERCENTS`, requests a second, gaps.

    variation: the standard deviation of the gaps between arrivals over their mean; 1 if they were Poisson's.
    """

    input_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]
    rate: float
    variation: float


# Measured from AzureLLMInferenceTrace_conv.csv (19,366 requests in 3,501.7 s) and _code.csv (8,819 in
# 3,435.9 s) of Azure/AzurePublicDataset, 2023, CC-BY 4.0.
LENGTHS: Final = {
    "azure-conv": Lengths(
        (2, 29, 91, 181, 207, 372, 387, 396, 403, 414, 703, 984, 1020)
        + (1045, 1071, 1097, 1130, 1189, 1315, 1876, 2734, 4083, 4098, 4142, 4831, 6179, 14050),
        (7, 16, 24, 41, 54, 67, 77, 85, 91, 96, 103, 113, 129)
        + (151, 177, 217, 384, 395, 400, 411, 424, 451, 540, 601, 643, 954, 1000),
        rate=5.53,
        variation=1.09,
    ),
    "azure-code": Lengths(
        (3, 17, 35, 75, 147, 232, 386, 578, 770, 939, 1075, 1261, 1469)
        + (1690, 1909, 2164, 2433, 2744, 3192, 3920, 5188, 7303, 7436, 7436, 7436, 7437, 7437),
        (6, 6, 6, 6, 7, 7, 8, 9, 9, 10, 11, 12, 13)
        + (14, 16, 18, 20, 24, 29, 39, 55, 90, 171, 251, 359, 825, 1899),
        rate=2.57,
        variation=13.15,
    ),
}


def generate_requests(
    num_requests: int,
    seed: int,
    *,
    lengths: str = "azure-conv",
    rate: float | None = None,
    arrivals: str = "poisson",
    by_day: bool = False,
    service: str | None = None,
) -> Requests:
    """Synthetic requests to a token service, in order of arrival; the same arguments give the same table.

    lengths: the trace whose distributions of input and output tokens are drawn from, independently:
    azure-conv or azure-code. rate: requests a second on average; None for that trace's. They come within
    num_requests / rate seconds. arrivals: poisson; bursts, whose gaps follow a gamma distribution with the
    variation of that trace; or cv=X for another variation. by_day: whether the rate follows the hours of a
    week as submissions of `generate` do, from Monday midnight. service: its name; None for no such column.

    Raises UsageError for an unknown name or a number out of range.
    """
    use_polars()
    if lengths not in LENGTHS:
        told = f"expected one of {', '.join(LENGTHS)}{hint_at(lengths, LENGTHS)}"
        raise UsageError(f"option lengths: {lengths!r}: {told}")
    for name, value, low, high in (
        ("requests", num_requests, 1, MOST_REQUESTS),
        ("seed", seed, 0, 2**64 - 1),
    ):
        if not low <= value <= high:
            raise UsageError(f"option {name}: {value}: expected an integer from {low} to {high}")
    trace = LENGTHS[lengths]
    rate = trace.rate if rate is None else rate
    if not 0 < rate <= _FASTEST:
        raise UsageError(f"option rate: {rate}: expected a number of requests a second > 0 and <= 1e6")
    span = num_requests / rate
    if span > LATEST:
        least = num_requests / LATEST
        raise UsageError(f"option rate: {rate}: expected at least {least:.2g}, at which they come in 2^32 s")
    if service is not None and not (service and service.isprintable()):
        raise UsageError(f"option service: {service!r}: expected a name: a text of one line")
    variation = _variation(arrivals, trace)
    of_arrivals, of_lengths = (np.random.Generator(np.random.PCG64([seed, part])) for part in (0, 1))
    share = _shares_of_span(num_requests, variation, of_arrivals)
    times = within_weeks(share, span) if by_day else share * span
    columns = {"service": pl.repeat(service, num_requests, dtype=pl.String, eager=True)} if service else {}
    columns["arrival"] = pl.Series(np.round(times, _DIGITS))
    for name in ("input_tokens", "output_tokens"):
        columns[name] = pl.Series(_drawn(getattr(trace, name), num_requests, of_lengths))
    return Requests.read(pl.DataFrame(columns), source=f"generated {PRESET}", counted=True)


def _variation(arrivals: str, trace: Lengths) -> float:
    """The variation of the gaps that an option asks for."""
    if arrivals in ("poisson", "bursts"):
        return 1.0 if arrivals == "poisson" else trace.variation
    kind, _, text = arrivals.partition("=")
    try:
        value = float(text) if kind == "cv" else math.nan
    except ValueError:
        value = math.nan
    if not 0 < value <= 100:
        told = "expected poisson, bursts, or cv=X with 0 < X <= 100, the variation of gaps"
        raise UsageError(f"option arrivals: {arrivals!r}: {told}{hint_at(arrivals, ('poisson', 'bursts'))}")
    return value


def _shares_of_span(count: int, variation: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """When requests come, as shares of the time in which all do, ascending.

    With a variation of 1 they are as a Poisson process, given their number.
    """
    gaps = rng.gamma(variation**-2.0, size=count + 1)
    times = np.cumsum(gaps)
    last = float(times[-1])  # 0 where all gaps are below the least float
    shares: NDArray[np.float64] = times[:-1] / last if last > 0 else np.zeros(count)
    return shares


def _drawn(percentiles: tuple[int, ...], count: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Numbers with those percentiles, geometrically between two of them."""
    places = np.array(_PERCENTS) / 100.0
    return np.rint(np.exp(np.interp(rng.random(count), places, np.log(percentiles)))).astype(np.uint32)
