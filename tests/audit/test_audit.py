"""The audit passes what is possible, and finds each planted fault by its own check alone."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from core_run import STEP
from reference import Job, Net, Options, StuckError
from results import Stay, Story, frame_of, story_of, tell, write_case
from ringbco.audits import Report, audit, check_outcome
from ringbco.audits.findings import KEPT_FINDINGS
from ringbco.result.outcome import Outcome
from ringbco.trace.jobs import from_frame, read_jobs
from strategies import COMBINATIONS, Case, build_case

NET = Net(intra=64.0, inter=8.0, reduce=4.0, xi1=1.0, xi2=0.5, alpha=1.0)


def job(submit: float, num_gpus: int, iterations: int) -> Job:
    return Job(submit, num_gpus, 1.0, iterations, gradient_bytes=8.0, compute_time=1.0)


# Four servers of 4 GPUs, first-fit, strict fifo. A takes 3 of server 0; B the fourth and one of server 1; C
# the rest of server 1 and one of server 2: B and C contend there. D and E fill server 2. F wants 6, but
# only server 3 is idle: it waits, and G behind it. Long afterwards H and J come to an empty cluster.
A, B, C, D, E, F, G, H, J = range(9)
CASE = Case(
    jobs=(
        job(0.0, 3, 100),
        job(0.0, 2, 30),
        job(10.0, 4, 20),
        job(20.0, 2, 40),
        job(30.0, 1, 60),
        job(40.0, 6, 10),
        job(50.0, 1, 5),
        job(1000.0, 2, 20),
        job(1000.0, 1, 30),
    ),
    servers=(4, 4, 4, 4),
    net=NET,
    options=Options("fifo", "strict", "first-fit", "rar"),
)
SLOTS = replace(CASE, options=replace(CASE.options, clock="slot", slot=20.0))
FIXED = Case(
    tuple(replace(j, duration=7.3 * j.iterations) for j in CASE.jobs),
    CASE.servers,
    NET,
    replace(CASE.options, model="fixed"),
)
FIXED_SLOTS = replace(FIXED, options=replace(FIXED.options, clock="slot", slot=20.0))
CLUSTERS = replace(
    CASE, jobs=tuple(replace(j, vc=0 if n in (A, B, D) else 1) for n, j in enumerate(CASE.jobs)),
    server_vc=(0, 0, 1, 1),
)  # fmt: skip


def report_on(outcome: Outcome, trace: Path) -> Report:
    return check_outcome(outcome, read_jobs(trace))


def failures(report: Report) -> dict[str, int]:
    return {check.code: check.failed for check in report.checks if check.failed}


# What is possible passes


@pytest.mark.parametrize("case", [CASE, SLOTS, FIXED, FIXED_SLOTS, CLUSTERS])
def test_a_possible_result_passes_every_check(tmp_path: Path, case: Case) -> None:
    trace = write_case(case, tmp_path)
    report = report_on(tell(story_of(case), trace), trace)
    assert report.findings == []
    assert report.ok
    not_run = {check.code for check in report.checks if check.not_run}
    # The reference model's results say nothing of causes and preempt nobody.
    assert not_run == {
        "causes",
        "evictions",
        "held",
        "latency",
        "links",
        "outages",
        "requests",
        "searches",
        "seats",
        "services",
        "stays",
        "types",
    } | ({"slots"} if case.options.clock == "continuous" else set()) | (
        {"vcs"} if case.server_vc is None else set()
    )
    assert all(check.looked_at for check in report.checks if not check.not_run)


def test_the_example_is_worth_auditing() -> None:
    story = story_of(CASE)
    assert story.num_servers == [1, 2, 2, 1, 1, 2, 1, 1, 1]
    assert (story.max_contention[B], story.max_contention[C]) == (2, 2)
    assert story.start[F] > 50.0
    assert story.start[G] == story.start[F]
    assert story.start[H] == 1000.0 > max(story.finish[:H])


@pytest.mark.parametrize("share", range(4))
def test_results_of_the_reference_pass(tmp_path: Path, share: int) -> None:
    """All combinations of order, discipline, placement, model and clock; virtual clusters; dropped jobs."""
    audited = 0
    numbers = range(share, len(COMBINATIONS), 4 * STEP)
    for number in numbers:
        rnd = random.Random(number)
        case = build_case(rnd, COMBINATIONS[number], vcs=number % 5 == 0, oversize=number % 7 == 0)
        try:
            story = story_of(case)
        except StuckError:
            continue
        if not story.rows:
            continue
        trace = write_case(case, tmp_path)
        report = report_on(tell(story, trace), trace)
        assert report.findings == [], case
        audited += 1
    assert audited > 0.85 * len(numbers)


# Planted faults: each changes the schedule, everything else follows from it


def in_order(story: Story) -> None:
    story.stays.sort(key=lambda stay: (stay.row, stay.start, stay.server))


def over_commit(story: Story) -> None:
    story.of(E)[0].server = 0


def incomplete_gang(story: Story) -> None:
    story.of(H)[0].gpus = 1


def too_large_a_gang(story: Story) -> None:
    story.of(H)[0].gpus = 3


def no_gpus_at_all(story: Story) -> None:
    story.stays.remove(story.of(J)[0])
    story.num_servers[J] = 0


def early_start(story: Story) -> None:
    story.shift(H, -5.0, -5.0)


def moved_while_running(story: Story) -> None:
    stay = story.of(H)[0]
    middle = (stay.start + stay.end) / 2
    story.stays.append(Stay(H, 3, stay.gpus, middle, stay.end))
    stay.end = middle
    in_order(story)


def server_named_twice(story: Story) -> None:
    stay = story.of(H)[0]
    stay.gpus -= 1
    story.stays.append(replace(stay, gpus=1))
    in_order(story)


def finish_late(story: Story) -> None:
    story.shift(H, 0.0, 0.5)


def finish_early(story: Story) -> None:
    story.shift(H, 0.0, -0.5)


def a_slot_too_long(story: Story) -> None:
    story.shift(H, 0.0, story.case.options.slot)


def a_slot_too_short(story: Story) -> None:
    story.shift(H, 0.0, -story.case.options.slot)


def contention_ignored(story: Story) -> None:
    """B runs as if C had never shared server 1 with it; C as it did."""
    alone = 30 * 4.0
    assert story.finish[B] > alone
    story.shift(B, 0.0, alone - story.finish[B])


def wrong_num_servers(story: Story) -> None:
    story.num_servers[B] = 3


def wrong_max_contention(story: Story) -> None:
    story.max_contention[C] = 1


def contention_without_spanning(story: Story) -> None:
    story.max_contention[H] = 1


def missing_job(story: Story) -> None:
    story.rows.remove(J)


def unknown_server(story: Story) -> None:
    story.of(H)[0].server = 4


def server_of_another_vc(story: Story) -> None:
    stay = story.of(H)[0]
    assert stay.server in (2, 3)
    stay.server = 1


def off_the_slots(story: Story) -> None:
    story.shift(H, 3.0, 3.0)


# Each by its check alone, but that a job moved in time also starts at a moment at which nobody decides.
FAULTS: list[tuple[Case, Callable[[Story], None], str]] = [
    (CASE, over_commit, "capacity"),
    (SLOTS, over_commit, "capacity"),
    (CASE, incomplete_gang, "gangs"),
    (CASE, too_large_a_gang, "gangs"),
    (CASE, early_start, "start"),
    (FIXED, early_start, "start"),
    (CASE, moved_while_running, "stretches"),
    (FIXED, moved_while_running, "stretches"),
    (CASE, server_named_twice, "stretches"),
    (CASE, finish_late, "run-times"),
    (CASE, finish_early, "run-times"),
    (FIXED, finish_late, "run-times"),
    (SLOTS, a_slot_too_long, "run-times"),
    (SLOTS, a_slot_too_short, "run-times"),
    (FIXED_SLOTS, a_slot_too_short, "run-times"),
    (CASE, wrong_num_servers, "num-servers"),
    (CASE, wrong_max_contention, "contention"),
    (FIXED, wrong_max_contention, "contention"),
    (CASE, contention_without_spanning, "contention"),
    (CASE, missing_job, "jobs"),
    (CASE, unknown_server, "servers"),
    (CLUSTERS, server_of_another_vc, "vcs"),
    (SLOTS, off_the_slots, "slots"),
]


@pytest.mark.parametrize(
    ("case", "plant", "code"), FAULTS, ids=[f"{plant.__name__}-{n}" for n, (_, plant, _) in enumerate(FAULTS)]
)
def test_a_planted_fault_is_found_by_its_check_alone(
    tmp_path: Path, case: Case, plant: Callable[[Story], None], code: str
) -> None:
    trace = write_case(case, tmp_path)
    story = story_of(case)
    plant(story)
    report = report_on(tell(story, trace), trace)
    assert set(failures(report)) == set(code.split())
    assert {finding.code for finding in report.findings} == set(code.split())


def test_contention_that_is_ignored_shows_in_every_run_time_it_touches(tmp_path: Path) -> None:
    # C met B for less long than its finish says, so both are wrong; nobody else is.
    trace = write_case(CASE, tmp_path)
    story = story_of(CASE)
    contention_ignored(story)
    report = report_on(tell(story, trace), trace)
    assert {f.job for f in report.findings if f.code == "run-times"} == {"job-1", "job-2"}
    assert set(failures(report)) <= {"run-times", "idle", "instants", "placement"}


def test_a_gang_that_does_not_end_together(tmp_path: Path) -> None:
    trace = write_case(CASE, tmp_path)
    story = story_of(CASE)
    story.of(F)[1].end -= 1.0
    result = failures(report_on(tell(story, trace), trace))
    assert "stretches" in result


def test_a_job_without_gpus(tmp_path: Path) -> None:
    trace = write_case(CASE, tmp_path)
    story = story_of(CASE)
    no_gpus_at_all(story)
    assert "gangs" in failures(report_on(tell(story, trace), trace))


def test_oversize_jobs_may_be_left_out_only_where_they_are(tmp_path: Path) -> None:
    case = replace(CASE, jobs=(*CASE.jobs, job(1.0, 17, 5)), options=replace(CASE.options, oversize="drop"))
    trace = write_case(case, tmp_path)
    assert report_on(tell(story_of(case), trace), trace).ok
    story = story_of(case)
    missing_job(story)
    assert failures(report_on(tell(story, trace), trace)) == {"jobs": 1}
    refused = replace(case, options=CASE.options)
    story = replace(story_of(case), case=refused)
    assert failures(report_on(tell(story, trace), trace)) == {"jobs": 1}


# Planted faults: cells of the files


def with_cell(frame: pl.DataFrame, row: int, column: str, value: object) -> pl.DataFrame:
    values = frame[column].to_list()
    values[row] = value
    return frame.with_columns(pl.Series(column, values, dtype=frame.schema[column]))


def repeated_row(outcome: Outcome) -> None:
    outcome.jobs = pl.concat([outcome.jobs, outcome.jobs[J : J + 1]])


def unknown_job(outcome: Outcome) -> None:
    stranger = outcome.jobs[J : J + 1].with_columns(job_id=pl.lit("stranger"))
    outcome.jobs = pl.concat([outcome.jobs, stranger])


def stray_stay(outcome: Outcome) -> None:
    assert outcome.allocations is not None
    stranger = outcome.allocations[:1].with_columns(job_id=pl.lit("stranger"))
    outcome.allocations = pl.concat([outcome.allocations, stranger])


def swapped_rows(outcome: Outcome) -> None:
    outcome.jobs = outcome.jobs[[*range(H), J, H]]


def wrong_wait(outcome: Outcome) -> None:
    outcome.jobs = with_cell(outcome.jobs, F, "wait_time", 0.0)


def wrong_slowdown(outcome: Outcome) -> None:
    outcome.jobs = with_cell(outcome.jobs, F, "slowdown", 1.0)


def wrong_num_gpus(outcome: Outcome) -> None:
    outcome.jobs = with_cell(outcome.jobs, F, "num_gpus", 5)


def wrong_ideal(outcome: Outcome) -> None:
    ideal = outcome.jobs["ideal_run_time"][F] * 1.001
    outcome.jobs = with_cell(outcome.jobs, F, "ideal_run_time", ideal)
    outcome.jobs = with_cell(outcome.jobs, F, "slowdown", outcome.jobs["jct"][F] / ideal)


def preempted(outcome: Outcome) -> None:
    outcome.jobs = with_cell(outcome.jobs, F, "preemptions", 1)


def not_a_number(outcome: Outcome) -> None:
    outcome.jobs = with_cell(outcome.jobs, F, "finish_time", float("nan"))


def null(outcome: Outcome) -> None:
    assert outcome.allocations is not None
    outcome.allocations = with_cell(outcome.allocations, 0, "server", None)


def wrong_sample(outcome: Outcome) -> None:
    outcome.timeline = with_cell(outcome.timeline, 77, "queued_gpus", 99)


def wrong_grid(outcome: Outcome) -> None:
    outcome.timeline = outcome.timeline[:1999]


def no_rows(outcome: Outcome) -> None:
    outcome.jobs = outcome.jobs[:0]


CELLS: list[tuple[Callable[[Outcome], None], str]] = [
    (repeated_row, "jobs"),
    (unknown_job, "jobs"),
    (stray_stay, "jobs"),
    (swapped_rows, "jobs"),
    (wrong_wait, "arithmetic"),
    (wrong_slowdown, "arithmetic"),
    (wrong_num_gpus, "inputs"),
    (wrong_ideal, "inputs"),
    (preempted, "stretches"),
    (not_a_number, "values"),
    (null, "values"),
    (wrong_sample, "timeline"),
    (wrong_grid, "timeline"),
    (no_rows, "jobs"),
]


@pytest.mark.parametrize(("plant", "code"), CELLS, ids=[plant.__name__ for plant, _ in CELLS])
def test_a_wrong_cell_is_found_by_its_check_alone(
    tmp_path: Path, plant: Callable[[Outcome], None], code: str
) -> None:
    trace = write_case(CASE, tmp_path)
    outcome = tell(story_of(CASE), trace)
    plant(outcome)
    assert failures(report_on(outcome, trace)) == {code: 1}


FIGURES = [
    *(
        f"{s}_{m}"
        for s in ("mean", "median", "p90", "p99")
        for m in ("jct", "wait", "time_to_start", "slowdown")
    ),
    *("jobs", "jobs_dropped", "makespan", "utilisation", "mean_contention", "jobs_spread"),
    "utilisation_to_last_submission",
]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_of_the_summary_is_worked_out_again(tmp_path: Path, name: str) -> None:
    trace = write_case(CLUSTERS, tmp_path)
    for change in (lambda value: value * 1.0000001 + 1e-6, lambda value: None, lambda value: "many"):
        outcome = tell(story_of(CLUSTERS), trace)
        outcome.summary[name] = change(outcome.summary[name])
        report = report_on(outcome, trace)
        assert failures(report) == {"summary": 1}
        assert report.findings[0].message.startswith(f"{name} is ")
    if name == "mean_contention":
        return
    outcome = tell(story_of(CLUSTERS), trace)
    outcome.summary["vcs"][1][name] += 1e-3
    assert [f.message.split(" is ")[0] for f in report_on(outcome, trace).findings] == [f"vc1: {name}"]


def test_a_changed_trace(tmp_path: Path) -> None:
    trace = write_case(CASE, tmp_path)
    outcome = tell(story_of(CASE), trace)
    trace.write_text(trace.read_text() + "\n")
    assert failures(report_on(outcome, trace)) == {"trace": 1}


def test_a_longer_trace(tmp_path: Path) -> None:
    trace = write_case(CASE, tmp_path)
    outcome = tell(story_of(CASE), trace)
    longer = replace(CASE, jobs=(*CASE.jobs, job(2000.0, 1, 1)))
    assert failures(check_outcome(outcome, from_frame(frame_of(longer)))) == {"trace": 1, "jobs": 1}


def test_findings_say_where_and_what(tmp_path: Path) -> None:
    trace = write_case(CASE, tmp_path)
    story = story_of(CASE)
    over_commit(story)
    assert [str(f) for f in audit(tell(story, trace), read_jobs(trace))] == [
        "capacity: server 0, at 30 s: 5 GPUs in use; it has 4"
    ]
    story = story_of(CASE)
    finish_late(story)
    (finding,) = audit(tell(story, trace), read_jobs(trace))
    assert (finding.job, finding.time) == ("job-7", story.finish[H])
    # 20 iterations of 2*4/64 + 4/4 + 0.5 + 1 = 2.625 s each, and half a second more.
    assert "after 53 s with 20.1904761905 iterations done" in finding.message
    assert finding.message.endswith("expected 20")


@pytest.mark.long
def test_many_findings_are_counted_and_few_kept(tmp_path: Path) -> None:
    case = Case(tuple(job(float(n), 1, 1) for n in range(3 * KEPT_FINDINGS)), (4,), NET, CASE.options)
    trace = write_case(case, tmp_path)
    outcome = tell(story_of(case), trace)
    outcome.jobs = outcome.jobs.with_columns(wait_time=pl.lit(-1.0))
    report = report_on(outcome, trace)
    assert failures(report) == {"arithmetic": 3 * KEPT_FINDINGS}
    assert len(report.findings) == KEPT_FINDINGS


def test_without_allocations_the_rest_is_still_checked(tmp_path: Path) -> None:
    trace = write_case(CASE, tmp_path)
    outcome = tell(story_of(CASE), trace)
    outcome.allocations = None
    report = report_on(outcome, trace)
    assert report.ok
    not_run = {c.code for c in report.checks if c.not_run == "the run recorded no allocations"}
    assert {"gangs", "capacity", "run-times", "contention"} <= not_run
    outcome.jobs = with_cell(outcome.jobs, F, "wait_time", 0.0)
    assert failures(report_on(outcome, trace)) == {"arithmetic": 1}
