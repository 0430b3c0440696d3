"""`ringbco cluster`: what a cluster file describes, in figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ringbco.cli import inputs
from ringbco.cli.options import NETWORK, takes
from ringbco.io.terminal import say, say_json

if TYPE_CHECKING:
    from ringbco.cli.fitted import Fitted

_TERA: Final = 1e4
"""Gb/s from which rates are in Tb/s."""
_ROWS: Final = """
cluster
vc
*Network
[Output]
as_json
"""


@takes(_ROWS, NETWORK)
def cluster(cluster: str, *, vc: str = "split", as_json: bool = False, **options: Any) -> None:
    """Show what a cluster consists of: servers, GPUs, and the uplinks of its tiers.

    Oversubscription is what the servers below an uplink could send together, over what the uplink carries
    (docs/tiers.md). Above 1, jobs that cross it may wait for each other.

    Example: ringbco cluster preset:superpod-h100
    """
    from ringbco.cluster.outline import outline

    machine = inputs.parse_cluster(cluster, inputs.network_of(options), vc)
    found = outline(machine)
    if as_json:
        say_json(found)
        return
    from ringbco.io.console import Console

    console = Console()
    say(f"{machine.name}: {_counted(found)}")
    for table in _tables(found):
        console.print(table)
    if any(tier["groups"] == 1 for tier in found["tiers"]):
        say("The uplink of a single group leads nowhere: no job crosses it.")


def _counted(found: dict[str, Any]) -> str:
    each = _span(found["server_gpus"])
    servers, gpus = found["servers"], found["gpus"]
    return f"{servers:,} server{'s'[: servers != 1]} of {each} GPUs, {gpus:,} GPUs"


def _tables(found: dict[str, Any]) -> list[Fitted]:
    from ringbco.cli.fitted import Fitted

    tables = []
    for key, title in (("gpu_types", "GPU type"), ("virtual_clusters", "virtual cluster")):
        if found[key]:
            table = Fitted(title, "servers", "GPUs")
            for name, part in found[key].items():
                table.add_row(name, f"{part['servers']:,}", f"{part['gpus']:,}")
            tables.append(table)
    inside = any(tier["inside"] is not None for tier in found["tiers"])
    links = Fitted(
        "tier", "groups", "servers each", "GPUs each", "uplink", "oversubscription", *["inside"] * inside
    )
    per_gpu = found["nics"] == "gpu"
    links.add_row(
        "server",
        f"{found['servers']:,}",
        "1",
        _span(found["server_gpus"]),
        _rate(found["inter_bandwidth"]) + (" per GPU" if per_gpu else ""),
        "-",
        *[_rate(found["intra_bandwidth"])] * inside,
    )
    for tier in found["tiers"]:
        links.add_row(
            tier["name"],
            f"{tier['groups']:,}",
            _span(tier["servers"]),
            _span(tier["gpus"]),
            _rate(tier["bandwidth"]),
            _span(tier["oversubscription"]),
            *["-" if tier["inside"] is None else _rate(tier["inside"])] * inside,
        )
    return [*tables, links]


def _span(values: dict[str, Any]) -> str:
    """One number, or the least and the most."""
    from ringbco.units import number

    least, most = (
        f"{value:,}" if isinstance(value, int) else number(value)
        for value in (values["least"], values["most"])
    )
    return least if least == most else f"{least} to {most}"


def _rate(bytes_per_second: float) -> str:
    """In bits, as links are sold."""
    from ringbco.units import number

    gigabits = bytes_per_second * 8 / 1e9
    return f"{number(gigabits / 1e3)} Tb/s" if gigabits >= _TERA else f"{number(gigabits)} Gb/s"
