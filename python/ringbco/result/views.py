"""How results are shown: by modules above them, which are loaded when somebody first asks to see one.

A result knows the names of its views and nothing else of them, so that data import no pictures:

    view("outcome", outcome)  # the HTML of one outcome, as a notebook shows it
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, Protocol

VIEWS: Final = {
    "plots": ("ringbco.reports.plots", "Plots"),
    "outcome": ("ringbco.reports.notebook", "outcome_html"),
    "sheet": ("ringbco.reports.paper", "sheet_of"),
    "comparison": ("ringbco.reports.notebook", "comparison_html"),
    "side by side": ("ringbco.result.comparison", "side_by_side"),
    "diff": ("ringbco.result.diff", "diff"),
    "why": ("ringbco.result.why_teller", "why"),
}
"""The module and the function that draw each."""


class Plots(Protocol):
    """Charts of outcomes, one a method; each gives an altair chart (reports/plots.py)."""

    def jct(self) -> Any:
        """Share of jobs completed within a time of their submission."""

    def wait(self) -> Any:
        """Share of jobs by waiting time."""

    def slowdown(self) -> Any:
        """Share of jobs by slowdown."""

    def busy(self) -> Any:
        """GPUs that jobs hold, over time."""

    def queue(self) -> Any:
        """GPUs that waiting jobs ask for, over time."""

    def contention(self) -> Any:
        """Mean contention of jobs over several servers, over time."""

    def sizes(self) -> Any:
        """Mean completion time by the number of GPUs a job asks for."""


def view(name: str, *shown: object) -> Any:
    """What the view of that name makes of results."""
    module, function = VIEWS[name]
    return getattr(import_module(module), function)(*shown)
