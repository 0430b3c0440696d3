"""Checks count where they compare: without comparisons one has looked at nothing, and says so."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ringbco
from answered import JOBS, answered
from cases.run import meet
from ringbco import audits
from ringbco.audits import RULES, check_folder, check_outcome, recomputation, searching, seating, served
from ringbco.audits.difference import Differences
from ringbco.audits.ends import Ends
from ringbco.audits.figures import Figures
from ringbco.audits.findings import NOTHING, Check, Report
from ringbco.run import again
from ringbco.trace.jobs import JobTable, as_table

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")


Genuine = list[tuple[ringbco.Outcome, JobTable, Report]]


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Genuine:
    """Results in which, together, every check of tables looks at something."""
    # Drawn requests are in memory, where a check does not look at them.
    outcome, jobs = ringbco.Outcome.read(answered(tmp_path_factory.mktemp("answered"))), as_table(JOBS)
    result = [(outcome, jobs, check_outcome(outcome, jobs))]
    for seed in (*range(12), 25):  # the last has tiers
        seen = meet(seed, check=False).seen
        if seen.outcome is not None:
            table = as_table(seen.case.frame())
            result.append((seen.outcome, table, check_outcome(seen.outcome, table)))
    return result


def check(report: Report, code: str) -> Check:
    return next(check for check in report.checks if check.code == code)


@pytest.fixture
def emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compared: every loop over rows, stays, figures and files is one over none."""
    compared = Check.broken

    def nothing(*_: Any, **__: Any) -> Iterator[Any]:
        return iter(())

    loops: list[tuple[Any, str, Callable[..., Any]]] = [
        (Check, "broken", lambda self, bad: compared(self, bad[:0])),
        (Check, "expect", lambda *_, **__: True),
        (Differences, "all", nothing),
        (Figures, "_one", nothing),
        (Ends, "all", nothing),
        (Ends, "beyond", nothing),
        (Ends, "beyond_limits", nothing),
        (recomputation, "off", nothing),
        (seating, "_company", nothing),
        (served, "_faults", nothing),
        (searching, "_check_ends", nothing),
        (again, "compare_results", lambda *_, **__: {}),
    ]
    for owner, name, loop in loops:
        monkeypatch.setattr(owner, name, loop)


OF_TABLES = [code for code in RULES if code not in audits.OF_FOLDERS]


@pytest.mark.parametrize("code", OF_TABLES)
def test_a_check_that_compares_nothing_has_looked_at_nothing(
    code: str, genuine: Genuine, emptied: None
) -> None:
    entries = [(outcome, table) for outcome, table, report in genuine if check(report, code).looked_at]
    assert entries, "no case of it"
    result = [check(check_outcome(outcome, table), code) for outcome, table in entries]
    assert {(each.looked_at, each.failed, each.passed) for each in result} == {(0, 0, False)}
    assert NOTHING in {each.not_run for each in result}


@pytest.mark.parametrize("code", audits.OF_FOLDERS)
def test_nor_does_one_of_the_folder(code: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    jobs = ringbco.generate("paper", 10, 1)
    ringbco.write_jobs(jobs, tmp_path / "jobs.parquet")
    ringbco.replay(tmp_path / "jobs.parquet", "2x4").write(tmp_path / "result")
    assert check(check_folder(tmp_path / "result", repeat=True), code).looked_at > 3
    request.getfixturevalue("emptied")
    result = check(check_folder(tmp_path / "result", repeat=True), code)
    assert (result.looked_at, result.not_run) == (0, NOTHING)


def test_half_as_many_comparisons_are_half_as_many_things_looked_at(
    genuine: Genuine, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, table, report = genuine[0]
    compared = Check.broken
    monkeypatch.setattr(Check, "broken", lambda self, bad: compared(self, bad[: bad.size // 2]))
    again = check_outcome(outcome, table)
    for code in ("start", "rows", "capacity"):
        assert check(again, code).looked_at == check(report, code).looked_at // 2


def test_no_count_is_set_from_a_size() -> None:
    for path in Path(audits.__file__).parent.glob("*.py"):
        assert not re.search(r"(check|\])\.looked_at = ", path.read_text(encoding="utf-8")), path.name
