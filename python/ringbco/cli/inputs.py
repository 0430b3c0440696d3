"""What several commands take: a job table, a cluster and network constants that override its own; notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ringbco.cli.options import NETWORK, shared
from ringbco.io.terminal import note
from ringbco.units import percent

if TYPE_CHECKING:
    from ringbco.cluster.spec import Cluster
    from ringbco.result.outcome import Outcome
    from ringbco.trace.jobs import JobTable


_MUCH: Final = 0.1
"""Of the GPU time that jobs hold: more spent in pauses is worth a word."""
_BY_POLICY: Final = ("preempted", "moved", "resized")
"""How stays end that the policy ends."""

Jobs = Annotated[Path, shared("jobs")]
ClusterName = Annotated[str, shared("cluster")]
VirtualClusters = Annotated[str, shared("vc")]
Json = Annotated[
    bool, typer.Option("--json", help="Print the summary as JSON and nothing else.", rich_help_panel="Output")
]


def network_of(options: dict[str, Any]) -> dict[str, float | str | None]:
    """The network's constants that were given, taken out of a command's options."""
    return {name: options.pop(name) for name in NETWORK}


def given_options(ctx: typer.Context, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that stand on the command line."""
    sources = {name: ctx.get_parameter_source(name) for name in options}
    return {
        name: value
        for name, value in options.items()
        if (source := sources[name]) is not None and source.name == "COMMANDLINE"
    }


def leave_open(ctx: typer.Context, options: dict[str, Any]) -> None:
    """Takes the model out of the options where the command line has none: the policy has a default."""
    if "model" not in given_options(ctx, options):
        options.pop("model", None)


def followed_inputs(
    policy: str, jobs: Path | None, cluster: str | None
) -> tuple[Path | None, Cluster | str | None]:
    """JOBS and the cluster; where they are not given, those of the run whose log the policy names."""
    from ringbco.result.folder import cluster_of, read_run
    from ringbco.run.again import trace_of
    from ringbco.run.from_log import folder_of
    from ringbco.run.options import is_log

    folder = folder_of(policy) if is_log(policy) else None
    if folder is None:
        return jobs, cluster
    return jobs or trace_of(folder), cluster or cluster_of(read_run(folder))


def parse_cluster(
    cluster: Cluster | str,
    network: Mapping[str, float | str | None],
    vc: str = "split",
    recorded: str | None = None,
) -> Cluster:
    """The cluster, or the one that a text names, with the network constants that are not None replaced.

    vc: "split" leaves its virtual clusters as they are, "pool" puts their servers together. recorded: the
    cluster on which the trace was recorded; None leaves what the cluster says itself.
    """
    from ringbco.cluster.spec import Cluster
    from ringbco.errors import InputError, UsageError

    if vc not in ("split", "pool"):
        raise UsageError(f"option vc: {vc!r}: expected split or pool")
    if isinstance(cluster, str):
        cluster = Cluster.parse(cluster)
    if recorded is not None:
        cluster = cluster.with_recorded(_parse_recorded(recorded))
    try:
        cluster = cluster.with_network(**network)
    except InputError as error:
        raise UsageError(str(error)) from None
    return cluster.pooled() if vc == "pool" else cluster


def _parse_recorded(text: str) -> Cluster:
    """What --recorded-cluster names; its errors say so where they name no file."""
    from ringbco.cluster.spec import Cluster
    from ringbco.errors import InputError

    try:
        return Cluster.parse(text)
    except InputError as error:
        if error.file is not None:
            raise
        raise InputError(error.expected, key="recorded-cluster", value=error.value, hint=error.hint) from None


def read_table(path: Path, *, quiet: bool) -> JobTable:
    """The job table in the file, less the columns that no replay reads or carries along.

    A note on stderr when its rows are not in order of submission.
    """
    from ringbco.trace.jobs import UNREAD, read_jobs

    table = read_jobs(path, without=UNREAD)
    tell_left_out(table, quiet=quiet)
    if not table.is_sorted and not quiet:
        note(
            f"{path}: rows are not in order of submit_time; jobs were submitted in that order"
            " (equal times in row order), results keep the file's order"
        )
    return table


def tell_left_out(table: JobTable, *, quiet: bool) -> None:
    """A note on stderr for what of a file is in no column of its table."""
    for line in () if quiet else table.notes:
        note(line)


def fields(policy: str, given: Sequence[str] | None, length: str | None = None) -> dict[str, str]:
    """What -P and --round say of a policy, by name.

    Raises UsageError for one without "=", for a name that is given twice, and for a round of a policy that
    has no fields.
    """
    from ringbco.errors import UsageError
    from ringbco.run.custom_policy import is_custom

    if length is not None and not is_custom(policy):
        raise UsageError(f"option round: {length}: expected none beside {policy}: gavel and sia have rounds")

    return named_values((*(given or ()), *([] if length is None else [f"round={length}"])))


def named_values(given: Sequence[str] | None) -> dict[str, str]:
    """The values of -P by name. Raises UsageError for one without "=" and for a name that is given twice."""
    from ringbco.errors import UsageError

    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name or name in found:
            raise UsageError(f"option P: {text}: expected NAME=VALUE, each name once")
        found[name] = value
    return found


def tell_unused(policies: Mapping[str, str], options: Mapping[str, Any]) -> None:
    """A note for each option that was given and that none of the policies uses. policies: by name."""
    from ringbco.run.refusals import unused

    note_unused(unused(list(policies.values()), options), list(policies))
    if (
        options.get("evict_after")
        and options.get("services")
        and not (options.get("evict") or options.get("quota"))
    ):
        note("option evict_after: services do not wait; no job evicts without --evict or --quota")


def tell_rigid(policies: Mapping[str, str], table: JobTable) -> None:
    """A note where elastic jobs run on just num_gpus GPUs under some of the policies."""
    from ringbco.run.refusals import rigid

    line = rigid(policies, table)
    if line is not None:
        note(line)


def tell_pauses(policy: str, outcome: Outcome) -> None:
    """A note where pauses take more than a tenth of the GPU time that jobs hold."""
    from ringbco.result.metrics import paused_share

    share = paused_share(outcome.jobs)
    if share <= _MUCH:
        return
    where = "pauses"
    if "saving" in outcome.stays.columns:
        where, mend = "pauses and checkpoints", "save less often (--checkpoint-interval)"
    elif outcome.stays["ended"].is_in(_BY_POLICY).any():
        mend = (
            "let it decide less often (--interval, --quantum), or compare it with a policy that stops no job"
        )
    else:
        mend = "they follow failures, evictions and rungs (--preempt-cost), or come first (--start-cost)"
    note(f"{policy}: {percent(share, 0)} of the GPU time that jobs held went by in {where}: {mend}")


def tell_stopped(policy: str, outcome: Outcome, table: JobTable) -> None:
    """A note where jobs with `preemptible = false` were stopped all the same."""
    from ringbco.run.refusals import stopped

    line = stopped(policy, outcome, table)
    if line is not None:
        note(line)


def tell_outside(policy: str, outcome: Outcome, table: JobTable) -> None:
    """A note where a record put jobs outside their tiers."""
    from ringbco.run.refusals import outside

    line = outside(policy, outcome, table)
    if line is not None:
        note(line)


def tell_late(policy: str, outcome: Outcome) -> None:
    """A note where jobs started later than in their log."""
    from ringbco.units import duration

    late, job = outcome.summary.get("late_jobs", 0), outcome.summary.get("latest_job")
    if late:
        worst = duration(outcome.summary["worst_lateness"])
        note(f"{policy}: {late:,} job{'s'[: late != 1]} started later than recorded, {job} by {worst}")


def tell_run(policy: str, outcome: Outcome, table: JobTable) -> None:
    """The notes on one run."""
    tell_rigid({policy: policy}, table)
    tell_pauses(policy, outcome)
    tell_stopped(policy, outcome, table)
    tell_outside(policy, outcome, table)
    tell_late(policy, outcome)


def note_unused(options: Iterable[str], policies: Sequence[str]) -> None:
    """The note for each of the options."""
    for name in options:
        note(f"option {name}: not used by {' or '.join(policies)}")


def tell_undrawn() -> None:
    """A note where a page has no charts."""
    from ringbco.reports.drawing import undrawn

    if undrawn:
        note(f"{undrawn[0]}; the page was written without")
