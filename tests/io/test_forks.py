"""A process that was forked: what needs polars' threads is refused there, and nothing waits for ever."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

AFTER_WORK = """
import json, os, sys
import ringbco

jobs = ringbco.generate("philly", 60, seed=4, gpus=64, load=1.2)
outcome = ringbco.replay(jobs, "2x8", policy="fifo")
simulation = ringbco.Simulation(jobs, "2x8")
ringbco.write_jobs(jobs, "jobs.parquet")
ringbco.write_jobs(jobs, "jobs.csv")
outcome.write("result")
later = ringbco.replay(jobs, "2x8", policy="sjf")
outages = {"mtbf": "10d", "mttr": "1h", "days": 30}


def finish():
    while simulation.advance():
        simulation.start(simulation.state.waiting)
    return simulation.state.now


CALLS = {
    "replay": lambda: ringbco.replay(jobs, "2x8"),
    "replay of a path": lambda: ringbco.replay("jobs.parquet", "2x8"),
    "replay of a frame": lambda: ringbco.replay(jobs.frame, "2x8"),
    "Simulation": lambda: ringbco.Simulation(jobs, "2x8"),
    "outcome": lambda: (finish(), simulation.outcome()),
    "summary": lambda: later.summary,
    "generate": lambda: ringbco.generate("philly", 60, seed=4),
    "read_jobs": lambda: ringbco.read_jobs("jobs.csv"),
    "from_frame": lambda: ringbco.from_frame(jobs.frame),
    "write_jobs": lambda: ringbco.write_jobs(jobs, "again.csv"),
    "convert": lambda: ringbco.convert("csv", "jobs.csv"),
    "compare": lambda: ringbco.compare(jobs, "2x8", ["fifo", "sjf"]),
    "plan": lambda: ringbco.plan(jobs, "2x8"),
    "bound": lambda: ringbco.bound(jobs, "2x8"),
    "pack": lambda: ringbco.pack(jobs, "2x8"),
    "profile": lambda: ringbco.profile(jobs, "2x8"),
    "inspect": lambda: ringbco.inspect(jobs, "2x8"),
    "audit": lambda: ringbco.audit(outcome, jobs),
    "outages": lambda: ringbco.outages("2x8", **outages),
    "write": lambda: outcome.write("another"),
    "report": lambda: ringbco.report(outcome, "page.html"),
    "report of a folder": lambda: ringbco.report("result", "page.html"),
    "timeline": lambda: ringbco.timeline(outcome, "trace.json"),
    "the engine alone": finish,
}
"""

IN_CHILDREN = """
found = {}
for name, call in CALLS.items():
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        try:
            said = str(call())
        except Exception as error:
            said = type(error).__name__
        os.write(theirs, said.encode())
        os._exit(0)
    os.close(theirs)
    with open(ours) as pipe:
        found[name] = pipe.read()
    os.waitpid(child, 0)
print(json.dumps(found))
"""


def in_children(script: str, folder: str) -> dict[str, str]:
    """What each call comes to in a forked process."""
    command = [sys.executable, "-W", "ignore", "-c", script + IN_CHILDREN]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    document: dict[str, str] = json.loads(done.stdout)
    return document


def test_after_a_replay_a_child_refuses_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    result = in_children(AFTER_WORK, str(tmp_path_factory.mktemp("forks")))
    engine = float(result.pop("the engine alone"))
    assert engine > 0
    assert set(result.values()) == {"ForkedError"}, result


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", "60"),
        ('import polars as pl; pl.DataFrame({"a": [1]}).group_by("a").len()', "ForkedError"),
    ],
)
def test_what_the_parent_did_decides(
    before: str, said: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A parent that only imported takes no threads with it; one that used polars without ringbco does."""
    script = f"""
import json, os, sys
import ringbco.trace.jobs
{before}
CALLS = {{"generate": lambda: ringbco.generate("philly", 60, seed=4).num_jobs}}
"""
    assert in_children(script, str(tmp_path_factory.mktemp("forks")))["generate"] == said
