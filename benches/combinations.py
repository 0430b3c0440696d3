"""Runs every policy with every feature, and with every two: docs/combinations.md, `make combinations`.

A cell is a run of eight jobs that its audit has nothing to say of, or the reason for which it is refused. Of
two features those are told that are refused together though the policy knows each. Those runs have no audit.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import polars as pl

import page_tables
import ringbco
from ringbco.errors import RingbcoError

MARK: Final = "combinations"
PAIRS: Final = "pairs"
PLAIN: Final[tuple[Mapping[str, str], ...]] = ({}, {})


class Feature(NamedTuple):
    """What a run may have: columns of its jobs, options, and what the servers say, by server."""

    columns: Mapping[str, list[Any]] = {}
    options: Mapping[str, Any] = {}
    servers: tuple[Mapping[str, str], ...] = PLAIN

    def and_(self, other: Feature) -> Feature | None:
        """Both at once; None where one contradicts the other."""
        servers = self.servers if other.servers == PLAIN else other.servers
        if PLAIN not in (self.servers, other.servers):
            servers = tuple({**one, **two} for one in self.servers for two in other.servers)
        said = {key for one in self.servers for key in one} & {key for two in other.servers for key in two}
        if said or self.columns.keys() & other.columns.keys() or self.options.keys() & other.options.keys():
            return None
        return Feature({**self.columns, **other.columns}, {**self.options, **other.options}, servers)

    def toml(self) -> str:
        """The cluster file."""
        types = sorted({one["gpu_type"] for one in self.servers if "gpu_type" in one})
        lines = [f"[gpu_types.{name}]\nspeed = {speed}\n" for speed, name in enumerate(types, 1)]
        for one in self.servers:
            lines.append("[[servers]]\ngpus = 4\n" + "".join(f'{key} = "{one[key]}"\n' for key in one))
        return "".join(lines)


class Keyed(ringbco.KeyPolicy):
    """The widest first."""

    def key(self, state: ringbco.State, rows: Any) -> Any:
        """Less its GPUs."""
        return -state.jobs.num_gpus[rows].astype(float)


class Ranked(ringbco.RankPolicy):
    """The widest first, who runs gives way."""

    preemptive: ClassVar[bool] = True

    def rank(self, state: ringbco.State, rows: Any) -> Any:
        """Less its GPUs."""
        return -state.jobs.num_gpus[rows].astype(float)


class Deciding(ringbco.Policy):
    """Whoever fits starts."""

    resizes: ClassVar[bool] = False

    def decide(self, state: ringbco.State) -> None:
        """Tries all that wait."""
        state.start(state.waiting, strict=False)


FEATURES: Final[Mapping[str, Feature]] = {
    "types": Feature(servers=({"gpu_type": "a"}, {"gpu_type": "b"})),
    "table": Feature(
        columns={"iterations": [30] * 8},
        options={
            "model": "table",
            "tables": pl.DataFrame(
                {
                    "model": ["m"] * 2,
                    "gpu_type": ["a"] * 2,
                    "gpus": [1, 4],
                    "servers": [1] * 2,
                    "rate": [1.0, 3.0],
                }
            ),
        },
        servers=({"gpu_type": "a"}, {"gpu_type": "a"}),
    ),
    "shares": Feature(columns={"gpu_share": [0.5, None] * 4}),
    "outages": Feature(
        options={"outages": pl.DataFrame({"server": [0], "down_at": [15.0], "up_at": [60.0]})}
    ),
    "evict": Feature(columns={"priority": [0, 1] * 4}, options={"evict": True}),
    "quota": Feature(options={"quota": pl.DataFrame({"user": ["u"], "gpus": [4], "borrow": [True]})}),
    "services": Feature(
        options={
            "services": pl.DataFrame(
                {"service": ["s", "s"], "time": [0.0, 50.0], "replicas": [1, 0], "gpus_per_replica": [2, 2]}
            )
        }
    ),
    "elastic": Feature(columns={"min_gpus": [1] * 8, "max_gpus": [4] * 8}),
    "search": Feature(columns={"group": ["g"] * 4 + [None] * 4}, options={"search": "asha:eta=2,rungs=2"}),
    "virtual clusters": Feature(columns={"vc": ["x", "y"] * 4}, servers=({"vc": "x"}, {"vc": "y"})),
    "slot clock": Feature(options={"clock": "slot", "slot": 5.0}),
    "sleep": Feature(options={"sleep_after": 5.0, "wake_time": 2.0}),
    "fixed": Feature(options={"model": "fixed"}),
    "another placement": Feature(options={"placement": "first-fit"}),
    "decisions": Feature(options={"decisions": True}),
    "easy": Feature(options={"queue": "easy"}),
    "maintenance": Feature(
        options={"maintenance": pl.DataFrame({"server": [1], "down_at": [40.0], "up_at": [70.0]})}
    ),
}
"""The columns of the page. Each is drawn by itself."""


def jobs_of(feature: Feature) -> pl.DataFrame:
    """Eight jobs that may have all that the feature says."""
    gpus = [1, 2, 1, 4, 1, 2, 1, 3]
    if "group" in feature.columns:
        gpus[:4] = [1] * 4
    columns = dict(feature.columns)
    if {"gpu_share", "max_gpus"} <= columns.keys():
        columns["max_gpus"] = [4 if share is None else 1 for share in columns["gpu_share"]]
    if {"group", "vc"} <= columns.keys():  # a search is of one virtual cluster
        named = zip(columns["group"], columns["vc"], strict=True)
        columns["group"] = [None if group is None else group + vc for group, vc in named]
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(8)],
            "submit_time": [5.0 * row for row in range(8)],
            "num_gpus": gpus,
            "duration": [30.0] * 8,
            "user": ["u", "v"] * 4,
            "model": ["m"] * 8,
            **columns,
        }
    )


Run = Callable[[Feature, Path, bool], None]
"""Runs something with a feature, in a folder; told whether its result is audited."""


def replayed(policy: Any) -> Run:
    """What runs a policy."""

    def run(feature: Feature, work: Path, audited: bool) -> None:
        jobs = jobs_of(feature)
        outcome = ringbco.replay(jobs, work / "cluster.toml", policy=policy, **feature.options)
        assert not audited or ringbco.audit(outcome, jobs) == []

    return run


def followed(feature: Feature, work: Path, audited: bool) -> None:
    """Follows the decisions of fifo."""
    jobs = jobs_of(feature)
    options = {**feature.options, "decisions": True}
    ringbco.replay(jobs, work / "cluster.toml", policy="fifo", **options).write(work / "log")
    log = f"log:{work / 'log' / 'decisions.parquet'}"
    outcome = ringbco.replay(jobs, work / "cluster.toml", policy=log, **feature.options)
    assert not audited or ringbco.audit(outcome, jobs) == []


def called(function: Callable[..., Any]) -> Run:
    """What calls `plan` or `bound`."""

    def run(feature: Feature, work: Path, audited: bool) -> None:
        function(jobs_of(feature), work / "cluster.toml", **feature.options)

    return run


ROWS: Final[Mapping[str, Run]] = {
    **{name: replayed(name) for name in ("fifo", "srtf", "afs", "sia", "gavel", "allox", "repack")},
    "own `KeyPolicy`": replayed(Keyed),
    "own `RankPolicy`": replayed(Ranked),
    "own `Policy`": replayed(Deciding),
    "log": followed,
    "plan": called(ringbco.plan),
    "bound": called(ringbco.bound),
}


def cell(row: str, *features: str) -> str | None:
    """Why a row does not run with a feature, or with two; None where it does, or where no run has both."""
    first, *others = (FEATURES[name] for name in features)
    feature = first if not others else first.and_(others[0])
    if feature is None:
        return None
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (Path(folder) / "cluster.toml").write_text(feature.toml())
        try:
            ROWS[row](feature, Path(folder), not others)
        except RingbcoError as error:
            told = str(error).replace(f"{__name__}:", "")
            return told.partition("expected ")[2] or told.partition(": ")[2]
    return None


def pairs(row: str, alone: Mapping[str, str | None]) -> dict[tuple[str, str], str]:
    """Why a row does not run with two features that it knows one by one. alone: why it does not know each."""
    known = [name for name in FEATURES if alone[name] is None]
    found = {pair: cell(row, *pair) for pair in combinations(known, 2)}
    return {pair: reason for pair, reason in found.items() if reason is not None}


def table() -> dict[str, str]:
    """The lines between the marks, by mark."""
    with ProcessPoolExecutor() as pool:
        told = dict(zip(ROWS, pool.map(_row, ROWS), strict=True))
    alone = {row: cells for row, (cells, _) in told.items()}
    return {
        MARK: "\n".join(_lines(alone)),
        PAIRS: "\n".join(_pairs({row: of for row, (_, of) in told.items()})),
    }


def _row(row: str) -> tuple[dict[str, str | None], dict[tuple[str, str], str]]:
    alone = {name: cell(row, name) for name in FEATURES}
    return alone, pairs(row, alone)


def _pairs(found: Mapping[str, Mapping[tuple[str, str], str]]) -> Iterator[str]:
    refused: dict[tuple[tuple[str, str], str], list[str]] = {}
    for row, of_row in found.items():
        for pair, reason in of_row.items():
            refused.setdefault((pair, reason), []).append(row)
    yield "| features | refused by | why |"
    yield "| --- | --- | --- |"
    for (pair, reason), rows in refused.items():
        yield f"| {' and '.join(pair)} | {', '.join(rows)} | {reason} |"


def _lines(found: Mapping[str, Mapping[str, str | None]]) -> Iterator[str]:
    runs = sum(reason is None for cells in found.values() for reason in cells.values())
    yield f"{runs} of {len(ROWS) * len(FEATURES)} cells run. A number is that of the reason below."
    yield ""
    yield f"| | {' | '.join(FEATURES)} |"
    yield f"| --- |{' :---: |' * len(FEATURES)}"
    reasons: dict[str, int] = {}
    for row, cells in found.items():
        told = [
            "yes" if why is None else str(reasons.setdefault(why, len(reasons) + 1)) for why in cells.values()
        ]
        yield f"| {row} | {' | '.join(told)} |"
    yield ""
    yield from (f"{number}. {reason}" for reason, number in reasons.items())


def main() -> None:
    """Writes the table between its marks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, nargs="?", default=Path("docs/combinations.md"))
    page = parser.parse_args().page
    text = page_tables.filled(page.read_text(encoding="utf-8"), table())
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
