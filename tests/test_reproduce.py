"""`ringbco reproduce`: the plans of the paper's figures, the statements checked, the page."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import RunCli
from ringbco import reproduce
from ringbco.errors import UsageError
from ringbco.plan import plan
from ringbco.synthetic import generate


@pytest.fixture(scope="module")
def runs() -> pl.DataFrame:
    return reproduce.run(2)


def test_every_point_of_the_paper_has_its_plans(runs: pl.DataFrame) -> None:
    points = reproduce.PAPER.select("figure", "policy", "x").unique().rows()
    bco = sum(policy == "sjf-bco" for _, policy, _ in points)
    assert runs.height == 2 * (4 * bco + 2 * (len(points) - bco))
    assert runs.null_count().select("makespan", "w_max", "theta", "horizon").row(0) == (0, 0, 0, 0)


def test_a_row_is_the_plan_that_it_names(runs: pl.DataFrame) -> None:
    for figure, options in ((5, {"kappa": 4}), (6, {}), (7, {"kappa": 1, "lambda_": 4.0})):
        x = {5: 4, 6: 10, 7: 4}[figure]
        row = runs.filter(
            figure=figure, policy="sjf-bco", x=x, dispatch="reserve", variant="literal", seed=1
        ).row(0, named=True)
        cluster = reproduce.servers(1, 10) if figure == 6 else reproduce.servers(1)
        again = plan(
            generate("paper", 160, 1), cluster, dispatch="reserve", variant="literal",
            horizon=reproduce.HORIZON[figure], **options,
        )  # fmt: skip
        assert {name: row[name] for name in ("makespan", "mean_jct", "theta", "w_max")} == {
            name: again.summary[name] for name in ("makespan", "mean_jct", "theta", "w_max")
        }


def test_servers_are_drawn_as_the_paper_says() -> None:
    sizes = np.concatenate([reproduce.servers(seed).server_gpus for seed in range(100)])
    values, counts = np.unique(sizes, return_counts=True)
    assert values.tolist() == [4, 8, 16, 32]
    assert counts.min() > 400
    assert reproduce.servers(3, 10).server_gpus.tolist() == reproduce.servers(3).server_gpus[:10].tolist()


def test_claims_are_about_the_means_and_the_seeds(runs: pl.DataFrame) -> None:
    """One statement worked out by hand from the rows."""
    claim = next(
        c for c in reproduce.claims(runs)
        if (c.text, c.dispatch, c.variant) == ("makespan: SJF-BCO < LS", "idle", "literal")
    )  # fmt: skip
    mine = runs.filter(figure=4, dispatch="idle").sort("seed")
    bco = mine.filter(policy="sjf-bco", variant="literal")["makespan"].to_numpy()
    ls = mine.filter(policy="ls")["makespan"].to_numpy()
    assert claim.holds == (bco.mean() < ls.mean())
    assert claim.seeds == int((bco < ls).sum())
    # Turned round, what held strictly does not.
    opposite = reproduce.claims(runs.with_columns(-pl.col("makespan"), -pl.col("mean_jct")))
    for one, other in zip(reproduce.claims(runs), opposite, strict=True):
        assert not (one.holds and other.holds)
        assert one.seeds + other.seeds <= 2


def test_seeds_out_of_range() -> None:
    with pytest.raises(UsageError, match="option seeds: 0"):
        reproduce.run(0)


def test_command(run_cli: RunCli, tmp_path: Path) -> None:
    made = run_cli("reproduce", "--seeds", "1", "-o", "out", timeout=300)
    assert made.returncode == 0, made.stderr
    assert "SJF-BCO < LS < FF < RAND" in made.stdout
    folder = tmp_path / "out"
    assert {path.name for path in folder.iterdir()} == {
        "index.html", "runs.parquet", *(f"figure-{n}.png" for n in (4, 5, 6, 7)),
    }  # fmt: skip
    page = (folder / "index.html").read_text(encoding="utf-8")
    # One plan of figure 4 made by itself: how much longer than ideal its spread jobs took, as the page says.
    runs = pl.read_parquet(folder / "runs.parquet")
    told = runs.filter(figure=4, policy="ls", dispatch="idle").row(0, named=True)
    jobs = plan(generate("paper", reproduce.JOBS, 0), reproduce.servers(0), policy="ls", horizon=1200).jobs
    jobs = jobs.filter(pl.col("num_servers") > 1)
    spread = jobs["run_time"] / jobs["ideal_run_time"]
    assert told["jobs_spread"] == spread.len() > 0
    assert told["stretch"] == pytest.approx(spread.mean())
    assert told["over_limit"] == (spread > 1.15).sum() / spread.len()
    assert f"<td>{spread.len():.1f}</td><td>{spread.mean():.2f}</td>" in page
    assert page.count("<svg") == 4
    # Nothing is fetched: the only addresses are names of XML vocabularies.
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", page.replace("xlink:href=", "xlink="))
    assert "<script" not in page
    for figure in (folder / f"figure-{n}.png" for n in (4, 5, 6, 7)):
        assert figure.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    again = run_cli("reproduce", "--seeds", "1", "-o", "out")
    assert again.returncode == 1
    assert "already exists" in again.stderr
