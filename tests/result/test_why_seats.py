"""Stories of jobs on the same GPUs: with whom, what it cost or gave, and why there was no partner."""

from typing import Any

import polars as pl
import pytest

import ringbco
from cases.stories import facts_of
from frames import cluster_of, table

CLUSTER = """
[gpu_types.V100]
speed = 1.0
memory_gb = 32
[[servers]]
count = 1
gpus = 4
gpu_type = "V100"
"""
PAIR = {"model": "lm", "gpu_type": "V100", "gpus": 0, "servers": 0, "rate": 0.8}
PAIRS = pl.DataFrame([{**PAIR, "partner": "resnet", "partner_rate": 1.25}])


def run(
    rows: list[tuple[Any, ...]], cluster: str = CLUSTER, user: list[str] | None = None, **options: Any
) -> tuple[ringbco.Outcome, pl.DataFrame]:
    """rows: submit_time, num_gpus, duration, model, memory, estimated duration, score of each job."""
    columns = ("submit_time", "num_gpus", "duration", "model", "gpu_memory_mib", "estimated_duration")
    values = dict(zip((*columns, "colocation_score"), zip(*rows, strict=True), strict=True))
    jobs = table(job_id=[f"j{row}" for row in range(len(rows))], **{k: list(v) for k, v in values.items()})
    jobs = jobs.with_columns(pl.col("colocation_score").cast(pl.UInt32))
    if user is not None:
        jobs = jobs.with_columns(user=pl.Series(user))
    given = {"policy": "lucid", "model": "fixed", "tables": PAIRS, **options}
    return ringbco.replay(jobs, cluster_of(cluster), **given), jobs


def test_partners_are_named_with_what_they_cost_or_gave() -> None:
    outcome, jobs = run([(0.0, 4, 100.0, "lm", 1.0, 100.0, 0), (10.0, 4, 50.0, "resnet", 1.0, 50.0, 0)])
    first, second = outcome.why("j0", jobs).sentences, outcome.why("j1", jobs).sentences
    # 40 s together: j1 does 50 of its seconds, j0 32.
    assert "Started at submission on 4 GPUs of type V100 of server 0. It shares them with j0." in second
    assert "In these 108.0 s it shared its GPUs with j1 (for 40.0 s)." in first
    assert first[-1] == "Sharing its GPUs with j1 cost it 8.0 s: it ran 1.08 times as long as alone on them."
    assert (
        second[-1] == "Sharing its GPUs with j0 gave it 10.0 s: it ran 0.80 times as long as alone on them."
    )


def test_gpus_that_two_hold_are_counted_once() -> None:
    rows = [(0.0, 2, 100.0, "lm", 1.0, 100.0, 0), (0.0, 2, 50.0, "lm", 1.0, 60.0, 0)]
    outcome, jobs = run([*rows, (1.0, 4, 5.0, "lm", 1.0, 5.0, 0)])
    (held, _) = facts_of(outcome.why("j2", jobs), "held")
    assert {name: held.figures[name] for name in ("held", "jobs", "idle", "usable")} == {
        "held": 2,
        "jobs": 2,
        "idle": 2,
        "usable": 2,
    }


HOST = (0.0, 4, 100.0, "lm", 20000.0, 100.0, 1)


@pytest.mark.parametrize(
    ("host", "guest", "lacks", "says"),
    [
        (HOST, (1.0, 2, 5.0, "lm", 1.0, 5.0, 0), "gpus", "1 held another number of GPUs"),
        (HOST, (1.0, 4, 5.0, "lm", 12768.0, 5.0, 0), "memory", "1 needed too much memory beside it"),
        (
            HOST,
            (1.0, 4, 5.0, "lm", 1.0, 5.0, 2),
            "score",
            "a score that sums to more than two with its own",
        ),
        (HOST, (1.0, 4, 5.0, "lm", 1.0, 201.0, 0), "value", "1 had less than half of its estimated duration"),
        (
            (*HOST[:3], "new", *HOST[4:6], None),
            (1.0, 4, 5.0, "lm", 1.0, 5.0, 1),
            "score",
            "sums to more than two",
        ),
    ],
)
def test_what_a_partner_lacks(host: tuple[Any, ...], guest: tuple[Any, ...], lacks: str, says: str) -> None:
    outcome, jobs = run([host, guest])
    facts = facts_of(outcome.why("j1", jobs), "partners")
    assert facts[0].figures == {"alone": 1, lacks: 1}
    assert says in facts[0].sentence


def test_a_quota_keeps_a_job_from_its_partner() -> None:
    rows = [(0.0, 4, 100.0, "lm", 1.0, 100.0, 0), (1.0, 4, 5.0, "lm", 1.0, 5.0, 0)]
    outcome, jobs = run(
        rows, quota=pl.DataFrame({"user": ["a"], "gpus": [4], "borrow": [False]}), user=["a", "a"]
    )
    facts = facts_of(outcome.why("j1", jobs), "partners")
    assert facts[0].figures == {"alone": 1, "nothing": 1}
    assert "1 suited it, but a quota held it back" in facts[0].sentence


def test_jobs_of_more_gpus_than_a_server_take_no_partner() -> None:
    rows = [(0.0, 8, 100.0, "lm", 1.0, 100.0, 0), (1.0, 8, 5.0, "lm", 1.0, 5.0, 0)]
    outcome, jobs = run(rows, cluster=CLUSTER.replace("count = 1", "count = 2"))
    (fact, _) = facts_of(outcome.why("j1", jobs), "partners")
    assert fact.sentence == "Jobs of more than 4 GPUs take no partner."


def test_who_had_no_partner_to_find() -> None:
    three = [(0.0, 4, 100.0, "lm", 1.0, 100.0, 0), (0.0, 4, 100.0, "lm", 1.0, 100.0, 0)]
    outcome, jobs = run([*three, (1.0, 4, 5.0, "lm", 1.0, 5.0, 0)])
    said = "No job was alone on its GPUs: there was no partner for it."
    assert facts_of(outcome.why("j2", jobs), "partners")[0].sentence == said
    alone, jobs = run([*three, (1.0, 4, 5.0, "lm", 1.0, 5.0, 0)], jobs_per_gpu=1, tables=None)
    assert facts_of(alone.why("j2", jobs), "partners") == []
