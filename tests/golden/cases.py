"""The runs. Of the small inputs: a full cross of the schedulers' parts, the other options varied across it.

A case's name says its input, its scheduler, its model and its clock; the rest of its options are drawn from
its name.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import ringbco
from golden.digest import Digest, failed, keep, of_columns
from golden.inputs import INPUTS, LARGE, Draw, Input
from ringbco.errors import RingbcoError
from ringbco.run.refusals import uses
from ringbco.trace.workload import Workload, resolve

# The names are written out: a policy that is added later has no golden results.
ORDERS: Final = ("fifo", "sjf", "smallest", "qssf")
QUEUES: Final = ("strict", "skip", "easy")
PLACEMENTS: Final = ("first-fit", "consolidate", "least-loaded", "random", "fa-ffp", "lbsgf", "sjf-bco")
PREEMPTIVE: Final = ("srtf", "tiresias", "gittins", "ftf", "edf", "time-slice")
PRESETS: Final = ("fifo", "sjf", "smallest", "ff", "ls", "rand", "sjf-bco", "qssf", *PREEMPTIVE)
PLANNERS: Final = ("sjf-bco", "ff", "ls", "rand")
DISPATCHES: Final = ("idle", "reserve")
MODELS: Final = ("rar", "fixed")
CLOCKS: Final = ("continuous", "slot")
# Each order by the presets that have it: results do not depend on which one it is.
_BY_ORDER: Final = {
    "fifo": ("fifo", "ff", "ls", "rand"),
    "sjf": ("sjf",),
    "smallest": ("smallest", "sjf-bco"),
    "qssf": ("qssf",),
}
# The inputs of the cross, and the models under which it runs.
CROSSED: Final = {"ties": MODELS, "start": ("rar",), "mixed": MODELS, "oversize": ("rar",), "vcs": ("rar",)}
REPEATED: Final = ("ties", "users", "vcs", "far", "long", "lone")
PLANNED: Final = ("ties", "start", "mixed", "oversize", "vcs")
REPEATS: Final = 2
_NEVER: Final = 1e15


@dataclass(frozen=True)
class Case:
    """One run: `ringbco.<verb>` of an input with these options."""

    name: str
    verb: str
    source: str
    options: dict[str, Any]

    @property
    def preempts(self) -> bool:
        return self.options.get("policy") in PREEMPTIVE

    def __str__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{self.name}: ringbco.{self.verb}(<input {self.source}>{options})"

    def run(self) -> ringbco.Outcome:
        given = _input(self.source)
        if self.verb == "plan":
            return ringbco.plan(given.table, given.cluster, **self.options)
        model, seed = self.options.get("model", "rar"), self.options.get("seed", 0)
        known = model in MODELS and isinstance(seed, int)
        workload = _workload(self.source, model, seed) if known else None
        return ringbco.replay(given.table, given.cluster, workload=workload, **self.options)

    def kept(self) -> Digest:
        try:
            return keep(self.run())
        except RingbcoError as error:
            return failed(error)


@cache
def _input(source: str) -> Input:
    return INPUTS[source]()


@cache
def _workload(source: str, model: str, seed: int) -> Workload:
    """The same for many cases; working it out again would take a third of the time."""
    given = _input(source)
    return resolve(given.table, given.cluster, {"model": model, "seed": seed})


@cache
def small_cases() -> list[Case]:
    """All runs of small inputs."""
    return [*_crossed(), *_repeated(), *_planned(), *_refused()]


@cache
def large_cases() -> list[Case]:
    """All runs of large inputs."""
    schedulers: dict[str, dict[str, Any]] = {policy: {"policy": policy} for policy in ("fifo", "sjf", "qssf")}
    schedulers |= {policy: {"policy": policy} for policy in PREEMPTIVE}
    schedulers["easy"] = {"policy": "fifo", "queue": "easy"}
    schedulers["sjf-bco"] = {"policy": "sjf-bco"}
    schedulers["sjf-bco.literal"] = {"policy": "sjf-bco", "variant": "literal"}
    schedulers["time-slice"]["quantum"] = 600.0
    replayed = [
        Case(
            f"{make.__name__}/{name}/{clock}", "replay", make.__name__, parts | {"oversize": "drop"} | options
        )
        for make, (name, parts) in itertools.product(LARGE, schedulers.items())
        for clock, options in (("continuous", {}), ("slot", {"clock": "slot", "slot": 5.0}))
    ]
    # A slot that is no binary fraction, so that every rounding counts.
    parts = {"slot": 1.3, "oversize": "drop"}
    return replayed + [
        Case(
            f"paper/plan/{policy}.{dispatch}/{model}",
            "plan",
            "paper",
            {"policy": policy, "dispatch": dispatch, "model": model, **parts},
        )
        for policy, dispatch, model in itertools.product(PLANNERS, DISPATCHES, MODELS)
    ]


def inputs_of(found: Iterable[Case]) -> dict[str, Digest]:
    """A hash of each job table that the cases run, to tell another input from another result."""
    sources = dict.fromkeys(case.source for case in found)
    return {
        f"input/{source}": Digest(jobs=of_columns(_input(source).table.frame.iter_columns()))
        for source in sources
    }


def _crossed() -> Iterator[Case]:
    """Every order x queue x placement and preempting policy x placement, under each model and clock."""
    schedulers = [
        (f"{order}.{queue}.{placement}", {"order": order, "queue": queue, "placement": placement})
        for order, queue, placement in itertools.product(ORDERS, QUEUES, PLACEMENTS)
    ] + [
        (f"{policy}.{placement}", {"policy": policy, "placement": placement})
        for policy, placement in itertools.product(PREEMPTIVE, PLACEMENTS)
    ]
    for source, (name, parts), model, clock in itertools.product(CROSSED, schedulers, MODELS, CLOCKS):
        has_deadlines = "deadline" in _input(source).table.frame.columns
        if model in CROSSED[source] and (has_deadlines or parts.get("policy") != "edf"):
            yield _replay(f"{source}/{name}/{model}/{clock}", source, parts, model, clock)


def _repeated() -> Iterator[Case]:
    """Every policy as it is, with several draws of its options."""
    for source, policy, model, clock in itertools.product(REPEATED, PRESETS, MODELS, CLOCKS):
        if policy != "edf" or "deadline" in _input(source).table.frame.columns:
            for number in range(REPEATS):
                name = f"{source}/{policy}/{model}/{clock}/{number}"
                yield _replay(name, source, {"policy": policy}, model, clock)


def _replay(name: str, source: str, parts: dict[str, str], model: str, clock: str) -> Case:
    draw, given = Draw(name), _input(source)
    if "policy" not in parts:
        parts = {"policy": draw.of(_BY_ORDER[parts["order"]]), **parts}
    scale = given.scale
    slot = draw.of(given.slots) if clock == "slot" else 1.0
    cost = draw.of((0.0, scale / 8, scale / 4, scale))
    drawn = {
        "slot": slot,
        "kappa": draw.of((0, 1, 2, 3, 8, 8)),
        "lambda_": draw.of((1.0, 1.0, 1.5, 2.0, 4.0)),
        "variant": draw.of(("practical", "literal")),
        "seed": draw.of((0, 1, 12345, 2**64 - 1)),
        "ties": draw.of(("rows", "rows", "reverse", "shuffle:7")),
        "sample": draw.of((None, scale / 2, scale / 2, scale * 3)),
        "allocations": draw.of((True,) * 15 + (False,)),
        "preempt_cost": cost,
        "thresholds": draw.of(((18_000.0,), (scale,), (scale / 2, scale * 2, scale * 8), ())),
        "interval": draw.of((60.0, scale / 8, scale / 2, scale * 3)),
        # Mostly longer than resuming takes, in whole slots too; else the run is refused.
        "quantum": draw.of((60.0, *(cost + slot + scale * factor for factor in (0.125, 0.25, 0.5, 3.0)))),
        "predict": draw.of(("history", "exact")),
        "admission": draw.of((False, True)),
        "aging": draw.of((None, 0.0, scale / 2, scale * 4, _NEVER)),
        "estimate_factor": draw.of((1.0, 0.5, 1.5, 10.0)),
    }
    chosen = ringbco.run.options.resolve_policy(
        parts["policy"], **{k: parts[k] for k in parts if k != "policy"}
    )
    used = {option: value for option, value in drawn.items() if uses(chosen, option)}
    if chosen.name == "srtf":  # at every event; srsf has intervals
        used.pop("interval")
    oversize = {"oversize": "drop"} if given.drop else {}
    return Case(name, "replay", source, {**parts, "model": model, "clock": clock, **used, **oversize})


def _planned() -> Iterator[Case]:
    """The planner: every policy x dispatch x order x model x horizon, the other options drawn."""
    for source, policy, dispatch, order, model, horizon in itertools.product(
        PLANNED, PLANNERS, DISPATCHES, ("smallest", "fifo"), MODELS, (None, 60, 300)
    ):
        name = f"plan/{source}/{policy}.{dispatch}.{order}/{model}/{horizon or 'auto'}"
        draw, given = Draw(name), _input(source)
        drawn = {
            "variant": draw.of(("practical", "literal")),
            "kappa": draw.of((None, None, 1, 4)),
            "lambda_": draw.of((1.0, 1.5, 4.0)),
            "u": draw.of((1.0, 1.5, 2.0)),
            "slot": draw.of(given.slots),
            "seed": draw.of((0, 1, 2**64 - 1)),
            "sample": draw.of((None, given.scale)),
            "threads": draw.of((1, 2, None)),
        }
        oversize = {"oversize": "drop"} if given.drop else {}
        parts = {"policy": policy, "dispatch": dispatch, "order": order, "model": model, "horizon": horizon}
        yield Case(name, "plan", source, {**parts, **drawn, **oversize})


def _refused() -> Iterator[Case]:
    """Runs that the engine, or what stands before it, refuses."""
    slot = {"clock": "slot"}
    for name, verb, source, options in (
        ("no-deadlines", "replay", "users", {"policy": "edf"}),
        ("ranks-itself", "replay", "ties", {"policy": "srtf", "queue": "easy"}),
        ("no-aging", "replay", "ties", {"policy": "fifo", "aging": 5.0}),
        ("no-admission", "replay", "ties", {"policy": "srtf", "admission": True}),
        ("unknown-policy", "replay", "ties", {"policy": "sfj"}),
        ("unknown-placement", "replay", "ties", {"placement": "firstfit"}),
        ("no-slots", "replay", "ties", {"slot": 2.0}),
        ("slot-too-short", "replay", "ties", {**slot, "slot": 0.125}),
        ("slot-too-short-preempted", "replay", "ties", {**slot, "slot": 0.125, "policy": "srtf"}),
        ("slot-too-short-shared", "replay", "start", {**slot, "slot": 0.75, "policy": "rand"}),
        ("slot-too-short-shared-preempted", "replay", "start", {**slot, "slot": 0.75, "policy": "srtf"}),
        ("oversize", "replay", "oversize", {}),
        ("oversize-preempted", "replay", "oversize", {"policy": "tiresias"}),
        ("unplaceable", "replay", "oversize", {"policy": "fifo", "model": "fixed"}),
        ("interval-too-short", "replay", "long", {"policy": "ftf", "interval": 1e-6}),
        ("quantum-too-short", "replay", "long", {"policy": "time-slice", "preempt_cost": 0, "quantum": 1e-6}),
        ("sample-too-short", "replay", "long", {"sample": 1e-6}),
        ("plan-horizon", "plan", "ties", {"horizon": 1}),
        ("plan-oversize", "plan", "oversize", {}),
        ("plan-slot-too-short", "plan", "ties", {"slot": 0.125}),
    ):
        yield Case(f"refused/{name}", verb, source, options)
