"""Real clusters by name, for `--cluster preset:NAME`: servers as published, each with where that is written.

These are counts and sizes, facts taken from the sources named; no trace file is copied.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ringbco.errors import nearest

BESIDE: Final = ("cpu_milli", "memory_mib")
"""What servers have beside GPUs, and jobs ask for: CPU in thousandths of a core, memory in MiB."""


@dataclass(frozen=True)
class ServerGroup:
    """`count` equal servers, next to each other in index order."""

    count: int
    gpus: int
    vc: str | None = None
    gpu_type: str | None = None
    beside: tuple[int, int] | None = None  # cpu_milli and memory_mib of each, which packing alone reads
    names: tuple[str, ...] | None = None  # of each of them, in order
    tiers: tuple[tuple[str, str], ...] = ()  # tiers of the network that are given by name, and their groups


class Preset(NamedTuple):
    """A named cluster and the source that describes it.

    network: what [network] of a cluster file would say; empty for the default network.
    """

    servers: tuple[ServerGroup, ...]
    source: str
    network: Mapping[str, Any] = {}


def vc_groups(
    gpus_by_vc: Mapping[str, int], gpu_type: str | None = None, size: int = 8
) -> tuple[ServerGroup, ...]:
    """Servers of `size` GPUs for virtual clusters given in GPUs; a remainder becomes one smaller server."""
    groups = []
    for vc, gpus in gpus_by_vc.items():
        if gpus >= size:
            groups.append(ServerGroup(gpus // size, size, vc, gpu_type))
        if gpus % size:
            groups.append(ServerGroup(1, gpus % size, vc, gpu_type))
    return tuple(groups)


def presets_like(text: str) -> list[str]:
    """The presets that a text probably means: its name, a part of it such as venus, or a slip of either."""
    plain = text.strip().lower().replace("_", "-").replace(" ", "-")
    near = plain if plain in PRESETS else nearest(plain, PRESETS)
    if near is not None:
        return [near]
    parts = dict.fromkeys(part for name in PRESETS for part in name.split("-"))
    named = [name for name in PRESETS if set(plain.split("-")) & set(name.split("-"))]
    whole = [name for name in named if set(name.split("-")) <= set(plain.split("-"))]
    if whole or named:
        return whole or named
    part = nearest(plain, [part for part in parts if len(part) >= _TELLING])
    if part is not None:
        return [name for name in PRESETS if part in name.split("-")]
    return difflib.get_close_matches(plain, PRESETS, n=1, cutoff=0.65)


_TELLING: Final = 4
"""Letters of a part of a name of which a slip still tells it."""
_PHILLY_REPLAY: Final = (
    "the Helios authors' replay of Philly (HeliosArtifact, philly_vc.csv): 8 GPUs a server"
)
_PHILLY: Final = {
    "6214e9": 64, "7f04ca": 32, "11cb48": 16, "b436b2": 64, "ee9e8c": 64, "e13805": 16, "6c71a0": 32,
    "2869ce": 16, "ed69ec": 8, "103959": 8, "0e4a51": 32,
}  # servers  # fmt: skip

_HELIOS_PAPER: Final = "Hu et al., SC '21, table 1 (doi:10.1145/3458817.3476223)"
_HELIOS_VCS: Final = (
    "HeliosData, cluster_gpu_number.csv, row 2020-09-01 (CC-BY-4.0); node count as in " + _HELIOS_PAPER
)

_VENUS: Final = {
    "vcEwI": 72, "vcWoR": 64, "vcHvQ": 64, "vcvGl": 160, "vc8Gr": 48, "vcKeu": 96, "vcKrE": 32, "vcYVn": 88,
    "vchbv": 32, "vcLTP": 64, "vcJLV": 16, "vchA3": 24, "vcJsw": 200, "vcefl": 80, "vcvlY": 16, "vcgkz": 8,
}  # fmt: skip
_EARTH: Final = {
    "vchbv": 64, "vc4om": 96, "vcVP5": 176, "vc6YE": 216, "vchA3": 40, "vccaA": 40, "vcTJs": 48, "vcvlY": 96,
    "vcSoL": 32, "vcMod": 64, "vcpDC": 56, "vc3sl": 64, "vcJLV": 32, "vcLJZ": 64, "vcJkd": 16, "vcdI0": 16,
    "vcira": 16, "vcgkz": 8,
}  # fmt: skip

_H100: Final[Mapping[str, Any]] = {"intra_bandwidth": "450GB/s", "inter_bandwidth": "400Gb/s", "nics": "gpu"}
"""NVLink 4, one way, and a 400 Gb/s port for each GPU."""
_SUPERPOD: Final = "NVIDIA DGX SuperPOD Reference Architecture, DGX H100 (RA-11333-001)"


def _tier(name: str, servers: int, terabits: float) -> dict[str, Any]:
    return {"name": name, "servers": servers, "bandwidth": f"{terabits * 1000}Gb/s"}


PRESETS: Final[dict[str, Preset]] = {
    "philly": Preset(tuple(ServerGroup(n, 8, vc) for vc, n in _PHILLY.items()), _PHILLY_REPLAY),
    **{f"philly-{vc}": Preset((ServerGroup(n, 8),), _PHILLY_REPLAY) for vc, n in _PHILLY.items()},
    "helios-venus": Preset(vc_groups(_VENUS, "Volta"), _HELIOS_VCS),
    "helios-earth": Preset(vc_groups(_EARTH, "Volta"), _HELIOS_VCS),
    # Saturn mixes Pascal and Volta and the sizes of its and Uranus' virtual clusters are not in the paper.
    "helios-saturn": Preset((ServerGroup(262, 8),), _HELIOS_PAPER),
    "helios-uranus": Preset((ServerGroup(264, 8, None, "Pascal"),), _HELIOS_PAPER),
    "acme-seren": Preset((ServerGroup(286, 8, None, "A100-SXM-80GB"),), "Hu et al., NSDI '24, table 1"),
    "acme-kalos": Preset((ServerGroup(302, 8, None, "A100-SXM-80GB"),), "Hu et al., NSDI '24, table 1"),
    # Units of 32, the last of 31: a port of each rail is kept for the fabric's manager. Each of the 8 leaf
    # switches of a unit has as many ports up as down.
    "superpod-h100": Preset(
        (ServerGroup(127, 8, None, "H100"),),
        f"{_SUPERPOD}: 4 scalable units of 32 servers, rail-optimised, non-blocking",
        {**_H100, "tiers": [_tier("unit", 32, 102.4)]},
    ),
    # A unit of the same, but for what a rack's uplink carries: half of what its 32 GPUs send.
    "racks-2to1": Preset(
        (ServerGroup(32, 8, None, "H100"),),
        f"racks of 4 servers: {_SUPERPOD}; 2:1 above the racks: the testbed of CASSINI, Rajasekaran et al.,"
        " NSDI '24. No published cluster has both",
        {**_H100, "tiers": [_tier("rack", 4, 6.4)]},
    ),
    # Pods of 192 racks at full bisection bandwidth; 7:1 above them.
    "llama3": Preset(
        (ServerGroup(3072, 8, None, "H100"),),
        "Grattafiori et al., The Llama 3 Herd of Models, arXiv 2407.21783, section 3.3.1",
        {**_H100, "tiers": [_tier("rack", 2, 6.4), _tier("pod", 384, 384 * 8 * 0.4 / 7)]},
    ),
    "openb": Preset(
        (
            ServerGroup(549, 8, None, "G2"),
            ServerGroup(39, 8, None, "G3"),
            ServerGroup(8, 8, None, "V100M16"),
            ServerGroup(21, 8, None, "V100M32"),
            ServerGroup(17, 4, None, "T4"),
            ServerGroup(28, 4, None, "V100M16"),
            ServerGroup(9, 4, None, "V100M32"),
            ServerGroup(131, 2, None, "P100"),
            ServerGroup(387, 2, None, "T4"),
            ServerGroup(2, 1, None, "A10"),
            ServerGroup(3, 1, None, "P100"),
            ServerGroup(19, 1, None, "V100M16"),
        ),
        "alibaba/clusterdata, cluster-trace-gpu-v2023, openb_node_list_gpu_node.csv: nodes counted by size "
        "and model, the largest first",
    ),
}
