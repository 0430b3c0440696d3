"""What share of corruptions the audit catches: `make audit-catalogue N=200 SEED=1`.

Draws N random cases of the tests, runs them, and corrupts each result in three ways:

- cells: one cell of one table, one figure of the summary, or one row, is changed;
- labels: run.toml says another option, with which the run would have been another;
- runs: a whole run of another policy, order, placement or discipline under the label of the case.

Prints how many of each `ringbco audit` finds fault with, by its physics alone and with the repeat, the seal
made anew, and the mixes of cells of which physics finds few. Then what physics missed and the repeat found,
and what both missed, the most frequent first, each with a case that shows it. Physics says nothing of what
the policy decided, so it sees few labels and runs. A genuine result has no finding, and is repeated; one that
has is counted and not corrupted. `make audit-catalogue ONE="1.17 cells"` prints the corruptions of one case,
with what the audit says of them. `make audit-genuine N=10000` corrupts nothing: it counts genuine results
with a finding. Without make, tests and tests/shared must be in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import ringbco
from cases.case import Case
from cases.met import effective_features
from cases.run import meet
from corrupt import Corrupt
from corrupt_cells import Genuine, cells, names
from corrupt_labels import labels, runs
from ringbco.audits import Check, check_outcome
from ringbco.audits.repeating import check_repeat
from ringbco.errors import RingbcoError
from ringbco.trace.jobs import as_table

COUNTS: Final = {"cells": 16, "labels": 3, "runs": 3}
"""Corruptions of a case at most, by kind."""
MIX: Final = 200
"""Cells from which on a mix is large enough to be told of by itself."""
LEAST: Final = 95.0
"""Percent of the cells of a mix that physics has to find."""


@dataclass(frozen=True)
class Judged:
    """A corruption, and the codes and words of what physics finds. crash: the error in which it ended.

    repeat: what the repeat finds; None where it finds nothing. untold: why nothing could be repeated.
    """

    kind: str
    what: str
    how: str
    codes: tuple[str, ...]
    findings: tuple[str, ...]
    crash: str = ""
    repeat: str | None = None
    untold: str | None = None

    @property
    def caught(self) -> bool:
        return bool(self.codes)

    @property
    def found(self) -> bool:
        return self.caught or self.repeat is not None


@dataclass(frozen=True)
class Report:
    """One case. findings: of its genuine result, which should have none. columns: all, and all figures.

    refusal: why nothing of it can be run, whatever it is without.
    """

    seed: str
    features: tuple[str, ...]
    findings: tuple[str, ...]
    columns: tuple[str, ...] = ()
    judged: list[Judged] = field(default_factory=list)
    refusal: str | None = None


def judge(case: Case, kind: str, corrupt: Corrupt) -> Judged:
    codes, findings, crash = audited(case, corrupt.outcome)
    repeat, untold = repeated(case, corrupt.outcome)
    return Judged(kind, corrupt.what, corrupt.how, codes, findings, crash, repeat, untold)


def audited(case: Case, outcome: ringbco.Outcome) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Codes and words of the findings, and an error. A refusal is a finding, any other error is none."""
    try:
        report = check_outcome(outcome, as_table(case.frame())).findings
    except RingbcoError as error:
        return ("refused",), (f"refused: {error}",), ""
    except Exception as error:
        return (), (), f"{type(error).__name__}: {error}"
    return tuple(each.code for each in report), tuple(map(str, report)), ""


def repeated(case: Case, outcome: ringbco.Outcome) -> tuple[str | None, str | None]:
    """The first finding of the repeat, and why it was not made. The folder is sealed as it is."""
    check = Check("repeat", "")
    recorded = str(outcome.run["options"].get("policy"))
    with TemporaryDirectory() as scratch:
        folder, jobs = Path(scratch) / "result", Path(scratch) / "jobs.parquet"
        try:
            ringbco.write_jobs(as_table(case.frame()), jobs)
            outcome.write(folder)
            check_repeat(check, folder, jobs, recorded if ":" in recorded else None, None)
        except RingbcoError as error:
            return f"refused: {error}", None
        why = None if check.not_run is None else check.not_run.replace(str(folder), "DIR")
    return next(map(str, check.findings), None), why


def corruptions(case: Case, outcome: ringbco.Outcome, seed: str, kind: str) -> Iterator[Corrupt]:
    """Those of a kind, always the same of a seed."""
    rng = Random(f"{seed} {kind}")
    if kind == "cells":
        return cells(Genuine(case, outcome), rng, COUNTS[kind])
    return {"labels": labels, "runs": runs}[kind](case, outcome, rng, COUNTS[kind])


def report(seed: str, kinds: Sequence[str] = tuple(COUNTS)) -> Report:
    """A case, its genuine result and its corruptions of these kinds, judged."""
    warnings.simplefilter("ignore")
    drawn = meet(seed, check=False)
    case, outcome = drawn.seen.case, drawn.seen.outcome
    if outcome is None:
        return Report(seed, drawn.features, (), refusal=str(drawn.seen.refusal))
    _, findings, crash = audited(case, outcome)
    again, _ = repeated(case, outcome) if kinds else (None, None)
    findings = (*findings, *([crash] if crash else []), *([again] if again else []))
    if not kinds:
        return Report(seed, drawn.features, findings)
    columns = tuple(names(Genuine(case, outcome)))
    result = Report(seed, effective_features(seed, drawn.features), findings, columns)
    if not findings:
        for kind in kinds:
            result.judged.extend(judge(case, kind, each) for each in corruptions(case, outcome, seed, kind))
    return result


# What is printed.


def share(judged: Sequence[Judged]) -> str:
    """How many there are; how many of them physics finds, and how many with the repeat."""
    if not judged:
        return f"{'-':^22}"
    return f"{len(judged):5} {percent(judged):6.1f} % {percent(judged, repeat=True):6.1f} %"


def percent(judged: Sequence[Judged], *, repeat: bool = False) -> float:
    """Of those that physics finds, or the repeat, too, of runs that can be repeated."""
    entries = [each for each in judged if not repeat or each.untold is None]
    return 100.0 * sum(each.found if repeat else each.caught for each in entries) / max(len(entries), 1)


def lines(reports: Sequence[Report]) -> Iterator[str]:
    """The whole report."""
    ran = [each for each in reports if each.refusal is None]
    clean = [each for each in ran if not each.findings]
    yield f"genuine: {len(clean)} of {len(ran)} without finding"
    for each in reports:
        if each.refusal is not None:
            yield f"    {each.seed}: refused: {each.refusal}"
        if each.findings:
            yield f"    {each.seed}: {each.findings[0]}"
    judged = [each for case in clean for each in case.judged]
    if not judged:
        return
    by_feature = defaultdict[str, list[Judged]](list)
    for case in clean:
        for name in case.features:
            by_feature[name] += case.judged
    yield ""
    yield f"     {'  '.join(f'{kind:>5}  physics + repeat' for kind in COUNTS)}"
    yield f"all  {'  '.join(share([each for each in judged if each.kind == kind]) for kind in COUNTS)}"
    yield ""
    yield from low(by_feature)
    untold = Counter(each.untold for each in judged if each.untold is not None)
    yield from (f"not repeated {count}: {why}" for why, count in untold.most_common())
    absent = {name for case in clean for name in case.columns} - {each.what for each in judged}
    if absent:
        yield f"never changed: {', '.join(sorted(absent))}"
    yield from missed(clean, "by physics", lambda each: each.caught)
    yield from missed(clean, "with the repeat, too", lambda each: each.found or each.untold is not None)


def low(mixes: dict[str, list[Judged]]) -> Iterator[str]:
    """Large mixes of which physics finds too few cells."""
    cells_of = {name: [each for each in judged if each.kind == "cells"] for name, judged in mixes.items()}
    large = {name: percent(judged) for name, judged in cells_of.items() if len(judged) >= MIX}
    below = [f"{name} {share:.1f} %" for name, share in sorted(large.items()) if share < LEAST]
    yield f"mixes of {MIX} cells of which physics finds less than {LEAST:.0f} %: {', '.join(below) or 'none'}"


def part(what: str) -> str:
    """The table, the option, or the decision that a corruption is about."""
    return re.split(r"[.: ]", what)[0]


def missed(reports: Sequence[Report], by: str, found: Callable[[Judged], bool]) -> Iterator[str]:
    """What the audit did not find, by what was changed."""
    drawn = Counter((judged.kind, judged.what) for each in reports for judged in each.judged)
    shown: dict[tuple[str, str], list[tuple[str, Judged]]] = defaultdict(list)
    for each in reports:
        for judged in each.judged:
            if not found(judged):
                shown[judged.kind, judged.what].append((each.seed, judged))
    for kind in COUNTS:
        yield ""
        yield f"{kind} missed {by}"
        once = []
        for (_, what), those in sorted(shown.items(), key=lambda item: (-len(item[1]), item[0])):
            if those[0][1].kind != kind:
                continue
            seed, crashes = those[0][0], {judged.crash for _, judged in those if judged.crash}
            beside = f"  (the audit ends in {min(crashes)})" if crashes else ""
            if len(those) == drawn[kind, what] == 1 and not crashes:
                once.append(f"{what} ({seed})")
            else:
                yield f"{len(those):4} of {drawn[kind, what]:<4} {what}  --one {seed} {kind}{beside}"
        if once:
            yield f"drawn once, and missed: {'; '.join(once)}"


def details(found: Report) -> Iterator[str]:
    """One case."""
    yield f"{found.seed}: {', '.join(found.features)}"
    yield from (f"genuine: {each}" for each in found.findings)
    for each in found.judged:
        messages = "caught" if each.caught else "repeat" if each.found else "MISSED"
        yield f"{messages} {each.what}: {each.how}"
        yield from (f"    {line}" for line in each.findings[:3])
        if each.repeat or each.untold:
            yield f"    {each.repeat or f'not repeated: {each.untold}'}"
        if each.crash:
            yield f"    the audit ends in {each.crash}"


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", type=int, nargs="?", default=200, help="how many cases to draw")
    parser.add_argument("--seed", default="1", help="of all cases together")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--one", nargs=2, metavar=("SEED", "KIND"), help="print one case")
    parser.add_argument("--genuine", action="store_true", help="corrupt nothing")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parsed(arguments)
    if args.one:
        seed, kind = args.one
        print("\n".join(details(report(seed, [kind]))))
        return 0
    seeds = [f"{args.seed}.{number}" for number in range(args.cases)]
    judge_one = partial(report, kinds=()) if args.genuine else report
    if args.jobs == 1:
        reports = list(map(judge_one, seeds))
    else:
        # Polars does not survive a fork.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(args.jobs, mp_context=context) as pool:
            reports = list(pool.map(judge_one, seeds, chunksize=4))
    print("\n".join(lines(reports)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
