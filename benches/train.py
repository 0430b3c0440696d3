"""The replays that the engine of a wheel is built for: `make wheel` counts what they do (.ci/profiled).

Jobs and runs are the same each time, and so are the counts, but for what goes by the clock.
"""

from __future__ import annotations

from typing import Any, Final

import ringbco

JOBS: Final = 300_000
SERVERS: Final = 256
RUNS: Final[tuple[dict[str, Any], ...]] = (
    {"policy": "fifo"},
    {"policy": "sjf"},
    {"policy": "sjf-bco"},
    {"policy": "srtf"},
    {"policy": "tiresias"},
    {"policy": "fifo", "queue": "easy"},
)


def main() -> None:
    """Replays jobs like Philly's under each policy, on one thread."""
    jobs = ringbco.generate("philly", JOBS, 2, gpus=8 * SERVERS, load=0.9)
    for run in RUNS:
        ringbco.replay(jobs, f"{SERVERS}x8", **run)


if __name__ == "__main__":
    main()
