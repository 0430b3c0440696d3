"""GPU types: what is known of each, by name, and what a cluster file says of them (docs/heterogeneous.md)."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ringbco.errors import InputError, show_toml
from ringbco.io.toml import toml_key


@dataclass(frozen=True)
class GpuType:
    """What is known of a GPU type.

    speed: computing speed of one GPU, a V100's being 1. models: the same for single models, where it differs.
    memory_gb: GB as data sheets count them. idle_watts, busy_watts: power of one GPU without and under full
    load. price_per_hour: US dollars for one GPU. None: not known.
    """

    name: str
    speed: float = 1.0
    memory_gb: float | None = None
    idle_watts: float | None = None
    busy_watts: float | None = None
    price_per_hour: float | None = None
    models: Mapping[str, float] = field(default_factory=dict, hash=False)

    def speed_of(self, model: str | None) -> float:
        """The speed for a model by name, in any case of letters; the general one where none is given."""
        if model is None or not self.models:
            return self.speed
        return {name.lower(): speed for name, speed in self.models.items()}.get(model.lower(), self.speed)


def type_key(name: str) -> str:
    """What two spellings of a type's name have in common."""
    return name.strip().casefold()


def listed_types(text: str | None) -> tuple[str, ...]:
    """The types that a cell of gpu_type lists, separated by |; () where it allows any."""
    return tuple(name.strip() for name in (text or "").split("|") if name.strip())


_V100: Final = GpuType("V100", 1.0, 16, 40, 300, 3.06)
_P100: Final = GpuType("P100", 0.45, 16, 30, 250, 1.46)
_A100_40: Final = GpuType("A100-SXM4-40GB", 2.2, 40, 50, 400, 4.10)
_A100_80: Final = replace(_A100_40, name="A100-SXM4-80GB", memory_gb=80, price_per_hour=5.12)

_KNOWN: Final = (
    GpuType("K80", 0.15, 12, 25, 150, 0.90),
    _P100,
    replace(_P100, name="Pascal"),
    _V100,
    replace(_V100, name="V100M16"),
    replace(_V100, name="V100M32", memory_gb=32),
    replace(_V100, name="Volta"),
    GpuType("T4", 0.35, 16, 10, 70, 0.53),
    GpuType("A10", 0.9, 24, 15, 150, 1.01),
    GpuType("A30", 1.2, 24, 25, 165),
    replace(_A100_40, name="A100"),
    replace(_A100_40, name="A100-PCIE-40GB", busy_watts=250),
    _A100_40,
    _A100_80,
    replace(_A100_80, name="A100-SXM-80GB"),
    GpuType("H100", 4.5, 80, 70, 700, 12.29),
    GpuType("H200", 5.0, 141, 75, 700),
    GpuType("MI250X", 2.0, 128, 90, 560),
    *(GpuType(name) for name in ("G2", "G3", "MISC", "GPU-series-1", "GPU-series-2")),
)
CATALOGUE: Final = {type_key(known.name): known for known in _KNOWN}
"""Known types; docs/heterogeneous.md gives the source of every figure.

The last five are names of public traces whose models are not disclosed: their speed of 1 says nothing.
"""

_RULES: Final = {
    "speed": "a finite number > 0, a V100 being 1",
    "memory_gb": "a finite number of GB > 0",
    "idle_watts": "a finite number of watts >= 0",
    "busy_watts": "a finite number of watts >= 0",
    "price_per_hour": "a finite price >= 0",
}
TYPE_KEYS: Final = (*_RULES, "models")
"""The keys of a [gpu_types.NAME]."""

Declared = Mapping[str, Mapping[str, Any]]
"""What a cluster says of types itself, as in TOML: name -> key -> value. The catalogue supplies the rest."""


def check_declared(tables: object, file: str | None = None) -> dict[str, dict[str, Any]]:
    """What [gpu_types] declares, numbers as floats. Raises InputError naming the key at fault."""
    declared: dict[str, dict[str, Any]] = {}
    for name, table in _table(tables, file, "gpu_types").items():
        where = f"gpu_types.{name}"
        check_name(name, file, where)
        twice = next((other for other in declared if type_key(other) == type_key(name)), None)
        if twice is not None:
            raise InputError(
                f"every type once, but {twice} is the same",
                file=file,
                key=where,
                hint="names compare without case",
            )
        declared[name] = {}
        for key, value in _table(table, file, where).items():
            if key == "models":
                speeds = _table(value, file, f"{where}.models").items()
                checked: Any = {
                    model: _number("speed", speed, file, f"{where}.models.{model}") for model, speed in speeds
                }
            elif key in _RULES:
                checked = _number(key, value, file, f"{where}.{key}")
            else:
                near = _near(key, TYPE_KEYS)
                raise InputError(
                    f"only the keys {', '.join(TYPE_KEYS)}",
                    file=file,
                    key=f"{where}.{key}",
                    hint=near and f"did you mean {near}?",
                )
            if checked != {}:
                declared[name][key] = checked
    return declared


def check_name(name: str, file: str | None, key: str) -> None:
    """Raise InputError for a name that a column gpu_type could not hold."""
    if not name.strip() or "|" in name:
        raise InputError("the name of a GPU type, without |", file=file, key=key, value=show_toml(name))


def find_type(name: str, declared: Declared) -> GpuType | None:
    """What is known of a type: `declared` first, then the catalogue; None where neither has the name."""
    given = next((table for other, table in declared.items() if type_key(other) == type_key(name)), None)
    known = CATALOGUE.get(type_key(name))
    if given is None and known is None:
        return None
    return replace(known or GpuType(name), name=name, **(given or {}))


def unknown_types(names: Iterable[str | None]) -> dict[str, dict[str, Any]]:
    """A declaration, with speed 1, of each of the names that the catalogue does not have."""
    unknown = {type_key(name): name for name in names if name is not None and type_key(name) not in CATALOGUE}
    return {name: {"speed": 1.0} for name in unknown.values()}


def require_type(
    name: str, declared: Declared, *, file: str | None = None, key: str | None = None
) -> GpuType:
    """As `find_type`; an unknown name is an InputError at the place given."""
    found = find_type(name, declared)
    if found is not None:
        return found
    near = _near(name, [*declared, *(known.name for known in CATALOGUE.values())])
    declare = f"eclare it in the cluster file: [gpu_types.{toml_key(name)}] with speed = 1"
    raise InputError(
        "a GPU type that the catalogue has or the cluster file declares",
        file=file,
        key=key,
        value=name,
        hint=(f"did you mean {near}? Else d" if near else "d") + declare,
    )


def _number(name: str, value: object, file: str | None, key: str) -> float:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    try:
        number = float(number)
    except OverflowError:
        number = math.inf
    positive = name in ("speed", "memory_gb")
    if not (math.isfinite(number) and (number > 0 if positive else number >= 0)):
        raise InputError(
            _RULES[name], file=file, key=key, value=show_toml(value), hint="see docs/heterogeneous.md"
        )
    return number


def _table(value: object, file: str | None, key: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError("a table", file=file, key=key, value=value, hint="see docs/heterogeneous.md")
    return value


def _near(name: str, known: Iterable[str]) -> str | None:
    by_key = {type_key(other): other for other in known}
    close = difflib.get_close_matches(type_key(name), by_key, n=1)
    return by_key[close[0]] if close else None
