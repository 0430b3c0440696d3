"""Replicas that a request trace wants: tokens a second against what a GPU can do (docs/services.md)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from ringbco.run.options import integer, number, refusal
from ringbco.trace.requests import read_requests
from ringbco.trace.services import Services
from ringbco.units import seconds_of

TARGET: Final = 0.7
WINDOW: Final = "60s"
_MOST_GPUS: Final = 2**32 - 1
_LONGEST: Final = 1e12  # s, as of outages
_MOST_WINDOWS: Final = 2**53
_ROUNDING: Final = 1e-12  # of a number of replicas


def services(
    requests: object,
    *,
    gpus_per_replica: int,
    tokens_per_gpu: float,
    target: float = TARGET,
    window: float | str = WINDOW,
    service: str = "service",
) -> Services:
    """The replicas that a service wants for its requests, window by window.

    In each window it wants tokens / (window x gpus_per_replica x tokens_per_gpu x target) replicas, rounded
    up, with the input and output tokens of the requests that arrive in it. Windows begin at the multiples of
    `window`. A row stands only where the number changes; after the last window with requests it is 0.

    requests: a Parquet or CSV file, or a frame, with the columns arrival (s), input_tokens, output_tokens; or
    TIMESTAMP, ContextTokens, GeneratedTokens. Dates and times count from the first request. tokens_per_gpu:
    tokens a second. target: the utilisation aimed at, > 0 and <= 1. window: seconds, or a text such as "60s".

    Raises UsageError for a bad option, InputError for a bad trace.
    """
    return _wanted(
        read_requests(requests)[0],
        gpus_per_replica=gpus_per_replica,
        tokens_per_gpu=tokens_per_gpu,
        target=target,
        window=window,
        service=service,
    )


def counted(requests: object, **options: Any) -> tuple[Services, dict[str, Any]]:
    """As `services`, with figures of the trace and of what it wants; times in seconds.

    mean_replicas: over the time from the first window with requests to the end of the last.
    """
    frame, _ = read_requests(requests)
    found = _wanted(frame, **options)
    time, replicas = (found.frame[name].to_numpy() for name in ("time", "replicas"))
    arrival, gpus = frame["arrival"].to_numpy(), options["gpus_per_replica"]
    seconds = float((replicas[:-1] * np.diff(time)).sum())
    lasts = float(time[-1] - time[0]) if time.size else 0.0
    tokens = {name: int(frame[name].cast(pl.UInt64).sum()) for name in ("input_tokens", "output_tokens")}
    return found, {
        "requests": frame.height,
        "first_arrival": float(arrival.min()),
        "last_arrival": float(arrival.max()),
        **tokens,
        "rows": found.frame.height,
        "mean_replicas": seconds / lasts if lasts > 0 else 0.0,
        "most_replicas": int(replicas.max()) if replicas.size else 0,
        "gpu_hours": gpus * seconds / 3600.0,
    }


def _wanted(
    frame: pl.DataFrame,
    *,
    gpus_per_replica: int,
    tokens_per_gpu: float,
    target: float,
    window: float | str,
    service: str,
) -> Services:
    gpus = integer("gpus-per-replica", gpus_per_replica, 1, _MOST_GPUS)
    speed = number(
        "tokens-per-gpu", tokens_per_gpu, "a number of tokens a second > 0 and <= 1e12", least=0.0, most=1e12,
        above=True,
    )  # fmt: skip
    share = number("target", target, "a utilisation > 0 and <= 1", least=0.0, most=1.0, above=True)
    length = number(
        "window",
        seconds_of("window", window),
        "a length of time > 0 and <= 1e12 s",
        least=0.0,
        most=_LONGEST,
        above=True,
    )
    if not (isinstance(service, str) and service and service.isprintable()):
        raise refusal("service", service, "a name: a text of one line, of characters that can be shown")
    number_of = np.floor(frame["arrival"].to_numpy() / length)
    if number_of.size and number_of.max() >= _MOST_WINDOWS:
        raise refusal("window", window, "windows of which the trace has fewer than 2^53")
    tokens = (frame["input_tokens"].cast(pl.UInt64) + frame["output_tokens"].cast(pl.UInt64)).to_numpy()
    windows, at = np.unique(number_of, return_inverse=True)
    sums = np.bincount(at, tokens, windows.size)
    wanted = np.ceil(sums / (length * gpus * speed * share) * (1.0 - _ROUNDING))
    if wanted.size and not wanted.max() <= _MOST_GPUS:
        raise refusal("tokens-per-gpu", tokens_per_gpu, f"so many that at most {_MOST_GPUS:,} replicas do")
    # After a window nothing is wanted, unless the next one has requests too.
    ends = windows + 1.0
    gaps = np.append(windows[1:] != ends[:-1], True)[: ends.size]
    starts = np.concatenate([windows, ends[gaps]])
    replicas = np.concatenate([wanted, np.zeros(int(gaps.sum()))])
    order = np.argsort(starts, kind="stable")
    starts, replicas = starts[order], replicas[order]
    changes = replicas != np.append(0.0, replicas[:-1])
    made = pl.DataFrame(
        {
            "service": pl.repeat(service, int(changes.sum()), dtype=pl.String, eager=True),
            "time": starts[changes] * length,
            "replicas": replicas[changes].astype(np.uint32),
            "gpus_per_replica": pl.repeat(gpus, int(changes.sum()), dtype=pl.UInt32, eager=True),
        }
    )
    return Services.read(made)
