"""The options of evictions: who goes, from when on, what is lost, who is kept (docs/priorities.md)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import pytest

import ringbco
from cases.case import Case, by_hand
from conftest import Invoke
from ringbco.errors import DecisionError, UsageError

OPTIONS: dict[str, Any] = {"policy": "fifo", "preempt_cost": 0.0, "checkpoint_interval": 6.0}
NEW: dict[str, Any] = {
    "victims": "youngest",
    "evict_after": 5.0,
    "evict_loses": True,
    "keep_unpreemptible": True,
}


def urgent(**options: Any) -> Case:
    """On a GPU j0 has 50 s to run, and j1, of higher priority, comes at 10 s for 5 s."""
    rows = [(0.0, 1, 50.0, 0), (10.0, 1, 5.0, 1)]
    return by_hand([1], "submit_time num_gpus duration priority", rows, **OPTIONS | options)


def sound(case: Case) -> ringbco.Outcome:
    """The result of a case, which passes its audit."""
    outcome = case.replay()
    assert list(ringbco.audit(outcome, case.frame())) == []
    return outcome


def test_an_eviction_loses_the_work_since_the_checkpoint() -> None:
    outcome = sound(urgent(evict=True, evict_loses=True))
    assert outcome.jobs["finish_time"].to_list() == [15.0 + 44.0, 15.0]
    assert outcome.jobs["lost_work"].to_list() == [4.0, 0.0]
    assert "failures" not in outcome.jobs.columns
    first = outcome.stays.row(0, named=True)
    assert (first["ended"], first["work"], first["lost"], first["lost_time"]) == ("evicted", 10.0, 4.0, 4.0)
    summary = outcome.summary
    assert summary["lost_gpu_hours_by_cause"] == {"eviction": 4.0 / 3600.0}
    assert summary["lost_work_gpu_seconds"] == 4.0
    assert summary["goodput"] == pytest.approx(1.0 - 4.0 / 59.0)
    assert "failures" not in summary
    kept = sound(urgent(evict=True))
    assert kept.jobs["finish_time"].to_list() == [55.0, 15.0]
    assert "lost_work" not in kept.jobs.columns


def test_losses_have_their_causes_apart() -> None:
    """j0 is evicted at 10 s and fails at 23 s."""
    outage = {"server": 0, "down_at": 23.0, "up_at": 30.0, "cause": "fans"}
    case = urgent(evict=True, evict_loses=True, outages=[outage])
    summary = sound(case).summary
    assert summary["lost_gpu_hours_by_cause"] == {"eviction": 4.0 / 3600.0, "fans": 2.0 / 3600.0}
    assert (summary["failures"], summary["evictions"]) == (1, 1)


def test_a_service_makes_jobs_lose_work_too() -> None:
    loads = [
        {"service": "chat", "time": time, "replicas": replicas, "gpus_per_replica": 1}
        for time, replicas in ((10.0, 1), (20.0, 0))
    ]
    outcome = sound(by_hand([1], "submit_time num_gpus duration", [(0.0, 1, 50.0)], **OPTIONS, services=loads,
                            evict_loses=True, victims="youngest"))  # fmt: skip
    assert outcome.jobs["lost_work"].to_list() == [4.0]
    assert outcome.jobs["finish_time"].to_list() == [64.0]


class TakesBack(ringbco.Policy):
    """Evicts for a job, and puts the victim back at once."""

    lost: ClassVar[list[float]] = []

    def decide(self, state: ringbco.State) -> None:
        if state.now == 10.0:
            assert state.evict_for(1)
            state.stop([1])
            state.start(0, servers=[(0, 1)])
        else:
            state.start(state.waiting)


def test_what_is_undone_at_once_loses_nothing() -> None:
    case = urgent(evict=True, evict_loses=True)
    case.options["policy"] = TakesBack
    outcome = sound(case)
    assert outcome.jobs["lost_work"].to_list() == [0.0, 0.0]
    assert outcome.jobs["finish_time"].to_list() == [50.0, 55.0]


class Evicts(ringbco.Policy):
    """Starts what it can, and evicts for the last job whenever it is asked."""

    told: ClassVar[list[tuple[float, bool]]] = []

    def decide(self, state: ringbco.State) -> None:
        state.start(state.waiting[state.waiting == 0])
        if 1 in state.waiting.tolist():
            self.told.append((state.now, state.evict_for(1)))


def test_evict_for_waits_and_its_instant_is_a_decision() -> None:
    Evicts.told.clear()
    case = urgent(evict=True, evict_after=7.0)
    case.options["policy"] = Evicts
    assert sound(case).jobs["start_time"].to_list() == [0.0, 17.0]
    assert Evicts.told == [(10.0, False), (17.0, True)]


def test_stop_of_a_job_that_is_kept_raises() -> None:
    frame = by_hand([1], "submit_time num_gpus duration preemptible", [(0.0, 1, 50.0, False)]).frame()
    run = ringbco.Simulation(frame, "1x1", model="fixed", keep_unpreemptible=True)
    run.advance()
    run.start([0])
    run.advance(10.0)
    assert run.state.protected.tolist() == [0]
    with pytest.raises(DecisionError, match="its preemptible is false, and the run has keep-unpreemptible"):
        run.stop([0])


@pytest.mark.parametrize("policy", ["srtf", "tiresias", "time-slice", "repack", "afs", "gavel"])
def test_no_policy_stops_a_job_that_is_kept(policy: str) -> None:
    rows = [(0.0, 2, 2000.0, False), (10.0, 2, 50.0, True), (20.0, 1, 40.0, True)]
    case = by_hand(
        [2], "submit_time num_gpus duration preemptible", rows, policy=policy, keep_unpreemptible=True
    )
    stays = sound(case).stays.filter(job_id="j0")
    assert stays["ended"].to_list() == ["done"]


def test_an_elastic_policy_may_resize_it() -> None:
    rows = [(0.0, 2, 100.0, 1, 4, False), (10.0, 2, 50.0, 1, 4, True)]
    case = by_hand(
        [4], "submit_time num_gpus duration min_gpus max_gpus preemptible", rows,
        policy="afs", keep_unpreemptible=True, resize_every=0.0, preempt_cost=0.0,
    )  # fmt: skip
    assert "resized" in sound(case).stays.filter(job_id="j0")["ended"].to_list()


@pytest.mark.parametrize(("name", "value"), NEW.items())
def test_refused_where_nobody_evicts(name: str, value: object, invoke: Invoke, tmp_path: Path) -> None:
    typed = name.replace("_", "-")
    with pytest.raises(
        UsageError, match=f"option {typed}: .*--evict, --quota or --services; fifo ignores it"
    ):
        urgent(**{name: value}).replay()
    assert urgent(**{name: value}, evict=True).replay().jobs.height == 2
    urgent().frame().write_csv(tmp_path / "jobs.csv")
    given = ("--" + typed,) if value is True else ("--" + typed, str(value))
    arguments = (tmp_path / "jobs.csv", "--cluster", "1x1", "--policy", "fifo", "--model", "fixed", *given)
    run = invoke("replay", *arguments, "-o", tmp_path / "r")
    assert (run.returncode, len(run.stderr.splitlines())) == (2, 1)
    with pytest.raises(UsageError, match=f"option {name}: expected none: a plan"):
        ringbco.plan(urgent().frame(), "1x1", **{name: value})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"victims": "oldest"}, "option victims: 'oldest': expected one of least, youngest"),
        ({"evict_after": -1.0}, "option evict-after: -1.*expected a finite time >= 0 s"),
        ({"evict_after": math.inf}, "option evict-after: inf.*expected a finite time >= 0 s"),
        ({"evict_after": math.nan}, "option evict-after: .*expected a finite time >= 0 s"),
        ({"evict_loses": 1}, "option evict-loses: 1.*expected True or False"),
    ],
)
def test_bad_values_are_told(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        urgent(evict=True, **options).replay()


def test_a_log_ignores_them(tmp_path: Path) -> None:
    case = urgent(evict=True, evict_loses=True)
    first = case.replay(decisions=True)
    first.write(tmp_path / "first")
    policy = f"log:{tmp_path}/first/decisions.parquet"
    again = ringbco.replay(case.frame(), "1x1", policy=policy, **NEW | {"evict_loses": False})
    assert again.jobs.equals(first.jobs)
    # In its folder a log knows what its run did; elsewhere nothing but its rows.
    plain = urgent().replay(decisions=True)
    (tmp_path / "alone").mkdir()
    assert plain.decisions is not None
    plain.decisions.write_parquet(tmp_path / "alone" / "log.parquet")
    policy = f"log:{tmp_path}/alone/log.parquet"
    again = ringbco.replay(case.frame(), "1x1", policy=policy, model="fixed", **NEW)
    assert again.jobs["finish_time"].to_list() == plain.jobs["finish_time"].to_list()


def test_the_documented_example() -> None:
    rows = [(0.0, 4, 1000.0, 0), (0.0, 2, 1000.0, 0), (0.0, 1, 1000.0, 0), (20.0, 1, 1000.0, 0)]
    rows.append((105.0, 1, 50.0, 1))
    options: dict[str, Any] = {"policy": "fifo", "queue": "skip", "evict": True}
    for more, started, finish in (
        ({}, 105.0, 1100.0),
        ({"evict_loses": True}, 105.0, 1185.0),
        ({"evict_after": 60.0}, 165.0, 1100.0),
    ):
        outcome = sound(by_hand([4, 4], "submit_time num_gpus duration priority", rows, **options, **more))
        assert outcome.jobs["evictions"].to_list() == [0, 0, 0, 1, 0]
        assert outcome.jobs["start_time"].to_list()[4] == started
        assert outcome.jobs["finish_time"].to_list()[3] == finish


def test_a_delay_that_only_services_could_obey_is_told(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job_id,submit_time,num_gpus,duration\na,0,4,100\n")
    (tmp_path / "services.csv").write_text("service,time,replicas,gpus_per_replica\ns,10,1,4\ns,30,0,4\n")
    run = invoke(
        "replay", tmp_path / "jobs.csv", "--cluster", "1x8", "--services", tmp_path / "services.csv",
        "--evict-after", "5", "-o", tmp_path / "r",
    )  # fmt: skip
    line = "note: option evict_after: services do not wait; no job evicts without --evict or --quota"
    assert run.stderr.splitlines().count(line) == 1, run.stderr
