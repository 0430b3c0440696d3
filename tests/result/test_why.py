"""One job's story by hand: every kind of sentence, what is not known, what is refused (docs/why.md)."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from cases.stories import facts_of
from frames import busy_jobs, cluster_of, outages, services, table, typed_servers
from ringbco import _core
from ringbco.errors import InputError, UsageError
from ringbco.result.why import Story

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

# On one server of 4 GPUs: x from 0 on for 100 s, y from 1 on for 10 s, z from 2 on for 5 s.
JOBS = table(
    job_id=["x", "y", "z"],
    submit_time=[0.0, 1.0, 2.0],
    num_gpus=[4, 4, 1],
    duration=[100.0, 10.0, 5.0],
    user=["ann", "bob", "bob"],
)


def run(policy: str, jobs: pl.DataFrame = JOBS, cluster: str = "1x4", **options: Any) -> ringbco.Outcome:
    return ringbco.replay(jobs, cluster, **{"policy": policy, "model": "fixed", "preempt_cost": 3, **options})


def read_back(outcome: ringbco.Outcome) -> ringbco.Outcome:
    """The same without what only the process of its run has: the job table."""
    back: ringbco.Outcome = pickle.loads(pickle.dumps(outcome))
    return back


def test_a_wait_under_fifo() -> None:
    assert run("fifo").why("z").sentences == [
        "Submitted on day 0, 00:00:02. It requests 1 GPU (user bob).",
        "1 other job was queued. In the order of fifo it was number 2 of 2, behind y.",
        "At submission 1 job held all 4 GPUs. Largest holders: x (4); by user ann (4).",
        "None was idle, and it requests 1 GPU.",
        "Until it started, most GPU time went to x (90.7 %) and y (9.3 %).",
        "Meanwhile the head of the queue was y (4 GPUs, for 98.0 s).",
        "Just before it started 1 job held all 4 GPUs. Largest holders: y (4); by user bob (4).",
        "None was idle, and it requests 1 GPU.",
        "It waited 108.0 s, while fewer GPUs were idle than it asks for.",
        "Started 108.0 s after submission on 1 GPU of server 0.",
        "At that instant GPUs became free on its servers, of y (4).",
        "Finished 113.0 s after submission. Alone on the fewest servers, it would have taken 5.0 s, plus"
        " 108.0 s waiting for GPUs. In total it took 22.60 times as long.",
    ]


def test_a_preemption_under_srtf() -> None:
    """x runs 0 to 1, y 1 to 2, z 2 to 7, y 7 to 19 and x 19 to 121, both with a pause of 3 s."""
    story = run("srtf").why("x")
    assert [fact.sentence for fact in story.facts if fact.kind in ("stopped", "waited", "ranked behind")] == [
        "Preempted 1.0 s after submission, after 1.0 s on its GPUs. At that instant y (4) started on its"
        " servers.",
        "It waited 18.0 s, while fewer GPUs were idle than it asks for.",
    ]
    assert [(part.start, part.end, part.what, part.gpus, part.ended) for part in story.lane] == [
        (0.0, 1.0, "running", 4, "preempted"),
        (1.0, 19.0, "waiting", 0, None),
        (19.0, 22.0, "pausing", 4, None),
        (22.0, 121.0, "running", 4, "done"),
    ]
    assert "Resumed 19.0 s after submission on 4 GPUs of server 0. 3.0 s passed without progress first." in (
        story.sentences
    )


def kinds(story: Story, *those: str) -> list[str]:
    return [fact.sentence for fact in story.facts if fact.kind in those]


def test_gpus_that_lie_apart() -> None:
    jobs = table(num_gpus=[3, 3, 2], duration=[10.0, 20.0, 5.0])
    assert kinds(run("fifo", jobs, "2x4").why("j2"), "apart", "waited", "freed") == [
        "Enough were idle for the 2 GPUs that it requests, but they were fragmented: 2 servers had idle GPUs,"
        " at most 1 each, and consolidate takes all from one server.",
    ] * 2 + [
        "It waited 10.0 s, while enough were idle but not where its placement can use them.",
        "At that instant GPUs became free on its servers, of j0 (3).",
    ]


def test_the_reservation_of_easy() -> None:
    """The example of docs/model.md: a job that ends by then may go ahead, one of 12 s may not."""
    jobs = table(submit_time=[0.0, 1.0, 2.0, 2.5], num_gpus=[3, 4, 1, 1], duration=[10.0, 5.0, 12.0, 7.5])
    outcome = run("fifo", jobs, queue="easy")
    (said, *_) = facts_of(outcome.why("j2"), "reserved")
    assert (said.figures["shadow"], said.figures["own_end"]) == (10.0, 14.0)
    assert said.sentence == (
        "There was room for its 1 GPU, but j1, which requests 4 GPUs, was at the head of the"
        " queue, and under EASY no job may delay it: by the estimates it can start 8.0 s after submission,"
        " and this job would last until 12.0 s after submission."
    )
    assert kinds(outcome.why("j3"), "at once") == ["It started at once."]


def test_quotas_evictions_failures_and_services() -> None:
    quota = pl.DataFrame({"user": ["ann", "bob"], "gpus": [4, 4], "borrow": [True, False]})
    jobs = table(
        submit_time=[0.0, 1.0, 2.0],
        num_gpus=[2, 3, 1],
        duration=[50.0, 10.0, 5.0],
        user=["bob", "bob", "ann"],
    )
    outcome = run("fifo", jobs, "1x8", quota=quota)
    assert kinds(outcome.why("j1"), "over quota")[0] == (
        "There was room for its 3 GPUs, but jobs of bob held 2 of a quota of 4 GPUs,"
        " which none may exceed: it was passed over."
    )
    urgent = JOBS.with_columns(priority=pl.Series([0, 1, 0], dtype=pl.Int32))
    assert kinds(run("fifo", urgent, evict=True).why("x"), "stopped") == [
        "Evicted to make room for y 1.0 s after submission, after 1.0 s on its GPUs."
    ]
    broken = run("fifo", JOBS, outages=outages((0, 40.0, 60.0)), checkpoint_interval=15)
    assert kinds(broken.why("x"), "stopped", "freed") == [
        "Failed with server 0 40.0 s after submission, after 40.0 s on its GPUs. The server came back 60.0 s"
        " after submission. It lost 10.0 s of work since its last checkpoint.",
        "At that instant server 0 came back.",
    ]
    served = run("fifo", JOBS, services=services(("chat", 30.0, 1, 2), ("chat", 50.0, 0, 2)))
    assert kinds(served.why("x"), "stopped") == [
        "Evicted to make room for service chat 30.0 s after submission, after 30.0 s on its GPUs."
    ]
    assert kinds(served.why("x"), "held")[0] == (
        "Then replicas of services held 2 GPUs and 2 GPUs were idle, of 4. Largest holders: service chat (2)."
    )


def test_whoever_never_had_gpus() -> None:
    jobs = table(num_gpus=[1, 9], duration=[5.0, 5.0], deadline=[100.0, 100.0])
    dropped = run("fifo", jobs, oversize="drop")
    said = "It never had GPUs: it was left out because nothing that it may use can hold it (--oversize drop)."
    assert dropped.why("j1", jobs).sentences[-1] == said
    assert dropped.why("j1", jobs).lane == ()
    late = table(num_gpus=[1, 1], duration=[5.0, 50.0], deadline=[100.0, 20.0])
    for decisions, when in ((False, ""), (True, " at submission")):
        refused = run("edf", late, admission=True, decisions=decisions)
        assert (
            refused.why("j1", late).sentences[-1] == f"It never had GPUs: it was refused by the policy{when}."
        )


def test_contention_names_who_was_on_the_links() -> None:
    """First-fit puts j0 on servers 0 and 1, j1 on 1 and 2, j2 on 2 and 3."""
    jobs = table(num_gpus=[4, 4, 4], gradient_bytes=[1e9] * 3, iterations=[1000] * 3)
    jobs = jobs.with_columns(fp_time=pl.lit(0.1), batch_size=pl.lit(1), bp_time=pl.lit(0.0))
    cluster = ringbco.Cluster.parse("4x3").with_network(xi1=1.0)
    outcome = ringbco.replay(jobs, cluster, policy="ff")
    story = outcome.why("j0")
    (shared,) = facts_of(story, "shared")
    assert [(each["job"], each["servers"]) for each in shared.figures["with"]] == [("j1", [1])]
    assert [each["job"] for each in facts_of(outcome.why("j1"), "shared")[0].figures["with"]] == ["j0", "j2"]
    (slowed,) = facts_of(story, "slowed")
    row = outcome.jobs.row(0, named=True)
    assert slowed.figures["seconds"] == row["run_contention"]
    assert slowed.figures["factor"] == pytest.approx(
        row["run_time"] / (row["run_time"] - row["run_contention"]), rel=1e-5
    )


def test_a_slot_is_no_queue() -> None:
    story = run("fifo", JOBS.with_columns(pl.col("submit_time") + 3.0).head(1), clock="slot", slot=10.0).why(
        "x"
    )
    assert story.sentences[1] == "It started at the next slot boundary, 7.0 s later."
    assert [(part.start, part.end, part.what) for part in story.lane] == [
        (3.0, 10.0, "waiting"),
        (10.0, 110.0, "running"),
    ]


class Late(ringbco.Policy):
    """Lets a job that finds too few GPUs wait for a minute, and gives it two."""

    def decide(self, state: Any) -> None:
        for row in state.waiting:
            if state.now >= 60 or row == 0:
                state.start([row], gpus=2)
            else:
                state.wake(60.0)


def test_an_elastic_job_may_do_with_less() -> None:
    jobs = table(num_gpus=[2, 3], min_gpus=[2, 2], max_gpus=[2, 3], submit_time=[0.0, 1.0])
    for policy, said in (
        ("fifo", "Too few: it requests 3 GPUs, and 2 were idle."),
        (Late, "Of the 3 GPUs that it requests, 2 were idle: it may run on 2, but the policy gave it none."),
    ):
        outcome = run(policy, jobs, resize_cost=0)  # type: ignore[arg-type]
        assert kinds(outcome.why("j1", jobs), "too few") == [said] * 2


def test_types_that_a_job_may_use() -> None:
    jobs = table(num_gpus=[2, 2], duration=[50.0, 10.0], gpu_type=["V100", "V100"])
    cluster = cluster_of(typed_servers((1, 2, "A100"), (1, 2, "V100")))
    outcome = ringbco.replay(jobs, cluster, policy="fifo", model="fixed")
    assert kinds(outcome.why("j1", jobs), "held", "too few", "started")[-1] == (
        "Started 50.0 s after submission on 2 GPUs of type V100 of server 1."
    )
    (said, _) = kinds(outcome.why("j1", jobs), "too few")
    assert said == "None of the GPU types that it may use (V100) was idle, and it requests 2 GPUs."
    either = table(num_gpus=[1, 1, 2], duration=[50.0] * 3, gpu_type=["A100", "V100", None])
    said = kinds(ringbco.replay(either, cluster, policy="fifo", model="fixed").why("j2", either), "too few")
    assert said[0] == "Too few: it requests 2 GPUs, and at most 1 of one GPU type was idle."
    # Only the job table says that A100 is none of them.
    alone = read_back(outcome)
    assert kinds(alone.why("j1"), "too few", "apart", "turn", "behind") == []
    assert facts_of(alone.why("j1"), "held")[0].figures["idle_by_type"] == {"A100": 2, "V100": 0}


def test_allocations_that_are_not_those_of_the_run() -> None:
    """The engine says that too few GPUs were idle for y, a damaged table that nobody held any."""
    outcome = run("fifo")
    none = "None was idle, and it requests 4 GPUs."
    assert none in outcome.why("y").sentences
    assert outcome.allocations is not None
    outcome.allocations = outcome.allocations.filter(pl.col("job_id") != "x")
    sentences = outcome.why("y").sentences
    assert "At submission 4 GPUs were idle, of 4." in sentences
    assert none not in sentences


def test_what_a_result_does_not_keep_is_said() -> None:
    outcome = run("fifo", allocations=False)
    story = outcome.why("z")
    assert (
        "The run recorded no allocations, so it is unknown which jobs held which GPUs, and where."
        in story.sentences
    )
    assert kinds(story, "held", "most held", "shared", "freed") == []
    assert kinds(story, "heads", "started")[-1] == "Started 108.0 s after submission on 1 GPU of 1 server."
    sjf = read_back(ringbco.replay(busy_jobs(), "2x4", policy="sjf", oversize="drop"))
    waits = [job for job, waited in sjf.jobs.select("job_id", "waited").rows() if waited > 0]
    places = [
        (job, fact) for job in waits for fact in facts_of(sjf.why(job), "queue") if fact.figures["others"]
    ]
    for job, fact in places:
        assert fact.figures["why_not"] == (
            f"it takes a repeat of the run (ringbco why DIR {job} --jobs JOBS), and the job table was made in"
            " memory"
        )
    known = [f for job in waits for f in facts_of(sjf.why(job, busy_jobs()), "queue") if f.figures["others"]]
    assert len(known) == len(places)
    assert all("place" in fact.figures for fact in known)


def test_it_can_be_asked_of_a_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that run.toml names is read while it is what it was."""
    monkeypatch.chdir(tmp_path)
    busy_jobs().write_parquet("jobs.parquet")
    ringbco.replay("jobs.parquet", "2x4", policy="sjf", oversize="drop").write("r")
    outcome = ringbco.Outcome.read("r")
    late = str(outcome.jobs.sort("waited")["job_id"][-1])
    before = outcome.why(late)
    assert "place" in facts_of(before, "queue")[0].figures
    assert before.to_dict() == outcome.why(late, busy_jobs()).to_dict()
    busy_jobs(70).write_parquet("jobs.parquet")
    assert facts_of(outcome.why(late), "queue")[0].figures["why_not"].endswith("and jobs.parquet has changed")
    with pytest.raises(InputError, match="is not the job table of this result"):
        outcome.why(late, "jobs.parquet")
    longer = busy_jobs().with_columns(pl.col("submit_time") + 1.0)
    with pytest.raises(InputError, match="is not the job table of this result, or has changed since"):
        outcome.why(late, longer)
    (tmp_path / "jobs.parquet").unlink()
    assert (
        facts_of(outcome.why(late), "queue")[0].figures["why_not"].endswith("and jobs.parquet is not there")
    )


class ByLength(ringbco.KeyPolicy):
    """The longest first."""

    clairvoyant = True

    def key(self, state: Any, rows: Any) -> Any:
        return -state.jobs.duration[rows]


class ByRank(ringbco.RankPolicy):
    """The shortest first, with a memory that an answer must not touch."""

    clairvoyant = True
    asked = 0

    def rank(self, state: Any, rows: Any) -> Any:
        self.asked += 1
        return state.jobs.duration[rows] * (1 if self.asked < 1000 else -1)


class Greedy(ringbco.Policy):
    """Starts whoever fits, as they came."""

    def decide(self, state: Any) -> None:
        state.start(state.waiting)


OWN = Path(__file__).as_posix()


@pytest.mark.parametrize(
    ("policy", "order", "first"),
    [
        ("fifo", "the order of fifo", "y"),
        ("sjf", "the order of sjf", "z"),
        ("srtf", "the ranking by least remaining run time", "z"),
        ("srsf", "the ranking by least remaining run time x num_gpus", "z"),
        ("edf", "the ranking by deadline", "z"),
        ("tiresias", "the ranking by attained service", "y"),
        ("gittins", "the ranking by Gittins index", "y"),
        ("ftf", "the ranking by finish-time fairness", None),
        ("time-slice", "the order of turns", "y"),
        ("repack", "the order of repack", None),
        (ByLength, "the order of test_why:ByLength", "y"),
        (ByRank, "the order of test_why:ByRank", "z"),
    ],
)
def test_a_policy_with_a_line_tells_a_place(policy: Any, order: str, first: str | None) -> None:
    """x has all 4 GPUs until 100 s, and nobody stops it; z waits since 2 s, y, which is longer, since 1 s."""
    jobs = JOBS.with_columns(preemptible=pl.col("job_id") != "x", deadline=pl.Series([1e6, 9e5, 8e5]))
    held = {"preempt_after": 1e6} if policy not in ("fifo", "sjf", ByLength, ByRank) else {}
    if policy is ByRank:
        held = {}
    outcome = run(policy, jobs, **held)
    own = None if isinstance(policy, str) else f"{OWN}:{policy.__name__}"
    (said,) = kinds(outcome.why("z", jobs, own), "queue")
    if first == "z":
        assert said == f"1 other job was queued. In {order} it was first."
    elif first == "y":
        assert said == f"1 other job was queued. In {order} it was number 2 of 2, behind y."
    else:
        assert said.startswith(f"1 other job was queued. In {order} it was ")


@pytest.mark.parametrize(
    "policy", ["afs", "optimus", "elastic-srtf", "elasticflow", "gavel", "allox", "sia", Greedy]
)
def test_a_policy_that_divides_gpus_tells_what_it_gave(policy: Any) -> None:
    """Two servers of 2: whoever waits was given none, and is told who was; nobody has a place."""
    if policy in ("gavel", "allox", "sia"):
        pytest.importorskip("scipy")
    jobs = busy_jobs(40).with_columns(num_gpus=pl.col("num_gpus").clip(1, 2))
    jobs = jobs.with_columns(min_gpus=pl.col("num_gpus"), max_gpus=pl.col("num_gpus"), deadline=pl.lit(1e9))
    outcome = run(policy, jobs, "2x2")
    own = None if isinstance(policy, str) else f"{OWN}:{policy.__name__}"
    seen = 0
    for job, waited in outcome.jobs.select("job_id", "waited").iter_rows():
        story = outcome.why(job, jobs, own)
        assert all(
            "place" not in fact.figures and "why_not" not in fact.figures for fact in facts_of(story, "queue")
        )
        decided = facts_of(story, "decision")
        assert waited == 0 or decided
        for fact in decided:
            seen += 1
            assert fact.time is not None
            at = fact.figures["at"]
            assert at <= fact.time
            started = outcome.stays.filter((pl.col("start_time") == at) & (pl.col("end_time") > at))
            assert len(fact.figures["got"]) + fact.figures["others"] == started.height
            assert f"The last decision of {outcome.summary['policy']}, " in fact.sentence
    assert seen > 10


def test_a_job_that_was_given_less() -> None:
    jobs = table(num_gpus=[4, 4], min_gpus=[1, 1], max_gpus=[4, 4], duration=[100.0, 100.0])
    story = run("afs", jobs, "1x6", resize_cost=0).why("j1")
    (said, *_) = kinds(story, "given")
    assert said == "That is 2 of the 4 GPUs that it requests; the same decision gave GPUs to j0 (4)." or (
        said == "That is 3 of the 4 GPUs that it requests; the same decision gave GPUs to j0 (3)."
    )


def test_a_wait_for_maintenance_alone() -> None:
    """Server 0 goes down at 50 s: a job of 60 s that comes at 10 s would not be done. Nobody else waits."""
    jobs = table(submit_time=[0.0, 10.0], num_gpus=[4, 4], duration=[5.0, 60.0])
    windows = pl.DataFrame({"server": [0], "down_at": [50.0], "up_at": [80.0]})
    for policy in ("fifo", "srtf"):
        story = run(policy, jobs, maintenance=windows).why("j1")
        assert kinds(story, "maintenance") == [
            "There was room for its 4 GPUs, but only on servers whose maintenance, the next 40.0 s after"
            " submission, begins before its estimated end."
        ]
        assert kinds(story, "turn", "behind", "ranked behind") == []
    both = [*jobs.rows(named=True), {**jobs.row(1, named=True), "job_id": "j2", "submit_time": 11.0}]
    behind = run("fifo", pl.DataFrame(both), maintenance=windows).why("j2")
    assert len(kinds(behind, "behind")) == 1  # of a strict queue the head alone waits for the servers


def test_a_log_and_a_plan_have_no_line(tmp_path: Path) -> None:
    run("fifo", decisions=True).write(tmp_path / "r")
    logged = run(f"log:{tmp_path / 'r' / 'decisions.parquet'}")
    said = "Its place is unknown: the decisions are those of a log."
    assert said in kinds(logged.why("z"), "queue")[0]


def test_a_repeat_goes_no_further_than_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked of a job that waited for nobody, nor once without the run's table or version."""
    asked: list[Any] = []
    true = _core.probe
    monkeypatch.setattr(_core, "probe", lambda *given: asked.append(given[4]) or true(*given))
    outcome = run("fifo")
    assert "place" not in facts_of(outcome.why("x"), "at once")[0].figures
    assert asked == []
    outcome.why("z")
    assert asked == [[(2.0, 110.0, True)]]
    other = read_back(outcome)
    other.run["ringbco"]["version"] = "0.1.0"
    why_not = facts_of(other.why("z", JOBS), "queue")[0].figures["why_not"]
    assert why_not == f"the result was made with ringbco 0.1.0, and this is {ringbco.__version__}"
    assert asked == [[(2.0, 110.0, True)]]


def test_code_of_a_result_is_run_when_the_caller_names_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    body = "class Mine(ringbco.KeyPolicy):\n    def key(self, state, rows):\n        return -rows\n"
    text = f"import ringbco\n\n\n{body}"
    file.write_text(text)
    outcome = read_back(run(f"{file}:Mine"))  # type: ignore[arg-type]
    alone = outcome.why("z", JOBS)
    assert facts_of(alone, "queue")[0].figures["why_not"].endswith("ringbco why DIR z --policy FILE.py:Mine")
    (said,) = kinds(outcome.why("z", JOBS, f"{file}:Mine"), "queue")
    assert said.endswith(f"In the order of {file}:Mine it was first.")
    file.write_text(text + "\n")
    with pytest.raises(InputError, match=r"the policy's file as it was, SHA-256 .* was not loaded"):
        outcome.why("z", JOBS, f"{file}:Mine")
    with pytest.raises(UsageError, match=r"option policy: x.py:X: expected none: the result is of fifo"):
        run("fifo").why("z", policy="x.py:X")


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("Z", "column job_id: Z: expected the job_id of a job of this result; did you mean z?"),
        ("xx", "did you mean x? all that ran are in jobs.parquet"),
        ("", "expected the job_id of a job of this result; all that ran are in jobs.parquet"),
    ],
)
def test_a_job_that_is_not_there(job: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        run("fifo").why(job)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_job_that_is_no_text() -> None:
    with pytest.raises(UsageError, match="job: 5: expected the job_id of a job, which is text"):
        run("fifo").why(5)  # type: ignore[arg-type]
