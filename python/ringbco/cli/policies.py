"""`ringbco policies`: the registry as a table."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from ringbco import _core

# Options under which a policy that needs no run times reads them.
_CONDITIONS: Final = {"qssf": ["with --predict exact"], "edf": ["with --admission"]}


def policies(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List the scheduling policies: where each comes from, whether it preempts, whether it must know how long
    a job will run, and its own options of `ringbco replay`.

    docs/policies.md describes each one.

    Example: ringbco policies --json
    """
    presets = {name: (*parts, preemption) for name, *parts, preemption in _core.presets()}
    rows = [
        {
            "name": name,
            "paper": paper,
            "preemptive": presets[name][3] != "none",
            "clairvoyant": clairvoyant,
            "clairvoyant_with": _CONDITIONS.get(name, []),
            "order": presets[name][0] if presets[name][3] == "none" else None,
            "placement": presets[name][1],
            "queue": presets[name][2] if presets[name][3] == "none" else None,
            "options": options,
        }
        for name, paper, clairvoyant, options in _core.policies()
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("name", "paper", "preemptive", "clairvoyant", "options"):
        table.add_column(title, no_wrap=title in ("name", "options"), overflow="fold")
    own_options = {name: "\n".join(options) for name, _, _, options in _core.policies()}
    for row in rows:
        name = str(row["name"])
        known = (
            "yes"
            if row["clairvoyant"]
            else "\n".join(["no", *(f"yes {c}" for c in _CONDITIONS.get(name, []))])
        )
        preemptive = "yes" if row["preemptive"] else "no"
        table.add_row(name, str(row["paper"]), preemptive, known, own_options[name])
    console = Console(highlight=False)
    console.print(table)
    console.print("clairvoyant: reads how long a job will run before it does; --queue easy always does")
