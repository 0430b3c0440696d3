"""Runs every policy with every feature on eight jobs: the table of docs/combinations.md, `make combinations`.

A cell is a run that its audit has nothing to say of, or the reason for which it is refused.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import polars as pl

import page_tables
import ringbco
from ringbco.errors import RingbcoError

MARK: Final = "combinations"
PLAIN: Final = "[[servers]]\ncount = 2\ngpus = 4\n"
TYPES: Final = "[gpu_types.a]\nspeed = 1.0\n[gpu_types.b]\nspeed = 2.0\n" + "".join(
    f'[[servers]]\ngpus = 4\ngpu_type = "{name}"\n' for name in "ab"
)
CLUSTERS: Final = "".join(f'[[servers]]\ngpus = 4\nvc = "{name}"\n' for name in "xy")


class Feature(NamedTuple):
    """What a run may have: columns of its jobs, options, the cluster."""

    columns: Mapping[str, list[Any]] = {}
    options: Mapping[str, Any] = {}
    cluster: str = PLAIN


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
    "types": Feature(cluster=TYPES),
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
        cluster='[gpu_types.a]\n[[servers]]\ncount = 2\ngpus = 4\ngpu_type = "a"\n',
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
    "virtual clusters": Feature(columns={"vc": ["x", "y"] * 4}, cluster=CLUSTERS),
    "slot clock": Feature(options={"clock": "slot", "slot": 5.0}),
    "sleep": Feature(options={"sleep_after": 5.0, "wake_time": 2.0}),
    "fixed": Feature(options={"model": "fixed"}),
    "another placement": Feature(options={"placement": "first-fit"}),
    "decisions": Feature(options={"decisions": True}),
}
"""The columns of the page. Each is drawn by itself."""


def jobs_of(feature: Feature) -> pl.DataFrame:
    """Eight jobs, of which shares ask for one GPU."""
    gpus = [1, 2, 1, 4, 1, 2, 1, 3]
    if "group" in feature.columns:
        gpus[:4] = [1] * 4
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(8)],
            "submit_time": [5.0 * row for row in range(8)],
            "num_gpus": gpus,
            "duration": [30.0] * 8,
            "user": ["u", "v"] * 4,
            "model": ["m"] * 8,
            **feature.columns,
        }
    )


def replayed(policy: Any) -> Callable[[Feature, Path], None]:
    """What runs a policy."""

    def run(feature: Feature, work: Path) -> None:
        jobs = jobs_of(feature)
        outcome = ringbco.replay(jobs, work / "cluster.toml", policy=policy, **feature.options)
        assert ringbco.audit(outcome, jobs) == []

    return run


def followed(feature: Feature, work: Path) -> None:
    """Follows the decisions of fifo."""
    jobs = jobs_of(feature)
    options = {**feature.options, "decisions": True}
    ringbco.replay(jobs, work / "cluster.toml", policy="fifo", **options).write(work / "log")
    log = f"log:{work / 'log' / 'decisions.parquet'}"
    outcome = ringbco.replay(jobs, work / "cluster.toml", policy=log, **feature.options)
    assert ringbco.audit(outcome, jobs) == []


def called(function: Callable[..., Any]) -> Callable[[Feature, Path], None]:
    """What calls `plan` or `bound`."""

    def run(feature: Feature, work: Path) -> None:
        function(jobs_of(feature), work / "cluster.toml", **feature.options)

    return run


ROWS: Final[Mapping[str, Callable[[Feature, Path], None]]] = {
    **{name: replayed(name) for name in ("fifo", "srtf", "afs", "sia", "gavel", "allox", "repack")},
    "own `KeyPolicy`": replayed(Keyed),
    "own `RankPolicy`": replayed(Ranked),
    "own `Policy`": replayed(Deciding),
    "log": followed,
    "plan": called(ringbco.plan),
    "bound": called(ringbco.bound),
}


def cell(row: str, feature: str) -> str | None:
    """Why a cell does not run; None where it does."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (Path(folder) / "cluster.toml").write_text(FEATURES[feature].cluster)
        try:
            ROWS[row](FEATURES[feature], Path(folder))
        except RingbcoError as error:
            told = str(error)
            return told.partition("expected ")[2] or told.partition(": ")[2]
    return None


def table() -> str:
    """The lines between the marks."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    found = {row: {name: cell(row, name) for name in FEATURES} for row in ROWS}
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
    text = page_tables.filled(page.read_text(encoding="utf-8"), {MARK: table()})
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
