"""The results that a report shows, each under a label of its own."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ringbco.errors import InputError, UsageError, show_path
from ringbco.reports.soundness import check_drawable
from ringbco.result.outcome import Outcome

_COMPARISON: Final = "comparison.json"


def read_results(folders: Sequence[str | os.PathLike[str]]) -> dict[str, Outcome]:
    """The outcomes in `folders`, in order, by label; a folder of `ringbco compare` stands for its results.

    A label is the folder's name, with as many of its parents' as it takes to tell it from the others.

    Raises InputError for what is no result folder or cannot be drawn, UsageError for a folder given twice.
    """
    paths = [path for folder in folders for path in _results_in(Path(folder))]
    resolved = [Path(os.path.realpath(path)) for path in paths]  # resolve() raises where links go round
    for path, place in zip(paths, resolved, strict=True):
        if resolved.count(place) > 1:
            raise UsageError(f"{path}: given twice")
    outcomes = {}
    for path, label in zip(paths, _labels(resolved), strict=True):
        outcomes[label] = read_result(path)
    return outcomes


def read_result(folder: str | os.PathLike[str]) -> Outcome:
    """The outcome in a result folder, once it is sure that it can be drawn; InputError where it cannot."""
    outcome = without_ended(Outcome.read(folder))
    check_drawable(outcome, Path(folder))
    return outcome


def without_ended(outcome: Outcome) -> Outcome:
    """The outcome without the stretches of jobs that a policy ended: no figure is about them.

    They have no row in jobs.parquet. As many as the summary tells are left out. One more is a stray, which a
    check of the tables finds.
    """
    summary: object = outcome.summary  # of a damaged result it may be anything
    ended = summary.get("jobs_ended") if isinstance(summary, dict) else None
    allocations = outcome.allocations
    if not isinstance(ended, int) or allocations is None or "job_id" not in allocations.columns:
        return outcome
    strays = allocations.join(outcome.jobs, on="job_id", how="anti")
    if strays["job_id"].n_unique() > ended:
        return outcome
    drawn = copy.copy(outcome)
    drawn.allocations = allocations.join(outcome.jobs, on="job_id", how="semi", maintain_order="left")
    return drawn


def _results_in(folder: Path) -> list[Path]:
    """The folder itself or, where it is a comparison, the results in it."""
    document = folder / _COMPARISON
    if not document.is_file():
        return [folder]
    try:
        listed = json.loads(document.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"not readable as JSON ({error})", file=document) from None
    names = listed.get("folders") if isinstance(listed, dict) else None
    if names is None:  # the demo's: its results are the folders in it
        return sorted(path.parent for path in folder.glob("*/run.toml"))
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise InputError("the names of the results beside it", file=document, key="folders", value=names)
    return [folder / name for name in names.values()]


def _labels(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that are all different, of the same number of parts each."""
    longest = max((len(path.parts) for path in paths), default=1)
    for parts in range(1, longest + 1):
        labels = [show_path("/".join(path.parts[-parts:])) for path in paths]
        if len(set(labels)) == len(labels):
            return labels
    return [show_path(path) for path in paths]


def default_title(results: Mapping[str, Outcome]) -> str:
    """The traces and the clusters of the results."""
    traces, clusters = [], []
    for outcome in results.values():
        trace = str(outcome.run.get("trace", {}).get("path", "jobs"))
        traces.append(trace.replace("\\", "/").rsplit("/", 1)[-1])
        clusters.append(str(outcome.run.get("cluster", {}).get("name", "a cluster")))
    return " on ".join(", ".join(dict.fromkeys(names)) for names in (traces, clusters))
