"""Writes the golden results of the engine as it is now, by hand. From the project's folder, with its package:

    python tests/golden/make.py                    all results anew: only where they are meant to change
    python tests/golden/make.py --causes           only the causes where jobs are preempted, if all else holds
    python tests/golden/make.py --show CASE DIR    the tables of one case as CSV, to compare two versions by

`git diff --stat` and tests/engine/test_golden.py then say what has moved. Each line of small.tsv and
large.tsv is a case: its name, then the fields of `digest.Digest`. numpy adds up the sums in the summaries:
should another version of it add in another order, only their hashes change.
"""

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "shared"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.cases import Case, inputs_of, large_cases, small_cases
from golden.digest import Digest, read, write
from ringbco.errors import RingbcoWarning

FILES = {"small.tsv": small_cases, "large.tsv": large_cases}


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the golden results of the engine as it is now.")
    parser.add_argument("--causes", action="store_true", help="only the causes of policies that preempt")
    parser.add_argument("--show", nargs=2, metavar=("CASE", "DIR"), help="write the tables of a case as CSV")
    given = parser.parse_args()
    warnings.simplefilter("ignore", RingbcoWarning)
    if given.show:
        show(given.show[0], Path(given.show[1]))
        return
    for name, cases in FILES.items():
        result = cases()
        now = inputs_of(result) | {case.name: case.kept() for case in result}
        write(name, only_causes(read(name), now, result) if given.causes else now)
        print(f"{name}: {len(result):,} cases")


def only_causes(before: dict[str, Digest], now: dict[str, Digest], cases: list[Case]) -> dict[str, Digest]:
    """The kept results with the present causes of policies that preempt; exits if anything else differs."""
    preempts = {case.name for case in cases if case.preempts}
    wrong = [
        name
        for name in sorted(before.keys() | now.keys())
        if name not in before
        or name not in now
        or set(now[name].changes(before[name])) - ({"causes"} if name in preempts else set())
    ]
    if wrong:
        sys.exit(f"more than causes differs in {len(wrong)} cases, {wrong[0]} the first; nothing written")
    return now


def show(name: str, folder: Path) -> None:
    """Writes the tables of a case."""
    case = {case.name: case for cases in FILES.values() for case in cases()}[name]
    print(case)
    outcome = case.run()
    folder.mkdir(parents=True, exist_ok=True)
    for table in ("jobs", "allocations", "timeline"):
        frame = getattr(outcome, table)
        if frame is not None:
            frame.write_csv(folder / f"{table}.csv")


if __name__ == "__main__":
    main()
