"""What a custom policy sees of links: state.tiers and state.bandwidth, by hand (docs/tiers.md)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import ringbco
from ringbco import Cluster, DecisionError, Network
from ringbco.cluster.groups import ServerGroup
from ringbco.cluster.tiers import Tier

PAGE = Path(__file__).parents[2] / "docs" / "custom-policies.md"
TEN = 10e9


def cluster(*tiers: Tier, servers: int = 4, gpus: int = 2, vcs: bool = False) -> Cluster:
    rates = {"intra_bandwidth": 100e9, "inter_bandwidth": TEN, "reduce_speed": 1e300}
    network = Network(**rates, xi1=1.0, xi2=0.0, alpha=0.0)
    groups = [ServerGroup(servers, gpus)]
    if vcs:
        groups = [ServerGroup(servers // 2, gpus, vc="a"), ServerGroup(servers - servers // 2, gpus, vc="b")]
    return Cluster.from_groups(groups, network, tiers=list(tiers))


def table(count: int = 4, **columns: object) -> pl.DataFrame:
    ring = {"iterations": 100, "gradient_bytes": TEN, "batch_size": 1, "fp_time": 0.5, "bp_time": 0.5}
    own = {"submit_time": 0.0, "num_gpus": 2, "duration": 100.0, **ring, **columns}
    return pl.DataFrame({"job_id": [f"j{row}" for row in range(count)]}).with_columns(
        **{name: value if isinstance(value, pl.Series) else pl.lit(value) for name, value in own.items()}
    )


def opened(jobs: pl.DataFrame, where: Cluster, **options: object) -> ringbco.Simulation:
    run = ringbco.Simulation(jobs, where, **options)
    assert run.advance()
    return run


RACK = Tier("rack", TEN, 2)


def test_tiers_have_the_group_of_each_server() -> None:
    named = Tier("pod", TEN, groups=("z", "z", "z", "z"))
    tiers = opened(table(), cluster(RACK, named)).state.tiers
    assert {name: group.tolist() for name, group in tiers.items()} == {
        "rack": [0, 0, 1, 1],
        "pod": [0, 0, 0, 0],
    }
    with pytest.raises(ValueError, match="read-only"):
        tiers["rack"][0] = 1
    assert opened(table(), cluster()).state.tiers == {}


def test_bandwidth_is_what_a_placement_would_get_now() -> None:
    run = opened(table(), cluster(RACK))
    state = run.state
    assert state.bandwidth(0, [(0, 2)]) == 100e9  # in a server
    assert state.bandwidth(0, [(0, 1), (2, 1)]) == TEN  # alone
    run.start(0, [(0, 1), (2, 1)])
    assert state.bandwidth(1, [(1, 1), (3, 1)]) == TEN / 2  # two at the uplinks, one at the servers
    assert state.bandwidth(1, [(0, 1), (1, 1)]) == TEN / 2  # two at the link of server 0, inside a rack
    assert state.bandwidth(1, [(1, 1), (0, 1)]) == TEN / 2  # in any order
    run.start(1, [(1, 1), (3, 1)])
    assert state.bandwidth(2, [(1, 1), (2, 1)]) == TEN / 3
    # A running row gives back what it holds: it does not meet itself.
    assert state.bandwidth(1, [(1, 1), (3, 1)]) == TEN / 2
    assert state.bandwidth(1, [(2, 1), (3, 1)]) == TEN / 2
    # What it is told is what it gets: 1 s and 2 x = 10e9 bytes at 5e9 bytes/s, 3 s.
    run.refuse([2, 3])
    assert not run.advance()
    assert run.outcome().jobs["finish_time"].to_list() == [300.0, 300.0]


def test_bandwidth_counts_intensity_and_links_of_gpus() -> None:
    jobs = table(intensity=pl.Series([0.5, 1.0, 1.0, 1.0]))
    where = cluster(Tier("rack", 2 * TEN, 1), servers=2, gpus=6)
    where = Cluster.from_groups([ServerGroup(2, 6)], where.network, tiers=where.tiers, nics="gpu")
    run = opened(jobs.with_columns(num_gpus=pl.lit(4)), where)
    run.start(0, [(0, 2), (1, 2)])
    # r = 2 each; n = 2 + 2 x 0.5 = 3: 2e10 x 2 / 3 at the uplinks, 2e10 of its own.
    assert run.state.bandwidth(1, [(0, 2), (1, 2)]) == pytest.approx(2 * TEN * 2 / 3, rel=1e-15)
    assert run.state.bandwidth(1, [(0, 3), (1, 1)]) == TEN  # one flow: one NIC


def test_without_tiers_it_is_equation_7() -> None:
    run = opened(table(), cluster())
    run.start(0, [(0, 1), (1, 1)])
    run.start(1, [(1, 1), (2, 1)])
    assert run.state.bandwidth(2, [(1, 1), (3, 1)]) == TEN / 3
    assert run.state.bandwidth(1, [(1, 1), (2, 1)]) == TEN / 2
    off = opened(table(), cluster(), sharing="off")
    off.start(0, [(0, 1), (1, 1)])
    assert off.state.bandwidth(1, [(0, 1), (1, 1)]) == TEN


def test_a_fork_has_links_of_its_own() -> None:
    run = opened(table(), cluster(RACK))
    run.start(0, [(0, 1), (2, 1)])
    fork = run.fork()
    fork.start(1, [(1, 1), (3, 1)])
    place = [(1, 1), (3, 1)]
    assert (run.state.bandwidth(2, place), fork.state.bandwidth(2, place)) == (TEN / 2, TEN / 3)


def test_servers_of_others_are_refused() -> None:
    jobs = table(vc=pl.Series(["a", "a", "b", "b"]))
    run = opened(jobs, cluster(RACK, vcs=True), vc="a")
    with pytest.raises(DecisionError, match="there is no server 3 in its cluster"):
        run.state.bandwidth(0, [(0, 1), (3, 1)])
    with pytest.raises(DecisionError, match="there is no server 9"):
        opened(table(), cluster(RACK)).state.bandwidth(0, [(0, 1), (9, 1)])


def test_the_policy_of_the_page_beats_first_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for title, text in re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL):
        Path(title).write_text(text, encoding="utf-8")
    assert Path("least_contended.py").read_text().split("class ")[1].count("\n") <= 15
    jobs = ringbco.generate("philly", 300, seed=4, gpus=64, load=1.2)
    first = ringbco.replay(jobs, "racks.toml", policy="fifo", placement="first-fit")
    least = ringbco.replay(jobs, "racks.toml", policy="least_contended.py:LeastContended", decisions=True)
    assert least.summary["mean_jct"] < first.summary["mean_jct"]
    lost = [own.summary["links"][0]["gpu_hours_lost"] for own in (least, first)]
    assert 0 < lost[0] < lost[1] / 10
    assert ringbco.audit(least, jobs) == []
    least.write("least")
    again = ringbco.replay(jobs, "racks.toml", policy="log:least/decisions.parquet")
    assert least.links is not None
    assert again.links is not None
    assert again.links.equals(least.links)
    assert np.array_equal(again.jobs["finish_time"], least.jobs["finish_time"])
