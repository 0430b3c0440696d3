"""What a report shows of GPU types: the figures of summary.json, and nothing where GPUs are alike."""

from pathlib import Path

import polars as pl
import pytest

import ringbco
from frames import typed_servers
from ringbco.cluster.spec import Cluster
from ringbco.reports.figures import chapters
from ringbco.reports.html import page
from ringbco.result.outcome import Outcome

CLUSTER = typed_servers((2, 8, "V100"), (1, 4, "ours")) + "[gpu_types.ours]\n"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    file = tmp_path_factory.mktemp("types") / "c.toml"
    file.write_text(CLUSTER, encoding="utf-8")
    jobs = ringbco.generate("philly", 80, 1, gpus=20, load=0.9)
    return {name: ringbco.replay(jobs, Cluster.parse(file), policy=name) for name in ("fifo", "srtf")}


def test_charts_hold_the_figures_of_the_summary(results: dict[str, Outcome]) -> None:
    chapter = next(chapter for chapter in chapters(results) if chapter.title == "GPU types")
    assert [figure.name for figure in chapter.figures] == ["types-utilisation", "types-gpu-hours"]
    for figure, measure in zip(chapter.figures, ("utilisation", "gpu_hours"), strict=True):
        drawn = figure.data.rows_by_key(["policy", "gpu_type"], named=True, unique=True)
        assert len(drawn) == 4
        for label, outcome in results.items():
            for row in outcome.summary["gpu_types"]:
                assert drawn[label, row["gpu_type"]][measure] == pytest.approx(row[measure], rel=1e-4)


def test_the_page_tells_energy_and_cost_of_types_that_have_them(results: dict[str, Outcome]) -> None:
    text = page(results, chapters(results), title="t")
    table = text[text.index("Use by GPU type") :].partition("</table>")[0]
    v100, ours = results["fifo"].summary["gpu_types"]
    for title, value in (("energy, kWh", v100["energy_kwh"]), ("GPU-hours", ours["gpu_hours"])):
        assert f'data-title="{title}">{value:,.0f}</td>' in table
    assert f">{v100['cost']:,.0f}</td>" in table
    assert "energy_kwh" not in ours
    assert table.count('class="words">ours</td>') == len(results)


def test_without_types_nothing_is_said_of_them(tmp_path: Path) -> None:
    jobs = ringbco.generate("philly", 30, 1, gpus=16, load=0.9)
    alike = {"fifo": ringbco.replay(jobs, "2x8", policy="fifo")}
    assert all(chapter.title != "GPU types" for chapter in chapters(alike))
    assert "GPU type" not in page(alike, [], title="t")


def test_one_type_is_no_chapter(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.write_text('[[servers]]\ncount = 2\ngpus = 8\ngpu_type = "v100"\n', encoding="utf-8")
    jobs = ringbco.generate("philly", 30, 1, gpus=16, load=0.9)
    one = {"fifo": ringbco.replay(jobs, Cluster.parse(file), policy="fifo")}
    assert all(chapter.title != "GPU types" for chapter in chapters(one))
    # But how much energy it took, and what that cost, is told nowhere else.
    text = page(one, chapters(one), title="t").partition("Use by GPU type")[2]
    assert f">{one['fifo'].summary['gpu_types'][0]['cost']:,.0f}</td>" in text


def test_no_gang_no_spread() -> None:
    """Nothing is said of contention where no job ever spans servers."""
    jobs = ringbco.generate("philly", 60, 1, gpus=16, load=0.9)
    jobs = jobs.frame.with_columns(num_gpus=pl.lit(1, pl.UInt32))
    one = {"fifo": ringbco.replay(jobs, "2x8", policy="fifo")}
    made = chapters(one)
    names = {figure.name for chapter in made for figure in chapter.figures}
    assert not [name for name in names if name.startswith(("contention", "servers"))]
    assert "ontention on" not in page(one, made, title="t")
