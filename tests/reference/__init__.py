"""The reference model: what a replay must give, in plain Python, straight from docs/model.md.

Lists and loops only. Nothing is kept up to date as time passes: at every instant the idle GPUs, the
accumulated times, the contention and the iteration times are worked out again from the jobs now running. It
is meant to be read beside the definitions and to be obviously right; it is hopeless beyond a few dozen jobs.

Nothing here imports ringbco, so that an error in the package cannot hide in what it is compared with.
"""

from reference.model import Job, Net, Options, OversizeError, RefusedError, StuckError
from reference.simulate import Result, State, simulate

__all__ = [
    "Job",
    "Net",
    "Options",
    "OversizeError",
    "RefusedError",
    "Result",
    "State",
    "StuckError",
    "simulate",
]
