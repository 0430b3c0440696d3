"""The network of a case as the reference model has it."""

from cases.case import Case
from reference.tiers import Tier, Tree


def tree_of(case: Case, network: dict[str, float], *, shares: bool) -> Tree | None:
    """The tiers of the network, or what takes its place: links of GPUs, intensities.

    network: the constants. shares: whether jobs that share links slow each other down.
    """
    count = len(case.servers)
    own = [job.get("intensity") for job in case.jobs]
    thousandths = tuple(1000 if each is None else round(1000 * each) for each in own)
    if not case.tiers and case.nics == "server" and all(each is None for each in own):
        return None
    tiers = []
    for tier in case.tiers:
        named = [server.get(tier["name"]) for server in case.servers]
        each = tier.get("servers")
        group = [server // each for server in range(count)] if each else [named.index(n) for n in named]
        xi1, alpha = (tier.get(name, network[name]) for name in ("xi1", "alpha"))
        xi1 = xi1 if shares else 0.0
        tiers.append(Tier(tuple(group), tier["bandwidth"], xi1, alpha, tier.get("inside")))
    return Tree(tuple(tiers), case.nics == "gpu", thousandths)
