"""GPU types that differ: what each job may use and how fast it is there, worked out from the files alone.

A gang holds GPUs of one type, one that its job may use. Where types change nothing there is nothing to check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from ringbco.trace import profiles

if TYPE_CHECKING:
    import polars as pl

    from ringbco.audits.facts import Facts
    from ringbco.cluster.spec import Cluster


@dataclass(frozen=True)
class Types:
    """server: the type of each. price: of each type, NaN where unknown.

    speedup[row, type]: beside the type recorded on; NaN where not allowed. listed[row, type]: its place among
    those that the job lists; infinite where not allowed.
    """

    server: NDArray[np.int64]
    price: NDArray[np.float64]
    speedup: NDArray[np.float64]
    listed: NDArray[np.float64]

    def of_episodes(
        self, pair_episode: NDArray[np.int64], pair_server: NDArray[np.int64], episodes: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The type of each episode's first server, and whether it has servers of other types too.

        The pairs are those of `episodes.Episodes`.
        """
        of = self.server[np.minimum(pair_server, self.server.size - 1)]
        first = np.zeros(episodes, dtype=np.int64)
        first[pair_episode[::-1]] = of[::-1]
        mixed = np.zeros(episodes, dtype=np.bool_)
        mixed[pair_episode[of != first[pair_episode]]] = True
        return first, mixed


def read_types(frame: pl.DataFrame, cluster: Cluster, *, always: bool = False) -> Types | None:
    """What the job table and the cluster say; None where no server names a type, or all GPUs are alike.

    always: not None in the second case either.
    """
    if cluster.server_gpu_type is None:
        return None
    names = [str(label).lower() for label in cluster.server_gpu_type]
    types = list(dict.fromkeys(names))
    columns = [
        frame[name].to_list() if name in frame.columns else [None] * frame.height
        for name in ("gpu_type", "recorded_on", "model")
    ]
    known: dict[tuple[str | None, str | None, str | None], tuple[list[float], list[float]]] = {}
    rows = [
        known[asked] if asked in known else known.setdefault(asked, _allowed(*asked, types, cluster))
        for asked in zip(columns[0], columns[1], columns[2], strict=True)
    ]
    shape = (frame.height, len(types))
    speedup = np.array([row[0] for row in rows], dtype=np.float64).reshape(shape)
    if not always and len(types) == 1 and (speedup == 1.0).all():
        return None
    listed = np.array([row[1] for row in rows], dtype=np.float64).reshape(shape)
    facts = [cluster.find_type(name) for name in types]
    prices = [None if fact is None else fact.price_per_hour for fact in facts]
    return Types(
        np.array([types.index(name) for name in names], dtype=np.int64),
        np.array([np.nan if price is None else price for price in prices], dtype=np.float64),
        speedup,
        listed,
    )


def recorded_type(asked: str | None, recorded: str | None, types: list[str], cluster: Cluster) -> str:
    """The type on which a job was recorded: as it or the recorded cluster says, else its first here."""
    if (recorded or "").strip():
        return str(recorded).strip()
    labels = cluster.recorded.server_gpu_type if cluster.recorded is not None else None
    if labels is not None and labels[0] is not None:
        return labels[0]
    listed = [name.strip().lower() for name in (asked or "").split("|")]
    return next((name for name in listed if name in types), types[0])


def _allowed(
    asked: str | None, recorded: str | None, model: str | None, types: list[str], cluster: Cluster
) -> tuple[list[float], list[float]]:
    """Of a job, by type: its speed beside that on the type recorded on, and the type's place in its list."""
    allowed = [name.strip().lower() for name in (asked or "").split("|") if name.strip()]
    there = [name for name in allowed if name in types]
    recorded = recorded_type(asked, recorded, types, cluster)

    def speed(name: str) -> float:
        fact = cluster.find_type(name)
        if fact is None:
            return np.nan
        return fact.models.get(model, fact.speed) if model is not None else fact.speed

    own = speed(recorded)
    may = list(dict.fromkeys(there)) if allowed else types
    return (
        [speed(name) / own if name in may else np.nan for name in types],
        [float(may.index(name)) if name in may else np.inf for name in types],
    )


def tries(facts: Facts) -> NDArray[np.int64]:
    """By job: the types that it tries, in their order, then -1. Where all GPUs are alike: one type, 0.

    A job tries those that it may use, that could hold it if all of their GPUs were idle and, under the slot
    clock, on which it would do an iteration in a slot.
    """
    if facts.types is None:
        return np.zeros((facts.row.size, 1), dtype=np.int64)
    kinds, row = facts.types, facts.row
    count = kinds.speedup.shape[1]
    last = np.full((row.size, count), np.inf)
    for vc in np.unique(facts.vc).tolist():
        mine = np.flatnonzero(facts.vc == vc)
        for own in range(count):
            servers = (facts.server_vc == vc) & (kinds.server == own)
            sizes = facts.server_gpus[servers]
            wanted = facts.num_gpus[mine]
            good = ~np.isnan(kinds.speedup[row[mine], own]) & (wanted <= sizes.sum())
            for size in np.unique(wanted[good]).tolist():
                good &= (wanted != size) | holds(facts, size, servers)
            at = mine[good]
            if at.size:
                last[at, own] = _rank(facts, kinds, at, own, sizes)
    order = np.argsort(last, axis=1, kind="stable")
    return np.where(np.isinf(np.take_along_axis(last, order, axis=1)), -1, order)


def _rank(
    facts: Facts, kinds: Types, at: NDArray[np.int64], own: int, sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """By which jobs put a type in order, the least first; infinite where a slot is too short for it."""
    row = facts.row[at]
    rate = kinds.speedup[row, own]
    slow = np.zeros(at.size, dtype=bool)
    if facts.speeds is not None:
        asked = facts.num_gpus[at]
        few = profiles.fewest_servers(asked.astype(np.uint32), sizes.astype(np.uint32)).astype(np.int64)
        rate = np.nan_to_num(facts.speeds.rate(row, np.full(at.size, own), asked, few))
        slow = rate == 0
        if facts.slots:
            slow |= np.floor(facts.slot * rate * (1.0 + 1e-12)) == 0
    elif facts.options["model"] != "fixed":
        gpus = facts.num_gpus[at].astype(np.uint32)
        tau = profiles.iteration_time(
            gpus,
            facts.workload.gradient_bytes[row],
            facts.workload.compute_time[row] / rate,
            profiles.fewest_servers(gpus, sizes.astype(np.uint32)),
            facts.cluster.network,
        )
        rate = 1.0 / tau
        slow = facts.slots & (np.floor(facts.slot / tau * (1.0 + 1e-12)) == 0)
    order = facts.options.get("type_order", "fastest")
    if order == "listed":
        rank = kinds.listed[row, own]
    else:
        with np.errstate(divide="ignore"):
            rank = kinds.price[own] / rate if order == "cheapest" else -rate
    return np.where(slow, np.inf, rank)


PACKING: Final = frozenset({"consolidate", "best-fit", "worst-fit", "fgd"})
"""Placements that take one server, or whole ones and one more: they find a place where the others do."""


def holds(facts: Facts, wanted: int, servers: NDArray[np.bool_]) -> bool:
    """Whether these servers, all idle, could hold so many GPUs."""
    sizes = facts.server_gpus[servers]
    if sizes.sum() < wanted:
        return False
    return facts.options["placement"] not in PACKING or consolidates(sizes, wanted)


def consolidates(sizes: NDArray[np.int64], wanted: int) -> bool:
    """Whether so many GPUs are one server, or whole largest ones and a remainder on one more."""
    sizes = np.sort(sizes)[::-1]
    if wanted <= sizes[0]:
        return True
    whole, rest = divmod(wanted, int(sizes[0]))
    if np.count_nonzero(sizes == sizes[0]) < whole:
        return False
    return rest == 0 or (whole < sizes.size and int(sizes[whole]) >= rest)
