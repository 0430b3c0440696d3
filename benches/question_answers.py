"""The answers of docs/answers.md: the commands, and what they print.

    python benches/question_answers.py [PAGE]

runs them in order in one empty folder, as a shell does, and puts both between the marks of PAGE (default
docs/answers.md). They need no trace, for the first one makes the jobs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import page_tables

PAGE: Final = Path(__file__).parents[1] / "docs" / "answers.md"
_FEW: Final = (" on 32x8", "mean waiting time")
"""A comparison's table and what stands below it, differences up to those of the mean completion time."""


class Answer(NamedTuple):
    """A command as a shell takes it, and the parts of its output that the page shows; without parts all.

    A part is two patterns: it begins with the next line that has the first, and ends before the next one that
    has the second, or at the end where that is empty.
    """

    command: str
    parts: Sequence[tuple[str, str]] = ()


ANSWERS: Final = {
    "jobs": Answer("ringbco generate --preset helios --jobs 5000 --gpus 256 --load 0.7 -o jobs.parquet -q"),
    "best": Answer(
        """\
ringbco compare jobs.parquet --cluster 32x8 --policy srtf --policy repack --policy gittins \\
    --policy sjf --policy tiresias --policy fifo --seeds 20 --sort mean_jct -o six""",
        (_FEW, ("^clairvoyant", "")),
    ),
    "gpus": Answer(
        """\
printf '[base]\\ntrace = "jobs.parquet"\\npolicy = "gittins"\\n' > gpus.toml &&
ringbco sweep gpus.toml --seeds 20 --measure p90_wait --target 10min --bisect cluster=16x8..64x8 -o gpus"""
    ),
    "failures": Answer(
        """\
ringbco compare jobs.parquet --cluster 32x8 --outages draw:mtbf=10d,mttr=2h --checkpoint-cost 5min \\
    --run "gittins --checkpoint-interval 6h" --run "gittins --checkpoint-interval 1h" \\
    --run "gittins --checkpoint-interval 3h" --run "gittins --checkpoint-interval 12h" \\
    --run "gittins --checkpoint-interval 1d" --run "gittins --checkpoint-interval inf" \\
    --run "gittins --outages none --checkpoint-interval inf" --seeds 20 --sort mean_jct -o failures""",
        (_FEW,),
    ),
    "fair": Answer(
        """\
ringbco compare jobs.parquet --cluster 32x8 --policy fifo --policy srtf --queue easy --by user \\
    --seeds 20 --sort jain_index_users -o fair""",
        (("^srtf's Jain", "^clairvoyant"), ("^ +GPU-$", "^ u050"), ("^ [0-9]+ more", "")),
    ),
    "paper": Answer(
        "ringbco report six -o six.html --table tex -q && cat six-table.tex",
        (("^% made", "^p90 completion"), (r"^.par each seed", "mean waiting time"), (r"^.end.table", "")),
    ),
}


def cut(text: str, parts: Sequence[tuple[str, str]]) -> str:
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


def answer(name: str, folder: Path, answers: Mapping[str, Answer] | None = None) -> str:
    """What stands between the marks of that name: the command and the shown parts of what it prints.

    answers: those of another page.

    The commands before it must have run in the folder. Raises CalledProcessError where it fails.
    """
    command, parts = (answers or ANSWERS)[name]
    program = Path(sys.executable).parent
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": f"{program}:{os.environ['PATH']}", "COLUMNS": "100", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    shown = [command, *([cut(done.stdout, parts)] if done.stdout else [])]
    return "\n".join(f"```\n{text}\n```" for text in shown)


def main() -> None:
    """Fills the page."""
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    with TemporaryDirectory() as folder:
        made = {name: answer(name, Path(folder)) for name in ANSWERS}
    page.write_text(page_tables.filled(page.read_text(encoding="utf-8"), made), encoding="utf-8")


if __name__ == "__main__":
    main()
