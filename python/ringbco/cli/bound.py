"""`ringbco bound`: how low the mean completion time of a job table on a cluster can be at best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ringbco.cli import inputs
from ringbco.cli.options import takes
from ringbco.io.terminal import say, say_json
from ringbco.run.bound_options import OPTIONS

if TYPE_CHECKING:
    from ringbco.cli.fitted import Fitted
    from ringbco.result.bound import Bound

_TERMS: Final = {
    "run_times": "run times alone, without waiting",
    "srpt": "shortest remaining work first on pooled GPUs",
    "busy": "mean busy times on pooled GPUs",
    "prices": "prices of GPUs over time",
}

_ROWS: Final = """
jobs
cluster
tight: Look for prices of GPUs over time as well, and print the greater bound. Takes seconds.
certificate FILE.json: With --tight: the file to write the prices to; `ringbco audit` checks that they prove
  the bound.
force
recorded_cluster
*
vc
*Network
*Output
[Output]
units
as_json --json: Print the summary as JSON and nothing else.
"""


@takes(_ROWS, OPTIONS)
def bound(
    jobs: Path,
    *,
    cluster: str,
    tight: bool = False,
    certificate: Path | None = None,
    force: bool = False,
    recorded_cluster: str | None = None,
    vc: str = "split",
    units: str = "human",
    as_json: bool = False,
    **options: Any,
) -> None:
    """Compute a lower bound on the mean completion time of JOBS on a cluster, under any policy.

    The bound is proven (docs/bound.md); the optimum may lie above it, never below. Compare it with the mean
    of a replay with the same options: `ringbco compare --all` and `ringbco report` show the ratio. Options
    that can only make a schedule worse, such as --quota, --outages or --clock slot, are accepted and change
    nothing.

    Here, elastic jobs (min_gpus, max_gpus) may hold any number of GPUs in their range. `compare` and `report`
    use the bound of jobs that hold num_gpus, which is never lower, where no job was resized.

    --tight prices GPUs over time: each job buys its cheapest seconds. Any prices prove a bound.

    Example: ringbco bound jobs.parquet --cluster 32x8 --tight --certificate bound.json
    """
    from ringbco.run.bound import bound as run
    from ringbco.run.options import read_numbers
    from ringbco.units import check_units, duration, shown_in

    check_units(units)
    if certificate is not None:
        _check_certificate(certificate, options, tight=tight, force=force)
    machine = inputs.parse_cluster(cluster, inputs.network_of(options), vc, recorded_cluster)
    options["thresholds"] = read_numbers(OPTIONS["thresholds"], options["thresholds"])
    table = inputs.read_table(jobs, quiet=True)
    inputs.tell_left_out(table, quiet=as_json)
    found = run(table, machine, tight=tight, **options)
    if certificate is not None:
        _write_certificate(certificate, found, force=force)
    if as_json:
        say_json(found.to_dict())
        return
    from ringbco.io.console import Console

    console = Console()
    with shown_in(units):
        left_out = f", {found.dropped:,} left out as too large" if found.dropped else ""
        title = f"{jobs.name} on {machine.name}: {found.jobs:,} jobs{left_out}"
        lines = [
            title,
            f"mean completion time of any schedule: at least {duration(found.mean_jct, down=True)}",
        ]
        told = duration(found.mean_delay, down=True)
        lines.append(f"mean delay, beyond the shortest run times: at least {told}")
        if found.elastic:
            ranges = "may hold min_gpus to max_gpus GPUs here, and num_gpus in the bound of `ringbco compare`"
            lines.append(f"elastic jobs: {found.elastic:,}; each {ranges}")
        for line in lines:
            say(line)
        for part in _tables(found):
            console.print(part)


def _check_certificate(path: Path, options: dict[str, Any], *, tight: bool, force: bool) -> None:
    """Refuses before the work what could not be written after it."""
    from ringbco.errors import UsageError
    from ringbco.io.atomic import check_output
    from ringbco.io.marks import CERTIFICATE

    if not tight:
        raise UsageError(f"option certificate: {str(path)!r}: expected it together with --tight")
    if options.get("tables") is not None:
        raise UsageError(f"option certificate: {str(path)!r}: expected no --tables, which it does not hold")
    check_output(path, CERTIFICATE, force=force)


def _write_certificate(path: Path, found: Bound, *, force: bool) -> None:
    from ringbco.io.atomic import replacing
    from ringbco.io.json_text import json_text
    from ringbco.io.marks import CERTIFICATE

    with replacing(path, CERTIFICATE, force=force) as file:
        file.write(json_text(found.certificate, indent=None).encode())


def _tables(found: Bound) -> list[Fitted]:
    from ringbco.cli.fitted import Fitted
    from ringbco.units import duration

    terms = Fitted("what the bound follows from", "sets", "jobs")
    for term in found.sets:
        told = _TERMS[term]
        terms.add_row(told, f"{found.sets[term]:,}", f"{found.set_jobs[term]:,}")
    if not found.vcs:
        return [terms]
    vcs = Fitted("virtual cluster", "jobs", "mean completion time, at least")
    for vc, part in found.vcs.items():
        vcs.add_row(vc, f"{part.jobs:,}", duration(part.mean_jct, down=True))
    return [terms, vcs]
