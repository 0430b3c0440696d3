"""What a solver prints from C is no part of the output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ringbco

pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")

LOUD = """
import ctypes, os, sys
import highspy

libc = ctypes.CDLL(None)


class Loud(highspy.Highs):
    def __init__(self):
        os.write(1, b"Running a solver at once\\n")
        libc.printf(b"Running a solver, and C holds it back\\n")
        super().__init__()

    def run(self):
        libc.puts(b"solved")
        return super().run()


highspy.Highs = Loud
from ringbco.shell import main

sys.argv = ["ringbco", *sys.argv[1:]]
sys.exit(main())
"""


@pytest.mark.parametrize("policy", ["gavel", "allox", "sia"])
def test_json_is_json_whatever_a_solver_prints(policy: str, tmp_path: Path) -> None:
    ringbco.write_jobs(ringbco.generate("philly", 30, seed=4, gpus=64, load=1.2), tmp_path / "jobs.csv")
    options = ["--cluster", "2x8", "--policy", policy, "--json", "-o", str(tmp_path / "r")]
    command = [sys.executable, "-c", LOUD, "replay", str(tmp_path / "jobs.csv"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["policy"] == policy


THREADS = """
import os, sys, threading
from ringbco.io.silence import unprinted

def solve(turn):
    for _ in range(200):
        with unprinted():
            os.write(1, b"noise")

threads = [threading.Thread(target=solve, args=(turn,)) for turn in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("heard", flush=True)
"""


def test_solvers_in_several_threads_leave_the_output_open() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    assert done.stdout == "heard\n"


CLOSED = """
import os, sys
from ringbco.io.silence import unprinted

os.close(1)
with unprinted():
    pass
try:
    os.fstat(1)
except OSError:
    sys.exit(7)
"""


def test_a_closed_output_stays_closed() -> None:
    assert subprocess.run([sys.executable, "-c", CLOSED], check=False).returncode == 7
