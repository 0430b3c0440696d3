"""The reference model against schedules worked out by hand."""

import math
from typing import Any

import pytest

from cases.case import by_hand
from cases.compare import agreed
from reference import Job, Net, Options, OversizeError, RefusedError, StuckError, simulate
from reference.model import fewest_servers, iteration_time, iterations_per_slot
from reference.placement import splitmix64
from reference.tiers import contention

# Two workers and 8 bytes of gradient: x = 8 (2 - 1) / 2 = 4. On two servers, uncontended:
# tau = 2*4/8 + 4/4 + 0.5*2 + 1 = 1 + 1 + 1 + 1 = 4; inside one server: 8/64 + 1 + 0.5 + 1 = 2.625.
NET = Net(intra=64.0, inter=8.0, reduce=4.0, xi1=1.0, xi2=0.5, alpha=1.0)
FIXED = Options("fifo", "strict", "first-fit", "fixed")
RAR = Options("fifo", "strict", "first-fit", "rar")


def pair(submit: float, iterations: int) -> Job:
    return Job(submit, 2, iterations=iterations, gradient_bytes=8.0, compute_time=1.0)


def fixed(submit: float, num_gpus: int, duration: float, vc: int | None = None) -> Job:
    return Job(submit, num_gpus, duration=duration, vc=vc)


def having(options: Options, **changes: object) -> Options:
    return Options(**{**options.__dict__, **changes})


# Equations (6) to (8)


def test_contention_is_the_worst_server_and_nothing_without_spanning() -> None:
    spanning = [{0, 1}, {1, 2}, {1, 3}, {3, 4}]
    # Server 1 has three spanning jobs, servers 0, 2 and 4 one, server 3 two.
    assert [contention(s, spanning) for s in spanning] == [3, 3, 3, 2]
    assert contention({1}, spanning) == 0


@pytest.mark.parametrize(
    ("xi1", "p", "tau"),
    [
        # k = max(1, xi1 p), f = k + alpha (k - 1) with alpha = 1, so f = 2k - 1; tau = f + 3.
        (1.0, 1, 4.0),  # k = 1
        (1.0, 2, 6.0),  # k = 2, f = 3
        (1.0, 3, 8.0),  # k = 3, f = 5
        (1.0, 4, 10.0),  # k = 4, f = 7
        (0.5, 1, 4.0),  # xi1 p = 0.5: k stays 1
        (0.5, 2, 4.0),  # k = 1
        (0.5, 3, 5.0),  # k = 1.5, f = 2
        (0.5, 4, 6.0),  # k = 2, f = 3
    ],
)
def test_iteration_time_under_contention(xi1: float, p: int, tau: float) -> None:
    net = Net(64.0, 8.0, 4.0, xi1, 0.5, 1.0)
    assert iteration_time(pair(0.0, 1), 2, p, net) == tau


def test_iteration_time_inside_one_server_and_alone() -> None:
    assert iteration_time(pair(0.0, 1), 1, 0, NET) == 2.625
    # One worker exchanges nothing: xi2 and the compute remain.
    assert iteration_time(Job(0.0, 1, gradient_bytes=8.0, compute_time=1.0), 1, 0, NET) == 1.5


def test_fewest_servers_takes_the_largest_first() -> None:
    assert [fewest_servers(w, [2, 8, 4]) for w in (1, 8, 9, 12, 13, 14)] == [1, 1, 2, 2, 3, 3]
    with pytest.raises(ValueError, match="larger"):
        fewest_servers(15, [2, 8, 4])


def test_iterations_per_slot_forgives_one_rounding() -> None:
    assert 0.3 / 0.1 < 3.0
    assert iterations_per_slot(0.1, 0.3) == 3
    assert iterations_per_slot(0.4, 1.0) == 2
    assert iterations_per_slot(1.5, 1.0) == 0


# Two spanning jobs that meet on a server


def test_two_spanning_jobs_share_a_server() -> None:
    # Servers of 1, 2 and 1 GPUs: the first job takes servers 0 and 1, the second 1 and 2.
    # 0 to 6: the first alone, tau 4: 1.5 of its 6 iterations. From 6 both have p = 2, tau 6: the second needs
    # 4 * 6 = 24 s and ends at 30, when the first has 4.5 - 4 = 0.5 left: 2 s more at tau 4.
    result = simulate([pair(0.0, 6), pair(6.0, 4)], [1, 2, 1], NET, RAR)
    assert result.start == [0.0, 6.0]
    assert result.finish == [32.0, 30.0]
    assert result.allocations == [{0: 1, 1: 1}, {1: 1, 2: 1}]
    assert result.max_contention == [2, 2]
    # p = 1 over 6 + 2 s, and 2 + 2 over 24 s; one job for 8 s, two for 24 s.
    assert result.contention_seconds == 8.0 + 96.0
    assert result.spanning_seconds == 8.0 + 48.0


def test_half_a_share_hides_the_second_job() -> None:
    # xi1 = 0.5: k = max(1, 0.5 * 2) = 1, so nobody slows down: 6 * 4 and 6 + 4 * 4; p is 2 all the same.
    result = simulate([pair(0.0, 6), pair(6.0, 4)], [1, 2, 1], Net(64.0, 8.0, 4.0, 0.5, 0.5, 1.0), RAR)
    assert result.finish == [24.0, 22.0]
    assert result.max_contention == [2, 2]


def test_two_spanning_jobs_in_slots() -> None:
    # Slots of 10 s: alone floor(10 / 4) = 2 iterations a slot, together floor(10 / 6) = 1. The second is
    # seen at the first boundary after 6, at 10; both then have 4 iterations left, one a slot: both end at
    # 50.
    result = simulate([pair(0.0, 6), pair(6.0, 4)], [1, 2, 1], NET, having(RAR, clock="slot", slot=10.0))
    assert result.start == [0.0, 10.0]
    assert result.finish == [50.0, 50.0]


def test_last_slot_is_counted_whole() -> None:
    # 2 iterations a slot: the fifth lies in the third slot, and the GPUs are free at its end.
    options = having(RAR, clock="slot", slot=10.0)
    assert simulate([pair(0.0, 5)], [1, 1], NET, options).finish == [30.0]
    assert simulate([pair(0.0, 4)], [1, 1], NET, options).finish == [20.0]


def test_fixed_jobs_fill_their_last_slot() -> None:
    # ceil(21 / 10) = 3 slots from the boundary at 10; then ceil(20 / 10) = 2.
    options = having(FIXED, clock="slot", slot=10.0)
    result = simulate([fixed(0.5, 1, 21.0), fixed(0.5, 1, 20.0)], [1], NET, options)
    assert result.start == [10.0, 40.0]
    assert result.finish == [40.0, 60.0]


def test_contention_is_noted_but_harmless_when_durations_are_fixed() -> None:
    result = simulate([fixed(0.0, 2, 5.0), fixed(0.0, 2, 7.0)], [1, 2, 1], NET, FIXED)
    assert result.finish == [5.0, 7.0]
    assert result.max_contention == [2, 2]


def test_a_job_inside_a_server_is_no_contention() -> None:
    # First-fit on servers of 1, 3, 1 and 1: across 0 and 1, inside 1, across 2 and 3.
    result = simulate([pair(0.0, 1)] * 3, [1, 3, 1, 1], NET, RAR)
    assert result.allocations == [{0: 1, 1: 1}, {1: 2}, {2: 1, 3: 1}]
    assert result.max_contention == [1, 0, 1]
    assert result.finish == [4.0, 2.625, 4.0]


# One instant


def test_nobody_waits_for_an_event_of_the_same_instant() -> None:
    # At 4 the first ends, the second arrives and takes its GPU at once; and so on.
    result = simulate([fixed(0.0, 1, 4.0), fixed(4.0, 1, 4.0), fixed(8.0, 1, 1.0)], [1], NET, FIXED)
    assert result.start == [0.0, 4.0, 8.0]


def test_a_job_that_ends_when_it_starts_makes_room_at_once() -> None:
    # 1e16 + 0.5 is 1e16 in float64: the first job ends at the instant it starts, so the second starts there
    # too.
    result = simulate([fixed(1e16, 1, 0.5), fixed(1e16, 1, 4.0)], [1], NET, FIXED)
    assert result.start == [1e16, 1e16]
    assert result.finish == [1e16, 1e16 + 4.0]


# Orders


def test_orders() -> None:
    # One GPU, busy until 10; the three wait, all wanting it. Under smallest, sizes decide.
    jobs = [fixed(0.0, 2, 10.0), fixed(1.0, 2, 3.0), fixed(2.0, 2, 1.0), fixed(3.0, 1, 3.0)]
    by = {
        order: simulate(jobs, [2], NET, having(FIXED, order=order)).start
        for order in ("fifo", "sjf", "smallest")
    }
    # fifo: 10-13, 13-14, 14. sjf: job 2 (1 s) 10-11, then job 1 before job 3 (equal, submitted first)
    # 11-14, 14. smallest: job 3 at 10; of two GPUs one is left, so the strict queue waits until 13: job 1,
    # then job 2 at 16.
    assert by == {
        "fifo": [0.0, 10.0, 13.0, 14.0],
        "sjf": [0.0, 11.0, 10.0, 14.0],
        "smallest": [0.0, 13.0, 16.0, 10.0],
    }


def test_sjf_under_rar_ranks_by_the_time_on_one_server() -> None:
    # On one server tau is 2.625 for a pair: 4 iterations are 10.5 s; a lone worker's 7 are 7 * 1.5 = 10.5
    # too. Equal estimates: the earlier submission first. With 6 iterations (9 s) the lone worker goes
    # first.
    for iterations, start in ((7, 2.625), (6, 2.625 + 9.0)):
        jobs = [pair(0.0, 1), pair(1.0, 4), Job(2.0, 1, iterations=iterations, compute_time=1.0)]
        assert simulate(jobs, [2], NET, having(RAR, order="sjf")).start[1] == start


# Disciplines


def test_strict_stops_where_skip_goes_on() -> None:
    # Four GPUs, three busy until 10; a job of 2 blocks the queue, a job of 1 could go.
    jobs = [fixed(0.0, 3, 10.0), fixed(1.0, 2, 5.0), fixed(2.0, 1, 20.0)]
    assert simulate(jobs, [4], NET, FIXED).start == [0.0, 10.0, 10.0]
    assert simulate(jobs, [4], NET, having(FIXED, queue="skip")).start == [0.0, 10.0, 2.0]


@pytest.mark.parametrize(
    ("head", "first", "second", "starts"),
    [
        # Two of four GPUs are busy until 10. The head wants `head`; the others want 1 for the given seconds.
        # Head of 4, shadow 10. 1 + 9 = 10 is no later than 10: both start at 1.
        (4, 9.0, 9.0, [10.0, 1.0, 1.0]),
        # 1 + 9.5 > 10, and with it in place the head would find 3 of its 4: it waits behind the head, until
        # 15.
        (4, 9.5, 9.0, [10.0, 15.0, 1.0]),
        # Head of 3: with the first in place 3 are left at 10: it may stay. A second one may not: it waits.
        (3, 100.0, 100.0, [10.0, 1.0, 15.0]),
        # ... unless it is gone by then; the first in place, the second gone: 3 left.
        (3, 100.0, 9.0, [10.0, 1.0, 1.0]),
    ],
)
def test_easy_backfilling(head: int, first: float, second: float, starts: list[float]) -> None:
    jobs = [fixed(0.0, 2, 10.0), fixed(1.0, head, 5.0), fixed(1.0, 1, first), fixed(1.0, 1, second)]
    result = simulate(jobs, [4], NET, having(FIXED, queue="easy"))
    assert result.start == [0.0, *starts]


def test_easy_shadow_needs_the_placement_not_the_count() -> None:
    # Consolidate on two servers of 2: two lone jobs share server 0 until 10 and 20, a pair has server 1
    # until 30. At 10 and with server 0 half empty the head (a pair) does not fit; at 20 it does: the shadow
    # is 20. A lone job that starts at 10 for 10 s is done at 20: it may; for 11 s it would hold up the
    # head.
    options = Options("fifo", "easy", "consolidate", "fixed")
    for seconds, start in ((10.0, 10.0), (11.0, 22.0)):
        jobs = [fixed(0.0, 1, 10.0), fixed(0.0, 1, 20.0), fixed(0.0, 2, 30.0), fixed(1.0, 2, 2.0)]
        result = simulate([*jobs, fixed(2.0, 1, seconds)], [2, 2], NET, options)
        assert result.start == [0.0, 0.0, 0.0, 20.0, start]


def test_easy_trusts_estimates_already_past() -> None:
    # rar: the spanning pair's estimate is 6 * 2.625 = 15.75 s on one server, but across two it takes 24 s.
    # At 16 its estimated end is past: the shadow is 15.75, nothing can be over by then, and the waiting
    # pair would have both GPUs: the lone job would take the free third one of server 2, which the head does
    # not need.
    jobs = [pair(0.0, 6), pair(1.0, 1), Job(16.0, 1, iterations=10, compute_time=1.0)]
    result = simulate(jobs, [1, 1, 1], NET, having(RAR, queue="easy"))
    assert result.start == [0.0, 24.0, 16.0]
    # With two GPUs the head would then have one too few: strict order.
    assert simulate([*jobs[:2], jobs[2]], [1, 1], NET, having(RAR, queue="easy")).start == [0.0, 24.0, 28.0]


# Placements


def test_consolidate() -> None:
    # Servers of 4, 4 and 2. A pair fits tightest on server 2; 3 GPUs on 0 (tie with 1); 1 on what is left
    # of 0. Six: one whole server (1) and 2 more: 0 and 2 are full, so it waits until the pair leaves server
    # 2 at 9.
    jobs = [fixed(0.0, 2, 9.0), fixed(0.0, 3, 50.0), fixed(0.0, 1, 50.0), fixed(0.0, 6, 1.0)]
    result = simulate(jobs, [4, 4, 2], NET, having(FIXED, placement="consolidate"))
    assert result.allocations == [{2: 2}, {0: 3}, {0: 1}, {1: 4, 2: 2}]
    assert result.start == [0.0, 0.0, 0.0, 9.0]


def test_consolidate_never_spreads_what_fits_on_one_server() -> None:
    # Two servers of 2 with one idle GPU each: a pair waits for a whole server.
    jobs = [fixed(0.0, 2, 3.0), fixed(0.0, 1, 9.0), fixed(1.0, 2, 1.0)]
    result = simulate(jobs, [2, 2], NET, having(FIXED, placement="consolidate"))
    assert result.start[2] == 3.0
    # A remainder needs one server: 7 on 4, 2, 1 is 4 whole and 3 more on one server, which none has.
    with pytest.raises(OversizeError):
        simulate([fixed(0.0, 7, 1.0)], [4, 2, 1], NET, having(FIXED, placement="consolidate"))


def test_least_loaded_goes_round() -> None:
    # U after the first: 5 on GPU 0. The second takes 1 and 2 (U 7), the third 3, the fourth GPU 0 (5 < 7)
    # at 5.
    jobs = [fixed(0.0, 1, 5.0), fixed(0.0, 2, 7.0), fixed(0.0, 1, 9.0), fixed(8.0, 1, 1.0)]
    result = simulate(jobs, [1, 1, 1, 1], NET, having(FIXED, placement="least-loaded"))
    assert [list(a) for a in result.allocations] == [[0], [1, 2], [3], [0]]


def test_random_is_splitmix64_and_floyd() -> None:
    first, state = splitmix64(0)
    second, _ = splitmix64(state)
    assert (first, second) == (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4)
    # Two of four: floor(0.8833 * 3) = 2, then floor(0.4315 * 4) = 1.
    result = simulate([fixed(0.0, 2, 1.0)], [1, 1, 1, 1], NET, having(FIXED, placement="random"))
    assert result.allocations == [{1: 1, 2: 1}]


def test_fa_ffp_practical() -> None:
    # Servers of 4, 2 and 4. One GPU: the smallest unopened, 1. Two: 1 has one left, so unopened 0 (tie with
    # 2). One: opened 1 (1 idle) before opened 0 (2 idle). Five: nobody holds it: 2 on opened 0, 3 on
    # unopened 2.
    jobs = [
        fixed(0.0, 1, 9.0),
        fixed(0.0, 2, 9.0),
        fixed(0.0, 1, 9.0),
        fixed(0.0, 5, 9.0),
        fixed(0.0, 2, 1.0),
    ]
    result = simulate(jobs, [4, 2, 4], NET, having(FIXED, placement="fa-ffp"))
    assert result.allocations == [{1: 1}, {0: 2}, {1: 1}, {0: 2, 2: 3}, {1: 2}]
    assert result.start[4] == 9.0  # one idle GPU is left: the pair waits


def test_fa_ffp_spreads_over_the_emptiest_opened_servers_first() -> None:
    # Servers of 3, 4 and 2. One GPU opens server 2, the smallest; a pair does not fit in the one left and
    # opens server 0; the next pair fits in neither and opens server 1. Idle now: 1, 2, 1. Three: nobody
    # holds them: 2 from server 1, then 1 from server 0, before server 2.
    jobs = [fixed(0.0, 1, 9.0), fixed(0.0, 2, 9.0), fixed(0.0, 2, 9.0), fixed(0.0, 3, 9.0)]
    result = simulate(jobs, [3, 4, 2], NET, having(FIXED, placement="fa-ffp"))
    assert result.allocations == [{2: 1}, {0: 2}, {1: 2}, {1: 2, 0: 1}]


def test_fa_ffp_literal_is_the_least_used_gpus() -> None:
    jobs = [fixed(0.0, 1, 5.0), fixed(6.0, 1, 1.0)]
    options = having(FIXED, placement="fa-ffp")
    # Practical: with all empty, server 0 again. Literal: GPU 0 has U = 5, so GPU 1.
    assert simulate(jobs, [1, 1], NET, options).allocations == [{0: 1}, {0: 1}]
    assert simulate(jobs, [1, 1], NET, having(options, variant="literal")).allocations == [{0: 1}, {1: 1}]


def test_lbsgf_prefix_counts_all_gpus_or_candidates() -> None:
    # The first pair leaves server 0 with mean U 8 at 8; the second holds server 1 (U 6) from 7 to 13. A
    # lone job at 9: server 1 ranks first. Literal: the prefix {1} has 2 GPUs, enough, but none idle: it
    # waits. Practical: server 1 has no candidate and is passed over: server 0 now.
    jobs = [fixed(0.0, 2, 8.0), fixed(7.0, 2, 6.0), fixed(9.0, 1, 1.0)]
    options = having(FIXED, placement="lbsgf")
    practical = simulate(jobs, [2, 2], NET, options)
    literal = simulate(jobs, [2, 2], NET, having(options, variant="literal"))
    assert (practical.start[2], practical.allocations[2]) == (9.0, {0: 1})
    assert (literal.start[2], literal.allocations[2]) == (13.0, {1: 1})


def test_lbsgf_lambda_widens_the_prefix() -> None:
    # After a lone job of 5 s on GPU (0, 0): means 2.5 and 0. A pair: lambda 1: server 1 is enough.
    # lambda 2 wants 4 GPUs: both servers; the least U are (0, 1), (1, 0), (1, 1), ties by server.
    jobs = [fixed(0.0, 1, 5.0), fixed(6.0, 2, 1.0)]
    for lambda_, allocation in ((1.0, {1: 2}), (2.0, {0: 1, 1: 1}), (9.0, {0: 1, 1: 1})):
        options = having(FIXED, placement="lbsgf", lambda_=lambda_)
        assert simulate(jobs, [2, 2], NET, options).allocations[1] == allocation


def test_sjf_bco_switches_at_kappa() -> None:
    # Server 0 (size 2) is used first by FA-FFP; a lone job of 5 s. Then, at 6, a pair: kappa 2: FA-FFP,
    # server 0 again (smallest unopened); kappa 1: LBSGF, server 1 (mean U 0).
    jobs = [fixed(0.0, 1, 5.0), fixed(6.0, 2, 1.0)]
    options = Options("smallest", "strict", "sjf-bco", "fixed")
    assert simulate(jobs, [2, 4], NET, having(options, kappa=2)).allocations[1] == {0: 2}
    assert simulate(jobs, [2, 4], NET, having(options, kappa=1)).allocations[1] == {1: 2}


# Virtual clusters, oversize, and runs that cannot be


def test_virtual_clusters_do_not_see_each_other() -> None:
    # Servers 0 and 2 belong to virtual cluster 0, server 1 to 1. The queue of 0 is blocked; that of 1 is not.
    jobs = [fixed(0.0, 2, 4.0, 0), fixed(1.0, 1, 1.0, 0), fixed(1.0, 1, 1.0, 1)]
    result = simulate(jobs, [1, 1, 1], NET, FIXED, server_vc=[0, 1, 0])
    assert result.allocations == [{0: 1, 2: 1}, {0: 1}, {1: 1}]
    assert result.start == [0.0, 4.0, 1.0]


def test_oversize() -> None:
    jobs = [fixed(0.0, 1, 1.0, 0), fixed(0.0, 2, 1.0, 1)]
    with pytest.raises(OversizeError) as caught:
        simulate(jobs, [2, 1], NET, FIXED, server_vc=[0, 1])
    assert caught.value.row == 1
    result = simulate(jobs, [2, 1], NET, having(FIXED, oversize="drop"), server_vc=[0, 1])
    assert result.kept == [True, False]
    assert math.isnan(result.start[1])


def test_a_job_slower_than_the_slot_is_refused() -> None:
    # Uncontended on the fewest servers (one): tau 2.625.
    with pytest.raises(RefusedError) as caught:
        simulate([fixed(0.0, 1, 1.0), pair(0.0, 1)], [2], NET, having(RAR, clock="slot", slot=2.5))
    assert caught.value.row == 1
    assert simulate([pair(0.0, 1)], [2], NET, having(RAR, clock="slot", slot=2.625)).finish == [2.625]


def test_a_stall_that_nothing_can_end_is_an_error() -> None:
    # Slots of 5 s: tau 4 alone, 6 together. Both stall at once: nothing can change any more.
    options = having(RAR, clock="slot", slot=5.0)
    with pytest.raises(StuckError) as caught:
        simulate([fixed(0.0, 1, 1.0), pair(5.0, 2), pair(5.0, 1)], [1, 2, 1], NET, options)
    assert caught.value.row == 1


def test_a_stall_ends_when_the_other_leaves() -> None:
    # Slots of 5 s. The first sends nothing: tau 0.5 * 2 + 1 = 2, two iterations a slot, over at 10. The
    # second would take 6 s an iteration until then and does none; alone it takes 4 s: one a slot, two
    # slots, 20.
    options = having(RAR, clock="slot", slot=5.0)
    jobs = [Job(0.0, 2, iterations=4, compute_time=1.0), pair(0.0, 2)]
    assert simulate(jobs, [1, 2, 1], NET, options).finish == [10.0, 20.0]


@pytest.mark.parametrize("clock", [{}, {"clock": "slot", "slot": 7.0}], ids=["continuous", "slot"])
def test_ticks_and_slots_are_counted_from_time_0(clock: dict[str, Any]) -> None:
    # The first multiple of 60 from 10^9 on is 10^9 + 20; the first of 7 from there on is 2 s later.
    text = "submit_time num_gpus duration"
    case = by_hand([1], text, [(1e9, 1, 70.0)], policy="tiresias", interval=60.0, preempt_cost=0.0, **clock)
    assert agreed(case).result.start == [1e9 + (22.0 if clock else 20.0)]
