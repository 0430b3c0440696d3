"""The features of a random case, each a coin and a part of the case.

A feature sees what the features above it have put. It may rely on none of them: whatever is missing, what it
puts is something that a user could write, though perhaps refused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from cases.case import Case, plain

Put = Callable[[Random, Case], None]


@dataclass(frozen=True)
class Feature:
    """coin: the chance of it. draw: what it puts into a case."""

    name: str
    coin: float
    draw: Put


FEATURES: dict[str, Feature] = {}  # in the order in which they are put


def feature(coin: float) -> Callable[[Put], Put]:
    def register(draw: Put) -> Put:
        FEATURES[draw.__name__] = Feature(draw.__name__, coin, draw)
        return draw

    return register


def toss(seed: object) -> tuple[str, ...]:
    """The features of a case, each by its own coin."""
    return tuple(
        name for name, each in FEATURES.items() if Random(f"{seed} {name} coin").random() < each.coin
    )


def build(seed: object, features: tuple[str, ...]) -> Case:
    """The case of a seed with these features. Without one of them the others' draws stay the same."""
    case = plain(Random(f"{seed}"))
    for name, each in FEATURES.items():
        if name in features:
            each.draw(Random(f"{seed} {name}"), case)
    name_servers(Random(f"{seed} names"), case)
    return case


def name_servers(rng: Random, case: Case) -> None:
    """In some cases servers have names: any, or in a hostlist, or the indexes of other servers."""
    count = len(case.servers)
    kind = rng.choice((None, None, None, "some", "list", "indexes"))
    names: list[object] = rng.sample(range(count), count)
    for server, name in zip(case.servers, names, strict=True):
        if kind is not None and (kind != "some" or rng.random() < 0.6):
            server["name"] = f"{name}" if kind == "indexes" else f"g{name:02}{'' if kind == 'list' else '.x'}"


def column(case: Case, name: str, values: list[object]) -> None:
    """Gives each job its value."""
    for job, value in zip(case.jobs, values, strict=True):
        job[name] = value
