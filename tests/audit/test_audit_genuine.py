"""What the engine does passes, whatever policy, clock, model, cluster and options; tolerances are tight."""

import random
from typing import Any

import polars as pl
import pytest

from core_run import AUDITS
from corruptions import Story, with_cell
from ringbco.audits import check_outcome
from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster, ServerGroup
from ringbco.errors import InputError
from ringbco.result.outcome import Outcome
from ringbco.run.plan import plan
from ringbco.run.replay import replay
from ringbco.trace.jobs import JobTable, from_frame

PREEMPTIVE = ("srtf", "tiresias", "gittins", "ftf", "edf", "time-slice", "repack")
QUEUED = ("fifo", "sjf", "smallest", "ff", "ls", "rand", "sjf-bco", "qssf")
PLACEMENTS = (
    "first-fit",
    "consolidate",
    "binpack",
    "emptiest",
    "least-loaded",
    "random",
    "fa-ffp",
    "lbsgf",
    "sjf-bco",
)


def random_table(rnd: random.Random, vcs: list[str]) -> JobTable:
    """Up to 40 jobs, some at one time, in any order, with users or not; whole numbers make events meet."""
    count, whole = rnd.randint(1, 40), rnd.random() < 0.5
    at = rnd.choice((0.0, 3.0, 6e7))
    submit = []
    for _ in range(count):
        at += rnd.choice((0.0, 1.0, 1.0)) * (float(rnd.randrange(60)) if whole else rnd.uniform(0.0, 60.0))
        submit.append(at)
    if rnd.random() < 0.2:
        rnd.shuffle(submit)
    columns: dict[str, list[Any]] = {
        "job_id": [f"j{row}" for row in range(count)],
        "submit_time": submit,
        "num_gpus": [rnd.choice((1, 1, 2, 3, 4, 6, 8)) for _ in submit],
        "duration": [float(rnd.randrange(1, 200)) if whole else rnd.uniform(1.0, 300.0) for _ in submit],
        "deadline": [None if rnd.random() < 0.2 else at + rnd.uniform(50.0, 900.0) for at in submit],
    }
    if rnd.random() < 0.6:
        columns["user"] = [rnd.choice((None, "ann", "bob")) for _ in submit]
    if vcs:
        columns["vc"] = [rnd.choice(vcs) for _ in submit]
    return from_frame(pl.DataFrame(columns, schema_overrides={"deadline": pl.Float64}))


def random_cluster(rnd: random.Random, *, vcs: bool) -> tuple[Cluster, list[str]]:
    names = [rnd.choice("abc") if vcs else None for _ in range(rnd.randint(1, 5))]
    groups = [ServerGroup(1, rnd.choice((1, 2, 4, 4, 8)), vc=name) for name in names]
    network = Network(
        inter_bandwidth=rnd.choice((12.5e9, 1e9)),
        xi1=rnd.choice((0.25, 0.5, 1.0)),
        xi2=rnd.choice((0.0, 5e-4)),
    )
    return Cluster.from_groups(groups, network), [name for name in names if name]


def random_options(rnd: random.Random, policy: str) -> dict[str, Any]:
    options: dict[str, Any] = {"clock": rnd.choice(("continuous", "slot")), "seed": rnd.randrange(9)}
    options |= {"model": rnd.choice(("rar", "fixed")), "ties": rnd.choice(("rows", "reverse", "shuffle:4"))}
    if options["clock"] == "slot":
        options["slot"] = rnd.choice((7.0, 0.7, 20.0))
    if rnd.random() < 0.5:
        options["placement"] = rnd.choice(PLACEMENTS)
    if options.get("placement", policy) in ("sjf-bco", "fa-ffp", "lbsgf"):
        options["variant"] = rnd.choice(("practical", "literal"))
    if options.get("placement", policy) == "sjf-bco":
        options["kappa"] = rnd.choice((1, 2, 8))
    if policy in QUEUED:
        options["queue"] = rnd.choice(("strict", "skip", "easy"))
        if options["queue"] == "easy":
            options["estimate_factor"] = rnd.choice((0.5, 1.0, 3.0))
        if policy in ("sjf", "smallest", "qssf") and rnd.random() < 0.4:
            options["aging"] = rnd.choice((0.0, 50.0, 200.0))
    else:
        options["preempt_cost"] = rnd.choice((0.0, 5.0, 30.0))
    if policy in ("tiresias", "gittins", "ftf"):
        options["interval"] = rnd.choice((60.0, 7.0, 33.3))
    if policy in ("tiresias", "gittins"):
        options["thresholds"] = (200.0, 1000.0)
    if policy == "time-slice":
        options["quantum"] = rnd.choice((60.0, 75.0))  # a turn of more slots than resuming takes
    if policy in ("qssf", "repack"):
        options["predict"] = rnd.choice(("history", "exact"))
    if policy == "edf":
        options["admission"] = rnd.random() < 0.5
    if rnd.random() < 0.2:
        options["sample"] = rnd.choice((10.0, 33.0))
    return options | {"allocations": rnd.random() < 0.9}


@pytest.mark.parametrize("policy", [*QUEUED, *PREEMPTIVE])
def test_replays_pass(policy: str) -> None:
    audited = 0
    for number in range(AUDITS):
        rnd = random.Random(f"{policy} {number}")
        cluster, names = random_cluster(rnd, vcs=number % 4 == 0)
        jobs, options = random_table(rnd, names), random_options(rnd, policy)
        try:
            outcome = replay(jobs, cluster, policy=policy, oversize="drop", **options)
        except InputError:  # no job fits, or an iteration does not fit in a slot
            continue
        if outcome.jobs.height:
            audited += 1
            assert check_outcome(outcome, jobs).findings == [], (number, options)
    assert audited >= 0.6 * AUDITS


@pytest.mark.parametrize("policy", ["sjf-bco", "ff", "ls", "rand"])
@pytest.mark.parametrize("dispatch", ["idle", "reserve"])
def test_plans_pass(policy: str, dispatch: str) -> None:
    audited = 0
    for number in range(AUDITS):
        rnd = random.Random(f"{policy} {dispatch} {number}")
        cluster, _ = random_cluster(rnd, vcs=False)
        jobs = random_table(rnd, [])
        options = {"order": rnd.choice(("smallest", "fifo")), "model": rnd.choice(("rar", "fixed"))}
        if policy == "sjf-bco":
            options |= {"kappa": rnd.choice(("auto", 2)), "variant": rnd.choice(("practical", "literal"))}
        try:
            outcome = plan(
                jobs, cluster, policy=policy, dispatch=dispatch, slot=rnd.choice((7.0, 20.0)), threads=1,
                u=rnd.choice((1.0, 1.7)), oversize="drop", **options,
            )  # fmt: skip
        except InputError:
            continue
        audited += 1
        assert check_outcome(outcome, jobs).findings == [], (number, options)
    assert audited >= 0.6 * AUDITS


def test_a_policy_that_preempts_without_its_stays() -> None:
    """Then only held_time says how long the GPUs were held."""
    story = Story("srtf")
    story.outcome.allocations = None
    assert check_outcome(story.outcome, story.table).findings == []
    story.scale("utilisation", 1 + 1e-8)
    (finding,) = check_outcome(story.outcome, story.table).findings
    assert finding.message.startswith("utilisation is ")


@pytest.mark.parametrize("epoch", [1e9, 1e12])
def test_times_far_from_zero(epoch: float) -> None:
    # There float64 tells seconds from each other to a ten-millionth, or to a ten-thousandth.
    names = ("job_id", "submit_time", "num_gpus", "duration")
    rows = [("a", epoch, 1, 100.3), ("b", epoch + 10.7, 1, 20.1), ("c", epoch + 11.1, 2, 7.7)]
    jobs = from_frame(pl.DataFrame(rows, schema=names, orient="row"))
    outcome = replay(jobs, "1x2", policy="srtf", model="fixed", preempt_cost=3.3, start_cost=1.7)
    assert outcome.summary["preemptions"] > 0
    assert check_outcome(outcome, jobs).findings == []
    outcome.summary["lost_gpu_seconds"] += 1e-2
    assert len(check_outcome(outcome, jobs).findings) == 1


def test_checkpoints_far_from_zero() -> None:
    # In slots of a second, a checkpoint at each boundary: the outage takes no work.
    jobs = from_frame(pl.DataFrame({"job_id": "a", "submit_time": 1e12, "num_gpus": 1, "duration": 20.0}))
    outages = pl.DataFrame({"server": [0], "down_at": [1e12 + 12.0], "up_at": [1e12 + 12.5]})
    outcome = replay(
        jobs, "1x1", policy="fifo", model="fixed", clock="slot", checkpoint_interval=0.25, outages=outages
    )
    assert (outcome.summary["failures"], outcome.summary["lost_work_gpu_seconds"]) == (1, 0.0)
    assert check_outcome(outcome, jobs).findings == []


# EASY, by hand

# Two servers of two GPUs. `big` wants both; `first` holds one until 100. `soon` ends by then, `late` later.
BACKFILLED = [("first", 0.0, 2, 100.0), ("big", 1.0, 4, 10.0), ("late", 2.0, 1, 99.0), ("soon", 3.0, 1, 97.0)]


def backfilled(**options: Any) -> tuple[Outcome, JobTable]:
    names = ("job_id", "submit_time", "num_gpus", "duration")
    jobs = from_frame(pl.DataFrame(BACKFILLED, schema=names, orient="row"))
    return replay(jobs, "2x2", policy="fifo", model="fixed", **options), jobs


def test_estimates_are_multiplied() -> None:
    right, jobs = backfilled(queue="easy", estimate_factor=2.0)
    assert right.jobs["start_time"].to_list() == [0.0, 101.0, 2.0, 3.0]
    assert check_outcome(right, jobs).findings == []


# Tolerances: what is just above them is found, whatever the sign


@pytest.mark.parametrize("name", ["ff", "srtf", "bco"])
@pytest.mark.parametrize("share", [3e-9, -3e-9])
def test_run_times_are_right_to_a_billionth_of_the_work(name: str, share: float) -> None:
    story = Story(name)
    jobs = story.outcome.jobs
    # Whoever finishes last leaves its GPUs to nobody, and is alone at the end.
    job = story.first(pl.col("finish_time") == jobs["finish_time"].max())
    start, finish = story.cell(job, "start_time"), story.cell(job, "finish_time")
    story.put_times(job, start, finish + share * (finish - start))
    codes = {
        f.code for f in check_outcome(story.outcome, story.table).findings if f.job == jobs["job_id"][job]
    }
    assert "run-times" in codes


@pytest.mark.parametrize("share", [3e-9, -3e-9])
def test_fixed_run_times_are_right_to_a_billionth_of_the_time(share: float) -> None:
    story = Story("ff-fixed")
    job = story.first(pl.col("finish_time") == story.outcome.jobs["finish_time"].max())
    finish = story.cell(job, "finish_time")
    story.put_times(job, story.cell(job, "start_time"), finish * (1 + share))
    assert "run-times" in {finding.code for finding in check_outcome(story.outcome, story.table).findings}


@pytest.mark.parametrize("column", ["running_jobs", "queued_jobs", "busy_gpus", "queued_gpus"])
@pytest.mark.parametrize("by", [1, -1])
def test_one_of_many_in_the_timeline(column: str, by: int) -> None:
    """One of 300 is a third of a percent."""
    names = [f"j{row}" for row in range(600)]
    frame = pl.DataFrame({"job_id": names, "submit_time": 0.0, "num_gpus": 1, "duration": 100.0})
    jobs = from_frame(frame)
    outcome = replay(jobs, "300x1", policy="fifo", model="fixed")
    assert outcome.timeline[column][50] == 300
    assert check_outcome(outcome, jobs).findings == []
    outcome.timeline = with_cell(outcome.timeline, 50, column, 300 + by)
    (finding,) = check_outcome(outcome, jobs).findings
    assert finding.message == f"{column} is {300 + by}; expected 300"


@pytest.mark.parametrize("share", [3e-9, -3e-9])
def test_mean_contention_in_the_timeline(share: float) -> None:
    story = Story("ls")
    row = int(story.outcome.timeline["mean_contention"].arg_max() or 0)
    value = story.outcome.timeline["mean_contention"][row]
    assert value > 1
    story.sample(row, "mean_contention", value * (1 + share))
    (finding,) = check_outcome(story.outcome, story.table).findings
    assert finding.code == "timeline"
