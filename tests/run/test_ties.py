"""`--ties`: who goes first among jobs of one submission time."""

import numpy as np
import polars as pl
import pytest

import ringbco
from cases.case import by_hand
from cases.compare import agreed
from ringbco.errors import UsageError
from ringbco.trace import ties
from ringbco.trace.jobs import from_frame

# One GPU, so that the order of the starts is the order of the queue.
SUBMIT = [0.0, 5.0, 5.0, 5.0, 7.0, 5.0, 7.0]
JOBS = from_frame(
    pl.DataFrame(
        {"job_id": list("abcdefg"), "submit_time": SUBMIT, "num_gpus": [1] * 7, "duration": [10.0] * 7}
    )
)


def starts(how: str) -> str:
    jobs = ringbco.replay(JOBS, "1x1", policy="fifo", model="fixed", ties=how).jobs
    assert jobs["job_id"].to_list() == list("abcdefg")
    return "".join(jobs.sort("start_time")["job_id"])


def test_rows_and_reverse() -> None:
    assert starts("rows") == "abcdfeg"
    assert starts("reverse") == "afdcbge"


def test_shuffle_keeps_times_and_follows_its_seed() -> None:
    orders = {seed: starts(f"shuffle:{seed}") for seed in range(40)}
    assert all(order[0] == "a" and set(order[1:5]) == set("bcdf") for order in orders.values())
    assert len(set(orders.values())) > 10
    assert orders[3] == starts("shuffle:3")


@pytest.mark.parametrize("how", ["rows", "reverse", "shuffle:0", "shuffle:12345", f"shuffle:{2**64 - 1}"])
def test_the_key_of_the_audit_is_the_order_of_the_engine(how: str) -> None:
    rows = np.arange(len(SUBMIT))
    order = np.lexsort((ties.key(rows, how), np.array(SUBMIT)))
    assert "".join("abcdefg"[i] for i in order) == starts(how)


@pytest.mark.parametrize(
    "how", ["", "row", "shuffle", "shuffle:", "shuffle:-1", f"shuffle:{2**64}", "shuffle:x"]
)
def test_anything_else_is_refused(how: str) -> None:
    with pytest.raises(UsageError, match="ties"):
        ringbco.replay(JOBS, "1x1", policy="fifo", ties=how)


@pytest.mark.long
def test_command_line_and_audit(invoke, tmp_path) -> None:  # type: ignore[no-untyped-def]
    jobs = tmp_path / "jobs.csv"
    rows = [f"j{i},{i // 7 * 11},{1 + i % 3},{5 + i * 7 % 40},{'ab'[i % 2]}" for i in range(200)]
    jobs.write_text("job_id,submit_time,num_gpus,duration,vc\n" + "\n".join(rows) + "\n")
    cluster = tmp_path / "c.toml"
    cluster.write_text("".join(f'[[servers]]\ncount = 2\ngpus = 4\nvc = "{vc}"\n' for vc in "ab"))
    summaries, orders = {}, set()
    for how in ("rows", "reverse", "shuffle:1"):
        for vc in ("split", "pool"):
            out = tmp_path / f"{how}-{vc}"
            done = invoke(
                "replay",
                jobs,
                "--cluster",
                cluster,
                "--policy",
                "fifo",
                "--ties",
                how,
                "--vc",
                vc,
                "-o",
                out,
                "--quiet",
            )
            assert done.returncode == 0, done.stderr
            done = invoke("audit", out)
            assert done.returncode == 0, done.stdout
            outcome = ringbco.Outcome.read(out)
            summaries[how, vc] = outcome.summary
            orders.add(tuple(outcome.jobs["start_time"]))
    assert len(orders) == 6
    assert [vc["vc"] for vc in summaries["rows", "split"]["vcs"]] == ["a", "b"]
    assert "vcs" not in summaries["rows", "pool"]
    done = invoke("replay", jobs, "--cluster", cluster, "--vc", "both", "-o", tmp_path / "x")
    assert done.returncode == 2
    assert "split or pool" in done.stderr


@pytest.mark.parametrize("how", ["rows", "reverse"])
def test_who_makes_room_is_the_lower_row_whoever_goes_first(how: str) -> None:
    # a and b start together and are equal victims of c; b, which went first, stays.
    rows = [(0.0, 1, 50.0, 0), (0.0, 1, 50.0, 0), (10.0, 1, 5.0, 1)]
    text = "submit_time num_gpus duration priority"
    result = agreed(by_hand([2], text, rows, policy="fifo", evict=True, ties=how, preempt_cost=0.0))
    assert result.log is not None
    assert result.log.evictions == [1, 0, 0]
    assert result.result.finish == [55.0, 50.0, 15.0]
