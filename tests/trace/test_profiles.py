"""Model profiles: the catalogue, equation 8 without contention, and how gaps in a table are filled."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.trace.jobs import JobTable, from_frame
from ringbco.trace.profiles import CATALOGUE, choose, fewest_servers, iteration_time, resolve, vc_index

NAMES = [profile.name for profile in CATALOGUE]


def u32(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint32)


def table(**columns: Any) -> JobTable:
    length = len(next(iter(columns.values())))
    base = {
        "job_id": [f"job-{number}" for number in range(length)],
        "submit_time": [0.0] * length,
        "num_gpus": [1] * length,
        "duration": [100.0] * length,
    }
    return from_frame(pl.DataFrame(base | columns, strict=False))


# -- the catalogue ---


def test_the_catalogue_is_of_real_models_with_sources() -> None:
    assert len(CATALOGUE) >= 10
    assert len({name.lower() for name in NAMES}) == len(NAMES)
    assert {"ResNet-50", "VGG-16", "BERT-large", "GPT-2"} <= set(NAMES)
    for profile in CATALOGUE:
        assert profile.gradient_bytes == 4 * profile.parameters
        assert 0.05 <= profile.compute_time <= 0.6
        assert any(mark in profile.source for mark in ("arXiv", "github.com", ".org", ".com"))


def test_every_entry_iterates_within_a_second_up_to_256_gpus() -> None:
    sizes = np.arange(1, 257, dtype=np.uint32)
    servers = fewest_servers(sizes, np.full(32, 8, dtype=np.uint32))
    for profile in CATALOGUE:
        gradient = np.full(256, profile.gradient_bytes)
        tau = iteration_time(sizes, gradient, np.full(256, profile.compute_time), servers, Network())
        assert tau.max() < 1.0


# -- fewest servers ---


def test_fewest_servers_fill_the_largest_first() -> None:
    servers = u32(4, 8, 2)
    assert fewest_servers(u32(1, 8, 9, 12, 13, 14), servers).tolist() == [1, 1, 2, 2, 3, 3]
    # Beyond all of them as if there were more of the largest: 14 + 8 + 8 ...
    assert fewest_servers(u32(15, 22, 23, 1000), servers).tolist() == [4, 4, 5, 3 + 124]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
def test_fewest_servers_is_the_least_sufficient_number(servers: list[int], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, sum(servers)))
    least = next(k for k in range(1, len(servers) + 1) if sum(sorted(servers)[-k:]) >= size)
    assert fewest_servers(u32(size), u32(*servers)).tolist() == [least]


# -- equation 8 ---


def exact_tau(w: int, m: float, compute: float, servers: int, network: Network) -> Fraction:
    x = Fraction(m) * (w - 1) / w
    bandwidth = Fraction(network.inter_bandwidth if servers > 1 else network.intra_bandwidth)
    overhead = Fraction(network.xi2) * servers
    return 2 * x / bandwidth + x / Fraction(network.reduce_speed) + overhead + Fraction(compute)


@given(
    w=st.integers(1, 512),
    m=st.floats(0, 1e10),
    compute=st.floats(0, 10),
    servers=st.integers(1, 64),
)
def test_iteration_time_is_equation_8(w: int, m: float, compute: float, servers: int) -> None:
    network = Network()
    tau = iteration_time(u32(w), np.array([m]), np.array([compute]), u32(servers), network)
    assert tau[0] == pytest.approx(float(exact_tau(w, m, compute, servers, network)), rel=1e-13)


def test_iteration_time_by_hand() -> None:
    network = Network(intra_bandwidth=100, inter_bandwidth=10, reduce_speed=50, xi1=0.5, xi2=0.25, alpha=0.5)
    args = (u32(4, 4, 4, 1), np.full(4, 200.0), np.full(4, 1.0), u32(1, 2, 2, 1), network)
    # x = 150: one server 3 + 3 + 0.25 + 1; two servers 30 + 3 + 0.5 + 1; one worker sends nothing.
    assert iteration_time(*args).tolist() == [7.25, 34.5, 34.5, 1.25]
    # With 4 bytes/s between servers: 75 s of sending.
    assert iteration_time(*args, np.full(4, 4.0)).tolist() == [7.25, 79.5, 79.5, 1.25]


# -- the hash ---


def fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def splitmix_output(state: int, number: int) -> int:
    z = (state + number * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_fnv1a_of_a_published_vector() -> None:
    assert fnv1a("foobar") == 0x85944171F73967E8


@given(st.lists(st.text(max_size=12), min_size=1, max_size=30), st.integers(0, 2**64 - 1))
def test_the_choice_is_the_documented_hash(ids: list[str], seed: int) -> None:
    expected = [splitmix_output(fnv1a(text), seed + 1) % len(CATALOGUE) for text in ids]
    assert choose(pl.Series(ids, dtype=pl.String), seed).tolist() == expected


@pytest.mark.long
def test_ids_of_all_lengths_are_hashed_alike() -> None:
    """Among short ids one of four megabytes, and as many long ones as are taken together."""
    ids = ["a", "", "b" * 4_000_000, *(f"{number}-" + "c" * number for number in range(60))]
    chosen = choose(pl.Series(ids), 1).tolist()
    expected = [splitmix_output(fnv1a(text), 2) % len(CATALOGUE) for text in ids]
    assert chosen == expected


def test_the_choice_is_even_and_depends_on_the_seed() -> None:
    ids = pl.Series([f"philly-{number}" for number in range(100_000)])
    first, second = choose(ids, 0), choose(ids, 1)
    counts = np.bincount(first, minlength=len(CATALOGUE))
    assert counts.min() > 0.9 * ids.len() / len(CATALOGUE)
    assert counts.max() < 1.1 * ids.len() / len(CATALOGUE)
    assert np.mean(first == second) == pytest.approx(1 / len(CATALOGUE), rel=0.1)
    # Rows do not matter, only the id: a block boundary lies inside.
    assert choose(ids.reverse(), 0).tolist() == first[::-1].tolist()


# -- resolve ---


def test_a_recorded_duration_is_kept_to_half_an_iteration() -> None:
    jobs = table(num_gpus=[1, 8, 16, 64] * 50, duration=np.geomspace(1, 1e6, 200))
    work = resolve(jobs, Cluster.parse("8x8"), model="rar", seed=3)
    duration = jobs.frame["duration"].to_numpy()
    kept = np.abs(work.ideal_run_time - duration) <= work.tau0 / 2 * (1 + 1e-9)
    assert (kept | (work.iterations == 1)).all()
    assert work.iterations.dtype == np.uint64
    entry = choose(jobs.frame["job_id"], 3)
    assert work.gradient_bytes.tolist() == [CATALOGUE[i].gradient_bytes for i in entry]
    assert work.compute_time.tolist() == [CATALOGUE[i].compute_time for i in entry]


def test_estimate_is_on_one_server_whatever_the_size() -> None:
    jobs = table(num_gpus=[4, 16], gradient_bytes=[1e9] * 2, fp_time=[0.1] * 2, iterations=[10, 20])
    cluster = Cluster.parse("4x8")
    work = resolve(jobs, cluster, model="rar", seed=0)
    gradient, compute = np.full(2, 1e9), np.full(2, 0.1)
    alone = iteration_time(u32(4, 16), gradient, compute, u32(1, 1), cluster.network)
    fewest = iteration_time(u32(4, 16), gradient, compute, u32(1, 2), cluster.network)
    assert work.estimate.tolist() == [10 * alone[0], 20 * alone[1]]
    assert work.tau0.tolist() == fewest.tolist()
    assert work.ideal_run_time.tolist() == [10 * fewest[0], 20 * fewest[1]]


def test_iterations_do_not_hang_on_the_cluster_of_the_run() -> None:
    jobs = table(num_gpus=[1, 8, 16, 64], duration=[36_000.0] * 4, model=["VGG-16"] * 4)
    usual = resolve(jobs, Cluster.parse("8x8"), model="rar", seed=0)
    ones = resolve(jobs, Cluster.parse("64x1"), model="rar", seed=0)
    slow = resolve(jobs, Cluster.parse("8x8").with_network(inter_bandwidth=1.25e8), model="rar", seed=0)
    assert usual.iterations.tolist() == ones.iterations.tolist() == slow.iterations.tolist()
    # The same work takes longer where the links are slow: 64 GPUs on eight servers, at a hundredth of b_e.
    assert usual.ideal_run_time[3] == pytest.approx(36_000, abs=0.5)
    assert slow.ideal_run_time[3] > 20 * 36_000
    assert slow.ideal_run_time[1] == usual.ideal_run_time[1]  # one server, no link
    assert ones.ideal_run_time[1] > 1.1 * usual.ideal_run_time[1]


def test_the_recorded_cluster_is_an_option() -> None:
    jobs = table(num_gpus=[8, 12], duration=[1e5] * 2, model=["GPT-2"] * 2)
    run = Cluster.parse("4x8")
    fours = run.with_recorded(Cluster.parse("1x4"))
    work = resolve(jobs, fours, model="rar", seed=0)
    gradient, compute = work.gradient_bytes, work.compute_time
    tau = iteration_time(u32(8, 12), gradient, compute, u32(2, 3), Network())
    assert work.iterations.tolist() == np.rint(1e5 / tau).tolist()
    assert work.tau0.tolist() == resolve(jobs, run, model="rar", seed=0).tau0.tolist()
    quick = run.with_recorded(Cluster.parse("1x4").with_network(inter_bandwidth=1e11))
    assert (resolve(jobs, quick, model="rar", seed=0).iterations > work.iterations).all()
    # `fixed` knows no iterations.
    fixed = resolve(jobs, fours, model="fixed", seed=0)
    assert fixed.ideal_run_time.tolist() == [1e5] * 2


def test_a_recorded_cluster_with_virtual_clusters() -> None:
    jobs = table(vc=["small", "big", "other"], num_gpus=[4] * 3, model=["GPT-2"] * 3, duration=[1e4] * 3)
    cluster = Cluster.parse("4x8").with_recorded(divided_cluster())
    work = resolve(jobs, cluster, model="rar", seed=0)
    # Two servers of 2 GPUs for `small`; one of 8 for `big` and for a vc that it does not have.
    tau = iteration_time(u32(4, 4, 4), work.gradient_bytes, work.compute_time, u32(2, 1, 1), Network())
    assert work.iterations.tolist() == np.rint(1e4 / tau).tolist()


@pytest.mark.long
@given(
    sizes=st.lists(st.integers(1, 70), min_size=1, max_size=6),
    recorded=st.sampled_from(["1x8", "2x4", "3x1", "1x64"]),
    server=st.integers(1, 16),
    bandwidth=st.floats(1e7, 1e12),
)
def test_the_work_is_that_of_the_recorded_cluster(
    sizes: list[int], recorded: str, server: int, bandwidth: float
) -> None:
    jobs = table(num_gpus=sizes, duration=[5000.0] * len(sizes))
    cluster = Cluster.parse(f"70x{server}").with_network(inter_bandwidth=bandwidth)
    work = resolve(jobs, cluster.with_recorded(Cluster.parse(recorded)), model="rar", seed=1)
    per_server = int(recorded.split("x")[1])
    for row, size in enumerate(sizes):
        servers = -(-size // per_server)
        tau = exact_tau(size, work.gradient_bytes[row], work.compute_time[row], servers, Network())
        assert abs(int(work.iterations[row]) - 5000 / tau) <= 0.5 + 1e-6


def test_given_values_win_one_by_one() -> None:
    jobs = table(
        iterations=[7, None, None],
        gradient_bytes=[None, 5.0, None],
        batch_size=[None, 4, 4],
        fp_time=[0.5, 0.25, None],
        bp_time=[None, 0.125, None],
    )
    work = resolve(jobs, Cluster.parse("1x8"), model="rar", seed=0)
    entry = [CATALOGUE[i] for i in choose(jobs.frame["job_id"], 0)]
    assert work.gradient_bytes.tolist() == [entry[0].gradient_bytes, 5.0, entry[2].gradient_bytes]
    # A missing batch size is 1, a missing half of the compute group 0; the group is absent only as a whole.
    assert work.compute_time.tolist() == [0.5, 0.25 * 4 + 0.125, entry[2].compute_time]
    assert work.iterations[0] == 7
    assert work.iterations[1] == np.rint(100 / work.tau0[1])


def test_a_named_model_picks_its_entry() -> None:
    jobs = table(model=["GPT-2", "vgg-16", "my own net", None])
    work = resolve(jobs, Cluster.parse("1x8"), model="rar", seed=0)
    by_hash = choose(jobs.frame["job_id"], 0)
    expected = [CATALOGUE[i] for i in (NAMES.index("GPT-2"), NAMES.index("VGG-16"), by_hash[2], by_hash[3])]
    assert work.compute_time.tolist() == [profile.compute_time for profile in expected]


def test_fixed_takes_the_recorded_duration() -> None:
    jobs = table(duration=[3.0, 4.5], iterations=[10, 10])
    work = resolve(jobs, Cluster.parse("1x8"), model="fixed", seed=0)
    assert work.ideal_run_time.tolist() == work.estimate.tolist() == [3.0, 4.5]
    for column in (work.iterations, work.gradient_bytes, work.compute_time, work.tau0):
        assert column.tolist() == [0, 0]


def test_very_short_jobs_run_one_iteration() -> None:
    work = resolve(table(duration=[1e-9]), Cluster.parse("1x8"), model="rar", seed=0)
    assert work.iterations.tolist() == [1]


def divided_cluster() -> Cluster:
    return Cluster(u32(8, 2, 2, 8), server_vc=("big", "small", "small", "big"))


def test_each_virtual_cluster_has_its_own_servers() -> None:
    jobs = table(vc=["small", "big"], num_gpus=[4, 4], fp_time=[1.0, 1.0], gradient_bytes=[1e9, 1e9])
    cluster = divided_cluster()
    index = vc_index(jobs, cluster)
    assert index is not None
    assert index.tolist() == [1, 0]
    tau = resolve(jobs, cluster, model="rar", seed=0).tau0
    expected = iteration_time(u32(4, 4), np.full(2, 1e9), np.ones(2), u32(2, 1), cluster.network)
    assert tau.tolist() == expected.tolist()
    assert vc_index(jobs, cluster.pooled()) is None


def test_jobs_of_no_virtual_cluster_are_refused() -> None:
    with pytest.raises(InputError, match=r"row 2, column vc: smal: expected one of .*did you mean small\?"):
        resolve(table(vc=["small", "smal"]), divided_cluster(), model="rar", seed=0)
    with pytest.raises(InputError, match="row 1, column vc: null"):
        resolve(table(vc=[None, "small"]), divided_cluster(), model="rar", seed=0)
    with pytest.raises(InputError, match="the column vc is missing"):
        resolve(table(duration=[1.0]), divided_cluster(), model="rar", seed=0)


def test_iterations_that_take_no_time_or_for_ever_are_refused() -> None:
    idle = Cluster.parse("1x8").with_network(xi2=0)
    with pytest.raises(
        InputError, match="row 2, column job_id: job-1: expected an iteration that takes some time"
    ):
        resolve(table(fp_time=[0.1, 0.0], gradient_bytes=[0.0, 0.0]), idle, model="rar", seed=0)
    crawling = Cluster.parse("1x8").with_network(intra_bandwidth=1e-300)
    with pytest.raises(InputError, match="row 1, column job_id: job-0: expected an iteration that ends"):
        resolve(table(num_gpus=[2], gradient_bytes=[1e30]), crawling, model="rar", seed=0)


def test_more_iterations_than_can_be_counted_are_refused() -> None:
    with pytest.raises(InputError, match=r"row 1, column duration: .*at most 9007199254740992 iterations"):
        resolve(table(duration=[9e15]), Cluster.parse("1x8"), model="rar", seed=0)


def test_an_unknown_execution_model() -> None:
    with pytest.raises(UsageError, match="expected rar or fixed"):
        resolve(table(duration=[1.0]), Cluster.parse("1x8"), model="ring", seed=0)


def test_the_page_lists_the_whole_catalogue() -> None:
    page = (Path(__file__).parents[2] / "docs" / "profiles.md").read_text(encoding="utf-8")
    rows = [row for row in page.splitlines() if row.startswith("| ") and row.endswith("] |")]
    assert len(rows) == len(CATALOGUE)
    for row, profile in zip(rows, CATALOGUE, strict=True):
        assert row.startswith(f"| {profile.name} | {profile.parameters:,} | {profile.compute_time:.4f} | ")
