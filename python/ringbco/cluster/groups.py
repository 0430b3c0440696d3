"""[[servers]] of a cluster file: groups of equal servers. Every error names the key at fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ringbco.cluster import hostlist
from ringbco.cluster.gpu_types import CATALOGUE, GpuType, unknown_type
from ringbco.cluster.keys import label_of, only_keys, table_of, whole
from ringbco.cluster.presets import BESIDE, ServerGroup
from ringbco.errors import InputError

MAX_GPUS: Final = 2**24
"""The most GPUs (and servers) a cluster may have: far above any real one, far below what exhausts memory."""

_MOST_BESIDE: Final = 2**53

_ALL_OR_NONE: Final = (
    ("vc", "virtual cluster", "vc"),
    ("gpu_type", "GPU type", "gpu_type"),
    ("beside", "cpu_milli and a memory_mib", "cpu_milli and a memory_mib"),
)


def read_groups(
    entries: object, file: str, key: str, declared: Mapping[str, GpuType], tiers: Sequence[str] = ()
) -> list[ServerGroup]:
    """The groups of servers of a list of tables.

    key: of the list. declared: the GPU types of the file. tiers: those that may name their groups here.
    """
    example = f"write [[{key}]], then count = 32 and gpus = 8"
    if isinstance(entries, dict):
        raise InputError("a list of tables, not one table", file=file, key=key, hint=example)
    if not entries:
        raise InputError("names no servers", file=file, hint=example)
    if not isinstance(entries, list):
        raise InputError("a list of tables", file=file, key=key, value=entries, hint=example)
    may_name: tuple[str, ...] = () if key == "recorded.servers" else ("name",)
    groups: list[ServerGroup] = []
    seen: set[str] = set()
    for number, value in enumerate(entries, start=1):
        where = f"{key}[{number}]"
        entry = table_of(value, file, where)
        only_keys(entry, (*may_name, "count", "gpus", "vc", "gpu_type", *BESIDE, *tiers), file, where)
        names = _names(entry, file, where, seen)
        groups.append(
            ServerGroup(
                count=len(names) if names else whole(entry, "count", file, where, default=1),
                gpus=whole(entry, "gpus", file, where),
                vc=label_of(entry, "vc", file, where),
                gpu_type=group_type(entry, file, where, declared),
                beside=_cpu_memory(entry, file, where),
                names=names,
                tiers=tuple(
                    (name, label)
                    for name in tiers
                    if (label := label_of(entry, name, file, where)) is not None
                ),
            )
        )
    for label, what, name in _ALL_OR_NONE:
        named = [number for number, group in enumerate(groups, start=1) if getattr(group, label) is not None]
        if named and len(named) < len(groups):
            missing = next(number for number in range(1, len(groups) + 1) if number not in named)
            raise InputError(
                f"a {what}, since {key}[{named[0]}] names one",
                file=file,
                key=f"{key}[{missing}].{name.split()[0]}",
                hint=f"name a {name} for every group of servers, or for none",
            )
    total = sum(group.count * group.gpus for group in groups)
    if total > MAX_GPUS:
        raise InputError(f"at most {MAX_GPUS} GPUs in all", file=file, key=key, value=total)
    return groups


def _names(entry: dict[str, Any], file: str, where: str, seen: set[str]) -> tuple[str, ...] | None:
    """The names of a group's servers, if they have any. seen: those of the groups before."""
    text, key = label_of(entry, "name", file, where), f"{where}.name"
    if text is None:
        return None
    try:
        names = hostlist.expand(text)
    except ValueError:
        raise InputError(hostlist.WANTED, file=file, key=key, value=text) from None
    wrong = hostlist.fault(names, seen)
    if wrong is not None:
        raise InputError(wrong, file=file, key=key, value=text)
    count = whole(entry, "count", file, where, default=len(names))
    if count != len(names):
        raise InputError(
            f"{count} names, since count is {count}",
            file=file,
            key=key,
            value=text,
            hint=f"it stands for {len(names)}; leave out count, or name each server",
        )
    return tuple(names)


def _cpu_memory(entry: dict[str, Any], file: str, where: str) -> tuple[int, int] | None:
    """CPU and memory of each server of a group, which names both or neither."""
    if not any(name in entry for name in BESIDE):
        return None
    cpu, memory = (whole(entry, name, file, where, least=0, most=_MOST_BESIDE) for name in BESIDE)
    return cpu, memory


def group_type(entry: dict[str, Any], file: str, where: str, declared: Mapping[str, GpuType]) -> str | None:
    """The GPU type that a group of servers names: one that the file declares or the catalogue knows."""
    name, key = label_of(entry, "gpu_type", file, where), f"{where}.gpu_type"
    if name is None:
        return None
    if "|" in name or name != name.strip():
        # The column gpu_type separates types by |, and blanks around a name do not count there.
        raise InputError("a name without | and without blanks around it", file=file, key=key, value=name)
    if name.casefold() not in declared and name.casefold() not in CATALOGUE:
        raise unknown_type(name, declared, key, file)
    return name
