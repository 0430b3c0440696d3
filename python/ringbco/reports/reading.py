"""The results that a report shows, each under a label of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

from ringbco.errors import InputError, UsageError, show_path
from ringbco.io.system import place
from ringbco.result.certainty import ONE_RUN, Kind, Runs
from ringbco.result.comparison import Comparison
from ringbco.result.outcome import Outcome
from ringbco.result.run_validation import is_number, wrong_figure
from ringbco.run.loaded import read_result, without_ended

_COMPARISON: Final = "comparison.json"


class _Found(NamedTuple):
    """A result folder, and what a comparison's document tells of its other runs: nothing of a single one.

    name: what the comparison calls it; None of a single one.
    """

    path: Path
    summaries: list[dict[str, Any]]
    bounds: list[float | None]
    over: Runs = ONE_RUN
    baseline: bool = False
    name: str | None = None


def read_results(folders: Sequence[str | os.PathLike[str]]) -> Comparison:
    """The outcomes in `folders`, in order, by label; a folder of `ringbco compare` stands for its results.

    A label is what its comparison calls the result, else the folder's name, with as many of the folder's
    parents' as it takes to tell it from the others.

    Raises InputError for what is no result folder or cannot be drawn, UsageError for a folder given twice.
    """
    found = [one for folder in folders for one in _results_in(Path(folder))]
    resolved = [Path(os.path.realpath(one.path)) for one in found]  # resolve() raises where links go round
    places = [place(path) for path in resolved]
    for one, there in zip(found, places, strict=True):
        if places.count(there) > 1:
            raise UsageError(f"{one.path}: given twice")
    names = [path.name if one.name is None else one.name for path, one in zip(resolved, found, strict=True)]
    named = dict(zip(labels(resolved, names), found, strict=True))
    repeated = {label: one for label, one in named.items() if one.summaries}
    against = [label for label, one in named.items() if one.baseline]
    return Comparison(
        {label: without_ended(read_result(one.path)) for label, one in named.items()},
        {label: one.summaries for label, one in repeated.items()},
        {label: one.bounds for label, one in repeated.items()},
        next((one.over for one in repeated.values()), ONE_RUN),
        against[0] if against else None,
    )


def drawable(comparison: Comparison) -> Comparison:
    """The comparison without the stays that no chart is about."""
    return replace(
        comparison, outcomes={label: without_ended(one) for label, one in comparison.outcomes.items()}
    )


def _results_in(folder: Path) -> list[_Found]:
    """The folder itself or, where it is a comparison, the results in it."""
    document = folder / _COMPARISON
    if not document.is_file():
        return [_Found(folder, [], [])]
    try:
        listed = json.loads(document.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"not readable as JSON ({error})", file=document) from None
    names = listed.get("folders") if isinstance(listed, dict) else None
    if names is None:  # the demo's: its results are the folders in it
        return [_Found(path.parent, [], []) for path in sorted(folder.glob("*/run.toml"))]
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise InputError("the names of the results beside it", file=document, key="folders", value=names)
    found = [
        _Found(
            folder / name,
            _by_run(document, listed, "summaries_by_run", label),
            _by_run(document, listed, "mean_jct_bounds_by_run", label),
            runs_of(document, listed),
            label == listed.get("baseline"),
            label,
        )
        for label, name in names.items()
    ]
    for label, one in zip(names, found, strict=True):
        if one.over.kind == "fresh tables" and len(one.bounds) not in (0, len(one.summaries)):
            raise InputError("one bound per run", file=document, key=f"mean_jct_bounds_by_run.{label}")
    return found


def _by_run(document: Path, listed: Mapping[str, Any], key: str, label: str) -> list[Any]:
    """What a comparison's document has of a label in each run; nothing where it was run once."""
    table = listed.get(key, {})
    values = table.get(label, []) if isinstance(table, dict) else None
    sound: Callable[[object], bool] = _is_summary if key == "summaries_by_run" else _is_bound
    if not isinstance(values, list) or not all(map(sound, values)):
        raise InputError("figures of each run", file=document, key=f"{key}.{label}")
    return values


def runs_of(document: Path, told: Mapping[str, Any]) -> Runs:
    """What differs from run to run, as a document has it; InputError where it is damaged."""
    kind, changed, epoch = told.get("kind", "moved"), told.get("changed", []), told.get("epoch")
    if kind not in get_args(Kind):
        raise InputError("what differs from run to run", file=document, key="kind", value=kind)
    if not isinstance(changed, list) or not all(isinstance(name, str) for name in changed):
        raise InputError("what differs from run to run", file=document, key="changed")
    if epoch is not None and not isinstance(epoch, str):
        raise InputError("a date and time, or null", file=document, key="epoch", value=epoch)
    return Runs(kind, tuple(changed), epoch)


def _is_summary(value: object) -> bool:
    return wrong_figure(value) is None


def _is_bound(value: object) -> bool:
    return value is None or is_number(value)


def labels(paths: Sequence[Path], names: Sequence[str] | None = None) -> list[str]:
    """The shortest ends of the paths that are all different, of the same number of parts each.

    names: what stands for the paths' last parts.
    """
    last = [path.name for path in paths] if names is None else names
    longest = max((len(path.parts) for path in paths), default=1)
    for parts in range(1, longest + 1):
        ends = zip(paths, last, strict=True)
        labels = [show_path("/".join((*path.parts[-parts:-1], name))) for path, name in ends]
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
