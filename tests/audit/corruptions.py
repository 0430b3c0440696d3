"""Real results to corrupt, and the means to: every change is made in all places that follow from it.

What the summary and the timeline would say of a changed schedule is not made up again: a corruption of the
schedule has to be found by a check of the schedule.
"""

import random
from functools import cache
from typing import Any

import polars as pl

from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster, ServerGroup
from ringbco.result.outcome import Outcome
from ringbco.run.plan import plan
from ringbco.run.replay import replay
from ringbco.trace.jobs import JobTable, from_frame

SLOTS = {"clock": "slot", "slot": 20.0}
NETWORK = Network(inter_bandwidth=1e9, xi1=1.0)


@cache
def jobs(vcs: bool = False) -> JobTable:
    """Crowded: 60 gangs of 1 to 8 on 16 GPUs, three users, deadlines of which half are too early."""
    rnd = random.Random(8)
    submit = [0.0]
    while len(submit) < 60:
        submit.append(submit[-1] + rnd.choice((0.0, 17.0, 40.0, 90.0)))
    columns: dict[str, list[Any]] = {
        "job_id": [f"j{row}" for row in range(60)],
        "submit_time": submit,
        "num_gpus": [rnd.choice((1, 1, 2, 3, 4, 6, 8)) for _ in submit],
        "duration": [60.0 + rnd.uniform(0.0, 500.0) for _ in submit],
        "user": [rnd.choice(("ann", "bob", "cid")) for _ in submit],
        "deadline": [at + 60.0 + rnd.uniform(0.0, 1500.0) for at in submit],
    }
    if vcs:
        columns["vc"] = [rnd.choice(("left", "right")) for _ in submit]
    return from_frame(pl.DataFrame(columns))


RESULTS: dict[str, dict[str, Any]] = {
    "fifo": {"policy": "fifo"},
    "ff": {"policy": "ff"},
    "ff-fixed": {"policy": "ff", "model": "fixed"},
    "emptiest": {"policy": "fifo", "placement": "emptiest"},
    "skip": {"policy": "fifo", "queue": "skip"},
    "ff-skip": {"policy": "ff", "queue": "skip"},
    "easy": {"policy": "fifo", "queue": "easy", "model": "fixed"},
    "easy-3": {"policy": "fifo", "queue": "easy", "model": "fixed", "estimate_factor": 3.0},
    "ff-easy": {"policy": "ff", "queue": "easy"},
    "repack": {"policy": "repack"},
    "sjf": {"policy": "sjf"},
    "smallest-slot": {"policy": "smallest", **SLOTS},
    "reverse": {"policy": "fifo", "ties": "reverse"},
    "ls": {"policy": "ls"},
    "rand": {"policy": "rand", "seed": 1},
    "bco": {"policy": "sjf-bco", "kappa": 8},
    "bco-literal": {"policy": "sjf-bco", "kappa": 2, "variant": "literal"},
    "qssf": {"policy": "qssf"},
    "srtf": {"policy": "srtf"},
    "srtf-ff": {"policy": "srtf", "placement": "first-fit", "model": "fixed"},
    "srtf-spread": {"policy": "srtf", "placement": "first-fit"},
    "tiresias": {"policy": "tiresias", "thresholds": (500.0,)},
    "gittins-slot": {"policy": "gittins", "thresholds": (500.0,), **SLOTS, "interval": 90.0},
    "ftf": {"policy": "ftf"},
    "edf": {"policy": "edf", "admission": True},
    "time-slice": {"policy": "time-slice", "quantum": 100.0},
    "vcs": {"policy": "fifo", "vcs": True},
    "plan": {"plan": True, "policy": "sjf-bco", "slot": 10.0},
    "plan-ff": {"plan": True, "policy": "ff", "dispatch": "reserve", "slot": 10.0},
    "plan-rand": {"plan": True, "policy": "rand", "slot": 10.0},
}  # fmt: skip


@cache
def _run(name: str) -> Outcome:
    options = dict(RESULTS[name])
    vcs = options.pop("vcs", False)
    names = ("left", "left", "right", "right") if vcs else (None,) * 4
    cluster = Cluster.from_groups([ServerGroup(1, 8 if vcs else 4, vc=vc) for vc in names], NETWORK)
    return (plan if options.pop("plan", False) else replay)(jobs(vcs), cluster, **options)


c = pl.col


class Story:
    """A real result, and ways to change it. Rows are those of jobs.parquet."""

    def __init__(self, name: str) -> None:
        self.table = jobs(bool(RESULTS[name].get("vcs")))
        real = _run(name)
        summary = {**real.summary, "size_classes": [dict(row) for row in real.summary["size_classes"]]}
        summary |= {"vcs": [dict(row) for row in real.summary["vcs"]]} if "vcs" in real.summary else {}
        run = {**real.run, "options": dict(real.run["options"])}
        assert real.allocations is not None
        self.outcome = Outcome(
            real.jobs, real.allocations, real.timeline, summary, run, stays_written=real.stays_written
        )

    # Reading

    @property
    def allocations(self) -> pl.DataFrame:
        """allocations.parquet."""
        assert self.outcome.allocations is not None
        return self.outcome.allocations

    def first(self, *conditions: pl.Expr | bool) -> int:
        """The first row of jobs.parquet of which all that is said holds."""
        rows = self.outcome.jobs.with_row_index("_at").filter(*conditions)["_at"]
        assert rows.len(), "no such job"
        return int(rows[0])

    def rows_of(self, job: int) -> list[int]:
        """The rows of allocations.parquet of a job."""
        return self.allocations["job_id"].eq(self.outcome.jobs["job_id"][job]).arg_true().to_list()

    def cell(self, job: int, column: str) -> Any:
        return self.outcome.jobs[column][job]

    # Changing

    def put(self, job: int, **values: Any) -> None:
        for name, value in values.items():
            self.outcome.jobs = with_cell(self.outcome.jobs, job, name, value)

    def add(self, job: int, **values: float) -> None:
        self.put(job, **{name: self.cell(job, name) + value for name, value in values.items()})

    def place(self, row: int, **values: Any) -> None:
        """Changes a row of allocations.parquet."""
        for name, value in values.items():
            self.outcome.allocations = with_cell(self.allocations, row, name, value)
            stays = self.outcome.stays_written
            if name in ("start_time", "end_time") and stays is not None:
                mine = self.allocations.row(row, named=True)
                same = (c("job_id") == mine["job_id"]) & (c("stay") == mine["stay"])
                self.outcome.stays_written = stays.with_columns(
                    pl.when(same).then(pl.lit(value)).otherwise(name).alias(name)
                )

    def put_times(self, job: int, start: float, finish: float) -> None:
        """Another start and finish, with all columns and allocations that follow from them."""
        old_start, old_finish = self.cell(job, "start_time"), self.cell(job, "finish_time")
        for row in self.rows_of(job):
            if self.allocations["start_time"][row] == old_start:
                self.place(row, start_time=start)
            if self.allocations["end_time"][row] == old_finish:
                self.place(row, end_time=finish)
        submit, ideal = self.cell(job, "submit_time"), self.cell(job, "ideal_run_time")
        longer = (finish - start) - (old_finish - old_start)
        part = "run_contention" if self.cell(job, "run_contention") > 0 else "run_spread"
        self.add(job, wait_gpus=start - old_start, **{part: longer})
        if "held_time" in self.outcome.jobs.columns:
            self.add(job, held_time=longer)
        self.put(
            job, start_time=start, finish_time=finish, wait_time=start - submit, run_time=finish - start,
            waited=self.cell(job, "waited") + start - old_start, jct=finish - submit,
            slowdown=(finish - submit) / ideal,
        )  # fmt: skip

    def shift(self, job: int, seconds: float) -> None:
        self.put_times(job, self.cell(job, "start_time") + seconds, self.cell(job, "finish_time") + seconds)

    def swap_servers(self, a: int, b: int) -> None:
        """Exchanges the servers of two rows of allocations.parquet."""
        one, other = self.allocations["server"][a], self.allocations["server"][b]
        self.place(a, server=other)
        self.place(b, server=one)

    def sort(self) -> None:
        """The order of allocations.parquet."""
        ids = {name: at for at, name in enumerate(self.outcome.jobs["job_id"])}
        keyed = self.allocations.with_columns(_job=pl.col("job_id").replace_strict(ids))
        self.outcome.allocations = keyed.sort("_job", "start_time", "server").drop("_job")

    def exchange(self, frame: str, a: int, b: int) -> None:
        """Two rows of a table change places."""
        table = getattr(self.outcome, frame)
        order = list(range(table.height))
        order[a], order[b] = b, a
        setattr(self.outcome, frame, table[order])

    def say(self, **values: Any) -> None:
        self.outcome.summary |= values

    def scale(self, name: str, factor: float) -> None:
        self.outcome.summary[name] *= factor

    def claim(self, **options: Any) -> None:
        """The same result, said to be of other options."""
        self.outcome.run["options"] |= options

    def sample(self, row: int, column: str, value: Any) -> None:
        self.outcome.timeline = with_cell(self.outcome.timeline, row, column, value)


def with_cell(frame: pl.DataFrame, row: int, column: str, value: Any) -> pl.DataFrame:
    values = frame[column].to_list()
    values[row] = value
    return frame.with_columns(pl.Series(column, values, dtype=frame.schema[column]))
