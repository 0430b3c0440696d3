"""The lower bound: against a plain reference model, exact optima of small instances, and every policy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ringbco
from conftest import Invoke
from custom_policies import Stretchy
from frames import cluster_of
from ringbco import _core
from ringbco.cluster.spec import Cluster, ServerGroup
from ringbco.errors import InputError, UsageError
from ringbco.result.bound import lower_bound
from ringbco.run.options import policies
from ringbco.trace.jobs import from_frame

ROOT = Path(__file__).parents[2]
Job = tuple[float, float, float]  # submitted, the shortest run time, the work in seconds of all GPUs


# The reference model


def runs(jobs: list[Job], *, remaining: bool) -> tuple[list[float], list[float]]:
    """Completions and mean busy times where at each time the job with the least work, or rest of it, runs."""
    left = [work for _, _, work in jobs]
    ends, means = [0.0] * len(jobs), [0.0] * len(jobs)
    now = 0.0
    while max(left) > 0:
        there = [job for job in range(len(jobs)) if left[job] > 0 and jobs[job][0] <= now]
        coming = [submit for submit, _, _ in jobs if submit > now]
        if not there:
            now = min(coming)
            continue
        job = min(there, key=lambda job: left[job] if remaining else jobs[job][2])
        end = min([now + left[job], *coming])
        means[job] += (end - now) / jobs[job][2] * (now + end) / 2
        if now + left[job] <= end:
            left[job], ends[job] = 0.0, end
        else:
            left[job] -= end - now
        now = end
    return ends, means


def plain(jobs: list[Job]) -> float:
    """The bound of jobs in order of submission, as docs/bound.md defines it."""
    submitted = sum(submit for submit, _, _ in jobs)
    ends, _ = runs(jobs, remaining=True)
    alone = sorted(submit + shortest for submit, shortest, _ in jobs)
    in_order = sum(map(max, sorted(ends), alone)) - submitted
    _, means = runs(jobs, remaining=False)
    busy = sum(means) + sum(shortest / 2 for _, shortest, _ in jobs) - submitted
    whole = max(sum(shortest for _, shortest, _ in jobs), in_order, busy)
    half = len(jobs) // 2
    return max(whole, plain(jobs[:half]) + plain(jobs[half:])) if half else whole


times = st.one_of(st.integers(0, 12).map(float), st.floats(0.0, 50.0))
lengths = st.one_of(st.integers(1, 9).map(float), st.floats(0.1, 40.0))


@given(st.lists(st.tuples(times, lengths, st.integers(1, 8)), min_size=1, max_size=14), st.integers(8, 20))
def test_the_engine_gives_what_the_reference_gives(drawn: list[tuple[float, float, int]], gpus: int) -> None:
    drawn.sort(key=lambda job: job[0])
    submit, shortest, size = (np.array(column, dtype=np.float64) for column in zip(*drawn, strict=True))
    result = lower_bound(submit, shortest, shortest * size, gpus)
    jobs = [(at, time, time * num / gpus) for at, time, num in drawn]
    assert result.total == pytest.approx(plain(jobs), rel=1e-9)
    assert sum(result.set_jobs.values()) == result.jobs == len(jobs)
    assert sum(result.sets.values()) <= len(jobs)
    assert result.total >= sum(shortest) * (1 - 1e-9)
    backwards = lower_bound(submit[::-1].copy(), shortest[::-1].copy(), (shortest * size)[::-1].copy(), gpus)
    assert backwards.jobs == result.jobs  # the rows' order is free, but for ties
    if len(set(submit)) == len(submit):
        assert backwards == result


@given(st.integers(0, 2**32 - 1))
def test_less_room_or_more_jobs_never_lower_it_and_a_later_start_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 200))
    submit = np.sort(rng.uniform(0, 10 * count, count))
    shortest, size = rng.lognormal(2, 1, count), rng.integers(1, 9, count)
    work = shortest * size
    total = lower_bound(submit, shortest, work, 8).total
    # The terms are monotonic one by one, so the largest over the same halvings is too.
    assert lower_bound(submit, shortest, work, 16).total <= total * (1 + 1e-9)
    assert lower_bound(submit, shortest * 1.5, work * 1.5, 8).total >= total * (1 - 1e-9)
    assert lower_bound(submit + 1e6, shortest, work, 8).total == pytest.approx(total, rel=1e-7)


def test_many_threads_give_one_result() -> None:
    rng = np.random.default_rng(1)
    count = 1 << 13
    # A rush of small jobs, one of jobs as large as the cluster, and two quiet times.
    span, size = np.repeat([1e3, 1e3, 1e8, 1e8], count), np.repeat([1, 64, 1, 1], count)
    begin = np.repeat([0.0, 1e7, 1e8, 2e8], count)
    submit = np.sort(begin + span * rng.uniform(size=4 * count))
    shortest = rng.lognormal(2, 1, 4 * count)
    work = shortest * size
    first, *others = [lower_bound(submit, shortest, work, 64) for _ in range(4)]
    assert all(other == first for other in others)
    assert min(first.sets.values()) > 0


# Exact optima


def optimum(jobs: list[dict[str, int]], gpus: int) -> int:
    """The least sum of completions less submissions where GPUs are all alike, decided anew each second.

    A job does as many GPU-seconds a second as it has GPUs, from its min_gpus to its max_gpus.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    horizon = max(job["submit"] for job in jobs) + sum(
        -(-job["num_gpus"] * job["duration"] // job["min_gpus"]) for job in jobs
    )
    held: list[list[Any]] = []
    ends = []
    for row, job in enumerate(jobs):
        room = min(job["max_gpus"], gpus)
        end = model.new_int_var(0, horizon, f"end{row}")
        mine: list[Any] = [0] * job["submit"]
        for second in range(job["submit"], horizon):
            on = model.new_bool_var(f"on{row},{second}")
            width = model.new_int_var(0, room, f"gpus{row},{second}")
            model.add(width >= job["min_gpus"] * on)
            model.add(width <= room * on)
            model.add(end >= second + 1).only_enforce_if(on)
            mine.append(width)
        model.add(sum(mine) >= job["num_gpus"] * job["duration"])
        held.append(mine)
        ends.append(end)
    for second in range(horizon):
        model.add(sum(mine[second] for mine in held) <= gpus)
    model.minimize(sum(ends))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return int(solver.objective_value) - sum(job["submit"] for job in jobs)


@pytest.mark.long
@pytest.mark.parametrize("elastic", [False, True])
def test_no_optimum_is_below_the_bound(elastic: bool) -> None:
    pytest.importorskip("ortools.sat.python.cp_model", reason="the exact solver is not installed")
    rng = np.random.default_rng(7)
    gaps = []
    for _ in range(40):
        gpus = int(rng.integers(2, 5))
        jobs = []
        for _ in range(int(rng.integers(2, 6))):
            size = int(rng.integers(1, gpus + 1))
            least, most = (
                (int(rng.integers(1, size + 1)), size + int(rng.integers(0, 3))) if elastic else (size, size)
            )
            jobs.append(
                {
                    "submit": int(rng.integers(0, 5)), "num_gpus": size, "duration": int(rng.integers(1, 6)),
                    "min_gpus": least, "max_gpus": most,
                }
            )  # fmt: skip
        frame = pl.DataFrame(jobs).rename({"submit": "submit_time"})
        frame = frame.with_columns(job_id=pl.int_range(pl.len()).cast(pl.String))
        bound = ringbco.bound(frame, f"1x{gpus}", model="fixed", tight=True)
        gaps.append(optimum(jobs, gpus) / bound.total - 1)
    assert min(gaps) >= -1e-9
    assert min(gaps) < 1e-9  # it is reached
    assert float(np.mean(gaps)) < 0.3


# Every policy


def table(rng: np.random.Generator, *, vcs: bool) -> pl.DataFrame:
    """Up to 25 jobs that a cluster of four servers of 4 GPUs holds, crowded enough to wait and to contend."""
    count = int(rng.integers(1, 26))
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(count)],
            "submit_time": np.round(np.sort(rng.uniform(0, 600, count)), int(rng.integers(0, 4))),
            "num_gpus": rng.choice(np.array([1, 1, 2, 4, 8], dtype=np.uint32), count),
            "duration": rng.lognormal(5, 1, count),
            "vc": rng.choice(["a", "b"], count) if vcs else ["a"] * count,
            "user": rng.choice(["u", "v"], count),
            "deadline": np.full(count, 1e9),
        }
    )


HALVES = Cluster.from_groups([ServerGroup(2, 4, "a"), ServerGroup(2, 4, "b")], name="halves")


@pytest.mark.long
def test_no_policy_is_below_the_bound_where_rings_are_faster_over_two_servers() -> None:
    """Cases of every other kind are in `cases.bounded`."""
    below = 0
    network = {"inter_bandwidth": 1e12, "intra_bandwidth": 1e9, "xi2": 0.0}
    for seed, policy in enumerate(policies()):
        for vcs in (False, True) if policy.name != "recorded" else ():
            jobs = table(np.random.default_rng([seed, vcs]), vcs=vcs)
            cluster = (HALVES if vcs else Cluster.parse("4x4")).with_network(**network)
            outcome = ringbco.replay(jobs, cluster, policy=policy.name, seed=seed)
            mean = outcome.summary["mean_jct"]
            assert mean >= ringbco.bound(jobs, cluster, seed=seed).mean_jct * (1 - 1e-9), policy.name
            # Some do end before their ideal run time.
            below += mean < float(np.mean(outcome.jobs["ideal_run_time"].to_numpy())) * (1 - 1e-9)
    assert below > 0


@pytest.mark.long
@pytest.mark.parametrize("model", ["fixed", "rar"])
def test_no_elastic_schedule_is_below_the_bound(model: str) -> None:
    faster = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rigid = table(rng, vcs=False)
        jobs = rigid.with_columns(
            min_gpus=pl.max_horizontal(pl.col("num_gpus") // 4, 1), max_gpus=pl.col("num_gpus") * 2
        )
        outcome = ringbco.replay(jobs, "4x4", policy=Stretchy, model=model, seed=seed)
        bound = ringbco.bound(jobs, "4x4", model=model, seed=seed)
        mean = outcome.summary["mean_jct"]
        assert mean >= bound.mean_jct * (1 - 1e-9)
        faster += mean < ringbco.bound(rigid, "4x4", model=model, seed=seed).mean_jct
    assert faster  # than any schedule of rigid jobs


# By hand


def of(
    submit: list[float], num_gpus: list[int], duration: list[float], cluster: str | Cluster, **more: Any
) -> ringbco.Bound:
    options = {name: more.pop(name) for name in ("oversize",) if name in more}
    columns = {"submit_time": submit, "num_gpus": num_gpus, "duration": duration, **more}
    names = [f"j{row}" for row in range(len(submit))]
    return ringbco.bound(pl.DataFrame({"job_id": names, **columns}), cluster, model="fixed", **options)


def test_the_example_of_the_page() -> None:
    result = of([0.0] * 4 + [100.0, 200.0, 300.0, 400.0], [1] * 8, [2.0] * 4 + [3.0] * 4, "1x2")
    assert result.total == pytest.approx(12.0 + 12.0, rel=1e-9)
    assert (result.jobs, result.mean_jct) == (8, result.total / 8)
    assert result.sets == {"run_times": 1, "srpt": 0, "busy": 1}
    assert result.set_jobs == {"run_times": 4, "srpt": 0, "busy": 4}


def test_virtual_clusters_have_their_own_bounds() -> None:
    # Alone at "a"; two whole clusters at once at "b".
    result = of([0.0, 0.0, 0.0], [4, 8, 8], [5.0, 10.0, 10.0], HALVES, vc=["a", "b", "b"])
    assert {name: part.total for name, part in result.vcs.items()} == pytest.approx({"a": 5.0, "b": 30.0})
    assert (result.total, result.jobs) == (pytest.approx(35.0), 3)
    assert result.set_jobs == {"run_times": 1, "srpt": 2, "busy": 0}
    pooled = of([0.0, 0.0, 0.0], [4, 8, 8], [5.0, 10.0, 10.0], HALVES.pooled(), vc=["a", "b", "b"])
    assert pooled.vcs == {}
    assert pooled.total < result.total


def test_elastic_jobs_may_run_on_any_gpus_in_their_range() -> None:
    assert of([0.0], [2], [10.0], "1x8").total == 10.0
    assert of([0.0], [2], [10.0], "1x8", max_gpus=[5]).total == pytest.approx(4.0)
    assert of([0.0], [2], [10.0], "1x8", max_gpus=[50]).total == pytest.approx(2.5)
    # On one GPU a ring sends nothing, so its work is less.
    frame = pl.DataFrame(
        {
            "job_id": ["a"], "submit_time": [0.0], "num_gpus": [4], "duration": [1.0], "iterations": [100],
            "gradient_bytes": [1e9], "bp_time": [0.1], "min_gpus": [1],
        }
    )  # fmt: skip
    network = {"intra_bandwidth": 1e9, "reduce_speed": 1e12, "xi2": 0.0}
    cluster = Cluster.parse("1x4").with_network(inter_bandwidth=1e8, **network)
    assert ringbco.bound(frame, cluster).total == pytest.approx(100 * 0.1)
    rigid = frame.drop("min_gpus")
    assert ringbco.bound(rigid, cluster).total == pytest.approx(100 * (0.1 + 2 * 0.75 + 0.75e-3))
    # Over two servers, where links between them are faster.
    fast = Cluster.parse("2x4").with_network(inter_bandwidth=1e10, **network)
    assert ringbco.bound(rigid, fast).total == pytest.approx(100 * (0.1 + 2 * 0.075 + 0.75e-3))


def test_jobs_that_are_too_large() -> None:
    with pytest.raises(InputError, match=r"row 2, .*: 9: .*cluster has 8; .*--oversize drop"):
        of([0.0, 0.0], [8, 9], [5.0, 5.0], "2x4")
    result = of([0.0, 0.0], [8, 9], [5.0, 5.0], "2x4", oversize="drop")
    assert (result.jobs, result.dropped, result.total) == (1, 1, 5.0)
    with pytest.raises(InputError, match="no job is left"):
        of([0.0], [9], [5.0], "2x4", oversize="drop")


@pytest.mark.parametrize(("name", "value"), [("model", "fast"), ("seed", -1), ("oversize", "keep")])
def test_options_that_are_none(small_jobs: Path, name: str, value: object) -> None:
    with pytest.raises(UsageError, match=name):
        ringbco.bound(small_jobs, "2x8", **{name: value})  # type: ignore[arg-type]


def test_options_that_make_a_schedule_worse_change_nothing(small_jobs: Path) -> None:
    jobs = ringbco.read_jobs(small_jobs).frame.with_columns(user=pl.lit("u"), priority=pl.lit(1))
    quota = pl.DataFrame({"user": ["u"], "gpus": [4], "borrow": [False]})
    outages = pl.DataFrame({"server": [0], "down_at": [5.0], "up_at": [50.0]})
    services = pl.DataFrame({"service": ["s"], "time": [0.0], "replicas": [1], "gpus_per_replica": [2]})
    more: dict[str, Any] = {"quota": quota, "evict": True, "outages": outages, "services": services}
    more |= {"clock": "slot", "slot": 60.0, "sleep_after": 5.0, "wake_time": 9.0, "start_cost": 7.0}
    more |= {"placement": "first-fit", "queue": "conservative", "decisions": True, "reservations": 3}
    more |= {"order": "fairshare", "half_life": 9.0, "aging": 5.0, "preempt_cost": 3.0, "preempt_after": 2.0}
    more |= {"fair_shares": pl.DataFrame({"user": ["u"], "share": [0.5]}), "estimate_factor": 0.5}
    assert ringbco.bound(jobs, "2x8", **more) == ringbco.bound(jobs, "2x8")
    with pytest.raises(InputError, match="server"):
        ringbco.bound(jobs, "2x8", outages=outages.with_columns(server=9))


@pytest.mark.parametrize(("name", "value"), [("search", "asha:eta=2,rungs=2"), ("admission", True)])
def test_what_ends_jobs_is_refused(small_jobs: Path, name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"option {name}: .* have no row, and the bound is of jobs"):
        ringbco.bound(small_jobs, "2x8", **{name: value})  # type: ignore[arg-type]


def test_measured_speeds_by_hand() -> None:
    """a may use the fast type; b may not, and does best on one GPU for each that it holds; c shares."""
    types = "[gpu_types.slow]\n[gpu_types.fast]\n" + "".join(
        f'[[servers]]\ngpus = 4\ngpu_type = "{name}"\n' for name in ("slow", "fast")
    )
    rates = [
        ("m", "slow", 1, 1, 1.0),
        ("m", "slow", 4, 1, 2.0),
        ("m", "fast", 1, 1, 3.0),
        ("m", "fast", 4, 1, 8.0),
    ]
    tables = pl.DataFrame(rates, ["model", "gpu_type", "gpus", "servers", "rate"], orient="row")
    frame = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"], "submit_time": [0.0, 1e6, 2e6], "num_gpus": [4, 4, 1],
            "duration": [1.0] * 3, "iterations": [240] * 3, "model": ["m"] * 3, "min_gpus": [4, 1, 1],
            "gpu_type": [None, "slow", "slow"], "gpu_share": [None, None, 0.5],
        }
    )  # fmt: skip
    bound = ringbco.bound(frame, cluster_of(types), model="table", tables=tables)
    assert bound.total == pytest.approx(240 / 8 + 240 / 2 + 240 / 1)
    pair = {"partner": ["m"], "partner_rate": [1.0]}
    beside = pl.DataFrame([("m", "slow", 1, 1, 6.0)], tables.columns, orient="row").with_columns(
        **{name: pl.Series(values) for name, values in pair.items()}
    )
    faster = pl.concat([tables, beside], how="diagonal")
    bound = ringbco.bound(frame, cluster_of(types), model="table", tables=faster)
    assert bound.total == pytest.approx(240 / 8 + 240 / 2 + 240 / 6)
    # Forty at once on four GPUs: each takes 240 GPU-seconds at least, those of one GPU.
    crowd = pl.concat([frame[1:2]] * 40).with_columns(job_id=pl.int_range(40).cast(pl.String))
    least = ringbco.bound(crowd, cluster_of(types), model="table", tables=tables).total
    assert least >= sum(240 * number / 8 for number in range(1, 41)) * (1 - 1e-9)


def test_the_engine_refuses_what_is_no_time() -> None:
    good = np.array([1.0, 2.0])
    for submit, shortest, work in (
        (good, good[:1], good), (good, good, -good), (good * np.nan, good, good), (good, good * 0, good)
    ):  # fmt: skip
        with pytest.raises(_core.CoreError):
            _core.bound(submit, shortest, work, 4)
    with pytest.raises(_core.CoreError):
        _core.bound(good, good, good, 0)


# Where it shows


def test_the_verb(invoke: Invoke, small_jobs: Path) -> None:
    output = invoke("bound", str(small_jobs), "--cluster", "1x8", "--model", "fixed", "--units", "seconds")
    bound = ringbco.bound(small_jobs, "1x8", model="fixed")
    assert f"at least {math.floor(bound.mean_jct * 10) / 10:.1f} s" in output.stdout
    assert "virtual cluster" not in output.stdout
    printed = json.loads(
        invoke("bound", str(small_jobs), "--cluster", "1x8", "--model", "fixed", "--json").stdout
    )
    assert printed == bound.to_dict()
    assert printed["mean_jct"] * printed["jobs"] == pytest.approx(printed["total"])


@pytest.mark.parametrize(
    ("seconds", "printed"), [(12.349, "12.3 s"), (12.36, "12.3 s"), (7_199.0, "119.9 min"), (12.3, "12.3 s")]
)
def test_the_verb_rounds_down(invoke: Invoke, tmp_path: Path, seconds: float, printed: str) -> None:
    (tmp_path / "c.toml").write_text(HALVES.to_toml())
    rows = "".join(f"{vc},0,1,{seconds},{vc}\n" for vc in "ab")
    (tmp_path / "j.csv").write_text("job_id,submit_time,num_gpus,duration,vc\n" + rows)
    given = ("bound", "j.csv", "--cluster", "c.toml", "--model", "fixed")
    output = invoke(*given).stdout
    assert f"of any schedule: at least {printed}\n" in output
    assert [
        line.split()[2:] for line in output.splitlines() if line.split()[:2] in (["a", "1"], ["b", "1"])
    ] == [printed.split()] * 2
    assert json.loads(invoke(*given, "--json").stdout)["mean_jct"] == seconds


def test_the_verb_tells_virtual_clusters_and_what_it_left_out(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(HALVES.to_toml())
    rows = "a,0,4,100,a\nb,0,8,100,b\nc,0,9,100,b\n"
    (tmp_path / "jobs.csv").write_text(f"job_id,submit_time,num_gpus,duration,vc\n{rows}")
    command = ["bound", str(tmp_path / "jobs.csv"), "--cluster", str(tmp_path / "c.toml"), "--model", "fixed"]
    output = invoke(*command, "--oversize", "drop").stdout
    assert "2 jobs, 1 left out as too large" in output
    assert "virtual cluster" in output
    assert "elastic" not in output
    refused = invoke(*command)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)


def test_the_verb_says_that_elastic_jobs_may_be_resized(invoke: Invoke, tmp_path: Path) -> None:
    rows = "a,0,2,100,1,5\nb,0,2,100,2,2\nc,0,2,100,,3\nd,0,9,100,,10\n"
    (tmp_path / "jobs.csv").write_text(f"job_id,submit_time,num_gpus,duration,min_gpus,max_gpus\n{rows}")
    command = ("bound", "jobs.csv", "--cluster", "1x8", "--model", "fixed", "--oversize", "drop")
    done = invoke(*command)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nelastic jobs: 2; each may hold min_gpus to max_gpus GPUs here" in done.stdout
    output = json.loads(invoke(*command, "--json").stdout)
    assert (output["jobs"], output["elastic"], output["dropped"]) == (3, 2, 1)
    page = (ROOT / "docs" / "bound.md").read_text(encoding="utf-8")
    table = page.split("| key | content |\n")[1].split("\n\n")[0]
    keys = [name for row in table.splitlines()[1:] for name in row.split("|")[1].strip().split(", ")]
    assert sorted(keys) == sorted(output)


def test_the_bound_drops_the_jobs_that_a_replay_drops_where_types_differ() -> None:
    cluster = Cluster(np.full(2, 8, np.uint32), server_gpu_type=("V100", "T4"))
    jobs = from_frame(
        pl.DataFrame(
            {
                "job_id": ["a", "b", "c"],
                "submit_time": [0.0] * 3,
                "num_gpus": [12, 8, 4],
                "duration": [100.0, 100.0, 50.0],
                "gpu_type": [None, "T4", "V100"],
            }
        )
    )
    bound = ringbco.bound(jobs, cluster, oversize="drop")
    ran = ringbco.replay(jobs, cluster, policy="fifo", oversize="drop")
    assert (bound.jobs, bound.dropped) == (ran.jobs.height, 1)
    with pytest.raises(InputError, match="asks for 12 GPUs, but its cluster has 8"):
        ringbco.bound(jobs, cluster)
