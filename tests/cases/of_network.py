"""Features of random cases: tiers of the network, links of GPUs, how much of a contender a job is."""

from random import Random

from cases.case import Case
from cases.draw import column, feature


@feature(0.12)
def tiers(rng: Random, case: Case) -> None:
    """One to three tiers, by count or by name, that nest."""
    servers, across = range(len(case.servers)), case.network["inter_bandwidth"]
    group = [0 for _ in servers] if rng.random() < 0.1 else [*servers]
    for number in range(rng.choice((1, 1, 2, 3))):
        tier: dict[str, object] = {
            "name": ("rack", "pod", "zone")[number],
            "bandwidth": across * rng.choice((0.25, 0.5, 1.0, 2.0)),
        }
        below = len(set(group))
        if rng.random() < 0.5 and all(at == each for at, each in enumerate(group)) and number == 0:
            tier["servers"] = rng.choice((1, 2, 2, 3))
            group = [server // int(tier["servers"]) for server in servers]
        else:
            above = [rng.randrange(max(1, below)) for _ in range(max(group) + 1)]
            group = [above[own] for own in group]
            for server, own in zip(case.servers, group, strict=True):
                server[str(tier["name"])] = f"g{own}"
        if rng.random() < 0.4:
            tier["xi1"] = rng.choice((0.25, 0.5, 1.0))
        if rng.random() < 0.4:
            tier["alpha"] = rng.choice((0.0, 0.3, 1.0))
        if rng.random() < 0.3:
            tier["inside"] = across * rng.choice((0.5, 2.0, 1000.0))
        case.tiers.append(tier)


@feature(0.08)
def nics(_: Random, case: Case) -> None:
    """Every GPU has a link of its own."""
    case.nics = "gpu"


@feature(0.1)
def intensity(rng: Random, case: Case) -> None:
    column(case, "intensity", [rng.choice((None, 0.0, 0.0005, 0.25, 1.0, 2.5)) for _ in case.jobs])
