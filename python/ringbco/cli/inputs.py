"""What several verbs take: a job table, and a cluster with its network constants overridden."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from ringbco.cluster import Cluster
    from ringbco.jobs import JobTable


_NETWORK: Final = "Network (each overrides the cluster file)"

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


def parse_cluster(text: str, network: Mapping[str, float | None], vc: str = "split") -> Cluster:
    """The cluster that `text` names, with the network constants that are not None replaced.

    vc: "split" leaves its virtual clusters as they are, "pool" puts their servers together.
    """
    from ringbco.cluster import Cluster
    from ringbco.errors import InputError, UsageError

    if vc not in ("split", "pool"):
        raise UsageError(f"option vc: {vc!r}: expected split or pool")
    cluster = Cluster.parse(text)
    try:
        cluster = cluster.with_network(**network)
    except InputError as error:
        raise UsageError(str(error)) from None
    return cluster.pooled() if vc == "pool" else cluster


def read_table(path: Path, *, quiet: bool) -> JobTable:
    """The job table in the file, less the columns that no replay reads or carries along.

    A note on stderr when its rows are not in order of submission.
    """
    from ringbco.jobs import read_jobs

    table = read_jobs(path, without=("status", "gpu_type"))
    if not table.is_sorted and not quiet:
        print(
            f"note: {path}: rows are not in order of submit_time; jobs were submitted in that order"
            " (equal times in row order), results keep the file's order",
            file=sys.stderr,
        )
    return table


def tell_unused(policies: Sequence[str], options: Mapping[str, Any]) -> None:
    """A note for each option that was given and that none of the policies uses."""
    from ringbco.scheduling import unused

    for name in unused(policies, options):
        print(f"note: option {name}: not used by {' or '.join(policies)}", file=sys.stderr)
