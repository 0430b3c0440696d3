"""Outages drawn at random: servers that fail and are repaired (docs/outages.md).

A run may name a draw instead of a table, `draw:mtbf=42d,mttr=2h`: servers fail until its last job is done.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.cluster.spec import Cluster
from ringbco.errors import nearest
from ringbco.io.forks import use_polars
from ringbco.run.options import MOST_SEED, as_cluster, check_name, integer, number, refusal
from ringbco.trace.outages import Outages
from ringbco.trace.schema import MOST_SECONDS
from ringbco.trace.side_table import ReadContext
from ringbco.units import is_number, seconds_of

REPAIRS: Final = ("exponential", "lognormal")
SIGMA: Final = 1.0
DAY: Final = 86_400.0
MOST_OUTAGES: Final = 10_000_000
"""The most that may be asked for, on average."""

_MOST_SIGMA: Final = 5.0
_LONGEST: Final = 1e12  # s, some 30,000 years: times of outages stay far below MOST_SECONDS

PREFIX: Final = "draw:"
_FORM: Final = (
    "draw:mtbf=TIME,mttr=TIME[,seed=N|run][,repair=exponential|lognormal][,sigma=NUMBER][,tier=NAME]"
)
_NAMES: Final = ("mtbf", "mttr", "seed", "repair", "sigma", "tier")
_EXAMPLES: Final = {"mtbf": "42d", "mttr": "2h"}
_WITH_THE_RUN: Final = "run"
SERVER: Final = "server"
"""What fails where no tier is named."""

Floats = NDArray[np.float64]
if TYPE_CHECKING:  # numpy.random is a fiftieth of a start, and few runs draw
    _Draw = Callable[[np.random.Generator, int], Floats]


def outages(
    cluster: Cluster | str | os.PathLike[str],
    *,
    mtbf: float | str,
    mttr: float | str,
    days: float,
    seed: int = 0,
    repair: str = "exponential",
    sigma: float | None = None,
    start: float = 0.0,
    cause: str | None = None,
    tier: str | None = None,
) -> Outages:
    """Outages of every server of a cluster, which fail and are repaired independently of each other.

    A server is up at `start`. It stays up for an exponential time of mean `mtbf`, is down for a random time
    of mean `mttr`, and so on. Outages begin within `days` days from `start`; the last may end later.

    mtbf, mttr: seconds, or a text such as "50d", "2h", "30m" or "90s". repair: how long repairs take,
    "exponential" or "lognormal". sigma: of lognormal, the standard deviation of the logarithm; None for 1.
    start: seconds on the clock of submit_time. cause: what the column cause says of each outage. tier: of the
    cluster's network, such as "rack", whose groups fail in place of servers; all servers of a group go down
    and come back at one instant. None, or "server", for single servers.

    Each server has random numbers of its own, which follow from the seed and its index; those of a group from
    the tier's name, too. More servers, or more days, leave the outages that were there as they are. Another
    `mttr`, repair or sigma leaves the times up.

    Raises UsageError for a bad option.
    """
    use_polars()
    cluster = as_cluster(cluster)
    seed = integer("seed", seed, 0, MOST_SEED)
    mean_up, mean_down = _length("mtbf", mtbf), _length("mttr", mttr)
    span = number("days", days, "a number of days > 0 and <= 1e7", least=0.0, most=1e7, above=True) * DAY
    start = number("from", start, "a number of seconds >= 0 and <= 1e12", least=0.0, most=_LONGEST)
    draw = _repairs(mean_down, repair, sigma)
    if cause is not None and not (isinstance(cause, str) and cause.isprintable()):
        raise refusal("cause", cause, "a text of one line, of characters that can be shown")
    each = span / mean_up
    if each * cluster.num_servers > MOST_OUTAGES:
        raise refusal(
            "mtbf", mtbf, f"at most {MOST_OUTAGES:,} outages, not {each * cluster.num_servers:.3g} on average"
        )
    # Enough for nearly every server at once.
    chunk = int(each + 5.0 * math.sqrt(each)) + 4
    members = servers_of(cluster, tier)
    key = () if tier in (None, SERVER) else (zlib.crc32(str(tier).encode()),)
    begun, repaired = [], []
    for group in range(len(members)):
        down, up = _of_group(seed, (group, *key), mean_up, draw, span, chunk)
        begun += [down] * members[group].size
        repaired += [up] * members[group].size
    counts = [down.size for down in begun]
    down = np.concatenate(begun) + start
    # However short a repair, it takes some time.
    up = np.clip(np.concatenate(repaired) + start, np.nextafter(down, np.inf), MOST_SECONDS)
    frame = pl.DataFrame(
        {
            "server": np.repeat(np.concatenate(members).astype(np.uint32), counts),
            "down_at": down,
            "up_at": up,
            "cause": pl.repeat(cause or None, down.size, dtype=pl.String, eager=True),
        }
    )
    return Outages.read(frame.sort("server", maintain_order=True), ReadContext.of(cluster))


@dataclass(frozen=True)
class Draw:
    """Outages that are drawn for a run, until its last job is done.

    source: as it was given. mtbf, mttr, repair, sigma, tier: as `outages` takes them. seed: None for the
    run's.
    """

    source: str
    mtbf: float
    mttr: float
    seed: int | None = None
    repair: str = REPAIRS[0]
    sigma: float | None = None
    tier: str | None = None

    @classmethod
    def parse(cls, text: str) -> Draw:
        """What a text names. Raises UsageError, naming the option, unless it is a draw."""
        given: dict[str, str] = {}
        for part in text.removeprefix(PREFIX).split(","):
            name, equals, value = part.partition("=")
            if equals and (near := _near(name)) is not None:
                raise refusal("outages", text, f"{_FORM}; did you mean {near}={value}?")
            if not value or name in given or name not in _NAMES:
                raise refusal("outages", text, f"{_FORM}, each at most once")
            given[name] = value
        if not {*_EXAMPLES} <= given.keys():
            raise refusal("outages", text, _lacks(given))
        seed = given.get("seed", _WITH_THE_RUN)
        if seed != _WITH_THE_RUN and not seed.isdecimal():
            raise refusal("outages", text, f"seed={_WITH_THE_RUN}, or an integer from 0 to {MOST_SEED}")
        try:
            sigma = float(given["sigma"]) if "sigma" in given else None
        except ValueError:
            raise refusal("outages", text, "sigma=NUMBER") from None
        found = cls(
            text,
            _length("outages: mtbf", given["mtbf"]),
            _length("outages: mttr", given["mttr"]),
            None if seed == _WITH_THE_RUN else integer("outages: seed", int(seed), 0, MOST_SEED),
            given.get("repair", REPAIRS[0]),
            sigma,
            given.get("tier"),
        )
        _repairs(found.mttr, found.repair, found.sigma)
        return found

    @property
    def sha256(self) -> str:
        """What tells it from other draws and tables."""
        return self.source

    def over(self, cluster: Cluster, seed: int, start: float, length: float) -> Outages:
        """Those that begin within `length` s from `start`, when all servers are up. seed: the run's.

        More time leaves the outages that were there as they are.
        """
        made = outages(
            cluster,
            mtbf=self.mtbf,
            mttr=self.mttr,
            days=length / DAY,
            seed=seed if self.seed is None else self.seed,
            repair=self.repair,
            sigma=self.sigma,
            start=start,
            tier=self.tier,
        )
        return replace(made, source=self.source)


def servers_of(cluster: Cluster, tier: str | None) -> list[NDArray[np.intp]]:
    """The servers of each group that fails as one, ascending: single servers, or the groups of a tier.

    Raises UsageError for a tier that the cluster lacks.
    """
    if tier in (None, SERVER):
        return list(np.arange(cluster.num_servers)[:, None])
    of_tier = {one.name: one for one in cluster.tiers}
    if tier not in of_tier:
        known = ", ".join(of_tier) or "it has none"
        near = nearest(str(tier), of_tier)
        hint = f"; did you mean {near}?" if near else ""
        raise refusal("tier", tier, f"server, or a tier of the cluster ({known}){hint}")
    group = of_tier[str(tier)].group_of(cluster.num_servers)
    ends = np.cumsum(np.bincount(group))[:-1]
    return np.split(np.argsort(group, kind="stable"), ends)


def _near(name: str) -> str | None:
    """The name that another one is a slip of."""
    return None if name in _NAMES else nearest(name, _NAMES)


def _lacks(given: Mapping[str, str]) -> str:
    """What is expected of a draw without an mtbf or an mttr: the draw with it, and with units."""
    bare = {name: value for name, value in given.items() if name in _EXAMPLES and is_number(value)}
    missing = [name for name in _EXAMPLES if name not in given]
    whole = {name: given.get(name, example) for name, example in _EXAMPLES.items()}
    whole |= {name: f"{value}{_EXAMPLES[name][-1]}" for name, value in bare.items()}
    whole |= {name: value for name, value in given.items() if name not in whole}
    units = "".join(
        f", and a unit for {name}: {value} is in seconds, {value}{_EXAMPLES[name][-1]} in"
        f" {'days' if name == 'mtbf' else 'hours'}"
        for name, value in bare.items()
    )
    filled = ",".join(f"{name}={value}" for name, value in whole.items())
    return f"{' and '.join(missing)} too{units}, such as {PREFIX}{filled}"


def failures_until(
    runs: Floats, hosts: Floats, every: Floats, *, mtbf: float, pause: float, cost: float
) -> Floats:
    """How often a server of each job fails on average until it is done (docs/outages.md#no-end-in-sight).

    runs: run times, s. hosts: servers of which each job needs GPUs. every: checkpoint intervals, s. mtbf: of
    a server. pause: at the beginning of each stay after the first, s. cost: of a checkpoint, s.

    What lies between two checkpoints has to be done in one go. With a failure every M = mtbf / hosts that
    succeeds with probability exp(-length / M).
    """
    rate = hosts / mtbf
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        pieces = np.where(every > 0, np.floor(runs / every), np.inf)
        # The last piece ends with the job, and is no longer than the others.
        last = np.where(np.isfinite(every), runs - pieces * every, runs)

        def lost(length: Floats) -> Floats:
            """Failures before a piece of that length is done: its first try has no pause."""
            return -np.expm1(-rate * length) * np.exp(rate * (length + pause))

        whole = np.where(pieces > 0, pieces * lost(every + cost), 0.0)
        return np.where(every > 0, whole + lost(np.maximum(last, 0.0)), 0.0)


def is_draw(value: object) -> bool:
    """Whether outages are to be drawn for the run."""
    if isinstance(value, str) and value == PREFIX[:-1]:
        return not os.path.exists(value)
    return isinstance(value, Draw) or (isinstance(value, str) and value.startswith(PREFIX))


def as_draw(value: object) -> Draw:
    """The draw that `value` is or names. Raises UsageError for a text that names none."""
    return value if isinstance(value, Draw) else Draw.parse(str(value))


def figures(found: Outages, cluster: Cluster, start: float, days: float) -> dict[str, Any]:
    """What there is of outages that begin within `days` days from `start`; times in seconds.

    down_share: the share of all servers' time in those days that they are down. mean_gpus_down: the mean
    number of GPUs on servers that are down. The mean times are None without outages.
    """
    server, down, up, _ = found.columns()
    span = days * DAY
    lost = np.minimum(up, start + span) - down
    time = cluster.num_servers * span
    return {
        "servers": cluster.num_servers,
        "outages": down.size,
        "mean_time_between_failures": (time - float(lost.sum())) / down.size if down.size else None,
        "mean_time_to_repair": float(np.mean(up - down)) if down.size else None,
        "down_share": float(lost.sum()) / time,
        "mean_gpus_down": float((lost * cluster.server_gpus[server]).sum()) / span,
    }


def _length(option: str, value: float | str) -> float:
    expected = "a length of time > 0 and <= 1e12 s"
    return number(option, seconds_of(option, value), expected, least=0.0, most=_LONGEST, above=True)


def _repairs(mean: float, repair: str, sigma: float | None) -> _Draw:
    """What draws times of repair."""
    check_name("repair", repair, REPAIRS)
    if repair == "exponential":
        if sigma is not None:
            raise refusal("sigma", sigma, "it together with repair lognormal")
        return lambda random, count: mean * random.standard_exponential(count)
    expected = f"a number >= 0 and <= {_MOST_SIGMA:g}"
    width = SIGMA if sigma is None else number("sigma", sigma, expected, least=0.0, most=_MOST_SIGMA)
    # The mean of exp(width z), z standard normal, is exp(width^2 / 2).
    return lambda random, count: mean * np.exp(width * random.standard_normal(count) - width**2 / 2)


def _of_group(  # noqa: PLR0917 - what it draws from and what it draws
    seed: int, key: tuple[int, ...], mean_up: float, draw: _Draw, span: float, chunk: int
) -> tuple[Floats, Floats]:
    """When a server or a group goes down, before `span`, and when it comes back. key: what tells it apart.

    Times up and repairs have a stream each: how many are drawn of one does not move the other.
    """
    lives, mends = (
        np.random.Generator(
            np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(key[0], stream, *key[1:])))
        )
        for stream in (0, 1)
    )
    up, mended = np.empty(0), np.empty(0)
    while True:
        up = np.concatenate([up, mean_up * lives.standard_exponential(chunk)])
        mended = np.concatenate([mended, draw(mends, chunk)])
        down = np.cumsum(up + np.append(0.0, mended[:-1]))
        if down[-1] >= span:
            begun = down < span
            return down[begun], (down + mended)[begun]
