"""`compare`: several policies on one table, and what is said of them side by side."""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from comparisons import entries, made_up, printed
from conftest import Invoke
from ringbco import compare, read_jobs, replay
from ringbco.cli.compare import compare as cli_compare
from ringbco.cli.replay import replay as cli_replay
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.io.manifest import MANIFEST
from ringbco.result.certainty import Runs
from ringbco.result.comparison import Comparison, is_comparison, side_by_side
from ringbco.result.figures import COMPARED
from ringbco.result.outcome import Outcome
from ringbco.run.compare import compared
from ringbco.run.seeds import Seeds
from ringbco.run.setup import Setup

POLICIES = ["fifo", "sjf", "ff"]
OF_SOME = {row.key for row in COMPARED if row.sometimes}


@pytest.fixture
def comparison(small_jobs: Path) -> Comparison:
    return compare(small_jobs, "2x8", POLICIES)


def test_every_policy_gives_what_replay_gives(comparison: Comparison, small_jobs: Path) -> None:
    for policy in POLICIES:
        alone = replay(small_jobs, "2x8", policy=policy)
        together = comparison.outcomes[policy]
        assert together.jobs.equals(alone.jobs)
        assert together.allocations is not None
        assert together.allocations.equals(alone.allocations)
        assert together.run == alone.run


def test_a_comparison_is_indexed_by_label(comparison: Comparison) -> None:
    assert all(comparison[label] is comparison.outcomes[label] for label in POLICIES)
    assert (len(comparison), list(comparison)) == (3, POLICIES)
    assert "sjf" in comparison
    assert "gittins" not in comparison
    for ask in (comparison.__getitem__, lambda label: comparison.figure(label, "mean_jct")):
        with pytest.raises(KeyError) as caught:
            ask("sjff")
        assert caught.value.args == ("no outcome 'sjff': expected one of fifo, sjf, ff; did you mean 'sjf'?",)
    with pytest.raises(KeyError, match="no outcome 0: expected one of fifo, sjf, ff"):
        comparison[0]  # type: ignore[index]


def test_values_ratios_and_the_best_of_each_row() -> None:
    first = made_up(mean_jct=200.0, utilisation=0.5, mean_wait=0.0, makespan=10.0)
    second = made_up(mean_jct=50.0, utilisation=0.75, mean_wait=3.0, makespan=10.0)
    third = made_up(mean_jct=50.0, utilisation=0.25, mean_wait=0.0, makespan=10.0)
    made = Comparison({"a": first, "b": second, "c": third})
    assert entries(made, "mean_jct") == [(200.0, 1.0, False), (50.0, 0.25, False), (50.0, 0.25, False)]
    # GPUs held longer are no merit.
    assert entries(made, "utilisation") == [(0.5, 1.0, False), (0.75, 1.5, False), (0.25, 0.5, False)]
    # A ratio to nothing is infinite; one run has no best.
    assert entries(made, "mean_wait") == [(0.0, 1.0, False), (3.0, math.inf, False), (0.0, 1.0, False)]
    assert entries(made, "makespan") == [(10.0, 1.0, False)] * 3


def six_runs(outcomes: dict[str, Outcome]) -> Comparison:
    """As if each had come out six times the same, of fresh tables."""
    repeated = {label: [one.summary] * 6 for label, one in outcomes.items()}
    bounds = dict.fromkeys(outcomes, [None] * 6)
    return Comparison(outcomes, repeated, bounds, Runs("fresh tables"))


def test_rounding_makes_nobody_best() -> None:
    same = [made_up(median_slowdown=1.0 + error) for error in (3e-15, 0.0, 5e-13)]
    made = six_runs(dict(zip("abc", same, strict=True)))
    assert [entry.best for entry in entries(made, "median_slowdown")] == [False] * 3


def test_more_is_better_of_fairness_and_deadlines() -> None:
    first, second = (made_up(jain_index_users=good, deadlines_met=good) for good in (0.5, 0.75))
    for refused, best in ((0, [False, True]), (3, [False, False])):
        first.summary["jobs_refused"] = refused  # shares of unlike jobs are not to be compared
        made = six_runs({"a": first, "b": second})
        for key in ("jain_index_users", "deadlines_met"):
            assert [entry.best for entry in entries(made, key)] == best


def test_figures_that_only_some_policies_have() -> None:
    plain, losing, losing_less = made_up(), made_up(), made_up()
    for outcome, lost in ((losing, 5.0), (losing_less, 3.0)):
        outcome.summary["lost_gpu_seconds"] = lost
    for outcome in (plain, losing, losing_less):
        del outcome.summary["deadlines_met"]
    del plain.summary["lost_gpu_seconds"]
    made = six_runs({"a": plain, "b": losing, "c": losing_less})
    assert entries(made, "lost_gpu_seconds") == [(None, None, False), (5.0, None, False), (3.0, None, True)]
    assert "deadlines_met" not in made.frame["measure"]
    assert made.frame.filter(pl.col("measure") == "lost_gpu_seconds")["value"].to_list() == [None, 5.0, 3.0]
    assert re.search(
        r"GPU time lost to them +- +0\.00139 GPU-h +- +0\.000833 GPU-h\* +-", printed(made, 200, every=True)
    )
    assert "GPU time lost" in made._repr_html_()


def test_preemptive_policies_compare(small_jobs: Path) -> None:
    made = compare(small_jobs, "2x8", ["fifo", "srtf", "tiresias"])
    assert [entry.value for entry in entries(made, "preemptions")] == [
        None if policy == "fifo" else made.outcomes[policy].jobs["preemptions"].sum()
        for policy in made.outcomes
    ]


def test_the_time_to_start_is_shown_where_it_is_not_the_wait(small_jobs: Path) -> None:
    """Jobs that are stopped wait again; comparison.parquet has all statistics always."""
    jobs = pl.read_csv(small_jobs)

    def shown(policies: list[str]) -> list[str]:
        made = compare(jobs, "1x8", policies, seeds=1)
        assert made.frame.filter(pl.col("measure").str.ends_with("time_to_start")).height == 4 * len(policies)
        lines = printed(made, 200, every=True).splitlines() + re.findall(r"[\w ]+", made._repr_html_())
        return [line for line in lines if "time to start" in line]

    assert shown(["fifo", "sjf"]) == []
    told = shown(["fifo", "time-slice"])
    assert len(told) == 2
    assert all("mean time to start" in line for line in told)


def test_the_frame_is_long_and_complete(comparison: Comparison) -> None:
    frame = comparison.frame
    keys = [measure.key for measure in COMPARED if measure.key not in OF_SOME]
    assert frame["measure"].unique(maintain_order=True).to_list() == keys
    assert frame.height == len(keys) * len(POLICIES)
    assert frame["policy"].to_list()[:3] == POLICIES
    means = frame.filter(pl.col("measure") == "mean_jct")
    expected = [float(np.mean(comparison.outcomes[policy].jobs["jct"].to_numpy())) for policy in POLICIES]
    np.testing.assert_allclose(means["value"], expected, rtol=1e-12)
    np.testing.assert_allclose(means["ratio"], np.array(expected) / expected[0], rtol=1e-12)


def test_the_folder(comparison: Comparison, small_jobs: Path, tmp_path: Path) -> None:
    comparison.write(tmp_path / "a")
    compare(small_jobs, "2x8", POLICIES, threads=1).write(tmp_path / "b")
    assert is_comparison(tmp_path / "a")
    (tmp_path / "b" / POLICIES[0] / "mine.txt").write_text("mine")
    comparison.write(tmp_path / "b", force=True)
    assert (tmp_path / "b" / POLICIES[0] / "mine.txt").read_text() == "mine"
    for policy in POLICIES:
        assert Outcome.read(tmp_path / "a" / policy).jobs.equals(comparison.outcomes[policy].jobs)
    names = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.parquet"))
    assert Path("comparison.parquet") in names
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    document = json.loads((tmp_path / "a" / "comparison.json").read_text())
    assert document["policies"] == POLICIES
    assert document["folders"] == {policy: policy for policy in POLICIES}
    assert document["measures"]["mean_jct"]["sjf"]["value"] == document["summaries"]["sjf"]["mean_jct"]
    for policy in POLICIES:
        summary = json.loads((tmp_path / "a" / policy / "summary.json").read_text())
        assert summary == document["summaries"][policy]
    with pytest.raises(InputError, match="already exists"):
        comparison.write(tmp_path / "a")
    comparison.write(tmp_path / "a", force=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear diary")
    with pytest.raises(InputError, match="no result"):
        comparison.write(tmp_path / "mine", force=True)
    assert (tmp_path / "mine" / "diary.txt").exists()


def test_options_hold_for_every_policy(small_jobs: Path) -> None:
    made = compare(small_jobs, "2x8", ["fifo", "ff"], model="fixed", queue="skip", seed=3)
    for outcome in made.outcomes.values():
        options = outcome.run["options"]
        assert (options["model"], options["queue"], options["seed"]) == ("fixed", "skip", 3)


@pytest.mark.parametrize(
    ("policies", "options", "said"),
    [
        (["fifo", "sjf", "fifo"], {}, "'fifo': expected each policy once"),
        (["fifo", "sjfbco"], {}, "did you mean sjf-bco"),
        ([], {}, "expected at least one"),
        (["fifo", "sjf"], {"placement": "best"}, "option placement"),
        (["fifo", "sjf"], {"threads": 0}, "option threads"),
        (["fifo", "sjf"], {"kappa": -1}, "option kappa"),
    ],
)
def test_wrong_usage(small_jobs: Path, policies: list[str], options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compare(small_jobs, "2x8", policies, **options)


def test_the_error_is_the_one_of_the_first_policy_that_fails(small_jobs: Path) -> None:
    # Nine GPUs: consolidate never places them on servers of 5, first-fit does.
    frame = read_jobs(small_jobs).frame.with_columns(num_gpus=pl.lit(9, dtype=pl.UInt32))
    with pytest.raises(InputError, match="row 1, column num_gpus"):
        compare(frame, "2x4", POLICIES)


def test_progress_over_all_policies(small_jobs: Path) -> None:
    entries: list[tuple[int, int]] = []
    compare(small_jobs, "2x8", POLICIES, seeds=2, progress=lambda *of: entries.append(of))
    assert entries[-1] == (42, 42)
    assert [done for done, _ in entries] == sorted(done for done, _ in entries)


@pytest.mark.parametrize("threads", [1, 2])
def test_each_run_is_named_when_it_begins(small_jobs: Path, threads: int) -> None:
    began: list[tuple[int, int, str]] = []
    for seeds in (Seeds(), Seeds(3)):
        compared(
            small_jobs,
            "2x8",
            ["fifo", "ff"],
            runs={},
            seeds=seeds,
            threads=threads,
            began=lambda *told: began.append(told),
            options={"seed": 4},
        )
    numbers, totals, names = zip(*began, strict=True)
    assert (numbers, totals) == ((1, 2, *range(1, 7)), (2, 2, *[6] * 6))
    assert set(names[:2]) == {"fifo", "ff"}
    runs = [f"run {number} of 3" for number in (1, 2, 3)]
    assert set(names[2:]) == {f"{policy}, {run}" for policy in ("fifo", "ff") for run in runs}


def test_a_failure_stops_the_replays_beside_it(small_jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: dict[str, str] = {}
    both = threading.Barrier(2, timeout=60)

    def fake(setup: Setup, progress: Any) -> Outcome:
        policy = setup.chosen.name
        both.wait()
        if policy == "fifo":
            raise InputError("broken")
        try:
            for done in range(10_000_000):
                progress(done, 7)
            ended[policy] = "ran to its end"
        except InterruptedError:
            ended[policy] = "gave up"
        return made_up()

    monkeypatch.setattr(sys.modules["ringbco.run.compare"], "carry_out", fake)
    with pytest.raises(InputError, match="broken"):
        compare(small_jobs, "2x8", ["fifo", "sjf"], threads=2, seeds=1)
    assert ended == {"sjf": "gave up"}


def test_outcomes_at_hand_are_labelled_by_what_differs(small_jobs: Path) -> None:
    fifo = replay(small_jobs, "2x8", policy="fifo")
    assert list(fifo.compare(replay(small_jobs, "2x8", policy="sjf")).outcomes) == ["fifo", "sjf"]
    low, high = (replay(small_jobs, "2x8", kappa=kappa) for kappa in (1, 4))
    wide = replay(small_jobs, "4x8", kappa=4)
    assert list(low.compare(high).outcomes) == ["sjf-bco (kappa 1)", "sjf-bco (kappa 4)"]
    assert list(high.compare(wide, fifo).outcomes) == [
        "sjf-bco (cluster 2x8)",
        "sjf-bco (cluster 4x8)",
        "fifo",
    ]
    twice = side_by_side([fifo, fifo])
    assert list(twice.outcomes) == ["fifo", "fifo [2]"]
    assert not twice.frame["best"].any()


def test_labels_that_are_no_file_names(small_jobs: Path, tmp_path: Path) -> None:
    left, right = (replay(small_jobs, cluster, policy="ff") for cluster in ("2x8", "3x8"))
    right.run["cluster"]["name"] = "../up"
    made = left.compare(right)
    made.write(tmp_path / "out")
    folders = json.loads((tmp_path / "out" / "comparison.json").read_text())["folders"]
    assert list(folders) == ["ff (cluster 2x8)", "ff (cluster ../up)"]
    assert Outcome.read(tmp_path / "out" / folders["ff (cluster ../up)"]).jobs.equals(right.jobs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "small.csv"]


def test_best_only_among_the_same_jobs_on_the_same_cluster(small_jobs: Path, tmp_path: Path) -> None:
    first, second = (replay(small_jobs, "2x8", policy=policy) for policy in ("fifo", "ff"))
    elsewhere = replay(small_jobs, "9x8", policy="sjf")
    other = tmp_path / "other.csv"
    other.write_text(small_jobs.read_text() + "last,0,1,0.5\n")
    of_other_jobs = replay(other, "2x8", policy="sjf")
    slower = replay(small_jobs, Cluster.parse("2x8").with_network(inter_bandwidth=1e6), policy="sjf")
    for strange in (elsewhere, of_other_jobs, slower):
        first.summary["mean_jct"], second.summary["mean_jct"] = 10.0, 9.0
        strange.summary["mean_jct"] = 1.0
        made = six_runs({"a": first, "b": strange, "c": second})
        result = entries(made, "mean_jct")
        assert [entry.best for entry in result] == [False, False, True]
        assert made.not_comparable == ["b"]
        assert result[1].ratio == 0.1
        assert "not starred (different jobs or cluster from a): b" in printed(made, 200)
    assert Comparison({"a": first, "b": second}).not_comparable == []


def test_the_time_in_the_engine_is_no_merit() -> None:
    made = six_runs({"a": made_up(engine_seconds=1.0), "b": made_up(engine_seconds=9.0)})
    assert [entry.best for entry in entries(made, "engine_seconds")] == [False, False]


def ran(invoke: Invoke, jobs: Path, *options: object) -> SimpleNamespace:
    policies = [part for policy in POLICIES for part in ("--policy", policy)]
    return invoke("compare", jobs, "--cluster", "2x8", *policies, "-o", "cmp", *options)


@pytest.mark.long
def test_the_command(invoke: Invoke, small_jobs: Path, tmp_path: Path) -> None:
    done = ran(invoke, small_jobs, "--inter-bandwidth", "1e9", "--queue", "skip")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "cmp").iterdir()) == [
        "comparison.json",
        "comparison.parquet",
        "ff",
        "fifo",
        "report.html",
        MANIFEST,
        "sjf",
    ]
    page = (tmp_path / "cmp" / "report.html").read_text(encoding="utf-8")
    assert all(policy in page for policy in POLICIES)
    assert "ratios are to fifo" in done.stdout
    assert "mean waiting time" not in done.stdout
    run = Outcome.read(tmp_path / "cmp" / "sjf").run
    assert run["cluster"]["network"]["inter_bandwidth"] == 1e9
    assert run["options"]["queue"] == "skip"
    again = ran(invoke, small_jobs)
    assert again.returncode == 1
    assert "already exists" in again.stderr
    whole = ran(invoke, small_jobs, "--force", "--all").stdout
    assert re.search(r"^ *mean waiting time ", whole, re.MULTILINE)
    said = ran(invoke, small_jobs, "--force", "--json")
    assert json.loads(said.stdout)["measures"].keys() == {measure.key for measure in COMPARED} - OF_SOME


@pytest.mark.long
def test_every_option_of_replay_is_taken(invoke: Invoke, small_jobs: Path) -> None:
    """The options come from `replay` itself: what it takes, `compare` must know what to do with."""
    text = cli_replay.__annotations__
    names = set(inspect.signature(cli_compare).parameters) - {"ctx"}
    # What repeats a result is of `replay` alone.
    extra = {"threads", "sort", "run", "result", "seeds", "fresh", "baseline"}
    extra |= {"figures", "table", "by", "every"}
    assert set(text) - {"return", "ctx", "again", "parameters", "round_length"} == names - extra
    done = ran(invoke, small_jobs, "--vc", "pool", "--seed", "4", "--no-allocations", "--sample", "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert Outcome.read(Path("cmp", "ff")).allocations is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policy", "fifo", "--policy", "fifo"), "each policy once"),
        (("--policy", "fifo", "--policy", "sfj"), "did you mean sjf"),
        (("--policy", "fifo"), "at least two"),
        (("--policy", "fifo", "--policy", "sjf", "--xi1", "2"), "xi1"),
        (("--policy", "fifo", "--policy", "sjf", "--sort", "mean_wai"), "did you mean mean_wait"),
    ],
)
def test_wrong_usage_of_the_command(
    invoke: Invoke, small_jobs: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = invoke("compare", small_jobs, "--cluster", "2x8", *arguments, "-o", "cmp")
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "cmp").exists()


def test_policies_that_drop_different_jobs_are_told(invoke: Invoke, tmp_path: Path) -> None:
    # Three servers of 3: consolidate finds no place for 5 + 3 + ... of 8 GPUs, first-fit does.
    (tmp_path / "jobs.csv").write_text("job_id,submit_time,num_gpus,duration\na,0,1,5\nb,0,8,5\n")
    (tmp_path / "c.toml").write_text("[[servers]]\ngpus = 6\n[[servers]]\ngpus = 1\n[[servers]]\ngpus = 1\n")
    done = invoke(
        *("compare", "jobs.csv", "--cluster", "c.toml", "--policy", "ff", "--policy", "fifo"),
        *("--oversize", "drop", "-o", "cmp"),
    )
    assert done.returncode == 0, done.stderr
    assert "note: the policies ran different jobs, having left some out: ff 2, fifo 1" in done.stderr


def test_a_real_trace(shared_traces: Path) -> None:
    """Philly's largest virtual cluster: shortest first waits less than in order of submission."""
    made = compare(shared_traces / "philly" / "6214e9.csv", "64x8", ["fifo", "sjf"], allocations=False)
    result = entries(made, "mean_wait")[1]
    assert result.best
    assert result.ratio is not None
    assert result.ratio < 0.5
    assert made.outcomes["fifo"].jobs.height == 51_258
