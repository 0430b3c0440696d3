"""The paper's figures 4 to 7 again, over several seeds, beside the values read off them (docs/paper.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.result.outcome import Outcome
from ringbco.run.plan import plan
from ringbco.trace.jobs import JobTable
from ringbco.trace.synthetic import generate

JOBS: Final = 160
SERVERS: Final = 20
SERVER_SIZES: Final = (4, 8, 16, 32)
HORIZON: Final = {4: 1200, 5: 1200, 6: 1500, 7: 1200}
"""T of each figure, slots."""
POLICIES: Final = ("sjf-bco", "ls", "ff", "rand")
NAMES: Final = {"sjf-bco": "SJF-BCO", "ls": "LS", "ff": "FF", "rand": "RAND"}
READINGS: Final = (
    ("idle", "practical"), ("idle", "literal"), ("reserve", "practical"), ("reserve", "literal"),
)  # fmt: skip
"""(dispatch, variant); the baselines do not depend on the variant."""
LIMIT: Final = 0.15
"""How much of the execution time contention and overhead take at the most, in the paper's experiment."""
DEFAULT_SEEDS: Final = 20
MOST_SEEDS: Final = 10_000

PAPER: Final = pl.DataFrame(
    [
        *((4, "makespan", policy, None, value) for policy, value in
          (("sjf-bco", 535), ("ls", 595), ("ff", 720), ("rand", 1125))),
        *((4, "mean_jct", policy, None, value) for policy, value in
          (("sjf-bco", 180), ("ls", 187), ("ff", 450), ("rand", 260))),
        *((5, "makespan", "sjf-bco", kappa, value) for kappa, value in
          ((1, 627), (2, 563), (4, 541), (8, 535), (10, 700), (16, 750), (32, 737))),
        *((6, "makespan", policy, servers, value) for policy, values in (
            ("sjf-bco", (940, 720, 535)), ("ls", (1160, 875, 595)),
            ("ff", (1400, 960, 720)), ("rand", (1490, 1260, 1125)),
        ) for servers, value in zip((10, 15, 20), values, strict=True)),
        *((7, "makespan", "sjf-bco", factor, value) for factor, value in
          ((1, 1040), (2, 880), (4, 730), (8, 540))),
    ],
    schema={"figure": pl.Int64, "measure": pl.String, "policy": pl.String, "x": pl.Int64,
            "value": pl.Float64},
    orient="row",
)  # fmt: skip
"""The values read off the paper's figures, slots. x: kappa (figure 5), servers (6), lambda (7)."""


@dataclass(frozen=True)
class Trial:
    """One plan to make; x as in `PAPER`."""

    figure: int
    policy: str
    x: int | None
    dispatch: str
    variant: str | None
    seed: int


def trials(seeds: int) -> Iterator[Trial]:
    """Every plan of the four figures. Raises UsageError for a number of seeds out of range."""
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"option seeds: {seeds}: expected an integer from 1 to {MOST_SEEDS}")
    for seed in range(seeds):
        for figure, policy, x in PAPER.select("figure", "policy", "x").unique(maintain_order=True).rows():
            for dispatch, variant in READINGS:
                if policy == "sjf-bco":
                    yield Trial(figure, policy, x, dispatch, variant, seed)
                elif variant == "practical":
                    yield Trial(figure, policy, x, dispatch, None, seed)


def servers(seed: int, count: int = SERVERS) -> Cluster:
    """The first `count` of the 20 servers of a seed, each of 4, 8, 16 or 32 GPUs with equal chance."""
    rng = np.random.Generator(np.random.PCG64([seed, SERVERS]))
    sizes = rng.choice(np.array(SERVER_SIZES, dtype=np.uint32), SERVERS)[:count]
    return Cluster(
        server_gpus=sizes, server_vc=None, server_gpu_type=None, network=Network(), name=f"seed {seed}"
    )


def run(seeds: int = DEFAULT_SEEDS, progress: Callable[[int, int], None] | None = None) -> pl.DataFrame:
    """Makes every plan: one row each, with its trial's fields and what came out.

    Columns beside the trial's: makespan, mean_jct, w_max, work_lower_bound (slots of 1 s), theta, kappa,
    horizon, the T under which it was found: the figure's, or a larger one where that had no schedule; and of
    the jobs on two or more servers: jobs_spread, their number, stretch, the mean of run_time /
    ideal_run_time (1 without such jobs), and over_limit, the share of them above 1 + `LIMIT`.
    """
    todo = list(trials(seeds))
    rows = []
    tables: dict[int, JobTable] = {}
    for done, trial in enumerate(todo):
        if trial.seed not in tables:
            tables = {trial.seed: generate("paper", JOBS, trial.seed)}
        rows.append(_made(trial, tables[trial.seed]))
        if progress is not None:
            progress(done + 1, len(todo))
    schema = {"x": pl.Int64, "kappa": pl.Int64, "variant": pl.String}
    return pl.DataFrame(rows, schema_overrides=schema, infer_schema_length=None)


def _made(trial: Trial, table: JobTable) -> dict[str, object]:
    cluster = servers(trial.seed, trial.x or SERVERS) if trial.figure == 6 else servers(trial.seed)
    kappa = {5: trial.x, 7: 1}.get(trial.figure)

    def planned(horizon: int | None) -> Outcome:
        return plan(
            table,
            cluster,
            policy=trial.policy,
            dispatch=trial.dispatch,
            variant=trial.variant or "practical",
            kappa=kappa,
            lambda_=float(trial.x or 1) if trial.figure == 7 else 1.0,
            horizon=horizon,
            seed=trial.seed,
            allocations=False,
        )

    try:
        outcome = planned(HORIZON[trial.figure])
    except InputError:
        # No schedule within T; the doubled horizon has one, as every job can run.
        outcome = planned(None)
    chosen = ("makespan", "mean_jct", "w_max", "work_lower_bound", "theta", "kappa", "horizon", "jobs_spread")
    spread = outcome.jobs.filter(pl.col("num_servers") > 1)
    stretch = (spread["run_time"] / spread["ideal_run_time"]).to_numpy()
    return {
        **vars(trial),
        **{name: outcome.summary[name] for name in chosen},
        "stretch": float(stretch.mean()) if stretch.size else 1.0,
        "over_limit": float((stretch > 1 + LIMIT).mean()) if stretch.size else 0.0,
    }
