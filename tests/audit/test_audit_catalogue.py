"""benches/audit_catalogue.py draws three kinds of corruptions and counts what is caught."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

import audit_catalogue as bench
import ringbco
from cases.case import Case
from cases.run import meet
from corrupt import Corrupt, unlike
from corrupt_cells import GIVEN, Genuine, cells, names
from ringbco.result.tables import TABLES

SEEDS = [f"test.{number}" for number in (*range(1, 12), 14)]
KINDS = ("cells", "labels", "runs")


@cache
def drawn(seed: str) -> tuple[Case, ringbco.Outcome, dict[str, list[Corrupt]]]:
    seen = meet(seed, check=False).seen
    assert seen.outcome is not None
    return (
        seen.case,
        seen.outcome,
        {kind: list(bench.corruptions(seen.case, seen.outcome, seed, kind)) for kind in KINDS},
    )


def said(outcome: ringbco.Outcome) -> dict[str, object]:
    """All that a folder would have."""
    frames = {name: frame.rows() for name in TABLES if (frame := getattr(outcome, name)) is not None}
    return {**frames, "summary": repr(outcome.summary), "run": repr(outcome.run)}


def differ(one: ringbco.Outcome, other: ringbco.Outcome) -> set[str]:
    """The parts of a folder that differ; NaN equals itself."""
    mine, theirs = said(one), said(other)
    return {name for name in mine.keys() | theirs.keys() if repr(mine.get(name)) != repr(theirs.get(name))}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cell_is_changed_in_one_table(seed: str) -> None:
    _, genuine, corrupt = drawn(seed)
    for each in corrupt["cells"]:
        changed, table = differ(genuine, each.outcome), bench.part(each.what)
        name = {"stays": "stays_written"}.get(table, table)
        # Causes change places in the stays, too, whose sums those of jobs are.
        assert changed == {name} or (" for " in each.what and changed == {"jobs", "stays_written"}), each.how
    whats = [each.what for each in corrupt["cells"]]
    assert len({*whats}) == len(whats) == bench.COUNTS["cells"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_label_is_of_another_run(seed: str) -> None:
    case, genuine, corrupt = drawn(seed)
    for each in corrupt["labels"]:
        changed = differ(genuine, each.outcome)
        assert "run" in changed <= {"run", "summary"}, each.how
        options = {name for name, value in each.outcome.run["options"].items()
                   if repr(value) != repr(genuine.run["options"].get(name))}  # fmt: skip
        assert bench.part(each.what) in options, each.how
        assert each.other is not None
        assert unlike(case, genuine, each.other), each.how
        assert repr(each.other.run) == repr(each.outcome.run)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_is_another_under_the_same_label(seed: str) -> None:
    case, genuine, corrupt = drawn(seed)
    for each in corrupt["runs"]:
        assert repr(each.outcome.run) == repr(genuine.run), each.how
        assert each.outcome.summary["policy"] == genuine.summary["policy"]
        assert unlike(case, genuine, each.outcome), each.how
        for name in TABLES:
            mine, theirs = getattr(genuine, name), getattr(each.outcome, name)
            assert (mine is None) == (theirs is None), name
            assert mine is None or mine.schema == theirs.schema, name


def test_a_cell_of_every_column_comes_up() -> None:
    """Of the two cases with the fewest, as many as are drawn where the number knows no end."""
    few = sorted(SEEDS, key=lambda seed: len([*names(Genuine(*drawn(seed)[:2]))]))[:2]
    for seed in few:
        genuine = Genuine(*drawn(seed)[:2])
        changed = {each.what for each in cells(genuine, Random(seed), 1000)}
        # What a run was given counts only where it would have made another run.
        assert {what.split(".")[0] for what in {*names(genuine)} - changed} <= {*GIVEN}


def test_all_kinds_are_drawn_and_all_tables_that_there_are() -> None:
    for kind in KINDS:
        assert sum(len(drawn(seed)[2][kind]) for seed in SEEDS) >= len(SEEDS), kind
    outcomes = [drawn(seed)[1] for seed in SEEDS]
    names = ("jobs", "allocations", "timeline", "stays_written", "servers")
    there = {name for name in names if any(getattr(each, name) is not None for each in outcomes)}
    cells = {bench.part(each.what) for seed in SEEDS for each in drawn(seed)[2]["cells"]}
    assert {"summary", *(name.removesuffix("_written") for name in there)} <= cells


@pytest.mark.parametrize("seeds", [SEEDS[:2], pytest.param(SEEDS[2:6], marks=pytest.mark.long)])
def test_what_is_caught_has_a_finding_and_what_is_genuine_has_none(seeds: list[str]) -> None:
    reports = [bench.report(seed) for seed in seeds]
    assert [each.findings for each in reports] == [()] * len(seeds)
    judged = [each for report in reports for each in report.judged]
    assert any(each.caught for each in judged)
    assert [each.how for each in judged if not (each.found or each.untold)] == []
    assert not all(each.caught for each in judged)  # what was decided is no physics
    for report in reports:
        case, _, corrupt = drawn(report.seed)
        again = [each for kind in KINDS for each in corrupt[kind]]
        assert [each.what for each in again] == [each.what for each in report.judged], (
            "of a seed always the same"
        )
        for each, one in zip(again, report.judged, strict=True):
            codes, findings, _ = bench.audited(case, each.outcome)
            assert one.caught == bool(findings) == bool(codes)
    printed = "\n".join(bench.lines(reports))
    assert f"genuine: {len(seeds)} of {len(seeds)} without finding" in printed
    for one in judged:
        assert one.caught or f" {one.what}  --one " in printed or f"{one.what} (" in printed


def test_a_genuine_result_with_a_finding_is_told_and_not_corrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "audited", lambda *_: (("jobs",), ("jobs: made up",), ""))
    result = bench.report(SEEDS[0])
    assert result.judged == []
    assert "genuine: 0 of 1 without finding" in list(bench.lines([result]))


def test_one_case_is_told_with_its_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--one", SEEDS[0], "cells"]) == 0
    printed = capsys.readouterr().out
    for each in drawn(SEEDS[0])[2]["cells"]:
        assert f" {each.what}: {each.how}\n" in printed
    assert "caught " in printed
