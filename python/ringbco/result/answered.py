"""What became of requests to services: requests.parquet, latency.parquet, figures (docs/serving.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.result.latency import (
    MEASURES,
    PERCENTS,
    Answers,
    Floats,
    replica_figures,
    request_figures,
    sampled,
)
from ringbco.result.schema import LATENCY_SCHEMA, REQUESTS_SCHEMA
from ringbco.trace.serving import ServiceKeys, TokenKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco._core import RunResult
    from ringbco.cluster.spec import Cluster
    from ringbco.trace.answering import AnsweringServices
    from ringbco.trace.requests import Requests

_HOUR: Final = 3_600.0
_NAMES: Final = {
    "latency": "latency",
    "first_token": "time to first token (TTFT)",
    "per_token": "time per output token (TPOT)",
}
_TITLES: Final = {"mean": "mean", **{key: key.replace("_", ".") for key in PERCENTS}}


def _figures() -> list[tuple[str, str, Any, str, Any]]:
    """What summary.json may have of a service with requests: key, title, unit, what is good, where shown."""
    rows: list[tuple[str, str, Any, str, Any]] = [("requests", "requests", "count", "neither", "comparison")]
    for name in MEASURES:
        for label, title in _TITLES.items():
            shown = "comparison" if label in ("mean", "p50", "p99") else "summary"
            rows.append((f"{label}_{name}", f"{title} {_NAMES[name]}", "time", "least", shown))
    rows.append(("slo_attainment", "SLO attainment", "share", "most", "comparison"))
    rows += [
        (f"{name}_attainment", f"SLO attainment, {_NAMES[name]}", "share", "most", "summary")
        for name in MEASURES
    ]
    return [
        *rows,
        ("output_tokens_per_second", "output tokens a second", "number", "most", "comparison"),
        ("busy_share", "busy share", "share", "neither", "comparison"),
        ("begun_anew", "requests begun anew", "count", "least", "comparison"),
        ("cost_per_1000_requests", "cost of 1,000 requests", "number", "least", "comparison"),
    ]


REQUEST_FIGURES: Final = tuple(_figures())


@dataclass(frozen=True)
class Replicas:
    """Replicas of one service, a value each; times in s, NaN for never."""

    server: NDArray[np.uint32]
    start: Floats
    serves_from: Floats
    drains_from: Floats
    end: Floats
    busy: Floats

    @property
    def taking(self) -> tuple[Floats, Floats]:
        """From when until when each took requests, of those that ever did."""
        served = ~np.isnan(self.serves_from)
        return self.serves_from[served], np.fmin(self.drains_from, self.end)[served]


@dataclass(frozen=True)
class Answered:
    """The requests of a run, and who answered them.

    answers: the engine's columns, one row per request. cut_short: attempts that a replica's end cut short.
    begun_anew: by service. end: of the run, s. times: of samples, s.
    """

    requests: Requests
    services: AnsweringServices
    cluster: Cluster
    answers: Mapping[str, NDArray[Any]]
    cut_short: Mapping[str, NDArray[Any]]
    begun_anew: NDArray[np.uint64]
    end: float
    times: Floats

    @classmethod
    def of(
        cls, requests: Requests, services: AnsweringServices, cluster: Cluster, result: RunResult
    ) -> Answered:
        """Those of a run."""
        tables = result.tables
        told = tables["serving"]
        return cls(
            *(requests, services, cluster, tables["requests"], tables["cut_short"]),
            *(told["begun_anew"], float(told["end"][0]), told["time"]),
        )

    @cached_property
    def _columns(self) -> tuple[NDArray[Any], ...]:
        return self.requests.columns(self.services.serving)

    def rows(self) -> pl.DataFrame:
        """requests.parquet: one row per request, in the order of the file."""
        names = pl.Series(self.services.names, dtype=pl.String)
        columns = {
            "row": self.requests.rows,
            "service": names.gather(self._columns[0]),
            "replica": self.answers["replica"],
            "start": self.answers["start"],
            "first_token": pl.Series(self.answers["first_token"]).fill_nan(None),
            "finish": self.answers["finish"],
        }
        return pl.DataFrame(columns, schema=REQUESTS_SCHEMA)

    def of_service(self, number: int) -> Answers:
        """The answered requests of a service."""
        own = self._rows_of(number)
        tokens = isinstance(self._keys(number).kind, TokenKind)
        return Answers(
            self._columns[1][own],
            self.answers["finish"][own],
            self.answers["first_token"][own] if tokens else None,
            self._columns[3][own] if tokens else None,
        )

    def figures(self, number: int, replicas: Replicas) -> dict[str, Any]:
        """What summary.json says of the requests of a service and of its replicas."""
        keys, answers = self._keys(number), self.of_service(number)
        figures = request_figures(answers, None if keys.slo is None else keys.slo.given())
        cost, busy = self._cost(keys, replicas), float(replicas.busy.sum())
        figures |= replica_figures(
            replicas.start, replicas.serves_from, replicas.end, keys.gpus, busy, cost, answers.finish.size
        )
        return figures | {"begun_anew": int(self.begun_anew[number])}

    def latency(self, replicas: Sequence[Replicas], changes: Mapping[str, NDArray[Any]]) -> pl.DataFrame:
        """latency.parquet: one row per service and sample. changes: service, time (s) and replicas wanted."""
        frames = []
        for number, name in enumerate(self.services.names):
            own, cut = self._rows_of(number), self._columns[0][self.cut_short["row"]] == number
            arrival = self._columns[1][own]
            start, finish = (self.answers[column][own] for column in ("start", "finish"))
            ended = self._before(finish)
            running = self._before(start) - ended
            running += self._before(self.cut_short["start"][cut]) - self._before(self.cut_short["end"][cut])
            first, last = replicas[number].taking
            mine = changes["service"] == number
            wanted = np.append(0, changes["replicas"][mine])[self._before(changes["time"][mine])]
            columns = {
                "service": pl.repeat(name, self.times.size, dtype=pl.String, eager=True),
                "time": self.times,
                **sampled(self.times, arrival, finish),
                "queued": self._before(arrival) - ended - running,
                "running": running,
                "replicas_serving": self._before(first) - self._before(last),
                # At the end of the run nothing is wanted any more.
                "replicas_wanted": np.where(self.times < self.end, wanted, 0),
            }
            frames.append(pl.DataFrame(columns).cast(pl.Schema(LATENCY_SCHEMA)).select(*LATENCY_SCHEMA))
        told = pl.concat(frames)
        return told.with_columns(pl.col(name).fill_nan(None) for name in ("p50_latency", "p99_latency"))

    def _rows_of(self, number: int) -> slice | NDArray[np.bool_]:
        """The requests of a service; of the only one without a copy."""
        return slice(None) if len(self.services.names) == 1 else self._columns[0] == number

    def _keys(self, number: int) -> ServiceKeys:
        return self.services.serving.services[number]

    def _before(self, instants: Floats) -> NDArray[np.int64]:
        """How many of some instants are at each sample or before it."""
        return np.searchsorted(np.sort(instants), self.times, "right")

    def _cost(self, keys: ServiceKeys, replicas: Replicas) -> float | None:
        """Of the GPUs of replicas; None where one of them has no price."""
        types = self.cluster.server_types
        prices = [fact.price_per_hour for fact in self.cluster.type_facts]
        if types is None or all(price is None for price in prices):
            return None
        price = np.array([np.nan if each is None else each for each in prices])[types[replicas.server]]
        cost = float((price * keys.gpus * (replicas.end - replicas.start) / _HOUR).sum())
        return None if np.isnan(cost) else cost
