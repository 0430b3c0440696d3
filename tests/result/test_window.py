"""`--measure-from` and `--measure-to`, on runs that fit on paper (docs/results.md#a-window)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import Invoke
from frames import busy_jobs, cluster_of, outages, rows_table, services, typed_servers
from ringbco import Outcome, compare, replay
from ringbco.audits import check_outcome
from ringbco.errors import InputError, UsageError
from ringbco.result.figures import lines
from ringbco.result.window import described
from ringbco.run.again import compare_results, read_repeat
from ringbco.trace.jobs import JobTable, from_frame

NAMES = "job_id submit_time num_gpus duration"
# a: 0 to 30, b: 10 to 30, c: 30 to 80, d: 100 to 110.
PAPER = rows_table(NAMES, [("a", 0.0, 2, 30.0), ("b", 10.0, 1, 20.0), ("c", 20.0, 2, 50.0),
                           ("d", 100.0, 1, 10.0)])  # fmt: skip


def on_paper(**given: Any) -> Outcome:
    return replay(PAPER, "1x3", policy="fifo", model="fixed", **given)


@pytest.mark.parametrize(
    ("given", "ends", "jct", "makespan", "held", "length"),
    [
        # Of b and c; a, b and c hold 40 + 20 + 100.
        ({"measure_from": "10s", "measure_to": 1}, (10.0, 100.0), [20.0, 60.0], 70.0, 160.0, 90.0),
        ({"measure_from": 0.1, "measure_to": 1.0}, (10.0, 100.0), [20.0, 60.0], 70.0, 160.0, 90.0),
        # The end is not in it, its beginning is; time goes on to the end of the run.
        ({"measure_from": 20.0}, (20.0, None), [60.0, 10.0], 90.0, 140.0, 90.0),
        ({"measure_to": "20"}, (None, 20.0), [30.0, 20.0], 30.0, 50.0, 20.0),
        ({"measure_from": 0, "measure_to": "0.5s"}, (0.0, 0.5), [30.0], 30.0, 1.0, 0.5),
        # What lies beyond the run is no time of it.
        ({"measure_from": "1.5min", "measure_to": "2h"}, (90.0, 7200.0), [10.0], 10.0, 10.0, 20.0),
        ({"measure_from": 0, "measure_to": 5000}, (0.0, 5e3), [30.0, 20.0, 60.0, 10.0], 110.0, 190.0, 110.0),
    ],
)  # fmt: skip
def test_jobs_are_those_submitted_in_it_and_time_is_cut_at_its_ends(
    given: dict[str, Any],
    ends: tuple[float | None, float | None],
    jct: list[float],
    makespan: float,
    held: float,
    length: float,
) -> None:
    outcome = on_paper(**given)
    recorded = outcome.summary
    assert (recorded.get("measure_from"), recorded.get("measure_to")) == ends
    assert (recorded["jobs"], recorded["mean_jct"]) == (len(jct), pytest.approx(np.mean(jct)))
    assert recorded["makespan"] == makespan
    assert recorded["utilisation"] == pytest.approx(held / (3 * length), rel=1e-12)
    assert recorded["median_jct"] == np.median(jct)
    assert "utilisation in the window" in dict(lines(recorded))
    assert sum(row["jobs"] for row in recorded["size_classes"]) == len(jct)
    assert "utilisation_to_last_submission" not in recorded
    assert ringbco.audit(outcome, PAPER) == []


def test_without_recorded_allocations_stays_say_who_held_gpus() -> None:
    for policy in ("fifo", "srtf"):
        whole, lean = (
            replay(PAPER, "1x3", policy=policy, model="fixed", measure_from=0.1, allocations=recorded)
            for recorded in (True, False)
        )
        for key, value in whole.summary.items():
            if key not in ("engine_seconds", "total_seconds", "jobs_per_second"):
                assert lean.summary[key] == value
        assert ringbco.audit(lean, PAPER) == []


def test_outages_energy_and_cost_are_cut_and_losses_stay_with_their_job() -> None:
    facts = "[gpu_types.t]\nidle_watts = 100.0\nbusy_watts = 300.0\nprice_per_hour = 2.0\n"
    jobs = rows_table(NAMES, [("a", 0.0, 2, 100.0), ("b", 50.0, 2, 40.0)])
    # a: 0 to 100. b: 50 to 60 on server 1, which fails; all of it is lost, and done again from 80 to 120.
    outcome = replay(
        jobs, cluster_of(facts + typed_servers((2, 2, "t"))), policy="fifo", model="fixed", preempt_cost=0.0,
        outages=outages((1, 60.0, 80.0)), measure_from=50.0, measure_to=110.0,
    )  # fmt: skip
    recorded = outcome.summary
    assert (recorded["jobs"], recorded["mean_jct"], recorded["failures"]) == (1, 70.0, 1)
    # 100 of a, 20 + 60 of b, of 4 x 60 less 2 x 20.
    assert recorded["utilisation"] == pytest.approx(180.0 / 200.0)
    assert recorded["gpu_types"][0]["gpu_hours"] == pytest.approx(180.0 / 3600.0)
    assert recorded["energy_kwh"] == pytest.approx((180.0 * 300.0 + 20.0 * 100.0) / 3.6e6)
    assert recorded["cost"] == pytest.approx(180.0 / 3600.0 * 2.0)
    # b held 2 x 50 in its life, 10 of them after the window.
    assert (recorded["lost_work_gpu_seconds"], recorded["goodput"]) == (20.0, pytest.approx(0.8))
    assert ringbco.audit(outcome, jobs) == []


def test_services_are_cut() -> None:
    jobs = rows_table(NAMES, [("a", 0.0, 2, 100.0), ("b", 30.0, 1, 10.0)])
    loads = ((0.0, 1), (35.0, 0), (45.0, 2), (90.0, 3), (95.0, 0))
    wanted = services(*(("chat", time, replicas, 1) for time, replicas in loads))
    outcome = replay(
        jobs, "1x4", policy="fifo", model="fixed", services=wanted, measure_from=30.0, measure_to=50.0
    )
    (chat,) = outcome.summary["services"]
    # One replica to 35 s, two from 45 s on, without a wait; the third comes after the window.
    assert (chat["replica_seconds_wanted"], chat["replica_seconds_served"]) == (15.0, 15.0)
    assert (chat["mean_time_to_scale_up"], chat["attainment"]) == (0.0, 1.0)
    # Services may come to hold 3 of 4: jobs hold 3 for 10 s, then 2, where 1 is left.
    assert outcome.summary["gpu_hours_lent_to_training"] == pytest.approx((10 * 2 + 10 * 1) / 3600.0)
    # a holds 2 for 20 s, b 1 for 10 s.
    assert outcome.summary["utilisation"] == pytest.approx(50.0 / 80.0)
    assert ringbco.audit(outcome, jobs) == []


def test_contention_is_of_the_time_in_it() -> None:
    jobs = rows_table(NAMES, [("a", 0.0, 3, 40.0), ("b", 10.0, 3, 20.0), ("c", 50.0, 1, 1.0)])
    given: dict[str, Any] = {"policy": "fifo", "model": "fixed", "measure_from": 10.0, "measure_to": 35.0}
    recorded = replay(jobs, "3x2", **given).summary
    # They meet on one server from 10 s to 30 s: 2 for both; 1 for a alone to 35 s.
    assert recorded["mean_contention"] == pytest.approx((2 * 20 + 2 * 20 + 5) / 45)
    assert recorded["jobs_spread"] == 1
    assert replay(jobs, "3x2", **given, allocations=False).summary["mean_contention"] is None
    assert replay(jobs, "3x3", **given, allocations=False).summary["mean_contention"] == 0.0


def test_virtual_clusters_have_the_same_window() -> None:
    cluster = cluster_of('[[servers]]\ngpus = 2\nvc = "l"\n[[servers]]\ngpus = 1\nvc = "r"\n')
    jobs = rows_table(f"{NAMES} vc", [("a", 0.0, 2, 30.0, "l"), ("b", 10.0, 1, 40.0, "r"),
                                      ("c", 20.0, 1, 10.0, "l"), ("x", 30.0, 2, 10.0, "r")])  # fmt: skip
    outcome = replay(
        jobs, cluster, policy="fifo", model="fixed", oversize="drop", measure_from=15.0, measure_to=1
    )
    left, right = outcome.summary["vcs"]
    # c waits for a, which holds 2 GPUs to 30 s. x never runs, and is the last submission all the same.
    assert (left["jobs"], left["mean_jct"], left["utilisation"]) == (1, 20.0, 1.0)
    assert right == {"vc": "r", "servers": 1, "gpus": 1, "jobs": 0, "jobs_dropped": 0}
    assert outcome.summary["utilisation"] == 1.0
    assert (outcome.summary["jobs_dropped"], outcome.summary["measure_to"]) == (0, 30.0)
    later = replay(jobs, cluster, policy="fifo", model="fixed", oversize="drop", measure_from=20.0)
    assert later.summary["jobs_dropped"] == 1
    assert ringbco.audit(outcome, jobs) == ringbco.audit(later, jobs) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"measure_from": "soon"}, "option measure-from: 'soon': expected a share from 0 to 1, or a"),
        ({"measure_to": -1}, "option measure-to: -1: expected a share"),
        ({"measure_to": math.inf}, "option measure-to: inf: expected a share"),
        ({"measure_from": True}, "option measure-from: True: expected a share"),
        ({"measure_from": 0.5, "measure_to": 0.5}, "option measure-to: 0.5: expected a window's end"),
        ({"measure_from": "1h", "measure_to": "59min"}, "option measure-to: 3540.0: expected a window's end"),
        ({"measure_from": "0.5s", "measure_to": "0.2s"}, "option measure-to: '0.2s': expected a window's"),
        # A share and a time are known beside the table alone.
        ({"measure_from": 0.5, "measure_to": 20}, "none is from 50 s on and before 20 s, all are from 0 s"),
        ({"measure_from": 100.5}, "option measure-from: 100.5: expected a window in which jobs are"),
        ({"measure_to": 0}, "option measure-to: 0.0: expected a window in which jobs are submitted"),
        ({"measure_from": 0.3, "measure_to": 0.9}, "none is from 30 s on and before 90 s"),
    ],
)  # fmt: skip
def test_bad_windows_are_refused_before_the_run(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        on_paper(**given)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_window_of_jobs_that_never_ran_is_an_error() -> None:
    jobs = rows_table(NAMES, [("a", 0.0, 1, 30.0), ("x", 10.0, 9, 20.0)])
    with pytest.raises(
        InputError, match="no job is left to measure: none submitted in the window, from 5 s on"
    ):
        replay(jobs, "1x3", policy="fifo", model="fixed", oversize="drop", measure_from=5.0)


def test_tables_stay_whole_and_repeats_and_logs_keep_the_window(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.parquet"
    PAPER.write_parquet(jobs)
    given: dict[str, Any] = {"policy": "srtf", "model": "fixed", "decisions": True}
    whole = replay(jobs, "1x3", **given)
    part = replay(jobs, "1x3", **given, measure_from="0.5s", measure_to=0.5)
    whole.write(tmp_path / "whole")
    part.write(tmp_path / "part")
    result = compare_results(tmp_path / "whole", tmp_path / "part")
    assert result.pop("summary.json") == "jobs was 4, is 2"
    assert set(result.values()) == {None}
    assert "measure" not in (tmp_path / "whole/run.toml").read_text()
    options = Outcome.read(tmp_path / "part").run["options"]
    assert (options["measure_from"], options["measure_to"]) == ("0.5s", 0.5)
    again = read_repeat(tmp_path / "part").run()
    followed = replay(jobs, "1x3", policy=f"log:{tmp_path}/part/decisions.parquet")
    for other in (again, followed):
        assert [other.summary[key] for key in ("measure_from", "measure_to", "jobs", "utilisation")] == [
            part.summary[key] for key in ("measure_from", "measure_to", "jobs", "utilisation")
        ]
    anew = replay(jobs, "1x3", policy=f"log:{tmp_path}/part/decisions.parquet", measure_from=0.2)
    assert (anew.summary["measure_from"], anew.summary["measure_to"]) == (20.0, 50.0)


def _options(outcome: Outcome, **changed: Any) -> None:
    outcome.run["options"] |= changed


def _figures(outcome: Outcome, **changed: Any) -> None:
    outcome.summary |= changed


CHANGES: dict[str, Callable[[Outcome], None]] = {
    "another beginning": lambda outcome: _options(outcome, measure_from=5.0),
    "a share for a time": lambda outcome: _options(outcome, measure_from=0.2),
    "no end": lambda outcome: outcome.run["options"].pop("measure_to"),
    "no job": lambda outcome: _options(outcome, measure_from=35.0, measure_to=36.0),
    "none that ran": lambda outcome: _options(outcome, measure_from=35.0, measure_to=100.0),
    "its beginning": lambda outcome: _figures(outcome, measure_from=10.000000001),
    "its end": lambda outcome: _figures(outcome, measure_to=99.0),
    "utilisation": lambda outcome: _figures(outcome, utilisation=0.5),
    "of all jobs": lambda outcome: _figures(outcome, jobs=4),
    "mean_jct": lambda outcome: _figures(outcome, mean_jct=30.0),
    "contention": lambda outcome: _figures(outcome, mean_contention=1.5),
    "up to the last submission": lambda outcome: _figures(outcome, utilisation_to_last_submission=0.5),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_audit_finds_another_window_and_another_figure(change: Callable[[Outcome], None]) -> None:
    outcome = on_paper(measure_from="10s", measure_to=1)
    assert outcome.summary["jobs"] == 2
    damaged = deepcopy(outcome)
    change(damaged)
    assert check_outcome(damaged, from_frame(PAPER)).findings


@pytest.mark.parametrize("value", ["soon", -3.0, [1.0], True])
def test_the_audit_names_an_option_that_is_none(value: object) -> None:
    outcome = on_paper(measure_from="10s")
    outcome.run["options"]["measure_from"] = value
    with pytest.raises(InputError, match=r"run.toml: options.measure_from: .*expected a share"):
        check_outcome(outcome, from_frame(PAPER))


def test_a_comparison_is_of_the_window() -> None:
    jobs = busy_jobs(60).with_columns(num_gpus=pl.col("num_gpus").cast(pl.UInt32))
    comparison = compare(jobs, "2x4", ["fifo", "srtf"], model="fixed", measure_from=0.25, measure_to=0.75)
    first, last = jobs["submit_time"].min(), jobs["submit_time"].max()
    inside = jobs.filter(
        pl.col("submit_time") >= first + 0.25 * (last - first),
        pl.col("submit_time") < first + 0.75 * (last - first),
    )
    rows = {row.key: [entry.value for entry in entries] for row, entries in comparison.rows.items()}
    for number, outcome in enumerate(comparison.outcomes.values()):
        own = outcome.jobs.join(inside.select("job_id"), on="job_id", how="semi")
        assert outcome.jobs.height == 60
        assert rows["mean_jct"][number] == pytest.approx(own["jct"].mean())
        assert rows["measure_from"][number] == first + 0.25 * (last - first)
    by = comparison.by("user")
    assert by.group_by("policy").agg(pl.col("jobs").sum())["jobs"].to_list() == [inside.height] * 2
    assert all(
        bound <= mean for bound, mean in zip(comparison.bounds.values(), rows["mean_jct"], strict=True)
    )
    assert f"{inside.height} jobs of <frame>, submitted from" in comparison.table("md")


def test_each_run_has_the_share_of_its_own_span() -> None:
    rng = np.random.default_rng(3)
    submit = np.sort(rng.uniform(0.0, 15 * 86_400.0, 80))
    jobs = pl.DataFrame({"job_id": [f"j{i}" for i in range(80)], "submit_time": submit,
                         "num_gpus": [1] * 80, "duration": rng.uniform(600.0, 9e4, 80)})  # fmt: skip
    comparison = compare(jobs, "1x4", ["fifo"], model="fixed", seeds=4, measure_from=0.5, measure_to="1000d")
    told = comparison.summaries_by_run["fifo"]
    assert told[0]["measure_from"] == submit[0] + 0.5 * (submit[-1] - submit[0])
    assert len({one["measure_from"] for one in told}) == 4
    assert all(20 < one["jobs"] < 60 for one in told)


def test_a_sweep_sets_windows(tmp_path: Path) -> None:
    PAPER.write_parquet(tmp_path / "jobs.parquet")
    base = {"trace": tmp_path / "jobs.parquet", "cluster": "1x3", "policy": "fifo", "model": "fixed"}
    grid = {"measure_from": [0.1, "10s", "0.5s", 20]}
    frame = ringbco.sweep({"base": base, "grid": grid}, tmp_path / "out").frame
    assert frame["jobs"].to_list() == [3, 3, 3, 2]
    assert frame["measure_from"].to_list() == ["0.1", "10.0", "0.5s", "20.0"]
    assert frame["chosen_measure_from"].to_list() == [10.0, 10.0, 0.5, 20.0]
    with pytest.raises(InputError, match=r"grid.measure_from\[1\]: .*soon.*expected a share"):
        ringbco.sweep({"base": base, "grid": {"measure_from": ["soon"]}}, tmp_path / "other")
    given = {**base, "measure_from": 0.5, "measure_to": 0.25}
    with pytest.raises(InputError, match=r"measure_to: .*expected a window's end"):
        ringbco.sweep({"base": given}, tmp_path / "other")


def test_the_command_line_tells_it(invoke: Invoke, tmp_path: Path) -> None:
    PAPER.write_parquet(tmp_path / "jobs.parquet")
    common = ("jobs.parquet", "--cluster", "1x3", "--model", "fixed", "--measure-from", "10s")
    done = invoke("replay", *common, "--measure-to", "1", "--policy", "fifo", "-o", "r")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert {"jobs 2", "measured from 10.0 s", "measured to 100.0 s"} <= set(lines)
    assert json.loads((tmp_path / "r/summary.json").read_text())["measure_to"] == 100.0
    assert invoke("audit", "r").returncode == 0
    for verb, policies in (("replay", ["fifo"]), ("compare", ["fifo", "srtf"])):
        named = [part for policy in policies for part in ("--policy", policy)]
        bad = invoke(verb, *common, "--measure-to", "0.05", *named, "-o", "bad")
        assert (bad.returncode, bad.stdout) == (2, "")
        assert bad.stderr.startswith("error: option measure-from: 10.0: expected a window")
        assert len(bad.stderr.splitlines()) == 1


@pytest.mark.usefixtures("unvalidated")
def test_a_report_says_of_which_jobs_its_figures_are(invoke: Invoke, tmp_path: Path) -> None:
    PAPER.write_parquet(tmp_path / "jobs.parquet")
    common = ("jobs.parquet", "--cluster", "1x3", "--model", "fixed")
    named = ("--policy", "fifo", "--run", "fifo --measure-from 15s --measure-to 90")
    done = invoke("compare", *common, *named, "-o", "cmp")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "cmp/report.html").read_text(encoding="utf-8")
    assert "4 ran, figures cover the 1 submitted from 15.0 s on and before 90.0 s" in page
    # Figures of other jobs get no star.
    measures = json.loads((tmp_path / "cmp/comparison.json").read_text())["measures"]
    assert not any(row["best"] or row["verdict"] for row in measures["mean_jct"].values())
    summary = tmp_path / "cmp/fifo/summary.json"
    recorded = json.loads(summary.read_text())
    summary.write_text(json.dumps(recorded | {"measure_from": 5.0}))
    refused = invoke("report", "cmp/fifo", "-o", "page.html")
    assert refused.returncode == 1
    assert "jobs: 4: expected 3, the rows of jobs.parquet in the window" in refused.stderr


# Dates


def dated(epoch: str | None = "2024-03-01T00:00:00") -> JobTable:
    """a to d at noon of 1 to 4 March."""
    rows = [(name, 43_200.0 + 86_400.0 * day, 1, 30.0) for day, name in enumerate("abcd")]
    return from_frame(rows_table(NAMES, rows), "jobs", {} if epoch is None else {"ringbco.epoch": epoch})


@pytest.mark.parametrize("zone", ["", "Z"])
@pytest.mark.parametrize(
    ("since", "until", "ends", "jobs"),
    [
        ("2024-03-02", "2024-03-04", (86_400.0, 259_200.0), 2),
        ("2024-03-02T12:00{zone}", None, (129_600.0, None), 3),
        ("2024-03-02 12:00:00.5{zone}", None, (129_600.5, None), 2),
        (date(2024, 3, 2), datetime(2024, 3, 3, 12), (86_400.0, 216_000.0), 1),
        # Before the epoch is before all submissions.
        ("2020-01-01", "2024-03-02", (0.0, 86_400.0), 1),
        # The very second of the epoch, and half of the next one, are times, and no shares.
        ("2024-03-01", "2024-03-01T12:00:00.5", (0.0, 43_200.5), 1),
        ("2024-03-01T00:00:00.5", 1, (0.5, 302_400.0), 3),
    ],
)
def test_dates_are_times_on_the_epoch_of_the_table(
    since: Any,
    until: Any,
    ends: tuple[float | None, float | None],
    jobs: int,
    zone: str,
    tmp_path: Path,
) -> None:
    table = dated("2024-03-01T00:00:00" + zone)
    given = {
        name: value.format(zone=zone) if isinstance(value, str) else value
        for name, value in (("measure_from", since), ("measure_to", until))
        if value is not None
    }
    outcome = replay(table, "1x3", policy="fifo", **given)
    told = outcome.summary
    assert (told.get("measure_from"), told.get("measure_to"), told["jobs"]) == (*ends, jobs)
    ringbco.write_jobs(table, tmp_path / "jobs.parquet")
    again = replay(tmp_path / "jobs.parquet", "1x3", policy="fifo", **given)
    assert ringbco.audit(again, table) == []
    assert ringbco.bound(table, "1x3", **given).jobs == jobs
    compared = compare(table, "1x3", ["fifo", "sjf"], seeds=1, **given)
    assert compared.outcomes["sjf"].summary["jobs"] == jobs


@pytest.mark.parametrize(
    ("epoch", "value", "told"),
    [
        (
            None,
            "2024-03-02",
            "a share or seconds: the job table does not say on which date its clock begins; count seconds"
            " from the zero of submit_time, or convert the trace to a table with an epoch",
        ),
        (
            "2024-03-01T00:00:00",
            "2024-03-02T00:00Z",
            "a date and time such as 2024-05-01T06:30:00 (without an offset, as the epoch 2024-03-01"
            " 00:00:00)",
        ),
        ("2024-03-01T00:00:00", "2024-13-02", "a date and time such as 2024-05-01T06:30:00"),
        ("2024-03-01T00:00:00", "2024-03-02T25:00", "a date and time such as 2024-05-01T06:30:00"),
    ],
)
@pytest.mark.parametrize("name", ["measure_from", "measure_to"])
def test_what_is_no_date_of_a_window(epoch: str | None, value: str, told: str, name: str) -> None:
    for run in (
        lambda: replay(dated(epoch), "1x3", policy="fifo", **{name: value}),  # type: ignore[arg-type]
        lambda: ringbco.bound(dated(epoch), "1x3", **{name: value}),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError) as caught:
            run()
        assert str(caught.value) == f"option {name.replace('_', '-')}: {value!r}: expected {told}"


def test_a_window_of_dates_that_ends_before_it_begins() -> None:
    with pytest.raises(UsageError, match="none is from 172800 s on and before 86400 s"):
        replay(dated(), "1x3", policy="fifo", measure_from="2024-03-03", measure_to="2024-03-02")


def test_dates_of_a_window_in_a_sweep(tmp_path: Path) -> None:
    """TOML has dates of its own; a table without an epoch is told of by its runs."""
    ringbco.write_jobs(dated(), tmp_path / "dated.parquet")
    ringbco.write_jobs(dated(None), tmp_path / "bare.parquet")
    spec = tmp_path / "spec.toml"
    for written in ("2024-03-03", "2024-03-03T00:00:00", '"2024-03-03"'):
        spec.write_text(
            f'[base]\ncluster = "1x3"\npolicy = "fifo"\nmeasure_from = {written}\n'
            '[grid]\ntrace = ["dated.parquet", "bare.parquet"]\n'
        )
        frame = ringbco.sweep(spec, tmp_path / f"s{len(written)}").frame
        assert frame["jobs"].to_list() == [2, None]
        assert frame["error"][0] is None
        assert "does not say on which date its clock begins" in frame["error"][1]
    spec.write_text(spec.read_text().replace("2024-03-03", "2024-03-33"))
    with pytest.raises(
        InputError, match=r'base\.measure_from: "2024-03-33": expected a date and time such as'
    ):
        ringbco.sweep(spec, tmp_path / "none")


def test_a_window_is_told_by_dates_where_there_are_some() -> None:
    summary = {"measure_from": 1_772_409_600.0, "measure_to": 1_772_496_000.0}
    assert described(summary, datetime(1970, 1, 1, tzinfo=UTC)) == (
        "submitted from 2026-03-02 00:00:00 on and before 2026-03-03 00:00:00"
    )
