"""Requests beside jobs: cases worked by hand, files, options and figures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

import ringbco
from conftest import SHARED, Invoke
from ringbco.errors import InputError
from ringbco.result.tables import TABLES
from ringbco.run.again import read_repeat

HAND = SHARED / "cases" / "requests.json"
JOB = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [0.001]})
TOKENS = {
    "kind": "tokens",
    "gpus": 1,
    "step": 0.01,
    "prefill": 0.0001,
    "decode": 0.001,
    "max_running": 8,
    "kv_tokens": 1000,
    "scale": "fixed",
    "replicas": 1,
}


def replay(
    requests: Any, services: Any, cluster: str = "8x1", jobs: Any = JOB, **options: Any
) -> ringbco.Outcome:
    return ringbco.replay(
        jobs,
        cluster,
        **{"policy": "fifo", "model": "fixed", "request_rows": True, **options},
        requests=requests,
        services=services,
    )


@pytest.mark.skipif(not HAND.exists(), reason="the cases worked by hand are not here")
@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 6, 7])
def test_cases_worked_by_hand(place: int) -> None:
    case = json.loads(HAND.read_text(encoding="utf-8"))["cases"][place]
    told = case.get("replicas", [])
    fails = [(at, each["end_time"], 1e3) for at, each in enumerate(told) if each["end_time"] is not None]
    options: dict[str, Any] = {}
    jobs, cluster = JOB, f"{len(told) + 1}x1" if told else "8x1"
    if fails:
        options["outages"] = pl.DataFrame(fails, ["server", "down_at", "up_at"], orient="row")
        # On the last server, so that a lost replica is not made up for.
        jobs = JOB.with_columns(duration=pl.lit(10.0), preemptible=pl.lit(False))
    outcome = replay(pl.DataFrame(case["requests"]), {"chat": case["service"]}, cluster, jobs, **options)
    rows = outcome.requests
    assert rows is not None
    columns = ["replica", "start", "first_token", "finish"]
    assert rows.select(columns).rows() == [tuple(row[name] for name in columns) for row in case["expect"]]
    (own,) = outcome.summary["services"]
    summary = case.get("summary", {})
    for key, value in summary.items():
        if key != "replicas":
            assert own[key] == pytest.approx(value, rel=1e-12), key
    if "replicas" in summary:
        replicas = outcome.replicas
        assert replicas is not None
        found = replicas.select("start_time", "drains_from", "end_time").rows()
        assert found == [tuple(row) for row in summary["replicas"]]


BUSY = pl.DataFrame(
    {
        "job_id": [f"j{row}" for row in range(12)],
        "submit_time": [5.0 * row for row in range(12)],
        "num_gpus": [1, 2, 4] * 4,
        "duration": [30.0] * 12,
    }
)
ASKED = pl.DataFrame(
    {
        "service": ["chat", "search"] * 40,
        "arrival": [1.3 * row for row in range(80)],
        "input_tokens": [30 + row % 7 for row in range(80)],
        "output_tokens": [20 + row % 11 for row in range(80)],
    }
)
CHAT = TOKENS | {"step": 0.2, "max_running": 2, "startup": 1.0, "scale": "target", "min": 1, "max": 3}
CHAT = {key: value for key, value in CHAT.items() if key != "replicas"}
CHAT |= {"target": 2.0, "every": 5.0, "down_after": 10.0, "drain": 4.0, "slo": {"first_token": 2.0}}
SEARCH = {"kind": "batch", "gpus": 2, "seconds": [[1, 3.0], [4, 6.0]], "max_wait": 1.0, "scale": "file"}
SEARCH |= {"counts": "counts.csv"}


def document(tables: dict[str, dict[str, Any]]) -> str:
    def shown(value: object) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {shown(each)}" for key, each in value.items()) + "}"
        return f'"{value}"' if isinstance(value, str) else repr(value)

    lines = []
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {shown(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """jobs.parquet, requests.csv, serving.toml and its table of counts."""
    BUSY.write_parquet(tmp_path / "jobs.parquet")
    ASKED.write_csv(tmp_path / "requests.csv")
    (tmp_path / "serving.toml").write_text(document({"chat": CHAT, "search": SEARCH}))
    counts = {"service": "search", "time": [0.0, 40.0, 70.0], "replicas": [1, 2, 1]}
    pl.DataFrame(counts).write_csv(tmp_path / "counts.csv")
    return tmp_path


def run(files: Path, **options: Any) -> ringbco.Outcome:
    return replay(files / "requests.csv", files / "serving.toml", "3x4", files / "jobs.parquet", **options)


def same(one: ringbco.Outcome, other: ringbco.Outcome) -> None:
    for name in TABLES:
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None), name
        assert mine is None or mine.equals(theirs), name
    assert other.summary["services"] == one.summary["services"]


def test_a_folder_repeats_its_run(files: Path) -> None:
    made = run(files, decisions=True)
    made.write(files / "r")
    same(ringbco.Outcome.read(files / "r"), made)
    # The run needs the requests again, but no other file.
    (files / "serving.toml").unlink()
    (files / "counts.csv").unlink()
    same(read_repeat(files / "r").run(), made)
    log = f"log:{files / 'r' / 'decisions.parquet'}"
    followed = ringbco.replay(files / "jobs.parquet", "3x4", policy=log)
    assert followed.jobs.equals(made.jobs)
    assert followed.latency is not None
    assert followed.latency.equals(made.latency)
    (files / "requests.csv").write_text("arrival\n0\n")
    with pytest.raises(InputError, match="it has changed"):
        read_repeat(files / "r")


def test_files_frames_and_documents_are_the_same(files: Path) -> None:
    made = run(files)
    counts = [[0.0, 1], [40.0, 2], [70, 1]]
    services = {"chat": CHAT, "search": SEARCH | {"counts": counts}}
    same(replay(ASKED.lazy(), services, "3x4", BUSY), made)
    assert made.run["services"]["tables"] == services
    without = run(files, request_rows=False)
    assert without.requests is None
    assert without.summary["services"] == made.summary["services"]


def test_replicas_drain_in_the_log(files: Path) -> None:
    made = run(files, decisions=True)
    assert made.decisions is not None
    assert made.replicas is not None
    drains = made.decisions.filter(cause="drains").select("time", "service", "replica").sort("time")
    lasting = made.replicas.filter(pl.col("drains_from") < pl.col("end_time"))
    rows = lasting.select(pl.col("drains_from").alias("time"), "service", "replica").sort("time")
    assert rows.height > 0
    assert drains.equals(rows)
    # Without the requests replicas come and go as the log says.
    made.decisions.write_parquet(files / "log.parquet")
    followed = ringbco.replay(BUSY, "3x4", policy=f"log:{files / 'log.parquet'}", model="fixed")
    assert followed.jobs["finish_time"].equals(made.jobs["finish_time"])


def test_samples_tell_what_happened(files: Path) -> None:
    made = run(files, sample=0.5)
    assert made.latency is not None
    assert made.requests is not None
    for name in ("chat", "search"):
        own = made.latency.filter(service=name)
        assert own["arrivals"].sum() == 40
        assert (own["time"].diff().drop_nulls() == 0.5).all()
        rows = made.requests.filter(service=name)
        instant = 20.0
        (at,) = own.filter(time=instant).rows(named=True)
        taken = ((rows["start"] <= instant) & (rows["finish"] > instant)).sum()
        assert at["running"] == taken
    assert made.summary["services"][0]["slo_attainment"] is not None


def test_a_fork_answers_the_same_requests(files: Path) -> None:
    simulation = ringbco.Simulation(
        BUSY, "3x4", model="fixed", requests=ASKED, services=files / "serving.toml"
    )
    outcomes = []

    def to_the_end(run: ringbco.Simulation) -> None:
        while run.advance():
            for row in run.state.waiting:
                run.start(row)

    for _ in range(6):
        simulation.advance()
        for row in simulation.state.waiting:
            simulation.start(row)
    fork = simulation.fork()
    for each in (simulation, fork):
        to_the_end(each)
        outcomes.append(each.outcome())
    same(*outcomes)
    assert outcomes[0].summary["services"][0]["requests"] == 40


REFUSED = [
    ({"requests": ASKED}, "option requests: a table: expected it with --services FILE.toml"),
    ({"services": {"chat": CHAT}}, "option services: a table: expected a Parquet or CSV file of replicas"),
    ({"requests": ASKED, "services": BUSY}, "services: expected a serving file, TOML"),
    (
        {"requests": ASKED, "services": {"chat": CHAT}},
        "column service: search: expected the name of a table",
    ),
    ({"requests": ASKED, "services": {"chat": CHAT | {"gpus": 9}}}, "chat.gpus: 9: expected an integer"),
    (
        {"requests": ASKED.head(1), "services": {"chat": CHAT}, "clock": "slot", "slot": 60.0},
        "option requests: given: expected none under --clock slot",
    ),
    ({"jobs": BUSY.clear()}, "with the row placeholder,0,1,1"),
    (
        {"requests": ASKED.head(1), "services": {"chat": CHAT | {"min": 3, "max": 3, "gpus": 4}}},
        "every job to finish",
    ),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ringbco.errors.RingbcoError, match=re.escape(said)) as caught:
        ringbco.replay(**{"jobs": BUSY, "cluster": "3x4", "policy": "fifo", "model": "fixed", **options})
    assert "\n" not in str(caught.value)


def test_requests_that_nobody_can_answer_end_the_run() -> None:
    down = pl.DataFrame({"server": [0, 1, 2], "down_at": [50.0] * 3, "up_at": [None] * 3})
    asked = pl.DataFrame({"arrival": [1.0, 60.0], "input_tokens": 1, "output_tokens": 1})
    with pytest.raises(InputError, match="every request to be answered, but those of service chat"):
        replay(asked, {"chat": CHAT}, "3x4", BUSY.head(1), outages=down)


def test_virtual_clusters_and_shares_are_refused() -> None:
    shared = JOB.with_columns(gpu_share=0.5)
    with pytest.raises(ringbco.errors.UsageError, match="shares of a GPU"):
        replay(ASKED.head(1), {"chat": CHAT}, "2x4", shared, placement="best-fit")


def test_a_sweep_a_bound_and_the_command_line_take_them(files: Path, invoke: Invoke) -> None:
    base = {"trace": "jobs.parquet", "cluster": "3x4", "model": "fixed", "policy": "fifo"}
    base |= {"requests": "requests.csv", "services": "serving.toml"}
    lines = (f'{name} = "{value}"' for name, value in base.items())
    (files / "s.toml").write_text("\n".join(["[base]", *lines, "[grid]", "seed = [1, 2]", ""]))
    swept = ringbco.sweep(files / "s.toml", files / "out").frame
    made = run(files).summary
    assert swept["mean_jct"].to_list() == [made["mean_jct"]] * 2
    assert swept["p99_latency.chat"].to_list() == [made["services"][0]["p99_latency"]] * 2
    given = {"requests": files / "requests.csv", "services": files / "serving.toml"}
    assert 0 < ringbco.bound(BUSY, "3x4", model="fixed", **given).mean_jct <= made["mean_jct"]
    options = [word for name, path in given.items() for word in (f"--{name}", path)]
    told = invoke(
        *("replay", files / "jobs.parquet", "--cluster", "3x4", "--policy", "fifo", "--model", "fixed"),
        *(*options, "--json", "-o", files / "r"),
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["services"] == made["services"]
    again = invoke("replay", "--again", files / "r")
    assert again.returncode == 0, again.stderr


TYPED = """
[gpu_types.slow]
speed = 1.0
price_per_hour = 2.0
[gpu_types.fast]
speed = 2.0
price_per_hour = 4.0
[[servers]]
gpus = 1
gpu_type = "slow"
[[servers]]
gpus = 1
gpu_type = "fast"
[[servers]]
gpus = 1
gpu_type = "slow"
"""


def test_a_gpu_type_is_as_fast_and_as_dear_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(TYPED)
    service = {"kind": "batch", "gpus": 1, "seconds": [[1, 1.0]], "scale": "fixed", "replicas": 2}
    asked = pl.DataFrame({"arrival": [0.0, 0.0]})
    made = replay(asked, {"s": service}, str(tmp_path / "c.toml"))
    assert made.requests is not None
    assert made.requests.select("replica", "finish").rows() == [(0, 1.0), (1, 0.5)]
    (own,) = made.summary["services"]
    # Both replicas hold their GPUs for the second that the run lasts.
    assert own["cost_per_1000_requests"] == pytest.approx(1000 * (2.0 + 4.0) / 3600 / 2)
    assert own["busy_share"] == 0.75


def test_draining_replicas_finish_and_jobs_get_their_gpus() -> None:
    # Replica 1 has one request when it drains at 10, to 12; the job of 2 GPUs then starts.
    service = {"kind": "batch", "gpus": 1, "seconds": [[1, 8.0]], "drain": 5.0, "scale": "file"}
    service |= {"counts": [[0.0, 2], [10.0, 1], [13.0, 0], [20.0, 1]]}
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [1.0], "num_gpus": [1], "duration": [3.0]})
    asked = pl.DataFrame({"arrival": [4.0, 4.0, 11.0]})
    made = replay(asked, {"s": service}, "1x2", jobs.with_columns(preemptible=pl.lit(False)))
    assert made.replicas is not None
    columns = ("replica", "start_time", "serves_from", "drains_from", "end_time", "ended")
    assert made.replicas.select(columns).rows() == [
        (0, 0.0, 0.0, 13.0, 18.0, "surplus"),
        (1, 0.0, 0.0, 10.0, 12.0, "surplus"),
        (2, 20.0, 20.0, None, 28.0, "end of run"),
    ]
    assert made.requests is not None
    # Replica 0 takes row 2 at 12 and would answer it at 20: at 18 it is given back.
    assert made.requests.select("replica", "start", "finish").rows() == [
        (0, 4.0, 12.0),
        (1, 4.0, 12.0),
        (2, 20.0, 28.0),
    ]
    assert made.jobs["start_time"].to_list() == [12.0]
    (own,) = made.summary["services"]
    assert own["begun_anew"] == 1
    assert own["replica_seconds_wanted"] == 2 * 10.0 + 3.0 + 8.0
    assert own["replica_seconds_served"] == 13.0 + 10.0 + 8.0
    assert own["gpu_hours"] == pytest.approx((18.0 + 12.0 + 8.0) / 3600)


def test_ticks_and_requests_are_no_events_to_a_policy() -> None:
    class Counted(ringbco.Policy):
        asked: ClassVar[list[float]] = []

        def decide(self, state: ringbco.State) -> None:
            Counted.asked.append(state.now)
            for row in state.waiting:
                state.start(row)

    service = CHAT | {"min": 1, "max": 1, "every": 0.5}
    jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_time": [3.0, 8.0], "num_gpus": 1, "duration": 10.0})
    ringbco.replay(
        jobs, "1x4", Counted, model="fixed", requests=ASKED.filter(service="chat"), services={"chat": service}
    )
    # Jobs come at 3 and 8; the first is done at 13, and nobody is left to decide of at 18.
    assert Counted.asked == [3.0, 8.0, 13.0]


def test_requests_that_are_left_out_are_counted_once() -> None:
    asked = {"Timestamp": [0.0, 1.0, 2.0], "Request tokens": 10, "Response tokens": [5, 0, 3]}
    with pytest.warns(UserWarning, match="1 of 3 requests is left out: failed, with 0 response") as said:
        outcome = replay(pl.DataFrame(asked), {"chat": TOKENS})
    assert len(said) == 1
    assert outcome.requests is not None
    assert outcome.requests["row"].to_list() == [0, 2]


def test_requests_may_come_after_the_last_job() -> None:
    requests = pl.DataFrame({"arrival": [90.0], "input_tokens": [10], "output_tokens": [2]})
    assert "warnings" not in replay(requests, {"chat": TOKENS}).run
