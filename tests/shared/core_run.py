"""The engine, called with the columns of a random case."""

import os
from typing import Any

import numpy as np

from ringbco import _core
from strategies import Case

CASES = int(os.environ.get("RINGBCO_CASES", "300"))
"""Random cases of each parametrised comparison with a reference model; `make test-drawn` has 600."""
LONG = CASES >= 600
"""Whether the run is one of `make test-drawn`."""
PAIRS = CASES if LONG else CASES // 6
"""Random cases of each comparison of the engine with a reference model: `test_cases` compares results."""
FEW = CASES // (3 if LONG else 12)
"""Random cases of each test that takes longer with every one."""
AUDITS = CASES // 18 if LONG else 4
"""Random cases of each test that audits whole results, which takes longer."""
STEP = 1 if LONG else 6
"""Where a test writes files for each combination of algorithms: of how many it takes one."""


_SHORT = {"running": "running_jobs", "queued": "queued_jobs", "spanning": "spanning_jobs"}


class Run:
    """A run's columns as attributes: those of its jobs and its timeline by name, `alloc_` before the others'.

    None for a column that the run does not have; `preemptions` is 0 where nobody counts them.
    """

    def __init__(self, result: "_core.RunResult") -> None:
        self.result, self.tables = result, result.tables

    def __getattr__(self, name: str) -> Any:
        tables = self.__dict__["tables"]
        if name.startswith("alloc_"):
            return tables["allocations"][name.removeprefix("alloc_")]
        if name == "timeline_time":
            return tables["timeline"]["time"]
        if name == "asleep":
            return [tables[name][part] for part in ("server", "from", "until")] if name in tables else None
        if name == "climbs":
            return tuple(tables[name].values()) if name in tables else None
        if name in _SHORT:
            return tables["timeline"][_SHORT[name]]
        for table in ("jobs", "timeline"):
            if name in tables[table]:
                return tables[table][name]
        if name == "preemptions":
            return np.zeros(tables["jobs"]["kept"].size, np.uint32)
        return getattr(self.__dict__["result"], name, None)


def run_core(case: Case, **more: Any) -> Run:
    """What the engine makes of a case; `more` adds to, or replaces, its columns and its options.

    checkpoint_intervals: the job column that has the name of an option.
    """

    def column(name: str, dtype: type) -> np.ndarray:
        return np.array([getattr(job, name) for job in case.jobs], dtype=dtype)

    pods, place_of_pod = np.unique(column("pod", np.uint32), return_inverse=True)
    net = case.net
    split = case.server_vc is not None
    jobs = {
        "submit": column("submit", np.float64),
        "num_gpus": column("num_gpus", np.uint32),
        "duration": column("duration", np.float64),
        "iterations": column("iterations", np.uint64),
        "gradient_bytes": column("gradient_bytes", np.float64),
        "compute_time": column("compute_time", np.float64),
        "vc": column("vc", np.uint32) if split else None,
        "deadline": None,
        "user": None,
        "types": None,
        "shares": None,
        "rates": None,
        "checkpoint_interval": more.pop("checkpoint_intervals", None),
        "trials": None,
        "forms": None
        if pods.max() == 1
        else {"of": place_of_pod.astype(np.uint32), "list": [(int(pod), 0, False, 0, 0) for pod in pods]},
    }
    cluster = {
        "server_gpus": np.array(case.servers, dtype=np.uint32),
        "server_vc": np.array(case.server_vc, dtype=np.uint32) if split else None,
        "server_types": None,
        "type_prices": None,
        "outages": None,
        "network": (net.intra, net.inter, net.reduce, net.xi1, net.xi2, net.alpha),
    }
    given = case.options.by_name()
    if "checkpoint_interval" in more:
        given["checkpoint_interval"] = more.pop("checkpoint_interval")
    for name, value in more.items():
        next((group for group in (jobs, cluster) if name in group), given)[name] = value
    return Run(_core.replay(jobs, cluster, given, None))
