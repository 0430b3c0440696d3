"""docs/results-policies.md: its findings follow from its own tables, and its maker finds them."""

from collections.abc import Iterable
from pathlib import Path

import pytest

import policy_table as table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results-policies.md"


def test_the_page_is_what_its_tables_make() -> None:
    text = PAGE.read_text(encoding="utf-8")
    written = text[text.index("\n### ") :].rstrip("\n").split("\n")
    assert table.page(["", *written[1:]]) == text, "run: make policy-table"


def test_the_page_has_every_policy_on_every_trace() -> None:
    rows = table.policy_findings.rows(PAGE.read_text(encoding="utf-8"))
    wanted = list(table.runs())
    cases = [(trace, speed) for trace in table.CLUSTERS for speed in table.SPEEDS]
    assert [(r.trace, r.speed, r.policy) for r in rows] == [
        (*case, name) for case in cases for name in wanted
    ]


@pytest.mark.long
def test_the_picture_is_a_png() -> None:
    assert (PAGE.parent / table.PICTURE).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    made = table.picture(table.policy_findings.rows(PAGE.read_text(encoding="utf-8")))
    assert made[:8] == b"\x89PNG\r\n\x1a\n"


def made(names: Iterable[str], jct: dict[tuple[str, str], dict[str, float]]) -> str:
    """A page of tables with these mean JCTs, 1.0 where none is given."""
    lines = []
    for trace in dict.fromkeys(trace for trace, _ in jct):
        lines.append(f"### {trace}: 4 servers of 8 GPUs\n")
        for (name, speed), own in jct.items():
            if name != trace:
                continue
            lines += [
                f"{speed}:\n",
                "| policy | mean JCT, s | mean wait, s | spread | preemptions |",
                "| --- |",
            ]
            lines += [
                f"| {name} | {own.get(name, 1000.0):,} | 5 | {7 if name == 'sjf-bco' else 1} | 3 |"
                for name in names
            ]
            lines.append("")
    return "\n".join(lines)


def test_findings_follow_from_the_figures() -> None:
    find = table.policy_findings
    page = made(
        table.runs(),
        {
            ("t/one", "100 Gb/s"): {"srtf": 500.0, "sjf-bco": 1100.0, "gittins": 501.0, "time-slice": 3000.0},
            ("t/one", "10 Gb/s"): {"srtf": 500.0, "sjf-bco": 4000.0, "gittins": 800.0, "rand": 9000.0},
            ("t/two", "100 Gb/s"): {},
            ("t/two", "10 Gb/s"): dict.fromkeys(("fifo", "srtf"), 5000.0),
        },
    )
    rows = find.rows(page)
    assert len(rows) == 4 * 15
    assert (rows[0].trace, rows[0].speed, rows[0].policy, rows[0].mean_jct) == (
        "t/one",
        "100 Gb/s",
        "fifo",
        1000.0,
    )
    best, typical, idle, repack, informed, smallest, own, links, turns = find.findings(rows)
    assert "of 3 cases: srtf in 2, sjf in 1, " in best
    assert "gittins 1.00" in typical
    assert idle.endswith(": t/two at 100 Gb/s.")
    assert "in 2 of 4 cases; on t/one at 100 Gb/s its mean JCT is 2.0 times as much" in repack
    # 501 / 500 and 1,000 / 1,000 are within 1 %, and 1,000 / 5,000; 800 / 500 is 60 % more.
    assert "in 3 of 4 cases" in informed
    assert "t/one at 10 Gb/s: 60 % more" in informed
    assert "at 100 Gb/s ahead in 0, equal in 1, behind in 1 of 2 traces" in smallest
    assert "worst on t/one: 10 % more" in smallest
    assert "worst on t/one: 4.0 times as much" in smallest
    assert "at 100 Gb/s it is ahead in 0 of 3 comparisons" in own
    assert "0.25 to 2.25 times its own" in own
    assert "SJF-BCO spreads 7 jobs, `smallest` 1." in links
    assert "at worst 3.0 times fifo's (t/one at 100 Gb/s)" in turns


def test_ratios_to_the_best_of_the_case() -> None:
    rows = table.policy_findings.rows(
        made(table.runs(), {("t/one", "10 Gb/s"): {"fifo": 250.0, "rand": 500.0}})
    )
    ratios = dict(zip((r.policy for r in rows), table.policy_findings.to_best(rows), strict=True))
    assert (ratios["fifo"], ratios["rand"], ratios["sjf"]) == (1.0, 2.0, 4.0)
    assert list(table.policy_findings.typical(rows))[:2] == ["fifo", "rand"]
