"""What several verbs take: options, a job table, a cluster with its network constants overridden."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ringbco.cli.completion import offer

if TYPE_CHECKING:
    from ringbco.cluster import Cluster
    from ringbco.jobs import JobTable


_POLICY: Final = "Policy"
_EXECUTION: Final = "Execution"
_OUTPUT: Final = "Output"

# Not `readable`: who reads a file says so in the form, and with the status, of bad input.
Jobs = Annotated[Path, typer.Argument(metavar="JOBS", help="The job table, Parquet or CSV.", readable=False)]
ClusterName = Annotated[
    str,
    typer.Option(
        metavar="SxG|C.toml|preset:NAME",
        help="S servers of G GPUs such as 32x8, a cluster file, or the preset of a real cluster.",
    ),
]
ResultFolder = Annotated[
    Path,
    typer.Option("--out", "-o", metavar="DIR", help="The result folder to make.", rich_help_panel=_OUTPUT),
]
Variant = Annotated[
    str,
    typer.Option(
        help="Reading of FA-FFP and LBSGF: practical (the paper's prose) or literal (its listings).",
        rich_help_panel=_POLICY,
        metavar="practical|literal",
        autocompletion=offer("practical", "literal"),
    ),
]
Lambda = Annotated[
    float,
    typer.Option(
        "--lambda",
        help="LBSGF looks at the least busy servers with this many times the gang's GPUs; >= 1.",
        rich_help_panel=_POLICY,
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="rar: ring-all-reduce with contention; fixed: every job runs its recorded duration.",
        rich_help_panel=_EXECUTION,
        metavar="rar|fixed",
        autocompletion=offer("rar", "fixed"),
    ),
]
Oversize = Annotated[
    str,
    typer.Option(
        help="A job larger than its cluster is an error, or (drop) left out and counted.",
        rich_help_panel=_EXECUTION,
        metavar="error|drop",
        autocompletion=offer("error", "drop"),
    ),
]
Sample = Annotated[
    float | None,
    typer.Option(
        help="Seconds between the timeline's points. Default: 2,000 points over the run.",
        rich_help_panel=_OUTPUT,
    ),
]
Allocations = Annotated[
    bool,
    typer.Option(
        "--allocations/--no-allocations",
        help="Record which servers each job held (audit needs it).",
        rich_help_panel=_OUTPUT,
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace an earlier result in DIR.", rich_help_panel=_OUTPUT)
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print the summary as JSON and nothing else.", rich_help_panel=_OUTPUT),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=_OUTPUT)
]

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


@contextmanager
def no_raw_trace(path: Path) -> Iterator[None]:
    """Where a job table cannot be read because it is a public trace as published: how to convert it."""
    from ringbco.errors import InputError

    try:
        yield
    except InputError:
        from ringbco.sources import recognise

        raw = recognise(path)
        if raw is None:
            raise
        source, what = raw
        raise InputError(
            f"is {what}, not a job table yet",
            file=path,
            hint=f"convert it first: `ringbco convert {source} {path} -o jobs.parquet`",
        ) from None


def read_table(path: Path, *, quiet: bool) -> JobTable:
    """The job table in the file, less the columns that no replay reads or carries along.

    A note on stderr when its rows are not in order of submission.
    """
    from ringbco.jobs import read_jobs

    with no_raw_trace(path):
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

    note_unused(unused(policies, options), policies)


def note_unused(options: Iterable[str], policies: Sequence[str]) -> None:
    """The note for each of the options."""
    for name in options:
        print(f"note: option {name}: not used by {' or '.join(policies)}", file=sys.stderr)
