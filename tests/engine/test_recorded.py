"""`--policy recorded`: by hand, and as the reference model says on random cases."""

from pathlib import Path

import polars as pl
import pytest

import ringbco
from cases import compare
from cases.case import Case, by_hand, outage_rows
from cases.recorded import model_of, recorded_case
from cases.run import CHECKS
from core_run import CASES
from ringbco import replay
from ringbco.errors import InputError, RingbcoError, UsageError

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
CHUNK = 50
COLUMNS = "submit_time num_gpus duration recorded_start recorded_servers"
Rows = list[tuple[float, int, float, float, str | None]]


@pytest.mark.parametrize("chunk", range(-(-4 * CASES // CHUNK)))
def test_random_cases_are_as_the_reference_says(chunk: int) -> None:
    ran = late = displaced = 0
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        case = recorded_case(seed)
        try:
            outcome = case.replay()
        except RingbcoError:
            continue
        model, policies = model_of(case)
        wrong = list(compare.differences(case, outcome, model.simulate()))
        assert wrong == [], f"case {seed}\n{case.script()}"
        told = sum(len(policy.unknown) for policy in policies)
        assert outcome.summary["displaced_jobs"] == told, case.script()
        ran, late, displaced = ran + 1, late + outcome.summary["late_jobs"], displaced + told
    assert ran > CHUNK // 2
    assert min(late, displaced) > 0


@pytest.mark.parametrize("seed", range(40))
def test_audits_repeats_and_logs_agree(seed: int) -> None:
    case = recorded_case(seed)
    try:
        outcome = case.replay()
    except RingbcoError:
        pytest.skip("refused")
    faults = [fault for name in ("audit", "again") for fault in CHECKS[name](case, outcome)]
    assert faults == [], case.script()


def case_of(servers: list[int], rows: Rows, **given: object) -> Case:
    return by_hand(servers, COLUMNS, rows, policy="recorded", **given)


def run(servers: list[int], rows: Rows, **given: object) -> ringbco.Outcome:
    return case_of(servers, rows, **given).replay()


def places(outcome: ringbco.Outcome) -> dict[str, tuple[float, list[tuple[int, int]]]]:
    assert outcome.allocations is not None
    found = {}
    for (job,), rows in outcome.allocations.group_by("job_id", maintain_order=True):
        found[str(job)] = float(rows["start_time"][0]), rows.select("server", "num_gpus").rows()
    return found


def test_starts_and_places_are_those_of_the_log() -> None:
    outcome = run([4, 4], [(0, 2, 9, 0, "1:2"), (0, 4, 3, 5, "0:3 1:1"), (1, 1, 1, 20, "0:1")])
    assert places(outcome) == {
        "j0": (0.0, [(1, 2)]),
        "j1": (5.0, [(0, 3), (1, 1)]),
        "j2": (20.0, [(0, 1)]),
    }
    figures = ("late_jobs", "mean_lateness", "worst_lateness", "latest_job", "displaced_jobs")
    assert [outcome.summary[name] for name in figures] == [0, 0.0, 0.0, None, 0]


def test_a_place_without_room_counts_as_unknown() -> None:
    outcome = run([4, 4, 2], [(0, 3, 9, 0, "0:3"), (0, 2, 9, 1, "0:2"), (0, 1, 9, 2, None)])
    assert places(outcome)["j1"] == (1.0, [(2, 2)])  # the fullest server that holds it
    assert places(outcome)["j2"] == (2.0, [(0, 1)])
    assert outcome.summary["displaced_jobs"] == 1


def test_a_job_that_no_server_holds_takes_the_emptiest() -> None:
    outcome = run([4, 4, 3], [(0, 1, 9, 0, "0:1"), (0, 2, 9, 0, "1:2"), (0, 5, 9, 1, None)])
    assert places(outcome)["j2"] == (1.0, [(0, 3), (2, 2)])


def test_late_jobs_go_by_recorded_start_and_block_no_other() -> None:
    rows: Rows = [(0, 4, 10, 0, None), (0, 4, 5, 2, None), (0, 3, 5, 1, None), (0, 1, 5, 11, None)]
    outcome = run([4], rows)
    starts = dict(zip(outcome.jobs["job_id"], outcome.jobs["start_time"], strict=True))
    # At 10 s j2 goes first, having started earlier in the log; j1 has no room beside it; j3 does not wait.
    assert starts == {"j0": 0.0, "j1": 16.0, "j2": 10.0, "j3": 11.0}
    assert (outcome.summary["late_jobs"], outcome.summary["latest_job"]) == (2, "j1")
    assert (outcome.summary["mean_lateness"], outcome.summary["worst_lateness"]) == (11.5, 14.0)


def test_the_recorded_type_comes_first() -> None:
    case = case_of([2, 2], [(0, 2, 4, 0, None), (0, 2, 4, 0, None), (0, 2, 4, 0, "0:1 1:1")])
    for server, name in zip(case.servers, ("fast", "slow"), strict=True):
        server["gpu_type"] = name
    case.gpu_types = {"fast": {"speed": 2.0}, "slow": {"speed": 1.0}}
    for job in case.jobs:
        job["recorded_on"] = "slow"
    outcome = case.replay()
    assert places(outcome) == {"j0": (0.0, [(1, 2)]), "j1": (0.0, [(0, 2)]), "j2": (2.0, [(0, 2)])}
    assert outcome.summary["displaced_jobs"] == 1


def test_a_server_that_is_down_and_one_that_fails() -> None:
    rows: Rows = [(0, 1, 10, 1, "0:1"), (0, 1, 10, 0, "1:1")]
    outcome = run([1, 1, 1], rows, outages=outage_rows([(0, 0, 5), (1, 6, 9)]), checkpoint_interval=1.0)
    assert places(outcome)["j0"] == (1.0, [(2, 1)])
    stays = outcome.stays.filter(pl.col("job_id") == "j1").select("start_time", "ended").rows()
    assert stays == [(0.0, "failed"), (6.0, "done")]


def test_slots() -> None:
    outcome = run([2], [(0, 1, 60, 61, None), (0, 2, 60, 70, None)], clock="slot", slot=60.0)
    assert outcome.jobs["start_time"].to_list() == [120.0, 180.0]
    assert (outcome.summary["late_jobs"], outcome.summary["worst_lateness"]) == (1, 60.0)


@pytest.mark.parametrize(
    ("row", "column", "said"),
    [
        ((5, 1, 1, None, None), "recorded_start", "a time not before submit_time 5"),
        ((5, 1, 1, 4.0, None), "recorded_start", "a time not before submit_time 5"),
        ((5, 1, 1, 5.0, "0"), "recorded_servers", "such as 0:4 3:4"),
        ((5, 1, 1, 5.0, "0:0"), "recorded_servers", "such as 0:4 3:4"),
        ((5, 1, 1, 5.0, "-1:1"), "recorded_servers", "such as 0:4 3:4"),
        ((5, 1, 1, 5.0, "7:1"), "recorded_servers", "servers from 0 to 1"),
        ((5, 2, 1, 5.0, "0:1 0:1"), "recorded_servers", "each server once"),
        ((5, 1, 1, 5.0, "0:2"), "recorded_servers", "num_gpus GPUs in all, which is 1"),
    ],
)
def test_bad_values_are_errors_by_row(row: tuple[object, ...], column: str, said: str) -> None:
    rows = [(0, 1, 1, 0.0, "0:1"), row]
    with pytest.raises(InputError, match=said) as caught:
        run([2, 2], rows)  # type: ignore[arg-type]
    assert (caught.value.row, caught.value.column) == (2, column)


def test_other_policies_carry_the_columns_along() -> None:
    rows: Rows = [(0, 1, 1, 0.0, "nonsense"), (5, 1, 1, 3.0, "7:9")]
    case = case_of([2, 2], rows)
    assert case.replay(policy="fifo").jobs["start_time"].to_list() == [0.0, 5.0]
    assert "late_jobs" not in case.replay(policy="fifo").summary


def test_what_goes_with_it(tmp_path: Path) -> None:
    frame = case_of([2, 2], [(0, 1, 1, 0, None)]).frame()
    with pytest.raises(InputError, match="there is none"):
        replay(frame.drop("recorded_start"), "2x2", policy="recorded")
    with pytest.raises(UsageError, match="expected fixed"):
        replay(frame, "2x2", policy="recorded", model="rar")
    for option, value in (("order", "sjf"), ("placement", "first-fit"), ("queue", "easy")):
        with pytest.raises(UsageError, match="leave the option out"):
            replay(frame, "2x2", policy="recorded", **{option: value})  # type: ignore[arg-type]
    assert replay(frame, "2x2", policy="recorded").run["options"]["model"] == "fixed"
    base = {"trace": frame, "cluster": "2x2"}
    with pytest.raises(UsageError, match="leave it out of a sweep"):
        ringbco.sweep({"grid": {"policy": ["fifo", "recorded"]}, "base": base}, tmp_path / "swept")


def test_a_comparison_has_one_run_of_it_under_model_fixed() -> None:
    frame = case_of([2, 2], [(0, 2, 9, 0, None), (0, 3, 9, 4, None), (1, 1, 3, 1, None)]).frame()
    found = ringbco.compare(frame, "2x2", ["recorded", "fifo"], runs={"easy": "fifo"}, seeds=3)
    assert {outcome.run["options"]["model"] for outcome in found.outcomes.values()} == {"fixed"}
    assert set(found.summaries_by_run) == {"fifo", "easy"}
    assert ringbco.audit(found.outcomes["recorded"], frame) == []
