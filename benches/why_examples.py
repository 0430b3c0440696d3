"""The examples of docs/why.md: the commands, and what they print.

    python benches/why_examples.py [PAGE]

runs them in order in one empty folder, as a shell does, and puts both between the marks of PAGE (default
docs/why.md). They need no trace, for the first one makes the jobs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import page_tables
from question_answers import Answer, answer

PAGE: Final = Path(__file__).parents[1] / "docs" / "why.md"
EXAMPLES: Final = {
    "runs": Answer(
        """\
ringbco generate --preset helios --jobs 2000 --gpus 128 --seed 1 -q -o jobs.parquet
ringbco replay jobs.parquet --cluster 16x8 --policy fifo -q -o fifo
ringbco replay jobs.parquet --cluster 16x8 --policy sjf-bco -q -o sjf-bco
ringbco replay jobs.parquet --cluster 16x8 --policy srtf --outages draw:mtbf=10d,mttr=2h -q -o srtf"""
    ),
    "fifo": Answer("ringbco why fifo helios-1560"),
    "contention": Answer("ringbco why sjf-bco helios-1173", (("^ *[+]9.7 d", ""),)),
    "srtf": Answer("ringbco why srtf helios-448"),
}


def main() -> None:
    """Fills the page."""
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    with TemporaryDirectory() as folder:
        made = {name: answer(name, Path(folder), EXAMPLES) for name in EXAMPLES}
    page.write_text(page_tables.filled(page.read_text(encoding="utf-8"), made), encoding="utf-8")


if __name__ == "__main__":
    main()
