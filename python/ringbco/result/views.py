"""How results are shown: by `ringbco.reports`, which is loaded when somebody first asks to see one.

A result knows the names of its views and nothing else of them, so that data import no pictures:

    view("outcome", outcome)  # the HTML of one outcome, as a notebook shows it
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

VIEWS: Final = {
    "plots": ("ringbco.reports.plots", "Plots"),
    "outcome": ("ringbco.reports.notebook", "outcome_html"),
    "comparison": ("ringbco.reports.notebook", "comparison_html"),
}
"""The module and the function that draw each."""


def view(name: str, shown: object) -> Any:
    """What the view of that name makes of a result."""
    module, function = VIEWS[name]
    return getattr(import_module(module), function)(shown)
