"""The help of the commands with most options: the common ones. `--help-all` shows all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_WIDEST: Final = 24
_CLUSTER: Final = "S servers of G GPUs such as 32x8, a cluster file, or a preset."
_NETWORK: Final = {
    "--model": "rar: rings contend for links; fixed: recorded run times; table: measured speeds.",
    "--inter-bandwidth": "Bandwidth between servers.",
}
_COMMON: Final = {
    "--queue": "Which jobs may pass one that cannot start: strict, skip, easy, conservative.",
    **_NETWORK,
    "--outages": "Servers that fail: a file, or draw:mtbf=42d,mttr=2h.",
    "--seed": "Seed of models drawn for jobs that name none, and of other random draws.",
}
_CANNOT_FIT: Final = "What to do with jobs too large for the cluster."
_UNITS: Final = {"--units": "Units of printed times."}
_JSON: Final = {"--json": "Print JSON and nothing else."}
_LAST: Final = {
    **_UNITS,
    "--force": "Replace an earlier result in DIR.",
    **_JSON,
    "--quiet": "Print nothing but errors.",
}
BRIEF: Final[Mapping[str, Mapping[str, str]]] = {
    "replay": {
        "--cluster": _CLUSTER,
        "--policy": "Which job goes first, and where. `ringbco policies` lists them. Or file.py:Class.",
        "--out": "The result folder to make.",
        **_COMMON,
        "--vc": "Virtual clusters: each on its own, or all servers in one pool.",
        "--oversize": _CANNOT_FIT,
        "--again": "Repeat the result in DIR, and report whether its bytes agree.",
        **_LAST,
    },
    "compare": {
        "--cluster": _CLUSTER,
        "--policy": "Repeatable, at least two. The others are compared with the first.",
        "--run": 'A policy with its own settings: "fifo --queue easy". Repeatable.',
        "--result": "An existing result folder to compare with. Repeatable.",
        "--out": "The folder to make. Required.",
        "--seeds": "Repeat each replay with slightly moved submissions, to tell differences from chance.",
        "--sort": "Sort by this measure, best first, such as p99_wait.",
        "--by": "Also print the figures of each owner, by user, vc or another column. Repeatable.",
        "--all": "Print all measures, not only the five main ones.",
        **_COMMON,
        **_LAST,
    },
    "bound": {
        "--cluster": _CLUSTER,
        "--recorded-cluster": "The cluster on which JOBS was recorded.",
        **_NETWORK,
        "--vc": "Virtual clusters: each on its own, or all servers in one pool.",
        "--oversize": _CANNOT_FIT,
        **_UNITS,
        **_JSON,
    },
}
"""By command and option, in the order of the help."""


def write(command: Any, ctx: Any, formatter: Any) -> None:
    """Writes the first paragraph of the help, some options, what others there are, and the example."""
    told = BRIEF[command.name]
    options = {name: option for option in command.params for name in option.opts}
    paragraphs = (command.help or "").split("\n\n")
    command.format_usage(ctx, formatter)
    formatter.write_paragraph()
    formatter.write_text(paragraphs[0])
    formatter.write_paragraph()
    rows = [(_named(options[name]), text + _default(options[name])) for name, text in told.items()]
    formatter.write_dl([("JOBS", "The job table, Parquet or CSV."), *rows], col_max=_WIDEST)
    shown = {options[name].name for name in told}
    others = [one for one in command.params if one.param_type_name == "option" and one.name not in shown]
    panels = dict.fromkeys(one.rich_help_panel.split(" (")[0] for one in others if one.rich_help_panel)
    formatter.write_paragraph()
    formatter.write_text(f"--help-all also shows the {len(others)} other options: {', '.join(panels)}.")
    formatter.write_paragraph()
    formatter.write_text(paragraphs[-1])


def _default(option: Any) -> str:
    known = isinstance(option.default, str | int) and not option.is_flag
    return f" Default: {option.default}." if known else ""


def _named(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=lambda name: not name.startswith("--")))
    return names if option.is_flag else f"{names} {option.metavar or 'N'}"
