"""Random cases in which everything meets (`cases`): the same again, as the reference says, sound, summed up.

`RINGBCO_CASES` sets how many. What fails is made small and printed as a program.
"""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from cases import files
from cases.met import effective_features
from cases.run import Met, look, meet
from cases.shrink import shrink
from core_run import CASES, LONG

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

ROOT = Path(__file__).parents[2]
COUNT = CASES if LONG else CASES * 2 // 3
"""Each takes as long as a dozen of the others'."""
CHUNK = 15
"""Cases of each test, so that several processes share them."""


@pytest.mark.parametrize("chunk", range(-(-COUNT // CHUNK)))
def test_everything_meets(chunk: int, record_property: Callable[[str, object], None]) -> None:
    seen = [meet(seed) for seed in range(CHUNK * chunk, min(COUNT, CHUNK * (chunk + 1)))]
    features = [len(effective_features(each.seed, each.features)) for each in seen]
    value = {
        "cases": len(seen),
        "features": sum(features),
        "refusals": sum(len(each.refusals) for each in seen),
    }
    record_property("cases", value)
    for each in seen:
        if each.seen.faults:
            pytest.fail(_smallest(each), pytrace=False)
    assert sum(features) >= 4 * len(seen)


@pytest.mark.parametrize("kind", files.KINDS)
def test_the_file_for_rust_is_that_of_these_cases(kind: Callable[[int], files.CaseLines | None]) -> None:
    # Else `python tests/cases/files.py` writes it anew.
    usual, *blocks = (block.splitlines() for block in files.FILE.read_text().split("\n\n"))
    for entry in islice(files.cases(kind), 3):
        block = next(block for block in blocks if block[0] == entry.given[0])
        assert [line for line in block if not line.startswith("option.")] == [*entry.given, *entry.expected]
        options = dict(line.split(" ", 1) for line in (*usual, *block) if line.startswith("option."))
        assert options == {f"option.{name}": words for name, words in entry.options.items()}


def _smallest(met: Met) -> str:
    """The first fault, in the smallest case that shows one of its kind."""
    kind = met.seen.faults[0].kind

    def shows(case: object) -> bool:
        return any(fault.kind == kind for fault in look(case).faults)  # type: ignore[arg-type]

    features, case = shrink(met.seed, met.features, shows)
    text = next(fault.text for fault in look(case).faults if fault.kind == kind)
    return f"case {met.seed}, of {', '.join(features) or 'nothing'}: {kind}: {text}\n\n{case.script()}"
