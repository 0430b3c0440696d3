"""Tiresias as Pollux' simulator has it: two queues, no promotion, and a gang on the emptiest servers.

    ringbco replay jobs.parquet --cluster 16x4 --model table --tables speeds.parquet --clock slot --slot 60 \\
        --start-cost 30 --policy docs/examples/pollux_tiresias.py:PolluxTiresias -o results

A job that has held `threshold` GPU-seconds falls to the end of the second queue and stays there. The first
queue goes before the second, and who does not fit is passed over. Who runs on keeps its GPUs; who starts
takes the server with most idle GPUs, then the next, until it has enough.
"""

from dataclasses import dataclass

import ringbco


@dataclass
class PolluxTiresias(ringbco.Policy):
    """threshold: GPU-seconds at which a job falls. interval: seconds between decisions."""

    threshold: float = 57_600.0
    interval: float = 60.0

    def __post_init__(self):
        self.queues = ([], [])

    def decide(self, state):
        """Walks both queues with all GPUs: who is passed over stops, who is chosen runs."""
        there = {*state.waiting, *state.running}
        first, second = ([row for row in queue if row in there] for queue in self.queues)
        first += [row for row in state.waiting if row not in {*first, *second}]
        fallen = [row for row in first if state.attained[row] >= self.threshold]
        first = [row for row in first if row not in fallen]
        self.queues = first, second + fallen
        left, chosen = int(sum(state.gpus)), []
        for row in (*first, *second, *fallen):
            if state.jobs.num_gpus[row] <= left:
                left -= int(state.jobs.num_gpus[row])
                chosen.append(row)
        state.stop([row for row in state.running if row not in chosen])
        running = set(state.running)
        for row in chosen:
            if row not in running:
                state.start([row], servers=self.emptiest(state, int(state.jobs.num_gpus[row])))

    def emptiest(self, state, wanted):
        """So many idle GPUs, of the servers with most of them first."""
        parts = []
        for server in sorted(range(len(state.idle)), key=lambda server: -int(state.idle[server])):
            parts.append((server, min(wanted, int(state.idle[server]))))
            wanted -= parts[-1][1]
            if not wanted:
                return parts
        raise AssertionError("who is chosen fits")
