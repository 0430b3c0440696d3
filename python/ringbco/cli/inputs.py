"""What several verbs take: a job table, and a cluster with its network constants overridden."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringbco.cluster import Cluster
    from ringbco.jobs import JobTable


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


def read_table(path: Path, *, quiet: bool) -> JobTable:
    """The job table in the file; a note on stderr when its rows are not in order of submission."""
    from ringbco.jobs import read_jobs

    table = read_jobs(path)
    if not table.is_sorted and not quiet:
        print(
            f"note: {path}: rows are not in order of submit_time; jobs were submitted in that order"
            " (equal times in row order), results keep the file's order",
            file=sys.stderr,
        )
    return table
