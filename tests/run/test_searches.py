"""Searches: closed forms, cases worked out by hand, loss curves, results, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from cases.case import by_hand
from cases.compare import agreed
from reference.searches import curve as reference_curve
from ringbco.errors import InputError, UsageError
from ringbco.reports.figures import chapters
from ringbco.result import metrics
from ringbco.result.figures import rows_of
from ringbco.result.rows import JobArrays, Rows
from ringbco.run.refusals import unused
from ringbco.trace.searches import Search, curve


def table(count: int = 4, **columns: Sequence[Any]) -> pl.DataFrame:
    """Trials of one search, of 8 s on one GPU, submitted at once, unless the columns say otherwise."""
    plain = {
        "job_id": [f"t{row}" for row in range(count)],
        "submit_time": [0.0] * count,
        "num_gpus": [1] * count,
        "duration": [8.0] * count,
        "group": ["a"] * count,
    }
    return pl.DataFrame(plain | columns)


def replay(jobs: pl.DataFrame, cluster: str = "1x8", **options: Any) -> ringbco.Outcome:
    given = {"policy": "fifo", "model": "fixed", "search": "asha:eta=2,rungs=1", "preempt_cost": 0.0}
    return ringbco.replay(jobs, cluster, **given | options)


def losses(job_id: str, part: float, seed: int = 0) -> float:
    a, b, c = reference_curve(seed, job_id)
    return a + 1.0 / (b + c * part)


BRACKETS = [(2, 1, "slot"), (2, 4, "continuous"), (3, 2, "slot"), (3, 4, "continuous"), (4, 3, "continuous"),
            (5, 2, "slot")]  # fmt: skip


@pytest.mark.parametrize(("eta", "rungs", "clock"), BRACKETS)
def test_a_bracket_of_hyperband_in_closed_form(eta: int, rungs: int, clock: str) -> None:
    count, seconds = eta**rungs, 60.0 * eta**rungs
    jobs = table(count, duration=[seconds] * count)
    clocked = {"clock": "slot", "slot": 60.0} if clock == "slot" else {}
    out = replay(jobs, f"{count}x1", search=f"asha:eta={eta},rungs={rungs}", **clocked)
    assert out.rungs is not None
    assert out.searches is not None
    reached = dict(out.rungs.group_by("rung").len().iter_rows())
    assert reached == {rung: count // eta**rung for rung in range(rungs)}
    # n_i = floor(n eta^-i) trials of r_i = R eta^(i - s): Hyperband's inner loop, added up.
    parts = [seconds / eta ** (rungs - rung) for rung in range(rungs + 1)]
    steps = [parts[0], *(after - before for before, after in itertools.pairwise(parts))]
    gpu_seconds = sum(step * (count // eta**rung) for rung, step in enumerate(steps))
    row = out.searches.row(0, named=True)
    assert row["gpu_hours"] * 3600.0 == pytest.approx(gpu_seconds, rel=1e-12)
    assert (row["trials"], row["finished"]) == (count, 1)
    assert out.jobs["finish_time"].to_list() == [seconds]
    assert set(out.rungs["time"]) == set(parts[:-1])
    assert out.summary["jobs_ended"] == count - 1
    # The winner is the best of those that reached each rung.
    for rung in range(rungs):
        there = out.rungs.filter(rung=rung).sort("loss")
        assert there["went_on"].is_not_null().to_list() == [True] * (count // eta ** (rung + 1)) + [False] * (
            there.height - count // eta ** (rung + 1)
        )


def test_the_example_of_the_docs() -> None:
    # Rung 0 is at 4 of 8 s. One trial a second: who goes on follows from the losses in this order.
    ids = sorted((f"x{k}" for k in range(40)), key=lambda name: losses(name, 0.5))[:5]
    order = [ids[rank - 1] for rank in (5, 3, 4, 1, 2)]
    jobs = table(5, job_id=order, submit_time=[0.0, 1.0, 2.0, 3.0, 4.0])
    out = replay(jobs)
    assert out.rungs is not None
    assert out.rungs["time"].to_list() == [4.0, 5.0, 6.0, 7.0, 8.0]
    assert out.rungs["went_on"].to_list() == [None, 5.0, None, 7.0, 8.0]
    assert out.jobs["job_id"].to_list() == [order[1], order[3], order[4]]
    assert out.jobs["finish_time"].to_list() == [9.0, 11.0, 12.0]
    assert out.jobs["pauses"].to_list() == [0, 0, 0]
    assert out.allocations is not None
    ends = dict(out.allocations.select("job_id", "end_time").iter_rows())
    assert (ends[order[0]], ends[order[2]]) == (4.0, 6.0)


def test_a_paused_trial_waits_again_and_pays() -> None:
    # The better trial comes first, pauses alone at its rung, and goes on when the other comes there.
    good, bad = sorted(("p", "q"), key=lambda name: losses(name, 0.5))
    jobs = table(2, job_id=[good, bad], submit_time=[0.0, 10.0])
    out = replay(jobs, preempt_cost=3.0)
    (row,) = out.jobs.iter_rows(named=True)
    # 4 s, a pause until 14 s, 3 s to resume and 4 s of work.
    assert (row["job_id"], row["finish_time"], row["pauses"], row["paused_time"]) == (good, 21.0, 1, 10.0)
    assert (row["held_time"], row["lost_time"], row["preemptions"]) == (11.0, 3.0, 0)
    assert row["wait_behind"] + row["wait_gpus"] + row["wait_fragmented"] == 0.0
    assert out.rungs is not None
    assert out.rungs["went_on"].to_list() == [14.0, None]
    # An order uses the cost, too, so that a comparison must not leave it out.
    options = {"model": "fixed", "search": "asha:eta=2,rungs=1", "preempt_cost": 3.0}
    assert unused(["fifo"], options) == []
    assert unused(["fifo"], options | {"search": None}) == ["preempt-cost"]
    compared = ringbco.compare(jobs, "1x8", policies=["fifo", "sjf"], **options)
    assert compared.outcomes["fifo"].jobs["finish_time"].to_list() == [21.0]


def test_it_waits_at_its_old_place() -> None:
    # One GPU. While the good trial pauses, an ordinary job comes; when it may go on it is ahead of that job.
    good, bad = sorted(("p", "q"), key=lambda name: losses(name, 0.5))
    jobs = table(
        4,
        job_id=[good, bad, "o", "late"],
        submit_time=[0.0, 1.0, 2.0, 2.0],
        group=["a", "a", None, None],
    )
    out = replay(jobs, "1x1")
    finish = dict(out.jobs.select("job_id", "finish_time").iter_rows())
    # good 0 to 4, bad 4 to 8, where it ends and good goes on: 8 to 12, before both others.
    assert finish == {good: 12.0, "o": 20.0, "late": 28.0}


def test_every_search_has_a_winner() -> None:
    jobs = table(5, group=["a", "b", "b", None, "c"])
    out = replay(jobs, search="asha:eta=4,rungs=3")
    best = min(("t1", "t2"), key=lambda name: losses(name, 1 / 64))
    assert out.jobs["job_id"].to_list() == ["t0", best, "t3", "t4"]
    assert out.searches is not None
    assert out.searches["group"].to_list() == ["a", "b", "c"]
    assert out.searches["finished"].to_list() == [1, 1, 1]


def test_trials_that_are_still_to_come_are_waited_for() -> None:
    jobs = table(3, submit_time=[0.0, 0.0, 100.0])
    out = replay(jobs, search="asha:eta=3,rungs=1")
    assert out.rungs is not None
    assert out.rungs["went_on"].drop_nulls().to_list() == [100.0 + 8.0 / 3.0]


def test_trials_left_out_are_not_waited_for() -> None:
    jobs = table(3, num_gpus=[1, 1, 99])
    out = replay(jobs, search="asha:eta=2,rungs=1", oversize="drop")
    assert out.searches is not None
    assert out.searches["trials"].to_list() == [2]
    assert out.jobs.height == 1


def test_where_all_trials_are_left_out_there_is_no_search() -> None:
    jobs = table(3, num_gpus=[32, 32, 1], group=["a", "b", None])
    out = replay(jobs, oversize="drop")
    assert out.jobs["job_id"].to_list() == ["t2"]
    assert out.searches is not None
    assert out.searches.is_empty()
    assert out.summary["searches"] == 0
    assert ringbco.audit(out, jobs) == []
    assert "Searches" not in {chapter.title for chapter in chapters({"dropped": out})}


def test_admission_refuses_trials_that_others_wait_for() -> None:
    jobs = table(2, submit_time=[0.0, 50.0], deadline=[1e6, 51.0])
    out = replay(jobs, policy="edf", admission=True, search="asha:eta=2,rungs=1")
    # The other trial is refused at 50 s: then nobody else can come, and the first is the winner.
    assert out.jobs["finish_time"].to_list() == [54.0]
    assert out.jobs["paused_time"].to_list() == [46.0]


@pytest.mark.parametrize("clock", [{}, {"clock": "slot", "slot": 1.0}], ids=["continuous", "slot"])
def test_whom_a_refusal_lets_go_on_has_another_decision_then(clock: dict[str, Any]) -> None:
    # The second trial is refused at 5: then the first waits again. The other job took all GPUs before that.
    trials = [(0.0, 1, 9.0, 90.0, "s"), (5.0, 4, 90.0, 6.0, "s")]
    for others, begin in (([], 5.0), ([(5.0, 4, 10.0, None, None)], 15.0)):
        options = {"policy": "elasticflow", "search": "asha:eta=3,rungs=2", "preempt_cost": 2.0} | clock
        text = "submit_time num_gpus duration deadline group"
        result = agreed(by_hand([4], text, [*trials, *others], **options))
        assert result.result.stays()[0] == [(0.0, 1.0), (begin, begin + 10.0)]
        assert result.climbs is not None
        assert result.climbs.went_on[0, 0] == 5.0


def test_the_best_trial_and_the_time_to_it() -> None:
    jobs = table(8, duration=[80.0] * 8, submit_time=[5.0] * 8)
    out = replay(jobs, search="asha:eta=2,rungs=2")
    assert out.searches is not None
    assert out.rungs is not None
    last = {
        name: (losses(name, 1.0), 85.0) if name in set(out.jobs["job_id"]) else (loss, time)
        for name, loss, time in out.rungs.sort("rung").select("job_id", "loss", "time").iter_rows()
    }
    best = min(last, key=lambda name: last[name])
    row = out.searches.row(0, named=True)
    assert (row["best_job_id"], row["best_loss"]) == (best, last[best][0])
    assert row["time_to_best"] == last[best][1] - 5.0
    assert out.summary["mean_time_to_best"] == row["time_to_best"]
    assert out.summary["searches"] == 1


def test_loss_curves_are_the_reference_models() -> None:
    ids = ["a", "", "job 7", "Größe", "x" * 300]
    for seed in (0, 1, 2**64 - 1):
        mine = list(zip(*(values.tolist() for values in curve(pl.Series(ids), seed)), strict=True))
        assert mine == [reference_curve(seed, name) for name in ids]


def test_losses_are_spread_and_curves_cross() -> None:
    ids = [f"job {row}" for row in range(2000)]
    a, b, c = curve(pl.Series(ids), 0)
    for values, low, high in ((a, 0.0, 1.0), (b, 0.25, 1.0), (c, 1.0, 100.0)):
        assert low <= values.min() < values.max() < high
        assert abs(values.mean() - (low + high) / 2) < 0.02 * (high - low)
    early, late = a + 1 / (b + c / 81), a + 1 / (b + c)
    agree = np.corrcoef(early, late)[0, 1]
    assert 0.1 < agree < 0.9


def fairness(jobs: pl.DataFrame) -> dict[str, float]:
    rows, keys = Rows("jobs", JobArrays(jobs)), ("mean_finish_time_fairness", "worst_finish_time_fairness")
    return {row.key: row.of(rows) for row in rows_of("jobs") if row.key in (*keys, "jain_index_users")}


def test_a_search_is_one_job_to_fairness() -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a1", "o", "a2"],
            "submit_time": [0.0, 0.0, 10.0],
            "finish_time": [30.0, 40.0, 50.0],
            "ideal_run_time": [10.0, 20.0, 10.0],
            "slowdown": [3.0, 2.0, 4.0],
            "num_gpus": [1, 1, 1],
            "preemptions": [0, 0, 0],
            "user": ["u", "v", "u"],
            "group": ["a", None, "a"],
        },
        schema_overrides={"preemptions": pl.UInt32, "num_gpus": pl.UInt32},
    )
    told = fairness(jobs)
    # From 0 to 50 s, and at best from 0 to 20 s.
    assert told["mean_finish_time_fairness"] == (2.5 + 2.0) / 2
    assert told["worst_finish_time_fairness"] == 2.5
    assert told["jain_index_users"] == metrics.jain_index(np.array([1 / 2.5, 1 / 2.0]))
    alone = fairness(jobs.drop("group"))
    assert alone["worst_finish_time_fairness"] == 4.0


def test_without_a_search_the_column_counts_for_nothing() -> None:
    jobs = table(6, duration=[3.0, 5.0, 8.0, 2.0, 9.0, 4.0])
    given = {"policy": "srtf", "model": "fixed"}
    one, other = (ringbco.replay(frame, "1x2", **given) for frame in (jobs, jobs.drop("group")))
    assert one.jobs.equals(other.jobs)
    assert one.timeline.equals(other.timeline)
    assert one.rungs is None
    assert "searches" not in one.summary


def test_a_result_is_written_and_read_back(tmp_path: Path) -> None:
    out = replay(table(9), search="asha:eta=3,rungs=2")
    out.write(tmp_path / "r")
    back = ringbco.Outcome.read(tmp_path / "r")
    assert out.rungs is not None
    assert back.rungs is not None
    assert back.rungs.equals(out.rungs)
    assert out.searches is not None
    assert back.searches is not None
    assert back.searches.equals(out.searches)
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["searches"] == 1


def test_the_command_line(tmp_path: Path, invoke: Any) -> None:
    table(9).write_parquet(tmp_path / "jobs.parquet")
    words = [
        *("replay", tmp_path / "jobs.parquet", "--cluster", "1x9", "--policy", "fifo", "--model", "fixed"),
        *("--search", "asha:eta=3,rungs=1", "-o", tmp_path / "r"),
    ]
    output = invoke(*words)
    assert output.returncode == 0
    assert "searches" in output.stdout
    assert "to the best trial" in output.stdout
    audited = invoke("audit", tmp_path / "r")
    assert audited.returncode == 0, audited.stdout


@pytest.mark.parametrize(
    "text",
    ["asha", "hyperband:eta=3,rungs=4", "asha:eta=1,rungs=4", "asha:eta=3,rungs=0", "asha:eta=2,rungs=21",
     "asha:eta=2.5,rungs=2", "asha:eta=3", "asha:eta=99999999,rungs=1", ""],
)  # fmt: skip
def test_what_is_no_search_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"option search: .*: expected asha:eta=E,rungs=R"):
        replay(table(), search=text)
    with pytest.raises(UsageError, match="option search"):
        Search.parse(text)


def test_tables_without_searches_are_refused() -> None:
    for jobs in (table().drop("group"), table(group=[None] * 4)):
        with pytest.raises(InputError, match="has no column group, or nothing in it"):
            replay(jobs.cast({"group": pl.String}) if "group" in jobs.columns else jobs)


def test_a_search_without_a_name_is_refused() -> None:
    with pytest.raises(InputError, match="row 3, column group: '': expected the name of a search"):
        replay(table(group=["a", None, "", "a"]))


def test_a_search_in_two_virtual_clusters_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        '[[servers]]\ncount = 1\ngpus = 4\nvc = "x"\n[[servers]]\ncount = 1\ngpus = 4\nvc = "y"\n'
    )
    jobs = table(vc=["x", "y", "x", "y"], group=["a", "b", "a", "a"])
    with pytest.raises(InputError, match=r"row 4, column vc: y: expected 'x', .* row 1: .* search 'a'"):
        replay(jobs, str(tmp_path / "c.toml"))
    out = replay(jobs.with_columns(group=pl.col("vc")), str(tmp_path / "c.toml"))
    assert out.jobs.height == 2


def test_its_log_tells_of_rungs(tmp_path: Path) -> None:
    outcome = replay(table(), policy="fifo", decisions=True)
    assert outcome.decisions is not None
    rungs = outcome.decisions.filter(verb="rung")
    assert rungs.height > 0
    assert set(rungs["cause"]) <= {"went on", "paused", "ended"}
    rested = outcome.stays.filter(ended="rung")
    # Who waits at a rung, and who ends there just as it comes, has a stay that ends so.
    assert rungs.filter(cause="paused").height <= rested.height
    assert set(rested["job_id"]) <= set(rungs.filter(pl.col("cause") != "went on")["job_id"])


class Greedy(ringbco.Policy):
    """Starts whom it can; notes who waits and who runs whenever it is asked."""

    def decide(self, state: ringbco.State) -> None:
        seen.append((state.now, state.waiting.tolist(), state.running.tolist()))
        state.start(state.waiting, strict=False)


seen: list[tuple[float, list[int], list[int]]] = []


def test_to_a_policy_of_ones_own_a_paused_trial_is_nowhere() -> None:
    good, bad = sorted(("p", "q"), key=lambda name: losses(name, 0.5))
    jobs = table(2, job_id=[good, bad], submit_time=[0.0, 10.0])
    seen.clear()
    out = replay(jobs, policy=Greedy)
    assert seen == [(0.0, [0], []), (4.0, [], []), (10.0, [1], []), (14.0, [0], [])]
    assert out.jobs["finish_time"].to_list() == [18.0]


def test_a_verb_may_not_name_a_paused_trial() -> None:
    class Wrong(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            state.start([0] if state.now == 4.0 else state.waiting)

    jobs = table(2, submit_time=[0.0, 10.0])
    with pytest.raises(ringbco.DecisionError, match="it pauses at a rung"):
        replay(jobs, policy=Wrong)


def test_whom_a_policy_ends_nobody_waits_for() -> None:
    class Ends(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            state.start(state.waiting)
            if state.now == 10.0 and 1 in state.running:
                state.end([1])

    out = replay(table(2, submit_time=[0.0, 10.0]), policy=Ends)
    # The other one is ended as it comes: the first goes on at that instant.
    assert out.jobs["job_id"].to_list() == ["t0"]
    assert out.jobs["finish_time"].to_list() == [14.0]


def test_a_rung_is_reached_once_also_after_a_failure() -> None:
    # Rung 0 at 4 s; the server fails at 5 s, and all that was done is lost. At 10 s the trial begins anew.
    jobs = table(1)
    outages = pl.DataFrame({"server": [0], "down_at": [5.0], "up_at": [10.0]})
    out = replay(jobs, outages=outages, checkpoint_interval=math.inf)
    assert out.rungs is not None
    assert out.rungs["time"].to_list() == [4.0]
    assert out.jobs["finish_time"].to_list() == [18.0]


@pytest.mark.parametrize(
    ("policy", "cluster"), [("fifo", "1x4"), ("fifo", "1x1"), ("srtf", "1x2"), ("optimus", "1x2")]
)
def test_trials_that_come_to_rungs_as_they_start(policy: str, cluster: str) -> None:
    # Work below the resolution of float64: all happens at 50 s, and every trial has one stay.
    jobs = table(submit_time=[50.0] * 4, duration=[1e-15] * 4)
    result = replay(jobs, cluster, policy=policy, search="asha:eta=2,rungs=2")
    assert result.allocations is not None
    held = result.allocations.select("job_id", "start_time", "end_time").rows()
    assert held == [(f"t{row}", 50.0, 50.0) for row in range(4)]
    assert set(result.jobs["pauses"]) == {0}
    assert result.rungs is not None
    assert set(result.rungs.filter(rung=0)["job_id"]) == set(jobs["job_id"])


def test_the_end_of_a_paused_trial_is_an_event() -> None:
    jobs = table(
        3,
        job_id=["B", "A", "E"],
        duration=[100.0, 120.0, 1000.0],
        group=["s", "s", None],
        min_gpus=[1, 1, 1],
        max_gpus=[1, 1, 2],
    )
    result = replay(jobs, "1x3", policy="optimus", resize_every=55.0)
    # B pauses at 50 s, when E is too young. At 60 s A goes on and B ends: E gets the GPU that B left.
    assert result.allocations is not None
    held = result.allocations.filter(job_id="E").select("num_gpus", "start_time").rows()
    assert held == [(1, 0.0), (2, 60.0)]


def test_the_report_has_a_chapter() -> None:
    # 9 trials reach rung 0, 3 reach rung 1.
    out = replay(table(9), "1x9", search="asha:eta=3,rungs=2")
    plain = ringbco.replay(table(9), "1x9", policy="fifo", model="fixed")
    result = {chapter.title: chapter for chapter in chapters({"asha": out})}
    assert [figure.name for figure in result["Searches"].figures] == ["to-best", "rungs"]
    drawn = json.dumps([figure.chart.to_dict() for figure in result["Searches"].figures])
    assert '"trials": 9' in drawn
    assert '"trials": 3' in drawn
    assert "Searches" not in {chapter.title for chapter in chapters({"plain": plain})}
