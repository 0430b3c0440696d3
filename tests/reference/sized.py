"""Stays of any number of GPUs, straight from docs/model.md and docs/custom-policies-reference.md.

A layer over the models of types, tables and shares. Nothing here imports ringbco.
"""

import math
from dataclasses import dataclass, replace

from reference.mechanism import World as PreemptWorld
from reference.model import GPU, Job, fewest_servers, iteration_time, whole_slots
from reference.placement import place
from reference.running import RunningJob
from reference.shares import Sharing, choose
from reference.shares import preempt_world as share_world
from reference.tables import TableTypes, table_preempt_world
from reference.types import Types, preempt_world


@dataclass(frozen=True)
class Ranges:
    """By row: the fewest and the most GPUs, and (phi, M), where phi may be infinite."""

    least: tuple[int, ...]
    most: tuple[int, ...]
    noise: tuple[tuple[float, int], ...]


def sized_world(ranges: Ranges, types: Types, sharing: Sharing | None = None) -> type[PreemptWorld]:
    """The model of servers of those types. sharing: where jobs may hold shares of a GPU."""
    table = isinstance(types, TableTypes)
    under = table_preempt_world(types) if isinstance(types, TableTypes) else preempt_world(types)
    if sharing is not None:
        under = share_world(sharing)

    class Sized(under):  # type: ignore[misc, valid-type]
        def part(self, row: int, gpus: int) -> float:
            """(w / G) E(w): so much of an iteration do so many GPUs in the time of one."""
            (phi, batch), asked = ranges.noise[row], self.jobs[row].num_gpus
            if math.isinf(phi):
                return gpus / asked
            return gpus / asked * ((phi + asked * batch) / (phi + gpus * batch))

        def pace(self, row: int, gpus: int, gpu_type: int) -> float:
            """Recorded seconds a second under `fixed`."""
            choice = types.choices[row]
            return self.part(row, gpus) * choice.speed[gpu_type] / choice.recorded

        def on(self, row: int, gpus: int, gpu_type: int) -> Job:
            return replace(types.on(row, self.jobs[row], gpu_type), num_gpus=gpus)

        def type_of(self, run: RunningJob) -> int:
            return types.of[run.gpus[0][0]]

        def unit(
            self, row: int, gpus: int, gpu_type: int, servers: int, p: int, bandwidth: float | None = None
        ) -> float:
            """Seconds that a unit of its work takes there."""
            if self.fixed:
                return 1.0 / self.pace(row, gpus, gpu_type)
            tau = iteration_time(self.on(row, gpus, gpu_type), servers, p, self.net, bandwidth)
            # What was measured is the speed of all the GPUs together, E(w) in it.
            return tau if table else tau / self.part(row, gpus)

        def tau(self, run: RunningJob, p: int) -> float:
            if self.jobs[run.row].share:
                return float(super().tau(run, p))
            return self.unit(run.row, len(run.gpus), self.type_of(run), len(run.servers), p, run.bandwidth)

        def rate(self, row: int, gpus: int, gpu_type: int) -> float:
            """Work a second on the fewest servers that are up, alone; 0 where it may or can not be there."""
            servers = self.fewest(gpus, gpu_type)
            if gpu_type not in self.tried(row) or servers is None:
                return 0.0
            if self.fixed:
                return self.pace(row, gpus, gpu_type)
            tau = iteration_time(self.on(row, gpus, gpu_type), servers, 1, self.net)
            return (1.0 if table else self.part(row, gpus)) / tau

        def work_left(self, row: int) -> float:
            """Iterations, or recorded seconds."""
            return float(self.remaining(row) if self.fixed else self.left_now(row))

        # Slots under `fixed`: a stay at one rate is counted at once, which rounds once.

        def at_once(self, row: int) -> bool:
            return bool(self.fixed and self.slotted and not self.jobs[row].share)

        def left_now(self, row: int) -> float:
            own = [run for run in self.running if run.row == row and self.at_once(row)]
            if not own:
                return float(super().left_now(row))
            passed = max(0.0, self.now - own[0].since)
            return max(0.0, own[0].left - self.pace(row, len(own[0].gpus), self.type_of(own[0])) * passed)

        def yielded(self, run: RunningJob) -> float:
            return 0.0 if self.at_once(run.row) else float(super().yielded(run))

        def comes_to_end(self, run: RunningJob) -> bool:
            if not self.at_once(run.row):
                return bool(super().comes_to_end(run))
            pace = self.pace(run.row, len(run.gpus), self.type_of(run))
            left = max(0.0, run.left - self.mark(run.row))
            slots = whole_slots(left, pace, self.jobs[run.row].duration / self.options.slot)
            return bool(self.now >= run.since and self.now - run.since >= slots)

        def put(self, row: int, count: int, gpu_type: int) -> tuple[list[GPU] | None, int]:
            """Where the placement puts a job on so many GPUs of a type, and the random numbers afterwards."""
            cluster = self.cluster_state()
            own = types.sizes(gpu_type, cluster.sizes)
            asked = replace(self.jobs[row], num_gpus=count)
            if sharing is not None:
                rooms = sharing.rooms(self, self.running)
                mine = {gpu: room for gpu, room in rooms.items() if gpu[0] in own}
                return choose(asked, mine, self.options, self.rng, sharing.demands(self, gpu_type))
            idle = [gpu for gpu in cluster.idle if gpu[0] in own]
            load = {gpu: u for gpu, u in cluster.load.items() if gpu[0] in own}
            return place(asked, replace(cluster, sizes=own, idle=idle, load=load), self.options, self.rng)

        def kinds(self) -> list[int]:
            """The types of the cluster."""
            return list(dict.fromkeys(types.of[server] for server in sorted(self.sizes)))

        def there(self, gpu_type: int) -> dict[int, int]:
            """GPUs by server of a type that are up and no replica's."""
            return types.sizes(gpu_type, self.up())

        def fewest(self, gpus: int, gpu_type: int) -> int | None:
            """The fewest servers for so many GPUs of a type; None where there are too few."""
            sizes = list(self.there(gpu_type).values())
            return fewest_servers(gpus, sizes) if gpus <= sum(sizes) else None

    return Sized
