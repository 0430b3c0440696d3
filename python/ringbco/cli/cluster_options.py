"""The options that every verb with a cluster has: the cluster, and its network's constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from ringbco.cluster import Cluster as Machine

_NETWORK: Final = "Network (each overrides the cluster file)"

Cluster = Annotated[
    str,
    typer.Option(
        metavar="SxG|C.toml|preset:NAME",
        help="S servers of G GPUs such as 32x8, a cluster file, or the preset of a real cluster.",
    ),
]
IntraBandwidth = Annotated[
    float | None,
    typer.Option(
        help="b_i, bytes/s between GPUs of one server. Default 150e9: a V100's NVLink 2.0, one way.",
        rich_help_panel=_NETWORK,
    ),
]
InterBandwidth = Annotated[
    float | None,
    typer.Option(
        help="b_e, bytes/s between servers. Default 12.5e9: one 100 Gb/s port a server.",
        rich_help_panel=_NETWORK,
    ),
]
ReduceSpeed = Annotated[
    float | None,
    typer.Option(
        help="C, bytes/s of gradients summed. Default 500e9: a sum is bound by memory, and this is"
        " about half of a V100's 900 GB/s.",
        rich_help_panel=_NETWORK,
    ),
]
Xi1 = Annotated[
    float | None,
    typer.Option(
        help="Share of the spanning jobs on a server that contend at once, in (0, 1]. Default 0.5: jobs"
        " compute half of the time, so two on a server do not yet meet.",
        rich_help_panel=_NETWORK,
    ),
]
Xi2 = Annotated[
    float | None,
    typer.Option(
        help="Overhead of an iteration, seconds per server used. Default 5e-4: half a millisecond to set"
        " up and synchronise a server's connections.",
        rich_help_panel=_NETWORK,
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(
        help="Loss beyond fair sharing: k contenders get 1 / (k + alpha (k - 1)) of b_e each, >= 0."
        " Default 0.3: a second contender costs 30 % more than its fair share.",
        rich_help_panel=_NETWORK,
    ),
]


def parse(cluster: str, **overrides: float | None) -> Machine:
    """The cluster named, with those network constants that are given. UsageError if one is out of range."""
    from ringbco.cluster import Cluster as Described
    from ringbco.errors import InputError, UsageError

    machine = Described.parse(cluster)
    try:
        return machine.with_network(**{n: value for n, value in overrides.items() if value is not None})
    except InputError as error:
        raise UsageError(str(error)) from None
