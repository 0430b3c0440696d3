"""Services that answer requests: a serving file in the place of a table of services (docs/serving.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from ringbco.errors import InputError
from ringbco.trace.requests import Requests
from ringbco.trace.services import COLUMNS, Services
from ringbco.trace.serving import (
    BatchKind,
    FileScale,
    FixedScale,
    ServiceKeys,
    ServingFile,
    TargetScale,
    TokenKind,
)
from ringbco.trace.side_table import ReadContext

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco._core import _Requests
    from ringbco.cluster.spec import Cluster

_SCHEMA = {name: column.dtype() for name, column in COLUMNS.items()}


@dataclass(frozen=True, eq=False)
class AnsweringServices(Services):
    """The services of a serving file.

    frame: as of a table of services, what they want where no autoscaler says it. serving: the file.
    """

    serving: ServingFile = field(default_factory=lambda: ServingFile((), ""))

    @classmethod
    def read(cls, given: object, known: ReadContext | None = None, source: str | None = None) -> Self:
        """The services of a TOML file or of such a document; of `AnsweringServices` these themselves.

        Raises InputError naming file, key, value and what was expected.
        """
        known = known or ReadContext()
        if isinstance(given, cls):
            serving = given.serving
        elif isinstance(given, str | os.PathLike | Mapping):
            serving = ServingFile.read(given, known.epoch)
        else:
            raise InputError(
                "services: expected a serving file, TOML with one table per service, since there are requests"
            )
        if known.cluster is not None:
            serving.check_on(known.cluster)
        return cls(pl.concat(map(_loads, serving.services)), serving.source, serving.sha256, serving)

    @property
    def names(self) -> list[str]:
        """The services, in the order of their tables."""
        return self.serving.names

    @property
    def gpus_per_replica(self) -> NDArray[np.uint32]:
        """GPUs of a replica, one value per service."""
        return np.array([service.gpus for service in self.serving.services], np.uint32)

    @property
    def peak_gpus(self) -> int:
        """GPUs that all of them would hold, each with the most replicas that it may want."""
        return sum(service.gpus * most_replicas(service) for service in self.serving.services)

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """None: a result has what services wanted as the run went on."""
        return {}

    @property
    def identity(self) -> dict[str, object]:
        """What run.toml says of them: all that a repeat needs."""
        told = {"path": super().identity["path"], "sha256": self.sha256, "services": len(self.names)}
        return told | {"tables": self.serving.document}

    def times(self, first: float) -> tuple[pl.Series, pl.Series] | None:
        """None: fixed numbers and autoscalers want replicas whenever the jobs run."""
        return None


def request_columns(requests: Requests, services: AnsweringServices, cluster: Cluster) -> _Requests:
    """What the engine is given of requests and of the services that answer them."""
    service, arrival, *tokens = requests.columns(services.serving)
    input_tokens, output_tokens, cached_tokens = tokens
    return {
        "services": [_row(keys) for keys in services.serving.services],
        "speeds": _speeds(cluster),
        "service": service,
        "arrival": arrival,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cached_tokens": cached_tokens,
    }


def _speeds(cluster: Cluster) -> NDArray[np.float64]:
    """The speed of each server's GPU type, divided by that of the cluster's first type."""
    if cluster.server_types is None:
        return np.ones(cluster.num_servers)
    speeds = np.array([fact.speed for fact in cluster.type_facts], np.float64)
    relative: NDArray[np.float64] = (speeds / speeds[0])[cluster.server_types]
    return relative


def _row(keys: ServiceKeys) -> tuple[Any, ...]:
    kind, scale = keys.kind, keys.scale
    batch = ([*kind.seconds], kind.max_wait) if isinstance(kind, BatchKind) else None
    tokens = target = None
    if isinstance(kind, TokenKind):
        limits = (kind.max_running, kind.kv_tokens, kind.max_step_tokens)
        tokens = (kind.step, kind.prefill, kind.decode, kind.context, *limits)
    if isinstance(scale, TargetScale):
        target = (scale.target, scale.min, scale.max, scale.every, scale.tolerance, scale.down_after)
    return keys.startup, keys.drain, batch, tokens, target


def _loads(keys: ServiceKeys) -> pl.DataFrame:
    """What a service wants where no autoscaler says it, as a table of services has it."""
    scale, frame = keys.scale, pl.DataFrame(schema=_SCHEMA)
    if isinstance(scale, FixedScale):
        frame = pl.DataFrame({"time": [0.0], "replicas": [scale.replicas]})
    elif isinstance(scale, FileScale):
        frame = scale.table
    return frame.select(
        pl.lit(keys.name).alias("service"), "time", "replicas", pl.lit(keys.gpus).alias("gpus_per_replica")
    ).cast(pl.Schema(_SCHEMA))


def most_replicas(keys: ServiceKeys) -> int:
    """The most that a service may want."""
    scale = keys.scale
    if isinstance(scale, TargetScale):
        return scale.max
    return scale.replicas if isinstance(scale, FixedScale) else int(scale.table["replicas"].max() or 0)  # type: ignore[arg-type]
