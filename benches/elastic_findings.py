"""What the tables of docs/elastic.md say, worked out from the figures that stand in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

POLICY: Final = "policy"
WHOLE: Final = "whole traces"
CALM: Final = "without noise scales"
WINDOW: Final = "windows"
DEADLINES: Final = "deadlines"
SET: Final = "traces"
MARK: Final = re.compile(r"(<!-- elastic: ([a-z ]+) -->)\n(.*?)\n?(<!-- end -->)", re.DOTALL)
PUBLISHED: Final = {"elasticflow": 72.8, "edf": 11.8}
"""Per cent of the deadlines of 195 jobs met on 128 GPUs (Gu et al., ASPLOS 2023)."""
TIE: Final = 0.005


@dataclass(frozen=True)
class Row:
    """One policy on one trace at one load. load: per cent. Times in seconds, lost in GPU-hours."""

    part: str
    trace: str
    policy: str
    load: int
    mean_jct: float
    p99_jct: float
    lost: float


@dataclass(frozen=True)
class Due:
    """One policy's deadlines on one trace at one load. load, met: per cent. refused, late: jobs."""

    trace: str
    policy: str
    load: int
    met: float
    refused: int
    late: int


def marked(page: str) -> dict[str, str]:
    """What stands between each pair of marks."""
    return {found[2]: found[3] for found in MARK.finditer(page)}


def _cells(text: str) -> Iterator[tuple[str, str, dict[tuple[str, int], float]]]:
    """Trace, policy and figures (by metric and load) of each line of the tables."""
    trace, heads = "", list[tuple[str, int]]()
    for line in text.splitlines():
        if named := re.fullmatch(r"\*\*(.+)\*\*", line):
            trace = named[1]
        elif line.startswith("| ") and not line.startswith("| ---"):
            first, *rest = (cell.strip() for cell in line.strip("|").split("|"))
            if first == POLICY:
                matches = [re.fullmatch(r"(.+), (\d+) %", head) for head in rest]
                heads = [(m[1], int(m[2])) for m in matches if m]
            else:
                values = [float(cell.removesuffix(" %").replace(",", "")) for cell in rest]
                yield trace, first, dict(zip(heads, values, strict=True))


def rows(page: str) -> list[Row]:
    """Every figure of the tables of completion times."""
    text = marked(page)
    return [
        Row(
            part, trace, policy, load, of["mean JCT, s", load], of["p99 JCT, s", load],
            of["lost GPU-hours", load],
        )
        for part in (WHOLE, CALM, WINDOW)
        for trace, policy, of in _cells(text[part])
        for load in dict.fromkeys(load for _, load in of)
    ]  # fmt: skip


def due(page: str) -> list[Due]:
    """Every figure of the table of deadlines."""
    return [
        Due(trace, policy, load, of["deadlines met", load], int(of["refused", load]), int(of["late", load]))
        for trace, policy, of in _cells(marked(page)[DEADLINES])
        for load in dict.fromkeys(load for _, load in of)
    ]


def traces_of(page: str) -> dict[str, tuple[int, float]]:
    """Jobs and GPU-hours of work of each trace."""
    found = {}
    for line in marked(page)[SET].splitlines()[2:]:
        name, jobs, _, work, *_ = (cell.strip().replace(",", "") for cell in line.strip("|").split("|"))
        found[name] = int(jobs), float(work)
    return found


def findings(page: str) -> dict[str, str]:
    """The text of each mark that holds findings, from the page's tables."""
    found, deadlines, known = rows(page), due(page), traces_of(page)
    of = {(r.part, r.trace, r.policy, r.load): r for r in found}
    traces = list(dict.fromkeys(r.trace for r in found))
    loads = sorted({r.load for r in found})

    def ratios(part: str, policy: str, other: str, load: int, what: str = "mean_jct") -> list[float]:
        """`policy` over `other`, trace by trace."""
        return [
            getattr(of[part, t, policy, load], what) / getattr(of[part, t, other, load], what) for t in traces
        ]

    def over(part: str, policy: str, other: str) -> str:
        """How much more or less at each load, trace by trace."""
        return "; ".join(
            f"at {load} % load {', '.join(map(change, ratios(part, policy, other, load)))}" for load in loads
        )

    wins = [
        (trace, load)
        for trace in traces
        for load in loads[1:]
        if of[WHOLE, trace, "repack, exact", load].mean_jct
        <= min(r.mean_jct for r in found if (r.part, r.trace, r.load) == (WHOLE, trace, load))
    ]
    tails = [
        (trace, load)
        for trace in traces
        for load in loads
        if of[WHOLE, trace, "afs", load].p99_jct < of[WHOLE, trace, "srtf", load].p99_jct
    ]
    waste = {
        (r.trace, r.load): (r.lost, of[WHOLE, r.trace, "srtf", r.load].lost)
        for r in found
        if r.part == WHOLE and r.policy == "afs"
    }
    parts = {(trace, load): 100 * lost / known[trace][1] for (trace, load), (lost, _) in waste.items()}
    most = max(parts, key=lambda case: parts[case])
    late = [ratio for load in loads[1:] for ratio in ratios(WHOLE, "optimus", "srtf", load)]
    ordered = [ratio for load in loads[1:] for ratio in ratios(WHOLE, "elastic-srtf", "srtf", load)]
    noisy = [
        of[CALM, t, "afs", load].mean_jct / of[WHOLE, t, "afs", load].mean_jct
        for t in traces
        for load in loads
    ]
    cases = len(traces) * len(loads)
    busy = len(traces) * (len(loads) - 1)
    text = [
        "- **What resizing gains.** The mean JCT of `afs` against that of `srtf`, in the order of the tables:"
        f" {over(WHOLE, 'afs', 'srtf')}.",
        f"- **The tail.** The p99 JCT of `afs` is below that of `srtf` in {len(tails)} of {cases} cases.",
        f"- **Once there is a queue** (loads above {loads[0]} %), `repack --predict exact`, which resizes"
        f" nobody, has the least mean JCT of the tables in {len(wins)} of {busy} cases.",
        f"- **Restarts.** `afs` loses {_span([a for a, _ in waste.values()])} GPU-hours to pauses, `srtf`"
        f" {_span([b for _, b in waste.values()])}. As a part of the work the most is"
        f" {waste[most][0]:,.0f} on {most[0]} at {most[1]} % load. That is"
        f" {parts[most]:.1f} % of the trace's work.",
        "- **The order counts more than the sizes.** `optimus` starts jobs in fifo order. Above"
        f" {loads[0]} % load its mean JCT is {min(late):.1f} to {max(late):.1f} times that of `srtf`."
        f" `elastic-srtf` differs from it by the order alone: {min(ordered):.2f} to"
        f" {max(ordered):.2f} times.",
        "- **Noise scales.** Without them the mean JCT of `afs` is"
        f" {change(min(noisy))} to {change(max(noisy))}.",
    ]
    short = sum(
        of[WINDOW, trace, "sia", load].p99_jct
        <= min(r.p99_jct for r in found if (r.part, r.trace, r.load) == (WINDOW, trace, load))
        for trace in traces
        for load in loads
    )
    sia = [
        f"- **`sia` against `srtf`**, by mean JCT: {over(WINDOW, 'sia', 'srtf')}.",
        f"- **`sia` against `afs`**: {over(WINDOW, 'sia', 'afs')}.",
        f"- **`afs` against `srtf`** on the same windows: {over(WINDOW, 'afs', 'srtf')}.",
        f"- **`sia` against `repack`**, which knows no run times either: {over(WINDOW, 'sia', 'repack')}.",
        f"- **The tail.** `sia` has the least p99 JCT in {short} of {cases} cases.",
        f"- **Restarts.** `sia` loses {_span([r.lost for r in found if r.policy == 'sia'])} GPU-hours to"
        f" pauses, `afs` {_span([r.lost for r in found if (r.part, r.policy) == (WINDOW, 'afs')])}.",
    ]
    return {
        "findings": "\n".join(text),
        "findings of windows": "\n".join(sia),
        "findings of deadlines": "\n".join(_of_deadlines(deadlines, loads)),
    }


def _of_deadlines(deadlines: Sequence[Due], loads: Sequence[int]) -> Iterator[str]:
    """What the tables of deadlines say."""
    met = {(d.trace, d.policy, d.load): d for d in deadlines}
    traces = list(dict.fromkeys(d.trace for d in deadlines))
    for trace in traces:
        shares = {
            policy: _listed([met[trace, policy, load].met for load in loads])
            for policy in ("elasticflow", "edf", "edf, --admission")
        }
        late = _listed([met[trace, "elasticflow", load].late for load in loads], ",d")
        yield (
            f"- **{trace}**: at {_listed(loads, 'd')} % load `elasticflow` meets {shares['elasticflow']} % of"
            f" the deadlines, `edf` {shares['edf']} %, `edf --admission` {shares['edf, --admission']} %."
            f" Of the jobs that `elasticflow` admits, {late} are late all the same."
        )
    cases = [(trace, load) for trace in traces for load in loads]
    same = sum(met[t, "elasticflow", load].met > met[t, "edf", load].met for t, load in cases)
    alone = sum(met[t, "elasticflow", load].met > met[t, "edf, --admission", load].met for t, load in cases)
    yield (
        f"- **The paper** has {PUBLISHED['elasticflow']} % and {PUBLISHED['edf']} % (`ef-accessctrl` and"
        f" `edf`, 195 jobs on 128 GPUs). The order is the same in {same} of {len(cases)} cases. Against"
        f" `edf --admission` `elasticflow` is ahead in {alone}."
    )


def change(ratio: float) -> str:
    """A ratio in words: 10 % more, 3 % less, the same, 2.5 times as much."""
    if ratio >= 2:
        return f"{ratio:.1f} times as much"
    if abs(ratio - 1) < TIE:
        return "the same"
    return f"{abs(ratio - 1) * 100:.0f} % {'more' if ratio > 1 else 'less'}"


def _span(values: Sequence[float]) -> str:
    return f"{min(values):,.0f} to {max(values):,.0f}"


def _listed(values: Sequence[float], form: str = ".1f") -> str:
    first = [format(value, form) for value in values]
    return f"{', '.join(first[:-1])} and {first[-1]}"
