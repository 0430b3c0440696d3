"""What the paper's figures 4 to 7 say of orderings and shapes, judged on the plans made again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.study.reproduce import NAMES, PAPER, POLICIES, READINGS

Verdict = Literal["yes", "unclear", "no"]

CHANCE: Final = 40
"""A verdict needs so many seeds that fair coins would give as many in at most one of this many tries."""


@dataclass(frozen=True)
class Statement:
    """That the paper's values at some points of a figure increase strictly from each to the next."""

    figure: int
    text: str
    points: tuple[tuple[str, int | None], ...]
    """(policy, x), x as in `PAPER`."""
    measure: str = "makespan"

    def paper(self) -> tuple[float, ...]:
        """The paper's own values at the points, slots."""
        return tuple(
            PAPER.filter(
                pl.col("figure") == self.figure,
                pl.col("measure") == self.measure,
                pl.col("policy") == policy,
                pl.col("x").eq_missing(x),
            )["value"].item()
            for policy, x in self.points
        )

    def values(self, runs: pl.DataFrame, dispatch: str, variant: str) -> NDArray[np.float64]:
        """Ours under one reading: a row a point, a column a seed."""
        mine = runs.filter(
            pl.col("figure") == self.figure,
            pl.col("dispatch") == dispatch,
            pl.col("variant").is_null() | (pl.col("variant") == variant),
        ).sort("seed")
        return np.array(
            [
                mine.filter(pl.col("policy") == policy, pl.col("x").eq_missing(x))[self.measure]
                .cast(pl.Float64)
                .to_numpy()
                for policy, x in self.points
            ]
        )


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and how it fares here under one reading."""

    figure: int
    text: str
    dispatch: str
    variant: str
    verdict: Verdict
    seeds: int
    """In how many seeds the statement holds by itself."""
    means: tuple[float, ...]
    """Over the seeds, slots, in the statement's order."""
    paper: tuple[float, ...]


def statements() -> Iterator[Statement]:
    """What is checked, in the order of the figures."""

    def of(*policies: str, x: int | None = None) -> tuple[tuple[str, int | None], ...]:
        return tuple((policy, x) for policy in policies)

    def bco(*xs: int) -> tuple[tuple[str, int | None], ...]:
        return tuple(("sjf-bco", x) for x in xs)

    for before, after in pairwise(POLICIES):
        yield Statement(4, f"makespan: {NAMES[before]} < {NAMES[after]}", of(before, after))
    for before, after in pairwise(("sjf-bco", "ls", "rand", "ff")):
        text = f"mean completion: {NAMES[before]} < {NAMES[after]}"
        yield Statement(4, text, of(before, after), "mean_jct")
    yield Statement(5, "makespan: kappa 8 < kappa 1", bco(8, 1))
    yield Statement(5, "makespan: kappa 8 < 4 < 2 < 1", bco(8, 4, 2, 1))
    yield Statement(5, "makespan: kappa 8 < kappa 10", bco(8, 10))
    yield Statement(5, "makespan: kappa 8 < kappa 16", bco(8, 16))
    yield Statement(5, "makespan: kappa 32 < kappa 16", bco(32, 16))
    for policy in POLICIES:
        points = tuple((policy, count) for count in (20, 15, 10))
        yield Statement(6, f"makespan of {NAMES[policy]}: 20 < 15 < 10 servers", points)
    for count in (10, 15, 20):
        yield Statement(6, f"{count} servers: SJF-BCO < LS < FF < RAND", of(*POLICIES, x=count))
    yield Statement(7, "makespan: lambda 8 < lambda 1", bco(8, 1))
    yield Statement(7, "makespan: lambda 8 < 4 < 2 < 1", bco(8, 4, 2, 1))


def claims(runs: pl.DataFrame) -> list[Claim]:
    """Every statement, judged under every reading."""
    found = []
    for statement in statements():
        for dispatch, variant in READINGS:
            values = statement.values(runs, dispatch, variant)
            means = tuple(float(mean) for mean in values.mean(axis=1))
            holding = int(np.count_nonzero(np.all(np.diff(values, axis=0) > 0, axis=0)))
            verdict = judge(
                holding, values.shape[1], means_agree=all(before < after for before, after in pairwise(means))
            )
            found.append(
                Claim(
                    statement.figure, statement.text, dispatch, variant,
                    verdict, holding, means, statement.paper(),
                )
            )  # fmt: skip
    return found


def judge(holding: int, seeds: int, *, means_agree: bool) -> Verdict:
    """The verdict on a statement that holds in `holding` of the seeds; `rule` says it in words."""
    enough = enough_seeds(seeds)
    if enough is None:
        return "unclear"
    if means_agree and holding >= enough:
        return "yes"
    if not means_agree and seeds - holding >= enough:
        return "no"
    return "unclear"


def enough_seeds(seeds: int) -> int | None:
    """The least number of agreeing seeds that is clear (a sign test); None if even all are too few."""
    ways, tail = 1, 0
    for agreeing in range(seeds, -1, -1):
        tail += ways  # the outcomes of that many coins with at least `agreeing` heads
        if tail * CHANCE > 2**seeds:
            return agreeing + 1 if agreeing < seeds else None
        ways = ways * agreeing // (seeds - agreeing + 1)
    return None


def rule(seeds: int) -> str:
    """What the verdicts mean, in words."""
    enough = enough_seeds(seeds)
    if enough is None:
        return (
            f"Every verdict is unclear: {seeds} of {seeds} seeds may be chance; at least 6 seeds are needed."
        )
    return (
        f"yes: the means, and {enough} or more of the {seeds} seeds, are in this order. no: the means, and"
        f" {enough} or more of the seeds, are not. unclear: anything else. Coins in place of the seeds would"
        f" agree so often, {enough} of {seeds}, in at most one of {CHANCE} tries (sign test)."
    )


def shown(values: tuple[float, ...]) -> str:
    """Values in a row, with as many decimals (at most two) as tell different ones apart."""
    for decimals in (0, 1, 2):
        texts = [f"{value:.{decimals}f}" for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return ", ".join(texts)
