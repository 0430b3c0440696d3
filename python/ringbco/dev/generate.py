"""Writes what is made of the engine's tables (options, policies, job columns) and of the figures.

`python -m ringbco.dev.generate`, in the folder of the project, writes python/ringbco/run/option_types.pyi,
docs/cli/*.md and, in other pages and the stub, what stands between `<!-- made: NAME -->` and `<!-- end -->`.
With --check it writes nothing, and fails if anything is not current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Final

from ringbco import _core
from ringbco.cli.policies import installed, registered
from ringbco.dev import cli_docs
from ringbco.result.figures import FIGURES, Figure
from ringbco.result.tables import TABLES
from ringbco.run.option import Option
from ringbco.run.registry import BUILT_IN, PLAN, PRESETS, REPLAY
from ringbco.trace.quotas import BOOKS
from ringbco.units import plain

OPTION_TYPES: Final = Path("python/ringbco/run/option_types.pyi")
REFERENCE: Final = Path("docs/cli")
PAGES: Final = tuple(
    Path("docs", f"{name}.md") for name in ("policies", "results", "results-reference", "job-table")
)
STUB: Final = Path("python/ringbco/_core.pyi")
_MADE: Final = re.compile(r"(<!-- made: ([a-z. ]+) -->)(.*?)(<!-- end -->)", re.DOTALL)
_TYPED: Final = '''\
"""The options of `ringbco.replay` and `ringbco.plan`, for type checkers: no module has this name.

Made by `python -m ringbco.dev.generate` of rust/options/table.rs: change that.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict
'''
_WIDTH: Final = 100
_TYPES: Final = {
    "flag": "bool",
    "integer": "int",
    "number": "float",
    "numbers": "Sequence[float]",
    "name": "str",
    "ties": "str",
    "search": "str",
    "file": "object",
    "files": "object",
    "moment": "float | str",
}
# The types of columns, as the documentation names them.
_DTYPES: Final = {
    "text": "string",
    "bool": "boolean",
    "u32": "uint32",
    "u64": "uint64",
    "i32": "int32",
    "f64": "float64",
}
# Of what a figure may be.
_SCOPES: Final = ("run", "vc", "class", "type", "tier", "service")


def option_types() -> str:
    """The stub that says of the options of each command what type they have."""
    lines = [_TYPED]
    for name, command, table in (("Options", "replay", REPLAY), ("PlanOptions", "plan", PLAN)):
        lines += [
            f"class {name}(TypedDict, total=False):",
            f'    """The options of `ringbco.{command}`."""',
            "",
        ]
        lines += [_field(option) for option in table.values() if option.name != "policy"]
        lines.append("")
    return "\n".join(lines)


def page(text: str) -> str:
    """A page of the documentation, with what stands between the marks made anew."""

    def made(mark: re.Match[str]) -> str:
        begin, name, _, end = mark.groups()
        return f"{begin}{_BLOCKS[name]()}{end}"

    return _MADE.sub(made, text)


def files() -> Iterator[tuple[Path, str]]:
    """Every file that is made, with what it has to hold."""
    yield OPTION_TYPES, option_types()
    for name, text in cli_docs.pages().items():
        yield REFERENCE / f"{name}.md", text
    for path in (*PAGES, STUB):
        yield path, page(path.read_text(encoding="utf-8"))


def _field(option: Option) -> str:
    """A key of the TypedDict: its type, and its help."""
    kind = _TYPES[option.kind]
    if option.word and kind != "object":
        kind += f' | Literal["{option.word}"]'
    if option.optional:
        kind += " | None"
    told = fill(_help(option), _WIDTH - 4, subsequent_indent="    ")
    end = "\n    " if "\n" in told else ""
    return f'    {option.parameter}: {kind}\n    """{told}{end}"""'


def _help(option: Option) -> str:
    """The help, and what holds where nothing is given."""
    if "Default: " in option.help:
        return option.help
    return f"{option.help} Default: {option.absent or option.word or _shown(option.default)}."


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    return plain(value)


def _in_rows(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of Markdown, as it stands between two marks."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(["", "", *(f"| {' | '.join(map(str, cells))} |" for cells in lines), "", ""])


_PARTS: Final = {"preemption": "policy", "given": "with"}
"""What a row of the table calls a part of the users."""


def _marked(part: str) -> str:
    """What stands before the names of a part."""
    return "--" if part == "given" else ""


def _of_policies() -> str:
    """The options that not every policy uses: who does, their values, their defaults."""
    rows = []
    for option in REPLAY.values():
        parts = dict(option.users)
        if parts and option.exclusive and "clock" not in parts:
            by = "; ".join(
                f"{_PARTS.get(part, part)} {', '.join(f'`{_marked(part)}{name}`' for name in names)}"
                for part, names in parts.items()
            )
            default = option.absent or _shown(option.default)
            expected = "on or off" if option.kind == "flag" else option.expected
            rows.append([*map(cli_docs.plain, (f"`--{option.typed}`", by, expected, default))])
    return _in_rows(("option", "used by", "values", "default"), rows)


def _of_runs() -> str:
    """What [options] of run.toml holds, within a cell."""
    told = []
    for option in REPLAY.values():
        if option.kind in ("file", "files"):  # of which [tables] tells
            continue
        notes = [option.unit] if option.unit else []
        planned = "policy" in dict(option.users)
        if option.absent and not planned and not option.absent.startswith("the policy"):
            notes.append(f"absent = {option.absent}")
        told.append(option.name + (f" ({'; '.join(notes)})" if notes else ""))
    own = [option for name, option in PLAN.items() if name not in REPLAY]
    more = [option.name + (f" ({option.unit})" if option.unit else "") for option in own]
    words = [option.name for option in PLAN.values() if option.word]
    may = f"and {' and '.join(words)} may be auto"
    return f"command, {', '.join(told)}; of `ringbco plan` also {', '.join(more)}, {may}"


def _of_columns() -> str:
    """The columns of the job table."""
    rows = []
    for column in _core.columns():
        kind = _DTYPES[column["dtype"]] + (f", {column['unit']}" if column["unit"] else "")
        rows.append((column["name"], kind, "yes" if column["required"] else "", column["about"]))
    return _in_rows(("column", "type", "required", "rule"), rows)


def _stub() -> str:
    """What the engine takes of a job table, for type checkers."""
    rows = ["", "@type_check_only", "class _JobColumns(TypedDict):"]
    for name, form, kind, _of in _core.job_columns():
        told = kind if form == "group" else f"NDArray[np.{_DTYPES[kind].replace('boolean', 'bool_')}]"
        rows.append(f"    {name}: {told if form == 'all' else f'NotRequired[{told} | None]'}")
    return "\n".join([*rows, "", "# "])


def _of_figures() -> str:
    """Every figure by its key: title, unit, the better end, of what there is one.

    Statistics of one thing that are alike in all else share a row.
    """
    first: dict[str, Figure] = {}
    scopes: dict[str, frozenset[str]] = {}
    for row in FIGURES:
        if row.unit:
            first.setdefault(row.key, row)
            scopes[row.key] = scopes.get(row.key, frozenset()) | row.scopes
    rows: dict[tuple[str, str, str, str], list[Figure]] = {}
    for key, row in first.items():
        of = ", ".join(scope for scope in _SCOPES if scope in scopes[key])
        rows.setdefault((row.spread or key, str(row.unit), row.better, of), []).append(row)
    cells = []
    for (_, unit, better, of), same in rows.items():
        statistics = ", ".join(row.title.partition(" ")[0] for row in same)
        title = same[0].title if len(same) == 1 else f"{statistics} {same[0].title.partition(' ')[2]}"
        cells.append((", ".join(row.key for row in same), title, unit, better.replace("neither", ""), of))
    return _in_rows(("key", "title", "unit", "better", "of"), cells)


def _of_tables() -> str:
    """Every table of a result: its file, what a row is, which runs have it."""
    rows = [
        (f"{row.file}, ..." if row.name in BOOKS[1:] else row.file, row.about, row.when or "all")
        for row in TABLES.values()
        if row.name not in BOOKS[2:]
    ]
    return _in_rows(("file", "one row per", "which runs have it"), rows)


def _all_policies() -> str:
    """What each policy says of itself."""
    rows = []
    built_in = [row for row in installed() if row["name"] in BUILT_IN]
    for row in (*map(registered, PRESETS.values()), *built_in):
        preemptive, clairvoyant = ("yes" if row[name] else "no" for name in ("preemptive", "clairvoyant"))
        known = "; ".join([clairvoyant, *(f"yes {condition}" for condition in row["clairvoyant_with"])])
        paper = row["paper"]
        if paper.startswith(row["about"]):  # in Python both are of the class's first line
            paper = paper.removeprefix(row["about"]).strip(" ().")
        cells = (row["about"], preemptive, known, ", ".join(row["refuses"]), paper)
        rows.append((f"`{row['name']}`", *map(cli_docs.plain, cells)))
    return _in_rows(("policy", "decides by", "preemptive", "clairvoyant", "refuses", "paper"), rows)


_BLOCKS: Final[Mapping[str, Callable[[], str]]] = {
    "policies": _all_policies,
    "options of policies": _of_policies,
    "options in run.toml": _of_runs,
    "job columns": _of_columns,
    "stub of job columns": _stub,
    "figures": _of_figures,
    "tables of results": _of_tables,
}


def main(arguments: Sequence[str]) -> int:
    """Writes what is not current or, with --check, names it; the exit status is then 1."""
    check = list(arguments) == ["--check"]
    if arguments and not check:
        print("usage: python -m ringbco.dev.generate [--check]", file=sys.stderr)
        return 2
    stale = 0
    for path, text in files():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if check:
            print(f"{path} is not current; run: python -m ringbco.dev.generate", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(path)
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
