"""ringbco: replays GPU-cluster job traces through contention-aware deep-learning schedulers.

The public names are loaded when first used, so that `import ringbco` costs next to nothing. No module
or package here is called as one of them is: importing it would hide the name. `__init__.pyi` has their types.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Bound": "result.bound",
    "Cluster": "cluster.spec",
    "Comparison": "result.comparison",
    "DecisionError": "errors",
    "Diff": "result.diff",
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
    "Story": "result.why",
    "audit": "audits",
    "bound": "run.bound",
    "compare": "run.compare",
    "convert": "sources.conversion",
    "from_frame": "trace.jobs",
    "generate": "trace.synthetic",
    "inspect": "study.inspection",
    "outages": "run.outage_draws",
    "pack": "run.pack",
    "plan": "run.plan",
    "play": "reports.player",
    "profile": "study.profile",
    "read_jobs": "trace.jobs",
    "replay": "run.replay",
    "report": "reports",
    "services": "study.services",
    "sweep": "sweeps.run",
    "timeline": "reports.timeline",
    "write_jobs": "trace.jobs",
}
# Of what a module may not import, since it stands above it or would close a circle: by name, where it is.
_ABOVE = {
    "plots": ("reports.plots", "Plots"),
    "outcome": ("reports.notebook", "outcome_html"),
    "sheet": ("reports.paper", "sheet_of"),
    "comparison": ("reports.notebook", "comparison_html"),
    "side by side": ("result.comparison", "side_by_side"),
    "diff": ("result.diff", "diff"),
    "why": ("result.why_teller", "why"),
    "another form": ("sources", "another_form"),
}
__all__ = ["__version__", "errors"]
__all__ += list(_HOMES)


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


def _above(name: str, *given: object) -> Any:
    """What the function of that name in `_ABOVE` makes of what it is given: how a result is drawn, say."""
    module, function = _ABOVE[name]
    return getattr(import_module(f"ringbco.{module}"), function)(*given)


def __dir__() -> list[str]:
    return sorted(__all__)
