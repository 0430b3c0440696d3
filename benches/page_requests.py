"""Tables of docs/serving.md: what replicas cost training, and what prompts taken in parts change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from page_tables import DAY, TableInputs, head, line
from ringbco.run.replay import replay
from ringbco.trace.jobs import JobTable, from_frame
from ringbco.trace.synthetic import generate
from ringbco.trace.synthetic_requests import generate_requests
from ringbco.units import duration

CLUSTER: Final = "16x8"
WEEK: Final = 7 * DAY
JOBS, LOAD, LONGEST = 5_500, 1.8, DAY
"""What `generate` is asked for: the jobs of at most a day, spread over a week, fill 0.6 of 128 GPUs."""
RATE: Final = 5.0
"""Requests a second of each service, on average over the week."""
SEEDS: Final = (1, 2, 3)
KEYS: Final[Mapping[str, Any]] = {
    "kind": "tokens",
    "gpus": 2,
    "startup": 90,
    "step": 0.03,
    "prefill": 1.2e-4,
    "decode": 2.5e-4,
    "context": 1e-8,
    "max_running": 64,
    "kv_tokens": 60_000,
    "max_step_tokens": 2_048,
    "slo": {"first_token": 1.0, "per_token": 0.06},
}
"""A replica of either service."""
SERVICES: Final = {"chat": "azure-conv", "code": "azure-code"}
SCALES: Final[Mapping[str, Mapping[str, Any]]] = {
    **{f"{count} replicas": {"scale": "fixed", "replicas": count} for count in (4, 8, 12)},
    **{
        f"{target} requests a replica": {"scale": "target", "min": 1, "max": 16, "target": target}
        for target in (4, 8, 16)
    },
}


def week_of_jobs(seed: int) -> JobTable:
    """Training."""
    table = generate("philly", JOBS, seed, gpus=128, load=LOAD)
    frame = table.frame.filter(pl.col("duration") <= LONGEST)
    at = pl.col("submit_time")
    return from_frame(frame.with_columns(at * (WEEK / at.max())), table.source, table.metadata)


def week_of_requests(seed: int, rate: float) -> pl.DataFrame:
    """Both services, by the day."""
    made = (
        generate_requests(
            round(rate * WEEK), 10 * seed + at, lengths=lengths, rate=rate, by_day=True, service=name
        )
        for at, (name, lengths) in enumerate(SERVICES.items())
    )
    return pl.concat([requests.frame for requests in made])


def week(given: TableInputs) -> Iterator[str]:
    """A line a scale: attainment, GPU-hours and completion times, the least and the greatest of the seeds."""
    names = [f"{name}, {what}" for name in SERVICES for what in ("objectives met", "p99 first token")]
    yield from head("each service", *names, "GPU-hours of services", "mean completion time", words=1)
    seeds = SEEDS[: given.draws(len(SEEDS))]
    rate = 0.05 if given.least else RATE
    tables = [(week_of_jobs(seed), week_of_requests(seed, rate)) for seed in seeds]
    yield line("no services", *[""] * 5, ends([alone(jobs) for jobs, _ in tables], duration))
    for called, scale in SCALES.items():
        found = [met(jobs, requests, scale) for jobs, requests in tables]
        cells = zip(*found, strict=True)
        forms = [percent, duration] * len(SERVICES) + [hours, duration]
        yield line(called, *(ends(cell, form) for cell, form in zip(cells, forms, strict=True)))


def alone(jobs: JobTable) -> float:
    """Mean completion time of the jobs, s, where all GPUs are theirs."""
    return float(replay(jobs, CLUSTER, policy="srtf").summary["mean_jct"])


def met(jobs: JobTable, requests: pl.DataFrame, scale: Mapping[str, Any]) -> list[float]:
    """The cells of a run."""
    services = {name: {**KEYS, **scale} for name in SERVICES}
    told = replay(jobs, CLUSTER, policy="srtf", requests=requests, services=services).summary
    own = [one[key] for one in told["services"] for key in ("slo_attainment", "p99_first_token")]
    return [*own, sum(one["gpu_hours"] for one in told["services"]), told["mean_jct"]]


def ends(values: Any, form: Any) -> str:
    """The least and the greatest; one where they are told alike."""
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


def percent(share: float) -> str:
    """A share with one digit."""
    return f"{100 * share:.1f} %"


def hours(value: float) -> str:
    """GPU-hours."""
    return f"{value:,.0f}"


AZURE: Final = {"chat": "AzureLLMInferenceTrace_conv.csv", "code": "AzureLLMInferenceTrace_code.csv"}
PARTS: Final = (None, 4_096, 2_048, 1_024, 512)
REPLICAS: Final = {"chat": 4, "code": 8}


def prompts(given: TableInputs) -> Iterator[str]:
    """A line a trace and limit: first token and time per token of Azure's requests as they came."""
    names = [f"{label} {what}" for what in ("first token", "per token") for label in ("median", "p99")]
    yield from head("trace", "max_step_tokens", *names, "objectives met", words=2)
    job = generate("philly", 1, 1, gpus=128)
    for name, file in AZURE.items():
        for limit in given.some(PARTS):
            service = {**KEYS, "startup": 0, "scale": "fixed", "replicas": REPLICAS[name]}
            service |= {"max_step_tokens": limit}
            services = {name: {key: value for key, value in service.items() if value is not None}}
            told = replay(
                job, CLUSTER, policy="fifo", requests=given.traces / "azure-llm" / file, services=services
            ).summary["services"][0]
            shown = [
                told[f"{label}_{what}"] for what in ("first_token", "per_token") for label in ("p50", "p99")
            ]
            yield line(name, limit or "none", *map(seconds, shown), percent(told["slo_attainment"]))


def seconds(value: float) -> str:
    """Milliseconds below a second."""
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.2f} s"
