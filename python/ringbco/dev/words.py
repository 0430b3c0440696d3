"""Refuses words that read as foreign, in the docs and in what the program prints.

`python -m ringbco.dev.words`, in the folder of the project, prints each with its place and a better word, and
fails if there is any. It reads README.md, CONTRIBUTING.md, docs/, and the texts and docstrings of
python/ringbco and of rust/.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

WORDS: Final = {
    r"hang(s|ing)? on": "depends on",
    r"(nobody|whoever|whomever)": "no job, no user, each job that",
    r"in the mean\b(?! (time|wait|completion))": "on average",
    r"at hand": "existing, given",
    r"as ever": "as always, or leave it out",
    r"an? (row|line|folder|file|port|column|run|point) an? \w+": "one ... per ...",
    r"of which the truth": "with known ground truth",
    r"in which all features meet": "that combine all features",
    r"(finds|find) fault with": "finds a violation in",
    r"knows? no run times?": "is not told run times",
    r"in an environment of your own": "in your own environment",
    r"settings? of (its|their|one's) own": "its own settings",
    r"works? (a|the|each|every) \w+ out again": "recomputes",
    r"so (many|much) (jobs|GPUs|seconds|servers) as": "as many as",
    r"(whence|thereof|therein|wherein|hereby|heretofore)": "from which, of it, in it",
    r"of late": "recently",
    r"a cleaner would": "rows worth checking",
    r"jobs? who": "jobs that",
    r"(?<!\d)1 GPUs": "1 GPU",
    r"\d+- GPUs": "33+ GPUs",
    r"(?<!--until )(?<![.\d])\d+(\.\d+)?%(?=[\s.,;:)|]|$)": "95 %, with a space",
}
"""By pattern, what to write instead."""
ALLOWED: Final = {
    "docs/architecture.md": "nobody",
    "docs/cli/pack.md": "130%",
    "docs/compare.md": "nobody",
    "docs/published.md": "130%",
    "python/ringbco/cli/pack.py": "130%",
    "rust/record/table.rs": "nobody",
    "python/ringbco/result/owners.py": "nobody",
    "python/ringbco/result/servers.py": "nobody",
}
"""By file, a word that may stand there: a value of an option or of a column."""
_PATTERNS: Final = {
    re.compile(pattern if "\\d" in pattern else rf"\b({pattern})\b", re.IGNORECASE): better
    for pattern, better in WORDS.items()
}
_RUST_TEXT: Final = re.compile(r'^(?!\s*//).*?"((?:[^"\\]|\\.)+)"')
_PAGES: Final = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "python/ringbco/reports/page/*.js")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The lines, with their numbers, in which a file speaks to its users."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for number, line in enumerate(node.value.split("\n")):
                    yield node.lineno + number, line
        return
    if path.suffix == ".rs":
        source = source.partition("#[cfg(test)]")[0]
    for number, line in enumerate(source.split("\n"), start=1):
        if path.suffix != ".rs":
            yield number, line
        elif found := _RUST_TEXT.match(line):
            yield number, found[1]


def found(path: Path, name: str) -> Iterator[str]:
    """Of each such word in a file: its place, the word, and what to write instead."""
    for number, line in texts(path):
        for pattern, better in _PATTERNS.items():
            if (word := pattern.search(line)) and word[0] != ALLOWED.get(name):
                yield f"{name}:{number}: {word[0]!r}: write {better}"


def main() -> int:
    """Prints what is found, and says whether there is any."""
    root = Path()
    paths = [path for pattern in _PAGES for path in sorted(root.glob(pattern))]
    paths += sorted(root.glob("python/ringbco/**/*.py")) + sorted(root.glob("rust/**/*.rs"))
    lines = [
        line
        for path in paths
        if path.name != "words.py" and "tests" not in path.parts
        for line in found(path, path.as_posix())
    ]
    print("\n".join(lines) or "no foreign words")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
