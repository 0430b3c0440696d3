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
REQUESTS: Final = "arrival,input_tokens,output_tokens\n" + "".join(f"{at},500,200\n" for at in range(3600))
SWEEP: Final = """[base]
trace = "jobs.csv"
cluster = "4x8"
[grid]
policy = ["fifo", "sjf"]
"""
VERBS: Final = {
    "convert": "convert csv jobs.csv -o converted.parquet",
    "generate": "generate --preset philly --jobs 2000 -o generated.parquet",
    "outages": "outages --cluster 4x8 --mtbf 1d --mttr 1h --days 7 -o outages.csv",
    "services": "services requests.csv --gpus-per-replica 4 --tokens-per-gpu 500 -o services.csv",
    "inspect": "inspect jobs.csv --json",
    "profile": "profile jobs.csv -o profiled.parquet",
    "replay": "replay jobs.csv --cluster 4x8 -o fifo --policy fifo",
    "replay, gavel": "replay jobs.csv --cluster 4x8 -o gavel --policy gavel",
    "plan": "plan jobs.csv --cluster 4x8 -o plan",
    "pack": "pack jobs.csv --cluster 4x8",
    "bound": "bound jobs.csv --cluster 4x8",
    "compare": "compare jobs.csv --cluster 4x8 --policy fifo --policy sjf -o cmp",
    "diff": "diff fifo gavel",
    "why": "why fifo 7",
    "sweep": "sweep sweep.toml -o sweep",
    "report": "report fifo -o page.html",
    "report, with charts": "report fifo -o drawn.html --figures svg",
    "play": "play fifo -o play.html",
    "timeline": "timeline fifo -o timeline.json",
    "policies": "policies",
    "audit": "audit fifo",
    "bench": "bench --jobs 2000",
    "demo": "demo -o demo",
}


UNFORCED: Final = ("inspect", "audit", "why", "diff", "policies", "bound", "sweep", "pack", "bench")
"""They have no --force."""


def runs(folder: Path, command: str, limit: float) -> bool:
    """Whether the verb ends well under the limit."""
    size = int(limit * 1e9)
    if command.split(maxsplit=1)[0] not in UNFORCED:
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
        for file, text in {"jobs.csv": JOBS, "requests.csv": REQUESTS, "sweep.toml": SWEEP}.items():
            (folder / file).write_text(text, encoding="utf-8")
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
