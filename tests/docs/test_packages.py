"""Who may import whom, how long a file may be, and what comments may cite."""

from __future__ import annotations

import ast
import math
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

import ringbco

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "python" / "ringbco"
MOST_LINES: Final = 500
SOURCES: Final = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "rust").rglob("*.rs")])
# A document that is not in the repository: no reader can look it up.
OUTSIDE: Final = re.compile(r"\bSPEC(?:'s)? (?:sections?|writes|says)\b")
PAGE: Final = re.compile(r"\bdocs/([\w/-]+\.md)(?:#([\w-]+))?")


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    """The contracts of pyproject.toml in `root`, compared with the package in `root`."""
    code = (
        "import sys; sys.path.insert(0, 'python')\n"
        "from importlinter.cli import lint_imports_command\nlint_imports_command()"
    )
    command = [sys.executable, "-c", code, "--no-cache", "--config", "pyproject.toml"]
    return subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)


def test_imports_go_one_way_and_in_no_circle() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout
    assert "3 kept, 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("io/atomic.py", "from ringbco.trace import ties", "Packages import only what is below them"),
        (
            "trace/schema.py",
            "    from ringbco.trace import jobs",
            "No circle, neither of packages nor of modules",
        ),
        (
            "result/stays.py",
            "if TYPE_CHECKING:\n    from ringbco.result.outcome import Outcome",
            "No circle, neither of packages nor of modules",
        ),
        (
            "checker/work.py",
            "from ringbco.trace import ties",
            "The checker imports only io and errors, also indirectly",
        ),
    ],
)
def test_an_import_that_goes_up_is_found(tmp_path: Path, module: str, line: str, broken: str) -> None:
    """Also one within a function, or for type checkers alone."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(PACKAGE, tmp_path / "python" / "ringbco", ignore=shutil.ignore_patterns("*.so", "data"))
    changed = tmp_path / "python" / "ringbco" / module
    if line.startswith(" "):
        line = f"def later() -> None:\n{line}"
    changed.write_text(f"{changed.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    done = lint(tmp_path)
    assert done.returncode == 1, done.stdout
    assert f"{broken} BROKEN" in done.stdout


def test_no_module_is_called_as_a_public_name_is() -> None:
    """A module that is imported is bound in its package, which would hide the function of that name."""
    modules = {path.stem for path in PACKAGE.iterdir()}
    assert modules & set(ringbco.__all__) == {"errors"}  # the public name is the module itself


@pytest.mark.parametrize("name", ringbco._ABOVE)
def test_what_stands_above_is_found_by_its_name(name: str) -> None:
    module, function = ringbco._ABOVE[name]
    assert callable(getattr(import_module(f"ringbco.{module}"), function))


def importers(root: Path) -> set[str]:
    """The modules that import by name, which no contract of pyproject.toml sees."""
    return {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if getattr(node, "id", getattr(node, "attr", None)) in ("import_module", "__import__")
        or (isinstance(node, ast.ImportFrom) and "import_module" in {alias.name for alias in node.names})
    }


def test_no_circle_hides_behind_a_name(tmp_path: Path) -> None:
    """Only who stands above all that it names imports by name, and who loads the code of others."""
    downwards = {"__init__.py", "cli/__init__.py", "sources/__init__.py"}
    assert importers(PACKAGE) == downwards | {"sweeps/executors.py", "run/custom_policy.py"}
    for number, line in enumerate(
        (
            "from importlib import import_module as load",
            "import importlib; importlib.import_module('a')",
            "__import__('a')",
        )
    ):
        (tmp_path / f"{number}.py").write_text(line, encoding="utf-8")
    assert len(importers(tmp_path)) == 3


@cache
def with_arrays() -> set[str]:
    """What of the engine is given arrays, or gives some: the names of its stub that are called."""
    tree = ast.parse((PACKAGE / "_core.pyi").read_text(encoding="utf-8"))
    told = (ast.FunctionDef, ast.ClassDef)
    made = {node.name: node for node in tree.body if isinstance(node, told) and not node.name.startswith("_")}
    for name, node in list(made.items()):
        if isinstance(node, ast.ClassDef):
            made[name] = next((part for part in node.body if getattr(part, "name", "") == "__new__"), None)
    return {
        name
        for name, node in made.items()
        if isinstance(node, ast.FunctionDef) and re.search(r"NDArray|_Jobs", ast.unparse(node))
    }


def unopened(text: str) -> list[str]:
    """The calls of the engine with arrays that no `open_arrays()` stands before, in the same function."""
    result = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
        opened = min((c.lineno for c in calls if ast.unparse(c.func) == "open_arrays"), default=math.inf)
        result += [
            f"{function.name}: {ast.unparse(call.func)}"
            for call in calls
            if ast.unparse(call.func) in {f"_core.{name}" for name in with_arrays()} and call.lineno < opened
        ]
    return result


def test_who_gives_the_engine_arrays_opens_their_way_first() -> None:
    """A signal while rust-numpy looks for numpy's functions by itself would be a panic."""
    assert with_arrays() >= {"replay", "plan", "bound", "dips", "Prepared", "SpeedTable"}
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    assert sum(text.count("    open_arrays()") for text in texts) >= 8
    assert [call for text in texts for call in unopened(text)] == []
    assert unopened("def f():\n    _core.plan()\n    open_arrays()\n") == ["f: _core.plan"]


def test_no_file_is_longer_than_a_reader_likes() -> None:
    long = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES
    }
    assert len(long) > 150
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES} == {}


def test_comments_cite_pages_of_the_repository() -> None:
    cited, missing = 0, []
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if OUTSIDE.search(text):
            missing.append(f"{path.relative_to(ROOT)}: cites what is not in the repository")
        for page, anchor in PAGE.findall(text):
            cited += 1
            if not has(page, anchor):
                missing.append(f"{path.relative_to(ROOT)}: docs/{page}#{anchor}")
    assert cited > 40
    assert missing == []


def has(page: str, anchor: str) -> bool:
    """Whether docs/ has the page and, where one is named, the heading."""
    path = ROOT / "docs" / page
    if not path.is_file():
        return False
    headings = re.findall(r"^#+ +(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {
        re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower())).strip("-") for heading in headings
    }
    return not anchor or anchor in anchors
