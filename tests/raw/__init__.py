"""Files in the raw formats of public traces, made from a seed, with every defect that is known to occur.

A generator knows what it planted: beside the files it gives the jobs that must come out and how many rows
must be dropped, changed or noted for which reason. It shares no code with the converters.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

Job = dict[str, Any]


@dataclass
class Raw:
    """A generated trace and what its conversion must give. `jobs` are in order of submission."""

    files: dict[str, str]
    rows_read: int
    jobs: list[Job]
    dropped: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)

    def write(self, folder: Path) -> list[Path]:
        """The files, written into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, text in self.files.items():
            path = folder / name
            path.write_bytes(text.encode())
            paths.append(path)
        return paths


Defect = Callable[[dict[str, Any]], None]


def plan(rng: random.Random, good: int, defects: Sequence[str], each: int = 2) -> list[str]:
    """`good` times "" and `each` of every defect, shuffled."""
    kinds = [""] * good + [defect for defect in defects for _ in range(each)]
    rng.shuffle(kinds)
    return kinds


def clock(start: str, seconds: float) -> str:
    """`start` (YYYY-MM-DD HH:MM:SS) plus whole seconds, in the same form."""
    time = datetime.strptime(start, "%Y-%m-%d %H:%M:%S") + timedelta(seconds=seconds)
    return time.strftime("%Y-%m-%d %H:%M:%S")


def csv_text(columns: Sequence[str], rows: Sequence[dict[str, Any]], *, header: bool = True) -> str:
    """Rows as CSV; None is an empty cell."""
    lines = [",".join(columns)] if header else []
    lines += [",".join("" if row[c] is None else str(row[c]) for c in columns) for row in rows]
    return "\n".join(lines) + "\n"


def in_order(jobs: list[Job], epoch: float | None = None) -> list[Job]:
    """By submission, ties as they are; times counted from `epoch` or else from the first submission."""
    jobs = sorted(jobs, key=lambda job: job["submit_time"])
    zero = epoch if epoch is not None else min((job["submit_time"] for job in jobs), default=0)
    times = ("submit_time", "recorded_start", "recorded_end")
    return [{**job, **{t: float(job[t] - zero) for t in times if job.get(t) is not None}} for job in jobs]
