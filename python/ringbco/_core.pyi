from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, NotRequired, Self, TypedDict, final, type_check_only

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CoreError",
    "Course",
    "PlanFound",
    "PlanResult",
    "Prepared",
    "RunResult",
    "SpeedTable",
    "bound",
    "build",
    "clairvoyant",
    "columns",
    "dips",
    "exchange",
    "job_columns",
    "load_arrays",
    "options",
    "pack",
    "plan",
    "policies",
    "prices",
    "probe",
    "rename_new",
    "replay",
    "verbs",
    "words",
]

class CoreError(Exception):
    """What the engine refuses: `row` counts from 0, `message` speaks of the job in that row.

    log_row: the row of the decision log at fault, from 0.
    """

    kind: str
    row: int | None
    log_row: int | None
    message: str
    verb: str
    """Of a verb that cannot be carried out, whose kind is "verb"."""

@final
class RunResult:
    """A run's tables by name, each of columns by name. What says nothing of a run is absent.

    jobs, a row a row of the job table: kept, start, finish (s), num_servers, max_contention, wait_gpus,
    wait_fragmented (s, float32). Where GPUs differ: on_types (s). Where stays may end early or jobs pause at
    their start: refused, ended; stays, preemptions, moves, resizes, pauses (counts of stays); held, lost,
    spread, wait_behind, waited, rested (s). With outages: failures, lost_work (s). Where jobs make room:
    evictions. Where a job may hold other GPUs than it asks for: longer (s), held_gpus, lost_gpus
    (GPU-seconds).
    stays, where one may end early: a row a stay, by (job, start); began, ended and by_what number `words`,
    and by is a job's row, or the number of a service or of an outage.
    allocations: job, server, gpus, start, end, gpu, share, stay (empty where each job has one). timeline: as
    timeline.parquet. log: time, verb, job, server, gpus. vcs: held_while_submitting (GPU-seconds). asleep:
    server, from, until, by, by_what (who woke it). drained: server, time, gpus (from when on nobody held so
    many GPUs of a server that drained). climbs: job, rung, time, loss, went_on (NaN where it never
    did). replicas: service, number, server, wanted, start, serves_from, drains_from, end, ended, busy. loads:
    service, time, replicas, as the run saw them; with requests, every change of what a service wants.
    With requests also: requests, a row a request: replica, start, first_token, finish (s; NaN of none).
    cut_short: row, start, end (attempts that a replica's end cut short). serving: begun_anew (by service),
    end (of the run), time (of samples).
    """

    @property
    def tables(self) -> dict[str, dict[str, NDArray[Any]]]: ...
    @property
    def lent(self) -> float:
        """GPU-seconds that services lent to training."""
    @property
    def events(self) -> int: ...
    @property
    def decisions(self) -> int: ...
    @property
    def displaced(self) -> int:
        """Jobs whose recorded place was not allowed when they were tried there."""
    @property
    def engine_seconds(self) -> float: ...
    @property
    def contention_seconds(self) -> float: ...
    @property
    def spanning_seconds(self) -> float: ...
    @property
    def held_while_submitting(self) -> float:
        """GPU-seconds that jobs held up to the last submission."""

@final
class PlanResult:
    """A plan's schedule, submissions all at 0, and how that of each virtual cluster was found."""

    @property
    def schedule(self) -> RunResult: ...
    @property
    def found(self) -> list[PlanFound | None]:
        """None where a virtual cluster has nothing to plan."""

@final
class PlanFound:
    """How the schedule of one cluster was found; theta and horizon in slots."""

    @property
    def theta(self) -> int: ...
    @property
    def kappa(self) -> int | None: ...
    @property
    def horizon(self) -> int: ...
    @property
    def w_max(self) -> float: ...
    @property
    def work_bound(self) -> float: ...
    @property
    def thetas(self) -> int: ...
    @property
    def schedules(self) -> int: ...
    @property
    def schedules_known(self) -> int: ...

@type_check_only
class _Log(TypedDict):
    time: NDArray[np.float64]
    verb: NDArray[np.uint8]
    job: NDArray[np.uint32]
    server: NDArray[np.uint32]
    num_gpus: NDArray[np.uint32]
    gpu: NDArray[np.uint32]
    by: NDArray[np.uint32]
    beside: NDArray[np.uint32]
    service: NDArray[np.uint32]
    replica: NDArray[np.uint32]
    cause: NDArray[np.uint8]
    of_pass: NDArray[np.uint32]
    runs_through: bool

@type_check_only
class _Forms(TypedDict):
    of: NDArray[np.uint32]
    list: list[tuple[int, int, bool, int, int]]

@type_check_only
class _Types(TypedDict):
    of: NDArray[np.uint32]
    kinds: list[tuple[float, int | None, list[tuple[int, float]]]]

@type_check_only
class _Rates(TypedDict):
    model_of: NDArray[np.uint32]
    table: SpeedTable

@type_check_only
class _Pairing(TypedDict):
    memory: NDArray[np.float64]
    estimate: NDArray[np.float64]
    score: NDArray[np.uint32]
    model: NDArray[np.uint32]
    facts: tuple[list[float], list[tuple[Any, ...]]]
    """MiB of a GPU of each type; of each pair both models, type, GPUs, servers and both rates."""

# <!-- made: stub of job columns -->
@type_check_only
class _JobColumns(TypedDict):
    submit: NDArray[np.float64]
    num_gpus: NDArray[np.uint32]
    duration: NDArray[np.float64]
    iterations: NDArray[np.uint64]
    gradient_bytes: NDArray[np.float64]
    compute_time: NDArray[np.float64]
    range: NotRequired[tuple[NDArray[np.uint32], NDArray[np.uint32]] | None]
    forms: NotRequired[_Forms | None]
    noise: NotRequired[tuple[NDArray[np.float64], NDArray[np.uint32]] | None]
    types: NotRequired[_Types | None]
    rates: NotRequired[_Rates | None]
    pairing: NotRequired[_Pairing | None]
    intensity: NotRequired[NDArray[np.float64] | None]
    shares: NotRequired[NDArray[np.uint32] | None]
    priority: NotRequired[NDArray[np.int32] | None]
    preemptible: NotRequired[NDArray[np.bool_] | None]
    time_limit: NotRequired[NDArray[np.float64] | None]
    checkpoint_interval: NotRequired[NDArray[np.float64] | None]
    preempt_cost: NotRequired[NDArray[np.float64] | None]
    chains: NotRequired[tuple[NDArray[np.uint32], NDArray[np.float64]] | None]
    trials: NotRequired[tuple[NDArray[np.uint32], list[NDArray[np.float64]]] | None]

# <!-- end -->

@type_check_only
class _Jobs(_JobColumns):
    vc: NotRequired[NDArray[np.uint32] | None]
    deadline: NotRequired[NDArray[np.float64] | None]
    user: NotRequired[NDArray[np.uint32] | None]
    predicted: NotRequired[NDArray[np.float64] | None]
    estimated: NotRequired[NDArray[np.float64] | None]
    key: NotRequired[NDArray[np.float64] | None]
    fair: NotRequired[list[tuple[NDArray[np.uint32], NDArray[np.float64]]] | None]
    log: NotRequired[_Log | None]
    quotas: NotRequired[list[tuple[NDArray[np.uint32], list[int], list[bool]]] | None]
    recorded: NotRequired[tuple[NDArray[np.float64], list[NDArray[np.uint32]]] | None]

@type_check_only
class _Column(TypedDict):
    name: str
    dtype: str
    required: bool
    rule: str
    hint: str
    unit: str
    about: str
    low: float
    low_included: bool
    high: int | None
    endless: bool
    absent: float | None

def columns() -> list[_Column]: ...
def job_columns() -> list[list[str]]: ...

_Outages = tuple[NDArray[np.uint32], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]

@type_check_only
class _Requests(TypedDict):
    services: list[tuple[Any, ...]]
    """Of each: startup, drain; what batches take, and max_wait; keys of tokens; keys of the autoscaler."""
    speeds: NDArray[np.float64]
    service: NDArray[np.uint32]
    arrival: NDArray[np.float64]
    input_tokens: NDArray[np.uint32]
    output_tokens: NDArray[np.uint32]
    cached_tokens: NDArray[np.uint32]

@type_check_only
class _Cluster(TypedDict):
    server_gpus: NDArray[np.uint32]
    server_vc: NotRequired[NDArray[np.uint32] | None]
    server_types: NotRequired[list[int] | None]
    type_prices: NotRequired[list[float] | None]
    outages: NotRequired[_Outages | None]
    maintenance: NotRequired[_Outages | None]
    services: NotRequired[
        tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float64], NDArray[np.uint32]] | None
    ]
    requests: NotRequired[_Requests | None]
    network: tuple[float, float, float, float, float, float]
    gpu_nics: NotRequired[bool]
    tiers: NotRequired[list[tuple[NDArray[np.uint32], float, float, float, float | None]]]

@final
class SpeedTable:
    """Measured speeds: iterations a second by model, GPU type (both by number), GPUs and servers."""

    def __new__(
        cls,
        size: tuple[int, int],
        entries: tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]],
        rate: NDArray[np.float64],
        partners: tuple[
            NDArray[np.uint32],
            NDArray[np.uint32],
            NDArray[np.uint32],
            NDArray[np.float64],
            NDArray[np.float64],
        ]
        | None = None,
    ) -> Self:
        """Numbers of models and of types; rows as columns: model, type, GPUs, servers, and the rate.

        partners: likewise of two jobs on one GPU: model, type, the partner's model, both rates.
        """
    def rates(
        self,
        model: NDArray[np.uint32],
        gpu_type: NDArray[np.uint32],
        gpus: NDArray[np.uint32],
        servers: NDArray[np.uint32],
    ) -> NDArray[np.float64]:
        """The rate of each; NaN where nothing that was measured says it."""

@type_check_only
class _Answer(TypedDict):
    """How a waiting job stands. Jobs are rows, times are seconds."""

    by: str
    """By what the policy says who is next: `line`, `allocation` or `record`."""
    waits: bool
    """Whether it waits at all. If not, nothing else is told but `others`, `decided` and `types`."""
    others: int
    """Who wait beside it."""
    ahead: int
    """Of those, who go before it in the line."""
    first: list[int]
    """The first of them, three at most."""
    head: int | None
    """The first of them whom no quota holds back."""
    room: str
    """Whether the placement finds room for it: `fits`, `few` idle GPUs, or enough that lie `apart`."""
    down: float | None
    """When the next server goes down, if it has room only on such as do before it would be done."""
    quota: tuple[int, int, int] | None
    """The file of the quota that holds it back, from 0, its GPUs, and those that its owner's jobs hold."""
    estimate: float | None
    """How long it is reckoned to run, where anything hangs on that."""
    shadow: tuple[int, float] | None
    """The head under EASY, and when that can start."""
    reserved: tuple[float, list[tuple[int, int]]] | None
    """Its reservation: when it begins, and how many GPUs of which servers."""
    beyond: bool
    """Whether as many jobs as get reservations go before it."""
    evicts_from: float | None
    """When it may evict others, s, where it may not yet."""
    partners: dict[str, int] | None
    """Why nobody is its partner under `lucid`: jobs `alone` on their GPUs, and how many of them lack what."""
    decided: float
    """When the policy decided last; NaN where it has not."""
    types: list[int]
    """The GPU types that it may use; none where all GPUs are alike."""

@final
class Prepared:
    """A checked table and cluster."""

    def __new__(cls, jobs: _Jobs, cluster: _Cluster, options: dict[str, Any]) -> Self: ...
    @property
    def parts(self) -> int:
        """Number of virtual clusters; 1 for a cluster without."""
    def course(self, part: int, interval: float | None, waiting_only: bool, stops: bool) -> Course:
        """The run of a virtual cluster, before its first event."""
    def outcome(self, courses: list[Course]) -> RunResult:
        """What became of every job. Every course must be over."""

@final
class Course:
    """The run of one virtual cluster, as far as it has come. Rows and servers are the caller's."""

    def run(self, until: float, progress: Callable[[int, int], None] | None) -> int:
        """Goes on until a decision is due (2), until all up to `until`, s, is over (1), or to the end (0)."""
    def fork(self) -> Course: ...
    def set_interval(self, interval: float | None) -> None: ...
    @property
    def now(self) -> float: ...
    @property
    def arrived(self) -> int: ...
    @property
    def gone(self) -> int: ...
    @property
    def jobs(self) -> int: ...
    def waiting(self) -> NDArray[np.uint32]: ...
    def running(self) -> NDArray[np.uint32]: ...
    def started(self) -> NDArray[np.uint32]: ...
    def arrival_times(self) -> NDArray[np.float64]: ...
    def news(self) -> list[NDArray[np.uint32]]:
        """Rows that arrived, that were done, and whose server failed, since the last decision."""
    def up(self) -> NDArray[np.bool_]: ...
    def draining(self) -> NDArray[np.uint32]: ...
    def idle(self) -> NDArray[np.uint32]: ...
    def gpu_times(self) -> NDArray[np.float64]: ...
    def parts(self, row: int) -> list[tuple[int, int]]: ...
    def start_each(
        self, starts: list[tuple[int, list[tuple[int, int]], int | None, int | None]], strict: bool
    ) -> list[bool]: ...
    def places(self) -> list[tuple[int, list[tuple[int, int]]]]: ...
    def gpus_of(self, row: int) -> list[tuple[int, int]]: ...
    def room(self) -> list[list[int]]: ...
    def quotas(self, row: int) -> list[tuple[int, int, int, bool]]: ...
    def over_quota(self) -> NDArray[np.uint32]: ...
    def protected(self) -> NDArray[np.uint32]: ...
    def bandwidth(self, row: int, parts: list[tuple[int, int]]) -> float: ...
    def rate(
        self, rows: NDArray[np.uint32], gpus: NDArray[np.uint32], gpu_type: int | None, servers: int
    ) -> NDArray[np.float64]: ...
    def fill(self, figure: int, column: NDArray[np.float64]) -> None: ...
    def start(
        self,
        rows: NDArray[np.uint32],
        gpus: int | None,
        gpu_type: int | None,
        placement: str | None,
        strict: bool,
    ) -> int: ...
    def start_on(self, row: int, parts: list[tuple[int, int]]) -> None: ...
    def start_beside(self, row: int, other: int) -> None: ...
    def beside(self, row: int) -> NDArray[np.uint32]: ...
    def pair(self, row: int, other: int) -> list[float] | None: ...
    def start_on_gpus(self, row: int, gpus: list[tuple[int, int]]) -> None: ...
    def evict_for(self, row: int) -> bool: ...
    def stop(self, rows: NDArray[np.uint32]) -> None: ...
    def shift(self, moves: list[tuple[int, list[tuple[int, int]]]]) -> None: ...
    def refuse(self, rows: NDArray[np.uint32]) -> None: ...
    def resize(self, row: int, gpus: int) -> None: ...
    def end(self, rows: NDArray[np.uint32]) -> None: ...
    def wake(self, time: float) -> bool: ...
    def ask(
        self, row: int, keys: tuple[NDArray[np.uint32], NDArray[np.float64], bool] | None
    ) -> _Answer | None:
        """How the waiting job of a row stands; None for a row of another virtual cluster.

        keys: rows, their keys and whether jobs are stopped by these, of a policy that ranks.
        """
    def unkeyed(self) -> NDArray[np.uint32]: ...
    def give_keys(self, keys: NDArray[np.float64]) -> None: ...
    def rank(self, rows: NDArray[np.uint32], keys: NDArray[np.float64], preemptive: bool) -> None: ...

def replay(
    jobs: _Jobs,
    cluster: _Cluster,
    options: dict[str, Any],
    progress: Callable[[int, int], None] | None,
) -> RunResult: ...
def probe(
    jobs: _Jobs,
    cluster: _Cluster,
    options: dict[str, Any],
    row: int,
    waits: Sequence[tuple[float, float, bool]],
    progress: Callable[[int, int], None] | None,
) -> list[tuple[_Answer, _Answer, list[tuple[int, float]]]] | None:
    """Repeats a run to the waits of a row: (since, start, whether to tell the heads of the queue).

    How the job stood as each began and just before it was over, and for how long, s, which row was at the
    head of the queue; None where nothing could ever hold the job.
    """

def plan(
    jobs: _Jobs,
    cluster: _Cluster,
    options: dict[str, Any],
    progress: Callable[[int, int], None] | None,
    *,
    threads: int | None = None,
) -> PlanResult: ...
def pack(
    jobs: _Jobs,
    cluster: _Cluster,
    options: dict[str, Any],
    order: NDArray[np.uint32],
    beside: list[NDArray[np.uint64]] | None = None,
) -> tuple[NDArray[np.bool_], list[int]]:
    """Whether each of the rows that ask one after the other finds room; nobody ever leaves.

    Then the rows that no server of the empty cluster holds, with `beside` only: without it one is an error.

    beside: CPU and memory that the rows ask for, then what the servers have.
    """

def bound(
    submit: NDArray[np.float64], shortest: NDArray[np.float64], work: NDArray[np.float64], gpus: int
) -> tuple[float, list[int], list[int]]:
    """The sum in s, then sets and jobs by term: run times, shortest, busy."""

def prices(
    submit: NDArray[np.float64],
    shortest: NDArray[np.float64],
    work: NDArray[np.float64],
    least: NDArray[np.float64],
    gpus: int,
) -> tuple[float, NDArray[np.float64], tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
    """The sum in s, the ends of intervals, prices of GPUs and of gangs above a half and a third of them."""

def dips(jobs: _Jobs, cluster: _Cluster, options: dict[str, Any]) -> list[NDArray[np.uint32]]:
    """Elastic jobs whose gain per GPU falls and rises again: rows, types, on how many GPUs it does each."""

def load_arrays() -> None:
    """Looks for numpy's functions, by `ringbco.io.bridge` alone. Raises what Python raises meanwhile."""

def options() -> dict[str, list[dict[str, Any]]]: ...
def build() -> tuple[str, str, str]: ...
def rename_new(from_: str | PathLike[str], to: str | PathLike[str]) -> None: ...
def exchange(one: str | PathLike[str], other: str | PathLike[str]) -> None: ...
def policies() -> list[dict[str, Any]]: ...
def clairvoyant() -> list[tuple[str, list[str]]]: ...
def words() -> list[list[str]]:
    """Names by number: how stays begin, why they end, what ends them, and why replicas end."""

def verbs() -> list[list[str]]:
    """Names by number: what happens in a run, and why."""
