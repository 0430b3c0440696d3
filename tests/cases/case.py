"""One replay as a user writes it: plain values, from which frames, a cluster file and a script follow."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import polars as pl

import ringbco
from frames import cluster_of
from ringbco.run.setup import Setup, prepare

TYPES = {
    "job_id": pl.String,
    "submit_time": pl.Float64,
    "num_gpus": pl.UInt32,
    "duration": pl.Float64,
    "iterations": pl.UInt64,
    "gradient_bytes": pl.Float64,
    "batch_size": pl.UInt32,
    "fp_time": pl.Float64,
    "bp_time": pl.Float64,
    "gpu_share": pl.Float64,
    "priority": pl.Int32,
    "preemptible": pl.Boolean,
    "checkpoint_interval": pl.Float64,
    "preempt_cost": pl.Float64,
    "guess": pl.Float64,
    "expected": pl.Float64,
    "time_limit": pl.Float64,
    "deadline": pl.Float64,
    "min_gpus": pl.UInt32,
    "max_gpus": pl.UInt32,
    "gpus_per_pod": pl.UInt32,
    "segment": pl.UInt32,
    "recorded_start": pl.Float64,
    "noise_scale": pl.Float64,
    "intensity": pl.Float64,
    "gpu_memory_mib": pl.Float64,
    "estimated_duration": pl.Float64,
    "colocation_score": pl.UInt32,
    "think_time": pl.Float64,
    "mine": pl.Float64,
    "array": pl.Int64,
}
"""Of job columns; all others are text."""
QUOTAS = {"array": pl.Int64, "gpus": pl.UInt32, "borrow": pl.Boolean}
FILES = {
    "outages": {
        "server": pl.UInt32,
        "down_at": pl.Float64,
        "up_at": pl.Float64,
        "cause": pl.String,
        "kind": pl.String,
    },
    "maintenance": {"server": pl.UInt32, "down_at": pl.Float64, "up_at": pl.Float64, "cause": pl.String},
    "services": {
        "service": pl.String,
        "time": pl.Float64,
        "replicas": pl.UInt32,
        "gpus_per_replica": pl.UInt32,
    },
    "requests": {
        "service": pl.String,
        "arrival": pl.Float64,
        "input_tokens": pl.UInt32,
        "output_tokens": pl.UInt32,
        "cached_tokens": pl.UInt32,
    },
    "fair_shares": {"array": pl.Int64, "share": pl.Float64},
    "quota": QUOTAS,
    "quota-2": QUOTAS,
    "tables": {
        "model": pl.String,
        "gpu_type": pl.String,
        "gpus": pl.UInt32,
        "servers": pl.UInt32,
        "rate": pl.Float64,
        "partner": pl.String,
        "partner_rate": pl.Float64,
    },
}
"""The tables that lie beside a job table, by the option that takes them; columns not named here are text."""
BOOKS = ("quota", "quota-2")
"""The files of one option."""

Row = dict[str, Any]


@dataclass
class Case:
    """grid: the step of all times, s; None for times of any length. unit: s, about a short job's length.

    epoch: when it all begins, s. tiers: of the network; those without `servers` are keys of the servers.
    files: rows of the tables beside, by option.
    """

    unit: float
    grid: float | None
    epoch: float = 0.0
    jobs: list[Row] = field(default_factory=list)
    servers: list[Row] = field(default_factory=list)
    network: dict[str, float] = field(default_factory=dict)
    tiers: list[Row] = field(default_factory=list)
    nics: str = "server"
    gpu_types: dict[str, Row] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    files: dict[str, list[Row]] = field(default_factory=dict)

    # For those who draw.

    def span(self, rng: Random, low: float, high: float) -> float:
        """A length between so many units, on the grid if there is one."""
        if self.grid is None:
            return rng.uniform(low, high) * self.unit
        step = self.grid / self.unit
        return self.grid * rng.randint(
            math.ceil(low / step), max(math.ceil(low / step), math.floor(high / step))
        )

    def moment(self, rng: Random) -> float:
        """An instant of the run: often that of a submission, or of one's end if it never waited."""
        job = rng.choice(self.jobs)
        at = job["submit_time"] + rng.choice((0.0, job["duration"], 2.0 * job["duration"]))
        drawn = self.epoch + self.span(rng, 0.0, 25.0)
        return float(rng.choice((at, drawn, drawn)))

    @property
    def room(self) -> int:
        return sum(server["gpus"] for server in self.servers)

    def speed(self, job: Row, gpu_type: str) -> float:
        """Of a job's model on a type, against other types."""
        facts = self.gpu_types[gpu_type]
        return float(facts.get(f"models.{job.get('model')}", facts["speed"]))

    @property
    def policy(self) -> Any:
        return self.options.get("policy", "fifo")

    # What a user writes.

    def frame(self) -> pl.DataFrame:
        """The job table."""
        return _frame(map(self._placed, self.jobs), TYPES)

    def _placed(self, job: Row) -> Row:
        """A job's row, with the names of recorded servers."""
        parts = [part.split(":") for part in (job.get("recorded_servers") or "").split()]
        if not parts or not any("name" in server for server in self.servers):
            return job
        named = " ".join(f"{self.called(int(server))}:{gpus}" for server, gpus in parts)
        return {**job, "recorded_servers": named}

    def called(self, server: int) -> str:
        """What a table calls a server: its name, else its index."""
        return str(self.servers[server].get("name", server))

    def toml(self) -> str:
        """The cluster file."""
        lines = ["[network]", *(f"{name} = {value!r}" for name, value in self.network.items())]
        lines += ['nics = "gpu"'] * (self.nics == "gpu")
        for tier in self.tiers:
            lines += ["[[network.tiers]]", *(f"{key} = {_toml(value)}" for key, value in tier.items())]
        for name, facts in self.gpu_types.items():
            lines.append(f"[gpu_types.{name}]")
            lines += [f"{key} = {value!r}" for key, value in facts.items()]
        for server in self.servers:
            lines.append("[[servers]]")
            lines += [f"{key} = {_toml(value)}" for key, value in server.items()]
        return "\n".join(lines) + "\n"

    def given(self) -> dict[str, Any]:
        """What `replay` is told besides the job table and the cluster."""
        tables: dict[str, Any] = {name: _frame(rows, FILES[name]) for name, rows in self.files.items()}
        if any("name" in server for server in self.servers):
            for name in {"outages", "maintenance"} & {*tables}:
                servers = pl.Series("server", map(self.called, tables[name]["server"]), pl.String)
                tables[name] = tables[name].with_columns(servers)
        books = [tables.pop(name) for name in BOOKS if name in tables]
        if books:
            tables["quota"] = books if len(books) > 1 else books[0]
        return {"policy": "fifo", **self.options, **tables}

    def replay(self, **more: Any) -> ringbco.Outcome:
        return ringbco.replay(self.frame(), cluster_of(self.toml()), **{**self.given(), **more})

    def setup(self, **more: Any) -> Setup:
        """What the engine is given for the run. more: options instead of the case's."""
        options = {**self.given(), **more}
        return prepare(
            self.frame(),
            cluster_of(self.toml()),
            recorded_cluster=None,
            policy=options.pop("policy"),
            workload=None,
            options=options,
        )

    def script(self) -> str:
        """A program that makes the same run."""
        text = "".join(f"    {name}={_python(value)},\n" for name, value in self.given().items())
        own = self.policy if isinstance(self.policy, type) else None
        return (
            "import math\nimport polars as pl\nimport ringbco\n"
            + (f"from {own.__module__} import {own.__name__}  # with tests/ in PYTHONPATH\n" if own else "")
            + f"jobs = {_python(self.frame())}\n"
            + f'open("cluster.toml", "w").write("""\\\n{self.toml()}""")\n'
            + f'outcome = ringbco.replay(\n    jobs, "cluster.toml",\n{text})\n'
            + "print(outcome.jobs, outcome.allocations, outcome.summary, sep='\\n')\n"
            + "print(ringbco.audit(outcome, jobs))\n"
        )


def by_hand(servers: Sequence[int], jobs: str, rows: Iterable[Sequence[Any]], **given: Any) -> Case:
    """A case that somebody wrote down, under model fixed unless told otherwise.

    jobs: names of columns behind job_id. given: options, and rows of the tables beside.
    """
    case = Case(1.0, 1.0, servers=[{"gpus": gpus} for gpus in servers])
    names = jobs.split()
    for number, row in enumerate(rows):
        case.jobs.append({"job_id": f"j{number}", **dict(zip(names, row, strict=True))})
    case.network = dict.fromkeys(("intra_bandwidth", "inter_bandwidth", "reduce_speed"), 1e9)
    case.network |= {"xi1": 0.5, "xi2": 0.0, "alpha": 0.3}
    case.files = {name: told for name in FILES if (told := given.pop(name, None))}
    case.options = {"model": "fixed", "oversize": "drop", **given}
    return case


def outage_rows(outages: Iterable[tuple[int, float, float]]) -> list[Row]:
    """Of the file of outages, of (server, from, to); a server may never come back."""
    return [
        {"server": server, "down_at": down, "up_at": None if math.isinf(up) else up, "cause": None}
        for server, down, up in outages
    ]


def _frame(rows: Iterable[Row], types: dict[str, Any]) -> pl.DataFrame:
    rows = list(rows)
    names = list(rows[0] if rows else types)
    return pl.DataFrame(
        {name: pl.Series([row[name] for row in rows], dtype=types.get(name, pl.String)) for name in names}
    )


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _python(value: Any) -> str:
    if isinstance(value, pl.DataFrame):
        columns = ", ".join(f"{name!r}: {_python(value[name].to_list())}" for name in value.columns)
        types = ", ".join(f"{name!r}: pl.{kind}" for name, kind in value.schema.items())
        return f"pl.DataFrame({{{columns}}}, {{{types}}})"
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_python, value)) + "]"
    return repr(value).replace("inf", "math.inf") if isinstance(value, float) else repr(value)


def plain(rng: Random) -> Case:
    """Some jobs, servers and a network, under fifo; half of the cases have all times on a coarse grid."""
    unit = rng.choice((1.0, 1.0, 10.0, 60.0))
    case = Case(unit, rng.choice((None, unit)))
    sizes = rng.choice(((1, 2), (2, 4), (4,), (8,), (1, 2, 3, 4, 6, 8)))
    case.servers = [{"gpus": rng.choice(sizes)} for _ in range(rng.randint(1, 4))]
    exact = case.grid is not None
    case.network = {
        "intra_bandwidth": 150e9,
        "inter_bandwidth": rng.choice((12.5e9, 1e9)),
        "reduce_speed": 500e9,
        "xi1": rng.choice((0.25, 0.5, 1.0)),
        "xi2": 0.0 if exact else rng.choice((0.0, 5e-4)),
        "alpha": rng.choice((0.0, 0.3, 1.0)),
    }
    largest = max(server["gpus"] for server in case.servers)
    at, gap = case.span(rng, 0.0, 2.0), rng.choice((0.0, 1.0, 1.0, 2.0))
    for row in range(rng.choice((3, 6, 9, 12, 16))):
        gpus = rng.choice((1, 1, 2, 3, largest, rng.randint(1, case.room)))
        case.jobs.append(
            {
                "job_id": f"j{row}",
                "submit_time": at,
                "num_gpus": min(gpus, case.room),
                "duration": case.span(rng, 1.0, rng.choice((3.0, 9.0))),
            }
        )
        at += case.span(rng, 0.0, gap)
    case.options = {"model": "fixed", "oversize": "drop"}
    return case
