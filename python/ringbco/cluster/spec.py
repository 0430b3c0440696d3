"""The cluster: its servers and virtual clusters, and the ways to write it down (docs/cluster.md)."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringbco.cluster import hostlist
from ringbco.cluster.gpu_types import CATALOGUE, GpuType, read_types, unknown_type
from ringbco.cluster.groups import MAX_GPUS, group_type, read_groups
from ringbco.cluster.keys import did_you_mean, only_keys, table_of, toml_key, toml_text, unknown_key, whole
from ringbco.cluster.network import NETWORK_RULES, Network, network_value
from ringbco.cluster.presets import BESIDE, PRESETS, ServerGroup, presets_like
from ringbco.cluster.tiers import NICS, Tier, check_tiers, read_nics, read_tiers, tier_names
from ringbco.deprecation import renamed, renamed_parameters
from ringbco.errors import InputError, UsageError
from ringbco.io.toml import read_toml

_SHORT_FORM: Final = re.compile(r"\s*(\d{1,18})\s*[xX\u00d7]\s*(\d{1,18})\s*", re.ASCII)


@dataclass(frozen=True, eq=False, init=False)
class Cluster:
    """Servers in index order, and the network between them.

    server_gpus: GPUs of each server, uint32[servers], read-only.
    server_vc: the virtual cluster of each server, or None when the cluster has none.
    server_gpu_type: the GPU model of each server, or None when none is named.
    name: the cluster as the user wrote it.
    recorded: the cluster on which the trace's durations were recorded; None for `RECORDED`.
    gpu_types: what the cluster itself says of GPU types, by name in lower case; the catalogue has the rest.
    server_cpu_memory: cpu_milli and memory_mib of each server, which packing alone reads; None if unknown.
    server_names: the name of each server, None for one without; None when none is named.
    tiers: groups of servers that share uplinks, from the servers up.
    nics: what has a link of inter_bandwidth of its own: each "server", or each "gpu".
    """

    server_gpus: NDArray[np.uint32]
    server_vc: tuple[str, ...] | None
    server_gpu_type: tuple[str | None, ...] | None
    network: Network
    name: str
    recorded: Cluster | None
    gpu_types: Mapping[str, GpuType]
    server_cpu_memory: tuple[tuple[int, int], ...] | None
    server_names: tuple[str | None, ...] | None
    tiers: tuple[Tier, ...]
    nics: str

    @renamed_parameters(server_beside="server_cpu_memory")
    def __init__(  # noqa: PLR0917 - one for each field
        self,
        server_gpus: ArrayLike | str | os.PathLike[str],
        server_vc: Sequence[str] | None = None,
        server_gpu_type: Sequence[str | None] | None = None,
        network: Network | None = None,
        name: str = "",
        recorded: Cluster | None = None,
        gpu_types: Mapping[str, GpuType] | None = None,
        server_cpu_memory: Sequence[tuple[int, int]] | None = None,
        server_names: Sequence[str | None] | None = None,
        tiers: Sequence[Tier] | None = None,
        nics: str | None = None,
    ) -> None:
        """server_gpus: or what `parse` takes, such as "32x8", without any other argument."""
        others = (
            *(server_vc, server_gpu_type, network, name, recorded),
            *(gpu_types, server_cpu_memory, server_names, tiers, nics),
        )
        values = dict(zip([one.name for one in dataclasses.fields(self)[1:]], others, strict=True))
        if isinstance(server_gpus, str | os.PathLike):
            given = [key for key, value in values.items() if value]
            if given:
                text = f"Cluster({os.fspath(server_gpus)!r}): expected no {given[0]} beside the text"
                raise UsageError(f"{text}; with_network() and with_recorded() replace such parts")
            parsed = Cluster.parse(server_gpus)
            server_gpus, values = parsed.server_gpus, {key: getattr(parsed, key) for key in values}
        gpus = _checked_servers(server_gpus)
        for labels in (server_vc, server_gpu_type, server_cpu_memory, server_names):
            if labels is not None and len(labels) != gpus.size:
                raise InputError(f"{gpus.size} servers, but {len(labels)} labels for them")
        defaults = {"network": Network(), "gpu_types": {}, "tiers": (), "nics": NICS[0]}
        for key, value in {"server_gpus": gpus, **values}.items():
            object.__setattr__(self, key, defaults.get(key) if value is None else value)
        self._check_types(self.server_gpu_type or ())
        wrong = hostlist.fault((one for one in self.server_names or () if one is not None), set())
        if wrong is not None:
            raise InputError(wrong, key="server_names")
        check_tiers(self.tiers, gpus.size, self.name or None)

    server_beside = renamed("server_beside", "server_cpu_memory")

    def _check_types(self, labels: tuple[str | None, ...]) -> None:
        if None in labels:
            raise InputError(
                "a gpu_type for every server or for none", hint=f"server {labels.index(None)} names none"
            )
        for label in dict.fromkeys(labels):
            if label is not None and self.find_type(label) is None:
                raise unknown_type(label, self.gpu_types, "servers.gpu_type", self.name or None)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """GPU types of the servers in order of first appearance; empty where they name none.

        Names compare without case: the first spelling counts.
        """
        first: dict[str, str] = {}
        for label in self.server_gpu_type or ():
            first.setdefault(str(label).casefold(), str(label))
        return tuple(first.values())

    @cached_property
    def server_types(self) -> NDArray[np.uint32] | None:
        """Each server's GPU type as an index into `types`; None where servers name none."""
        if self.server_gpu_type is None:
            return None
        number = {name.casefold(): index for index, name in enumerate(self.types)}
        return np.array([number[str(label).casefold()] for label in self.server_gpu_type], dtype=np.uint32)

    @property
    def type_facts(self) -> tuple[GpuType, ...]:
        """What is known of each of `types`."""
        found = ((name, self.find_type(name)) for name in self.types)
        return tuple(dataclasses.replace(fact, name=name) for name, fact in found if fact is not None)

    def find_type(self, name: str) -> GpuType | None:
        """What is known of a GPU type, by the cluster itself, else by the catalogue; None if nothing is."""
        key = name.casefold()
        return self.gpu_types.get(key) or CATALOGUE.get(key)

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
    def from_document(document: dict[str, Any], file: str, *, name: str | None = None) -> Cluster:
        """The cluster that a TOML document describes, such as a cluster file or [cluster] of a run.toml.

        file: what errors name. name: the cluster's name, by default `file`. Raises InputError naming the key.
        """
        only_keys(document, ("network", "recorded", "servers", "gpu_types"), file, "")
        declared = read_types(table_of(document.get("gpu_types", {}), file, "gpu_types"), file)
        network = table_of(document.get("network", {}), file, "network")
        only_keys(network, (*NETWORK_RULES, "nics", "tiers"), file, "network")
        tiers = tier_names(network, file)
        servers = read_groups(document.get("servers"), file, "servers", declared, tiers)
        cluster = Cluster.from_groups(
            servers,
            _network(network, file, "network"),
            name=file if name is None else name,
            gpu_types=declared,
            tiers=read_tiers(network, servers, file),
            nics=read_nics(network, file, "network"),
        )
        if "recorded" not in document:
            return cluster
        recorded = table_of(document["recorded"], file, "recorded")
        return cluster.with_recorded(_recorded(recorded, file, declared))

    @staticmethod
    def from_groups(
        groups: Sequence[ServerGroup],
        network: Network | None = None,
        *,
        name: str = "",
        gpu_types: Mapping[str, GpuType] | None = None,
        tiers: Sequence[Tier] = (),
        nics: str = NICS[0],
    ) -> Cluster:
        """The cluster of these groups of equal servers, in their order; either all name a vc or none does."""
        counts = [group.count for group in groups]
        total = sum(group.count * group.gpus for group in groups)
        if total > MAX_GPUS:  # before its servers are spread out
            raise InputError(f"a cluster of at most {MAX_GPUS} GPUs", value=total)
        vcs = tuple(group.vc for group in groups for _ in range(group.count) if group.vc is not None)
        types = tuple(group.gpu_type for group in groups for _ in range(group.count))
        beside = tuple(
            group.beside for group in groups for _ in range(group.count) if group.beside is not None
        )
        named = any(group.names for group in groups)
        return Cluster(
            np.repeat(np.array([group.gpus for group in groups], dtype=np.uint32), counts),
            server_vc=vcs or None,
            server_gpu_type=types if any(types) else None,
            network=network or Network(),
            name=name,
            gpu_types=gpu_types or {},
            server_cpu_memory=beside or None,
            server_names=tuple(name for group in groups for name in group.names or (None,) * group.count)
            if named
            else None,
            tiers=tuple(tiers),
            nics=nics,
        )

    def with_network(self, **overrides: float | str | None) -> Cluster:
        """The same cluster with some network constants replaced; None keeps the present value.

        A text is a number with a unit, such as "25Gb/s", or a factor: "x2" is twice the present value.
        """
        unknown = [name for name in overrides if name not in NETWORK_RULES]
        if unknown:
            raise unknown_key(unknown[0], NETWORK_RULES, None, "network")
        given = {name: value for name, value in overrides.items() if value is not None}
        return dataclasses.replace(self, network=self.network.replace(given))

    def pooled(self) -> Cluster:
        """The same servers without virtual clusters."""
        return dataclasses.replace(self, server_vc=None)

    def with_recorded(self, recorded: Cluster | None) -> Cluster:
        """The same cluster, for traces that were recorded on another one; None keeps the present one."""
        if recorded is None:
            return self
        # What is said of the recorded types goes along: a TOML file has one [gpu_types] for both clusters.
        known = {**recorded.gpu_types, **self.gpu_types}
        named = {str(label).casefold() for label in recorded.server_gpu_type or ()}
        types = {key: fact for key, fact in known.items() if key in named}
        recorded = dataclasses.replace(
            recorded, recorded=None, gpu_types=types, server_cpu_memory=None, server_names=None, tiers=()
        )
        return dataclasses.replace(self, recorded=recorded, gpu_types={**self.gpu_types, **types})

    @property
    def recorded_on(self) -> Cluster:
        """The cluster on which the trace was recorded: `recorded`, else servers of 8 GPUs (`RECORDED`)."""
        return self.recorded or RECORDED

    @property
    def description(self) -> str:
        """The size of the servers and what is special about the network, in words.

        Such as "servers of 8 GPUs, default network" or "servers of 2 to 8 GPUs, inter_bandwidth 1.25e+09".
        """
        least, most = int(self.server_gpus.min()), int(self.server_gpus.max())
        size = f"{most} GPU{'s'[: most > 1]}" if least == most else f"{least} to {most} GPUs"
        standard = Network()
        special = [
            f"{name} {getattr(self.network, name):g}"
            for name in NETWORK_RULES
            if getattr(self.network, name) != getattr(standard, name)
        ]
        return ", ".join([f"servers of {size}", *(special or ["default network"])])

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

    @cached_property
    def server_numbers(self) -> Mapping[str, int]:
        """The index of each server that has a name, by its name."""
        names = enumerate(self.server_names or ())
        return {name: index for index, name in names if name is not None}

    @cached_property
    def server_labels(self) -> tuple[str, ...]:
        """What each server is called: its name, else its index."""
        names = self.server_names or (None,) * self.num_servers
        return tuple(str(index) if name is None else name for index, name in enumerate(names))

    def named(self, text: str) -> str:
        """A text of the engine, which knows servers by index, with the names of those that have one."""
        return hostlist.with_labels(text, self.server_labels) if self.server_names else text

    def vc_servers(self, name: str) -> NDArray[np.intp]:
        """Indexes of the servers of one virtual cluster, ascending; InputError when there is no such one."""
        if name not in self.vc_names:
            raise InputError(
                f"one of the cluster's virtual clusters ({', '.join(self.vc_names) or 'it has none'})",
                key="vc",
                value=name,
                hint=did_you_mean(name, self.vc_names),
            )
        return np.flatnonzero(np.array(self.server_vc, dtype=object) == name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as run.toml has them, with the cluster that traces were recorded on."""
        return copy.deepcopy(self._document)

    @cached_property
    def _document(self) -> dict[str, Any]:
        return tomllib.loads(self.with_recorded(self.recorded_on).to_toml())

    told = renamed("told", "to_dict()")
    character = renamed("character", "description")

    def to_toml(self) -> str:
        """The cluster as TOML; `parse` gives back an equal cluster, under another name."""
        lines = ["[network]", *self._network_lines()]
        lines += [line for tier in self.tiers for line in tier.to_toml()]
        if self.recorded is not None:
            lines += self.recorded._recorded_lines()
        return "\n".join(lines + self._type_lines() + self._server_lines("servers")) + "\n"

    def _type_lines(self) -> list[str]:
        """What the cluster itself says of GPU types."""
        lines: list[str] = []
        for fact in self.gpu_types.values():
            lines += ["", f"[gpu_types.{toml_text(fact.name)}]"]
            facts = ("speed", "memory_gb", "idle_watts", "busy_watts", "price_per_hour")
            said = [key for key in facts if fact.declared is None or key in fact.declared]
            known = ((key, getattr(fact, key)) for key in said)
            lines += [f"{key} = {value!r}" for key, value in known if value is not None]
            lines += [f"models.{toml_text(model)} = {speed!r}" for model, speed in fact.models.items()]
        return lines

    def _network_lines(self) -> list[str]:
        lines = [f"{name} = {getattr(self.network, name)!r}" for name in NETWORK_RULES]
        return lines + [f'nics = "{self.nics}"'] * (self.nics != NICS[0])

    def _recorded_lines(self) -> list[str]:
        """This cluster as another one's [recorded]: the size of its servers or, where they differ, all."""
        lines = ["", "[recorded]", *self._network_lines()]
        types = set(self.server_gpu_type or [None])
        if self.server_vc is not None or np.ptp(self.server_gpus) or len(types) > 1:
            return lines + self._server_lines("recorded.servers")
        lines.append(f"gpus = {self.server_gpus[0]}")
        return lines + [f"gpu_type = {toml_text(name)}" for name in types if name is not None]

    def _server_lines(self, key: str) -> list[str]:
        lines: list[str] = []
        vcs: Sequence[str | None] = self.server_vc or [None] * self.num_servers
        types: Sequence[str | None] = self.server_gpu_type or [None] * self.num_servers
        beside: Sequence[tuple[int, int] | None] = self.server_cpu_memory or [None] * self.num_servers
        names: Sequence[str | None] = self.server_names or [None] * self.num_servers
        named = [name is not None for name in names]
        named_tiers = [tier for tier in self.tiers if tier.groups is not None]
        labels_of = [tuple((tier.groups or ())[at] for tier in named_tiers) for at in range(self.num_servers)]
        servers = zip(self.server_gpus.tolist(), vcs, types, beside, named, labels_of, strict=True)
        left = filter(None, names)
        for (gpus, vc, gpu_type, known, has_names, labels), run in itertools.groupby(servers):
            count = sum(1 for _ in run)
            lines += ["", f"[[{key}]]"]
            if has_names:
                lines.append(f"name = {toml_text(hostlist.compact([*itertools.islice(left, count)]))}")
            lines += [f"count = {count}", f"gpus = {gpus}"]
            if vc is not None:
                lines.append(f"vc = {toml_text(vc)}")
            if gpu_type is not None:
                lines.append(f"gpu_type = {toml_text(gpu_type)}")
            lines += [f"{name} = {value}" for name, value in zip(BESIDE, known or (), strict=False)]
            labelled = zip(named_tiers, labels, strict=True)
            lines += [f"{toml_key(tier.name)} = {toml_text(label)}" for tier, label in labelled]
        return lines

    def __reduce__(self) -> tuple[Any, ...]:
        # Through __init__, which copies: an array that Dask sent may lie at an odd address in its message.
        parts = (self.server_gpus, self.server_vc, self.server_gpu_type, self.network, self.name)
        more = dict(self.gpu_types), self.server_cpu_memory, self.server_names, self.tiers, self.nics
        return Cluster, (*parts, self.recorded, *more)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cluster):
            return NotImplemented
        mine, others = ((cluster._profile(), cluster.recorded_on._profile()) for cluster in (self, other))
        return mine == others

    def __hash__(self) -> int:
        return hash((*self._profile(), self.recorded_on._profile()))

    def _profile(self) -> tuple[Any, ...]:
        """What two equal clusters have in common, but for the cluster that traces were recorded on."""
        types = tuple((key, repr(fact)) for key, fact in sorted(self.gpu_types.items()))
        labels = self.server_vc, self.server_gpu_type, self.server_cpu_memory, self.server_names
        return self.server_gpus.tobytes(), self.network, self.tiers, self.nics, types, *labels


def _checked_servers(server_gpus: ArrayLike) -> NDArray[np.uint32]:
    """GPUs of each server, read-only."""
    given = np.asarray(server_gpus)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu" or given.min() < 1:
        raise InputError("a cluster needs at least one server, each of at least one GPU")
    if int(given.sum(dtype=np.uint64)) > MAX_GPUS:
        raise InputError(f"a cluster of at most {MAX_GPUS} GPUs", value=int(given.sum(dtype=np.uint64)))
    gpus = given.astype(np.uint32)
    gpus.flags.writeable = False
    return gpus


def preset_names() -> tuple[str, ...]:
    """Names that `preset:NAME` accepts (ringbco.cluster.presets)."""
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
        meant = _preset_meant(name)  # goes before the list, which is long
        known = f"one of the presets {', '.join(preset_names())}"
        expected = f"a preset that is known; {meant} Else {known}" if meant else known
        raise InputError(expected, key="cluster", value=text)
    preset = PRESETS[name]
    network = dict(preset.network)
    return Cluster.from_groups(
        preset.servers,
        _network(network, text, "network"),
        name=text,
        tiers=read_tiers(network, preset.servers, text),
        nics=read_nics(network, text, "network"),
    )


def _read_toml(text: str) -> Cluster:
    path = Path(text)
    if not text or not os.path.exists(text):  # Path.exists raises for a name that is too long
        raise InputError(
            "SxG such as 32x8, the path of a TOML file, or preset:NAME",
            key="cluster",
            value=text,
            hint="; ".join(filter(None, ("there is no file of that name", _preset_meant(text)))),
        )
    if path.is_dir():
        raise InputError("is a folder, not a cluster file", file=text)
    return Cluster.from_document(read_toml(text, hint="see docs/cluster.md"), text)


def _network(table: dict[str, Any], file: str, where: str) -> Network:
    """The network of a table's keys that are network constants."""
    given = {name: value for name, value in table.items() if name in NETWORK_RULES}
    values = (network_value(name, value, file=file, key=f"{where}.{name}") for name, value in given.items())
    return Network(**dict(zip(given, values, strict=True)))


def _recorded(table: dict[str, Any], file: str, declared: Mapping[str, GpuType]) -> Cluster:
    """The recorded cluster of [recorded]: `gpus` a server and `gpu_type`, or `servers` where they differ."""
    only_keys(table, ("gpus", "gpu_type", "servers", *NETWORK_RULES, "nics"), file, "recorded")
    network, nics = _network(table, file, "recorded"), read_nics(table, file, "recorded")
    if "servers" not in table:
        gpus = whole(table, "gpus", file, "recorded", default=int(RECORDED.server_gpus[0]))
        groups = [ServerGroup(count=1, gpus=gpus, gpu_type=group_type(table, file, "recorded", declared))]
    elif "gpus" in table or "gpu_type" in table:
        raise InputError(
            "either gpus and gpu_type or a list of servers",
            file=file,
            key="recorded",
            hint="leave out gpus and gpu_type",
        )
    else:
        groups = read_groups(table["servers"], file, "recorded.servers", declared)
    return Cluster.from_groups(groups, network, name=f"[recorded] of {file}", gpu_types=declared, nics=nics)


def _preset_meant(text: str) -> str | None:
    """What to say of a text that names a preset nearly, or without the prefix; None where it names none."""
    meant = [f"preset:{name}" for name in presets_like(text)]
    return f"did you mean {' or '.join(filter(None, (', '.join(meant[:-1]), meant[-1])))}?" if meant else None


RECORDED: Final = Cluster(np.full(1, 8, dtype=np.uint32), name="default")
"""The recorded cluster where none is named: servers of 8 GPUs, as many as a job needs."""
