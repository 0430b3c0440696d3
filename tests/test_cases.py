"""Random cases in which everything meets (`cases`): the same again, as twins say, sound and summed up well.

`RINGBCO_CASES` sets how many. What fails is made small and printed as a program.
"""

from collections import Counter
from collections.abc import Callable
from itertools import islice

import pytest

from cases import files
from cases.known import KNOWN, Known, excuse
from cases.met import met
from cases.run import Met, look, meet
from cases.shrink import shrink
from core_run import CASES

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

CHUNK = 15
"""Cases of each test, so that several processes share them."""


@pytest.mark.parametrize("chunk", range(-(-CASES // CHUNK)))
def test_everything_meets(chunk: int, record_property: Callable[[str, object], None]) -> None:
    seen = [meet(seed) for seed in range(CHUNK * chunk, min(CASES, CHUNK * (chunk + 1)))]
    features = [len(met(each.seed, each.features)) for each in seen]
    excused = [[excuse(each.seen, fault) for fault in each.seen.faults] for each in seen]
    told = {
        "cases": len(seen),
        "features": sum(features),
        "twins": sum(each.seen.lacks is None for each in seen),
        "refusals": sum(len(each.refusals) for each in seen),
        "excused": dict(Counter(cause for causes in excused for cause in {*causes} - {None})),
    }
    record_property("cases", told)
    for each, causes in zip(seen, excused, strict=True):
        if None in causes:
            pytest.fail(_smallest(each, causes.index(None)), pytrace=False)
    assert sum(features) >= 4 * len(seen)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.cause)
@pytest.mark.xfail(strict=True)
def test_what_is_known_to_be_wrong(known: Known) -> None:
    seen = look(known.case)
    assert seen.refusal is None
    assert seen.faults == []


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.cause)
def test_what_is_known_is_recognised(known: Known) -> None:
    seen = look(known.case)
    assert {excuse(seen, fault) for fault in seen.faults} == {known.cause}


def test_the_file_for_rust_is_that_of_these_cases() -> None:
    # Else `python tests/cases/files.py` writes it anew.
    first = islice(files.cases(), 3)
    assert ["\n".join(told) for told in first] == files.FILE.read_text().split("\n\n")[:3]


def _smallest(met: Met, number: int) -> str:
    """The fault of that number, in the smallest case that shows one of its kind."""
    kind = met.seen.faults[number].kind

    def shows(case: object) -> bool:
        again = look(case)  # type: ignore[arg-type]
        return any(fault.kind == kind and excuse(again, fault) is None for fault in again.faults)

    features, case = shrink(met.seed, met.features, shows)
    text = next(fault.text for fault in look(case).faults if fault.kind == kind)
    return f"case {met.seed}, of {', '.join(features) or 'nothing'}: {kind}: {text}\n\n{case.script()}"
