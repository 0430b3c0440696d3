"""Slurm's topology.conf: the switches above nodes, or blocks of nodes, as tiers of a cluster file.

https://slurm.schedmd.com/topology.conf.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ringbco.cluster.hostlist import expand
from ringbco.errors import ABSENT, InputError, nearest

_PAIR: Final = re.compile(r'([A-Za-z]\w*)\s*=\s*("[^"]*"|[^\s"]+)(?=\s|$)')
_KEYS: Final = {
    "switchname": ("switches", "nodes", "linkspeed"),
    "blockname": ("nodes",),
    "blocksizes": (),
}
"""What may stand beside the first key of a line. LinkSpeed has no unit in Slurm, and is not read."""
_WANTED: Final = "SwitchName=, with Switches= or Nodes=, or BlockName=, with Nodes="

Labels = tuple[tuple[str, str], ...]
"""The group of a node in each tier, from the nodes up: tier and name."""


@dataclass(frozen=True)
class _Line:
    """A switch or a block: where it stands, its name, what it says is below it."""

    number: int
    kind: str
    name: str
    below: str
    names: tuple[str, ...]


class _File:
    """The lines of a topology.conf, and errors that name them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path
            ) from error
        self.lines = [self._parsed(number, line) for number, line in _logical(text)]

    def error(
        self, number: int | None, expected: str, value: object = ABSENT, hint: str | None = None
    ) -> InputError:
        """The error for a line."""
        return InputError(expected, file=self._path, line=number, value=value, hint=hint)

    def _parsed(self, number: int, line: str) -> _Line:
        pairs = _PAIR.findall(line)
        keys = [key.lower() for key, _ in pairs]
        if _PAIR.sub("", line).strip() or not keys or keys[0] not in _KEYS:
            raise self.error(number, _WANTED, line)
        values = {key: value.strip('"') for key, (_, value) in zip(keys, pairs, strict=True)}
        strange = next((key for key in keys[1:] if key not in _KEYS[keys[0]]), None)
        if strange is not None or len(values) != len(keys):
            beside = ", ".join(f"{name}=" for name in _KEYS[keys[0]]).title() or "nothing"
            raise self.error(number, f"{beside} beside {pairs[0][0]}=, each once", line)
        if keys[0] == "blocksizes":
            return _Line(number, keys[0], "", "", ())
        below = [key for key in ("switches", "nodes") if key in values]
        if len(below) != 1:
            either = "Switches= or Nodes=, one of them" if keys[0] == "switchname" else "Nodes="
            raise self.error(number, f"{either}, beside {pairs[0][0]}=", line)
        names = [self._hosts(number, values[key]) for key in (keys[0], below[0])]
        if len(names[0]) != 1:
            raise self.error(number, f"one name for {pairs[0][0]}=", values[keys[0]])
        return _Line(number, keys[0], names[0][0], below[0], tuple(names[1]))

    def _hosts(self, number: int, text: str) -> list[str]:
        try:
            names = expand(text)
        except ValueError as error:
            raise self.error(number, str(error).partition(": expected ")[2], text) from None
        if not all(names):
            raise self.error(number, "a name or a hostlist such as n[01-04]", text)
        return names


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """The lines that say something, continued ones joined, each with the number of its first."""
    begun, whole = 0, ""
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        begun = begun or number
        bare = line.partition("#")[0].rstrip()
        whole += bare.removesuffix("\\")
        if bare.endswith("\\") and number < len(lines):
            continue
        if whole.strip():
            yield begun, whole.strip()
        begun, whole = 0, ""


def read_topology(path: Path, nodes: Sequence[str], others: frozenset[str] | None) -> dict[str, Labels]:
    """The groups of each node: tiers switch1, switch2, .. from the nodes up, or block.

    nodes: the cluster's servers. others: nodes that are known and no servers. Where they are not known, None,
    nodes of the file that are no servers are passed over. Raises InputError, naming the line.
    """
    file = _File(path)
    lines = [line for line in file.lines if line.kind != "blocksizes"]
    if not lines:
        raise file.error(None, f"holds no line; expected {_WANTED}")
    mixed = next((line for line in lines if line.kind != lines[0].kind), None)
    if mixed is not None:
        raise file.error(mixed.number, "switches or blocks, not both", mixed.name)
    by_name: dict[str, _Line] = {}
    for line in lines:
        if by_name.setdefault(line.name, line) is not line:
            raise file.error(
                line.number, f"each name once; line {by_name[line.name].number} has it", line.name
            )
    parents = _parents(file, lines, by_name)
    levels = _levels(file, by_name, parents)
    known = {*nodes} | (others or frozenset())
    leaf = dict[str, str]()
    for line in (each for each in lines if each.below == "nodes"):
        for node in line.names:
            if leaf.setdefault(node, line.name) != line.name:
                what = "switch of level 1" if line.kind == "switchname" else "block"
                raise file.error(line.number, f"each node under one {what}; {leaf[node]} has it, too", node)
            if others is not None and node not in known:
                near = nearest(node, known)
                hint = f"did you mean {near}?" if near else "scontrol show node lists them"
                raise file.error(line.number, "nodes of the cluster", node, hint)
    bare = next((node for node in nodes if node not in leaf), None)
    if bare is not None:
        raise file.error(None, f"lacks {bare}: expected every node with GPUs in some Nodes=")
    return {node: _labels(leaf[node], by_name, parents, levels) for node in nodes}


def _parents(file: _File, lines: Sequence[_Line], by_name: Mapping[str, _Line]) -> dict[str, str]:
    """The switch above each, where one is."""
    parents: dict[str, str] = {}
    for line in (each for each in lines if each.below == "switches"):
        for name in line.names:
            if name not in by_name:
                near = nearest(name, by_name)
                hint = f"did you mean {near}?" if near else None
                raise file.error(line.number, "switches that have a SwitchName= of their own", name, hint)
            if parents.setdefault(name, line.name) != line.name:
                expected = f"each switch, and its nodes, under one switch; {parents[name]} has it, too"
                raise file.error(line.number, expected, name)
    return parents


def _levels(file: _File, by_name: Mapping[str, _Line], parents: Mapping[str, str]) -> dict[str, int]:
    """The level of each switch: 1 above nodes, else one more than the highest below it."""
    levels: dict[str, int] = {}
    for name, line in by_name.items():
        if line.below != "nodes":
            continue
        level, at = 1, name
        while levels.get(at, 0) < level:
            levels[at] = level
            if at not in parents:
                break
            level, at = level + 1, parents[at]
            if level > len(by_name):
                break
    # A switch from which no way leads down to nodes is in a circle, or above one.
    for name, line in by_name.items():
        seen, at = {name}, name
        while at in parents:
            at = parents[at]
            if at == name:
                raise file.error(line.number, "switches without a loop; this one is above itself", name)
            if at in seen:
                break
            seen.add(at)
    return levels


def _labels(
    leaf: str, by_name: Mapping[str, _Line], parents: Mapping[str, str], levels: Mapping[str, int]
) -> Labels:
    if by_name[leaf].kind == "blockname":
        return (("block", leaf),)
    found, at = [], leaf
    for level in range(1, max(levels.values()) + 1):
        # Where the tree has no switch of a level, the one below stands alone in it.
        while at in parents and levels[parents[at]] <= level:
            at = parents[at]
        found.append((f"switch{level}", at))
    return tuple(found)
