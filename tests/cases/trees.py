"""The network of a case as the reference model has it."""

from typing import Any

from cases.case import Case
from reference import Net
from reference.tiers import Tier, Tree


def net_of(case: Case, *, shares: bool) -> Net:
    """The network. shares: whether jobs that share links slow each other down."""
    network = case.network | ({} if shares else {"xi1": 0.0})
    return Net(*network.values(), tree=_tree(case, network, shares=shares))


def _tree(case: Case, network: dict[str, float], *, shares: bool) -> Tree | None:
    """The tiers of the network, or what takes its place: links of GPUs, intensities."""
    own = [job.get("intensity") for job in case.jobs]
    thousandths = tuple(1000 if each is None else round(1000 * each) for each in own)
    if not case.tiers and case.nics == "server" and all(each is None for each in own):
        return None
    tiers = []
    for tier in case.tiers:
        xi1, alpha = (tier.get(name, network[name]) for name in ("xi1", "alpha"))
        xi1 = xi1 if shares else 0.0
        tiers.append(Tier(groups_of(case, tier), tier["bandwidth"], xi1, alpha, tier.get("inside")))
    return Tree(tuple(tiers), case.nics == "gpu", thousandths)


def groups_of(case: Case, tier: dict[str, Any]) -> tuple[int, ...]:
    """The group of each server."""
    named = [server.get(tier["name"]) for server in case.servers]
    each = tier.get("servers")
    return tuple(server // each if each else named.index(name) for server, name in enumerate(named))


def level_of(case: Case, name: str | None) -> int | None:
    """The level of a tier: 0 for servers, 1 for the first tier above them."""
    names = ["server", *(tier["name"] for tier in case.tiers)]
    return None if name is None else names.index(name.removesuffix("?"))
