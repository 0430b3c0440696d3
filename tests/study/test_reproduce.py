"""`ringbco reproduce`: the plans of the paper's figures, the statements checked, the page."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import polars as pl
import pytest

from conftest import Invoke, run_ringbco
from ringbco.cli.reproduce import show
from ringbco.errors import UsageError
from ringbco.io.manifest import MANIFEST
from ringbco.reports import reproduce_page
from ringbco.reports.reproduce_reasons import reasons
from ringbco.run.plan import plan
from ringbco.study import reproduce
from ringbco.study.reproduce_claims import Claim, claims, enough_seeds, judge, rule, shown, statements
from ringbco.trace.synthetic import generate


@pytest.fixture(scope="module")
def runs() -> pl.DataFrame:
    return reproduce.run(2)


@pytest.mark.long
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


def test_settings_and_values_are_those_of_the_paper() -> None:
    """Written out a second time, so that neither changes by itself."""
    assert (reproduce.JOBS, reproduce.SERVERS, reproduce.SERVER_SIZES) == (160, 20, (4, 8, 16, 32))
    assert reproduce.HORIZON == {4: 1200, 5: 1200, 6: 1500, 7: 1200}
    assert (reproduce.LIMIT, reproduce.DEFAULT_SEEDS) == (0.15, 20)
    assert set(reproduce.READINGS) == {
        ("idle", "practical"), ("idle", "literal"), ("reserve", "practical"), ("reserve", "literal"),
    }  # fmt: skip
    bco, ls, ff, rand = reproduce.POLICIES
    assert (bco, ls, ff, rand) == ("sjf-bco", "ls", "ff", "rand")
    told = {
        (figure, measure, policy, x): value for figure, measure, policy, x, value in reproduce.PAPER.rows()
    }
    assert told == {
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
    table = generate("paper", reproduce.JOBS, 5).frame
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
    found = runs.filter(policy="sjf-bco", dispatch="idle", variant="practical")
    assert dict(found.select("figure", "horizon").unique().rows()) == {4: 1200, 5: 1200, 6: 1500, 7: 1200}


def test_the_paper_shows_what_the_statements_say() -> None:
    for statement in statements():
        assert all(before < after for before, after in pairwise(statement.paper())), statement.text


def test_a_claim_by_hand(runs: pl.DataFrame) -> None:
    claim = next(
        c for c in claims(runs)
        if (c.text, c.dispatch, c.variant) == ("makespan: SJF-BCO < LS", "idle", "literal")
    )  # fmt: skip
    mine = runs.filter(figure=4, dispatch="idle").sort("seed")
    bco = mine.filter(policy="sjf-bco", variant="literal")["makespan"].to_numpy()
    ls = mine.filter(policy="ls")["makespan"].to_numpy()
    assert claim.means == (bco.mean(), ls.mean())
    assert claim.seeds == int((bco < ls).sum())
    assert claim.paper == (535, 595)
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
    assert "at least 6 seeds" in rule(5)


def test_equal_values_are_not_in_order(runs: pl.DataFrame) -> None:
    """No job has 9 or 10 GPUs, so every reading plans the same with kappa 8 and 10."""
    many = pl.concat([runs.with_columns(seed=pl.col("seed") + 2 * again) for again in range(5)])
    same = [c for c in claims(many) if c.text == "makespan: kappa 8 < kappa 10"]
    assert len(same) == 4
    for claim in same:
        assert claim.means[0] == claim.means[1]
        assert (claim.seeds, claim.verdict, claim.paper) == (0, "no", (535, 700))
    # Turned round, what came out does not, and never the other way.
    opposite = claims(many.with_columns(-pl.col("makespan"), -pl.col("mean_jct")))
    for one, other in zip(claims(many), opposite, strict=True):
        assert (one.verdict, other.verdict) != ("yes", "yes")
        assert one.seeds + other.seeds <= 10


def test_the_reasons_are_counted_on_the_seeds_at_hand(runs: pl.DataFrame) -> None:
    told = reasons(runs)
    text = " ".join(told)
    # Written for no number of seeds but these.
    assert set(re.findall(r"(\d+) seeds", text)) == {"2"}
    one = " ".join(reasons(runs.filter(seed=0)))
    assert set(re.findall(r"(\d+) seeds", one)) <= {"1"}
    assert "in the one seed" in one

    def makespan(policy: str, variant: str | None) -> np.ndarray:
        mine = runs.filter(figure=4, dispatch="idle", policy=policy).sort("seed")
        return mine.filter(pl.col("variant").eq_missing(pl.lit(variant)))["makespan"].to_numpy()

    for variant, words in (
        ("literal", "Under idle with literal SJF-BCO is "),
        ("practical", "Under practical it is "),
    ):
        bco, ls = makespan("sjf-bco", variant), makespan("ls", None)
        below, same = int((bco < ls).sum()), int((bco == ls).sum())
        expected = {2: "below LS in all 2 seeds"}.get(below)
        expected = expected or {2: "equal to LS in all 2 seeds"}.get(same)
        assert expected is not None, "a fixture of other seeds needs another sentence here"
        assert words + expected in text
    # Turned round, they say the opposite.
    opposite = " ".join(reasons(runs.with_columns(makespan=10_000 - pl.col("makespan"))))
    assert "Under practical it is above LS in all 2 seeds" in opposite
    # One seed of each kind.
    swapped = pl.when(pl.col("seed") == 0).then(10_000 - pl.col("makespan")).otherwise("makespan")
    mixed = " ".join(reasons(runs.with_columns(makespan=swapped)))
    assert "Under practical it is below LS in 1 and above it in 1 of the 2 seeds" in mixed


def test_a_likeness_is_told_only_where_there_is_one(runs: pl.DataFrame) -> None:
    rand = (pl.col("figure") == 4) & (pl.col("policy") == "rand") & (pl.col("dispatch") == "reserve")
    for w_max, told in ((1125, True), (1230, True), (1300, False), (900, False)):
        made = runs.with_columns(
            w_max=pl.when(rand).then(pl.lit(w_max)).otherwise("w_max").cast(runs["w_max"].dtype)
        )
        assert ("lies near our w_max of RAND" in " ".join(reasons(made))) == told


def test_different_values_are_shown_different() -> None:
    assert shown((450.4, 487.0)) == "450, 487"
    assert shown((158.1, 157.9)) == "158.1, 157.9"
    assert shown((457.0, 457.0)) == "457, 457"


def test_seeds_out_of_range() -> None:
    with pytest.raises(UsageError, match="option seeds: 0"):
        reproduce.run(0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess[str]]:
    """What the command leaves with one seed, and what it says as JSON."""
    folder = tmp_path_factory.mktemp("reproduce")
    arguments = ("reproduce", "--seeds", "1", "--json", "-o", "out")
    return folder / "out", run_ringbco(folder, [], *arguments, timeout=300)


@pytest.mark.long
def test_the_command_leaves_the_page_the_figures_and_the_plans(
    made: tuple[Path, CompletedProcess[str]], runs: pl.DataFrame
) -> None:
    folder, run = made
    assert (run.returncode, run.stderr) == (0, "")
    assert {path.name for path in folder.iterdir()} == {
        "index.html", "runs.parquet", MANIFEST, *(f"figure-{n}.png" for n in (4, 5, 6, 7)),
    }  # fmt: skip
    page = (folder / "index.html").read_text(encoding="utf-8")
    # One plan of figure 4 made by itself: how much longer than ideal its spread jobs took, as the page says.
    found = pl.read_parquet(folder / "runs.parquet")
    assert found.equals(runs.filter(seed=0))
    told = found.filter(figure=4, policy="ls", dispatch="idle").row(0, named=True)
    jobs = plan(generate("paper", reproduce.JOBS, 0), reproduce.servers(0), policy="ls", horizon=1200).jobs
    jobs = jobs.filter(pl.col("num_servers") > 1)
    spread = jobs["run_time"] / jobs["ideal_run_time"]
    assert told["jobs_spread"] == spread.len() > 0
    assert told["stretch"] == pytest.approx(spread.mean())
    assert told["over_limit"] == (spread > 1.15).sum() / spread.len()
    cells = (f">{text}</td>" for text in (f"{spread.len():.1f}", f"{spread.mean():.2f}"))
    assert re.search(r"\s*<td[^>]*".join(cells), page)
    assert page.count("<svg") == page.count("<figure") == 3 + 2 + 5 + 2
    assert "Counted on the 1 seeds" not in page
    assert "20 seeds" not in page
    # Nothing is fetched: the only addresses are places of the page, and what it holds itself.
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", page)
    assert "<script" not in page
    for figure in (folder / f"figure-{n}.png" for n in (4, 5, 6, 7)):
        assert figure.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.long
def test_the_command_as_json(made: tuple[Path, CompletedProcess[str]]) -> None:
    folder, run = made
    told = json.loads(run.stdout)
    assert told["runs"] == "out/runs.parquet"
    assert (told["seeds"], told["plans"]) == (1, pl.read_parquet(folder / "runs.parquet").height)
    assert all((folder.parent / path).is_file() for path in (told["page"], *told["figures"]))
    assert len(told["figures"]) == 4
    assert len(told["claims"]) == 4 * len(list(statements()))
    assert set(told["claims"][0]) == {
        "figure", "text", "dispatch", "variant", "verdict", "seeds", "means", "paper",
    }  # fmt: skip


def test_what_the_command_says(
    runs: pl.DataFrame, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the plans that were made before, and a page of one line, which take most of its time."""
    monkeypatch.setattr(reproduce, "run", lambda seeds, _: runs.filter(pl.col("seed") < seeds))

    def written(out: Path, *_: object) -> None:
        for name in reproduce_page.FOLDER.files:
            (out / name).write_text("SJF-BCO: figures 4 to 7 again")

    monkeypatch.setattr(reproduce_page, "write", written)
    said = invoke("reproduce", "--seeds", "1", "-o", "out")
    assert (said.returncode, said.stderr) == (0, "")
    assert "makespan: SJF-BCO < LS" in said.stdout
    assert "Every verdict is unclear: 1 of 1 seeds may be chance" in said.stdout
    again = invoke("reproduce", "--seeds", "1", "-o", "out")
    assert again.returncode == 1
    assert "already exists" in again.stderr
    assert invoke("reproduce", "--seeds", "1", "-o", "out", "--force").returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


@pytest.mark.parametrize("columns", [30, 40, 60, 80, 200])
def test_the_table_is_never_cut(
    runs: pl.DataFrame, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    found = claims(runs)
    show(found, 2)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    # Nothing lost in folding: every figure's means are there, whatever the line breaks.
    digits = re.findall(r"[\d.]+", " ".join(lines))
    for claim in found:
        assert set(shown(claim.means).split(", ")) <= set(digits)
    said = re.sub(r"\s+", "", "".join(lines))
    for word in ("idle", "reserve", "practical", "literal"):
        assert word in said
    assert "…" not in said


def test_the_page_says_first_how_much_comes_out() -> None:
    def told(*verdicts: str) -> str:
        claims = [
            Claim(4, str(number), dispatch, variant, verdict, 1, (1.0,), (1.0,))
            for number, verdict in enumerate(verdicts)
            for dispatch, variant in reproduce.READINGS
        ]
        # One reading of the last statement says otherwise.
        claims[-1] = replace(claims[-1], verdict="yes")
        return reproduce_page._answer(claims)

    assert told("yes", "no", "no", "unclear", "no") == (
        "Of the paper's 5 statements 1 come out under every reading and 2 under none; the other 2 hang on"
        " the reading, or are unclear."
    )
    few = [Claim(4, "a", *reading, "unclear", 1, (1.0,), (1.0,)) for reading in reproduce.READINGS]
    assert reproduce_page._answer(few) == (
        "Whether the paper's 1 statements come out is unclear: the seeds are too few."
    )
