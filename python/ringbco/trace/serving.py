"""The serving file: how fast the replicas of each service answer, and how many there are (docs/serving.md).

Every error names the file and the key.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import polars as pl

from ringbco.cluster.keys import did_you_mean
from ringbco.cluster.spec import Cluster
from ringbco.errors import ABSENT, InputError, show_toml, show_value
from ringbco.io.digests import sha256_of
from ringbco.io.toml import read_toml
from ringbco.trace.services import COLUMNS, Services
from ringbco.trace.side_table import read_side_table

SHORTEST_STEP: Final = 1e-6
"""Seconds. No step and no batch may take less on any GPU type of the cluster."""
MOST: Final = 2**32 - 1
_LONGEST: Final = 2**32
_MOST_TOKENS: Final = 2**53
_PAGE: Final = "see docs/serving.md"


@dataclass(frozen=True)
class BatchKind:
    """Replicas that take requests in batches, all of which finish together.

    seconds: of a batch, by its size, in order of sizes; the last size is the largest batch. max_wait: how
    long the oldest request waits for others, s.
    """

    seconds: tuple[tuple[int, float], ...]
    max_wait: float = 0.0

    @property
    def largest(self) -> int:
        """Requests of the largest batch."""
        return self.seconds[-1][0]


@dataclass(frozen=True)
class TokenKind:
    """Replicas that work in steps, each of which gives every running request one token.

    A step takes step + prefill per input token taken + decode per running request + context per token held,
    s. max_running: requests. kv_tokens: input and output tokens of all running requests. max_step_tokens: of
    one step, None without a limit.
    """

    step: float
    prefill: float
    decode: float
    max_running: int
    kv_tokens: int
    context: float = 0.0
    max_step_tokens: int | None = None


@dataclass(frozen=True)
class FixedScale:
    """As many replicas at all times."""

    replicas: int


@dataclass(frozen=True, eq=False)
class FileScale:
    """As many replicas as a table says.

    counts: the file. table: its rows of the service, with the columns service, time (s), replicas.
    """

    counts: str
    table: pl.DataFrame


@dataclass(frozen=True)
class TargetScale:
    """As many replicas as keep about `target` requests at each, as a horizontal pod autoscaler does.

    min, max: replicas. target: requests not answered per replica. every: s between two decisions. tolerance:
    share by which the load may differ from the target without a change. down_after: s for which a lower
    number must have been enough.
    """

    min: int
    max: int
    target: float
    every: float = 30.0
    tolerance: float = 0.1
    down_after: float = 300.0


@dataclass(frozen=True)
class Objectives:
    """Service level objectives, s, met at or below; None for none. The last two of token services alone."""

    latency: float | None = None
    first_token: float | None = None
    per_token: float | None = None

    def given(self) -> dict[str, float]:
        """Those that there are, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


Kind: TypeAlias = BatchKind | TokenKind
Scale: TypeAlias = FixedScale | FileScale | TargetScale


@dataclass(frozen=True, eq=False)
class ServiceKeys:
    """One service. gpus: per replica. startup, drain: s. slo: None without objectives."""

    name: str
    gpus: int
    kind: Kind
    scale: Scale
    startup: float = 0.0
    drain: float = 60.0
    slo: Objectives | None = None


class _Number(NamedTuple):
    """What a key may hold: a number from `low` (or above it) to `high`; default: None where it is needed."""

    rule: str
    low: float
    above: bool = False
    whole: bool = False
    high: float = _LONGEST
    default: float | None = None
    needed: bool = True


def _seconds(default: float | None = None) -> _Number:
    return _Number("a finite number of seconds >= 0", 0.0, default=default, needed=default is None)


def _count(what: str = "an integer >= 1", low: int = 1, high: int = MOST, *, needed: bool = True) -> _Number:
    return _Number(what, low, whole=True, high=high, needed=needed)


_POSITIVE: Final = _Number("a finite number of seconds > 0", 0.0, above=True)
_COMMON: Final = {"gpus": _count(), "startup": _seconds(0.0), "drain": _seconds(60.0)}
_KINDS: Final[Mapping[str, Mapping[str, _Number]]] = {
    "batch": {"max_wait": _seconds(0.0)},
    "tokens": {
        "step": _POSITIVE,
        "prefill": _seconds(),
        "decode": _seconds(),
        "context": _seconds(0.0),
        "max_running": _count(),
        "kv_tokens": _count(high=_MOST_TOKENS),
        "max_step_tokens": _count(needed=False),
    },
}
_SCALES: Final[Mapping[str, Mapping[str, _Number]]] = {
    "fixed": {"replicas": _count()},
    "file": {},
    "target": {
        "min": _count("an integer >= 0", 0),
        "max": _count(),
        "target": _Number("a finite number of requests > 0", 0.0, above=True),
        "every": _POSITIVE._replace(default=30.0, needed=False),
        "tolerance": _Number("a finite number >= 0", 0.0, default=0.1, needed=False),
        "down_after": _seconds(300.0),
    },
}
_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {"batch": ("seconds",), "file": ("counts",)}
"""Keys that hold no number, by the kind or scale that has them."""
_OBJECTIVES: Final = {"batch": ("latency",), "tokens": ("latency", "first_token", "per_token")}
_COUNTS: Final = Services.form._replace(
    columns={**COLUMNS, "gpus_per_replica": COLUMNS["gpus_per_replica"]._replace(required=False)},
    needed=("service", "time", "replicas"),
)


@dataclass(frozen=True, eq=False)
class ServingFile:
    """The services of a serving file, in the order of their tables.

    source: the file. sha256: of its bytes; None for a document that is no file. document: what it says, with
    pairs [time, replicas], s, in place of names of tables.
    """

    services: tuple[ServiceKeys, ...]
    source: str
    sha256: str | None = None
    document: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(
        cls, given: str | os.PathLike[str] | Mapping[str, Any], epoch: datetime | None = None
    ) -> ServingFile:
        """The services of a TOML file, or of such a document.

        epoch: what 0 is on the clock of the job table, for dates in a table of counts. Raises InputError
        naming file, key, value and what was expected.
        """
        if isinstance(given, Mapping):
            services = _services(given, "<services>", Path(), epoch)
            return cls(services, "<services>", None, _whole(given, services))
        source = os.fspath(given)
        document = read_toml(given, hint="with requests, services are a TOML file, one table per service")
        services = _services(document, source, Path(source).parent, epoch)
        return cls(services, source, sha256_of(given), _whole(document, services))

    @property
    def names(self) -> list[str]:
        """The services, in order."""
        return [service.name for service in self.services]

    def check_on(self, cluster: Cluster) -> None:
        """Raises InputError where a replica fits on no server, or a GPU type is too fast for a step."""
        largest = int(cluster.server_gpus.max())
        speeds = [fact.speed for fact in cluster.type_facts] or [1.0]
        fastest = max(range(len(speeds)), key=lambda at: speeds[at] / speeds[0])
        q = speeds[fastest] / speeds[0]
        for service in self.services:
            if service.gpus > largest:
                raise InputError(
                    f"an integer >= 1 and <= {largest}",
                    file=self.source,
                    key=f"{service.name}.gpus",
                    value=service.gpus,
                    hint=f"a replica runs on one server; the largest has {largest} GPUs",
                )
            kind = service.kind
            key, least = (
                ("step", kind.step) if isinstance(kind, TokenKind) else ("seconds", kind.seconds[0][1])
            )
            if least / q < SHORTEST_STEP:
                on = f" on {cluster.types[fastest]}, which is {q:.3g} times as fast" if q != 1.0 else ""
                raise InputError(
                    f"at least {SHORTEST_STEP:g} s{on}",
                    file=self.source,
                    key=f"{service.name}.{key}",
                    value=least,
                    hint="count seconds",
                )


def _whole(document: Mapping[str, Any], services: Sequence[ServiceKeys]) -> dict[str, dict[str, Any]]:
    """A document that names no other file."""
    whole = {name: dict(table) for name, table in document.items()}
    for service in services:
        if isinstance(service.scale, FileScale):
            rows = service.scale.table.select("time", "replicas").rows()
            whole[service.name]["counts"] = [[*row] for row in rows]
    return whole


class _Reader(NamedTuple):
    """One table of a document."""

    table: Mapping[str, Any]
    file: str
    name: str

    def error(self, key: str, expected: str, value: object = ABSENT, hint: str | None = _PAGE) -> InputError:
        """The error for a key."""
        where = f"{self.name}.{key}" if key else self.name
        return InputError(expected, file=self.file, key=where, value=value, hint=hint)

    def number(self, key: str, form: _Number, why: str = "") -> float | int | None:
        """The number of a key; its default where the key is left out. why: what needs it."""
        if key not in self.table:
            if form.needed:
                raise self.error(key, form.rule, hint=f"{why} needs it" if why else _PAGE)
            return form.default
        value = self.table[key]
        good = isinstance(value, int) and not isinstance(value, bool)
        if not form.whole and isinstance(value, float):
            good = math.isfinite(value)
        if not good or value < form.low or (form.above and value == form.low):
            raise self.error(key, form.rule, show_toml(value))
        if value > form.high:
            raise self.error(key, f"{form.rule} and <= {form.high:.0f}", value)
        return value if form.whole else float(value)

    def numbers(self, forms: Mapping[str, _Number], why: str) -> dict[str, Any]:
        """The numbers of several keys."""
        return {key: self.number(key, form, why) for key, form in forms.items()}

    def choice(self, key: str, names: Sequence[str]) -> str:
        """One of the names."""
        value = self.table.get(key, ABSENT)
        if value in names:
            return str(value)
        shown = " or ".join(f'"{name}"' for name in names)
        hint = did_you_mean(value, names) if isinstance(value, str) else None
        raise self.error(key, shown, value if value is ABSENT else show_toml(value), hint or _PAGE)


def _services(
    document: Mapping[str, Any], file: str, folder: Path, epoch: datetime | None
) -> tuple[ServiceKeys, ...]:
    if not document:
        raise InputError(
            "names no service", file=file, hint='begin with the table of one: [chat], kind = "tokens"'
        )
    for name, table in document.items():
        if not (name and name.isprintable()):
            raise InputError("a table named as a service: a text of one line", file=file, key=repr(name))
        if not isinstance(table, Mapping):
            hint = "write the keys of a service below its name in brackets, such as [chat]"
            raise InputError("a table", file=file, key=name, value=show_toml(table), hint=hint)
    return tuple(_service(_Reader(table, file, name), folder, epoch) for name, table in document.items())


def _service(reader: _Reader, folder: Path, epoch: datetime | None) -> ServiceKeys:
    kind, scale = reader.choice("kind", tuple(_KINDS)), reader.choice("scale", tuple(_SCALES))
    _only_known(reader, kind, scale)
    common: dict[str, Any] = reader.numbers(_COMMON, "every service")
    numbers = reader.numbers(_KINDS[kind], f'kind = "{kind}"')
    made = TokenKind(**numbers) if kind == "tokens" else BatchKind(_batches(reader), **numbers)
    slo = _objectives(reader, kind)
    return ServiceKeys(
        reader.name, kind=made, scale=_scale(reader, scale, common["gpus"], folder, epoch), slo=slo, **common
    )


def _only_known(reader: _Reader, kind: str, scale: str) -> None:
    """Refuses a key that the service does not have: with the one that was meant, or where it belongs."""
    own = ["kind", *_COMMON, "scale", "slo"]
    for option, forms, chosen in (("kind", _KINDS, kind), ("scale", _SCALES, scale)):
        own += [*_TEXTS.get(chosen, ()), *forms[chosen]]
        for other in forms:
            for key in (*forms[other], *_TEXTS.get(other, ())):
                if other != chosen and key in reader.table:
                    told = f'no such key where {option} = "{chosen}"'
                    hint = f'it belongs to {option} = "{other}"'
                    raise reader.error(key, told, show_toml(reader.table[key]), hint)
    for key in reader.table:
        if key not in own:
            raise reader.error(key, f"only the keys {', '.join(own)}", hint=did_you_mean(key, own))


def _batches(reader: _Reader) -> tuple[tuple[int, float], ...]:
    """The seconds of batches by size."""
    rule = "a list of pairs [batch size, seconds], such as [[1, 0.010], [8, 0.030]]"
    if "seconds" not in reader.table:
        raise reader.error("seconds", rule, hint='kind = "batch" needs it')
    value = reader.table["seconds"]
    if not isinstance(value, list) or not value:
        raise reader.error("seconds", rule, show_toml(value))
    made: list[tuple[int, float]] = []
    for at, pair in enumerate(value):
        key = f"seconds[{at}]"
        if not isinstance(pair, list) or [*map(type, pair)] not in ([int, int], [int, float]):
            raise reader.error(key, "a pair [batch size, seconds], such as [8, 0.030]", pair)
        size, seconds = pair
        if not 1 <= size <= MOST:
            raise reader.error(key, "a batch size >= 1" if size < 1 else f"a batch size <= {MOST}", pair)
        if not 0 < seconds <= _LONGEST:
            raise reader.error(key, f"{_POSITIVE.rule} and <= {_LONGEST}", pair)
        if made and size <= made[-1][0]:
            raise reader.error(key, f"a batch size above {made[-1][0]}, that of the pair before", pair)
        if made and seconds < made[-1][1]:
            told = f"seconds that do not fall below {show_value(made[-1][1])}, those of the pair before"
            raise reader.error(key, told, pair, "a larger batch takes at least as long")
        made.append((size, float(seconds)))
    return tuple(made)


def _objectives(reader: _Reader, kind: str) -> Objectives | None:
    if "slo" not in reader.table:
        return None
    table, known = reader.table["slo"], _OBJECTIVES[kind]
    if not isinstance(table, Mapping) or not table:
        raise reader.error("slo", "a table of objectives such as {latency = 0.2}", show_toml(table))
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known)
            if key in _OBJECTIVES["tokens"]:
                hint = 'a service with kind = "batch" has no tokens'
            raise reader.error(f"slo.{key}", f"only the keys {', '.join(known)}", hint=hint)
    inner = _Reader(table, reader.file, f"{reader.name}.slo")
    form = _seconds()._replace(needed=False)
    return Objectives(**{key: inner.number(key, form) for key in known})


def _scale(reader: _Reader, scale: str, gpus: int, folder: Path, epoch: datetime | None) -> Scale:
    numbers: dict[str, Any] = reader.numbers(_SCALES[scale], f'scale = "{scale}"')
    if scale == "fixed":
        return FixedScale(**numbers)
    if scale == "target":
        if numbers["min"] > numbers["max"]:
            told = f"an integer <= max, which is {numbers['max']}"
            raise reader.error("min", told, numbers["min"])
        return TargetScale(**numbers)
    counts = reader.table.get("counts", ABSENT)
    if isinstance(counts, list):
        return FileScale(reader.file, _pairs(reader, counts))
    if not isinstance(counts, str) or not counts:
        told = "the name of a Parquet or CSV file beside this one, with service, time and replicas"
        missing = counts is ABSENT
        hint = 'scale = "file" needs it' if missing else _PAGE
        raise reader.error("counts", told, counts if missing else show_toml(counts), hint)
    path = os.fspath(folder / counts)
    return FileScale(path, _counts(reader, path, gpus, epoch))


def _pairs(reader: _Reader, counts: list[Any]) -> pl.DataFrame:
    """A table of counts that stands in the document, as pairs [time, replicas]."""
    rule = "pairs [time, replicas] of rising times, such as [[0, 2], [3600, 5]]"
    before = -1.0
    for at, pair in enumerate(counts):
        good = isinstance(pair, list) and [*map(type, pair)] in ([int, int], [float, int])
        if not (good and before < pair[0] <= _LONGEST and pair[0] >= 0 and 0 <= pair[1] <= MOST):
            raise reader.error(f"counts[{at}]", rule, pair)
        before = pair[0]
    if not counts:
        raise reader.error("counts", rule, counts)
    schema = {"service": pl.String(), "time": pl.Float64(), "replicas": pl.UInt32()}
    return pl.DataFrame([(reader.name, float(time), n) for time, n in counts], schema, orient="row")


def _counts(reader: _Reader, path: str, gpus: int, epoch: datetime | None) -> pl.DataFrame:
    """The rows of a service in a table of counts."""
    frame, _, _ = read_side_table(path, _COUNTS, epoch=epoch)
    name = reader.name
    own = frame.with_row_index("row").filter(service=name)
    if own.is_empty():
        names = frame["service"].unique(maintain_order=True).to_list()
        hint = did_you_mean(name, names) or f"it has rows of {', '.join(names) or 'no service'}"
        raise reader.error(
            "counts", f"a table with rows of service {show_value(name)}", reader.table["counts"], hint
        )
    other = own.filter(pl.col("gpus_per_replica") != gpus)
    if not other.is_empty():
        row, value = other.select("row", "gpus_per_replica").row(0)
        told = f"{gpus}, as {name}.gpus in {reader.file}"
        raise InputError(
            told, file=path, row=row + 1, column="gpus_per_replica", value=value, hint="drop the column"
        )
    return Services.settled(own.select("service", "time", "replicas"))
