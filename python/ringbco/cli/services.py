"""`ringbco services`: the replicas that a service wants, from a trace of its requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ringbco.cli import one_file

if TYPE_CHECKING:
    from ringbco.cli.fitted import Fitted


def services(
    *,
    requests: Annotated[
        Path,
        typer.Argument(
            metavar="REQUESTS",
            help="A request trace, Parquet or CSV: arrival (s), input_tokens, output_tokens; or TIMESTAMP,"
            " ContextTokens, GeneratedTokens.",
            show_default=False,
        ),
    ],
    gpus_per_replica: Annotated[
        int, typer.Option(metavar="N", help="GPUs of a replica, all of one server.", show_default=False)
    ],
    tokens_per_gpu: Annotated[
        float,
        typer.Option(
            metavar="T",
            help="Tokens a second that a GPU can do, input and output together.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, one_file.out("SERVICES.parquet")],
    target: Annotated[
        float, typer.Option(metavar="SHARE", help="The utilisation aimed at, > 0 and <= 1.")
    ] = 0.7,
    window: Annotated[
        str,
        typer.Option(metavar="TIME", help="Replicas change once in this time: 1h, 5m, 60s, or seconds."),
    ] = "60s",
    service: Annotated[str, typer.Option(metavar="NAME", help="The name of the service.")] = "service",
    force: one_file.Force = False,
    as_json: one_file.Json = False,
    quiet: one_file.Quiet = False,
) -> None:
    """Turn a trace of requests into the replicas that a service wants.

    In each window a service wants as many replicas as its tokens need at the target utilisation, rounded up.
    A row stands only where the number changes (docs/services.md#from-a-trace-of-requests).

    Example: ringbco services requests.csv --gpus-per-replica 4 --tokens-per-gpu 500 -o services.csv
    """
    from ringbco.study.services import counted
    from ringbco.trace.services import Services

    one_file.check_table_name(out, Services.mark(), force=force)
    made, figures = counted(
        requests,
        gpus_per_replica=gpus_per_replica,
        tokens_per_gpu=tokens_per_gpu,
        target=target,
        window=window,
        service=service,
    )
    made.save(out, force=force)
    if as_json:
        one_file.tell_json(figures, out)
    elif not quiet:
        one_file.tell(f"{figures['rows']:,} rows of service {service} in {out}", _table(figures))


def _table(found: dict[str, Any]) -> Fitted:
    from ringbco.cli.fitted import Fitted
    from ringbco.units import duration, gpu_time

    table = Fitted("", "counted")
    table.add_row("requests", f"{found['requests']:,}")
    table.add_row("from the first to the last", duration(found["last_arrival"] - found["first_arrival"]))
    table.add_row("input tokens", f"{found['input_tokens']:,}")
    table.add_row("output tokens", f"{found['output_tokens']:,}")
    table.add_row("replicas on average", f"{found['mean_replicas']:,.2f}")
    table.add_row("most replicas", f"{found['most_replicas']:,}")
    table.add_row("GPU time", gpu_time(found["gpu_hours"] * 3600.0, 1))
    return table
