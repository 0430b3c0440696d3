"""Every policy of the registry on a schedule small enough for a pencil; and that no policy lacks one.

`fixed` jobs on the continuous clock unless said. A job is (submit_time, num_gpus, duration); what is
compared is the list of its runs, (start, end).
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import strategies
import test_preempt_equality
import test_queue_orders
import test_repack
from conftest import Invoke
from reference.elastic import POLICIES as RESIZING_HERE
from reference.recorded import Recorded
from reference.seats import lucid_world
from ringbco.errors import InputError, UsageError
from ringbco.result.outcome import Outcome
from ringbco.run.clairvoyance import foreknowledge, of_policy
from ringbco.run.options import policies
from ringbco.run.plan import plan
from ringbco.run.refusals import waking
from ringbco.run.registry import BUILT_IN, PRESETS
from ringbco.run.replay import replay

RESIZING = ("afs", "optimus", "elastic-srtf", "elasticflow")
DOCS = Path(__file__).parents[2] / "docs" / "policies.md"
Runs = list[list[tuple[float, float]]]


def run(
    jobs: Sequence[tuple[float, int, float]],
    cluster: str,
    policy: str,
    deadlines: Sequence[float | None] | None = None,
    **options: Any,
) -> Outcome:
    frame = pl.DataFrame(
        {
            "job_id": [str(row) for row in range(len(jobs))],
            "submit_time": [float(job[0]) for job in jobs],
            "num_gpus": [job[1] for job in jobs],
            "duration": [float(job[2]) for job in jobs],
        }
    )
    if deadlines is not None:
        frame = frame.with_columns(pl.Series("deadline", deadlines, dtype=pl.Float64))
    return replay(frame, cluster, policy=policy, **({"model": "fixed"} | options))


def runs(outcome: Outcome) -> dict[str, list[tuple[float, float]]]:
    """Each job's runs."""
    assert outcome.allocations is not None
    result: dict[str, list[tuple[float, float]]] = {}
    for job_id, start, end in outcome.allocations.select("job_id", "start_time", "end_time").iter_rows():
        if (start, end) not in result.setdefault(job_id, []):
            result[job_id].append((start, end))
    return result


def servers(outcome: Outcome) -> list[list[int]]:
    assert outcome.allocations is not None
    return outcome.allocations.group_by("job_id", maintain_order=True).agg("server")["server"].to_list()


def orders() -> None:
    """fifo, sjf, smallest: two GPUs, taken until 10; three jobs wait."""
    jobs = [(0, 2, 10), (1, 2, 3), (2, 2, 1), (3, 1, 3)]
    # fifo: 10-13, 13-14, 14. sjf: job 2 (1 s) 10-11, job 1 before job 3 (both 3 s, job 1 came first) 11-14,
    # 14. smallest: job 3 at 10-13, one GPU idle beside it; job 1 13-16; job 2.
    for policy, starts in (
        ("fifo", [0, 10, 13, 14]),
        ("sjf", [0, 11, 10, 14]),
        ("smallest", [0, 13, 16, 10]),
    ):
        assert run(jobs, "1x2", policy).jobs["start_time"].to_list() == starts


def ff() -> None:
    # Server 0 has one idle GPU left: the pair takes it and one of server 1.
    assert servers(run([(0, 1, 9), (0, 2, 9)], "2x2", "ff")) == [[0], [0, 1]]


def ls() -> None:
    # U after the first: 5 on server 0. The pair takes 1 and 2 (U = 7), the next 3 (9), the last server 0 (5).
    jobs = [(0, 1, 5), (0, 2, 7), (0, 1, 9), (8, 1, 1)]
    assert servers(run(jobs, "4x1", "ls")) == [[0], [1, 2], [3], [0]]


def rand() -> None:
    # SplitMix64 of seed 0 gives 0.8833 and 0.4315 of 2^64: floor(0.8833 x 3) = 2, floor(0.4315 x 4) = 1.
    assert servers(run([(0, 2, 1)], "4x1", "rand")) == [[1, 2]]


def sjf_bco() -> None:
    # A lone job of 5 s on server 0, then at 6 a pair: FA-FFP (kappa 2): server 0, the first unopened one;
    # LBSGF (kappa 1): server 1, whose mean U is 0 against 2.5.
    jobs = [(0, 1, 5), (6, 2, 1)]
    assert servers(run(jobs, "2x2", "sjf-bco", kappa=2)) == [[0], [0]]
    assert servers(run(jobs, "2x2", "sjf-bco", kappa=1)) == [[0], [1]]


def qssf() -> None:
    # No users: one user's all. The pair of 10 s is known at 10: lone jobs are predicted at its mean, 10 s,
    # as long as no lone job is done: fifo. At 20 the lone job of 8 s is known: the pair that comes at 21 is
    # predicted at 2 x 10, the lone one at 22 at 8 GPU-seconds, so that one goes first when the server is
    # free, at 23.
    jobs = [(0, 2, 10), (12, 1, 8), (20, 2, 3), (21, 2, 1), (22, 1, 4)]
    assert runs(run(jobs, "1x2", "qssf")) == {
        "0": [(0, 10)],
        "1": [(12, 20)],
        "2": [(20, 23)],
        "3": [(27, 28)],
        "4": [(23, 27)],
    }
    test_queue_orders.test_qssf_by_hand()


def srtf() -> None:
    # One GPU. At 2 the newcomer (3 s) beats the runner (8 s left). Resuming at 5 costs 1 s: 5 + 1 + 8 = 14.
    outcome = run([(0, 1, 10), (2, 1, 3)], "1x1", "srtf", preempt_cost=1.0)
    assert runs(outcome) == {"0": [(0, 2), (5, 14)], "1": [(2, 5)]}
    assert outcome.jobs["preemptions"].to_list() == [1, 0]
    assert outcome.jobs["held_time"].to_list() == [11, 3]
    assert outcome.jobs["lost_time"].to_list() == [1, 0]
    assert (outcome.summary["preemptions"], outcome.summary["lost_gpu_seconds"]) == (1, 1)
    # 14 GPU-seconds held in 14 s.
    assert outcome.summary["utilisation"] == 1.0
    # The walk passes over what does not fit: at 1 the ranking is the pair (2 s), then the runner (4 s left
    # of 5): of two GPUs the pair takes both. At 3 it is done.
    assert runs(run([(0, 1, 5), (1, 2, 2)], "1x2", "srtf", preempt_cost=0.0)) == {
        "0": [(0, 1), (3, 7)],
        "1": [(1, 3)],
    }
    # Slots of 2 s: the cost of 3 s is two slots. At 4 (the boundary from 3 on) 4 of 10 s are done; the
    # newcomer needs 2 slots, until 8; then 2 slots of cost and 3 of work: 8 + 4 + 6 = 18.
    slots = run([(0, 1, 10), (3, 1, 3)], "1x1", "srtf", preempt_cost=3.0, clock="slot", slot=2.0)
    assert runs(slots) == {"0": [(0, 4), (8, 18)], "1": [(4, 8)]}


def srsf() -> None:
    # At 1 the pair has 2 s x 2 GPUs left, the lone runner 3 s x 1: it goes on to 4, and the pair comes then.
    assert runs(run([(0, 1, 4), (1, 2, 2)], "1x2", "srsf")) == {"0": [(0, 4)], "1": [(4, 6)]}
    # At multiples of 5 only: the newcomer of 1 waits until 5, and the runner, stopped then, until 10.
    given = {"interval": 5.0, "preempt_cost": 0.0}
    for policy in ("srsf", "srtf"):
        result = runs(run([(0, 1, 10), (1, 1, 3)], "1x1", policy, **given))
        assert result == {"0": [(0, 5), (10, 15)], "1": [(5, 8)]}


@pytest.mark.parametrize(
    ("within", "pair", "last"), [("fifo", [(20, 50)], [(10, 20), (50, 70)]), ("list", [(40, 70)], [(10, 40)])]
)
def test_a_list_inside_a_queue(within: str, pair: object, last: object) -> None:
    # At 10 the pair does not fit beside job 0, and job 2 does. At 20 job 0 is done. Under fifo the pair goes
    # before job 2, which it stops. In a list job 2 runs, and so has moved ahead of the pair.
    given = {"interval": 10.0, "thresholds": [1e6], "preempt_cost": 0.0, "within": within}
    jobs = [(0, 1, 20), (1, 2, 30), (2, 1, 30)]
    assert runs(run(jobs, "1x2", "tiresias", **given)) == {"0": [(0, 20)], "1": pair, "2": last}


def tiresias() -> None:
    # Ticks at 0, 10, 20 ...; a job falls at 20 GPU-seconds. At 10 the runner has 10 and is first by fifo;
    # at 20 it falls and the other runs, 20-35. The next tick is 40: 5 s to resume and 40 of work: 85.
    options = {"interval": 10.0, "thresholds": [20.0], "preempt_cost": 5.0}
    outcome = run([(0, 1, 60), (1, 1, 15)], "1x1", "tiresias", **options)
    assert runs(outcome) == {"0": [(0, 20), (40, 85)], "1": [(20, 35)]}
    # A pair reaches 20 GPU-seconds in 10 s: at 10 the first falls, at 20 the second too, and fifo decides
    # again: the first 20-75, with 5 s to resume and 50 of work; the second, at the next tick, 80-90.
    wide = run([(0, 2, 60), (1, 2, 15)], "1x2", "tiresias", **options)
    assert runs(wide) == {"0": [(0, 10), (20, 75)], "1": [(10, 20), (80, 90)]}


def gittins() -> None:
    # Ticks every 10 s. Jobs 0 (10 s) and 1 (40 s) run alone, one after the other, until 50: GPU times {10,
    # 40}. Two come at 50. With nothing attained the index is max(1/2 / 10, 1 / 25) = 0.05: fifo, job 2. At
    # 60 it has 10: only 40 lies beyond: 1 / 30. Job 3 has 0.05: it runs, 60-70. Then job 2 again, 30 s.
    jobs = [(0, 1, 10), (0, 1, 40), (50, 1, 40), (50, 1, 10)]
    options = {"interval": 10.0, "preempt_cost": 0.0}
    expected = {"0": [(0, 10)], "1": [(10, 50)], "2": [(50, 60), (70, 100)], "3": [(60, 70)]}
    assert runs(run(jobs, "1x1", "gittins", **options)) == expected
    # In one queue tiresias is fifo.
    fifo = {"0": [(0, 10)], "1": [(10, 50)], "2": [(50, 90)], "3": [(90, 100)]}
    assert runs(run(jobs, "1x1", "tiresias", **options)) == fifo


def ftf() -> None:
    # Ticks every 10 s. At 0 both rho are 1: fifo. At 10 the runner's is (10 + 30) / 40 = 1, the other's
    # (10 + 10) / 10 = 2: it runs 10-20. Then the first again, 30 s.
    jobs = [(0, 1, 40), (0, 1, 10)]
    outcome = run(jobs, "1x1", "ftf", interval=10.0, preempt_cost=0.0)
    assert runs(outcome) == {"0": [(0, 10), (20, 50)], "1": [(10, 20)]}
    # At the end rho is 50 / 40 and 20 / 10.
    assert outcome.summary["worst_finish_time_fairness"] == 2.0
    assert outcome.summary["mean_finish_time_fairness"] == 1.625
    # At 70 rho of both is 1 + 60 / 61.2 = 1 + 20 / 20.4, the second one's by rounding the greater: fifo.
    outcome = run([(10, 1, 61.2), (50, 1, 20.4 * (1 + 2**-52))], "1x1", "ftf", interval=70.0)
    assert outcome.jobs["start_time"].to_list() == [70.0, 140.0]


def edf() -> None:
    # One GPU. At 2 the deadline 8 beats 30; the job without one comes last. Job 3 (5 s, deadline 8) comes
    # at 4: 4 + 5 = 9 is too late even alone; without admission it ties with job 1 and is behind it: 5-10.
    jobs = [(0, 1, 10), (2, 1, 3), (3, 1, 2), (4, 1, 5)]
    deadlines = [30, 8, None, 8]
    outcome = run(jobs, "1x1", "edf", deadlines, preempt_cost=0.0)
    assert runs(outcome) == {"0": [(0, 2), (10, 18)], "1": [(2, 5)], "2": [(18, 20)], "3": [(5, 10)]}
    assert (outcome.summary["deadlines"], outcome.summary["deadlines_missed"]) == (3, 1)
    assert outcome.summary["deadlines_met"] == pytest.approx(2 / 3)
    admitted = run(jobs, "1x1", "edf", deadlines, preempt_cost=0.0, admission=True)
    assert runs(admitted) == {"0": [(0, 2), (5, 13)], "1": [(2, 5)], "2": [(13, 15)]}
    assert admitted.summary["jobs_refused"] == 1
    assert (admitted.summary["jobs"], admitted.summary["jobs_dropped"]) == (3, 0)
    assert (admitted.summary["deadlines_missed"], admitted.summary["deadlines_met"]) == (0, 1.0)


def time_slice() -> None:
    # One GPU, turns of 10 s, three jobs of 15 s. From 30 on each has 5 s left and 2 s to resume; it ends in
    # the middle of its turn, and the next begins at a multiple of 10.
    outcome = run([(0, 1, 15)] * 3, "1x1", "time-slice", quantum=10.0, preempt_cost=2.0)
    assert runs(outcome) == {"0": [(0, 10), (30, 37)], "1": [(10, 20), (40, 47)], "2": [(20, 30), (50, 57)]}
    # Who comes while others run joins the end of those that wait, ahead of those that ran.
    late = run([(0, 1, 15), (0, 1, 15), (5, 1, 4)], "1x1", "time-slice", quantum=10.0, preempt_cost=0.0)
    assert runs(late) == {"0": [(0, 10), (30, 35)], "1": [(10, 20), (40, 45)], "2": [(20, 24)]}


def recorded() -> None:
    # Two servers. The second job starts at 3 on server 1, as it did; the third is late, until the first ends.
    log = pl.DataFrame(
        {
            "job_id": list("abc"),
            "submit_time": [0.0, 0.0, 1.0],
            "num_gpus": [2, 1, 2],
            "duration": [9.0, 9.0, 1.0],
            "recorded_start": [0.0, 3.0, 4.0],
        }
    )
    outcome = replay(log, "2x2", policy="recorded")
    assert outcome.jobs["start_time"].to_list() == [0.0, 3.0, 9.0]
    assert servers(outcome) == [[0], [1], [0]]


def lucid() -> None:
    # The second joins the first on its GPUs, and neither is slowed down. The third wants three times the
    # GPU-seconds of either that is left alone, so it joins nobody, and waits until both are gone.
    jobs = {"job_id": list("abc"), "submit_time": [0] * 3, "num_gpus": [2] * 3, "duration": [10, 20, 60]}
    scores = {"estimated_duration": [10, 20, 60], "colocation_score": [0, 0, 0]}
    outcome = replay(pl.DataFrame(jobs | scores), "1x2", model="fixed", policy="lucid")
    assert outcome.jobs["start_time"].to_list() == [0.0, 0.0, 20.0]
    assert outcome.jobs["finish_time"].to_list() == [10.0, 20.0, 80.0]


def repack() -> None:
    # The pair wants 20 GPU-seconds and goes first of the two that wait. It evicts the lone job, which wants
    # 79 when its pause of 1 s is taken off; the wait of 80 s is more than two pauses. The lone job resumes
    # beside the third, and before it: 80 GPU-seconds against 100.
    outcome = run(
        [(0, 1, 100), (20, 2, 10), (20, 1, 100)], "1x2", "repack", preempt_cost=1.0, predict="exact"
    )
    assert runs(outcome) == {"0": [(0, 20), (30, 111)], "1": [(20, 30)], "2": [(30, 130)]}


def resizing() -> None:
    # Both get one of the four GPUs. By one more the second gains 20 s, the first 10 s; by another one the
    # second gains 6.7 s. So each has two. Under afs the first has three: doubling its speed, then half of it
    # more, is never less than the half that the second would gain of its next speed.
    jobs = pl.DataFrame(
        {"job_id": ["0", "1"], "submit_time": [0.0, 0.0], "num_gpus": [2, 2], "duration": [10.0, 20.0]}
    ).with_columns(min_gpus=1, max_gpus=4)
    same: dict[str, Any] = {"model": "fixed", "preempt_cost": 0.0, "resize_every": 0.0}
    for policy, done in (("afs", [20 / 3, 15.0]), ("optimus", [10.0, 15.0]), ("elastic-srtf", [10.0, 15.0])):
        outcome = replay(jobs, "1x4", policy=policy, **same)
        assert outcome.jobs["finish_time"].to_list() == pytest.approx(done), policy


def elasticflow() -> None:
    # The first needs three of the four GPUs for its deadline. The second has none and gets the fourth. The
    # third would need more than there are: it is refused.
    jobs = pl.DataFrame(
        {"job_id": ["0", "1", "2"], "submit_time": [0.0, 0.0, 0.0], "num_gpus": [2, 2, 2],
         "duration": [10.0, 20.0, 10.0], "deadline": [7.0, None, 2.0], "min_gpus": [1] * 3,
         "max_gpus": [4] * 3}
    )  # fmt: skip
    outcome = replay(jobs, "1x4", policy="elasticflow", model="fixed", preempt_cost=0.0, resize_every=0.0)
    assert outcome.summary["jobs_refused"] == 1
    # Three GPUs take 6.67 s; the second does half a second a second then, and two on four GPUs.
    assert outcome.jobs["finish_time"].to_list() == pytest.approx([20 / 3, 20 / 3 + (20 - 10 / 3) / 2])


EXAMPLES: dict[str, Callable[[], None]] = {
    "fifo": orders,
    "sjf": orders,
    "smallest": orders,
    "ff": ff,
    "ls": ls,
    "rand": rand,
    "sjf-bco": sjf_bco,
    "qssf": qssf,
    "srtf": srtf,
    "srsf": srsf,
    "tiresias": tiresias,
    "gittins": gittins,
    "ftf": ftf,
    "edf": edf,
    "time-slice": time_slice,
    "repack": repack,
    "afs": resizing,
    "optimus": resizing,
    "elastic-srtf": resizing,
    "elasticflow": elasticflow,
    "recorded": recorded,
    "lucid": lucid,
}


@pytest.mark.parametrize("policy", EXAMPLES)
def test_worked_example(policy: str) -> None:
    EXAMPLES[policy]()


def test_easy_with_every_order() -> None:
    # Four GPUs, two busy until 10. Each order's head is the gang of four, blocked until 10; the lone job of
    # 9 s is over by then and starts at 1; that of 20 s would be in its way and waits for it, until 15.
    # (Under sjf and smallest the lone ones would come first by themselves; so they are submitted after the
    # gang was tried.)
    jobs = [(0, 2, 10), (1, 4, 5), (1, 1, 9), (1, 1, 20)]
    assert run(jobs, "1x4", "fifo", queue="easy").jobs["start_time"].to_list() == [0, 10, 1, 15]
    # qssf told the truth: 9, 20 and 20 GPU-seconds; the gang came before the long lone job.
    exact = run(jobs, "1x4", "qssf", queue="easy", predict="exact").jobs["start_time"].to_list()
    assert exact == [0, 10, 1, 15]
    # sjf: the gang (5 s) is the head. smallest: nobody is ahead of the lone jobs.
    assert run(jobs, "1x4", "sjf", queue="easy").jobs["start_time"].to_list() == [0, 10, 1, 15]
    assert run(jobs, "1x4", "smallest", queue="easy").jobs["start_time"].to_list() == [0, 21, 1, 1]


def test_every_policy_is_documented_worked_out_and_compared_with_a_reference_model() -> None:
    registered = {policy.name: policy for policy in policies()}
    assert set(EXAMPLES) == set(registered)
    documented = re.findall(r"^\| `([a-z-]+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(documented) >= set(registered)
    for name, policy in registered.items():
        if policy.preemption == "repack":
            assert callable(test_repack.test_the_reference_decides_the_same)
        elif policy.preemption in RESIZING:
            assert policy.preemption in RESIZING_HERE, name
        elif policy.preemption == "recorded":
            assert callable(Recorded)
        elif policy.preemption == "lucid":
            assert callable(lucid_world)
        elif policy.preemption != "none":
            assert policy.preemption in test_preempt_equality.POLICIES, name
        elif policy.order in strategies.ORDERS:
            assert policy.placement in strategies.PLACEMENTS, name
        else:
            assert policy.order in test_queue_orders.ORDERS, name


def test_policies_verb(invoke: Invoke) -> None:
    listed = json.loads(invoke("policies", "--json").stdout)
    assert [row["name"] for row in listed] == [*(policy.name for policy in policies()), *BUILT_IN]
    assert all(row["paper"] for row in listed)
    preemptive = {row["name"] for row in listed if row["preemptive"]}
    assert preemptive == {*test_preempt_equality.POLICIES, "repack", *RESIZING, "gavel", "sia"}
    clairvoyant = {row["name"] for row in listed if row["clairvoyant"]}
    assert clairvoyant == {"sjf", "ls", "sjf-bco", "srtf", "srsf", "ftf", *RESIZING, "allox"}
    assert {row["name"]: row["clairvoyant_with"] for row in listed if row["clairvoyant_with"]} == {
        "qssf": ["with --predict exact"],
        "repack": ["with --predict exact"],
        "edf": ["with --admission"],
        "gavel": ["with -P shares=finish-time"],
    }
    refused = {row["name"]: set(row["refuses"]) for row in listed}
    assert all({*row["knows"]} == {*listed[0]["knows"]} - refused[row["name"]] for row in listed)
    assert {name: features for name, features in refused.items() if features} == {
        "recorded": {"evict", "quota"}
    }
    output = invoke("replay", "--help-all").stdout
    for row in listed:
        assert all(option.split()[0] in output for option in row["options"]), row
    table = invoke("policies").stdout
    assert all(policy.name in table for policy in policies())


def test_emptiest_takes_the_servers_with_most_idle_gpus(tmp_path: Path) -> None:
    """Idle GPUs 3, 8, 5, 5. Six are on one server; of nine the rest is on the next, the lower on ties."""
    cluster = tmp_path / "c.toml"
    cluster.write_text("".join(f"[[servers]]\ngpus = {gpus}\n" for gpus in (3, 8, 5, 5)))
    jobs = [(0, 6, 9), (10, 9, 9), (20, 20, 9), (20, 2, 9)]
    outcome = run(jobs, str(cluster), "fifo", placement="emptiest")
    assert servers(outcome) == [[1], [1, 2], [0, 1, 2, 3], [1]]
    held = outcome.allocations.filter(pl.col("job_id") == "2")  # type: ignore[union-attr]
    assert held["num_gpus"].to_list() == [2, 8, 5, 5]
    assert outcome.jobs["start_time"].to_list() == [0.0, 10.0, 20.0, 29.0]


@pytest.mark.long
def test_a_run_says_what_it_knew_beforehand(invoke: Invoke, small_jobs: Path) -> None:
    clairvoyant = {name for name, policy in PRESETS.items() if of_policy(policy)[0]}
    for policy in policies():
        if not (policy.is_("by deadlines") or policy.is_("as recorded")):
            options = run([(0, 1, 5)], "1x1", policy.name).run["options"]
            assert bool(foreknowledge({"options": options})) == (policy.name in clairvoyant), policy
    entries: list[tuple[str, dict[str, Any], list[str]]] = [
        ("fifo", {"queue": "easy"}, ["queue easy"]),
        ("qssf", {"predict": "exact"}, ["predict exact"]),
        ("repack", {"predict": "exact"}, ["predict exact"]),
        ("fifo", {"predict": "exact"}, []),
        ("sjf", {"placement": "lbsgf"}, ["order sjf", "placement lbsgf"]),
        ("tiresias", {"placement": "fa-ffp"}, ["placement fa-ffp"]),
    ]
    for name, options, expected in entries:
        assert foreknowledge(run([(0, 1, 5)], "1x1", name, **options).run) == expected
    admitting = run([(0, 1, 5)], "1x1", "edf", [9.0], admission=True)
    assert foreknowledge(admitting.run) == ["admission"]
    assert foreknowledge(plan(small_jobs, "2x8", policy="ff").run) == ["the plan"]
    said = invoke("replay", small_jobs, "--cluster", "2x8", "--policy", "sjf", "-o", "r").stdout
    assert said.endswith("clairvoyant, reading recorded run times: order sjf\n")
    pair = ("--policy", "fifo", "--policy", "sjf")
    said = invoke("compare", small_jobs, "--cluster", "2x8", *pair, "-o", "c").stdout
    assert said.endswith("clairvoyant, reading recorded run times: sjf (order sjf)\n")


def test_options_that_cannot_be_meant() -> None:
    jobs = [(0, 1, 5)]
    refused: list[tuple[str, dict[str, Any]]] = [
        ("srtf", {"order": "sjf"}),
        ("tiresias", {"queue": "easy"}),
        ("srtf", {"preempt_cost": -1.0}),
        ("srtf", {"admission": True}),
        ("srtf", {"aging": 5.0}),
        ("fifo", {"aging": 5.0}),
        ("sjf", {"aging": -1.0}),
        ("fifo", {"estimate_factor": 0.0}),
        ("qssf", {"predict": "stars"}),
        ("tiresias", {"thresholds": [5.0, 5.0]}),
        ("tiresias", {"thresholds": [0.0]}),
        ("tiresias", {"interval": 0.0}),
        ("time-slice", {"quantum": 30.0}),
        ("time-slice", {"quantum": 60.0, "clock": "slot", "slot": 60.0}),
    ]
    for policy, options in refused:
        with pytest.raises(UsageError):
            run(jobs, "1x1", policy, **options)
    with pytest.raises(InputError, match="column deadline"):
        run(jobs, "1x1", "edf")
    with pytest.raises(InputError, match="admission refused"):
        run(jobs, "1x1", "edf", [1.0], admission=True)


def test_run_toml_names_the_options(tmp_path: Path) -> None:
    outcome = run([(0, 1, 5)], "1x1", "tiresias", thresholds=[10.0, 20.0], interval=5.0)
    outcome.write(tmp_path / "result")
    options = Outcome.read(tmp_path / "result").run["options"]
    assert (options["policy"], options["thresholds"]) == ("tiresias", [10.0, 20.0])
    assert (options["interval"], options["preempt_cost"], options["admission"]) == (5.0, 30.0, False)


@pytest.mark.parametrize(("after", "longer"), [("inf", 0.0), ("20", 7.0)])
def test_nobody_wakes_a_server_that_never_sleeps(after: str, longer: float) -> None:
    assert waking({"sleep_after": float(after), "wake_time": 7.0}) == longer
