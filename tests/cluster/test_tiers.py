"""[[network.tiers]] of a cluster file: how groups are given, and every way to write them wrong."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from ringbco.cluster.spec import Cluster
from ringbco.cluster.tiers import Tier
from ringbco.errors import InputError

TIER = "[[network.tiers]]\n"
RACK = TIER + 'name = "rack"\nbandwidth = "25Gb/s"\n'
POD = TIER + 'name = "pod"\nbandwidth = 1e9\n'
SERVERS = "[[servers]]\ncount = 5\ngpus = 2\n"
NAMED = "".join(f'[[servers]]\ngpus = 2\nrack = "{rack}"\n' for rack in "zaz")


def parse(folder: Path, text: str) -> Cluster:
    (folder / "c.toml").write_text(text, encoding="utf-8")
    return Cluster.parse(folder / "c.toml")


def test_tiers_by_count(tmp_path: Path) -> None:
    text = RACK + "servers = 2\nalpha = 0\nxi1 = 1\n" + POD + 'servers = 400\ninside = "1GB/s"\n' + SERVERS
    cluster = parse(tmp_path, text)
    rack, pod = cluster.tiers
    assert rack == Tier("rack", 25e9 / 8, 2, alpha=0.0, xi1=1.0)
    assert pod == Tier("pod", 1e9, 400, inside=1e9)
    assert rack.group_of(5).tolist() == [0, 0, 1, 1, 2]
    assert rack.group_names(5) == ("0", "1", "2")
    assert (pod.group_of(5).tolist(), pod.group_names(5)) == ([0] * 5, ("0",))
    assert cluster.nics == "server"


def test_tiers_by_name(tmp_path: Path) -> None:
    (rack,) = parse(tmp_path, RACK + NAMED).tiers
    assert rack.group_of(3).tolist() == [0, 1, 0]
    assert rack.group_names(3) == ("z", "a")


def test_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    for text in (
        RACK + "servers = 2\n" + POD + "servers = 4\nxi1 = 0.25\n" + SERVERS,
        '[network]\nnics = "gpu"\n' + RACK + NAMED,
        '[recorded]\nnics = "gpu"\n' + SERVERS,
        TIER + 'name = "my rack"\nbandwidth = 1\n[[servers]]\ngpus = 1\n"my rack" = "a \\" b"\n',
    ):
        cluster = parse(tmp_path, text)
        assert parse(tmp_path, cluster.to_toml()) == cluster
        assert Cluster.from_document(cluster.to_dict(), "run.toml") == cluster
        assert pickle.loads(pickle.dumps(cluster)) == cluster
        assert hash(pickle.loads(pickle.dumps(cluster))) == hash(cluster)
        assert cluster != Cluster(cluster.server_gpus)


def test_nics_of_the_recorded_cluster_are_its_own(tmp_path: Path) -> None:
    cluster = parse(tmp_path, '[network]\nnics = "gpu"\n' + SERVERS)
    assert (cluster.nics, cluster.recorded_on.nics) == ("gpu", "server")
    assert "nics" not in Cluster("2x2").to_toml()


COUNT = RACK + "servers = 2\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (TIER + 'name = "rack"\nservers = 2\n' + SERVERS, "network.tiers[1].bandwidth: expected the bandw"),
        (COUNT.replace('"25Gb/s"', "0") + SERVERS, "network.tiers[1].bandwidth: 0: expected a finite"),
        (COUNT + "inside = -1\n" + SERVERS, "network.tiers[1].inside: -1: expected a finite number"),
        (COUNT + "alpha = -1\n" + SERVERS, "network.tiers[1].alpha: -1: expected a finite number >= 0"),
        (COUNT + "xi1 = 0\n" + SERVERS, "network.tiers[1].xi1: 0: expected a number in (0, 1]"),
        (COUNT + "speed = 0\n" + SERVERS, "network.tiers[1].speed: expected only the keys name, servers"),
        (COUNT.replace("2\n", "0\n") + SERVERS, "network.tiers[1].servers: 0: expected an integer >= 1"),
        (COUNT.replace("rack", "gpus") + SERVERS, 'network.tiers[1].name: "gpus": expected a name other'),
        (COUNT.replace("rack", "server") + SERVERS, 'network.tiers[1].name: "server": expected a name other'),
        (COUNT.replace("rack", "rack?") + SERVERS, 'network.tiers[1].name: "rack?": expected a name such'),
        (COUNT + COUNT + SERVERS, 'network.tiers[2].name: "rack": expected a name of its own'),
        (COUNT + POD + "servers = 3\n" + SERVERS, "network.tiers[2].servers: 3: expected a multiple of 2"),
        (RACK + SERVERS, "network.tiers[1].servers: expected servers, how many share an uplink, or a key"),
        (COUNT + NAMED, "network.tiers[1].servers: 2: expected either servers or names, and servers[1]"),
        (RACK + NAMED + SERVERS, "servers[4].rack: expected a name, since servers[1] has one"),
        (
            RACK + POD + "servers = 2\n" + NAMED,
            "network.tiers[2]: expected every rack in one pod, and rack z lies in pod 0 and 1; server 2",
        ),
        ('[network]\nnics = "rail"\n' + SERVERS, 'network.nics: "rail": expected "server" or "gpu"'),
        ("[network]\ntiers = 3\n" + SERVERS, "network.tiers: 3: expected a list of tables"),
        ("[recorded]\n" + '[[recorded.tiers]]\nname = "rack"\n' + SERVERS, "recorded.tiers: expected only"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(tmp_path, text)
    said = str(caught.value)
    assert "\n" not in said
    assert error in said


def test_groups_given_in_python_nest_too() -> None:
    racks, pods = Tier("rack", 1e9, groups=("a", "b", "a")), Tier("pod", 1e9, groups=("x", "x", "y"))
    with pytest.raises(InputError, match="rack a lies in pod x and y"):
        Cluster(np.array([1, 1, 1]), tiers=[racks, pods])
    with pytest.raises(InputError, match="servers, or the group of each server"):
        Cluster(np.array([1, 1]), tiers=[racks])
