"""The servers of a Slurm cluster: from scontrol show node, or guessed from the nodes that jobs held."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Final

import polars as pl

from ringbco.cluster.groups import MAX_GPUS
from ringbco.cluster.hostlist import expand, fault
from ringbco.cluster.presets import ServerGroup
from ringbco.errors import InputError
from ringbco.sources.account import ROW
from ringbco.sources.opening import Opened
from ringbco.sources.slurm_gpus import MIG
from ringbco.sources.slurm_topology import Labels

_KEY: Final = re.compile(
    r"(?:^|\s)(NodeName|Gres|CPUTot|State|Partitions)=(.*?)(?=\s+[A-Za-z]\w*(?:\[[^]]*\])?=|\s*$)"
)
_DOWN: Final = ("DOWN", "DRAIN", "FAIL", "MAINT", "NOT_RESPONDING", "POWERED_DOWN")
_SIZES: Final = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Node:
    """A node with GPUs."""

    name: str
    gpus: int
    gpu_type: str | None
    partitions: tuple[str, ...]


@dataclass(frozen=True)
class Nodes:
    """The nodes with GPUs in their order, the names of those without, and how many are down."""

    nodes: tuple[Node, ...]
    without: frozenset[str] = frozenset()
    down: int = 0


def read_nodes(opened: Opened, count: str) -> Nodes:
    """The nodes that scontrol show node lists, with or without -o.

    count: what a server's GPUs are: gpu, or cpu or node where processors or nodes stand for them.
    """
    text = opened.path.read_text(encoding="utf-8-sig", errors="replace")
    found: dict[str, Node] = {}
    without, down = set[str](), 0
    line = 1
    for block in re.split(r"(?m)^(?=NodeName=)", text):
        begins, line = line, line + block.count("\n")
        if not block.strip():
            continue
        fields = {key: value.strip() for at in block.splitlines() for key, value in _KEY.findall(at)}
        name = fields.get("NodeName", "")
        cpus = fields.get("CPUTot", "")
        if count == "gpu":
            gpus, gpu_type = _gres(fields.get("Gres", ""), name, opened.shown, begins)
        else:
            gpus, gpu_type = 1 if count == "node" else int(cpus) if cpus.isdecimal() else 0, None
        if not gpus:
            without.add(name)
            continue
        down += any(state in fields.get("State", "").upper() for state in _DOWN)
        partitions = tuple(each for each in fields.get("Partitions", "").split(",") if each)
        if name in found:
            raise InputError("each node once", file=opened.shown, line=begins, column="NodeName", value=name)
        found[name] = Node(name, gpus, gpu_type, partitions)
    if not found:
        missing = "node with a GPU" if count == "gpu" else "node with processors (CPUTot)"
        raise InputError(f"lists no {missing}", file=opened.shown)
    if sum(node.gpus for node in found.values()) > MAX_GPUS:
        raise InputError(f"at most {MAX_GPUS} GPUs in all", file=opened.shown)
    return Nodes(tuple(found.values()), frozenset(without), down)


def _gres(text: str, name: str, shown: str, line: int) -> tuple[int, str | None]:
    """GPUs and their type in a Gres of a node, such as gpu:a100:4(S:0-1)."""
    types: dict[str | None, int] = {}
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        gpu = re.fullmatch(r"gpu(?::([^:]+))??(?::(\d+))?", item.strip())
        if gpu is not None and not re.search(MIG, gpu[1] or ""):
            types[gpu[1]] = types.get(gpu[1], 0) + int(gpu[2] or 1)
    if len(types) > 1:
        raise InputError(
            f"GPUs of one type on node {name}: a server has one type",
            file=shown,
            line=line,
            column="Gres",
            value=text,
        )
    return next(((count, kind) for kind, count in types.items()), (0, None))


def virtual_clusters(nodes: Iterable[Node]) -> dict[str, str]:
    """The virtual cluster of each partition: partitions that share a node are one, most GPUs first."""
    leader: dict[str, str] = {}
    gpus: dict[str, int] = {}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name] = leader[leader[name]]
        return name

    for node in nodes:
        for name in node.partitions:
            leader.setdefault(name, name)
            gpus[name] = gpus.get(name, 0) + node.gpus
            leader[find(name)] = find(node.partitions[0])
    members: dict[str, list[str]] = {}
    for name in leader:
        members.setdefault(find(name), []).append(name)
    return {
        name: "+".join(sorted(names, key=lambda each: (-gpus[each], each)))
        for names in members.values()
        for name in names
    }


def groups(
    nodes: Sequence[Node], vcs: Mapping[str, str], tiers: Mapping[str, Labels]
) -> tuple[ServerGroup, ...]:
    """The servers, equal neighbours together; all name a virtual cluster or none does, types likewise.

    They keep the names of the nodes, if those can name servers. tiers: the groups of each node in the
    network.
    """
    named = fault((node.name for node in nodes), set()) is None
    in_vc = all(node.partitions for node in nodes)
    typed = any(node.gpu_type for node in nodes)
    kinds = [
        (
            node.gpus,
            vcs[node.partitions[0]] if in_vc else None,
            (node.gpu_type or "unknown") if typed else None,
            tiers.get(node.name, ()),
        )
        for node in nodes
    ]
    found = []
    for (gpus, vc, kind, labels), same in groupby(zip(nodes, kinds, strict=True), key=lambda each: each[1]):
        names = tuple(node.name for node, _ in same)
        found.append(ServerGroup(len(names), gpus, vc, kind, names=names if named else None, tiers=labels))
    return tuple(found)


def guess(jobs: pl.DataFrame) -> tuple[Node, ...]:
    """Nodes from what jobs held: the most GPUs ever held at once on each, 1, 2, 4, 8 or 16."""
    known = jobs.filter(pl.col("nodelist").is_not_null(), pl.col("start_s").is_not_null())
    names = {text: expand(text) for text in known["nodelist"].unique()}
    held = known.select(
        "partition",
        "recorded_on",
        node=pl.col("nodelist").replace_strict(names, return_dtype=pl.List(pl.String)),
        gpus="num_gpus",
        begin="start_s",
        end=pl.col("start_s") + pl.col("duration"),
    )
    held = held.with_columns(pl.col("gpus") / pl.col("node").list.len()).explode("node")
    if held.is_empty():
        return ()
    changes = pl.concat(
        [
            held.select("node", time="begin", change="gpus"),
            held.select("node", time="end", change=-pl.col("gpus")),
        ]
    ).sort("node", "time", "change")
    most = changes.group_by("node").agg(pl.col("change").cum_sum().max().alias("most"))
    told = held.group_by("node").agg(
        pl.col("partition").drop_nulls().unique().sort(), pl.col("recorded_on").drop_nulls().mode().min()
    )
    rows = most.join(told, on="node").sort("node").iter_rows()
    return tuple(Node(node, _rounded(most), kind, tuple(partitions)) for node, most, partitions, kind in rows)


def _rounded(gpus: float) -> int:
    least = round(gpus, 6)
    return next((size for size in _SIZES if size >= least), -int(-least // 1))


def recorded_servers(jobs: pl.DataFrame, nodes: Sequence[Node]) -> pl.Series:
    """The servers of each job with its GPUs on each, "0:4 3:4"; null where a node or its part is unknown.

    Servers stand there by index or, where a name looks like an index, by name.
    """
    number = {node.name: at for at, node in enumerate(nodes)}
    called = list(number) if any(map(str.isdecimal, number)) else range(len(number))

    @cache
    def placed(text: str | None, gpus: int) -> str | None:
        names = expand(text) if text else []
        if not names or gpus % len(names) or any(name not in number for name in names):
            return None
        each = gpus // len(names)
        return " ".join(f"{called[server]}:{each}" for server in sorted(number[name] for name in names))

    cells = [placed(text, gpus) for text, gpus in jobs.select("nodelist", "num_gpus").iter_rows()]
    return pl.Series("recorded_servers", cells, dtype=pl.String)


def refuse_endless(rows: pl.DataFrame) -> int | None:
    """The first row whose NodeList is no hostlist; None where all can be read."""
    for text in rows["nodelist"].drop_nulls().unique(maintain_order=True):
        try:
            expand(text)
        except ValueError:
            return int(rows.filter(pl.col("nodelist") == text)[ROW][0])
    return None
