"""The tables of docs/repack.md, made of public traces, and what the page says of them."""

from pathlib import Path

import polars as pl
import pytest

import page_tables
import page_traces as made
import page_wide
from conftest import SMALL_JOBS
from ringbco import replay

PAGE = (Path(__file__).parents[2] / "docs" / "repack.md").read_text(encoding="utf-8")
TABLES = page_tables.marked(PAGE)


def test_the_table_tells_mean_ends_and_seeds(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(SMALL_JOBS)
    text = "\n".join(made.repack_of(path, "2x8", 3))
    assert "a mean over 3 seeds (0 to 2), then the least and the greatest" in text
    times = [replay(path, "2x8", policy="srtf", seed=seed).summary["mean_jct"] for seed in range(3)]
    content = f"{sum(times) / 3:,.0f} ({min(times):,.0f} to {max(times):,.0f})"
    assert f"| `srtf` | yes | {content} |" in text


def test_the_page_has_five_seeds() -> None:
    part = TABLES["repack"]
    assert f"a mean over {made.SEEDS} seeds" in part
    assert made.SEEDS == 5
    assert part.count(" to ") == 10  # two cells of four policies, the bound, the seeds


def ends(cell: str) -> tuple[float, float]:
    """The least and the greatest value of a cell."""
    numbers = [page_tables.number(part) for part in cell.split(" to ")]
    return numbers[0], numbers[-1]


CASE = "trace, servers"
WIDE = {row[CASE]: row for _, _, row in page_tables.rows(TABLES["wide"]) if row["preemptions"]}
COSTS = [row for _, _, row in page_tables.rows(TABLES["costs"])]
PREDICTIONS = [row for _, _, row in page_tables.rows(TABLES["predictions"])]
BROKEN = {"philly/0e4a51, 24"}
"""Where the page says that the promise is broken."""


def behind(name: str) -> tuple[int, int]:
    """By how many per cent the mean is above the best of the wide set: the least and the greatest."""
    least, most = ends(WIDE[name]["repack / best"])
    return round(100 * (least - 1)), round(100 * (most - 1))


def test_where_the_promise_is_kept() -> None:
    assert len(WIDE) == 24
    broken = {
        name
        for name, row in WIDE.items()
        if ends(row["worst bounded slowdown"])[1] > ends(row["promised"])[1]
    }
    assert broken == BROKEN


def test_where_it_loses() -> None:
    """Every case that is 5 % behind in some draw stands in the list, with its figures."""
    text = PAGE[PAGE.index("## Where it loses") :]
    for name, words in {
        "Muri's testbed, 8": "**Muri's testbed**, by {} to {} %",
        "Shockwave's testbed, 8 of 4": "**Shockwave's testbed**, by {} to {} %",
        "helios/venus_2vc_2020-09, 20 + 2": "Venus as two clusters, by {} to {} %",
        "helios/venus_2vc_2020-09, 26": "on 26 servers, by {} to {} %",
        "philly/51b7ef, 1": "51b7ef, 63 jobs in all, by {} to {} %",
    }.items():
        assert words.format(*behind(name)) in text, name
    small = [name for name in WIDE if name.startswith(("elasticflow/cluster01", "elasticflow/cluster05"))]
    small.append("elasticflow/cluster06, 13")
    assert f"01, 05 and 06, by up to {max(behind(name)[1] for name in small)} %" in text
    ratios = [page_tables.number(row[f"repack / best, {cost} s"]) for cost in ("600", "1,800")
              for row in COSTS if row[CASE] in small]  # fmt: skip
    assert f"with higher costs by up to {100 * (max(ratios) - 1):.0f} %" in text
    assert {name for name in WIDE if behind(name)[1] >= 5} == {
        *small, "Muri's testbed, 8", "Shockwave's testbed, 8 of 4", "philly/51b7ef, 1",
        "helios/venus_2vc_2020-09, 20 + 2", "helios/venus_2vc_2020-09, 26",
    }  # fmt: skip


def test_what_predictions_are_worth() -> None:
    philly = {row[CASE]: row for row in PREDICTIONS if row[CASE].startswith("philly")}
    assert len(philly) == 7
    good = {name: ends(row["sigma 1 / history"]) for name, row in philly.items()}
    assert sum(low >= 0.8 and high < 0.895 for low, high in good.values()) == 4
    for name, worst in {"6214e9, 32": 0.91, "6c71a0, 16": 0.935, "ed69ec, 4": 0.975}.items():
        assert good[f"philly/{name}"][1] < worst
    assert all(ends(row["sigma 1 in another order / history"]) == (1.0, 1.0) for row in PREDICTIONS)
    least = min(ends(row["sigma 2 / history"])[0] for row in philly.values())
    most = max(ends(row["sigma 2 / history"])[1] for row in PREDICTIONS)
    words = f"up to {100 - 100 * least:.0f} % lower there, and on Venus up to {100 * most - 100:.0f} % higher"
    assert words in PAGE
    known = {row[CASE]: page_tables.number(row["exact / srtf"]) for row in PREDICTIONS}
    assert {name for name, ratio in known.items() if ratio > 1.002} == {"helios/venus_2vc_2020-09, 18"}
    assert all(ends(r["exact, worst slowdown"])[1] <= ends(r["promised"])[1] for r in PREDICTIONS)


@pytest.mark.long
def test_the_promise(shared_traces: Path) -> None:
    """Every public case of the table anew, without noise; the best rival's mean JCT is the table's."""
    for case in page_wide.public(page_tables.TableInputs(shared_traces)):
        row = WIDE[case.name]
        told = page_wide.run(case, case.jobs, page_wide.COSTS[0], {"policy": "repack"})
        assert told.bounded <= max(25.0, 7.0 * told.demand) or case.name in BROKEN, case.name
        low, high = ends(row["its mean JCT, s"])
        assert ends(row["repack / best"])[0] - 1e-3 <= told.mean / low, case.name
        assert told.mean / high <= ends(row["repack / best"])[1] + 1e-3, case.name
        assert ends(row["preemptions"])[0] <= told.preemptions <= ends(row["preemptions"])[1], case.name


def test_the_peak_of_demand() -> None:
    """Two jobs of 2 GPUs on 2 GPUs, the second one submitted as the first one ends, then as it runs."""
    cluster = made.Cluster.parse("1x2")
    for submit, peak in ((100.0, 1.0), (99.0, 2.0)):
        columns = {
            "job_id": ["a", "b"],
            "submit_time": [0.0, submit],
            "num_gpus": [2, 2],
            "duration": [100.0, 5.0],
        }
        outcome = replay(pl.DataFrame(columns), cluster, policy="fifo", model="fixed")
        assert made.peak(outcome, cluster) == peak
