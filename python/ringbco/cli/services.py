"""`ringbco services`: the replicas that a service wants, from a trace of its requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ringbco.cli import one_file
from ringbco.cli.options import takes
from ringbco.io.terminal import note

if TYPE_CHECKING:
    from ringbco.cli.fitted import Fitted

_ROWS: Final = """
requests REQUESTS: A request trace, Parquet or CSV: arrival (s), input_tokens, output_tokens; or the names of
  Azure's or BurstGPT's traces.
gpus_per_replica N: GPUs per replica, all on one server.
tokens_per_gpu T: Tokens per second that a GPU serves, input and output together.
out --out -o SERVICES.parquet: The file to write: .parquet or .csv.
target SHARE: Target utilisation, > 0 and <= 1.
window TIME: How often replicas change: 1h, 5m, 60s, or seconds.
service NAME: The name of the service.
force
as_json
quiet
"""


@takes(_ROWS)
def services(
    requests: Path,
    *,
    gpus_per_replica: int,
    tokens_per_gpu: float,
    out: Path,
    target: float = 0.7,
    window: str = "60s",
    service: str = "service",
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Convert a trace of requests to the replicas that a service needs over time.

    In each window it needs enough replicas for its tokens at the target utilisation, rounded up. The file has
    one row per change (docs/services.md#from-a-trace-of-requests).

    Example: ringbco services requests.csv --gpus-per-replica 4 --tokens-per-gpu 500 -o services.csv
    """
    from ringbco.study.services import counted
    from ringbco.trace.requests import Requests
    from ringbco.trace.services import Services

    one_file.check_table_name(out, Services.mark(), force=force)
    trace = Requests.read(requests, counted=True)
    for line in () if quiet else trace.notes:
        note(line)
    made, figures = counted(
        trace,
        gpus_per_replica=gpus_per_replica,
        tokens_per_gpu=tokens_per_gpu,
        target=target,
        window=window,
        service=service,
    )
    made.write(out, force=force)
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
