"""The reference model of GPU types: the models with servers that differ, straight from docs/heterogeneous.md.

Each type is a cluster of its own to placements and quotas. A job tries the types that it may use, in the
order of the run, and computes as fast as its type says. Nothing here imports ringbco.
"""

import math
from dataclasses import dataclass, replace

from reference.mechanism import World as PreemptWorld
from reference.model import (
    GPU,
    Job,
    Net,
    Options,
    RefusedError,
    fewest_servers,
    iteration_time,
    iterations_per_slot,
)
from reference.placement import ClusterState, place
from reference.running import RunningJob


@dataclass(frozen=True)
class Choices:
    """What a job may use: types as listed, the speed of each for it, and that of the type recorded on."""

    listed: tuple[int, ...]
    speed: dict[int, float]
    recorded: float


@dataclass(frozen=True)
class Types:
    """The type of every server, what each job may use, prices by type, the order in which types go."""

    of: tuple[int, ...]
    choices: tuple[Choices, ...]
    price: tuple[float, ...]
    order: str

    def sizes(self, gpu_type: int, sizes: dict[int, int]) -> dict[int, int]:
        return {s: size for s, size in sizes.items() if self.of[s] == gpu_type}

    def on(self, row: int, job: Job, gpu_type: int) -> Job:
        """The job as it computes on a type."""
        choice = self.choices[row]
        return replace(job, compute_time=job.compute_time / (choice.speed[gpu_type] / choice.recorded))

    def ratio(self, row: int, gpu_type: int) -> float:
        """Recorded seconds a second under `fixed`."""
        return self.choices[row].speed[gpu_type] / self.choices[row].recorded

    def tried(self, row: int, job: Job, sizes: dict[int, int], net: Net, options: Options) -> list[int]:
        """The types that could hold the job, in the order in which they are tried.

        Raises RefusedError where a slot is too short for an iteration on each of them.
        """
        result, slow = [], False
        for gpu_type in self.choices[row].listed:
            own = self.sizes(gpu_type, sizes)
            gpus = [(s, g) for s in sorted(own) for g in range(own[s])]
            if sum(own.values()) < job.num_gpus:
                continue
            if place(job, ClusterState(own, gpus, dict.fromkeys(gpus, 0.0)), options, 0)[0] is None:
                continue
            if options.model == "fixed":
                rate = self.ratio(row, gpu_type)
            else:
                fewest = fewest_servers(job.num_gpus, list(own.values()))
                tau = iteration_time(self.on(row, job, gpu_type), fewest, 1, net)
                if math.isinf(tau):
                    continue  # measured, and nothing was done
                if options.clock == "slot" and iterations_per_slot(tau, options.slot) == 0:
                    slow = True
                    continue
                rate = 1.0 / tau
            result.append((rate, gpu_type))
        if slow and not result:
            raise RefusedError(row)
        if self.order == "fastest":
            result.sort(key=lambda pair: (-pair[0], pair[1]))
        elif self.order == "cheapest":
            result.sort(key=lambda pair: (self.price[pair[1]] / pair[0], pair[1]))
        return [gpu_type for _, gpu_type in result]


def _restricted(cluster: ClusterState, own: dict[int, int]) -> ClusterState:
    idle = [gpu for gpu in cluster.idle if gpu[0] in own]
    return ClusterState(own, idle, {gpu: load for gpu, load in cluster.load.items() if gpu[0] in own})


def preempt_world(types: Types) -> type[PreemptWorld]:
    """The model of the policies that preempt."""

    class TypedWorld(PreemptWorld):
        def tried(self, row: int) -> list[int]:
            return types.tried(row, self.jobs[row], self.sizes, self.net, self.options)

        def find(self, row: int) -> tuple[list[GPU] | None, int]:
            cluster, rng = self.cluster_state(), self.rng
            for gpu_type in self.tried(row):
                own = _restricted(cluster, types.sizes(gpu_type, self.sizes))
                gpus, after = place(self.jobs[row], own, self.options, rng)
                if gpus is not None:
                    return gpus, after
            return None, rng

        def select(self) -> list[int]:
            quota = {t: sum(types.sizes(t, self.up()).values()) for t in set(types.of)}
            held = {run.row: types.of[run.gpus[0][0]] for run in self.running}
            selected = []
            for row in self.ranking():
                need = self.jobs[row].num_gpus
                draws = [held[row]] if row in held else self.tried(row)
                enough = next((t for t in draws if quota[t] >= need), None)
                if enough is not None:
                    quota[enough] -= need
                    selected.append(row)
            return selected

        def too_slow(self, row: int) -> bool:
            return False

        def whole(self, row: int) -> float:
            if self.fixed and self.slotted:
                return self.jobs[row].duration / self.options.slot
            return super().whole(row)

        def tau(self, run: RunningJob, p: int) -> float:
            gpu_type = types.of[run.gpus[0][0]]
            if self.fixed:
                return 1.0 / types.ratio(run.row, gpu_type)
            return iteration_time(
                types.on(run.row, self.jobs[run.row], gpu_type),
                len(run.servers),
                p,
                self.net,
                run.bandwidth,
            )

        def look(self) -> None:
            super().look()
            if not self.waiting:
                return
            idle = self.cluster_state().idle
            by_type = {t: sum(1 for s, _ in idle if types.of[s] == t) for t in set(types.of)}

            def lacks(row: int) -> bool:
                return all(by_type[t] < self.jobs[row].num_gpus for t in self.tried(row))

            self.short = [row for row in self.waiting if lacks(row)]
            enough = [row for row in self.waiting if row not in self.short]
            self.apart = [row for row in enough if self.find(row)[0] is None]

    return TypedWorld
