"""docs/examples: the policies run as files, do what they say, and their results pass the audit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ringbco
from conftest import Invoke

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
TIRESIAS = f"{EXAMPLES}/tiresias.py:Tiresias"
LEARNED = f"{EXAMPLES}/learned.py:Learned"
LOOKAHEAD = f"{EXAMPLES}/lookahead.py:Lookahead"
STRETCHY = f"{EXAMPLES}/stretchy.py:Stretchy"
CLUSTER = "4x8"


@pytest.fixture(scope="module")
def table() -> ringbco.JobTable:
    """Jobs that queue: twice as many GPUs are asked for as there are."""
    return ringbco.generate("philly", 150, seed=4, gpus=64, load=1.2)


def test_tiresias_is_the_preset(table: ringbco.JobTable) -> None:
    mine = ringbco.replay(table, CLUSTER, policy=TIRESIAS)
    preset = ringbco.replay(table, CLUSTER, policy="tiresias")
    assert_frame_equal(mine.jobs, preset.jobs)
    assert mine.allocations is not None
    assert_frame_equal(mine.allocations, preset.allocations)
    assert mine.summary["preemptions"] > 0
    assert not ringbco.audit(mine, table)


def test_tiresias_takes_another_threshold(table: ringbco.JobTable) -> None:
    mine = ringbco.replay(table, CLUSTER, policy=TIRESIAS, parameters={"threshold": 3600, "interval": 120})
    preset = ringbco.replay(table, CLUSTER, policy="tiresias", thresholds=[3600.0], interval=120.0)
    assert_frame_equal(mine.jobs, preset.jobs)
    assert mine.run["own_policy"]["parameters"] == {"threshold": 3600, "interval": 120}


def test_looking_ahead_pays(table: ringbco.JobTable) -> None:
    ahead = ringbco.replay(table, CLUSTER, policy=LOOKAHEAD)
    assert not ringbco.audit(ahead, table)
    blind = [ringbco.replay(table, CLUSTER, policy=name, queue="skip") for name in ("fifo", "smallest")]
    assert all(ahead.summary["mean_jct"] < other.summary["mean_jct"] for other in blind)


def test_looking_no_further_than_the_next_instant_is_fifo(table: ringbco.JobTable) -> None:
    """Every order is as good as the first one then."""
    ahead = ringbco.replay(table, CLUSTER, policy=LOOKAHEAD, parameters={"horizon": 1e-6})
    fifo = ringbco.replay(table, CLUSTER, policy="fifo", queue="skip")
    assert ahead.jobs["finish_time"].equals(fifo.jobs["finish_time"])


def test_jobs_stretch_over_idle_gpus() -> None:
    columns = {"submit_time": [0, 60], "num_gpus": [4, 2], "duration": [300, 50]}
    pair = pl.DataFrame({"job_id": ["a", "b"], **columns, "min_gpus": [2, 2], "max_gpus": [8, 2]})
    outcome = ringbco.replay(pair, "1x8", policy=STRETCHY, model="fixed", resize_cost=5.0)
    # a has 8 GPUs to 60, 6 beside b to 110, then 8; each resize pauses it for 5 s.
    assert outcome.jobs.select("job_id", "finish_time", "preemptions", "run_resized").rows() == [
        ("a", 171.25, 2, -138.75),
        ("b", 110.0, 0, 0.0),
    ]
    assert not ringbco.audit(outcome, pair)


@pytest.mark.long
@pytest.mark.parametrize(
    "policy", [[TIRESIAS], [LOOKAHEAD], [LEARNED, "-P", "past=jobs.parquet", "-P", f"cluster={CLUSTER}"]]
)
def test_the_command_line_runs_and_audits_it(
    policy: list[str], table: ringbco.JobTable, invoke: Invoke, tmp_path: Path
) -> None:
    ringbco.write_jobs(table, tmp_path / "jobs.parquet")
    run = invoke("replay", "jobs.parquet", "--cluster", CLUSTER, "--policy", *policy, "-o", "r")
    assert run.returncode == 0, run.stderr
    assert invoke("audit", "r").returncode == 0


# The learned policy

PAGE = EXAMPLES.parent / "custom-policies.md"


def figures() -> list[list[str]]:
    """The rows of the page's table: jobs, cluster, and a mean completion time, h, by policy."""
    section = PAGE.read_text(encoding="utf-8").split("\n## A learned policy\n")[1].split("\n## ")[0]
    head, _, *rows = (line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|")
    assert head == ["jobs", "cluster", "fifo", "smallest", "qssf", "learned", "sjf"]
    return rows


@pytest.mark.long
@pytest.mark.parametrize("row", figures(), ids=lambda row: row[0])
def test_the_learned_policy_does_as_well_as_the_page_says(
    row: list[str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """On jobs that it has not seen: between fifo and the shortest job first that knows all run times."""
    source, cluster, *told = row
    if source == "generated, 4,000":
        frame = ringbco.generate("philly", 4000, seed=0, gpus=64, load=1.2).frame
    else:
        frame = ringbco.read_jobs(request.getfixturevalue("shared_traces") / f"{source}.csv").frame
    half = frame.height // 2
    past, later = frame.head(half), ringbco.from_frame(frame.slice(half))
    ringbco.write_jobs(ringbco.from_frame(past), tmp_path / "past.parquet")
    given = {"past": str(tmp_path / "past.parquet"), "cluster": cluster}
    learned = ringbco.replay(later, cluster, policy=LEARNED, parameters=given)
    assert not ringbco.audit(learned, later)
    assert not learned.run["own_policy"]["clairvoyant"]
    presets = [ringbco.replay(later, cluster, policy=name) for name in ("fifo", "smallest", "qssf", "sjf")]
    hours = [outcome.summary["mean_jct"] / 3600 for outcome in (*presets[:3], learned, presets[3])]
    fifo, _, _, mine, exact = hours
    assert exact < mine < (fifo + exact) * 0.7
    assert [f"{item:.2f}" for item in (*hours[:3], exact)] == told[:3] + told[4:]
    # Another linear algebra library rounds otherwise, and jobs change places.
    assert mine == pytest.approx(float(told[3]), rel=0.02)


@pytest.mark.long
def test_the_learned_policy_takes_users_and_models_where_they_are() -> None:
    """The more it knows, the better: jobs of a user are alike, and here the model says long or short."""
    frame = ringbco.generate("philly", 1000, seed=0, gpus=64, load=1.2).frame
    model = np.where(frame["duration"].to_numpy() > 900, "BERT-large", "ResNet-50")
    result = []
    for known in (frame.drop("user"), frame, frame.with_columns(model=pl.Series(model))):
        past, later = known.head(500), known.slice(500)
        given = {"past": ringbco.from_frame(past), "cluster": CLUSTER}
        outcome = ringbco.replay(later, CLUSTER, policy=LEARNED, parameters=given, model="fixed")
        result.append(outcome.summary["mean_jct"])
    nothing, users, models = result
    assert models < users < nothing


# What the examples lean on


def test_a_fork_knows_what_is_left_of_every_job(table: ringbco.JobTable) -> None:
    """Also of jobs that did not change since the run read the figure."""
    run = ringbco.Simulation(table, CLUSTER)
    for _ in range(60):
        assert run.advance()
        run.start(run.state.waiting)
        before = [run.state.remaining_time, run.state.remaining_iterations, run.state.attained]
    fork = run.fork()
    for mine, theirs in zip(
        (fork.state.remaining_time, fork.state.remaining_iterations, fork.state.attained), before, strict=True
    ):
        assert np.count_nonzero(mine) > 30
        np.testing.assert_array_equal(mine, theirs)
    fork.advance()
    fork.start(fork.state.waiting, strict=False)
    np.testing.assert_array_equal(run.state.remaining_time, before[0])


class _Starts:
    """Acts instead of giving numbers."""

    def key(self, state, rows):  # type: ignore[no-untyped-def]
        getattr(state, self.verb)(*self.arguments(state, rows))  # type: ignore[attr-defined]
        return rows

    rank = key


@pytest.mark.parametrize("base", [ringbco.KeyPolicy, ringbco.RankPolicy])
@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("start", lambda state, rows: (rows[:1],)),
        ("stop", lambda state, rows: (state.running,)),
        ("move", lambda state, rows: ({},)),
        ("refuse", lambda state, rows: (rows[:1],)),
        ("wake", lambda state, rows: (state.now + 1,)),
    ],
)
def test_a_policy_that_orders_has_no_verbs(
    base: type, verb: str, arguments: object, table: ringbco.JobTable
) -> None:
    """A job that such a policy started itself was started once more by its rank."""
    body = {"verb": verb, "arguments": staticmethod(arguments)}
    policy = type("Starts", (_Starts, base), body)
    with pytest.raises(ringbco.DecisionError, match=rf"^{verb} at 0 s: a {base.__name__} only orders jobs"):
        ringbco.replay(table, CLUSTER, policy=policy)
