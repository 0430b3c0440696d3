"""`ringbco generate`: a synthetic job table shaped like a real cluster's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import typer

from ringbco.cli import one_file
from ringbco.cli.options import takes
from ringbco.io.terminal import say_json

_ROWS: Final = """
preset {philly|helios|llm|paper|requests}: The shape: sizes, run times, cycles and bursts of Philly or Helios,
  language models as in Acme's Kalos, or the paper's experiment; or requests to a service.
jobs N: Number of jobs. Needed but for requests.
out --out -o JOBS.parquet: The job table to write: .parquet (how it was made is in its footer) or .csv; or the
  table of requests.
seed S: Random seed; the same options and seed give the same bytes.
gpus GPUS: GPUs of the cluster that --load refers to; no job requests more than a tenth, under llm half. Not
  for paper or requests.
load SHARE: Offered load: GPU-seconds requested / (GPUs x seconds from first to last submission). Not for
  paper, which submits all jobs at 0, or requests.
types TYPE:SHARE,...: Shares of jobs that request a GPU type, such as V100:0.5,A100:0.3, or one of several:
  'V100|T4:0.2'. The others run on any type. Default: no job requests a type.
elastic LOW:HIGH: Let jobs hold from LOW to HIGH times num_gpus, such as 0.5:2, with noise scales from a
  catalogue. Default: all jobs are rigid.
elastic_share
predictions sigma=S: Add a column predicted: the duration times a lognormal factor whose logarithm has
  standard deviation S, for --predict column:predicted or --estimate column:predicted. Default: no such
  column.
[For --preset requests]
requests N: Number of requests.
lengths {azure-conv|azure-code}: The trace whose input and output tokens the requests have: Azure's
  conversations or code, 2023.
rate R: Requests per second on average. Default: those of that trace, 5.53 or 2.57.
arrivals poisson|bursts|cv=X: Gaps between requests: of a Poisson process, as variable as in that trace, or
  with this standard deviation / mean.
by_day --by-day: Let the rate follow the hours of a week, from Monday midnight. Default: a constant rate.
service NAME: Add a column service with this name. Default: no such column.
[Options]
force
as_json --json: Print the table's figures as JSON and nothing else.
quiet
"""

_REQUESTS: Final = "requests"
_DEFAULTS: Final = {
    "gpus": 2048,
    "load": 0.9,
    "lengths": "azure-conv",
    "arrivals": "poisson",
    "by_day": False,
}


@takes(_ROWS)
def generate(
    ctx: typer.Context,
    *,
    preset: str,
    jobs: int | None = None,
    out: Path,
    seed: int = 0,
    gpus: int = 2048,
    load: float = 0.9,
    types: str | None = None,
    elastic: str | None = None,
    elastic_share: float | None = None,
    predictions: str | None = None,
    requests: int | None = None,
    lengths: str = "azure-conv",
    rate: float | None = None,
    arrivals: str = "poisson",
    by_day: bool = False,
    service: str | None = None,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Make a synthetic job table with the shape of a real cluster's jobs, or requests to a service.

    Each job has a user and a virtual cluster. Times are whole seconds from the first submission, at midnight
    on a Monday. A million jobs take a few seconds. Requests have an arrival and input and output tokens.

    Example: ringbco generate --preset philly --jobs 100000 --seed 1 -o jobs.parquet
    """
    from ringbco.cli.command import require
    from ringbco.errors import UsageError, nearest
    from ringbco.io.marks import table as table_mark
    from ringbco.trace.elastic import SHARE
    from ringbco.trace.jobs import GENERATED, write_jobs
    from ringbco.trace.synthetic import PRESETS
    from ringbco.trace.synthetic import generate as make

    of_requests = {
        "lengths": lengths,
        "rate": rate,
        "arrivals": arrivals,
        "by_day": by_day,
        "service": service,
    }
    if preset == _REQUESTS:
        of_jobs = {"jobs": jobs, "gpus": gpus, "load": load, "types": types, "elastic": elastic}
        of_jobs |= {"elastic_share": elastic_share, "predictions": predictions}
        _refuse_others(of_jobs, f"with --preset {_REQUESTS}")
        require(ctx, requests=requests)
        assert requests is not None
        _generate_requests(out, requests, seed, of_requests, force=force, as_json=as_json, quiet=quiet)
        return
    if preset not in PRESETS and nearest(preset, (_REQUESTS,)):
        told = f"expected one of {', '.join(PRESETS)}, {_REQUESTS}; did you mean {_REQUESTS}?"
        raise UsageError(f"preset {preset!r}: {told}")
    _refuse_others({"requests": requests, **of_requests}, f"without --preset {_REQUESTS}")
    require(ctx, jobs=jobs)
    assert jobs is not None
    one_file.check_table_name(out, table_mark("job table", GENERATED), force=force)
    if elastic is None and elastic_share is not None:
        raise UsageError("option elastic-share: it means nothing without --elastic LOW:HIGH")
    table = make(
        preset,
        jobs,
        seed,
        gpus=gpus,
        load=load,
        types=_shares(types),
        elastic=elastic,
        elastic_share=SHARE if elastic_share is None else elastic_share,
        predictions=predictions,
    )
    write_jobs(table, out, force=force)
    if quiet and not as_json:
        return

    from ringbco.cli.inspect import tables
    from ringbco.study.inspection import inspect_jobs

    inspection = inspect_jobs(table)
    if as_json:
        say_json(inspection)
    else:
        title = f"{table.num_jobs:,} jobs of preset {preset}, seed {seed}, in {out}"
        one_file.tell(title, tables(inspection, brief=True))


def _refuse_others(options: Mapping[str, object], where: str) -> None:
    """Raises UsageError for an option that does not hold there."""
    from ringbco.errors import UsageError

    for name, value in options.items():
        if value != _DEFAULTS.get(name):
            raise UsageError(f"option {name.replace('_', '-')}: it means nothing {where}")


def _generate_requests(
    out: Path,
    number: int,
    seed: int,
    options: dict[str, Any],
    *,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from ringbco.trace.requests import Requests
    from ringbco.trace.synthetic_requests import generate_requests

    one_file.check_table_name(out, Requests.mark(), force=force)
    table = generate_requests(number, seed, **options)
    table.write(out, force=force)
    if quiet and not as_json:
        return

    from ringbco.cli.inspect_requests import tables
    from ringbco.study.requests import inspect_requests

    figures = inspect_requests(table)
    if as_json:
        say_json(figures)
    else:
        one_file.tell(
            f"{number:,} requests of preset {_REQUESTS}, seed {seed}, in {out}", tables(figures, brief=True)
        )


def _shares(text: str | None) -> dict[str, float]:
    """What --types says: name -> share. Raises UsageError for what is not TYPE:SHARE, or a type twice."""
    from ringbco.errors import UsageError

    shares: dict[str, float] = {}
    for entry in text.split(",") if text is not None else ():
        name, _, share = entry.rpartition(":")
        try:
            number = float(share)
        except ValueError:
            number = math.nan
            if _is_share(name):
                raise UsageError(
                    f"option types: {entry!r}: the wrong way round, expected TYPE:SHARE: {share}:{name}"
                ) from None
        if not name.strip() or math.isnan(number):
            raise UsageError(f"option types: {entry!r}: expected TYPE:SHARE,..., such as V100:0.5,A100:0.3")
        if name.strip() in shares:
            raise UsageError(f"option types: {name.strip()} is given twice")
        shares[name.strip()] = number
    return shares


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False
