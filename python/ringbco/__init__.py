"""ringbco: replays GPU-cluster job traces through contention-aware deep-learning schedulers.

The public names are loaded when first used, so that `import ringbco` costs next to nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringbco import errors
    from ringbco.audit import audit
    from ringbco.cluster import Cluster, Network
    from ringbco.compare import Comparison, compare
    from ringbco.conversion import convert
    from ringbco.inspection import inspect
    from ringbco.jobs import JobTable, from_frame, read_jobs, write_jobs
    from ringbco.outcome import Outcome
    from ringbco.plan import plan
    from ringbco.profile import profile
    from ringbco.replay import replay
    from ringbco.report import report
    from ringbco.report.timeline import timeline
    from ringbco.sweep import sweep
    from ringbco.synthetic import generate

    __version__: str

__all__ = [
    "Cluster",
    "Comparison",
    "JobTable",
    "Network",
    "Outcome",
    "__version__",
    "audit",
    "compare",
    "convert",
    "errors",
    "from_frame",
    "generate",
    "inspect",
    "plan",
    "profile",
    "read_jobs",
    "replay",
    "report",
    "sweep",
    "timeline",
    "write_jobs",
]

_HOMES = {
    "Cluster": "cluster",
    "Comparison": "compare",
    "JobTable": "jobs",
    "Network": "cluster",
    "Outcome": "outcome",
    "audit": "audit",
    "compare": "compare",
    "convert": "conversion",
    "from_frame": "jobs",
    "generate": "synthetic",
    "inspect": "inspection",
    "plan": "plan",
    "profile": "profile",
    "read_jobs": "jobs",
    "replay": "replay",
    "report": "report",
    "sweep": "sweep",
    "timeline": "report.timeline",
    "write_jobs": "jobs",
}


class _Package(ModuleType):
    """The package itself, in which `ringbco.replay` and `ringbco.report` are always the functions.

    Importing a submodule binds it in its package under its name, which would hide the function of that name.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _HOMES.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


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
