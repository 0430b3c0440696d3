"""No result moves: golden cases again, table by table (tests/golden). `make test-long` runs every one."""

from collections.abc import Callable

import polars as pl
import pytest

from core_run import STEP
from golden.cases import Case, inputs_of, large_cases, small_cases
from golden.digest import Digest, of_columns, read

FILES: dict[str, Callable[[], list[Case]]] = {"small.tsv": small_cases, "large.tsv": large_cases}
# Groups of more cases than this are crosses: a part of them all has every scheduler and every value.
MANY = 200
# A test for each input, so that several processes share them.
GROUPS = [
    pytest.param(file, group, marks=[pytest.mark.long] if file == "large.tsv" else [])
    for file in FILES
    for group in sorted({name.partition("/")[0] for name in read(file)} - {"input"})
]


@pytest.mark.parametrize("file", FILES)
def test_every_case_has_its_result(file: str) -> None:
    cases = FILES[file]()
    assert sorted([*(case.name for case in cases), *inputs_of(cases)]) == sorted(read(file))


@pytest.mark.parametrize(("file", "group"), GROUPS)
def test_results_are_as_they_were(file: str, group: str) -> None:
    golden = read(file)
    cases = [case for case in FILES[file]() if case.name.partition("/")[0] == group]
    if len(cases) > MANY:
        # Another place in every run of STEP cases, or it would always be the same value of the last option.
        cases = [case for i, case in enumerate(cases) if (i + i // STEP) % STEP == 0]
    for name, kept in inputs_of(cases).items():
        assert kept == golden[name], f"{name} is another table than it was, so its results say nothing"
    moved = [text for case in cases if (text := _moved(case, golden[case.name]))]
    if moved:
        shown = "\n".join(moved[:10])
        pytest.fail(f"{len(moved)} of {len(cases)} cases of {group} differ:\n{shown}", pytrace=False)


def _moved(case: Case, before: Digest) -> str:
    """What differs in a case, or nothing."""
    now = case.kept()
    changes = now.changes(before)
    if not changes:
        return ""
    if now.error or before.error:
        return f"{case}\n    was {before.error or 'a result'}\n    now {now.error or 'a result'}"
    counts = f" (events/decisions were {before.counts}, are {now.counts})" if "counts" in changes else ""
    return f"{case}\n    differs in: {', '.join(changes)}{counts}"


def test_the_hash_tells_tables_apart() -> None:
    column = pl.Series("a", [0.5, None, 2.0])
    others = [
        pl.Series("b", [0.5, None, 2.0]),
        pl.Series("a", [0.5, 0.0, 2.0]),
        pl.Series("a", [0.5, 2.0, None]),
        pl.Series("a", [0.5, None, 2.0000000000000004]),
        pl.Series("a", [0.5, None, 2.0], dtype=pl.Float32),
        pl.Series("a", ["0.5", None, "2.0"]),
        pl.Series("a", ["0.", None, "52.0"]),
    ]
    assert len({of_columns([series]) for series in (column, *others)}) == 1 + len(others)
    assert of_columns([column]) == of_columns([column.clone()])
    assert of_columns([pl.Series("a", [0.0])]) != of_columns([pl.Series("a", [-0.0])])
