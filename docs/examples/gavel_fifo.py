"""Gavel's performance-aware FIFO: each job in order of arrival on the fastest GPU type that is free.

    ringbco replay jobs.parquet --cluster gavel.toml --model table --tables speeds.parquet \\
        --clock slot --slot 360 --preempt-cost 0 --policy docs/examples/gavel_fifo.py:GavelFifo -o results

Everybody is assigned anew when the set of jobs has changed, but not before 1,920 s have passed. So a job
may move to a faster type when that becomes free, and a job that arrives waits for the next assignment.
"""

from dataclasses import dataclass

import ringbco


@dataclass
class GavelFifo(ringbco.Policy):
    """reset: the least seconds between two assignments. interval: a round."""

    reset: float = 1920.0
    interval: float = 360.0

    def __post_init__(self):
        self.assigned = None
        self.changed = False

    def decide(self, state):
        """Assigns everybody anew where that is due. Who keeps its type keeps its GPUs."""
        self.changed |= len(state.arrived) + len(state.completed) > 0
        early = self.assigned is not None and state.now - self.assigned < self.reset
        if early or not self.changed:
            return
        self.assigned, self.changed = state.now, False
        chosen = self.assign(state)
        on = {row: state.type[state.parts(row)[0][0]] for row in state.running}
        state.stop([row for row, name in on.items() if chosen.get(row) != name])
        for row in sorted(set(chosen) & set(state.waiting), key=lambda row: -int(state.jobs.num_gpus[row])):
            state.start([row], type=chosen[row], strict=False)

    def assign(self, state):
        """The type of every job that gets GPUs; one that does not fit is passed over."""
        free = {}
        for name, gpus in zip(state.type, state.gpus, strict=True):
            free[name] = free.get(name, 0) + int(gpus)
        chosen = {}
        for row in sorted(
            [*state.running, *state.waiting], key=lambda row: (state.jobs.submit_time[row], row)
        ):
            gpus = int(state.jobs.num_gpus[row])
            rates = {name: state.rate([row], [gpus], type=name)[0] for name in free if free[name] >= gpus}
            best = max(rates, key=rates.get, default=None)
            if best is not None and rates[best] > 0:
                chosen[row] = best
                free[best] -= gpus
        return chosen
