"""`ringbco.plan` and `ringbco plan`: the result folder, the options, the refusals."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.audits import check_outcome
from ringbco.cli.plan import _show as shown
from ringbco.errors import InputError, UsageError
from ringbco.run.plan import plan
from ringbco.run.registry import PLAN

POLICIES = ("sjf-bco", "ff", "ls", "rand")


def paper(jobs: int = 60, seed: int = 3) -> ringbco.JobTable:
    return ringbco.generate("paper", jobs, seed)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dispatch", ["idle", "reserve"])
def test_the_audit_finds_nothing(policy: str, dispatch: str) -> None:
    table = paper()
    for order in PLAN["order"].names:
        for model in ("rar", "fixed"):
            for slot in (1.0, 2.5):
                outcome = plan(
                    table, "7x8", policy=policy, dispatch=dispatch, order=order, model=model, slot=slot
                )
                assert check_outcome(outcome, table).findings == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dispatch", ["idle", "reserve"])
def test_each_virtual_cluster_has_a_plan_of_its_own(policy: str, dispatch: str, tmp_path: Path) -> None:
    table = paper(40)
    vc = pl.Series(["x", "y", "x", "x"] * 10)
    jobs = ringbco.trace.jobs.from_frame(table.frame.with_columns(vc=vc))
    cluster = tmp_path / "cluster.toml"
    servers = "".join(f'[[servers]]\ngpus = 8\ncount = 5\nvc = "{name}"\n' for name in "xyz")
    cluster.write_text(servers)
    outcome = plan(jobs, cluster, policy=policy, dispatch=dispatch)
    assert check_outcome(outcome, jobs).findings == []
    assert "theta" not in outcome.summary
    for entry in outcome.summary["vcs"]:
        if entry["vc"] == "z":
            assert "theta" not in entry
            continue
        own = ringbco.trace.jobs.from_frame(table.frame.filter(vc == entry["vc"]))
        alone = plan(own, "5x8", policy=policy, dispatch=dispatch)
        mine = outcome.jobs.filter(pl.col("job_id").is_in(own.frame["job_id"].implode()))
        assert mine.drop("vc").equals(alone.jobs.drop("vc"))
        for name in ("theta", "kappa", "horizon", "w_max", "work_lower_bound", "thetas_tried"):
            assert entry[name] == alone.summary[name]
        entry["theta"] = entry["horizon"] + 1
        assert {finding.code for finding in check_outcome(outcome, jobs).findings} == {"summary"}
        entry["theta"] = alone.summary["theta"]


def test_summary_and_run() -> None:
    table = paper()
    outcome = plan(table, "7x8", lambda_=2.0, u=1.5, variant="literal")
    summary, options = outcome.summary, outcome.run["options"]
    finish = outcome.jobs["finish_time"].to_numpy()
    assert summary["makespan"] == finish.max()
    assert summary["mean_jct"] == pytest.approx(finish.mean())
    assert summary["kappa"] in {1, *table.frame["num_gpus"]}
    assert 1 <= summary["theta"] <= summary["horizon"]
    assert summary["w_max"] <= summary["theta"]
    assert summary["makespan"] < summary["horizon"]
    assert options["command"] == "plan"
    assert (options["kappa"], options["horizon"]) == ("auto", "auto")
    assert (options["u"], options["lambda"], options["variant"]) == (1.5, 2.0, "literal")


def test_measured_bound() -> None:
    """n_g phi u / l from the tables alone."""
    table = paper()
    outcome = plan(table, "7x8")
    durations = table.frame["duration"].to_numpy()  # of a `paper` table: F tau on one server, which is rho
    ratio = outcome.jobs["run_time"].to_numpy() / durations
    summary = outcome.summary
    assert summary["bound_n_g"] == 32
    assert summary["bound_phi"] == pytest.approx(durations.max() / durations.min())
    assert summary["bound_u"] == pytest.approx(max(1.0, ratio.max()))
    assert summary["bound_l"] == pytest.approx(min(1.0, ratio.min()))
    product = 32 * summary["bound_phi"] * summary["bound_u"] / summary["bound_l"]
    assert summary["approximation_bound"] == pytest.approx(product)
    assert summary["makespan"] / summary["work_lower_bound"] < product
    gpus = table.frame["num_gpus"].to_numpy()
    assert summary["work_lower_bound"] == pytest.approx(max(durations.max(), gpus @ durations / 56))


def test_submissions_are_ignored() -> None:
    table = paper()
    late = ringbco.trace.jobs.from_frame(table.frame.with_columns(submit_time=pl.col("duration") * 7.0))
    one, other = plan(table, "7x8"), plan(late, "7x8")
    assert other.jobs["submit_time"].to_list() == [0.0] * 60
    assert one.jobs.equals(other.jobs)
    assert check_outcome(other, late).findings == []


def test_slots_scale_together() -> None:
    """Twice the slot and everything twice as long: the same slots."""
    jobs = pl.DataFrame(
        {"job_id": list("abcd"), "submit_time": 0.0, "num_gpus": [1, 2, 2, 3], "duration": 10.0}
    )
    longer = jobs.with_columns(duration=pl.col("duration") * 2)
    one = plan(jobs, "2x2", model="fixed", slot=1.0)
    two = plan(longer, "2x2", model="fixed", slot=2.0)
    assert (one.jobs["finish_time"] * 2).equals(two.jobs["finish_time"])
    for key in ("theta", "horizon", "kappa"):
        assert one.summary[key] == two.summary[key]
    for key in ("makespan", "w_max", "work_lower_bound"):
        assert one.summary[key] * 2 == two.summary[key]


def test_waits_are_explained() -> None:
    """The three parts add up; under a strict order the first that waits waits for GPUs or for theta."""
    table = paper()
    for dispatch in ("idle", "reserve"):
        jobs = plan(table, "7x8", dispatch=dispatch).jobs
        parts = jobs.select("wait_behind", "wait_gpus", "wait_fragmented")
        assert jobs["wait_time"].max() > 0
        assert np.allclose(parts.sum_horizontal(), jobs["wait_time"], atol=1e-3)
        assert parts.min_horizontal().min() >= 0
        if dispatch == "reserve":
            assert parts["wait_behind"].max() == 0


def test_random_depends_on_the_seed() -> None:
    table = paper()
    one, same, other = (plan(table, "7x8", policy="rand", seed=seed) for seed in (1, 1, 2))
    assert one.allocations is not None
    assert other.allocations is not None
    assert one.allocations.equals(same.allocations)
    assert not one.allocations.equals(other.allocations)


def test_a_horizon_too_short_names_one_that_does() -> None:
    table = paper()
    with pytest.raises(InputError, match="before the horizon of 40 slots: the work alone takes") as caught:
        plan(table, "7x8", horizon=40)
    said = str(caught.value)
    enough = int(said.split("a horizon of ")[1].split(maxsplit=1)[0])
    assert plan(table, "7x8", horizon=enough).summary["makespan"] < enough


def test_a_schedule_must_end_before_the_horizon() -> None:
    """T itself is not accepted, and the refusal says so."""
    frame = pl.DataFrame({"job_id": ["a"], "submit_time": 0.0, "num_gpus": 1, "duration": 7.0})
    assert plan(frame, "1x1", model="fixed", horizon=8).summary["makespan"] == 7
    with pytest.raises(InputError, match="no schedule ends before the horizon of 7 slots"):
        plan(frame, "1x1", model="fixed", horizon=7)


def test_refusals() -> None:
    table = paper()
    for options, said in (
        ({"policy": "fifo"}, "option policy: 'fifo'"),
        ({"order": "sjf"}, "option order: 'sjf'"),
        ({"dispatch": "now"}, "option dispatch"),
        ({"variant": "prose"}, "option variant"),
        ({"kappa": -1}, "option kappa: -1"),
        ({"lambda_": 0.5}, "option lambda: 0.5"),
        ({"u": 0.99}, "option u: 0.99"),
        ({"u": float("nan")}, "option u: nan"),
        ({"horizon": 0}, "option horizon: 0"),
        ({"slot": 0.0}, "option slot: 0.0"),
        ({"threads": 0}, "option threads: 0"),
        ({"sample": 1e-9}, "option sample"),
        ({"clock": "continuous"}, "option clock: 'continuous': expected slot: a plan"),
        ({"model": "table"}, "option model: 'table': expected rar or fixed: a plan"),
        ({"quota": "q.csv"}, "option quota: expected none: a plan gives GPUs to jobs"),
    ):
        with pytest.raises(UsageError, match=said):
            plan(table, "7x8", **options)
    with pytest.raises(InputError, match="column num_gpus: 32"):
        plan(table, "2x8")
    assert plan(table, "2x8", oversize="drop", clock="slot").summary["jobs_dropped"] > 0
    with pytest.raises(InputError, match="no job is left to plan"):
        plan(ringbco.trace.jobs.from_frame(table.frame.filter(num_gpus=32)), "1x8", oversize="drop")
    with pytest.raises(InputError, match="an iteration that fits in a slot"):
        plan(table, "7x8", slot=0.001)
    with pytest.raises(UsageError, match=r"option slot: 0\.0+1: expected a slot of which"):
        plan(table, "7x8", model="fixed", slot=1e-15)


def test_a_job_that_stalls_whatever_the_horizon_is_named() -> None:
    """Rings over two servers: an iteration fits in a slot alone, not beside another ring."""
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"], "submit_time": 0.0, "num_gpus": [2, 2, 2], "duration": 1.0,
            "iterations": 5, "gradient_bytes": 1.0, "fp_time": 0.1, "bp_time": 0.1, "batch_size": 1,
        }
    )  # fmt: skip
    cluster = ringbco.Cluster.parse("6x1").with_network(
        inter_bandwidth=1.3, xi1=1.0, xi2=0.0, alpha=0.0, intra_bandwidth=10.0
    )
    assert plan(jobs, cluster).summary["makespan"] == 5
    crowded = ringbco.Cluster.parse("2x3").with_network(
        inter_bandwidth=1.3, xi1=1.0, xi2=0.0, alpha=0.0, intra_bandwidth=10.0
    )
    three = jobs.head(2).with_columns(num_gpus=pl.lit(3))
    assert plan(three, crowded).summary["makespan"] == 3  # each on its own server, two a slot
    with pytest.raises(
        InputError, match="row 1: expected every job to finish, but job 'a': makes no progress"
    ):
        plan(three, crowded, policy="rand", seed=1)


def test_threads_do_not_matter() -> None:
    table = paper(160)
    alone = plan(table, "20x16", threads=1)
    for threads in (2, 3):
        other = plan(table, "20x16", threads=threads)
        assert other.jobs.equals(alone.jobs)
        assert other.summary["theta"] == alone.summary["theta"]


def test_progress_and_interruption() -> None:
    """A plan that takes a while tells its progress, and ends when the callback raises."""
    rng = np.random.default_rng(0)
    jobs = pl.DataFrame(
        {
            "job_id": [str(n) for n in range(30_000)], "submit_time": 0.0,
            "num_gpus": rng.choice([1, 2, 4, 8, 16], 30_000), "duration": rng.uniform(50, 300, 30_000),
        }
    )  # fmt: skip

    class StopError(Exception):
        pass

    def stop(done: int, total: int) -> None:
        assert 0 <= done <= total
        raise StopError

    with pytest.raises(StopError):
        plan(jobs, "64x8", progress=stop, dispatch="reserve")


def test_command(invoke: Invoke, tmp_path: Path) -> None:
    ringbco.trace.jobs.write_jobs(paper(), tmp_path / "jobs.parquet")
    made = invoke("plan", "jobs.parquet", "--cluster", "7x8", "--lambda", "2", "-o", "out")
    assert made.returncode == 0, made.stderr
    assert "theta" in made.stdout
    assert invoke("audit", "out").returncode == 0
    outcome = ringbco.Outcome.read(tmp_path / "out")
    direct = plan(tmp_path / "jobs.parquet", "7x8", lambda_=2.0)
    assert outcome.jobs.equals(direct.jobs)
    said = invoke("plan", "jobs.parquet", "--cluster", "7x8", "--kappa", "4", "--json", "-o", "four")
    assert json.loads(said.stdout)["kappa"] == 4
    short = invoke("plan", "jobs.parquet", "--cluster", "7x8", "--horizon", "40", "-o", "short")
    assert short.returncode == 1
    assert short.stderr.startswith("error: jobs.parquet: no schedule ends before the horizon of 40 slots")
    assert short.stderr.count("\n") == 1
    assert not (tmp_path / "short").exists()
    assert invoke("plan", "jobs.parquet", "--cluster", "7x8", "--kappa", "many", "-o", "x").returncode == 2


def test_command_notes_submissions(invoke: Invoke, small_jobs: Path) -> None:
    made = invoke("plan", small_jobs, "--cluster", "2x8", "-o", "out")
    assert made.returncode == 0, made.stderr
    assert "submit_time goes up to 1000 s; a plan submits every job at time 0" in made.stderr


@pytest.mark.parametrize(
    ("bound", "makespan", "theorem", "printed"),
    [
        (12.36, 15.0, 4.0001, ("12.3 s; makespan / bound 1.22", "at most 4.1 times")),
        (12.5, 15.0, 4.0, ("12.5 s; makespan / bound 1.20", "at most 4.0 times")),
    ],
)
def test_bounds_are_printed_as_bounds(
    capsys: pytest.CaptureFixture[str],
    bound: float,
    makespan: float,
    theorem: float,
    printed: tuple[str, ...],
) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [60.0]})
    summary = ringbco.plan(jobs, "1x1").summary
    told = {"work_lower_bound": bound, "makespan": makespan, "approximation_bound": theorem}
    shown("a plan", {**summary, **told}, 1.0)
    out = capsys.readouterr().out
    assert all(text in out for text in printed)
