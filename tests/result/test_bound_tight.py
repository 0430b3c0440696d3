"""The bound by prices: against plain sums, exact optima of small cases, and tampered certificates."""

from __future__ import annotations

import copy
import json
import os
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ringbco
from conftest import Invoke
from ringbco.audits.certificates import check_certificate, prove
from ringbco.cluster.spec import Cluster, ServerGroup
from ringbco.errors import InputError
from ringbco.result.bound import PRICED, Prices, lower_bound
from ringbco.run.bound import Part

Job = tuple[int, int, int]  # submitted, run time, GPUs
CASES = int(os.environ.get("RINGBCO_CASES", "60"))
HALVES = Cluster.from_groups([ServerGroup(2, 4, "a"), ServerGroup(2, 4, "b")], name="halves")


# The reference model


def cheapest(job: Job, gpus: int, ends: list[float], prices: list[list[float]]) -> float:
    """What a job pays for its cheapest seconds, as docs/bound.md has it: bought in order of cost."""
    submit, run, size = job
    over = (2 * size > gpus, 3 * size > gpus)
    # Cost of the first second, and how long: before the first interval all is free, and after the last one.
    offers = [(0.0, max(ends[0] - submit, 0.0))]
    for number, ends_of in enumerate(pairwise(ends)):
        price = size * prices[0][number] + over[0] * prices[1][number] + over[1] * prices[2][number]
        begin, end = (max(time - submit, 0.0) for time in ends_of)
        offers.append((begin + run * price, end - begin))
    offers.append((max(ends[-1] - submit, 0.0), float("inf")))
    # Costs rise by a second a second in each offer, so the level at which `run` seconds are bought is between
    # two of the costs at which an offer begins or ends.
    turns = sorted({cost for cost, _ in offers} | {cost + length for cost, length in offers})
    bought = 0.0
    for turn, after in zip(turns, [*turns[1:], float("inf")], strict=True):
        open_offers = sum(cost <= turn < cost + length for cost, length in offers)
        if open_offers and bought + open_offers * (after - turn) >= run:
            level = turn + (run - bought) / open_offers
            break
        bought += open_offers * (after - turn) if open_offers else 0.0
    total = 0.0
    for cost, length in offers:
        held = min(max(level - cost, 0.0), length)
        total += held * (cost + held / 2)
    return total / run + run / 2


def plain(jobs: list[Job], gpus: int, ends: list[float], prices: list[list[float]]) -> float:
    """What the prices prove: what all pay, less what all that there is would cost."""
    lengths = [end - begin for begin, end in pairwise(ends)]
    there = [gpus, 1, 2]
    worth = sum(
        each * length * price
        for each, row in zip(there, prices, strict=True)
        for length, price in zip(lengths, row, strict=True)
    )
    return sum(cheapest(job, gpus, ends, prices) for job in jobs) - worth


def part_of(jobs: list[Job], gpus: int) -> Part:
    submit, run, size = (np.array(column, dtype=np.float64) for column in zip(*jobs, strict=True))
    return Part(submit, run, run * size, size, gpus)


def priced(jobs: list[Job], gpus: int) -> Prices:
    part = part_of(jobs, gpus)
    return Prices.of(part.submit, part.shortest, part.work, part.least, gpus)


jobs_drawn = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=8
)


@given(jobs_drawn, st.integers(6, 9), st.data())
def test_the_audit_finds_what_any_prices_prove(drawn: list[Job], gpus: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    ends = np.cumsum(data.draw(st.lists(st.floats(0.5, 6.0), min_size=count + 1, max_size=count + 1)))
    row = st.lists(st.sampled_from([0.0, 0.0, 0.25, 1.0, 3.0]), min_size=count, max_size=count)
    prices = [data.draw(row) for _ in PRICED]
    expected = plain(drawn, gpus, ends.tolist(), prices)
    assert prove(part_of(drawn, gpus), ends, np.array(prices)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=15)
@given(jobs_drawn, st.integers(6, 9))
def test_the_engine_tells_what_its_prices_prove(drawn: list[Job], gpus: int) -> None:
    found = priced(drawn, gpus)
    proven = plain(drawn, gpus, found.ends.tolist(), [row.tolist() for row in found.prices])
    assert found.total <= proven
    assert found.total == pytest.approx(proven, rel=1e-7)
    # No price at all proves the run times.
    assert found.total >= sum(run for _, run, _ in drawn) * (1 - 1e-6)


# Exact optima


def optimum(jobs: list[Job], gpus: int) -> int:
    """The least sum of completions less submissions where each second is decided anew."""

    @cache
    def best(now: int, left: tuple[int, ...]) -> int:
        if not any(left):
            return 0
        there = [job for job, (submit, _, _) in enumerate(jobs) if left[job] and submit <= now]
        if not there:
            return best(min(jobs[job][0] for job in range(len(jobs)) if left[job]), left)
        most: int | None = None
        for count in range(1, len(there) + 1):
            for run in combinations(there, count):
                if sum(jobs[job][2] for job in run) <= gpus:
                    after = tuple(rest - (job in run) for job, rest in enumerate(left))
                    # Each second costs every submitted job that is not done.
                    cost = len(there) + best(now + 1, after)
                    most = cost if most is None else min(most, cost)
        assert most is not None
        return most

    return best(0, tuple(run for _, run, _ in jobs))


def small(seed: int) -> tuple[list[Job], int]:
    rng = np.random.default_rng(seed)
    gpus = int(rng.integers(1, 8))
    count = int(rng.integers(1, 6))
    columns = (rng.integers(0, 6, count), rng.integers(1, 5, count), rng.integers(1, gpus + 1, count))
    return [(int(a), int(b), int(c)) for a, b, c in zip(*columns, strict=True)], gpus


def gaps(seeds: range) -> tuple[list[float], int]:
    """How far optima are above the bound, and how often it is the greater one of the two."""
    result, better = [], 0
    for seed in seeds:
        jobs, gpus = small(seed)
        part = part_of(jobs, gpus)
        total = priced(jobs, gpus).total
        better += total > lower_bound(part.submit, part.shortest, part.work, gpus).total * (1 + 1e-6)
        result.append(optimum(jobs, gpus) / total - 1)
    return result, better


def test_no_optimum_is_below_the_bound() -> None:
    found, better = gaps(range(min(CASES, 400)))
    assert min(found) >= 0.0
    assert min(found) < 1e-6  # it is reached
    assert float(np.mean(found)) < 0.1
    assert better > len(found) / 10


@pytest.mark.long
def test_no_optimum_of_2000_cases_is_below_the_bound() -> None:
    found, _ = gaps(range(10_000, 12_000))
    assert min(found) >= 0.0


# By hand


def frame(jobs: list[Job], **more: Any) -> pl.DataFrame:
    submit, run, size = zip(*jobs, strict=True)
    names = [f"j{row}" for row in range(len(jobs))]
    columns = {"job_id": names, "submit_time": submit, "num_gpus": size, "duration": run}
    return pl.DataFrame({**columns, **more}, strict=False).with_columns(
        pl.col("submit_time", "duration").cast(pl.Float64)
    )


def test_gangs_above_a_half_and_a_third_have_prices() -> None:
    halves = priced([(0, 2, 7)] * 3, 12)
    assert halves.total == pytest.approx(2 + 4 + 6, rel=1e-3)
    assert halves.prices[1].max() > 0.0
    thirds = priced([(0, 2, 5)] * 6, 12)
    # On 12 GPUs without that row 6 x 5 GPUs of 2 s would be done after 5 s, by twos only after 6.
    without = lower_bound(np.zeros(6), np.full(6, 2.0), np.full(6, 10.0), 12).total
    assert thirds.total > without * 1.05
    assert thirds.prices[2].max() > 0.0
    assert thirds.total <= 2 * (2 + 4 + 6)


def test_the_greater_bound_counts_by_virtual_cluster() -> None:
    jobs = [(0, 5, 4), *[(0, 10, 5)] * 4]
    table = frame(jobs, vc=["a", *["b"] * 4])
    plain_bound = ringbco.bound(table, HALVES, model="fixed")
    tight = ringbco.bound(table, HALVES, model="fixed", tight=True)
    # At "a" one job is alone: no price helps. At "b" jobs go one by one, which pooled GPUs do not know.
    assert tight.vcs["a"].sets == {"run_times": 1, "srpt": 0, "busy": 0, "prices": 0}
    assert tight.vcs["a"].total == plain_bound.vcs["a"].total == 5.0
    assert tight.vcs["b"].total == pytest.approx(100.0, rel=3e-3)
    assert plain_bound.vcs["b"].total < 90.0
    assert tight.set_jobs == {"run_times": 1, "srpt": 0, "busy": 0, "prices": 4}
    assert tight.mean_delay == pytest.approx((100.0 - 40.0) / 5, rel=3e-3)
    assert plain_bound.certificate is None
    assert tight.certificate is not None
    assert [each["vc"] for each in tight.certificate["parts"]] == ["a", "b"]


def test_elastic_jobs_hold_the_fewest_gpus_of_their_range() -> None:
    # Each may run on 3 of 8 GPUs, so two run at once.
    rigid, ranged = frame([(0, 10, 5)] * 4), frame([(0, 10, 5)] * 4, min_gpus=[3] * 4)
    assert ringbco.bound(rigid, "1x8", model="fixed", tight=True).total == pytest.approx(100.0, rel=3e-3)
    assert ringbco.bound(ranged, "1x8", model="fixed", tight=True).total < 80.0


@pytest.mark.parametrize("offset", [0.0, 1.7e9])
def test_one_result_on_many_threads_and_at_any_time(offset: float) -> None:
    rng = np.random.default_rng(3)
    count = 1500
    submit = np.sort(rng.uniform(0, 1.5e3, count))
    run, size = rng.lognormal(3, 1, count), rng.choice([1.0, 2.0, 8.0, 40.0], count, p=[0.6, 0.2, 0.15, 0.05])
    first, *others = [Prices.of(submit + offset, run, run * size, size, 64) for _ in range(3)]
    assert all(other.to_dict() == first.to_dict() for other in others)
    part = Part(submit + offset, run, run * size, size, 64)
    assert first.total <= prove(part, first.ends, np.array(first.prices))
    assert first.total > 1.05 * lower_bound(submit, run, run * size, 64).total


# Certificates


@pytest.fixture(name="written")
def written_(tmp_path: Path, invoke: Invoke) -> Path:
    rng = np.random.default_rng(5)
    rows = "".join(f"j{row},{row},{rng.integers(1, 17)},{rng.integers(5, 90)}\n" for row in range(40))
    (tmp_path / "jobs.csv").write_text("job_id,submit_time,num_gpus,duration\n" + rows)
    done = invoke(
        "bound", "jobs.csv", "--cluster", "2x8", "--model", "fixed", "--tight", "--certificate", "c.json"
    )
    assert done.returncode == 0, done.stderr
    assert " prices of GPUs over time                          1     40" in done.stdout
    return tmp_path / "c.json"


def test_a_certificate_passes_its_audit(written: Path, invoke: Invoke) -> None:
    done = invoke("audit", str(written))
    assert (done.returncode, done.stderr) == (0, "")
    assert "5 of 5 checks passed" in done.stdout
    report = json.loads(invoke("audit", str(written), "--json").stdout)
    looked = {check["code"]: check["looked_at"] for check in report["checks"]}
    intervals = len(json.loads(written.read_text())["parts"][0]["ends"]) - 1
    assert looked["proof"] == 40 * intervals
    told = json.loads(written.read_text())
    jobs = ("jobs.csv", "--cluster", "2x8", "--model", "fixed", "--tight", "--json")
    assert json.loads(invoke("bound", *jobs).stdout)["mean_jct"] == told["mean_jct"]


def tampered(told: dict[str, Any], how: str) -> None:
    part = told["parts"][0]
    prices = part["prices"]
    match how:
        case "total":
            part["total"] *= 1.0001
        case "mean":
            told["mean_jct"] *= 1.0001
        case "greater prices":
            prices["gpus"] = [3 * price for price in prices["gpus"]]
        case "no prices":
            prices["gpus"] = [0.0] * len(prices["gpus"])
        case "below 0":
            prices["above_half"][3] = -0.5
        case "infinite":
            prices["above_half"][3] = float("inf")
        case "a text":
            prices["gpus"][0] = "much"
        case "a row is gone":
            del prices["above_third"]
        case "ends":
            part["ends"][4] = part["ends"][5]
        case "later ends":
            part["ends"] = [end + 50.0 for end in part["ends"]]
        case "gpus":
            part["gpus"] = 8
        case "jobs":
            part["jobs"] += 1
        case "cluster":
            told["cluster"]["servers"][0]["count"] = 3
        case "no part":
            told["parts"] = []
        case "sha256":
            told["trace"]["sha256"] = "0" * 64
        case "window":
            told["options"]["measure_from"] = 20.0


FAILS = {
    "total": "proof", "mean": "mean", "greater prices": "proof", "no prices": "proof", "below 0": "prices",
    "infinite": "prices", "a text": "prices", "a row is gone": "prices", "ends": "prices",
    "later ends": "proof",
    "gpus": "jobs", "jobs": "jobs", "cluster": "jobs", "no part": "jobs", "sha256": "trace", "window": "jobs",
}  # fmt: skip


@pytest.mark.parametrize("how", FAILS)
def test_a_tampered_certificate_fails(written: Path, how: str) -> None:
    told = json.loads(written.read_text())
    before = copy.deepcopy(told)
    tampered(told, how)
    assert told != before
    written.write_text(json.dumps(told))
    report = check_certificate(written)
    failed = [check.code for check in report.checks if check.failed]
    assert failed
    assert failed[0] == FAILS[how]
    assert not report.ok


def test_another_job_table_fails(written: Path, invoke: Invoke) -> None:
    table = written.with_name("jobs.csv")
    table.write_text(table.read_text().replace("j3,3,", "j3,4,"))
    done = invoke("audit", str(written))
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "failed its audit: trace" in done.stderr
    table.unlink()
    done = invoke("audit", str(written))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "is not there; give it with --jobs" in done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "which is JSON"),
        ("[]", "trace: expected an object"),
        ('{"trace": {}, "cluster": {}, "options": {}}', "parts: expected a list"),
    ],
)
def test_what_is_no_certificate_is_refused_in_a_line(
    tmp_path: Path, invoke: Invoke, text: str, expected: str
) -> None:
    (tmp_path / "c.json").write_text(text)
    done = invoke("audit", "c.json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "c.json" in done.stderr
    assert expected in done.stderr


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("options", {"seed": -1}, "seed"),
        ("options", {"sped": 1}, "sped"),
        ("cluster", {"servers": 3}, "servers"),
    ],
)
def test_a_certificate_of_options_that_are_none(
    written: Path, key: str, value: object, expected: str
) -> None:
    told = json.loads(written.read_text())
    told[key] = value
    written.write_text(json.dumps(told))
    with pytest.raises(InputError, match=rf"c\.json: .*{expected}"):
        check_certificate(written)


def test_options_that_do_not_go_together(written: Path, invoke: Invoke) -> None:
    given = ("bound", "jobs.csv", "--cluster", "2x8", "--model", "fixed")
    for more, expected in (
        (("--certificate", "d.json"), "together with --tight"),
        (("--tight", "--certificate", "c.json"), "already exists"),
        (("--tight", "--certificate", "jobs.csv", "--force"), "no certificate of ringbco bound"),
        (("--tight", "--certificate", "d.json", "--tables", "t.csv"), "no --tables"),
    ):
        done = invoke(*given, *more)
        assert done.returncode in (1, 2), expected
        assert (done.stdout, done.stderr.count("\n")) == ("", 1), done.stderr
        assert expected in done.stderr
    assert invoke(*given, "--tight", "--certificate", "c.json", "--force").returncode == 0
    done = invoke("audit", str(written), "--no-repeat")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "option no-repeat: expected a result folder" in done.stderr
