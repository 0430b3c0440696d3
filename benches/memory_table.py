"""The least `ulimit -v` under which each verb does its work: a table of docs/reliability.md."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from page_tables import filled

LIMITS: Final = (1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0, 70.0, 80.0, 128.0)
"""Gigabytes of addresses."""
JOBS: Final = "job_id,submit_time,num_gpus,duration\n" + "".join(
    f"{job},{60 * job},{1 + job % 8},{600 + job}\n" for job in range(200)
)
VERBS: Final = {
    "inspect": "inspect jobs.csv --json",
    "convert": "convert csv jobs.csv -o converted.parquet",
    "replay": "replay jobs.csv --cluster 4x8 -o fifo --policy fifo",
    "replay, gavel": "replay jobs.csv --cluster 4x8 -o gavel --policy gavel",
    "plan": "plan jobs.csv --cluster 4x8 -o plan",
    "audit": "audit fifo",
    "why": "why fifo 7",
    "compare": "compare jobs.csv --cluster 4x8 --policy fifo --policy sjf -o cmp",
    "report": "report fifo -o page.html",
    "report, with charts": "report fifo -o drawn.html --figures svg",
}


def runs(folder: Path, command: str, limit: float) -> bool:
    """Whether the verb ends well under the limit."""
    size = int(limit * 1e9)
    if command.split(maxsplit=1)[0] not in ("inspect", "audit", "why"):
        command += " --force"
    done = subprocess.run(
        [sys.executable, "-m", "ringbco", *command.split()],
        cwd=folder,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def table() -> str:
    """A row a verb."""
    lines = ["| verb | least `ulimit -v` |", "| --- | --- |"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "jobs.csv").write_text(JOBS, encoding="utf-8")
        for verb, command in VERBS.items():
            limit = next(limit for limit in LIMITS if runs(folder, command, limit))
            lines.append(f"| {verb} | {limit:g} GB |")
            print(lines[-1], flush=True)
    return "\n".join(lines)


def main(page: Path) -> None:
    """Writes the table into the page."""
    text = page.read_text(encoding="utf-8")
    page.write_text(filled(text, {"least limits": table()}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
