"""Subtle corruptions of real results: a check finds each, and where the policy decided it is the repeat."""

import math
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from corruptions import RESULTS, Story
from ringbco import write_jobs
from ringbco.audits import check_folder, check_outcome

c = pl.col
WAITED = c("wait_gpus") > 5
ALONE = c("num_servers") == 1
SPREAD = c("num_servers") > 1
MOVED = c("preemptions") > 0

Change = Callable[[Story], object]


def codes_found(story: Story) -> set[str]:
    return {finding.code for finding in check_outcome(story.outcome, story.table).findings}


def repeated(story: Story, folder: Path) -> set[str]:
    """With the repeat: what a policy decided is no part of physics. The folder is sealed as it is."""
    write_jobs(story.table, folder / "jobs.parquet")
    story.outcome.write(folder / "result")
    report = check_folder(folder / "result", folder / "jobs.parquet", repeat=True)
    assert report.repeated
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize("name", RESULTS)
def test_real_results_pass(name: str) -> None:
    story = Story(name)
    report = check_outcome(story.outcome, story.table)
    assert report.findings == []
    if story.outcome.run["options"]["policy"] in ("srtf", "tiresias", "gittins", "ftf", "edf", "time-slice"):
        assert story.outcome.summary["preemptions"] > 0


# Columns of jobs.parquet


def next_up(column: str) -> Change:
    def change(story: Story) -> None:
        job = story.first(c(column) > 0)
        story.put(job, **{column: math.nextafter(story.cell(job, column), math.inf)})

    return change


def moved_cause(source: str, target: str, *which: pl.Expr) -> Change:
    """Seconds of one cause are said to be of another; the sum is as before."""

    def change(story: Story) -> None:
        job = story.first(c(source) > 1, *which)
        story.add(job, **{source: -0.5, target: 0.5})

    return change


def shifted(by: float, *which: pl.Expr) -> Change:
    return lambda story: story.shift(story.first(*which), by)


def longer(share: float, *which: pl.Expr) -> Change:
    """The run of the last job to finish of some, so that nobody takes over its GPUs, is longer by a share."""

    def change(story: Story) -> None:
        jobs = story.outcome.jobs
        last = jobs.filter(*which)["finish_time"].max()
        job = story.first(c("finish_time") == last, *which)
        start, finish = story.cell(job, "start_time"), story.cell(job, "finish_time")
        story.put_times(job, start, finish + share * (finish - start))

    return change


def ideal_and_slowdown(story: Story) -> None:
    ideal = story.cell(7, "ideal_run_time") * (1 + 1e-8)
    story.put(7, ideal_run_time=ideal, slowdown=story.cell(7, "jct") / ideal)


def submitted_later(story: Story) -> None:
    job = story.first(WAITED)
    submit = story.cell(job, "submit_time") + 1.0
    start, finish = story.cell(job, "start_time"), story.cell(job, "finish_time")
    story.put(job, submit_time=submit, wait_time=start - submit, jct=finish - submit)
    story.put(job, slowdown=(finish - submit) / story.cell(job, "ideal_run_time"))
    story.add(job, wait_gpus=-1.0)


def held_longer(story: Story) -> None:
    story.add(story.first(MOVED), held_time=1.0, run_contention=1.0)


def lost_longer(story: Story) -> None:
    story.add(story.first(MOVED), held_time=1.0, lost_time=1.0)


JOBS: list[tuple[str, Change, str]] = [
    ("fifo", next_up("wait_time"), "arithmetic"),
    ("sjf", next_up("run_time"), "arithmetic"),
    ("srtf", next_up("jct"), "arithmetic"),
    ("bco", next_up("slowdown"), "arithmetic"),
    ("fifo", ideal_and_slowdown, "inputs"),
    ("fifo", submitted_later, "inputs"),
    ("fifo", lambda s: s.put(3, num_gpus=s.cell(3, "num_gpus") + 1), "inputs"),
    ("fifo", lambda s: s.put(3, user="dan"), "inputs"),
    ("srtf", lambda s: s.put(3, user=None), "inputs"),
    ("edf", lambda s: s.put(3, deadline=math.nextafter(s.cell(3, "deadline"), math.inf)), "inputs"),
    ("fifo", lambda s: s.put(3, deadline=None), "inputs"),
    ("vcs", lambda s: s.put(3, vc="left" if s.cell(3, "vc") == "right" else "right"), "inputs"),
    ("ff", lambda s: s.add(s.first(SPREAD), num_servers=1), "num-servers"),
    ("ff", lambda s: s.add(s.first(SPREAD), max_contention=1), "contention"),
    ("ls", lambda s: s.add(s.first(c("max_contention") > 1), max_contention=-1), "contention"),
    ("srtf", lambda s: s.add(s.first(MOVED), preemptions=1), "stretches"),
    ("fifo", lambda s: s.exchange("jobs", 10, 11), "jobs"),
    ("fifo", moved_cause("wait_behind", "wait_gpus"), "causes"),
    ("skip", moved_cause("wait_gpus", "wait_fragmented"), "causes"),
    ("fifo", moved_cause("wait_fragmented", "wait_behind"), "causes"),
    ("vcs", moved_cause("wait_gpus", "wait_behind"), "causes"),
    ("bco-literal", moved_cause("wait_gpus", "wait_behind"), "causes"),
    ("smallest-slot", moved_cause("wait_behind", "wait_fragmented"), "causes"),
    ("ff", moved_cause("run_spread", "run_contention"), "causes"),
    ("rand", moved_cause("run_contention", "run_spread"), "causes"),
    ("srtf", moved_cause("wait_fragmented", "wait_gpus"), "causes"),
    ("tiresias", moved_cause("wait_behind", "wait_gpus"), "causes"),
    ("srtf-ff", moved_cause("wait_gpus", "wait_behind", MOVED, c("wait_time") == 0), "causes"),
    ("time-slice", moved_cause("wait_gpus", "wait_behind", MOVED), "causes"),
    ("srtf-spread", moved_cause("run_spread", "run_contention", MOVED), "causes"),
    ("srtf-spread", moved_cause("run_contention", "run_spread", MOVED), "causes"),
    ("plan", moved_cause("wait_gpus", "wait_behind"), "causes"),
    ("plan-ff", moved_cause("wait_fragmented", "wait_behind"), "causes"),
    ("srtf", held_longer, "held"),
    ("gittins-slot", lost_longer, "held"),
]  # fmt: skip


# The schedule


def stay_ends_early(story: Story) -> None:
    row = story.rows_of(story.first(SPREAD))[1]
    story.place(row, end_time=math.nextafter(story.allocations["end_time"][row], 0.0))


def resumed(story: Story, job: int) -> list[int]:
    """The rows of allocations.parquet of a job's last run."""
    last = max(story.allocations["start_time"][row] for row in story.rows_of(job))
    return [row for row in story.rows_of(job) if story.allocations["start_time"][row] == last]


def resumes(seconds: float) -> Change:
    """A job is resumed at another moment; it finishes as it did, and held its GPUs for less or longer."""

    def change(story: Story) -> None:
        job = story.first(MOVED, c("finish_time") - c("start_time") > 200)
        for row in resumed(story, job):
            story.place(row, start_time=story.allocations["start_time"][row] + seconds)
        story.add(job, held_time=-seconds, run_contention=-seconds)

    return change


def preempted(seconds: float) -> Change:
    def change(story: Story) -> None:
        job = story.first(MOVED)
        end = min(story.allocations["end_time"][row] for row in story.rows_of(job))
        for row in story.rows_of(job):
            if story.allocations["end_time"][row] == end:
                story.place(row, end_time=end + seconds)
        story.add(job, held_time=seconds, run_contention=seconds)

    return change


def others(story: Story, row: int) -> list[int]:
    """The other servers of a stay's (virtual) cluster."""
    own = story.allocations["server"][row]
    vcs = "vcs" in story.outcome.summary
    return [server for server in range(4) if server != own and (not vcs or server // 2 == own // 2)]


def elsewhere(story: Story) -> None:
    """A job on one server runs on another of its cluster, which has room for it all that time."""
    for job in range(story.outcome.jobs.height):
        rows = story.rows_of(job)
        if len(rows) == 1:
            for server in others(story, rows[0]):
                if room(story, rows[0], server):
                    story.place(rows[0], server=server)
                    return
    pytest.fail("no such job")


def room(story: Story, row: int, server: int, gpus: int | None = None) -> bool:
    """Whether a server has idle GPUs for a stay of another one, from its start to its end."""
    start, end = story.allocations["start_time"][row], story.allocations["end_time"][row]
    there = story.allocations.filter(c("server") == server, c("start_time") < end, c("end_time") > start)
    size = 8 if "vcs" in story.outcome.summary else 4
    return int(there["num_gpus"].sum()) + (gpus or story.allocations["num_gpus"][row]) <= size


def one_gpu_moves(story: Story) -> None:
    """One GPU of a gang on one server is on another instead: the gang spans."""
    for job in range(story.outcome.jobs.height):
        rows = story.rows_of(job)
        gpus = story.allocations["num_gpus"][rows[0]]
        if len(rows) == 1 and gpus > 1:
            for server in others(story, rows[0]):
                if room(story, rows[0], server, 1):
                    extra = story.allocations[rows[0]].with_columns(
                        server=pl.lit(server, pl.UInt32), num_gpus=pl.lit(1, pl.UInt32)
                    )
                    story.place(rows[0], num_gpus=gpus - 1)
                    story.outcome.allocations = pl.concat([story.allocations, extra])
                    story.sort()
                    story.put(job, num_servers=2)
                    return
    pytest.fail("no such job")


def part_moves(story: Story) -> None:
    """One GPU of a gang on several servers is on another of them instead."""
    for job in range(story.outcome.jobs.height):
        rows = story.rows_of(job)
        for low in rows:
            for high in rows:
                held = [story.allocations["num_gpus"][row] for row in (low, high)]
                if low != high and held[1] > 1 and room(story, low, story.allocations["server"][low], 1):
                    story.place(low, num_gpus=held[0] + 1)
                    story.place(high, num_gpus=held[1] - 1)
                    return
    pytest.fail("no such job")


def servers_swapped(story: Story) -> None:
    """Two jobs of one size, each on one server, that start together are on each other's servers."""
    jobs = story.outcome.jobs
    for a in range(jobs.height):
        for b in range(a + 1, jobs.height):
            one, other = story.rows_of(a), story.rows_of(b)
            same = all(jobs[name][a] == jobs[name][b] for name in ("num_gpus", "start_time"))
            if same and len(one) == len(other) == 1 and jobs["finish_time"][a] < jobs["finish_time"][b]:
                servers = [story.allocations["server"][row] for row in (one[0], other[0])]
                story.swap_servers(one[0], other[0])
                if servers[0] != servers[1] and "capacity" not in codes_found(story):
                    return
                story.swap_servers(one[0], other[0])
    pytest.fail("no such jobs")


def another_vc(story: Story) -> None:
    job = story.first(ALONE, c("vc") == "left")
    row = story.rows_of(job)[0]
    story.place(row, server=2)


def a_slot_later(story: Story) -> None:
    longer_by = 20.0
    job = story.first(c("finish_time") == story.outcome.jobs["finish_time"].max())
    story.put_times(job, story.cell(job, "start_time"), story.cell(job, "finish_time") + longer_by)


SCHEDULE: list[tuple[str, Change, str]] = [
    ("fifo", shifted(1.0, WAITED), "repeat"),
    ("sjf", shifted(1.0, WAITED), "repeat"),
    ("ff-easy", shifted(1.0, WAITED), "repeat"),
    ("skip", shifted(1.0, c("wait_time") == 0), "repeat"),
    ("qssf", shifted(-1.0, WAITED), "repeat"),
    ("edf", shifted(1.0, ~MOVED), "repeat"),
    ("repack", shifted(1.0, c("wait_time") == 0), "repeat"),
    ("vcs", shifted(1e-3, c("wait_time") == 0), "repeat"),
    ("smallest-slot", shifted(20.0, c("wait_time") == 0), "repeat"),
    ("plan", shifted(10.0, c("start_time") == 0), "repeat"),
    ("fifo", lambda s: s.exchange("allocations", 4, 20), "rows"),
    ("ff", lambda s: s.exchange("allocations", *s.rows_of(s.first(SPREAD))[:2]), "rows"),
    ("ff", stay_ends_early, "stretches"),
    ("tiresias", resumes(1.0), "repeat"),
    ("time-slice", resumes(-1e-6), "repeat"),
    ("ftf", preempted(1.0), "repeat"),
    ("gittins-slot", preempted(20.0), "repeat"),
    ("srtf", preempted(-1.0), "repeat"),
    ("fifo", elsewhere, "repeat"),
    ("vcs", elsewhere, "repeat"),
    ("fifo", one_gpu_moves, "repeat"),
    ("tiresias", one_gpu_moves, "repeat"),
    ("bco", one_gpu_moves, "repeat"),
    ("ff", part_moves, "repeat"),
    ("emptiest", elsewhere, "repeat"),
    ("ls", elsewhere, "repeat"),
    ("tiresias", lambda s: s.claim(thresholds=[400.0]), "repeat"),
    ("emptiest", lambda s: s.claim(placement="worst-fit"), "repeat"),
    ("ff-fixed", servers_swapped, "repeat"),
    ("vcs", another_vc, "vcs"),
    ("ff", longer(1e-8, SPREAD), "run-times"),
    ("ff-fixed", longer(1e-8), "run-times"),
    ("smallest-slot", a_slot_later, "run-times"),
    ("srtf", longer(1e-8, MOVED), "run-times"),
    ("ff-skip", lambda s: s.claim(queue="easy"), "repeat"),
    ("skip", lambda s: s.claim(queue="easy"), "repeat"),
    ("easy", lambda s: s.claim(estimate_factor=3.0), "repeat"),
    ("skip", lambda s: s.claim(queue="strict"), "repeat"),
    ("fifo", lambda s: s.claim(queue="skip"), "repeat"),
    ("easy", lambda s: s.claim(queue="skip"), "repeat"),
    ("sjf", lambda s: s.claim(order="smallest"), "repeat"),
    ("reverse", lambda s: s.claim(ties="rows"), "repeat"),
    ("sjf", lambda s: s.claim(aging=100.0), "repeat"),
    ("qssf", lambda s: s.claim(predict="exact"), "repeat"),
    ("ff", lambda s: s.claim(placement="consolidate"), "repeat"),
    ("ls", lambda s: s.claim(placement="first-fit"), "repeat"),
    ("ftf", lambda s: s.claim(interval=61.0), "repeat"),
    ("srtf", lambda s: s.claim(policy="time-slice"), "repeat"),
    ("srtf", lambda s: s.claim(preempt_cost=31.0), "held"),
    ("fifo", lambda s: s.claim(model="fixed"), "run-times"),
]


# summary.json and timeline.parquet


def in_class(name: str, by: float) -> Change:
    return lambda s: s.outcome.summary["size_classes"][1].update(
        {name: s.outcome.summary["size_classes"][1][name] + by}
    )


def in_vc(name: str, by: float) -> Change:
    return lambda s: s.outcome.summary["vcs"][1].update({name: s.outcome.summary["vcs"][1][name] + by})


def busiest(story: Story, column: str) -> int:
    return int(story.outcome.timeline[column].arg_max() or 0)


def off_by(column: str, by: float) -> Change:
    def change(story: Story) -> None:
        row = busiest(story, column)
        story.sample(row, column, story.outcome.timeline[column][row] + by)

    return change


FIGURES: list[tuple[str, Change, str]] = [
    ("fifo", lambda s: s.say(events=s.outcome.summary["events"] + 1), "summary"),
    ("srtf", lambda s: s.say(events=s.outcome.summary["jobs"]), "summary"),
    ("edf", lambda s: s.say(jobs_refused=s.outcome.summary["jobs_refused"] + 1), "summary"),
    ("edf", lambda s: s.say(events=s.outcome.summary["events"] - 1), "summary"),
    ("plan", lambda s: s.say(events=s.outcome.summary["events"] + 2), "summary"),
    ("fifo", lambda s: s.say(decisions=59), "summary"),
    ("fifo", lambda s: s.scale("p99_wait", 1 + 1e-11), "summary"),
    ("sjf", lambda s: s.scale("median_slowdown", 1 - 1e-11), "summary"),
    ("sjf", lambda s: s.scale("mean_jct", 1 + 1e-8), "summary"),
    ("ls", lambda s: s.scale("mean_contention", 1 + 1e-8), "summary"),
    ("rand", lambda s: s.scale("utilisation", 1 + 1e-8), "summary"),
    ("fifo", lambda s: s.scale("jobs_per_second", 1.01), "summary"),
    ("srtf", lambda s: s.say(preemptions=s.outcome.summary["preemptions"] + 1), "summary"),
    ("srtf", lambda s: s.scale("lost_gpu_seconds", 1 + 1e-8), "summary"),
    ("fifo", lambda s: s.scale("jain_index_users", 1 - 1e-8), "summary"),
    ("edf", lambda s: s.say(deadlines_missed=s.outcome.summary["deadlines_missed"] + 1), "summary"),
    ("fifo", in_class("mean_wait", 1e-4), "summary"),
    ("srtf", in_class("preemptions", 1), "summary"),
    ("vcs", in_vc("makespan", 1e-6), "summary"),
    ("vcs", lambda s: s.say(vcs=None), "summary"),
    ("vcs", lambda s: s.say(vcs=[{"vc": []}]), "summary"),
    ("fifo", lambda s: s.say(gpu_types=3), "summary"),
    ("fifo", off_by("queued_jobs", 1), "timeline"),
    ("srtf", off_by("queued_gpus", -1), "timeline"),
    ("ff", off_by("spanning_jobs", 1), "timeline"),
    ("ls", off_by("mean_contention", 1e-7), "timeline"),
    ("fifo", lambda s: s.exchange("timeline", 300, 900), "timeline"),
    ("fifo", lambda s: s.sample(300, "time", s.outcome.timeline["time"][301]), "timeline"),
    ("plan", lambda s: s.scale("w_max", 1 + 1e-8), "summary"),
    ("plan-ff", lambda s: s.scale("w_max", 1 - 1e-8), "summary"),
    ("plan-rand", lambda s: s.scale("w_max", 1e3), "summary"),
    ("plan-rand", lambda s: s.scale("w_max", 1e-3), "summary"),
    ("plan", lambda s: s.say(theta=math.ceil(s.outcome.summary["w_max"] / 10.0) - 1), "summary"),
    ("plan", lambda s: s.say(kappa=7), "repeat"),
    ("plan", lambda s: s.say(horizon=s.outcome.summary["horizon"] * 3), "repeat"),
    ("plan", lambda s: s.say(theta=s.outcome.summary["theta"] + 1), "repeat"),
    ("plan", lambda s: s.say(thetas_tried=s.outcome.summary["thetas_tried"] + 1), "repeat"),
    ("fifo", lambda s: s.say(decisions=s.outcome.summary["decisions"] + 1), "repeat"),
    ("plan-ff", lambda s: s.scale("approximation_bound", 1 + 1e-8), "summary"),
    ("plan-ff", lambda s: s.scale("work_lower_bound", 1 + 1e-8), "summary"),
]

CATALOGUE = [*JOBS, *SCHEDULE, *FIGURES]


@pytest.mark.parametrize(
    ("name", "change", "code"),
    CATALOGUE,
    ids=[f"{number}-{name}-{code}" for number, (name, _, code) in enumerate(CATALOGUE)],
)
def test_a_corruption_is_found(name: str, change: Change, code: str, tmp_path: Path) -> None:
    story = Story(name)
    change(story)
    assert code in (repeated(story, tmp_path) if code == "repeat" else codes_found(story))


@pytest.mark.parametrize("name", ["fifo", "srtf", "plan"])
def test_real_results_come_out_again(name: str, tmp_path: Path) -> None:
    assert repeated(Story(name), tmp_path) == set()


def test_the_catalogue_is_large() -> None:
    assert len(CATALOGUE) >= 125
