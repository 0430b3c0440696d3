"""The reference model of why jobs wait, and why they run long. Nothing here imports ringbco."""

from dataclasses import replace

from reference.model import fewest_servers, iteration_time
from reference.running import RunningJob


class Causes:
    """Of a world with `now`, `waiting`, `running`, `jobs`, `net` and `result`."""

    def look(self) -> None:
        """Which of them lack idle GPUs, and which lack idle GPUs in one piece, until the next instant."""
        self.looked = self.now
        self.short, self.apart = [], []
        if not self.waiting:
            return
        cluster = self.cluster_state()
        self.short = [row for row in self.waiting if len(cluster.idle) < self.jobs[row].num_gpus]
        enough = [row for row in self.waiting if row not in self.short]
        self.apart = [row for row in enough if self.find(row)[0] is None]

    def count_time(self) -> None:
        """What the time since the latest instant was spent on."""
        passed = self.seconds(self.now) - self.seconds(self.looked)
        for row in self.waiting:
            self.result.waited[row] += passed
        for run in self.running:
            progress = self.seconds(self.now) - self.seconds(
                max(self.looked, min(self.now, max(run.begin, run.since)))
            )
            if progress > 0:
                self.count_progress(run, progress)
        for row in self.short:
            self.result.wait_gpus[row] += passed
        for row in self.apart:
            self.result.wait_fragmented[row] += passed

    def count_progress(self, run: RunningJob, seconds: float) -> None:
        job = self.jobs[run.row]
        if self.fixed:
            return
        fewest = fewest_servers(job.num_gpus, list(self.sizes.values()))
        ideal = iteration_time(job, fewest, 1, self.net)
        alone, now = self.iteration(run, 1, run.own), self.iteration(run, run.p, run.bandwidth)
        done = min(run.phi, run.left) if self.slotted else seconds / now
        self.result.run_spread[run.row] += done * (alone - ideal)
        self.result.run_contention[run.row] += done * (now - alone)
        if run.without is not None:
            tau = self.tau(run, run.p)
            without = self.tau(replace(run, bandwidth=run.without), run.p)
            self.result.run_contention_uplinks[run.row] += seconds * ((tau - without) / tau)
        self.result.rounding[run.row] += seconds - done * now
