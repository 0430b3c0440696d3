"""How many random cases a reference model decides, and agrees: `make reference-cases N=10000 SEED=1`.

Draws N cases of the tests, every feature by its own coin, and holds each result against all that must be:
the reference model, where the case has one, the audit, the log, the balance of GPU-time, the bound. Prints
each difference as it is found, and in the end how many cases each feature had an effect in, in how many of
them there was a reference model, and why the others have none (docs/reliability.md).

With RULES="fairshare protection" each case has one of these features, in turn, whatever its coin says; a
rule of queues goes without another policy then. Without make, tests and tests/shared must be
in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from cases.draw import FEATURES, toss
from cases.met import effective_features
from cases.run import POLICIES, meet

OF_QUEUES: Final = frozenset({"order", "fairshare", "queue", "conservative", "aging", "estimate"})


@dataclass(frozen=True)
class CaseResult:
    """What became of a case.

    effective: the features that it ran with and could not be left out. lacks: why nothing of it ran.
    """

    seed: str
    effective: tuple[str, ...]
    lacks: str | None
    faults: tuple[str, ...]


def looked_at(number: int, seed: int, rules: Sequence[str]) -> CaseResult:
    """The case of that number."""
    name = f"{seed}.{number}"
    features = set(toss(name))
    if rules:
        rule = rules[number % len(rules)]
        features |= {rule}
        features -= {*POLICIES} if rule in OF_QUEUES else set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = meet(name, features=tuple(each for each in FEATURES if each in features))
        if drawn.seen.refusal is not None:
            return CaseResult(name, (), "refused without any feature", ())
        faults = tuple(f"{fault.kind}: {fault.text[:300]}" for fault in drawn.seen.faults)
        return CaseResult(name, effective_features(name, drawn.features), None, faults)


def lines(told: Sequence[CaseResult], names: Sequence[str]) -> list[str]:
    """The tables of the end."""
    ran, decided = Counter[str](), Counter[str]()
    for each in told:
        ran.update(each.effective)
        decided.update(() if each.lacks else each.effective)
    rows = [(name, ran[name], decided[name]) for name in names if ran[name]]
    reasons = Counter(each.lacks for each in told if each.lacks)
    count = len(told) - reasons.total()
    faulty = sum(bool(each.faults) for each in told)
    return [
        f"{faulty} of {len(told)} cases differ",
        f"{count} of {len(told)} cases, {count / max(1, len(told)):.1%}, have a reference model",
        "",
        "| feature | cases | with a reference model |",
        "| --- | ---: | ---: |",
        *(f"| {name} | {count:,} | {met_too:,} |" for name, count, met_too in rows),
        "",
        "| why there is none | cases |",
        "| --- | ---: |",
        *(f"| {reason} | {count:,} |" for reason, count in reasons.most_common()),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("number", type=int, help="cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--rules", nargs="*", default=[], choices=[*FEATURES], metavar="FEATURE")
    given = parser.parse_args(arguments)
    entries = []
    look = partial(looked_at, seed=given.seed, rules=given.rules)
    with ProcessPoolExecutor(given.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            for each in pool.map(look, range(given.number), chunksize=4):
                entries.append(each)
                for fault in each.faults:
                    print(f"{each.seed}  {fault}", flush=True)
                if len(entries) % 500 == 0:
                    print(f"{len(entries)} cases", file=sys.stderr, flush=True)
        except KeyboardInterrupt:  # what there is so far is told
            pool.shutdown(cancel_futures=True)
    print("\n".join(lines(entries, [*FEATURES])))
    return int(any(each.faults for each in entries))


if __name__ == "__main__":
    sys.exit(main())
