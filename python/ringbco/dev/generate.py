"""Writes what is made of the engine's tables (options, policies, job columns) and of the figures.

`python -m ringbco.dev.generate`, in the folder of the project, writes python/ringbco/run/*_generated.py,
docs/cli/*.md and, in other pages and the stub, what stands between `<!-- made: NAME -->` and `<!-- end -->`.
With --check it writes nothing, and fails if anything is not current.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill, wrap
from typing import Any, Final

from ringbco import _core
from ringbco.result.figures import FIGURES, Figure
from ringbco.result.tables import TABLES
from ringbco.run.option import Option, Preset
from ringbco.run.own import BUILT_IN
from ringbco.trace.column import Column

FOLDER: Final = Path("python/ringbco/run")
REFERENCE: Final = Path("docs/cli")
PAGES: Final = tuple(Path("docs", f"{name}.md") for name in ("policies", "sweeps", "results", "job-table"))
STUB: Final = Path("python/ringbco/_core.pyi")
SCHEMA: Final = Path("python/ringbco/trace/columns_generated.py")
_MADE: Final = re.compile(r"(<!-- made: ([a-z. ]+) -->)(.*?)(<!-- end -->)", re.DOTALL)
_HEAD: Final = '''\
"""{about}, for Python.

Made by `python -m ringbco.dev.generate` of {source}: change that.
"""

from __future__ import annotations

'''
_OPTIONS: Final = (
    _HEAD
    + '''\
from collections.abc import Sequence
from typing import Final, Literal, TypedDict

from ringbco.run.option import Option


class {name}(TypedDict, total=False):
    """{about}."""

{fields}

{table}: Final[dict[str, Option]] = {{
{rows}
}}
'''
)
_POLICIES: Final = (
    _HEAD
    + """\
from typing import Final

from ringbco.run.option import Preset

PRESETS: Final[dict[str, Preset]] = {{
{presets}
}}

DECIDERS: Final[dict[str, Preset]] = {{
{deciders}
}}

FEATURES: Final[tuple[str, ...]] = {features}

CLAIRVOYANT: Final[dict[str, tuple[str, ...]]] = {{
{clairvoyant}
}}
"""
)
_COLUMNS: Final = (
    _HEAD
    + '''\
from typing import Final

import polars as pl

from ringbco.trace.column import Column

COLUMNS: Final[dict[str, Column]] = {{
{rows}
}}
"""The schema, in canonical order."""
PLAIN: Final[dict[str, str]] = {{
{plain}
}}
"""Columns of which the engine reads `Column.absent` where the table says nothing, by its own names."""
'''
)
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
_POLARS: Final = {
    "text": "String",
    "bool": "Boolean",
    "u32": "UInt32",
    "u64": "UInt64",
    "i32": "Int32",
    "f64": "Float64",
}
# By command: the module, the TypedDict, the table.
_NAMES: Final = {
    "replay": ("options_generated.py", "Options", "REPLAY"),
    "plan": ("plan_options_generated.py", "PlanOptions", "PLAN"),
}
# Of what a figure may be, and where people see it.
_SCOPES: Final = {
    "run": "run",
    "vc": "virtual cluster",
    "class": "size class",
    "type": "GPU type",
    "service": "service",
}
_TOLD: Final = {"headline": "everywhere", "comparison": "replay, compare", "summary": "summary.json"}
# What a sweep keeps nothing of.
_NOT_SWEPT: Final = ("sample", "allocations")

Row = Mapping[str, Any]


def options(command: str) -> str:
    """The module that holds the options of a command."""
    _, name, table = _NAMES[command]
    rows = _table()[command]
    code = _OPTIONS.format(
        about=f"The options of `ringbco.{command}`",
        source="rust/options/table.rs",
        name=name,
        table=table,
        fields="".join(_field(row) for row in rows if row["name"] != "policy"),
        rows="".join(f"{_text(_parameter(row))}: {_option(row)},\n" for row in rows),
    )
    return _formatted(code)


def policies() -> str:
    """The module that holds the policies."""

    def rows(some: Sequence[Preset]) -> str:
        return "".join(f"{_text(policy.name)}: {_made('Preset', policy)},\n" for policy in some)

    presets, deciders, features = _policies()
    code = _POLICIES.format(
        about="The policies of `ringbco replay`, those that have no name, and what reads run times",
        source="rust/policy and rust/policies.rs",
        presets=rows(presets),
        deciders=rows(deciders),
        features=_literal(features),
        clairvoyant="".join(f"{_text(part)}: {_literal(names)},\n" for part, names in _core.clairvoyant()),
    )
    return _formatted(code)


def _policies() -> tuple[list[Preset], list[Preset], list[str]]:
    """The policies that have a name, those that have none, and all that a policy may know."""
    rows = _core.policies()
    features = rows[0]["knows"]  # an order knows everything
    for row in rows:
        knows = row.pop("knows")
        row["refuses"] = [feature for feature in features if feature not in knows]
    told = [Preset(**row) for row in rows]
    named = next(row["names"] for row in _core.options()["replay"] if row["name"] == "policy")
    return told[: len(named)], told[len(named) :], features


def columns() -> str:
    """The module that holds the columns of the job table."""
    usual, rows, plain = Column._field_defaults, [], []
    table: list[Any] = list(_core.columns())
    for row in table:
        told = [f"pl.{_POLARS[row['dtype']]}"]
        told += [_literal(row["required"]), _literal(row["rule"])]
        told.append(_literal(row["hint"].replace("{name}", row["name"])))
        told += [f"{name}={_literal(row[name])}" for name in usual if row[name] != usual[name]]
        rows.append(f"{_text(row['name'])}: Column({', '.join(told)}),\n")
    absent = {row["name"]: row["absent"] for row in table}
    for field, _form, _kind, name in _core.job_columns():
        if absent.get(name) is not None:
            plain.append(f"{_text(field)}: {_text(name)},\n")
    about, source = "The columns of the job table", "rust/trace/columns.rs"
    return _formatted(_COLUMNS.format(about=about, source=source, rows="".join(rows), plain="".join(plain)))


def page(text: str) -> str:
    """A page of the documentation, with what stands between the marks made anew."""

    def made(mark: re.Match[str]) -> str:
        begin, name, _, end = mark.groups()
        return f"{begin}{_BLOCKS[name](_table())}{end}"

    return _MADE.sub(made, text)


def files() -> Iterator[tuple[Path, str]]:
    """Every file that is made, with what it has to hold; the later ones are made of the earlier ones."""
    for command, (name, *_) in _NAMES.items():
        yield FOLDER / name, options(command)
    yield FOLDER / "policies_generated.py", policies()
    yield SCHEMA, columns()
    # In a process of its own, which reads the modules as they are now.
    code = "import json; from ringbco.dev import cli_docs as docs; print(json.dumps(docs.pages()))"
    made = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, encoding="utf-8")
    for name, text in json.loads(made.stdout).items():
        yield REFERENCE / f"{name}.md", text
    for path in (*PAGES, STUB):
        yield path, page(path.read_text(encoding="utf-8"))


def _table() -> dict[str, list[Row]]:
    """The table of options by command, with its help spelt out and names as files have them."""
    parts = (
        f"{policy.name}: "
        + ("preemptive" if policy.preemption != "none" else policy.order)
        + f" + {policy.placement}"
        + (f" + {policy.queue}" if policy.preemption == "none" else "")
        for policy in _policies()[0]
    )
    policies = "; ".join((*parts, f"{', '.join(BUILT_IN)}: by linear or integer programs (extra lp)"))
    return {
        command: [
            {
                **row,
                "name": row["name"].replace("-", "_"),
                "help": row["help"]
                .replace("{names}", ", ".join(row.get("names", ())))
                .replace("{policies}", policies),
            }
            for row in rows
        ]
        for command, rows in _core.options().items()
    }


def _parameter(row: Row) -> str:
    return "lambda_" if row["name"] == "lambda" else str(row["name"])


def _field(row: Row) -> str:
    """A key of the TypedDict: its type, and its help."""
    kind = _TYPES[row["kind"]]
    if row["word"] and kind != "object":
        kind += f" | Literal[{_text(row['word'])}]"
    if row["absent"] is not None:
        kind += " | None"
    told = fill(_told(row), _WIDTH - 4, subsequent_indent="    ")
    end = "\n    " if "\n" in told else ""
    return f'    {_parameter(row)}: {kind}\n    """{told}{end}"""\n'


def _told(row: Row) -> str:
    """The help, and what holds where nothing is given."""
    text = str(row["help"])
    if "Default: " in text:
        return text
    return f"{text} Default: {row['absent'] or row['word'] or _shown(row['default'])}."


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _option(row: Row) -> str:
    values = {
        "name": row["name"],
        "kind": row["kind"],
        "default": row["default"],
        "help": row["help"],
        "panel": row["panel"],
        "expected": "" if row["kind"] == "name" else row["expected"],
        "least": row.get("least", 0),
        "above": row.get("above", False),
        "most": row.get("most", math.inf),
        "endless": row.get("endless", False),
        "names": row.get("names", []),
        "optional": row["absent"] is not None,
        "absent": row["absent"] or "",
        **{name: row[name] for name in ("word", "unit", "users", "policies", "exclusive", "demand", "form")},
    }
    return _made("Option", Option(**values))


def _made(kind: str, row: Option | Preset) -> str:
    """The call that makes a row, without what is usual."""
    usual = row._field_defaults
    told = [
        f"{name}={_literal(value)}"
        for name, value in row._asdict().items()
        if name not in usual or (tuple(value) if isinstance(value, list) else value) != usual[name]
    ]
    return f"{kind}({', '.join(told)})"


def _literal(value: object) -> str:
    if isinstance(value, str) and len(value) > _WIDTH - 20:
        lines = wrap(value, _WIDTH - 20, break_on_hyphens=False)
        return f"({' '.join(_text(f'{line} ') for line in lines[:-1])} {_text(lines[-1])})"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    if value == math.inf:
        return 'float("inf")'
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _formatted(code: str) -> str:
    """The code without imports that it does not use, as ruff lays it out."""
    for words in (("check", "--fix-only", "--select", "F401"), ("format",)):
        command = [sys.executable, "-m", "ruff", *words, "--quiet", "-"]
        done = subprocess.run(command, input=code, check=True, capture_output=True, encoding="utf-8")
        code = done.stdout
    return code


def _in_rows(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of Markdown, as it stands between two marks."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(["", "", *(f"| {' | '.join(map(str, cells))} |" for cells in lines), "", ""])


def _of_policies(table: Mapping[str, Sequence[Row]]) -> str:
    """The options that not every policy uses: who does, their values, their defaults."""
    rows = []
    for row in table["replay"]:
        parts = dict(row["users"])
        if parts and row["exclusive"] and "clock" not in parts:
            by = "; ".join(
                f"{'policy' if part == 'preemption' else part} {', '.join(f'`{name}`' for name in names)}"
                for part, names in parts.items()
            )
            default = row["absent"] or _shown(row["default"])
            expected = "on or off" if row["kind"] == "flag" else row["expected"]
            cells = (f"`--{row['name'].replace('_', '-')}`", by, expected, default)
            rows.append([*map(_cell, cells)])
    return _in_rows(("option", "used by", "values", "default"), rows)


def _of_sweeps(table: Mapping[str, Sequence[Row]]) -> str:
    """The settings of a sweep that are options of the command."""
    rows = [(row["name"], _cell(_told(row))) for row in table["replay"] if row["name"] not in _NOT_SWEPT]
    return _in_rows(("key", "meaning"), rows)


def _of_runs(table: Mapping[str, Sequence[Row]]) -> str:
    """What [options] of run.toml holds, within a cell."""
    told = []
    for row in table["replay"]:
        if row["kind"] == "file":  # of which [tables] tells
            continue
        notes = [row["unit"]] if row["unit"] else []
        planned = "policy" in dict(row["users"])
        if row["absent"] and not planned and not row["absent"].startswith("the policy"):
            notes.append(f"absent = {row['absent']}")
        told.append(row["name"] + (f" ({'; '.join(notes)})" if notes else ""))
    known = {row["name"] for row in table["replay"]}
    more = [
        row["name"] + (f" ({row['unit']})" if row["unit"] else "")
        for row in table["plan"]
        if row["name"] not in known
    ]
    words = [row["name"] for row in table["plan"] if row["word"]]
    may = f"and {' and '.join(words)} may be auto"
    return f"command, {', '.join(told)}; of `ringbco plan` also {', '.join(more)}, {may}"


def _of_columns(_: Mapping[str, Sequence[Row]]) -> str:
    """The columns of the job table."""
    rows = []
    for column in _core.columns():
        kind = _DTYPES[column["dtype"]] + (f", {column['unit']}" if column["unit"] else "")
        rows.append((column["name"], kind, "yes" if column["required"] else "", column["about"]))
    return _in_rows(("column", "type", "required", "rule"), rows)


def _stub(_: Mapping[str, Sequence[Row]]) -> str:
    """What the engine takes of a job table, for type checkers."""
    rows = ["", "@type_check_only", "class _JobColumns(TypedDict):"]
    for name, form, kind, _of in _core.job_columns():
        told = kind if form == "group" else f"NDArray[np.{_DTYPES[kind].replace('boolean', 'bool_')}]"
        rows.append(f"    {name}: {told if form == 'all' else f'NotRequired[{told} | None]'}")
    return "\n".join([*rows, "", "# "])


def _of_figures(_: Mapping[str, Sequence[Row]]) -> str:
    """Every figure by its key: what it is called, how it is told, and of what there is one."""
    rows = []
    told: dict[str, list[Figure]] = {}
    for row in FIGURES:
        if row.unit:
            told.setdefault(row.key, []).append(row)
    for key, same in told.items():
        scopes = frozenset().union(*(row.scopes for row in same))
        of = ", ".join(name for scope, name in _SCOPES.items() if scope in scopes)
        rows.append((key, same[0].title, same[0].unit, same[0].better, of, _TOLD[same[0].told]))
    return _in_rows(("key", "title", "unit", "better", "of", "told"), rows)


def _of_tables(_: Mapping[str, Sequence[Row]]) -> str:
    """Every table of a result: its file, what a row is, which runs have it."""
    rows = [(row.file, row.about, row.when or "all", ", ".join(row.nulls)) for row in TABLES.values()]
    return _in_rows(("file", "a row", "which runs have it", "may be null"), rows)


def _all_policies(_: Mapping[str, Sequence[Row]]) -> str:
    """What each policy says of itself."""
    from ringbco.cli.policies import installed, registered

    rows = []
    built_in = [row for row in installed() if row["name"] in BUILT_IN]
    for row in (*map(registered, _policies()[0]), *built_in):
        preemptive, clairvoyant = ("yes" if row[name] else "no" for name in ("preemptive", "clairvoyant"))
        known = "; ".join([clairvoyant, *(f"yes {condition}" for condition in row["clairvoyant_with"])])
        paper = row["paper"]
        if paper.startswith(row["about"]):  # in Python both are of the class's first line
            paper = paper.removeprefix(row["about"]).strip(" ().")
        cells = (row["about"], preemptive, known, ", ".join(row["refuses"]), paper)
        rows.append((f"`{row['name']}`", *map(_cell, cells)))
    return _in_rows(("policy", "decides by", "preemptive", "clairvoyant", "refuses", "paper"), rows)


def _cell(text: str) -> str:
    from ringbco.dev.cli_docs import plain

    return plain(text)


_BLOCKS: Final[Mapping[str, Callable[[Mapping[str, Sequence[Row]]], str]]] = {
    "policies": _all_policies,
    "options of policies": _of_policies,
    "options of sweeps": _of_sweeps,
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
