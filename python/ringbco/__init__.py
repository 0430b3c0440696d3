"""ringbco: replays GPU-cluster job traces through contention-aware deep-learning schedulers.

The public names are loaded when first used, so that `import ringbco` costs next to nothing. No module
or package here is called as one of them is: importing it would hide the name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringbco import errors
    from ringbco.audits import audit
    from ringbco.cluster.network import Network
    from ringbco.cluster.spec import Cluster
    from ringbco.errors import DecisionError
    from ringbco.reports import report
    from ringbco.reports.timeline import timeline
    from ringbco.result.bound import Bound
    from ringbco.result.comparison import Comparison
    from ringbco.result.outcome import Outcome
    from ringbco.run.bound import bound
    from ringbco.run.compare import compare
    from ringbco.run.draws import outages
    from ringbco.run.own import KeyPolicy, Policy, RankPolicy
    from ringbco.run.pack import Packing, pack
    from ringbco.run.plan import plan
    from ringbco.run.replay import replay
    from ringbco.run.simulation import Simulation
    from ringbco.run.state import State
    from ringbco.sources.conversion import convert
    from ringbco.study.inspection import inspect
    from ringbco.study.profile import profile
    from ringbco.study.services import services
    from ringbco.sweeps.run import sweep
    from ringbco.trace.jobs import JobTable, from_frame, read_jobs, write_jobs
    from ringbco.trace.outages import Outages
    from ringbco.trace.services import Services
    from ringbco.trace.synthetic import generate

    __version__: str

__all__ = [
    "Bound",
    "Cluster",
    "Comparison",
    "DecisionError",
    "JobTable",
    "KeyPolicy",
    "Network",
    "Outages",
    "Outcome",
    "Packing",
    "Policy",
    "RankPolicy",
    "Services",
    "Simulation",
    "State",
    "__version__",
    "audit",
    "bound",
    "compare",
    "convert",
    "errors",
    "from_frame",
    "generate",
    "inspect",
    "outages",
    "pack",
    "plan",
    "profile",
    "read_jobs",
    "replay",
    "report",
    "services",
    "sweep",
    "timeline",
    "write_jobs",
]

_HOMES = {
    "Bound": "result.bound",
    "Cluster": "cluster.spec",
    "Comparison": "result.comparison",
    "DecisionError": "errors",
    "JobTable": "trace.jobs",
    "KeyPolicy": "run.own",
    "Network": "cluster.network",
    "Outages": "trace.outages",
    "Outcome": "result.outcome",
    "Packing": "run.pack",
    "Policy": "run.own",
    "RankPolicy": "run.own",
    "Services": "trace.services",
    "Simulation": "run.simulation",
    "State": "run.state",
    "audit": "audits",
    "bound": "run.bound",
    "compare": "run.compare",
    "convert": "sources.conversion",
    "from_frame": "trace.jobs",
    "generate": "trace.synthetic",
    "inspect": "study.inspection",
    "outages": "run.draws",
    "pack": "run.pack",
    "plan": "run.plan",
    "profile": "study.profile",
    "read_jobs": "trace.jobs",
    "replay": "run.replay",
    "report": "reports",
    "services": "study.services",
    "sweep": "sweeps.run",
    "timeline": "reports.timeline",
    "write_jobs": "trace.jobs",
}


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        from importlib.metadata import version

        value = version("ringbco")
    elif name == "errors":
        value = import_module("ringbco.errors")
    elif name in _HOMES:
        value = getattr(import_module(f"ringbco.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'ringbco' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
