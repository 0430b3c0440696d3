"""The help of the commands with most options: the common ones. `--help-all` shows all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_WIDEST: Final = 24
_CLUSTER: Final = "S servers of G GPUs such as 32x8, a cluster file, or a preset."
_COMMON: Final = {
    "--queue": "What those behind a job that finds no room may do.",
    "--model": "rar: rings contend for links; fixed: run times as recorded; table: speeds as measured.",
    "--inter-bandwidth": "Of the links between servers.",
    "--outages": "Servers that fail: a file, or draw:mtbf=42d,mttr=2h.",
    "--seed": "Of models that no job names, and of what is drawn.",
}
_LAST: Final = {
    "--units": "How times are printed.",
    "--force": "Replace an earlier result in DIR.",
    "--json": "Print JSON and nothing else.",
    "--quiet": "Print nothing but errors.",
}
BRIEF: Final[Mapping[str, Mapping[str, str]]] = {
    "replay": {
        "--cluster": _CLUSTER,
        "--policy": "Who goes first, and where. `ringbco policies` lists them; file.py:Class is one's own.",
        "--out": "The result folder to make.",
        **_COMMON,
        "--vc": "Virtual clusters: each on its own, or all servers in one pool.",
        "--oversize": "What becomes of jobs that the cluster can never hold.",
        "--again": "Repeat the result in DIR, and say whether its bytes agree.",
        **_LAST,
    },
    "compare": {
        "--cluster": _CLUSTER,
        "--policy": "Repeatable. The first is what the others are compared with.",
        "--run": 'A policy with settings of its own: "fifo --queue easy". Repeatable.',
        "--result": "A result at hand to put beside them. Repeatable.",
        "--out": "The folder to make.",
        "--seeds": "Runs of each replay, by which differences are told from chance.",
        "--sort": "Best first by this measure, such as p99_wait.",
        "--by": "Print the figures of each user or virtual cluster too.",
        "--all": "Print all measures, not five.",
        **_COMMON,
        **_LAST,
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
    formatter.write_text(f"--help-all tells the {len(others)} other options, too: {', '.join(panels)}.")
    formatter.write_paragraph()
    formatter.write_text(paragraphs[-1])


def _default(option: Any) -> str:
    known = isinstance(option.default, str | int) and not option.is_flag
    return f" Default: {option.default}." if known else ""


def _named(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=lambda name: not name.startswith("--")))
    return names if option.is_flag else f"{names} {option.metavar or 'N'}"
