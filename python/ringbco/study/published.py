"""What is known of the public traces: figures to compare with those of a file, to see whether it is whole.

Times in seconds, shares from 0 to 1. The figures are those of the published files after the field's usual
cleaning (GPU jobs that ended; Helios: from April 2020 on, runs of at most 14 days).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ringbco.cluster.presets import PRESETS
from ringbco.errors import UsageError
from ringbco.sources import openb
from ringbco.units import percent

FigureKind = Literal["count", "time", "share"]

# How far a figure may be from the published one and still be called the same: counts and times as a ratio,
# shares as a difference.
_TOLERANCE: Final[Mapping[FigureKind, float]] = {"count": 0.02, "time": 0.05, "share": 0.02}

FATES: Final[Mapping[str, tuple[str, ...]]] = {
    "passed": ("pass", "passed", "completed", "succeeded", "terminated"),
    "killed": ("killed", "cancelled", "canceled"),
    "failed": ("failed", "timeout", "node_fail"),
}
_MIN_SHARE_IN_VCS: Final = 0.9


@dataclass(frozen=True)
class PublishedTrace:
    """A published trace.

    origin: where it and its figures come from. status_shares, size_shares: shares of the jobs.
    rows_by_reason: label -> (reason in the conversion account, rows). servers: of its cluster.
    """

    title: str
    origin: str
    jobs: int
    mean_run_time: float
    median_run_time: float
    raw_rows: int | None = None
    status_shares: Mapping[str, float] = field(default_factory=dict)
    size_shares: Mapping[int, float] = field(default_factory=dict)
    same_second_share: float | None = None
    rows_by_reason: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    servers: int | None = None
    note: str = ""


_HELIOS: Final = "S-Lab-System-Group/HeliosData; Hu et al., SC '21"


def _helios(cluster: str, jobs: int, mean_run_time: float, median_run_time: float) -> PublishedTrace:
    return PublishedTrace(
        f"SenseTime Helios, {cluster}, April to September 2020",
        _HELIOS,
        jobs,
        mean_run_time,
        median_run_time,
        same_second_share=1 / 3,
    )


PUBLISHED_TRACES: Final[Mapping[str, PublishedTrace]] = {
    "philly": PublishedTrace(
        "Microsoft Philly, August to December 2017",
        "msr-fiddle/philly-traces; sizes: its eight virtual clusters in TuftsNATLab/PCS",
        112_956,
        18_006.0,
        874.0,
        raw_rows=117_325,
        status_shares={"passed": 0.60, "killed": 0.09, "failed": 0.31},
        size_shares={1: 0.87, 2: 0.023, 4: 0.048, 8: 0.049, 16: 0.007, 32: 0.002},
        note="size shares are from 74,540 jobs in eight virtual clusters",
    ),
    "helios-venus": _helios("Venus", 125_303, 13_041.0, 204.0),
    "helios-earth": _helios("Earth", 427_148, 5_131.0, 234.0),
    "helios-saturn": _helios("Saturn", 698_896, 5_253.0, 124.0),
    "helios-uranus": _helios("Uranus", 329_117, 9_164.0, 280.0),
    "openb": PublishedTrace(
        "Alibaba openb, 2023, the default list of pods",
        "alibaba/clusterdata, cluster-trace-gpu-v2023; counted in openb_pod_list_default.csv and "
        "openb_node_list_gpu_node.csv",
        6_203,
        30_851.0,
        655.0,
        raw_rows=8_152,
        status_shares={"passed": 0.030, "failed": 0.301},
        size_shares={1: 0.988, 2: 0.0024, 4: 0.0024, 8: 0.0071},
        rows_by_reason={
            "pods never scheduled": (openb.PENDING, 897),
            "pods that outlived the log": (openb.CENSORED, 34),
        },
        servers=1_213,
        note="jobs are the pods with a GPU that ran; the last phase seen of two thirds of them is Running",
    ),
}


def check_name(name: str) -> None:
    """Raises UsageError, with the known names, for an unknown name."""
    if name not in PUBLISHED_TRACES:
        from ringbco.trace.other_names import hint_at

        known = ", ".join(PUBLISHED_TRACES)
        raise UsageError(
            f"option shape: no published shape {name}: choose one of {known}{hint_at(name, PUBLISHED_TRACES)}"
        )


def detect(inspection: Mapping[str, Any], name: str | None = None) -> tuple[str | None, str]:
    """The published trace to compare a table with, or None, and why.

    `name` is the user's choice; without it the footer's source decides, for Helios with the names of the
    virtual clusters. Raises UsageError for an unknown name.
    """
    if name is not None:
        check_name(name)
        return name, "--shape"
    source = str(inspection["metadata"].get("source", ""))
    trace = source.removeprefix("synthetic ")
    if trace in ("philly", "openb"):
        return trace, f"made from {source}"
    if source == "synthetic helios":
        return "helios-venus", "synthetic helios has the run times of Venus"
    if trace == "helios":
        return _which_helios(inspection["vcs"] or [])
    return None, ""


def _which_helios(vcs: list[dict[str, Any]]) -> tuple[str | None, str]:
    """The cluster whose virtual clusters hold at least 90 % of the jobs; Saturn's and Uranus' are unknown."""
    total = sum(row["jobs"] for row in vcs)
    for name in ("helios-venus", "helios-earth"):
        known = {group.vc for group in PRESETS[name].servers}
        if total and sum(row["jobs"] for row in vcs if row["vc"] in known) >= _MIN_SHARE_IN_VCS * total:
            return name, "its virtual clusters"
    names = [name for name in PUBLISHED_TRACES if name.startswith("helios-")]
    return None, f"to compare it with a cluster of Helios: --shape {'|'.join(names)}"


def no_comparison(why: str) -> dict[str, Any]:
    """What `compare_figures` returns, for a table that is compared with no published trace."""
    keys = dict.fromkeys(("shape", "title", "origin", "because", "figures", "verdict", "note"))
    return {**keys, "because": why, "figures": [], "note": ""}


def compare_figures(inspection: Mapping[str, Any], name: str, why: str = "") -> dict[str, Any]:
    """The file's figures beside those of the published trace `name`, and what they say of the file.

    `inspection` as `inspect_jobs` returns it; `why` the trace was chosen. A row's `file` is None where the
    table lacks the column; `ratio` is file / published, `difference` file - published; `near`: they agree
    (None where there is nothing to compare). A synthetic table's counts are its maker's choice and left out.
    """
    trace = PUBLISHED_TRACES[name]
    metadata = inspection["metadata"]
    synthetic = str(metadata.get("source", "")).startswith("synthetic")
    rows = []
    if not synthetic:
        raw_rows = metadata.get("rows_read")
        if trace.raw_rows is not None:
            rows.append(_row("rows of the raw file", "count", raw_rows, trace.raw_rows))
        rows.append(_row("jobs", "count", inspection["jobs"], trace.jobs))
        matching = (inspection.get("account") or {}).get("matching")
        for what, (reason, count) in trace.rows_by_reason.items():
            rows.append(_row(what, "count", None if matching is None else matching.get(reason, 0), count))
    if trace.servers is not None:
        cluster = inspection.get("cluster")
        rows.append(_row("servers", "count", cluster and cluster["servers"], trace.servers))
    rows.append(_row("mean run", "time", inspection["duration"]["mean"], trace.mean_run_time))
    rows.append(_row("median run", "time", inspection["duration"]["median"], trace.median_run_time))
    fates = _fate_shares(inspection["statuses"])
    for fate, share in trace.status_shares.items():
        rows.append(_row(fate, "share", fates.get(fate), share))
    sizes = {row["num_gpus"]: row["share"] for row in inspection["sizes"]}
    for size, share in trace.size_shares.items():
        rows.append(_row(f"jobs of {size} GPU{'s'[: size > 1]}", "share", sizes.get(size, 0.0), share))
    if trace.same_second_share is not None:
        # Known as "about a third" only, so a wider tolerance.
        measured = inspection["same_second"]["share"]
        rows.append(_row("same-second jobs", "share", measured, trace.same_second_share, tolerance=0.08))
    return {
        "shape": name,
        "title": trace.title,
        "origin": trace.origin,
        "because": why,
        "figures": rows,
        "verdict": _verdict(rows, trace, inspection, synthetic=synthetic),
        "note": trace.note,
    }


def _row(
    figure: str, kind: FigureKind, measured: float | None, published: float, tolerance: float | None = None
) -> dict[str, Any]:
    # A small share may not deviate by more than half of itself.
    allowed = tolerance or min(_TOLERANCE[kind], published / 2)
    difference = None if measured is None else measured - published
    ratio = None if measured is None else measured / published
    deviation = difference if kind == "share" else None if ratio is None else ratio - 1
    return {
        "figure": figure,
        "kind": kind,
        "file": measured,
        "published": published,
        "ratio": ratio,
        "difference": difference,
        "near": None if deviation is None else abs(deviation) <= allowed,
    }


def _fate_shares(statuses: list[dict[str, Any]] | None) -> dict[str, float]:
    """Shares of passed, killed and failed jobs; empty if no job has a status."""
    if not any(row["status"] for row in statuses or []):
        return {}
    shares = dict.fromkeys(FATES, 0.0)
    for row in statuses or []:
        for fate, words in FATES.items():
            if str(row["status"]).lower() in words:
                shares[fate] += row["share"]
    return shares


def _verdict(
    rows: list[dict[str, Any]], trace: PublishedTrace, inspection: Mapping[str, Any], *, synthetic: bool
) -> str:
    """One sentence: is the file whole, and does it look as published?"""
    not_near = [row["figure"] for row in rows if row["near"] is False]
    compared = sum(row["near"] is not None for row in rows)
    agree = f"{compared - len(not_near)} of {compared} figures are near the published ones"
    if not_near and len(not_near) < compared:
        agree += f"; not: {', '.join(not_near)}"
    if synthetic:
        return f"a synthetic table: {agree}"
    share = inspection["jobs"] / trace.jobs
    if share < 1 - _TOLERANCE["count"]:
        return f"the file holds {percent(share, 1)} of the jobs published: not the whole trace; {agree}"
    if share > 1 + _TOLERANCE["count"]:
        return f"the file holds {share:.2f} times the jobs published: not cleaned in the usual way; {agree}"
    return f"as many jobs as published: {agree}"
