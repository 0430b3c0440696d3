"""The options of `ringbco.plan`, for Python.

Made by `python -m ringbco.dev.generate` of rust/options/table.rs: change that.
"""

from __future__ import annotations

from typing import Final, Literal, TypedDict

from ringbco.run.option import Option


class PlanOptions(TypedDict, total=False):
    """The options of `ringbco.plan`."""

    order: str
    """Which job gets GPUs first: the smallest gang, or (fifo) the first row. Default: smallest."""
    dispatch: str
    """idle: a job gets idle GPUs, or waits for the next completion. reserve: any GPUs, and it starts
    when it heads the queue of each of them. Default: idle.
    """
    variant: str
    """Reading of FA-FFP and LBSGF: practical (the paper's prose) or literal (its listings). Default:
    practical.
    """
    model: str
    """rar: ring-all-reduce with contention; fixed: every job runs its recorded duration. Default: rar."""
    kappa: int | Literal["auto"] | None
    """SJF-BCO: largest gang placed by FA-FFP, GPUs; auto tries 1 and every size. Default: auto."""
    lambda_: float
    """LBSGF looks at the least busy servers with this many times the gang's GPUs; >= 1. Default: 1."""
    u: float
    """What a job's estimate is divided by when it is booked; >= 1. Default: 1."""
    horizon: int | Literal["auto"] | None
    """T, slots: every job must end before it. Default: doubled from twice the work bound until a
    schedule exists.
    """
    slot: float
    """Length of a slot, seconds. Default: 1."""
    seed: int
    """Of the planner rand, and of the models drawn for jobs that name none. Default: 0."""
    oversize: str
    """A job larger than its cluster is an error, or (drop) left out and counted. Default: error."""
    sample: float | None
    """Seconds between the timeline's points. Default: 2,000 points over the run."""
    allocations: bool
    """Record which servers each job held (audit needs it). Default: true."""


PLAN: Final[dict[str, Option]] = {
    "policy": Option(
        name="policy",
        kind="name",
        default="sjf-bco",
        help="One of sjf-bco, ff, ls, rand: Algorithm 1, first-fit, least-loaded, random.",
        panel="Policy",
        names=("sjf-bco", "ff", "ls", "rand"),
    ),
    "order": Option(
        name="order",
        kind="name",
        default="smallest",
        help="Which job gets GPUs first: the smallest gang, or (fifo) the first row.",
        panel="Policy",
        names=("smallest", "fifo"),
    ),
    "dispatch": Option(
        name="dispatch",
        kind="name",
        default="idle",
        help=(
            "idle: a job gets idle GPUs, or waits for the next completion. reserve: any GPUs, "
            "and it starts when it heads the queue of each of them."
        ),
        panel="Policy",
        names=("idle", "reserve"),
    ),
    "variant": Option(
        name="variant",
        kind="name",
        default="practical",
        help=("Reading of FA-FFP and LBSGF: practical (the paper's prose) or literal (its listings)."),
        panel="Policy",
        names=("practical", "literal"),
        users=(("policy", ("sjf-bco",)),),
    ),
    "model": Option(
        name="model",
        kind="name",
        default="rar",
        help=("rar: ring-all-reduce with contention; fixed: every job runs its recorded duration."),
        panel="Execution",
        names=("rar", "fixed"),
    ),
    "kappa": Option(
        name="kappa",
        kind="integer",
        default=None,
        help="SJF-BCO: largest gang placed by FA-FFP, GPUs; auto tries 1 and every size.",
        panel="Policy",
        expected="an integer from 0 to 4294967295",
        most=4294967295,
        optional=True,
        word="auto",
        unit="GPUs",
        users=(("policy", ("sjf-bco",)),),
        form="auto|K",
    ),
    "lambda_": Option(
        name="lambda",
        kind="number",
        default=1.0,
        help=("LBSGF looks at the least busy servers with this many times the gang's GPUs; >= 1."),
        panel="Policy",
        expected="a finite number >= 1",
        least=1.0,
        users=(("policy", ("sjf-bco",)),),
    ),
    "u": Option(
        name="u",
        kind="number",
        default=1.0,
        help="What a job's estimate is divided by when it is booked; >= 1.",
        panel="Policy",
        expected="a finite number >= 1",
        least=1.0,
    ),
    "horizon": Option(
        name="horizon",
        kind="integer",
        default=None,
        help="T, slots: every job must end before it.",
        panel="Policy",
        expected="an integer from 1 to 4503599627370496",
        least=1,
        most=4503599627370496,
        optional=True,
        absent="doubled from twice the work bound until a schedule exists",
        word="auto",
        unit="slots",
    ),
    "slot": Option(
        name="slot",
        kind="number",
        default=1.0,
        help="Length of a slot, seconds.",
        panel="Execution",
        expected="a number of seconds > 0 and <= 1e+16",
        above=True,
        most=1e16,
        unit="s",
    ),
    "seed": Option(
        name="seed",
        kind="integer",
        default=0,
        help="Of the planner rand, and of the models drawn for jobs that name none.",
        panel="Execution",
        expected="an integer from 0 to 18446744073709551615",
        most=18446744073709551615,
    ),
    "oversize": Option(
        name="oversize",
        kind="name",
        default="error",
        help="A job larger than its cluster is an error, or (drop) left out and counted.",
        panel="Execution",
        names=("error", "drop"),
    ),
    "sample": Option(
        name="sample",
        kind="number",
        default=None,
        help="Seconds between the timeline's points.",
        panel="Output",
        expected="a number of seconds > 0 and <= 1e+16",
        above=True,
        most=1e16,
        optional=True,
        absent="2,000 points over the run",
        unit="s",
    ),
    "allocations": Option(
        name="allocations",
        kind="flag",
        default=True,
        help="Record which servers each job held (audit needs it).",
        panel="Output",
        expected="True or False",
    ),
}
