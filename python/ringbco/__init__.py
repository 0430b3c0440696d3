"""ringbco: replays GPU-cluster job traces through contention-aware deep-learning schedulers.

The public names are loaded when first used, so that `import ringbco` costs next to nothing. No module
or package here is called as one of them is: importing it would hide the name. `__init__.pyi` has their types.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def _refuse(line: str) -> None:
    """Raises ImportError. If it is not caught, the line is all that is printed."""
    error, before = ImportError(line), sys.excepthook

    def tell(kind: Any, raised: BaseException, trace: Any) -> None:
        sys.stderr.write(f"error: {line}\n") if raised is error else before(kind, raised, trace)

    sys.excepthook = tell
    raise error


if sys.platform == "win32":
    _refuse("ringbco does not run on Windows: install it in WSL (https://learn.microsoft.com/windows/wsl)")
if sys.version_info < (3, 11):  # noqa: UP036 - pip refuses it, a path to the source tree does not
    _refuse(
        "ringbco needs Python 3.11 or newer, and this is {}.{}: install it in an environment of a newer one,"
        " such as python3.11 -m venv ENV".format(*sys.version_info)
    )

_HOMES = {
    "Bound": "result.bound",
    "Cluster": "cluster.spec",
    "Comparison": "result.comparison",
    "DecisionError": "errors",
    "Diff": "result.diff",
    "JobTable": "trace.jobs",
    "KeyPolicy": "run.custom_policy",
    "Network": "cluster.network",
    "Outages": "trace.outages",
    "Outcome": "result.outcome",
    "Packing": "run.pack",
    "Policy": "run.custom_policy",
    "RankPolicy": "run.custom_policy",
    "Requests": "trace.requests",
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
    "generate_requests": "trace.synthetic_requests",
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
    "why": ("run.probe", "why"),
    "remedy": ("sources.remedies", "remedy"),
}
__all__ = ["__version__", "errors"]
__all__ += list(_HOMES)


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        from importlib.metadata import version

        value = version("ringbco")
    elif name == "_core":
        value = _library()
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


def _library() -> Any:
    """The engine. Raises LibraryError where its file is missing or is of no use here."""
    try:
        return import_module("ringbco._core")
    except ImportError as error:
        from ringbco.errors import LibraryError

        why = "is missing" if isinstance(error, ModuleNotFoundError) else f"does not load ({error})"
        raise LibraryError(
            f"the engine's library, _core.abi3.so, {why} in {__path__[0]}: install it again, by"
            " pip install --force-reinstall --no-deps ringbco, or with its wheel's name for ringbco"
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)
