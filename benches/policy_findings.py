"""What the tables of docs/results-policies.md say, worked out from the figures that stand in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

POLICY: Final = "policy"
PAR: Final = 0.001
"""Two mean JCTs that differ by no more than this share are called equal."""
IDLE: Final = 0.01
"""A case in which no policy is further from the best than this share has nothing to decide."""
Case = tuple[str, str]
"""A trace and the speed of its links."""
EXACT: Final = "repack, exact"
BLIND: Final = ("fifo", "smallest", "ff", "rand", "qssf", "tiresias", "gittins", "time-slice")
"""Policies that know no run time, besides repack."""
TIE: Final = 0.0002
"""Two mean JCTs that differ by no more than this share are called a tie."""
SPREADING: Final = ("ff", "ls", "rand", "sjf-bco")


@dataclass(frozen=True)
class Row:
    """One policy in one case: a line of a table. Times in seconds."""

    trace: str
    speed: str
    policy: str
    mean_jct: float
    mean_wait: float
    spread: int
    preemptions: int

    @property
    def case(self) -> Case:
        """The trace and the speed of the links."""
        return self.trace, self.speed


def rows(page: str) -> list[Row]:
    """Every line of every table of the page."""
    found, trace, speed, head = [], "", "", list[str]()
    for line in page.splitlines():
        if heading := re.match(r"### ([^:]+):", line):
            trace = heading[1]
        elif given := re.fullmatch(r"(\d+ Gb/s):", line):
            speed = given[1]
        elif line.startswith(f"| {POLICY} |"):
            head = [cell.strip() for cell in line.strip("|").split("|")]
        elif trace and head and line.startswith("| ") and not line.startswith("| ---"):
            cells = dict(zip(head, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
            number = {name: float(text.replace(",", "")) for name, text in cells.items() if name != POLICY}
            found.append(
                Row(
                    trace, speed, cells[POLICY], number["mean JCT, s"], number["mean wait, s"],
                    int(number["spread"]), int(number["preemptions"]),
                )
            )  # fmt: skip
        elif not line:
            head = head if speed else []
    return found


def to_best(rows: Sequence[Row]) -> list[float]:
    """Each row's mean JCT over the least of its case."""
    best: dict[Case, float] = {}
    for row in rows:
        best[row.case] = min(row.mean_jct, best.get(row.case, row.mean_jct))
    return [row.mean_jct / best[row.case] for row in rows]


def typical(rows: Sequence[Row]) -> dict[str, float]:
    """Each policy's median over the cases of its mean JCT over the best of the case; the least first."""
    ratios: dict[str, list[float]] = {}
    for row, ratio in zip(rows, to_best(rows), strict=True):
        ratios.setdefault(row.policy, []).append(ratio)
    order = sorted(ratios, key=lambda name: (median(ratios[name]), sum(ratios[name]), name))
    return {name: median(ratios[name]) for name in order}


def findings(rows: Sequence[Row]) -> Iterator[str]:
    """The page's findings, one bullet each."""
    cases = list(dict.fromkeys(row.case for row in rows))
    of = {(*row.case, row.policy): row for row in rows}

    def against(policy: str, other: str, kept: Callable[[Case], bool]) -> dict[Case, float]:
        """`policy`'s mean JCT over `other`'s, case by case."""
        return {c: of[*c, policy].mean_jct / of[*c, other].mean_jct for c in cases if kept(c)}

    def every(_: Case) -> bool:
        return True

    yield from _best(rows, cases)
    yield _repack(rows, cases, of)
    yield _informed(against("gittins", "srtf", every), against("gittins", "fifo", every))
    speeds = list(dict.fromkeys(speed for _, speed in cases))
    yield (
        "- **SJF-BCO against `smallest`**, the same queue order with plain consolidation, by mean JCT: "
        + "; ".join(
            _versus(speed, against("sjf-bco", "smallest", lambda c, s=speed: c[1] == s)) for speed in speeds
        )
        + "."
    )
    yield (
        "- **SJF-BCO against the paper's own baselines** FF, LS and RAND, where the case decides anything: "
        + "; ".join(_baselines(speed, rows, against) for speed in speeds)
        + "."
    )
    yield _links(speeds, cases, of)
    yield _turns(cases, of)


def _best(rows: Sequence[Row], cases: Sequence[Case]) -> Iterator[str]:
    least: dict[str, int] = {}
    idle = []
    for case in cases:
        own = [row for row in rows if row.case == case]
        best = min(row.mean_jct for row in own)
        if max(row.mean_jct for row in own) <= best * (1 + IDLE):
            idle.append(" at ".join(case))
            continue
        for row in own:
            least[row.policy] = least.get(row.policy, 0) + (row.mean_jct <= best * (1 + PAR))
    ranked = sorted((n for n in least.items() if n[1]), key=lambda n: -n[1])
    yield (
        f"- **The least mean JCT** (to {_percent(PAR)}) of {len(cases) - len(idle)} cases: "
        + ", ".join(f"{name} in {count}" for name, count in ranked)
        + "."
    )
    yield (
        "- **A typical case** (the median over all cases of mean JCT / the best of the case): "
        + ", ".join(f"{name} {ratio:,.2f}" for name, ratio in typical(rows).items())
        + "."
    )
    if idle:
        nothing = f"no policy is more than {_percent(IDLE)} behind the best"
        yield f"- **Nothing to decide** ({nothing}): {', '.join(idle)}."


def _repack(rows: Sequence[Row], cases: Sequence[Case], of: dict[tuple[str, str, str], Row]) -> str:
    told = []
    for name, known, others in (
        (
            EXACT,
            "with `--predict exact`, which knows all run times,",
            [row for row in rows if row.policy not in (EXACT, "repack")],
        ),
        ("repack", "by default, which knows none,", [row for row in rows if row.policy in BLIND]),
    ):
        behind = {
            case: of[*case, name].mean_jct / min(row.mean_jct for row in others if row.case == case)
            for case in cases
        }
        worst = {case: ratio for case, ratio in behind.items() if ratio > 1 + TIE}
        told.append(
            f"**repack** {known} is ahead of all others{'' if name == EXACT else ' that know none'}, or ties"
            f" (to {100 * TIE:g} %), in {len(behind) - len(worst)} of {len(behind)} cases"
            + "".join(
                f"; on {' at '.join(case)} its mean JCT is {_more(ratio)}" for case, ratio in worst.items()
            )
        )
    return f"- {'. '.join(told)}."


def _informed(behind: dict[Case, float], fifo: dict[Case, float]) -> str:
    near = [case for case, ratio in behind.items() if ratio <= 1.01]
    worst = max(behind, key=behind.__getitem__)
    better = sum(ratio < 1 - PAR for ratio in fifo.values())
    return (
        "- **Not knowing the run times**: gittins, which knows none, is within 1 % of srtf, which knows all,"
        f" in {len(near)} of {len(behind)} cases. It is furthest behind on {' at '.join(worst)}:"
        f" {_more(behind[worst])}. Its mean JCT is below fifo's in {better} of {len(fifo)} cases."
    )


def _versus(speed: str, ratios: dict[Case, float]) -> str:
    ahead = sum(ratio < 1 - PAR for ratio in ratios.values())
    behind = sum(ratio > 1 + PAR for ratio in ratios.values())
    worst = max(ratios, key=ratios.__getitem__)
    return (
        f"at {speed} ahead in {ahead}, equal in {len(ratios) - ahead - behind}, behind in {behind} of"
        f" {len(ratios)} traces, and worst on {worst[0]}: {_more(ratios[worst])}"
    )


def _baselines(
    speed: str,
    rows: Sequence[Row],
    against: Callable[[str, str, Callable[[Case], bool]], dict[Case, float]],
) -> str:
    furthest: dict[Case, float] = {}
    for row, ratio in zip(rows, to_best(rows), strict=True):
        furthest[row.case] = max(ratio, furthest.get(row.case, 1.0))
    wins, ratios = 0, list[float]()
    for other in ("ff", "ls", "rand"):
        own = against(other, "sjf-bco", lambda c: c[1] == speed and furthest[c] > 1 + IDLE)
        wins += sum(ratio > 1 for ratio in own.values())
        ratios += own.values()
    return (
        f"at {speed} it is ahead in {wins} of {len(ratios)} comparisons, and their mean JCT is"
        f" {min(ratios):,.2f} to {max(ratios):,.2f} times its own"
    )


def _links(speeds: Sequence[str], cases: Sequence[Case], of: dict[tuple[str, str, str], Row]) -> str:
    fast, slow = speeds[0], speeds[-1]
    traces = list(dict.fromkeys(trace for trace, _ in cases))
    names = list(dict.fromkeys(policy for _, _, policy in of))
    grown = {(n, t): of[t, slow, n].mean_jct / of[t, fast, n].mean_jct for n in names for t in traces}
    spreading = [ratio for (name, _), ratio in grown.items() if name in SPREADING]
    packing = [ratio for (name, _), ratio in grown.items() if name not in SPREADING]
    everywhere = [t for t in traces if min(grown[n, t] for n in names) > 2]
    few = max(traces, key=lambda t: of[t, slow, "sjf-bco"].spread)
    found = (
        f"- **Slow links and spreading**: the mean JCT at {slow}, over that at {fast}, is"
        f" {median(spreading):,.1f} in the median over traces for the policies that spread gangs"
        f" ({', '.join(SPREADING)}), and"
        f" {median(packing):,.2f} for the others. On {few} at {slow} SJF-BCO spreads"
        f" {of[few, slow, 'sjf-bco'].spread:,} jobs, `smallest` {of[few, slow, 'smallest'].spread:,}."
    )
    if everywhere:
        found += f" Under every policy it more than doubles on {', '.join(everywhere)}."
    return found


def _turns(cases: Sequence[Case], of: dict[tuple[str, str, str], Row]) -> str:
    most = max(cases, key=lambda c: of[*c, "time-slice"].preemptions)
    behind = {c: of[*c, "time-slice"].mean_jct / of[*c, "fifo"].mean_jct for c in cases}
    worst = max(behind, key=behind.__getitem__)
    better = sum(ratio < 1 - PAR for ratio in behind.values())
    return (
        f"- **Turns**: time-slice preempts up to {of[*most, 'time-slice'].preemptions:,} times"
        f" ({' at '.join(most)}), srtf there {of[*most, 'srtf'].preemptions:,} times. The mean JCT of"
        f" time-slice is below fifo's in {better} of {len(cases)} cases, and at worst"
        f" {behind[worst]:,.1f} times fifo's ({' at '.join(worst)})."
    )


def _more(ratio: float) -> str:
    """How much more a ratio above 1 is: small ones as a percentage, others as a factor."""
    return f"{_percent(ratio - 1)} more" if ratio < 2 else f"{ratio:,.1f} times as much"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %".replace(".0 %", " %")
