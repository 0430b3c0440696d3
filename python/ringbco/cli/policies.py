"""`ringbco policies`: the registry as a table."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from ringbco.io.terminal import say_json
from ringbco.run.policies_generated import PRESETS

# Options under which a policy that needs no run times reads them.
_CONDITIONS: Final = {
    "qssf": ["with --predict exact"],
    "repack": ["with --predict exact"],
    "edf": ["with --admission"],
}
_TABLE_WIDTH: Final = 70


def policies(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List the scheduling policies: where each comes from, whether it preempts, whether it must know how long
    a job will run, and its own options of `ringbco replay`.

    docs/policies.md describes each one.

    Example: ringbco policies --json
    """
    rows = [
        {
            "name": name,
            "paper": policy.paper,
            "preemptive": policy.preemption != "none",
            "clairvoyant": policy.clairvoyant,
            "clairvoyant_with": _CONDITIONS.get(name, []),
            "order": policy.order if policy.preemption == "none" else None,
            "placement": policy.placement,
            "queue": policy.queue if policy.preemption == "none" else None,
            "options": [f"--{option}" for option in policy.options],
        }
        for name, policy in PRESETS.items()
    ]
    rows += _installed()
    if as_json:
        say_json(rows)
        return
    _show(rows)


def _installed() -> list[dict[str, Any]]:
    """The policies in Python that this and other installed packages offer by name."""
    from ringbco.run.own import KeyPolicy, installed

    return [
        {
            "name": name,
            "paper": (kind.__doc__ or "").strip().partition("\n")[0],
            "preemptive": getattr(kind, "preemptive", not issubclass(kind, KeyPolicy)),
            "clairvoyant": kind.clairvoyant,
            "clairvoyant_with": [],
            "order": None,
            "placement": "consolidate",
            "queue": None,
            "options": [f"-P {field}" for field in fields],
        }
        for name, kind, fields in installed()
    ]


def _show(rows: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ringbco.io.console import Console

    console = Console()
    titles = ("name", "paper", "preemptive", "clairvoyant", "options")
    told = []
    for row in rows:
        known = "yes" if row["clairvoyant"] else "no"
        known = ",\n".join([known, *(f"yes {condition}" for condition in row["clairvoyant_with"])])
        preemptive = "yes" if row["preemptive"] else "no"
        told.append((row["name"], row["paper"], preemptive, known, "\n".join(row["options"])))
    if console.width >= _TABLE_WIDTH:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title in titles:
            table.add_column(title, no_wrap=title in ("name", "options"))
        for cells in told:
            table.add_row(*cells)
        console.print(table)
    else:
        for name, *rest in told:
            console.print(Text(name, style="bold"))
            for title, cell in zip(titles[1:], rest, strict=True):
                if cell:
                    console.print(f"  {title}: {' '.join(cell.split())}")
    console.print("clairvoyant: reads how long a job will run before it does; --queue easy always does")
