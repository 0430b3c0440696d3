"""`ringbco bench`: scheduler throughput on this machine, in units of sorting the events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ringbco.cli.options import takes
from ringbco.io.json_text import json_text
from ringbco.io.terminal import say

if TYPE_CHECKING:
    from ringbco.cluster.spec import Cluster

_JOBS: Final = 1_000_000
_SEED: Final = 1
_LEAST_GPUS: Final = 10  # generated jobs take up to a tenth of the cluster

_ROWS: Final = """
jobs_path [JOBS]: A job table to replay. Default: generated jobs.
cluster SxG|C.toml|preset:NAME: The cluster. Without JOBS, jobs are generated for its GPUs and its virtual
  clusters are pooled.
jobs N>=100: Jobs to generate; not with JOBS. Default: 1,000,000.
policy NAME: A policy to measure. Repeatable. For a custom policy, such as mine.py:Class, the command also
  shows where the time goes. Default: those of docs/performance.md.
scaling --scaling/--no-scaling: Also grow jobs, servers, queue and bursts; not with JOBS or --policy. Default:
  where possible.
repeat >=1: Runs of each case; the figures are medians.
seed N>=0: Seed of the generated jobs; not with JOBS. Default: 1.
picture --png FILE: Draw the scaling curves into FILE.
json_path --json FILE: Write all figures into FILE as JSON.
force: Replace FILEs that ringbco wrote.
quiet
"""


@takes(_ROWS)
def bench(
    jobs_path: Path | None = None,
    *,
    cluster: str = "256x8",
    jobs: int | None = None,
    policy: list[str] | None = None,
    scaling: bool | None = None,
    repeat: int = 3,
    seed: int | None = None,
    picture: Path | None = None,
    json_path: Path | None = None,
    force: bool = False,
    quiet: bool = False,
) -> None:
    """Measure scheduler throughput: engine time as a multiple of sorting the events.

    The unit is one stable numpy argsort of 2N random float64 for N jobs, measured beside each replay. Without
    JOBS, the jobs are those of `generate --preset philly --gpus G --load 0.9`, with G the GPUs of --cluster.

    Example: ringbco bench --jobs 100000 --png scaling.png --json bench.json
    """
    from ringbco.cli.inputs import parse_cluster
    from ringbco.cli.progress import progress_bar
    from ringbco.errors import UsageError
    from ringbco.io import marks
    from ringbco.io.atomic import check_output, replacing
    from ringbco.study import bench as measure
    from ringbco.study.bench_cases import policy_cases, scaling_cases

    own = jobs_path is not None
    for name, value in (("jobs", jobs), ("seed", seed), ("scaling", scaling or None)):
        if own and value is not None:
            raise UsageError(f"option {name}: of generated jobs only; leave it out, or leave out {jobs_path}")
    if scaling and policy:
        raise UsageError("option scaling: it grows policies of its own; leave out --policy or --scaling")
    grown = scaling is not False and not own and not policy
    if picture is not None and not grown:
        raise UsageError("option png: there are no scaling curves with JOBS, --policy or --no-scaling")
    drawing, figures = marks.picture("bench"), marks.Mark("file of `ringbco bench --json`", measure.is_json)
    for path, mark in ((picture, drawing), (json_path, figures)):
        if path is not None:
            check_output(path, mark, force=force)
    where = parse_cluster(cluster, {})
    note = " (virtual clusters put together)" if not own and where.vc_names else ""
    where = where.pooled() if note else where  # the generated jobs' virtual clusters are others
    _check(where, cluster, jobs_path, policy or ())
    count, seed = jobs or _JOBS, _SEED if seed is None else seed
    cases = policy_cases(policy or (), count) + (scaling_cases(count, where) if grown else [])
    with progress_bar("measuring", quiet=quiet, unit="cases") as progress:
        measured = list(
            measure.run(
                cases,
                where,
                repeat=repeat,
                seed=seed,
                trace=str(jobs_path) if own else None,
                progress=progress,
            )
        )
        more: dict[str, Any] = {"cluster": cluster}
        if not own:
            more["command"] = measure.whole_command(count, where, repeat=repeat, seed=seed)
            more["small_costs"] = measure.small_costs(count, where, repeat=max(repeat, 3), seed=seed)
            more["start_up"] = measure.start_up(repeat=max(repeat, 5))
    if json_path is not None:
        text = json_text(measure.as_json(measured, **more)) + "\n"
        with replacing(json_path, figures, force=force) as file:
            file.write(text.encode())
    if picture is not None:
        from ringbco.reports.charts import png
        from ringbco.reports.scaling import scaling as curves

        with replacing(picture, drawing, force=force) as file:
            file.write(marks.signed(png(curves(measured)), "bench"))
    if not quiet:
        from ringbco.study.bench_table import show

        what = str(jobs_path) if own else f"{measure.GENERATED}, seed {seed}"
        show(measured, measure.machine(), more, f"{what}; cluster {cluster}{note}")
        for path in (picture, json_path):
            if path is not None:
                say(f"written: {path}")


def _check(cluster: Cluster, name: str, jobs_path: Path | None, policies: list[str] | tuple[()]) -> None:
    """Refuses at once what would fail only when its turn comes."""
    from ringbco.cli.inputs import read_table
    from ringbco.errors import UsageError
    from ringbco.run.options import resolve_policy
    from ringbco.run.refusals import deadline
    from ringbco.trace.recorded import AS_RECORDED

    chosen = [resolve_policy(policy) for policy in policies]
    if jobs_path is not None:
        table = read_table(jobs_path, quiet=True)
        for policy in chosen:
            deadline(table, policy)
        return
    for policy in chosen:
        if policy.is_(AS_RECORDED):
            raise UsageError(
                f"option policy: {policy.name} needs recorded starts, and generated jobs have none; bring a"
                f" job table with a recorded_start column: ringbco bench JOBS --policy {policy.name}"
            )
        if policy.is_("by deadlines"):
            raise UsageError(
                f"option policy: {policy.name} needs deadlines, and generated jobs have none; bring a job"
                f" table with a deadline column: ringbco bench JOBS --policy {policy.name}"
            )
    if cluster.num_gpus < _LEAST_GPUS:
        raise UsageError(
            f"option cluster: {name}: generated jobs need {_LEAST_GPUS} GPUs or more; bring a job table, JOBS"
        )
