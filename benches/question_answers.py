"""Pages of questions: runs their commands, and puts below each what it prints.

    python benches/question_answers.py [PAGE...]

A command stands on the page between two marks. Those of a page run in order in one empty folder, as a shell
does. PAGE is one of PAGES or a copy of it, by default all of them. No command needs a trace, for the first
one makes the jobs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import page_tables

Parts = Sequence[tuple[str, str]]
"""What of an output a page shows: each part begins with the next line that has the first pattern, and ends
before the next one that has the second, or at the end where that is empty."""

_ROWS: Final = (r"^ {3}", r"^\* best|^ratios|^below|^all measures|^[0-9]+ (runs|tables)")
_RUNS: Final = r"^[0-9]+ (runs|tables)"
_MEANS: Final = ("^mean completion time against", _RUNS)
_JAIN: Final = "^Jain's index over users against"
_SIZES: Final = (("^mean completion", "^$"), ("^ GPUs", "^$"))
CUTS: Final[Mapping[str, Mapping[str, Parts]]] = {
    "capacity": {
        "asked": (("^work", "^iterations"),),
        "gpus": (("^ {3}", "^ +22x8"), ("^ +24x8", "^ +25x8"), ("^ +38x8", "^ +40x8"), ("^the smallest", "")),
        "load": (("^the greatest", ""),),
        "more": (_ROWS,),
        "scheduler": (_ROWS,),
        "servers": (_ROWS,),
    },
    "failures": {
        "down": (("share", ""),),
        "save": (_MEANS,),
        "repair": (_MEANS,),
        "recover": (_MEANS,),
        "whose": _SIZES,
        "one": (("Finished", ""),),
    },
    "fairness": {
        "fair": ((_JAIN, _RUNS), ("^ +GPU-", "^ u050"), ("^ [0-9]+ more", "")),
        "fairest": ((_JAIN, _RUNS),),
        "sizes": _SIZES,
        "quotas": (("^ +GPU-", "^ u050"), ("^ [0-9]+ more", "^under")),
        "aging": (("^p99 waiting time against", _RUNS),),
    },
    "network": {
        "sharing": (_ROWS,),
        "whose": (("^ +A +B", "^ median"), ("^ mean completion", "^$"), ("^ GPUs", "^$")),
        "bandwidth": (_ROWS,),
        "placement": (_MEANS,),
        "span": (_ROWS,),
    },
    "publishing": {
        "best": (_ROWS, _MEANS, ("^clairvoyant", "")),
        "table": (("^% made", "^p90 completion"), ("^.end.tabular", "")),
        "figures": (("^charts-mean", "who-owners"),),
        "window": (_ROWS,),
        "audit": (("^ check", "^ inputs"), ("checks passed", "")),
    },
    "why": {"contention": (("^ *[+]9.7 d", ""),)},
}
"""By page and mark. What is not here is shown whole."""
DOCS: Final = Path(__file__).parents[1] / "docs"
PAGES: Final = tuple(DOCS / f"{name}.md" for name in CUTS)


def command(shown: str) -> str:
    """The command of what stands between two marks."""
    return shown.removeprefix("```\n").partition("\n```")[0]


def cut(text: str, parts: Parts) -> str:
    """The parts of a text, `...` for what is between them. ValueError where a part is not there."""
    lines = [line.rstrip() for line in text.splitlines()]
    kept, at = list[str](), 0
    for first, after in parts or [("", "")]:
        found = [number for number in range(at, len(lines)) if re.search(first, lines[number])]
        if not found:
            raise ValueError(f"no line has {first!r}: {text}")
        begun = found[0]
        if begun > at:
            kept.append("...")
        at = next(
            (n for n in range(begun + 1, len(lines)) if after and re.search(after, lines[n])), len(lines)
        )
        kept += lines[begun:at]
    if at < len(lines):
        kept.append("...")
    # No blank lines at the ends of a part.
    return re.sub(r"\n+\.\.\.(\n+|$)", "\n...\n", "\n".join(kept)).strip("\n")


def answers(page: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """By mark what should stand there: the command, and the shown parts of what it prints in the folder.

    Raises CalledProcessError where a command fails.
    """
    program = Path(sys.executable).parent
    environment = {"PATH": f"{program}:{os.environ['PATH']}", "COLUMNS": "100", "NO_COLOR": "1"}
    for name, shown in page_tables.marked(page.read_text(encoding="utf-8")).items():
        typed = command(shown)
        done = subprocess.run(
            ["sh", "-c", typed],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )
        parts = CUTS[page.stem].get(name, ())
        texts = [typed, *([cut(done.stdout, parts)] if done.stdout else [])]
        yield name, "\n".join(f"```\n{text}\n```" for text in texts)


def main() -> None:
    """Fills the pages."""
    for page in [Path(name) for name in sys.argv[1:]] or PAGES:
        with TemporaryDirectory() as folder:
            made = dict(answers(page, Path(folder)))
        page.write_text(page_tables.filled(page.read_text(encoding="utf-8"), made), encoding="utf-8")


if __name__ == "__main__":
    main()
