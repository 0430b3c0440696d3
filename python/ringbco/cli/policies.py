"""`ringbco policies`: the registry as a table."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ringbco import _core


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
        table.add_column(title, no_wrap=title == "name")
    own_options = {name: " ".join(options) for name, _, _, options in _core.policies()}
    for row in rows:
        marks = ("yes" if row[key] else "no" for key in ("preemptive", "clairvoyant"))
        table.add_row(str(row["name"]), str(row["paper"]), *marks, own_options[str(row["name"])])
    Console(highlight=False).print(table)
