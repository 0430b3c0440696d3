"""[[network.tiers]] of a cluster file: groups of servers, each of which shares an uplink (docs/tiers.md).

Every error names the key at fault, and the group where groups do not nest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ringbco.cluster.keys import only_keys, table_of, toml_text, whole
from ringbco.cluster.network import network_value
from ringbco.cluster.presets import BESIDE, ServerGroup
from ringbco.errors import ABSENT, InputError, show_toml

SERVER_KEYS: Final = ("name", "count", "gpus", "vc", "gpu_type", *BESIDE)
"""The keys of an entry of [[servers]]."""
NICS: Final = ("server", "gpu")
"""What has a link of inter_bandwidth of its own."""
_KEYS: Final = ("name", "servers", "bandwidth", "alpha", "xi1", "inside")
_FILL_IN: Final = '# bandwidth = "400Gb/s"  # fill in what one uplink carries, and take the first # away'
_EXAMPLE: Final = 'write [[network.tiers]], then name = "rack", servers = 4 and bandwidth = "400Gb/s"'


@dataclass(frozen=True)
class Tier:
    """Groups of servers, each with an uplink.

    name: such as rack. bandwidth: of the uplink of one group, each way, bytes/s; NaN where it is not known
    yet, as in what `convert` makes. servers: how many servers of
    consecutive index are a group, the last of which may be smaller; None where `groups` has the name of the
    group of each server. alpha, xi1: of its uplinks; None for those of the network. inside: bytes/s of a gang
    within one group, in place of the links of its servers; None where those count.
    """

    name: str
    bandwidth: float
    servers: int | None = None
    groups: tuple[str, ...] | None = None
    alpha: float | None = None
    xi1: float | None = None
    inside: float | None = None

    def group_of(self, num_servers: int) -> NDArray[np.uint32]:
        """The number of each server's group, uint32[servers]; groups are numbered by first appearance."""
        if self.groups is None:
            return (np.arange(num_servers) // (self.servers or 1)).astype(np.uint32)
        number = {name: index for index, name in enumerate(dict.fromkeys(self.groups))}
        return np.array([number[name] for name in self.groups], dtype=np.uint32)

    def group_names(self, num_servers: int) -> tuple[str, ...]:
        """What each group is called: its name, else its number."""
        if self.groups is None:
            return tuple(map(str, range(-(-num_servers // (self.servers or 1)))))
        return tuple(dict.fromkeys(self.groups))

    def to_toml(self) -> list[str]:
        """Its lines of a cluster file, but for the names in [[servers]]."""
        lines = ["", "[[network.tiers]]"]
        lines.append(f"name = {toml_text(self.name)}")
        known = not math.isnan(self.bandwidth)
        lines.append(f"bandwidth = {self.bandwidth!r}" if known else _FILL_IN)
        given = {name: getattr(self, name) for name in ("servers", "alpha", "xi1", "inside")}
        return lines + [f"{name} = {value!r}" for name, value in given.items() if value is not None]


def unmeasured(servers: Sequence[ServerGroup]) -> tuple[Tier, ...]:
    """The tiers that entries of [[servers]] name, bandwidths not known."""
    names = [name for name, _ in servers[0].tiers]
    labels = [
        [group.tiers[at][1] for group in servers for _ in range(group.count)] for at in range(len(names))
    ]
    return tuple(Tier(name, math.nan, groups=tuple(each)) for name, each in zip(names, labels, strict=True))


def read_nics(table: Mapping[str, Any], file: str, where: str) -> str:
    """What has a link of its own: each server (the default), or each GPU."""
    value = table.get("nics", NICS[0])
    if value not in NICS:
        raise InputError(
            '"server" or "gpu"',
            file=file,
            key=f"{where}.nics",
            value=show_toml(value),
            hint="server: the GPUs of a server share one link; gpu: each has its own",
        )
    return str(value)


def tier_names(network: Mapping[str, Any], file: str) -> list[str]:
    """The names of the tiers of a [network] table, which its servers may have as keys."""
    entries = network.get("tiers", [])
    if not isinstance(entries, list):
        raise InputError("a list of tables", file=file, key="network.tiers", value=entries, hint=_EXAMPLE)
    names: list[str] = []
    for number, value in enumerate(entries, start=1):
        where = f"network.tiers[{number}]"
        entry = table_of(value, file, where)
        only_keys(entry, _KEYS, file, where)
        name = entry.get("name", ABSENT)
        expected = None
        if not isinstance(name, str) or not name.strip() or name.endswith("?") or name != name.strip():
            expected = "a name such as rack, without blanks around it and without ? at its end"
        elif name in (*SERVER_KEYS, "server"):
            expected = f"a name other than server and the keys of [[servers]] ({', '.join(SERVER_KEYS)})"
        elif name in names:
            expected = f"a name of its own: network.tiers[{names.index(name) + 1}] has that one"
        if expected is not None:
            hint = "name each tier once" if name in names else _EXAMPLE
            raise InputError(expected, file=file, key=f"{where}.name", value=show_toml(name), hint=hint)
        names.append(name)
    return names


def read_tiers(network: Mapping[str, Any], servers: Sequence[ServerGroup], file: str) -> tuple[Tier, ...]:
    """The tiers of a [network] table, in its order. servers: the entries of [[servers]]."""
    tiers = []
    for number, entry in enumerate(network.get("tiers", []), start=1):
        where, name = f"network.tiers[{number}]", entry["name"]
        rates = {key: _number(entry, key, file, where) for key in ("bandwidth", "alpha", "xi1", "inside")}
        if rates["bandwidth"] is None:
            raise InputError(
                "the bandwidth of a group's uplink", file=file, key=f"{where}.bandwidth", hint=_EXAMPLE
            )
        named = [dict(group.tiers).get(name) for group in servers]
        count = whole(entry, "servers", file, where) if "servers" in entry else None
        first = next((at for at, label in enumerate(named, start=1) if label is not None), None)
        if count is None and first is None:
            raise InputError(
                f"servers, how many share an uplink, or a key {name} in every [[servers]]",
                file=file,
                key=f"{where}.servers",
                hint=_EXAMPLE,
            )
        if count is not None and first is not None:
            raise InputError(
                f"either servers or names, and servers[{first}] has a {name}",
                file=file,
                key=f"{where}.servers",
                value=count,
                hint=f"leave out servers, or {name} of every [[servers]]",
            )
        if first is not None and None in named:
            raise InputError(
                f"a name, since servers[{first}] has one",
                file=file,
                key=f"servers[{named.index(None) + 1}].{name}",
                hint=f"name the {name} of every [[servers]]",
            )
        labels = tuple(
            str(label) for group, label in zip(servers, named, strict=True) for _ in range(group.count)
        )
        tiers.append(Tier(name, rates.pop("bandwidth") or 0.0, count, labels if first else None, **rates))
    return tuple(tiers)


def _number(entry: Mapping[str, Any], key: str, file: str, where: str) -> float | None:
    if key not in entry:
        return None
    rule = "inter_bandwidth" if key in ("bandwidth", "inside") else key
    return network_value(rule, entry[key], key=f"{where}.{key}", file=file)


def check_tiers(tiers: Sequence[Tier], num_servers: int, file: str | None) -> None:
    """Raises InputError where tiers do not nest, naming the group that lies in two."""
    for number, tier in enumerate(tiers, start=1):
        if (tier.servers is None) == (tier.groups is None) or len(tier.groups or ()) not in (0, num_servers):
            raise InputError(
                "servers, or the group of each server", file=file, key=f"network.tiers[{number}].servers"
            )
    counted = [(at, tier) for at, tier in enumerate(tiers, start=1) if tier.servers is not None]
    for (_, lower), (at, upper) in itertools.pairwise(counted):
        if (upper.servers or 1) % (lower.servers or 1):
            raise InputError(
                f"a multiple of {lower.servers}, the servers of a {lower.name}",
                file=file,
                key=f"network.tiers[{at}].servers",
                value=upper.servers,
                hint=f"a {lower.name} lies in one {upper.name}, wholly",
            )
    for at, (lower, upper) in enumerate(itertools.pairwise(tiers), start=2):
        below, above = lower.group_of(num_servers), upper.group_of(num_servers)
        first = np.full(int(below.max()) + 1, -1)
        _, at_first = np.unique(below, return_index=True)
        first[below[at_first]] = above[at_first]
        apart = np.flatnonzero(first[below] != above)
        if apart.size:
            server = int(apart[0])
            group, names = lower.group_names(num_servers)[below[server]], upper.group_names(num_servers)
            raise InputError(
                f"every {lower.name} in one {upper.name}, and {lower.name} {group} lies in {upper.name}"
                f" {names[first[below[server]]]} and {names[above[server]]}",
                file=file,
                key=f"network.tiers[{at}]",
                hint=f"server {server} is the first of that {lower.name} in another {upper.name}",
            )
