"""`ringbco cluster`: the figures of a cluster, its uplinks and how far they are oversubscribed; presets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ringbco
from conftest import Invoke, present
from ringbco.cluster.outline import outline
from ringbco.cluster.presets import PRESETS
from ringbco.cluster.spec import Cluster
from ringbco.cluster.tiers import Tier
from ringbco.errors import InputError

FILE = """
[network]
inter_bandwidth = "100Gb/s"
xi1 = 0.25

[[network.tiers]]
name = "rack"
servers = 2
bandwidth = "50Gb/s"
xi1 = 1

[[network.tiers]]
name = "pod"
bandwidth = "400Gb/s"
inside = "200Gb/s"

[[servers]]
count = 4
gpus = 8
pod = "east"
gpu_type = "V100"
vc = "a"

[[servers]]
count = 1
gpus = 4
pod = "west"
gpu_type = "T4"
vc = "b"
"""


def span(least: float, most: float) -> dict[str, float]:
    return {"least": least, "most": most}


def test_the_figures_of_a_file(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "c.toml").write_text(FILE, encoding="utf-8")
    ran = invoke("cluster", str(tmp_path / "c.toml"), "--json")
    found = json.loads(ran.stdout)
    assert found == outline(Cluster.parse(tmp_path / "c.toml"))
    tiers = found.pop("tiers")
    assert found == {
        "cluster": str(tmp_path / "c.toml"),
        "servers": 5,
        "gpus": 36,
        "server_gpus": span(4, 8),
        "gpu_types": {"V100": {"servers": 4, "gpus": 32}, "T4": {"servers": 1, "gpus": 4}},
        "virtual_clusters": {"a": {"servers": 4, "gpus": 32}, "b": {"servers": 1, "gpus": 4}},
        "nics": "server",
        "intra_bandwidth": 150e9,
        "inter_bandwidth": 12.5e9,
    }
    rack, pod = tiers
    assert rack == {
        "name": "rack",
        "groups": 3,
        "servers": span(1, 2),
        "gpus": span(4, 16),
        "bandwidth": 6.25e9,
        "sends": span(12.5e9, 25e9),
        "oversubscription": span(2.0, 4.0),
        "alpha": 0.3,
        "xi1": 1.0,
        "inside": None,
    }
    assert (pod["groups"], pod["servers"], pod["oversubscription"]) == (2, span(1, 4), span(0.25, 1.0))
    assert (pod["xi1"], pod["inside"]) == (0.25, 25e9)


def test_the_table(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "c.toml").write_text(FILE, encoding="utf-8")
    said = invoke("cluster", str(tmp_path / "c.toml"), "--vc", "pool").stdout
    assert said.startswith(f"{tmp_path / 'c.toml'}: 5 servers of 4 to 8 GPUs, 36 GPUs\n")
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert "V100 4 32" in lines
    assert not any(line.startswith("virtual") for line in lines)
    assert "server 5 1 4 to 8 100 Gb/s - 1,200 Gb/s" in lines
    assert "rack 3 1 to 2 4 to 16 50.0 Gb/s 2.00 to 4.00 -" in lines
    assert "pod 2 1 to 4 4 to 32 400 Gb/s 0.250 to 1.00 200 Gb/s" in lines
    assert "leads nowhere" not in said


def test_options_of_the_network_override_the_file(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "c.toml").write_text(FILE, encoding="utf-8")
    ran = invoke("cluster", str(tmp_path / "c.toml"), "--inter-bandwidth", "x2", "--json")
    assert json.loads(ran.stdout)["tiers"][0]["oversubscription"] == span(4.0, 8.0)


def test_an_uplink_of_the_only_group_leads_nowhere(tmp_path: Path, invoke: Invoke) -> None:
    text = FILE.replace('pod = "west"', 'pod = "east"')
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    said = invoke("cluster", str(tmp_path / "c.toml")).stdout
    assert said.endswith("The uplink of a single group leads nowhere: no job crosses it.\n")


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("4y8",), 1, "cluster: 4y8: expected SxG such as 32x8, the path of a TOML file, or preset:NAME"),
        (("preset:superpod",), 1, "did you mean preset:superpod-h100?"),
        (("4x8", "--xi1", "2"), 2, "xi1: 2: expected a number in (0, 1]"),
        (("4x8", "--vc", "join"), 2, "option vc: 'join': expected split or pool"),
        ((), 2, "is missing: `ringbco cluster preset:superpod-h100`"),
    ],
)
def test_bad_input(invoke: Invoke, arguments: tuple[str, ...], status: int, told: str) -> None:
    ran = invoke("cluster", *arguments)
    assert ran.returncode == status
    assert ran.stdout == ""
    assert told in ran.stderr
    assert ran.stderr.count("\n") == 1


@given(
    gpus=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    size=st.integers(1, 14),
    bandwidth=st.floats(1.0, 1e12),
    nics=st.sampled_from(("server", "gpu")),
)
def test_figures_add_up(gpus: list[int], size: int, bandwidth: float, nics: str) -> None:
    cluster = Cluster(gpus, tiers=(Tier("rack", bandwidth, size),), nics=nics)
    (tier,) = outline(cluster)["tiers"]
    parts = [gpus[at : at + size] for at in range(0, len(gpus), size)]
    ratios = [12.5e9 * (sum(part) if nics == "gpu" else len(part)) / bandwidth for part in parts]
    assert tier["groups"] == len(parts)
    assert tier["gpus"] == span(min(map(sum, parts)), max(map(sum, parts)))
    assert tier["servers"] == span(min(map(len, parts)), max(map(len, parts)))
    assert tier["oversubscription"] == pytest.approx(span(min(ratios), max(ratios)))


@pytest.mark.parametrize(
    ("name", "servers", "tiers"),
    [
        ("superpod-h100", 127, {"unit": (4, span(31, 32), 1.0)}),
        ("racks-2to1", 32, {"rack": (8, span(4, 4), 2.0)}),
        ("llama3", 3072, {"rack": (1536, span(2, 2), 1.0), "pod": (8, span(384, 384), 7.0)}),
    ],
)
def test_presets_with_tiers(
    name: str, servers: int, tiers: dict[str, tuple[int, dict[str, float], float]]
) -> None:
    found = outline(Cluster.parse(f"preset:{name}"))
    assert (found["servers"], found["gpus"], found["nics"]) == (servers, servers * 8, "gpu")
    assert (found["inter_bandwidth"], found["intra_bandwidth"]) == (50e9, 450e9)
    shown = {
        tier["name"]: (tier["groups"], tier["servers"], pytest.approx(tier["oversubscription"]["most"]))
        for tier in found["tiers"]
    }
    assert shown == tiers


def test_presets_with_tiers_are_read_as_they_were_written() -> None:
    for name in ("superpod-h100", "racks-2to1", "llama3"):
        cluster = Cluster.parse(f"preset:{name}")
        assert Cluster.from_document(cluster.to_dict(), "run.toml") == cluster


def test_the_page_lists_the_presets() -> None:
    page = Path("docs/cluster.md").read_text(encoding="utf-8").partition("## Presets")[2]
    rows = re.findall(r"^\| ([a-z][^|]*) \| ([\d,]+) \| ([\d,]+) \|", page, re.MULTILINE)
    listed = {name: row[1:] for row in rows for name in row[0].split(", ")}
    assert listed.keys() == PRESETS.keys()
    for name, (servers, gpus) in listed.items():
        cluster = Cluster.parse(f"preset:{name}")
        assert (f"{cluster.num_servers:,}", f"{cluster.num_gpus:,}") == (servers, gpus), name


def examples() -> list[str]:
    """The cluster files of the section on networks that people have."""
    page = Path("docs/cluster.md").read_text(encoding="utf-8")
    section = page.partition("## Networks that people have")[2].partition("\n## ")[0]
    return re.findall(r"```toml\n(.*?)```", section, re.DOTALL)


def test_the_examples_of_the_page(tmp_path: Path) -> None:
    rails, domains = (tmp_path / name for name in ("rails.toml", "domains.toml"))
    for path, text in zip((rails, domains), examples(), strict=True):
        path.write_text(text, encoding="utf-8")
    (unit,) = outline(Cluster.parse(rails))["tiers"]
    assert (unit["groups"], unit["gpus"], unit["oversubscription"]) == (4, span(256, 256), span(1, 1))
    (domain,) = outline(Cluster.parse(domains))["tiers"]
    assert (domain["groups"], domain["gpus"], domain["oversubscription"]) == (8, span(72, 72), span(1, 1))
    assert domain["inside"] == 900e9


def test_racks_of_an_inventory(shared_traces: Path, tmp_path: Path) -> None:
    """847 servers of Alibaba's Lingjun: labels of switches do not nest, names made of both do."""
    table = pl.read_csv(present(shared_traces / "lingjun" / "topo.csv")).sort(
        "PSW", "ASW", maintain_order=True
    )
    lines = ["[network]", 'nics = "gpu"']
    for name in ("rack", "pod", "hall"):
        lines += ["", "[[network.tiers]]", f'name = "{name}"', 'bandwidth = "1Tb/s"']
    plain = lines.copy()
    for name, switch, top in table.select("ASW", "PSW", "DSW").iter_rows():
        entry = ["", "[[servers]]", "gpus = 8", f'pod = "{switch}"', f'hall = "{top}"']
        lines += [*entry, f'rack = "{switch}/{name}"']
        plain += [*entry, f'rack = "{name}"']
    (tmp_path / "c.toml").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "plain.toml").write_text("\n".join(plain), encoding="utf-8")
    cluster = Cluster.parse(tmp_path / "c.toml")
    rack, pod, hall = outline(cluster)["tiers"]
    assert cluster.num_servers == 847
    assert (rack["groups"], rack["servers"]["most"]) == (119, 8)
    assert (pod["groups"], hall["groups"]) == (3, 1)
    assert Cluster.from_document(cluster.to_dict(), "run.toml") == cluster
    with pytest.raises(InputError, match=r"and rack S\d+ lies in pod P\d+ and P"):
        Cluster.parse(tmp_path / "plain.toml")
    outcome = ringbco.replay(
        pl.DataFrame(
            {
                "job_id": ["a", "b"],
                "submit_time": [0.0, 0.0],
                "num_gpus": [40, 72],
                "duration": [100.0, 100.0],
            }
        ),
        cluster,
        policy="fifo",
    )
    assert outcome.jobs["max_crossing"].to_list() == [0.0, 8.0]
