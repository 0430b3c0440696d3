"""The engine's cost against another commit's, policy by policy: `make bench-against REV=...`.

Each commit is built in a checkout of its own. A round replays the same jobs with one build and then with the
other, each in a process of its own, so that both meet the same machine. Only the thread's CPU time inside the
compiled module counts. The table has the least of each over the rounds, and their ratio: noise only adds.

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
from pathlib import Path
from typing import Any

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
}
SERVERS = 256
DEAR = {"repack", "repack, exact", "afs"}
"""Cases of no more than `FEW` jobs, on `FEW_SERVERS` servers."""
FEW, FEW_SERVERS = 1_500, 16
ELASTIC: dict[str, dict[str, Any]] = {"afs": {"elastic": "0.5:2", "elastic_share": 1.0}}
"""What jobs of a case are that others lack."""


def replayed(name: str, jobs: int) -> int:
    """Jobs of a case where a case has so many."""
    return min(jobs, FEW) if name in DEAR else jobs


# A function of libc that nothing else calls. Valgrind writes and resets its counts whenever it is entered.
MARK = "getloadavg"


def measure(jobs: int, seed: int, names: list[str], *, audit: bool) -> None:
    """Prints the CPU seconds of each case in this process, as JSON. Marks each call of the engine.

    audit: of the audit, in place of the engine.
    """
    import time

    import ringbco
    from ringbco import _core

    spent = 0.0
    replay = _core.replay

    def timed(*args: Any, **kwargs: Any) -> Any:
        nonlocal spent
        os.getloadavg()
        began = time.thread_time()
        try:
            return replay(*args, **kwargs)
        finally:
            spent += time.thread_time() - began
            os.getloadavg()

    _core.replay = timed
    result = {}
    for name in names:
        servers = FEW_SERVERS if name in DEAR else SERVERS
        gpus, elastic = 8 * servers, ELASTIC.get(name, {})
        table = ringbco.generate("philly", replayed(name, jobs), seed, gpus=gpus, load=0.9, **elastic)
        spent = 0.0
        outcome = ringbco.replay(table, f"{servers}x8", **CASES[name])
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
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.only or list(CASES)
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
    print(f"{'':30}{'jobs':>9}{given.revision[:12]:>14}{'now':>14}{'ratio':>8}   {unit} a job")
    for name, cost in least.items():
        jobs = replayed(name, given.jobs)
        then, now = (cost[side] * scale / jobs for side in ("then", "now"))
        print(f"{name:30}{jobs:9,}{then:14.3f}{now:14.3f}{now / then:8.3f}")


if __name__ == "__main__":
    main()
