"""docs/examples/paper_figures.py: the plans, the statements checked, what the script leaves."""

import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import paper_figures as script
from conftest import Invoke
from paper_figures import claims, enough_seeds, judge, rule, shown, statements
from ringbco import generate, plan

SCRIPT = script.__file__


@pytest.fixture(scope="module")
def runs() -> pl.DataFrame:
    return script.make_all(2)


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """What the script ends with."""
    monkeypatch.setattr(sys, "argv", [SCRIPT, *map(str, arguments)])
    try:
        script.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_every_point_of_the_paper_has_its_plans(runs: pl.DataFrame) -> None:
    points = script.PAPER.select("figure", "policy", "x").unique().rows()
    bco = sum(policy == "sjf-bco" for _, policy, _ in points)
    of_closest = {6, 4}
    rivals = [figure for figure, policy, _ in points if policy != "sjf-bco"]
    assert set(rivals) == of_closest
    assert runs.height == 2 * (5 * bco + 3 * len(rivals))
    assert runs.null_count().select("makespan", "w_max", "theta", "horizon").row(0) == (0, 0, 0, 0)


def test_a_row_is_the_plan_that_it_names(runs: pl.DataFrame) -> None:
    for figure, options in ((5, {"kappa": 4}), (6, {}), (7, {"kappa": 1, "lambda_": 4.0})):
        x = {5: 4, 6: 10, 7: 4}[figure]
        row = runs.filter(
            figure=figure, policy="sjf-bco", x=x, dispatch="reserve", variant="literal", seed=1
        ).row(0, named=True)
        cluster = script.servers(1, 10) if figure == 6 else script.servers(1)
        again = plan(
            generate("paper", 160, 1), cluster, dispatch="reserve", variant="literal",
            horizon=script.HORIZON[figure], **options,
        )  # fmt: skip
        assert {name: row[name] for name in ("makespan", "mean_jct", "theta", "w_max")} == {
            name: again.summary[name] for name in ("makespan", "mean_jct", "theta", "w_max")
        }


def test_servers_are_drawn_as_the_paper_says() -> None:
    sizes = np.concatenate([script.servers(seed).server_gpus for seed in range(100)])
    values, counts = np.unique(sizes, return_counts=True)
    assert values.tolist() == [4, 8, 16, 32]
    assert counts.min() > 400
    assert script.servers(3, 10).server_gpus.tolist() == script.servers(3).server_gpus[:10].tolist()


def test_settings_and_values_are_those_of_the_paper() -> None:
    """Written out a second time, so that neither changes by itself."""
    assert (script.JOBS, script.SERVERS, script.SERVER_SIZES) == (160, 20, (4, 8, 16, 32))
    assert script.HORIZON == {4: 1200, 5: 1200, 6: 1500, 7: 1200}
    assert set(script.READINGS) == {
        ("idle", "practical"), ("idle", "literal"), ("reserve", "practical"), ("reserve", "literal"),
        ("closest", "literal"),
    }  # fmt: skip
    bco, ls, ff, rand = script.NAMES
    assert (bco, ls, ff, rand) == ("sjf-bco", "ls", "ff", "rand")
    amount = {
        (figure, measure, policy, x): value for figure, measure, policy, x, value in script.PAPER.rows()
    }
    assert amount == {
        (4, "makespan", bco, None): 535, (4, "makespan", ls, None): 595,
        (4, "makespan", ff, None): 720, (4, "makespan", rand, None): 1125,
        (4, "mean_jct", bco, None): 180, (4, "mean_jct", ls, None): 187,
        (4, "mean_jct", ff, None): 450, (4, "mean_jct", rand, None): 260,
        (5, "makespan", bco, 1): 627, (5, "makespan", bco, 2): 563, (5, "makespan", bco, 4): 541,
        (5, "makespan", bco, 8): 535, (5, "makespan", bco, 10): 700, (5, "makespan", bco, 16): 750,
        (5, "makespan", bco, 32): 737,
        (6, "makespan", bco, 10): 940, (6, "makespan", bco, 15): 720, (6, "makespan", bco, 20): 535,
        (6, "makespan", ls, 10): 1160, (6, "makespan", ls, 15): 875, (6, "makespan", ls, 20): 595,
        (6, "makespan", ff, 10): 1400, (6, "makespan", ff, 15): 960, (6, "makespan", ff, 20): 720,
        (6, "makespan", rand, 10): 1490, (6, "makespan", rand, 15): 1260, (6, "makespan", rand, 20): 1125,
        (7, "makespan", bco, 1): 1040, (7, "makespan", bco, 2): 880, (7, "makespan", bco, 4): 730,
        (7, "makespan", bco, 8): 540,
    }  # fmt: skip


def test_jobs_are_those_of_the_paper() -> None:
    table = generate("paper", script.JOBS, 5).frame
    sizes, counts = np.unique(table["num_gpus"].to_numpy(), return_counts=True)
    assert dict(zip(sizes.tolist(), counts.tolist(), strict=True)) == {
        1: 80,
        2: 14,
        4: 26,
        8: 30,
        16: 8,
        32: 2,
    }


def test_figures_6_and_the_rest_have_their_horizons(runs: pl.DataFrame) -> None:
    result = runs.filter(policy="sjf-bco", dispatch="idle", variant="practical")
    assert dict(result.select("figure", "horizon").unique().rows()) == {4: 1200, 5: 1200, 6: 1500, 7: 1200}


def test_the_paper_shows_what_the_statements_say() -> None:
    for statement in statements():
        paper = statement.values(script.PAPER.filter(measure=statement.measure), "value")[:, 0]
        assert all(before < after for before, after in pairwise(paper)), statement.text


def test_a_claim_by_hand(runs: pl.DataFrame) -> None:
    claim = next(
        c for c in claims(runs)
        if (c.text, c.reading) == ("makespan: SJF-BCO < LS", "idle, literal")
    )  # fmt: skip
    mine = runs.filter(figure=4, dispatch="idle").sort("seed")
    bco = mine.filter(policy="sjf-bco", variant="literal")["makespan"].to_numpy()
    ls = mine.filter(policy="ls")["makespan"].to_numpy()
    assert claim.means == [bco.mean(), ls.mean()]
    assert claim.seeds == int((bco < ls).sum())
    assert claim.paper == [535, 595]
    # Two seeds make nothing clear.
    assert {c.verdict for c in claims(runs)} == {"unclear"}


def test_verdicts_follow_the_rule() -> None:
    """Coins thrown instead of a formula: `enough` heads or more are rarer than 1 in 40, one less is not."""
    heads = np.random.default_rng(7).binomial(20, 0.5, 400_000)
    enough = enough_seeds(20)
    assert enough == 15
    assert (heads >= enough).mean() < 1 / 40 < (heads >= enough - 1).mean()
    assert [enough_seeds(n) for n in (1, 5, 6, 10, 100)] == [None, None, 6, 9, 61]
    assert judge(15, 20, means_agree=True) == "yes"
    assert judge(14, 20, means_agree=True) == "unclear"
    assert judge(20, 20, means_agree=False) == "unclear"
    assert judge(6, 20, means_agree=False) == "unclear"
    assert judge(5, 20, means_agree=False) == "no"
    assert judge(1, 20, means_agree=True) == "unclear"
    assert judge(5, 5, means_agree=True) == judge(0, 5, means_agree=False) == "unclear"
    assert "15 or more of the 20 seeds" in rule(20)
    assert "at least 6 are needed" in rule(5)


def test_equal_values_are_not_in_order(runs: pl.DataFrame) -> None:
    """No job has 9 or 10 GPUs, so every reading up to kappa plans the same with kappa 8 and 10."""
    many = pl.concat([runs.with_columns(seed=pl.col("seed") + 2 * again) for again in range(5)])
    same = [c for c in claims(many) if c.text == "makespan: kappa 8 < kappa 10" and c.reading != "closest"]
    assert len(same) == 4
    for claim in same:
        assert claim.means[0] == claim.means[1]
        assert (claim.seeds, claim.verdict, claim.paper) == (0, "no", [535, 700])
    # Turned round, what came out does not, and never the other way.
    opposite = claims(many.with_columns(-pl.col("makespan"), -pl.col("mean_jct")))
    for one, other in zip(claims(many), opposite, strict=True):
        assert (one.verdict, other.verdict) != ("yes", "yes")
        assert one.seeds + other.seeds <= 10


def test_the_closest_settings_bring_the_papers_order() -> None:
    """The kappas of figure 5, the order of figure 4 and the ends of figure 7, over ten seeds."""

    def of(figure: int, x: int | None, policy: str = "sjf-bco", measure: str = "makespan") -> np.ndarray:
        trial = {"figure": figure, "x": x, "policy": policy, "dispatch": "closest", "variant": "literal"}
        return np.array([script.make(trial | {"seed": seed})[measure] for seed in range(10)])

    by_kappa = {kappa: of(5, kappa) for kappa in (1, 2, 4, 8, 10, 16)}
    means = [float(made.mean()) for made in by_kappa.values()]
    paper = script.PAPER.filter(figure=5)["value"].to_list()[:6]
    assert [round(mean / told, 1) for mean, told in zip(means, paper, strict=True)][:5] == [1.0] * 5
    assert means[0] > means[1] > means[2] > means[3] < means[4] == means[5]
    assert (by_kappa[10] > by_kappa[8]).sum() >= 9
    ours, ls, rand = (of(4, None, policy) for policy in ("sjf-bco", "ls", "rand"))
    assert (ours < ls).sum() >= 9
    assert (ls < rand).all()
    assert (of(7, 8) < of(7, 1)).all()


def test_closest_settings_are_those_of_the_command() -> None:
    """--kappa 4 is the paper's kappa 8 where FA-FFP takes jobs below kappa; gradients reach 90 MB."""
    made = script.make(
        {"figure": 5, "x": 8, "policy": "sjf-bco", "dispatch": "closest", "variant": "literal", "seed": 3}
    )
    table = generate("paper", 160, 3).frame.with_columns(pl.col("gradient_bytes") * 3)
    assert table["gradient_bytes"].max() <= 90e6
    told = plan(
        table, script.servers(3), dispatch="reserve", variant="literal", kappa=4, horizon=1200, seed=3
    ).summary
    assert {name: made[name] for name in ("makespan", "theta", "w_max")} == {
        name: told[name] for name in ("makespan", "theta", "w_max")
    }


def test_different_values_are_shown_different() -> None:
    assert shown((450.4, 487.0)) == "450, 487"
    assert shown((158.1, 157.9)) == "158.1, 157.9"
    assert shown((457.0, 457.0)) == "457, 457"


def test_a_table_has_the_values_by_hand(runs: pl.DataFrame) -> None:
    result = script.values(runs, 6).filter(measure="makespan", policy="LS", servers=15).row(0, named=True)
    mine = runs.filter(figure=6, policy="ls", x=15, dispatch="reserve")["makespan"].to_numpy()
    assert result["paper"] == "875 ± 0"
    assert result["reserve, practical"] == f"{mine.mean():.0f} ± {mine.std(ddof=1):.0f}"
    assert result["reserve, literal"] is None  # baselines have no variant


@pytest.mark.long
def test_figures_show_the_means_and_the_papers_values(runs: pl.DataFrame) -> None:
    for number in script.TITLES:
        drawn = json.dumps(script.chart(runs, number).to_dict())
        shown = script.means(runs, number)
        if number == 6:
            shown = shown.filter(measure="makespan")
        elif number != 4:
            shown = shown.filter(pl.col("measure") != "mean_jct")
        for value in shown["value"]:
            assert json.dumps(value) in drawn
        assert "Mean of 2 seeds, bars one standard deviation" in drawn


@pytest.mark.long
def test_the_script_leaves_the_page_the_figures_and_the_plans(
    runs: pl.DataFrame, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With plans that were made before, which take most of its time."""
    monkeypatch.setattr(script, "make_all", lambda *_, **__: runs)
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, "--seeds", 2, "--json", "-o", "out") == 0
    made = json.loads(capsys.readouterr().out)
    assert {key: made[key] for key in ("seeds", "plans", "page", "runs", "rule")} == {
        "seeds": 2, "plans": runs.height, "rule": rule(2),
        "page": "out/index.html", "runs": "out/runs.parquet",
    }  # fmt: skip
    assert made["claims"] == [claim._asdict() for claim in claims(runs)]
    assert len(made["claims"]) == 5 * len(list(statements()))
    files = {Path(path) for path in (made["page"], made["runs"], *made["figures"])}
    assert len(files) == 6
    assert files == set(Path("out").iterdir())
    assert pl.read_parquet("out/runs.parquet").equals(runs)
    for path in made["figures"]:
        assert Path(path).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    page = Path("out/index.html").read_text(encoding="utf-8")
    # Nothing is fetched but the pictures beside it.
    assert re.findall(r"""(?:src|href)\s*=\s*["']?([^\s"'>]+)""", page) == [
        Path(path).name for path in made["figures"]
    ]
    # How much longer than ideal spread jobs took, as one plan made by itself says.
    value = runs.filter(figure=4, policy="ls", dispatch="idle", seed=0).row(0, named=True)
    jobs = plan(generate("paper", script.JOBS, 0), script.servers(0), policy="ls", horizon=1200).jobs
    spread = jobs.filter(pl.col("num_servers") > 1)
    stretch = spread["run_time"] / spread["ideal_run_time"]
    assert value["jobs_spread"] == stretch.len() > 0
    assert value["stretch"] == pytest.approx(stretch.mean())
    mean = runs.filter(figure=4, policy="ls", dispatch="idle")["stretch"].mean()
    assert f"<td>{round(mean, 3)}<tr>" in page
    # What is there is replaced when asked for alone.
    assert command(monkeypatch, "--seeds", 2, "-o", "out") == 1
    assert "out: already exists; --force" in capsys.readouterr().err
    monkeypatch.setenv("COLUMNS", "200")
    assert command(monkeypatch, "--seeds", 2, "-o", "out", "--force") == 0
    said = capsys.readouterr().out
    assert "makespan: SJF-BCO < LS" in said
    assert "Every verdict is unclear: 2 of 2 seeds may be chance" in " ".join(said.split())
    for claim in claims(runs):
        assert set(shown(claim.means).split(", ")) <= set(re.findall(r"[\d.]+", said))


def test_seeds_out_of_range(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(monkeypatch, "--seeds", 0, "-o", "out") == 2
    assert "option seeds: 0: expected an integer from 1 to 10000" in capsys.readouterr().err


def test_the_verb_says_where_it_went(invoke: Invoke, tmp_path: Path) -> None:
    output = invoke("reproduce", "--seeds", "2", "-o", "my figures")
    assert (output.returncode, output.stdout) == (2, "")
    assert output.stderr == (
        "error: verb reproduce: is no more: in a copy of the repository,"
        " python docs/examples/paper_figures.py --seeds 2 -o 'my figures' does the same\n"
    )
    assert Path(SCRIPT) == Path(__file__).parents[2] / "docs/examples/paper_figures.py"
    assert "reproduce" not in invoke("--help").stdout
    assert list(tmp_path.iterdir()) == []
