"""The cluster: its three spellings, virtual clusters, and every way to write it wrong."""

from __future__ import annotations

import copy
import pickle
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringbco.cluster.gpu_types import CATALOGUE, GpuType
from ringbco.cluster.network import NETWORK_RULES, Network
from ringbco.cluster.spec import Cluster, preset_names
from ringbco.errors import InputError, UsageError

MIXED = """\
[network]
inter_bandwidth = 1e9
xi1 = 1
[[servers]]
count = 2
gpus = 8
vc = "6214e9"
gpu_type = "V100"
[[servers]]
gpus = 4
vc = "b"
gpu_type = "T4"
[[servers]]
count = 1
gpus = 8
vc = "6214e9"
gpu_type = "v100"
"""


def refusal(text: str | Path) -> InputError:
    with pytest.raises(InputError) as caught:
        Cluster.parse(text)
    assert "\n" not in str(caught.value)
    return caught.value


def parse_toml(folder: Path, text: str) -> Cluster:
    path = folder / "c.toml"
    path.write_text(text, encoding="utf-8")
    return Cluster.parse(path)


def test_short_form() -> None:
    cluster = Cluster.parse("32x8")
    assert cluster.server_gpus.tolist() == [8] * 32
    assert cluster.server_gpus.dtype == np.uint32
    assert (cluster.num_servers, cluster.num_gpus, cluster.name) == (32, 256, "32x8")
    assert cluster.server_vc is None
    assert cluster.vc_names == ()
    assert Cluster.parse(" 32 X 8 ") == cluster
    with pytest.raises(ValueError, match="read-only"):
        cluster.server_gpus[0] = 1


def test_the_class_takes_what_parse_takes(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(MIXED, encoding="utf-8")
    for text in ("32x8", " 2 X 4 ", f"preset:{preset_names()[0]}", str(path), path):
        made = Cluster(text)
        assert made == Cluster.parse(text)
        assert (made.name, made.to_toml()) == (Cluster.parse(text).name, Cluster.parse(text).to_toml())
        assert copy.copy(pickle.loads(pickle.dumps(made))) == made
    with pytest.raises(InputError) as caught:
        Cluster("32by8")
    assert str(caught.value) == str(refusal("32by8"))
    with pytest.raises(UsageError, match=r"Cluster\('2x8'\): expected no network .*with_network"):
        Cluster("2x8", network=Network(alpha=0.2))


def test_the_networks_defaults_are_the_contracts() -> None:
    assert Cluster.parse("1x1").network == Network(150e9, 12.5e9, 500e9, 0.5, 5e-4, 0.3)


def test_toml(tmp_path: Path) -> None:
    cluster = parse_toml(tmp_path, MIXED)
    assert cluster.server_gpus.tolist() == [8, 8, 4, 8]
    assert cluster.server_vc == ("6214e9", "6214e9", "b", "6214e9")
    assert cluster.server_gpu_type == ("V100", "V100", "T4", "v100")
    assert cluster.network == Network(inter_bandwidth=1e9, xi1=1.0)
    assert cluster.vc_names == ("6214e9", "b")
    assert cluster.vc_servers("6214e9").tolist() == [0, 1, 3]
    assert cluster.name == str(tmp_path / "c.toml")


def test_pooled_drops_only_the_virtual_clusters(tmp_path: Path) -> None:
    pooled = parse_toml(tmp_path, MIXED).pooled()
    assert pooled.server_vc is None
    assert pooled.vc_names == ()
    assert pooled.num_gpus == 28
    assert pooled.network.inter_bandwidth == 1e9


def test_with_network_overrides_what_is_given() -> None:
    cluster = Cluster.parse("2x4").with_network(xi1=0.25, alpha=None)
    assert cluster.network == Network(xi1=0.25)
    with pytest.raises(InputError, match=r"xi1: 2.*\(0, 1\]"):
        cluster.with_network(xi1=2)
    with pytest.raises(InputError, match=r"did you mean xi[12]"):
        cluster.with_network(xi3=2)


LABEL = st.text(min_size=1, max_size=6)
TYPE = LABEL.filter(lambda name: "|" not in name and name == name.strip())
NUMBER = st.floats(1e-300, 1e300)


@given(
    groups=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 16), LABEL, TYPE), min_size=1, max_size=5),
    divided=st.booleans(),
    typed=st.booleans(),
    network=st.builds(
        Network, NUMBER, NUMBER, NUMBER, st.floats(1e-300, 1.0), st.floats(0, 1e9), st.floats(0, 1e9)
    ),
)
def test_toml_round_trip_is_exact(
    tmp_path_factory: pytest.TempPathFactory,
    groups: list[tuple[int, int, str, str]],
    divided: bool,
    typed: bool,
    network: Network,
) -> None:
    servers = [(gpus, vc, kind) for count, gpus, vc, kind in groups for _ in range(count)]
    kinds = tuple(kind for _, _, kind in servers)
    cluster = Cluster(
        np.array([gpus for gpus, _, _ in servers], dtype=np.uint32),
        server_vc=tuple(vc for _, vc, _ in servers) if divided else None,
        server_gpu_type=kinds if typed else None,
        network=network,
        gpu_types={
            kind.casefold(): GpuType(kind, 2.5, 80.0, 50.0, 400.0, 1.5, {kind: 0.5}) for kind in kinds
        },
    )
    back = parse_toml(tmp_path_factory.getbasetemp(), cluster.to_toml())
    assert back == cluster
    assert hash(back) == hash(cluster)
    assert back.to_toml() == cluster.to_toml()


def test_only_what_a_file_declares_of_types_is_written(tmp_path: Path) -> None:
    text = (
        "[gpu_types.v100]\nprice_per_hour = 9\n[gpu_types.lab]\nspeed = 2\nmodels.BERT = 3\n"
        '[recorded]\ngpu_type = "lab"\n[[servers]]\ngpus = 8\ngpu_type = "V100"\n'
    )
    cluster = parse_toml(tmp_path, text)
    declared = tomllib.loads(cluster.to_toml())["gpu_types"]
    assert declared == {"v100": {"price_per_hour": 9.0}, "lab": {"speed": 2.0, "models": {"BERT": 3.0}}}
    assert cluster.type_facts[0].memory_gb == CATALOGUE["v100"].memory_gb
    back = parse_toml(tmp_path, cluster.to_toml())
    assert (back, back.to_toml()) == (cluster, cluster.to_toml())


def test_what_another_file_says_of_the_recorded_type_goes_along(tmp_path: Path) -> None:
    servers = '[[servers]]\ngpus = 8\ngpu_type = "{}"\n'
    types = "[gpu_types.lab]\nspeed = 2\n[gpu_types.other]\nspeed = 5\n"
    recorded = parse_toml(tmp_path, types + servers.format("LAB"))
    cluster = parse_toml(tmp_path, servers.format("V100")).with_recorded(recorded)
    fact = cluster.find_type("lab")
    assert fact is not None
    assert fact.speed == 2.0
    assert cluster.find_type("other") is None
    assert parse_toml(tmp_path, cluster.to_toml()) == cluster
    own = parse_toml(tmp_path, "[gpu_types.lab]\nspeed = 3\n" + servers.format("lab")).with_recorded(recorded)
    assert own.type_facts[0].speed == 3.0
    assert parse_toml(tmp_path, own.to_toml()) == own


def test_presets() -> None:
    assert len([name for name in preset_names() if name.startswith("philly")]) == 12
    assert Cluster.parse("preset:philly-6214e9").num_servers == 64
    assert Cluster.parse("preset:philly-6214e9").server_vc is None
    whole = Cluster.parse("preset:philly")
    assert (whole.num_servers, whole.num_gpus, len(whole.vc_names)) == (352, 2816, 11)
    assert whole.vc_servers("0e4a51").size == 32
    assert {Cluster.parse(f"preset:{name}").server_gpus.max() for name in preset_names()} == {8}
    assert "did you mean preset:philly-6214e9?" in str(refusal("preset:philly-6214e8"))


@pytest.mark.parametrize("text", ["0x8", "8x0", "0x0"])
def test_short_form_without_servers_or_gpus(text: str) -> None:
    assert "S >= 1 and G >= 1" in str(refusal(text))


@pytest.mark.parametrize("text", ["", "32", "32*8", "-1x8", "32x8.5", "none.toml", "9" * 5000 + "x8"])
def test_what_names_no_cluster(text: str) -> None:
    assert "expected SxG such as 32x8" in str(refusal(text))


def test_absurd_sizes_are_refused(tmp_path: Path) -> None:
    assert "at most" in str(refusal("99999999999x99999999999"))
    with pytest.raises(InputError, match="at most"):
        parse_toml(tmp_path, "[[servers]]\ncount = 99999999999999999999\ngpus = 8\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no servers"),
        ("servers = []", "names no servers"),
        ("[servers]\ngpus = 8", "servers: expected a list of tables"),
        ("servers = 3", "servers: 3: expected a list of tables"),
        ("servers = [3]", "servers[1]: 3: expected a table"),
        ("network = 1\n[[servers]]\ngpus = 8", "network: 1: expected a table"),
        (
            "[netwrk]\n[[servers]]\ngpus = 8",
            "netwrk: expected only the keys network, recorded, servers, gpu_types; did you mean network?",
        ),
        ("[network]\nxi3 = 1\n[[servers]]\ngpus = 8", "network.xi3: expected only the keys"),
        (
            "[[servers]]\ngpu = 8",
            "servers[1].gpu: expected only the keys name, count, gpus, vc, gpu_type, cpu_milli, memory_mib;"
            " did you mean gpus?",
        ),
        ("[[servers]]\ncount = 2", "servers[1].gpus: expected an integer >= 1"),
        (
            "[[servers]]\ngpus = 2\ncpu_milli = 9",
            "servers[1].memory_mib: expected an integer >= 0 and <= 2^53",
        ),
        (
            "[[servers]]\ngpus = 2\ncpu_milli = -1\nmemory_mib = 1",
            "servers[1].cpu_milli: -1: expected an integer >= 0",
        ),
        (
            "[[servers]]\ngpus = 2\ncpu_milli = 9\nmemory_mib = 1e400",
            "servers[1].memory_mib: inf: expected an integer >= 0",
        ),
        (
            "[[servers]]\ngpus = 2\ncpu_milli = 9\nmemory_mib = 1\n[[servers]]\ngpus = 2",
            "servers[2].cpu_milli: expected a cpu_milli and a memory_mib, since servers[1] names one",
        ),
        ("[[servers]]\ngpus = 8\n[[servers]]\ngpus = 0", "servers[2].gpus: 0: expected an integer >= 1"),
        ("[[servers]]\ncount = 0\ngpus = 8", "servers[1].count: 0: expected an integer >= 1"),
        ("[[servers]]\ncount = -1\ngpus = 8", "servers[1].count: -1"),
        ("[[servers]]\ncount = 1.0\ngpus = 8", "servers[1].count: 1: expected an integer"),
        ("[[servers]]\ncount = true\ngpus = 8", "servers[1].count: true"),
        ('[[servers]]\ngpus = "8"', 'servers[1].gpus: "8": expected an integer'),
        ("[[servers]]\ngpus = 8\nvc = 6", "servers[1].vc: 6: expected a non-empty text"),
        ('[[servers]]\ngpus = 8\nvc = ""', "servers[1].vc: '': expected a non-empty text"),
        ("[[servers]]\ngpus = 8\ngpu_type = 1", "servers[1].gpu_type: 1"),
        (
            '[[servers]]\ngpus = 8\nvc = "a"\n[[servers]]\ngpus = 8',
            "servers[2].vc: expected a virtual cluster",
        ),
        (
            '[[servers]]\ngpus = 8\n[[servers]]\ngpus = 8\nvc = "a"',
            "servers[1].vc: expected a virtual cluster",
        ),
        (
            '[[servers]]\ngpus = 8\ngpu_type = "V100"\n[[servers]]\ngpus = 8',
            "servers[2].gpu_type: expected a GPU type, since servers[1] names one",
        ),
        (
            '[[servers]]\ngpus = 8\ngpu_type = "H1000"',
            "servers[1].gpu_type: H1000: expected a GPU type that the cluster file declares or the catalogue"
            " knows; did you mean H100? else declare it",
        ),
        (
            f"[gpu_types.X]\nspeed = 1{'0' * 400}\n[[servers]]\ngpus = 8",
            ": expected a finite number > 0",
        ),
        (
            "[gpu_types.X]\nspeed = 0\n[[servers]]\ngpus = 8",
            "gpu_types.X.speed: 0: expected a finite number > 0",
        ),
        (
            "[gpu_types.X]\nspeeed = 1\n[[servers]]\ngpus = 8",
            "gpu_types.X.speeed: expected only the keys speed,",
        ),
        (
            "[gpu_types.X]\nmodels.A = -1\n[[servers]]\ngpus = 8",
            "gpu_types.X.models.A: -1: expected a finite number > 0",
        ),
        *(
            (
                f"[gpu_types.X]\n{key} = {bad}\n[[servers]]\ngpus = 8",
                f"gpu_types.X.{key}: {shown}: expected a",
            )
            for key, bad, shown in (
                ("speed", "-1.5", "-1.5"),
                ("speed", "inf", "inf"),
                ("speed", "nan", "NaN"),
                ("speed", "true", "true"),
                ("memory_gb", "0", "0"),
                ("idle_watts", "-1", "-1"),
                ("busy_watts", "inf", "inf"),
                ("price_per_hour", "-0.1", "-0.1"),
            )
        ),
        ("gpu_types = 3\n[[servers]]\ngpus = 8", "gpu_types: 3: expected a table"),
        ("[gpu_types]\nX = 3\n[[servers]]\ngpus = 8", "gpu_types.X: 3: expected a table"),
        ("[gpu_types.X]\nmodels = 3\n[[servers]]\ngpus = 8", "gpu_types.X.models: expected only the keys"),
        (
            '[[servers]]\ngpus = 8\ngpu_type = "V100|T4"',
            "servers[1].gpu_type: V100|T4: expected a name without |",
        ),
        ('[[servers]]\ngpus = 8\ngpu_type = " T4"', "servers[1].gpu_type: ' T4': expected a name without |"),
        (
            '[recorded]\ngpu_type = "V10"\n[[servers]]\ngpus = 8',
            "recorded.gpu_type: V10: expected a GPU type that the cluster file declares",
        ),
        (
            '[[recorded.servers]]\ngpus = 8\ngpu_type = "V10"\n[[servers]]\ngpus = 8',
            "recorded.servers[1].gpu_type: V10: expected a GPU type that the cluster file declares",
        ),
        ("[gpu_types.x]\n[gpu_types.X]\n[[servers]]\ngpus = 8", "gpu_types.X: expected each GPU type once"),
        ("gpus = \n", "is not valid TOML (Invalid value (at line 1"),
    ],
)
def test_a_bad_file_names_its_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_toml(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'c.toml'}: ")
    assert words in str(caught.value)


BAD_CONSTANTS = [
    *((name, bad) for name in NETWORK_RULES for bad in ("-1", "nan", "inf", "true", '"fast"', "-1e-9")),
    ("intra_bandwidth", "0"),
    ("inter_bandwidth", "0.0"),
    ("reduce_speed", "0"),
    ("xi1", "0"),
    ("xi1", "1.0000001"),
    ("alpha", "1" + "0" * 400),
]


@pytest.mark.parametrize(("name", "value"), BAD_CONSTANTS)
def test_a_bad_network_constant(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_toml(tmp_path, f"[network]\n{name} = {value}\n[[servers]]\ngpus = 8\n")
    assert caught.value.key == f"network.{name}"
    assert caught.value.expected.startswith(NETWORK_RULES[name])


def test_a_folder_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    assert "is a folder" in str(refusal(tmp_path))
    (tmp_path / "c.toml").write_bytes(b"\xff\xfe")
    assert "not valid TOML" in str(refusal(tmp_path / "c.toml"))


def test_an_unknown_virtual_cluster(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 6214e9"):
        parse_toml(tmp_path, MIXED).vc_servers("6214e8")


def test_a_cluster_made_in_python_is_checked() -> None:
    for servers in ([], [0], [[8]], [1.5]):
        with pytest.raises(InputError, match="at least one server"):
            Cluster(np.array(servers))
    with pytest.raises(InputError, match="2 servers, but 1 labels"):
        Cluster(np.array([8, 8]), server_vc=("a",))


def test_the_page_lists_every_key_and_preset() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")
    for name in NETWORK_RULES:
        assert f"| network.{name} |" in page
        assert f"{name} = " in page
    listed = [row.split("|") for row in page.splitlines() if row.startswith("| ")]
    told = {name.strip(): row[2:7] for row in listed for name in row[1].split(",") if len(row) > 5}
    for name in preset_names():
        cluster = Cluster.parse(f"preset:{name}")
        servers, gpus, vcs, what, source = (cell.strip() for cell in told[name])
        assert (servers, gpus) == (f"{cluster.num_servers:,}", f"{cluster.num_gpus:,}")
        assert vcs == str(len(cluster.vc_names) or "")
        assert what
        assert source
