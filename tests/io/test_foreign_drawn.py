"""Every verb that writes, where others have put things at random: no byte of theirs is lost."""

from __future__ import annotations

import json
import os
import random
from itertools import count
from pathlib import Path

import pytest
import vl_convert

from conftest import GRID, SMALL_JOBS, Invoke
from core_run import CASES
from folders import State, state
from gavel_files import THROUGHPUTS, TRACE
from raw import helios
from test_foreign_files import NAMES, PNG, plant
from test_foreign_outputs import GAVEL, HELIOS, REQUESTS

ON = ("small.csv", "--cluster", "2x8", "-q")
VERBS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "replay": (("replay", *ON, "-o", "x"), ("x",)),
    "again": (("replay", "--again", "result", "-q", "-o", "x"), ("x",)),
    "plan": (("plan", *ON, "--policy", "ff", "-o", "x"), ("x",)),
    "compare": (("compare", *ON, "--policy", "fifo", "--policy", "sjf", "-o", "x"), ("x",)),
    "sweep": (("sweep", "sweep.toml", "--threads", "1", "-q", "-o", "x"), ("x",)),
    "report": (("report", "result", "-q", "-o", "x.html", "--png", "x"), ("x", "x.html")),
    "timeline": (("timeline", "result", "-q", "-o", "x.json"), ("x.json",)),
    "diff": (("diff", "result", "result", "-q", "-o", "x.html", "--csv", "x.csv"), ("x.html", "x.csv")),
    "inspect": (("inspect", "small.csv", "-q", "--html", "x.html", "--png", "x.png"), ("x.html", "x.png")),
    "generate": (("generate", "--preset", "helios", "--jobs", "9", "-q", "-o", "x.csv"), ("x.csv",)),
    "outages": (
        ("outages", "--cluster", "2x8", "--mtbf", "1d", "--mttr", "1h", "--days", "9", "-q", "-o", "x.csv"),
        ("x.csv",),
    ),
    "services": (
        ("services", "requests.csv", "--gpus-per-replica", "1", "--tokens-per-gpu", "1", "-q", "-o", "x.csv"),
        ("x.csv",),
    ),
    "profile": (("profile", "small.csv", "-q", "-o", "x.parquet"), ("x.parquet",)),
    "cluster": ((*HELIOS, "--cluster-out", "x.toml"), ("h.parquet", "x.toml")),
    "speeds": ((*GAVEL, "--tables-out", "x.csv"), ("g.parquet", "x.csv")),
}
"""The command, and what it writes."""
IN_A_SWEEP = ("runs", "sweep.json", "runs.parquet", "notes.txt", "photos")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.usefixtures("unvalidated")
def test_no_verb_loses_a_byte_of_others(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(vl_convert, "vegalite_to_png", lambda *_, **__: PNG.ljust(60, b"."))
    command, outputs = VERBS[verb]
    done = 0
    for seed in count():
        if done and seed >= max(2, CASES // 150):
            break
        draw = random.Random(f"{verb}{seed}")
        here = tmp_path / f"{seed}"
        prepare(here, monkeypatch)
        if verb in ("again", "report", "timeline", "diff"):
            assert invoke("replay", *ON, "-o", "result").returncode == 0
        if draw.random() < 0.7:
            assert invoke(*command).returncode == 0
        theirs = planted(draw, [here / name for name in outputs], verb)
        before = state(here)
        forced = draw.random() < 0.8 and verb != "sweep"
        run = invoke(*command, *(["--force"] if forced else []))
        after = state(here)
        assert theirs.items() <= after.items(), (seed, theirs)
        assert [name for name in os.listdir(here) if name.startswith(".")] == []
        if run.returncode:
            # 2 where two outputs lead to one file.
            assert run.returncode in (1, 2), run.stderr
            assert run.stderr.count("\n") == 1, run.stderr
            assert after == before, (seed, run.stderr)
        done += run.returncode == 0


def prepare(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with what the verbs read, to work in."""
    here.mkdir()
    monkeypatch.chdir(here)
    (here / "precious.txt").write_text("precious")
    (here / "small.csv").write_text(SMALL_JOBS)
    (here / "sweep.toml").write_text(GRID.replace("seed = [0, 1]\n", ""))
    (here / "requests.csv").write_text(REQUESTS)
    (here / "small.trace").write_text(TRACE)
    (here / "throughputs.json").write_text(json.dumps(THROUGHPUTS))
    helios.generate().write(here / "in")


def planted(draw: random.Random, outputs: list[Path], verb: str) -> State:
    """Puts things of others at or into what the verb writes; what is theirs."""
    precious = outputs[0].with_name("precious.txt")
    theirs = state(precious)
    for output in outputs:
        if output.is_dir():
            for path in plant(draw, output, precious, IN_A_SWEEP if verb == "sweep" else NAMES):
                theirs |= state(path)
        elif draw.random() < 0.3:
            output.unlink(missing_ok=True)
            if draw.random() < 0.5:
                output.write_bytes(draw.choice([b"mine", PNG, b"{}", b"a,b\n1,2\n"]))
            else:
                output.symlink_to(precious)
            theirs |= state(output)
    return theirs
