"""The cluster: servers, virtual clusters and the network model's constants (docs/cluster.md)."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ringbco.errors import ABSENT, InputError, show_toml
from ringbco.presets import PRESETS, ServerGroup

MAX_GPUS: Final = 2**24
"""The most GPUs (and servers) a cluster may have: far above any real one, far below what exhausts memory."""

_SHORT_FORM: Final = re.compile(r"\s*(\d{1,18})\s*[xX\u00d7]\s*(\d{1,18})\s*", re.ASCII)


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
            object.__setattr__(self, name, _network_value(name, getattr(self, name), key=name))


NETWORK_RULES: Final = {
    "intra_bandwidth": "a finite number of bytes per second > 0",
    "inter_bandwidth": "a finite number of bytes per second > 0",
    "reduce_speed": "a finite number of bytes per second > 0",
    "xi1": "a number in (0, 1]",
    "xi2": "a finite number of seconds >= 0",
    "alpha": "a finite number >= 0",
}
"""The rule of each network constant."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """Servers in index order, and the network between them.

    server_gpus: GPUs of each server, uint32[servers], read-only.
    server_vc: the virtual cluster of each server, or None when the cluster has none.
    server_gpu_type: the GPU model of each server, or None when none is named.
    name: the cluster as the user wrote it.
    """

    server_gpus: NDArray[np.uint32]
    server_vc: tuple[str, ...] | None = None
    server_gpu_type: tuple[str | None, ...] | None = None
    network: Network = field(default_factory=Network)
    name: str = ""

    def __post_init__(self) -> None:
        given = np.asarray(self.server_gpus)
        if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu" or given.min() < 1:
            raise InputError("a cluster needs at least one server, each of at least one GPU")
        if int(given.sum(dtype=np.uint64)) > MAX_GPUS:
            raise InputError(f"a cluster of at most {MAX_GPUS} GPUs", value=int(given.sum(dtype=np.uint64)))
        gpus = given.astype(np.uint32)
        gpus.flags.writeable = False
        object.__setattr__(self, "server_gpus", gpus)
        for labels in (self.server_vc, self.server_gpu_type):
            if labels is not None and len(labels) != gpus.size:
                raise InputError(f"{gpus.size} servers, but {len(labels)} labels for them")

    @staticmethod
    def parse(text: str | os.PathLike[str]) -> Cluster:
        """The cluster meant by `SxG` (32x8), by the path of a TOML file, or by `preset:NAME`.

        Raises InputError naming the file and the key at fault.
        """
        text = os.fspath(text)
        short = _SHORT_FORM.fullmatch(text)
        if short is not None and not os.path.exists(text):
            return _uniform(text, int(short[1]), int(short[2]))
        if text.startswith("preset:"):
            return _preset(text)
        return _read_toml(text)

    @staticmethod
    def from_groups(
        groups: Sequence[ServerGroup], network: Network | None = None, *, name: str = ""
    ) -> Cluster:
        """The cluster of these groups of equal servers, in their order; either all name a vc or none does."""
        counts = [group.count for group in groups]
        vcs = tuple(group.vc for group in groups for _ in range(group.count) if group.vc is not None)
        types = tuple(group.gpu_type for group in groups for _ in range(group.count))
        return Cluster(
            np.repeat(np.array([group.gpus for group in groups], dtype=np.uint32), counts),
            server_vc=vcs or None,
            server_gpu_type=types if any(types) else None,
            network=network or Network(),
            name=name,
        )

    def with_network(self, **overrides: float | None) -> Cluster:
        """The same cluster with some network constants replaced; None keeps the present value."""
        unknown = [name for name in overrides if name not in NETWORK_RULES]
        if unknown:
            raise _unknown_key(unknown[0], NETWORK_RULES, None, "network")
        given = {name: value for name, value in overrides.items() if value is not None}
        return dataclasses.replace(self, network=dataclasses.replace(self.network, **given))

    def pooled(self) -> Cluster:
        """The same servers without virtual clusters."""
        return dataclasses.replace(self, server_vc=None)

    @property
    def num_servers(self) -> int:
        """Number of servers."""
        return int(self.server_gpus.size)

    @cached_property
    def num_gpus(self) -> int:
        """Number of GPUs in all."""
        return int(self.server_gpus.sum(dtype=np.uint64))

    @cached_property
    def vc_names(self) -> tuple[str, ...]:
        """Names of the virtual clusters in order of first appearance; empty when there are none."""
        return tuple(dict.fromkeys(self.server_vc or ()))

    def vc_servers(self, name: str) -> NDArray[np.intp]:
        """Indexes of the servers of one virtual cluster, ascending; InputError when there is no such one."""
        if name not in self.vc_names:
            raise InputError(
                f"one of the cluster's virtual clusters ({', '.join(self.vc_names) or 'it has none'})",
                key="vc",
                value=name,
                hint=_did_you_mean(name, self.vc_names),
            )
        return np.flatnonzero(np.array(self.server_vc, dtype=object) == name)

    def to_toml(self) -> str:
        """The cluster as TOML; `parse` gives back the same servers, virtual clusters, types and network."""
        lines = ["[network]"]
        lines += [f"{name} = {getattr(self.network, name)!r}" for name in NETWORK_RULES]
        vcs: Sequence[str | None] = self.server_vc or [None] * self.num_servers
        types: Sequence[str | None] = self.server_gpu_type or [None] * self.num_servers
        servers = zip(self.server_gpus.tolist(), vcs, types, strict=True)
        for (gpus, vc, gpu_type), run in itertools.groupby(servers):
            lines += ["", "[[servers]]", f"count = {sum(1 for _ in run)}", f"gpus = {gpus}"]
            if vc is not None:
                lines.append(f"vc = {_toml_text(vc)}")
            if gpu_type is not None:
                lines.append(f"gpu_type = {_toml_text(gpu_type)}")
        return "\n".join(lines) + "\n"

    def __reduce__(self) -> tuple[Any, ...]:
        # Through __init__, which copies: an array that Dask sent may lie at an odd address in its message.
        return Cluster, (self.server_gpus, self.server_vc, self.server_gpu_type, self.network, self.name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cluster):
            return NotImplemented
        return (
            np.array_equal(self.server_gpus, other.server_gpus)
            and self.server_vc == other.server_vc
            and self.server_gpu_type == other.server_gpu_type
            and self.network == other.network
        )

    def __hash__(self) -> int:
        return hash((self.server_gpus.tobytes(), self.server_vc, self.server_gpu_type, self.network))


def preset_names() -> tuple[str, ...]:
    """Names that `preset:NAME` accepts (ringbco.presets)."""
    return tuple(PRESETS)


def _uniform(text: str, servers: int, gpus: int) -> Cluster:
    if servers < 1 or gpus < 1:
        raise InputError(
            "S servers of G GPUs, S >= 1 and G >= 1", key="cluster", value=text, hint="such as 32x8"
        )
    if servers * gpus > MAX_GPUS:
        raise InputError(f"a cluster of at most {MAX_GPUS} GPUs", key="cluster", value=text)
    return Cluster(np.full(servers, gpus, dtype=np.uint32), name=text)


def _preset(text: str) -> Cluster:
    name = text.removeprefix("preset:")
    if name not in preset_names():
        raise InputError(
            f"one of the presets {', '.join(preset_names())}",
            key="cluster",
            value=text,
            hint=_did_you_mean(name, preset_names()),
        )
    return Cluster.from_groups(PRESETS[name].servers, name=text)


def _read_toml(text: str) -> Cluster:
    path = Path(text)
    if not text or not os.path.exists(text):  # Path.exists raises for a name that is too long
        raise InputError(
            "SxG such as 32x8, the path of a TOML file, or preset:NAME",
            key="cluster",
            value=text,
            hint="there is no file of that name",
        )
    if path.is_dir():
        raise InputError("is a folder, not a cluster file", file=text)
    try:
        document = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=text) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not valid TOML ({error})", file=text, hint="see docs/cluster.md") from error
    _only_keys(document, ("network", "servers"), text, "")
    network = _table(document.get("network", {}), text, "network")
    _only_keys(network, NETWORK_RULES, text, "network")
    constants = {
        name: _network_value(name, value, file=text, key=f"network.{name}") for name, value in network.items()
    }
    return Cluster.from_groups(_servers(document, text), Network(**constants), name=text)


def _servers(document: dict[str, Any], file: str) -> list[ServerGroup]:
    entries = document.get("servers")
    example = "write [[servers]], then count = 32 and gpus = 8"
    if isinstance(entries, dict):
        raise InputError("a list of tables, not one table", file=file, key="servers", hint=example)
    if not entries:
        raise InputError("names no servers", file=file, hint=example)
    if not isinstance(entries, list):
        raise InputError("a list of tables", file=file, key="servers", value=entries, hint=example)
    groups = []
    for number, value in enumerate(entries, start=1):
        where = f"servers[{number}]"
        entry = _table(value, file, where)
        _only_keys(entry, ("count", "gpus", "vc", "gpu_type"), file, where)
        groups.append(
            ServerGroup(
                count=_whole(entry, "count", file, where, default=1),
                gpus=_whole(entry, "gpus", file, where),
                vc=_label(entry, "vc", file, where),
                gpu_type=_label(entry, "gpu_type", file, where),
            )
        )
    named = [number for number, group in enumerate(groups, start=1) if group.vc is not None]
    if named and len(named) < len(groups):
        missing = next(number for number in range(1, len(groups) + 1) if number not in named)
        raise InputError(
            f"a virtual cluster, since servers[{named[0]}] names one",
            file=file,
            key=f"servers[{missing}].vc",
            hint="name a vc for every group of servers, or for none",
        )
    total = sum(group.count * group.gpus for group in groups)
    if total > MAX_GPUS:
        raise InputError(f"at most {MAX_GPUS} GPUs in all", file=file, key="servers", value=total)
    return groups


def _network_value(name: str, value: object, *, key: str, file: str | None = None) -> float:
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
        raise InputError(
            NETWORK_RULES[name], file=file, key=key, value=show_toml(value), hint="see docs/cluster.md"
        )
    return number


def _table(value: object, file: str, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError("a table", file=file, key=key, value=value, hint="see docs/cluster.md")
    return value


def _only_keys(table: dict[str, Any], known: Iterable[str], file: str, where: str) -> None:
    for name in table:
        if name not in tuple(known):
            raise _unknown_key(name, known, file, where)


def _unknown_key(name: str, known: Iterable[str], file: str | None, where: str) -> InputError:
    known = tuple(known)
    return InputError(
        f"only the keys {', '.join(known)}",
        file=file,
        key=f"{where}.{name}" if where else name,
        hint=_did_you_mean(name, known),
    )


def _whole(entry: dict[str, Any], name: str, file: str, where: str, default: int | None = None) -> int:
    value = entry.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        shown = ABSENT if name not in entry else show_toml(value)
        raise InputError(
            "an integer >= 1", file=file, key=f"{where}.{name}", value=shown, hint="see docs/cluster.md"
        )
    return value


def _label(entry: dict[str, Any], name: str, file: str, where: str) -> str | None:
    value = entry.get(name)
    if value is not None and (not isinstance(value, str) or value == ""):
        raise InputError(
            "a non-empty text",
            file=file,
            key=f"{where}.{name}",
            value=value,
            hint=f'write it in quotes: {name} = "..."',
        )
    return value


def _did_you_mean(name: str, known: Iterable[str]) -> str | None:
    close = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f"did you mean {close[0]}?" if close else None


def _toml_text(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, once DEL is escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
