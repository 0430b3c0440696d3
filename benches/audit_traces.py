"""Every public trace under every policy, audited: `make audit-traces`.

Replays each trace of TRACES (../shared/traces), and with MADE=1000000 a table of so many jobs that `ringbco
generate --preset philly --seed 7` makes, under model fixed and each of POLICIES (all by default), and audits
the result: physics and repeat, or with REPEAT=0 the physics alone. Prints a row per run: how the audit ended,
and its processor time and peak memory as multiples of the replay's. A policy that refuses a trace has no row;
a run or an audit of more than LIMIT seconds (default 1,200) is stopped, and its row says so.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from page_traces import CLUSTERS

COMMAND: Final = str(Path(sys.executable).with_name("ringbco"))
ITP: Final = "24x8"
"""Of the traces whose cluster nobody published."""


class Used(NamedTuple):
    """status: of the process; negative for a signal. cpu: user and system, s. memory: peak, MiB."""

    status: int
    cpu: float
    memory: float


def ran(limit: float, *arguments: str) -> Used:
    """A command of ringbco."""
    silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    process = os.posix_spawn(COMMAND, [COMMAND, *arguments], os.environ, file_actions=silent)
    timer = threading.Timer(limit, os.kill, (process, signal.SIGKILL))
    timer.start()
    _, status, usage = os.wait4(process, 0)
    timer.cancel()
    return Used(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def traces(folder: Path, scratch: Path, made: int) -> Iterator[tuple[str, Path, str]]:
    """(name, job table, cluster)."""
    if made:
        table = scratch / "made.parquet"
        text = ("--preset", "philly", "--jobs", str(made), "--seed", "7")
        subprocess.run([COMMAND, "generate", *text, "-o", table], check=True, capture_output=True)
        yield f"made, {made:,} jobs", table, "256x8"
        return
    for name, groups in CLUSTERS.items():
        servers = "".join(
            f"[[servers]]\ncount = {each.count}\ngpus = {each.gpus}\n"
            + (f'vc = "{each.vc}"\n' if each.vc else "")
            for each in groups
        )
        cluster = scratch / f"{Path(name).name}.toml"
        cluster.write_text(servers, encoding="utf-8")
        yield name, folder / f"{name}.csv", str(cluster)
    nodes = folder / "openb" / "openb_node_list_gpu_node.csv"
    for path in sorted(folder.glob("elasticflow/*.csv")) + sorted(folder.glob("openb/openb_pod_list_*.csv")):
        table, cluster = scratch / f"{path.stem}.parquet", scratch / f"{path.stem}.toml"
        source = path.parent.name
        beside = [str(nodes), "--cluster-out", str(cluster)] if source == "openb" else []
        text = [COMMAND, "convert", source, str(path), *beside, "-o", str(table)]
        subprocess.run(text, check=True, capture_output=True)
        yield f"{source}/{path.stem}", table, str(cluster) if beside else ITP


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--traces", type=Path, default=Path("../shared/traces"))
    parser.add_argument("--policies", nargs="*", default=[])
    parser.add_argument(
        "--made", type=int, default=0, help="jobs of a generated table, instead of the traces"
    )
    parser.add_argument("--no-repeat", action="store_true")
    parser.add_argument("--limit", type=float, default=1200.0, help="of each run and each audit, s")
    given = parser.parse_args()
    listed = subprocess.run(
        [COMMAND, "policies", "--json"], check=True, capture_output=True, text=True
    ).stdout
    policies = given.policies or [row["name"] for row in json.loads(listed)]
    how, failed = "--no-repeat" if given.no_repeat else "--require-repeat", 0
    print("| trace | policy | audit | CPU / replay | memory / replay |\n| --- | --- | --- | ---: | ---: |")
    with TemporaryDirectory() as scratch:
        for name, table, cluster in traces(given.traces, Path(scratch), given.made):
            for policy in policies:
                folder = str(Path(scratch) / "result")
                arguments = (
                    "--cluster",
                    cluster,
                    "--model",
                    "fixed",
                    "--policy",
                    policy,
                    "--oversize",
                    "drop",
                )
                run = ran(given.limit, "replay", str(table), *arguments, "-o", folder, "--force")
                if run.status > 0:
                    continue
                audit = ran(given.limit, "audit", folder, how) if run.status == 0 else run
                said = {0: "passed", -signal.SIGKILL: "stopped"}.get(audit.status, f"exit {audit.status}")
                failed += audit.status > 0
                ratios = f"{audit.cpu / run.cpu:.1f} | {audit.memory / run.memory:.1f}"
                print(f"| {name} | {policy} | {said} | {ratios} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
