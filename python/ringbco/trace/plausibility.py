"""What is allowed and yet unlike any public trace or network: most often a value in another unit.

The bounds are far beyond what has been published, so that a what-if is free and a slip of a thousand shows
(docs/cluster.md and docs/job-table.md give the reasons).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from ringbco.errors import RingbcoWarning, show_value
from ringbco.trace.epoch import late_deadlines
from ringbco.units import duration

if TYPE_CHECKING:
    import polars as pl

    from ringbco.cluster.network import Network
    from ringbco.cluster.spec import Cluster
    from ringbco.trace.jobs import JobTable

SLOWEST: Final = 1e6
"""Bytes/s. A hundredth of 1 Gb/s Ethernet, the slowest network of a public GPU cluster, is 1.25e6."""
FASTEST: Final = 1e14
"""Bytes/s. NVLink 5 moves 1.8e12 and the memory of a B200 8e12."""
MOST_XI2: Final = 0.1
"""Seconds per server and iteration. Setting up a collective takes from microseconds to milliseconds."""
MOST_ALPHA: Final = 10.0
"""A second contender that costs ten times its fair share; measured losses are below one."""
LONGEST_SPAN: Final = 5 * 365 * 86_400.0
"""Seconds. Public GPU traces last up to half a year, the longest logs of the Parallel Workloads Archive
three and a half."""
LATEST: Final = 1e11
"""Seconds: the year 5138 on the Unix clock, which counted in milliseconds is at 1.7e12."""
LONGEST_RUN: Final = 365 * 86_400.0
"""Seconds. The longest runs of the public traces last some months."""
LONGEST_MEDIAN_RUN: Final = 7 * 86_400.0
"""Seconds. The median run of every public trace is shorter than a day."""
MILLI: Final = 1e-3

_SPEEDS: Final = {
    "intra_bandwidth": "a link between GPUs of one server",
    "inter_bandwidth": "a network of a GPU cluster",
    "reduce_speed": "a GPU that sums gradients",
}
_STEP: Final = r"^\d+([_+]\d+)?\.(batch|extern|interactive|TBD|\d+(\+\d+)?)$"
_REST: Final = r"^\d+_\[.*\]$"
_silent: ContextVar[bool] = ContextVar("silent", default=False)


def warnings_of(table: JobTable | None, cluster: Cluster | None) -> list[str]:
    """One line for each thing that is unlike any public trace or network; an empty list if all is well."""
    found: list[str] = []
    if cluster is not None:
        found += _of_network(cluster.network, "network")
        if cluster.recorded is not None:
            found += _of_network(cluster.recorded.network, "recorded")
    return found + ([] if table is None else [*_of_times(table), *late_deadlines(table)])


def slurm_parts(ids: pl.Series) -> list[str]:
    """One line for the job_ids that are parts of Slurm jobs, and one for what is left of its arrays."""
    steps = ids.filter(ids.str.contains(_STEP))
    # 1.0 is a step only beside its job: where all ids have a point, they were numbers once.
    jobs = steps.str.replace(r"\.[^.]*$", "")
    steps = steps.filter(steps.str.contains(r"[a-zA-Z]$") | jobs.is_in(ids.implode()))
    rest = ids.filter(ids.str.contains(_REST))
    lines, of = [], f"of {ids.len():,} job_ids"
    if steps.len():
        are = "is a step of a Slurm job" if steps.len() == 1 else "are steps of Slurm jobs"
        lines.append(
            f"{steps.len():,} {of} {are}, such as {show_value(steps[0])}: parts of a job, which count its"
            " GPUs again; `ringbco convert slurm` reads the log of sacct without them"
        )
    if rest.len():
        are = "is the rest of a Slurm job array" if rest.len() == 1 else "are rests of Slurm job arrays"
        lines.append(
            f"{rest.len():,} {of} {are}, such as {show_value(rest[0])}, which stands for jobs that never"
            " started; leave out rows whose JobID has a bracket"
        )
    return lines


def warn(lines: Iterable[str], *, within: int = 0) -> None:
    """Tells each line as a RingbcoWarning, unless `silently` holds.

    The warning names the line that called the caller; within: so many calls of ours further up.
    """
    if not _silent.get():
        for line in lines:
            warnings.warn(line, RingbcoWarning, stacklevel=3 + within)


@contextmanager
def silently() -> Iterator[None]:
    """Where runs are parts of something that gives the warnings itself, once. Holds in this thread."""
    before = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(before)


def _of_network(network: Network, where: str) -> Iterator[str]:
    for name, what in _SPEEDS.items():
        value = getattr(network, name)
        if not SLOWEST <= value <= FASTEST:
            end = "slower" if value < SLOWEST else "faster"
            yield (
                f"{where}.{name}: {show_value(value)} bytes/s is {end} than {what} has ever been;"
                " is it in another unit? Write 100Gb/s for bits, 12.5GB/s for bytes"
            )
    if network.xi2 > MOST_XI2:
        yield (
            f"{where}.xi2: {show_value(network.xi2)} s per server and iteration is more than any network"
            " takes; is it in another unit? Half a millisecond is 5e-4"
        )
    if network.alpha > MOST_ALPHA:
        yield (
            f"{where}.alpha: {show_value(network.alpha)} is a loss beyond any that was measured;"
            " is it a percentage? 30 % is 0.3"
        )


def _of_times(table: JobTable) -> Iterator[str]:
    submit, run = table.frame["submit_time"], table.frame["duration"]
    first, last, longest = (float(value) for value in (submit.min(), submit.max(), run.max()))  # type: ignore[arg-type]
    said = f"{table.source}: column"
    if last - first > LONGEST_SPAN:
        yield (
            f"{said} submit_time: submissions over {duration(last - first)} are longer than any public"
            f" trace; is it in milliseconds? Then they are over {duration((last - first) * MILLI)}"
        )
    elif last > LATEST:
        yield (
            f"{said} submit_time: {show_value(last)} s is beyond any date; is it in milliseconds?"
            f" Then submissions are over {duration((last - first) * MILLI)}, not {duration(last - first)}"
        )
    if longest > LONGEST_RUN:
        yield (
            f"{said} duration: a run of {duration(longest)} is longer than in any public trace; is it in"
            f" milliseconds? Then it is {duration(longest * MILLI)}"
        )
        return
    # Counted, since a median of a million rows would take longer than all of the rest.
    if 2 * int((run > LONGEST_MEDIAN_RUN).sum()) > run.len():
        median = float(run.median())  # type: ignore[arg-type]
        yield (
            f"{said} duration: a median run of {duration(median)} is longer than in any public trace;"
            f" is it in milliseconds? Then it is {duration(median * MILLI)}"
        )
