"""`convert slurm --topology`: Slurm's topology.conf as tiers of the cluster file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ringbco
from conftest import Invoke
from ringbco.cluster.hostlist import compact
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.sources.slurm_topology import read_topology

TRACES = Path(__file__).parents[2] / "traces"
LOG = (str(TRACES / "slurm.psv"), str(TRACES / "slurm-nodes.txt"))
NODES = ("g01", "g02", "g03", "g04")
TREE = """\
# our switches
SWITCHNAME=s1 nodes=g[01-02] LinkSpeed=100   # two nodes
SwitchName=s2 \\
    Nodes=g03,g04,\\
c07

SwitchName=top Switches=s[1-2]
"""
BLOCKS = "BlockName=b1 Nodes=g[01-03]\nBlockName=b2 Nodes=g04,c07\nBlockSizes=2,4\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "topology.conf"
    path.write_text(text, encoding="utf-8")
    return path


def convert(invoke: Invoke, topology: Path, *more: str) -> str:
    """What is said on stderr."""
    ran = invoke("convert", "slurm", *LOG, "-o", "j.parquet", "--topology", topology, *more)
    assert ran.returncode == 0, ran.stderr
    return str(ran.stderr)


def filled(path: Path) -> Cluster:
    text = path.read_text(encoding="utf-8").replace('# bandwidth = "400Gb/s"', 'bandwidth = "400Gb/s"')
    path.write_text(text, encoding="utf-8")
    return Cluster.parse(path)


def test_switches_become_tiers(tmp_path: Path, invoke: Invoke) -> None:
    said = convert(invoke, written(tmp_path, TREE), "--cluster-out", "c.toml")
    assert "fill in the bandwidth of switch1, switch2 in the cluster file" in said
    path = tmp_path / "c.toml"
    with pytest.raises(
        InputError, match=r"network\.tiers\[1\]\.bandwidth: expected the bandwidth of a group"
    ):
        Cluster.parse(path)
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    assert document["network"]["tiers"] == [{"name": "switch1"}, {"name": "switch2"}]
    cluster = filled(path)
    lower, upper = cluster.tiers
    assert (lower.name, lower.groups, lower.bandwidth) == ("switch1", ("s1", "s1", "s2", "s2"), 50e9)
    assert (upper.name, upper.groups) == ("switch2", ("top",) * 4)
    assert cluster.server_names == NODES
    # The cluster is as it is without, but for the tiers.
    ran = invoke("convert", "slurm", *LOG, "-o", "plain.parquet", "--cluster-out", "plain.toml", "-q")
    assert ran.returncode == 0
    plain = Cluster.parse(tmp_path / "plain.toml")
    assert (plain.server_gpus.tolist(), plain.server_vc) == (cluster.server_gpus.tolist(), cluster.server_vc)
    assert (tmp_path / "plain.parquet").read_bytes() == (tmp_path / "j.parquet").read_bytes()
    ran = invoke("replay", "j.parquet", "--cluster", "c.toml", "--policy", "fifo", "-o", "r", "-q")
    assert ran.returncode == 0, ran.stderr


def test_blocks_become_one_tier(tmp_path: Path, invoke: Invoke) -> None:
    convert(invoke, written(tmp_path, BLOCKS), "--cluster-out", "c.toml", "-q")
    (tier,) = filled(tmp_path / "c.toml").tiers
    assert (tier.name, tier.groups) == ("block", ("b1", "b1", "b1", "b2"))


def test_from_python(tmp_path: Path) -> None:
    topology = written(tmp_path, TREE)
    made = ringbco.convert("slurm", LOG, cluster=True, topology=topology)
    assert made.cluster is not None
    assert [tier.groups for tier in made.cluster.tiers] == [("s1", "s1", "s2", "s2"), ("top",) * 4]
    with pytest.raises(
        InputError, match=r"^slurm: network\.tiers\[1\]\.bandwidth: expected the bandwidth of a"
    ):
        ringbco.replay(made.table, made.cluster, policy="fifo")


def test_nodes_of_the_log_alone(tmp_path: Path, invoke: Invoke) -> None:
    # Nodes on which no job of the log ran are passed over: nobody knows them.
    topology = written(tmp_path, "SwitchName=s Nodes=g[01-99]\n")
    ran = invoke(
        *("convert", "slurm", LOG[0], "-o", "j.parquet", "--cluster-out", "c.toml"),
        *("--topology", topology, "-q"),
    )
    assert ran.returncode == 0, ran.stderr
    assert set(filled(tmp_path / "c.toml").tiers[0].groups or ()) == {"s"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "line 1: a: expected switches without a loop"),
        (
            "SwitchName=l Nodes=g[01-04]\nSwitchName=a Switches=b,l\nSwitchName=b Switches=c\n"
            "SwitchName=c Switches=b\n",
            "line 4: b: expected each switch, and its nodes, under one switch; a has it, too",
        ),
        (
            "SwitchName=a Switches=a\n",
            "line 1: a: expected switches without a loop; this one is above itself",
        ),
        (
            "SwitchName=a Nodes=g[01-03]\nSwitchName=b Nodes=g03,g04\n",
            "line 2: g03: expected each node under one switch of level 1; a has it, too",
        ),
        (
            "BlockName=a Nodes=g[01-03]\nBlockName=b Nodes=g03,g04\n",
            "line 2: g03: expected each node under one block; a has it, too",
        ),
        (
            "SwitchName=a Nodes=g[01-04]\nSwitchName=t Switches=a\nSwitchName=u Switches=a\n",
            "line 3: a: expected each switch, and its nodes, under one switch; t has it, too",
        ),
        (
            "SwitchName=a Nodes=g[01-05]\n",
            "line 1: g05: expected nodes of the cluster; did you mean g0",
        ),
        ("SwitchName=a Nodes=g[01-03]\n", "lacks g04: expected every node with GPUs in some Nodes="),
        (
            "SwitchName=a Nodes=g[01-04]\nSwitchName=t Switches=a,b\n",
            "line 2: b: expected switches that have a",
        ),
        (
            "SwitchName=a Nodes=g[01-02]\n\nSwitchName=a Nodes=g[03-04]\n",
            "line 3: a: expected each name once; line 1 has it",
        ),
        (
            "SwitchName=a Nodes=g[01-04]\nBlockName=b Nodes=g[01-04]\n",
            "line 2: b: expected switches or blocks, not both",
        ),
        (
            "SwitchName=a\n",
            "line 1: SwitchName=a: expected Switches= or Nodes=, one of them, beside SwitchName=",
        ),
        ("SwitchName=a Nodes=g01 Switches=b\n", "expected Switches= or Nodes=, one of them"),
        ("BlockName=a\n", "line 1: BlockName=a: expected Nodes=, beside BlockName="),
        ("BlockName=a Switches=b\n", "line 1: 'BlockName=a Switches=b': expected Nodes= beside BlockName="),
        ("SwitchName=a Nodes=g01 Nodes=g02\n", "each once"),
        ("SwitchName=a Nodes=g[01-\n", "line 1: g[01-: expected a name or a hostlist"),
        ("SwitchName=a Nodes=g01,,g02\n", "line 1: g01,,g02: expected a name or a hostlist"),
        ("SwitchName=s[1-2] Nodes=g01\n", "line 1: s[1-2]: expected one name for SwitchName="),
        ("\n# x\nhello there\n", "line 3: 'hello there': expected SwitchName=, with Switches= or Nodes=, or"),
        ("Nodes=g01 SwitchName=a\n", "line 1: 'Nodes=g01 SwitchName=a': expected SwitchName=, with"),
        ("SwitchName=a Nodes=\n", "line 1"),
        ("SwitchName=a \\\n Nodes=g[01-02] \\\n bad\n", "line 1: 'SwitchName=a "),
        ("# nothing\n", "holds no line; expected SwitchName="),
        ("", "holds no line"),
    ],
)
def test_bad_files(tmp_path: Path, invoke: Invoke, text: str, told: str) -> None:
    path = written(tmp_path, text)
    ran = invoke(
        *("convert", "slurm", *LOG, "-o", "j.parquet", "--cluster-out", "c.toml", "--topology", path)
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"error: {path}: ")
    assert told in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert not (tmp_path / "c.toml").exists()
    assert not (tmp_path / "j.parquet").exists()


def test_options_that_do_not_go_together(tmp_path: Path, invoke: Invoke) -> None:
    path = written(tmp_path, TREE)
    ran = invoke("convert", "slurm", *LOG, "-o", "j.parquet", "--topology", path)
    assert (ran.returncode, ran.stderr) == (
        2,
        "error: --topology: it means nothing without --cluster-out C.toml\n",
    )
    ran = invoke("convert", "csv", str(TRACES / "log.csv"), "-o", "j.parquet", "--topology", path)
    assert (ran.returncode, ran.stderr) == (2, "error: --topology is not an option of csv\n")
    missing = invoke(
        *("convert", "slurm", *LOG, "-o", "j.parquet", "--cluster-out", "c.toml", "--topology", "no.conf")
    )
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)
    ran = invoke(
        "convert", "slurm", *LOG, "-o", "j.csv", "--cluster-out", path, "--topology", path, "--force"
    )
    assert (ran.returncode, path.read_text(encoding="utf-8")) == (2, TREE)


def test_a_branch_that_skips_a_level(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "SwitchName=root Switches=mid,low\nSwitchName=mid Switches=a\nSwitchName=a Nodes=n1\n"
        "SwitchName=low Nodes=n2\nSwitchName=alone Nodes=n3\n",
    )
    assert read_topology(path, ["n1", "n2", "n3"], frozenset()) == {
        "n1": (("switch1", "a"), ("switch2", "mid"), ("switch3", "root")),
        "n2": (("switch1", "low"), ("switch2", "low"), ("switch3", "root")),
        "n3": (("switch1", "alone"), ("switch2", "alone"), ("switch3", "alone")),
    }


@given(
    parents=st.lists(st.integers(0, 9), max_size=9), nodes=st.lists(st.integers(0, 9), min_size=1, max_size=9)
)
def test_tiers_nest_and_follow_the_tree(
    parents: list[int], nodes: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Switch i hangs below a switch of lower number, if any; each node hangs below a leaf."""
    above = {child: parent % child for child, parent in enumerate(parents, start=1)}
    below = {one: [child for child in above if above[child] == one] for one in range(len(parents) + 1)}
    leaves = [one for one in below if not below[one]]
    at = {f"n{number}": leaves[choice % len(leaves)] for number, choice in enumerate(nodes)}
    lines = []
    for one, children in below.items():
        names = [node for node in at if at[node] == one]
        if children:
            lines.append(f"SwitchName=s{one} Switches={','.join(f's{child}' for child in children)}")
        else:
            spare = [f"spare{one}"]
            lines.append(f"SwitchName=s{one} Nodes={compact([*names, *spare])}")
    path = written(tmp_path_factory.mktemp("tree"), "\n".join(reversed(lines)))
    found = read_topology(path, [*at], None)
    depth = max(len(labels) for labels in found.values())
    for node, labels in found.items():
        chain = [at[node]]
        while chain[-1] in above:
            chain.append(above[chain[-1]])
        assert [name for name, _ in labels] == [f"switch{level}" for level in range(1, depth + 1)]
        held = [int(group[1:]) for _, group in labels]
        assert held[0] == chain[0]
        assert held[-1] == chain[-1]
        assert [each for index, each in enumerate(held) if each not in held[:index]] == chain
    for level in range(depth - 1):
        pairs = {(labels[level][1], labels[level + 1][1]) for labels in found.values()}
        assert len(pairs) == len({lower for lower, _ in pairs})
