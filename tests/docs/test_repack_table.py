"""The tables of docs/repack.md, made of public traces, and the bound that the page states."""

from pathlib import Path

import polars as pl
import pytest

import page_tables
import page_traces as made
from conftest import SMALL_JOBS
from ringbco import replay

PAGE = (Path(__file__).parents[2] / "docs" / "repack.md").read_text(encoding="utf-8")


def test_the_table_tells_mean_ends_and_seeds(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(SMALL_JOBS)
    text = "\n".join(made.repack_of(path, "2x8", 3))
    assert "a mean over 3 seeds (0 to 2), then the least and the greatest" in text
    times = [replay(path, "2x8", policy="srtf", seed=seed).summary["mean_jct"] for seed in range(3)]
    content = f"{sum(times) / 3:,.0f} ({min(times):,.0f} to {max(times):,.0f})"
    assert f"| `srtf` | yes | {content} |" in text


def test_the_page_has_five_seeds() -> None:
    part = page_tables.marked(PAGE)["repack"]
    assert f"a mean over {made.SEEDS} seeds" in part
    assert made.SEEDS == 5
    assert part.count(" to ") == 10  # two cells of four policies, the bound, the seeds


# The bound

SLOWDOWN, PER_DEMAND, BEHIND = 25.0, 7.0, 1.3
"""What the page states: the worst slowdown is at most the greater of 25 and 7 x the peak demand, the mean JCT
at most 1.3 times that of the best policy that knows no run time."""
KNOWN, KNOWN_BEHIND = 50.0, 1.0001
"""The same with known run times: the greater of 50 and 7 x the peak demand, and so many times."""


def ends(cell: str) -> tuple[float, float]:
    """The least and the greatest value of a cell."""
    numbers = [page_tables.number(part) for part in cell.split(" to ")]
    return numbers[0], numbers[-1]


def most(trace: str, servers: str) -> float:
    """How many times the best blind policy's mean JCT the page allows."""
    if trace == made.VENUS and "+" not in servers and int(servers) <= 23:
        return 1.005
    of = made.CLUSTERS.get(trace, ())
    if trace.startswith("philly/") and of[0].count >= 16:
        return 1.02 if (trace, servers) == ("philly/2869ce", "12") else 1.005
    return BEHIND


ROWS = [row for _, _, row in page_tables.rows(page_tables.marked(PAGE)["repack runs"])]


def test_the_table_of_runs_keeps_the_bound() -> None:
    assert len(ROWS) == 40
    assert len({row["trace"] for row in ROWS}) == 15
    for row in ROWS:
        peak, worst = ends(row["peak demand"])[0], ends(row["worst slowdown"])[1]
        assert worst <= max(SLOWDOWN, PER_DEMAND * peak), row
        assert ends(row["repack / best"])[1] <= most(row["trace"], row["servers"]), row
        assert ends(row["exact, worst slowdown"])[1] <= max(KNOWN, PER_DEMAND * peak), row
        assert ends(row["exact / best"])[1] <= KNOWN_BEHIND, row


@pytest.mark.long
def test_the_bound(shared_traces: Path) -> None:
    """Every run of the table anew with one of its seeds; the best blind policy's mean JCT is the table's."""
    given = page_tables.TableInputs(shared_traces)
    cases = list(made.cases(given))
    assert [(case.trace, case.servers) for case in cases] == [(row["trace"], row["servers"]) for row in ROWS]
    for case, row in zip(cases, ROWS, strict=True):
        outcome = made.run(case, case.jobs(given), 0, policy="repack")
        worst, mean = (outcome.summary[key] for key in ("worst_finish_time_fairness", "mean_jct"))
        peak = made.peak(outcome, case.cluster)
        assert worst <= max(SLOWDOWN, PER_DEMAND * peak), case
        low, high = ends(row["its mean JCT, s"])
        assert mean <= most(case.trace, case.servers) * (high + 0.5), case
        assert ends(row["repack / best"])[0] - 1e-4 <= mean / low, case
        assert mean / high <= ends(row["repack / best"])[1] + 1e-4, case


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
