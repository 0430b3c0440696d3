"""The tables of docs pages: whether they are what they are made of.

    python benches/pages.py [ROW...] [--write]

makes the tables, prints how they differ from what stands on the pages, and exits with 1 if they do. ROW is a
page, or a page and a mark, such as `elastic` or `elastic/windows`; by default all of them but those that are
measured: these take the machine's time or memory, and are printed beside what stands.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

import page_examples
import page_features
import page_network
import page_predictions
import page_published
import page_requests
import page_sure
import page_tiers
import page_traces
import page_wide
import ringbco
from page_tables import Note, TableInputs, filled, line, marked
from ringbco.run.passes import COSTS, Load

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"

# Pages of questions. A command stands on the page between two marks, and below it what it prints. Those of a
# page run in order in one empty folder, as a shell does. None needs a trace: the first one makes the jobs.

Parts = Sequence[tuple[str, str]]
"""What of an output a page shows: each part begins with the next line that has the first pattern, and ends
before the next one that has the second, or at the end where that is empty."""

_ROWS: Final = (r"^ {3}", r"^\* best|^ratios|^below|^all measures|^[0-9]+ (runs|tables)")
_RUNS: Final = r"^[0-9]+ (runs|tables)"
_MEANS: Final = ("^mean completion time against", _RUNS)
_JAIN: Final = "^Jain's index over users against"
_SIZES: Final = (("^mean completion", "^$"), ("^ GPUs", "^$"))
CUTS: Final[Mapping[str, Mapping[str, Parts]]] = {
    "capacity": {
        "asked": (("^work", "^iterations"),),
        "gpus": (("^the smallest", ""),),
        "load": (("^the greatest", ""),),
        "more": (_ROWS,),
        "scheduler": (_ROWS,),
        "servers": (("^ {3}", "^ +64x4"), ("^ +16x16", _ROWS[1])),
    },
    "failures": {
        "down": (("share", ""),),
        "save": (_MEANS,),
        "repair": (_MEANS,),
        "whose": _SIZES,
        "one": (("Finished", ""),),
    },
    "fairness": {
        "fair": (
            (_JAIN, _RUNS),
            ("^ +GPU-", "^ u008"),
            ("^ [0-9]+ more", "^srtf"),
            ("^longer waits under", ""),
        ),
        "fairest": ((_JAIN, _RUNS),),
        "sizes": _SIZES,
        "quotas": (("^ +GPU-", "^ u008"), ("^ [0-9]+ more", "^$")),
        "aging": (("^p99 waiting time against", _RUNS),),
    },
    "network": {
        "sharing": (_ROWS,),
        "whose": (("^ +A +B", "^ median"), ("^ mean completion", "^$"), ("^ GPUs", "^$")),
        "bandwidth": (_ROWS,),
        "placement": (_MEANS,),
        "turns": (_ROWS,),
    },
    "publishing": {
        "best": (_ROWS, _MEANS, ("^clairvoyant", "")),
        "table": (("^% made", "^median completion"), ("^.end.tabular", "^.par sjf")),
        "figures": (("^charts-mean", "who-owners"),),
        "window": (_ROWS,),
        "audit": (("checks passed", ""),),
    },
    "why": {
        "fifo": (("^helios", "At submission"), ("There was room", "^[+]35.1 h"), ("Finished", "")),
        "contention": (("^ *[+]9.7 d", "Contention cost"),),
        "srtf": (("^helios", "Started again"), ("Finished", "")),
    },
}
"""By page and mark. What is not here is shown whole."""
VARIES: Final = re.compile(r"^\d+ tables, |ringbco \d[\w.]*", re.MULTILINE)
"""As many tables as the time in the engine leaves room for; the version."""


def cut(text: str, parts: Parts) -> str:
    """The parts of a text, `...` for what is between them. ValueError where a part is not there."""
    lines = [line.rstrip() for line in text.splitlines()]
    kept, at = list[str](), 0
    for first, after in parts or [("", "")]:
        result = [number for number in range(at, len(lines)) if re.search(first, lines[number])]
        if not result:
            raise ValueError(f"no line has {first!r}: {text}")
        begun = result[0]
        if begun > at:
            kept.append("...")
        ends = (n for n in range(begun + 1, len(lines)) if after and re.search(after, lines[n]))
        at = next(ends, len(lines))
        kept += lines[begun:at]
    if at < len(lines):
        kept.append("...")
    # No blank lines at the ends of a part.
    return re.sub(r"\n+\.\.\.(\n+|$)", "\n...\n", "\n".join(kept)).strip("\n")


def answers(page: str) -> Iterator[tuple[str, str]]:
    """By mark what should stand there: the command, and the shown parts of what it prints.

    Raises CalledProcessError where a command fails.
    """
    program = Path(sys.executable).parent
    environment = {"PATH": f"{program}:{os.environ['PATH']}", "COLUMNS": "100", "NO_COLOR": "1"}
    shown = marked((DOCS / f"{page}.md").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        for name, stands in shown.items():
            typed = stands.removeprefix("```\n").partition("\n```")[0]
            done = subprocess.run(
                ["sh", "-c", typed],
                cwd=folder,
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=True,
            )
            texts = [typed, *([cut(done.stdout, CUTS[page].get(name, ()))] if done.stdout else [])]
            yield name, "\n".join(f"```\n{text}\n```" for text in texts)


# docs/reliability.md: the least `ulimit -v` under which each command works, and what a decision takes.

LIMITS: Final = (1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0, 70.0, 80.0, 128.0)
"""Gigabytes of addresses."""
INPUTS: Final = {
    "jobs.csv": "job_id,submit_time,num_gpus,duration\n"
    + "".join(f"{job},{60 * job},{1 + job % 8},{600 + job}\n" for job in range(200)),
    "requests.csv": "arrival,input_tokens,output_tokens\n" + "".join(f"{at},500,200\n" for at in range(3600)),
    "sweep.toml": '[base]\ntrace = "jobs.csv"\ncluster = "4x8"\n[grid]\npolicy = ["fifo", "sjf"]\n',
}
COMMANDS: Final = """\
convert csv jobs.csv -o converted.parquet --force
generate --preset philly --jobs 2000 -o generated.parquet --force
outages --cluster 4x8 --mtbf 1d --mttr 1h --days 7 -o outages.csv --force
services requests.csv --gpus-per-replica 4 --tokens-per-gpu 500 -o services.csv --force
inspect jobs.csv --json
profile jobs.csv -o profiled.parquet --force
replay jobs.csv --cluster 4x8 -o fifo --policy fifo --force
replay, gavel: replay jobs.csv --cluster 4x8 -o gavel --policy gavel --force
plan jobs.csv --cluster 4x8 -o plan --force
bound jobs.csv --cluster 4x8
compare jobs.csv --cluster 4x8 --policy fifo --policy sjf -o cmp --force
diff fifo gavel
why fifo 7
sweep sweep.toml -o sweep
report fifo -o page.html --force
report, with charts: report fifo -o drawn.html --figures svg --force
play fifo -o play.html --force
timeline fifo -o timeline.json --force
policies
audit fifo
bench --jobs 2000
demo -o demo --force"""


def limits(given: TableInputs) -> Iterator[str]:
    """A row per limit, with its commands."""
    commands: dict[float, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in INPUTS.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")

        def runs(command: str, limit: float) -> bool:
            done = subprocess.run(
                [sys.executable, "-m", "ringbco", *command.split()],
                cwd=folder,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (int(limit * 1e9),) * 2),
                capture_output=True,
                check=False,
            )
            return done.returncode == 0

        for command in given.some(COMMANDS.splitlines()):
            label, _, typed = command.rpartition(": ")
            limit = next(limit for limit in LIMITS if runs(typed, limit))
            commands.setdefault(limit, []).append(label or typed.split()[0])
    yield from (line("least `ulimit -v`", "commands"), line("---", "---"))
    for limit in sorted(commands):
        yield line(f"{limit:g} GB", "; ".join(commands[limit]))


PLACES: Final = ((8, 8), (8, 500), (64, 64), (64, 1000), (512, 512))
"""Jobs that run, and that wait."""
DECISIONS: Final = {"gavel": 100, "sia": 100, "gittins": 20_000}
FIELDS: Final[dict[str, dict[str, Any]]] = {"gavel": {"renew": 1e9, "shares": "max-min"}, "sia": {}}


def passes(given: TableInputs) -> Iterator[str]:
    """CPU time of the calling thread, so that a busy machine does not change it, beside what it is taken for:
    of jobs of one GPU that all come at once, what a run with many decisions takes beyond one with few."""
    places = PLACES[:1] if given.least else PLACES
    yield line("policy", *(f"{running} run, {waiting} wait" for running, waiting in places))
    yield line(*["---"] * (1 + len(places)))
    # Of allox and elasticflow, decisions at arrivals and completions make up nearly all of the time.
    for policy in given.some(name for name in COSTS if name not in {"allox", "elasticflow"}):
        result = (decision(policy, *place) for place in places)
        yield line(f"`{policy}`", *(f"{1e6 * took:,.2g} ({1e6 * taken:,.2g})" for took, taken in result))


def decision(policy: str, running: int, waiting: int) -> tuple[float, float]:
    """Seconds of a decision, as measured and by the estimate."""
    count, length, random = running + waiting, 1e6, np.random.default_rng(1)
    jobs = pl.select(
        job_id=pl.format("j{}", pl.int_range(count)),
        submit_time=pl.lit(0.0),
        num_gpus=pl.lit(1),
        min_gpus=pl.lit(1),
        max_gpus=pl.lit(2),
        # They differ, so that no two jobs end together.
        duration=pl.lit(pl.Series(length * (1.0 + 0.2 * random.random(count)))),
        deadline=pl.lit(length * 1000.0),
    )

    def seconds(period: float) -> float:
        given: dict[str, Any] = {"quantum" if policy == "time-slice" else "interval": period}
        if policy in FIELDS:
            given = {"parameters": FIELDS[policy] | {"round": period}}
        given |= {"policy": policy, "model": "fixed", "preempt_cost": 0.0, "allocations": False}
        before = time.thread_time()
        ringbco.replay(jobs, f"{running // 8}x8", **given)
        return time.thread_time() - before

    more = DECISIONS.get(policy, 1000)
    busy, few = float(jobs["duration"].sum()) / running, max(10, more // 20)
    measured = (seconds(busy / (few + more)) - seconds(busy / few)) / more
    load = Load(jobs.height, running, busy, running, waiting)
    return measured, COSTS[policy](load, busy / more, FIELDS.get(policy, {})) / more


def named(page: str, mark: str) -> str:
    """What a row is called."""
    return f"{page}/{mark.replace(' ', '-')}" if mark else page


@dataclass(frozen=True)
class Row:
    """A table. needs: the folder that it is made of, `traces` or `peers`. slow: whether it takes ten
    seconds or more. measured: whether it is of time or memory, and another one wherever it is made. picture:
    below docs/, and what draws it of the table."""

    page: str
    mark: str
    make: Callable[[TableInputs], Iterable[str]]
    needs: str = ""
    slow: bool = False
    measured: bool = False
    picture: tuple[str, Callable[[str], bytes]] | None = None

    @property
    def name(self) -> str:
        return named(self.page, self.mark)

    @property
    def path(self) -> Path:
        return DOCS / f"{self.page}.md"

    def stands(self) -> dict[str, str]:
        """By mark what is on the page."""
        result = marked(self.path.read_text(encoding="utf-8"))
        return {self.mark: result[self.mark]} if self.mark else result

    def made(self, given: TableInputs) -> tuple[dict[str, str], list[Note]]:
        """By mark what should be there; figures of the page's sentences."""
        if not self.mark:
            return dict(answers(self.page)), []
        lines = list(self.make(given))
        notes = [each for each in lines if isinstance(each, Note)]
        text = "\n".join(each for each in lines if not isinstance(each, Note))
        return {self.mark: re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)}, notes


def differences(stands: str, made: str, given: TableInputs) -> list[str]:
    """The lines by which they differ; of a part, those that do not stand."""
    old, new = (VARIES.sub("*", text).strip("\n").splitlines() for text in (stands, made))
    if given.drawn_less:
        return []
    if given.least:
        return [f"+{one}" for one in new if one not in old]
    return [
        one
        for one in difflib.unified_diff(old, new, lineterm="", n=0)
        if not one.startswith(("---", "+++", "@@"))
    ]


TRACES, PEERS = "traces", "peers"
ROWS: Final = (
    *(Row(page, "", lambda _: (), slow=True) for page in CUTS),
    Row("results-policies", "policies", page_traces.policies, TRACES, slow=True,
        picture=("images/policies.png", page_traces.policies_picture)),
    Row("bound", "bounds", page_sure.bounds, TRACES),
    Row("bound", "delays", page_sure.delays, TRACES),
    Row("repack", "repack", page_traces.repack, TRACES, slow=True),
    Row("repack", "wide", page_wide.wide, PEERS, slow=True),
    Row("repack", "costs", page_wide.costs, PEERS, slow=True),
    Row("repack", "predictions", page_predictions.predictions, TRACES, slow=True),
    Row("repack", "tail", page_wide.tails, PEERS, slow=True,
        picture=("images/repack-tail.svg", page_wide.tails_picture)),
    Row("elastic", "traces", page_traces.described, TRACES),
    *(Row("elastic", part, partial(page_traces.elastic, part=part), TRACES, slow=True)
      for part in page_traces.ELASTIC_TABLES if part != page_traces.WINDOW),
    Row("elastic", page_traces.WINDOW, partial(page_traces.elastic, part=page_traces.WINDOW), TRACES,
        slow=True, picture=("images/elastic.png", page_traces.elastic_picture)),
    Row("certainty", "real traces", page_sure.certainty, TRACES),
    Row("certainty", "generated tables", page_sure.generated, slow=True),
    Row("priorities", "priorities", page_examples.priorities, TRACES),
    Row("priorities", "quotas", page_examples.quotas, TRACES),
    Row("services", "services", page_examples.services, TRACES),
    Row("serving", "week", page_requests.week, slow=True),
    Row("serving", "prompts", page_requests.prompts, TRACES),
    Row("outages", "outages", page_examples.outages, TRACES),
    Row("energy", "sleep", page_examples.energy, TRACES),
    Row("tiers", "oversubscription", page_tiers.oversubscription, slow=True),
    Row("tiers", "segments", page_tiers.capacity, slow=True),
    Row("operators", "fair share", page_examples.fair_share),
    Row("operators", "operators", page_examples.slurm, TRACES, slow=True),
    Row("tiers", "pairs", page_network.pairs, PEERS,
        picture=("images/pairs.png", page_network.pairs_picture)),
    Row("published", "published", page_published.published, PEERS, slow=True),
    Row("paper", "optimum", page_examples.optima, slow=True),
    Row("combinations", "combinations", page_features.every, slow=True),
    Row("combinations", "pairs", page_features.both, slow=True),
    Row("reliability", "least limits", limits, measured=True, slow=True),
    Row("reliability", "pass costs", passes, measured=True, slow=True),
    Row("performance", "feature speed", page_features.speed, measured=True, slow=True),
)  # fmt: skip


def check(row: Row, given: TableInputs, *, write: bool) -> bool:
    """Makes a row and tells how it differs; whether it may stay so."""
    folder = {TRACES: given.traces, PEERS: given.peers}.get(row.needs)
    if folder is not None and not folder.is_dir():
        sys.exit(f"error: {row.name}: no folder {folder}; name it by --{row.needs}")
    began, stands = time.monotonic(), row.stands()
    made, notes = row.made(given)
    changed = {mark: result for mark in made if (result := differences(stands[mark], made[mark], given))}
    verdict = "differs" if changed else "made, not compared" if given.drawn_less else "as it stands"
    print(f"{row.name}: {verdict} ({time.monotonic() - began:.0f} s)", *notes, sep="\n  ")
    for mark, lines in changed.items():
        print(f"  {mark}:", *lines, sep="\n    ", flush=True)
    if write and changed:
        page = filled(row.path.read_text(encoding="utf-8"), {mark: made[mark] for mark in changed})
        row.path.write_text(page, encoding="utf-8")
    if write and row.picture:
        (DOCS / row.picture[0]).write_bytes(row.picture[1](made[row.mark]))
    return write or row.measured or not changed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    given = parser.add_argument
    given("row", nargs="*", metavar="ROW")
    given("--write", action="store_true", help="put what is made into the pages, and draw their pictures")
    given("--least", action="store_true", help="make and compare a part of each table, as fast as may be")
    given("--traces", type=Path, default=TableInputs.traces, help="with philly/, helios/ and elasticflow/")
    given("--peers", type=Path, default=TableInputs.peers, help="with physical/, published logs")
    asked = parser.parse_args()
    if asked.write and asked.least:
        parser.error("--write: not of parts (--least)")
    asked.row = [name.replace(" ", "-") for name in asked.row]
    for name in asked.row:
        if not any(name in (row.page, row.name) for row in ROWS):
            parser.error(f"{name}: no such row; there are {', '.join(row.name for row in ROWS)}")
    chosen = [
        row
        for row in ROWS
        if (not row.measured if not asked.row else not {row.page, row.name}.isdisjoint(asked.row))
    ]
    of = TableInputs(asked.traces, asked.peers, asked.least)
    kept = [check(row, replace(of), write=asked.write) for row in chosen]
    sys.exit(not all(kept))


if __name__ == "__main__":
    main()
