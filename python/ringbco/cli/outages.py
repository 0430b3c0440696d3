"""`ringbco outages`: outages of servers, drawn at random."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ringbco.cli import inputs, one_file
from ringbco.cli.completion import offer

if TYPE_CHECKING:
    from ringbco.cli.fitted import Fitted


def outages(
    *,
    cluster: inputs.ClusterName,
    mtbf: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Mean time that a server is up before it fails: 50d, 36h, 30m, 90s, or seconds.",
            show_default=False,
        ),
    ],
    mttr: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Mean time that it is down: 50d, 36h, 30m, 90s, or seconds.",
            show_default=False,
        ),
    ],
    days: Annotated[
        float,
        typer.Option(metavar="DAYS", help="Days within which outages begin.", show_default=False),
    ],
    out: Annotated[Path, one_file.out("OUTAGES.parquet")],
    seed: Annotated[
        int, typer.Option(metavar="S", help="The same options and seed give the same outages.")
    ] = 0,
    repair: Annotated[
        str,
        typer.Option(
            metavar="exponential|lognormal",
            autocompletion=offer("exponential", "lognormal"),
            help="The distribution of the time that a server is down, of mean --mttr.",
        ),
    ] = "exponential",
    sigma: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="lognormal: the standard deviation of the logarithm, from 0 (each repair takes --mttr)"
            " to 5. Default: 1.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        float,
        typer.Option(
            "--from",
            metavar="SECONDS",
            help="When the days begin, on the clock of submit_time; all servers are up then.",
        ),
    ] = 0.0,
    cause: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="What the column cause says of each outage. Default: the file has no such column.",
            show_default=False,
        ),
    ] = None,
    force: one_file.Force = False,
    as_json: one_file.Json = False,
    quiet: one_file.Quiet = False,
) -> None:
    """Draw outages of a cluster's servers at random.

    A server stays up for an exponential time, is down for a random time, and so on, each independently of the
    others. Outages begin within --days; the last may end later. More servers, or more days, leave those that
    were there as they are (docs/outages.md#outages-at-random).

    Example: ringbco outages --cluster 32x8 --mtbf 50d --mttr 2h --days 90 --seed 0 -o outages.parquet
    """
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
    )
    made.save(out, force=force)
    found = figures(made, machine, start, days)
    if as_json:
        one_file.tell_json(found, out)
    elif not quiet:
        title = f"{made.frame.height:,} outages within {days:g} days, seed {seed}, in {out}"
        one_file.tell(title, _table(found))


def _table(found: dict[str, Any]) -> Fitted:
    from ringbco.cli.fitted import Fitted
    from ringbco.units import duration

    table = Fitted("", "drawn")
    table.add_row("servers", f"{found['servers']:,}")
    table.add_row("outages", f"{found['outages']:,}")
    for name in ("mean_time_between_failures", "mean_time_to_repair"):
        time = found[name]
        table.add_row(name.replace("_", " "), "none" if time is None else duration(time))
    table.add_row("share of time down", f"{found['down_share']:.3%}")
    table.add_row("GPUs down on average", f"{found['mean_gpus_down']:,.2f}")
    return table
