"""Counts, jobs and servers in the sentences of a job's story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

MOST_SERVERS: Final = 8
"""Servers that are named."""


def figure(count: float) -> str:
    """A number to three digits after the point, without zeros at its end."""
    return f"{count:,.3f}".rstrip("0").rstrip(".")


def some(count: float, thing: str) -> str:
    """A count with its noun."""
    return f"{figure(count)} {thing}" + ("" if count == 1 else "s")


def gpus(count: float) -> str:
    """GPUs, or a part of one."""
    return f"{figure(count)} of a GPU" if 0 < count < 1 else some(count, "GPU")


def listed(items: Sequence[str], more: int = 0) -> str:
    """Things in a row: a, b and c. more: how many there are beside."""
    items = [*items, f"{more:,} more"] if more > 0 else list(items)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def holding(holders: Sequence[Mapping[str, Any]], key: str = "name", more: int = 0) -> str:
    """Who holds how many GPUs."""
    return listed([f"{each[key]} ({figure(each['gpus'])})" for each in holders], more)


def place(servers: Sequence[int | str]) -> str:
    """Servers by name or index: the first few."""
    noun = "server" if len(servers) == 1 else "servers"
    return f"{noun} {listed([str(server) for server in servers[:MOST_SERVERS]], len(servers) - MOST_SERVERS)}"
