"""GPU types: how fast they are beside a V100, what they draw and what they cost (docs/heterogeneous.md).

The catalogue stands in where a cluster file says nothing. A cluster file may say otherwise, or declare a type
that the catalogue does not know:

    [gpu_types.B200]
    speed = 9.5
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from ringbco.errors import InputError, nearest, show_toml


@dataclass(frozen=True)
class GpuType:
    """What is known of a GPU type.

    speed: of compute, a V100's being 1. memory_gb: in 10^9 bytes. idle_watts, busy_watts: what a GPU draws.
    price_per_hour: of a GPU, in any one currency. models: the speed for jobs of a model, where it differs.
    None: not known. declared: the keys that a cluster file gives, the rest being the catalogue's; None: all.
    """

    name: str
    speed: float = 1.0
    memory_gb: float | None = None
    idle_watts: float | None = None
    busy_watts: float | None = None
    price_per_hour: float | None = None
    models: Mapping[str, float] = field(default_factory=dict)
    declared: frozenset[str] | None = field(default=None, compare=False, repr=False)

    def speed_for(self, model: str | None) -> float:
        """The speed for jobs of that model; None for jobs that name none."""
        if model is None:
            return self.speed
        return self.models.get(model, self.speed)


# Name, speed, GB, idle watts, busy watts, US dollars per hour; docs/gpu-types.md has the sources.
_V100: Final = GpuType("V100", 1.0, 16.0, 45.0, 300.0, 3.06)
_P100: Final = GpuType("P100", 0.62, 16.0, 26.0, 250.0, 1.46)
_A100_40: Final = GpuType("A100-SXM4-40GB", 2.1, 40.0, 44.0, 400.0, 4.10)
_A100_80: Final = GpuType("A100-SXM4-80GB", 2.43, 80.0, 47.0, 400.0, 5.12)
_H100: Final = GpuType("H100-SXM5", 4.24, 80.0, 70.0, 700.0, 12.29)
_KNOWN: Final = (
    GpuType("K80", 0.2, 12.0, 26.0, 150.0, 0.90),
    *(replace(_P100, name=name) for name in ("P100", "Pascal")),
    *(replace(_V100, name=name) for name in ("V100", "V100M16", "Volta")),
    replace(_V100, name="V100M32", memory_gb=32.0),
    GpuType("T4", 0.36, 16.0, 9.0, 70.0, 0.526),
    GpuType("A10", 0.8, 24.0, 20.0, 150.0, 1.006),
    GpuType("A30", 1.1, 24.0, 32.0, 165.0),
    *(replace(_A100_40, name=name) for name in ("A100", "A100-SXM4-40GB")),
    *(replace(_A100_80, name=name) for name in ("A100-SXM4-80GB", "A100-SXM-80GB")),
    GpuType("A100-PCIE-40GB", 2.02, 40.0, 34.0, 250.0),
    GpuType("A100-PCIE-80GB", 2.3, 80.0, 45.0, 300.0),
    *(replace(_H100, name=name) for name in ("H100", "H100-SXM5")),
    GpuType("H100-PCIE", 3.04, 80.0, None, 350.0),
    GpuType("H200", 4.7, 141.0, 70.0, 700.0),
    GpuType("MI250X", 1.7, 128.0, None, 560.0),
    # Names of public traces whose models are not disclosed: their speed of 1 says nothing.
    *(GpuType(name) for name in ("G2", "G3", "MISC", "GPU-series-1", "GPU-series-2")),
)
CATALOGUE: Final[dict[str, GpuType]] = {known.name.casefold(): known for known in _KNOWN}
"""Known types, by name in lower case."""


def listed_types(text: str | None) -> tuple[str, ...]:
    """The types that a cell of gpu_type lists, separated by |; () where it allows any."""
    return tuple(name.strip() for name in (text or "").split("|") if name.strip())


def unknown_types(names: Iterable[str | None]) -> dict[str, GpuType]:
    """Those of the names that the catalogue does not know, declared with a V100's speed."""
    unknown = (name for name in names if name is not None and name.casefold() not in CATALOGUE)
    return {name.casefold(): GpuType(name) for name in unknown}


def unknown_type(name: str, declared: Iterable[str], key: str, file: str | None = None) -> InputError:
    """What to say of a GPU type that neither the cluster file nor the catalogue knows."""
    known = [*declared, *CATALOGUE]
    near = nearest(name.casefold(), known)
    meant = f"did you mean {CATALOGUE[near].name}? else " if near in CATALOGUE else ""
    return InputError(
        "a GPU type that the cluster file declares or the catalogue knows",
        file=file,
        key=key,
        value=name,
        hint=f"{meant}declare it: [gpu_types.{show_toml(name)}] and speed = 1.0 (V100 = 1)",
    )


_GREATEST: Final = sys.float_info.max
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
        facts["declared"] = frozenset(table)
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
    # An integer of TOML may be greater than any float.
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _GREATEST
    if good and (value > 0 if key in ("speed", "memory_gb") else value >= 0):  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise InputError(_LIMITS[key], file=file, key=where, value=show_toml(value))
