"""`ringbco policies`: the registry as a table."""

from __future__ import annotations

from typing import Any, Final

from ringbco.cli.options import takes
from ringbco.io.terminal import say_json
from ringbco.run.clairvoyance import of_policy
from ringbco.run.option import Preset
from ringbco.run.registry import FEATURES, PRESETS

_TABLE_WIDTH: Final = 70


@takes("as_json --json: Print JSON and nothing else.")
def policies(*, as_json: bool = False) -> None:
    """List the scheduling policies: where each comes from, whether it preempts, whether it must know how long
    a job will run, which features it refuses, and its own options of `ringbco replay`.

    docs/policies.md describes each one.

    Example: ringbco policies --json
    """
    rows = [*map(registered, PRESETS.values()), *installed()]
    if as_json:
        say_json(rows)
        return
    _show(rows)


def registered(policy: Preset) -> dict[str, Any]:
    """What a policy of the registry says of itself."""
    queues = policy.preemption == "none"
    clairvoyant, clairvoyant_with = of_policy(policy)
    return {
        "name": policy.name,
        "about": f"{policy.about}; {policy.placement}" if queues else policy.about,
        "paper": policy.paper,
        "preemptive": not queues and not {"as recorded", "pairs"} & {*policy.is_},
        "clairvoyant": clairvoyant,
        "clairvoyant_with": clairvoyant_with,
        "order": policy.order if queues else None,
        "placement": policy.placement,
        "queue": policy.queue if queues else None,
        "knows": [feature for feature in FEATURES if feature not in policy.refuses],
        "refuses": policy.refuses,
        "options": [f"--{option}" for option in policy.options],
    }


def installed() -> list[dict[str, Any]]:
    """What the policies in Python say of themselves that this and other installed packages offer by name."""
    from ringbco.run import custom_policy

    return [
        {
            "name": name,
            "about": paper.partition(" (")[0],
            "paper": paper,
            "preemptive": getattr(kind, "preemptive", not issubclass(kind, custom_policy.KeyPolicy)),
            "clairvoyant": kind.clairvoyant,
            "clairvoyant_with": list(kind.clairvoyant_with),
            "order": None,
            "placement": "consolidate",
            "queue": None,
            "knows": [feature for feature in FEATURES if feature not in kind.refuses],
            "refuses": kind.refuses,
            "options": [f"-P {field}" for field in fields],
        }
        for name, kind, fields in custom_policy.installed()
        for paper in [(kind.__doc__ or "").strip().partition("\n")[0]]
    ]


def _show(rows: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ringbco.io.console import Console

    console = Console()
    titles = ("name", "paper", "preemptive", "clairvoyant", "refuses", "options")
    told = []
    for row in rows:
        known = "yes" if row["clairvoyant"] else "no"
        known = ",\n".join([known, *(f"yes {condition}" for condition in row["clairvoyant_with"])])
        preemptive = "yes" if row["preemptive"] else "no"
        refuses, options = ("\n".join(row[name]) for name in ("refuses", "options"))
        told.append((row["name"], row["paper"], preemptive, known, refuses, options))
    if console.width >= _TABLE_WIDTH:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title in titles:
            table.add_column(title, no_wrap=title in ("name", "refuses", "options"))
        for cells in told:
            table.add_row(*cells)
        console.print(table)
    else:
        for name, *rest in told:
            console.print(Text(name, style="bold"))
            for title, cell in zip(titles[1:], rest, strict=True):
                if cell:
                    console.print(f"  {title}: {' '.join(cell.split())}")
    console.print("refuses: jobs, files or options with these; every other policy takes them")
    console.print(
        "clairvoyant: reads how long a job will run before it does; so do --queue easy and conservative, and"
        " --maintenance under an order, unless they go by limits (--estimate limit)"
    )
