"""GPU types: how fast they are beside a V100, what they draw and what they cost (docs/heterogeneous.md).

The catalogue stands in where a cluster file says nothing. A cluster file may say otherwise, or declare a type
that the catalogue does not know:

    [gpu_types.B200]
    speed = 9.5
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from ringbco.errors import InputError, show_toml


@dataclass(frozen=True)
class GpuType:
    """What is known of a GPU type.

    speed: of compute, a V100's being 1. memory_gb: in 10^9 bytes. idle_watts, busy_watts: what a GPU draws.
    price_per_hour: of a GPU, in any one currency. models: the speed for jobs of a model, where it differs.
    None: not known.
    """

    name: str
    speed: float = 1.0
    memory_gb: float | None = None
    idle_watts: float | None = None
    busy_watts: float | None = None
    price_per_hour: float | None = None
    models: Mapping[str, float] = field(default_factory=dict)

    def speed_for(self, model: str | None) -> float:
        """The speed for jobs of that model; None for jobs that name none."""
        if model is None:
            return self.speed
        return self.models.get(model, self.speed)


def _known(name: str, *facts: float | None) -> tuple[str, GpuType]:
    return name.casefold(), GpuType(name, *facts)  # type: ignore[arg-type]


_V100: Final = (1.0, 16.0, 40.0, 300.0, 2.48)
_P100: Final = (0.64, 16.0, 30.0, 250.0, 1.46)
_A100: Final = (2.4, 80.0, 50.0, 400.0, 3.93)

# name, speed, memory_gb, idle_watts, busy_watts, price_per_hour; docs/heterogeneous.md has the sources.
CATALOGUE: Final[dict[str, GpuType]] = dict(
    (
        _known("K80", 0.14, 12.0, 25.0, 150.0, 0.45),
        _known("P100", *_P100),
        _known("Pascal", *_P100),
        _known("P4", 0.2, 8.0, 7.0, 75.0, 0.6),
        _known("V100", *_V100),
        _known("Volta", *_V100),
        _known("V100M16", *_V100),
        _known("V100M32", 1.0, 32.0, *_V100[2:]),
        _known("T4", 0.43, 16.0, 10.0, 70.0, 0.35),
        _known("A10", 0.82, 24.0, 15.0, 150.0),
        _known("A100", *_A100),
        _known("A100-SXM-80GB", *_A100),
        _known("A100-SXM4-80GB", *_A100),
        _known("A800", *_A100[:4]),
        _known("H100", 5.4, 80.0, 70.0, 700.0, 11.06),
        _known("H800", 5.4, 80.0, 70.0, 700.0),
        _known("H200", 6.5, 141.0, 75.0, 700.0),
        _known("H20", 1.9, 96.0, 60.0, 400.0),
        _known("L20", 0.91, 48.0, 35.0, 275.0),
        _known("L40S", 1.7, 48.0, 35.0, 350.0),
        _known("MI250X", 3.3, 128.0, 88.0, 560.0),
        # Models that their clusters do not disclose.
        _known("G1"),
        _known("G2"),
        _known("G3"),
        _known("MISC"),
    )
)
"""By name in lower case."""


def listed_types(text: str | None) -> tuple[str, ...]:
    """The types that a cell of gpu_type lists, separated by |; () where it allows any."""
    return tuple(name.strip() for name in (text or "").split("|") if name.strip())


def unknown_types(names: Iterable[str | None]) -> dict[str, GpuType]:
    """Those of the names that the catalogue does not know, declared with a V100's speed."""
    unknown = (name for name in names if name is not None and name.casefold() not in CATALOGUE)
    return {name.casefold(): GpuType(name) for name in unknown}


_LIMITS: Final = {
    "speed": "a finite number > 0",
    "memory_gb": "a finite number of GB > 0",
    "idle_watts": "a finite number of watts >= 0",
    "busy_watts": "a finite number of watts >= 0",
    "price_per_hour": "a finite price >= 0",
}


def read_types(tables: Mapping[str, Any], file: str) -> dict[str, GpuType]:
    """The types of [gpu_types.NAME], by name in lower case; what one leaves out is the catalogue's.

    Raises InputError naming the key at fault.
    """
    types: dict[str, GpuType] = {}
    for name, table in tables.items():
        where = f"gpu_types.{name}"
        if not isinstance(table, dict):
            raise InputError("a table", file=file, key=where, value=table, hint="see docs/heterogeneous.md")
        if name.casefold() in types:
            raise InputError("each GPU type once (names compare without case)", file=file, key=where)
        known = CATALOGUE.get(name.casefold(), GpuType(name))
        facts = {item.name: getattr(known, item.name) for item in fields(GpuType)} | {"name": name}
        for key, value in table.items():
            if key == "models" and isinstance(value, dict):
                for model, speed in value.items():
                    _number("speed", speed, file, f"{where}.models.{model}")
                facts["models"] = {model: float(speed) for model, speed in value.items()}
            elif key in _LIMITS:
                facts[key] = _number(key, value, file, f"{where}.{key}")
            else:
                raise InputError(
                    f"only the keys {', '.join((*_LIMITS, 'models'))}; models is a table of MODEL = speed",
                    file=file,
                    key=f"{where}.{key}",
                )
        types[name.casefold()] = GpuType(**facts)
    return types


def _number(key: str, value: object, file: str, where: str) -> float:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if good and (value > 0 if key in ("speed", "memory_gb") else value >= 0):  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise InputError(_LIMITS[key], file=file, key=where, value=show_toml(value))
