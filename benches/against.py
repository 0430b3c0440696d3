"""The engine's cost against another commit's, policy by policy: `make bench-against REV=...`.

Each commit is built in a checkout of its own. A round replays the same jobs with one build and then with the
other, each in a process of its own, so that both meet the same machine. Only the thread's CPU time inside the
compiled module counts, or all that of `ringbco.replay` where Python decides. The table has the least of each
over the rounds, and their ratio: noise only adds. `x fifo` is what a job costs now over one of the case fifo.

`make feature-speed REV=...` does so for what costs many times as much as fifo.

With `--audit` it is the CPU time of `ringbco.audit` of the results, as a whole.

With `--instructions`, valgrind counts the instructions of the same calls, once: another count of the same
build is the same within 0.1 %.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
CASES: dict[str, dict[str, Any]] = {
    "fifo": {"policy": "fifo"},
    "fifo, fixed": {"policy": "fifo", "model": "fixed"},
    "sjf": {"policy": "sjf"},
    "sjf-bco": {"policy": "sjf-bco"},
    "sjf-bco, literal": {"policy": "sjf-bco", "variant": "literal"},
    "easy": {"policy": "fifo", "queue": "easy"},
    "easy, sjf": {"policy": "sjf", "queue": "easy"},
    "easy, sjf, aging never acts": {"policy": "sjf", "queue": "easy", "aging": 1e9},
    "qssf": {"policy": "qssf"},
    "qssf, easy": {"policy": "qssf", "queue": "easy"},
    "srtf": {"policy": "srtf"},
    "tiresias": {"policy": "tiresias"},
    "gittins": {"policy": "gittins"},
    "ftf": {"policy": "ftf"},
    "time-slice": {"policy": "time-slice", "quantum": 3600.0},
    "repack": {"policy": "repack"},
    "repack, exact": {"policy": "repack", "predict": "exact"},
    "afs": {"policy": "afs"},
    "tiresias, list": {"policy": "tiresias", "within": "list"},
    "gittins, list": {"policy": "gittins", "within": "list"},
    "fairshare": {"policy": "fifo", "order": "fairshare"},
    "conservative": {"policy": "fifo", "queue": "conservative"},
    "repack, 5,000 at once": {"policy": "repack"},
    "gavel, 2,000 at once": {"policy": "gavel"},
}
SLOW = (
    *("fifo", "tiresias, list", "gittins, list", "fairshare", "conservative", "afs"),
    *("repack, 5,000 at once", "gavel, 2,000 at once"),
)
"""What costs many times as much as fifo, and fifo."""


class Made(NamedTuple):
    """The jobs of a case, and their cluster."""

    most: int | None = None
    servers: int = 256
    at_once: bool = False
    """All are submitted at one instant."""
    elastic: str | None = None


MADE: dict[str, Made] = {
    "repack": Made(1_500, servers=16),
    "repack, exact": Made(1_500, servers=16),
    "afs": Made(elastic="0.5:2"),
    "conservative": Made(100_000),
    "repack, 5,000 at once": Made(5_000, at_once=True),
    "gavel, 2,000 at once": Made(2_000, at_once=True),
}
"""Cases of other jobs than `Made()`."""
WHOLE = {"gavel, 2,000 at once"}
"""Cases decided in Python: all of `ringbco.replay` counts."""


def replayed(name: str, jobs: int) -> int:
    """Jobs of a case where a case has so many."""
    return min(jobs, MADE.get(name, Made()).most or jobs)


# A function of libc that nothing else calls. Valgrind writes and resets its counts whenever it is entered.
MARK = "getloadavg"


def measure(jobs: int, seed: int, names: list[str], *, audit: bool) -> None:
    """Prints the CPU seconds of each case in this process, as JSON. Marks each call of the engine.

    audit: of the audit, in place of the engine.
    """
    import time

    import polars as pl

    import ringbco
    from ringbco import _core
    from ringbco.trace.jobs import from_frame

    spent = 0.0
    engine = _core.replay

    def timed(call: Callable[..., Any], clock: Callable[[], float]) -> Callable[..., Any]:
        def marked(*args: Any, **kwargs: Any) -> Any:
            nonlocal spent
            os.getloadavg()
            began = clock()
            try:
                return call(*args, **kwargs)
            finally:
                spent += clock() - began
                os.getloadavg()

        return marked

    result = {}
    for name in names:
        made = MADE.get(name, Made())
        elastic: dict[str, Any] = {"elastic": made.elastic, "elastic_share": 1.0} if made.elastic else {}
        gpus = 8 * made.servers
        table = ringbco.generate("philly", replayed(name, jobs), seed, gpus=gpus, load=0.9, **elastic)
        if made.at_once:
            table = from_frame(table.frame.with_columns(submit_time=pl.lit(0.0)))
        _core.replay, replay = timed(engine, time.thread_time), ringbco.replay
        if name in WHOLE:
            _core.replay, replay = engine, timed(replay, time.process_time)
        spent = 0.0
        outcome = replay(table, f"{made.servers}x8", **CASES[name])
        if audit:
            began = time.process_time()
            ringbco.audit(outcome, table)
            spent = time.process_time() - began
        result[name] = spent
    print(json.dumps(result))


def build(revision: str, target: Path) -> Path:
    """A checkout of `revision` with its module built; the folder to import from."""
    commit = subprocess.run(
        ["git", "rev-parse", f"{revision}^{{commit}}"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    checkout = target / commit[:12]
    if not checkout.exists():
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", ROOT, checkout], check=True)
        subprocess.run(["git", "checkout", "--quiet", "--detach", commit], cwd=checkout, check=True)
    return compiled(checkout, checkout / "target")


def compiled(checkout: Path, target: Path) -> Path:
    """Builds the module of a checkout as it is released."""
    subprocess.run(
        ["cargo", "build", "--quiet", "--release", "--locked", "--features", "python"],
        cwd=checkout, check=True, env=os.environ | {"CARGO_TARGET_DIR": str(target)},
    )  # fmt: skip
    package = target / "python"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(checkout / "python", package)
    shutil.copy(target / "release" / "libringbco.so", package / "ringbco" / "_core.abi3.so")
    return package


def seconds(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """What the measuring process prints: CPU seconds by case."""
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    spent: dict[str, float] = json.loads(said)
    return spent


def instructions(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Instructions by case: between the two marks around each call of the engine."""
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        counting = ["valgrind", "--quiet", "--tool=callgrind", f"--dump-before={MARK}"]
        names = seconds([*counting, f"--callgrind-out-file={counts}", *command], environment)
        parts = [_count(Path(f"{counts}.{2 * number + 2}")) for number in range(len(names))]
    return dict(zip(names, parts, strict=True))


def _count(path: Path) -> float:
    """The instructions that a file of callgrind's counts in all."""
    with path.open(encoding="utf-8") as lines:
        return float(next(line.split()[1] for line in lines if line.startswith(("summary:", "totals:"))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="the commit to compare with")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5, help="of CPU time; instructions are counted once")
    parser.add_argument("--instructions", action="store_true", help="count instructions, by valgrind")
    parser.add_argument("--audit", action="store_true", help="time the audit of the results")
    parser.add_argument(
        "--only", action="append", choices=list(CASES), help="this case alone; may be repeated"
    )
    parser.add_argument("--slow", action="store_true", help="what costs many times as much as fifo, and fifo")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.only or list(SLOW if given.slow else CASES)
    if given.measure:
        measure(given.jobs, 1, names, audit=given.audit)
        return
    if given.audit and given.instructions:
        sys.exit("--audit counts no instructions")
    if given.instructions and shutil.which("valgrind") is None:
        sys.exit("--instructions needs valgrind, which is not installed; without it, CPU time is compared")
    read, rounds, unit, scale = seconds, given.rounds, "us of CPU", 1e6
    if given.instructions:
        read, rounds, unit, scale = instructions, 1, "instructions (valgrind --tool=callgrind)", 1.0
    folder = ROOT / "target" / "against"
    sides = {"then": build(given.revision, folder), "now": compiled(ROOT, ROOT / "target")}
    command = [sys.executable, __file__, given.revision, "--measure", "--jobs", str(given.jobs)]
    command += ["--audit"] * given.audit
    for name in names:
        command += ["--only", name]
    least: dict[str, dict[str, float]] = {name: {} for name in names}
    for _ in range(rounds):
        for side, package in sides.items():
            environment = os.environ | {"PYTHONPATH": str(package), "PYTHONWARNINGS": "ignore"}
            for name, cost in read(command, environment).items():
                least[name][side] = min(cost, least[name].get(side, float("inf")))
    heads = f"{'':30}{'jobs':>9}{'servers':>9}{given.revision[:12]:>14}{'now':>14}{'ratio':>8}"
    print(f"{heads}{'x fifo':>8}   {unit} a job")
    fifo = least.get("fifo", {}).get("now", float("nan")) * scale / given.jobs
    for name, cost in least.items():
        jobs, servers = replayed(name, given.jobs), MADE.get(name, Made()).servers
        then, now = (cost[side] * scale / jobs for side in ("then", "now"))
        print(f"{name:30}{jobs:9,}{servers:9}{then:14.3f}{now:14.3f}{now / then:8.3f}{now / fifo:8.2f}")


if __name__ == "__main__":
    main()
