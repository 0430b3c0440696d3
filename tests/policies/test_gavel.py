"""gavel and allox: small cases by hand, on types and virtual clusters, Gavel's own simulator."""

from __future__ import annotations

import ast
import csv
import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ringbco
from conftest import SHARED, Invoke
from frames import cluster_of, typed_servers
from reference.peers import FinishTime
from ringbco.cluster.spec import Cluster
from ringbco.errors import UsageError

pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")

from ringbco.policies.gavel import shares

PEERS: Final = SHARED / "peers" / "gavel"
TYPES: Final = ("v100", "p100", "k80")
TWO: Final = typed_servers((2, 4, "V100"), (3, 2, "T4"))


def jobs_of(*rows: tuple[float, int, float]) -> pl.DataFrame:
    """Jobs a, b, ... from (submit_time, num_gpus, duration)."""
    columns = [[float(row[0]) for row in rows], [row[1] for row in rows], [float(row[2]) for row in rows]]
    names = [chr(ord("a") + number) for number in range(len(rows))]
    return pl.DataFrame([names, *columns], ["job_id", "submit_time", "num_gpus", "duration"], orient="col")


def times(
    jobs: pl.DataFrame, cluster: Cluster | str, policy: str, **parameters: Any
) -> dict[str, tuple[float, float]]:
    """When each job started and finished; the audit has nothing to say."""
    outcome = ringbco.replay(
        jobs, cluster, policy=policy, parameters=parameters, model="fixed", preempt_cost=0.0
    )
    assert ringbco.audit(outcome, jobs) == []
    rows = outcome.jobs.select("job_id", "start_time", "finish_time").rows()
    return {job: (start, finish) for job, start, finish in rows}


def test_rounds_take_turns() -> None:
    two = jobs_of((0, 1, 300), (0, 1, 300))
    assert times(two, "1x1", "gavel", round=100.0) == {"a": (0.0, 500.0), "b": (100.0, 600.0)}


def test_a_gang_gets_less_time() -> None:
    """Of two GPUs b asks for both. Half of the time is worth as much to it as all the time to a."""
    result = shares(np.ones((2, 1)), np.array([1, 2]), np.array([2]))
    assert result[:, 0] == pytest.approx([1.0, 0.5])


def test_who_arrives_waits_for_its_share() -> None:
    jobs = jobs_of((0, 1, 1000), (10, 1, 100))
    given: dict[str, Any] = {"round": 100.0, "renew": 300.0}
    assert times(jobs, "1x2", "gavel", **given)["b"] == (300.0, 400.0)
    assert times(jobs, "1x2", "gavel", **given, newcomers=True)["b"] == (100.0, 200.0)


@pytest.mark.parametrize(("other", "begins"), [(150, 100.0), (80, 80.0)])
def test_a_round_lasts_as_long_as_one_of_its_jobs(other: float, begins: float) -> None:
    jobs = jobs_of((0, 1, 50), (0, 1, other), (60, 1, 10))
    assert times(jobs, "1x2", "gavel", round=100.0, newcomers=True)["c"][0] == begins


def test_a_gang_that_finds_no_room_goes_first_when_it_is_due(tmp_path: Path) -> None:
    """Gangs of 3 leave one GPU a server: b, of 2, would never run if the largest always went first."""
    jobs = jobs_of((0, 3, 4000), (0, 2, 100), (0, 3, 4000))
    assert times(jobs, "2x4", "gavel", round=100.0)["b"][1] < 1000.0


def test_allox_by_hand() -> None:
    """Shortest first on one GPU; nobody who runs is stopped for who arrives later."""
    jobs = jobs_of((0, 1, 30), (0, 1, 10), (5, 1, 1))
    assert times(jobs, "1x1", "allox") == {"a": (11.0, 41.0), "b": (0.0, 10.0), "c": (10.0, 11.0)}


def test_allox_waits_for_a_faster_gpu() -> None:
    """A T4 takes 100 / 0.36 = 278 s, a V100 that is busy for 10 s more 110 s."""
    cluster = cluster_of(typed_servers((1, 1, "V100"), (3, 2, "T4")))
    jobs = jobs_of((0, 1, 10), (0, 1, 100))
    assert times(jobs, cluster, "allox") == {"a": (0.0, 10.0), "b": (10.0, 110.0)}


@pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
@pytest.mark.parametrize("policy", ["gavel", "allox"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
@pytest.mark.parametrize("model", ["fixed", "rar"])
def test_both_on_types_that_jobs_choose(policy: str, clock: str, model: str) -> None:
    """Gangs, jobs of one type alone, pauses: the audit passes, and a second run is the same bytes."""
    cluster = cluster_of(TWO)
    frame = ringbco.generate("philly", 48, 3, gpus=64).frame.drop("vc", strict=False)
    sizes = pl.Series([1, 1, 2, 3, 4, 1, 6, 1] * 6, dtype=pl.UInt32)
    kinds = pl.Series([None, "V100", None, "T4", "V100|T4", "T4", None, "A100|T4"] * 6)
    jobs = ringbco.from_frame(
        frame.with_columns(
            num_gpus=sizes,
            gpu_type=kinds,
            duration=pl.col("duration") * 0.1237,
            submit_time=pl.col("submit_time") / 9,
        )
    )
    runs = [ringbco.replay(jobs, cluster, policy=policy, clock=clock, model=model) for _ in range(2)]
    assert ringbco.audit(runs[0], jobs) == []
    assert runs[0].jobs.height == 48
    assert runs[0].jobs.equals(runs[1].jobs)
    assert runs[0].allocations is not None
    assert runs[0].allocations.equals(runs[1].allocations)


@pytest.mark.parametrize("policy", ["gavel", "allox"])
def test_both_in_virtual_clusters(policy: str) -> None:
    """Each virtual cluster is shared out alone: as if the other were not there."""
    group = '[[servers]]\ncount = 1\ngpus = {}\nvc = "{}"\n'
    jobs = jobs_of(*((9.0 * row, 1 + row % 2, 100.0 + 7 * row) for row in range(20)))
    jobs = jobs.with_columns(vc=pl.Series(["x", "y", "y", "x"] * 5))
    together = times(jobs, cluster_of(group.format(2, "x") + group.format(4, "y")), policy)
    for name, cluster in (("x", "1x2"), ("y", "1x4")):
        mine = jobs.filter(pl.col("vc") == name)
        assert times(mine, cluster, policy) == {job: together[job] for job in mine["job_id"]}


def test_a_policy_by_name_is_repeated_by_name(invoke: Invoke, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    jobs_of((0, 1, 300), (0, 1, 300), (5, 2, 100)).write_csv("jobs.csv")
    ran = invoke("replay", "jobs.csv", "--cluster", "1x2", "--policy", "gavel", "-P", "round=100", "-o", "r")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(Path("r/summary.json").read_text())["policy"] == "gavel"
    again = invoke("replay", "--again", "r")
    assert (again.returncode, again.stderr) == (0, "")
    listed = {row["name"]: row for row in json.loads(invoke("policies", "--json").stdout)}
    assert listed["gavel"]["options"] == ["-P round", "-P renew", "-P newcomers", "-P shares"]
    assert [listed[name]["preemptive"] for name in ("gavel", "allox")] == [True, False]
    assert [listed[name]["clairvoyant"] for name in ("gavel", "allox")] == [False, True]


@pytest.mark.parametrize(
    ("policy", "given", "said"),
    [
        ("gavel", "round=0", "round: 0.0: expected a number of seconds > 0 and <= 1e+09"),
        ("gavel", "round=-360", "round: -360.0: expected a number of seconds > 0 and <= 1e+09"),
        ("gavel", "renew=1e99", "renew: 1e+99: expected a number of seconds >= 0 and <= 1e+09"),
        ("gavel", "renew=-1", "renew: -1.0: expected a number of seconds >= 0 and <= 1e+09"),
        ("gavel", "rounds=5", "rounds: expected one of round, renew, newcomers, shares; policy gavel"),
        ("gavel", "shares=fair", "shares: fair: expected one of max-min, finish-time, first-come"),
        ("allox", "alpha=0", "alpha: 0.0: expected a number > 0 and <= 1"),
        ("allox", "alpha=nan", "alpha: nan: expected a number"),
    ],
)
def test_odd_fields_are_refused(policy: str, given: str, said: str) -> None:
    name, value = given.split("=")
    with pytest.raises(UsageError) as error:
        ringbco.replay(jobs_of((0, 1, 1)), "1x1", policy=policy, parameters={name: value})
    assert str(error.value) == f"option P: {said}"


@pytest.mark.parametrize("policy", ["gavel", "allox"])
def test_without_the_extra_one_line_says_so(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(UsageError) as error:
        ringbco.replay(jobs_of((0, 1, 1)), "1x1", policy=policy)
    said = f"option policy: {policy}: the package highspy is not installed: pip install 'ringbco[lp]'"
    assert str(error.value) == said


def single60(folder: Path) -> tuple[pl.DataFrame, Path]:
    """Gavel's 60 jobs, and a cluster file with its 12 GPUs and its throughputs relative to a V100's."""
    if not PEERS.is_dir():
        pytest.skip(f"needs Gavel's own results in {PEERS}")
    with gzip.open(PEERS / "simulation_throughputs.json.gz", "rt") as file:
        table = json.load(file)
    rates: dict[str, dict[str, float]] = {kind: {} for kind in TYPES}
    for kind in TYPES:
        for key, row in table[kind].items():
            model, gpus = ast.literal_eval(key)
            if gpus == 1:
                rates[kind][model] = row["null"]
    with (PEERS / "single60.trace").open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    models = [row[0] for row in rows]
    jobs = pl.DataFrame(
        {
            "job_id": [str(number) for number in range(len(rows))],
            "submit_time": [float(row[9]) for row in rows],
            "num_gpus": [1] * len(rows),
            "model": models,
            "duration": [int(row[5]) / rates["v100"][row[0]] for row in rows],
        }
    )
    lines = [typed_servers((1, 4, kind)) for kind in TYPES]
    for kind in TYPES:
        lines.append(f"[gpu_types.{kind}]\nspeed = 1.0")
        for model in sorted(set(models)):
            lines.append(f'models."{model}" = {rates[kind][model] / rates["v100"][model]!r}')
    cluster = folder / "gavel.toml"
    cluster.write_text("\n".join(lines), encoding="utf-8")
    return jobs, cluster


@pytest.mark.parametrize(
    ("policy", "theirs", "ratio", "close"),
    [("gavel", "max_min_fairness_perf", 0.9955, 50), ("allox", "allox", 0.814, 10)],
)
def test_beside_gavels_own_simulator(
    policy: str, theirs: str, ratio: float, close: int, tmp_path: Path
) -> None:
    """docs/published.md says why allox differs from Gavel's."""
    jobs, cluster = single60(tmp_path)
    mine = times(jobs, str(cluster), policy)
    with (PEERS / f"single60-{theirs}_jct.csv").open(encoding="utf-8") as file:
        reference = {row["job"]: float(row["jct_s"]) for row in csv.DictReader(file)}
    jct = {row["job_id"]: mine[row["job_id"]][1] - row["submit_time"] for row in jobs.to_dicts()}
    assert jct.keys() == reference.keys()
    result = sum(jct.values()) / sum(reference.values())
    assert result == pytest.approx(ratio, abs=0.005)
    assert sum(abs(jct[job] / reference[job] - 1) < 0.05 for job in jct) >= close


def test_the_length_of_a_round_is_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """--round S is short for -P round=S, in `compare --run` too, and only policies of rounds take it."""
    monkeypatch.chdir(tmp_path)
    Path("two.toml").write_text(TWO)
    Path("jobs.csv").write_text(
        "job_id,submit_time,num_gpus,duration\na,0,4,900\nb,0,4,900\nc,0,8,900\nd,0,8,900\n"
    )
    run = ("replay", "jobs.csv", "--cluster", "two.toml", "--policy", "gavel", "--model", "fixed", "-q")
    for out, more in (("long", ("--round", "500")), ("same", ("-P", "round=500")), ("short", ())):
        assert invoke(*run, *more, "-o", out).returncode == 0
    told = {out: Path(out, "allocations.parquet").read_bytes() for out in ("long", "same", "short")}
    assert told["long"] == told["same"] != told["short"]
    twice = invoke(*run, "--round", "500", "-P", "round=360", "-o", "x")
    assert (twice.returncode, twice.stderr) == (
        2,
        "error: option P: round=500: expected NAME=VALUE, each name once\n",
    )
    other = invoke(*run[:5], "fifo", "--round", "500", "-o", "x")
    assert other.returncode == 2
    assert "option round: 500: expected none beside fifo: gavel and sia have rounds" in other.stderr
    runs = ("--run", "gavel --round 500", "--run", "fifo")
    both = ("compare", "jobs.csv", "--cluster", "two.toml", "--model", "fixed", *runs, "-o", "c", "-q")
    assert invoke(*both).returncode == 0
    (kept,) = Path("c").glob("gavel*/allocations.parquet")
    assert kept.read_bytes() == told["long"]


def test_first_come_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """No solver is needed. Four V100s are a's until 100, then idle until 300: b keeps its T4s, c has no type.

    At 300 both get V100s. b has made 0.36 x 300 s of its 400 by then. With a higher priority c comes first,
    and a, of 4, waits for all V100s.
    """
    monkeypatch.setitem(sys.modules, "highspy", None)
    cluster = cluster_of(typed_servers((1, 4, "V100"), (1, 2, "T4")))
    jobs = jobs_of((0, 4, 100), (0, 2, 400), (0, 2, 1000))
    options: dict[str, Any] = {"round": 100.0, "renew": 300.0, "shares": "first-come"}
    result = times(jobs, cluster, "gavel", **options)
    assert result == {"a": (0.0, 100.0), "b": (0.0, pytest.approx(592.0)), "c": (300.0, 1300.0)}
    jobs = jobs.with_columns(priority=pl.Series([0, None, 1]))
    result = times(jobs, cluster, "gavel", **options)
    assert result == {"a": (1000.0, 1100.0), "b": (0.0, 400.0), "c": (0.0, 1000.0)}


@pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
@pytest.mark.parametrize("seed", range(8))
def test_finish_times_against_a_reference_model(seed: int) -> None:
    rnd = random.Random(seed)
    rows = [(rnd.randint(0, 900), rnd.choice((1, 1, 2, 4, 8)), rnd.randint(50, 3000)) for _ in range(40)]
    jobs = jobs_of(*sorted(rows)).with_columns(job_id=pl.Series([f"j{row}" for row in range(40)]))
    given: dict[str, Any] = {"model": "fixed", "preempt_cost": 7.0}
    parameters = {"shares": "finish-time", "renew": 0.0, "round": 100.0}
    fast = ringbco.replay(jobs, "2x8", policy="gavel", parameters=parameters, **given)
    assert ringbco.audit(fast, jobs) == []
    slow = ringbco.replay(jobs, "2x8", policy=FinishTime(100.0), **given)
    assert_frame_equal(fast.jobs.drop("priority", strict=False), slow.jobs.drop("priority", strict=False))


def test_the_matching_has_as_many_as_gpus_are_idle() -> None:
    """Two GPUs, one idle. Of three that wait alpha takes one, the oldest, though the others are shorter."""
    jobs = jobs_of((0, 1, 100), (0, 1, 10), (1, 1, 50), (2, 1, 5), (3, 1, 6))
    assert times(jobs, "1x2", "allox", alpha=0.1)["c"] == (10.0, 60.0)
    assert times(jobs, "1x2", "allox", alpha=1.0)["c"] == (21.0, 71.0)
