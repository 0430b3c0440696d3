"""The least predicted GPU-time first: a linear score that scikit-learn fits on jobs of the past.

    ringbco replay later.parquet --cluster 16x8 --policy docs/examples/learned.py:Learned \\
        -P past=earlier.parquet -P cluster=16x8 -o results

The past is replayed once under fifo. A ridge regression learns the logarithm of a job's GPU-seconds
from what is known at its arrival: GPUs, hour of the day, model, and what its user's jobs took of
late, all of them and those of its size. Needs scikit-learn: `pip install 'ringbco[examples]'`.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import Ridge

import ringbco


@dataclass
class Learned(ringbco.KeyPolicy):
    """Least predicted GPU-time first. past: jobs to learn from. cluster: where they are replayed."""

    past: str
    cluster: str

    def __post_init__(self):
        self.history = {}
        run = ringbco.Simulation(self.past, self.cluster)
        rows, known = [], []
        while run.advance():
            rows.extend(run.state.arrived)
            known.extend(self.features(run.state, run.state.arrived))
            run.start(run.state.waiting)
        columns = DictVectorizer()
        model = Ridge().fit(columns.fit_transform(known), np.log(run.state.attained[rows]))
        self.weights = dict(zip(columns.get_feature_names_out(), model.coef_, strict=True))

    def features(self, state, rows):
        """What is known of each row, by name. Jobs done since the last call join the history."""
        jobs, done, found = state.jobs, state.completed, []
        nobody = np.broadcast_to("", len(jobs))
        user, model = (getattr(jobs, name, nobody) for name in ("user", "model"))
        for row, took in zip(done, np.log(state.attained[done]), strict=True):
            for key in ((), user[row], (user[row], jobs.num_gpus[row])):
                self.history[key] = 0.9 * self.history.get(key, took) + 0.1 * took
        for row in rows:
            gpus, hour = jobs.num_gpus[row], jobs.submit_time[row] % 86_400 // 3600
            of_user = self.history.get(user[row], self.history.get((), 0.0))
            of_size = self.history.get((user[row], gpus), of_user)
            found.append({"gpus": np.log2(gpus), "user": of_user, "size": of_size})
            found[-1] |= {f"hour={hour}": 1.0, f"model={model[row]}": 1.0}
        return found

    def key(self, state, rows):
        """The score: features times weights. A feature that the past did not have counts nothing."""
        found = [one.items() for one in self.features(state, rows)]
        return [sum(self.weights.get(name, 0.0) * x for name, x in one) for one in found]
