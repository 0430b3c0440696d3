"""docs/results-policies.md: every number of its findings is what its own tables say."""

import re
from pathlib import Path
from statistics import median

import pytest

import page_tables
import page_traces as table
from findings import change, changes, finding, numbers

PAGE = Path(__file__).parents[2] / "docs" / "results-policies.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = table.told_policies(page_tables.marked(TEXT)["policies"])
OF = {(*row.case, row.policy): row for row in ROWS}
CASES = list(dict.fromkeys(row.case for row in ROWS))
TRACES, SPEEDS, POLICIES = list(table.CLUSTERS), list(table.SPEEDS), list(table.runs())
FAST, SLOW = SPEEDS
EXACT = table.EXACT
BLIND = ("fifo", "smallest", "ff", "rand", "qssf", "tiresias", "gittins", "time-slice")  # know no run time
SPREADING = ("ff", "ls", "rand", "sjf-bco")
HELIOS, LARGEST = TRACES[-1], TRACES[0]
EQUAL, TIE, IDLE = 1.001, 1.0002, 1.01


def against(policy: str, other: str, speeds: list[str] = SPEEDS) -> dict[tuple[str, str], float]:
    """A policy's mean JCT over another's, case by case."""
    return {
        case: OF[*case, policy].mean_jct / OF[*case, other].mean_jct for case in CASES if case[1] in speeds
    }


def behind_best(case: tuple[str, str], others: tuple[str, ...] | list[str]) -> dict[str, float]:
    """Each policy's mean JCT over the least of some."""
    best = min(OF[*case, other].mean_jct for other in others)
    return {policy: OF[*case, policy].mean_jct / best for policy in POLICIES}


DECIDED = [case for case in CASES if max(behind_best(case, POLICIES).values()) > IDLE]


def test_the_page_has_every_policy_on_every_trace() -> None:
    wanted = [(trace, speed, name) for trace in TRACES for speed in SPEEDS for name in POLICIES]
    assert [(*row.case, row.policy) for row in ROWS] == wanted
    assert len(POLICIES) == 16


def test_who_has_the_least_mean_jct() -> None:
    told = dict.fromkeys(POLICIES, 0)
    for case in DECIDED:
        for policy, ratio in behind_best(case, POLICIES).items():
            told[policy] += ratio <= EQUAL
    first, *rest = sorted(told.values(), reverse=True)
    assert told[EXACT] == first
    assert (rest[:3], rest[3]) == ([told["repack"], told["srtf"], told["srsf"]], 1)
    assert rest[1] == rest[2]
    assert numbers(finding(TEXT, "The least mean JCT")) == [0.1, first, len(DECIDED), *rest[:2], rest[3]]
    idle = {case[0] for case in CASES if case not in DECIDED}
    assert len(idle) == 1
    assert f"on {idle.pop()} no policy" in finding(TEXT, "Nothing to decide")
    assert len(CASES) - len(DECIDED) == 2


def test_a_typical_case() -> None:
    typical = ", ".join(f"{name} {ratio:.2f}" for name, ratio in table.typical(ROWS).items())
    assert finding(TEXT, "A typical case").endswith(f"): {typical}.")


def test_repack_against_those_that_know_as_much() -> None:
    others = [policy for policy in POLICIES if policy not in (EXACT, "repack")]
    exact = [behind_best(case, others)[EXACT] for case in CASES]
    behind = {case: behind_best(case, BLIND)["repack"] for case in CASES}
    worse = {case: round(100 * (ratio - 1), 1) for case, ratio in behind.items() if ratio > TIE}
    text = finding(TEXT, "repack")
    traces = ("philly/2869ce", "philly/51b7ef", HELIOS)
    wanted = [(trace, speed) for speed in SPEEDS for trace in traces if (speed, trace) != (SLOW, traces[0])]
    assert set(worse) == set(wanted)
    assert numbers(text)[-5:] == [worse[case] for case in wanted]
    value = [0.02, sum(ratio <= TIE for ratio in exact), len(CASES), len(CASES) - len(worse), len(CASES)]
    assert numbers(text)[:5] == value


def test_not_knowing_the_run_times() -> None:
    behind, fifo = against("gittins", "srtf"), against("gittins", "fifo")
    worst = max(behind, key=behind.__getitem__)
    text = finding(TEXT, "Not knowing the run times")
    assert worst == (HELIOS, FAST)
    assert changes(text) == [change(behind[worst], ".1f")]
    near, better = (sum(ratio <= 1.01 for ratio in behind.values()), sum(r < 0.999 for r in fifo.values()))
    assert numbers(text)[:3] == [1, near, len(CASES)]
    assert numbers(text)[-2:] == [better, len(CASES)]


def test_sjf_bco_against_its_queue_with_plain_consolidation() -> None:
    entries, most = [], []
    for speed in SPEEDS:
        ratios = against("sjf-bco", "smallest", [speed])
        equal = sum(0.999 <= ratio <= EQUAL for ratio in ratios.values())
        assert equal + sum(ratio > EQUAL for ratio in ratios.values()) == len(ratios) == len(TRACES)
        entries += [equal, len(ratios) - equal]
        worst = max(ratios, key=ratios.__getitem__)
        assert worst[0] == LARGEST
        most.append(change(ratios[worst], ".1f"))
    text = finding(TEXT, "SJF-BCO against `smallest`")
    assert changes(text.split(":", 1)[1]) == most
    assert numbers(text)[:3] == [entries[0], len(TRACES), entries[1]]
    assert numbers(text)[4:6] == entries[2:]


def test_sjf_bco_against_the_baselines() -> None:
    wins, spans = [], []
    for speed in SPEEDS:
        ratios = [
            against(other, "sjf-bco")[case]
            for case in DECIDED
            if case[1] == speed
            for other in ("ff", "ls", "rand")
        ]
        wins += [sum(ratio > 1 for ratio in ratios), len(ratios)]
        spans += [round(min(ratios), 2), round(max(ratios), 2)]
    assert numbers(finding(TEXT, "SJF-BCO against the paper")) == wins + spans


def test_slow_links() -> None:
    grown = {(p, t): OF[t, SLOW, p].mean_jct / OF[t, FAST, p].mean_jct for p in POLICIES for t in TRACES}
    spread = [OF[LARGEST, SLOW, policy].spread for policy in ("sjf-bco", "smallest")]
    medians = [median(r for (p, _), r in grown.items() if (p in SPREADING) is s) for s in (True, False)]
    text = finding(TEXT, "Slow links and spreading")
    assert numbers(text) == [round(medians[0], 1), round(medians[1], 2), *spread]
    assert f"({', '.join(SPREADING)})" in text
    assert [t for t in TRACES if min(grown[p, t] for p in POLICIES) > 2] == [HELIOS]
    assert spread[0] == max(OF[t, SLOW, "sjf-bco"].spread for t in TRACES)


def test_turns() -> None:
    fast = [case for case in CASES if case[1] == FAST]
    most = max(fast, key=lambda case: OF[*case, "time-slice"].preemptions)
    fifo = against("time-slice", "fifo")
    worst = max(fifo, key=fifo.__getitem__)
    assert (most, worst) == ((LARGEST, FAST), ("philly/2869ce", SLOW))
    value = [OF[*most, policy].preemptions for policy in ("time-slice", "srtf")]
    value += [sum(ratio < 0.999 for ratio in fifo.values()), len(CASES)]
    assert numbers(finding(TEXT, "Turns")) == [*value, round(fifo[worst], 1)]


@pytest.mark.long
def test_the_picture_is_a_png() -> None:
    assert (PAGE.parent / "images/policies.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert table.policies_picture(page_tables.marked(TEXT)["policies"])[:8] == b"\x89PNG\r\n\x1a\n"


def test_ratios_to_the_best_of_the_case() -> None:
    jct = {"a": ("2,500", "1"), "b": ("5,000", "1"), "c": ("10,000", "1")}
    own = [page_tables.line(name, fast, 1, 1, 3, slow, 1, 1) for name, (fast, slow) in jct.items()]
    text = "\n".join(["### t/one: 4 servers of 8 GPUs", "", *page_tables.head("policy", *table.CELLS), *own])
    rows = table.told_policies(text)[:3]
    assert [(row.case, row.policy) for row in rows] == [(("t/one", FAST), name) for name in "abc"]
    assert table.to_best(rows) == [1.0, 2.0, 4.0]
    assert table.typical(rows) == {"a": 1.0, "b": 2.0, "c": 4.0}
    page = "above\n<!-- table: x -->\nold\n<!-- end -->\nbelow"
    assert page_tables.filled(page, {"x": "new"}) == page.replace("old", "new")


def test_numbers_in_names_and_code_are_no_claims() -> None:
    assert numbers("p99 of philly/103959 and 6214e9, `--at 5`: 1,526, 2.5 and 3 of 4.") == [1526, 2.5, 3, 4]
    assert changes(f"{change(0.9)}; {change(1.001)}; {change(2.51)}") == [
        "10 % less", "the same", "2.5 times as much",
    ]  # fmt: skip
    assert re.fullmatch(r"12\.3 % more", change(1.123, ".1f"))
