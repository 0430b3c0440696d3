"""How far plans are from the optimum, on instances small enough for an exact solver.

    python benches/optimum.py [INSTANCES]

prints the table of docs/paper.md. The optimum is that of the fixed-duration relaxation: every job takes its
least possible number of slots wherever it runs, so spreading and contention cost nothing. GPUs are then all
alike, any idle ones will do, and what is left is gangs on N machines, which CP-SAT solves exactly. Under the
model `fixed` the relaxation is the model; under `rar` its optimum is a lower bound.
"""

import math
import sys
from dataclasses import dataclass

import numpy as np
import polars as pl
from ortools.sat.python import cp_model

from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster
from ringbco.errors import RingbcoError
from ringbco.run.plan import plan
from ringbco.trace import profiles
from ringbco.trace.jobs import from_frame

JOBS, SERVERS = 8, 3
POLICIES = {"sjf-bco": "SJF-BCO", "ls": "LS", "ff": "FF", "rand": "RAND"}


@dataclass(frozen=True)
class Instance:
    frame: pl.DataFrame
    cluster: Cluster


def draw(seed: int) -> Instance:
    """Eight jobs of the paper's run times on three servers of 2, 4 or 8 GPUs; some gangs span."""
    rng = np.random.Generator(np.random.PCG64([seed, JOBS]))
    sizes = rng.choice(np.array([2, 4, 8], dtype=np.uint32), SERVERS)
    num_gpus = np.minimum(rng.choice([1, 1, 2, 2, 4, 4, 6, 8], JOBS), sizes.sum()).astype(np.uint32)
    iterations = rng.integers(1000, 6001, JOBS)
    gradient = rng.uniform(1e6, 30e6, JOBS)
    network = Network()
    ring = profiles.iteration_time(
        num_gpus, gradient, np.zeros(JOBS), np.ones(JOBS, dtype=np.uint32), network
    )
    rho = rng.uniform(50, 300, JOBS)
    frame = pl.DataFrame(
        {
            "job_id": [f"j{n}" for n in range(JOBS)], "submit_time": 0.0, "num_gpus": num_gpus,
            "duration": rho, "iterations": iterations.astype(np.uint64),
            "gradient_bytes": gradient, "batch_size": np.ones(JOBS, dtype=np.uint32), "bp_time": 0.0,
            "fp_time": np.maximum(1e-3, rho / iterations - ring),
        }
    )  # fmt: skip
    cluster = Cluster(
        server_gpus=sizes, server_vc=None, server_gpu_type=None, network=network, name=f"seed {seed}"
    )
    return Instance(frame, cluster)


def least_slots(instance: Instance, model: str) -> list[int]:
    """The fewest slots of 1 s that each job can take: uncontended, on as few servers as hold it."""
    frame, cluster = instance.frame, instance.cluster
    if model == "fixed":
        return [math.ceil(seconds) for seconds in frame["duration"]]
    work = profiles.resolve(from_frame(frame), cluster, model=model, seed=0)
    iterations = work.iterations.astype(np.int64)
    phi = np.floor(1.0 / work.tau0 * (1 + 1e-12)).astype(np.int64)
    return (-(-iterations // phi)).tolist()


def optimum(num_gpus: list[int], slots: list[int], gpus: int) -> int:
    """The least makespan of gangs of fixed length on `gpus` machines, proved by CP-SAT."""
    model = cp_model.CpModel()
    horizon = sum(slots)
    ends, intervals = [], []
    for job, length in enumerate(slots):
        start = model.new_int_var(0, horizon, f"start{job}")
        ends.append(model.new_int_var(0, horizon, f"end{job}"))
        intervals.append(model.new_interval_var(start, length, ends[-1], f"job{job}"))
    makespan = model.new_int_var(0, horizon, "makespan")
    model.add_cumulative(intervals, num_gpus, gpus)
    model.add_max_equality(makespan, ends)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if solver.solve(model) != cp_model.OPTIMAL:
        raise RuntimeError("CP-SAT found no proof")
    return int(solver.objective_value)


def gaps(seed: int, model: str) -> list[dict[str, object]]:
    """Makespan over optimum of every policy and dispatch on one instance."""
    instance = draw(seed)
    gpus = instance.cluster.num_gpus
    best = optimum(instance.frame["num_gpus"].to_list(), least_slots(instance, model), gpus)
    rows: list[dict[str, object]] = []
    for dispatch in ("idle", "reserve"):
        for policy in POLICIES:
            summary = plan(
                instance.frame, instance.cluster, policy=policy, dispatch=dispatch, model=model, seed=seed
            ).summary
            rows.append(
                {
                    "model": model, "dispatch": dispatch, "policy": policy, "optimum": best,
                    "gap": summary["makespan"] / best - 1, "bound": summary["approximation_bound"],
                }
            )  # fmt: skip
    return rows


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    rows = [row for model in ("fixed", "rar") for seed in range(count) for row in gaps(seed, model)]
    table = (
        pl.DataFrame(rows)
        .group_by("model", "dispatch", "policy", maintain_order=True)
        .agg(
            mean=pl.col("gap").mean(), worst=pl.col("gap").max(), optimal=(pl.col("gap") == 0).mean(),
            bound=pl.col("bound").median(), least_bound=pl.col("bound").min(),
        )
    )  # fmt: skip
    print(f"{count} instances of {JOBS} jobs on {SERVERS} servers; gap = makespan / optimum - 1\n")
    print("| model | dispatch | policy | mean gap | worst gap | optimal in | Theorem 5, median |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in table.iter_rows(named=True):
        print(
            f"| {row['model']} | {row['dispatch']} | {POLICIES[row['policy']]} | {row['mean']:.1%} |"
            f" {row['worst']:.0%} | {row['optimal']:.0%} | {row['bound']:.1f} |"
        )


if __name__ == "__main__":
    try:
        main()
    except RingbcoError as error:
        sys.exit(f"error: {error}")
