"""The network between servers: the constants of the contention model (docs/cluster.md)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ringbco.errors import InputError, show_toml
from ringbco.units import is_factor, quantity


@dataclass(frozen=True)
class Network:
    """Constants of the ring-all-reduce model (equations 7 and 8).

    Bandwidths and the reduction speed in bytes per second, xi2 in seconds per server, xi1 and alpha without
    unit. Raises InputError for a value outside its range.
    """

    intra_bandwidth: float = 150e9
    inter_bandwidth: float = 12.5e9
    reduce_speed: float = 500e9
    xi1: float = 0.5
    xi2: float = 5e-4
    alpha: float = 0.3

    def __post_init__(self) -> None:
        for name in NETWORK_RULES:
            object.__setattr__(self, name, network_value(name, getattr(self, name), key=name))

    def replace(self, others: Mapping[str, float | str]) -> Network:
        """The same with other constants; a factor such as "x2" is of the present value."""
        given: dict[str, Any] = {
            name: float(value.strip()[1:]) * getattr(self, name)
            if isinstance(value, str) and is_factor(value)
            else value
            for name, value in others.items()
        }
        return dataclasses.replace(self, **given)


NETWORK_RULES: Final = {
    "intra_bandwidth": "a finite number of bytes per second > 0",
    "inter_bandwidth": "a finite number of bytes per second > 0",
    "reduce_speed": "a finite number of bytes per second > 0",
    "xi1": "a number in (0, 1]",
    "xi2": "a finite number of seconds >= 0",
    "alpha": "a finite number >= 0",
}
"""The rule of each network constant."""
NETWORK_UNITS: Final = {
    **dict.fromkeys(("intra_bandwidth", "inter_bandwidth", "reduce_speed"), "bytes/s"),
    "xi2": "s",
}
"""What a number alone counts, of those that may be texts with a unit, such as "25Gb/s"."""


def network_value(name: str, value: object, *, key: str, file: str | None = None) -> float:
    """A constant of the network as a float; InputError, naming its key, where it is out of range."""
    expected = NETWORK_RULES[name]
    if isinstance(value, str) and name in NETWORK_UNITS:
        try:
            value = quantity(value, NETWORK_UNITS[name])
        except ValueError as error:
            expected += f", or {error}"
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    try:
        number = float(number)
    except OverflowError:
        number = math.inf
    positive = name in ("intra_bandwidth", "inter_bandwidth", "reduce_speed", "xi1")
    good = (
        math.isfinite(number)
        and (number > 0 if positive else number >= 0)
        and not (name == "xi1" and number > 1)
    )
    if not good:
        raise InputError(expected, file=file, key=key, value=show_toml(value), hint="see docs/cluster.md")
    return number
