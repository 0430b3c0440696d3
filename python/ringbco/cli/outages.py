"""`ringbco outages`: outages of servers, drawn at random."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ringbco.cli import inputs, one_file
from ringbco.cli.options import takes

if TYPE_CHECKING:
    from ringbco.cli.fitted import Fitted

_ROWS: Final = """
cluster
mtbf TIME: Mean time between failures of a server: 50d, 36h, 30m, 90s, or seconds.
mttr TIME: Mean time to repair: 50d, 36h, 30m, 90s, or seconds.
days DAYS: Days in which outages may begin.
out --out -o OUTAGES.parquet: The file to write: .parquet or .csv.
seed S: Random seed; the same options and seed give the same outages.
repair {exponential|lognormal}: The distribution of repair times; its mean is --mttr.
sigma NUMBER: lognormal: the standard deviation of the logarithm, from 0 (each repair takes --mttr) to 5.
  Default: 1.
start --from SECONDS: When --days begin, on the clock of submit_time; all servers are up then.
tier NAME: What fails: the groups of this tier of the cluster, whose servers go down together. Default:
  single servers.
cause TEXT: The value of the column cause. Default: no such column.
force
as_json
quiet
"""


@takes(_ROWS)
def outages(
    *,
    cluster: str,
    mtbf: str,
    mttr: str,
    days: float,
    out: Path,
    seed: int = 0,
    repair: str = "exponential",
    sigma: float | None = None,
    start: float = 0.0,
    tier: str | None = None,
    cause: str | None = None,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Draw random outages of a cluster's servers.

    Each server is up for an exponential time, then down for a random time, independently of the others. The
    last outage may end after --days. Adding servers or days keeps the outages drawn before
    (docs/outages.md#outages-at-random).

    Example: ringbco outages --cluster 32x8 --mtbf 50d --mttr 2h --days 90 --seed 0 -o outages.parquet
    """
    from ringbco.errors import UsageError
    from ringbco.run.outage_draws import figures
    from ringbco.run.outage_draws import outages as draw
    from ringbco.trace.outages import Outages

    one_file.check_table_name(out, Outages.mark(), force=force)
    machine = inputs.parse_cluster(cluster, {})
    made = draw(
        machine,
        mtbf=mtbf,
        mttr=mttr,
        days=days,
        seed=seed,
        repair=repair,
        sigma=sigma,
        start=start,
        cause=cause,
        tier=tier,
    )
    strange = [name for name in machine.server_numbers if name.isdecimal()]
    if strange and out.suffix.lower() == ".csv":
        raise UsageError(
            f"--out {out}: expected a .parquet file: server {strange[0]} has a name that looks like an index,"
            " and in a CSV file that would be the name"
        )
    made.write(out, force=force)
    found = figures(made, machine, start, days)
    if as_json:
        one_file.tell_json(found, out)
    elif not quiet:
        title = f"{made.frame.height:,} outages within {days:g} days, seed {seed}, in {out}"
        one_file.tell(title, _table(found))


def _table(found: dict[str, Any]) -> Fitted:
    from ringbco.cli.fitted import Fitted
    from ringbco.units import duration, percent

    table = Fitted("", "drawn")
    table.add_row("servers", f"{found['servers']:,}")
    table.add_row("outages", f"{found['outages']:,}")
    for name in ("mean_time_between_failures", "mean_time_to_repair"):
        time = found[name]
        table.add_row(name.replace("_", " "), "none" if time is None else duration(time))
    table.add_row("share of time down", percent(found["down_share"], 3))
    table.add_row("GPUs down on average", f"{found['mean_gpus_down']:,.2f}")
    return table
