"""The examples of docs/intervals.md, and by user in docs/compare.md: the commands, and what they print.

`python benches/interval_examples.py [TRACES]` runs them; TRACES (default ../shared/traces) has philly/ and
helios/.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_SPEC: Final = """\
[base]
trace = "6c71a0.csv"
policy = "gittins"
"""
_COMMANDS: Final = (
    "compare 6214e9.csv --cluster 64x8 --policy fifo --policy sjf --policy tiresias --policy gittins"
    " --policy srtf --policy repack --baseline gittins --seeds 20 --resample --sort mean_jct -o six",
    "sweep gpus.toml --seeds 20 --resample --measure p90_wait --target 10min --bisect cluster=16x8..64x8"
    " -o gpus",
    "generate --preset philly --jobs 2000 --gpus 256 --load 0.9 -o made.parquet -q",
    "compare made.parquet --cluster 32x8 --policy fifo --policy sjf --seeds 10 --sort mean_jct -o made",
    "compare made.parquet --cluster 32x8 --policy rand --policy fifo --seeds 10 --same-jobs --sort mean_jct"
    " -o same",
    "compare venus_2vc_2020-09.csv --cluster preset:helios-venus --policy fifo --policy srtf"
    " --by user --sort mean_jct -o fair",
)


def main() -> None:
    """Prints the examples."""
    traces = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/traces").resolve()
    program = Path(sys.executable).with_name("ringbco")
    with TemporaryDirectory() as folder:
        for name in ("philly/6214e9.csv", "philly/6c71a0.csv", "helios/venus_2vc_2020-09.csv"):
            (Path(folder) / Path(name).name).symlink_to(traces / name)
        (Path(folder) / "gpus.toml").write_text(_SPEC)
        print(f"$ cat gpus.toml\n{_SPEC}")
        for command in _COMMANDS:
            done = subprocess.run(
                [program, *shlex.split(command)],
                cwd=folder,
                env={**os.environ, "COLUMNS": "100"},
                capture_output=True,
                text=True,
                check=True,
            )
            lines = (line.rstrip() for line in done.stdout.splitlines())
            print(f"$ ringbco {command}", *lines, "", sep="\n")


if __name__ == "__main__":
    main()
