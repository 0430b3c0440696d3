"""`compare` of settings, of existing results, and over several seeds."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import polars as pl
import pytest

from conftest import Invoke
from ringbco import Cluster, compare, replay
from ringbco.audits import check_folder
from ringbco.errors import InputError, UsageError
from ringbco.result.bound import of_results
from ringbco.result.outcome import Outcome
from ringbco.run.seeds import SeededTables
from ringbco.trace.jobs import as_table
from ringbco.units import number

# Settings


def test_a_setting_gives_what_replay_gives_with_it(small_jobs: Path) -> None:
    slow = Cluster.parse("2x8").with_network(inter_bandwidth=1e8)
    runs = {
        "two": {"policy": "sjf-bco", "kappa": 2},
        "slow": {"policy": "rand", "cluster": slow, "seed": 9},
        "quick": {"policy": "tiresias", "interval": 5.0, "model": "fixed"},
    }
    comparison = compare(small_jobs, "2x8", ["fifo"], runs=runs, kappa=4, lambda_=2.0).outcomes
    assert list(comparison) == ["fifo", "two", "slow", "quick"]
    # A run's own options go before the common ones, and common ones reach the runs that use them.
    alone = {
        "fifo": replay(small_jobs, "2x8", policy="fifo"),
        "two": replay(small_jobs, "2x8", policy="sjf-bco", kappa=2, lambda_=2.0),
        "slow": replay(small_jobs, slow, policy="rand", seed=9),
        "quick": replay(small_jobs, "2x8", policy="tiresias", interval=5.0, model="fixed"),
    }
    for label, outcome in alone.items():
        assert comparison[label].jobs.equals(outcome.jobs), label
        assert comparison[label].run == outcome.run, label


def test_a_run_goes_without_the_common_outages(small_jobs: Path) -> None:
    runs = {"safe": {"policy": "fifo", "outages": "none"}}
    comparison = compare(small_jobs, "2x8", ["fifo"], runs=runs, outages="draw:mtbf=10min,mttr=5min").outcomes
    assert comparison["fifo"].summary["failures"] > 0
    assert comparison["safe"].jobs.equals(replay(small_jobs, "2x8", policy="fifo").jobs)
    assert comparison["safe"].outages is None


def test_the_recorded_cluster_holds_for_every_run(small_jobs: Path) -> None:
    runs = {"wide": {"policy": "fifo", "cluster": "8x2"}}
    comparison = compare(small_jobs, "2x8", ["fifo"], runs=runs, recorded_cluster="1x4").outcomes
    alone = replay(small_jobs, "8x2", policy="fifo", recorded_cluster="1x4")
    assert comparison["wide"].jobs.equals(alone.jobs)
    assert comparison["wide"].run == alone.run


@pytest.mark.parametrize(
    ("policies", "runs", "said"),
    [
        (["fifo"], {"fifo": {"policy": "sjf"}}, "'fifo': expected each name once"),
        ([], {"a": {"kappa": 4}}, "'a': expected a policy"),
        (
            [],
            {"a": {"policy": "fifo", "kapa": 4}},
            "'kapa': expected an option of replay; did you mean kappa",
        ),
        ([], {"a": {"policy": "fifo", "workload": None}}, "'workload': expected an option of replay"),
        (
            [],
            {"a": {"policy": "fifo", "admission": True}},
            "'a': option admission: True: expected policy edf",
        ),
        ([], {"a": {"policy": "fifo", "kappa": -1}}, "'a': option kappa: -1"),
        ([], {"a": {"policy": "srtf", "order": "sjf"}}, "'a': option order: srtf ranks all jobs itself"),
        ([], {"a": ["fifo"]}, "option runs: "),
        ([], {}, "at least one policy or run"),
    ],
)
def test_settings_that_cannot_be(
    small_jobs: Path, policies: list[str], runs: dict[str, dict[str, object]], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        compare(small_jobs, "2x8", policies, runs=runs)
    assert said in str(caught.value)


# Existing results


def test_results_stand_beside_what_is_run(small_jobs: Path, tmp_path: Path) -> None:
    old = replay(small_jobs, "2x8", policy="tiresias")
    old.write(tmp_path / "old")
    comparison = compare(
        small_jobs, "2x8", ["fifo"], results=[tmp_path / "old", old, replay(small_jobs, "2x8", policy="fifo")]
    )
    assert list(comparison.outcomes) == ["fifo", str(tmp_path / "old"), "tiresias", "fifo [2]"]
    assert comparison.figure(str(tmp_path / "old"), "mean_jct").value == old.summary["mean_jct"]
    comparison.write(tmp_path / "cmp")
    (folder,) = (path for path in (tmp_path / "cmp").iterdir() if path.name.endswith("old"))
    assert Outcome.read(folder).jobs.equals(old.jobs)
    assert check_folder(folder).ok


def test_results_that_are_none(small_jobs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a result folder"):
        compare(small_jobs, "2x8", ["fifo"], results=[tmp_path])
    replay(small_jobs, "2x8").write(tmp_path / "r")
    with pytest.raises(UsageError, match="expected each result once"):
        compare(small_jobs, "2x8", ["fifo"], results=[tmp_path / "r", str(tmp_path / "r")])
    with pytest.raises(UsageError, match="option results: 3: expected an outcome or the path"):
        compare(small_jobs, "2x8", ["fifo"], results=[3])  # type: ignore[list-item]
    with pytest.raises(UsageError, match=r"option results: .* expected a list"):
        compare(small_jobs, "2x8", ["fifo"], results="r")


# Seeds


def test_seeds_give_means_and_spreads(small_jobs: Path, tmp_path: Path) -> None:
    runs = {"later": {"policy": "rand", "seed": 40}}
    old = replay(small_jobs, "2x8", policy="sjf")
    comparison = compare(small_jobs, "2x8", ["rand"], runs=runs, results=[old], seed=7)
    draws = SeededTables(as_table(small_jobs), "moved", 7)
    for label, first in (("rand", 7), ("later", 40)):
        alone = [replay(draws.table(k), "2x8", policy="rand", seed=first + k) for k in range(6)]
        assert comparison.outcomes[label].jobs.equals(alone[0].jobs)
        jct = [outcome.summary["mean_jct"] for outcome in alone]
        assert len(set(jct)) > 1
        assert comparison.frame.filter(policy=label, measure="mean_jct")["value"].item() == jct[0]
        assert comparison.figure(label, "mean_jct") == (jct[0], (min(jct), max(jct)), 6)
        assert comparison.bounds_by_run[label] == [of_results({"": alone[0]})[""]]
        assert comparison.figure(label, "mean_jct_over_bound")[1:] == (None, 6)  # a bound of run 0 alone
    assert comparison.variation.changed == ("submissions", "models", "placement")
    assert comparison.figure("sjf", "mean_jct") == (old.summary["mean_jct"], None, 1)
    comparison.write(tmp_path / "cmp")
    document = json.loads((tmp_path / "cmp/comparison.json").read_text())
    recorded = document["summaries_by_run"]["later"]
    assert [summary["mean_jct"] for summary in recorded] == jct
    assert set(document["summaries_by_run"]) == {"rand", "later"}
    assert json.loads((tmp_path / "cmp/later/summary.json").read_text())["mean_jct"] == jct[0]


def test_folders_do_not_depend_on_the_number_of_runs(small_jobs: Path, tmp_path: Path) -> None:
    compare(small_jobs, "2x8", ["fifo", "rand"]).write(tmp_path / "a")
    compare(small_jobs, "2x8", ["fifo", "rand"], seeds=1).write(tmp_path / "b")
    frame = pl.read_parquet(tmp_path / "b/comparison.parquet")
    assert frame.columns == ["measure", "policy", "value", "ratio", "best"]
    assert pl.read_parquet(tmp_path / "a/comparison.parquet")["value"].equals(frame["value"])
    for policy in ("fifo", "rand"):
        for name in ("jobs", "allocations", "timeline"):
            one, two = ((tmp_path / folder / policy / f"{name}.parquet").read_bytes() for folder in "ab")
            assert one == two
    assert not {"runs", "summaries_by_run"} & set(json.loads((tmp_path / "b/comparison.json").read_text()))


def test_the_greatest_seed_has_a_next_one(small_jobs: Path) -> None:
    most = 2**64 - 1
    comparison = compare(small_jobs, "2x8", ["rand"], seeds=2, seed=most)
    second = replay(SeededTables(as_table(small_jobs), "moved", most).table(1), "2x8", policy="rand", seed=0)
    assert comparison.values("rand", "mean_jct")[1] == second.summary["mean_jct"]


def test_a_baseline_of_one_run_has_ratios_and_no_verdicts(small_jobs: Path) -> None:
    old = replay(small_jobs, "2x8", policy="sjf")
    comparison = compare(small_jobs, "2x8", ["fifo"], results=[old], baseline="sjf")
    (row,) = comparison.frame.filter(policy="fifo", measure="mean_jct").to_dicts()
    assert row["ratio"] == row["value"] / old.summary["mean_jct"]
    assert row["low"] is not None
    assert (row["ratio_low"], row["verdict"]) == (None, None)
    assert not comparison.frame["best"].filter(comparison.frame["policy"] == "sjf").any()


@pytest.mark.parametrize("seeds", [0, -1, 1.5, True, "3", 1001])
def test_seeds_out_of_range(small_jobs: Path, seeds: object) -> None:
    with pytest.raises(UsageError, match="option seeds: "):
        compare(small_jobs, "2x8", ["fifo"], seeds=seeds)  # type: ignore[arg-type]


# The command


@pytest.mark.long
def test_the_command_takes_all_three(invoke: Invoke, small_jobs: Path) -> None:
    assert (
        invoke("replay", small_jobs, "--cluster", "2x8", "--policy", "gittins", "-o", "old", "-q").returncode
        == 0
    )
    text = "rand --inter-bandwidth 1e9 --seed 3"
    done = invoke(
        *("compare", small_jobs, "--cluster", "2x8", "--policy", "fifo", "--run", text),
        *("--result", "old", "--all", "-o", "cmp"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    slow = Cluster.parse("2x8").with_network(inter_bandwidth=1e9)
    draws = SeededTables(as_table(small_jobs), "moved", 0)
    alone = [
        replay(draws.table(k), slow, policy="rand", seed=3 + k).summary["mean_contention"] for k in range(6)
    ]
    assert f"{number(min(alone))} to {number(max(alone))}" in done.stdout
    assert "6 runs: submissions moved by under a minute" in done.stdout
    document = json.loads(Path("cmp/comparison.json").read_text())
    assert document["policies"] == ["fifo", text, "old"]
    assert list(document["folders"].values()) == ["fifo", "rand-inter-bandwidth-1e9-seed-3", "old"]
    assert Outcome.read("cmp/rand-inter-bandwidth-1e9-seed-3").jobs.equals(
        replay(small_jobs, slow, policy="rand", seed=3).jobs
    )


def test_one_policy_and_one_result_are_enough(invoke: Invoke, small_jobs: Path) -> None:
    assert invoke("replay", small_jobs, "--cluster", "2x8", "-o", "old", "-q").returncode == 0
    done = invoke(
        "compare", small_jobs, "--cluster", "2x8", "--run", "fifo --vc pool", "--result", "old", "-o", "c"
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
def test_a_result_of_other_jobs_or_servers_is_told(invoke: Invoke, small_jobs: Path, tmp_path: Path) -> None:
    (tmp_path / "fewer.csv").write_text("\n".join(small_jobs.read_text().splitlines()[:6]))
    for jobs, cluster, out in (
        (small_jobs, "4x8", "wide"),
        ("fewer.csv", "4x8", "both"),
        (small_jobs, "2x8", "same"),
    ):
        assert invoke("replay", jobs, "--cluster", cluster, "-o", out, "-q").returncode == 0
    results = [part for out in ("wide", "both", "same") for part in ("--result", out)]
    done = invoke("compare", small_jobs, "--cluster", "2x8", "--policy", "fifo", *results, "-o", "cmp")
    assert done.returncode == 0
    assert "note: wide is of another run: its servers differ\n" in done.stderr
    assert "note: both is of another run: its job table and servers differ\n" in done.stderr
    assert "note: same" not in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a policy, then options of replay"),
        ("--kappa 4", "expected a policy, then options of replay"),
        ("sfj", "did you mean sjf"),
        ("sjf --kapa 3", "No such option: --kapa"),
        ("sjf --kappa x", "--kappa"),
        ("sjf --cluster 0x8", "0x8"),
        ("sjf --alpha -1", "alpha: -1"),
        ("sjf -o x", "--out: leave it out"),
        ("sjf --again r", "--again: leave it out"),
        ("sjf small.csv", "a job table: leave it out"),
        ("sjf --policy fifo", "without --policy"),
        ("sjf --recorded-cluster 2x4", "--recorded-cluster: leave it out"),
        ("sjf --help", "options of replay"),
        ("sjf 'x", "quotes in pairs"),
        ("sjf --admission", "option admission: True: expected policy edf"),
    ],
)
def test_a_text_that_is_no_run_is_named(invoke: Invoke, small_jobs: Path, text: str, said: str) -> None:
    done = invoke("compare", small_jobs, "--cluster", "2x8", "--policy", "fifo", "--run", text, "-o", "cmp")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: option run: {text!r}: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("cmp").exists()


@pytest.mark.long
def test_a_run_sets_the_fields_of_a_policy_of_ones_own(
    invoke: Invoke, small_jobs: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nimport ringbco\n\n@dataclass\nclass Late(ringbco.KeyPolicy):\n"
        "    sign: float = 1.0\n    def key(self, state, rows):\n        return self.sign * rows\n"
    )
    runs = [f"{tmp_path}/mine.py:Late -P sign={sign}" for sign in (1.0, -1.0)]
    out = tmp_path / "compared"
    words = ("compare", small_jobs, "--cluster", "1x8", "--policy", "fifo", "-o", out)
    done = invoke(*words, *(word for run in runs for word in ("--run", run)))
    assert done.returncode == 0, done.stderr
    folders = sorted(path for path in out.iterdir() if (path / "run.toml").is_file())
    fields = [tomllib.loads((path / "run.toml").read_text()).get("own_policy", {}) for path in folders]
    assert sorted(own["parameters"]["sign"] for own in fields if own) == [-1.0, 1.0]
    for text, said in ((f"{runs[0]} -P sign=2", "each name once"), ("fifo -P sign=2", "sign")):
        failed = invoke(*words[:-1], tmp_path / "no", "--run", text)
        assert failed.returncode in (1, 2)
        assert said in failed.stderr
        assert not (tmp_path / "no").exists()
