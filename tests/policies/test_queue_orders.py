"""QSSF, aging and EASY's estimate factor: by hand, and against the reference model with another rank."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace as with_changes

import numpy as np
import pytest

from agreement import refused_alike, result_or_error, same
from core_run import CASES, Run, run_core
from reference import Job, Net, Options, simulate
from reference.model import RowError
from reference.simulate import Gang, World
from strategies import CLOCKS, MODELS, PLACEMENTS, QUEUES, Case, build_case

ORDERS = ("sjf", "smallest", "qssf")
FIXED = Options("fifo", "strict", "first-fit", "fixed")


def world_type(
    order: str, aging: float | None, factor: float, exact: bool, users: Sequence[int] | None
) -> type[World]:
    """A world whose queue is in this order; waiting for `aging` seconds puts a job ahead, by fifo."""

    class Queued(World):
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)  # type: ignore[arg-type]
            self.now = 0.0
            self.done: list[int] = []
            self.predictions: dict[int, float] = {}

        def one_pass(self, now: float) -> None:
            self.now = now
            for row in self.queue:
                if row not in self.predictions:
                    self.predictions[row] = self.predict(row)
            super().one_pass(now)

        def complete(self, gang: Gang, now: float) -> None:
            super().complete(gang, now)
            self.done.append(gang.row)

        def predict(self, row: int) -> float:
            job = self.jobs[row]
            if exact:
                return job.duration * job.num_gpus
            own = [r for r in self.done if users is None or users[r] == users[row]]
            alike = [r for r in own if self.jobs[r].num_gpus == job.num_gpus]
            known = alike or own or self.done
            total = 0.0
            for r in known:
                total += self.jobs[r].duration
            return total / len(known) * job.num_gpus if known else 0.0

        def rank(self, row: int) -> tuple[float, float, int]:
            job = self.jobs[row]
            if aging is not None and self.now >= job.submit + aging:
                return -1.0, job.submit, row
            return (self.predictions[row], job.submit, row) if order == "qssf" else super().rank(row)

        def backfill_estimate(self, row: int) -> float:
            return factor * self.estimate(row)

        def other_instants(self, now: float) -> list[float]:
            if aging is None:
                return []
            return [t for t in (self.jobs[row].submit + aging for row in self.queue) if t > now]

    return Queued


def replay(
    case: Case,
    aging: float | None = None,
    factor: float = 1.0,
    predict: str = "history",
    users: Sequence[int] | None = None,
) -> Run:
    return run_core(
        case,
        predict=predict,
        aging=aging,
        estimate_factor=factor,
        user=None if users is None else np.array(users, dtype=np.uint32),
    )


def by_hand(
    jobs: Sequence[Job],
    servers: Sequence[int],
    options: Options = FIXED,
    aging: float | None = None,
    factor: float = 1.0,
    predict: str = "history",
    users: Sequence[int] | None = None,
) -> list[float]:
    """Starts, by the engine, which must be the reference model's."""
    case = Case(tuple(jobs), tuple(servers), Net(), options)
    kind = world_type(options.order, aging, factor, predict == "exact", users)
    expected = simulate(jobs, servers, Net(), options, world_type=kind)
    run = replay(case, aging, factor, predict, users)
    assert list(run.start) == expected.start
    return [float(t) for t in run.start]


def check(rnd: random.Random, base: Options) -> bool:
    case = build_case(rnd, base, vcs=rnd.random() < 0.1, oversize=rnd.random() < 0.1)
    aging = rnd.choice((None, 0.0, 1.0, 5.0, rnd.uniform(0.0, 20.0)))
    aging = None if aging is None else aging * case.options.slot
    factor = rnd.choice((0.5, 1.0, 3.0, rnd.uniform(0.1, 4.0)))
    exact = rnd.random() < 0.3
    users = rnd.choice((None, [rnd.randrange(3) for _ in case.jobs]))
    kind = world_type(base.order, aging, factor, exact, users)

    def run() -> Run:
        return replay(case, aging, factor, "exact" if exact else "history", users)

    expected = result_or_error(
        lambda: simulate(case.jobs, case.servers, case.net, case.options, case.server_vc, kind)
    )
    if isinstance(expected, RowError):
        assert refused_alike(run, expected, case).row == expected.row, case
        return False
    got = run()
    told = (case, aging, factor, exact, users)
    allocations: list[dict[int, int]] = [{} for _ in case.jobs]
    for row, server, gpus in zip(got.alloc_job, got.alloc_server, got.alloc_gpus, strict=True):
        allocations[row][int(server)] = int(gpus)
    assert allocations == expected.allocations, told
    assert list(got.max_contention) == expected.max_contention, told
    for mine, theirs in ((got.start, expected.start), (got.finish, expected.finish)):
        same(mine, theirs, told, exact=case.options.clock == "slot", atol=0.0)
    return True


@pytest.mark.long
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_random_cases(placement: str) -> None:
    bases = [
        Options(order, queue, placement, model, clock, variant=variant)
        for order, queue, model, clock, variant in itertools.product(
            ORDERS, QUEUES, MODELS, CLOCKS, ("practical", "literal")
        )
    ]
    finished = 0
    for number in range(CASES):
        rnd = random.Random(f"queue {placement} {number}")
        finished += check(rnd, rnd.choice(bases))
    assert finished > 0.9 * CASES


def fixed(submit: float, num_gpus: int, duration: float) -> Job:
    return Job(submit, num_gpus, duration=duration)


def test_qssf_by_hand() -> None:
    # One server of 2. User 0's pair runs 0-10, user 1's lone job 10-12 (blocked until then). At 20 a pair of
    # user 0 takes the server until 30. Three lone jobs come at 21, 22, 23, of users 0, 1 and 2, all of 7 s:
    # predicted 10 s (user 0 has no lone job: all of hers: (10 + 10) / 2, but the second is not done: 10),
    # 2 s (user 1's lone job) and (10 + 2) / 2 = 6 s (nobody's: all). At 30 the two GPUs go to 22's and 23's.
    jobs = [
        fixed(0, 2, 10),
        fixed(1, 1, 2),
        fixed(20, 2, 10),
        fixed(21, 1, 7),
        fixed(22, 1, 7),
        fixed(23, 1, 7),
    ]
    users = [0, 1, 0, 0, 1, 2]
    options = with_changes(FIXED, order="qssf")
    assert by_hand(jobs, [2], options, users=users) == [0, 10, 20, 37, 30, 30]
    # Told the truth, all three need 7 GPU-seconds: fifo.
    assert by_hand(jobs, [2], options, users=users, predict="exact") == [0, 10, 20, 30, 30, 37]


def test_aging_by_hand() -> None:
    # One GPU, busy until 10. A long job (20 s) waits from 1; short ones (4 s) come at 2, 12 and 16: sjf runs
    # them at 10, 14 and 18, the long one at 22. With aging of 13 s the long one is ahead from 14 on.
    jobs = [fixed(0, 1, 10), fixed(1, 1, 20), fixed(2, 1, 4), fixed(12, 1, 4), fixed(16, 1, 4)]
    options = with_changes(FIXED, order="sjf")
    assert by_hand(jobs, [1], options) == [0, 22, 10, 14, 18]
    assert by_hand(jobs, [1], options, aging=13.0) == [0, 14, 10, 34, 38]


def test_aging_is_an_instant_of_its_own() -> None:
    # Two GPUs, one busy until 100, the other until 10.5. Shortest first: at 10.5 the head is the pair (5 s),
    # blocked until 100, and with it the lone job (50 s) submitted before it, which then starts at 105. With
    # aging of 30 s the lone job is ahead at 1 + 30, when nothing else happens, and starts at once.
    jobs = [fixed(0, 1, 100), fixed(0.5, 1, 10), fixed(1, 1, 50), fixed(2, 2, 5)]
    options = with_changes(FIXED, order="sjf")
    assert by_hand(jobs, [2], options) == [0, 0.5, 105, 100]
    assert by_hand(jobs, [2], options, aging=30.0) == [0, 0.5, 31, 100]


def test_easy_with_longer_estimates_by_hand() -> None:
    # Four GPUs, two busy until 10; the head wants all four at 1. A lone job of 9 s would be over at 10, the
    # shadow: it starts at 1. Reckoned at twice its length (18 s) with the shadow at 20: 1 + 18 <= 20 still.
    # Reckoned at half: shadow 5, 1 + 4.5 > 5: it waits for the head, 10-15.
    jobs = [fixed(0, 2, 10), fixed(1, 4, 5), fixed(1, 1, 9)]
    options = with_changes(FIXED, queue="easy")
    assert by_hand(jobs, [4], options) == [0, 10, 1]
    assert by_hand(jobs, [4], options, factor=2.0) == [0, 10, 1]
    assert by_hand(jobs, [4], options, factor=0.5) == [0, 10, 15]
