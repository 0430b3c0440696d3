"""What a test without its public trace does, and what pytest says of it in the end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import SHARED, present, pytest_terminal_summary


def test_a_trace_that_is_there_is_used(tmp_path: Path) -> None:
    assert present(tmp_path) == tmp_path


@pytest.mark.parametrize(
    ("expected", "outcome"),
    [(None, pytest.skip.Exception), ("0", pytest.skip.Exception), ("1", pytest.fail.Exception)],
)
def test_a_trace_that_is_absent_skips_or_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: str | None, outcome: type[BaseException]
) -> None:
    monkeypatch.delenv("RINGBCO_EXPECT_TRACES", raising=False)
    if expected is not None:
        monkeypatch.setenv("RINGBCO_EXPECT_TRACES", expected)
    with pytest.raises(outcome, match=r"no public trace .*/absent\.csv"):
        present(tmp_path / "absent.csv")


def skip_summary(reasons: dict[str, str]) -> list[str]:
    """What the summary writes where the tests of some ids were skipped for some reasons."""
    reports = [SimpleNamespace(nodeid=name, longrepr=("f", 1, why)) for name, why in reasons.items()]
    lines: list[str] = []
    reporter = SimpleNamespace(getreports=lambda kind: reports, write_line=lines.append)
    summary = pytest_terminal_summary(reporter)  # type: ignore[arg-type]
    next(summary)
    assert lines == [], "below what pytest itself says"
    with pytest.raises(StopIteration):
        next(summary)
    return lines


def test_one_line_says_what_was_skipped_and_how_to_get_it() -> None:
    absent = "Skipped: no public trace /x"
    reasons = {
        "tests/test_b.py::one": absent,
        "tests/test_b.py::two[3]": absent,
        "tests/test_a.py::x": absent,
    }
    (line,) = skip_summary({**reasons, "tests/test_c.py::y": "Skipped: no chromium"})
    assert line == (
        f"3 tests skipped without the public traces in {SHARED / 'traces'} (a 1, b 2);"
        " CONTRIBUTING.md says where to get them"
    )
    assert skip_summary({"tests/test_c.py::y": "Skipped: no chromium"}) == []
